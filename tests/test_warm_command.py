"""Commands of tests are forks of warm processes, however many environments they come in."""

import os
from pathlib import Path

from tests import warm_command
from tests.warm_command import MOST_ENVIRONMENTS, SET_BY_ANSWERKEY, WORTH_IMPORTING, WarmCommand


def test_more_environments_than_processes_are_kept_for(tmp_path, monkeypatch):
    # Without libraries, which make it slow to start.
    bare = tmp_path / "bare.py"
    source = Path(warm_command.__file__).read_text(encoding="utf-8")
    bare.write_text(
        source.replace('if __name__ == "__main__":', "LIBRARIES = COMMANDS = ()\nif True:"), encoding="utf-8"
    )
    (tmp_path / "said.py").write_text("import os\nprint(os.environ['OF_TEST'])\n", encoding="utf-8")
    monkeypatch.setattr(warm_command, "__file__", str(bare))
    warm = WarmCommand()
    try:
        # The first one comes again when its process was given up.
        for number in [*range(MOST_ENVIRONMENTS + 2), 0]:
            for _ in range(WORTH_IMPORTING):
                environment = {**os.environ, "OF_TEST": str(number)}
                done = warm.run("said", [], tmp_path, environment, 240)
                assert (done.returncode, done.stdout, done.stderr) == (0, f"{number}\n", "")
    finally:
        warm.stop()


def test_what_answerkey_sets_in_the_process_of_a_test_leaves_no_command_a_cold_start(warm_command):
    """Else all tests after the first that validates, or asks a model, would take three times their time."""
    environment = {name: value for name, value in os.environ.items() if name not in SET_BY_ANSWERKEY}
    assert warm_command.can_run(environment)
    assert warm_command.can_run(environment | SET_BY_ANSWERKEY)
    assert not warm_command.can_run(environment | {"PYTHONUTF8": "0"})
