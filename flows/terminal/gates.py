"""What the command line prints about verdicts, self-tests and calibrations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from answerkey.flows.terminal.reports import plain_table, show
from answerkey.metrics_core.statistics.intervals import Estimate

if TYPE_CHECKING:
    from rich.table import Table

    from answerkey.metrics_core.gate.simulate import SelfTest
    from answerkey.tasks.gate.calibrate import Calibration
    from answerkey.tasks.gate.verdicts import ReleaseVerdict

_STYLES = {"PASS": "bold green", "FAIL": "bold red", "INCONCLUSIVE": "bold yellow", "INCOMPLETE": "bold magenta"}


def print_verdict(gated: ReleaseVerdict) -> None:
    """The verdict and its sentence, then a line a rule."""
    verdict = gated.verdict
    table = plain_table()
    table.add_column("rule", overflow="fold")
    table.add_column("outcome", no_wrap=True)
    table.add_column("why", overflow="fold")
    for rule in verdict.rules:
        table.add_row(_printable(rule.rule), _outcome(rule.outcome), _printable(rule.sentence))
    show(f"{_outcome(verdict.outcome)}  {_printable(verdict.sentence)}", table)


def print_self_test(tested: SelfTest) -> None:
    """What was simulated, and how often the gate said what, each with its Monte Carlo error."""
    units = "" if tested.units == tested.n else f" in {tested.units:,} clusters"
    table = plain_table()
    table.add_column("what is true of the new release", overflow="fold")
    for name in ("samples", "runs", "PASS", "FAIL"):
        table.add_column(name, justify="right", no_wrap=name in ("samples", "runs"))
    for point in tested.trials:
        truth = {
            "equal": "as good as the old one",
            "margin": f"worse by the margin, {point.loss:g}",
            "loss": f"worse by {point.loss:.4f}",
            "enough": "as good, on as many samples as are said to do",
        }[point.name]
        table.add_row(
            truth, f"{point.n:,}", f"{point.n_runs:,}", _rate(point.passed, point.stated_pass),
            _rate(point.failed, point.stated_fail),
        )  # fmt: skip
    equal = tested.trials[0]
    wrong = next((point.passed for point in tested.trials if point.name == "margin"), None)
    show(
        f"The gate itself on simulated releases: {tested.n:,} samples{units}, drawn again and exchanged at random",
        table,
        f"false alarms: {_rate(equal.failed)} of equally good releases FAIL",
        *([f"wrong passes: {_rate(wrong)} of releases that lose the margin PASS"] if wrong else []),
        f"rules: {_printable('; '.join(tested.rules))}",
    )


def print_calibration(found: Calibration) -> None:
    """How far the metric agrees with people, on all releases and each; the means with its errors allowed for."""
    graded = any(part.threshold for part in found.parts)
    table = plain_table(f"{_printable(found.name)} against labels of people ({_printable(found.labels)})")
    table.add_column("release", overflow="fold")
    for name in (
        "n",
        "kappa",
        "AC1",
        "sensitivity",
        "specificity",
        "bias",
        *(("AUROC", "threshold") if graded else ()),
    ):
        table.add_column(name, justify="right", no_wrap=name == "n", overflow="fold")
    for part in found.parts:
        names = ("kappa", "ac1", "sensitivity", "specificity", "bias")
        estimates: list[Estimate | None] = [getattr(part.agreement, name, None) for name in names]
        if graded:
            cut = part.threshold and Estimate(part.threshold.value, part.threshold.interval)
            estimates += [part.auroc, cut]
        name = "all" if part.release is None else _printable(part.release)
        table.add_row(name, f"{part.n:,}", *(_estimate(one) for one in estimates))
    lines = [f"signature: {_printable(found.signature)}"]
    if ceiling := found.parts[0].ceiling:
        lines.append(f"two people on {ceiling.n:,} of these answers: kappa {_estimate(ceiling.kappa)}")
    if found.n_without_score:
        lines.append(f"{found.n_without_score:,} labelled answers have no score and are left out")
    show(table, *([_corrected(found)] if found.corrected else []), *lines)


def _corrected(found: Calibration) -> Table:
    table = plain_table("mean of each release, raw and corrected for these errors (PPI++)")
    table.add_column("release", overflow="fold")
    for name in ("raw", "corrected", "labelled", "scored only"):
        table.add_column(name, justify="right", no_wrap=name not in ("raw", "corrected"))
    for one in found.corrected:
        better = one.corrected
        table.add_row(
            _printable(one.release), _estimate(one.raw), _estimate(Estimate(better.value, better.interval)),
            f"{better.labelled:,}", f"{better.unlabelled:,}",
        )  # fmt: skip
    return table


def _estimate(found: Estimate | None) -> str:
    if found is None:
        return "-"
    value, interval = found
    return f"{value:.3f}" + (f" ({interval.low:.3f} to {interval.high:.3f})" if interval else "")


def _rate(found: Estimate, stated: float | None = None) -> str:
    value, interval = found
    error = f" ± {100 * (interval.high - interval.low) / 2:.1f}" if interval else ""
    return f"{100 * value:.1f}{error} %" + ("" if stated is None else f" (stated: {100 * stated:.0f} %)")


def _outcome(outcome: str) -> str:
    return f"[{_STYLES[outcome]}]{outcome}[/]"


def _printable(text: str) -> str:
    """As one line that cannot move the cursor or turn the writing round, whatever names hold."""
    return escape("".join(char if char.isprintable() else "�" for char in text))
