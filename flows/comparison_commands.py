"""What the commands about several reports do. None of them needs a server."""

from __future__ import annotations

import argparse
import json

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
    samples = most_changed(chosen.home, *ids, shown, limit=chosen.samples) if chosen.samples and shown else ()
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
