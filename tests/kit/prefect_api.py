"""The API of a Prefect server that is protected against forged requests, as its own clients ask it."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import cache
from typing import Any

from tests.kit.waiting import FAULT_S, wait_until

CLIENT = "tests"
Ask = Callable[[str, object], list[dict[str, Any]]]


def ask_prefect(url: str, method: str, path: str, body: object = None) -> Any:
    """One request to the API at `url`; None where the answer has no content."""
    content = None if body is None else json.dumps(body).encode()

    def reply() -> list[bytes]:
        headers = {"Content-Type": "application/json", **(token_headers(url) if method != "GET" else {})}
        request = urllib.request.Request(f"{url}/{path}", content, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=FAULT_S) as answer:
                return [answer.read()]
        except urllib.error.HTTPError as error:
            # A token is good for an hour.
            if error.code == 403 and b"Invalid CSRF token" in error.read():
                token_headers.cache_clear()
                return []
            # The database was busy with what runs have just reported; Prefect's own client asks again as well.
            if error.code == 503:
                return []
            raise

    [text] = wait_until(reply, f"{method} {path}")
    return json.loads(text) if text else None


def runs_named(ask: Ask, name: str) -> list[dict[str, Any]]:
    """The runs of flows that have this name, by the fixture `ask`."""
    return ask("flow_runs/filter", {"flow_runs": {"name": {"any_": [name]}}})


def artifacts_of(ask: Ask, run_id: str) -> dict[str, dict[str, Any]]:
    """What a run shows in the UI, by its keys."""
    artifacts = ask("artifacts/filter", {"flow_runs": {"id": {"any_": [run_id]}}})
    return {artifact["key"]: artifact for artifact in artifacts}


@cache
def token_headers(url: str) -> dict[str, str]:
    """The headers of whoever changes something."""
    token = ask_prefect(url, "GET", f"csrf-token?client={CLIENT}")["token"]
    return {"Prefect-Csrf-Client": CLIENT, "Prefect-Csrf-Token": token}
