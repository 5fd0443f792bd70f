"""What shards of a source measure of their rows is what validation measures of all of them."""

import json
from dataclasses import replace

import pyarrow.parquet as pq

from answerkey.tasks.load.load import Source
from answerkey.tasks.load.shard import cut, gather
from answerkey.tasks.validate.contract import Contract
from answerkey.tasks.validate.measures import MeasuredShard, measure_shard, merge_measures
from answerkey.tasks.validate.validate import validate
from answerkey.tasks.warehouse.home import Home

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
