"""A source that is cut into shards becomes the same rows as in one piece."""

import json
import pickle

import duckdb
import pyarrow.parquet as pq
import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load import shard as shards
from answerkey.tasks.load.load import Source, load
from answerkey.tasks.load.shard import cut, gather, shard_bytes, split_references, stage_shard
from answerkey.tasks.warehouse.home import Home

LINES = "".join(
    json.dumps({"id": f"q{i}", "answer": f"It is {i}.", "reference": [str(i)], "when": f"2024-01-{i % 28 + 1:02}"})
    + "\n"
    for i in range(400)
)
PARQUET = """
COPY (
    SELECT 'q' || i AS id, 'It is ' || i AS answer, ['a', NULL, 'b' || i] AS "references",
           {'deep': {'at': DATE '2024-01-01' + i::INTEGER, 'cost': (i / 7)::DECIMAL(9, 3)}} AS meta,
           i / 3 AS label, MAP {'x': i} AS m, TIMESTAMPTZ '2024-01-01 00:00:00+00' + INTERVAL (i) MINUTE AS release
    FROM range(9000) t(i)
) TO '%s' (FORMAT parquet, ROW_GROUP_SIZE 2048)
"""


def in_shards(source, folder, size, of_references=0):
    """What comes out of shards of about `size` bytes, and how many there were; also of references, if that is given."""
    home = Home(folder / "home")
    references = split_references(source, home, home.scratch / "run", of_references) if of_references else None
    for one in (*reversed(references.shards), *references.shards) if references else ():
        assert stage_shard(one) == one.part
    made = cut(source, home, home.scratch / "run", size, references)
    # In any order, and twice.
    for one in (*reversed(made.shards), *made.shards):
        assert stage_shard(one) == one.part
    loaded = gather(made, home, home.scratch / "run")
    kept = sorted(file.name for file in home.scratch.rglob("*") if file.is_file())
    assert kept == [*(["references.parquet"] if source.references else []), "rejects.parquet", "staged.parquet"]
    return loaded, len(made.shards)


def assert_same(source, folder, size, n_shards, of_references=0):
    whole = load(source, folder / "whole")
    loaded, n = in_shards(source, folder, size, of_references)
    assert n == n_shards
    files = [(loaded.staged, whole.staged), (loaded.rejects, whole.rejects)]
    files += [(loaded.references, whole.references)] if loaded.references and whole.references else []
    for one, other in files:
        assert pq.read_table(one).to_pylist() == pq.read_table(other).to_pylist()
    assert (loaded.dataset, loaded.n_rows, loaded.notes) == (whole.dataset, whole.n_rows, whole.notes)
    assert loaded.contents == whole.contents


FAULTS = (
    b'{"id": 2\n\n \t\r\n\xef\xbb\xbf{"id": "mark"}\n[1]\n\n{"id": "caf\xe9"}\n'
    b'{"id": "x", "answer": {"a": 1, "b": 2}, "reference": "y"}\n'
)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "n_shards"), [(1, 407), (3_000, 11), (10**9, 1)])
def test_lines_keep_their_numbers_and_their_faults(tmp_path, size, n_shards):
    file = tmp_path / "answers.jsonl"
    file.write_bytes(
        b"\xef\xbb\xbf" + (LINES[:710] + "\n").encode() + FAULTS + LINES[711:].encode().removesuffix(b"\n")
    )
    assert_same(Source(str(file)), tmp_path, size, n_shards)


@pytest.mark.slow
def test_ranges_of_a_parquet_file_have_its_types(tmp_path):
    file = tmp_path / "answers.parquet"
    duckdb.sql(PARQUET % file)
    paths = {"label": "label", "cluster": "meta.deep.at"}
    assert_same(Source(str(file), paths=paths, slices=("meta.deep.cost",)), tmp_path, 90_000, 4)


def test_a_parquet_file_with_a_column_file_row_number_is_one_range(tmp_path):
    file = tmp_path / "answers.parquet"
    duckdb.sql(
        "COPY (SELECT 'p' || i AS id, 'x' AS answer, 'y' AS reference, i AS File_Row_Number FROM range(99) t(i)) "
        f"TO '{file}'"
    )
    assert_same(Source(str(file), slices=("File_Row_Number",)), tmp_path, 100, 1)


BROKEN = {3, 4, 50, 51, 4_001, 9_999, 10_010}
"""Rows of a CSV that have too many columns, by their numbers."""


@pytest.mark.slow
@pytest.mark.parametrize(("size", "n_shards"), [(60_000, 8), (10**9, 2)])
def test_rows_of_a_csv_keep_their_numbers_around_those_that_are_none(tmp_path, size, n_shards):
    folder = tmp_path / "answers"
    folder.mkdir()
    lines = [
        f'q{n},"It is, says ""he"",\n{n}",{n},{n % 7}' + ",more" * (n in BROKEN) for n in range(1, 10_011)
    ]  # fmt: skip
    lines = [line.replace("\n", " ") if n % 5 else line for n, line in enumerate(lines)]
    (folder / "a.csv").write_text("\n".join(["id,answer,reference,rowid", *lines]))
    source = Source(str(folder / "a.csv"), slices=("rowid",))
    assert_same(source, tmp_path, size, n_shards)
    (folder / "b.jsonl").write_text(LINES)
    references = tmp_path / "questions.csv"
    references.write_text("id,reference\n" + "".join(f"q{n},x {n}\n" for n in range(10_011)))
    source = Source(str(folder), str(references), release="r", dataset="d")
    assert_same(source, tmp_path / "several", size, n_shards + 1, of_references=size)


def test_the_rows_of_several_files_are_numbered_through(tmp_path):
    folder = tmp_path / "answers"
    for n, tail in enumerate(["", "\n \n\n", "nothing\n\n"]):
        part = folder / f"lang=l{n}"
        part.mkdir(parents=True)
        (part / f"{n}.jsonl").write_text(LINES + tail)
    duckdb.sql(
        f"COPY (SELECT 'p' || i AS id, 'x' AS answer, 'y' AS reference FROM range(9) t(i)) TO '{folder}/z.parquet'"
    )
    source = Source(str(folder), slices=("lang",))
    assert_same(source, tmp_path, 10_000, 13)
    loaded, _ = in_shards(source, tmp_path / "again", 10_000)
    [refused] = pq.read_table(loaded.rejects).to_pylist()
    assert (refused["file"], refused["row"]) == (last := f"{folder}/lang=l2/2.jsonl", 401)
    assert refused["reason"].startswith(f"{last}: line 401 is not JSON")


def test_references_in_a_file_of_their_own(tmp_path):
    answers, references = tmp_path / "answers.jsonl", tmp_path / "questions.jsonl"
    rows = [json.loads(line) for line in LINES.splitlines()]
    answers.write_text("".join(json.dumps({"id": row["id"], "answer": row["answer"]}) + "\n" for row in rows) + "no\n")
    references.write_text(
        "".join(json.dumps({"id": row["id"], "reference": row["reference"], "lang": "en"}) + "\n" for row in rows[:-5])
    )
    source = Source(str(answers), str(references), slices=("lang",))
    assert_same(source, tmp_path, 3_000, 6)
    # A reference that comes again as it was is the same one.
    with references.open("a") as file:
        file.write("".join(references.read_text().splitlines(keepends=True)[:9]))
    assert_same(source, tmp_path / "cut", 3_000, 6, of_references=2_000)
    shard = cut(source, (home := Home(tmp_path / "again")), home.scratch / "run", 3_000).shards[-1]
    stage_shard(pickle.loads(pickle.dumps(shard)))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            '{"id": "q0", "reference": "other"}',
            ": id 'q0' comes again in row 401 with other content; keep one row per id",
        ),
        ("[1]", ", row 401: line 401 is a JSON list, not an object; correct or remove the row"),
        ('{"reference": "x"}', ", row 401: the id is missing; give every row an id"),
    ],
)
def test_references_in_shards_are_refused_as_in_one_piece(tmp_path, line, said):
    answers, references = tmp_path / "answers.jsonl", tmp_path / "questions.jsonl"
    answers.write_text(LINES)
    rows = [json.dumps({"id": f"q{n}", "reference": "x"}) for n in range(400)]
    # The first of two that cannot be used.
    references.write_text("\n".join([*rows, line, *rows[1:], "nothing"]))
    source = Source(str(answers), str(references))
    for do in (lambda: load(source, tmp_path / "whole"), lambda: in_shards(source, tmp_path, 3_000, 2_000)):
        with pytest.raises(UserError) as error:
            do()
        assert str(error.value) == f"{references}{said}"


def test_what_is_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "SHARD_BYTES", 1_000)
    monkeypatch.setattr(shards, "LARGE_BYTES", 2_000)
    lines, table = tmp_path / "a.jsonl", tmp_path / "a.csv"
    lines.write_text(LINES)
    table.write_text("id,answer,reference\n" + "1,2,3\n" * 1_000)
    assert shard_bytes(str(lines), 40) == 1_000
    assert shard_bytes(str(lines), 10) == len(LINES) // 10
    assert shard_bytes(str(table), 40) == 1_000
    assert shard_bytes(str(table.rename(tmp_path / "a.json")), 40) == 0
    assert shard_bytes("https://host/a.jsonl", 40) == 0
    assert shard_bytes(str(tmp_path / "nothing.jsonl"), 40) == 0
    (tmp_path / "empty.jsonl").touch()
    assert shard_bytes(str(tmp_path / "*.jsonl"), 40) == 0
    lines.write_text(LINES[:1_900])
    assert shard_bytes(str(lines), 40) == 0


def test_a_source_that_cannot_be_used_is_refused_as_in_one_piece(tmp_path):
    file, home = tmp_path / "answers.jsonl", Home(tmp_path / "home")
    unusable = {"x\n": "none of the first 100 rows can be read", '{"a": 1}\n': "no column for"}
    for line, said in unusable.items():
        file.write_text(200 * line)
        with pytest.raises(UserError, match=said):
            cut(Source(str(file)), home, home.scratch / "run", 100)
    parquet = tmp_path / "answers.parquet"
    parquet.write_text(LINES)
    with pytest.raises(UserError) as here:
        cut(Source(str(parquet)), home, home.scratch / "run", 100)
    with pytest.raises(UserError) as there:
        load(Source(str(parquet)), tmp_path / "whole")
    assert str(here.value) == str(there.value)
