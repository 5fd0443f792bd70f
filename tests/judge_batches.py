"""Files and batches of OpenAI in front of a scripted judge, for tests.

The server works on a batch when it is told to: `finish` has every line answered by the brain of the judge. It keeps
count of what was uploaded, made and worked on, which is what a provider would have paid.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.judge_brains import Reply, data_of
from tests.judge_http import completion
from tests.kit.waiting import FAULT_S


@dataclass
class Batch:
    """One batch at the server."""

    id: str
    lines: list[dict[str, Any]]
    metadata: dict[str, str] = field(default_factory=dict)
    status: str = "in_progress"
    created_at: float = field(default_factory=time.time)
    results: list[dict[str, Any]] = field(default_factory=list)


class BatchServer:
    """A server with batch endpoints on a free port of 127.0.0.1, while the context is open.

    Args:
        brain: what it says to each line, and to each call of its own.
        finishes: whether a batch ends by itself when it is looked at for the second time.
        line_fault: what becomes of a line, by its number and body: expired, error_500, quota, or None for a reply.
        fails: kinds of requests (upload, create, look, find, results) of which the next get a 500, and how many;
            `created`: of those that have made a batch.
        hold: steps at which a request waits until `release`: upload (a file came), create (a batch is asked for),
            created (it is there, and nobody was told).
        without: whether it has no batch endpoints; `unlisted`: whether it has no list of batches.
        show_results: what is shown of a file of results, by what should be.
        show_row: what is shown of a result, by its number and as it should be.
        show_state: what is shown of a batch, by what should be.
    """

    def __init__(
        self, brain, *, finishes=True, line_fault=lambda _number, _body: None, fails=None, hold=frozenset(),
        without=False, unlisted=False, show_results=lambda shown: shown, show_row=lambda _number, row: row,
        show_state=lambda shown: shown,
    ):  # fmt: skip
        self.show_row, self.show_state, self.show_results, self.unlisted = show_row, show_state, show_results, unlisted
        self.brain, self.finishes, self.line_fault = brain, finishes, line_fault
        self.fails, self.hold, self.without = Counter(fails or {}), hold, without
        self.files = {}
        self.batches = {}
        self.direct = []
        self.seen = Counter()
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._changed = threading.Condition()

    def __enter__(self):
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                """Quiet."""

            def do_GET(self):
                path, _, self.query = self.path.partition("?")
                self.parts = path.strip("/").split("/")[1:]
                self.body = self.rfile.read(int(self.headers.get("content-length", 0)))
                server._answer(self)

            do_POST = do_GET

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.port = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.release()
        self._http.shutdown()
        self._thread.join(timeout=FAULT_S)
        self._http.server_close()

    @property
    def url(self):
        """The base address for a client."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def worked_on(self):
        """Lines that were answered: what is paid."""
        return sum(self._is_paid(row) for batch in self.batches.values() for row in batch.results)

    def wait_for(self, what, times=1):
        """Until there were so many requests of a kind (direct, upload, create, look, find, results), or of one that has
        reached a step (`upload reached`).
        """
        with self._changed:
            assert self._changed.wait_for(lambda: self.seen[what] >= times, timeout=FAULT_S), self.seen

    def release(self):
        """Hold nothing any more."""
        self.hold = frozenset()
        self._released.set()

    def finish(self, status="completed"):
        """Work on every batch that is there."""
        with self._lock:
            for batch in self.batches.values():
                self._work_on(batch, status)

    def _work_on(self, batch, status="completed"):
        if batch.status != "in_progress":
            return
        for number, line in enumerate(batch.lines):
            fault = self.line_fault(number, line["body"])
            batch.results.append(_result(line["custom_id"], number, line["body"], fault, self.brain))
        batch.status = status

    @staticmethod
    def _is_paid(row):
        return bool(row["response"] and row["response"]["status_code"] == 200)

    def _note(self, what):
        with self._changed:
            self.seen[what] += 1
            self._changed.notify_all()

    def _hold(self, step):
        self._note(f"{step} reached")
        if step in self.hold:
            self._released.wait(timeout=FAULT_S)

    def _answer(self, request):
        status, answer = self._decide(request)
        payload = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        try:
            request.send_response(status)
            request.send_header("content-type", "application/json")
            request.send_header("content-length", str(len(payload)))
            request.end_headers()
            request.wfile.write(payload)
        except OSError:
            request.close_connection = True

    def _decide(self, request):
        kinds = {"POST files": "upload", "POST batches": "create", "GET batches": "find", "GET content": "results"}
        others = {"POST": "direct", "GET": "look"}
        kind = kinds.get(f"{request.command} {request.parts[-1]}", others[request.command])
        self._note(f"{kind} asked")
        if (kind != "direct" and self.without) or (kind == "find" and self.unlisted):
            return 404, _error("not_found_error", "There is no such path.")
        try:
            self._fail(kind)
            return 200, getattr(self, f"_{kind}")(request)
        except ConnectionError:
            return 500, _error("api_error", "The server had an error.")
        except KeyError:
            return 404, _error("not_found_error", "There is no such thing.")
        finally:
            self._note(kind)

    def _fail(self, kind):
        if self.fails[kind] > 0:
            self.fails[kind] -= 1
            raise ConnectionError(kind)

    def _direct(self, request):
        asked = json.loads(request.body)
        with self._lock:
            self.direct.append(asked)
        return _message(len(self.direct), asked, self.brain)

    def _upload(self, request):
        kind = request.headers["content-type"]
        form = BytesParser().parsebytes(f"content-type: {kind}\r\n\r\n".encode() + request.body)
        fields = {part.get_param("name", header="content-disposition"): part for part in form.get_payload()}
        assert fields["purpose"].get_payload(decode=True).strip() == b"batch"
        with self._lock:
            name = f"file-{len(self.files)}"
            self.files[name] = fields["file"].get_payload(decode=True)
        self._hold("upload")
        return {"id": name, "object": "file", "purpose": "batch"}

    def _create(self, request):
        self._hold("create")
        asked = json.loads(request.body)
        assert (asked["endpoint"], asked["completion_window"]) == ("/v1/chat/completions", "24h")
        lines = [json.loads(line) for line in self.files[asked["input_file_id"]].splitlines()]
        assert all((line["method"], line["url"]) == ("POST", "/v1/chat/completions") for line in lines)
        assert len({line["custom_id"] for line in lines}) == len(lines)
        # Rows are asked at once, so their lines come in any order; here they are numbered by what they ask.
        lines.sort(key=lambda line: json.dumps(data_of(line["body"]), sort_keys=True))
        with self._lock:
            batch = Batch(f"batch_{len(self.batches)}", lines, asked.get("metadata") or {})
            self.batches[batch.id] = batch
        self._hold("created")
        self._fail("created")
        return self._shown(batch)

    def _find(self, request):
        assert request.query.startswith("limit=100")
        newest_first = [self._shown(batch) for batch in reversed(self.batches.values())]
        return {"object": "list", "data": newest_first, "has_more": False}

    def _look(self, request):
        batch = self.batches[request.parts[-1]]
        shown = self.show_state(self._shown(batch))
        if self.finishes:
            with self._lock:
                self._work_on(batch)
        return shown

    def _results(self, request):
        kind, _, name = request.parts[-2].partition("-")
        rows = [(n, row) for n, row in enumerate(self.batches[name].results) if self._is_paid(row) == (kind == "out")]
        # In no order that means anything.
        lines = (json.dumps(self.show_row(number, row)).encode() + b"\n" for number, row in reversed(rows))
        return self.show_results(b"".join(lines))

    def _shown(self, batch):
        paid = sum(map(self._is_paid, batch.results))
        failed = len(batch.results) - paid
        return {
            "id": batch.id, "object": "batch", "status": batch.status, "created_at": int(batch.created_at),
            "metadata": batch.metadata, "output_file_id": f"out-{batch.id}" if paid else None,
            "error_file_id": f"err-{batch.id}" if failed else None,
            "request_counts": {"total": len(batch.lines), "completed": paid, "failed": failed},
            "errors": {"data": [{"message": "Line 1 is too long."}]} if batch.status == "failed" else None,
        }  # fmt: skip


def _error(kind, message):
    return {"type": "error", "error": {"type": kind, "message": message, "code": None, "param": None}}


def _message(number, body, brain):
    said = brain(body)
    return completion(number, body, said if isinstance(said, Reply) else Reply(said))


def _result(name, number, body, fault, brain):
    error = {"code": "batch_expired", "message": "Not in time."} if fault == "expired" else None
    response = None if error else {"status_code": 200, "body": _message(number, body, brain)}
    if fault == "error_500":
        response = {"status_code": 500, "body": _error("server_error", "The server had an error.")}
    if fault == "quota":
        about = {"type": "insufficient_quota", "code": "insufficient_quota", "message": "You exceeded your quota."}
        response = {"status_code": 429, "body": {"error": about}}
    return {"id": f"line_{number}", "custom_id": name, "response": response, "error": error}
