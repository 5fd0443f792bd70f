"""Spans of calls: none unless asked for, then with the standard attributes and without any text."""

import json
import os
from pathlib import Path

import pytest

from tests.judge_server import JudgeServer
from tests.metrics_core.judges.asking import KEY, at_first, match

ROOT = Path(__file__).resolve().parents[3]

JUDGE = """
import contextlib, json, sys
from opentelemetry import trace

spans = []

class Kept(trace.NonRecordingSpan):
    def is_recording(self):
        return True

    def record_exception(self, exception, *others, **more):
        self.attributes["exception"] = repr(exception)

    def set_status(self, status, description=None):
        self.attributes["status"] = getattr(status, "status_code", status).name
        self.attributes["description"] = getattr(status, "description", description)

    def __init__(self, name, kind, attributes):
        super().__init__(trace.INVALID_SPAN_CONTEXT)
        self.attributes = {"name": name, "kind": kind.name, **attributes}
        spans.append(self.attributes)

    def set_attribute(self, key, value):
        self.attributes[key] = value

class Tracer(trace.NoOpTracer):
    @contextlib.contextmanager
    def start_as_current_span(self, name, *, kind, attributes, **how):
        with trace.use_span(Kept(name, kind, dict(attributes)), **how) as span:
            yield span

class Provider(trace.NoOpTracerProvider):
    def get_tracer(self, *names, **more):
        return Tracer()

trace.set_tracer_provider(Provider())
from answerkey.metrics_core import Sample, evaluate
from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.llm.access import Access
judge = JudgeOptions(judges=(sys.argv[1],))
evaluate([Sample("s", "a secret answer", ["b"], "c?")], ["meaning_match"], judge=judge, access=Access(sys.argv[2]))
print(json.dumps(spans))
"""


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["1", ""])
def test_calls_have_spans_where_they_are_asked_for(asked, warm_command, tmp_path):
    script = tmp_path / "judge.py"
    script.write_text(JUDGE)
    with JudgeServer(match, faults=at_first("says_key")) as server:
        words = [f"openai/gpt-4o-mini@{server.url}", KEY]
        run = warm_command.run(str(script), words, ROOT, {**os.environ, "ANSWERKEY_OTEL": asked}, 240)
        assert run.returncode == 0, run.stderr
        replied = server.requests[-1].body
    found = json.loads(run.stdout)
    if not asked:
        assert found == []
        return
    sent = {
        "name": "chat gpt-4o-mini",
        "kind": "CLIENT",
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.request.temperature": 0.0,
        "gen_ai.request.seed": 0,
        "gen_ai.request.max_tokens": 1_024,
        "server.address": "127.0.0.1",
        "server.port": server.port,
    }
    came = {
        "gen_ai.response.model": "gpt-4o-mini",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": sum(len(message["content"]) for message in replied["messages"]) // 4,
        "gen_ai.usage.output_tokens": len(match({})) // 4,
    }
    assert found == [{**sent, "error.type": "http_500", "status": "ERROR", "description": None}, {**sent, **came}]
    assert KEY not in run.stdout and "secret" not in run.stdout
