"""What people hand over by mistake: each is refused in one line that names the file and says what to do."""

import gzip
import json
import random
import re
import zipfile

import duckdb
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load import rows
from answerkey.tasks.load.load import Source, load
from answerkey.tasks.load.sources import SUPPORTED, read
from tests.tasks.staging_help import refusal, workbook

ROW = {"id": "1", "answer": "x", "reference": "x"}
LINE = json.dumps(ROW) + "\n"


def _parquet(file, table=None):
    pq.write_table(table or pa.Table.from_pylist([ROW] * 1_000), file)


def _arrow(file, compression="lz4"):
    pyarrow.feather.write_feather(pa.Table.from_pylist([ROW] * 1_000), file, compression=compression)


def _book(*rows):
    return lambda file: workbook(file, Sheet=rows)


def _half(write):
    def half(file):
        write(file)
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])

    return half


def _zst(file):
    file.write_bytes(pa.compress(LINE.encode() * 1_000, codec="zstd", asbytes=True))


def _tables(file):
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE TABLE one AS SELECT 1 AS id; CREATE SCHEMA s; CREATE TABLE s.two AS SELECT 1 AS id")
        elsewhere = file.with_suffix(".txt")
        elsewhere.write_text("secret")
        connection.execute(f"CREATE VIEW of_files AS SELECT 1 AS id, content AS answer FROM read_text('{elsewhere}')")


def _archive(file):
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"eval": {"model": "m", "task": "t"}}))
        archive.writestr("samples/1.json", json.dumps({"id": 1, "target": "x", "output": {"completion": "xyz" * 99}}))


def _archive_with_a_key_twice(file):
    _archive(file)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("samples/2.json", '{"id": 2, "target": "x", "target": "y"}')


DAMAGED = {
    "truncated gzip": ("a.jsonl.gz", gzip.compress(LINE.encode() * 99)[:-20], "cut off or damaged"),
    "no gzip": ("a.jsonl.gz", LINE.encode(), "this is not a .gz file: it begins with"),
    "gzip without its ending": ("a.jsonl", gzip.compress(LINE.encode()), "compressed by gzip, not .jsonl; add .gz"),
    "truncated Zstandard": ("a.jsonl.zst", _half(_zst), "cut off or damaged"),
    "bzip2": ("a.csv", b"BZh91AY&SY", "this is compressed by bzip2, not .csv; decompress it"),
    "no line is JSON": ("a.jsonl", b"id=1\nid=2\n", "none of the first 2 rows can be read: line 1 is not JSON"),
    "invalid JSON": ("a.json", b'[{"id": 1},', "not JSON (Expecting value: line 1 column 12"),
    "a key twice": ("a.json", b'[{"id": 1, "id": 2}]', "a.json: an object has the key 'id' twice; keep one of them"),
    "a number": ("a.json", b"7", "expected a list of objects"),
    "half a Parquet file": ("a.parquet", _half(_parquet), "cut off or damaged"),
    "no Parquet file": ("a.parquet", b"x" * 99, "this is not a .parquet file: it begins with"),
    "Parquet as CSV": ("a.csv", _parquet, "this is a Parquet file, not .csv; name it .parquet"),
    "half an Arrow file": ("a.arrow", _half(_arrow), "not an Arrow file, or cut off or damaged"),
    "half a workbook": ("a.xlsx", _half(_book([*ROW], ["1", "x", "x"])), "not a workbook, or cut off"),
    "workbook with a password": ("a.xlsx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "save it as .xlsx without a password"),
    "workbook without rows": ("a.xlsx", _book(), "no rows in the sheets Sheet; it needs at least one"),
    "workbook with two columns of a name": (
        "a.xlsx", _book(["id", "answer", "answer"], [1, 2, 3]), "are called answer; rename all",
    ),
    "CSV with columns that differ in case": ("a.csv", b"id,Answer,answer\n1,x,y\n", "called Answer, answer; rename"),
    "Parquet with two columns of a name": (
        "a.parquet",
        lambda file: _parquet(file, pa.table([["1"], ["x"], ["y"]], ["id", "Answer", "answer"])),
        "several columns are called Answer, answer; rename all but one",
    ),
    "CSV of the names alone": ("a.csv", b"id,answer,reference\n", "no rows; it needs at least one"),
    "CSV with a row of 17 MiB": (
        "a.csv",
        lambda file: file.write_bytes(b"id,answer,reference\n1," + b"x" * (17 << 20) + b",x\n"),
        "a row is longer than 16 MiB; shorten it, or write it as JSON Lines",
    ),
    "CSV with quotes that are not certain": (
        "a.csv", b"id,answer\n" + b'1,"x" y\n' * 9, "not certain that quotes enclose fields (line 2, 3, 4); put",
    ),
    "empty": ("a.jsonl", b"", "the file is empty; it needs at least one row"),
    "a PDF": ("a.txt", b"%PDF-1.7", "this is a PDF, not .txt; export the table in it as CSV"),
    "a pickle": ("a.csv", b"\x80\x04\x95\x00", "a Python pickle, which could run anything"),
    "an unknown kind": ("a.docx", b"x", "'.docx' is not a known kind; give CSV"),
    "a table that is not there": ("a.duckdb::answers", _tables, "there is no such table; it has of_files, one, s.two"),
    "no DuckDB file": ("a.duckdb::t", b"x" * 99, "this is not a .duckdb file: it begins with"),
    "half a DuckDB file": ("a.duckdb::one", _half(_tables), "a.duckdb::one: IO Error: "),
    "SQLite as DuckDB": ("a.db::t", b"SQLite format 3\x00", "this is an SQLite database, not DuckDB; export its table"),
    "a view of other files": ("a.duckdb::of_files", _tables, "it is a view of other files, which none of a loaded"),
    "an encoding that is not sure": ("a.csv", b"id,answer\n1,\xe0\n", "save it as UTF-8 or name it with --encoding"),
    "no text": ("a.csv", bytes(range(256)) * 9, "this is not text: there are zero bytes in it; give CSV"),
    "scores alone": ("a.csv", b"id,score\n1,0.5\n", "--map answer=score; scores without answers go to `answerkey comp"),
    "a column that is missing": ("a.csv", b"id,text\n1,x\n", "no column for answer was recognised among id, text"),
}  # fmt: skip

OTHERS = {
    "no file": ("none.csv", None, "none.csv: there is no such file"),
    "no DuckDB file at all": ("a.db::t", None, "a.db: there is no such DuckDB file"),
    "a folder without files": (".", None, f"there is no file; give {SUPPORTED}"),
    "a pattern without files": ("*.csv", None, f"there is no file; give {SUPPORTED}"),
    "a folder of notes": ("[n]*", lambda file: (file.parent / "n.md").touch(), "there is only n.md; give CSV"),
    "no ending": ("answers", b"x", "'no file ending' is not a known kind; give CSV"),
    "DuckDB without tables": ("a.duckdb::t", lambda file: duckdb.connect(str(file)).close(), "it has no tables"),
    "nested without end": ("a.json", b"[" * 50_000, "not JSON (maximum recursion depth"),
    "an empty list": ("a.json", b"[]", "no rows; it needs at least one"),
    "damage that is compressed": ("a.json.gz", gzip.compress(b'{"a": '), "a.json.gz: not JSON"),
    "an archive with a key twice": (
        "a.eval", _archive_with_a_key_twice, "a.eval: samples/2.json: an object has the key 'target' twice; keep one",
    ),
    "a log without answers": (
        "a.jsonl",
        b'{"spec": {"completion_fns": ["m"]}}\n{"event_id": 0, "sample_id": "g.0", "type": "metrics", "data": {}}\n',
        "a.jsonl: a log of OpenAI evals, which has no answers besides the expected ones",
    ),
    **{
        f"an object with {has}": (
            "a.json",
            json.dumps(content).encode(),
            "expected a list of objects, an object with one list of them, or objects by their ids; it "
            f"has {has}, which is none of the formats known here: promptfoo, ",
        )
        for has, content in {"a, b": {"a": [1], "b": [2]}, "a": {"a": 1}, "nothing": {}}.items()
    },
}  # fmt: skip
"""What is not in the documentation."""


@pytest.mark.parametrize(
    ("source", "content", "message"),
    [
        pytest.param(*case, id=name, marks=pytest.mark.nightly if "17 MiB" in name else ())
        for name, case in (DAMAGED | OTHERS).items()
    ],
)
def test_a_damaged_file_is_refused_in_one_line(tmp_path, source, content, message):
    file = tmp_path / source.split("::", maxsplit=1)[0]
    if content is not None:
        file.write_bytes(content) if isinstance(content, bytes) else content(file)
    before = file.read_bytes() if file.is_file() else None
    said = refusal(load, Source(f"{tmp_path}/{source}"), tmp_path / "staged")
    assert said.startswith(str(tmp_path / source.split("::", maxsplit=1)[0])) and message in said, said
    assert str(tmp_path / "staged") not in said and "secret" not in said
    assert before is None or file.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("a.parquet", _parquet),
        ("a.xlsx", _book([*ROW], *([n, f"answer {n}", "x"] for n in range(50)))), ("a.eval", _archive),
        ("a.arrow", lambda file: _arrow(file, "uncompressed")),
    ],
    ids=["Parquet", "workbook", "Inspect", "Arrow"],
)  # fmt: skip
def test_bytes_that_were_changed_on_the_way_end_in_one_line(tmp_path, name, write):
    file, chance = tmp_path / name, random.Random(7)
    write(file)
    sound, refused = file.read_bytes(), 0
    for _ in range(40):
        content = bytearray(sound)
        for _ in range(4):
            content[chance.randrange(len(content))] = chance.randrange(256)
        file.write_bytes(content)
        try:
            list(read(str(file), tmp_path / "work"))
        except UserError as error:
            refused += 1
            assert re.match(rf"{file}: [^\n]+; (copy|save|write) it again", str(error)) or name == "a.eval"
    assert refused > 10


@pytest.mark.parametrize("nothing", ["", " \n"])
def test_no_file_is_not_all_files_of_this_folder(tmp_path, monkeypatch, nothing):
    (tmp_path / "a.jsonl").write_text(LINE)
    monkeypatch.chdir(tmp_path)
    assert refusal(load, Source(nothing), tmp_path / "staged").startswith("no file is given; give CSV")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("view", "seconds"),
    [
        ("SELECT 1 AS id, 'x' AS reference, string_agg(range::VARCHAR, ',') AS answer FROM range(3000000000)", 600.0),
        ("WITH RECURSIVE t(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM t) SELECT id, 'x' AS answer FROM t", 2.0),
    ],
)
def test_a_view_that_computes_without_end_is_given_up(tmp_path, monkeypatch, view, seconds):
    monkeypatch.setattr(rows, "_LONGEST_S", seconds)
    file = tmp_path / "d.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute(f"CREATE VIEW v AS {view}")
    assert refusal(list, rows.read_table(file, "v")) == (
        f"{file}::v: takes more than {seconds:.0f} s or 400MB of memory to read; if that is right for this view, write "
        "its rows to a Parquet file, and name that"
    )
