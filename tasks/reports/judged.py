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
        parts = (part.partition(":") for part in self.measurement.signature.split("|"))
        return next((value for name, _, value in parts if name == "judge"), "")

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        found = self.measurement
        return {
            "answer_of": self.answer_of, "report": self.report, "repeat": self.repeat, "metric": found.metric,
            "judge": self.judge, "status": found.status, "values": dict(found.values), "reason": found.reason,
            "details": dict(found.details), "cost_usd": found.usage.cost_usd,
            "from_ledger": found.from_ledger, "signature": found.signature,
            "asked": [asdict(one) for one in self.asked],
        }  # fmt: skip


def judged_rows(home: Home, sample_id: str, names: Sequence[str] = (), dataset: str = "") -> list[Judged]:
    """What judges made of the answers to a sample, in the order of reports, then of metrics, the newest first.

    Args:
        names: reports, or releases, which stand for their newest reports; by default all releases with the sample.
        dataset: where a release, or the sample, is in several.

    Raises:
        UserError: there is no such report or sample, or it is not clear which is meant.
        LedgerError: the ledger cannot be read.
    """
    reports = [report_named(home, name, dataset) for name in names] or _newest(home, sample_id, dataset)
    rows = home.rows(_SQL["judged"], {"reports": reports, "sample": sample_id})
    if not rows:
        raise UserError(f"{sample_id}: no sample of {', '.join(reports)} has this id; the page shows the ids")
    made = {report.report_id: report for report in read_reports(home, list({row[10] for row in rows}))}
    found = []
    with ledger_calls(home.ledger) as ledger:
        calls = partial(_calls, home, ledger)
        for row in rows:
            report = made[row[10]]
            if report.kind(row[11]) == "judge":
                found.append(_judged(home, sample_id, row, report, calls))
    return found


def _newest(home: Home, sample_id: str, dataset: str) -> list[str]:
    rows = home.rows(_SQL["newest"], {"sample": sample_id, "dataset": dataset})
    datasets = sorted({name for _, name in rows})
    if not rows:
        raise UserError(f"{sample_id}: no report{f' on {dataset}' * bool(dataset)} in {home} has a sample with this id")
    if len(datasets) > 1:
        raise UserError(f"{sample_id}: a sample of {', '.join(datasets)}; name one with --dataset")
    return [report_id for report_id, _ in rows]


def _calls(home: Home, ledger: Calls, keys: Sequence[str]) -> Sequence[Mapping[str, Any]]:
    """The calls for requests: from the ledger, or where it has none, as reports keep them."""
    if found := ledger(keys):
        return found
    with home.warehouse.reading() as warehouse:
        rows = warehouse.execute(_SQL["calls"], {"keys": list(keys)})
        names = [column[0] for column in rows.description or ()]
        return [dict(zip(names, row, strict=True)) for row in rows.fetchall()]


def _judged(home: Home, sample_id: str, row: tuple[Any, ...], report: Report, calls: Calls) -> Judged:
    answer_of, repeat, _, question, references, answer, facts, context, wrong, columns, _, name, *rest = row
    signature, status, values, reason, details, seconds, tokens_in, tokens_out, cost, from_ledger, requests = rest
    sample = Sample(
        sample_id, answer, references or (), question, facts or (), context=context or (),
        incorrect_references=wrong or (), columns=dict(columns or ()),
    )  # fmt: skip
    usage = Usage(seconds, tokens_in, tokens_out, cost)
    outcome = _outcome(status, dict(values or ()), reason, json.loads(details or "{}"))
    found = Measurement(sample_id, name, signature, outcome, usage, bool(from_ledger), tuple(requests or ()))
    spec = report.manifest.get("metrics", {}).get(name, {}).get("spec", name)
    metric = _metric(home, report, spec, sample)
    asked = asked_about(metric, sample, found.requests, calls)
    return Judged(answer_of, report.report_id, repeat, sample, metric, found, tuple(asked))


def _outcome(status: str, values: Mapping[str, float], reason: str | None, details: Mapping[str, Any]) -> Outcome:
    if status == "scored":
        return Scored(values, reason, details)
    if status == "failed":
        code, _, message = (reason or "").partition(": ")
        return Failed(code, message)
    return Undefined(reason or "") if status == "undefined" else Skipped(reason or "")


def _metric(home: Home, report: Report, spec: str, sample: Sample) -> JudgeMetric | None:
    """The metric of a report, to make its requests again; None if it cannot be made here.

    Code of users is not imported: whoever looks at a page has not asked for it.
    """
    asked, judging = report.manifest.get("judge"), report.manifest["parameters"].get("judging")
    if is_code(spec) or asked is None or judging is None:
        return None
    spec = with_content(spec, report.manifest.get("rubrics", {}))
    options = {name: judging[name] for name in JudgeOptions.model_fields if name in judging}
    try:
        # The labels, since the judges may have been named by the environment of the run.
        judge = JudgeOptions(**{**options, "judges": asked["judges"], "api_base": ""})
        [metric] = create([spec], {"judge": judge, "access": Access(ledger=home.ledger)})
    except UserError:
        return None
    if isinstance(metric, Preference):
        baseline = report.manifest["parameters"]["baseline"]
        about = {"run": report.run_id, "baseline": baseline, "sample": sample.sample_id}
        answers = home.rows(_SQL["baseline"], about)
        return replace(metric, baseline_answers={sample.sample_id: answers[0][0]}) if answers else None
    return metric if isinstance(metric, JudgeMetric) else None
