"""What the tests of tasks start with."""

import pytest

from answerkey.tasks.warehouse.home import Home


@pytest.fixture
def home(tmp_path):
    """A home in the folder of the test, with nothing in it."""
    return Home(tmp_path)
