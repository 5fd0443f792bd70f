"""Worker processes, and what becomes of them when their parent is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from answerkey.metrics_core.processes import spawned_pool

ROOT = Path(__file__).resolve().parents[2]
PARENT = """
import os, time
from answerkey.metrics_core.processes import spawned_pool
if __name__ == "__main__":
    pool = spawned_pool(1)
    print(pool.submit(os.getpid).result(), flush=True)
    time.sleep(60)
"""


def test_work_is_done_in_another_process() -> None:
    with spawned_pool(1) as pool:
        assert pool.submit(os.getppid).result() == os.getpid()


def test_workers_do_not_outlive_a_parent_that_was_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=environment)
    assert parent.stdout is not None
    worker = Path("/proc") / parent.stdout.readline().strip()
    assert worker.exists()
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    deadline = time.monotonic() + 20
    while worker.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not worker.exists()
