"""Sources are read row by row, and what cannot be read comes out with its place and the reason."""

import functools
import gzip
import hashlib
import http.server
import importlib.util
import json
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load import remote
from answerkey.tasks.load.load import Source, load
from answerkey.tasks.load.rows import Raw
from answerkey.tasks.load.sources import SUPPORTED, Contents, called, read
from answerkey.tasks.warehouse.bucket import BucketStore
from tests.judge_http import http as http_reply
from tests.raw_server import RawServer


def rows(folder, name, content):
    """Write a file and read it."""
    file = folder / name
    file.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return list(read(str(file), folder / "work"))


def records(folder, name, content):
    """The values of every row, all of which can be read, numbered from 1."""
    found = rows(folder, name, content)
    assert [raw.row for raw in found] == list(range(1, len(found) + 1))
    return [list((raw.record or {}).values()) for raw in found]


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_the_delimiter_of_a_csv_is_found(tmp_path, mark):
    lines = [["id", "question", "answer"], ["1", "Who?", "Ada Lovelace"], ["2", "When?", "in 1843"]]
    assert rows(tmp_path, "a.csv", "\n".join(map(mark.join, lines))) == [
        Raw(1, {"id": "1", "question": "Who?", "answer": "Ada Lovelace"}),
        Raw(2, {"id": "2", "question": "When?", "answer": "in 1843"}),
    ]


def test_csv_quotes_hold_delimiters_quotes_and_line_ends(tmp_path):
    content = 'id,answer\n1,"red, green"\n2,"she said ""no"""\n3,"two\nlines"\n4,plain\n'
    assert records(tmp_path, "a.csv", content) == [
        ["1", "red, green"],
        ["2", 'she said "no"'],
        ["3", "two\nlines"],
        ["4", "plain"],
    ]


def test_a_tsv_in_single_quotes(tmp_path):
    content = "id\tquestion\tanswer\n1\t'tabs\tinside'\t'l''eau'\n2\t'x'\t'y'\n"
    assert records(tmp_path, "a.tsv", content) == [["1", "tabs\tinside", "l'eau"], ["2", "x", "y"]]


def test_texts_of_a_csv_are_taken_as_they_stand(tmp_path):
    content = "id,a,b,c\n007,null,1.50,2024-01-02\n008,nan,1e3,true\n"
    assert records(tmp_path, "a.csv", content) == [
        ["007", "null", "1.50", "2024-01-02"],
        ["008", "nan", "1e3", "true"],
    ]


def test_an_empty_field_is_nothing(tmp_path):
    assert records(tmp_path, "a.csv", 'id,answer,x\n1,,y\n2,"",y\n') == [["1", None, "y"], ["2", None, "y"]]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.json"])
def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path, name):
    content = {"a.csv": "id,answer\n1,x\n2,y\n", "a.jsonl": '{"id": "1"}\n', "a.json": '[{"id": "1"}]'}[name]
    first = rows(tmp_path, name, b"\xef\xbb\xbf" + content.encode())[0]
    assert first.record is not None and first.record["id"] == "1"


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_bytes_that_are_no_utf8_become_the_replacement_character(tmp_path, name):
    content = {
        "a.csv": b"id,answer\n1,caf\xe9\n2,caf\xc3\xa9\n",
        "a.jsonl": b'{"id": "1", "answer": "caf\xe9"}\n{"id": "2", "answer": "caf\xc3\xa9"}\n',
    }[name]
    assert records(tmp_path, name, content) == [["1", "caf\ufffd"], ["2", "café"]]
    assert (tmp_path / name).read_bytes() == content


def test_csv_rows_with_too_many_or_too_few_columns(tmp_path):
    found = rows(tmp_path, "a.csv", "id,question,answer\n1,q,a\n2,q,a,extra\n3,q\n4,q,b\n")
    assert [raw.record["id"] for raw in found if raw.record] == ["1", "4"]
    assert [raw for raw in found if raw.record is None] == [
        Raw(2, None, "row 2: Expected Number of Columns: 3 Found: 4", "2,q,a,extra"),
        Raw(3, None, "row 3: Expected Number of Columns: 3 Found: 2", "3,q"),
    ]


def test_jsonl_lines_keep_their_numbers_past_blank_and_broken_ones(tmp_path):
    content = '{"id": 1}\n\n{"id": 2\n[1, 2]\n"text"\n \t\r\n{"id": 3}\r\n'
    found = rows(tmp_path, "a.jsonl", content)
    assert [(raw.row, raw.record) for raw in found] == [
        (1, {"id": 1}), (3, None), (4, None), (5, None), (7, {"id": 3}),
    ]  # fmt: skip
    assert [(raw.error, raw.text) for raw in found if raw.record is None] == [
        ("line 3 is not JSON: Expecting ',' delimiter: line 1 column 9 (char 8)", '{"id": 2'),
        ("line 4 is a JSON list, not an object", "[1, 2]"),
        ("line 5 is a JSON str, not an object", '"text"'),
    ]


def test_a_key_that_an_object_has_twice_is_not_guessed(tmp_path):
    lines = [
        '{"id": 1, "answer": "x", "answer": "y"}',
        '{"id": 2, "meta": [{"a": 1, "b": {"a": 2}}]}',
        '{"m": {"a": 1, "a": 1}}',
    ]
    found = rows(tmp_path, "a.jsonl", "\n".join(lines))
    assert [(raw.row, raw.error, raw.text) for raw in found if raw.record is None] == [
        (1, "line 1: an object has the key 'answer' twice; keep one of them", lines[0]),
        (3, "line 3: an object has the key 'a' twice; keep one of them", lines[2]),
    ]


def test_a_key_twice_in_a_large_object_is_found_in_one_pass(tmp_path):
    keys = ", ".join(f'"{n}": 0' for n in range(100_000))
    [raw] = rows(tmp_path, "a.jsonl", f'{{{keys}, "last": 1, "last": 2}}')
    assert raw.error == "line 1: an object has the key 'last' twice; keep one of them"


def test_rows_of_several_files_are_numbered_through_past_rows_that_a_csv_gives_last(tmp_path):
    (tmp_path / "a.csv").write_text("id,answer\n1,x,too many\n2,y\n3,z\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("id,answer\n4,x\n", encoding="utf-8")
    found = list(read(str(tmp_path), tmp_path / "work"))
    assert [(raw.row, Path(raw.file or "").name, raw.file_row) for raw in found] == [
        (2, "a.csv", 2), (3, "a.csv", 3), (1, "a.csv", 1), (4, "b.csv", 1),
    ]  # fmt: skip


@pytest.mark.parametrize("before", ["", "\n"])
def test_columns_with_numbers_at_their_ends_are_as_the_file_has_them(tmp_path, before):
    assert records(tmp_path, "a.csv", f"{before}id,answer,answer_1\n1,x,y\n2,x,y\n") == [
        ["1", "x", "y"],
        ["2", "x", "y"],
    ]


def test_other_line_separators_do_not_end_a_jsonl_line(tmp_path):
    assert records(tmp_path, "a.ndjson", '{"a": "x\u2028y\u0085z"}\n') == [["x\u2028y\u0085z"]]


def test_a_line_nested_without_end_is_one_bad_row(tmp_path):
    found = rows(tmp_path, "a.jsonl", "[" * 50_000 + '\n{"id": 1}\n')
    assert [(raw.row, raw.record) for raw in found] == [(1, None), (2, {"id": 1})]
    assert found[0].error and found[0].error.startswith("line 1 is not JSON: maximum recursion depth exceeded")


def test_a_json_list(tmp_path):
    assert rows(tmp_path, "a.json", '[{"id": 1}, [2], {"id": 3}]') == [
        Raw(1, {"id": 1}),
        Raw(2, None, "item 2 is a JSON list, not an object", "[2]"),
        Raw(3, {"id": 3}),
    ]


def test_a_json_object_is_a_document_whose_rows_depend_on_its_format(tmp_path):
    document = {"version": 2, "data": [{"id": 1}]}
    assert rows(tmp_path, "a.json", json.dumps(document)) == [Raw(1, document, document=True)]


@pytest.mark.parametrize("content", ["3", '"text"'])
def test_other_json_is_refused(tmp_path, content):
    with pytest.raises(UserError) as error:
        rows(tmp_path, "a.json", content)
    expected = "expected a list of objects, or an object with one list of them"
    assert str(error.value) == f"{tmp_path / 'a.json'}: {expected}"


@pytest.mark.parametrize("content", ['{"id": 1}\n{"id": 2}\n', "[" * 50_000])
def test_invalid_json(tmp_path, content):
    with pytest.raises(UserError, match=r"a\.json: not JSON \(.+\); if it has one object per line, name it \.jsonl$"):
        rows(tmp_path, "a.json", content)


def test_parquet_keeps_lists_objects_and_nothing(tmp_path):
    data = [
        {"id": 1, "refs": ["a", None, "b"], "meta": {"q": "x"}, "answer": "é"},
        {"id": 2, "refs": None, "meta": None, "answer": None},
    ]
    file = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(data), file)
    assert list(read(str(file), tmp_path)) == [Raw(1, data[0]), Raw(2, data[1])]


def test_a_table_of_a_duckdb_file(tmp_path):
    file = tmp_path / "mine.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute('CREATE SCHEMA eval; CREATE TABLE eval."my rows" (id INTEGER, refs VARCHAR[])')
        connection.execute("""INSERT INTO eval."my rows" VALUES (1, ['a', 'b']), (2, NULL)""")
    found = list(read(f"{file}::eval.my rows", tmp_path))
    assert found == [Raw(1, {"id": 1, "refs": ["a", "b"]}), Raw(2, {"id": 2, "refs": None})]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_brackets_in_a_file_name_are_no_pattern(tmp_path, ending):
    for name in ("answers[1]", "answers1"):
        query = f"COPY (SELECT '{name}' AS answer, 1 AS id) TO '{tmp_path / name}.{ending}'"
        duckdb.connect().execute(query)
    [raw] = read(f"{tmp_path}/answers[1].{ending}", tmp_path / "work")
    assert raw.record is not None and raw.record["answer"] == "answers[1]"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.csv", None, "there is no such file"),
        (".", None, f"there is no file; give {SUPPORTED}"),
        ("*.csv", None, f"there is no file; give {SUPPORTED}"),
        ("empty.jsonl", b"", "the file is empty; it needs at least one row"),
        ("book.pdf", b"x", f"'.pdf' is not a known kind; give {SUPPORTED}"),
        ("answers", b"x", f"'no file ending' is not a known kind; give {SUPPORTED}"),
    ],
)
def test_a_source_that_cannot_be_used(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError) as error:
        list(read(f"{tmp_path}/{name}", tmp_path / "work"))
    assert str(error.value) == f"{tmp_path}/{name}: {message}"


def test_a_file_whose_content_does_not_fit_its_name(tmp_path):
    for name in ("a.parquet", "a.duckdb"):
        file = tmp_path / name
        file.write_text("no such thing " * 400)
        source = str(file) + ("::t" if name.endswith("duckdb") else "")
        with pytest.raises(UserError) as error:
            list(read(source, tmp_path / "work"))
        assert str(error.value).startswith(f"{file}: this is no {file.suffix} file: it begins with b'no such '")


def test_a_duckdb_file_that_another_program_writes_to(tmp_path):
    file = tmp_path / "mine.duckdb"
    writer = "import duckdb, sys; kept = duckdb.connect(sys.argv[1]); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", writer, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == b"\n"
        with pytest.raises(UserError) as error:
            list(read(f"{file}::t", tmp_path / "work"))
        other.communicate()
    said = f"{file}: another program has it open for writing; close it there, or export the table as Parquet"
    assert str(error.value) == said


def test_a_duckdb_file_or_table_that_is_not_there(tmp_path):
    file = tmp_path / "mine.db"
    with pytest.raises(UserError) as error:
        list(read(f"{file}::t", tmp_path))
    assert str(error.value) == f"{file}: there is no such DuckDB file"
    duckdb.connect(str(file)).close()
    with pytest.raises(UserError) as error:
        list(read(f"{file}::t", tmp_path))
    assert str(error.value) == f"{file}::t: there is no such table; it has no tables"


@pytest.fixture
def website(tmp_path):
    """The address of a web server on this machine, and the folder that it shows."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    folder = tmp_path / "www"
    folder.mkdir()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", folder
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl?token=b/c.csv", "a.json", "a.parquet"])
def test_a_url(tmp_path, website, name):
    address, folder = website
    row = {"id": "1", "answer": "é, x"}
    (folder / "a.csv").write_text('id,answer\n1,"é, x"\n', encoding="utf-8")
    (folder / "a.jsonl").write_text(json.dumps(row), encoding="utf-8")
    (folder / "a.json").write_text(json.dumps([row]), encoding="utf-8")
    pq.write_table(pa.Table.from_pylist([row]), folder / "a.parquet")
    assert list(read(f"{address}/{name}", tmp_path / "work")) == [Raw(1, row)]


def test_a_download_without_end_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(remote, "MOST_BYTES", 2**23)
    # 64 MiB once they are unpacked, which happens a piece at a time.
    packed = http_reply(200, gzip.compress(bytes(2**26)), "content-encoding: gzip\r\n")
    with RawServer(packed) as server, pytest.raises(UserError) as error:
        list(read(f"{server.url}/a.csv", tmp_path / "work"))
    assert str(error.value) == (
        f"{server.url}/a.csv: could not be read: it is larger than 0.0078125 GiB; download it, and name the file"
    )
    assert sum(file.stat().st_size for file in (tmp_path / "work").iterdir()) < 2**25


def test_the_key_in_a_url_is_in_no_note_and_no_message(tmp_path, website):
    address, folder = website
    (folder / "a.jsonl").write_text('{"id": 1, "answer": "x", "reference": "x"}\n')
    (folder / "twice.jsonl").write_text('{"id": 1, "reference": "x"}\n{"id": 1, "reference": "y"}\n')
    key = "?sig=canary/canary"
    notes = load(Source(f"{address}/a.jsonl{key}"), tmp_path / "work").notes
    assert notes[0] == "a.jsonl: columns recognised by name: id, answer, references=reference"
    with pytest.raises(UserError) as error:
        load(Source(f"{address}/a.jsonl{key}", f"{address}/twice.jsonl{key}"), tmp_path / "twice")
    assert str(error.value).startswith(f"{address}/twice.jsonl?…: id '1' comes again in row 2 with other content")
    with pytest.raises(UserError) as error:
        both = f"{address}/a.jsonl{key}"
        load(Source(both, both, reference_paths={"id": "no"}), tmp_path / "no")
    assert str(error.value).startswith(f"{address}/a.jsonl?…: no column 'no' (for id)")


def test_a_url_that_is_not_there(tmp_path, website):
    url = f"{website[0]}/none.csv"
    with pytest.raises(UserError) as error:
        list(read(url, tmp_path / "work"))
    assert str(error.value).startswith(f"{url}: could not be read: HTTP Error: ")
    assert "404" in str(error.value) and "\n" not in str(error.value)


def test_standard_input_is_called_as_it_was_given():
    assert called("/var/answerkey-stdin-x1/stdin.jsonl\nhttps://host/b.csv?key=1") == "-, https://host/b.csv?…"


class Bucket(http.server.BaseHTTPRequestHandler):
    """What Google's storage says of one object of one bucket."""

    def do_GET(self):
        content = b'{"id": "1"}\n' if self.path == "/storage/v1/b/bucket/o/folder%2Fa.jsonl?alt=media" else b""
        self.send_response(200 if content else 404)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("scheme", ["gs", "gcs"])
def test_a_bucket_of_google(tmp_path, monkeypatch, scheme):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Bucket) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("CLOUD_STORAGE_EMULATOR_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        try:
            assert list(read(f"{scheme}://bucket/folder/a.jsonl", tmp_path / "work")) == [Raw(1, {"id": "1"})]
            with pytest.raises(UserError) as error:
                list(read(f"{scheme}://bucket/none.jsonl", tmp_path / "work"))
        finally:
            server.shutdown()
            thread.join()
    assert str(error.value).startswith(f"{scheme}://bucket/none.jsonl: could not be read: ")
    assert "\n" not in str(error.value)


def test_a_url_without_the_package_for_it(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError) as error:
        list(read("hf://datasets/example/a.csv", tmp_path / "work"))
    expected = "reading URLs needs the package duckdb-extension-httpfs: pip install it, or download the file"
    assert str(error.value) == expected


def partitioned(folder):
    """Answers of two releases in three files, and files that are no answers."""
    for name, row in {
        "release=v1/lang=en/0.jsonl": {"id": "1"},
        "release=v1/lang=en/1.jsonl": {"id": "2", "lang": "fr"},
        "release=v%202/lang=__HIVE_DEFAULT_PARTITION__/0.jsonl": {"id": "3"},
        "release=v1/_SUCCESS": {},
        "release=v1/.hidden.jsonl": {"id": "hidden"},
        "release=v1/about.md": {},
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(row) + "\n")


def in_order(folder):
    """The rows of `partitioned`, in the order of the names of the files; a column of a row goes before the folder's."""
    return [
        Raw(row, {"release": release, "lang": language, "id": id_}, file=f"{folder}/{name}.jsonl", file_row=1)
        for row, release, language, id_, name in (
            (1, "v 2", None, "3", "release=v%202/lang=__HIVE_DEFAULT_PARTITION__/0"),
            (2, "v1", "en", "1", "release=v1/lang=en/0"),
            (3, "v1", "fr", "2", "release=v1/lang=en/1"),
        )
    ]


@pytest.mark.parametrize("pattern", ["", "/", "/**/*.jsonl", "/release=*/lang=*/?.jsonl"])
def test_a_folder_or_pattern_is_all_its_files(tmp_path, pattern):
    partitioned(tmp_path / "answers")
    assert list(read(f"{tmp_path}/answers{pattern}", tmp_path / "work")) == in_order(f"{tmp_path}/answers")


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_what_a_row_says_goes_before_its_folder_and_a_single_file_has_no_columns_of_folders(tmp_path, ending):
    folder = tmp_path / "release=v1" / "lang=01"
    folder.mkdir(parents=True)
    file, row = folder / f"0.{ending}", {"id": "1", "lang": "fr"}
    kind = {"jsonl": "json"}.get(ending, ending)
    duckdb.connect().execute(f"COPY (SELECT '1' AS id, 'fr' AS lang) TO '{file}' (FORMAT {kind})")
    assert list(read(str(file), tmp_path / "work")) == [Raw(1, row)]
    [raw] = read(str(tmp_path / "release=v1"), tmp_path / "work")
    assert raw.record == {"release": "v1", **row}


@pytest.mark.parametrize("pattern", ["/", "/**/*.jsonl", "/release=*/lang=*/?.jsonl"])
def test_files_of_a_bucket(tmp_path, s3, pattern):
    partitioned(tmp_path / "answers")
    store = BucketStore(s3, tmp_path / "scratch")
    for file in (tmp_path / "answers").rglob("*"):
        if file.is_file():
            with store.atomic_write(file.relative_to(tmp_path).as_posix()) as copy:
                copy.write_bytes(file.read_bytes())
    contents = Contents()
    assert list(read(f"{s3}/answers{pattern}", tmp_path / "work", contents)) == in_order(f"{s3}/answers")
    assert contents.about()["files"] == 3
    [one] = read(f"{s3}/answers/release=v1/lang=en/0.jsonl", tmp_path / "work")
    assert one == Raw(1, {"id": "1"})
    assert list((tmp_path / "work").iterdir()) == []
    with pytest.raises(UserError) as error:
        list(read(f"{s3}/answers/none.jsonl", tmp_path / "work"))
    assert str(error.value).startswith(f"{s3}/answers/none.jsonl: could not be read: ")


def test_rows_of_several_files_are_numbered_through_and_their_errors_name_the_file(tmp_path):
    folder = tmp_path / "answers"
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"id": 1}\n\n{"id": 2}\n')
    (folder / "b.csv").write_text("id\n3\n")
    (folder / "c.jsonl").write_text('{"id": 4}\nno\n')
    found = list(read(str(folder), tmp_path / "work"))
    assert [(raw.row, (raw.record or {}).get("id")) for raw in found] == [(1, 1), (3, 2), (4, "3"), (5, 4), (6, None)]
    assert (found[-1].error or "").startswith(f"{folder}/c.jsonl: line 2 is not JSON: ")
    (folder / "d.parquet").write_text("no such thing")
    with pytest.raises(UserError, match=r"answers/d\.parquet: ") as error:
        list(read(str(folder), tmp_path / "work"))
    assert "\n" not in str(error.value)


def test_what_a_source_held(tmp_path, website):
    address, folder = website
    (folder / "a.jsonl").write_text('{"id": 1}\n')
    (folder / "b.jsonl").write_text('{"id": 2}\n')
    digests = [hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in ("a.jsonl", "b.jsonl")]
    for source in (f"{folder}/a.jsonl", f"{address}/a.jsonl"):
        contents = Contents()
        list(read(source, tmp_path / "work", contents))
        assert contents.about() == {"files": 1, "bytes": 10, "sha256": digests[0]}
    contents = Contents()
    list(read(f"{folder}/*.jsonl", tmp_path / "work", contents))
    both = hashlib.sha256("\n".join(digests).encode()).hexdigest()
    assert contents.about() == {"files": 2, "bytes": 20, "sha256": both}
