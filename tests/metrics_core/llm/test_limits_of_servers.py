"""What the limits of a server cost a run, over HTTP: a server that takes few calls at once, and one that is away."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

import pytest

from tests.judge_http import completion
from tests.judge_server import JudgeServer, Reply
from tests.metrics_core.judges.asking import ask, match, options, samples, setup

CAPACITY = 4
CALL_S = 0.1


class BusyServer:
    """A judge that works on `CAPACITY` calls at once, and answers 429 to the others.

    Args:
        retry_after: seconds that it asks to wait; empty: it does not.
    """

    def __init__(self, retry_after: str) -> None:
        self.retry_after = retry_after
        self.taken = self.refused = 0
        self.began = self.ended = 0.0

    def __enter__(self) -> Self:
        server, slots, lock = self, threading.Semaphore(CAPACITY), threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                """Quiet."""

            def do_POST(self) -> None:
                body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["content-length"])))
                free = slots.acquire(blocking=False)
                if free:
                    time.sleep(CALL_S)
                    slots.release()
                with lock:
                    server.began = server.began or time.monotonic()
                    server.ended = time.monotonic()
                    server.taken += free
                    server.refused += not free
                answer: dict[str, Any] = {"error": {"message": "Too many at once.", "code": "rate_limit_exceeded"}}
                if free:
                    answer = completion(server.taken, body, Reply(match(body)))
                payload = json.dumps(answer).encode()
                self.send_response(200 if free else 429)
                if not free and server.retry_after:
                    self.send_header("retry-after", server.retry_after)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()

    @property
    def url(self) -> str:
        """The base address for a client."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"


@pytest.mark.slow
@pytest.mark.usefixtures("first_call_made")
@pytest.mark.parametrize("retry_after", ["", "0.2"])
def test_the_capacity_of_a_server_is_found_and_nothing_is_lost(retry_after: str) -> None:
    rows = 200
    with BusyServer(retry_after) as server:
        measured = ask(samples(rows), setup(f"openai/m-{retry_after}@{server.url}", concurrency=32, deadline_s=120.0))
    assert Counter(one.status for one in measured) == {"scored": rows}
    assert server.taken == rows
    # It goes to its ceiling at the first reply, and is refused there once; then it only touches the capacity.
    assert server.refused <= rows
    # Half of the capacity at least is used, pauses included.
    assert server.ended - server.began <= 2 * rows * CALL_S / CAPACITY + 10.0


@pytest.mark.slow
@pytest.mark.usefixtures("first_call_made")
def test_an_outage_of_20_seconds_costs_no_row_whose_deadline_is_later(
    judge_server: Callable[..., JudgeServer],
) -> None:
    began: list[float] = []

    def fault(number: int, _body: Any) -> str | None:
        if number < 40:
            return None
        began[:] = began or [time.monotonic()]
        return "error_503" if time.monotonic() - began[0] < 20.0 else None

    server = judge_server(match, latency=0.01, faults=fault)
    measured = ask(samples(200), options(server, concurrency=8, deadline_s=100.0))
    assert Counter(one.status for one in measured) == {"scored": 200}
    # A call every few seconds while it lasts.
    assert server.n_requests <= 200 + 40
