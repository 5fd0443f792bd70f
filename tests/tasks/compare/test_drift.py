"""Whether the newest report differs from those before it."""

import shutil

import numpy as np
import pytest

from answerkey.metrics_core.statistics.paired import difference_interval
from answerkey.tasks.compare.drift import drift
from answerkey.tasks.reports.report import history
from answerkey.tasks.warehouse.home import Home
from tests.tasks.comparing_help import LENIENT, answer, release
from tests.tasks.staging_help import run, source_of

FIELD = "exact_match.match"


def night(home, wrong, n=120, name="r", **more):
    """A report of one night; `wrong` are the questions that the release gets wrong."""
    rows = [answer(i, f"no {wrong}" if i in wrong else "yes") for i in range(n)]
    return release(home, name, rows, **more)


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """Three nights of a release, with ten wrong answers each, one of them another one every night."""
    folder = tmp_path_factory.mktemp("nights")
    for k in range(3):
        night(folder, range(k, k + 10))
    return folder


@pytest.fixture
def nights(three, tmp_path):
    """A home with these three nights."""
    return Home(shutil.copytree(three, tmp_path / "home"))


def drift_of(home):
    return drift(home, history(home, FIELD)["d"])


def test_a_loss_is_shown(nights):
    before = tuple(f"d/r/v{number}" for number in (1, 2, 3))
    newest = night(nights, range(40))
    found = drift_of(nights)
    assert (found.report, found.trailing, found.n, found.missing) == (newest, before, 120, 0)
    # By hand: of questions 0 to 11 one, two or three nights were wrong, and now the first 40 are.
    trailing = np.mean([[float(i not in range(k, k + 10)) for i in range(120)] for k in range(3)], axis=0)
    changes = np.array([float(i >= 40) for i in range(120)]) - trailing
    assert found.difference == pytest.approx(changes.mean())
    assert (found.before, found.now) == pytest.approx((trailing.mean(), 80 / 120))
    expected = difference_interval(changes, None, binary=False)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert found.finding == "lower"
    assert found.sentence.startswith(
        f"{newest} is lower than the mean of the 3 comparable reports before it: 0.667 against 0.917 on the same 120 "
    )


def test_the_same_again_is_no_drift(nights):
    night(nights, range(10))
    found = drift_of(nights)
    assert found.finding is None
    assert "d/r/v4 is not shown to differ from the mean of the 3 comparable reports before it" in found.sentence


@pytest.mark.nightly
def test_another_release_is_compared_until_there_are_enough_reports_of_its_own(home):
    for k in range(3):
        night(home, range(k, k + 40))
    night(home, range(2), name="next")
    found = drift_of(home)
    assert found.finding == "higher"
    # Enough reports of the same release are compared with each other.
    night(home, range(40))
    assert (drift_of(home).trailing, drift_of(home).finding) == (("d/r/v1", "d/r/v2", "d/r/v3"), None)


def test_samples_that_changed_in_the_data_set_are_left_out(nights):
    rows = [answer(i, "yes") | ({"references": ["another"]} if i < 60 else {}) for i in range(120)]
    release(nights, "r", rows)
    found = drift_of(nights)
    assert (found.n, found.missing, found.difference) == (60, 0, 0.0)


@pytest.mark.nightly
def test_leaving_answers_out_is_no_gain(home):
    for k in range(3):
        night(home, range(k, k + 40))
    release(home, "r", [answer(i, "yes") for i in range(42, 120)])
    found = drift_of(home)
    assert (found.n, found.missing, found.finding) == (78, 42, None)
    release(home, "r", [answer(i, "yes") for i in range(110)])
    found = drift_of(home)
    assert (found.missing, found.finding) == (10, "higher")
    assert "; 10 more have no number in it." in found.sentence


def test_a_report_between_others_is_above_their_mean(home):
    rows = []
    # The best of the others lacks an answer to a question.
    for name, wrong in (("a", 60), ("b", 60), ("c", 5), ("d", 10)):
        rows += [answer(i, "no" if i < wrong else "yes", release=name) for i in range(120) if (name, i) != ("c", 119)]
    source = source_of(home, rows, dataset="d", paths={"release": "release"})
    run(home, source, ("exact_match",), contract=LENIENT)
    sentence = drift_of(home).sentence
    assert sentence.startswith(
        "d/d/v1 is higher than the mean of the 3 other comparable reports: 0.917 against 0.653 on 120 samples (+0.264, "
    )
    # They were made by one run, so none of them is before another.
    assert "before" not in sentence
