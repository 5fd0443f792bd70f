"""What the tables of scores, comparisons, verdicts and calibrations say, for every place that shows them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from answerkey.metrics_core.comparison import FieldComparison
from answerkey.metrics_core.decide.intervals import Estimate
from answerkey.metrics_core.decide.policy import ALL
from answerkey.metrics_core.decide.verdict import Verdict, rounded
from answerkey.metrics_core.formatting import chance
from answerkey.metrics_core.metrics.label import LABEL
from answerkey.tasks.compare.warnings import MOVES_WITH_LENGTH
from answerkey.tasks.publish.table import Cell, Table, estimate
from answerkey.tasks.publish.text import (
    HUMAN,
    NONE,
    NOT_SHOWN,
    count,
    dollars,
    ends,
    finding,
    number,
    percent,
    rule_number,
    signed,
)
from answerkey.tasks.reports.report import Report, ReportPoint, Score, labels

if TYPE_CHECKING:
    from answerkey.metrics_core.llm.cost import Cost
    from answerkey.tasks.gate.calibrate import Calibration

Named = Mapping[str, Report]
"""Reports by the names that they have in a table: those of their releases, with the version where that is needed."""
Row = Sequence[Cell | str]
_INTERVAL = "95 % interval"
_LONGEST_ID = 16
_TESTS = {
    "mcnemar": "McNemar, exact",
    "sign-flip": "permutation",
    "cluster sign-flip": "permutation, clusters",
    "exchange": "permutation",
}


def report_scores(report: Report, names: Sequence[str]) -> Table:
    """The fields `names` of one report, each with its mean, its interval, and how many answers it has a number for."""
    scores = [score for name in names if (score := report.score(name))]
    rows = [
        (
            score.name, number(score.mean), ends(score.ci_low, score.ci_high),
            f"{score.n_scored:,}/{score.n_total:,}", count(score.n_clusters), count(score.n_failed or None),
        )
        for score in scores
    ]  # fmt: skip
    head = ("metric", "mean", _INTERVAL, "scored/total", "clusters", "failed")
    made = Table(f"{report.release} on {report.dataset}", head, rows, groups=[score.metric for score in scores])
    return made.without_empty("clusters", "failed")


def scores_of(reports: Sequence[Report], names: Sequence[str]) -> Table:
    """The fields `names` of reports on one data set: of several with a column for each report."""
    if len(reports) == 1:
        return report_scores(reports[0], names)
    of = labels(reports)
    named = {of[report.report_id]: report for report in reports}
    title = f"{len(reports)} releases on {reports[0].dataset}: mean [{_INTERVAL}]"
    return scores(title, named, names, list(counts(named)))


def scores(title: str, named: Named, names: Sequence[str], about: Sequence[Row] = ()) -> Table:
    """The fields `names` with a column for each report, and below them the rows `about` the whole reports."""
    rows: list[Row] = [(name, *(_mean(report.score(name)) for report in named.values())) for name in names]
    metrics = [name.partition(".")[0] for name in names]
    groups = metrics if len(set(metrics)) < len(metrics) else [""] * len(metrics)
    return Table(title, ("metric", *named), [*rows, *about], groups=[*groups, *("about" for _ in about)], each=True)


def counts(named: Named) -> Iterator[Row]:
    """How many answers of each report have labels and scores, and how many clusters they are in.

    The counts are those of the metric that covers least: a table may not look more complete than its weakest row.
    Human labels stand apart: an answer without a label is no failure.
    """
    reports = list(named.values())
    if any(score.metric == LABEL for report in reports for score in report.overall):
        yield "labelled/total", *(_coverage(report, labels=True) for report in reports)
    yield "scored/total", *(_coverage(report) for report in reports)
    clusters = [max((score.n_clusters or 0 for score in report.overall), default=0) for report in reports]
    if any(clusters):
        yield "clusters", *(count(n or None) for n in clusters)


def _coverage(report: Report, *, labels: bool = False) -> str:
    given = [name for name, note in report.manifest.get("metrics", {}).items() if note["kind"] == "given"]
    chosen = [score for score in report.overall if (score.metric == LABEL) == labels and score.metric not in given]
    if not chosen:
        return NONE
    # Where questions have several answers, pass@k and pass^k are about questions.
    whole = max(score.n_total for score in chosen)
    least = min((score for score in chosen if score.n_total == whole), key=lambda score: score.n_scored)
    return f"{least.n_scored:,}/{least.n_total:,}"


def _mean(score: Score | None) -> Cell:
    if score is None:
        return Cell(NONE)
    if score.mean is None and score.ci_low is not None and score.ci_high is not None:
        # Too few answers have a score for a mean; that of all answers lies in this interval.
        return replace(estimate(0.0, score.ci_low, score.ci_high), text=NONE)
    return estimate(score.mean, score.ci_low, score.ci_high)


def agreements(named: Named, primary: str) -> Table:
    """How far the scores that came with the answers agree with the field `primary`, where both are 0 or 1."""
    rows = [
        (
            one["given"], release, f"{one['n']:,}", percent(one["same"] / one["n"]),
            f"{one['only_given']:,}/{one['only_ours']:,}", ", ".join(map(_short, one["samples"])) or NONE,
        )
        for release, report in named.items()
        for one in report.manifest.get("given", {}).get("agreements", ())
        if one["field"] == primary
    ]  # fmt: skip
    rows.sort(key=lambda row: str(row[0]))
    head = ("given score", "release", "answers", "agree", "only given/ours", "samples that differ")
    return Table(
        f"Given scores against {primary}", head, rows, left=["release", "samples that differ"],
        wrapped={"samples that differ": 16}, groups=[row[0] for row in rows],
    )  # fmt: skip


def _short(sample_id: str) -> str:
    """An id, or as much of a long one, such as a hash, as is mostly enough to find it."""
    return sample_id if len(sample_id) <= _LONGEST_ID else f"{sample_id[: _LONGEST_ID - 1]}…"


def slices(named: Named, name: str, most: int | None = None) -> Table:
    """METRIC.FIELD `name` by slice, with a column for each report.

    Args:
        most: how many values of a column are shown, those with most answers; None: all.
    """
    by_slice = [{score.slice: score for score in report.scores if score.name == name} for report in named.values()]
    columns: dict[str, list[tuple[str, list[Score | None]]]] = {}
    for slice_ in dict.fromkeys(one for scores in by_slice for one in scores if one != ALL):
        found = (slice_, [scores.get(slice_) for scores in by_slice])
        columns.setdefault(slice_.partition("=")[0], []).append(found)
    lines: list[tuple[str, list[Score | None]]] = []
    for of_column in columns.values():
        largest = sorted(of_column, key=lambda line: -max(score.n_total for score in line[1] if score))[:most]
        lines += of_column if len(largest) == len(of_column) else largest
    left_out = sum(map(len, columns.values())) - len(lines)
    clustered = any(score and score.n_clusters for _, cells in lines for score in cells)
    counted = ["n_scored", "n_clusters"] if clustered else ["n_scored"]
    rows: list[Row] = [
        (
            slice_, *map(_mean, cells),
            *(_alike([count(getattr(score, one, None)) for score in cells]) for one in counted),
        )
        for slice_, cells in lines
    ]  # fmt: skip
    groups = [slice_.partition("=")[0] for slice_, _ in lines]
    note = [f"The largest values of each column; {left_out:,} smaller ones are in the warehouse."] if left_out else []
    head = ("slice", *named, *(one.removeprefix("n_") for one in counted))
    title = f"{name} by slice: mean [{_INTERVAL}]"
    return Table(title, head, rows, groups=groups, each=True, notes=note)


def _alike(counts: Sequence[str]) -> str:
    """One count if all releases agree, else one for each of them."""
    return " / ".join(counts if len(set(counts)) > 1 else counts[:1])


def comparison(title: str, rows: Sequence[FieldComparison], doubtful: Collection[str] = ()) -> Table:
    """The differences of fields on all samples, or of the slices of fields; without columns that say nothing.

    No finding is emphasized of the fields `doubtful`, which move with the lengths of the answers alone.
    Detectable is the minimum detectable effect; needed, how many samples would show the observed difference.
    """
    sliced = any(row.slice != ALL for row in rows)
    several = sliced and len({row.name for row in rows}) > 1
    names = [f"{row.name}, {row.slice}" if several else row.slice if sliced else row.name for row in rows]
    head = (
        "slice" if sliced else "field", "samples", "clusters", "old", "new",
        f"difference [{_INTERVAL}]", HUMAN, "p adjusted", "finding",
        "detectable", "needed", "fixed/broken",
    )  # fmt: skip
    cells = [
        (
            name, Cell(f"{row.n_common:,}", below=one_sided(row)), count(row.n_clusters), number(row.old),
            number(row.new), estimate(row.difference, row.low, row.high, signed),
            estimate(row.people, row.people_low, row.people_high, signed),
            Cell(chance(row.p_adjusted), below=(_TESTS.get(row.test, row.test),) if row.test else ()),
            Cell(finding(row), kind="not compared", below=(MOVES_WITH_LENGTH,)) if row.name in doubtful
            else Cell(finding(row), kind=row.finding or "not compared"),
            Cell(number(row.mde), below=(row.mde_note,) if row.mde_note else ()), needed(row) or NONE, fixed(row),
        )
        for name, row in zip(names, rows, strict=True)
    ]  # fmt: skip
    made = Table(
        title, head, cells, left=["finding"],
        wrapped={"finding": 10},
        groups=[row.name if several else row.slice.partition("=")[0] if sliced else row.metric for row in rows],
        under={"clusters": "samples", "needed": "detectable"},
    )  # fmt: skip
    return made.without_empty("clusters", HUMAN, "detectable", "needed", "fixed/broken")


def needed(row: FieldComparison) -> str:
    """Roughly how many samples would show a difference that these do not show; empty where that is not known.

    One digit, since the difference is known to a factor of two or three only, and the number goes with its square.
    """
    return f"~{rounded(row.needed, 1):,}" if row.needed and row.finding == NOT_SHOWN else ""


def fixed(row: FieldComparison) -> str:
    """How many samples went from 0 to 1, and how many from 1 to 0."""
    return NONE if row.fixed is None else f"{row.fixed:,}/{row.broken or 0:,}"


def one_sided(row: FieldComparison) -> tuple[str, ...]:
    """How many rows have a number in one of the releases only, and what they are in the other."""
    sides = (("only old", row.n_only_old, row.missing_new), ("only new", row.n_only_new, row.missing_old))
    return tuple(
        f"{name} {n:,}" + (f" ({', '.join(f'{count:,} {why}' for why, count in missing.items())})" if missing else "")
        for name, n, missing in sides
        if n
    )


def rules(title: str, verdict: Verdict) -> Table:
    """How each rule of a gate came out, and why."""
    rows = []
    for rule in verdict.rules:
        value = estimate(rule.value, rule.low, rule.high, rule_number(rule.rule))
        rows.append((rule.rule, Cell(rule.outcome, kind=rule.outcome), value, count(rule.n), rule.sentence))
    head = ("rule", "outcome", "value", "samples", "why")
    return Table(title, head, rows, left=["outcome", "why"], wrapped={"rule": 22, "why": 36})


def history(title: str, moments: Sequence[ReportPoint]) -> Table:
    """A field in every report of a data set."""
    rows = [
        (
            f"{one.release} v{one.version}", one.created_at, Cell(one.dataset_version, kind="code"),
            one.status.lower(), number(one.mean), ends(one.low, one.high), f"{one.n_scored:,}/{one.n_total:,}",
            str(one.methods),
        )
        for one in moments
    ]  # fmt: skip
    head = ("report", "made (UTC)", "data set", "status", "mean", _INTERVAL, "scored", "method")
    made = Table(title, head, rows, left=head[1:4], wrapped={"report": 16})
    return made if len({one.methods for one in moments}) > 1 else made.without("method")


def agreement(found: Calibration) -> Table:
    """How far a metric agrees with human labels, over all releases and in each of them."""
    rows: list[Row] = []
    for part in found.parts:
        agreed, threshold = part.agreement, part.threshold
        cells = [getattr(agreed, name, None) for name in ("kappa", "ac1", "sensitivity", "specificity", "bias")]
        cells += [part.auroc, threshold and Estimate(threshold.value, threshold.interval)]
        rows.append((part.release or "all", f"{part.n:,}", *map(estimated, cells)))
    head = ("release", "n", "kappa", "AC1", "sensitivity", "specificity", "bias", "AUROC", "threshold")
    made = Table(f"{found.name} against human labels ({found.labels})", head, rows)
    return made.without_empty("AUROC", "threshold")


def corrected(found: Calibration) -> Table:
    """The mean of each release, as scored and in human labels."""
    rows = [
        (
            one.release, estimated(one.raw), estimated(Estimate(one.corrected.value, one.corrected.interval)),
            f"{one.corrected.labelled:,}", f"{one.corrected.unlabelled:,}",
        )
        for one in found.corrected
    ]  # fmt: skip
    title = "mean of each release, raw and corrected for these errors (PPI++)"
    return Table(title, ("release", "raw", "corrected", "labelled", "scored only"), rows)


def estimated(found: Estimate | None) -> Cell:
    """An estimate with both ends of its interval, if it has one."""
    if found is None:
        return Cell(NONE)
    return estimate(found.value, *(found.interval[:2] if found.interval else (None, None)))


def costs(title: str, estimates: Sequence[Cost]) -> Table:
    """What a run would ask models, by metric and in all."""
    from answerkey.metrics_core.llm.cost import Cost, total_usd

    names = ("calls", "in_ledger", "tokens_in", "tokens_out")
    calls, known, asked, answered = (sum(getattr(one, name) for one in estimates) for name in names)
    total = Cost("total", 0, calls, known, asked, answered, total_usd(estimates))
    rows = [
        (
            one.metric, "" if one is total else count(one.samples), f"{one.calls:,}", f"{one.in_ledger:,}",
            f"{_rough(one.tokens_in)}/{_rough(one.tokens_out)}", dollars(one.cost_usd),
        )
        for one in (*estimates, total)
    ]  # fmt: skip
    head = ("metric", "samples", "calls", "ledger", "tokens in/out", "cost")
    return Table(title, head, rows, groups=[*("metric" for _ in estimates), "total"])


def _rough(tokens: int) -> str:
    """Three digits: an estimate has no more to say."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if tokens >= 0.9995 * size:
            return f"{tokens / size:.3g}{unit}"
    return str(tokens)
