"""Why an answer has its verdicts: everything that judges were asked about it and said, in whichever report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.asked import Asked, Calls, asked_about, ledger_calls
from answerkey.metrics_core.judges.judge_metric import JudgeMetric
from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.llm.access import Access
from answerkey.metrics_core.measurement import Failed, Measurement, Outcome, Scored, Skipped, Undefined, Usage
from answerkey.metrics_core.metrics.preference import Preference
from answerkey.metrics_core.registry import create, is_code, with_content
from answerkey.metrics_core.sample import Sample
from answerkey.tasks.reports.report import Report, read_reports, report_named
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements

_SQL = statements(__name__)


@dataclass(frozen=True, slots=True)
class Judged:
    """What one metric, with its judges and settings, made of an answer.

    Attributes:
        answer_of: the report that was asked for.
        report: the newest report with this measurement: the same, or another one about the same answer. Empty: none.
        repeat: which of several answers to the question it is.
        metric: None: it cannot be made again here.
        asked: the requests behind it.
    """

    answer_of: str
    report: str
    repeat: int
    sample: Sample
    metric: JudgeMetric | None
    measurement: Measurement
    asked: tuple[Asked, ...] = ()

    @property
    def judge(self) -> str:
        """The judges, as the signature names them."""
        for part in self.measurement.signature.split("|"):
            name, _, judges = part.partition(":")
            if name == "judge":
                return judges
        return ""

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        measurement = self.measurement
        return {
            "answer_of": self.answer_of,
            "report": self.report,
            "repeat": self.repeat,
            "metric": measurement.metric,
            "judge": self.judge,
            "status": measurement.status,
            "values": dict(measurement.values),
            "reason": measurement.reason,
            "details": dict(measurement.details),
            "cost_usd": measurement.usage.cost_usd,
            "from_ledger": measurement.from_ledger,
            "signature": measurement.signature,
            "asked": [asdict(request) for request in self.asked],
        }


def judged_rows(home: Home, sample_id: str, names: Sequence[str] = (), dataset: str = "") -> list[Judged]:
    """What judges made of the answers to a sample, in the order of reports, then of metrics, the newest first.

    Args:
        names: reports, or releases, which stand for their newest reports; by default all releases with the sample.
        dataset: where a release, or the sample, is in several.

    Raises:
        UserError: there is no such report or sample, or it is not clear which is meant.
        LedgerError: the ledger cannot be read.
    """
    reports = [report_named(home, name, dataset) for name in names]
    if not names:
        newest = home.rows(_SQL["newest"], {"sample": sample_id, "dataset": dataset})
        datasets = sorted({name for _, name in newest})
        if not newest:
            on_dataset = f" on {dataset}" if dataset else ""
            raise UserError(f"{sample_id}: no report{on_dataset} in {home} has a sample with this id")
        if len(datasets) > 1:
            raise UserError(f"{sample_id}: a sample of {', '.join(datasets)}; name one with --dataset")
        reports = [report_id for report_id, _ in newest]
    rows = home.rows(_SQL["judged"], {"reports": reports, "sample": sample_id})
    if not rows:
        raise UserError(f"{sample_id}: no sample of {', '.join(reports)} has this id; the page shows the ids")

    # The measurements of judges, from whichever report has them, with what was asked for each
    report_by_id = {report.report_id: report for report in read_reports(home, list({row[10] for row in rows}))}
    judged = []
    with ledger_calls(home.ledger) as ledger:
        calls = partial(_calls, home, ledger)
        for row in rows:
            report = report_by_id[row[10]]
            if report.kind(row[11]) == "judge":
                judged.append(_judged(home, sample_id, row, report=report, calls=calls))
    return judged


def _calls(home: Home, ledger: Calls, keys: Sequence[str]) -> Sequence[Mapping[str, Any]]:
    """The calls for requests: from the ledger, or where it has none, as reports keep them."""
    if calls := ledger(keys):
        return calls
    with home.warehouse.reading() as warehouse:
        rows = warehouse.execute(_SQL["calls"], {"keys": list(keys)})
        names = [column[0] for column in rows.description or ()]
        return [dict(zip(names, row, strict=True)) for row in rows.fetchall()]


def _judged(home: Home, sample_id: str, row: tuple[Any, ...], *, report: Report, calls: Calls) -> Judged:
    """What a row of the statement `judged` says."""
    answer_of, repeat, _, question, references, answer, facts, context, incorrect, columns, _, name, *measured = row
    signature, status, values, reason, details, seconds, tokens_in, tokens_out, cost, from_ledger, requests = measured
    sample = Sample(
        sample_id,
        answer,
        references,
        question,
        facts=facts,
        context=context,
        incorrect_references=incorrect,
        columns=dict(columns or ()),
    )
    # What the metric made of the answer
    outcome: Outcome
    if status == "scored":
        outcome = Scored(dict(values or ()), reason, json.loads(details or "{}"))
    elif status == "failed":
        code, _, message = (reason or "").partition(": ")
        outcome = Failed(code, message)
    else:
        outcome = Undefined(reason or "") if status == "undefined" else Skipped(reason or "")
    measurement = Measurement(
        sample_id,
        name,
        signature,
        outcome,
        usage=Usage(seconds, tokens_in, tokens_out, cost),
        from_ledger=bool(from_ledger),
        requests=tuple(requests or ()),
    )
    spec = report.manifest.get("metrics", {}).get(name, {}).get("spec", name)
    metric = _metric(home, report, spec, sample)
    return Judged(
        answer_of=answer_of,
        report=report.report_id,
        repeat=repeat,
        sample=sample,
        metric=metric,
        measurement=measurement,
        asked=tuple(asked_about(metric, sample, measurement.requests, calls)),
    )


def _metric(home: Home, report: Report, spec: str, sample: Sample) -> JudgeMetric | None:
    """The metric of a report, to make its requests again; None if it cannot be made here.

    Code of users is not imported: whoever looks at a page has not asked for it.
    """
    # A metric of users' code, or of a report that does not say who judged it, cannot be made again
    judge_note = report.manifest.get("judge")
    judging = report.manifest["parameters"].get("judging")
    if is_code(spec) or judge_note is None or judging is None:
        return None
    spec = with_content(spec, report.manifest.get("rubrics", {}))
    options = {name: judging[name] for name in JudgeOptions.model_fields if name in judging}
    try:
        # The labels, since the judges may have been named by the environment of the run.
        judge = JudgeOptions(**{**options, "judges": judge_note["judges"], "api_base": ""})
        [metric] = create([spec], {"judge": judge, "access": Access(ledger=home.ledger)})
    except UserError:
        return None
    if isinstance(metric, Preference):
        baseline = report.manifest["parameters"]["baseline"]
        parameters = {"run": report.run_id, "baseline": baseline, "sample": sample.sample_id}
        answers = home.rows(_SQL["baseline"], parameters)
        return replace(metric, baseline_answers={sample.sample_id: answers[0][0]}) if answers else None
    return metric if isinstance(metric, JudgeMetric) else None
