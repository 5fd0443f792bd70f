"""Which traces a rule takes, by a hash: the same ones every time, and at a higher rate those and more."""

from __future__ import annotations

import hashlib

_WIDTH = 128
"""Bits of the hash."""


def sampled(rule: str, trace_id: str, rate: float) -> bool:
    """Whether the rule takes the trace at a rate of 0 (none) to 1 (all).

    The rule's name is part of the hash, so two rules at a tenth do not take the same tenth.
    """
    return hashlib.md5(f"{rule}\0{trace_id}".encode()).hexdigest() < threshold(rate)


def threshold(rate: float) -> str:
    """The text under which the hash, as 32 hexadecimal digits, lies where a trace is taken."""
    below = int(rate * 2**_WIDTH)
    # At rate 1 no number of 32 digits is above all hashes, but a letter behind f is.
    return "g" if below >= 2**_WIDTH else f"{below:032x}"


def condition(trace_id: str, rule: str, rate: float) -> tuple[str, dict[str, str]]:
    """The same for DuckDB: a condition on the column `trace_id`, and its parameters."""
    return f"md5($rule || chr(0) || {trace_id}) < $threshold", {"rule": rule, "threshold": threshold(rate)}
