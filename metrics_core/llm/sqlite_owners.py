"""Which of the processes that share a folder are alive."""

from __future__ import annotations

import fcntl
import os
import uuid
from pathlib import Path


class Owners:
    """Which of the processes that share `folder` are alive; None: this process is alone.

    Each holds a lock on a file of its own, which the system drops when the process dies, however it dies. A process id
    would not do: it is used again, and another container has ids of its own. A lock library would not do either: to
    probe a lock it creates the file, and so would bring back the file of a dead process.

    >>> alone = Owners(None)
    >>> alone.alive(alone.me), alone.alive("another")
    (True, False)
    """

    def __init__(self, folder: Path | None, me: str = "") -> None:
        self.me = me or uuid.uuid4().hex
        self._folder = folder
        self._lock: int | None = None
        self.appear()

    def appear(self) -> None:
        """Be alive, also after `close`."""
        if self._folder:
            self._folder.mkdir(parents=True, exist_ok=True)
            # Locked before it has its name: a file without a lock belongs to the dead.
            unnamed = self._folder / f".{self.me}"
            self._lock = os.open(unnamed, os.O_CREAT | os.O_RDWR, 0o644)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            unnamed.rename(self._folder / self.me)

    def forget_dead(self) -> None:
        """Remove the files of the dead."""
        if self._folder:
            for file in self._folder.iterdir():
                if not file.name.startswith("."):
                    self.alive(file.name)

    def alive(self, owner: str) -> bool:
        """Whether the process that `owner` names still holds its lock. The file of a dead one is removed."""
        if owner == self.me or self._folder is None:
            return owner == self.me
        file = self._folder / owner
        held = is_held(file)
        if held is False:
            file.unlink(missing_ok=True)
        return bool(held)

    def close(self) -> None:
        """Be dead for all others."""
        if self._lock is not None and self._folder is not None:
            (self._folder / self.me).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None


def is_held(file: Path) -> bool | None:
    """Whether a living process holds the lock on a file; None where there is no such file."""
    try:
        probe = os.open(file, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(probe)
    return False
