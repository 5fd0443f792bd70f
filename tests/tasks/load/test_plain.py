"""Files are decompressed and decoded before they are read; what cannot be told for sure is asked for."""

import gzip
import json

import pyarrow as pa
import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.plain import with_ending
from answerkey.tasks.load.rows import Raw
from answerkey.tasks.load.sources import Contents, read

ANSWERS = {
    "windows-1251": ["Столица Франции - Париж.", "Вода кипит при ста градусах.", "Самая длинная река - Нил.", "Да"],
    "koi8-r": ["Столица Франции - Париж.", "Вода кипит при ста градусах.", "Самая длинная река - Нил.", "Да"],
    "windows-1252": [
        "Le café est fermé à cette heure.",
        "C'était l'été dernier, très chaud.",
        "Près du château.",
        "oui",
    ],
    "windows-1250": [
        "Praha je hlavní město.",
        "Příliš žluťoučký kůň úpěl ďábelské ódy.",
        "Řeka teče přes město.",
        "ano",
    ],
    "windows-1254": ["Türkiye'nin başkenti Ankara'dır.", "İstanbul en büyük şehirdir.", "Doğru değil mi?", "evet"],
    "cp932": ["フランスの首都はパリです。", "水は百度で沸騰します。", "世界で一番長い川はナイル川です。", "はい"],
    "gb18030": ["法国的首都是巴黎。", "水在一百度沸腾。", "世界上最长的河是尼罗河。", "是"],
}


def table(answers):
    return "id,answer\n" + "".join(f'{n},"{answer}"\n' for n, answer in enumerate(answers))


def found(file, encoding=""):
    """The answers in a file, and what was assumed about it."""
    contents = Contents()
    rows = [raw.record["answer"] for raw in read(str(file), file.parent / "work", contents, encoding) if raw.record]
    assert not list((file.parent / "work").glob("*-*")), "copies are removed"
    return rows, contents.notes()


@pytest.mark.parametrize("encoding", ANSWERS)
@pytest.mark.parametrize("ending", ["csv", "jsonl", "json"])
def test_the_encoding_of_a_text_is_found_and_said(tmp_path, encoding, ending):
    answers = ANSWERS[encoding]
    records = [json.dumps({"answer": answer}, ensure_ascii=False) for answer in answers]
    text = {"csv": table(answers), "jsonl": "\n".join(records), "json": f"[{', '.join(records)}]"}[ending]
    file = tmp_path / f"answers.{ending}"
    file.write_bytes(text.encode(encoding))
    assert found(file) == (
        answers,
        [f"answers.{ending}: read as {encoding}, which was detected (--encoding says another)"],
    )
    assert found(file, encoding) == (answers, [])


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_utf_16_with_a_byte_order_mark_and_without(tmp_path, encoding):
    answers = ["Столица Франции - Париж.", "C'était l'été", "no"]
    # As Excel saves "Unicode text".
    text = "id\tanswer\r\n" + "".join(f"{n}\t{answer}\r\n" for n, answer in enumerate(answers))
    (tmp_path / "a.txt").write_bytes(text.encode(encoding))
    assert found(tmp_path / "a.txt") == (answers, [f"a.txt: read as {encoding.upper()}"])


@pytest.mark.parametrize("content", [b"id,answer\n1,\xe0 midi\n2,\xe9t\xe9\n", b"id,answer\n1,\xcf\xe0\xf0\xe8\xe6\n"])
def test_an_encoding_that_is_not_sure_is_asked_for(tmp_path, content):
    file = tmp_path / "a.csv"
    file.write_bytes(content)
    with pytest.raises(UserError) as error:
        found(file)
    assert str(error.value).startswith(f"{file}: the text is not UTF-8, and its encoding cannot be told for sure (win")
    assert "; say it with --encoding; " in str(error.value) and "\n" not in str(error.value)
    assert found(file, "utf-8")[0][0] == content.split(b"\n")[1][2:].decode("utf-8", "replace")
    with pytest.raises(UserError, match=r"^--encoding latin-0: there is no such encoding; for instance utf-8"):
        found(file, "latin-0")


@pytest.mark.parametrize("ending", ["gz", "zst"])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_compressed_files(tmp_path, ending, kind):
    plain = tmp_path / f"a.{kind}"
    if kind == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"answer": ["é", "x"]}), plain)
    else:
        plain.write_bytes(
            "answer\né\nx\n".encode() if kind == "csv" else '{"answer": "é"}\n{"answer": "x"}\n'.encode("utf-16")
        )
    content = plain.read_bytes()
    packed = tmp_path / f"a.{kind}.{ending}"
    packed.write_bytes(gzip.compress(content) if ending == "gz" else pa.compress(content, codec="zstd", asbytes=True))
    assert found(packed) == (["é", "x"], [f"a.jsonl.{ending}: read as UTF-16"] if kind == "jsonl" else [])


def test_errors_in_a_compressed_file_name_it_as_it_was_given(tmp_path):
    for name, content in {"a.json": b'{"a": ', "a.jsonl": b"1\n"}.items():
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content))
    with pytest.raises(UserError, match=rf"^{tmp_path}/a\.json\.gz: not JSON"):
        found(tmp_path / "a.json.gz")
    assert list(read(f"{tmp_path}/a.jsonl.gz", tmp_path / "work")) == [
        Raw(1, None, "line 1 is a JSON int, not an object", "1")
    ]


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
    file = tmp_path / "stdin"
    file.write_bytes(content)
    assert with_ending(file) == tmp_path / f"stdin{ending}"
    assert [one.name for one in tmp_path.iterdir()] == [f"stdin{ending}"]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b" \n", "stdin: there is nothing in it; it needs at least one row"), (b"%PDF-1", "stdin: this is a PDF; export")],
)
def test_standard_input_that_is_of_no_kind(tmp_path, content, message):
    (tmp_path / "stdin").write_bytes(content)
    with pytest.raises(UserError) as error:
        with_ending(tmp_path / "stdin")
    assert str(error.value).startswith(message)
