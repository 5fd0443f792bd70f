"""A source that is cut into shards becomes the same rows as in one piece."""

import json
import pickle
from dataclasses import replace

import duckdb
import pytest

from answerkey.tasks.load import shard as shards
from answerkey.tasks.load.load import Source, load
from answerkey.tasks.load.shard import cut, gather, shard_bytes, split_references, stage_shard
from answerkey.tasks.warehouse.home import Home
from tests.tasks.staging_help import jsonl, refusal, rows_of

pytestmark = pytest.mark.nightly

ROWS = [
    {"id": f"q{i}", "answer": f"It is {i}.", "reference": [str(i)], "when": f"2024-01-{i % 28 + 1:02}"}
    for i in range(400)
]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS)
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
    work = home.scratch / "run"

    def stage(some):
        # In any order, and twice.
        assert [stage_shard(one) for one in (*reversed(some), *some)] == [one.part for one in (*reversed(some), *some)]

    references = split_references(source, home, work, of_references) if of_references else None
    stage(references.shards if references else ())
    made = cut(source, home, work, size, references)
    stage(made.shards)
    loaded = gather(made, home, work)
    kept = sorted(file.name for file in home.scratch.rglob("*") if file.is_file())
    assert kept == [*(["references.parquet"] if source.references else []), "rejects.parquet", "staged.parquet"]
    return loaded, len(made.shards)


def assert_same(source, folder, size, n_shards, of_references=0):
    whole = load(source, folder / "whole")
    loaded, n = in_shards(source, folder, size, of_references)
    assert n == n_shards
    for name in ("staged", "rejects", "references"):
        one, other = getattr(loaded, name), getattr(whole, name)
        assert (one and rows_of(one)) == (other and rows_of(other))
    files = {"staged": "", "rejects": "", "references": "", "releases": ()}
    assert replace(loaded, **files) == replace(whole, **files)


FAULTS = (
    b'{"id": 2\n\n \t\r\n\xef\xbb\xbf{"id": "mark"}\n[1]\n\n{"id": "caf\xe9"}\n'
    b'{"id": "x", "answer": {"a": 1, "b": 2}, "reference": "y"}\n'
)


@pytest.mark.parametrize(("size", "n_shards"), [(1, 407), (3_000, 11), (10**9, 1)])
def test_lines_keep_their_numbers_and_their_faults(tmp_path, size, n_shards):
    file = tmp_path / "answers.jsonl"
    file.write_bytes(
        b"\xef\xbb\xbf" + (LINES[:710] + "\n").encode() + FAULTS + LINES[711:].encode().removesuffix(b"\n")
    )
    assert_same(Source(str(file)), tmp_path, size, n_shards)


def test_ranges_of_a_parquet_file_have_its_types(tmp_path):
    file = tmp_path / "answers.parquet"
    duckdb.sql(PARQUET % file)
    paths = {"label": "label", "cluster": "meta.deep.at"}
    assert_same(Source(str(file), paths=paths, slices=("meta.deep.cost",)), tmp_path, 90_000, 4)


def test_a_parquet_file_with_a_column_file_row_number_is_one_range(tmp_path):
    file = tmp_path / "answers.parquet"
    columns = "'p' || i AS id, 'x' AS answer, 'y' AS reference, i AS File_Row_Number"
    duckdb.sql(f"COPY (SELECT {columns} FROM range(99) t(i)) TO '{file}'")
    assert_same(Source(str(file), slices=("File_Row_Number",)), tmp_path, 100, 1)


BROKEN = {3, 4, 50, 51, 4_001, 9_999, 10_010}
"""Rows of a CSV that have too many columns, by their numbers."""


@pytest.mark.parametrize(("size", "n_shards"), [(60_000, 8), (10**9, 2)])
def test_rows_of_a_csv_keep_their_numbers_around_those_that_are_none(tmp_path, size, n_shards):
    folder = tmp_path / "answers"
    folder.mkdir()
    lines = [f'q{n},"It is, says ""he"",\n{n}",{n},{n % 7}' + ",more" * (n in BROKEN) for n in range(1, 10_011)]
    lines = [line.replace("\n", " ") if n % 5 else line for n, line in enumerate(lines)]
    (folder / "a.csv").write_text("\n".join(["id,answer,reference,rowid", *lines]))
    assert_same(Source(str(folder / "a.csv"), slices=("rowid",)), tmp_path, size, n_shards)
    (folder / "b.jsonl").write_text(LINES)
    references = tmp_path / "questions.csv"
    references.write_text("id,reference\n" + "".join(f"q{n},x {n}\n" for n in range(10_011)))
    source = Source(str(folder), str(references), release="r", dataset="d")
    assert_same(source, tmp_path / "several", size, n_shards + 1, of_references=size)


def test_a_table_with_a_title_and_one_column_per_release(tmp_path):
    rows = "".join(f"q{n},{n}|number {n},It is {n},It was {n}\n" for n in range(4_000))
    (tmp_path / "a.csv").write_text(f"Results of March\n\nid,reference,gpt-4o,claude\n{rows}")
    source = Source(str(tmp_path / "a.csv"), wide=("gpt-4o", "claude"), paths={"references-as": "|"})
    assert_same(source, tmp_path, 60_000, 3)


def test_the_rows_of_several_files_are_numbered_through(tmp_path):
    folder = tmp_path / "answers"
    for n, tail in enumerate(["", "\n \n\n", "nothing\n\n"]):
        jsonl(folder / f"lang=l{n}" / f"{n}.jsonl", [LINES.rstrip("\n"), *tail.split("\n")[:-1]])
    columns = "'p' || i AS id, 'x' AS answer, 'y' AS reference"
    duckdb.sql(f"COPY (SELECT {columns} FROM range(9) t(i)) TO '{folder}/z.parquet'")
    source = Source(str(folder), slices=("lang",))
    assert_same(source, tmp_path, 10_000, 13)
    [refused] = rows_of(in_shards(source, tmp_path / "again", 10_000)[0].rejects)
    assert (refused["file"], refused["row"]) == (last := f"{folder}/lang=l2/2.jsonl", 401)
    assert refused["reason"].startswith(f"{last}: line 401 is not JSON")


def test_references_in_a_file_of_their_own(tmp_path):
    answers = jsonl(tmp_path / "a.jsonl", [*({"id": row["id"], "answer": row["answer"]} for row in ROWS), "no"])
    rows = [{"id": row["id"], "reference": row["reference"], "lang": "en"} for row in ROWS[:-5]]
    source = Source(answers, jsonl(tmp_path / "questions.jsonl", rows), slices=("lang",))
    assert_same(source, tmp_path, 3_000, 6)
    # A reference that comes again as it was is the same one.
    jsonl(tmp_path / "questions.jsonl", rows[:9], mode="a")
    assert_same(source, tmp_path / "cut", 3_000, 6, of_references=2_000)
    shard = cut(source, (home := Home(tmp_path / "again")), home.scratch / "run", 3_000).shards[-1]
    stage_shard(pickle.loads(pickle.dumps(shard)))


REMEDY = "; correct or remove the row"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            '{"id": "q0", "reference": "x2"}',
            ": id 'q0' occurs again in row 401 with different content; keep one row per id",
        ),
        ("[1]", f", row 401: line 401 is a JSON list, not an object{REMEDY}"),
        ('{"reference": "x"}', ", row 401: the id is missing; give every row an id"),
        ('{"id": "", "reference": "x"}', ", row 401: the id is missing; give every row an id"),
        ('{"id": 1, "reference": [["a"]]}', f", row 401: references (reference) is a list; map one item of it{REMEDY}"),
    ],
)
def test_a_hole_in_the_references_stops_in_shards_as_in_one_piece(tmp_path, line, said):
    rows = [{"id": f"q{n}", "reference": "x"} for n in range(400)]
    # The first of two that cannot be used.
    references = jsonl(tmp_path / "questions.jsonl", [*rows, line, *rows[1:], "nothing"])
    source = Source(jsonl(tmp_path / "answers.jsonl", ROWS), references)
    assert refusal(load, source, tmp_path / "whole") == f"{references}{said}"
    assert refusal(in_shards, source, tmp_path, 3_000, 2_000) == f"{references}{said}"


def test_what_is_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "SHARD_BYTES", 1_000)
    monkeypatch.setattr(shards, "LARGE_BYTES", 2_000)
    for name, content in {
        "a.jsonl": LINES, "a.csv": "id,answer,reference\n" + "1,2,3\n" * 1_000, "b.json": LINES, "empty.jsonl": "",
        "small.jsonl": LINES[:1_900],
    }.items():  # fmt: skip
        (tmp_path / name).write_text(content)
    whole = ("b.json", "empty.jsonl", "small.jsonl", "nothing.jsonl", "*.jsonl", "https://host/a.jsonl")
    of = {
        name: shard_bytes(name if "://" in name else f"{tmp_path}/{name}", 40) for name in ("a.jsonl", "a.csv", *whole)
    }
    assert of == {"a.jsonl": 1_000, "a.csv": 1_000} | dict.fromkeys(whole, 0)
    assert shard_bytes(f"{tmp_path}/a.jsonl", 10) == len(LINES) // 10


@pytest.mark.parametrize(
    ("name", "line", "said"),
    [
        ("a.jsonl", "x\n", "none of the first 100 rows can be read"),
        ("a.jsonl", '{"a": 1}\n', "no column for"),
        ("a.parquet", "x\n", "this is not a .parquet file"),
    ],
)
def test_a_source_that_cannot_be_used_is_refused_as_in_one_piece(tmp_path, name, line, said):
    home = Home(tmp_path / "home")
    (tmp_path / name).write_text(200 * line)
    source = Source(str(tmp_path / name))
    message = refusal(cut, source, home, home.scratch / "run", 100)
    assert said in message and message == refusal(load, source, tmp_path / "whole")
