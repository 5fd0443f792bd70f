"""The commands about reports and pairs of them: `report`, `compare`, `diff` and `history`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from answerkey.flows.cli.main import json_text, print_json
from answerkey.flows.cli.options import (
    HOME,
    IN_OUTPUT,
    AllFields,
    AsJson,
    Baseline,
    Dataset,
    Flags,
    HomeOption,
    PolicyOption,
    command,
)
from answerkey.flows.environment import printable, running
from answerkey.flows.parameters import Comparing
from answerkey.metrics_core.errors import UserError

if TYPE_CHECKING:
    from answerkey.metrics_core.comparison import Comparison
    from answerkey.metrics_core.decide.policy import Policy
    from answerkey.tasks.gate.verdicts import ReleaseVerdict
    from answerkey.tasks.publish.page.model import Page
    from answerkey.tasks.reports.report import Report
    from answerkey.tasks.warehouse.home import Home

ScoreColumns = Annotated[
    list[str] | None,
    Parameter(
        "--map",
        metavar="KEY=COLUMN",
        help="A column of files of scores whose name does not say what it is: id, release, cluster, label, repeat, or "
        "scores. May be repeated.",
    ),
]
ScoreClusters = Annotated[
    str, Parameter(metavar="COLUMN", help="Rows of files of scores with the same value here belong together.")
]
ScoreLabels = Annotated[
    str,
    Parameter(
        metavar="FILE",
        help="What people say of questions that were drawn at random from files of scores: id and a column for each "
        "release, or id, release, label. Their labels decide, and the scores predict those that are missing.",
    ),
]


def report(  # noqa: PLR0913
    reports: list[str] | None = None,
    /,
    *,
    listed: Annotated[bool, Parameter("--list")] = False,
    by: Annotated[str | None, Parameter(metavar="METRIC.FIELD")] = None,
    samples: Annotated[int, IN_OUTPUT] = 0,
    all_fields: AllFields = False,
    baseline: Baseline = "",
    policy: PolicyOption = "",
    html: Annotated[Path | None, IN_OUTPUT] = None,
    as_json: AsJson = False,
    home: HomeOption = HOME,
) -> int:
    """Show reports.

    Args:
        reports: A report (faq/gpt-4/v2), or a release (gpt-4) for its newest report.
            Default: the reports of the newest run.
        listed: List reports: all, or those whose id starts with the given text.
        by: The field whose slices and worst scores are shown. Default: the primary field.
        samples: Show this many samples of each report: those that score worst.
        html: Write a page about these reports, for a browser.

    Examples:
        answerkey report --list
        answerkey report gpt-5 --baseline gpt-4 --html page.html
    """
    from answerkey.flows.cli.tables import print_list, print_reports
    from answerkey.tasks.gate.verdicts import exit_code
    from answerkey.tasks.reports.report import latest_run, list_reports, read_reports, report_named

    _check_samples(samples, elsewhere=bool(html or baseline or policy or listed))
    check_folder(html, home)
    if listed:
        print_list([row for prefix in reports or [""] for row in list_reports(home, prefix)], as_json=as_json)
        return 0

    # The reports by themselves, unless they are compared or drawn
    ids = [report_named(home, name) for name in reports or ()] or latest_run(home)
    if not ids:
        raise UserError(f"{home}: no reports yet; run `answerkey evaluate` first")
    if not (html or baseline or policy):
        print_reports(
            read_reports(home, ids), as_json=as_json, with_checks=True, by=by, all_fields=all_fields, home=home,
            samples=samples,
        )  # fmt: skip
        return 0

    # Each against the baseline, else against the one before it
    ids, pairs, gates = _with_baseline(home, ids, baseline, policy, all_fields=all_fields)
    if html:
        from answerkey.tasks.publish.page.build import build_page

        write_page(build_page(home, ids, comparisons=pairs, gates=gates, primary=by), html)
        print(html)
    else:
        print_against(home, read_reports(home, ids), pairs, gates, as_json=as_json, by=by, all_fields=all_fields)
    return exit_code(gates)


def _check_samples(samples: int, *, elsewhere: bool = False) -> None:
    """`elsewhere`: whether what is asked for shows no samples, or shows them in another place."""
    # A count is wanted, and a place that shows samples
    if samples < 0:
        raise UserError(f"--samples {samples}: give a count")
    if samples and elsewhere:
        raise UserError(
            "--samples: not with --html, whose page has all samples, nor with --list, --baseline and --policy; "
            "of two releases, `answerkey compare OLD NEW --samples N` shows what changed most"
        )


@command
def compare(  # noqa: PLR0913
    comparing: Annotated[Comparing, Flags("Comparison")],
    *,
    by_slice: Annotated[bool, IN_OUTPUT] = False,
    wide: Annotated[bool, IN_OUTPUT] = False,
    samples: Annotated[int, IN_OUTPUT] = 0,
    moved: Annotated[Literal["both", "better", "worse"], IN_OUTPUT] = "both",
    columns: ScoreColumns = None,
    clusters: ScoreClusters = "",
    labels: ScoreLabels = "",
    as_json: AsJson = False,
    home: HomeOption = HOME,
) -> int:
    """Is the new release better or worse than the old one?

    Compares two reports, sample by sample, on the samples that both have a score for. OLD and NEW may be files too,
    with a column of ids and columns of scores that another tool made; or OLD alone a file with the scores of both.

    Args:
        by_slice: Print every slice too.
        wide: Also print clusters, p, the smallest difference that would show, the samples that this one would take,
            and how many answers were fixed and broken.
        samples: Print this many of the samples that changed most in the first field.
        moved: Which of these samples to print: those that got better, worse, or both.

    Examples:
        answerkey compare gpt-4 gpt-5
        answerkey compare gpt-4 gpt-5 --primary meaning_match.match --samples 5
        answerkey compare old.csv new.csv
        answerkey compare old.csv new.csv --clusters document --labels labels.csv --wide
    """
    from answerkey.flows.cli.tables import pair_json, print_pairs
    from answerkey.tasks.compare.examples import largest_changes
    from answerkey.tasks.publish.artifacts import unversioned

    _check_samples(samples)
    sides = sides_of(home, comparing.old, comparing.new, mapped=columns, clusters=clusters, labels=labels)
    with sides as (sides_home, old, new, scores), running(sides_home):
        from answerkey.flows.compare_releases import compare_releases

        # All scores of a file are of one metric, of which a comparison shows one field unasked
        reports = {"old": old, "new": new, "all_fields": comparing.all_fields or bool(scores)}
        pair = compare_releases(comparing.model_copy(update=reports), str(sides_home), page=False)
        field = next((row.name for row in pair.overall if row.difference is not None), "")
        changed = largest_changes(sides_home, pair.old, pair.new, field, direction=moved, limit=samples if field else 0)
    if scores:
        # The reports of two files are gone with the command, so only their names mean something
        pair = replace(pair, old=unversioned(pair.old)[-1], new=unversioned(pair.new)[-1])
    if as_json:
        print_json(pair_json(pair) | ({"samples": changed} if samples else {}))
    else:
        print_pairs([pair], by_slice=by_slice, wide=wide, samples=changed)
    return 0


def diff(old: str, new: str, /, *, dataset: Dataset = "", as_json: AsJson = False, home: HomeOption = HOME) -> int:
    """Why did a number move? What differs between two reports.

    Lists everything that differs: rows, references, answers, judge, prompt, parser, code, parameters.

    Args:
        old: A report (faq/gpt-4/v2), or a release (gpt-4), which stands for its newest report.
        new: The report or release that is compared with the old one.

    Examples:
        answerkey diff faq/gpt-4/v1 faq/gpt-4/v2
    """
    from answerkey.flows.cli.tables import print_difference
    from answerkey.tasks.compare.difference import diff as diff_reports
    from answerkey.tasks.reports.report import pair_named

    print_difference(diff_reports(home, *pair_named(home, old, new, dataset)), as_json=as_json)
    return 0


def history(
    field: str = "",
    /,
    *,
    rule: str = "",
    by: Literal["day", "week", "month"] = "day",
    dataset: Dataset = "",
    as_json: AsJson = False,
    home: HomeOption = HOME,
) -> int:
    """A score over releases and report versions.

    Every report of a data set, or the traces of a rule over time; oldest first. Of more than 20 data sets, the newest
    report of each.

    Args:
        field: METRIC.FIELD, for instance label.correct.
            With --rule it may be left out: the main field of the rule's metric.
        rule: Show the traces that this rule has scored over time, instead of reports.
        by: The length of a period of a rule.

    Examples:
        answerkey history label.correct --dataset faq
        answerkey history --rule faq-meaning --by week
    """
    from answerkey.flows.cli.tables import print_history, print_over_time
    from answerkey.tasks.reports.report import history as history_of

    if rule:
        from answerkey.tasks.traces.over_time import over_time

        print_over_time(rule, over_time(home, rule, field, by), by=by, as_json=as_json)
        return 0
    if not field:
        raise UserError("history: name a METRIC.FIELD, for instance label.correct, or a rule with --rule")
    print_history(field, history_of(home, field, dataset), as_json=as_json)
    return 0


def _with_baseline(
    home: Home, report_ids: Sequence[str], baseline: str, policy: str, *, all_fields: bool
) -> tuple[list[str], Sequence[Comparison], list[ReleaseVerdict]]:
    """The reports with the baseline before them, how each compares with it, and what the gate says of each.

    Without a baseline each report is compared with the one before it. The comparisons are corrected for together.

    Raises:
        UserError: there is no such baseline, nothing to compare with it, or a policy without one.
    """
    from itertools import pairwise

    from answerkey.tasks.compare.compare import compare_all, primary_field
    from answerkey.tasks.gate.gate import read_policy
    from answerkey.tasks.reports.report import read_reports, report_named

    ids = list(dict.fromkeys(report_ids))
    if not baseline:
        if policy:
            raise UserError("--policy: a gate needs a release to compare with; name one with --baseline")
        return ids, compare_all(home, list(pairwise(ids)), all_fields=all_fields), []

    # The newest report of the baseline that has what the policy needs
    rules = read_policy(policy) if policy else None
    old = report_named(home, baseline, read_reports(home, ids[:1])[0].dataset, rules.fields if rules else ())
    news = [new for new in ids if new != old]
    if not news:
        raise UserError(f"--baseline {baseline}: this is {old} itself; name a report to compare with it")

    # All in one call, since the comparisons are corrected for together
    primary = primary_field(home, [old, *news], rules.primary.field) if rules else ""
    pairs = compare_all(home, [(old, new) for new in news], all_fields=all_fields, primary=primary)
    return [old, *news], pairs, gated(home, old, news, rules) if rules else []


@contextmanager
def sides_of(
    home: Home, old: str, new: str, *, mapped: Sequence[str] | None, clusters: str, labels: str
) -> Iterator[tuple[Home, str, str, Sequence[str]]]:
    """Yield the home, the old and the new report; of files of scores, those in a home for a while, and their fields.

    Raises:
        UserError: there is one name, which is no file, or columns are named and there is no file.
    """
    # Two reports or releases, unless both names are files
    absent = [name for name in (old, new or old) if not Path(name).is_file()]
    if absent and not new:
        raise UserError(f"{old}: there is no such file, and for two reports or releases NEW is missing")
    if len(absent) == 1:
        raise UserError(f"{absent[0]}: there is no such file; give two files of scores, or two reports or releases")
    if absent:
        for option, argument in (("--map", mapped), ("--clusters", clusters), ("--labels", labels)):
            if argument:
                raise UserError(f"{option}: it is about files of scores; a report has read its file")
        yield home, old, new, ()
        return
    from answerkey.tasks.notebook.score_files import add_scores
    from answerkey.tasks.reports.headline import fields_of

    columns = [*(mapped or ()), *([f"cluster={clusters}"] if clusters else [])]

    # Files of scores are reports in a home that goes with the command
    with TemporaryDirectory(prefix="answerkey-") as folder:
        scores_home = replace(home, place=Path(folder))
        reports, doubt = add_scores(scores_home, old, new, columns, labels)
        if doubt:
            print(printable(doubt), file=sys.stderr)
        yield scores_home, reports[0].report_id, reports[1].report_id, fields_of(reports)


def gated(home: Home, old: str, news: Sequence[str], policy: Policy, dataset: str = "") -> list[ReleaseVerdict]:
    """Run the flow that decides whether each of `news` may replace `old`."""
    with running(home):
        from answerkey.flows.compare_releases import gate_releases

        rules = json_text(policy.as_dict())
        return gate_releases(old, list(news), rules, dataset=dataset, home=str(home), page=False)


def check_folder(html: Path | None, home: Home) -> None:
    """Find out before a page is made whether there is a folder for it, whose pages `forget` leaves alone.

    Raises:
        UserError: there is none.
    """
    if not html:
        return
    if not html.absolute().parent.is_dir():
        raise UserError(f"{html}: there is no folder {html.parent}")
    from answerkey.tasks.publish.artifacts import FOLDER

    pages = home.local / FOLDER
    if html.resolve().is_relative_to(pages.resolve()):
        raise UserError(f"{html}: answerkey writes and removes the pages in {pages}; name another folder")


def write_page(page: Page, file: Path) -> None:
    """Write a page for the browser.

    Raises:
        UserError: it cannot be written there.
    """
    from answerkey.tasks.publish.page.html import write

    with writing(file):
        write(page, file)


@contextmanager
def writing(file: Path) -> Iterator[None]:
    """Around the lines that write a file that somebody named.

    Raises:
        UserError: it cannot be written there.
    """
    try:
        yield
    except OSError as error:
        raise UserError(f"{file}: cannot be written: {error.strerror or error}") from error


def print_against(
    home: Home,
    reports: Sequence[Report],
    pairs: Sequence[Comparison],
    gates: Sequence[ReleaseVerdict],
    *,
    as_json: bool,
    by: str | None = None,
    all_fields: bool = False,
    brief: bool = False,
) -> None:
    """What the gate says, how the reports compare with a baseline, and then the reports themselves.

    With `brief`, without what holds of the rules, and without the means, which the comparison has.
    """
    from answerkey.flows.cli.tables import pair_json, print_pairs, print_remarks, print_reports, print_verdict

    if as_json:
        verdicts = [gated.as_dict() for gated in gates]
        print_json({"reports": reports, "comparisons": [*map(pair_json, pairs)], "verdicts": verdicts})
        return
    # About one pair the verdict says it all: the table has the numbers, and no findings of fields that do not decide
    one_pair = brief and len(pairs) == 1

    # The decision first, then the differences, then the reports
    for gated in gates:
        print_verdict(gated, brief=brief)
        if not one_pair:
            print()
    if pairs:
        print_pairs(pairs, by_slice=False, verdicts=gates, brief=one_pair)
    if pairs and not one_pair:
        print()
    if brief:
        print_remarks(reports, with_depth=not gates)
    else:
        print_reports(reports, as_json=False, by=by, all_fields=all_fields, home=home)
