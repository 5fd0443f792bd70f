"""A process that is killed within the transaction of a report leaves everything as it was."""

import subprocess
import sys

import pytest

from answerkey.tasks.load.load import Source
from answerkey.tasks.reports.report import list_reports
from answerkey.tasks.verify import verify
from answerkey.tasks.warehouse.home import Home
from tests.tasks.staging_help import jsonl, query, run

COUNTS = "SELECT (SELECT count(*) FROM reports), (SELECT count(*) FROM scores), (SELECT count(*) FROM report_scores)"
KILLS = 20
SCRIPT = """
import os, sys
from pathlib import Path
from answerkey.tasks.reports import aggregate
from answerkey.tasks.load.load import Source
from answerkey.tasks.warehouse.home import Home
from tests.tasks.staging_help import query, run

home, file = Path(sys.argv[1]), sys.argv[2]
real = aggregate.aggregate

class Killing(dict):
    left = 0
    def __getitem__(self, name):
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), 9)
        return super().__getitem__(name)

def killed(given, kills):
    def again(*arguments, **named):
        # The process that imports has no connection, so that each of its children can have one.
        for kill in range(1, kills + 1):
            child = os.fork()
            if not child:
                aggregate._SQL = Killing(aggregate._SQL)
                aggregate._SQL.left = kill
                real(*arguments, **named)
                os._exit(0)
            print(os.waitpid(child, 0)[1], *query(home, given)[0], flush=True)
        return real(*arguments, **named)
    return again

import tests.tasks.staging_help as steps
steps.aggregate = killed(sys.argv[3], int(sys.argv[4]))
run(home, Source(file), ["exact_match", "bleu"])
"""


@pytest.mark.slow
def test_twenty_kills_within_the_transaction_of_a_report_lose_nothing(tmp_path):
    home, rows = Home(tmp_path / "home"), [
        {"id": str(i), "answer": f"a {i % 3}", "reference": f"a {i % 2}", "release": "r", "repeat": repeat}
        for i in range(30) for repeat in (1, 2)
    ]  # fmt: skip
    file = jsonl(tmp_path / "d.jsonl", rows)
    run(home, Source(file), ["exact_match", "bleu"])
    [before] = query(home, COUNTS)
    command = [sys.executable, "-c", SCRIPT, str(home), file, COUNTS, str(KILLS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert lines == [(9, *before)] * KILLS
    assert [report_id for report_id, *_ in list_reports(home)] == ["d/r/v1", "d/r/v2"]
    assert query(home, COUNTS) == [tuple(2 * n for n in before)]
    assert verify(home).findings == ()
