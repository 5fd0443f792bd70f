"""A field over releases and versions, oldest first, with a number for each way of computing it."""

import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.reports.report import history
from answerkey.tasks.warehouse.home import Home
from tests.tasks.comparing_help import answer, release


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("history")
    release(folder, "old", [answer(i, "yes" if i else None, True) for i in range(4)])
    release(folder, "new", [answer(i, "yes") for i in range(4)])
    release(folder, "old", [answer(i, "yes" if i else None) for i in range(4)], options=dict(blank_answer="undefined"))
    return folder


def test_reports_in_the_order_of_their_making(home):
    found = history(Home(home), "exact_match.match")
    assert list(found) == ["d"]
    assert [(one.report_id, one.mean, one.n_scored, one.n_total, one.methods) for one in found["d"]] == [
        ("d/old/v1", 0.75, 4, 4, 1),
        ("d/new/v1", 1.0, 4, 4, 1),
        ("d/old/v2", 1.0, 3, 4, 2),
    ]
    assert all(one.low is not None and one.high is not None and one.low <= 1.0 <= one.high for one in found["d"][1:])


def test_only_reports_that_have_the_field_and_only_the_newest(home):
    assert [one.report_id for one in history(Home(home), "label.correct")["d"]] == ["d/old/v1"]
    assert [one.report_id for one in history(Home(home), "exact_match.match", most=2)["d"]] == ["d/new/v1", "d/old/v2"]


def test_what_is_not_there(home):
    with pytest.raises(UserError, match=r"^label\.wrong: the reports in .* have exact_match\.match, label\.correct$"):
        history(Home(home), "label.wrong")
    with pytest.raises(UserError, match=r"^label\.correct: the reports on e in .* have no numbers$"):
        history(Home(home), "label.correct", "e")
