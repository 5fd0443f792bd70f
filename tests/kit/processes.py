"""Processes that tests start."""

import subprocess

from tests.kit.waiting import FAULT_S


def finished(command, *, check=False, **options):
    """A command that was run to its end, with what it wrote as text."""
    return subprocess.run(command, check=check, capture_output=True, text=True, timeout=FAULT_S, **options)
