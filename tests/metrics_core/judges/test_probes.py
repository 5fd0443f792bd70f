"""Judges are tested before they are believed: with probes whose verdict is known, before the rows and between them."""

import json
import logging
from collections import Counter
from collections.abc import Callable

import pytest

from answerkey.metrics_core import Skipped, evaluate
from answerkey.metrics_core.judges.estimate import estimate_cost
from answerkey.metrics_core.judges.probes import draw_of, known_answers
from answerkey.metrics_core.metric import identical_reference
from answerkey.metrics_core.metrics.ground_truth_similarity import GroundTruthSimilarity
from answerkey.metrics_core.metrics.meaning_match import MeaningMatch
from tests.judge_server import JudgeServer, agreeable, data_of
from tests.metrics_core.judges.asking import always, count, failure, match, options, samples

Serve = Callable[..., JudgeServer]

MEANINGS, FACTS = (tuple(known_answers(name)) for name in ("meaning_match", "ground_truth_similarity"))
KNOWN = {probe.sample.answer: probe for probe in (*MEANINGS, *FACTS)}
ROWS = samples(120)
N_BETWEEN = sum(draw_of(sample) > 0 for sample in ROWS)


def probe_of(body):
    """The probe that a request is about."""
    return KNOWN.get(data_of(body).get("answer"))


def mismatch(_body):
    """The judge says no."""
    return '{"reason": "another", "reference": null, "rule": "factual_equivalence", "verdict": "mismatch"}'


def knowing(body):
    """A judge that is right about every probe of meaning match, and says yes to the rest."""
    probe = probe_of(body)
    return match(body) if probe is None or probe.least else mismatch(body)


def wrong_on(*names):
    """A judge that is right about every probe but these."""

    def brain(body):
        probe = probe_of(body)
        if probe is not None and probe.name in names:
            return mismatch(body) if probe.least else match(body)
        return knowing(body)

    return brain


def probed(server, **changes):
    return options(server, **{"probes": "auto", **changes})


def ask(some, asked):
    return evaluate(some, ["meaning_match"], judge=asked.judge, access=asked.access)


def asked_about_probes(server):
    """The names of the probes, in the order of the requests."""
    return [probe.name for request in server.requests if (probe := probe_of(request.body))]


# The probes


@pytest.mark.parametrize("probes", [MEANINGS, FACTS])
def test_there_are_twelve_and_a_judge_of_one_opinion_is_right_about_half(probes):
    assert len({probe.name for probe in probes}) == len(probes) == 12
    assert Counter(probe.passed_by(1.0) for probe in probes) == Counter(probe.passed_by(0.0) for probe in probes)
    assert all(probe.passed_by(1.0) != probe.passed_by(0.0) for probe in probes)


def test_none_is_decided_without_a_judge():
    assert [probe.name for probe in (*MEANINGS, *FACTS) if identical_reference(probe.sample) is not None] == []


def test_facts_are_given_so_that_each_costs_one_call():
    assert all(probe.sample.facts for probe in FACTS)


# Before the first row


def test_probes_come_before_the_rows_and_a_second_run_pays_nothing(judge_server, tmp_path):
    server = judge_server(knowing)
    asked = probed(server, ledger=str(tmp_path))
    found = ask(ROWS, asked)
    assert {one.values["match"] for one in found} == {1.0}
    first = [probe_of(request.body) for request in server.requests[:12]]
    assert {probe.name for probe in first if probe} == {probe.name for probe in MEANINGS}
    assert server.n_requests == len(ROWS) + 12 + N_BETWEEN
    again = ask(ROWS, asked)
    assert server.n_requests == len(ROWS) + 12 + N_BETWEEN
    assert [one.outcome for one in again] == [one.outcome for one in found]


@pytest.mark.parametrize("metric", ["meaning_match", "ground_truth_similarity"])
def test_a_judge_that_agrees_to_everything_gives_no_number(metric, judge_server, caplog):
    server = judge_server(agreeable)
    asked = probed(server)
    with caplog.at_level(logging.WARNING, "answerkey"):
        found = evaluate(ROWS, [metric], judge=asked.judge, access=asked.access)
    assert {one.status for one in found} == {"skipped"}
    assert server.n_requests == 12
    [reason] = {one.reason for one in found}
    assert reason is not None
    assert reason.startswith(f"judge stopped: {asked.judge.labels[0]} was right on ")
    assert "of 12 probes, less than 80%; wrong on: " in reason
    assert "another person" in reason and "an order to the judge" in reason
    [warning] = [record.message for record in caplog.records if "judge stopped" in record.message]
    assert "question: " in warning and "an order to the judge: " in warning
    assert warning.count("known to be") == reason.partition("wrong on: ")[2].count(", ") + 1 - warning.count("French")


@pytest.mark.parametrize(("wrong", "status"), [(2, "scored"), (3, "skipped")])
def test_two_wrong_of_twelve_are_forgiven(wrong, status, judge_server):
    server = judge_server(wrong_on(*(probe.name for probe in MEANINGS[:wrong])))
    assert {one.status for one in ask(samples(50), probed(server))} == {status}


def test_a_stopped_judge_is_stopped_again_for_nothing_and_goes_on_without_probes(judge_server, tmp_path):
    server = judge_server(match)
    asked = probed(server, model="openai/stopped", ledger=str(tmp_path))
    assert {one.status for one in ask(ROWS, asked)} == {"skipped"}
    assert {one.status for one in ask(ROWS, asked)} == {"skipped"}
    assert server.n_requests == 12
    without = probed(server, model="openai/stopped", ledger=str(tmp_path), probes="never")
    assert {one.status for one in ask(ROWS, without)} == {"scored"}
    assert server.n_requests == 12 + len(ROWS)


def test_what_the_ledger_has_needs_no_probes(judge_server, tmp_path):
    server = judge_server(match)
    ask(ROWS, probed(server, model="openai/known", ledger=str(tmp_path), probes="never"))
    found = ask(ROWS, probed(server, model="openai/known", ledger=str(tmp_path)))
    assert {one.status for one in found} == {"scored"}
    assert server.n_requests == len(ROWS)


def silent_on(*names):
    """A judge that is right about every probe but these, of which it says nothing that can be read."""

    def brain(body):
        probe = probe_of(body)
        return "I would rather not say." if probe is not None and probe.name in names else knowing(body)

    return brain


def test_probes_that_fail_by_error_are_no_disagreement(judge_server):
    found = ask(samples(50), probed(judge_server(silent_on(*(probe.name for probe in MEANINGS[:9])))))
    assert {one.status for one in found} == {"scored"}


def test_a_judge_that_says_nothing_that_can_be_read_is_stopped(judge_server):
    server = judge_server(silent_on(*(probe.name for probe in MEANINGS[:10])))
    found = ask(samples(50), probed(server))
    assert {one.status for one in found} == {"skipped"}
    # Each was asked once more, to repair it.
    assert server.n_requests == 2 + 2 * 10
    [reason] = {one.reason for one in found}
    assert reason is not None and "gave no verdict on 10 of 12 probes; the first: not_json: " in reason


def test_where_the_probes_do_not_reach_the_judge_the_rows_say_why(judge_server):
    server = judge_server(knowing, faults=always("unauthorized"))
    found = ask(samples(50), probed(server))
    without = ask(samples(50), probed(server, probes="never"))
    assert {(one.status, failure(one).code) for one in found} == {("failed", failure(without[0]).code)}


# Who pays


@pytest.mark.parametrize(
    ("rows", "probes", "n"), [(49, "auto", 0), (50, "auto", 12), (1, "always", 12), (60, "never", 0)]
)
def test_small_runs_are_not_probed_unless_asked(rows, probes, n, judge_server):
    server = judge_server(knowing)
    ask(samples(rows), probed(server, probes=probes))
    between = sum(draw_of(sample) > 0 for sample in samples(rows)) if n else 0
    assert server.n_requests == rows + n + between


def test_probes_count_as_calls_of_the_budget(judge_server, tmp_path):
    server = judge_server(knowing)
    asked = probed(server, model="openai/counted", ledger=str(tmp_path), max_calls=20)
    found = ask(ROWS, asked)
    assert server.n_requests == count(tmp_path) == 20
    assert Counter(one.status for one in found) == {"scored": 8, "skipped": 112}


@pytest.mark.slow
@pytest.mark.parametrize("metric", [MeaningMatch, GroundTruthSimilarity])
@pytest.mark.parametrize("judges", [1, 2])
def test_an_estimate_counts_them(metric, judges, judge_server, tmp_path):
    def brain(body):
        probe = probe_of(body)
        if probe is None:
            return agreeable(body)
        return knowing(body) if metric is MeaningMatch else _counted(body, probe)

    server = judge_server(brain)
    names = tuple(f"openai/{name}@{server.url}" for name in ("one", "two")[:judges])
    asked = probed(server, ledger=str(tmp_path))
    one = metric(judge=asked.judge.model_copy(update={"judges": names}), access=asked.access)
    foreseen = estimate_cost(one, ROWS)
    assert foreseen.probes == judges * (12 + N_BETWEEN)
    found = one.measure(ROWS)
    assert {m.status for m in found} == {"scored"}
    assert server.n_requests == foreseen.calls
    again = estimate_cost(one, ROWS)
    assert (again.calls, again.probes) == (0, 0)


def test_judges_that_may_stand_in_are_probed_too(judge_server):
    server = judge_server(knowing)
    asked = probed(server)
    fallbacks = (f"openai/stand-in@{server.url}",)
    one = MeaningMatch(asked.judge.model_copy(update={"fallbacks": fallbacks}), access=asked.access)
    foreseen = estimate_cost(one, ROWS)
    assert foreseen.probes == 2 * (12 + N_BETWEEN)
    one.measure(ROWS)
    assert server.n_requests == foreseen.calls


def _counted(body, probe):
    """The right reply about facts: all of them match, or none."""
    [reference] = data_of(body)["references"]
    rows = [
        {"id": fact["id"], "equivalent": [f"a{n}"] if probe.most == 1.0 else [], "contradicted_by": []}
        for n, fact in enumerate(reference["facts"], 1)
    ]
    answer = [{"id": f"a{n}", "fact": f"fact {n}"} for n in range(1, len(rows) + 1)]
    return json.dumps({"answer_facts": answer, "reference_facts": rows, "abstained": False})


# Between the rows


@pytest.mark.slow
def test_a_judge_that_fails_on_the_way_is_stopped(judge_server):
    """It is right as long as it has seen fewer than 40 requests."""
    rows = samples(1_500)
    between = sum(draw_of(sample) > 0 for sample in rows)

    def broken(body):
        return knowing(body) if server.n_requests < 40 else match(body)

    server = judge_server(broken)
    found = ask(rows, probed(server, concurrency=4))
    states = Counter(one.status for one in found)
    assert between >= 12
    assert states["skipped"] > 0
    [reason] = {one.reason for one in found if one.status == "skipped"}
    assert reason is not None and "of 12 probes, less than 65%" in reason
    asked = asked_about_probes(server)
    assert 12 + 5 <= len(asked) < 12 + between
    assert all(isinstance(one.outcome, Skipped) or one.values for one in found)


def test_a_judge_that_answered_few_of_the_first_is_weighed_after_each_that_follows(judge_server):
    """Its server refuses all but two of the first probes; whatever follows, it says yes."""

    def refused(number, body):
        probe = probe_of(body)
        return "content_filter" if number < 12 and probe is not None and probe not in MEANINGS[:2] else None

    def brain(body):
        return knowing(body) if server.n_requests <= 12 else match(body)

    rows = samples(1_500)
    server = judge_server(brain, faults=refused)
    found = ask(rows, probed(server, concurrency=1))
    draws = [draw for sample in rows if (draw := draw_of(sample))]
    # The second wrong verdict ends it where fewer than 80 % are right.
    right, wrong = 2, 0
    for draw in draws:
        yes = MEANINGS[draw % 12].least == 1.0
        right, wrong = right + yes, wrong + (not yes)
        if wrong >= 2 and right < 0.8 * (right + wrong):
            break
    assert right + wrong < 12
    assert Counter(one.status for one in found)["skipped"] > 0
    assert len(asked_about_probes(server)) == 12 + (right + wrong - 2)
    [reason] = {one.reason for one in found if one.status == "skipped"}
    assert reason is not None and f"was right on {right} of {right + wrong} probes, less than 80%" in reason


def test_each_judge_of_a_jury_is_probed_and_one_that_fails_ends_it(judge_server):
    def brain(body):
        return match(body) if body["model"] == "careless" else knowing(body)

    server = judge_server(brain)
    asked = probed(server)
    judges = tuple(f"openai/{name}@{server.url}" for name in ("careful", "careless", "thorough"))
    judge = asked.judge.model_copy(update={"judges": judges})
    found = evaluate(samples(50), ["meaning_match"], judge=judge, access=asked.access)
    assert {one.status for one in found} == {"skipped"}
    assert Counter(request.body["model"] for request in server.requests) == dict.fromkeys(
        ("careful", "careless", "thorough"), 12
    )
    [reason] = {one.reason for one in found}
    assert reason is not None and "openai/careless@" in reason


def test_repeats_do_not_multiply_the_probes(judge_server):
    server = judge_server(knowing)
    rows = samples(50)
    ask(rows, probed(server, repeats=3))
    between = sum(draw_of(sample) > 0 for sample in rows)
    assert server.n_requests == 3 * 50 + 12 + between
