"""Judges of a user's own on a real Prefect server: a rubric from its file to the gate, and a preference run."""

import json

import pytest

from tests.judge_server import UNTESTED, JudgeServer, data_of
from tests.tasks.staging_help import jsonl, query

RUBRIC = """\
name: manners
inputs: [question, answer]
field: polite
criterion: The answer is polite.
scale: yes/no
examples:
  - {question: Q, answer: Go away., verdict: no}
  - {question: Q, answer: Gladly., verdict: yes}
"""
N = 40


def brain(body):
    data = data_of(body)
    if "first" in data:
        return json.dumps({"reason": "The first.", "verdict": "first"})
    rude = "fool" in data["answer"] or "away" in data["answer"]
    return json.dumps({"reason": "So it reads.", "verdict": "no" if rude else "yes"})


def answers(folder, n=N, retrieved=False):
    """Two releases: the new one is rude to half of the people. With what was retrieved, and then without references."""
    rows = [
        {
            "id": str(i), "release": release, "question": f"Where is {i}?",
            "answer": f"It is at {i}{', fool' if release == 'new' and i % 2 else ''}.",
            "label": "no" if release == "new" and i % 2 else "yes",
        }
        | ({"retrieved_contexts": [f"{release} found {i}"]} if retrieved else {"reference": f"at {i}"})
        for release in ("old", "new")
        for i in range(n)
    ]  # fmt: skip
    return jsonl(folder / "faq.jsonl", rows)


@pytest.mark.real
def test_a_rubric_from_its_file_to_the_gate(cli, bare_cli, tmp_path):
    rubric, home = tmp_path / "manners.yaml", tmp_path / "home"
    rubric.write_text(RUBRIC)
    with JudgeServer(brain) as server:
        result = cli(
            "evaluate", answers(tmp_path), "--metrics", f"contains,{rubric}", "--judge", "openai/m", "--judge-base",
            server.url, "--map", "label=label", "--baseline", "old", "--policy",
            "{primary: manners.polite, margin: 0.05}", "--home", home, page=True,
        )  # fmt: skip
        asked = server.n_requests
    assert result.returncode == 1, result.stdout + result.stderr  # the verdict of the gate
    assert "must not ship" in result.stdout
    scores = query(home, "SELECT release, mean FROM report_scores WHERE field = 'polite' AND slice = 'all' ORDER BY 1")
    assert scores == [("new", 0.5), ("old", 1.0)]
    # Half of the new answers are those of the old release, and are asked about once; the rest is the check.
    calls = query(home, "SELECT count(*) FROM judge_calls WHERE prompt LIKE 'manners@%'")
    assert calls == [(N + N // 2,)]
    assert asked >= N + N // 2
    [page] = (home / "pages").glob("[!_]*/*.html")
    assert "The answer is polite." in page.read_text(encoding="utf-8")
    # All of this goes on without the file.
    rubric.unlink()
    bare_cli("calibrate", "manners.polite", "--json", "--home", home, code=0)
    assert query(home, "SELECT DISTINCT kappa FROM calibrations WHERE release IS NULL") == [(1.0,)]
    gate = bare_cli("gate", "old", "new", "--primary", "manners.polite", "--margin", "0.05", "--home", home)
    assert (gate.returncode, "FAIL" in gate.stdout) == (1, True), gate.stderr
    gone = bare_cli("evaluate", answers(tmp_path), "--metrics", rubric, "--judge", "openai/m", "--home", home)
    assert (gone.returncode, f"{rubric}: there is no such rubric" in gone.stderr) == (2, True)


def test_a_report_is_made_again_and_shown_by_the_rubric_that_it_was_made_with(bare_cli, tmp_path, home):
    rubric = tmp_path / "manners.yaml"
    rubric.write_text(RUBRIC)
    spec, judge = f"kind={rubric}(blank_answer='undefined')", ("--judge", "openai/m", *UNTESTED)
    with JudgeServer(brain) as server:
        bare_cli("evaluate", answers(tmp_path, n=8), "--metrics", spec, *judge, "--judge-base", server.url, code=0)
        # What is there now is another rubric, and then none.
        rubric.write_text(RUBRIC.replace("The answer is polite.", "The answer is rude."))
        process = bare_cli("judge", "7", "--release", "new", code=0)
        rubric.unlink()
        n_requests = server.n_requests
        bare_cli("rerun", "faq/old/v1", code=0)
        bare_cli("rerun", "faq/old/v2", code=0)
        assert server.n_requests == n_requests
    assert "The answer is polite." in process.stdout
    means = query(home, "SELECT report_id, mean FROM report_scores WHERE metric = 'kind' AND slice = 'all'")
    assert dict(means) == {"faq/old/v1": 1.0, "faq/new/v1": 0.5, "faq/old/v2": 1.0, "faq/old/v3": 1.0}


def test_a_rubric_about_the_context_needs_no_references(cli, tmp_path, home):
    with JudgeServer(lambda _body: '{"reason": "so", "verdict": "yes"}') as server:
        result = cli(
            "evaluate", answers(tmp_path, n=8, retrieved=True), "--metrics", "faithfulness", "--judge", "openai/m",
            "--judge-base", server.url, *UNTESTED,
        )  # fmt: skip
        sent = {data_of(request.body)["context"][0] for request in server.requests}
        needed = cli(
            "evaluate", tmp_path / "faq.jsonl", "--metrics", "faithfulness,contains", "--judge", "openai/m",
            "--judge-base", server.url,
        )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert sent == {f"{release} found {i}" for release in ("old", "new") for i in range(8)}
    assert query(home, "SELECT context FROM answers WHERE release = 'new' AND sample_id = '7'") == [(["new found 7"],)]
    assert query(home, 'SELECT DISTINCT len("references") FROM samples') == [(0,)]
    assert query(home, "SELECT count(*) FROM validations WHERE rule = 'references_present'") == [(0,)]
    assert (needed.returncode, "no column for references was recognised" in needed.stderr) == (2, True)


def learning_brain(body):
    """Takes "fool" for polite until an example says otherwise."""
    system = body["messages"][0]["content"]
    minds = any("fool" in line for line in system.partition("## Examples")[2].splitlines())
    rude = minds and "fool" in data_of(body)["answer"]
    return json.dumps({"reason": "So it reads.", "verdict": "no" if rude else "yes"})


@pytest.mark.nightly
def test_a_rubric_learns_examples_from_labels(
    cli, bare_cli, on_server, ask,
    tmp_path,
):  # fmt: skip
    rubric, home, better = tmp_path / "manners.yaml", tmp_path / "home", tmp_path / "better.yaml"
    rubric.write_text(RUBRIC.partition("examples")[0])
    with JudgeServer(learning_brain) as mind:
        judge = ("--judge", "openai/m", "--judge-base", mind.url, "--home", home)
        cli("evaluate", answers(tmp_path), "--metrics", rubric, "--map", "label=label", *judge, code=0)
        asked = ("calibrate", "manners.polite", "--rubric", rubric, "--learn", "2", "--out", better)
        paid = mind.n_requests
        dry = bare_cli(*asked, "--dry-run", "--json", *judge, code=0)
        [most] = json.loads(dry.stdout)
        assert (mind.n_requests, better.exists(), most["samples"]) == (paid, False, 2 * N)
        process = bare_cli(*asked, "--json", *judge, code=0)
        assert 0 < mind.n_requests - paid <= most["calls"] <= 11 * 2 * N
        told, paid = json.loads(process.stdout), mind.n_requests
        assert (told["n"], told["corrected"], told["before"], told["after"]) == (2 * N, N // 2, 0.75, 1.0)
        assert told["gain_low"] > 0.1
        # Asked again, the ledger has it all.
        words = bare_cli(*asked, *judge)
        given = {"learn": 2, "rubric": str(rubric), "home": str(home)}
        code = (
            "from answerkey.flows.calibrate_judge import calibrate_judge as f\n"
            "from answerkey.flows.parameters import Estimating\n"
            f"given, form = {given}, dict(judges=['openai/m'], api_base={mind.url!r})\n"
            "print(f('manners.polite', **given, judging=Estimating(**form, dry_run=True))[0].calls)\n"
            "print(f('manners.polite', **given, judging=Estimating(**form)).rubric.text)"
        )
        flow = on_server(code)
        assert mind.n_requests == paid
    estimated, _, text = flow.partition("\n")
    assert 0 < int(estimated) <= most["calls"]
    assert text.strip() == better.read_text().strip()
    shown = ask("artifacts/filter", {"artifacts": {"key": {"any_": ["learned-manners-polite-8d221d"]}}})
    assert any("on 100.0% with them" in str(one["data"]) for one in shown)
    assert "it agrees with people on 75.0% without the new examples and on 100.0% with them" in words.stdout
    assert "version: 2" in better.read_text()
    assert "fool" in better.read_text()
