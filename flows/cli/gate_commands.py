"""`answerkey gate` and `answerkey calibrate`: their options, and what they do with them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.warehouse.home import Home

if TYPE_CHECKING:
    from answerkey.metrics_core.gate.policy import Policy
    from answerkey.tasks.gate.verdicts import Gated

_EPILOG = """\
exit codes: 0 PASS, 1 FAIL, 3 INCONCLUSIVE (too few samples), 4 INCOMPLETE (something is missing), 2 bad input

examples:
  answerkey gate gpt-4 gpt-5 --primary meaning_match.match --margin 0.02
  answerkey gate faq/gpt-4/v2 faq/gpt-5/v1 --policy gate.yaml --junit gate.xml
  answerkey gate gpt-4 gpt-5 --policy gate.yaml --self-test
"""


def gate_options(parser: argparse.ArgumentParser, home: Callable[[argparse._ActionsContainer], None]) -> None:
    """Add the options of the command; `home` adds --home."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = "May the new release ship? Decides by a policy, and says how sure that is."
    parser.epilog = _EPILOG
    parser.add_argument("old", metavar="OLD", help="the report of the release in use, or the name of the release")
    parser.add_argument("new", metavar="NEW", help="the report of the release that wants to ship, or its name")
    parser.add_argument("--dataset", metavar="NAME", default="", help="where a release has reports on several")
    policy = parser.add_argument_group("policy", "Either a file, or the options.")
    policy.add_argument("--policy", metavar="FILE", help="YAML with the keys primary, margin and rules")
    policy.add_argument("--primary", metavar="METRIC.FIELD", help="the field that decides")
    policy.add_argument("--margin", metavar="X", type=float, help="the loss of it that does not matter")
    policy.add_argument(
        "--rule", metavar="RULE", action="append", default=[],
        help="'METRIC.FIELD >= -0.03', 'METRIC.FIELD[column=value] >= -0.05', 'level METRIC.FIELD >= 0.8', "
        "'kappa METRIC.FIELD >= 0.6', 'coverage >= 0.95'",
    )  # fmt: skip
    output = parser.add_argument_group("output")
    output.add_argument("--json", metavar="FILE", help="write the verdict as JSON; - prints it instead of the text")
    output.add_argument("--junit", metavar="FILE", help="write the verdict as JUnit XML")
    output.add_argument(
        "--html", metavar="FILE", type=Path, help="write a page about both reports, with the verdict on top"
    )
    output.add_argument(
        "--self-test", action="store_true",
        help="simulate the gate on these samples: how often it raises a false alarm, and how often it sees a loss",
    )  # fmt: skip
    output.add_argument("--seed", metavar="N", type=int, default=0, help="of the self-test (default 0)")
    home(output)


def gate(chosen: argparse.Namespace) -> int:
    """Print and write the verdict and return its exit code; a self-test that could be made returns 0."""
    policy = _policy(chosen)
    from answerkey.flows.terminal.gates import print_self_test, print_verdict
    from answerkey.tasks.gate.gate import gate as decide
    from answerkey.tasks.gate.gate import gate_self_test
    from answerkey.tasks.gate.junit import junit
    from answerkey.tasks.gate.verdicts import EXIT_CODES

    names = (chosen.home, chosen.old, chosen.new, policy, chosen.dataset)
    if chosen.self_test:
        for option in ("junit", "html"):
            if getattr(chosen, option):
                raise UserError(f"--{option}: a self-test has no verdict to write; leave one of the two out")
        tested = gate_self_test(*names, seed=chosen.seed)
        if not _as_json(chosen.json, asdict(tested)):
            print_self_test(tested)
        return 0
    gated = decide(*names)
    if chosen.junit:
        _write(chosen.junit, junit(gated))
    if chosen.html:
        _page(chosen.home, gated, chosen.html)
    if not _as_json(chosen.json, gated.as_dict()):
        print_verdict(gated)
    return EXIT_CODES[gated.verdict.outcome]


def _page(home: Home, gated: Gated, file: Path) -> None:
    """About both reports; where there is no baseline, about the new one alone."""
    from answerkey.flows.cli.comparison_commands import write_page
    from answerkey.tasks.compare.compare import compare, primary_field
    from answerkey.tasks.reports.names import is_known

    ids = [one for one in (gated.old, gated.new) if is_known(home, one)]
    pairs = [compare(home, *ids, primary=primary_field(home, ids, gated.primary))] if len(ids) > 1 else []
    write_page(home, ids, file, pairs, [gated])


def calibrate_options(parser: argparse.ArgumentParser, home: Callable[[argparse._ActionsContainer], None]) -> None:
    """Add the options of the command; `home` adds --home."""
    parser.description = (
        "Compare a metric or judge with labels of people: those that came with the answers, or of a file. The result "
        "is kept, and a gate can demand it."
    )
    parser.add_argument("name", metavar="METRIC.FIELD", help="what to calibrate, for instance meaning_match.match")
    parser.add_argument(
        "--report", metavar="ID", action="append", default=[],
        help="a report, or the name of a release; more than one may be given (default: the newest run)",
    )  # fmt: skip
    parser.add_argument(
        "--labels", metavar="FILE", default="",
        help="a file with id, label and release; with a column score, it is those scores that are calibrated",
    )  # fmt: skip
    parser.add_argument(
        "--map", metavar="KEY=PATH", action="append", default=[],
        help="where a column of that file is: id, release, label, second (another annotator), score, cluster",
    )  # fmt: skip
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="of the bootstrap (default 0)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    home(parser)


def calibrate(chosen: argparse.Namespace) -> int:
    """Calibrate, keep the result and print it."""
    from answerkey.flows.terminal.gates import print_calibration
    from answerkey.tasks.gate.calibrate import calibration, columns_of
    from answerkey.tasks.gate.calibrations import keep

    if chosen.map and not chosen.labels:
        raise UserError("--map says where columns of --labels FILE are, and there is no such file given")
    found = calibration(
        chosen.home, chosen.name, reports=chosen.report, labels=chosen.labels, mapping=chosen.map, seed=chosen.seed
    )
    keep(chosen.home, found)
    if chosen.json:
        about: dict[str, Any] = {"metric": found.name, "signature": found.signature, "reports": found.report_ids}
        about |= {"labels": found.labels, "n_without_score": found.n_without_score}
        parts = [columns_of(found, part) for part in found.parts]
        print(json.dumps({**about, "calibrations": parts}, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        print_calibration(found)
    return 0


def _policy(chosen: argparse.Namespace) -> Policy:
    from answerkey.tasks.gate.gate import read_policy

    given = [option for option in ("primary", "margin", "rule") if getattr(chosen, option) not in (None, [])]
    if chosen.policy and given:
        raise UserError(f"--policy and --{given[0]}: write the policy in the file or in options, not in both")
    if chosen.policy:
        return read_policy(chosen.policy)
    if not given:
        raise UserError("a gate needs a policy: --policy FILE, or --primary METRIC.FIELD --margin X")
    from answerkey.metrics_core.gate.policy import parse_policy

    return parse_policy({"primary": chosen.primary, "margin": chosen.margin, "rules": chosen.rule}, "options")


def _as_json(where: str | None, content: dict[str, Any]) -> bool:
    """Write `content` if that is asked for; whether it took the place of the text."""
    if where is None:
        return False
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    if where == "-":
        print(text)
        return True
    _write(where, text + "\n")
    return False


def _write(file: str, text: str) -> None:
    try:
        Path(file).write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise UserError(f"{file}: cannot be written: {error.strerror or error}") from error
