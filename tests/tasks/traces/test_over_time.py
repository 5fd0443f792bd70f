"""Scores over time: the mean of a rule's traces by day, week and month; what a dry run and a run show."""

import sys

import pytest

from answerkey.flows.cli.tables import print_over_time
from answerkey.metrics_core.decide.bounded_mean import bounded_mean
from answerkey.metrics_core.decide.intervals import clopper_pearson
from answerkey.tasks.traces import funnel as funnels
from answerkey.tasks.traces.funnel import funnel_table, markdown, preview
from answerkey.tasks.traces.over_time import Period, over_time
from tests.tasks.staging_help import refusal
from tests.tasks.traces.tracing_help import Traces, rule, run, trace

OTHERWISE = {"blank_answer": "undefined"}
"""Options of a metric: with them it is another method."""


def at(day, number, *, right, **changes):
    output = f"It is {number} indeed" if right else "I do not know"
    return trace(number, start_time=f"2026-{day}T12:00:00Z", output=output, **changes)


@pytest.fixture(scope="module")
def three_days(tmp_path_factory):
    """A rule of yes and no, and one of grades, over three days in two weeks and months."""
    traces = Traces(tmp_path_factory.mktemp("home"))
    for place, (day, rights) in enumerate({"10-30": (1, 0, 1), "11-01": (1,), "11-02": (0, 0, 1, 1)}.items()):
        traces.log(*(at(day, 10 * place + n, right=right) for n, right in enumerate(rights)))
    traces.log(at("11-02", 99, right=True, expected=None))
    traces.run()
    traces.run(name="graded", metric="rouge_l")
    return traces.home


@pytest.mark.parametrize(
    ("by", "periods"),
    [
        ("day", {"2026-10-30": (2, 3, 3), "2026-11-01": (1, 1, 1), "2026-11-02": (2, 4, 5)}),
        # Weeks begin on Monday: the first of November 2026 is a Sunday.
        ("week", {"2026-10-26": (3, 4, 4), "2026-11-02": (2, 4, 5)}),
        ("month", {"2026-10-01": (2, 3, 3), "2026-11-01": (3, 5, 6)}),
    ],
)
def test_periods(three_days, by, periods):
    name, found = over_time(three_days, "r", by=by)
    assert name == "contains.match"
    ends = {start: clopper_pearson(right, n) for start, (right, n, _) in periods.items()}
    assert found == tuple(
        Period(start, n, total, right / n, ends[start] and ends[start].low, ends[start] and ends[start].high, 1)
        for start, (right, n, total) in periods.items()
    )


def test_a_graded_field_has_the_interval_of_bounded_values(three_days):
    assert over_time(three_days, "graded").name == "rouge_l.recall"
    period = over_time(three_days, "graded", "rouge_l.precision", "month").periods[0]
    # Two of three words of "It is 0 indeed" ("2 indeed" has two) are in no other place: precision 2/4, 0 and 2/4.
    ends = bounded_mean([0.5, 0.0, 0.5])
    assert (period.mean, period.low, period.high) == pytest.approx((1 / 3, ends.low, ends.high))


@pytest.mark.parametrize(("day", "methods"), [("11-02", [1, 2]), ("11-01", [2])])
def test_numbers_of_two_methods_are_reported(traces, capsys, day, methods):
    traces.log(at("11-01", 0, right=True))
    traces.run()
    traces.log(at(day, 1, right=True))
    run(traces.folder, rule(traces.folder), options=OTHERWISE)
    history = over_time(traces.home, "r")
    assert [period.methods for period in history.periods] == methods
    print_over_time("r", history, by="day", as_json=False)
    assert "numbers of different methods are not comparable" in capsys.readouterr().out


def test_a_rule_whose_metric_was_changed_shows_the_numbers_of_one(traces):
    traces.log(at("11-01", 0, right=True))
    traces.run(metric="token_overlap")
    traces.log(at("11-02", 1, right=False))
    traces.run(metric="rouge_l")
    for field, metric, day, mean in (
        ("", "rouge_l", "2026-11-02", 0.0), ("recall", "rouge_l", "2026-11-02", 0.0),
        ("token_overlap.recall", "token_overlap", "2026-11-01", 1.0),
    ):  # fmt: skip
        name, found = over_time(traces.home, "r", field)
        assert (name, [(one.start, one.mean, one.n_total) for one in found]) == (f"{metric}.recall", [(day, mean, 1)])


@pytest.mark.parametrize(
    ("name", "field", "said"),
    [
        ("other", "", "other: no rule of this name has scored traces in {}; there are graded, r"),
        ("r", "f1", "f1: the traces of the rule r have contains.match"),
        ("graded", "rouge_l.f2", "rouge_l.f2: the traces of the rule graded have rouge_l.f1, rouge_l.precision, rouge"),
    ],
)
def test_what_there_is_not(three_days, name, field, said):
    assert refusal(over_time, three_days, name, field).startswith(said.format(three_days))


def test_a_dry_run_shows_the_first_new_traces_and_counts_all(traces, monkeypatch):
    with traces.home.warehouse.writing():
        pass
    assert refusal(over_time, traces.home, "r").endswith("none has run yet: answerkey score-traces runs them")
    monkeypatch.setattr(funnels, "_MAX_SHOWN", 2)
    traces.log(at("11-01", 0, right=True))
    traces.run()
    empty = preview(traces.prepared())
    assert (empty.seen, empty.traces) == (0, ())
    traces.log(at("11-03", 3, right=True), at("11-02", 1, right=False), at("11-02", 2, right=True), "no json")
    traces.log(at("11-02", 2, right=True))
    shown = preview(traces.prepared())
    assert (shown.seen, shown.taken, shown.measured, shown.quarantined, shown.estimate) == (5, 3, 3, 2, None)
    assert [(one.trace_id, one.time, one.answer) for one in shown.traces] == [
        ("t1", "2026-11-02 12:00:00", "I do not know"), ("t2", "2026-11-02 12:00:00", "It is 2 indeed"),
    ]  # fmt: skip


def test_the_artifacts_of_a_run(traces):
    traces.log(at("11-01", 0, right=True), at("11-01", 1, right=False), "no json")
    funnel = traces.run()
    assert [(row["traces"], row["r"]) for row in funnel_table([funnel]).records()] == [
        ("seen", "3"), ("quarantined", "1"), ("scored", "2"),
        ("field", "contains.match"), ("mean", "0.500"), ("95 % interval", "0.013 to 0.987"),
    ]  # fmt: skip
    lines = [line.replace("  ", " ") for line in markdown(traces.home, funnel).splitlines()]
    expected = {"# r", "| seen | 3 | |", "| quarantined | 1 | cannot be scored |"}
    assert {*expected, "| 2026-11-01 | 0.500 | 0.013 to 0.987 | 2/2 |"} <= {*lines}


def test_a_metric_of_one_s_own_is_summed_up_where_its_module_is_not(traces, monkeypatch):
    (traces.folder / "trace_metrics.py").write_text(
        "def long(answer, references):\n    return {'words': len(answer.split()) / 10, 'any': 1.0}\n"
        "from answerkey import metric\nlong = metric(fields=['words', 'any'])(long)\n"
    )
    traces.log(at("11-01", 0, right=True), at("11-02", 1, right=False))
    with monkeypatch.context() as installed:
        installed.syspath_prepend(str(traces.folder))
        traces.run(metric="trace_metrics:long")
        assert over_time(traces.home, "r").name == "long.words"
    sys.modules.pop("trace_metrics")
    name, found = over_time(traces.home, "r", "words")
    assert (name, [one.mean for one in found]) == ("long.words", [0.4, 0.4])
    assert over_time(traces.home, "r").name.startswith("long.")
