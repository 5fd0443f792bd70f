"""`answerkey gate`."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from answerkey.flows.cli.compare import (
    ScoreClusters,
    ScoreColumns,
    ScoreLabels,
    check_folder,
    gated,
    sides_of,
    write_page,
    writing,
)
from answerkey.flows.cli.main import heading, json_text, print_json
from answerkey.flows.cli.options import HOME, IN_OUTPUT, OUTPUT, AsJson, Dataset, HomeOption
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.metrics.label import LABELLED

if TYPE_CHECKING:
    from answerkey.metrics_core.decide.policy import Policy
    from answerkey.tasks.gate.verdicts import ReleaseVerdict
    from answerkey.tasks.warehouse.home import Home

_POLICY = heading("Policy: either a file, or the options")
_IN_POLICY = Parameter(group=_POLICY)
PolicyFile = Annotated[
    str,
    Parameter(
        group=_POLICY,
        metavar="FILE",
        help="YAML with the keys primary, margin, labels, judge_bias, baseline and rules.",
    ),
]
Primary = Annotated[str | None, Parameter(group=_POLICY, metavar="METRIC.FIELD", help="The field that decides.")]
Margin = Annotated[
    float | None,
    Parameter(
        group=_POLICY,
        help="The non-inferiority margin: the largest loss of that field that you accept.",
    ),
]
Rules = Annotated[
    list[str] | None,
    Parameter(
        group=_POLICY,
        metavar="RULE",
        help="'METRIC.FIELD >= -0.03', 'METRIC.FIELD[column=value] >= -0.05', 'level METRIC.FIELD >= 0.8', "
        "'METRIC.FIELD <= +10%', 'p95 METRIC.FIELD <= 4', 'people METRIC.FIELD >= -0.02', 'kappa METRIC.FIELD >= 0.6', "
        "'in depth METRIC.FIELD >= 0.5', "
        "'none broken METRIC.FIELD[column=value]' or 'coverage >= 0.95'. May be repeated.",
    ),
]


def gate(  # noqa: PLR0912, PLR0913
    old: str,
    new: str = "",
    /,
    *,
    dataset: Dataset = "",
    policy: PolicyFile = "",
    primary: Primary = None,
    margin: Margin = None,
    level: Annotated[float | None, _IN_POLICY] = None,
    rule: Rules = None,
    columns: ScoreColumns = None,
    clusters: ScoreClusters = "",
    labels: ScoreLabels = "",
    keep: Annotated[bool, _IN_POLICY] = False,
    as_json: AsJson = False,
    output: Annotated[list[Path] | None, Parameter(group=OUTPUT, metavar="FILE")] = None,
    link: Annotated[str, Parameter(group=OUTPUT, metavar="URL")] = "",
    allow_inconclusive: Annotated[bool, IN_OUTPUT] = False,
    home: HomeOption = HOME,
) -> int:
    """Decide by a policy whether a release may ship.

    The exit code is that of the verdict: 0 PASS, 1 FAIL, 3 INCONCLUSIVE (too few samples), 4 INCOMPLETE (something is
    missing); 2 is bad input. OLD and NEW may be files too, with a column of ids and columns of scores that another tool
    made; or OLD alone a file with the scores of both releases. Counts of right answers suffice too: 47/50.

    Args:
        old: A report (faq/gpt-4/v2); a release (gpt-4), for its newest report; a file of scores; or a count (41/50).
        new: The report, release, file or count that is compared with the old one.
        level: The least mean of that field in the new release, as a rule `level METRIC.FIELD >= X`.
        keep: Keep OLD and the policy as the gate of the data set, for every evaluation that names neither.
        output: Write the verdict to this file too: .json, .xml (JUnit), .html (a page about both reports) or .md.
            Markdown has at most 40 lines, for the summary of a CI job or a comment on a pull request.
            May be repeated.
        link: Address of the page, which the Markdown links to.
        allow_inconclusive: Exit with 0 if the verdict is INCONCLUSIVE; in JUnit XML, such rules are skipped.

    Examples:
        answerkey gate gpt-4 gpt-5 --primary meaning_match.match --margin 0.02
        answerkey gate faq/gpt-4/v2 faq/gpt-5/v1 --policy gate.yaml --output gate.xml --output gate.html
        answerkey gate gpt-4 gpt-5 --policy gate.yaml --keep
        answerkey gate old.csv new.csv --margin 0.02
        answerkey gate scores.csv --margin 0.02 --clusters document --labels labels.csv
        answerkey gate 47/50 --level 0.9
        answerkey gate 41/50 47/50 --margin 0.05
    """
    files = output or []
    for file in files:
        if file.suffix not in _FORMATS:
            raise UserError(f"--output {file}: name the file .json, .xml, .html or .md")
    from answerkey.flows.cli.tables import print_verdict
    from answerkey.tasks.gate.gate import counts_in, decide_counts
    from answerkey.tasks.gate.verdicts import EXIT_CODES

    write = partial(_write, link=link, allow_inconclusive=allow_inconclusive)
    # A data set and its release may be called by numbers too, and have fields
    counts = [] if policy or primary else counts_in(*filter(None, (old, new)))
    if counts:
        if rule or keep or any(file.suffix in (".html", ".md") for file in files):
            raise UserError("counts are decided by --margin or --level alone, and have no page and no gate to keep")
        verdict = decide_counts(counts, margin=margin, level=level)
        for file in files:
            write(file, verdict, home, took_s=0.0)
    else:
        sides = sides_of(home, old, new, mapped=columns, clusters=clusters, labels=labels)
        with sides as (sides_home, old_report, new_report, scores):
            if keep and scores:
                raise UserError("--keep: files of scores have no data set; name two reports or releases")
            if scores and not (policy or primary):
                # Which of several scores decides is not to be chosen by their numbers
                primary, *other_scores = [name for name in scores if not labels or name != LABELLED]
                if other_scores:
                    names = ", ".join(other_scores)
                    raise UserError(f"which score decides? name it: --primary {primary}, or {names}")
            levels = [] if level is None else [f"level {primary} >= {level}"]
            rules = policy_of(policy, primary, margin, [*(rule or []), *levels])
            if labels and rules.primary.field != LABELLED:
                # Of files of scores with labels, people decide
                rules = replace(rules.by_people(), labels=rules.labels or "random")
            # Nothing is decided that could not be written.
            for file in files:
                check_folder(file, home)
            started_at = time.perf_counter()
            [verdict] = gated(sides_home, old_report, [new_report], rules, dataset=dataset)
            took_s = time.perf_counter() - started_at
            for file in files:
                write(file, verdict, sides_home, took_s=took_s)
    if keep:
        from answerkey.tasks.gate.verdicts import promote
        from answerkey.tasks.releases.register import keep_gate

        keep_gate(home, verdict.new.partition("/")[0], old, verdict.policy)
        promote(home, verdict)
    if as_json:
        print_json(verdict.as_dict())
    else:
        print_verdict(verdict)
    outcome = verdict.verdict.outcome
    return 0 if allow_inconclusive and outcome == "INCONCLUSIVE" else EXIT_CODES[outcome]


_FORMATS = (".json", ".xml", ".html", ".md")
"""Endings of the files that a verdict is written to."""


def _write(
    file: Path, verdict: ReleaseVerdict, home: Home, *, took_s: float, link: str, allow_inconclusive: bool
) -> None:
    """Write a verdict to a file, in the format that its ending names.

    Args:
        took_s: seconds that the decision took, for JUnit XML.
        link: the address of the page, for Markdown.
        allow_inconclusive: whether JUnit XML has rules without enough samples as skipped, not as failed.

    Raises:
        UserError: the file cannot be written.
    """
    if file.suffix in (".html", ".md"):
        from answerkey.tasks.publish.artifacts import compared_for
        from answerkey.tasks.publish.page.build import build_page
        from answerkey.tasks.publish.page.markdown import comment_markdown

        # About both reports; where there is no baseline, about the new one alone
        pairs = compared_for(home, verdict)
        ids = [*(pair.old for pair in pairs), verdict.new]
        page = build_page(home, ids, comparisons=pairs, gates=[verdict])
        if file.suffix == ".html":
            write_page(page, file)
            return
        text = comment_markdown(page, link)
    elif file.suffix == ".json":
        text = json_text(verdict.as_dict(), indent=2) + "\n"
    else:
        from answerkey.tasks.gate.verdicts import junit

        text = junit(verdict, datetime.now(UTC), took_s, allow_inconclusive=allow_inconclusive)
    with writing(file):
        file.write_text(text, encoding="utf-8", errors="backslashreplace")


def policy_of(policy: str, primary: str | None, margin: float | None, rules: list[str]) -> Policy:
    """The policy of a file or of options.

    Raises:
        UserError: both are given, or neither, or the policy cannot be used.
    """
    from answerkey.tasks.gate.gate import read_policy

    options = {"primary": primary, "margin": margin, "rule": rules}
    given = [name for name, value in options.items() if value not in (None, [])]
    if policy and given:
        raise UserError(f"--policy and --{given[0]}: write the policy in the file or in options, not in both")
    if policy:
        return read_policy(policy)
    if not given:
        raise UserError("a gate needs a policy: --policy FILE, or --primary METRIC.FIELD --margin X")
    from answerkey.metrics_core.policy_file import parse_policy

    return parse_policy({"primary": primary, "margin": margin, "rules": rules}, "options")
