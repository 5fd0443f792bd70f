"""An OpenAI-compatible chat-completions server on loopback, scripted, for tests and benchmarks.

In a test: `with JudgeServer(brain) as server:` and give `server.url` to the client as its base address. As a process
of its own: `python tests/judge_server.py --latency 0.2`, which prints that address on its first line and answers GET
/stats with counts, as it does GET /release once it holds no more answers. A brain (judge_brains.py) decides what it
says, a fault (judge_faults.py) how that goes wrong.

The server is a bare asyncio protocol, since it must cost little beside the client that is measured against it.
"""

import argparse
import asyncio
import hashlib
import json
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter, deque
from dataclasses import replace
from pathlib import Path

if __name__ == "__main__":
    # Instead of this folder, whose folders have the names of the packages.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from tests.judge_brains import BRAINS, Body, Brain, Reply, agreeable, data_of, message_text
from tests.judge_faults import ERRORS, KINDS, PASSING, TWISTS, scheduled
from tests.judge_http import Answer, Connection, Received, completion, error_body, http, refused_format
from tests.kit.waiting import FAULT_S

__all__ = [
    "BRAINS",
    "KINDS",
    "UNTESTED",
    "Body",
    "Brain",
    "JudgeProcess",
    "JudgeServer",
    "Received",
    "Reply",
    "agreeable",
    "data_of",
    "scheduled",
]

UNTESTED = ("--config", "{judging: {check: never}}")
"""Options of a command that asks a scripted judge, which the check of judges would stop."""


class JudgeServer:
    """A server on a free port of 127.0.0.1 (or on `port`), in a thread of its own, while the context is open.

    Args:
        brain: what it says to each request. It runs on the server's thread and must not block. If it raises, the
            client gets a 500 and leaving the context raises the error.
        latency: seconds from a request to its answer. Requests over `concurrency_limit` are refused at once.
        faults: kind of fault for a request's number (from 0) and body, or None; see `KINDS` and `scheduled`.
        concurrency_limit: more requests than this at once get a 429, recorded as `over_limit`.
        refuse_formats: types of `response_format` refused with `refuse_status` (400 or 422), as `refused_format`.
        refuse_parameters: names of parameters refused with a 400, recorded as `refused_parameter`.
        retry_after: seconds in the header of `rate_limit_after`.
        trickle_seconds: how long the answer of `trickle` takes.
        holds: asked whenever a request came or was answered; while it says yes, no answer is begun. With it a test
            waits for what has happened instead of for some time. To hold all but a number of answers it counts those
            `begun`: of many requests at once, all may be begun before the first is answered.
    """

    def __init__(
        self,
        brain,
        latency=0.0,
        faults=None,
        concurrency_limit=None,
        *,
        refuse_formats=(),
        refuse_status=400,
        refuse_parameters=(),
        retry_after=0.2,
        trickle_seconds=5.0,
        holds=None,
        port=0,
    ):
        self.brain, self.latency, self.faults, self.concurrency_limit = brain, latency, faults, concurrency_limit
        self.refuse_formats, self.refuse_status = refuse_formats, refuse_status
        self.refuse_parameters = refuse_parameters
        self.retry_after, self.trickle_seconds, self.port = retry_after, trickle_seconds, port
        self.holds = holds
        self.connections = set()
        self._lock = threading.Lock()
        self._requests = []
        self._in_flight = self._max_in_flight = 0
        self._broken = []
        self._held = deque()
        self.begun = 0

    @property
    def url(self):
        """The base address for a client: http://127.0.0.1:PORT/v1."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def requests(self):
        """All requests so far, in the order of arrival."""
        with self._lock:
            return list(self._requests)

    @property
    def n_requests(self):
        """How many requests came so far."""
        return len(self._requests)

    @property
    def max_in_flight(self):
        """The most requests that were waiting for their answers at once; those over the limit never wait."""
        return self._max_in_flight

    @property
    def held(self):
        """How many requests wait for their answers to be begun."""
        return len(self._held)

    @property
    def answered(self):
        """How many requests have their answers, good or bad."""
        return sum(request.answered for request in self.requests)

    @property
    def fault_counts(self):
        """How many requests met each kind of fault or refusal."""
        return Counter(request.fault for request in self.requests if request.fault)

    def count_by_user_message(self):
        """How many requests had each text as their first user message: repairs count for what they repair."""
        return Counter(
            next(message_text(m) for m in request.body["messages"] if m["role"] == "user") for request in self.requests
        )

    def stats(self):
        """The counts, as GET /stats has them. `bodies` counts by a hash of the request's body."""
        requests = self.requests
        return {
            "requests": len(requests),
            "answered": self.answered,
            "faults": self.fault_counts,
            "in_flight": self._in_flight,
            "max_in_flight": self._max_in_flight,
            "bodies": Counter(request.body_hash for request in requests),
        }

    def reset(self):
        """Forget all requests; the next one has number 0 again."""
        with self._lock:
            self._requests = []
            self._max_in_flight = self._in_flight

    def __enter__(self):
        listener = socket.create_server(("127.0.0.1", self.port), backlog=1024)
        self.port = listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, args=(listener,), name="judge-server", daemon=True)
        self._serves = threading.Event()
        self._thread.start()
        assert self._serves.wait(timeout=FAULT_S), "the server did not start"
        return self

    def __exit__(self, kind, error, trace):
        self._loop.call_soon_threadsafe(self._stop)
        self._thread.join(timeout=FAULT_S)
        if self._broken and error is None:
            raise self._broken[0]

    def _serve(self, listener):
        loop = self._loop
        serving = loop.create_server(lambda: Connection(self, loop), sock=listener, backlog=1024)
        server = loop.run_until_complete(serving)
        loop.call_soon(self._serves.set)
        loop.run_forever()
        server.close()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()

    def _stop(self):
        for connection in self.connections:
            connection.transport.abort()
        self._loop.call_soon(self._loop.stop)  # after the connections have heard of it

    def receive(self, raw, headers):
        """Record a request and decide its answer: None for one that never comes."""
        body = json.loads(raw)
        at, digest = time.monotonic(), hashlib.sha256(raw).hexdigest()[:16]
        number = len(self._requests)
        try:
            kind, answer = self._decide(number, body, headers)
        except Exception as error:
            self._broken.append(error)
            kind = "broken"
            answer = Answer(error_body(500, f"The script of this server failed: {error!r}", "server_error", None), 0.0)
        request = Received(body, headers, at, kind, digest)
        with self._lock:
            self._requests.append(request)
            if kind != "over_limit":
                self._in_flight += 1
                self._max_in_flight = max(self._max_in_flight, self._in_flight)
        return request, answer

    def left(self, request, *, answered):
        """Note that a request has its answer, or that its client is gone."""
        with self._lock:
            request.answered = answered
            if request.fault != "over_limit":
                self._in_flight -= 1
        self._loop.call_soon(self._begin_answers)

    def begin(self, request, answer):
        """Call `answer` as soon as nothing holds it; what is refused at once is not held."""
        if request.fault == "over_limit":
            answer()
        else:
            self._held.append(answer)
        self._begin_answers()

    def _begin_answers(self):
        while self._held and not (self.holds and self.holds(self)):
            self.begun += 1
            self._held.popleft()()

    def release(self):
        """Hold no more answers."""
        self.holds = None
        self._loop.call_soon_threadsafe(self._begin_answers)

    def _decide(self, number, body, headers):
        if self.concurrency_limit is not None and self._in_flight >= self.concurrency_limit:
            return "over_limit", Answer(error_body(*ERRORS["over_limit"]), 0.0)
        if refused := self._refusal(body):
            return refused[0], Answer(refused[1], self.latency)
        kind = self.faults(number, body) if self.faults else None
        if kind is not None and kind not in KINDS:
            raise ValueError(f"no such kind of fault: {kind!r}")
        if kind == "hang":
            return kind, None
        spread = self.trickle_seconds if kind == "trickle" else 0.0
        return kind, Answer(self._payload(kind, number, body, headers), self.latency, spread)

    def _refusal(self, body):
        asked = (body.get("response_format") or {}).get("type", "text")
        if asked in self.refuse_formats:
            return "refused_format", refused_format(asked, self.refuse_formats, self.refuse_status)
        if names := sorted(body.keys() & set(self.refuse_parameters)):
            message = f"Unsupported parameter: '{names[0]}' is not supported with this model."
            return "refused_parameter", error_body(400, message, "invalid_request_error", "unsupported_parameter")
        return None

    def _payload(self, kind, number, body, headers):
        if kind == "drop":
            return b""
        if kind == "not_json_body":
            return http(200, b"<html><body>Please sign in to this network.</body></html>", kind="text/html")
        if kind in ERRORS:
            header = f"retry-after: {self.retry_after:g}\r\n" if kind == "rate_limit_after" else ""
            status, message, type_, code = ERRORS[kind]
            key = headers.get("authorization", "").removeprefix("Bearer ")
            if kind == "says_key":
                header, code = f"retry-after: {key}\r\nx-request-id: {key}\r\n", key
            return error_body(status, message.format(key=key), type_, code, header)
        said = self.brain(body)
        reply = said if isinstance(said, Reply) else Reply(said)
        if kind in TWISTS:
            twisted, reason = TWISTS[kind](reply.text or "")
            reply = replace(reply, text=twisted, finish_reason=reason)
        return http(200, json.dumps(completion(number, body, reply)).encode())


class JudgeProcess:
    """This file as a process with these arguments, while the context is open: it costs the caller's process nothing."""

    def __init__(self, *arguments):
        self._command = [sys.executable, __file__, *arguments]

    def __enter__(self):
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        self.url = self._process.stdout.readline().strip()
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.communicate(timeout=FAULT_S)

    def stats(self):
        """As `JudgeServer.stats`."""
        return self._get("stats")

    def release(self):
        """As `JudgeServer.release`."""
        self._get("release")

    def _get(self, path):
        # Without the proxies that the environment may name.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.url}/{path}", timeout=FAULT_S) as answer:
            counts = json.load(answer)
        return counts


def main(arguments=None):
    """Serve until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds")
    parser.add_argument("--brain", choices=sorted(BRAINS), default="agreeable")
    parser.add_argument("--faults", type=float, default=0.0, metavar="RATE", help="share of requests, 0 to 1")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", default=PASSING, choices=sorted(KINDS), metavar="KIND")
    parser.add_argument("--concurrency-limit", type=int)
    parser.add_argument("--refuse-formats", nargs="+", default=(), metavar="TYPE")
    parser.add_argument("--retry-after", type=float, default=0.2, help="seconds")
    parser.add_argument("--trickle-seconds", type=float, default=5.0)
    parser.add_argument("--hold-after", type=int, help="requests, after which answers wait until GET /release")
    given = parser.parse_args(arguments)
    signals = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    with JudgeServer(
        BRAINS[given.brain],
        given.latency,
        scheduled(given.faults, given.seed, given.kinds) if given.faults else None,
        given.concurrency_limit,
        refuse_formats=given.refuse_formats,
        retry_after=given.retry_after,
        trickle_seconds=given.trickle_seconds,
        holds=None if given.hold_after is None else lambda server: server.n_requests > given.hold_after,
        port=given.port,
    ) as server:
        print(server.url, flush=True)
        signal.sigwait(signals)


if __name__ == "__main__":
    main()
