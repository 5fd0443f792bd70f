"""What judges were asked about a sample, and what they replied, as a ledger has it. Nothing is asked here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any

from answerkey.metrics_core.judges.judge_metric import JudgeMetric
from answerkey.metrics_core.llm.ledger import COLUMNS, existing_ledger
from answerkey.metrics_core.llm.request import Request
from answerkey.metrics_core.sample import Sample

Calls = Callable[[Sequence[str]], Sequence[Mapping[str, Any]]]
"""The calls for requests, by their keys, oldest first; each has the `COLUMNS` of the ledger."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request about a sample, and the calls that were made for it.

    Attributes:
        system, user: the messages; empty if they cannot be made again, because the prompt is another one by now.
        calls: oldest first, with the `COLUMNS` of the ledger.
    """

    system: str
    user: str
    calls: tuple[Mapping[str, Any], ...]


@contextmanager
def ledger_calls(ledger: str | None) -> Iterator[Calls]:
    """The calls in the ledger at this place. If there is no ledger, none is created.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    with existing_ledger(ledger) as opened:
        yield lambda keys: [dict(zip(COLUMNS, row, strict=True)) for row in opened.calls(keys)]


def asked_about(metric: JudgeMetric | None, sample: Sample, keys: Sequence[str], calls: Calls) -> list[Asked]:
    """The requests behind a measurement.

    Messages are made again by the metric, and shown only where their hash is that of a request.

    Args:
        metric: the metric that judged; None: it cannot be made again.
        keys: of the requests, as `Measurement.requests` has them.

    >>> asked_about(None, Sample("1", "Lyon"), ["0f"], lambda keys: [{"request_key": "0f", "reply": "no"}])
    [Asked(system='', user='', calls=({'request_key': '0f', 'reply': 'no'},))]
    """

    def reply_to(key: str) -> str | None:
        return next((call["reply"] for call in reversed(calls([key])) if call["status"] == "usable"), None)

    # What the judges, and the fallbacks, are asked about the sample
    requests: dict[str, Request] = {}
    if metric is not None and keys:
        for judge, repeat in product(metric.judge.all_models(), range(metric.judge.repeats)):
            for expected in metric.expected_calls(sample, judge, repeat, reply_to):
                requests[expected.request.key] = expected.request

    in_ledger = []
    for key in dict.fromkeys(keys):
        if calls_of_request := tuple(calls([key])):
            request = requests.get(key)
            system, user = (request.system, request.user) if request else ("", "")
            in_ledger.append(Asked(system, user, calls_of_request))
    return in_ledger
