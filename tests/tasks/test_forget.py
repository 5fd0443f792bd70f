"""What is forgotten is in no file of the home, whatever the file is; what is left is as if it had never been there."""

import gzip
import json
import re
import shutil
import sqlite3
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from answerkey.metrics_core.llm.ledger import LedgerError, open_ledger
from answerkey.tasks.backup import backup
from answerkey.tasks.forget import _forms, _quotes, forget, forget_older
from answerkey.tasks.load.load import Source
from answerkey.tasks.releases.register import pending, stored_source
from answerkey.tasks.reports.commit import finish_run, start_run
from answerkey.tasks.reports.report import read_reports
from answerkey.tasks.warehouse.home import Home
from tests.kit.processes import finished
from tests.tasks.staging_help import at, check_whole, jsonl, query, refusal, registered, run, source_of

ANSWER = "The heron of Lindholm nests behind the mill, says Agathe Brunnwasser of the parish."
QUESTION = "Where does the heron that Agathe Brunnwasser feeds build its nest?"


def contents(file):
    """The content of a file, as its bytes and as what they say: rows of tables, decompressed."""
    yield file.read_bytes().decode("utf-8", "replace")
    if file.suffix == ".duckdb":
        with duckdb.connect() as connection:
            connection.execute(f"ATTACH '{file}' AS looked_at (READ_ONLY); USE looked_at")
            for (table,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
                for (row,) in connection.execute(f"SELECT to_json(t)::VARCHAR FROM {table} t").fetchall():
                    yield row
    elif file.suffix == ".parquet":
        yield from (str(row) for row in pq.read_table(file).to_pylist())
    elif file.suffix == ".gz":
        yield gzip.decompress(file.read_bytes()).decode("utf-8", "replace")


def holding(home, text):
    """The files of a home in which a text is found."""
    folder = at(home).local
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    return {str(file.relative_to(folder)) for file in files if any(text in content for content in contents(file))}


DEAD = "runs/0b5e3b0e-8a52-4c0f-9d57-3f1a4a7c1d11"
"""The working folder of a run that was killed."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A home with a ledger, and with a text in a file of every kind."""
    folder = tmp_path_factory.mktemp("forget") / "home"
    folder.mkdir()
    rows = [
        {"id": str(i), "question": f"What is {i}?", "answer": f"{i} it is", "reference": f"it is {i}", "repeat": repeat}
        for i in range(6) for repeat in (1, 2)
    ]  # fmt: skip
    rows[4] = {**rows[4], "id": "heron", "question": QUESTION, "answer": ANSWER, "reference": "behind the mill"}
    rows[5] = {**rows[4], "answer": "Nobody has told me so far.", "repeat": 2}
    for release in ("birds-1", "birds-2"):
        source = Source(jsonl(folder.parent / "d.jsonl", rows), dataset="birds", release=release)
        run(Home(folder), source, ["exact_match", "bleu"])
    with Home(folder).warehouse.writing() as warehouse:
        broken = "INSERT INTO quarantine VALUES ('x', 'birds', 'd', 9, 'heron', 'birds-1', 'r', 'broken', ?)"
        warehouse.execute(broken, [f"{{'answer': '{ANSWER}'}}"])
    for name in ("pages/birds/birds-1-v1.html", f"{DEAD}/0-staged.jsonl", "answers/birds/birds-1/answers.jsonl"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(ANSWER + QUESTION, encoding="utf-8")
    # As processes leave it that are killed while they write.
    left = ("snapshot.duckdb.99.part", "answerkey.duckdb.99.part.wal", "spill/duckdb_temp_storage_S32K-0.tmp")
    for name in left:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(ANSWER + QUESTION, encoding="utf-8")
    (folder / "parts/ab").mkdir(parents=True)
    pq.write_table(pa.table({"details": [ANSWER + QUESTION] * 99}), folder / "parts/ab/0.parquet", compression="zstd")
    open_ledger(str(folder)).close()
    with sqlite3.connect(folder / "judge.sqlite") as ledger:
        columns = "call_id, request_key, judge, prompt, run, kind, attempt, format, status, started_at, reply, month"
        told = f'{{"answer": "{ANSWER}", "question": "{QUESTION}"}}'
        places = ", ".join("?" * 12)
        row = ("c", "k", "judge", "prompt", "run", "ask", 1, "text", "usable", 0.0, told, "1970-01")
        ledger.execute(f"INSERT INTO answerkey_calls ({columns}) VALUES ({places})", row)
    ledger.close()
    start_run(Home(folder), "last", "flow", "birds", {})
    finish_run(Home(folder), "last", "complete")
    return folder


@pytest.fixture
def home(made, tmp_path):
    return Home(shutil.copytree(made, tmp_path / "home"))


EVERYWHERE = {
    "answerkey.duckdb", "answerkey.duckdb.99.part.wal", "answers/birds/birds-1/answers.jsonl", "judge.sqlite",
    "pages/birds/birds-1-v1.html", "parts/ab/0.parquet", f"{DEAD}/0-staged.jsonl", "snapshot.duckdb",
    "snapshot.duckdb.99.part", "spill/duckdb_temp_storage_S32K-0.tmp",
}  # fmt: skip


@pytest.mark.nightly
def test_a_forgotten_sample_is_in_no_file(home):
    assert EVERYWHERE - holding(home, ANSWER) == EVERYWHERE - holding(home, QUESTION) == set()
    n_calls = len(query(home, "SELECT 1 FROM judge_calls"))
    forgotten = forget(home, "birds", sample="heron", reason="asked for")
    assert holding(home, ANSWER) == holding(home, QUESTION) == holding(home, "Brunnwasser") == set()
    assert holding(home, "heron") == set()
    assert forgotten.reports == ("birds/birds-1/v1", "birds/birds-2/v1")
    assert (forgotten.calls, len(query(home, "SELECT 1 FROM judge_calls"))) == (1, n_calls)
    assert forgotten.rows["answers"] == 4 and forgotten.rows["samples"] == forgotten.rows["quarantine"] == 1
    removal = query(home, "SELECT removal, kind, reason, n_calls, n_files, reports FROM removals")
    assert removal == [(1, "sample", "asked for", 1, forgotten.files, list(forgotten.reports))]


@pytest.mark.nightly
def test_files_of_the_user_that_lie_in_the_folder_of_the_home_stay(home):
    names = ("runs/experiment-1/model.pt", "runs/notes.txt", "thesis.part", "spill/oil.csv")
    for name in names:
        (home.local / name).parent.mkdir(parents=True, exist_ok=True)
        (home.local / name).write_text("mine")
    forget(home, "birds", sample="heron")
    assert [name for name in names if (home.local / name).is_file()] == list(names)
    assert not (home.local / DEAD).exists()


def test_what_was_stopped_on_the_way_is_found_once_more(home):
    ledger = home.local / "judge.sqlite"
    paid = ledger.read_bytes()
    ledger.write_bytes(b"SQLite format 3\0" + b"damaged" * 900)
    with pytest.raises(LedgerError):
        forget(home, "birds", sample="heron")
    assert query(home, "SELECT count(*) FROM answers WHERE sample_id = 'heron'") == [(4,)]
    ledger.write_bytes(paid)
    assert forget(home, "birds", sample="heron").calls == 1
    assert holding(home, ANSWER) == holding(home, QUESTION) == set()


KILLED = """
import os, sys
from pathlib import Path
from answerkey.tasks.forget import forget
from answerkey.tasks.warehouse.home import Home

def kill_at(event, end):
    def hook(name, arguments):
        if name == event and any(str(one).endswith(end) for one in arguments):
            os.kill(os.getpid(), 9)
    sys.addaudithook(hook)

for home, event, end in zip(*[iter(sys.argv[1:])] * 3):
    child = os.fork()
    if not child:
        kill_at(event, end)
        forget(Home(Path(home)), "birds", sample="heron")
        os._exit(0)
    print(os.waitpid(child, 0)[1], flush=True)
"""
"""Forgets, and is killed in each home at an event: what Python is about to do to a file."""


def forgotten_again(home):
    forgotten = forget(home, "birds", sample="heron")
    assert (forgotten.finished, forgotten.rows, forgotten.calls, forgotten.files) == (True, {}, 0, 0)
    assert refusal(forget, home, "birds", sample="heron").startswith("birds: there is no such sample in ")


AFTER_COMMIT = {
    "nothing rewritten": (("pathlib.Path.glob", "*.part*"), forgotten_again),
    "not in its place": (("os.rename", "/answerkey.duckdb"), lambda home: home.warehouse.maintain()),
    "not published": (("os.rename", "/snapshot.duckdb"), lambda home: start_run(home, "next", "flow", "d", {})),
    "not noted": (("os.remove", ".rewrite-due"), lambda home: backup(home, Path(f"{home}-copy"))),
}  # fmt: skip


@pytest.mark.nightly
def test_what_is_killed_at_any_moment_is_finished_by_the_next(made, tmp_path):
    homes = {name: Path(shutil.copytree(made, tmp_path / name)) for name in ("before the commit", *AFTER_COMMIT)}
    places = {"before the commit": ("open", ".rewrite-due")} | {name: at for name, (at, _) in AFTER_COMMIT.items()}
    arguments = [str(one) for name, home in homes.items() for one in (home, *places[name])]
    process = finished([sys.executable, "-c", KILLED, *arguments], check=True)
    assert process.stdout.split() == ["9"] * 5, process.stderr
    before = homes.pop("before the commit")
    assert query(before, "SELECT count(*) FROM answers WHERE sample_id = 'heron'") == [(4,)]
    assert forget(Home(before), "birds", sample="heron").rows["answers"] == 4
    for name, home in homes.items():
        assert ("snapshot.duckdb" in holding(home, ANSWER)) == (name != "not noted"), name
        AFTER_COMMIT[name][1](Home(home))
        assert holding(home, ANSWER) == set(), name
        assert not list(home.glob("*.rewrite-due")) and not list(home.glob("*.part*"))
        assert query(home, "SELECT removal, reports FROM removals") == [(1, ["birds/birds-1/v1", "birds/birds-2/v1"])]
    # What the tables say was written in one transaction before all these moments.
    check_whole(Home(home))
    assert holding(Path(f"{homes['not noted']}-copy"), ANSWER) == set()


def test_a_row_of_the_quarantine_goes_by_a_long_text_and_not_by_a_short_one(tmp_path):
    home = Home(tmp_path / "home")
    wrong = "The heron of Lindholm nests in the reeds."
    rows = [
        {"id": "a", "answer": "4", "reference": "5", "incorrect_references": [wrong], "release": "r"},
        {"id": "b", "answer": "6", "reference": "7", "release": "r"},
    ]
    run(home, source_of(tmp_path, rows), ["exact_match"])
    kept, gone = '{"answer": "14", "reference": "5"}', f'{{"answer": "she said \\"{wrong}\\""}}'
    with home.warehouse.writing() as warehouse:
        for row, raw in enumerate((kept, gone)):
            line = "INSERT INTO quarantine VALUES ('x', 'other', 'd', ?, ?, 'r', 'broken', 'broken', ?)"
            warehouse.execute(line, [row, str(row), raw])
    forget(home, "d", sample="a")
    assert query(home, "SELECT raw FROM quarantine") == [(kept,)]
    check_whole(home)


def test_texts_are_found_in_replies_as_they_are_and_as_json_has_them():
    texts = ['"quoted" and long enough', "naïve, and longer than that", "short", "naïve, and longer than this"]
    forms = _forms(texts)
    assert "short" not in forms and len(forms) == 3 + 1 + 2
    heads = {}
    for form in forms:
        heads.setdefault(form[:20], []).append(form)
    for text in texts:
        for said in (f"x{text}", json.dumps({"said": text}), json.dumps({"said": text}, ensure_ascii=False)):
            assert _quotes(said, heads) == (text != "short")
    assert not any(_quotes(said, heads) for said in ("", "naïve, and longer than", "x" * 60))


@pytest.mark.nightly
def test_reports_that_rest_on_what_is_gone_say_so(home):
    before = read_reports(home, ["birds/birds-1/v1"])[0]
    forget(home, "birds", sample="heron")
    check_whole(home)
    report = read_reports(home, ["birds/birds-1/v1"])[0]
    assert (report.scores, report.n_total) == (before.scores, 12)
    assert re.match(
        r"answers were removed on [\d-]{10}, and these numbers are with them: answerkey rerun ", report.message
    )
    assert query(home, "SELECT count(*) FROM scores WHERE report_id = 'birds/birds-1/v1' AND sample_id = 'heron'") == [
        (0,)
    ]


@pytest.mark.nightly
def test_one_answer_goes_and_the_question_stays(home):
    forgotten = forget(home, "birds", sample="heron", release="birds-1")
    assert forgotten.reports == ("birds/birds-1/v1",) and forgotten.rows["answers"] == 2
    # Another release gave the same answer.
    assert holding(home, QUESTION) == holding(home, ANSWER) == {"answerkey.duckdb", "snapshot.duckdb"}
    forget(home, "birds", sample="heron", release="birds-2")
    assert holding(home, ANSWER) == set() and holding(home, QUESTION) == {"answerkey.duckdb", "snapshot.duckdb"}
    check_whole(home)


@pytest.mark.nightly
def test_a_release_goes_with_its_reports(home):
    for release in ("birds-1", "birds-2"):
        forgotten = forget(home, "birds", release=release)
        assert (forgotten.rows["reports"], forgotten.reports) == (1, ())
    assert holding(home, ANSWER) == set()
    assert query(home, "SELECT count(*) FROM reports WHERE dataset = 'birds'") == [(0,)]
    check_whole(home)


@pytest.mark.nightly
def test_what_is_older_goes_but_for_the_newest_report_of_each_release(home, tmp_path):
    for answer in ("an oak", "a beech"):
        rows = [{"id": "1", "question": "Which tree?", "answer": answer, "reference": "an oak", "release": "trees-1"}]
        run(home, source_of(tmp_path, rows, "trees"), ["exact_match"])
    with home.warehouse.reading() as warehouse:
        newest = warehouse.execute("SELECT report_id FROM latest_reports ORDER BY ALL").fetchall()
        n = len(warehouse.execute("SELECT 1 FROM reports").fetchall())
    assert forget_older(home, 36_500).rows == {}
    done = forget_older(home, 0)
    assert query(home, "SELECT report_id FROM reports ORDER BY ALL") == newest
    assert done.rows["reports"] == n - len(newest) > 0
    check_whole(home)


@pytest.mark.nightly
def test_a_registered_release_waits_without_the_sample_until_it_is_forgotten_itself(tmp_path):
    home = Home(tmp_path / "home")
    rows = [{"id": f"q{i}", "question": f"{i}?", "reference": "a", "answer": f"{ANSWER} {i}"} for i in range(3)]
    source = source_of(tmp_path, rows, dataset="birds", release="birds-1")
    made = registered(home, source)
    assert forget_older(home, 0).rows == {}
    assert forget(home, "birds", sample="q1").rows["answers"] == 1
    assert holding(home.local, f"{ANSWER} 1") == set()
    [waiting] = pending(home)
    assert waiting == made
    assert run(home, stored_source(home, waiting, tmp_path / "work"), ["exact_match"]).validation.n_rows == 2
    assert forget(home, "birds", release="birds-1").rows["registered"] == 1
    assert holding(home.local, ANSWER) == set()
    check_whole(home)


def test_what_is_not_there_cannot_be_forgotten(home):
    for given, why in (
        ({"sample": "stork"}, "birds: there is no such sample in "),
        ({"sample": "heron", "release": "birds-9"}, "birds: there is no such answer in "),
        ({"release": "birds-9"}, "birds: there is no such release in "),
        ({}, "forget: name a sample, a release, or both for one answer"),
    ):
        assert refusal(forget, home, "birds", **given).startswith(why)
    start_run(home, "busy", "flow", "birds", {})
    (home.local / "runs/busy").mkdir()
    assert "the run busy is at work" in refusal(forget, home, "birds", sample="heron")
