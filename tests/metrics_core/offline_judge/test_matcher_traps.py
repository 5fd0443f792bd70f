"""A page of traps of our own: roles turned round, denials, lists, names that look alike, five languages, ..."""

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from answerkey import Sample, evaluate
from answerkey.metrics_core.offline_judge.matcher import Pair, match
from tests.metrics_core.metrics_help import read_jsonl

TRAPS = read_jsonl(Path(__file__).resolve().parents[1] / "data/offline_traps.jsonl")

FLOORS = {
    "reversed roles": (16, 16), "denials": (14, 17), "lists": (13, 15), "near-miss entities": (14, 18),
    "dates": (14, 14), "units and numbers": (15, 16), "hedges and refusals": (13, 14), "Spanish": (8, 8),
    "Catalan": (6, 6), "Basque": (6, 6), "Galician": (6, 6), "German": (4, 4),
    # English, German, Russian and Spanish
    "amounts in words": (76, 78), "rates": (91, 94), "temperatures": (31, 31), "doses": (25, 27),
    "names that look alike": (19, 21), "versions": (42, 42), "variants of names": (55, 55), "bounds": (42, 43),
    "names in brackets": (14, 15), "no amounts": (14, 15), "everyday answers": (598, 650),
}  # fmt: skip
"""By class: the right verdicts that the matcher had when the class was written, and the traps. More is no defect."""


def test_the_share_right_of_each_class():
    samples = [
        Sample(str(i), trap["answer"], trap["references"], trap["question"],
               incorrect_references=trap["incorrect_references"])
        for i, trap in enumerate(TRAPS)
    ]  # fmt: skip
    right = defaultdict(list)
    for trap, found in zip(TRAPS, evaluate(samples, ["meaning_match"]), strict=True):
        right[trap["class"]].append((found.values["match"] == 1) is trap["match"])
    assert len(TRAPS) >= 120
    assert {name: len(some) for name, some in right.items()} == {name: of for name, (_, of) in FLOORS.items()}
    worse = {name: sum(right[name]) for name, (floor, _) in FLOORS.items() if sum(right[name]) < floor}
    assert worse == {}


def test_which_answers_are_judged_together_changes_nothing():
    """The last digits of an embedding depend on the texts of its batch; verdicts do not."""
    pairs = [
        Pair(trap["question"], trap["answer"], tuple(trap["references"]), tuple(trap["incorrect_references"]))
        for trap in TRAPS
    ]
    twice = [*pairs, *pairs]
    together, alone = match(twice), [found for pair in pairs for found in match([pair])]
    assert together[len(pairs) :] == together[: len(pairs)]
    for one, other in zip(together, alone, strict=False):
        assert replace(one, probability=0) == replace(other, probability=0)
        assert one.probability == pytest.approx(other.probability, abs=1e-6)
