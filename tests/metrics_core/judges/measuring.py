"""How tests put samples before judges at a server on loopback."""

from typing import Any

from answerkey.metrics_core import Measurement, Sample, evaluate
from tests.judge_server import Body, JudgeServer, data_of
from tests.metrics_core.judges.asking import setup


def judged(
    server: JudgeServer, metric: str, *samples: Sample, models: tuple[str, ...] = ("m",), **options: Any
) -> list[Measurement]:
    """The measurements of the samples; `options` are those of `JudgeOptions` and `Access`."""
    judges = tuple(f"openai/{model}@{server.url}" for model in models)
    return evaluate(samples, [metric], **setup(*judges, **options)._asdict())


def asked_with(server: JudgeServer, field: str) -> list[Body]:
    """The requests so far whose data have this field."""
    return [request.body for request in server.requests if field in data_of(request.body)]
