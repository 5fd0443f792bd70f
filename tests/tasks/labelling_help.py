"""Two releases whose answers people call right or wrong by their text, and a running `answerkey label`."""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from answerkey.flows.pages import TOKEN
from answerkey.metrics_core.policy_file import parse_policy
from tests.cluster_servers import dies_with_its_parent
from tests.kit.waiting import FAULT_S
from tests.tasks.comparing_help import answer, releases

PRIMARY = "exact_match.match"
POLICY = parse_policy({"primary": PRIMARY, "margin": 0.05}, "test")


def made_releases(
    home: Path, n: int = 80, *, wrong: int = 2, same: int = 0, exact: int = 0, names: tuple[str, str] = ("old", "new")
) -> None:
    """The old release is right, and matches every `exact`-th reference; the new one is wrong about every `wrong`-th.

    The first `same` questions have the same answer in both.
    """
    matching = [i < same or (exact > 0 and i % exact == 0) for i in range(n)]
    old = [answer(i, "yes" if matches else "yes, it is") for i, matches in enumerate(matching)]
    new = [answer(i, "yes" if i < same else "no, never" if i % wrong == 0 else "indeed, yes") for i in range(n)]
    releases(home, dict(zip(names, (old, new), strict=True)))


def verdict_of(text: str) -> str:
    """What people call an answer of these releases."""
    return "right" if "yes" in text else "wrong"


class Labelling:
    """A running `answerkey label`, and the address of its page."""

    def __init__(self, *words: str, **changes: str) -> None:
        command = [sys.executable, "-m", "answerkey.flows.cli", "label", *words, "--port", "0"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1", **changes},
            preexec_fn=dies_with_its_parent(),  # noqa: PLW1509 - it calls nothing but the kernel
        )  # fmt: skip
        assert self.process.stdout is not None
        self.queue = self.process.stdout.readline()
        self.address = self.process.stdout.readline().partition(" ")[0]


@contextmanager
def labelling_page(*words: str, **changes: str) -> Iterator[Labelling]:
    """`answerkey label` with these words, in a changed environment, for as long as the context is open."""
    started = Labelling(*words, **changes)
    try:
        yield started
    finally:
        started.process.kill()
        started.process.wait()


def labelling(home: Path, *options: str) -> AbstractContextManager[Labelling]:
    """`answerkey label` about the releases above."""
    return labelling_page("old", "new", "--primary", PRIMARY, "--margin", "0.05", "--home", str(home), *options)


def ask_page(address: str, token: str, action: str, place: int = 0, **more: Any) -> tuple[int, Any]:
    """Ask a labelling page as its script does: the status, and what it shows, or why it refuses."""
    headers = {TOKEN: token, "Origin": address} | more.pop("headers", {})
    body = json.dumps({"action": action, "annotator": "AB", "place": place, **more}).encode()
    request = urllib.request.Request(f"{address}/", body, headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=FAULT_S) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
