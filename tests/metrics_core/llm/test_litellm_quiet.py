"""litellm as we import it: quiet, without the network, and with its word about waiting."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from email.utils import formatdate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.metrics_core.llm.provider import retry_after

ROOT = Path(__file__).resolve().parents[3]

IMPORT = """
import json, logging, os, socket, sys

touched = []
for name in ("getaddrinfo", "create_connection"):
    setattr(socket, name, lambda *where, **_: touched.append(repr(where)) or (_ for _ in ()).throw(OSError("none")))
socket.socket.connect = socket.socket.connect_ex = lambda self, where: touched.append(repr(where))

set_at_import = []
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "litellm":
            set_at_import.append(os.environ.get("LITELLM_LOCAL_MODEL_COST_MAP"))
sys.meta_path.insert(0, Watch())

from answerkey.metrics_core.llm.provider import litellm
before = "litellm" in sys.modules
library = litellm()
print(json.dumps({
    "before": before,
    "set": set_at_import[0],
    "touched": touched,
    "telemetry": library.telemetry,
    "debug": library.suppress_debug_info,
    "levels": [logging.getLogger(name).level for name in ("LiteLLM", "httpx", "openai")],
    "same": litellm() is library,
    "prices": len(library.model_cost) > 1_000,
}))
"""


@pytest.mark.slow
def test_the_import_is_late_quiet_and_alone() -> None:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("LITELLM")}
    command = [sys.executable, "-c", IMPORT]
    run = subprocess.run(command, cwd=ROOT, env=plain, text=True, capture_output=True, check=True)
    assert run.stderr == ""
    # One line, and it is ours.
    assert json.loads(run.stdout) == {
        "before": False,
        "set": "True",
        "touched": [],
        "telemetry": False,
        "debug": True,
        "levels": [40, 30, 30],
        "same": True,
        "prices": True,
    }


class Refused(Exception):
    def __init__(self, headers: dict[str, str] | None) -> None:
        super().__init__("refused")
        if headers is not None:
            self.litellm_response_headers = headers


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": " 3 "}, 3.0),
        ({"retry-after": "0"}, 0.0),
        # The finer one of two goes first.
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "2"}, 2.0),
        ({"retry-after-ms": "nan", "retry-after": "2"}, 2.0),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
        (None, None),
    ],
)
def test_how_long_a_server_asks_to_wait(headers: dict[str, str] | None, seconds: float | None) -> None:
    assert retry_after(Refused(headers)) == seconds


def test_a_date_is_the_time_until_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1_000_000.5)
    header = formatdate(1_000_030, usegmt=True)
    assert retry_after(Refused({"retry-after": header})) == 29.5


@given(st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms"]), st.text()))
def test_whatever_stands_there_is_a_time_or_nothing(headers: dict[str, str]) -> None:
    seconds = retry_after(Refused(headers))
    assert seconds is None or 0.0 <= seconds < float("inf")


NUMBER = st.integers(0, 10**12).map(str)
MONTH = st.sampled_from(["Jan", "Feb", "June", "13"])


@given(
    st.tuples(NUMBER, st.sampled_from(["Jan", "Feb", "June", "13"]), NUMBER, NUMBER, NUMBER, NUMBER | st.just("GMT"))
)
def test_nor_does_a_strange_date_raise(parts: tuple[str, ...]) -> None:
    day, month, year, hour, minute, zone = parts
    seconds = retry_after(Refused({"retry-after": f"{day} {month} {year} {hour}:{minute} {zone}"}))
    assert seconds is None or 0.0 <= seconds < float("inf")
