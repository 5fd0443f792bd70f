"""The command line. Answers at once: nothing heavy is imported until a command needs it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from answerkey.flows.cli.comparison_arguments import POLICY, add_comparisons
from answerkey.flows.cli.release_arguments import add_releases
from answerkey.metrics_core.errors import UserError
from answerkey.tasks.warehouse.home import Home

EXIT_BAD_INPUT = 2
_EPILOG = """\
examples:
  answerkey evaluate answers.csv
  answerkey evaluate answers.jsonl --references questions.jsonl --map release=model --slice lang
  answerkey evaluate answers.csv --judge openai/gpt-4o-mini --dry-run
  answerkey judge "Capital of France?" "Paris" "It is Paris."
  answerkey report --list
  answerkey compare gpt-4 gpt-5
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    0; 2 for bad input; 1 where doctor or judge found trouble, or the ledger cannot be used; 130 where it was stopped.
    A command with a gate returns the gate's: 0, 1, 3 or 4.
    """
    parser = _parser()
    chosen = parser.parse_args(arguments)
    from answerkey.flows.cli import commands

    try:
        return int(getattr(commands, chosen.command.replace("-", "_"))(chosen))
    except UserError as error:
        print(f"answerkey: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        from answerkey.metrics_core.llm.ledger import LedgerError

        if not isinstance(error, LedgerError):
            raise
        print(f"answerkey: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("answerkey: stopped; what was scored so far is kept, run the same command again", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="answerkey",
        description="Did the new model release answer better or worse than the last one, measured against "
        "answers known to be right?",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _evaluate(commands.add_parser("evaluate", help="score the answers of one or more releases and report"))
    _judge(commands.add_parser("judge", help="try a judge on one answer"))
    report = commands.add_parser("report", help="show reports")
    report.add_argument(
        "report_id", nargs="*", metavar="ID", help="faq/gpt-4/v2, or gpt-4 for its newest; default: the newest run"
    )
    report.add_argument("--list", action="store_true", help="list the reports, or those whose id starts with ID")
    report.add_argument("--by", metavar="METRIC.FIELD", help="what the slices show (default: token overlap recall)")
    report.add_argument("--html", metavar="FILE", type=Path, help="write a page about these reports, for a browser")
    report.add_argument("--baseline", metavar="NAME", default="", help="compare each with this release or report")
    report.add_argument("--policy", metavar="FILE", default="", help=POLICY)
    report.add_argument("--json", action="store_true", help="print JSON")
    _home(report)
    add_comparisons(commands, _home)
    add_releases(commands, _column_options, _how_to_score_options, _output_options, _home)
    from answerkey.flows.cli.gate_commands import calibrate_options, gate_options
    from answerkey.flows.cli.generate_command import generate_options
    from answerkey.flows.cli.trace_commands import trace_options

    trace_options(commands.add_parser("score-traces", help="score logged traces by rules: new ones, or a range"), _home)
    generate_options(
        commands.add_parser("generate", help="ask a model all questions of a data set, and register its answers"),
        scoring=_scoring_options, judge=_judge_options, comparing=_comparing_options, output=_output_options,
    )  # fmt: skip
    gate_options(commands.add_parser("gate", help="say whether a release may ship, by a policy"), _home)
    calibrate_options(commands.add_parser("calibrate", help="compare a metric or judge with labels of people"), _home)
    metrics = commands.add_parser("metrics", help="say what each metric is, what it gives and needs")
    metrics.add_argument("--json", action="store_true", help="print JSON")
    doctor = commands.add_parser("doctor", help="check versions, models, the judge, the warehouse and the server")
    _home(doctor)
    return parser


def _evaluate(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = "Load, validate and score answers; make a numbered report of every release."
    _data_options(parser.add_argument_group("data"))
    _how_to_score_options(parser)
    _output_options(parser)


def _how_to_score_options(parser: argparse.ArgumentParser) -> None:
    _scoring_options(parser.add_argument_group("scoring"))
    judge = parser.add_argument_group(
        "judge", "for meaning_match and ground_truth_similarity; without --judge the offline one, which is free"
    )
    _judge_options(judge)
    _budget_options(judge)
    _comparing_options(parser)


def _comparing_options(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--baseline", metavar="NAME", default="", help="compare with this release's newest report, or with a report"
    )
    parser.add_argument("--policy", metavar="FILE", default="", help=POLICY)
    parser.add_argument("--no-page", action="store_true", help="write no page into the folder pages of the warehouse")


def _output_options(parser: argparse.ArgumentParser) -> None:
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print the reports as JSON instead of a table")
    output.add_argument("--quiet", action="store_true", help="no progress, only warnings")
    _home(output)


def _data_options(data: argparse._ArgumentGroup) -> None:
    data.add_argument("answers", metavar="FILE", help="CSV, TSV, JSONL, JSON, Parquet, FILE.duckdb::TABLE, or a URL")
    data.add_argument(
        "--references",
        metavar="FILE",
        default="",
        help="the right answers, joined by id, if in a second file",
    )
    data.add_argument(
        "--dataset", metavar="NAME", default="", help="name of the data set (default: from the file name)"
    )
    data.add_argument("--release", metavar="NAME", default="", help="the release that gave all the answers in FILE")
    _column_options(data)


def _column_options(data: argparse._ActionsContainer) -> None:
    data.add_argument(
        "--map", metavar="KEY=PATH", action="append", default=[],
        help="where a column is: id, question, answer, references, facts, release, label, cluster, missing_because; "
        "PATH is a column or a path into JSON (id=meta.question_id). Usual names need none",
    )  # fmt: skip
    data.add_argument(
        "--map-references",
        metavar="KEY=PATH",
        action="append",
        default=[],
        help="the same for the references file",
    )
    data.add_argument(
        "--slice", metavar="COLUMN", action="append", default=[], help="report every value of a column too"
    )


def _scoring_options(scoring: argparse._ActionsContainer) -> None:
    scoring.add_argument("--metrics", metavar="A,B", default="", help="default: all; see `answerkey metrics`")
    scoring.add_argument(
        "--profile", default="default", metavar="NAME",
        help="old numbers of answer_correctness: continuous_eval_v0_2 or continuous_eval_v0_3",
    )  # fmt: skip
    scoring.add_argument("--embedding-models", metavar="A,B", default="", help="models of semantic_similarity")
    scoring.add_argument(
        "--aggregation",
        default="mean",
        metavar="HOW",
        help="of several models: mean, median, min, max, vote, consensus",
    )
    scoring.add_argument(
        "--threshold", type=float, default=0.0, metavar="X", help="similarity from which an answer passes"
    )
    scoring.add_argument(
        "--blank-answer", default="zero", metavar="HOW", help="zero (a missing answer is wrong) or undefined"
    )
    scoring.add_argument("--only-failed", action="store_true", help="score again what failed, and nothing else")
    scoring.add_argument(
        "--max-quarantined", type=float, default=0.20, metavar="SHARE",
        help="share of rows that may break a rule before the run stops (default 0.20)",
    )  # fmt: skip
    scoring.add_argument(
        "--min-coverage", type=float, default=0.95, metavar="SHARE",
        help="share of the rows that must be scored for a report to be COMPLETE (default 0.95)",
    )  # fmt: skip


def _judge_options(judge: argparse._ActionsContainer) -> None:
    judge.add_argument(
        "--judge", metavar="A,B", default="",
        help="models: PROVIDER/MODEL, or PROVIDER/MODEL@http://address (default: $ANSWERKEY_JUDGE, else offline)",
    )  # fmt: skip
    judge.add_argument("--judge-base", metavar="URL", default="", help="address for judges that name none")
    judge.add_argument(
        "--judge-key-from", metavar="WHERE", default="",
        help="where the key is: env:NAME, secret:BLOCK or variable:NAME (default: $ANSWERKEY_JUDGE_KEY, the Prefect "
        "secret answerkey-judge-key, or the provider's own variable)",
    )  # fmt: skip
    judge.add_argument(
        "--cascade", type=float, default=0.0, metavar="SHARE",
        help="let the offline judge decide meaning_match where it errs in at most this share (like 0.02), and ask "
        "--judge about the rest",
    )  # fmt: skip
    judge.add_argument(
        "--jury", default="majority", metavar="HOW", help="of several votes: majority, unanimous or mean"
    )
    judge.add_argument(
        "--repeats", type=int, default=1, metavar="N", help="ask every judge N times about each answer (default 1)"
    )
    judge.add_argument(
        "--judge-timeout", type=float, default=60.0, metavar="S", help="seconds that one call may take (default 60)"
    )
    judge.add_argument(
        "--judge-deadline", type=float, default=180.0, metavar="S",
        help="seconds that one question may take with all its calls (default 180)",
    )  # fmt: skip


def _budget_options(judge: argparse._ActionsContainer) -> None:
    judge.add_argument(
        "--judge-concurrency", type=int, default=64, metavar="N", help="calls to one judge at once (default 64)"
    )
    judge.add_argument("--max-calls", type=int, default=0, metavar="N", help="stop asking after N calls")
    judge.add_argument("--max-cost", type=float, default=0.0, metavar="USD", help="stop asking before it costs more")
    judge.add_argument("--dry-run", action="store_true", help="say what the judges would cost, and stop")


def _judge(parser: argparse.ArgumentParser) -> None:
    parser.description = "Ask judges about one answer, as an evaluation would. What they said once is in the ledger."
    parser.add_argument("question", help="the question; may be empty")
    parser.add_argument("reference", help="an answer known to be right")
    parser.add_argument("answer", help="the answer to judge")
    parser.add_argument(
        "--reference", dest="more_references", metavar="TEXT", action="append", default=[],
        help="another answer known to be right",
    )  # fmt: skip
    parser.add_argument("--metric", metavar="A,B", default="", help="default: meaning_match,ground_truth_similarity")
    _judge_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    _home(parser)


def _home(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--home", metavar="DIR", type=Home.parse, default=os.environ.get("ANSWERKEY_HOME") or ".answerkey",
        help="folder of the warehouse (default: $ANSWERKEY_HOME or ./.answerkey)",
    )  # fmt: skip
