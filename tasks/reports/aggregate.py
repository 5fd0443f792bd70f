"""Make the report tables of a run: one report per release, in one transaction, never changing an older one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.judges.votes import ADDRESSES_JUDGE, DECIDED_BY, OUT_OF_DEPTH, SECOND_OPINION
from answerkey.metrics_core.llm.transport import NO_CONNECTION
from answerkey.metrics_core.metric import Field, Metric
from answerkey.metrics_core.metrics.bleu import bleu_extremes, corpus_bleu
from answerkey.metrics_core.statistics.bounded_mean import Units, bounded_mean
from answerkey.metrics_core.statistics.intervals import Interval, SumStatistic, bootstrap, clopper_pearson
from answerkey.tasks.reports.commit import Committed, ReleaseVersion
from answerkey.tasks.reports.manifest import SEED, most_frequent
from answerkey.tasks.reports.repeats import add_passes, count_answers
from answerkey.tasks.reports.report import LABEL, LABEL_FIELD, LABEL_SIGNATURE, NOT_LABELLED, Report
from answerkey.tasks.reports.scores import CutScores, add_scores
from answerkey.tasks.warehouse.content import seal_reports
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements

if TYPE_CHECKING:
    import duckdb

_SQL = statements(__name__)
_MOST_LISTED = 50
"""Answers of a report on which two judges disagree, in its manifest."""
BLEU = "bleu"
_BINS = 256
"""Bins of a histogram that the interval of a mean is computed from."""
_IN_WORDS = {NO_CONNECTION: f"{NO_CONNECTION} (the server could not be reached)"}
"""Codes of failures that say too little."""
_MOST_GROUPS = 2_000
"""Groups of rows that the interval of corpus BLEU is resampled from."""


@dataclass(frozen=True, slots=True)
class ReportRef:
    """A report that was made; `message` says what has no score and why, None where everything has one."""

    report_id: str
    release: str
    status: str
    message: str | None


def aggregate(
    home: Home,
    committed: Committed,
    metrics: Sequence[Metric],
    manifest: Mapping[str, Any],
    scores: CutScores | None = None,
    *,
    min_coverage: float = 0.95,
) -> tuple[ReportRef, ...]:
    """Write `reports`, `scores` and `report_scores` for every release of the run.

    Where people have labelled any answer of the run, their label is the first metric of every report.

    Args:
        scores: what `cut_scores` made of this run, once each of its shards is written; None: they are made here.
        min_coverage: the share of rows (0 to 1), of those that should have a score, that every metric must have scored
            for a report to be COMPLETE.
    """
    fields = {(metric.name, field.name): field for metric in metrics for field in metric.fields}
    signatures = {metric.name: metric.signature for metric in metrics}
    with home.warehouse.writing(taken_in=scores.files if scores else ()) as warehouse:
        if labelled := _has_labels(warehouse, committed):
            fields = {(LABEL, LABEL_FIELD.name): LABEL_FIELD} | fields
            signatures = {LABEL: LABEL_SIGNATURE} | signatures
        # Of a lake: the state that the report was made from, which nobody else changes while this session is open.
        state = {} if (snapshot := home.warehouse.snapshot()) is None else {"snapshot": snapshot}
        reports = _add_reports(warehouse, committed, {**manifest, **state, "signatures": signatures})
        hashed = add_scores(warehouse, home, committed, reports, metrics, scores)
        if labelled:
            _add_labels(warehouse, reports)
        summarise(warehouse, committed, reports, fields, signatures)
        _settle(warehouse, reports, list(fields), min_coverage)
        _note_judges(warehouse, reports, signatures)
        _note_second_opinions(warehouse, reports, signatures)
        _note_models(warehouse, reports, signatures)
        seal_reports(warehouse, reports, hashed)
        return tuple(ReportRef(*row) for row in warehouse.execute(_SQL["made"], {"reports": reports}).fetchall())


def summarise(
    warehouse: duckdb.DuckDBPyConnection,
    committed: Committed,
    reports: Sequence[str],
    fields: Mapping[tuple[str, str], Field],
    signatures: Mapping[str, str],
) -> None:
    """Make pass@k in `scores`, and all of `report_scores`, from the scores of the reports about `committed`."""
    repeats = {
        report_id: release.repeats
        for report_id, release in zip(reports, committed.releases, strict=True)
        if release.n_rows != release.n_questions
    }
    shown = add_passes(warehouse, repeats, fields)
    _add_aggregates(warehouse, reports, committed, shown)
    if repeats:
        count_answers(warehouse, list(repeats), shown)
    if BLEU in signatures:
        _add_corpus_bleu(warehouse, reports, signatures[BLEU])


def summarise_again(warehouse: duckdb.DuckDBPyConnection, reports: Sequence[Report]) -> None:
    """`summarise` for reports that were made together, from what they say of themselves. They have no aggregates."""
    first = reports[0]
    versions = tuple(
        ReleaseVersion(one.release, one.answers_version, one.n_total, one.n_questions, one.manifest.get("repeats", 1))
        for one in reports
    )
    notes = {name: first.metric(name) for name in first.manifest["signatures"] if name != LABEL}
    fields = {(name, field.name): field for name, note in notes.items() if note for field in note.fields}
    if LABEL in first.manifest["signatures"]:
        fields = {(LABEL, LABEL_FIELD.name): LABEL_FIELD, **fields}
    committed = Committed(first.dataset, first.dataset_version, versions)
    summarise(warehouse, committed, [one.report_id for one in reports], fields, first.manifest["signatures"])


def _has_labels(warehouse: duckdb.DuckDBPyConnection, committed: Committed) -> bool:
    """Whether people have labelled any answer of the run."""
    found = [
        warehouse.execute(_SQL["has_labels"], _key(committed, release)).fetchall() for release in committed.releases
    ]
    return any(labelled for [(labelled,)] in found)


def _key(committed: Committed, release: ReleaseVersion) -> dict[str, str]:
    return {
        "dataset": committed.dataset,
        "release": release.release,
        "answers_version": release.answers_version,
    }


def _add_reports(warehouse: duckdb.DuckDBPyConnection, committed: Committed, manifest: Mapping[str, Any]) -> list[str]:
    """Write the rows of `reports`; return their ids."""
    reports = []
    for release in committed.releases:
        about: dict[str, Any] = {"dataset": committed.dataset, "release": release.release}
        [(version,)] = warehouse.execute(_SQL["next_version"], about).fetchall()
        content = {**manifest, "answers_version": release.answers_version, "n_rows": release.n_rows}
        if release.n_rows != release.n_questions:
            content |= {"n_questions": release.n_questions, "repeats": release.repeats}
        run_id = content.get("run_id")
        # The report that this very run made before it failed further on and was retried.
        earlier = warehouse.execute(_SQL["report_of_run"], {**about, "run_id": run_id}).fetchone()
        if "rerun_of" not in content and earlier:
            content["rerun_of"] = earlier[0]
        reports.append(f"{committed.dataset}/{release.release}/v{version}")
        about |= {"report_id": reports[-1], "dataset_version": committed.dataset_version, "version": version}
        about |= {"answers_version": release.answers_version, "run_id": run_id}
        warehouse.execute(_SQL["add_report"], {**about, "manifest": json.dumps(content, ensure_ascii=False)})
    return reports


def _add_labels(warehouse: duckdb.DuckDBPyConnection, reports: list[str]) -> None:
    about = {"metric": LABEL, "field": LABEL_FIELD.name, "signature": LABEL_SIGNATURE, "reason": NOT_LABELLED}
    warehouse.execute(_SQL["add_labels"], {"reports": reports, **about})


def _add_aggregates(
    warehouse: duckdb.DuckDBPyConnection,
    reports: Sequence[str],
    committed: Committed,
    fields: Mapping[tuple[str, str], Field],
) -> None:
    places = {key: place for place, key in enumerate(fields)}
    about = {"dataset": committed.dataset, "dataset_version": committed.dataset_version}
    several = any(release.n_rows != release.n_questions for release in committed.releases)
    if several:
        # Means of zeros and ones.
        fields = {key: replace(field, binary=False) for key, field in fields.items()}
    warehouse.execute(_SQL["new_reports"], {"reports": reports})
    warehouse.execute(_SQL["fields"], _as_columns(fields))
    [(clustered, sliced)] = warehouse.execute(_SQL["shape"], about).fetchall()
    warehouse.execute(_SQL["several_answers" if several else "one_answer"])
    if clustered or sliced:
        first = "\n" + _SQL["first_answers"] if several else ""
        warehouse.execute(_SQL["places"] + first, {**about, "clustered": clustered})
    warehouse.execute(_SQL["placed" if clustered or sliced else "unplaced"])
    warehouse.execute(_SQL["sums"], {"clustered": clustered, "bins": _BINS})
    rows = warehouse.execute(_SQL["aggregates"], {"clustered": clustered}).fetchall()
    units = _units(warehouse, fields, clustered=clustered)
    warehouse.execute(_SQL["forget"])
    for row in sorted(rows, key=lambda row: (row[0], places[row[2], row[3]], row[4])):
        report_id, release, metric, field, slice_, total, scored, failed, undefined, skipped, mean, clusters = row
        of_field = fields[metric, field]
        interval = _interval(of_field, mean, scored, units.get((report_id, metric, field, slice_)), clusters)
        low, high, method = interval or (None, None, None)
        bounds = _bounds(of_field, mean or 0.0, scored, failed + skipped)
        warehouse.execute(
            _SQL["add_aggregate"],
            [
                report_id, release, metric, field, slice_, total, scored, failed, undefined, skipped,
                scored / total, mean, low, high, method, *bounds, clusters,
            ],
        )  # fmt: skip


def _as_columns(fields: Mapping[tuple[str, str], Field]) -> dict[str, list[Any]]:
    """Fields as the statements take them."""
    return {
        "metrics": [metric for metric, _ in fields],
        "fields": [name for _, name in fields],
        "lows": [field.low for field in fields.values()],
        "highs": [field.high for field in fields.values()],
    }


def _units(
    warehouse: duckdb.DuckDBPyConnection, fields: Mapping[tuple[str, str], Field], *, clustered: bool
) -> dict[tuple[str, ...], Units]:
    """By report, metric, field and slice: what the interval of the mean needs, a histogram of independent units.

    Nothing of independent zeros and ones, of which the mean says everything.
    """
    import numpy as np

    if clustered:
        rows = warehouse.execute(_SQL["cluster_bins"], {"bins": _BINS}).fetchall()
    else:
        rows = warehouse.execute(_SQL["bins"]).fetchall()
    found = {}
    for key, bins in groupby(rows, key=lambda row: row[:4]):
        if clustered or not fields[key[1], key[2]].binary:
            sizes, counts, centres, spreads = np.array([row[4:] for row in bins], np.float64).T
            # Two points of each bin, which have its mean and its standard deviation.
            sums = np.concatenate([centres - spreads, centres + spreads])
            found[key] = Units(sums, np.tile(sizes, 2), np.tile(counts / 2, 2))
    return found


def _interval(field: Field, mean: float | None, n: int, units: Units | None, clusters: int | None) -> Interval | None:
    if mean is None:
        return None
    if units is None:
        return clopper_pearson(round(mean * n), n)
    interval = bounded_mean(*units, low=field.low, high=field.high)
    if interval is None or clusters is None:
        return interval
    return interval._replace(method=f"cluster-{interval.method}")


def _bounds(field: Field, mean: float, n_scored: int, n_missing: int) -> tuple[float | None, float | None]:
    """The mean if every row that should have a number had the lowest, and the highest, one."""
    n = n_scored + n_missing
    if not n:
        return None, None
    return tuple((mean * n_scored + end * n_missing) / n for end in (field.low, field.high))  # type: ignore[return-value]


def _add_corpus_bleu(warehouse: duckdb.DuckDBPyConnection, reports: Sequence[str], signature: str) -> None:
    """Add a row `bleu.corpus_bleu` to `report_scores` for every new report and slice that has sentence BLEU.

    It is made of the statistics that the metric `bleu` left with every answer.
    """
    import numpy as np

    groups: dict[tuple[str, str], list[tuple[int, ...]]] = {}
    about = {"reports": reports, "signature": signature, "most_groups": _MOST_GROUPS}
    for report_id, slice_, *numbers in warehouse.execute(_SQL["bleu_statistics"], about).fetchall():
        groups.setdefault((report_id, slice_), []).append(tuple(numbers))
    for (report_id, slice_), rows in groups.items():
        stats = np.array(rows, dtype=np.int64)
        low, high, method = bootstrap(stats, SumStatistic(corpus_bleu, bleu_extremes), seed=SEED) or (None, None, None)
        values = {"mean": float(corpus_bleu(stats.sum(axis=0))), "low": low, "high": high, "method": method}
        place = {"report_id": report_id, "slice": slice_, "metric": BLEU, "field": BLEU}
        warehouse.execute(_SQL["add_corpus_bleu"], {**place, **values})


def _settle(
    warehouse: duckdb.DuckDBPyConnection, reports: list[str], fields: Sequence[tuple[str, str]], min_coverage: float
) -> None:
    """Give every new report its status and its message.

    PARTIAL: of some metric rows were skipped, or fewer than `min_coverage` (0 to 1) of the rows that should have a
    score have one.
    """
    first = {metric: field for metric, field in reversed(fields)}
    about = {"reports": reports, "metrics": list(dict.fromkeys(metric for metric, _ in fields))}
    with_fields = {**about, "fields": [first[metric] for metric in about["metrics"]]}
    reasons: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for report_id, metric, why, n in warehouse.execute(_SQL["reasons"], with_fields).fetchall():
        reasons.setdefault((report_id, metric), []).append((_IN_WORDS.get(why, why), n))
    partial: set[str] = set()
    messages: dict[str, list[str]] = {}
    for report_id, metric, wanted, scored, skipped in warehouse.execute(_SQL["coverage"], about).fetchall():
        if skipped or (wanted and scored / wanted < min_coverage):
            partial.add(report_id)
        if scored < wanted:
            why = most_frequent(reasons[report_id, metric])
            messages.setdefault(report_id, []).append(f"{metric}: {wanted - scored:,} of {wanted:,} not scored: {why}")
    # A report that is partial has rows without a score, so it has a message.
    for report_id, lines in messages.items():
        status = "PARTIAL" if report_id in partial else "COMPLETE"
        warehouse.execute(_SQL["settle"], {"report_id": report_id, "status": status, "message": "; ".join(lines)})


def _note_judges(warehouse: duckdb.DuckDBPyConnection, reports: list[str], signatures: Mapping[str, str]) -> None:
    """Write into the manifest of every new report, under `judge`, what the offline judge did for it, by metric.

    `decided`: of a cascade, how many answers it decided (`offline`) and how many were left (`judge`).
    `out_of_depth`: for how many answers it warns of its own verdict, by reason, and `of` how many.
    """
    offline = {metric: signature for metric, signature in signatures.items() if ":offline@" in signature}
    if not offline:
        return
    about = {
        "reports": reports,
        "metrics": list(offline),
        "signatures": list(offline.values()),
        "decided_by": DECIDED_BY,
        "out_of_depth": OUT_OF_DEPTH,
    }
    by_report: dict[str, dict[str, dict[str, Any]]] = {}
    for report_id, metric, decided_by, why, n in warehouse.execute(_SQL["decisions"], about).fetchall():
        noted = by_report.setdefault(report_id, {"decided": {}, "out_of_depth": {}})
        if decided_by:
            counts = noted["decided"].setdefault(metric, {"offline": 0, "judge": 0})
            counts[decided_by] += n
        depth = noted["out_of_depth"].setdefault(metric, {"of": 0, "why": {}})
        depth["of"] += n
        if why:
            depth["why"][why] = depth["why"].get(why, 0) + n
    for report_id, noted in by_report.items():
        telling = {key: _telling(by_metric) for key, by_metric in noted.items()}
        _note(warehouse, report_id, {key: value for key, value in telling.items() if value})


def _note_second_opinions(
    warehouse: duckdb.DuckDBPyConnection, reports: list[str], signatures: Mapping[str, str]
) -> None:
    """Write into the manifest, under `judge.second_opinion` by metric, what was noted of verdicts of language models.

    `of` scored answers, `flagged` address their judge, and with the verdict on `against` the offline judge disagrees;
    `sample_ids` are the first of those.
    """
    asked = {name: text for name, text in signatures.items() if "|judge:" in text and "|judge:offline@" not in text}
    if not asked:
        return
    about = {
        "reports": reports,
        "metrics": list(asked),
        "signatures": list(asked.values()),
        "addresses": ADDRESSES_JUDGE,
        "second": SECOND_OPINION,
        "most": _MOST_LISTED,
    }
    by_report: dict[str, dict[str, Any]] = {}
    for report_id, metric, of, flagged, against, sample_ids in warehouse.execute(_SQL["opinions"], about).fetchall():
        if flagged or against:
            noted = {"of": of, "flagged": flagged, "against": against, "sample_ids": sample_ids}
            by_report.setdefault(report_id, {})[metric] = noted
    for report_id, by_metric in by_report.items():
        _note(warehouse, report_id, {"second_opinion": by_metric})


def _note_models(warehouse: duckdb.DuckDBPyConnection, reports: list[str], signatures: Mapping[str, str]) -> None:
    """Write into the manifest, under `judge.answered`, which models answered for each judge, by metric.

    `models` and `fingerprints` have, for each name that a provider gave, the number of replies.
    """
    asked = {name: text for name, text in signatures.items() if "|judge:" in text and "|judge:offline@" not in text}
    if not asked:
        return
    about = {"reports": reports, "metrics": list(asked), "signatures": list(asked.values())}
    by_report: dict[str, dict[str, Any]] = {}
    for report_id, metric, judge, model, fingerprint, n in warehouse.execute(_SQL["answered"], about).fetchall():
        by_metric = by_report.setdefault(report_id, {}).setdefault(metric, {})
        noted = by_metric.setdefault(judge, {"models": {}, "fingerprints": {}})
        for kind, name in (("models", model), ("fingerprints", fingerprint)):
            if name:
                noted[kind][name] = noted[kind].get(name, 0) + n
    for report_id, by_metric in by_report.items():
        _note(warehouse, report_id, {"answered": by_metric})


def _note(warehouse: duckdb.DuckDBPyConnection, report_id: str, about_judge: Mapping[str, Any]) -> None:
    [(text,)] = warehouse.execute(_SQL["manifest"], {"report_id": report_id}).fetchall()
    manifest = json.loads(text)
    manifest.setdefault("judge", {}).update(about_judge)
    content = json.dumps(manifest, ensure_ascii=False)
    warehouse.execute(_SQL["set_manifest"], {"report_id": report_id, "manifest": content})


def _telling(by_metric: Mapping[str, Any]) -> dict[str, Any]:
    return {metric: counts for metric, counts in by_metric.items() if counts.get("why", counts)}
