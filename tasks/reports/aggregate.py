"""Make the report tables of a run: one report per release, in one transaction, never changing an older one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.judges.judge_metric import JudgeMetric
from answerkey.metrics_core.judges.votes import (
    ANSWERED_BY,
    DECIDED_BY,
    DISPUTED,
    OBEYS,
    ORDER_DECIDED,
    OUT_OF_DEPTH,
    PAIRS,
    SHOWN_FIRST,
    SHOWN_SECOND,
)
from answerkey.metrics_core.llm.request import NO_CONNECTION
from answerkey.metrics_core.metric import Field, Metric
from answerkey.metrics_core.metrics.bleu import bleu_extremes, corpus_bleu
from answerkey.metrics_core.metrics.label import LABEL, LABEL_FIELD, LABEL_SIGNATURE, NOT_LABELLED
from answerkey.metrics_core.statistics.bounded_mean import Units, bounded_mean
from answerkey.metrics_core.statistics.intervals import Interval, SumStatistic, bootstrap, clopper_pearson
from answerkey.metrics_core.statistics.ranking import Shown, rank
from answerkey.tasks.reports.commit import Committed
from answerkey.tasks.reports.given import Fields, add_given, agreements, given_fields, notes_of, signature_of
from answerkey.tasks.reports.manifest import SEED, fallback_warnings, most_frequent
from answerkey.tasks.reports.repeats import add_passes, as_columns, count_answers
from answerkey.tasks.reports.report import Report, read_report
from answerkey.tasks.reports.scores import SplitScores, add_scores
from answerkey.tasks.warehouse.content import write_report_checksums
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
_UNDECIDED = ("tie", "missing_votes", ORDER_DECIDED, DISPUTED, OBEYS)
"""Codes of failures where judges said something and could not decide."""
_LONG = 200
"""Characters from which on an answer is long: more than a name, a number or a phrase."""
_MOST_GROUPS = 2_000
"""Groups of rows that the interval of corpus BLEU is resampled from."""


def aggregate(
    home: Home,
    committed: Committed,
    metrics: Sequence[Metric],
    manifest: Mapping[str, Any],
    scores: SplitScores | None = None,
    *,
    min_coverage: float = 0.95,
) -> tuple[Report, ...]:
    """Write `reports`, `scores` and `report_scores` for every release of the run, and return the reports.

    Where people have labelled any answer of the run, their label is the first metric of every report.

    Args:
        scores: what `split_scores` made of this run, once each of its shards is written; None: they are made here.
        min_coverage: the share of rows (0 to 1), of those that should have a score, that every metric must have scored
            for a report to be COMPLETE.
    """
    fields = {(metric.name, field.name): field for metric in metrics for field in metric.fields}
    signatures = {metric.name: metric.signature for metric in metrics}
    with home.warehouse.writing(taken_in=scores.files if scores else ()) as warehouse:
        if labelled := _has_labels(warehouse, committed):
            fields = {(LABEL, LABEL_FIELD.name): LABEL_FIELD} | fields
            signatures = {LABEL: LABEL_SIGNATURE} | signatures
        given = given_fields(warehouse, committed, signatures)
        # On a lake, the state that the report is made from; no other session changes it meanwhile.
        state = {} if (snapshot := home.warehouse.snapshot()) is None else {"snapshot": snapshot}
        reports = _add_reports(warehouse, committed, {**manifest, **state, "signatures": signatures}, given)
        hashed = add_scores(warehouse, home, committed, reports, metrics, scores)
        if labelled:
            about = {"metric": LABEL, "field": LABEL_FIELD.name, "signature": LABEL_SIGNATURE, "reason": NOT_LABELLED}
            warehouse.execute(_SQL["add_labels"], {"reports": reports, **about})
        speaking = {
            (metric, name): field
            for (metric, name), field in fields.items()
            if metric == LABEL or any(one.name == metric and one.headline == name for one in metrics)
        }
        for report_id, release in zip(reports, committed.releases, strict=True):
            if of_release := given.get(release.release):
                add_given(warehouse, report_id, of_release)
                found = agreements(warehouse, report_id, of_release, speaking)
                _note(warehouse, report_id, {"agreements": found}, "given")
            fields |= of_release or {}
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
        judged = _note_judges(warehouse, reports, metrics, signatures)
        _settle(warehouse, reports, list(fields), min_coverage, judged)
        write_report_checksums(warehouse, reports, hashed)
        return tuple(read_report(warehouse, report_id, home) for report_id in reports)


def _has_labels(warehouse: duckdb.DuckDBPyConnection, committed: Committed) -> bool:
    """Whether people have labelled any answer of the run."""
    return any(
        labelled
        for one in committed.releases
        for (labelled,) in warehouse.execute(
            _SQL["has_labels"],
            {"dataset": committed.dataset, "release": one.release, "answers_version": one.answers_version},
        ).fetchall()
    )


def _add_reports(
    warehouse: duckdb.DuckDBPyConnection,
    committed: Committed,
    manifest: Mapping[str, Any],
    given: Mapping[str, Fields],
) -> list[str]:
    """Write the rows of `reports`; return their ids."""
    reports = []
    for release in committed.releases:
        about: dict[str, Any] = {"dataset": committed.dataset, "release": release.release}
        [(version,)] = warehouse.execute(_SQL["next_version"], about).fetchall()
        content = {**manifest, "answers_version": release.answers_version, "n_rows": release.n_rows}
        if release.n_rows != release.n_questions:
            content |= {"n_questions": release.n_questions, "repeats": release.repeats}
        if notes := notes_of(given.get(release.release, {})):
            content["metrics"] = {**content.get("metrics", {}), **notes}
            content["signatures"] = {**content["signatures"], **{metric: signature_of(metric) for metric in notes}}
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
    warehouse.execute(_SQL["fields"], as_columns(fields))
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
        report_id, _, metric, field, slice_, _, scored, *_, mean, _, _, clusters = row
        interval = _interval(
            fields[metric, field], mean, scored, units.get((report_id, metric, field, slice_)), clusters
        )
        warehouse.execute(_SQL["add_aggregate"], [*row, *(interval or (None, None, None))])


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
    warehouse: duckdb.DuckDBPyConnection,
    reports: list[str],
    fields: Sequence[tuple[str, str]],
    min_coverage: float,
    judged: Mapping[str, Mapping[str, Any]],
) -> None:
    """Give every new report its status and its message.

    PARTIAL: of some metric rows were skipped, or fewer than `min_coverage` (0 to 1) of the rows that should have a
    score have one. Where judges could not decide, the rows with a score are the easy ones, so the message has the
    bounds of the mean over all rows. `judged`: by report, the notes on its judges.
    """
    first = {metric: field for metric, field in reversed(fields)}
    metrics = list(dict.fromkeys(metric for metric, _ in fields))
    about = {"reports": reports, "metrics": metrics, "fields": [first[metric] for metric in metrics]}
    partial: set[str] = set()
    messages: dict[str, list[str]] = {}
    for report_id, metric, wanted, scored, skipped, low, high, reasons in warehouse.execute(
        _SQL["coverage"], about
    ).fetchall():
        if skipped or (wanted and scored / wanted < min_coverage):
            partial.add(report_id)
        if scored < wanted:
            why = most_frequent([(_IN_WORDS.get(why, why), n) for why, n in reasons])
            line = f"{metric}: {wanted - scored:,} of {wanted:,} not scored: {why}"
            if any(code in _UNDECIDED for code, _ in reasons):
                line += f" (over all of them, the mean is {low:.3f} to {high:.3f})"
            messages.setdefault(report_id, []).append(line)
    for report_id, notes in judged.items():
        if lines := fallback_warnings({"judge": notes}):
            messages.setdefault(report_id, []).extend(lines)
    # A report that is partial has rows without a score, so it has a message.
    for report_id, lines in messages.items():
        status = "PARTIAL" if report_id in partial else "COMPLETE"
        warehouse.execute(_SQL["settle"], {"report_id": report_id, "status": status, "message": "; ".join(lines)})


def _note_judges(
    warehouse: duckdb.DuckDBPyConnection,
    reports: Sequence[str],
    metrics: Sequence[Metric],
    signatures: Mapping[str, str],
) -> dict[str, dict[str, dict[str, Any]]]:
    """Write into the manifest of every new report, under `judge`, what its judges did; return that by report.

    Each note is by metric; the comments of the statements of the same names say what is in it.
    """
    judged = {metric.name: metric for metric in metrics if isinstance(metric, JudgeMetric)}
    by_judges = [metric for metric in metrics if metric.kind == "judge"]
    offline = {name: text for name, text in signatures.items() if ":offline@" in text}
    asked: Mapping[str, tuple[Collection[str], dict[str, object]]] = {
        "fallbacks": (
            [name for name, metric in judged.items() if metric.judge.fallbacks],
            {"answered_by": ANSWERED_BY},
        ),
        "orders": (
            [name for name, text in signatures.items() if "|against:" in text and "|opponents:" not in text],
            {"order_decided": ORDER_DECIDED, "shown_first": SHOWN_FIRST, "shown_second": SHOWN_SECOND},
        ),
        "uniform": (
            [metric.name for metric in by_judges],
            {"fields": [metric.fields[0].name for metric in by_judges], "long": _LONG},
        ),
        "decided": (offline, {"decided_by": DECIDED_BY}),
        "out_of_depth": (offline, {"out_of_depth": OUT_OF_DEPTH}),
        "second_opinion": (
            [name for name, text in signatures.items() if "|second:" in text],
            {"disputed": f"{DISPUTED}:", "most": _MOST_LISTED},
        ),
        "answered": ([name for name, text in signatures.items() if "|judge:" in text and name not in offline], {}),
    }
    notes: dict[str, dict[str, dict[str, Any]]] = {}
    for key, (names, more) in asked.items():
        for report_id, metric, noted in _rows(warehouse, key, reports, names, signatures, more):
            if key == "fallbacks":
                noted["both"] = {by: _both_judged(warehouse, report_id, judged[metric], by) for by in noted["by"]}
            notes.setdefault(report_id, {}).setdefault(key, {})[metric] = noted
    for metric, noted in _rankings(warehouse, reports, signatures).items():
        for report_id in reports:
            notes.setdefault(report_id, {}).setdefault("ranking", {})[metric] = noted
    for report_id, of_report in notes.items():
        _note(warehouse, report_id, of_report)
    return notes


def _rows(
    warehouse: duckdb.DuckDBPyConnection,
    statement: str,
    reports: Sequence[str],
    metrics: Collection[str],
    signatures: Mapping[str, str],
    more: Mapping[str, object],
) -> list[tuple[Any, ...]]:
    """The rows of a statement about some metrics of new reports; none where there are no such metrics."""
    if not metrics:
        return []
    about = {"reports": reports, "metrics": list(metrics), "signatures": [signatures[name] for name in metrics]}
    return warehouse.execute(_SQL[statement], {**about, **more}).fetchall()


def _both_judged(
    warehouse: duckdb.DuckDBPyConnection, report_id: str, metric: JudgeMetric, fallback: str
) -> tuple[int, int]:
    """How many answers of a report the named judges and this fallback have judged, and on how many they differ."""
    labels = [judge.label for judge in metric.judge.fallback_models()]
    if fallback not in labels:
        # Several fallbacks voted on one answer; there are no verdicts of theirs as a single judge.
        return 0, 0
    chosen = metric.judge.fallbacks[labels.index(fallback)]
    others = tuple(judge for judge in metric.judge.fallbacks if judge != chosen)
    alone = replace(metric, judge=metric.judge.model_copy(update={"judges": (chosen,), "fallbacks": others}))
    about = {"report_id": report_id, "signature": metric.signature, "alone": alone.signature}
    about |= {"field": metric.fields[0].name, "answered_by": ANSWERED_BY}
    [(both, differ)] = warehouse.execute(_SQL["both_judged"], about).fetchall()
    return both, differ


def _rankings(
    warehouse: duckdb.DuckDBPyConnection, reports: Sequence[str], signatures: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    """By metric, the releases of the run by pairwise preference (see `statistics.ranking`).

    A pair of answers counts once, though both releases have the verdicts on it; of several answers to a question the
    first does.
    """
    compared = [metric for metric, signature in signatures.items() if "|opponents:" in signature]
    shown: dict[str, dict[tuple[str, str, str], list[Shown]]] = {metric: {} for metric in compared}
    swayed: Counter[str] = Counter()
    rows = _rows(warehouse, "pairs", reports, compared, signatures, {"pairs": PAIRS})
    for metric, release, sample_id, cluster, text in rows:
        for other, (second, first) in json.loads(text).items():
            one, two = sorted((release, other))
            if one != two and (sample_id, one, two) not in shown[metric]:
                swayed[metric] += first != second
                shown[metric][sample_id, one, two] = [
                    Shown(other, release, 1.0 - second, cluster), Shown(release, other, first, cluster),
                ]  # fmt: skip
    return {
        metric: {**asdict(found), "asked": len(pairs), "swayed": swayed[metric]}
        for metric, pairs in shown.items()
        if (found := rank(list(chain.from_iterable(pairs.values()))))
    }


def _note(warehouse: duckdb.DuckDBPyConnection, report_id: str, about: Mapping[str, Any], under: str = "judge") -> None:
    [(text,)] = warehouse.execute(_SQL["manifest"], {"report_id": report_id}).fetchall()
    manifest = json.loads(text)
    manifest.setdefault(under, {}).update(about)
    content = json.dumps(manifest, ensure_ascii=False)
    warehouse.execute(_SQL["set_manifest"], {"report_id": report_id, "manifest": content})
