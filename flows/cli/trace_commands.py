"""`answerkey score-traces`: its options, and what it does."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from answerkey.tasks.traces.score import Preview
    from answerkey.tasks.traces.summary import Funnel

_EPILOG = """\
examples:
  answerkey score-traces rules --dry-run                   # which traces, and what it would cost
  answerkey score-traces rules                             # the traces that are new since the last time
  answerkey score-traces rules --rule faq-meaning --since 2026-11-01 --until 2026-12-01
  answerkey history --rule faq-meaning --by week
"""


def trace_options(parser: argparse.ArgumentParser, home: Callable[[argparse._ActionsContainer], None]) -> None:
    """Add the options of the command; `home` adds --home."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = "Score the logged traces that rules take: a source, filters, a sample, a metric, a judge."
    parser.epilog = _EPILOG
    parser.add_argument("rules", nargs="+", metavar="RULES", help="YAML files of rules, or folders of them")
    parser.add_argument("--rule", metavar="NAME", action="append", default=[], help="only the rule of this name")
    parser.add_argument(
        "--since", metavar="DAY", default="",
        help="backfill: the traces from this day or time on, whether new or not; what was scored is not scored again",
    )  # fmt: skip
    parser.add_argument("--until", metavar="DAY", default="", help="backfill: the traces before this day or time")
    parser.add_argument("--dry-run", action="store_true", help="show which traces and what cost, and stop")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress, only warnings")
    home(parser)


def score_traces(chosen: argparse.Namespace) -> int:
    """Run the flow and print how many traces came how far, or what would be done."""
    from pydantic import ValidationError

    from answerkey.flows.cli.arguments import absolute, bad_argument
    from answerkey.flows.cli.run import prepare_run, started_here
    from answerkey.flows.forms.tracing import Tracing, jobs
    from answerkey.flows.terminal.traces import print_funnels, print_previews

    prepare_run(chosen.home, quiet=chosen.quiet)
    try:
        form = Tracing(
            rules=[absolute(place) for place in chosen.rules],
            only=chosen.rule,
            since=chosen.since,
            until=chosen.until,
            dry_run=chosen.dry_run,
        )
    except ValidationError as error:
        raise bad_argument(error.errors()[0]) from error
    form.window()
    # Before Prefect is imported: what is wrong with a rule is told at once.
    jobs(form, chosen.home, "")
    with started_here():
        from answerkey.flows.score_traces import score_traces as run

        found = run(form, str(chosen.home))
    if chosen.dry_run:
        print_previews(cast("list[Preview]", found), as_json=chosen.json)
    else:
        print_funnels(cast("list[Funnel]", found), as_json=chosen.json)
    return 0
