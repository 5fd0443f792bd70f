"""Arrow and Feather files, and data sets that Hugging Face `datasets` saved to disk."""

import json

import pyarrow as pa
import pyarrow.feather
import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.rows import Raw
from answerkey.tasks.load.sources import read

ROWS = [{"id": 1, "answers": {"text": ["a", "b"]}, "answer": "é"}, {"id": 2, "answers": None, "answer": None}]
RAWS = [Raw(1, ROWS[0]), Raw(2, ROWS[1])]


def stream(file, rows):
    file.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(rows)
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=1)


def saved(folder, rows):
    """As `Dataset.save_to_disk` writes it, with a cache beside it."""
    names = [f"data-{n:05}-of-{len(rows):05}.arrow" for n in range(len(rows))]
    for name, row in zip(names, rows, strict=True):
        stream(folder / name, [row])
    stream(folder / "cache-4f1.arrow", [{"id": 0}])
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    (folder / "dataset_info.json").write_text("{}")


def test_files_and_streams(tmp_path):
    pyarrow.feather.write_feather(pa.Table.from_pylist(ROWS), tmp_path / "a.feather")
    stream(tmp_path / "b.arrow", ROWS)
    for name in ("a.feather", "b.arrow"):
        assert list(read(str(tmp_path / name), tmp_path / "work")) == RAWS


def test_a_data_set_on_disk(tmp_path):
    saved(tmp_path / "one", ROWS)
    assert [raw.record and raw.record["id"] for raw in read(str(tmp_path / "one"), tmp_path / "work")] == [1, 2]
    for split in ("train", "test"):
        saved(tmp_path / "both" / split, ROWS)
    (tmp_path / "both" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(UserError) as error:
        list(read(str(tmp_path / "both"), tmp_path / "work"))
    folder = tmp_path / "both"
    assert str(error.value) == f"{folder}: a data set with the splits train, test; name one, {folder}/SPLIT"
    assert len(list(read(f"{folder}/test", tmp_path / "work"))) == 2
    (tmp_path / "one" / "data-00001-of-00002.arrow").unlink()
    with pytest.raises(UserError, match=r"the file data-00001-of-00002\.arrow of this data set is missing"):
        list(read(str(tmp_path / "one"), tmp_path / "work"))
