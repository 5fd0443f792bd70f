"""How tests wait: for an event, with a limit that only a fault reaches.

A test asserts no time: what else the machine does makes everything many times as slow, and that is no fault.
"""

import time
from collections.abc import Callable
from typing import TypeVar

FAULT_S = 900.0
"""What only a fault reaches: no single step of a test takes as long, however much else the machine does."""
AGAIN_S = 90.0
"""After which something is tried once more that may have been lost, and harms nobody where it was not."""
SHORTEST_S, LONGEST_S = 0.02, 0.5
"""Between two looks. What takes long is looked at less often: a look at a server costs it something."""

Found = TypeVar("Found")


def wait_until(condition: Callable[[], Found], awaited: str | Callable[[], str]) -> Found:
    """Look at `condition` again and again until it returns something true, and return that.

    Raises:
        AssertionError: it took longer than `FAULT_S`; with what was awaited: a text, or a function that makes one of
            what there is then.
    """
    end, pause_s = time.monotonic() + FAULT_S, SHORTEST_S
    while not (found := condition()):
        if time.monotonic() > end:
            what = awaited if isinstance(awaited, str) else awaited()
            raise AssertionError(f"waited {FAULT_S:.0f} s in vain for {what}")
        time.sleep(pause_s)
        pause_s = min(1.2 * pause_s, LONGEST_S)
    return found
