"""Whether the newest report differs from those before it, and what is said to have changed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from answerkey.metrics_core.statistics.paired import difference_interval
from answerkey.tasks.compare.drift import Drift, drift
from answerkey.tasks.reports.report import history
from answerkey.tasks.warehouse.home import Home
from tests.judge_server import JudgeServer, Reply
from tests.tasks.comparing_help import answer, release
from tests.tasks.judging_help import judged, wordy

FIELD = "exact_match.match"


def night(home: Path, wrong: range, n: int = 120, name: str = "r", **more: Any) -> str:
    """A report of one night; `wrong` are the questions that the release gets wrong."""
    rows = [answer(i, f"no {wrong}" if i in wrong else "yes") for i in range(n)]
    return release(home, name, rows, **more)


def drift_of(home: Path) -> Drift:
    return drift(Home(home), history(Home(home), FIELD)["d"])


def test_a_loss_is_shown_and_only_the_answers_are_new(tmp_path: Path) -> None:
    nights = [night(tmp_path, range(k, k + 10)) for k in range(3)]
    newest = night(tmp_path, range(40))
    found = drift_of(tmp_path)
    assert (found.report, found.trailing, found.n, found.missing) == (newest, tuple(nights), 120, 0)
    # By hand: of questions 0 to 11 one, two or three nights were wrong, and now the first 40 are.
    trailing = np.mean([[float(i not in range(k, k + 10)) for i in range(120)] for k in range(3)], axis=0)
    changes = np.array([float(i >= 40) for i in range(120)]) - trailing
    assert found.difference == pytest.approx(changes.mean())
    assert (found.before, found.now) == pytest.approx((trailing.mean(), 80 / 120))
    expected = difference_interval(changes, None, binary=False)
    assert expected
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert (found.finding, [one.what for one in found.changed]) == ("lower", ["answers"])
    assert found.sentence.startswith(f"{newest} is lower than the 3 comparable reports before it: 0.667 against their")
    assert found.sentence.endswith(
        "Only the answers are new: the release is r as before, and it is measured in the same way."
    )


def test_the_same_again_is_no_drift(tmp_path: Path) -> None:
    for k in (0, 1, 2, 0):
        night(tmp_path, range(k, k + 10))
    found = drift_of(tmp_path)
    assert found.finding is None
    assert "d/r/v4 is not shown to differ from the 3 comparable reports before it" in found.sentence
    assert found.sentence.endswith("Nothing changed that is recorded.")


def test_another_release_is_named(tmp_path: Path) -> None:
    for k in range(3):
        night(tmp_path, range(k, k + 40))
    night(tmp_path, range(2), name="next")
    found = drift_of(tmp_path)
    assert (found.finding, [str(one) for one in found.changed]) == ("higher", ["release (next, before r)"])
    assert found.sentence.endswith("Of what is recorded only the release changed: next, before r.")
    # Enough reports of the same release are compared with each other.
    night(tmp_path, range(40))
    assert (drift_of(tmp_path).trailing, drift_of(tmp_path).finding) == (("d/r/v1", "d/r/v2", "d/r/v3"), None)


def test_several_changes_at_once_cannot_be_told_apart(tmp_path: Path) -> None:
    for k in range(3):
        night(tmp_path, range(k, k + 10))
    night(tmp_path, range(60), name="next")
    with Home(tmp_path).warehouse.writing() as warehouse:
        warehouse.execute(
            "UPDATE reports SET manifest = json_merge_patch(manifest, '{\"code\": \"0123\"}') WHERE release = 'next'"
        )
    found = drift_of(tmp_path)
    assert found.finding == "lower"
    assert [one.what for one in found.changed] == ["release", "code"]
    assert "These changed at once: release (next, before r), code (0123, before " in found.sentence
    assert found.sentence.endswith(": which of these moved it cannot be told.")


def test_samples_that_changed_in_the_data_set_are_left_out(tmp_path: Path) -> None:
    for k in range(3):
        night(tmp_path, range(k, k + 10))
    rows = [answer(i, "yes") | ({"references": ["another"]} if i < 60 else {}) for i in range(120)]
    release(tmp_path, "r", rows)
    found = drift_of(tmp_path)
    assert (found.n, found.missing, found.difference) == (60, 0, 0.0)
    assert "samples that changed in it are left out" in found.sentence


def test_leaving_answers_out_is_no_gain(tmp_path: Path) -> None:
    for k in range(3):
        night(tmp_path, range(k, k + 40))
    release(tmp_path, "r", [answer(i, "yes") for i in range(42, 120)])
    found = drift_of(tmp_path)
    assert (found.n, found.missing, found.finding) == (78, 42, None)
    release(tmp_path, "r", [answer(i, "yes") for i in range(110)])
    found = drift_of(tmp_path)
    assert (found.missing, found.finding) == (10, "higher")
    assert "; 10 more have no number in it." in found.sentence


def test_what_cannot_be_tested_says_why(tmp_path: Path) -> None:
    for k in range(2):
        night(tmp_path, range(k, k + 10))
    found = drift_of(tmp_path)
    assert found.difference is None
    assert found.sentence == (
        "Whether d/r/v2 differs from earlier reports is not tested: that takes 3 earlier reports that were computed "
        "in the same way, and there is 1."
    )
    for k in range(3):
        night(tmp_path, range(k, k + 10), options={"blank_answer": "undefined"})
    found = drift_of(tmp_path)
    assert found.sentence.endswith("and there are 2. Since d/r/v2 the method changed: settings blank zero → undefined.")
    # Reports of the old method stand between, and do not count.
    night(tmp_path, range(30))
    assert drift_of(tmp_path).sentence.endswith(
        "and there are 2. Since d/r/v5 the method changed: settings blank undefined → zero."
    )


def test_a_judge_whose_model_changed_under_its_name_is_seen(tmp_path: Path) -> None:
    def judged_night(night: int) -> None:
        rows = [answer(i, f"It is {i}.{' A wrong one.' if i < 2 else ''} Night {night}.") for i in range(8)]
        release(tmp_path, "r", rows, ("meaning_match",), options=judged(server.url))

    def found() -> Drift:
        return drift(Home(tmp_path), history(Home(tmp_path), "meaning_match.match")["d"])

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
