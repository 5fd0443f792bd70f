"""Scores over time: the mean of a rule's traces by day, week and month, with the interval of its kind."""

import sys
from pathlib import Path

import numpy as np
import pytest

from answerkey.flows.cli.comparison_tables import print_over_time
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.statistics.bounded_mean import bounded_mean
from answerkey.metrics_core.statistics.clustered import proportion_interval
from answerkey.metrics_core.statistics.intervals import clopper_pearson
from answerkey.tasks.traces import score as scoring
from answerkey.tasks.traces.score import preview
from answerkey.tasks.traces.select import Window
from answerkey.tasks.traces.summary import Period, drift_over_time, funnel_table, main_field, markdown, over_time
from answerkey.tasks.warehouse.home import Home
from tests.tasks.traces.tracing_help import log, prepared, rule, run, trace


def at(day: str, number: int, *, right: bool) -> dict[str, object]:
    output = f"It is {number} indeed" if right else "I do not know"
    return trace(number, start_time=f"{day}T12:00:00Z", output=output)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A rule of yes and no, and one of grades, over three days in two weeks and months."""
    folder = tmp_path_factory.mktemp("home")
    days = {"2026-10-30": [True, False, True], "2026-11-01": [True], "2026-11-02": [False, False, True, True]}
    traces = [
        at(day, 10 * place + n, right=right)
        for place, (day, rights) in enumerate(days.items())
        for n, right in enumerate(rights)
    ]
    log(folder / "log.jsonl", [*traces, trace(99, start_time="2026-11-02T13:00:00Z", expected=None)])
    run(folder, rule(folder))
    run(folder, rule(folder, name="graded", metric="rouge_l"))
    return folder


def test_by_day(home: Path) -> None:
    name, found = over_time(Home(home), "r")
    assert name == "contains.match"
    ends = [clopper_pearson(2, 3), None, clopper_pearson(2, 4)]
    assert found == tuple(
        Period(day, n, total, mean, one and one.low, one and one.high, 1)
        for (day, n, total, mean), one in zip(
            [("2026-10-30", 3, 3, 2 / 3), ("2026-11-01", 1, 1, 1.0), ("2026-11-02", 4, 5, 0.5)], ends, strict=True
        )
    )


def test_by_week_and_by_month(home: Path) -> None:
    weeks, months = (over_time(Home(home), "r", by=by)[1] for by in ("week", "month"))
    # Weeks begin on Monday: the first of November 2026 is a Sunday.
    assert [(one.start, one.n_scored, one.n_total) for one in weeks] == [("2026-10-26", 4, 4), ("2026-11-02", 4, 5)]
    assert [(one.start, one.n_scored, one.n_total) for one in months] == [("2026-10-01", 3, 3), ("2026-11-01", 5, 6)]


def test_a_graded_field_has_the_interval_of_bounded_values(home: Path) -> None:
    assert main_field("rouge_l") == "recall"
    assert over_time(Home(home), "graded")[0] == "rouge_l.recall"
    (period,) = over_time(Home(home), "graded", "rouge_l.precision", "month")[1][:1]
    # Two of three words of "It is 0 indeed" ("2 indeed" has two) are in no other place: precision 2/4, 0 and 2/4.
    values = [0.5, 0.0, 0.5]
    ends = bounded_mean(values)
    assert ends is not None
    assert (period.mean, period.low, period.high) == pytest.approx((1 / 3, ends.low, ends.high))


@pytest.mark.slow
def test_numbers_of_two_methods_are_distinguished(home: Path, tmp_path: Path) -> None:
    log(tmp_path / "log.jsonl", [at("2026-11-01", 0, right=True)])
    run(tmp_path, rule(tmp_path))
    log(tmp_path / "log.jsonl", [at("2026-11-02", 1, right=True)], mode="a")
    run(tmp_path, rule(tmp_path), options={"blank_answer": "undefined"})
    assert [one.methods for one in over_time(Home(tmp_path), "r")[1]] == [1, 2]


@pytest.mark.slow
def test_numbers_of_two_methods_in_one_period_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log(tmp_path / "log.jsonl", [at("2026-11-01", 0, right=True)])
    run(tmp_path, rule(tmp_path))
    log(tmp_path / "log.jsonl", [at("2026-11-01", 1, right=True)], mode="a")
    run(tmp_path, rule(tmp_path), options={"blank_answer": "undefined"})
    name, found = over_time(Home(tmp_path), "r")
    assert [(one.start, one.methods) for one in found] == [("2026-11-01", 2)]
    print_over_time("r", name, found, drift_over_time(Home(tmp_path), "r", name, "day"), by="day", as_json=False)
    assert "numbers of different methods are not comparable" in capsys.readouterr().out


@pytest.mark.slow
def test_a_rule_whose_metric_was_changed_shows_the_numbers_of_one(tmp_path: Path) -> None:
    log(tmp_path / "log.jsonl", [at("2026-11-01", 0, right=True)])
    run(tmp_path, rule(tmp_path, metric="token_overlap"))
    log(tmp_path / "log.jsonl", [at("2026-11-02", 1, right=False)], mode="a")
    run(tmp_path, rule(tmp_path, metric="rouge_l"))
    for field, metric, day, mean in (
        ("", "rouge_l", "2026-11-02", 0.0), ("recall", "rouge_l", "2026-11-02", 0.0),
        ("token_overlap.recall", "token_overlap", "2026-11-01", 1.0),
    ):  # fmt: skip
        name, found = over_time(Home(tmp_path), "r", field)
        assert (name, [(one.start, one.mean, one.n_total) for one in found]) == (f"{metric}.recall", [(day, mean, 1)])


@pytest.mark.parametrize(
    ("name", "field", "said"),
    [
        ("other", "", "other: no rule of this name has scored traces in .*; there are graded, r"),
        ("r", "f1", r"f1: the traces of the rule r have contains\.match$"),
        ("graded", "rouge_l.f2", "rouge_l.f2: the traces of the rule graded have rouge_l.f1, rouge_l.p"),
    ],
)
def test_what_there_is_not(home: Path, name: str, field: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        over_time(Home(home), name, field)


def test_a_home_where_no_rule_has_run(tmp_path: Path) -> None:
    with Home(tmp_path).warehouse.writing():
        pass
    with pytest.raises(UserError, match="none has run yet: answerkey score-traces runs them"):
        over_time(Home(tmp_path), "r")


def test_what_a_dry_run_shows(home: Path) -> None:
    one, _, _ = prepared(home, rule(home), Window(until=None, since=None))
    assert (preview(one).seen, preview(one).traces) == (0, ())
    log(home / "log.jsonl", [at("2026-11-03", 100, right=True), at("2026-11-02", 101, right=False)], mode="a")
    shown = preview(prepared(home, rule(home))[0])
    assert (shown.seen, shown.taken, shown.measured, shown.estimate) == (2, 2, 2, None)
    assert [(one.trace_id, one.time, one.answer) for one in shown.traces] == [
        ("t101", "2026-11-02 12:00:00", "I do not know"), ("t100", "2026-11-03 12:00:00", "It is 100 indeed"),
    ]  # fmt: skip


def test_a_dry_run_shows_the_first_traces_and_counts_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "MOST_SHOWN", 2)
    log(tmp_path / "log.jsonl", [*(at("2026-11-01", n, right=True) for n in (3, 1, 2)), "no json"])
    shown = preview(prepared(tmp_path, rule(tmp_path))[0])
    assert (shown.seen, shown.taken, shown.quarantined) == (4, 3, 1)
    assert [one.trace_id for one in shown.traces] == ["t1", "t2"]


def test_the_artifacts_of_a_run(tmp_path: Path) -> None:
    log(tmp_path / "log.jsonl", [at("2026-11-01", 0, right=True), at("2026-11-01", 1, right=False), "no json"])
    funnel = run(tmp_path, rule(tmp_path))
    assert [(row["traces"], row["r"]) for row in funnel_table([funnel]).records()] == [
        ("seen", "3"), ("quarantined", "1"), ("scored", "2"),
        ("field", "contains.match"), ("mean", "0.500"), ("95 % interval", "0.013 to 0.987"),
    ]  # fmt: skip
    lines = markdown(funnel, *over_time(Home(tmp_path), "r")).splitlines()
    assert lines[0] == "# r"
    assert (
        "| seen | 3 | |" in [line.replace("  ", " ") for line in lines]
        and "| quarantined | 1 | cannot be scored |" in lines
    )
    assert "| 2026-11-01 | 0.500 | 0.013 to 0.987 | 2/2 |" in lines


def test_a_metric_of_one_s_own_is_summed_up_where_its_module_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "trace_metrics.py").write_text(
        "def long(answer, references):\n    return {'words': len(answer.split()) / 10, 'any': 1.0}\n"
        "from answerkey import metric\nlong = metric(fields=['words', 'any'])(long)\n"
    )
    log(tmp_path / "log.jsonl", [at("2026-11-01", 0, right=True), at("2026-11-02", 1, right=False)])
    with monkeypatch.context() as installed:
        installed.syspath_prepend(str(tmp_path))
        run(tmp_path, rule(tmp_path, metric="trace_metrics:long"))
        assert over_time(Home(tmp_path), "r")[0] == "long.words"
    sys.modules.pop("trace_metrics")
    name, found = over_time(Home(tmp_path), "r", "words")
    assert (name, [one.mean for one in found]) == ("long.words", [0.4, 0.4])
    assert over_time(Home(tmp_path), "r")[0].startswith("long.")


def nights(folder: Path, rights: list[int], traces: int = 40) -> Home:
    """A rule of yes and no over days with `traces` traces, of which so many are right."""
    days = [
        at(f"2026-11-{day + 1:02}", 1000 * day + n, right=n < right)
        for day, right in enumerate(rights)
        for n in range(traces)
    ]
    log(folder / "log.jsonl", days)
    run(folder, rule(folder))
    return Home(folder)


def test_a_day_that_is_worse_than_those_before_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = nights(tmp_path, [36, 34, 38, 20])
    found = drift_over_time(home, "r", "contains.match", "day")
    assert (found.report, found.trailing) == ("2026-11-04", ("2026-11-01", "2026-11-02", "2026-11-03"))
    assert (found.now, found.before, found.difference) == pytest.approx((20 / 40, 108 / 120, -0.4))
    # Newcombe's method 10, of the intervals of both.
    now, before = (proportion_interval(np.repeat([1.0, 0.0], counts), None) for counts in ([20, 20], [108, 12]))
    assert now and before and found.low and found.high
    assert found.low == pytest.approx(-0.4 - np.hypot(0.5 - now.low, before.high - 0.9))
    assert found.high == pytest.approx(-0.4 + np.hypot(now.high - 0.5, 0.9 - before.low))
    assert found.finding == "lower"
    name, periods = over_time(home, "r")
    print_over_time("r", name, periods, found, by="day", as_json=False)
    assert capsys.readouterr().out.splitlines()[-1] == f"! {found.sentence}"
    assert found.sentence.startswith(
        "2026-11-04 is lower than the 3 days before it: 0.500 on 40 traces against 0.900 on 120 (-0.400, 95 % interval "
    )
    month = drift_over_time(home, "r", "contains.match", "month")
    assert (month.difference, month.sentence) == (
        None,
        "Whether the newest month differs from those before it is not tested: that takes 3 earlier ones that were "
        "scored in the same single way as it, and there are 0.",
    )


@pytest.mark.slow
def test_days_that_were_scored_in_another_way_are_not_compared(tmp_path: Path) -> None:
    home = nights(tmp_path, [4, 4, 4, 4], traces=5)
    assert drift_over_time(home, "r", "contains.match", "day").finding is None
    log(tmp_path / "log.jsonl", [at("2026-11-09", 9000, right=True), at("2026-11-09", 9001, right=True)], mode="a")
    run(tmp_path, rule(tmp_path), options={"blank_answer": "undefined"})
    found = drift_over_time(home, "r", "contains.match", "day")
    assert (found.report, found.trailing, found.difference) == ("2026-11-09", (), None)
