"""Commands of tests are forks of warm processes, however many environments they come in."""

import os

import pytest

from tests.warm_command import SET_BY_ANSWERKEY


@pytest.mark.real
def test_what_answerkey_sets_in_the_process_of_a_test_leaves_no_command_a_cold_start(warm_command):
    """Else all tests after the first that validates, or asks a model, would take three times their time."""
    environment = {name: value for name, value in os.environ.items() if name not in SET_BY_ANSWERKEY}
    assert warm_command.can_run(environment)
    assert warm_command.can_run(environment | SET_BY_ANSWERKEY)
    assert not warm_command.can_run(environment | {"PYTHONUTF8": "0"})
