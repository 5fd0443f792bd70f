"""The commands about registered releases, reruns and the server: what they take on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from answerkey.flows.cli.comparison_arguments import REPORT

Add = Callable[[argparse.ArgumentParser], None]


def add_releases(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], columns: Add, scoring: Add, output: Add, home: Add
) -> None:
    """Add `register-release`, `evaluate-registered`, `rerun`, `serve` and `deploy`.

    Args:
        columns: adds the options that say where the columns of a file are.
        scoring: those that say how to score, whom to ask and what it may cost.
        output: those about what is printed.
        home: the one that says where the warehouse is.
    """
    register = commands.add_parser("register-release", help="keep the answers of a release, to be evaluated")
    _register(register)
    columns(register)
    home(register)
    registered = commands.add_parser("evaluate-registered", help="evaluate every registered release without a report")
    _registered(registered)
    scoring(registered)
    output(registered)
    rerun = commands.add_parser("rerun", help="make a report again with another judge, threshold or metrics")
    _rerun(rerun)
    output(rerun)
    serve = commands.add_parser("serve", help="start a Prefect server with all flows on this machine")
    serve.description = "Start a Prefect server on loopback, deploy all flows, and run what is started there."
    serve.add_argument(
        "--port", type=int, default=4200, metavar="N", help="of the server; N + 1 is for the pages (default 4200)"
    )
    home(serve)
    deploy = commands.add_parser("deploy", help="deploy all flows and automations to the server at PREFECT_API_URL")
    deploy.description = "Make the work pool, the deployments and the automations, or bring them up to date."
    deploy.add_argument(
        "--notify", metavar="TYPE/NAME", default="",
        help="the Prefect block that tells people of failed gates and incomplete runs, for instance slack-webhook/team",
    )  # fmt: skip
    deploy.add_argument(
        "--pool", choices=("process", "docker"), default="process",
        help="where runs work: in processes of the worker's machine (default), or each in a container",
    )  # fmt: skip
    home(deploy)


def _register(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Keep the answers of a release and what its evaluation needs, and tell the Prefect server, if there is one. "
        "The same again changes nothing."
    )
    parser.add_argument("release", metavar="NAME", help="the release that gave the answers")
    parser.add_argument("--answers", metavar="FILE", required=True, help="as for `answerkey evaluate`")
    parser.add_argument("--dataset", metavar="NAME", required=True, help="the data set that it answered")
    parser.add_argument(
        "--references", metavar="FILE", default="",
        help="the right answers (default: beside the answers, else those of the data set's newest evaluation)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON")


def _registered(parser: argparse.ArgumentParser) -> None:
    parser.description = "Evaluate every registered release that has no report yet. A second time does nothing."
    parser.add_argument(
        "release", metavar="NAME", nargs="?", default="", help="a release, DATASET/RELEASE or a registration (all)"
    )
    parser.add_argument("--at-most", metavar="N", type=int, default=10, help="how many (default 10)")


def _rerun(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Make the next version of a report from the same answers. What is not given stays as in the report."
    )
    parser.add_argument("report", metavar="REPORT", help=REPORT)
    parser.add_argument("--metrics", metavar="A,B", default="", help="those of the new report")
    parser.add_argument("--threshold", type=float, metavar="X", help="similarity from which an answer passes")
    parser.add_argument("--only-failed", action="store_true", help="score again what failed, and nothing else")
    parser.add_argument("--judge", metavar="A,B", default="", help="PROVIDER/MODEL, or PROVIDER/MODEL@http://address")
    parser.add_argument("--judge-base", metavar="URL", default="", help="address for judges that name none")
    parser.add_argument(
        "--judge-key-from", metavar="WHERE", default="", help="where the key is: env:NAME, secret:BLOCK, variable:NAME"
    )
    parser.add_argument("--max-calls", type=int, default=0, metavar="N", help="stop asking after N calls")
    parser.add_argument("--max-cost", type=float, default=0.0, metavar="USD", help="stop asking before it costs more")
    parser.add_argument("--dry-run", action="store_true", help="say what the judges would cost, and stop")
