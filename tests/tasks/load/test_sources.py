"""Sources are read row by row, and what cannot be read comes out with its place and the reason."""

import gzip
import hashlib
import importlib.util
import json
import subprocess
import sys
import zipfile
from datetime import date, datetime, time, timedelta
from pathlib import Path

import duckdb
import openpyxl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from openpyxl.utils.datetime import MAC_EPOCH
from openpyxl.worksheet.formula import ArrayFormula

from answerkey.tasks.load import remote
from answerkey.tasks.load.load import Source, load
from answerkey.tasks.load.plain import with_ending
from answerkey.tasks.load.rows import Raw
from answerkey.tasks.load.sources import Contents, called, read
from answerkey.tasks.warehouse.bucket import BucketStore
from tests.judge_http import http as http_reply
from tests.kit.serving import served
from tests.raw_server import RawServer
from tests.tasks.staging_help import jsonl, refusal, rows_of, workbook


def rows(folder, name, content):
    """Write a file and read it."""
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return list(read(f"{folder}/{name}", folder / "work"))


def refused(source, folder):
    return refusal(list, read(str(source), folder / "work"))


TEXTS = {
    "texts as they stand": (
        "a.csv",
        "id,a,b,c\n007,null,1.50,2024-01-02\n008,nan,1e3,true\n",
        [["007", "null", "1.50", "2024-01-02"], ["008", "nan", "1e3", "true"]],
    ),
    "quotes around delimiters, quotes and line ends": (
        "a.csv",
        'id,answer\n1,"red, green"\n2,"she said ""no"""\n3,"two\nlines"\n4,plain\n',
        [["1", "red, green"], ["2", 'she said "no"'], ["3", "two\nlines"], ["4", "plain"]],
    ),
    "single quotes": (
        "a.tsv",
        "id\tquestion\tanswer\n1\t'tabs\tinside'\t'l''eau'\n2\t'x'\t'y'\n",
        [["1", "tabs\tinside", "l'eau"], ["2", "x", "y"]],
    ),
    "empty fields": ("a.csv", 'id,answer,x\n1,,y\n2,"",y\n', [["1", None, "y"], ["2", None, "y"]]),
    "a blank line before": ("a.csv", "\nid,answer,answer_1\n1,x,y\n2,x,y\n", [["1", "x", "y"], ["2", "x", "y"]]),
    "bytes that are no UTF-8": ("a.csv", b"id,a\n1,caf\xe9\n2,caf\xc3\xa9\n", [["1", "caf\ufffd"], ["2", "café"]]),
    "the same in JSON Lines": ("a.jsonl", b'{"a": "caf\xe9"}\n{"a": "caf\xc3\xa9"}\n', [["caf\ufffd"], ["café"]]),
    "other ends of lines": ("a.ndjson", '{"a": "x\u2028y\u0085z"}\n', [["x\u2028y\u0085z"]]),
    **{
        f"delimiter {mark!r}": (
            "a.csv",
            f"id{mark}q{mark}a\n1{mark}Who?{mark}Ada Lovelace\n",
            [["1", "Who?", "Ada Lovelace"]],
        )
        for mark in ",;\t|"
    },
    **{
        f"byte order mark, {name}": (name, b"\xef\xbb\xbf" + content, [["1"]])
        for name, content in {"a.csv": b"id\n1\n", "a.jsonl": b'{"id": "1"}\n', "a.json": b'[{"id": "1"}]'}.items()
    },
}


@pytest.mark.parametrize(("name", "content", "expected"), TEXTS.values(), ids=TEXTS)
def test_the_values_of_a_text_file(tmp_path, name, content, expected):
    found = rows(tmp_path, name, content)
    assert [raw.row for raw in found] == list(range(1, len(found) + 1))
    assert [[*raw.record.values()] for raw in found] == expected
    assert next(iter(found[0].record)) in ("id", "a")


QUOTE_IT = "put quotes around a field that has ',' in it"


def test_csv_rows_with_too_many_or_too_few_columns(tmp_path):
    assert rows(tmp_path, "a.csv", "id,question,answer\n1,q,a\n2,q,a,extra\n3,q\n4,q,b\n") == [
        Raw(1, {"id": "1", "question": "q", "answer": "a"}),
        Raw(2, None, f"line 3: 4 fields for 3 columns; {QUOTE_IT}", "2,q,a,extra"),
        Raw(3, None, f"line 4: 2 fields for 3 columns; {QUOTE_IT}", "3,q"),
        Raw(4, {"id": "4", "question": "q", "answer": "b"}),
    ]


def test_jsonl_lines_keep_their_numbers_past_blank_and_broken_ones(tmp_path):
    twice = ['{"id": 1, "answer": "x", "answer": "y"}', '{"m": {"a": 1, "a": 1}}']
    content = '{"id": 1}\n\n{"id": 2\n[1, 2]\n"text"\n \t\r\n{"id": [{"a": 1, "b": {"a": 2}}]}\r\n' + "\n".join(twice)
    assert rows(tmp_path, "a.jsonl", content) == [
        Raw(1, {"id": 1}),
        Raw(3, None, "line 3 is not JSON: Expecting ',' delimiter: line 1 column 9 (char 8)", '{"id": 2'),
        Raw(4, None, "line 4 is a JSON list, not an object", "[1, 2]"),
        Raw(5, None, "line 5 is a JSON str, not an object", '"text"'),
        Raw(7, {"id": [{"a": 1, "b": {"a": 2}}]}),
        Raw(8, None, "line 8: an object has the key 'answer' twice; keep one of them", twice[0]),
        Raw(9, None, "line 9: an object has the key 'a' twice; keep one of them", twice[1]),
    ]


def test_one_line_that_is_very_large_or_deep_is_one_bad_row(tmp_path):
    keys = ", ".join(f'"{n}": 0' for n in range(100_000))
    many, deep, sound = rows(tmp_path, "a.jsonl", f'{{{keys}, "last": 1, "last": 2}}\n{"[" * 50_000}\n{{"id": 1}}\n')
    assert many.error == "line 1: an object has the key 'last' twice; keep one of them"
    assert deep.error and deep.error.startswith("line 2 is not JSON: maximum recursion depth exceeded")
    assert sound == Raw(3, {"id": 1})


def test_a_json_file_is_a_list_of_rows_or_a_document(tmp_path):
    bad = Raw(2, None, "item 2 is a JSON list, not an object", "[2]")
    assert rows(tmp_path, "a.json", '[{"id": 1}, [2], {"id": 3}]') == [Raw(1, {"id": 1}), bad, Raw(3, {"id": 3})]
    document = {"version": 2, "data": [{"id": 1}]}
    assert rows(tmp_path, "a.json", json.dumps(document)) == [Raw(1, document, document=True)]


NESTED = [
    {"id": 1, "refs": ["a", None, "b"], "meta": {"q": "x"}, "answer": "é"},
    {"id": 2, "refs": None, "meta": None, "answer": None},
]


def arrow_stream(file, records):
    file.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(records)
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=1)


def test_tables_keep_lists_objects_and_nothing(tmp_path):
    table = pa.Table.from_pylist(NESTED)
    pq.write_table(table, tmp_path / "a.parquet")
    pyarrow.feather.write_feather(table, tmp_path / "a.feather")
    arrow_stream(tmp_path / "a.arrow", NESTED)
    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        connection.execute('CREATE SCHEMA eval; CREATE TABLE eval."my rows" AS FROM "table"')
    for name in ("a.parquet", "a.feather", "a.arrow", "a.duckdb::eval.my rows"):
        assert list(read(f"{tmp_path}/{name}", tmp_path / "work")) == [Raw(1, NESTED[0]), Raw(2, NESTED[1])]


def saved(folder):
    """As `Dataset.save_to_disk` of Hugging Face writes it, with a cache beside it."""
    names = [f"data-{n:05}-of-00002.arrow" for n in range(2)]
    for name, row in zip(names, NESTED, strict=True):
        arrow_stream(folder / name, [row])
    arrow_stream(folder / "cache-4f1.arrow", [{"id": 0}])
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    (folder / "dataset_info.json").write_text("{}")


def test_a_data_set_of_hugging_face_on_disk(tmp_path):
    both = tmp_path / "both"
    for split in ("train", "test"):
        saved(both / split)
    assert [raw.record["id"] for raw in read(f"{both}/test", tmp_path / "work")] == [1, 2]
    (both / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    assert refused(both, tmp_path) == f"{both}: a data set with the splits train, test; name one, {both}/SPLIT"
    (both / "test" / "data-00001-of-00002.arrow").unlink()
    assert "the file data-00001-of-00002.arrow of this data set is missing" in refused(both / "test", tmp_path)


SHOWN = {
    "General": [
        (" 007", " 007"),
        (True, "TRUE"),
        (42, "42"),
        (3.0, "3"),
        (0.1 + 0.2, "0.3"),
        (1e20, "1E+20"),
        (None, None),
    ],
    "@": [(7, "7"), ("007", "007")],
    "0.0%": [(0.1234, "12.3%"), (-0.5, "-50.0%")],
    "0.00;[Red]-0.00": [(-2, "-2.00"), (2.675, "2.68")],
    '#,##0.00 "EUR"': [(1234.5, "1,234.50 EUR"), (0, "0.00 EUR")],
    "[$£-809]#,##0": [(-1234567, "-£1,234,567")],
    '_($* #,##0.00_);_($* \\(#,##0.00\\);_($* "-"??_);_(@_)': [(9.5, "$ 9.50"), (-9.5, "$ (9.50)"), (0, "$ -")],
    "00000": [(1234, "01234")],
    "000\\-00\\-0000": [(123456789, "123-45-6789")],
    '0.0,,"M"': [(12_345_678, "12.3M")],
    "# ??/??": [(2.125, "2 1/8"), (3, "3")],
    "# ?/8": [(0.5, "4/8")],
    "0.0E+00": [(0.00012, "1.2E-04"), (99_999, "1.0E+05")],
    '"up";"down";"level"': [(3, "up"), (-3, "down"), (0, "level")],
    '@" (draft)"': [("Bern", "Bern (draft)")],
    "yyyy-mm-dd": [(date(1969, 7, 20), "1969-07-20")],
    "dd.mm.yyyy hh:mm": [(datetime(1969, 7, 20, 20, 17), "20.07.1969 20:17")],
    "dddd, d mmm yy": [(date(2000, 2, 29), "Tuesday, 29 Feb 00")],
    "[$-40C]d mmmm yyyy": [(date(2021, 8, 5), "5 août 2021")],
    "[$-409]h:mm AM/PM;@": [(time(0, 30), "12:30 AM"), (time(18, 5), "6:05 PM"), ("noon", "noon")],
    "mm:ss.0": [(time(0, 3, 7, 260_000), "03:07.3")],
    "[h]:mm:ss": [(timedelta(hours=100, seconds=7), "100:00:07")],
}
"""By number format: values, and the texts that Excel in English shows for them."""


@pytest.mark.parametrize("code", SHOWN)
def test_a_cell_of_a_workbook_is_the_text_that_excel_shows(tmp_path, code):
    values = [(n, (value, code)) for n, (value, _) in enumerate(SHOWN[code])]
    file = workbook(tmp_path / "a.xlsx", Answers=[["id", "answer"], *values])
    assert [raw.record["answer"] for raw in read(file, tmp_path / "work")] == [text for _, text in SHOWN[code]]


def test_a_date_in_a_workbook_that_counts_from_1904(tmp_path):
    book = openpyxl.Workbook()
    book.epoch = MAC_EPOCH
    for row in (["id", "answer"], [1, date(2024, 3, 1)]):
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    assert [raw.record["answer"] for raw in read(f"{tmp_path}/a.xlsx", tmp_path / "work")] == ["2024-03-01"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("one_x000D_\ntwo", "one\ntwo"), ("tab_x0009_bed", "tab\tbed"), ("_x005F_x000D_", "_x000D_"),
        ("_xD83D__xDE00_", "\U0001f600"), ("file_x2.txt", "file_x2.txt"),
    ],
)  # fmt: skip
def test_escapes_in_the_texts_of_a_workbook(tmp_path, text, shown):
    file = workbook(tmp_path / "a.xlsx", Answers=[["id", "answer"], [1, text]])
    assert [raw.record["answer"] for raw in read(file, tmp_path / "work")] == [shown]


FORMULA = "has the formula {} without its value: save the file in Excel, or write the cell as a text"
UNKNOWN = {
    "a formula that was not computed": ("=2+3", FORMULA.format("=2+3")),
    "an answer that begins like one": ("== Sources ==", FORMULA.format("== Sources ==")),
    "a formula for several cells": (ArrayFormula("C2:C2", "=SUM(A1:A2*2)"), FORMULA.format("=SUM(A1:A2*2)")),
    "a hidden number": ((5, ";;;"), "its number format ;;; hides the number"),
    "a hidden text": (("x", ";;;"), "its number format ;;; hides the text"),
    "another calendar": ((45_000, "[$-1030411]ggge"), "number format [$-1030411]ggge is not known here"),
    "a condition": ((5551234, "[<=9999999]###-####;(###) ###-####"), "###-#### is not known here"),
    "letters without quotes": ((5, "0 kg"), "its number format 0 kg is not known here"),
    "a date before the first one": ((-3, "yyyy"), "a date or a time that is not known here"),
    "a day that no calendar has": ((60, "yyyy-mm-dd"), "a date or a time that is not known here"),
    "a short name in another language": ((45_000, "[$-407]mmm"), "has names in a language that is not known here"),
}


@pytest.mark.parametrize(("cell", "says"), UNKNOWN.values(), ids=UNKNOWN)
def test_a_row_whose_answer_is_not_known_is_unreadable_and_a_remark_costs_nothing(tmp_path, cell, says):
    names = ["id", "reference", "answer", "remark"]
    file = workbook(tmp_path / "a.xlsx", Answers=[names, [1, "x", cell, None], [2, "x", "x", cell]])
    loaded = load(Source(file, release="r"), tmp_path / "work")
    assert [row["sample_id"] for row in rows_of(loaded.staged)] == ["2"]
    [row] = rows_of(loaded.rejects)
    assert "cell C2 of the sheet 'Answers'" in row["reason"]
    assert says in row["reason"]


def test_a_formula_that_is_to_be_computed_anew_has_no_value_of_0(tmp_path):
    file = Path(workbook(tmp_path / "a.xlsx", Answers=[["id", "answer"], [1, "=2+3"]]))
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in parts.items():
            # So XlsxWriter writes a formula
            archive.writestr(name, content.replace(b"<v />", b"<v>0</v>").replace(b"<v></v>", b"<v>0</v>"))
    [raw] = read(str(file), tmp_path / "work")
    assert FORMULA.format("=2+3") in str(raw.record["answer"])


def test_a_question_with_an_error_in_a_cell_counts_as_one_without_a_score(tmp_path):
    rows = [["id", "reference", "answer", "remark"], [1, "x", "#N/A"], [2, "#REF!", "x"], [3, "x", "x", "#DIV/0!"]]
    loaded = load(Source(workbook(tmp_path / "a.xlsx", Answers=rows), release="r"), tmp_path / "work")
    assert [(row["answer"], row["missing_because"]) for row in rows_of(loaded.staged)] == [
        (None, "cell C2 of the sheet 'Answers' is #N/A"),
        (None, "cell B3 of the sheet 'Answers' is #REF!"),
        ("x", None),
    ]


def test_dates_that_each_computer_shows_in_its_order_are_named(tmp_path):
    rows = [["id", "answer"], [1, (date(2024, 3, 1), "mm-dd-yy")]]
    contents = Contents()
    [raw] = read(workbook(tmp_path / "a.xlsx", Answers=rows), tmp_path / "work", contents)
    assert raw.record["answer"] == "03-01-24"
    assert contents.notes() == ["a.xlsx: dates that each computer shows in its own order are read as mm-dd-yy"]


def test_a_score_in_a_workbook_is_the_number_and_not_what_is_shown_of_it(tmp_path):
    names = ["id", "reference", "answer", "quality", "latency_ms"]
    file = workbook(tmp_path / "a.xlsx", Answers=[names, [1, "x", "x", (0.847, "0%"), (1250, "#,##0")]])
    loaded = load(Source(file, release="r", paths={"scores": "quality\nlatency_ms"}), tmp_path / "work")
    assert dict(rows_of(loaded.staged)[0]["given"]) == {"given.quality": 0.847, "latency.seconds": 1.25}


def test_blank_rows_and_a_title_above_the_names_of_the_columns(tmp_path):
    names, first, last = [None, "id", "the\nanswer"], [7, "q1", "x"], [None, "q4"]
    sheet = [[], names, first, names, [None, "q2", "z"], [None, "q3", "y", "note"], last]
    found = list(read(workbook(tmp_path / "a.xlsx", Notes=[], Answers=sheet), tmp_path / "work"))
    assert [(raw.row, raw.record or raw.error) for raw in found] == [
        (1, {"id": "q1", "the answer": "x", "column0": "7"}),
        (3, {"id": "q2", "the answer": "z"}),
        (4, "row 4: cell D6 is in a column without a name"),
        (5, {"id": "q4", "the answer": None}),
    ]


def test_which_sheet_is_meant(tmp_path):
    file = workbook(tmp_path / "a.xlsx", One=[["answer"], ["x"]], Two=[["answer"], ["y"]], Empty=[])
    assert list(read(f"{file}::Two", tmp_path / "work")) == [Raw(1, {"answer": "y"})]
    for source, said in {
        file: f"{file}: the sheets One, Two have rows; name one, {file}::One",
        f"{file}::Three": f"{file}: there is no sheet 'Three'; the sheets are One, Two, Empty",
        f"{file}::Empty": f"{file}: no rows in the sheet 'Empty'; it needs at least one",
    }.items():
        assert refused(source, tmp_path) == said


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_brackets_in_a_file_name_are_no_pattern(tmp_path, ending):
    for name in ("answers[1]", "answers1"):
        duckdb.sql(f"COPY (SELECT '{name}' AS answer, 1 AS id) TO '{tmp_path / name}.{ending}'")
    [raw] = read(f"{tmp_path}/answers[1].{ending}", tmp_path / "work")
    assert raw.record["answer"] == "answers[1]"


def test_a_duckdb_file_that_another_program_writes_to(tmp_path):
    file = tmp_path / "mine.duckdb"
    writer = "import duckdb, sys; kept = duckdb.connect(sys.argv[1]); print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", writer, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"\n"
        said = refused(f"{file}::t", tmp_path)
        other.communicate()
    assert said == f"{file}: another program has it open for writing; close it there, or export the table as Parquet"


@pytest.fixture
def website(tmp_path):
    """The address of a web server on this machine, and the folder that it shows."""
    folder = tmp_path / "www"
    folder.mkdir()
    with served(folder) as address:
        yield address, folder


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl?token=b/c.csv", "a.json", "a.parquet"])
def test_a_url(tmp_path, website, name):
    address, folder = website
    row = {"id": "1", "answer": "é, x"}
    (folder / "a.csv").write_text('id,answer\n1,"é, x"\n', encoding="utf-8")
    jsonl(folder / "a.jsonl", [row])
    (folder / "a.json").write_text(json.dumps([row]))
    pq.write_table(pa.Table.from_pylist([row]), folder / "a.parquet")
    assert list(read(f"{address}/{name}", tmp_path / "work")) == [Raw(1, row)]
    said = refused(f"{address}/none.csv", tmp_path)
    assert said.startswith(f"{address}/none.csv: could not be read: HTTP Error: ") and "404" in said


def test_a_download_without_end_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(remote, "MOST_BYTES", 2**23)
    # 64 MiB once they are unpacked, which happens a piece at a time.
    packed = http_reply(200, gzip.compress(bytes(2**26)), "content-encoding: gzip\r\n")
    with RawServer(packed) as server:
        said = refused(f"{server.url}/a.csv", tmp_path)
    remedy = "could not be read: it is larger than 0.0078125 GiB; download it, and name the file"
    assert said == f"{server.url}/a.csv: {remedy}"
    assert sum(file.stat().st_size for file in (tmp_path / "work").iterdir()) < 2**25


def test_the_key_in_a_url_is_in_no_note_and_no_message(tmp_path, website):
    address, folder = website
    jsonl(folder / "a.jsonl", [{"id": 1, "answer": "x", "reference": "x"}])
    jsonl(folder / "twice.jsonl", [{"id": 1, "reference": text} for text in "xy"])
    secret = f"{address}/a.jsonl?sig=canary/canary"
    notes = load(Source(secret), tmp_path / "work").notes
    assert notes[0] == ("a.jsonl: columns id, answer, references=reference; the release is called 'a' after the file")
    said = refusal(load, Source(secret, f"{address}/twice.jsonl?sig=canary/canary"), tmp_path / "twice")
    assert said.startswith(f"{address}/twice.jsonl?…: id '1' occurs again in row 2 with different content")
    said = refusal(load, Source(secret, secret, reference_paths={"id": "no"}), tmp_path / "no")
    assert said.startswith(f"{address}/a.jsonl?…: no column 'no' (for id)")


def test_standard_input_is_called_as_it_was_given():
    assert called("/var/answerkey-stdin-x1/stdin.jsonl\nhttps://host/b.csv?key=1") == "-, https://host/b.csv?…"


def of_google(request):
    """What Google's storage says of one object of one bucket."""
    asked = b" /storage/v1/b/bucket/o/folder%2Fa.jsonl?alt=media " in request
    return http_reply(200, b'{"id": "1"}\n') if asked else http_reply(404, b"")


@pytest.mark.parametrize("scheme", ["gs", "gcs"])
def test_a_bucket_of_google(tmp_path, monkeypatch, scheme):
    with RawServer(of_google) as server:
        monkeypatch.setenv("CLOUD_STORAGE_EMULATOR_ENDPOINT", f"http://127.0.0.1:{server.port}")
        assert list(read(f"{scheme}://bucket/folder/a.jsonl", tmp_path / "work")) == [Raw(1, {"id": "1"})]
        said = refused(f"{scheme}://bucket/none.jsonl", tmp_path)
    assert said.startswith(f"{scheme}://bucket/none.jsonl: could not be read: ")


def test_a_url_without_the_package_for_it(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    said = refused("hf://datasets/example/a.csv", tmp_path)
    assert said == "reading URLs needs the package duckdb-extension-httpfs: pip install it, or download the file"


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
        jsonl(folder / name, [row])


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


PATTERNS = ["/", "/**/*.jsonl", "/release=*/lang=*/?.jsonl"]


@pytest.mark.parametrize("pattern", ["", *PATTERNS])
def test_a_folder_or_pattern_is_all_its_files(tmp_path, pattern):
    partitioned(tmp_path / "answers")
    assert list(read(f"{tmp_path}/answers{pattern}", tmp_path / "work")) == in_order(f"{tmp_path}/answers")


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_what_a_row_says_goes_before_its_folder_and_a_single_file_has_no_columns_of_folders(tmp_path, ending):
    file, row = tmp_path / "release=v1" / "lang=01" / f"0.{ending}", {"id": "1", "lang": "fr"}
    file.parent.mkdir(parents=True)
    kind = {"jsonl": "json"}.get(ending, ending)
    duckdb.sql(f"COPY (SELECT '1' AS id, 'fr' AS lang) TO '{file}' (FORMAT {kind})")
    assert list(read(str(file), tmp_path / "work")) == [Raw(1, row)]
    [raw] = read(str(tmp_path / "release=v1"), tmp_path / "work")
    assert raw.record == {"release": "v1", **row}


@pytest.mark.parametrize("pattern", PATTERNS)
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
    assert list(read(f"{s3}/answers/release=v1/lang=en/0.jsonl", tmp_path / "work")) == [Raw(1, {"id": "1"})]
    assert list((tmp_path / "work").iterdir()) == []
    missing = f"{s3}/answers/none.jsonl"
    assert refused(missing, tmp_path).startswith(f"{missing}: could not be read: ")


def test_rows_of_several_files_are_numbered_through_and_their_errors_name_the_file(tmp_path):
    folder = tmp_path / "answers"
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"id": 1}\n\n{"id": 2}\n')
    (folder / "b.csv").write_text("id,x\n3,y,too many\n4,y\n")
    (folder / "c.jsonl").write_text('{"id": 5}\nno\n')
    found = list(read(str(folder), tmp_path / "work"))
    assert [(raw.row, (raw.record or {}).get("id"), Path(raw.file).name, raw.file_row) for raw in found] == [
        (1, 1, "a.jsonl", 1), (3, 2, "a.jsonl", 3), (4, None, "b.csv", 1), (5, "4", "b.csv", 2), (6, 5, "c.jsonl", 1),
        (7, None, "c.jsonl", 2),
    ]  # fmt: skip
    assert found[-1].error.startswith(f"{folder}/c.jsonl: line 2 is not JSON: ")
    (folder / "d.parquet").write_text("no such thing")
    assert refused(folder, tmp_path).startswith(f"{folder}/d.parquet: ")


def test_what_a_source_held(tmp_path, website):
    address, folder = website
    digests = []
    for name in ("a", "b"):
        file = Path(jsonl(folder / f"{name}.jsonl", [{"id": name}]))
        digests.append(hashlib.sha256(file.read_bytes()).hexdigest())
    both = hashlib.sha256("\n".join(digests).encode()).hexdigest()
    for source, n, digest in (
        (f"{folder}/a.jsonl", 1, digests[0]), (f"{address}/a.jsonl", 1, digests[0]), (f"{folder}/*.jsonl", 2, both),
    ):  # fmt: skip
        contents = Contents()
        list(read(source, tmp_path / "work", contents))
        assert contents.about() == {"files": n, "bytes": 12 * n, "sha256": digest}


RUSSIAN = ["Столица Франции - Париж.", "Вода кипит при ста градусах.", "Самая длинная река - Нил.", "Да"]
ANSWERS = {
    "windows-1251": RUSSIAN,
    "koi8-r": RUSSIAN,
    "windows-1252": ["Le café est fermé à cette heure.", "C'était l'été dernier, très chaud.", "Près du château."],
    "windows-1250": ["Praha je hlavní město.", "Příliš žluťoučký kůň úpěl ďábelské ódy.", "Řeka teče přes město."],
    "windows-1254": ["Türkiye'nin başkenti Ankara'dır.", "İstanbul en büyük şehirdir.", "Doğru değil mi?", "evet"],
    "cp932": ["フランスの首都はパリです。", "水は百度で沸騰します。", "世界で一番長い川はナイル川です。", "はい"],
    "gb18030": ["法国的首都是巴黎。", "水在一百度沸腾。", "世界上最长的河是尼罗河。", "是"],
}


def answers(file, encoding=""):
    """The answers in a file, and what was assumed about it."""
    contents = Contents()
    found = [raw.record["answer"] for raw in read(str(file), file.parent / "work", contents, encoding)]
    assert not list((file.parent / "work").glob("*-*")), "copies are removed"
    return found, contents.notes()


@pytest.mark.parametrize("encoding", ANSWERS)
@pytest.mark.parametrize("ending", ["csv", "jsonl", "json"])
def test_the_encoding_of_a_text_is_found_and_said(tmp_path, encoding, ending):
    records = [json.dumps({"answer": answer}, ensure_ascii=False) for answer in ANSWERS[encoding]]
    table = "id,answer\n" + "".join(f'{n},"{answer}"\n' for n, answer in enumerate(ANSWERS[encoding]))
    text = {"csv": table, "jsonl": "\n".join(records), "json": f"[{', '.join(records)}]"}[ending]
    file = tmp_path / f"answers.{ending}"
    file.write_bytes(text.encode(encoding))
    remedy = "if that is wrong, save it as UTF-8 or use --encoding"
    note = f"answers.{ending}: read as {encoding}, which was detected; {remedy}"
    assert answers(file) == (ANSWERS[encoding], [note])
    assert answers(file, encoding) == (ANSWERS[encoding], [])


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_utf_16_with_a_byte_order_mark_and_without(tmp_path, encoding):
    expected = ["Столица Франции - Париж.", "C'était l'été", "no"]
    # As Excel saves "Unicode text".
    text = "id\tanswer\r\n" + "".join(f"{n}\t{answer}\r\n" for n, answer in enumerate(expected))
    (tmp_path / "a.txt").write_bytes(text.encode(encoding))
    assert answers(tmp_path / "a.txt") == (expected, [f"a.txt: read as {encoding.upper()}"])


@pytest.mark.parametrize("content", [b"id,answer\n1,\xe0 midi\n2,\xe9t\xe9\n", b"id,answer\n1,\xcf\xe0\xf0\xe8\xe6\n"])
def test_an_encoding_that_is_not_sure_is_asked_for(tmp_path, content):
    file = tmp_path / "a.csv"
    file.write_bytes(content)
    said = refusal(answers, file)
    assert said.startswith(f"{file}: the text is not UTF-8, and its encoding is not certain (win")
    assert "; save it as UTF-8 or name it with --encoding; " in said
    assert answers(file, "utf-8")[0][0] == content.split(b"\n")[1][2:].decode("utf-8", "replace")
    assert refusal(answers, file, "latin-0").startswith("--encoding latin-0: there is no such encoding; for instance ")


@pytest.mark.parametrize("ending", ["gz", "zst"])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_compressed_files(tmp_path, ending, kind):
    plain, packed = tmp_path / f"a.{kind}", tmp_path / f"a.{kind}.{ending}"
    pq.write_table(pa.table({"answer": ["é", "x"]}), plain)
    texts = {"csv": "answer\né\nx\n".encode(), "jsonl": '{"answer": "é"}\n{"answer": "x"}\n'.encode("utf-16")}
    content = texts.get(kind) or plain.read_bytes()
    packed.write_bytes(gzip.compress(content) if ending == "gz" else pa.compress(content, codec="zstd", asbytes=True))
    assert answers(packed) == (["é", "x"], [f"a.jsonl.{ending}: read as UTF-16"] if kind == "jsonl" else [])


@pytest.mark.parametrize(
    ("content", "ending"),
    [
        (b'\n{"id": 1}\n{"id": 2}\n', ".jsonl"), (b'{\n "id": 1}', ".json"), (b"[1]", ".json"), (b"id\n1\n", ".csv"),
        ('\ufeff{"id": 1}'.encode("utf-16"), ".jsonl"), (gzip.compress(b"id\n1\n", mtime=0), ".csv"),
        (pa.compress(gzip.compress(b'{"id": 1}', mtime=0), codec="zstd", asbytes=True), ".jsonl"),
        (b"PAR1....", ".parquet"),
    ],
)  # fmt: skip
def test_the_kind_of_standard_input_is_told_from_its_first_bytes(tmp_path, content, ending):
    (tmp_path / "stdin").write_bytes(content)
    assert with_ending(tmp_path / "stdin") == tmp_path / f"stdin{ending}"
    assert [file.name for file in tmp_path.iterdir()] == [f"stdin{ending}"]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b" \n", "stdin: the file is empty; it needs at least one row"), (b"%PDF-1", "stdin: this is a PDF; export")],
)
def test_standard_input_that_is_of_no_kind(tmp_path, content, message):
    (tmp_path / "stdin").write_bytes(content)
    assert refusal(with_ending, tmp_path / "stdin").startswith(message)
