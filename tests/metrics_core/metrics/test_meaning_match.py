"""Meaning match, asked over HTTP: the document's examples, what replies become, references, juries, signatures."""

import itertools
import json
from collections.abc import Callable
from typing import get_args

import pytest

from answerkey.metrics_core import Failed, JudgeOptions, Sample, Scored, Undefined, create, evaluate
from answerkey.metrics_core.judges.judge_metric import check, request
from answerkey.metrics_core.llm import client
from answerkey.metrics_core.llm import loop as runtime
from answerkey.metrics_core.llm.access import NO_ACCESS, Access
from answerkey.metrics_core.llm.budget import Bill
from answerkey.metrics_core.llm.reply import ReplyScore, read_scores
from answerkey.metrics_core.llm.request import CallFailed
from answerkey.metrics_core.metrics.meaning_match import PROMPT, PROMPT_WITH_WRONG, Guideline
from tests.judge_server import JudgeServer, Reply, data_of
from tests.metrics_core.judges.measuring import judged

Start = Callable[..., JudgeServer]

# The document's examples and that of its prompt: question, reference, answer, and how our judge decides each.
LISA = "Who painted the Mona Lisa?"
DOCUMENT = [
    ("What's the capital of France?", "Paris", "It's Paris", "match", "factual_equivalence"),
    (LISA, "Leonardo da Vinci", "Da Vinci", "match", "alias"),
    (LISA, "Leonardo da Vinci", "Pablo Picasso", "mismatch", "factual_equivalence"),
    (LISA, "Leonardo da Vinci", "It was painted by Leonardo da Vinci.", "match", "extra_context"),
    ("What's 10 + 10?", "20", "The answer is twenty", "match", "number_form"),
]
PARSER = ["scored", "scored", "null", None, "unreadable", *["scored"] * 4, *["unreadable"] * 3]
PARSER += ["not_object", "no_score_fields", "empty_reply", "scored"]
"""What becomes of each golden parser case: 0.8 is no yes or no, and the None is not for one score but for two."""
BERN = Sample("1", "It is Bern.", ["Bern"], "What is the capital of Switzerland?")


def golden(shared, part):
    cases = json.loads((shared / "golden" / "meaning_match.json").read_text("utf-8"))[part]
    return cases


def says(verdict, rule="factual_equivalence", reference=None, **more):
    """A judge's reply."""
    reply = {"reason": f"Because of {rule}.", "reference": reference, "rule": rule, "verdict": verdict, **more}
    return json.dumps(reply)


def by_model(**replies):
    """A brain for several judges: each model always gives the same verdict."""
    return lambda body: replies[body["model"]]


# The document


def examiner(body):
    """Finds the example by its question, reference and answer."""
    data = data_of(body)
    known = {(question, reference, answer): (verdict, rule) for question, reference, answer, verdict, rule in DOCUMENT}
    [reference] = data["references"]
    verdict, rule = known[data["question"], reference["text"], data["answer"]]
    return says(verdict, rule, reference["number"] if verdict == "match" else None)


def test_the_documents_examples(judge_server):
    server = judge_server(examiner)
    samples = [Sample(str(n), answer, [right], question) for n, (question, right, answer, *_) in enumerate(DOCUMENT)]
    found = judged(server, "meaning_match", *samples)
    assert [one.values for one in found] == [{"match": value} for value in (1.0, 1.0, 0.0, 1.0, 1.0)]
    for one, (*_, verdict, rule) in zip(found, DOCUMENT, strict=True):
        index = 0 if verdict == "match" else None
        assert one.details == {"verdict": verdict, "rule": rule, "reference": index}
        assert one.reason == f"Because of {rule}."
        assert not one.from_ledger
        assert len(one.requests) == 1
    assert server.n_requests == len(DOCUMENT)


def test_the_documents_examples_are_the_golden_ones(shared):
    cases = golden(shared, "judgement")
    assert [(c["input"], c["ground_truth"], c["output"], c["score"]) for c in cases] == [
        (question, right, answer, verdict == "match") for question, right, answer, verdict, _ in DOCUMENT
    ]


def test_the_whole_request(judge_server):
    server = judge_server(lambda _: says("match", "alias", 2))
    sample = Sample("1", "The UN.", ["UNO", " ", "United Nations"], "Who met?", facts=["not sent"])
    [found] = judged(server, "meaning_match", sample)
    [received] = server.requests
    system, user = received.body["messages"]
    assert system == {"role": "system", "content": PROMPT.text}
    opening, line, closing, last = user["content"].split("\n")
    assert json.loads(line) == {
        "question": "Who met?",
        "references": [{"number": 1, "text": "UNO"}, {"number": 2, "text": "United Nations"}],
        "answer": "The UN.",
    }
    assert (opening[:6], closing[:7], last) == ("<data-", "</data-", "Reply with the JSON object only.")
    schema = received.body["response_format"]["json_schema"]
    assert (schema["strict"], schema["schema"]) == (True, PROMPT.schema)
    settings = {name: received.body[name] for name in ("model", "temperature", "seed", "max_tokens")}
    assert settings == {"model": "m", "temperature": 0, "seed": 0, "max_tokens": 1_024}
    assert found.details["reference"] == 2, "the index among all references, the blank one included"


def test_answers_known_to_be_wrong_are_asked_about_with_a_prompt_of_their_own(judge_server):
    server = judge_server(lambda _: says("mismatch"))
    asked = "Which is denser?"
    sample = Sample("1", "Vapor.", ["Air."], asked, incorrect_references=["Water vapor.", " ", "Both."])
    judged(server, "meaning_match", sample)
    [received] = server.requests
    system, user = received.body["messages"]
    assert (system["content"], PROMPT.text in system["content"]) == (PROMPT_WITH_WRONG.text, True)
    assert json.loads(user["content"].split("\n")[1]) == {
        "question": asked,
        "references": [{"number": 1, "text": "Air."}],
        "answer": "Vapor.",
        "incorrect_references": ["Water vapor.", "Both."],
    }
    # Not in the signature: whoever changes it has to change PROMPT, too, or the verdicts that are stored would count
    # as those of the new one.
    assert PROMPT_WITH_WRONG.version == "c265dd"


def test_the_offline_judge_names_the_wrong_answer_that_the_answer_says():
    about = ("Which is denser, water vapor or air?", ["Air is denser than water vapor."])
    samples = [
        Sample(str(i), answer, about[1], about[0], incorrect_references=["", "Water vapor is denser than air."])
        for i, answer in enumerate(("Water vapor is denser than air.", "Air is denser than water vapor."))
    ]
    wrong, right = evaluate(samples, ["meaning_match"])
    assert (wrong.values, wrong.details["incorrect_reference"]) == ({"match": 0.0}, 1)
    assert (right.values, right.details.get("incorrect_reference")) == ({"match": 1.0}, None)


# What a reply becomes


@pytest.mark.parametrize(
    ("verdict", "rules"),
    [
        ("match", "factual_equivalence alias formatting extra_context number_form"),
        ("mismatch", "factual_equivalence alias formatting extra_context number_form"),
        ("partial", "factual_equivalence hedging"),
        ("hedged", "hedging"),
        ("multiple_alternatives", "alternatives"),
        ("refusal", "factual_equivalence hedging"),
    ],
)
def test_only_a_match_is_worth_one_and_each_verdict_has_its_rules(verdict, rules):
    every = get_args(Guideline)

    def brain(body):
        return says(verdict, data_of(body)["answer"], 1)

    with JudgeServer(brain) as server:
        found = judged(server, "meaning_match", *[Sample(rule, rule, ["x"], "q") for rule in every])
    assert [one.sample_id for one in found if one.status == "scored"] == [r for r in every if r in rules.split()]
    for one in found:
        if isinstance(one.outcome, Failed):
            message = f"the verdict {verdict} does not go with the rule {one.sample_id}"
            assert (one.outcome.code, one.outcome.message) == ("inconsistent", message)
        else:
            assert one.values == {"match": float(verdict == "match")}
            index = 0 if verdict == "match" else None
            assert one.details == {"verdict": verdict, "rule": one.sample_id, "reference": index}


@pytest.fixture
def impatient(monkeypatch):
    """The client retries an empty reply at once: six calls in all."""
    monkeypatch.setattr(client, "_FIRST_WAIT_S", 0.001)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("index", range(len(PARSER)))
def test_golden_parser(index, shared, judge_server):
    case, expected = golden(shared, "parser")[index], PARSER[index]
    if expected is None:
        assert len(case["declared"]) == 2
        return
    server = judge_server(lambda _: case["reply"])
    [found] = judged(server, "meaning_match", BERN)
    if expected == "scored":
        verdict = "match" if case["value"] else "mismatch"
        index_of_reference = 0 if case["value"] else None
        assert found.values == {"match": case["value"]}
        assert found.details == {"verdict": verdict, "rule": None, "reference": index_of_reference}
        assert found.reason == case.get("reason", "r")
        assert server.n_requests == 1
    else:
        assert found.outcome.code == expected
        # One repair; an empty reply cannot be repaired.
        assert server.n_requests == found.outcome.attempts == (3 if expected == "empty_reply" else 2)


@pytest.mark.parametrize("index", [n for n, code in enumerate(PARSER) if code not in ("scored", None, "empty_reply")])
def test_golden_replies_that_a_repair_mends(index, shared, judge_server):
    reply = golden(shared, "parser")[index]["reply"]
    server = judge_server(lambda body: says("match", reference=1) if len(body["messages"]) > 2 else reply)
    [found] = judged(server, "meaning_match", BERN)
    assert (found.values, server.n_requests) == ({"match": 1.0}, 2)


def read_over_http(server, declared):
    """The reply of a server as `read_scores` reads it, by way of the client."""
    options = JudgeOptions(judges=(f"openai/m@{server.url}",))
    [(judge, _)] = options.jurors()

    async def ask():
        async with runtime.connect(NO_ACCESS, options.limits, "judge", lambda: check(options)) as client:
            asked = request(PROMPT, {"answer": "a"}, judge, 0, options)
            return await client.ask(judge, asked, lambda reply: read_scores(reply, declared), Bill())

    return runtime.run(ask(), lambda: None)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("index", range(len(PARSER)))
def test_golden_parser_with_the_declared_names(index, shared, judge_server):
    case = golden(shared, "parser")[index]
    server = judge_server(lambda _: case["reply"])
    status = case.get("status")
    if status in {"no_score_fields", "not_object", "no_answer"}:
        with pytest.raises(CallFailed) as caught:
            read_over_http(server, case["declared"])
        # What is empty never comes to the reader: the client takes it for a fault of the server.
        assert caught.value.code == ("empty_reply" if status == "no_answer" else status)
        return
    [(name, score)] = read_over_http(server, case["declared"]).items()
    problem = {None: None, "skipped_null": "null", "unreadable": "unreadable"}[status]
    assert (name, score.value, score.problem) == (case["declared"][0], case["value"], problem)
    assert server.n_requests == 1


def test_three_declared_scores_of_one_reply(judge_server):
    reply = '{"tone": {"score": 5}, "Length": {"score": 4.0, "reason": ["a", "b"]}, "SAFE": {"score": false}}'
    scores = read_over_http(judge_server(lambda _: reply), ["Tone", "Length", "Safe"])
    assert scores == {
        "Tone": ReplyScore(5.0, "", None),
        "Length": ReplyScore(4.0, "a, b", None),
        "Safe": ReplyScore(0.0, "", None),
    }


@pytest.mark.parametrize("index", range(6))
def test_golden_extraction(index, shared, judge_server):
    case = golden(shared, "extraction")[index]
    server = judge_server(lambda _: case["reply"])
    [found] = judged(server, "meaning_match", BERN)
    if case["ok"]:
        assert (found.values, found.reason, server.n_requests) == ({"match": 1.0}, "a", 1)
        return
    expected = ("not_json", 2) if "NaN" in case["reply"] else ("conflict", 1)
    assert (found.outcome.code, server.n_requests) == expected, "a conflict is never repaired"


@pytest.mark.parametrize(
    "reply",
    [
        "Let me see.\n" + says(" Match ", "ALIAS", 1),
        "```json\n" + says("match", "alias", 1) + "\n```",
        "<think>Is it a mismatch?</think>" + says("match", "alias", 1),
        says("match", "alias", None),
        says("match", "alias", 1, score=True, match=True, confidence=0.9),
        says("match", "alias", 1) + "\nOnce more: " + json.dumps(json.loads(says("match", "alias", 1)), sort_keys=True),
    ],
)
def test_a_verdict_in_other_clothes(reply, judge_server):
    server = judge_server(lambda _: reply)
    [found] = judged(server, "meaning_match", BERN)
    assert (found.values, found.details["rule"], server.n_requests) == ({"match": 1.0}, "alias", 1)


ONE_OF = "verdict must be one of match, mismatch, partial, hedged, multiple_alternatives, refusal"
RULES = "rule must be one of factual_equivalence, alias, formatting, extra_context, hedging, number_form, alternatives"


@pytest.mark.parametrize(
    ("reply", "code", "message"),
    [
        (says("correct"), "unreadable", ONE_OF),
        (says(["match"]), "unreadable", ONE_OF),
        (says("match", "same_fact", 1), "unreadable", RULES),
        ('{"reason": "r", "verdict": "mismatch"}', "unreadable", RULES),
        (says("mismatch", score=True), "inconsistent", "score and the verdict mismatch say different things"),
        (says("match", "alias", 1, match=False), "inconsistent", "match and the verdict match say different things"),
        (says("match", "alias", 1, score="true"), "inconsistent", "score and the verdict match say different things"),
        ('{"score": 0.8}', "unreadable", "the score must be true or false"),
        ('{"score": 2}', "unreadable", "the score must be true or false"),
        ('{"score": null}', "null", "the score must be true or false"),
    ],
)
def test_what_fails_after_one_repair_that_shows_the_error(reply, code, message, judge_server):
    server = judge_server(lambda _: reply)
    [found] = judged(server, "meaning_match", BERN)
    assert found.outcome == Failed(code, message, 2)
    first, second = (received.body["messages"] for received in server.requests)
    assert second[:2] == first
    assert second[2] == {"role": "assistant", "content": json.dumps(json.loads(reply), sort_keys=True)}
    assert second[3] == {
        "role": "user",
        "content": f"This reply cannot be used: {message}. Answer the same question again. "
        "Reply with one JSON object in the format that was asked for, and nothing else.",
    }


# References


@pytest.mark.parametrize("number", [2, 2.0])
def test_a_number_is_a_number_with_or_without_a_point(number, judge_server):
    server = judge_server(lambda _body: says("match", reference=number))
    [found] = judged(server, "meaning_match", Sample("1", "a", ["b", "c", "d"], "q"))
    assert (found.details["reference"], server.n_requests) == (1, 1)


@pytest.mark.parametrize("number", [0, 4, True, 1.5, "1", None, [1]])
def test_a_match_with_a_reference_that_was_not_sent_is_no_verdict(number, judge_server):
    server = judge_server(lambda _: says("match", "alias", number))
    [found] = judged(server, "meaning_match", Sample("1", "a", ["b", "c", "d"], "q"))
    message = "reference must be the number of the reference that matched, 1 to 3"
    assert found.outcome == Failed("inconsistent", message, 2)


def finds_it(body):
    """An honest judge: an answer that holds a reference matches it."""
    data = data_of(body)
    matching = [one["number"] for one in data["references"] if one["text"] in data["answer"]]
    return says("match", reference=matching[0]) if matching else says("mismatch")


def test_neither_the_order_of_references_nor_that_of_rows_changes_a_value(judge_server):
    server = judge_server(finds_it)
    answers = {"in Bern": 1.0, "in Basel": 0.0, "in Genf": 1.0}
    texts = ["Bern", "", "Genf", "Bonn"]
    for order in itertools.permutations(texts):
        for rows in (list(answers), list(answers)[::-1]):
            found = judged(server, "meaning_match", *[Sample(text, text, order, "Where?") for text in rows])
            assert [one.sample_id for one in found] == rows
            for one in found:
                assert one.values == {"match": answers[one.sample_id]}
                index = one.details["reference"]
                assert (index is None) == (one.values["match"] == 0.0)
                assert index is None or order[index] in one.sample_id


def test_no_judge_is_asked_where_nothing_needs_asking(judge_server):
    server = judge_server(lambda _: "nobody asks")
    samples = [
        Sample("blank", " \u200b", ["x"], "q"),
        Sample("null", None, ["x"], "q"),
        Sample("no reference", "x", [], "q"),
        Sample("blank references", "x", ["", "\u00a0"], "q"),
        Sample("equal", " ＰＡＲＩＳ ", ["Rome", " ", "paris"], "q"),
    ]
    blank, null, nothing, blanks, equal = judged(server, "meaning_match", *samples)
    assert blank.outcome == null.outcome == Scored({"match": 0.0}, "blank answer")
    missing = Undefined("no reference: every reference is missing or blank")
    assert nothing.outcome == blanks.outcome == missing
    details = {"verdict": "match", "rule": "formatting", "reference": 2}
    assert equal.outcome == Scored({"match": 1.0}, "the answer is the reference but for its form", details)
    judges = JudgeOptions(judges=(f"openai/m@{server.url}",))
    [other] = evaluate(samples[:1], ["meaning_match"], judge=judges, blank_answer="undefined")
    assert other.outcome == Undefined("blank answer")
    assert server.n_requests == 0
    for one in (blank, nothing, equal, other):
        assert (one.requests, one.from_ledger, one.usage.tokens_in, one.usage.cost_usd) == ((), False, 0, 0.0)


# Juries and repeats

YES, NO, NONSENSE = says("match", "alias", 1), says("mismatch"), "I would rather not say."


@pytest.mark.parametrize(
    ("jury", "votes", "expected"),
    [
        ("majority", [YES, YES, NO], (1.0, 1.0)),
        ("majority", [NO, YES, NO], (0.0, 1.0)),
        ("majority", [YES, YES, YES], (1.0, 0.0)),
        ("majority", [YES, NONSENSE, YES], (1.0, 0.0)),
        ("majority", [YES, NONSENSE, NO], "missing_votes"),
        ("majority", [YES, NO], "tie"),
        ("unanimous", [YES, YES, NO], (0.0, 1.0)),
        ("unanimous", [YES, YES, YES], (1.0, 0.0)),
        ("unanimous", [NO, NONSENSE, YES], (0.0, 1.0)),
        ("unanimous", [YES, NONSENSE, YES], "missing_votes"),
        ("mean", [YES, YES, NO], (2 / 3, 1.0)),
        ("mean", [NO, YES], (0.5, 1.0)),
        ("mean", [YES, YES, NONSENSE], "missing_votes"),
        ("majority", [NONSENSE, NONSENSE], "missing_votes"),
    ],
)
def test_juries(jury, votes, expected, judge_server):
    models = tuple("abc"[: len(votes)])
    server = judge_server(by_model(**dict(zip(models, votes, strict=True))))
    [found] = judged(server, "meaning_match", BERN, models=models, jury=jury)
    n_nonsense = votes.count(NONSENSE)
    assert server.n_requests == len(votes) + n_nonsense
    if isinstance(expected, str):
        message = {
            "tie": "1 of 2 votes are yes",
            "missing_votes": f"{n_nonsense} of {len(votes)} votes are missing; openai/",
        }[expected]
        assert (found.outcome.code, found.outcome.attempts) == (expected, server.n_requests)
        assert found.outcome.message.startswith(message)
        return
    assert found.values == {"match": pytest.approx(expected[0]), "spread": expected[1]}
    assert (found.reason or "").startswith(f"{jury} of {len(votes)} votes: ")
    assert (found.details["jury"], len(found.requests)) == (jury, len(votes))
    rows = found.details["votes"]
    assert [row["judge"] for row in rows] == [f"openai/{model}@127.0.0.1:{server.port}/v1" for model in models]
    assert [row["vote"] for row in rows] == [{YES: 1.0, NO: 0.0, NONSENSE: None}[vote] for vote in votes]
    assert [row["reason"].startswith("not_json: ") for row in rows] == [vote == NONSENSE for vote in votes]


def test_repeats_are_other_requests_with_other_seeds_and_show_their_spread(judge_server):
    server = judge_server(lambda body: NO if body["seed"] == 1 else YES)
    [found] = judged(server, "meaning_match", BERN, repeats=3)
    assert found.values == {"match": 1.0, "spread": 1.0}
    assert [(row["repeat"], row["vote"]) for row in found.details["votes"]] == [(0, 1.0), (1, 0.0), (2, 1.0)]
    assert sorted(received.body["seed"] for received in server.requests) == [0, 1, 2]
    assert len(set(found.requests)) == 3


def test_a_reply_that_was_paid_for_is_not_asked_for_again(judge_server, tmp_path):
    server = judge_server(finds_it)
    samples = [BERN, Sample("2", "It is Bonn.", ["Bern"], BERN.question)]
    first = judged(server, "meaning_match", *samples, ledger=str(tmp_path))
    again = judged(server, "meaning_match", *samples[::-1], ledger=str(tmp_path))
    assert server.n_requests == 2
    assert [one.outcome for one in again] == [one.outcome for one in first[::-1]]
    assert [one.requests for one in again] == [one.requests for one in first[::-1]]
    assert [(one.from_ledger, one.usage.tokens_in) for one in again] == [(True, 0), (True, 0)]
    assert [one.from_ledger for one in first] == [False, False]
    # Repeats go on from what is known.
    [more] = judged(server, "meaning_match", BERN, repeats=2, ledger=str(tmp_path))
    assert (server.n_requests, more.from_ledger, len(more.requests)) == (3, False, 2)


def test_samples_that_ask_the_same_are_asked_once(judge_server):
    server = judge_server(finds_it, latency=0.05)
    samples = [Sample(str(n), BERN.answer, BERN.references, BERN.question) for n in range(20)]
    found = judged(server, "meaning_match", *samples)
    assert [one.values for one in found] == [{"match": 1.0}] * 20
    assert (server.n_requests, sum(one.usage.tokens_in > 0 for one in found)) == (1, 1)


def test_usage_is_what_all_calls_of_a_sample_took(judge_server):
    replies = {2: Reply("?", prompt_tokens=100, completion_tokens=5), 4: Reply(YES, "stop", 130, 20)}
    server = judge_server(lambda body: replies[len(body["messages"])])
    [found] = judged(server, "meaning_match", BERN)
    assert (found.usage.tokens_in, found.usage.tokens_out, found.usage.cost_usd) == (230, 25, None)
    assert found.usage.seconds > 0


# Signatures


@pytest.mark.parametrize(
    ("options", "signature"),
    [
        (JudgeOptions(judges=("openai/gpt-4o-mini",)), "openai/gpt-4o-mini|prompt:P|parser:1|t:0|seed:0|blank:zero"),
        (
            JudgeOptions(judges=("openai/q@http://user:secret@host:8080/v1/",), jury="mean"),
            "openai/q@host:8080/v1|prompt:P|parser:1|t:0|seed:0|blank:zero",
        ),
        (
            JudgeOptions(judges=("openai/q", "mistral/r"), api_base="http://host/v1", jury="unanimous", repeats=2),
            "openai/q@host/v1,mistral/r@host/v1|prompt:P|parser:1|t:0|seed:0|jury:unanimous|repeats:2|blank:zero",
        ),
    ],
)
def test_signatures(options, signature):
    [metric] = create(["meaning_match"], dict(judge=options))
    assert metric.signature == f"meaning_match|v1|judge:{signature.replace(':P', f':{PROMPT.version}')}"
    [other] = create(["meaning_match"], dict(judge=options, blank_answer="undefined"))
    assert other.signature == metric.signature.replace("blank:zero", "blank:undefined")


def test_what_changes_no_number_is_in_no_signature():
    plain = dict(judge=JudgeOptions(judges=("openai/m",)))
    limited = JudgeOptions(judges=("openai/m",), concurrency=3, timeout_s=1, deadline_s=2, max_calls=1)
    other = dict(judge=limited, access=Access("sk-1", run="r"))
    signatures = {create(["meaning_match"], options)[0].signature for options in (plain, other)}
    assert len(signatures) == 1
