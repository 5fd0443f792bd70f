"""CSV is read as its writer meant it, and a row that nobody can read costs itself alone."""

import csv
import random

import duckdb
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from answerkey.tasks.load.sources import read
from tests.tasks.staging_help import refusal

NAMES = ["id", "question", "answer", "reference"]
BROKEN = 'a quote is not closed, or one within quotes is not doubled; write "" for it'


def rows(folder, content):
    """The rows of a CSV with this content: the texts of those that are sound, the reasons of others."""
    file = folder / "a.csv"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return [list(raw.record.values()) if raw.record else raw.error for raw in read(str(file), folder / "work")]


def quoted(n, **instead):
    """The lines of `n` rows, all in quotes, every third with a comma; some are something else."""
    lines = [f'{i},"Q {i}?","It is {i}{", I think" * (i % 3 == 0)}","{i}"' for i in range(n)]
    for i, line in instead.items():
        lines[int(i[1:])] = line
    return "\n".join(["id,question,answer,reference", *lines, ""])


SPOILED = {
    "quotes within quotes": ('7,"Q?","He said "no" twice","no"', BROKEN),
    "an inch": ('7,"Q?","a 5" pipe","5 inches"', BROKEN),
    "no closing quote": ('7,"Q?","never closed,"x"', BROKEN),
    "no closing quote at the end": ('7,"Q?","x","never closed', BROKEN),
    "line breaks within": ('7,"Q?","one\nsaid "two" and\nthree","x"', BROKEN),
    "too few fields": ('7,"Q?","x"', "3 fields for 4 columns; put quotes around a field that has ',' in it"),
    "too few fields with a line break": (
        '7,"Q\n?","x"', "3 fields for 4 columns; put quotes around a field that has ',' in it",
    ),
    "too many fields": ("7,Q?,x,y,z", "5 fields for 4 columns; put quotes around a field that has ',' in it"),
}  # fmt: skip


@pytest.mark.parametrize("index", [0, 7, 199])
@pytest.mark.parametrize(("line", "reason"), SPOILED.values(), ids=SPOILED)
def test_one_spoiled_row_costs_itself_alone(tmp_path, index, line, reason):
    sound, spoiled = rows(tmp_path, quoted(200)), rows(tmp_path, quoted(200, **{f"i{index}": line}))
    assert spoiled[index] == f"line {index + 2}: {reason}"
    assert spoiled[:index] + spoiled[index + 1 :] == sound[:index] + sound[index + 1 :]


def test_a_stray_quote_among_plain_rows_and_quotes_that_come_late(tmp_path):
    plain = [f"{i},Q {i}?,A {i},A {i}" for i in range(20_600)]
    stray = [*plain[:700], '700,Q?,"a quote that stays open,x', *plain[701:]]
    found = rows(tmp_path, "\n".join(["id,question,answer,reference", *stray]))
    assert len(found) == 20_600 and [row for row in found if isinstance(row, str)] == [f"line 702: {BROKEN}"]
    late = rows(tmp_path, "\n".join(["id,question,answer,reference", *plain, '0,Q?,"Bern, I think",Bern']))
    assert len(late) == 20_601 and late[-1] == ["0", "Q?", "Bern, I think", "Bern"]


WRITTEN = {
    "backslash before quotes": (
        'id,answer\n1,"He said \\"yes\\", then left"\n2,"C:\\temp"\n',
        'He said "yes", then left',
    ),
    "backslashes that are doubled": ('id,answer\n1,"\\"a\\\\b\\""\n', '"a\\b"'),
    "a backslash at the end of quotes": ('id,answer\n1,"C:\\temp\\"\n2,"x ""y"""\n', "C:\\temp\\"),
    "Excel's first line": ('sep=;\r\nid;answer\r\n1;"a;b, c"\r\n', "a;b, c"),
    "other delimiters in a name": ("id;question, in short;answer\n1;q, really, so;x\n", "x"),
    "other delimiters in texts": ("id|answer\n1|a;b,c\td\n", "a;b,c\td"),
    "blanks before quotes": ('id, answer\n1, "Bern, I think"\n', "Bern, I think"),
    "leading blanks": ("id,answer\n1,  x \n", "  x "),
    "quotes amid a text": ('id,answer\n1,5" pipe\n', '5" pipe'),
    "line feeds within quotes, lines end in both": (b'id,answer\r\n1,"a\nb"\r\n', "a\nb"),
    "carriage return amid a text": (b"id,answer\n1,a\rb\n", "a\rb"),
    "lines that end in carriage returns": (b"id,answer\r1,x\r2,y\r", "x"),
    "a delimiter after the last field": ("id,answer,\n1,x,\n2,y,\n", "x"),
    "more delimiters after the last field": ("id,answer\n1,x,\n", "x"),
    "apostrophes first": ("id,answer\n1,'tis\n2,'x'\n", "'tis"),
}


@pytest.mark.parametrize(("content", "answer"), WRITTEN.values(), ids=WRITTEN)
def test_how_people_and_programs_write(tmp_path, content, answer):
    file = tmp_path / "a.csv"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    records = [raw.record for raw in read(str(file), tmp_path / "work")]
    assert records[0]["answer"] == answer and None not in records


DOUBTFUL = {
    "quotes that are text": 'id\tquestion\tanswer\n1\tq\t"Hello" she said\n2\tq\t"No" and\n3\tq\t"Oh" well\n4\tq\tx\n',
    "rows that quotes would join": 'id\tquestion\tanswer\n1\tq\t"Hello there\n2\tq\tsee you"\n3\tq\tx\n',
    "more broken than sound": "id,question,answer\n" + '1,q,"a "b" c"\n' * 30 + '2,q,"Bern, I think"\n' * 20,
}


@pytest.mark.parametrize("content", DOUBTFUL.values(), ids=DOUBTFUL)
def test_quotes_that_are_not_certain_are_refused(tmp_path, content):
    (tmp_path / "a.csv").write_text(content)
    message = refusal(list, read(f"{tmp_path}/a.csv", tmp_path / "work"))
    assert message.startswith(f"{tmp_path}/a.csv: it is not certain that quotes enclose fields (line 2")


def test_a_small_file_of_many_columns(tmp_path):
    names = ",".join(f"c{n}" for n in range(10_000))
    [row] = rows(tmp_path, f"id,{names}\n1{',1' * 10_000}\n")
    assert len(row) == 10_001


def by_csv(file, table, **options):
    with file.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out, **options).writerows([NAMES, *table])


def by_pandas(file, table, **options):
    pd.DataFrame(table, columns=NAMES).to_csv(file, index=False, **options)


def by_duckdb(file, table, options="HEADER"):
    data = pd.DataFrame(table, columns=NAMES).astype(str)  # noqa: F841  (DuckDB reads it)
    duckdb.sql(f"COPY data TO '{file}' ({options})")


WRITERS = [
    *((by_csv, {"quoting": how, "delimiter": mark}) for how in (csv.QUOTE_ALL, csv.QUOTE_MINIMAL) for mark in ",;\t|"),
    (by_csv, {"quoting": csv.QUOTE_NONNUMERIC, "lineterminator": "\n"}),
    (by_csv, {"quoting": csv.QUOTE_ALL, "delimiter": ";", "lineterminator": "\n"}),
    (by_pandas, {}), (by_pandas, {"sep": "\t", "lineterminator": "\r\n"}),
    (by_duckdb, {}), (by_duckdb, {"options": "HEADER, DELIMITER ';', FORCE_QUOTE *"}),
]  # fmt: skip
TEXTS = st.lists(
    st.sampled_from(
        ["Paris", "it is", ", ", ";", "\t", "|", '"', '""', "'", "\n", "\r\n", "\\", "  ", "é本", "x" * 999]
    ),
    max_size=6,
).map("".join)


@settings(deadline=None)
@given(table=st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=6), chance=st.integers())
def test_any_table_comes_back_whole(tmp_path_factory, table, chance):
    folder = tmp_path_factory.mktemp("table", numbered=True)
    table = [[f"q{number}", *cells] for number, cells in enumerate(table)]
    write, options = random.Random(chance).choice(WRITERS)
    write(folder / "a.csv", table, **options)
    records = [raw.record for raw in read(f"{folder}/a.csv", folder / "work")]
    assert [[text or "" for text in record.values()] for record in records] == table
