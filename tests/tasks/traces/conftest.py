"""What each test of traces gets."""

from pathlib import Path

import pytest

from tests.tasks.traces.tracing_help import Traces


@pytest.fixture
def traces(tmp_path: Path) -> Traces:
    return Traces(tmp_path)
