"""Read reports back from the warehouse: by id or by the name of a release, and a field over time."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.metric import Field, Kind
from answerkey.metrics_core.registry import METRICS
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.warehouse import one_file, scratch

if TYPE_CHECKING:
    import duckdb


_SQL = statements(__name__)
MOST_REPORTS = 40
"""Most reports in a history, unless more are asked for."""

NOT_GIVEN = "no such score came with the answer"


@dataclass(frozen=True, slots=True)
class Score:
    """One aggregated field of a report; see `report_scores` in schema.sql."""

    metric: str
    field: str
    slice: str
    n_total: int
    n_scored: int
    n_failed: int
    n_undefined: int
    n_skipped: int
    coverage: float | None
    mean: float | None
    ci_low: float | None
    ci_high: float | None
    ci_method: str | None
    bound_low: float | None
    bound_high: float | None
    n_clusters: int | None = None
    n_questions: int | None = None
    within_variance: float | None = None

    @property
    def name(self) -> str:
        """METRIC.FIELD."""
        return f"{self.metric}.{self.field}"


@dataclass(frozen=True, slots=True)
class MetricNote:
    """What a report keeps of a metric; `headline` is the field that speaks for it."""

    kind: Kind | Literal["given"]
    summary: str
    fields: tuple[Field, ...]
    headline: str


@dataclass(frozen=True, slots=True)
class Report:
    """A report with its aggregates, checks and quarantine counts.

    `message` says what has no score and why; None where everything has one.
    """

    report_id: str
    dataset: str
    dataset_version: str
    release: str
    version: int
    created_at: str
    status: str
    message: str | None
    answers_version: str
    run_id: str
    manifest: dict[str, Any]
    scores: tuple[Score, ...]
    checks: tuple[tuple[str, str, bool, str], ...]
    quarantined: tuple[tuple[str, int], ...]

    def metric(self, name: str) -> MetricNote | None:
        """What the metric called `name` is; None for one that is not a metric of the report.

        Reports keep it themselves, since the code of a metric may be gone; those of the first version did not, and
        had metrics of this package only.
        """
        # What this package knows of the metric, where it has one of that name
        metric = METRICS[name]() if name in METRICS else None
        if note := self.manifest.get("metrics", {}).get(name):
            fields = tuple(Field.from_dict(field) for field in note["fields"])
            # Scores of other tools do not name a headline
            headline = note.get("headline") or (metric.headline if metric else fields[0].name)
            return MetricNote(note["kind"], note["summary"], fields, headline)
        return MetricNote(metric.kind, metric.described(), metric.fields, metric.headline) if metric else None

    def kind(self, metric: str) -> str:
        """The kind of a metric; empty for one that is not a metric of the report."""
        note = self.metric(metric)
        return note.kind if note else ""

    def lower_is_better(self, name: str) -> bool:
        """Whether less of METRIC.FIELD `name` is better, as of a latency."""
        metric, _, field = name.partition(".")
        note = self.metric(metric)
        return note is not None and field in [each.name for each in note.fields if each.lower_is_better]

    def range(self, name: str) -> tuple[float, float]:
        """The lowest and highest possible value of METRIC.FIELD `name`; of a field that is not known, the widest of its
        metric."""
        metric, _, field = name.partition(".")
        note = self.metric(metric)
        if note is None:
            return 0.0, 1.0
        fields = [each for each in note.fields if each.name == field] or note.fields
        return min(each.low for each in fields), max(each.high for each in fields)

    @property
    def overall(self) -> tuple[Score, ...]:
        """The scores over all rows, without slices."""
        return tuple(score for score in self.scores if score.slice == "all")

    @property
    def names(self) -> list[str]:
        """METRIC.FIELD of every number of the report."""
        return [score.name for score in self.overall]

    def score(self, name: str) -> Score | None:
        """The number METRIC.FIELD over all rows; None where the report has none of the name."""
        return next((score for score in self.overall if score.name == name), None)

    @property
    def n_total(self) -> int:
        """Rows of the release that were accepted."""
        return int(self.manifest["n_rows"])

    @property
    def n_questions(self) -> int:
        """Questions that the accepted rows are answers to: as many as rows, unless questions have several answers."""
        return int(self.manifest.get("n_questions", self.n_total))

    def variance_within(self, name: str) -> float | None:
        """The mean variance of METRIC.FIELD within the answers to a question; None: one answer each."""
        score = self.score(name)
        return score.within_variance if score else None


def read_reports(home: Home, report_ids: Sequence[str]) -> list[Report]:
    """Read the reports called `report_ids`, in that order.

    Raises:
        UserError: one of them is not in the warehouse.
    """
    with home.warehouse.reading() as warehouse:
        return [read_report(warehouse, report_id, home) for report_id in report_ids]


def made_by(home: Home, run_id: str) -> list[Report]:
    """Read the reports of a run, as far as it came."""
    if not home.warehouse.exists():
        return []
    # In a session that writes: the snapshot, which readers may get, lacks what a killed run has made
    with home.warehouse.writing() as warehouse:
        query = "SELECT report_id FROM reports WHERE run_id = ? ORDER BY created_at, rowid"
        rows = warehouse.execute(query, [run_id]).fetchall()
        return [read_report(warehouse, report_id, home) for (report_id,) in rows]


def read_pair(home: Home, old: str, new: str) -> tuple[Report, Report]:
    """Read the reports `old` and `new`, which can be compared.

    Raises:
        UserError: one of them is not in the warehouse, they are the same report, or they are about two data sets.
    """
    # What cannot be compared is refused here, for all that reads pairs
    old_report, new_report = read_reports(home, [old, new])
    if old == new:
        raise UserError(f"{old}: a report cannot be compared with itself")
    if old_report.dataset != new_report.dataset:
        raise UserError(f"{old} is about {old_report.dataset}, and {new} about {new_report.dataset}")
    return old_report, new_report


def list_reports(home: Home, prefix: str = "") -> list[tuple[str, str, str, str]]:
    """List id, data set version, time and status of the reports whose id starts with `prefix`, oldest first."""
    rows = home.rows(_SQL["reports"], {"prefix": prefix})
    return [(str(id_), str(version), str(created_at), str(status)) for id_, version, created_at, status in rows]


def newest_others(home: Home, report_id: str) -> list[str]:
    """List the newest report of every other release on the same data set, the one that was made last first."""
    rows = home.rows(_SQL["newest_others"], {"report_id": report_id})
    return [str(row[0]) for row in rows]


def latest_run(home: Home) -> list[str]:
    """List the ids of the reports that the newest run made."""
    rows = home.rows(_SQL["latest_run"])
    return [str(row[0]) for row in rows]


def read_report(warehouse: duckdb.DuckDBPyConnection, report_id: str, home: Home) -> Report:
    """Read one report in a session that is open.

    Raises:
        UserError: it is not in the warehouse.
    """
    columns = warehouse.execute(_SQL["report"], {"report_id": report_id}).fetchone()
    if columns is None:
        raise UserError(f"{report_id}: no such report in {home}; `answerkey report --list` shows what there is")
    dataset, dataset_version, release, version, created_at, status, message, answers_version, run_id, content = columns
    manifest = json.loads(content)

    # In the order in which the metrics were named
    order = {metric: position for position, metric in enumerate(manifest["signatures"])}
    scores = [Score(*row) for row in warehouse.execute(_SQL["scores"], {"report_id": report_id}).fetchall()]
    scores.sort(key=lambda score: order.get(score.metric, len(order)))

    run = {"run_id": run_id, "release": release}
    checks = warehouse.execute(_SQL["checks"], run).fetchall()
    quarantined = warehouse.execute(_SQL["quarantined"], run).fetchall()
    return Report(
        report_id=report_id,
        dataset=dataset,
        dataset_version=dataset_version,
        release=release,
        version=version,
        created_at=created_at,
        status=status,
        message=message,
        answers_version=answers_version,
        run_id=run_id,
        manifest=manifest,
        scores=tuple(scores),
        checks=tuple(checks),
        quarantined=tuple(quarantined),
    )


def report_named(home: Home, name: str, dataset: str = "", fields: Collection[str] = ()) -> str:
    """Find the id of the report `name`, or of the newest report of the release `name`, or DATASET/RELEASE.

    Args:
        dataset: the data set, where a release has reports on several; no other one is looked at.
        fields: METRIC.FIELD, what the report is for. Of the reports about the newest answers and data of the release,
            the newest one with most of these is taken, since a later one may have been made with other metrics.

    Raises:
        UserError: there is no such report, or the release has reports on several data sets and `dataset` names none.
    """
    rows = home.rows(_SQL["named"], {"name": name, "dataset": dataset, "fields": list(fields)})
    # A report of that name comes last
    if rows and rows[-1][2]:
        return str(rows[-1][0])
    datasets = sorted({str(row[1]) for row in rows})
    if not rows:
        # The report, the release or DATASET/RELEASE that resembles the name most
        names = []
        for report_id, *_ in list_reports(home):
            names += [report_id, report_id.rpartition("/")[0], *report_id.split("/")[1:-1]]
        matches = difflib.get_close_matches(name, dict.fromkeys(names), n=1)
        hint = f"did you mean {matches[0]}?" if matches else "`answerkey report --list` shows them"
        on_dataset = f" on {dataset}" if dataset else ""
        raise UserError(f"{name}: no such report or release{on_dataset} in {home}; {hint}")
    if len(datasets) > 1:
        raise UserError(f"{name}: has reports on {', '.join(datasets)}; write DATASET/{name}")
    return str(rows[-1][0])


def pair_named(home: Home, old: str, new: str, dataset: str = "", fields: Collection[str] = ()) -> tuple[str, str]:
    """Find the ids of two reports on one data set; see `report_named`. What one name leaves open, the other may say.

    Raises:
        UserError: one of them is not there, or it is not clear which is meant.
    """
    with home.warehouse.reading():
        if not dataset:
            common = set(datasets_of(home, old)) & set(datasets_of(home, new))
            dataset = common.pop() if len(common) == 1 else ""
        return report_named(home, old, dataset, fields), report_named(home, new, dataset, fields)


def datasets_of(home: Home, name: str) -> list[str]:
    """List the data sets on which a release has reports, or the one of a report."""
    rows = home.rows(_SQL["datasets"], {"name": name})
    return [str(row[0]) for row in rows]


def is_known(home: Home, name: str) -> bool:
    """Whether there is a report or a release of that name."""
    return bool(datasets_of(home, name))


def labels(reports: Sequence[Report]) -> dict[str, str]:
    """Name the release of each report, with the version where several of these reports are about one release.

    Short names for sentences about reports on one data set.
    """
    # A release has its version only where another of its reports is among these
    by_id = {report.report_id: report for report in reports}
    n_reports = Counter(report.release for report in by_id.values())
    names = {}
    for report_id, report in by_id.items():
        version = f" v{report.version}" if n_reports[report.release] > 1 else ""
        names[report_id] = f"{report.release}{version}"
    return names


def check_baseline(home: Home, name: str, dataset: str, accepted: str) -> None:
    """Find out before anything is scored whether there is something to compare a run with.

    Args:
        name: a release or a report; a release may also be one of the run, whose rows are in the file `accepted`.

    Raises:
        UserError: there is no such release or report on the data set.
    """
    with closing(scratch(Path(accepted).parent)) as connection:
        query = "SELECT DISTINCT release FROM read_parquet(?) ORDER BY release"
        rows = connection.execute(query, [one_file(accepted)]).fetchall()
    releases = [str(row[0]) for row in rows]
    if name in releases:
        return
    if home.warehouse.exists():
        report_named(home, name, dataset)
    else:
        raise UserError(f"{name}: nothing to compare with; this run has {', '.join(releases)}, and {home} no reports")


@dataclass(frozen=True, slots=True)
class ReportPoint:
    """A field of one report. `methods` counts the signatures met so far, from 1: numbers of two are not comparable."""

    report_id: str
    release: str
    version: int
    created_at: str
    dataset_version: str
    status: str
    field: str
    n_scored: int
    n_total: int
    mean: float | None
    low: float | None
    high: float | None
    methods: int


def history(home: Home, name: str, dataset: str = "") -> dict[str, tuple[ReportPoint, ...]]:
    """Read the field `name` (METRIC.FIELD) in the newest reports that have it, by data set.

    Args:
        dataset: the only data set to look at; all, where it is empty.

    Raises:
        UserError: no report has the field, or there is no such data set.
    """
    rows = home.rows(_SQL["fields"], {"dataset": dataset})
    # A field that no report has is a slip of the pen, so the message lists what there is
    datasets = [row_dataset for row_dataset, field in rows if field == name]
    if not datasets:
        reports = f"the reports on {dataset}" if dataset else "the reports"
        fields = ", ".join(dict.fromkeys(field for _, field in rows)) or "no numbers"
        raise UserError(f"{name}: {reports} in {home} have {fields}")
    with home.warehouse.reading() as warehouse:
        return moments(warehouse, datasets, [name])


def moments(
    warehouse: duckdb.DuckDBPyConnection, datasets: Sequence[str], names: Sequence[str]
) -> dict[str, tuple[ReportPoint, ...]]:
    """Read the fields `names` (METRIC.FIELD) in the newest `MOST_REPORTS` that have any, by data set, the oldest first.

    Data sets come in the order in which they are given.
    """
    parameters = {"datasets": list(datasets), "names": list(names), "most": MOST_REPORTS}
    # The signatures of each metric are numbered as they appear
    numbers: dict[tuple[str, str], dict[str, int]] = {}
    points: dict[str, list[ReportPoint]] = {dataset: [] for dataset in datasets}
    for *columns, metric, signature, dataset in warehouse.execute(_SQL["moments"], parameters).fetchall():
        number_by_signature = numbers.setdefault((dataset, metric), {})
        columns.append(number_by_signature.setdefault(str(signature), len(number_by_signature) + 1))
        points[dataset].append(ReportPoint(*columns))
    return {dataset: tuple(dataset_points) for dataset, dataset_points in points.items()}
