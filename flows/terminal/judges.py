"""What the command line prints about judges: what they would cost, what they have cost, what one of them said."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from answerkey.flows.terminal.reports import dollars, plain_table, price, show
from answerkey.metrics_core.judges.votes import OUT_OF_DEPTH
from answerkey.metrics_core.llm.cost import Cost, total_usd
from answerkey.metrics_core.llm.untrusted import one_line
from answerkey.metrics_core.measurement import Scored
from answerkey.tasks.publish.text import number

if TYPE_CHECKING:
    from answerkey.flows.cli.judge import Trial

_LABEL = 9


def print_estimates(estimates: Sequence[Cost], *, as_json: bool, whom: str = "the judges") -> None:
    """A dry run: a line a metric, and the total."""
    if as_json:
        print(json.dumps([asdict(estimate) for estimate in estimates], indent=2))
        return
    page = plain_table(f"dry run: what {whom} would be asked")
    page.add_column("metric", overflow="fold")
    for name in ("samples", "calls", "ledger", "tokens in/out", "cost"):
        page.add_column(name, justify="right", no_wrap=True)
    for one in estimates:
        tokens = f"{_rough(one.tokens_in)}/{_rough(one.tokens_out)}"
        counts = (f"{one.samples:,}", f"{one.calls:,}", f"{one.in_ledger:,}")
        page.add_row(one.metric, *counts, tokens, dollars(one.cost_usd))
    names = ("calls", "in_ledger", "tokens_in", "tokens_out")
    calls, known, asked, answered = (sum(getattr(one, name) for one in estimates) for name in names)
    page.add_section()
    tokens = f"{_rough(asked)}/{_rough(answered)}"
    page.add_row("total", "", f"{calls:,}", f"{known:,}", tokens, dollars(total_usd(estimates)))
    decided = [f"{one.metric}: the offline judge decides {one.offline:,}" for one in estimates if one.offline]
    show(page, *decided, "nobody was asked; tokens of replies are guessed, and failed calls come on top")


def _rough(tokens: int) -> str:
    """Three digits: an estimate has no more to say."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if tokens >= 0.9995 * size:
            return f"{tokens / size:.3g}{unit}"
    return str(tokens)


def print_trials(trials: Sequence[Trial], references: Sequence[str], *, as_json: bool) -> None:
    """What judges said about one sample, metric by metric."""
    if as_json:
        print(json.dumps([_as_json(trial) for trial in trials], indent=2, ensure_ascii=False))
        return
    for place, trial in enumerate(trials):
        show(*([""] if place else []), *_page(trial, references))


def _as_json(trial: Trial) -> dict[str, Any]:
    found = trial.measurement
    return {
        "metric": found.metric, "status": found.status, "values": dict(found.values), "reason": found.reason,
        "details": dict(found.details), "signature": found.signature, "from_ledger": found.from_ledger,
        "calls": trial.calls, "usage": asdict(found.usage), "requests": list(found.requests),
    }  # fmt: skip


def _page(trial: Trial, references: Sequence[str]) -> Iterator[str | Table]:
    found = trial.measurement
    values = ", ".join(f"{name} {_short(value)}" for name, value in found.values.items())
    yield f"[bold]{found.metric}[/bold]  {values or found.status}"
    details = found.details
    if "verdict" in details:
        rule = f", by the rule {details['rule']}" if details["rule"] else ""
        yield _line("verdict", f"{details['verdict']}{rule}")
    if "probability" in details:
        yield _line("matches", f"with a probability of {details['probability']:.2f}, in the eyes of people")
    if OUT_OF_DEPTH in details:
        yield _line("beware", f"the offline judge is out of its depth: {details[OUT_OF_DEPTH]}")
    if found.reason:
        yield _line("reason" if isinstance(found.outcome, Scored) else "cause", found.reason)
    if isinstance(index := details.get("reference"), int):
        yield _line("reference", f"{index + 1}: {references[index]}")
    yield _line("calls", _calls(trial))
    if len(details.get("votes", ())) > 1:
        yield _votes(details["votes"])
    if "facts" in details:
        yield _facts(details["facts"])


def _line(label: str, text: str) -> str:
    # Judges wrote much of this: neither markup nor control characters of theirs reach the terminal.
    return f"  [dim]{label:<{_LABEL}}[/dim]  {escape(one_line(text))}"


def _short(value: float) -> str:
    return f"{value:.0f}" if value.is_integer() else number(value)


def _calls(trial: Trial) -> str:
    found = trial.measurement
    if not trial.calls and trial.about:
        return f"none: judged by the {trial.about}"
    if not trial.calls:
        return "none: the ledger has the replies" if found.from_ledger else "none needed"
    usage = found.usage
    tokens = f"{usage.tokens_in:,} tokens in, {usage.tokens_out:,} out"
    return f"{trial.calls:,}, {tokens}, {price(usage.cost_usd)}, {usage.seconds:.1f} s"


def _votes(votes: Sequence[Mapping[str, Any]]) -> Table:
    page = plain_table()
    for name in ("vote", "judge", "reason"):
        page.add_column(name, overflow="fold")
    for vote in votes:
        page.add_row(number(vote["vote"]), escape(vote["judge"]), escape(one_line(vote["reason"] or "")))
    return page


def _facts(facts: Sequence[Mapping[str, str | None]]) -> Table:
    """The facts of both texts, those that belong together side by side."""
    page = plain_table()
    for name in ("", "fact of the reference", "fact of the answer"):
        page.add_column(name, overflow="fold")
    texts = {row["id"]: escape(one_line(row["fact"] or "")) for row in facts}
    shown = set()
    for row in facts:
        if row["side"] == "reference":
            page.add_row(row["status"], texts[row["id"]], texts.get(row["with"], ""))
            shown.add(row["with"])
        elif row["id"] not in shown:
            page.add_row(row["status"], "", texts[row["id"]])
    return page
