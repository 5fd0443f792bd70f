"""Make the report tables of a run: one report per release, in one transaction, never changing an older one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
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
    scores: SplitScores | None = None,
    *,
    min_coverage: float = 0.95,
) -> tuple[ReportRef, ...]:
    """Write `reports`, `scores` and `report_scores` for every release of the run.

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
            _add_labels(warehouse, reports)
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
        fallbacks = _note_fallbacks(warehouse, reports, metrics)
        _settle(warehouse, reports, list(fields), min_coverage, fallbacks)
        _note_judges(warehouse, reports, metrics, signatures)
        write_report_checksums(warehouse, reports, hashed)
        return tuple(ReportRef(*row) for row in warehouse.execute(_SQL["made"], {"reports": reports}).fetchall())


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
    warehouse: duckdb.DuckDBPyConnection,
    reports: list[str],
    fields: Sequence[tuple[str, str]],
    min_coverage: float,
    fallbacks: Mapping[str, Sequence[str]],
) -> None:
    """Give every new report its status and its message.

    PARTIAL: of some metric rows were skipped, or fewer than `min_coverage` (0 to 1) of the rows that should have a
    score have one. Where judges could not decide, the rows with a score are the easy ones, so the message has the
    bounds of the mean over all rows. `fallbacks`: by report, what the message says of fallback judges.
    """
    first = {metric: field for metric, field in reversed(fields)}
    about = {"reports": reports, "metrics": list(dict.fromkeys(metric for metric, _ in fields))}
    with_fields = {**about, "fields": [first[metric] for metric in about["metrics"]]}
    reasons: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for report_id, metric, why, n in warehouse.execute(_SQL["reasons"], with_fields).fetchall():
        reasons.setdefault((report_id, metric), []).append((_IN_WORDS.get(why, why), n))
    bounds = {
        (report_id, metric): (low, high)
        for report_id, metric, low, high in warehouse.execute(_SQL["bounds"], with_fields).fetchall()
    }
    partial: set[str] = set()
    messages: dict[str, list[str]] = {}
    for report_id, metric, wanted, scored, skipped in warehouse.execute(_SQL["coverage"], about).fetchall():
        if skipped or (wanted and scored / wanted < min_coverage):
            partial.add(report_id)
        if scored < wanted:
            why = most_frequent(reasons[report_id, metric])
            line = f"{metric}: {wanted - scored:,} of {wanted:,} not scored: {why}"
            if any(code in _UNDECIDED for code, _ in reasons[report_id, metric]):
                low, high = bounds[report_id, metric]
                line += f" (over all of them, the mean is {low:.3f} to {high:.3f})"
            messages.setdefault(report_id, []).append(line)
    for report_id, lines in fallbacks.items():
        messages.setdefault(report_id, []).extend(lines)
    # A report that is partial has rows without a score, so it has a message.
    for report_id, lines in messages.items():
        status = "PARTIAL" if report_id in partial else "COMPLETE"
        warehouse.execute(_SQL["settle"], {"report_id": report_id, "status": status, "message": "; ".join(lines)})


def _note_fallbacks(
    warehouse: duckdb.DuckDBPyConnection, reports: list[str], metrics: Sequence[Metric]
) -> dict[str, list[str]]:
    """Write into the manifest, under `judge.fallbacks` by metric, how many answers (`by` fallback) were judged by one.

    `of` answers have a score. `both` has, by fallback, how many answers of the report it and the named judges have
    judged, and on how many of these they differ. Returns sentences for the reports' messages.
    """
    with_fallbacks = {
        metric.name: metric for metric in metrics if isinstance(metric, JudgeMetric) and metric.judge.fallbacks
    }
    if not with_fallbacks:
        return {}
    signatures = {name: metric.signature for name, metric in with_fallbacks.items()}
    about = {"reports": reports, "metrics": list(signatures), "signatures": list(signatures.values())}
    by_report: dict[str, dict[str, dict[str, Any]]] = {}
    for report_id, name, judge, n in warehouse.execute(
        _SQL["fallbacks"], {**about, "answered_by": ANSWERED_BY}
    ).fetchall():
        noted = by_report.setdefault(report_id, {}).setdefault(name, {"of": 0, "by": {}, "both": {}})
        noted["of"] += n
        if judge:
            noted["by"][judge] = n
            noted["both"][judge] = _both_judged(warehouse, report_id, with_fallbacks[name], judge)
    messages: dict[str, list[str]] = {}
    for report_id, by_metric in by_report.items():
        about_judge = {"fallbacks": {name: noted for name, noted in by_metric.items() if noted["by"]}}
        if messages_of_report := fallback_warnings({"judge": about_judge}):
            _note(warehouse, report_id, about_judge)
            messages[report_id] = messages_of_report
    return messages


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


_Notes = Iterator[tuple[str, str, str, Any]]
"""Of a report, under a key of `judge` in its manifest, about a metric: what is noted."""


def _note_judges(
    warehouse: duckdb.DuckDBPyConnection,
    reports: Sequence[str],
    metrics: Sequence[Metric],
    signatures: Mapping[str, str],
) -> None:
    """Write into the manifest of every new report, under `judge`, what its judges did, by metric."""
    notes: dict[str, dict[str, dict[str, Any]]] = {}
    for report_id, key, metric, noted in chain(
        _orders(warehouse, reports, signatures),
        _rankings(warehouse, reports, signatures),
        _uniform(warehouse, reports, metrics),
        _decisions(warehouse, reports, signatures),
        _second_opinions(warehouse, reports, signatures),
        _models(warehouse, reports, signatures),
    ):
        notes.setdefault(report_id, {}).setdefault(key, {})[metric] = noted
    for report_id, about_judge in notes.items():
        _note(warehouse, report_id, about_judge)


def _rows(
    warehouse: duckdb.DuckDBPyConnection,
    statement: str,
    reports: Sequence[str],
    signatures: Mapping[str, str],
    **more: object,
) -> list[tuple[Any, ...]]:
    """The rows of a statement about some metrics of new reports; none where there are no such metrics."""
    if not signatures:
        return []
    about = {"reports": reports, "metrics": list(signatures), "signatures": list(signatures.values())}
    return warehouse.execute(_SQL[statement], {**about, **more}).fetchall()


def _orders(warehouse: duckdb.DuckDBPyConnection, reports: Sequence[str], signatures: Mapping[str, str]) -> _Notes:
    """`orders`: on how many pairs of answers their order decided.

    `consistent` pairs got one verdict in both orders, `decided` did not; of these, the answer shown `first`, or
    `second`, was preferred in both orders.
    """
    compared = {
        metric: signature
        for metric, signature in signatures.items()
        if "|against:" in signature and "|opponents:" not in signature
    }
    codes = {"order_decided": ORDER_DECIDED, "shown_first": SHOWN_FIRST, "shown_second": SHOWN_SECOND}
    for report_id, metric, *numbers in _rows(warehouse, "orders", reports, compared, **codes):
        noted = dict(zip(("consistent", "decided", "first", "second"), numbers, strict=True))
        if noted["decided"]:
            yield report_id, "orders", metric, noted


def _rankings(warehouse: duckdb.DuckDBPyConnection, reports: Sequence[str], signatures: Mapping[str, str]) -> _Notes:
    """`ranking`: the releases of the run by pairwise preference (see `statistics.ranking`), in each of their reports.

    A pair of answers counts once, though both releases have the verdicts on it; of several answers to a question the
    first does.
    """
    compared = {metric: signature for metric, signature in signatures.items() if "|opponents:" in signature}
    shown: dict[str, dict[tuple[str, str, str], list[Shown]]] = {metric: {} for metric in compared}
    swayed: Counter[str] = Counter()
    for metric, release, sample_id, cluster, text in _rows(warehouse, "pairs", reports, compared, pairs=PAIRS):
        for other, (second, first) in json.loads(text).items():
            one, two = sorted((release, other))
            if one != two and (sample_id, one, two) not in shown[metric]:
                swayed[metric] += first != second
                shown[metric][sample_id, one, two] = [
                    Shown(other, release, 1.0 - second, cluster), Shown(release, other, first, cluster),
                ]  # fmt: skip
    for metric, pairs in shown.items():
        if found := rank(list(chain.from_iterable(pairs.values()))):
            noted = {**asdict(found), "asked": len(pairs), "swayed": swayed[metric]}
            yield from ((report_id, "ranking", metric, noted) for report_id in reports)


def _uniform(warehouse: duckdb.DuckDBPyConnection, reports: Sequence[str], metrics: Sequence[Metric]) -> _Notes:
    """`uniform`: the most frequent `value` among `of` answers of `_LONG` characters or more, which `same` of them have.

    Only of metrics that judges score.
    """
    judged = {metric.name: metric.fields[0].name for metric in metrics if metric.kind == "judge"}
    if not judged:
        return
    about = {"reports": reports, "metrics": list(judged), "fields": list(judged.values()), "long": _LONG}
    for report_id, metric, of, same, value in warehouse.execute(_SQL["uniform"], about).fetchall():
        yield report_id, "uniform", metric, {"of": of, "same": same, "value": value, "characters": _LONG}


def _decisions(warehouse: duckdb.DuckDBPyConnection, reports: Sequence[str], signatures: Mapping[str, str]) -> _Notes:
    """What the offline judge did.

    `decided`: of a cascade, how many answers the offline judge decided (`offline`), how many were left (`judge`), and
    how many were in its trial (`cascade.SAME`, `cascade.OTHER`).
    `out_of_depth`: for how many answers it warns of its own verdict, by reason, and `of` how many.
    """
    offline = {metric: signature for metric, signature in signatures.items() if ":offline@" in signature}
    codes = {"decided_by": DECIDED_BY, "out_of_depth": OUT_OF_DEPTH}
    rows = _rows(warehouse, "decisions", reports, offline, **codes)
    decided: dict[tuple[str, str], Counter[str]] = {}
    reasons: dict[tuple[str, str], Counter[str]] = {}
    for report_id, metric, decided_by, why, n in rows:
        if decided_by:
            decided.setdefault((report_id, metric), Counter(offline=0, judge=0))[decided_by] += n
        reasons.setdefault((report_id, metric), Counter())[why] += n
    for (report_id, metric), counts in decided.items():
        yield report_id, "decided", metric, counts
    for (report_id, metric), counts in reasons.items():
        of, why = counts.total(), {reason: n for reason, n in counts.items() if reason}
        if why:
            yield report_id, "out_of_depth", metric, {"of": of, "why": why}


def _second_opinions(
    warehouse: duckdb.DuckDBPyConnection, reports: Sequence[str], signatures: Mapping[str, str]
) -> _Notes:
    """`second_opinion`: on how many answers the two judges disagree.

    `of` answers have two opinions, and on `against` they differ; `sample_ids` are the first of those.
    """
    asked = {name: text for name, text in signatures.items() if "|second:" in text}
    about = {"disputed": f"{DISPUTED}:", "most": _MOST_LISTED}
    for report_id, metric, of, against, sample_ids in _rows(warehouse, "opinions", reports, asked, **about):
        if against:
            yield report_id, "second_opinion", metric, {"of": of, "against": against, "sample_ids": sample_ids}


def _models(warehouse: duckdb.DuckDBPyConnection, reports: Sequence[str], signatures: Mapping[str, str]) -> _Notes:
    """`answered`: which models answered for each judge.

    `models` and `fingerprints` have, for each name that a provider gave, the number of replies.
    """
    asked = {name: text for name, text in signatures.items() if "|judge:" in text and "|judge:offline@" not in text}
    found: dict[tuple[str, str], dict[str, dict[str, Counter[str]]]] = {}
    for report_id, metric, judge, model, fingerprint, n in _rows(warehouse, "answered", reports, asked):
        noted = found.setdefault((report_id, metric), {}).setdefault(
            judge, {"models": Counter(), "fingerprints": Counter()}
        )
        for kind, name in (("models", model), ("fingerprints", fingerprint)):
            if name:
                noted[kind][name] += n
    for (report_id, metric), by_judge in found.items():
        yield report_id, "answered", metric, by_judge


def _note(warehouse: duckdb.DuckDBPyConnection, report_id: str, about: Mapping[str, Any], under: str = "judge") -> None:
    [(text,)] = warehouse.execute(_SQL["manifest"], {"report_id": report_id}).fetchall()
    manifest = json.loads(text)
    manifest.setdefault(under, {}).update(about)
    content = json.dumps(manifest, ensure_ascii=False)
    warehouse.execute(_SQL["set_manifest"], {"report_id": report_id, "manifest": content})
