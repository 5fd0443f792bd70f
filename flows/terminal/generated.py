"""What is said about answers that were generated: how many, why not all, and what they cost."""

from __future__ import annotations

import json
from dataclasses import asdict

from rich.markup import escape

from answerkey.flows.terminal.reports import plain_table, price, show
from answerkey.tasks.releases.generate import Generated
from answerkey.tasks.releases.register import Registration


def counts(made: Generated) -> list[tuple[str, int]]:
    """What came of the questions; the first count is the sum of the others."""
    return [
        ("questions", made.n_questions),
        ("generated", made.n_generated),
        ("from ledger", made.n_from_ledger),
        ("failed", made.n_failed),
        ("skipped", made.n_skipped),
    ]


def tally(made: Generated) -> str:
    """The same in a sentence, with what it cost."""
    (_, n), *parts = counts(made)
    said = ", ".join(f"{count:,} {name}" for name, count in parts)
    why = f" ({made.why})" if made.reasons else ""
    cut = f"; {made.n_cut_off:,} cut off at the limit of tokens" if made.n_cut_off else ""
    return f"{made.dataset}/{made.release}: {n:,} questions: {said}{why}{cut}; {_spent(made)}"


def _spent(made: Generated) -> str:
    return f"{made.calls:,} call{'' if made.calls == 1 else 's'}, {price(made.cost_usd)}"


def print_generated(made: Generated, registration: Registration, *, as_json: bool) -> None:
    """The answers of a release: what came of the questions, where they are, and how to go on."""
    if as_json:
        print(json.dumps({**asdict(made), "registration": asdict(registration)}, indent=2, ensure_ascii=False))
        return
    page = plain_table(escape(f"{made.release} on {made.dataset}"))
    page.add_column("")
    page.add_column("questions", justify="right")
    (_, total), *parts = counts(made)
    for what, n in parts:
        page.add_row(what, f"{n:,}")
    page.add_section()
    page.add_row("all", f"{total:,}")
    lines = [f"without an answer: {escape(made.why)}"] if made.reasons else []
    if made.n_cut_off:
        lines.append(f"cut off at the limit of tokens: {made.n_cut_off:,}")
    state = f"has the report {registration.report_id}" if registration.report_id else "waits for its evaluation"
    lines += [
        f"model: {_spent(made)}",
        f"answers: {escape(made.answers)}",
        f"{escape(registration.name)} is registered as {registration.registration} and {state}",
    ]
    show(page, *lines)
