"""What the command line prints on a narrow terminal: nothing that decides is cut off."""

import pytest

from answerkey.flows.cli import tables
from answerkey.flows.cli.comparison_tables import print_history, print_pairs, print_self_test
from answerkey.metrics_core.comparison import Comparison
from answerkey.metrics_core.gate.simulate import OperatingPoint, SelfTest
from answerkey.metrics_core.statistics.intervals import Estimate, Interval
from answerkey.tasks.compare.drift import Drift
from answerkey.tasks.gate.verdicts import LooksTaken
from answerkey.tasks.reports.report import Moment
from tests.tasks.publish.page.page_help import FIELDS, field_comparison


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 80 columns."""
    monkeypatch.setattr(
        tables,
        "_console",
        lambda: tables.Console(width=80, force_terminal=True, color_system=None, highlight=False),
    )


@pytest.mark.usefixtures("narrow")
def test_a_comparison_is_told_in_lines(capsys: pytest.CaptureFixture[str]) -> None:
    rows = (field_comparison(), field_comparison(FIELDS[2], low=-0.1, fixed=3, broken=1, old=None))
    print_pairs([Comparison("set/old/v1", "set/new/v1", rows, ("longer",), n_common=10)], by_slice=False)
    assert capsys.readouterr().out.splitlines() == [
        "set/old/v1 → set/new/v1: 10 samples in both",
        "rouge_l.recall  better",
        "  rows 10; old 0.500; new 0.600; difference +0.100 ±0.050; p adjusted 0.002",
        "exact_match.match  not shown to differ (detectable: ±0.040)",
        "  rows 10; new 0.600; difference +0.100 ±0.125; p adjusted 0.002; fixed/broken 3/1",
        "",
        "! longer",
    ]


@pytest.mark.usefixtures("narrow")
def test_history_leaves_out_the_plot_and_no_number(capsys: pytest.CaptureFixture[str]) -> None:
    made = Moment("set/a/v1", "a", 1, "2026-01-01 00:00", "0123", "COMPLETE", "f.g", 1000, 1000, 0.5, 0.4, 0.6, 1)
    said = Drift("set/a/v1", (), 0, 0, None, None, None, None, None, None, (), "Not tested: " + "too few. " * 20)
    print_history("f.g", {"set": [made]}, {"set": said}, {"set": [LooksTaken("b", "a", 2, "PASS")]}, as_json=False)
    *lines, drift, looks = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert drift == said.sentence
    assert looks == "The gate has taken 2 looks at a against b, the last of them PASS."
    assert "0.500   0.400 – 0.600   1,000/1,000" in lines[4] and lines[4].split()[:2] == ["a", "v1"]


@pytest.mark.usefixtures("narrow")
def test_a_self_test_says_what_is_true_of_the_release(capsys: pytest.CaptureFixture[str]) -> None:
    rate = Estimate(0.025, Interval(0.02, 0.03, "wilson"))
    trial = OperatingPoint("equal", 0.0, 1622, 2000, rate, rate, 0.8, 0.8, wrong=("FAIL",))
    print_self_test(SelfTest(1622, 1622, ("label.correct >= -0.02",), (trial,)))
    shown = capsys.readouterr().out
    assert "as good" in shown and "(stated: 80 %)" in shown and shown.count("2.5 ± 0.5 %") == 3
    assert max(map(len, shown.splitlines()[1:5])) <= 80
