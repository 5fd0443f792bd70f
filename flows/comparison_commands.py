"""What the commands about several reports do. None of them needs a server."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from flows.arguments import bad_argument, names
from metrics_core.errors import BadInput


def compare(chosen: argparse.Namespace) -> int:
    """`answerkey compare`: compare two reports, keep what is found, and print it."""
    from pydantic import ValidationError

    from flows.comparing import Comparing
    from flows.terminal_compare import pair_json, print_pairs
    from tasks.compare import compare as compare_reports
    from tasks.most_changed import most_changed
    from tasks.report_names import pair_named

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
        raise BadInput(f"--samples {chosen.samples}: give a count")
    ids = pair_named(chosen.home, form.old, form.new, form.dataset)
    pair = compare_reports(
        chosen.home, *ids, fields=form.fields, primary=form.primary, seed=form.seed, level=form.level
    )
    shown = next((row.name for row in pair.overall if row.difference is not None), "")
    samples = most_changed(chosen.home, *ids, shown, direction=chosen.moved, limit=chosen.samples if shown else 0)
    if chosen.json:
        from dataclasses import asdict

        found = {**pair_json(pair), **({"samples": [asdict(one) for one in samples]} if chosen.samples else {})}
        print(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        print_pairs([pair], by_slice=chosen.by_slice, samples=samples)
    return 0


def diff(chosen: argparse.Namespace) -> int:
    """`answerkey diff`: why a number moved."""
    from flows.terminal_compare import print_difference
    from tasks.diff import diff as diff_reports
    from tasks.report_names import pair_named

    ids = pair_named(chosen.home, chosen.old, chosen.new, chosen.dataset)
    print_difference(diff_reports(chosen.home, *ids), as_json=chosen.json)
    return 0


def history(chosen: argparse.Namespace) -> int:
    """`answerkey history`: a field over reports."""
    from flows.terminal_compare import print_history
    from tasks.history import history as history_of

    print_history(chosen.field, history_of(chosen.home, chosen.field, chosen.dataset), as_json=chosen.json)
    return 0


def print_compared_reports(home: Path, report_ids: Sequence[str], *, as_json: bool) -> None:
    """The reports of a run, then how they compare with its baseline."""
    from dataclasses import asdict

    from flows.terminal import print_reports
    from flows.terminal_compare import pair_json, print_pairs
    from tasks.comparisons import stored
    from tasks.report import read_reports

    reports, pairs = read_reports(home, report_ids), stored(home, report_ids)
    if as_json:
        found = {"reports": [asdict(one) for one in reports], "comparisons": [pair_json(pair) for pair in pairs]}
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    print_reports(reports, as_json=False)
    print()
    print_pairs(pairs, by_slice=False)
