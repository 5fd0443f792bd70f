"""Whether the newest report differs from those before it, and what is said to have changed."""

import shutil

import numpy as np
import pytest

from answerkey.metrics_core.statistics.paired import difference_interval
from answerkey.tasks.compare.drift import drift
from answerkey.tasks.reports.report import history
from answerkey.tasks.warehouse.home import Home
from tests.judge_server import JudgeServer, Reply
from tests.tasks.comparing_help import LENIENT, answer, release
from tests.tasks.judging_help import judged, wordy
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


def test_a_loss_is_shown_and_only_the_answers_are_new(nights):
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
    assert (found.finding, [one.what for one in found.changed]) == ("lower", ["answers"])
    assert found.sentence.startswith(
        f"{newest} is lower than the mean of the 3 comparable reports before it: 0.667 against 0.917 on the same 120 "
    )
    assert found.sentence.endswith(
        "Only the answers are new: the release is r as before, and it is measured in the same way."
    )


def test_the_same_again_is_no_drift(nights):
    night(nights, range(10))
    found = drift_of(nights)
    assert found.finding is None
    assert "d/r/v4 is not shown to differ from the mean of the 3 comparable reports before it" in found.sentence
    assert found.sentence.endswith("Nothing changed that is recorded.")


@pytest.mark.nightly
def test_another_release_is_named(home):
    for k in range(3):
        night(home, range(k, k + 40))
    night(home, range(2), name="next")
    found = drift_of(home)
    assert (found.finding, [str(one) for one in found.changed]) == ("higher", ["release (next, before r)"])
    assert found.sentence.endswith("Of what is recorded only the release changed: next, before r.")
    # Enough reports of the same release are compared with each other.
    night(home, range(40))
    assert (drift_of(home).trailing, drift_of(home).finding) == (("d/r/v1", "d/r/v2", "d/r/v3"), None)


def test_several_changes_at_once_cannot_be_told_apart(nights):
    night(nights, range(60), name="next")
    with nights.warehouse.writing() as warehouse:
        warehouse.execute(
            "UPDATE reports SET manifest = json_merge_patch(manifest, '{\"code\": \"0123\"}') WHERE release = 'next'"
        )
    found = drift_of(nights)
    assert found.finding == "lower"
    assert [one.what for one in found.changed] == ["release", "code"]
    assert "These changed at once: release (next, before r), code (0123, before " in found.sentence
    assert found.sentence.endswith(": which of these moved it cannot be told.")


def test_samples_that_changed_in_the_data_set_are_left_out(nights):
    rows = [answer(i, "yes") | ({"references": ["another"]} if i < 60 else {}) for i in range(120)]
    release(nights, "r", rows)
    found = drift_of(nights)
    assert (found.n, found.missing, found.difference) == (60, 0, 0.0)
    assert "samples that changed in it are left out" in found.sentence


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


@pytest.mark.nightly
def test_other_questions_are_not_called_other_answers(home):
    for _ in range(3):
        night(home, range(10))
    release(home, "r", [answer(i, "yes") for i in range(10, 120)])
    assert (
        "The questions are not those of d/r/v3: 10 of them are gone (it scored 0.000 on them) and 0 are new; the "
        "answers to the other 110 are the same. "
    ) in drift_of(home).sentence
    release(home, "r", [answer(i, "yes", right=i > 60) for i in range(10, 120)])
    release(home, "r", [answer(i, "yes", right=i > 50) for i in range(10, 120)])
    assert "Only the labels or slices of the answers are new" in drift_of(home).sentence


def test_a_report_between_others_is_above_their_mean_and_not_above_each_of_them(home):
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
    assert "; of these, d/c/v1 (0.958) is not lower." in sentence
    # They were made by one run, so none of them is before another.
    assert "before" not in sentence
    assert "Of what is recorded only the release differs: d, in the others a, b, c" in sentence


@pytest.mark.nightly
def test_what_cannot_be_tested_says_why(home):
    for k in range(2):
        night(home, range(k, k + 10))
    found = drift_of(home)
    assert found.difference is None
    assert found.sentence == (
        "Whether d/r/v2 differs from earlier reports is not tested: that takes 3 earlier reports that were computed "
        "in the same way, and there is 1."
    )
    for k in range(3):
        night(home, range(k, k + 10), options={"blank_answer": "undefined"})
    found = drift_of(home)
    assert found.sentence.endswith("and there are 2. Since d/r/v2 the method changed: settings blank zero → undefined.")
    # Reports of the old method stand between, and do not count.
    night(home, range(30))
    assert drift_of(home).sentence.endswith(
        "and there are 2. Since d/r/v5 the method changed: settings blank undefined → zero."
    )


@pytest.mark.nightly
def test_a_judge_whose_model_changed_under_its_name_is_seen(home):
    def judged_night(night):
        rows = [answer(i, f"It is {i}.{' A wrong one.' if i < 2 else ''} Night {night}.") for i in range(8)]
        release(home, "r", rows, ("meaning_match",), options=judged(server.url))

    def found():
        return drift(home, history(home, "meaning_match.match")["d"])

    with JudgeServer(wordy) as server:
        for number in range(3):
            judged_night(number)
        server.brain = lambda body: Reply(wordy(body), model="some-model-2026-11")
        judged_night(3)
        newest = found()
        assert newest.finding is None
        assert [str(one) for one in newest.changed[1:]] == [
            "the model that answers for the judge (some-model-2026-11, before some-model)"
        ]
        assert newest.sentence.endswith(
            "Of what is recorded only this changed: the model that answers for the judge (some-model-2026-11, before "
            "some-model)."
        )
        # What was judged before keeps its verdict, and its model.
        judged_night(0)
    assert found().changed == ()
