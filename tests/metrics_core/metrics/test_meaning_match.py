"""Meaning match, asked over HTTP: the document's examples, what replies become, references, juries, the cascade."""

import itertools
import json
import logging
from collections import Counter
from typing import get_args

import pytest

from answerkey import Failed, JudgeOptions, Sample, Scored, Undefined, create, evaluate
from answerkey.metrics_core.judges.cascade import OTHER, SAME, trial_of
from answerkey.metrics_core.llm import client
from answerkey.metrics_core.metrics.meaning_match import PROMPT, PROMPT_WITH_WRONG, Guideline, MeaningMatch
from answerkey.metrics_core.sample import UNANSWERABLE
from tests.judge_server import Reply, data_of
from tests.metrics_core.judges.asking import judged as measured
from tests.metrics_core.judges.asking import options

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


def judged(server, *samples, **options):
    return measured(server, "meaning_match", *samples, **options)


def golden(shared, part):
    return json.loads((shared / "golden" / "meaning_match.json").read_text("utf-8"))[part]


def says(verdict, rule="factual_equivalence", reference=None, **more):
    """A judge's reply."""
    reply = {"reason": f"Because of {rule}.", "reference": reference, "rule": rule, "verdict": verdict, **more}
    return json.dumps(reply)


# The document


def examiner(body):
    """Finds the example by its question, reference and answer."""
    data = data_of(body)
    decided = {case[:3]: case[3:] for case in DOCUMENT}
    [reference] = data["references"]
    verdict, rule = decided[data["question"], reference["text"], data["answer"]]
    return says(verdict, rule, reference["number"] if verdict == "match" else None)


def test_the_documents_examples(judge_server):
    server = judge_server(examiner)
    samples = [Sample(str(n), answer, [right], question) for n, (question, right, answer, *_) in enumerate(DOCUMENT)]
    for found, (*_, verdict, rule) in zip(judged(server, *samples), DOCUMENT, strict=True):
        match = verdict == "match"
        assert found.values == {"match": float(match)}
        assert found.details == {"verdict": verdict, "rule": rule, "reference": 0 if match else None}
        assert (found.reason, found.from_ledger, len(found.requests)) == (f"Because of {rule}.", False, 1)
    assert server.n_requests == len(DOCUMENT)


def test_the_documents_examples_are_the_golden_ones(shared):
    cases = golden(shared, "judgement")
    assert [(c["input"], c["ground_truth"], c["output"], c["score"]) for c in cases] == [
        (question, right, answer, verdict == "match") for question, right, answer, verdict, _ in DOCUMENT
    ]


def test_the_whole_request(judge_server):
    server = judge_server(lambda _: says("match", "alias", 2))
    sample = Sample("1", "The UN.", ["UNO", " ", "United Nations"], "Who met?", facts=["not sent"])
    [measurement] = judged(server, sample)
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
    assert measurement.details["reference"] == 2, "the index among all references, the blank one included"


def test_answers_known_to_be_wrong_are_asked_about_with_a_prompt_of_their_own(judge_server):
    server = judge_server(lambda _: says("mismatch"))
    judged(server, Sample("1", "Vapor.", ["Air."], "Which?", incorrect_references=["Water vapor.", " ", "Both."]))
    [received] = server.requests
    system, user = received.body["messages"]
    assert (system["content"], PROMPT.text in system["content"]) == (PROMPT_WITH_WRONG.text, True)
    assert json.loads(user["content"].split("\n")[1]) == {
        "question": "Which?",
        "references": [{"number": 1, "text": "Air."}],
        "answer": "Vapor.",
        "incorrect_references": ["Water vapor.", "Both."],
    }
    # Not in the signature: whoever changes it has to change PROMPT, too, or the verdicts that are stored would count
    # as those of the new one.
    assert PROMPT_WITH_WRONG.version == "c265dd"


def test_the_offline_judge_names_the_wrong_answer_that_the_answer_says():
    right, wrong = "Air is denser than water vapor.", "Water vapor is denser than air."
    question = "Which is denser, water vapor or air?"
    samples = [Sample(text, text, [right], question, incorrect_references=["", wrong]) for text in (wrong, right)]
    found = evaluate(samples, ["meaning_match"])
    assert [(entry.values["match"], entry.details.get("incorrect_reference")) for entry in found] == [
        (0.0, 1),
        (1.0, None),
    ]


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
def test_only_a_match_is_worth_one_and_each_verdict_has_its_rules(verdict, rules, judge_server):
    server = judge_server(lambda body: says(verdict, data_of(body)["answer"], 1))
    match = verdict == "match"
    for measurement in judged(server, *[Sample(rule, rule, ["x"], "q") for rule in get_args(Guideline)]):
        rule = measurement.sample_id
        if rule in rules.split():
            assert measurement.values == {"match": float(match)}
            assert measurement.details == {"verdict": verdict, "rule": rule, "reference": 0 if match else None}
        else:
            assert measurement.reason == f"inconsistent: the verdict {verdict} does not fit the rule {rule}"


@pytest.mark.parametrize("index", range(len(PARSER)))
def test_golden_parser(index, shared, judge_server, monkeypatch):
    monkeypatch.setattr(client, "_FIRST_WAIT_S", 0.001)
    case, expected = golden(shared, "parser")[index], PARSER[index]
    if expected is None:
        assert len(case["declared"]) == 2
        return
    server = judge_server(lambda _: case["reply"])
    [measurement] = judged(server, BERN)
    if expected == "scored":
        verdict, reference = ("match", 0) if case["value"] else ("mismatch", None)
        assert measurement.values == {"match": case["value"]}
        assert measurement.details == {"verdict": verdict, "rule": None, "reference": reference}
        assert (measurement.reason, server.n_requests) == (case.get("reason", "r"), 1)
    else:
        assert measurement.outcome.code == expected
        # One repair; an empty reply cannot be repaired.
        assert server.n_requests == measurement.outcome.attempts == (3 if expected == "empty_reply" else 2)


ALIAS = says("match", "alias", 1)


ONE_OF = "verdict must be one of match, mismatch, partial, hedged, multiple_alternatives, refusal"
RULES = "rule must be one of factual_equivalence, alias, formatting, extra_context, hedging, number_form, alternatives"
SENT = "reference must be the number of the reference that matched, 1 to 1"
NO_BOOL = "the score must be true or false"


@pytest.mark.parametrize(
    ("reply", "code", "message"),
    [
        (says("correct"), "unreadable", ONE_OF),
        (says("match", "same_fact", 1), "unreadable", RULES),
        (says("mismatch", score=True), "inconsistent", "score and the verdict mismatch say different things"),
        (says("match", "alias", 1, match=False), "inconsistent", "match and the verdict match say different things"),
        *((says("match", "alias", number), "inconsistent", SENT) for number in (0, 2, True, "2")),
        ('{"score": 0.8}', "unreadable", NO_BOOL),
        ('{"score": null}', "null", NO_BOOL),
    ],
)
def test_what_fails_after_one_repair_that_shows_the_error(reply, code, message, judge_server):
    server = judge_server(lambda _: reply)
    [measurement] = judged(server, BERN)
    assert measurement.outcome == Failed(code, message, 2)
    first, second = (received.body["messages"] for received in server.requests)
    assert second[:2] == first
    assert second[2] == {"role": "assistant", "content": json.dumps(json.loads(reply), sort_keys=True)}
    assert second[3] == {
        "role": "user",
        "content": f"This reply cannot be used: {message}. Answer the same question again. "
        "Reply with one JSON object in the format that was asked for, and nothing else.",
    }


# References


def test_of_several_references_the_matching_one_must_be_named(judge_server):
    sample = Sample("1", "a", ["b", "c", "d"], "q")
    [unnamed] = judged(judge_server(lambda _: says("match", "alias")), sample)
    assert unnamed.reason == "inconsistent: reference must be the number of the reference that matched, 1 to 3"


def finds_it(body):
    """An honest judge: an answer that holds a reference matches it."""
    data = data_of(body)
    matching = [reference["number"] for reference in data["references"] if reference["text"] in data["answer"]]
    return says("match", reference=matching[0]) if matching else says("mismatch")


def test_neither_the_order_of_references_nor_that_of_rows_changes_a_value(judge_server):
    server = judge_server(finds_it)
    answers = {"in Bern": "Bern", "in Basel": None, "in Genf": "Genf"}
    for order in itertools.permutations(["Bern", "", "Genf"]):
        rows = list(answers) if order[0] else list(answers)[::-1]
        measurements = judged(server, *[Sample(text, text, order, "Where?") for text in rows])
        assert [measurement.sample_id for measurement in measurements] == rows
        for measurement in measurements:
            city = answers[measurement.sample_id]
            assert measurement.values == {"match": float(city is not None)}
            assert measurement.details["reference"] == (order.index(city) if city else None)


def test_no_judge_is_asked_where_nothing_needs_asking(judge_server):
    server = judge_server(lambda _: "nobody asks")
    samples = [
        Sample("blank", " \u200b", ["x"], "q"),
        Sample("blank references", "x", ["", "\u00a0"], "q"),
        Sample("equal", " ＰＡＲＩＳ ", ["Rome", " ", "paris"], "q"),
    ]
    details = {"verdict": "match", "rule": "formatting", "reference": 2}
    found = judged(server, *samples)
    assert [one.outcome for one in found] == [
        Scored({"match": 0.0}, "blank answer"),
        Undefined("no reference: every reference is missing or blank"),
        Scored({"match": 1.0}, "the answer equals the reference apart from its form", details),
    ]
    judges = JudgeOptions(judges=(f"openai/m@{server.url}",))
    [undefined] = evaluate(samples[:1], ["meaning_match"], judge=judges, blank_answer="undefined")
    assert undefined.outcome == Undefined("blank answer")
    assert server.n_requests == 0
    for one in (*found, undefined):
        assert (one.requests, one.from_ledger, one.usage.tokens_in, one.usage.cost_usd) == ((), False, 0, 0.0)


# Juries and repeats; judges/test_votes.py has every combination of votes.

NO, NONSENSE = says("mismatch"), "I would rather not say."
VOTES = {ALIAS: 1.0, NO: 0.0, NONSENSE: None}


@pytest.mark.parametrize(
    ("jury", "votes", "expected"),
    [
        ("majority", [ALIAS, NONSENSE, ALIAS], (1.0, 0.0)),
        ("majority", [ALIAS, NONSENSE, NO], "missing_votes: 1 of 3 votes are missing; openai/"),
        ("majority", [ALIAS, NO], "tie: 1 of 2 votes are yes"),
        ("unanimous", [NO, NONSENSE, ALIAS], (0.0, 1.0)),
        ("mean", [ALIAS, ALIAS, NO], (2 / 3, 1.0)),
    ],
)
def test_juries(jury, votes, expected, judge_server):
    replies = dict(zip("abc", votes, strict=False))
    server = judge_server(lambda body: replies[body["model"]])
    [measurement] = judged(server, BERN, models=tuple(replies), jury=jury)
    assert server.n_requests == len(votes) + votes.count(NONSENSE)
    if isinstance(expected, str):
        assert measurement.reason.startswith(expected)
        assert measurement.outcome.attempts == server.n_requests
        return
    assert measurement.values == {"match": pytest.approx(expected[0]), "spread": expected[1]}
    assert measurement.reason.startswith(f"{jury} of {len(votes)} votes: ")
    assert (measurement.details["jury"], len(measurement.requests)) == (jury, len(votes))
    rows = measurement.details["votes"]
    assert [row["judge"] for row in rows] == [f"openai/{model}@127.0.0.1:{server.port}/v1" for model in replies]
    assert [row["vote"] for row in rows] == [VOTES[vote] for vote in votes]
    assert [row["reason"].startswith("not_json: ") for row in rows] == [vote == NONSENSE for vote in votes]


def test_usage_is_what_all_calls_of_a_sample_took(judge_server):
    replies = {2: Reply("?", prompt_tokens=100, completion_tokens=5), 4: Reply(ALIAS, "stop", 130, 20)}
    [measurement] = judged(judge_server(lambda body: replies[len(body["messages"])]), BERN)
    assert (measurement.usage.tokens_in, measurement.usage.tokens_out, measurement.usage.cost_usd) == (230, 25, None)
    assert measurement.usage.seconds > 0


# The cascade: the offline matcher decides what it is sure of, if a trial shows that the judge agrees

NAMES = [
    f"{first}{last}{end}"
    for first in ["Bra", "Dro", "Fel", "Gul", "Kor", "Mir", "Nas", "Pol", "Tar", "Vel"]
    for last in ["bin", "dal", "fos", "gar", "hul", "kem", "lan", "mor"]
    for end in ["a", "en", "ia", "os", "ut"]
]
SURE = [Sample(f"s{n}", f"It is {name}.", [name], f"What is the capital of land {n}?") for n, name in enumerate(NAMES)]
UNSURE = [
    Sample(f"u{n}", "It lies on the Seine.", [name], f"What is the capital of land {n}?")
    for n, name in enumerate(NAMES)
]


def cascaded(server, samples, cascade=0.05, **options):
    return judged(server, *samples, cascade=cascade, **options)


def decided_by(found):
    return Counter(entry.details.get("decided_by", entry.status) for entry in found)


def test_what_the_matcher_is_sure_of_is_decided_after_a_trial_in_which_the_judge_agrees(judge_server, caplog):
    server = judge_server(lambda body: says("mismatch") if "Seine" in data_of(body)["answer"] else ALIAS)
    with caplog.at_level(logging.INFO, "answerkey"):
        measurements = cascaded(server, SURE + UNSURE[:5], cascade=0.1)
    n_tried = len(trial_of(SURE, 0.1).drawn)
    assert decided_by(measurements) == {"offline": 400 - n_tried, SAME: n_tried, "judge": 5}
    assert server.n_requests == n_tried + 5
    assert [measurement.values["match"] for measurement in measurements] == [1.0] * 400 + [0.0] * 5
    sure = next(one for one in measurements if one.details["decided_by"] == "offline")
    assert (sure.requests, sure.details["rule"]) == ((), "stated")
    assert (
        f"meaning_match: the cascade decides {400 - n_tried} answers: on 0 of the {n_tried} that were tried, the judge "
        "says otherwise than the offline judge (0.1 of its verdicts may be wrong)"
    ) in caplog.messages


@pytest.mark.nightly
def test_a_cascade_whose_judge_disagrees_too_often_asks_about_all(judge_server, caplog):
    odd = {sample.answer for sample in trial_of(SURE, 0.05).drawn[:3]}
    server = judge_server(lambda body: says("mismatch") if data_of(body)["answer"] in odd else ALIAS)
    found = cascaded(server, SURE)
    assert server.n_requests == 400
    assert decided_by(found) == {SAME: 133, OTHER: 3, "judge": 264}
    assert (
        "meaning_match: the cascade decides nothing, and the judge is asked about all: on 3 of the 136" in caplog.text
    )


def test_where_there_is_nothing_to_try_the_judge_is_asked(judge_server, caplog):
    server = judge_server(lambda _: ALIAS)
    assert decided_by(cascaded(server, SURE[:2])) == {"judge": 2}
    assert "The 2 answers that the offline judge is sure of are too few to show that at most 0.05" in caplog.text


def test_a_trial_is_paid_once_however_many_shards_there_are(judge_server, tmp_path):
    server = judge_server(lambda _: ALIAS)
    metric = options(server, cascade=0.2, ledger=str(tmp_path)).metric(MeaningMatch).with_trial(SURE)

    shards = [metric.measure(SURE[at : at + 100]) for at in range(0, 400, 100)]

    n_tried = len(trial_of(SURE, 0.2).drawn)
    assert decided_by(itertools.chain(*shards)) == {"offline": 400 - n_tried, SAME: n_tried}
    assert server.n_requests == n_tried > 10


@pytest.mark.nightly
def test_a_jury_behind_the_matcher_has_a_spread_and_the_matcher_has_none(judge_server):
    server = judge_server(lambda _: ALIAS)
    found = cascaded(server, SURE, repeats=3)
    assert {tuple(entry.values.items()) for entry in found} == {(("match", 1.0), ("spread", 0.0))}
    assert server.n_requests == 3 * 136


def test_a_judge_that_is_down_is_no_judge_of_the_matcher(judge_server):
    server = judge_server(lambda _: NO, faults=lambda _number, _body: "unauthorized")
    assert decided_by(cascaded(server, SURE)) == {"failed": 400}


# Signatures


def test_declining_is_right_where_the_question_cannot_be_answered(judge_server):
    references = [UNANSWERABLE, "unanswerable"]
    texts = ["I don't know.", "The passage does not say.", "unanswerable", "Paris", "I don't know, but Paris may be it"]
    samples = [Sample(str(n), text, references, "Which city is it?") for n, text in enumerate(texts)]
    offline = create(["meaning_match"])[0].measure(samples)
    assert [one.values["match"] for one in offline] == [1, 1, 1, 0, 0]
    # Of what may be an answer the judge decides, and nothing else is sent to it.
    server = judge_server(lambda _: says("mismatch"))
    judged(server, *samples)
    assert sorted(data_of(request.body)["answer"] for request in server.requests) == sorted(texts[3:])
