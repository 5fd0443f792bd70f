"""One run a rule at a time: whoever comes second waits, and then looks at what is new."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from answerkey.tasks.warehouse.home import Home

_LOOK_AGAIN_S = 0.2


@contextmanager
def alone(home: Home, rules: Sequence[str], say: Callable[[str], object]) -> Iterator[None]:
    """Keep all other runs of these rules on this home out. `say` is told whom it waits for.

    A process that dies lets go of its locks.
    """
    folder = home.folder / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        # In one order everywhere, so that no two runs wait for each other.
        for rule in sorted(set(rules)):
            stack.enter_context(_locked(folder / f"rule-{rule}.lock", rule, say))
        yield


@contextmanager
def _locked(file: Path, rule: str, say: Callable[[str], object]) -> Iterator[None]:
    lock = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        waiting = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waiting:
                    say(f"{rule}: another run is at work on this rule; waiting until it is done")
                waiting = True
                time.sleep(_LOOK_AGAIN_S)
        yield
    finally:
        os.close(lock)
