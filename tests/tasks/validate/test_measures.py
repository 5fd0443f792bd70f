"""What shards of a source measure of their rows is what validation measures of all of them."""

import json
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from answerkey.tasks.load.load import Source
from answerkey.tasks.load.shard import cut, gather
from answerkey.tasks.validate.contract import Contract
from answerkey.tasks.validate.measures import MeasuredShard, measure_shard, merge_measures
from answerkey.tasks.validate.validate import _Measured, validate
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.warehouse import session

ODD = (
    {"id": "q3", "release": "new", "answer": "It is another.", "reference": "3", "label": "yes"},
    {"id": "q4", "release": "new", "answer": "4", "reference": "no longer 4", "label": "no"},
    {"id": "", "release": "new", "answer": "nan", "reference": "1 / one", "label": "perhaps"},
    {"id": "q6", "release": "new", "answer": " ", "reference": "n/a", "label": ""},
    {"id": "q7", "release": "new", "answer": "CafÃ© [1]", "reference": "", "label": "correct"},
)


def test_rows_that_shards_have_measured_are_validated_as_rows_that_were_not(tmp_path):
    rows = [
        {"id": f"q{i % 200}", "release": ("old", "new")[i // 200], "answer": f"It is {i}.", "reference": f"{i % 200}"}
        for i in range(400)
    ]
    lines = [json.dumps(row) for row in (*rows, *ODD)]
    lines.insert(250, "{")
    (tmp_path / "faq.jsonl").write_text("\n".join(lines))
    home = Home(tmp_path / "home")
    folder = home.scratch / "run"
    made = cut(Source(str(tmp_path / "faq.jsonl")), home, folder, 5_000)
    shards = [MeasuredShard(one) for one in made.shards]
    # In any order, and twice.
    assert len(shards) > 3 and all(measure_shard(one) == one.part for one in (*reversed(shards), *shards))
    loaded = gather(made, home, folder)
    measures = merge_measures(shards, home, folder)
    left = sorted(file.name for file in folder.iterdir())
    assert left == ["measures.parquet", "rejects.parquet", "staged.parquet"]

    found = validate(loaded.staged, loaded.rejects, str(tmp_path / "a"), Contract(), measures)
    whole = validate(loaded.staged, loaded.rejects, str(tmp_path / "b"), Contract())
    assert found.n_quarantined > len(ODD)
    assert replace(found, accepted=whole.accepted, quarantine=whole.quarantine) == whole
    for one, other in ((found.accepted, whole.accepted), (found.quarantine, whole.quarantine)):
        assert pq.read_table(one) == pq.read_table(other)


def test_numbers_of_more_rows_than_memory_can_sort_come_in_the_order_of_the_file(tmp_path):
    limits = {"memory_limit": "40MiB", "threads": 1, "temp_directory": str(tmp_path)}
    numbers = ", ".join(f"hash(i + {k}) AS h{k}" for k in range(12))  # 96 bytes that nothing compresses
    with session(config=limits) as db:
        db.execute(f"CREATE TEMP TABLE frame AS SELECT i AS position, {numbers} FROM range(599999, -1, -1) AS r(i)")
        rows = _Measured(db)
        for first in range(0, 600_000, 40_000):
            assert rows.next(40_000)["position"].to_pylist() == list(range(first, first + 40_000))
        with pytest.raises(RuntimeError, match="of 1 rows only 0 were measured"):
            rows.next(1)
