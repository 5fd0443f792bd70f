"""What each test of traces gets."""

import pytest

from tests.tasks.traces.tracing_help import Traces


@pytest.fixture
def traces(tmp_path):
    return Traces(tmp_path)
