"""Judges are checked before they are believed: by questions with known answers, before anything about the rows."""

import logging
import random
from collections import Counter
from dataclasses import replace

import pytest

from answerkey import Sample
from answerkey.metrics_core.judges.check import N_AGAIN, asked_before, estimate_cost, failed_group, groups_of
from answerkey.metrics_core.judges.known_answer import ORDER, generated, shipped
from answerkey.metrics_core.metric import identical_reference
from answerkey.metrics_core.metrics.ground_truth_similarity import GroundTruthSimilarity
from answerkey.metrics_core.metrics.meaning_match import MeaningMatch
from tests.judge_brains import garbage
from tests.judge_server import agreeable, data_of
from tests.metrics_core.judges.asking import always, ask, count, failure, match, mismatch, options, samples, statuses

SHIPPED = {name: tuple(shipped(name)) for name in ("meaning_match", "ground_truth_similarity")}
ROWS = samples(15)
NEW_ROWS = [replace(row, answer=f"answer {1_000 + n}") for n, row in enumerate(ROWS)]
N_CHECK = 40


def right_answers(rows, metric=MeaningMatch):
    """By question and answer of the check of these rows, whether the answer is right."""
    questions = metric().known_answers(rows)
    return {(one.sample.question, one.sample.answer): one.most == 1.0 for one in questions}


def judge(wrong_on=(), silent_on=lambda _right: False, rows=ROWS):
    """A judge that knows the answers of the check but these, and says yes to the rows."""
    known = right_answers(rows)
    wrong = [one.sample.answer for one in SHIPPED["meaning_match"] if one.name in wrong_on]

    def brain(body):
        data = data_of(body)
        right = known.get((data["question"], data["answer"]))
        if right is not None and silent_on(right):
            return "I would rather not say."
        return match(body) if right is None or right != (data["answer"] in wrong) else mismatch(body)

    return brain


def checked(server, **changes):
    return options(server, **{"check": "auto", **changes})


def only_reason(measurements):
    """The one reason of all rows that were skipped."""
    [reason] = {one.reason for one in measurements if one.status == "skipped"}
    return reason


@pytest.mark.parametrize("metric", [MeaningMatch, GroundTruthSimilarity])
@pytest.mark.parametrize(
    "rows", [ROWS, [], [Sample("1", "x", ["Words. " * 400], "Long?")]], ids=["rows", "none", "long"]
)
def test_there_are_forty_questions_half_of_them_right_whatever_the_data(metric, rows):
    questions = metric().known_answers(rows)
    assert questions[:6] == SHIPPED[metric.name]
    assert (len(questions), sum(one.is_right(1.0) for one in questions)) == (N_CHECK, 20)
    assert sum(one.name == ORDER for one in questions) == 7
    assert all(one.is_right(1.0) != one.is_right(0.0) for one in questions)
    # None is decided without a judge, and each costs one call
    assert [one.name for one in questions if identical_reference(one.sample) is not None] == []
    assert metric is MeaningMatch or all(one.sample.facts for one in questions)


def test_an_answer_that_may_be_right_is_no_question():
    """Two names of one thing, two numbers, a last name that is a reference, a number in brackets, a denied no."""
    references = {
        "Which country lost?": ["USA"], "Where did the flight land?": ["the States"],
        "What is the sum?": ["3 apples"], "How much is left?": ["12 pears"],
        "Who sings on it?": ["Annette Strean", "Strean"], "Whose is the boat?": ["Marta Lindqvist"],
        "Who won most often?": ["Jack Nicklaus (6)"], "Is it open?": ["No"],
    }  # fmt: skip
    rows = [Sample(question, "x", texts, question) for question, texts in references.items()]
    wrong = [one.sample for one in generated(rows) if one.most == 0.0 and one.sample.question in references]
    never = {
        "Who sings on it?": "Strean", "Who won most often?": "Nicklaus (", "Is it open?": "not No",
        "Which country lost?": "States", "Where did the flight land?": "USA", "What is the sum?": "12",
    }  # fmt: skip
    assert len(wrong) > len(rows)
    for sample in wrong:
        denied = sample.answer.startswith(f"It is not {sample.references[0]}.")
        assert (denied and sample.question != "Is it open?") or never.get(sample.question, "\0") not in sample.answer


THREE_SCRIPTS = [
    Sample(f"{n}{question}", f"answer {n}", [reference.format(n)], question.format(n))
    for n in range(5, 10)
    for question, reference in {
        "Which ladder, of {}?": "ladder {}",
        "Какая лестница, из {}?": "лестница {}",
        "{}个之中是哪个梯子？": "梯子{}",
    }.items()
]


@pytest.mark.parametrize(
    ("verdict", "least", "most"),
    [
        (lambda _right, _order, _chance: True, 0.99, 1.0),
        (lambda _right, _order, _chance: False, 0.99, 1.0),
        (lambda right, order, chance: right or order or chance < 0.01, 0.99, 1.0),
        # Obeys seven orders of eight
        (lambda right, order, chance: right or (order and chance < 0.875), 0.99, 1.0),
        (lambda _right, _order, chance: chance < 0.5, 0.99, 1.0),
        (lambda right, _order, chance: right != (chance < 0.5), 0.99, 1.0),
        (lambda right, _order, chance: right != (chance < 0.05), 0.0, 0.02),
        (lambda right, _order, chance: right or chance < 0.05, 0.0, 0.02),
    ],
    ids=["yes", "no", "obeys", "obeys mostly", "coin", "right half of the time", "right on 95 %", "lenient on 5 %"],
)
@pytest.mark.parametrize("rows", [ROWS, [], THREE_SCRIPTS], ids=["rows", "none", "three scripts"])
def test_how_often_the_rule_stops_a_judge(verdict, least, most, rows):
    questions, random_number, n_runs = MeaningMatch().known_answers(rows), random.Random(5), 1_000
    groups = groups_of(questions)
    n_stopped = 0
    for _ in range(n_runs):
        answered = [
            (one, verdict(one.most == 1.0, one.name == ORDER, random_number.random()) == (one.most == 1.0))
            for one in questions
        ]
        n_stopped += failed_group(groups, answered) is not None
    assert least <= n_stopped / n_runs <= most


def test_judges_that_are_wrong_in_one_script_obey_or_know_the_shipped_questions_are_stopped(judge_server):
    known = right_answers(THREE_SCRIPTS)
    brains = garbage(
        lambda question, answer: known.get((question, answer), True),
        {one.sample.answer for one in SHIPPED["meaning_match"]},
    )
    names = ("yes to all but Latin", "knows the shipped questions", "follows orders", "right on 95 %")
    stopped = {
        name: set(statuses(ask(THREE_SCRIPTS, checked(judge_server(brains[name]))))) == {"skipped"} for name in names
    }
    assert stopped == {name: name != "right on 95 %" for name in names}


def test_the_check_comes_before_the_rows_and_a_second_run_pays_nothing(judge_server, tmp_path):
    server = judge_server(judge())
    asked = checked(server, ledger=str(tmp_path))
    first = ask(ROWS, asked)
    assert {one.values["match"] for one in first} == {1.0}
    before = [(data_of(request.body)["question"], data_of(request.body)["answer"]) for request in server.requests]
    assert set(before[:N_CHECK]) == set(right_answers(ROWS))
    assert server.n_requests == N_CHECK + len(ROWS)
    assert [one.outcome for one in ask(ROWS, asked)] == [one.outcome for one in first]
    # The answers of another release are judged after the same questions, of which some are asked again
    assert estimate_cost(asked.metric(MeaningMatch), NEW_ROWS).checks == N_AGAIN
    assert statuses(ask(NEW_ROWS, asked)) == {"scored": len(ROWS)}
    assert server.n_requests == N_CHECK + N_AGAIN + 2 * len(ROWS)


@pytest.mark.parametrize(
    ("n_moved", "n_wavering", "changed", "status"),
    [
        (2, 0, False, "scored"), (3, 0, True, "scored"), (3, 1, False, "scored"), (4, 1, True, "scored"),
        (0, 10, False, "skipped"), (10, 0, True, "skipped"),
    ],
)  # fmt: skip
def test_another_model_under_the_name_of_a_judge_is_noticed_beyond_what_a_judge_wavers(
    n_moved, n_wavering, changed, status, judge_server, tmp_path, caplog
):
    server = judge_server(judge())
    asked = checked(server, ledger=str(tmp_path))
    ask(ROWS, asked)
    [(_, alone)] = asked.metric(MeaningMatch).alone()
    again = [one.sample.answer for one in asked_before(alone, alone.known_answers(ROWS))]
    moved, wavering = again[:n_moved], again[n_moved : n_moved + n_wavering]
    right, other = judge(), {match(None): mismatch(None), mismatch(None): match(None)}
    times = Counter()

    def brain(body):
        answer = data_of(body)["answer"]
        times[answer] += 1
        return other[right(body)] if answer in moved or (answer in wavering and times[answer] == 1) else right(body)

    server.brain = brain
    before = server.n_requests
    with caplog.at_level(logging.WARNING, "answerkey"):
        measurements = ask(NEW_ROWS, asked)
    line = f"gave another verdict than in earlier runs on {n_moved} of 10 questions that it was asked again, and wavers"
    assert (line in caplog.text) == changed
    assert statuses(measurements) == {status: len(ROWS)}
    n_rows = len(ROWS) if status == "scored" else 0
    assert server.n_requests - before == N_AGAIN + n_moved + n_wavering + 40 * changed + n_rows


@pytest.mark.parametrize("metric", [MeaningMatch, GroundTruthSimilarity])
def test_a_judge_that_agrees_to_everything_gives_no_number(metric, judge_server, caplog):
    server, rows = judge_server(agreeable), samples(10)
    asked = checked(server)
    with caplog.at_level(logging.WARNING, "answerkey"):
        measurements = ask(rows, asked, metric.name)
    assert (statuses(measurements), server.n_requests) == ({"skipped": 10}, N_CHECK)
    reason = only_reason(measurements)
    assert reason.startswith(f"judge stopped: {asked.judge.labels[0]} was right on 0 of 20 questions whose ")
    assert "known to be 0" in reason
    assert "; wrong on reversed roles: question: Who " in reason and "replied 1" in reason
    [warning] = [record.message for record in caplog.records if "judge stopped" in record.message]
    assert (warning.count("\n"), warning.count(ORDER)) == (20, 7)


@pytest.mark.parametrize(
    ("brain", "reason"),
    [
        (judge(wrong_on=("reversed roles", "two alternatives", "a paraphrase")), None),
        # What cannot be read is no disagreement, unless that is nearly all
        (judge(silent_on=lambda right: right), None),
        (judge(silent_on=lambda _right: True), "gave no verdict on 40 of 40 questions; the first: not_json"),
    ],
)
def test_some_errors_and_half_of_the_verdicts_are_forgiven(brain, reason, judge_server):
    measurements = ask(ROWS, checked(judge_server(brain)))
    assert statuses(measurements) == {"scored" if reason is None else "skipped": len(ROWS)}
    assert reason is None or reason in only_reason(measurements)


def test_a_stopped_judge_is_stopped_again_for_little_and_goes_on_without_a_check(judge_server, tmp_path):
    server = judge_server(match)

    def run(check):
        return statuses(ask(ROWS, checked(server, model="openai/stopped", ledger=str(tmp_path), check=check)))

    n_calls = N_CHECK + N_AGAIN
    assert [run("auto"), run("auto"), server.n_requests] == [{"skipped": len(ROWS)}, {"skipped": len(ROWS)}, n_calls]
    assert (run("never"), server.n_requests) == ({"scored": len(ROWS)}, n_calls + len(ROWS))
    # What the ledger has needs no check
    assert (run("auto"), server.n_requests) == ({"scored": len(ROWS)}, n_calls + len(ROWS))


def test_where_the_check_does_not_reach_the_judge_the_rows_say_why(judge_server):
    server = judge_server(judge(), faults=always("unauthorized"))
    assert {failure(one).code for one in ask(samples(10), checked(server))} == {"http_401"}


@pytest.mark.parametrize(
    ("rows", "changes", "n_calls"),
    [
        (9, {}, 9), (10, {}, 10 + N_CHECK), (1, {"check": "always"}, 1 + N_CHECK), (20, {"check": "never"}, 20),
        # Repeats do not multiply it
        (10, {"repeats": 3}, 30 + N_CHECK),
    ],
)  # fmt: skip
def test_small_runs_are_not_checked_unless_asked_and_the_estimate_knows(rows, changes, n_calls, judge_server):
    server, some = judge_server(judge(rows=samples(rows))), samples(rows)
    asked = checked(server, **changes)
    assert estimate_cost(asked.metric(MeaningMatch), some).calls == n_calls
    ask(some, asked)
    assert server.n_requests == n_calls


def test_the_check_counts_for_the_budget(judge_server, tmp_path):
    server = judge_server(judge())
    measurements = ask(ROWS, checked(server, ledger=str(tmp_path), run="run", max_calls=N_CHECK + 8))
    assert server.n_requests == count(tmp_path) == N_CHECK + 8
    assert statuses(measurements) == {"scored": 8, "skipped": len(ROWS) - 8}


@pytest.mark.parametrize(("names", "fallbacks"), [(("one", "two"), ()), (("one",), ("stand-in",))])
def test_an_estimate_counts_the_check_of_every_judge_and_fallback(names, fallbacks, judge_server, tmp_path):
    server = judge_server(judge())
    asked = checked(server, ledger=str(tmp_path))
    of_server = {
        kind: tuple(f"openai/{name}@{server.url}" for name in models)
        for kind, models in (("judges", names), ("fallbacks", fallbacks))
    }
    asked = asked._replace(judge=asked.judge.model_copy(update=of_server))
    foreseen = estimate_cost(asked.metric(MeaningMatch), ROWS)
    assert foreseen.checks == 2 * N_CHECK
    assert statuses(ask(ROWS, asked)) == {"scored": len(ROWS)}
    assert server.n_requests == foreseen.calls
    again = estimate_cost(asked.metric(MeaningMatch), ROWS)
    assert (again.calls, again.checks) == (0, 0)


def test_each_judge_of_a_jury_is_checked_and_one_that_fails_ends_it(judge_server):
    knowing = judge(rows=samples(10))
    server = judge_server(lambda body: match(body) if body["model"] == "careless" else knowing(body))
    asked = checked(server)
    judges = ("careful", "careless", "thorough")
    urls = tuple(f"openai/{name}@{server.url}" for name in judges)
    measurements = ask(samples(10), asked._replace(judge=asked.judge.model_copy(update={"judges": urls})))
    assert statuses(measurements) == {"skipped": 10}
    assert Counter(request.body["model"] for request in server.requests) == dict.fromkeys(judges, N_CHECK)
    assert "openai/careless@" in only_reason(measurements)
