"""The command line as a run of millions of rows has it: workers write what is committed, and one of them is held.

python -m tests.flows.held_commit HELD evaluate ...
"""

import sys
from dataclasses import fields, replace

from answerkey.flows import steps
from answerkey.flows.cli.main import main
from answerkey.tasks.reports import commit, scores
from answerkey.tasks.warehouse.lake import Lake
from tests.flows.cluster_metrics import HeldCommit


def hold(held):
    """Cut whatever there is, and keep the last shard of a commit back as long as there is the file `held`."""
    Lake.adopts_from, commit._SHARD_ROWS, scores.LARGE, scores.SHARD_ROWS = 1, 300, 1, 1_000
    split_commit = steps.split_commit

    def cut(*arguments):
        made = split_commit(*arguments)
        [*others, last] = made.shards
        given = {field.name: getattr(last, field.name) for field in fields(last)}
        return replace(made, shards=(*others, HeldCommit(**given, held=held)))

    steps.split_commit = cut  # type: ignore[assignment]


if __name__ == "__main__":
    hold(sys.argv.pop(1))
    sys.exit(main())
