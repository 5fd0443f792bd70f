"""The commands about several reports: what they take on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable

POLICY = "may each ship in place of the baseline? YAML, see `answerkey gate --help` and docs/gate.md"
REPORT = "a report (faq/gpt-4/v2) or a release (gpt-4), which stands for its newest report"


def add_comparisons(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], home: Callable[[argparse.ArgumentParser], None]
) -> None:
    """Add `compare`, `diff` and `history`; `home` adds the option that says where the warehouse is."""
    for name, summary, fill in (
        ("compare", "is the new release better or worse than the old one?", _compare),
        ("diff", "why did a number move? what differs between two reports", _diff),
        ("history", "a score over releases and report versions", _history),
    ):
        parser = commands.add_parser(name, help=summary)
        fill(parser)
        parser.add_argument("--dataset", metavar="NAME", default="", help="the data set, where a release has several")
        parser.add_argument("--json", action="store_true", help="print JSON")
        home(parser)


def _compare(parser: argparse.ArgumentParser) -> None:
    parser.description = "Compare two releases, sample by sample, on the samples that both have a score for."
    parser.add_argument("old", metavar="OLD", help=REPORT)
    parser.add_argument("new", metavar="NEW", help="likewise")
    parser.add_argument("--fields", metavar="A,B", default="", help="METRIC.FIELD, those to look at (default: all)")
    parser.add_argument(
        "--primary", metavar="METRIC.FIELD", default="", help="the field that decides, declared before anybody looked"
    )
    parser.add_argument("--by-slice", action="store_true", help="print every slice too")
    parser.add_argument(
        "--samples", metavar="N", type=int, default=0,
        help="print the N samples that changed most in the first field, with both answers",
    )  # fmt: skip
    parser.add_argument(
        "--moved", choices=("both", "better", "worse"), default="both", help="which way those samples moved"
    )
    parser.add_argument("--level", type=float, default=0.95, metavar="X", help="of the intervals (default 0.95)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the random sign flips (default 0)")


def _diff(parser: argparse.ArgumentParser) -> None:
    parser.description = "Tell apart what moved the numbers: rows, references, answers, judge, prompt, parser, code."
    parser.add_argument("old", metavar="REPORT", help=REPORT)
    parser.add_argument("new", metavar="REPORT", help="likewise")


def _history(parser: argparse.ArgumentParser) -> None:
    parser.description = "A score in every report of a data set, or of the traces of a rule by day; oldest first."
    parser.add_argument(
        "field", nargs="?", metavar="METRIC.FIELD", default="",
        help="for instance label.correct (default, of a rule: the main field of its metric)",
    )  # fmt: skip
    parser.add_argument("--rule", metavar="NAME", default="", help="the traces that this rule has scored")
    parser.add_argument("--by", choices=("day", "week", "month"), default="day", help="of a rule (default: day)")
