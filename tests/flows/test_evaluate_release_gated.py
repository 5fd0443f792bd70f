"""The gate as the last step of an evaluation, and which registered releases are evaluated."""

import json
import re

import pytest

from answerkey.flows.evaluate_release import evaluate_release
from answerkey.flows.parameters import Data, Rerunning, Scoring
from answerkey.flows.rerun_report import rerun_report
from answerkey.metrics_core.errors import UserError
from answerkey.tasks.gate.gate import read_policy
from answerkey.tasks.load.load import Source
from answerkey.tasks.releases.register import keep_gate
from answerkey.tasks.warehouse.home import Home
from tests.kit.prefect_api import artifacts_of, runs_named
from tests.kit.waiting import wait_until
from tests.tasks.comparing_help import answer
from tests.tasks.staging_help import jsonl, query, registered

POLICY = "primary: exact_match.match\nmargin: 0.05\nrules: [level exact_match.match >= 0.5]\n"


@pytest.fixture
def file(tmp_path):
    """Of 60 answers `gated-a` has 50 right, `gated-b` 20; `gated-c` has the same as `gated-a`."""
    rows = [
        answer(i, "yes" if i < right else "no") | {"release": name}
        for name, right in (("gated-a", 50), ("gated-b", 20), ("gated-c", 50))
        for i in range(60)
    ]
    return jsonl(tmp_path / "gated.jsonl", rows)


@pytest.mark.real
def test_the_gate_is_the_last_step_of_a_run(cli, file, tmp_path, ask, home):
    policy = tmp_path / "gate.yaml"
    policy.write_text(POLICY)
    options = ("--metrics", "exact_match", "--baseline", "gated-a", "--policy", policy, "--json")
    result = cli("evaluate", file, *options, page=True, code=1)
    content = json.loads(result.stdout)["verdicts"]
    assert [(entry["new"], entry["outcome"]) for entry in content] == [
        ("gated/gated-b/v1", "FAIL"), ("gated/gated-c/v1", "INCONCLUSIVE"),
    ]  # fmt: skip
    assert [entry["n_releases"] for entry in content] == [1, 2]
    rows = query(home, 'SELECT new_report, outcome, "primary", margin FROM verdicts ORDER BY created_at')
    assert rows == [(entry["new"], entry["outcome"], "exact_match.match", 0.05) for entry in content]
    assert query(home, "SELECT status FROM runs") == [("complete",)]
    [run] = runs_named(ask, "evaluate 3 releases on gated")
    assert run["state_type"] == "COMPLETED"
    # The server's log has the verdicts; on the terminal they stand once, where the command prints its result.
    verdicts = [f"{entry['outcome']}: {entry['sentence']}" for entry in content]
    wanted = {"logs": {"flow_run_id": {"any_": [run["id"]]}}}
    wait_until(lambda: set(verdicts) <= {line["message"] for line in ask("logs/filter", wanted)}, "the verdicts' log")
    assert "must not ship" not in result.stderr
    _artifacts_say_it(ask, run["id"], home)
    _events_say_it(ask, content[0]["sentence"])


def _artifacts_say_it(ask, run, home):
    artifacts = artifacts_of(ask, run)
    verdict = artifacts["verdict-gated-gated-a-gated-gated-b-d78a73"]
    assert verdict["data"].startswith("# FAIL\n\n**gated-b must not ship in place of gated-a: ")
    assert "| level exact\\_match.match \\>= 0.5 | FAIL | 0.333 [" in verdict["data"]
    assert verdict["description"] == "FAIL: gated/gated-b/v1"
    page = artifacts["report-gated"]["data"]
    assert [line for line in page.splitlines() if line.startswith("## ")] == [
        "## INCONCLUSIVE: gated-c", "## FAIL: gated-b", "## Scores", "## gated-a → gated-c", "## gated-a → gated-b",
        "## Coverage and failures", "## Validation and quarantine", "## Methods", "## Reproduction",
    ]  # fmt: skip
    file = home / "pages/gated/gated-c-v1.html"
    assert f"`{file.resolve()}`" in page
    assert "--baseline gated-a" in page and f"--policy {home.parent / 'gate.yaml'}" in page
    html = file.read_text(encoding="utf-8")
    assert "<title>2 releases against gated-a: 1 INCONCLUSIVE, 1 FAIL · gated</title>" in html
    assert html.index('<section class="verdict inconclusive"') < html.index('<details id="verdict-2" class="fail">')


def _events_say_it(ask, sentence):
    """Events are stored in the background, so a moment may pass."""
    wanted = {
        "filter": {"event": {"prefix": ["answerkey.gate."]}, "resource": {"id_prefix": ["answerkey.release.gated."]}}
    }

    def both():
        found = {event["event"]: event for event in ask("events/filter", wanted)["events"]}
        return found if len(found) == 2 else None

    found = wait_until(both, "the events of both releases")
    assert set(found) == {"answerkey.gate.failed", "answerkey.gate.inconclusive"}
    failed = found["answerkey.gate.failed"]
    assert failed["resource"]["prefect.resource.id"] == "answerkey.release.gated.gated-b"
    assert failed["payload"] == {
        "dataset": "gated", "release": "gated-b", "report": "gated/gated-b/v1", "baseline": "gated/gated-a/v1",
        "outcome": "FAIL", "basis": "text", "sentence": sentence,
    }  # fmt: skip


def test_a_run_prints_each_number_once_and_the_means_too_where_a_sample_is_missing(cli, tmp_path, home):
    policy = tmp_path / "gate.yaml"
    policy.write_text(POLICY)
    rows = [
        answer(i, "yes" if i < right else "no") | {"release": name}
        for name, right in (("old", 50), ("new", 50))
        for i in range(60)
    ]
    options = ("--metrics", "exact_match", "--baseline", "old", "--policy", policy, "--dataset", "brief", "--quiet")
    complete = cli("evaluate", jsonl(tmp_path / "a.jsonl", rows), *options, code=3).stdout
    assert complete.count("0.833") == 4 and "outcome" not in complete and "2 releases on brief" not in complete
    assert "better or worse in each field: answerkey compare brief/old/v1 brief/new/v1" in complete
    assert "finding" not in complete and "Corrected" not in complete

    missing = cli("evaluate", jsonl(tmp_path / "b.jsonl", rows[:-1]), *options).stdout
    assert "2 releases on brief" in missing and re.search(r"scored/total +60/60 +59/59", missing)


def test_a_gate_that_was_asked_for_is_never_left_out(cli, tmp_path):
    old = jsonl(tmp_path / "old.jsonl", [answer(i, "yes") | {"release": "old"} for i in range(4)])
    options = ("--metrics", "exact_match", "--baseline", "old", "--policy", POLICY)
    alone = cli("evaluate", old, *options, code=4)
    assert "old: there is no other release to compare it with" in alone.stderr


def test_the_gate_kept_for_a_data_set_decides_on_what_comes_by_any_way(tmp_path, home):
    scoring = Scoring(metrics=["exact_match"])
    verdicts = "SELECT old_report, new_report, outcome FROM verdicts ORDER BY created_at"

    def source(release, right, dataset="kept"):
        rows = [answer(i, "yes" if i < right else "no") for i in range(60)]
        return Source(jsonl(tmp_path / f"{release}.jsonl", rows), dataset=dataset, release=release)

    def evaluated(release, right, dataset="kept"):
        data = Data(answers=source(release, right).answers, dataset=dataset, release=release)
        return evaluate_release(data, scoring, home=str(home), page=False)

    evaluated("old", 50)
    keep_gate(Home(home), "kept", "kept/old/v1", read_policy(POLICY))
    registration = registered(home, source("new", 20))

    # Whoever evaluates or makes a report again need not name the gate; other data sets have none.
    evaluate_release(Data(answers=registration.address), scoring, home=str(home), page=False)
    rerun_report(Rerunning(report="kept/new/v1"), str(home), page=False)
    evaluated("new", 20, "free")

    assert query(home, verdicts) == [("kept/old/v1", f"kept/new/{version}", "FAIL") for version in ("v1", "v2")]


def test_a_pair_is_made_again_by_other_metrics_and_decided_on_without_a_word_about_the_gate(file, home):
    evaluate_release(Data(answers=file), Scoring(metrics=["contains"]), home=str(home), page=False)
    keep_gate(Home(home), "gated", "gated-a", read_policy(POLICY))

    pair = Rerunning(report="gated-b", against="gated-a", metrics=["exact_match"])
    assert rerun_report(pair, str(home), page=False) == ["gated/gated-b/v2"]

    assert query(home, "SELECT old_report, new_report, outcome FROM verdicts") == [
        ("gated/gated-a/v2", "gated/gated-b/v2", "FAIL")
    ]
    assert query(home, "SELECT DISTINCT old_report, new_report, metric FROM comparisons") == [
        ("gated/gated-a/v2", "gated/gated-b/v2", "exact_match")
    ]
    with pytest.raises(UserError, match="a policy needs a baseline"):
        rerun_report(Rerunning(report="gated-b", policy=POLICY), str(home))


def test_what_is_registered_is_scored_from_the_warehouse_once(tmp_path, home, caplog):
    rows = [{"id": f"q{i}", "question": "?", "reference": "a", "answer": "ab"[i % 2], "lang": "en"} for i in range(4)]
    registration = registered(
        home, Source(jsonl(tmp_path / "a.jsonl", rows), dataset="faq", release="new", slices=("lang",))
    )
    (tmp_path / "a.jsonl").unlink()

    def evaluated(answers):
        return evaluate_release(Data(answers=answers), Scoring(metrics=["exact_match"]), home=str(home), page=False)

    assert evaluated("registered:faq/new") == ["faq/new/v1"]
    # As a doubled event has it
    assert evaluated(registration.address) == ["faq/new/v1"]
    assert caplog.messages[-1] == "nothing new: faq/new has the report faq/new/v1"
    found = query(home, "SELECT slice, mean, manifest ->> '$.parameters.data.answers' FROM reports "
                        "JOIN report_scores USING (report_id) ORDER BY ALL")  # fmt: skip
    assert found == [("all", 0.5, registration.address), ("lang=en", 0.5, registration.address)]
    with pytest.raises(UserError, match="0123: no such registered release"):
        evaluated("registered:0123")
