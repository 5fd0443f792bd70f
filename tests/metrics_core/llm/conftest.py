"""Places of ledgers."""

import pytest


@pytest.fixture(params=["folder", "postgres"])
def place(request, tmp_path):
    """A location that processes can share."""
    return f"postgresql:{request.getfixturevalue('postgres')}" if request.param == "postgres" else str(tmp_path)
