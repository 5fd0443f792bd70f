"""Judges are tested before they are believed: with probes whose verdict is known, before the rows and between them."""

import logging
import random
import re
from collections import Counter
from dataclasses import replace

import pytest

from answerkey.metrics_core import Sample, Skipped
from answerkey.metrics_core.judges.estimate import estimate_cost
from answerkey.metrics_core.judges.probes import bars_of, draw_of, failed_bar, known_answers
from answerkey.metrics_core.judges.row_probes import generated
from answerkey.metrics_core.metric import identical_reference
from answerkey.metrics_core.metrics.ground_truth_similarity import GroundTruthSimilarity
from answerkey.metrics_core.metrics.meaning_match import MeaningMatch
from tests.judge_brains import garbage
from tests.judge_server import agreeable, data_of
from tests.metrics_core.judges.asking import always, ask, count, failure, match, mismatch, options, samples, setup

SHIPPED = {name: tuple(known_answers(name)) for name in ("meaning_match", "ground_truth_similarity")}
VERDICTS = {probe.sample.answer: probe.most == 1.0 for probes in SHIPPED.values() for probe in probes}
ROWS = samples(120)


def first(rows, metric=MeaningMatch):
    """The probes that come before these rows."""
    return metric(judge=setup("openai/any", probes="always").judge).of_run(rows, len(rows)).run_probes


def n_between(rows):
    """Probes that follow on some of these rows."""
    return sum(draw_of(row) > 0 for row in rows)


N_FIRST = len(first(ROWS))
N_ALL = len(ROWS) + N_FIRST + n_between(ROWS)


def truth(body):
    """Whether the answer of a probe is right; None: it is no probe, but a row of `samples`."""
    data = data_of(body)
    answer = data.get("answer", "")
    if not answer or answer.startswith("answer "):
        return None
    [reference] = data["references"]
    text = reference["text"] if "text" in reference else reference["facts"][0]["fact"]
    return VERDICTS.get(answer, text in answer and not answer.startswith("It is not "))


def judge(wrong_on=(), silent_on=lambda _body: False):
    """A judge that is right about every probe but these shipped ones, and says yes to the rows."""
    wrong = [probe.sample.answer for name in wrong_on for probe in SHIPPED["meaning_match"] if probe.name == name]

    def brain(body):
        right = truth(body)
        if right is not None and silent_on(body):
            return "I would rather not say."
        return match(body) if right is None or right != (data_of(body)["answer"] in wrong) else mismatch(body)

    return brain


knowing = judge()


def probed(server, **changes):
    return options(server, **{"probes": "auto", **changes})


def statuses(found):
    return Counter(one.status for one in found)


def only_reason(found):
    """The one reason of all rows that were skipped."""
    [reason] = {one.reason for one in found if one.status == "skipped"}
    return reason


@pytest.mark.parametrize("metric", [MeaningMatch, GroundTruthSimilarity])
def test_a_judge_of_one_opinion_is_right_about_half_of_the_probes(metric):
    shipped = SHIPPED[metric.name]
    assert len({probe.name for probe in shipped}) == len(shipped) == 6
    assert [probe.passed_by(1.0) for probe in shipped].count(True) == 3
    probes = first(ROWS, metric)
    assert probes[:6] == shipped and [probe.passed_by(1.0) for probe in probes].count(True) == len(probes) // 2
    assert all(probe.passed_by(1.0) != probe.passed_by(0.0) for probe in probes)
    # None is decided without a judge, and each costs one call.
    assert [probe.name for probe in probes if identical_reference(probe.sample) is not None] == []
    assert metric is MeaningMatch or all(probe.sample.facts for probe in probes)


def test_an_answer_that_may_be_right_is_no_probe():
    """Two names of one thing, two numbers, a last name that is a reference, a number in brackets, a denied no."""
    references = {
        "Which country lost?": ["USA"], "Where did the flight land?": ["the States"],
        "What is the sum?": ["3 apples"], "How much is left?": ["12 pears"],
        "Who sings on it?": ["Annette Strean", "Strean"], "Whose is the boat?": ["Marta Lindqvist"],
        "Who won most often?": ["Jack Nicklaus (6)"], "Is it open?": ["No"],
    }  # fmt: skip
    rows = [Sample(question, "x", texts, question) for question, texts in references.items()]
    wrong = [probe.sample for probe in generated(rows, 300) if probe.most == 0.0]
    never = {
        "Who sings on it?": "Strean", "Who won most often?": "Nicklaus (", "Is it open?": "not No",
        "Which country lost?": "States", "Where did the flight land?": "USA", "What is the sum?": "12",
    }  # fmt: skip
    assert len(wrong) > len(rows)
    for sample in wrong:
        denied = sample.answer == f"It is not {sample.references[0]}."
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
    ("rows", "runs"), [(samples(10), 8_000), (ROWS, 8_000), (samples(300), 8_000), (THREE_SCRIPTS, 2_000)]
)
def test_a_judge_that_is_right_on_95_percent_is_hardly_ever_stopped(rows, runs):
    probes, chance = first(rows), random.Random(5)
    bars = bars_of(probes)
    assert len(bars) == (8 if rows is THREE_SCRIPTS else 2)
    verdicts = ([(probe, chance.random() >= 0.05) for probe in probes] for _ in range(runs))
    assert sum(failed_bar(bars, answered) is not None for answered in verdicts) <= 0.02 * runs


def test_judges_that_are_wrong_in_one_script_or_know_the_shipped_probes_are_stopped(judge_server):
    known = {(probe.sample.question, probe.sample.answer): probe.most == 1.0 for probe in first(THREE_SCRIPTS)}
    brains = garbage(lambda question, answer: known.get((question, answer), True), set(VERDICTS))
    stopped = {
        name: set(statuses(ask(THREE_SCRIPTS, probed(judge_server(brains[name]))))) == {"skipped"}
        for name in ("yes to all but Latin", "knows the shipped probes", "right on 95 %")
    }
    assert stopped == {name: name != "right on 95 %" for name in stopped}


# Before the first row


def test_probes_come_before_the_rows_and_a_second_run_pays_nothing(judge_server, tmp_path):
    assert len(first(samples(300))) == 6 + 46, "the most"
    server = judge_server(knowing)
    options = probed(server, ledger=str(tmp_path))
    found = ask(ROWS, options)
    assert {one.values["match"] for one in found} == {1.0}
    asked = [data_of(request.body)["answer"] for request in server.requests[:N_FIRST]]
    assert sorted(asked) == sorted(probe.sample.answer for probe in first(ROWS))
    assert server.n_requests == N_ALL
    assert [one.outcome for one in ask(ROWS, options)] == [one.outcome for one in found]
    assert server.n_requests == N_ALL
    # The answers of another release are judged after the same probes.
    answers = [replace(row, answer=f"answer {1_000 + n}") for n, row in enumerate(ROWS)]
    assert statuses(ask(answers, options)) == {"scored": 120}
    assert server.n_requests == N_ALL + len(answers) + n_between(answers)


@pytest.mark.parametrize("metric", [MeaningMatch, GroundTruthSimilarity])
def test_a_judge_that_agrees_to_everything_gives_no_number(metric, judge_server, caplog):
    server, rows = judge_server(agreeable), samples(10)
    asked = probed(server)
    with caplog.at_level(logging.WARNING, "answerkey"):
        found = ask(rows, asked, metric.name)
    assert (statuses(found), server.n_requests) == ({"skipped": 10}, len(first(rows, metric)))
    reason = only_reason(found)
    assert reason.startswith(f"judge stopped: {asked.judge.labels[0]} was right on 0 of 9 probes whose ")
    assert " is known to be 0" in reason
    assert "an order to the judge" in reason and "another number" in reason and "the reference, denied" in reason
    [warning] = [record.message for record in caplog.records if "judge stopped" in record.message]
    assert "question: " in warning
    assert "an order to the judge: " in warning
    assert warning.count(", known to be 0") == 9


NO = ("reversed roles", "two alternatives", "an order to the judge")


@pytest.mark.parametrize(
    ("brain", "reason"),
    [
        (judge(wrong_on=NO[:2]), None),
        (judge(wrong_on=NO), "was right on 6 of 9 probes whose match is known to be 0; wrong on: reversed roles, "),
        # What cannot be read is no disagreement, unless that is nearly all.
        (judge(silent_on=lambda body: data_of(body)["answer"] not in VERDICTS), None),
        (judge(silent_on=lambda body: not VERDICTS.get(data_of(body)["answer"])), "gave no verdict on 15 of 18 probes"),
    ],
)
def test_two_wrong_of_nine_are_forgiven_and_so_are_twelve_without_a_verdict(brain, reason, judge_server):
    found = ask(samples(15), probed(judge_server(brain)))
    assert statuses(found) == {"scored" if reason is None else "skipped": 15}
    assert reason is None or reason in only_reason(found)


def test_a_stopped_judge_is_stopped_again_for_nothing_and_goes_on_without_probes(judge_server, tmp_path):
    server = judge_server(match)

    def run(probes):
        return statuses(ask(ROWS, probed(server, model="openai/stopped", ledger=str(tmp_path), probes=probes)))

    assert [run("auto"), run("auto"), server.n_requests] == [{"skipped": 120}, {"skipped": 120}, N_FIRST]
    assert (run("never"), server.n_requests) == ({"scored": 120}, N_FIRST + 120)
    # What the ledger has needs no probes.
    assert (run("auto"), server.n_requests) == ({"scored": 120}, N_FIRST + 120)


def test_where_the_probes_do_not_reach_the_judge_the_rows_say_why(judge_server):
    server = judge_server(knowing, faults=always("unauthorized"))
    found = ask(samples(10), probed(server))
    assert {failure(one).code for one in found} == {"http_401"}


# Who pays


@pytest.mark.parametrize(
    ("rows", "changes", "n"),
    [
        (9, {}, 0), (10, {}, 6 + 12), (1, {"probes": "always"}, 6), (60, {"probes": "never"}, 0),
        # Repeats do not multiply them.
        (10, {"repeats": 3}, 6 + 12),
    ],
)  # fmt: skip
def test_small_runs_are_not_probed_unless_asked(rows, changes, n, judge_server):
    server = judge_server(knowing)
    ask(samples(rows), probed(server, **changes))
    between = n_between(samples(rows)) if n else 0
    assert server.n_requests == rows * changes.get("repeats", 1) + n + between


def test_probes_count_as_calls_of_the_budget(judge_server, tmp_path):
    server = judge_server(knowing)
    found = ask(ROWS, probed(server, ledger=str(tmp_path), max_calls=N_FIRST + 8))
    assert server.n_requests == count(tmp_path) == N_FIRST + 8
    assert statuses(found) == {"scored": 8, "skipped": 112}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("names", "fallbacks"),
    [
        (("one", "two"), ()),
        # Judges that may stand in are probed too.
        (("one",), ("stand-in",)),
    ],
)
def test_an_estimate_counts_them(names, fallbacks, judge_server, tmp_path):
    server = judge_server(knowing)
    asked = probed(server, ledger=str(tmp_path))
    of_server = {
        kind: tuple(f"openai/{name}@{server.url}" for name in named)
        for kind, named in (("judges", names), ("fallbacks", fallbacks))
    }
    one = MeaningMatch(judge=asked.judge.model_copy(update=of_server), access=asked.access)
    foreseen = estimate_cost(one, ROWS)
    assert foreseen.probes == 2 * (N_FIRST + n_between(ROWS))
    assert statuses(one.measure(ROWS)) == {"scored": 120}
    assert server.n_requests == foreseen.calls
    again = estimate_cost(one, ROWS)
    assert (again.calls, again.probes) == (0, 0)


# Between the rows


@pytest.mark.nightly
def test_a_judge_that_fails_on_the_way_is_stopped(judge_server):
    """It is right as long as it has seen fewer than 80 requests."""
    rows = samples(1_500)
    server = judge_server(lambda body: knowing(body) if server.n_requests < 80 else match(body))
    found = ask(rows, probed(server, concurrency=4))
    assert "of the last 12 probes" in only_reason(found)
    asked, n_first = sum(truth(request.body) is not None for request in server.requests), len(first(rows))
    assert n_first + 6 <= asked < n_first + n_between(rows)
    assert all(isinstance(one.outcome, Skipped) or one.values for one in found)


@pytest.mark.nightly
def test_a_judge_that_answered_few_of_the_first_is_weighed_after_each_that_follows(judge_server):
    """Its server refuses all but the shipped ones of the first probes; whatever follows, it says yes."""
    rows = samples(1_500)
    n_first = len(first(rows))

    def refused(number, body):
        return "content_filter" if number < n_first and data_of(body)["answer"] not in VERDICTS else None

    server = judge_server(lambda body: knowing(body) if server.n_requests <= n_first else match(body), faults=refused)
    found = ask(rows, probed(server, concurrency=1))
    asked = sum(truth(request.body) is not None for request in server.requests)
    assert n_first < asked < n_first + n_between(rows)
    assert re.search(r"was right on 3 of [56] probes whose match is known to be 0|of the last 12", only_reason(found))


def test_each_judge_of_a_jury_is_probed_and_one_that_fails_ends_it(judge_server):
    server = judge_server(lambda body: match(body) if body["model"] == "careless" else knowing(body))
    asked = probed(server)
    judges = ("careful", "careless", "thorough")
    urls = tuple(f"openai/{name}@{server.url}" for name in judges)
    found = ask(samples(10), asked._replace(judge=asked.judge.model_copy(update={"judges": urls})))
    assert statuses(found) == {"skipped": 10}
    assert Counter(request.body["model"] for request in server.requests) == dict.fromkeys(judges, 18)
    assert "openai/careless@" in only_reason(found)
