"""What the commands about several reports do. None of them needs a server."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from answerkey.flows.cli.arguments import bad_argument, names
from answerkey.metrics_core.errors import UserError
from answerkey.tasks.warehouse.home import Home

if TYPE_CHECKING:
    from answerkey.metrics_core.comparison import Comparison
    from answerkey.tasks.gate.verdicts import Gated
    from answerkey.tasks.reports.report import Report


def compare(chosen: argparse.Namespace) -> int:
    """`answerkey compare`: compare two reports, keep what is found, and print it."""
    from pydantic import ValidationError

    from answerkey.flows.forms.comparing import Comparing
    from answerkey.flows.terminal.comparisons import pair_json, print_pairs
    from answerkey.tasks.compare.compare import compare as compare_reports
    from answerkey.tasks.compare.examples import largest_changes
    from answerkey.tasks.reports.names import pair_named

    try:
        form = Comparing(
            old=chosen.old,
            new=chosen.new,
            dataset=chosen.dataset,
            fields=names(chosen.fields),
            primary=chosen.primary,
            level=chosen.level,
            seed=chosen.seed,
        )
    except ValidationError as error:
        raise bad_argument(error.errors()[0]) from error
    if chosen.samples < 0:
        raise UserError(f"--samples {chosen.samples}: give a count")
    ids = pair_named(chosen.home, form.old, form.new, form.dataset)
    pair = compare_reports(
        chosen.home, *ids, fields=form.fields, primary=form.primary, seed=form.seed, level=form.level
    )
    shown = next((row.name for row in pair.overall if row.difference is not None), "")
    samples = largest_changes(chosen.home, *ids, shown, direction=chosen.moved, limit=chosen.samples if shown else 0)
    if chosen.json:
        from dataclasses import asdict

        found = {**pair_json(pair), **({"samples": [asdict(one) for one in samples]} if chosen.samples else {})}
        print(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        print_pairs([pair], by_slice=chosen.by_slice, samples=samples)
    return 0


def diff(chosen: argparse.Namespace) -> int:
    """`answerkey diff`: why a number moved."""
    from answerkey.flows.terminal.comparisons import print_difference
    from answerkey.tasks.compare.attribution import diff as diff_reports
    from answerkey.tasks.reports.names import pair_named

    ids = pair_named(chosen.home, chosen.old, chosen.new, chosen.dataset)
    print_difference(diff_reports(chosen.home, *ids), as_json=chosen.json)
    return 0


def history(chosen: argparse.Namespace) -> int:
    """`answerkey history`: a field over reports, or over the traces of a rule."""
    from answerkey.flows.terminal.comparisons import print_history
    from answerkey.flows.terminal.traces import print_over_time
    from answerkey.tasks.reports.history import history as history_of
    from answerkey.tasks.traces.summary import over_time

    if chosen.rule:
        name, periods = over_time(chosen.home, chosen.rule, chosen.field, chosen.by)
        print_over_time(chosen.rule, name, periods, by=chosen.by, as_json=chosen.json)
        return 0
    if not chosen.field:
        raise UserError("history: name a METRIC.FIELD, for instance label.correct, or a rule with --rule")
    print_history(chosen.field, history_of(chosen.home, chosen.field, chosen.dataset), as_json=chosen.json)
    return 0


def against(
    home: Home, report_ids: Sequence[str], baseline: str, policy: str
) -> tuple[list[str], list[Comparison], list[Gated]]:
    """The reports with the baseline before them, how each compares with it, and what the gate says of each.

    Without a baseline each report is compared with the one before it.

    Raises:
        UserError: there is no such baseline, nothing to compare with it, or a policy without one.
    """
    from itertools import pairwise

    from answerkey.tasks.compare.compare import compare, primary_field
    from answerkey.tasks.gate.gate import gate, read_policy
    from answerkey.tasks.reports.names import report_named
    from answerkey.tasks.reports.report import read_reports

    ids = list(dict.fromkeys(report_ids))
    if not baseline:
        if policy:
            raise UserError("--policy: a gate needs a release to compare with; name it with --baseline")
        return ids, [compare(home, old, new) for old, new in pairwise(ids)], []
    rules = read_policy(policy) if policy else None
    old = report_named(home, baseline, read_reports(home, ids[:1])[0].dataset)
    news = [new for new in ids if new != old]
    if not news:
        raise UserError(f"--baseline {baseline}: this is {old} itself; name a report to compare with it")
    pairs = [
        compare(home, old, new, primary=primary_field(home, (old, new), rules.primary.field) if rules else "")
        for new in news
    ]
    return [old, *news], pairs, [gate(home, old, new, rules) for new in news] if rules else []


def write_page(
    home: Home,
    report_ids: Sequence[str],
    file: Path,
    pairs: Sequence[Comparison],
    gates: Sequence[Gated],
    primary: str | None = None,
) -> None:
    """Write a page for the browser.

    Raises:
        UserError: it cannot be written there.
    """
    from answerkey.tasks.publish.page.build import build_page
    from answerkey.tasks.publish.page.html import write

    page = build_page(home, report_ids, comparisons=pairs, gates=gates, primary=primary)
    try:
        write(page, file)
    except OSError as error:
        raise UserError(f"{file}: cannot be written: {error.strerror or error}") from error


def print_compared_reports(home: Home, report_ids: Sequence[str], *, as_json: bool, gated: bool = False) -> int:
    """What a run found with its baseline; the exit code of its gate, 0 if it was not `gated`."""
    from answerkey.tasks.compare.compare import stored_comparisons
    from answerkey.tasks.gate import verdicts
    from answerkey.tasks.reports.report import read_reports

    pairs, gates = stored_comparisons(home, report_ids), verdicts.stored(home, report_ids)
    print_against(read_reports(home, report_ids), pairs, gates, as_json=as_json)
    return verdicts.exit_code(gates, asked=gated)


def print_against(
    reports: Sequence[Report],
    pairs: Sequence[Comparison],
    gates: Sequence[Gated],
    *,
    as_json: bool,
    by: str | None = None,
) -> None:
    """The reports, then how they compare with a baseline, then what the gate says."""
    from dataclasses import asdict

    from answerkey.flows.terminal.comparisons import pair_json, print_pairs
    from answerkey.flows.terminal.gates import print_verdict
    from answerkey.flows.terminal.reports import print_reports

    if as_json:
        found = {
            "reports": [asdict(one) for one in reports],
            "comparisons": [pair_json(pair) for pair in pairs],
            "verdicts": [gated.as_dict() for gated in gates],
        }
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    print_reports(reports, as_json=False, by=by)
    print()
    print_pairs(pairs, by_slice=False)
    for gated in gates:
        print()
        print_verdict(gated)
