"""A commit is one short transaction, keyed by content: nothing is lost, doubled or half there."""

import json
import subprocess
import sys
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from typing import Any

import pytest

from answerkey.metrics_core.measurement import Failed, Measurement, Scored, Skipped, Undefined
from answerkey.metrics_core.metrics.words import RougeL
from answerkey.metrics_core.registry import create
from answerkey.tasks.load.load import Source, load
from answerkey.tasks.reports.commit import commit, finish_run, record_validation, start_run
from answerkey.tasks.score.plan import plan
from answerkey.tasks.score.shard import fail_shard, score_shard
from answerkey.tasks.validate.contract import Contract
from answerkey.tasks.validate.validate import validate
from answerkey.tasks.warehouse.home import Home
from tests.kit.waiting import FAULT_S
from tests.tasks.staging_help import jsonl, query, run, stage

ROWS = [
    {"id": f"q{i}", "question": f"Q{i}", "answer": f"a {i}", "references": [f"a {i} b"], "release": release}
    for release in ("two", "one")
    for i in range(6)
]
TABLES = ("datasets", "samples", "answers", "measurements")


def scored(home, loaded, *, fail=False):
    made = plan(loaded.staged, home, home.scratch / "plan", create(["rouge_l"], {}), only_failed=False)
    return [fail_shard(shard, "no answer") if fail else score_shard(shard) for shard in made.shards]


def committed(home, loaded, parts, run_id="run"):
    return commit(home, run_id, "source.jsonl", loaded, loaded.staged, parts)


def content(home):
    """The committed tables without times, seconds and run ids."""
    left_out = {"measurements": " EXCLUDE (created_at, run_id, seconds)", "datasets": " EXCLUDE (created_at)"}
    return {table: query(home, f"SELECT *{left_out.get(table, '')} FROM {table} ORDER BY ALL") for table in TABLES}


def statuses(home):
    return query(home, "SELECT status, run_id, count(*) FROM measurements GROUP BY ALL ORDER BY ALL")


def test_what_a_commit_leaves(tmp_path):
    home = Home(tmp_path / "home")
    rows = [{**ROWS[0], "label": "true", "lang": "en"}, {**ROWS[6], "answer": None}]
    loaded = stage(tmp_path, rows, slices=("lang",), paths={"label": "label"})
    checked = validate(loaded.staged, loaded.rejects, str(tmp_path / "valid"), Contract())
    parts = scored(home, loaded)
    done = commit(home, "run", "source.jsonl", loaded, checked.accepted, parts)
    assert [(release.release, release.n_rows) for release in done.releases] == [("two", 1), ("one", 1)]
    version = done.dataset_version
    assert query(home, "SELECT * EXCLUDE created_at FROM datasets") == [("answers", version, 1, "source.jsonl")]
    assert query(home, "SELECT * FROM samples") == [("answers", version, "q0", "Q0", ["a 0 b"], [], None, [])]
    answers = query(home, "SELECT * EXCLUDE sample_key FROM answers ORDER BY release")
    one, two = (release.answers_version for release in done.releases[::-1])
    assert answers == [
        ("answers", "one", one, "q0", None, None, None, {"lang": "(none)"}, None, 1, None, None, None),
        ("answers", "two", two, "q0", "a 0", "true", True, {"lang": "en"}, None, 1, None, None, None),
    ]
    joined = query(home, "SELECT release, status, \"values\"['f1'] FROM answers JOIN measurements USING (sample_key)")
    assert sorted(joined) == [("one", "scored", 0.0), ("two", "scored", 0.8)]
    assert not any(home.store.exists(part) for part in parts)


def test_committing_twice_changes_nothing(tmp_path):
    home = Home(tmp_path / "home")
    loaded = stage(tmp_path, ROWS)
    parts = scored(home, loaded)
    bytes_by_part = {part: home.store.read(part).read() for part in parts}
    first = committed(home, loaded, parts)
    before = content(home)
    assert {table: len(rows) for table, rows in before.items()} == {
        "datasets": 1, "samples": 6, "answers": 12, "measurements": 6,
    }  # fmt: skip
    # The first time after a crash right after the commit, with the parts still there.
    for part, data in bytes_by_part.items():
        with home.store.atomic_write(part) as file:
            file.write_bytes(data)
    assert committed(home, loaded, parts) == first
    assert content(home) == before
    # The second time as another run that shared the parts, which are gone now.
    assert committed(home, loaded, parts) == first
    assert content(home) == before


OUTCOMES = [
    Scored({"precision": 0.5, "recall": 0.5, "f1": 0.5}),
    Undefined("no reference"),
    Failed("http_500", "the server had an error"),
    Skipped("budget used up"),
]


def test_what_has_no_number_replaces_only_what_has_none(tmp_path):
    """Two runs planned the same rows, one for each pair of outcomes; the second commits last."""
    home, pairs = Home(tmp_path / "home"), list(product(OUTCOMES, OUTCOMES))
    rows = [{**ROWS[0], "id": f"q{i}", "answer": f"{i}"} for i in range(len(pairs))]
    loaded = stage(tmp_path, rows)
    parts = []
    for number in (0, 1):
        made = plan(loaded.staged, home, home.scratch / str(number), create(["rouge_l"], {}), only_failed=False)
        [shard] = made.shards
        says = Says(tuple(pair[number] for pair in pairs))
        parts.append(score_shard(replace(shard, metric=says, part=f"runs/{number}/part.parquet")))
    for run_id, part in zip(("first", "second"), parts, strict=True):
        committed(home, loaded, [part], run_id)
    found = query(
        home,
        "SELECT run_id, status, reason FROM measurements JOIN answers USING (sample_key) ORDER BY answer::INTEGER",
    )
    for (first, second), row in zip(pairs, found, strict=True):
        stays = isinstance(first, Scored | Undefined) and isinstance(second, Failed | Skipped)
        kept = Measurement("", "", "", first if stays else second)
        assert row == ("first" if stays else "second", kept.status, kept.reason), (first, second)


@dataclass(frozen=True)
class Says(RougeL):
    """Says of each sample what its answer, a number, is the place of."""

    says: Any = field(default=(), compare=False)

    def measure(self, samples):
        signature = RougeL().signature
        return [
            Measurement(sample.sample_id, self.name, signature, self.says[int(sample.answer)]) for sample in samples
        ]


@pytest.mark.nightly
def test_a_commit_that_breaks_changes_nothing_and_keeps_the_parts(any_home, tmp_path):
    home = any_home
    loaded = stage(tmp_path, ROWS)
    committed(home, loaded, scored(home, loaded))
    before = content(home)
    loaded = stage(tmp_path, [{**row, "answer": "other"} for row in ROWS])
    [part] = scored(home, loaded)
    with home.store.atomic_write("parts/broken.parquet") as broken:
        broken.write_bytes(b"PAR1 not quite")
    with pytest.raises(Exception, match="parquet"):
        committed(home, loaded, [part, "parts/broken.parquet"])
    assert content(home) == before
    assert home.store.exists(part)
    committed(home, loaded, [part])
    assert statuses(home) == [("scored", "run", 12)]


def test_other_answers_of_a_release_leave_the_old_ones(tmp_path):
    home = Home(tmp_path / "home")

    def versions(rows, **source):
        done = committed(home, stage(tmp_path, rows, **source), [])
        return {release.release: release.answers_version for release in done.releases}

    first = versions(ROWS)
    assert versions(ROWS[::-1]) == first
    one_changed = versions([*ROWS[:11], {**ROWS[11], "answer": "changed"}])
    assert (one_changed["two"], one_changed["one"] != first["one"]) == (first["two"], True)
    labelled = versions([{**row, "label": "true"} for row in ROWS], paths={"label": "label"})
    assert {labelled["one"], labelled["two"]}.isdisjoint({*first.values(), *one_changed.values()})
    stored = query(home, "SELECT release, answers_version, count(*) FROM answers GROUP BY ALL")
    assert sorted(stored) == sorted(
        (release, version, 6) for release, version in {*first.items(), *one_changed.items(), *labelled.items()}
    )


def test_a_run_is_written_down_from_its_start_to_its_end(tmp_path):
    home = Home(tmp_path / "home")
    start_run(home, "r1", "evaluate-release", "data", {"answers": "é.csv"})
    start_run(home, "r2", "evaluate-release", "data", {})
    running = "SELECT run_id, flow, dataset, finished_at, status, message, parameters FROM runs ORDER BY run_id"
    assert query(home, running) == [
        ("r1", "evaluate-release", "data", None, "running", None, '{"answers": "é.csv"}'),
        ("r2", "evaluate-release", "data", None, "running", None, "{}"),
    ]
    finish_run(home, "r1", "stopped", "UserError: no such file")
    finish_run(home, "r2", "complete")
    assert query(home, "SELECT status, message, finished_at >= started_at FROM runs ORDER BY run_id") == [
        ("stopped", "UserError: no such file", True),
        ("complete", None, True),
    ]
    start_run(home, "r1", "evaluate-release", "data", {})
    assert query(home, "SELECT run_id, status FROM runs ORDER BY run_id") == [("r1", "running"), ("r2", "complete")]


def test_a_validation_is_kept_with_its_rows_and_replaced_by_itself(tmp_path):
    home = Home(tmp_path / "home")
    loaded = stage(tmp_path, [*ROWS, {"id": "bad", "answer": "x", "references": " ", "release": "one"}])
    checked = validate(loaded.staged, loaded.rejects, str(tmp_path / "valid"), Contract())
    for run_id in ("r1", "r2", "r1"):
        record_validation(home, run_id, "source.jsonl", loaded, checked)
    rows = query(home, "SELECT * EXCLUDE raw FROM quarantine ORDER BY run_id")
    row = ("answers", "source.jsonl", 13, "bad", "one", "references_present", "every reference is missing or blank")
    assert rows == [("r1", *row), ("r2", *row)]
    [(raw,)] = query(home, "SELECT raw FROM quarantine WHERE run_id = 'r1'")
    assert json.loads(raw)["answer"] == "x"
    stored = query(
        home,
        "SELECT rule, severity, success, n_checked, n_failed, message, release FROM validations WHERE run_id = 'r1'",
    )
    assert sorted(map(str, stored)) == sorted(str(tuple(asdict(check).values())) for check in checked.checks)


def test_refused_rows_of_several_files_are_named_by_file_and_row(tmp_path):
    home, folder = Home(tmp_path / "home"), tmp_path / "answers"
    folder.mkdir()
    lines = [json.dumps({"id": f"a{n}", "answer": "x", "references": "y" if n else ""}) for n in range(3)]
    (folder / "a.jsonl").write_text("\n".join(["", *lines, "{no json"]))
    items = [{"id": f"b{n}", "answer": "x", "references": "y" if n % 2 else " "} for n in range(4)]
    (folder / "b.json").write_text(json.dumps({"rows": items}))
    (folder / "c.jsonl").write_text(json.dumps({"id": "c", "answer": "x", "references": ""}))
    loaded = load(Source(str(folder), release="one"), tmp_path / "work")
    checked = validate(loaded.staged, loaded.rejects, str(tmp_path / "valid"), Contract())
    record_validation(home, "r1", str(folder), loaded, checked)
    a, b, c = (str(folder / name) for name in ("a.jsonl", "b.json", "c.jsonl"))
    rows = query(home, 'SELECT source, "row", sample_id FROM quarantine ORDER BY ALL')
    assert rows == [(a, 2, "a0"), (a, 5, None), (b, 1, "b0"), (b, 3, "b2"), (c, 1, "c")]
    message_by_rule = {check.rule: check.message for check in checked.checks}
    assert message_by_rule["references_present"] == f"4 rows without a reference ({a} row 2, {b} rows 1, 3, ...)"
    assert message_by_rule["unreadable"].startswith(f"1 row could not be read ({a} row 5): ")


PROCESS = """
import json, sys
from pathlib import Path
from answerkey.tasks.reports.commit import commit
from answerkey.tasks.load.load import Loaded
from answerkey.tasks.warehouse.home import Home
for number, (loaded, parts) in enumerate(json.loads(sys.stdin.read())):
    loaded = Loaded(**loaded)
    commit(Home.parse(sys.argv[1]), f"{sys.argv[2]}-{number}", "source", loaded, loaded.staged, parts)
"""


@pytest.mark.real
def test_two_processes_at_once_lose_nothing(tmp_path):
    """In a folder; test_lake.py has four on a lake."""
    home = Home(tmp_path / "home")
    jobs = [[], []]
    for number in range(10):
        # The releases of one data set: both processes write into the same one, and half of the rows are shared.
        rows = [{**row, "release": f"r{number}", "answer": f"{row['answer']} {number // 2}"} for row in ROWS[:6]]
        loaded = stage(tmp_path / str(number), rows)
        jobs[number % 2].append([asdict(loaded), scored(home, loaded)])
    # The warehouse is there, so that it can be read all the time.
    start_run(home, "r", "flow", "answers", {})
    processes = [
        subprocess.Popen([sys.executable, "-c", PROCESS, str(home), name], stdin=subprocess.PIPE, text=True)
        for name in ("a", "b")
    ]
    for process, job in zip(processes, jobs, strict=True):
        process.stdin.write(json.dumps(job))
        process.stdin.close()
    seen = []
    while any(process.poll() is None for process in processes):
        with home.warehouse.reading() as warehouse:
            seen += warehouse.execute("SELECT count(*) FROM answers").fetchall()
    assert [process.wait(FAULT_S) for process in processes] == [0, 0]
    assert seen == sorted(seen) and all(count % 6 == 0 for (count,) in seen)
    assert query(home, "SELECT count(*), count(DISTINCT release) FROM answers") == [(60, 10)]
    assert query(home, "SELECT count(*), count(DISTINCT sample_key) FROM measurements") == [(30, 30)]
    assert query(home, "SELECT count(*) FROM datasets") == [(1,)]
    assert query(home, "SELECT count(*) FROM answers ANTI JOIN measurements USING (sample_key)") == [(0,)]
    assert list(home.store.files("parts")) == []


def test_a_home_with_pattern_and_quote_characters(tmp_path):
    folder = tmp_path / "o'home[1]*"
    folder.mkdir()
    source = jsonl(folder / "a[1].jsonl", [{"id": "1", "answer": "Ada", "reference": "Ada"}])
    for version in (1, 2):
        completed = run(folder / "home", Source(source, dataset="d", release="r"), ["contains"])
        assert [report.report_id for report in completed.reports] == [f"d/r/v{version}"]
    assert query(folder / "home", "SELECT value FROM scores") == [(1.0,), (1.0,)]
