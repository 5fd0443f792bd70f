"""The samples that moved most, with both answers."""

import pytest

from answerkey.tasks.compare.examples import LargestChange, LowestScore, largest_changes, lowest_scores
from answerkey.tasks.warehouse.home import Home
from tests.tasks.comparing_help import answer, release


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("changed")
    old = ["no", "yes", "yes", "yes a", "same", "yes"]
    new = ["yes", "no", "yes a b c", "yes", "same", "no"]
    rows = [answer(i, text) for i, text in enumerate(new)]
    # The last one is another question now, so its answers do not compare.
    rows[-1]["references"] = ["no"]
    release(folder, "old", [answer(i, text) for i, text in enumerate(old)], ["token_overlap"])
    release(folder, "new", rows, ["token_overlap"])
    return Home(folder)


def changed(home, **more):
    found = largest_changes(home, "d/old/v1", "d/new/v1", "token_overlap.precision", **more)
    return [(one.sample_id, one.difference) for one in found]


def test_the_largest_moves_come_first(home):
    assert changed(home) == [("q000", 1.0), ("q001", -1.0), ("q002", -0.75), ("q003", 0.5)]
    assert changed(home, limit=2) == [("q000", 1.0), ("q001", -1.0)]
    assert changed(home, direction="better") == [("q000", 1.0), ("q003", 0.5)]
    assert changed(home, direction="worse", limit=1) == [("q001", -1.0)]


def test_a_sample_has_both_answers(home):
    [first] = largest_changes(home, "d/old/v1", "d/new/v1", "token_overlap.recall", limit=1)
    assert first == LargestChange("q000", "Question 0?", ("yes",), "no", "yes", 0.0, 1.0, 1.0, None, None)


def test_the_lowest_scores_come_first(home):
    found = lowest_scores(home, "d/old/v1", "token_overlap.precision", 3)
    assert found[0] == LowestScore("q000", "token_overlap.precision", 0.0, "Question 0?", ("yes",), "no", None)
    assert [(one.sample_id, one.value) for one in found] == [("q000", 0.0), ("q004", 0.0), ("q003", 0.5)]
    assert lowest_scores(home, "d/old/v1", "token_overlap.none", 3) == ()
