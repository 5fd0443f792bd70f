"""The training script keeps train and test apart; it runs on data that is not in this project."""

import re
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from answerkey.metrics_core.offline_judge.matcher import Pair
from answerkey.metrics_core.offline_judge.model import load

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks/studies"))
from _matcher_data import TRAINED_ON, held_back, pair_of, question_key, read_rows
from _matcher_made import taught
from train_matcher import trainable


def letters(question):
    return "".join(re.findall(r"[a-z0-9]", question.lower()))


@pytest.mark.nightly
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
