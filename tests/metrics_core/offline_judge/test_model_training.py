"""The training script keeps train and test apart; it runs on data that is not in this project."""

import re
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from answerkey.metrics_core.offline_judge.matcher import Pair
from answerkey.metrics_core.offline_judge.model import load

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks/studies"))
from _matcher_data import TRAINED_ON, Side, held_back, pair_of, question_key, rarities, read_rows
from _matcher_made import taught
from _matcher_training import best
from train_matcher import trainable


def letters(question):
    return "".join(re.findall(r"[a-z0-9]", question.lower()))


def test_no_question_of_nq301_is_trained_on(shared):
    if not (shared / "data" / "nq301" / "nq301.jsonl").exists():
        pytest.skip("no nq301 beside the repository")
    theirs = {letters(row["question"]) for row in read_rows("nq301")}
    rows = [row for name in TRAINED_ON for row in read_rows(name) if trainable(name, row)]
    assert theirs.isdisjoint(letters(row["question"]) for row in rows)
    # The same question in nearly the same words.
    assert "who become the ceo of it wipro company in 2016" in held_back()
    trained = load().trained_on
    assert (len(rows), len({question_key(row) for row in rows})) == (trained["answers"], trained["questions"])
    made = taught(row for row in rows if row["lang"] == "en")
    assert len(made) >= 2_000
    assert held_back().isdisjoint(map(question_key, made))


def test_the_model_sees_texts_alone():
    assert [field.name for field in fields(Pair)] == ["question", "answer", "references", "wrong"]
    row = {"question": "q", "answer": "a", "references": ["r", " ", None], "model": "m", "id": "1"}
    assert pair_of({**row, "meta": {"incorrect_references": ["w", ""]}}) == Pair("q", "a", ("r",), ("w",))
    assert not [name for name in load().features if re.search("release|model|dataset|row|split", name)]


def test_the_likeliest_reference_stands_for_an_answer():
    side = Side(np.zeros((5, 1)), np.array([0, 0, 1, 1, 1]), ())
    assert best(side, np.array([0.1, 0.9, 0.5, 0.7, 0.2])).tolist() == [1, 3]


def test_stems_of_many_texts_are_less_rare_and_those_of_few_are_left_out():
    texts = [f"the river {i}" for i in range(8)] + [f"a lake {i}" for i in range(8, 16)]
    found = rarities(texts, least=8)
    assert found == {"a": 0.25, "lake": 0.25, "river": 0.25, "the": 0.25}
    assert rarities(reversed(texts), least=8) == found
