"""`answerkey judge` with three texts: one answer before a judge, in all its endings."""

import json
import re
from typing import Any

import pytest

from answerkey.metrics_core.offline_judge.rules import RULES_VERSION
from tests.judge_server import JudgeServer, Reply, data_of

QUESTION = "Who wrote it, and when?"
REFERENCE = "Ada Brown wrote it. It came out in 1851."
ANSWER = "Ada Brown did. It was in 1852. It is long."
KEY = "sk-canary-0123456789"


def brain(body):
    """Takes texts apart at full stops; the first facts agree, the second contradict each other."""
    data = data_of(body)
    reply: dict[str, Any]
    if "reference" in data:
        reply = {"facts": data["reference"].split(". ")}
    elif "facts" in data["references"][0]:
        facts = data["answer"].split(". ")
        ids = [fact["id"] for fact in data["references"][0]["facts"]]
        links = [(["a1"], []), ([], ["a2"]), ([], [])]
        reply = {
            "answer_facts": [{"id": f"a{n}", "fact": fact} for n, fact in enumerate(facts, 1)],
            "reference_facts": [
                {"id": name, "equivalent": same, "contradicted_by": other}
                for name, (same, other) in zip(ids, links, strict=False)
            ],
            "abstained": False,
        }
    else:
        # Whatever a judge writes must not speak to the terminal: colours, markup.
        reason = "Another [bold]year\x1b[31m."
        reply = {"reason": reason, "verdict": "mismatch", "rule": "factual_equivalence", "reference": None}
    return Reply(json.dumps(reply), prompt_tokens=1000, completion_tokens=100)


@pytest.fixture
def server():
    with JudgeServer(brain) as running:
        yield running


@pytest.fixture
def trial(bare_cli, server, tmp_path, home):
    def run(*arguments, model="openai/gpt-4o-mini", **changes):
        judge = f"{model}@{server.url}"
        return bare_cli("judge", *arguments, "--judge", judge, **changes)

    return run


def test_verdict_reason_facts_and_cost(trial, server):
    result = trial(QUESTION, REFERENCE, ANSWER)
    assert (result.returncode, result.stderr.count("calls to make 3, about $0.0")) == (0, 1)
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert lines[:4] == [
        "meaning_match  match 0",
        "  verdict    mismatch, by the rule factual_equivalence",
        "  reason     Another [bold]year [31m.",
        f"  judge      openai/gpt-4o-mini@127.0.0.1:{server.port}/v1",
    ]
    # 1,000 and 100 tokens of gpt-4o-mini are 15 and 6 cents a million.
    assert sum(line.endswith("answered by gpt-4o-mini, 1,000 tokens in, 100 out, $0.0002") for line in lines) == 3
    start = lines.index(
        "ground_truth_similarity  similarity 0.333, fact_precision 0.333, fact_recall 0.500, fact_f1 0.400"
    )
    assert lines[start + 1 : start + 3] == [
        "  reason     1 of 3 facts match, 1 contradicted",
        f"  reference  1: {REFERENCE}",
    ]
    cells = [line.split("  ") for line in lines[start + 6 :] if line]
    assert [[cell.strip() for cell in row if cell.strip()] for row in cells[:3]] == [
        ["matched", "Ada Brown wrote it", "Ada Brown did"],
        ["contradicted", "It came out in 1851.", "It was in 1852"],
        ["extra", "It is long."],
    ]
    assert server.n_requests == 3


def test_several_references_and_one_metric(trial, server):
    result = trial("", "something else", "turing", "--reference", "TURING", "--metric", "meaning_match", "--json")
    [row] = json.loads(result.stdout)
    assert (row["metric"], row["values"], row["details"]["reference"]) == ("meaning_match", {"match": 1.0}, 1)
    assert row["signature"].startswith("meaning_match|v1|judge:openai/gpt-4o-mini@127.0.0.1")
    assert server.n_requests == 0
    output = trial("", "something else", "turing", "--reference", "TURING", "--metric", "meaning_match").stdout
    assert "  reference  2: TURING\n" in output


def test_several_votes_are_shown(trial, server):
    result = trial(QUESTION, REFERENCE, ANSWER, "--metric", "meaning_match", "--repeats", "3")
    assert result.returncode == 0
    assert "meaning_match  match 0, spread 0" in result.stdout
    assert result.stdout.count("answered by gpt-4o-mini, 1,000 tokens in, 100 out") == 3
    assert result.stdout.count("0.000  openai/gpt-4o-mini@") == 3
    assert server.n_requests == 3


def test_an_unknown_price(trial):
    result = trial(QUESTION, REFERENCE, ANSWER, "--metric", "meaning_match", model="openai/home-made")
    assert "100 out, price unknown\n" in result.stdout


def test_a_judge_that_refuses_exits_with_1_and_its_cause(trial, server, tmp_path):
    server.faults = lambda _number, _body: "unauthorized"
    result = trial(QUESTION, REFERENCE, ANSWER, ANSWERKEY_JUDGE_KEY=KEY)
    assert result.returncode == 1
    assert result.stdout.startswith("meaning_match  failed\n  cause      http_401: ")
    assert "ground_truth_similarity  failed" in result.stdout
    assert [request.headers["authorization"] for request in server.requests] == [f"Bearer {KEY}"] * 2
    assert KEY not in result.stdout + result.stderr
    files = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []


def test_the_offline_judge_is_tried_without_anything(bare_cli, tmp_path):
    def run(*arguments):
        return bare_cli("judge", "What fruits does Amy like?", *arguments, "--home", tmp_path / "home")

    result = run("Amy likes apples and bananas.", "Amy likes apples, berries and plums.")
    assert (result.returncode, result.stderr) == (0, "")
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    estimate = r"  estimate   human annotators call it a match with a probability of 0\.\d\d"
    assert any(re.fullmatch(estimate, line) for line in lines)
    assert sum(line.startswith(f"  judge      offline@{RULES_VERSION}:") for line in lines) == 2
    assert "ground_truth_similarity  similarity 0.333, fact_precision 0.333, fact_recall 0.500, fact_f1 0.400" in lines
    assert "  reason     1 of 3 facts match" in lines
    [match, _] = json.loads(run("Paris", "It is Rome.", "--json").stdout)
    assert (match["values"], match["asked"], match["details"]["verdict"]) == ({"match": 0.0}, [], "mismatch")
    assert match["signature"].startswith("meaning_match|v1|judge:offline@")
    assert not (tmp_path / "home" / "judge.sqlite").exists()


def test_an_empty_answer_and_no_reference_need_no_judge(trial, server):
    blank = json.loads(trial(QUESTION, REFERENCE, "", "--json").stdout)
    assert [set(row["values"].values()) for row in blank] == [{0.0}, {0.0}]
    none = trial(QUESTION, "", ANSWER)
    assert none.returncode == 0
    assert "meaning_match  undefined\n  cause      no reference: every reference is missing or blank" in none.stdout
    assert server.n_requests == 0


def test_a_rubric_is_tried_on_one_answer(bare_cli, tmp_path, home):
    with JudgeServer(lambda body: json.dumps({"reason": data_of(body)["context"][0], "verdict": "no"})) as running:
        options = ("--judge", f"openai/m@{running.url}")
        result = bare_cli("judge", QUESTION, "", ANSWER, "--rubric", "faithfulness", "--context", "It was.", *options)
        assert running.n_requests == 1
    assert result.returncode == 0
    assert [line.rstrip() for line in result.stdout.splitlines()[:3]] == [
        "faithfulness  faithful 0", "  verdict    no", "  reason     It was.",
    ]  # fmt: skip
    offline = bare_cli("judge", QUESTION, "", ANSWER, "--rubric", "refusal")
    assert (offline.returncode, "the offline judge cannot judge this" in offline.stderr) == (2, True)


def test_check_asks_a_judge_the_known_questions_alone(bare_cli, server):
    """The judge says no to everything. The second time the ledger has its replies, of which it asks for ten again."""
    words = ("judge", f"openai/gpt-4o-mini@{server.url}", "--check", "--metric", "meaning_match")
    foreseen = bare_cli(*words, "--dry-run")
    assert (foreseen.returncode, server.n_requests) == (0, 0)
    assert "calls to make 40, about $0.0" in foreseen.stderr
    result = bare_cli(*words)
    assert (result.returncode, server.n_requests) == (1, 40), result.stderr
    first, *wrong = result.stdout.splitlines()
    assert first.endswith("was right on known answers of 0: 20 of 20 (83 to 100 %); of 1: 0 of 20 (0 to 17 %)")
    assert sum(line.startswith("  openai/gpt-4o-mini@127.0.0.1:") for line in wrong) == 20
    [row] = json.loads(bare_cli(*words, "--json").stdout)
    assert (row["check"].popitem()[1], len(row["wrong"])) == ([[0.0, 0.0, 20, 20], [1.0, 1.0, 20, 0]], 20)
    assert row["failed"].startswith("judge stopped: openai/gpt-4o-mini@127.0.0.1:")
    assert server.n_requests == 50


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("openai/m", "answer"), "--check takes one judge and nothing about answers"),
        (("openai/m", "--reference", "Paris"), "--check takes one judge and nothing about answers"),
        (("offline",), "--check: there is no question; name a language model"),
    ],
)
def test_check_refuses_what_it_cannot_ask(arguments, message, bare_cli):
    result = bare_cli("judge", *arguments, "--check")
    assert (result.returncode, message in result.stderr) == (2, True), result.stderr
