"""`answerkey judge` with a sample: why its answer has its verdicts, and the same answer before another judge."""

import json

import pytest

from answerkey.metrics_core.judges.prompt import load_prompt
from tests.judge_server import UNTESTED, JudgeServer, data_of
from tests.tasks.staging_help import jsonl

PAINTERS = ["Vermeer", "Rembrandt", "Hals", "Steen"]
ROWS = [
    {"id": f"p{n}", "question": f"Who painted portrait {n}?", "references": [name], "answer": f"It was {said}."}
    for n, (name, said) in enumerate(zip(PAINTERS, ["Vermeer", "Rembrandt", "Rubens", "Steen, they say"], strict=True))
]
CAP = ("--max-cost", "0.0000001")


def says(verdict):
    """A judge of `meaning_match`, and of rubrics, that always says the same."""

    def brain(body):
        if "Each rule has a name" not in body["messages"][0]["content"]:
            return json.dumps({"reason": f"About {data_of(body)['answer']}", "verdict": "no"})
        reference = 1 if verdict == "match" else None
        reply = {"reason": "So it reads.", "verdict": verdict, "rule": "alias", "reference": reference}
        return f"I think: {json.dumps(reply)}"

    return brain


@pytest.fixture(scope="module")
def judges():
    """The strict one says mismatch to all, the kind one match."""
    with JudgeServer(says("match")) as kind, JudgeServer(says("mismatch")) as strict:
        yield {"kind": kind, "strict": strict}


@pytest.fixture(scope="module")
def named(judges):
    """The option that names a judge."""
    return lambda name, model="gpt-4o-mini": ("--judge", f"openai/{model}@{judges[name].url}")


@pytest.fixture(scope="module")
def home(tmp_path_factory, bare_cli, named):
    """A release that the kind judge judged twice, and once again the strict one."""
    folder = tmp_path_factory.mktemp("judge")
    file = jsonl(folder / "answers.jsonl", ROWS)
    options = ("--dataset", "portraits", "--release", "new", "--metrics", "meaning_match", *UNTESTED)
    at = {"ANSWERKEY_HOME": str(folder / "home")}
    bare_cli("evaluate", file, *options, *named("kind"), "--repeats", "2", code=0, **at)
    bare_cli("rerun", "new", *named("strict"), code=0, **at)
    return folder / "home"


def words(text):
    return " ".join(text.split())


def test_the_judges_of_all_reports_are_shown_with_prompt_reply_votes_rule_and_cost(bare_cli, home, judges):
    output = bare_cli("judge", "p0", code=0).stdout
    kind, strict = (f"openai/gpt-4o-mini@127.0.0.1:{judges[name].port}/v1" for name in ("kind", "strict"))
    text = words(output)
    assert text.startswith(
        "p0 portraits/new/v2 question Who painted portrait 0? reference Vermeer answer It was Vermeer."
    )
    first, second = text.split("meaning_match match 1, spread 0")[1], text.split("meaning_match match 0")[1]
    assert (
        f"verdict match, by the rule alias reason majority of 2 votes: So it reads. reference 1: Vermeer judge {kind}"
        in first
    )
    assert "report portraits/new/v1" in first
    assert 'reply I think: {"reason": "So it reads.", "verdict": "match"' in first and "tokens in, " in first
    assert first.count("answered by gpt-4o-mini") == 2 and "vote judge reason" in first
    assert f"judge {strict} vote judge reason" in second
    # The prompt once, as it was sent.
    assert text.count("You decide whether an answer to a question says the same essential thing") == 1
    assert "<data-" in text and text.count('"answer": "It was Vermeer."') == 1


def test_what_is_shown_as_asked_is_what_the_servers_got(bare_cli, home, judges):
    rows = json.loads(bare_cli("judge", "p2", "--json", code=0).stdout)
    assert [(row["report"], row["status"]) for row in rows] == [
        ("portraits/new/v2", "scored"),
        ("portraits/new/v1", "scored"),
    ]
    received = [[m["content"] for m in one.body["messages"]] for server in judges.values() for one in server.requests]
    asked = [one for row in rows for one in row["asked"]]
    assert len(asked) == 4 and all([one["system"], one["user"]] in received for one in asked)
    assert asked[0]["system"] == load_prompt("meaning_match", {}).text
    assert {call["reply"][:9] for one in asked for call in one["calls"]} == {"I think: "}


def test_an_answer_is_judged_again_without_a_report_and_paid_once(bare_cli, home, judges, named):
    reports = sorted(path.name for path in (home / "pages").rglob("*.html"))
    before = judges["kind"].n_requests
    dry = bare_cli("judge", "p1", *named("kind", "gpt-4o"), "--dry-run", code=0)
    assert (dry.stdout, judges["kind"].n_requests) == ("", before)
    assert "calls to make 1, about $0.00" in dry.stderr
    for n_new in (1, 0):
        process = bare_cli("judge", "p1", *named("kind", "gpt-4o"), code=0)
        assert f"calls to make {n_new}, about $0.00" in process.stderr
        assert "report just now reply I think" in words(process.stdout)
        assert judges["kind"].n_requests == before + 1
    capped = bare_cli("judge", "p1", *named("kind", "gpt-4"), *CAP, code=1)
    assert "skipped cause budget used up" in words(capped.stdout) and judges["kind"].n_requests == before + 1
    by_rubric = bare_cli("judge", "p1", *named("kind"), "--rubric", "politeness", "--json", code=0)
    *_, again = json.loads(by_rubric.stdout)
    assert (again["metric"], again["values"], again["report"]) == ("politeness", {"polite": 0.0}, "")
    assert again["asked"][0]["calls"][0]["reply"] == '{"reason": "About It was Rembrandt.", "verdict": "no"}'
    assert sorted(path.name for path in (home / "pages").rglob("*.html")) == reports


@pytest.mark.nightly
def test_what_cannot_be_shown_is_one_line(refusal, home):
    assert refusal("judge", "p9") == f"p9: no report in {home} has a sample with this id"
    assert refusal("judge", "p1", "--release", "newer").startswith("newer: no such report or release in ")
    assert refusal("judge", "p1", "--metric", "politeness").startswith("--metric politeness: choose from meaning_match")
    assert "no key; set OPENAI_API_KEY" in refusal("judge", "p1", "--judge", "openai/gpt-4o")
    assert "nowhere.yaml" in refusal(
        "judge", "p1", "--rubric", "nowhere.yaml", "--judge", "openai/m@http://127.0.0.1:1/v1"
    )


def test_replies_are_there_without_the_ledger(bare_cli, home, tmp_path):
    """Last: it moves the ledger away."""
    (home / "judge.sqlite").rename(tmp_path / "judge.sqlite")
    rows = json.loads(bare_cli("judge", "p0", "--json", code=0).stdout)
    assert [len(row["asked"]) for row in rows] == [2, 2]
    assert rows[0]["asked"][0]["system"] == load_prompt("meaning_match", {}).text
