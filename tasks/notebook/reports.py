"""Results of `evaluate` as reports in a home, so that they are compared and decided upon as those of runs are."""

from __future__ import annotations

import shutil
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence

from answerkey.metrics_core.measurement import Measurement
from answerkey.metrics_core.metric import Metric
from answerkey.metrics_core.metrics.label import LABEL
from answerkey.metrics_core.sample import Sample, content_hash
from answerkey.tasks.load.columns import clean
from answerkey.tasks.load.load import Loaded
from answerkey.tasks.load.references import Reference
from answerkey.tasks.load.rows import staged_schema
from answerkey.tasks.reports.aggregate import aggregate
from answerkey.tasks.reports.commit import commit
from answerkey.tasks.reports.manifest import manifest
from answerkey.tasks.reports.report import Report
from answerkey.tasks.score.plan import Plan
from answerkey.tasks.score.shard import write_part
from answerkey.tasks.validate.validate import Validation
from answerkey.tasks.warehouse.home import Home

DATASET = "results"


def add_report(
    home: Home,
    release: str,
    samples: Sequence[Sample],
    metrics: Sequence[Metric] = (),
    measurements: Sequence[Measurement] = (),
    scores: Sequence[Mapping[str, float]] = (),
    dataset: str = DATASET,
) -> Report:
    """Commit what was scored outside of a run to a home, and return the report of it.

    Args:
        measurements: those of the first metric in the order of the samples, then those of the next.
        scores: those that came with each sample, by METRIC.FIELD; empty: none did.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    run_id = uuid.uuid4().hex
    folder = home.scratch / run_id
    folder.mkdir(parents=True)
    # A file of scores that comes again has the same answers; measurements are of this call alone
    salt = "" if scores else run_id
    keys = [content_hash([row, sample.key, salt]) for row, sample in enumerate(samples)]

    # The answers, as they are after validation
    answers = []
    n_answers = Counter[str]()
    for key, sample, sample_scores in zip(keys, samples, scores or [{}] * len(samples), strict=True):
        n_answers[sample.sample_id] += 1
        reference = Reference(
            sample_id=clean(sample.sample_id) or "",
            question=clean(sample.question),
            references=_clean(sample.references),
            facts=_clean(sample.facts),
            cluster=clean(sample.cluster),
            context=_clean(sample.context),
            incorrect_references=_clean(sample.incorrect_references),
        )
        answer = {
            "sample_hash": reference.hash,
            "answer": clean(sample.answer),
            "release": release,
            "repeat": str(n_answers[sample.sample_id]),
            "sample_key": key,
            "correct": sample.label,
            "slices": dict(sample.slices),
            "given": dict(sample_scores),
        }
        answers.append({**reference._asdict(), **answer})
    accepted = str(folder / "accepted.parquet")
    pq.write_table(pa.Table.from_pylist(answers, schema=staged_schema()), accepted)

    # The scores. Labels are columns of the answers.
    with_keys = [
        measurement._replace(sample_id=key)
        for measurement, key in zip(measurements, keys * len(metrics), strict=True)
        if measurement.metric != LABEL
    ]
    part = home.shared_name(folder / "part.parquet")
    write_part(home, part, [with_keys])

    # The steps of a run, as if it had loaded, validated and scored these
    n_rows = len(samples)
    metrics = [metric for metric in metrics if metric.name != LABEL]
    n_todo = tuple((metric.name, 0) for metric in metrics)
    loaded = Loaded(dataset, accepted, rejects="", references=None, n_rows=n_rows, notes=())
    validation = Validation(accepted, "", n_rows, n_accepted=n_rows, n_quarantined=0, checks=(), broken=None)
    plan = Plan((), tuple(metrics), n_rows, n_known=(), n_todo=n_todo, known_answers={})
    committed = commit(home, run_id, dataset, loaded, accepted=accepted, parts=[part])
    run_manifest = manifest(run_id, {}, loaded, validation, plan=plan)
    [report] = aggregate(home, committed, metrics, run_manifest)
    shutil.rmtree(folder)
    return report


def _clean(texts: Sequence[str]) -> tuple[str, ...]:
    """Texts as validation leaves them."""
    return tuple(clean(text) or "" for text in texts)
