"""The training script keeps train and test apart; it runs on data that is not in this project."""

import json
import re
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from answerkey.metrics_core.offline_judge.matcher import Pair
from answerkey.metrics_core.offline_judge.model import load

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))
from _matcher_training import Table, border, pair_of
from train_matcher import split


def letters(question: str) -> str:
    return "".join(re.findall(r"[a-z0-9]", question.lower()))


def test_no_question_of_nq301_is_trained_on(shared: Path) -> None:
    file = shared / "data" / "nq301" / "nq301.jsonl"
    if not file.exists():
        pytest.skip("no nq301 beside the repository")
    theirs = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    rows, rest = split()
    ours = {letters(row["question"]) for row in rows}
    assert ours.isdisjoint(letters(row["question"]) for row in theirs)
    # The same question in nearly the same words.
    assert letters("who become the ceo of it wipro company in 2016") not in ours
    assert ours.isdisjoint(letters(row["question"]) for row in rest)
    assert len(rows) + len(rest) == 8_101
    trained = load().trained_on
    assert (len(rows), len(ours)) == (trained["answers"], trained["questions"])


def test_the_model_sees_texts_alone() -> None:
    assert [field.name for field in fields(Pair)] == ["question", "answer", "references", "wrong"]
    row = {"question": "q", "answer": "a", "references": ["r", " ", None], "model": "m", "id": "1", "meta": {}}
    assert pair_of(row) == Pair("q", "a", ("r",))
    assert not [name for name in load().features if re.search("release|model|dataset|row|split", name)]


def test_the_likeliest_reference_stands_for_an_answer() -> None:
    data = Table(("a",), np.zeros((5, 1)), np.array([0, 0, 1, 1, 1]), np.zeros(2), np.zeros(2), np.zeros(2), ())
    assert data.best(np.array([0.1, 0.9, 0.5, 0.7, 0.2])).tolist() == [1, 3]


def test_a_border_leaves_the_accepted_share_on_the_wrong_side() -> None:
    right = np.linspace(0.001, 1, 1_000)
    for error in (0.01, 0.05, 0.2):
        # A verdict is wrong and stands where the right one's probability is below 1 - border.
        assert np.mean(right < 1 - border(right, error)) == pytest.approx(error, abs=0.0011)
    assert border(right[:50], 0.01) == 1.0
