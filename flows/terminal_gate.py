"""What the command line prints about a verdict and a self-test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from flows.terminal import plain_table, show

if TYPE_CHECKING:
    from metrics_core.gate_trial import SelfTest
    from metrics_core.statistics.intervals import Estimate
    from tasks.gate import Gated

_STYLES = {"PASS": "bold green", "FAIL": "bold red", "INCONCLUSIVE": "bold yellow", "INCOMPLETE": "bold magenta"}


def print_verdict(gated: Gated) -> None:
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
        table.add_column(name, justify="right", no_wrap=True)
    for trial in tested.trials:
        truth = {
            "equal": "as good as the old one",
            "margin": f"worse by the margin, {trial.loss:g}",
            "loss": f"worse by {trial.loss:.4f}",
            "enough": "as good, on as many samples as are said to do",
        }[trial.name]
        table.add_row(
            truth, f"{trial.n:,}", f"{trial.n_runs:,}", _rate(trial.passed, trial.stated_pass),
            _rate(trial.failed, trial.stated_fail),
        )  # fmt: skip
    equal = tested.trials[0]
    wrong = next((trial.passed for trial in tested.trials if trial.name == "margin"), None)
    show(
        f"The gate itself on simulated releases: {tested.n:,} samples{units}, drawn again and exchanged at random",
        table,
        f"false alarms: {_rate(equal.failed)} of equally good releases FAIL",
        *([f"wrong passes: {_rate(wrong)} of releases that lose the margin PASS"] if wrong else []),
        f"rules: {_printable('; '.join(tested.rules))}",
    )


def _rate(found: Estimate, stated: float | None = None) -> str:
    value, interval = found
    error = f" ± {100 * (interval.high - interval.low) / 2:.1f}" if interval else ""
    return f"{100 * value:.1f}{error} %" + ("" if stated is None else f" (stated: {100 * stated:.0f} %)")


def _outcome(outcome: str) -> str:
    return f"[{_STYLES[outcome]}]{outcome}[/]"


def _printable(text: str) -> str:
    """As one line that cannot move the cursor or turn the writing round, whatever names hold."""
    return escape("".join(char if char.isprintable() else "�" for char in text))
