"""The flow that evaluates registered releases, where there is nothing to do."""

from pathlib import Path

import pytest

from answerkey.flows.evaluate_registered import evaluate_registered


def test_on_a_home_with_nothing_in_it_there_is_nothing_to_do(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert evaluate_registered(home=str(tmp_path / "home")) == []
    assert caplog.messages == ["nothing to do: every registered release has a report"]
    assert list(tmp_path.iterdir()) == []
