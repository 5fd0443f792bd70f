"""The samples that moved most, with both answers."""

import pytest

from answerkey.tasks.compare.examples import largest_changes
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
    return [(entry.sample_id, entry.difference) for entry in found]


def test_the_largest_moves_come_first(home):
    assert changed(home) == [("q000", 1.0), ("q001", -1.0), ("q002", -0.75), ("q003", 0.5)]
    assert changed(home, limit=2) == [("q000", 1.0), ("q001", -1.0)]
    assert changed(home, direction="better") == [("q000", 1.0), ("q003", 0.5)]
    assert changed(home, direction="worse", limit=1) == [("q001", -1.0)]
