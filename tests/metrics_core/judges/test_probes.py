"""Judges are tested before they are believed: with probes whose verdict is known, before the rows and between them."""

import json
import logging
from collections import Counter

import pytest

from answerkey.metrics_core import Skipped
from answerkey.metrics_core.judges.canary import has_canary, share_of
from answerkey.metrics_core.judges.estimate import estimate_cost
from answerkey.metrics_core.judges.probes import draw_of, known_answers
from answerkey.metrics_core.metric import identical_reference
from answerkey.metrics_core.metrics.ground_truth_similarity import GroundTruthSimilarity
from answerkey.metrics_core.metrics.meaning_match import MeaningMatch
from tests.judge_server import agreeable, data_of
from tests.metrics_core.judges.asking import always, ask, count, failure, match, mismatch, options, samples

MEANINGS, FACTS = (tuple(known_answers(name)) for name in ("meaning_match", "ground_truth_similarity"))
KNOWN = {probe.sample.answer: probe for probe in (*MEANINGS, *FACTS)}
ROWS = samples(120)


def n_between(rows):
    """Probes that follow on some of these rows."""
    return sum(draw_of(row) > 0 for row in rows)


def n_canaries(rows):
    return sum(has_canary(row, share_of(len(rows))) for row in rows)


N_ALL = len(ROWS) + 12 + n_between(ROWS) + n_canaries(ROWS)


def names(n):
    return [probe.name for probe in MEANINGS[:n]]


def probe_of(body):
    """The probe that a request is about."""
    return KNOWN.get(data_of(body).get("answer"))


def judge(wrong_on=(), silent_on=()):
    """A judge that is right about every probe but those of these names, and says yes to the rows."""

    def brain(body):
        probe = probe_of(body)
        if probe is None:
            return match(body)
        if probe.name in silent_on:
            return "I would rather not say."
        return match(body) if bool(probe.least) != (probe.name in wrong_on) else mismatch(body)

    return brain


knowing = judge()


def right_about_facts(body):
    """All facts of a probe match, or none, as is known of it; whatever is no probe matches."""
    probe = probe_of(body)
    if probe is None:
        return agreeable(body)
    [reference] = data_of(body)["references"]
    facts = [
        {"id": fact["id"], "equivalent": [f"a{n}"] if probe.most == 1.0 else [], "contradicted_by": []}
        for n, fact in enumerate(reference["facts"], 1)
    ]
    answer = [{"id": f"a{n}", "fact": f"fact {n}"} for n in range(1, len(facts) + 1)]
    return json.dumps({"answer_facts": answer, "reference_facts": facts, "abstained": False})


def probed(server, **changes):
    return options(server, **{"probes": "auto", **changes})


def statuses(found):
    return Counter(one.status for one in found)


def only_reason(found):
    """The one reason of all rows that were skipped."""
    [reason] = {one.reason for one in found if one.status == "skipped"}
    return reason


@pytest.mark.parametrize("probes", [MEANINGS, FACTS])
def test_there_are_twelve_and_a_judge_of_one_opinion_is_right_about_half(probes):
    assert len({probe.name for probe in probes}) == len(probes) == 12
    assert [probe.passed_by(1.0) for probe in probes].count(True) == 6
    assert all(probe.passed_by(1.0) != probe.passed_by(0.0) for probe in probes)
    # None is decided without a judge, and each costs one call.
    assert [probe.name for probe in probes if identical_reference(probe.sample) is not None] == []
    assert probes is MEANINGS or all(probe.sample.facts for probe in probes)


# Before the first row


def test_probes_come_before_the_rows_and_a_second_run_pays_nothing(judge_server, tmp_path):
    server = judge_server(knowing)
    asked = probed(server, ledger=str(tmp_path))
    found = ask(ROWS, asked)
    assert {one.values["match"] for one in found} == {1.0}
    first = [probe_of(request.body) for request in server.requests[:12]]
    assert {probe.name for probe in first} == {probe.name for probe in MEANINGS}
    assert server.n_requests == N_ALL
    assert [one.outcome for one in ask(ROWS, asked)] == [one.outcome for one in found]
    assert server.n_requests == N_ALL


@pytest.mark.parametrize("metric", ["meaning_match", "ground_truth_similarity"])
def test_a_judge_that_agrees_to_everything_gives_no_number(metric, judge_server, caplog):
    server = judge_server(agreeable)
    asked = probed(server)
    with caplog.at_level(logging.WARNING, "answerkey"):
        found = ask(ROWS, asked, metric)
    assert (statuses(found), server.n_requests) == ({"skipped": 120}, 12)
    reason = only_reason(found)
    assert reason.startswith(f"judge stopped: {asked.judge.labels[0]} was right on ")
    assert "of 12 probes, less than 80%; wrong on: " in reason
    assert "another person" in reason
    assert "an order to the judge" in reason
    [warning] = [record.message for record in caplog.records if "judge stopped" in record.message]
    assert "question: " in warning
    assert "an order to the judge: " in warning
    assert warning.count("known to be") == reason.partition("wrong on: ")[2].count(", ") + 1 - warning.count("French")


@pytest.mark.parametrize(
    ("brain", "reason"),
    [
        (judge(wrong_on=names(2)), None),
        (judge(wrong_on=names(3)), "was right on 9 of 12 probes, less than 80%"),
        # What cannot be read is no disagreement, unless that is nearly all.
        (judge(silent_on=names(9)), None),
        (judge(silent_on=names(10)), "gave no verdict on 10 of 12 probes; the first: not_json: "),
    ],
)
def test_two_wrong_of_twelve_are_forgiven_and_so_are_nine_without_a_verdict(brain, reason, judge_server):
    found = ask(samples(50), probed(judge_server(brain)))
    assert statuses(found) == {"scored" if reason is None else "skipped": 50}
    assert reason is None or reason in only_reason(found)


def test_a_stopped_judge_is_stopped_again_for_nothing_and_goes_on_without_probes(judge_server, tmp_path):
    server = judge_server(match)

    def run(probes):
        return statuses(ask(ROWS, probed(server, model="openai/stopped", ledger=str(tmp_path), probes=probes)))

    assert [run("auto"), run("auto"), server.n_requests] == [{"skipped": 120}, {"skipped": 120}, 12]
    assert (run("never"), server.n_requests) == ({"scored": 120}, 12 + 120)
    # What the ledger has needs no probes.
    assert (run("auto"), server.n_requests) == ({"scored": 120}, 12 + 120)


def test_where_the_probes_do_not_reach_the_judge_the_rows_say_why(judge_server):
    server = judge_server(knowing, faults=always("unauthorized"))
    found = ask(samples(50), probed(server))
    assert {failure(one).code for one in found} == {"http_401"}


# Who pays


@pytest.mark.parametrize(
    ("rows", "changes", "n"),
    [
        (49, {}, 0), (50, {}, 12), (1, {"probes": "always"}, 12), (60, {"probes": "never"}, 0),
        # Repeats do not multiply them.
        (50, {"repeats": 3}, 12),
    ],
)  # fmt: skip
def test_small_runs_are_not_probed_unless_asked(rows, changes, n, judge_server):
    server = judge_server(knowing)
    ask(samples(rows), probed(server, **changes))
    between = n_between(samples(rows)) + n_canaries(samples(rows)) if n else 0
    assert server.n_requests == rows * changes.get("repeats", 1) + n + between


def test_probes_count_as_calls_of_the_budget(judge_server, tmp_path):
    server = judge_server(knowing)
    found = ask(ROWS, probed(server, ledger=str(tmp_path), max_calls=20))
    assert server.n_requests == count(tmp_path) == 20
    assert statuses(found) == {"scored": 8, "skipped": 112}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("metric", "names", "fallbacks"),
    [
        (MeaningMatch, ("one", "two"), ()),
        (GroundTruthSimilarity, ("one", "two"), ()),
        # Judges that may stand in are probed too.
        (MeaningMatch, ("one",), ("stand-in",)),
    ],
)
def test_an_estimate_counts_them(metric, names, fallbacks, judge_server, tmp_path):
    server = judge_server(knowing if metric is MeaningMatch else right_about_facts)
    asked = probed(server, ledger=str(tmp_path))
    of_server = {
        kind: tuple(f"openai/{name}@{server.url}" for name in named)
        for kind, named in (("judges", names), ("fallbacks", fallbacks))
    }
    one = metric(judge=asked.judge.model_copy(update=of_server), access=asked.access)
    foreseen = estimate_cost(one, ROWS)
    assert foreseen.probes == 2 * (12 + n_between(ROWS)) + len(names) * n_canaries(ROWS)
    assert statuses(one.measure(ROWS)) == {"scored": 120}
    assert server.n_requests == foreseen.calls
    again = estimate_cost(one, ROWS)
    assert (again.calls, again.probes) == (0, 0)


# Between the rows


@pytest.mark.slow
def test_a_judge_that_fails_on_the_way_is_stopped(judge_server):
    """It is right as long as it has seen fewer than 40 requests."""
    rows = samples(1_500)
    server = judge_server(lambda body: knowing(body) if server.n_requests < 40 else match(body))
    found = ask(rows, probed(server, concurrency=4))
    assert "of 12 probes, less than 65%" in only_reason(found)
    asked = sum(probe_of(request.body) is not None for request in server.requests)
    assert 12 + 5 <= asked < 12 + n_between(rows)
    assert all(isinstance(one.outcome, Skipped) or one.values for one in found)


def test_a_judge_that_answered_few_of_the_first_is_weighed_after_each_that_follows(judge_server):
    """Its server refuses all but two of the first probes; whatever follows, it says yes."""

    def refused(number, body):
        probe = probe_of(body)
        return "content_filter" if number < 12 and probe is not None and probe not in MEANINGS[:2] else None

    rows = samples(1_500)
    server = judge_server(lambda body: knowing(body) if server.n_requests <= 12 else match(body), faults=refused)
    found = ask(rows, probed(server, concurrency=1))
    # The second wrong verdict ends it where fewer than 80 % are right.
    right, wrong = 2, 0
    for draw in filter(None, map(draw_of, rows)):
        yes = MEANINGS[draw % 12].least == 1.0
        right, wrong = right + yes, wrong + (not yes)
        if wrong >= 2 and right < 0.8 * (right + wrong):
            break
    assert right + wrong < 12
    assert sum(probe_of(request.body) is not None for request in server.requests) == 12 + (right + wrong - 2)
    assert f"was right on {right} of {right + wrong} probes, less than 80%" in only_reason(found)


def test_each_judge_of_a_jury_is_probed_and_one_that_fails_ends_it(judge_server):
    server = judge_server(lambda body: match(body) if body["model"] == "careless" else knowing(body))
    asked = probed(server)
    judges = ("careful", "careless", "thorough")
    urls = tuple(f"openai/{name}@{server.url}" for name in judges)
    found = ask(samples(50), asked._replace(judge=asked.judge.model_copy(update={"judges": urls})))
    assert statuses(found) == {"skipped": 50}
    assert Counter(request.body["model"] for request in server.requests) == dict.fromkeys(judges, 12)
    assert "openai/careless@" in only_reason(found)
