"""Comparisons and verdicts are made again from the scores, and calls compared with the ledger: also where somebody has
written the hashes of what he changed."""

import json
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from answerkey.metrics_core.gate.policy import parse_policy
from answerkey.tasks.compare.compare import compare, compare_all
from answerkey.tasks.forget import forget
from answerkey.tasks.gate.calibrate import calibrate, store_calibration
from answerkey.tasks.gate.gate import gate
from answerkey.tasks.load.load import Source
from answerkey.tasks.reports.manifest import code_revision
from answerkey.tasks.verify import Verified, verify
from answerkey.tasks.warehouse.content import PARTS, seal, seal_all
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.schema import relations
from tests.judge_server import JudgeServer
from tests.tasks.gating_help import Made, warehouse
from tests.tasks.judging_help import judged, wordy
from tests.tasks.staging_help import jsonl, query, run

FIELD, GRADED = "exact_match.match", "rouge_l.f1"
RULES = (f"{FIELD}[half=upper] >= -0.1234567", f"level {FIELD} >= 0.3", f"kappa {FIELD} >= 0.2", "coverage >= 0.9")


def made(seed: int, name: str) -> Made:
    ids = [f"q{i:03}" for i in range(60 - seed)]
    right = {one: float((i * 7 + seed * (i % 11)) % 10 > seed) for i, one in enumerate(ids)}
    return Made(
        name,
        {FIELD: right, GRADED: {one: (i * (3 + seed)) % 7 / 7 for i, one in enumerate(ids)}},
        labels={one: bool(value) for one, value in [*right.items()][:25]},
        clusters={one: f"doc {i // 3}" for i, one in enumerate(ids)},
        slices={one: {"half": "upper" if i % 2 else "lower"} for i, one in enumerate(ids)},
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three releases, compared together and alone, by all fields and by one; and verdicts, with what they need."""
    folder = tmp_path_factory.mktemp("again") / "home"
    home = Home(folder)
    old, *new = warehouse(folder, [made(seed, name) for seed, name in enumerate("abc")], "d")
    with home.warehouse.writing() as connection:
        # They were made by this code, and not by that of another day.
        code = json.dumps({"code": code_revision()})
        connection.execute("UPDATE reports SET manifest = json_merge_patch(manifest, ?)", [code])
        seal_all(connection)
    compare_all(home, [(old, one) for one in new], fields=[FIELD])
    compare_all(home, [(old, new[0])], all_fields=True, seed=7, level=0.9)
    for pair in ((old, new[1]), (new[0], new[1]), (new[0], old)):
        compare(home, *pair, primary=FIELD)
    policy = parse_policy({"primary": FIELD, "margin": 0.05, "looks": "repeated", "rules": RULES}, "x")
    gate(home, old, new[0], policy)
    store_calibration(home, calibrate(home, FIELD, reports=[old, *new]))
    for one in new * 3:
        gate(home, old, one, policy, candidates=2)
    # What comes later changes nothing of what was said before.
    store_calibration(home, calibrate(home, FIELD, reports=[old], labels=jsonl(folder / "people.jsonl", PEOPLE)))
    gate(home, "none", new[0], policy)
    return folder


PEOPLE = [{"id": f"q{i:03}", "label": i % 2} for i in range(50)]


@pytest.fixture
def home(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "home"))


def lines(done: Verified) -> list[str]:
    """What is found in these tables: the aggregates of reports that no run has made are others."""
    return [str(one) for one in done.findings if one.table in ("comparisons", "verdicts", "judge_calls", "ledger")]


def test_what_nobody_has_changed_is_as_it_was(whole: Path) -> None:
    done = verify(Home(whole))
    assert lines(done) == []
    # The verdict without a baseline has no number.
    assert (done.comparisons, done.apart, done.verdicts, done.outdated, done.calls) == (6, 0, 7, 1, 0)


def write(home: Path, table: str, changes: Sequence[tuple[str, str]]) -> None:
    """Change values of a table past its keys and checks, each WHERE something holds, and write its hashes again."""
    with Home(home).warehouse.writing() as connection:
        connection.execute(f"CREATE TEMP TABLE plain AS FROM {table}")
        for change, where in changes:
            connection.execute(f"UPDATE plain SET {change} WHERE {where}")
        connection.execute(f"DELETE FROM {table}")
        connection.execute(f"INSERT INTO {table} BY NAME FROM plain")
        connection.execute("DROP TABLE plain")
        parts = connection.execute(f"SELECT DISTINCT {PARTS[table]} FROM {table}").fetchall()
        seal(connection, {table: [part for (part,) in parts]})


def test_every_number_is_found_where_its_hash_was_written_again(home: Path) -> None:
    changes, looked = in_comparisons(home)
    write(home, "comparisons", changes)
    changes, more = in_verdicts(home)
    write(home, "verdicts", changes)
    said = lines(verify(Home(home)))
    assert [one for one in looked + more if not any(line.startswith(one) for line in said)] == []
    assert not [line for line in said if "written" in line]


def in_comparisons(home: Path) -> tuple[list[tuple[str, str]], list[str]]:
    """Changes of each number, in another row as far as there are rows, and of what comparisons were made with."""
    pair = "old_report = 'd/a/v1' AND new_report = 'd/b/v1' AND family = 'all fields'"
    changes, looked = [], []
    for column, type_ in relations()["comparisons"].types.items():
        other = {"DOUBLE": f'"{column}" * 0.875 + 0.0625', "BIGINT": f'"{column}" + 1'}.get(type_.split()[0])
        found = query(home, f'SELECT metric, field, slice FROM comparisons WHERE {pair} AND "{column}" IS NOT NULL')
        if not other or not found or column in ("seed", "level", "n_candidates"):
            continue
        metric, field, slice_ = found[len(changes) % len(found)]
        row = f"metric = '{metric}' AND field = '{field}' AND slice = '{slice_}'"
        changes.append((f'"{column}" = {other}', f"{pair} AND {row}"))
        looked.append(f"comparisons: d/b/v1 against d/a/v1 {metric}.{field}, {slice_}: {column} is ")
    assert len(looked) >= 18
    alone = "family = 'headlines' AND new_report = 'd/{}/v1' AND old_report = 'd/{}/v1'".format
    changes += [("seed = 8", alone("c", "a")), ("level = 0.8", alone("c", "b"))]
    changes += [("finding = 'odd'", f"{alone('a', 'b')} AND metric = 'exact_match'")]
    looked += [
        f"comparisons: d/c/v1 against d/a/v1 {GRADED}, all: p is ",
        f"comparisons: d/c/v1 against d/b/v1 {FIELD}, all: ci_low is ",
        f"comparisons: d/a/v1 against d/b/v1 {FIELD}, all: finding is odd, and ",
    ]
    return changes, looked


def in_verdicts(home: Path) -> tuple[list[tuple[str, str]], list[str]]:
    """Changes of each number in the rules of one verdict, and of everything else in others."""
    said = "SELECT created_at, rules FROM verdicts WHERE new_report = 'd/c/v1' ORDER BY created_at"
    (first, text), *_ = query(home, said)
    rules, looked, place = json.loads(text), [], "verdicts: d/c/v1 against d/a/v1"
    for rule in rules:
        for name in ("value", "low", "high", "n", "needed", "level", "n_unanswered"):
            if rule[name] is not None:
                rule[name] += 1
                looked.append(f"{place} {rule['rule']}: {name} is {rule[name]}, and ")
    assert len(looked) >= 20
    changes = [(f"rules = '{json.dumps(rules).replace(chr(39), chr(39) * 2)}'", f"created_at = '{first}'")]
    others = [
        ("c", 1, "outcome = 'FAIL'", ": outcome is FAIL, and "),
        ("c", 1, "look = 2", ": look is 2, and 1 from the scores"),
        ("c", 2, "level = 0.95", ": level is 0.95, and "),
        ("b", 1, "margin = 0.5", f" {FIELD} >= -0.05: rule is {FIELD} >= -0.05, and {FIELD} >= -0."),
        ("b", 1, "sentence = 'ship'", ": sentence is ship, and "),
        ("b", 2, "rules = json_array(rules->0)", ": policy is ['"),
        ("b", 3, "\"primary\" = 'no'", ": verdicts: primary: 'no' cannot be used; write the "),
    ]
    for new, number, change, line in others:
        moments = query(home, f"SELECT created_at FROM verdicts WHERE new_report = 'd/{new}/v1' ORDER BY 1")
        changes.append((change, f"created_at = '{moments[number][0]}'"))
        looked.append(f"verdicts: d/{new}/v1 against d/a/v1{line}")
    return changes, looked


def test_what_others_depend_on_is_said_and_what_is_gone_is_not_made_again(home: Path) -> None:
    of_two = "new_report = 'd/c/v1' AND n_candidates = 2"
    compare(Home(home), "d/a/v1", "d/b/v1", fields=[FIELD])
    write(home, "comparisons", [("p_adjusted = 0.5", of_two), ("difference = 0.5", f"{of_two} AND slice = 'all'")])
    done = verify(Home(home))
    [line] = lines(done)
    assert line.startswith(f"comparisons: d/c/v1 against d/a/v1 {FIELD}, all: difference is 0.5, and ")
    assert (done.comparisons, done.apart) == (6, 1)
    forget(Home(home), "d", sample="q003")
    done = verify(Home(home))
    assert (lines(done), done.comparisons, done.verdicts, done.outdated) == ([], 0, 0, 14)


def test_what_cannot_have_been_compared_is_found_and_ends_nothing(home: Path) -> None:
    alone = "family = 'headlines' AND new_report = 'd/{}/v1' AND old_report = 'd/{}/v1'".format
    write(home, "comparisons", [("seed = -1", alone("c", "a")), ("old_report = 'd/c/v1'", alone("c", "b"))])
    moments = "SELECT created_at FROM verdicts WHERE new_report = 'd/c/v1' ORDER BY 1"
    given = [moment for (moment,) in query(home, moments)]
    changes = [("n_candidates = 0", f"created_at = '{given[0]}'"), ("rules = '5'", f"created_at = '{given[1]}'")]
    write(home, "verdicts", [*changes, ("rules = '[{\"a\": 1}]'", f"created_at = '{given[2]}'")])
    said = lines(verify(Home(home)))
    for line in (
        "comparisons: d/c/v1 against d/b/v1: 0 rows, and 6 were written",
        "comparisons: d/c/v1 against d/a/v1: ",
        "comparisons: d/c/v1 against d/c/v1: d/c/v1: a report cannot be compared with itself",
        "verdicts: d/c/v1 against d/a/v1: look and candidates of at least 1 ",
    ):
        assert len([one for one in said if one.startswith(line)]) == 1, said
    assert said.count("verdicts: d/c/v1 against d/a/v1: its rules are no rules") == 2
    assert len(said) == 6


def test_what_earlier_versions_did_not_write_down_was_not_changed(home: Path) -> None:
    assert query(home, "SELECT count(*) > 0 FROM comparisons WHERE n_unanswered > 0") == [(True,)]
    write(home, "comparisons", [("n_unanswered = 0", "true"), ("fixed = fixed + 1", "place = 0 AND seed = 7")])
    with Home(home).warehouse.writing() as connection:
        connection.execute('UPDATE reports SET manifest = json_merge_patch(manifest, \'{"code": "another"}\')')
        seal_all(connection)
    done = verify(Home(home))
    [line] = lines(done)
    assert line.startswith(f"comparisons: d/b/v1 against d/a/v1 {FIELD}, all: fixed is ")
    assert (done.comparisons, done.verdicts, done.outdated) == (6, 0, 8)


@pytest.mark.parametrize("any_home", ["folder", pytest.param("lake", marks=pytest.mark.slow)], indirect=True)
def test_a_call_that_is_another_one_in_the_ledger_is_named(any_home: Home, tmp_path: Path) -> None:
    rows = [
        {"id": str(i), "answer": f"a {i} {'wrong' if i else ''}", "reference": f"b {i}", "release": "r"} for i in (0, 1)
    ]
    source = Source(jsonl(tmp_path / "d.jsonl", rows))
    with JudgeServer(wordy) as server:
        options = judged(server.url, run="r", ledger=any_home.ledger)
        run(any_home, source, ["meaning_match"], options=options)
    done = verify(any_home)
    assert (lines(done), done.calls) == ([], 2)
    [(call_id, run_id), (other, _)] = query(
        any_home, "SELECT call_id, run FROM judge_calls ORDER BY started_at, call_id"
    )
    with any_home.warehouse.writing() as warehouse:
        warehouse.execute("UPDATE judge_calls SET tokens_in = tokens_in + 1 WHERE call_id = ?", [call_id])
        seal(warehouse, {"judge_calls": [run_id]})
    spoil(any_home, other)
    [damaged, changed] = lines(verify(any_home))
    assert damaged == f"ledger: {run_id}: the reply to call {other} is not the one that was written"
    assert changed.startswith(f"judge_calls: {run_id} call {call_id}: tokens_in is ")


def test_calls_that_are_not_in_the_ledger_or_were_put_there_are_named(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    rows = [{"id": str(i), "answer": f"a {i} wrong", "reference": f"b {i}", "release": "r"} for i in range(5)]
    with JudgeServer(wordy) as server:
        options = judged(server.url, run="r", ledger=home.ledger)
        run(home, Source(jsonl(tmp_path / "d.jsonl", rows)), ["meaning_match"], options=options)
    calls = [call for (call,) in query(home, "SELECT call_id FROM judge_calls ORDER BY started_at, call_id")]
    [(run_id,)] = query(home, "SELECT DISTINCT run FROM judge_calls")
    file = Path(home.ledger) / "judge.sqlite"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("DELETE FROM calls WHERE call_id IN (?, ?)", calls[:2])
        connection.execute("CREATE TEMP TABLE forged AS SELECT * FROM calls WHERE call_id = ?", calls[2:3])
        connection.execute("UPDATE forged SET call_id = 'forged', reply = 'yes', checksum = NULL")
        connection.execute("INSERT INTO calls SELECT * FROM forged")
    assert lines(verify(home)) == [
        f"ledger: {run_id}: 2 of its {len(calls)} calls are missing",
        f"ledger: {run_id}: call forged has a second reply to a request that had one",
    ]
    for part in Path(home.ledger).glob("judge*"):
        part.rename(tmp_path / part.name)
    done = verify(home)
    assert (lines(done), done.calls, done.uncompared) == ([], 0, len(calls))


def spoil(home: Home, call_id: str) -> None:
    """Change a reply in the ledger itself."""
    if home.shared:
        with psycopg.connect(home.ledger.removeprefix("postgresql:")) as database:
            database.execute("UPDATE answerkey_calls SET reply = 'other' WHERE call_id = %s", [call_id])
        return
    with closing(sqlite3.connect(Path(home.ledger) / "judge.sqlite")) as connection, connection:
        connection.execute("UPDATE calls SET reply = 'other' WHERE call_id = ?", [call_id])
