"""Registered releases: committed without scores, evaluated once, claimed by one run at a time."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.tasks.load.load import Source, load
from answerkey.tasks.releases.register import (
    claimed,
    note_attempt,
    pending,
    registered_source,
    registrations,
)
from answerkey.tasks.validate.contract import Contract
from answerkey.tasks.warehouse.home import Home
from tests.judge_server import JudgeServer
from tests.tasks.staging_help import jsonl, query, registered, rows_of, run

QUESTIONS = [
    {"id": "q1", "question": "Capital of France?", "reference": "Paris", "lang": "en"},
    {"id": "q2", "question": "Столица России?", "reference": ["Москва", "Moscow"], "lang": "ru"},
]
ANSWERS = [{"id": "q1", "answer": "Paris"}, {"id": "q2", "answer": None}]


@pytest.fixture
def source(tmp_path):
    answers = jsonl(tmp_path / "new.jsonl", ANSWERS)
    references = jsonl(tmp_path / "faq.jsonl", QUESTIONS)
    return Source(answers, references, "faq", "gpt-5", slices=("lang",))


def source_of(home, registration):
    return registered_source(home, registration, home.scratch / registration.registration)


def test_what_is_kept_outlives_its_sources(source, tmp_path):
    home = tmp_path / "home"
    made = registered(Home(home), source)
    Path(source.answers).unlink()
    Path(source.references or "").unlink()
    done = run(home, source_of(Home(home), made), ["contains"])
    assert done.ids == ["faq/gpt-5/v1"]
    assert (made.name, made.report_id, made.attempts, made.source) == ("faq/gpt-5", None, 0, source.answers)
    assert query(home, "SELECT sample_id, slices['lang'] FROM answers ORDER BY ALL") == [("q1", "en"), ("q2", "ru")]
    # The evaluation is of what was registered, and not of a copy of it.
    about = query(home, "SELECT dataset_version, answers_version FROM reports")
    assert about == [(made.dataset_version, made.answers_version)]
    assert query(home, "SELECT count(*) FROM answers") == [(2,)]


def test_the_same_again_changes_nothing_and_other_answers_are_another_registration(source, tmp_path):
    home = tmp_path / "home"
    first = registered(Home(home), source)
    other_place = jsonl(tmp_path / "copy.jsonl", ANSWERS)
    assert registered(Home(home), Source(other_place, source.references, "faq", "gpt-5", slices=("lang",))) == first
    changed = jsonl(tmp_path / "changed.jsonl", [{"id": "q1", "answer": "Lyon"}])
    second = registered(Home(home), Source(changed, source.references, "faq", "gpt-5", slices=("lang",)))
    assert second.registration != first.registration
    # The older answers, which would become the newest report of the release, are evaluated only by their own name.
    assert [one.registration for one in pending(Home(home))] == [second.registration]
    assert [one.registration for one in pending(Home(home), first.registration)] == [first.registration]
    note_attempt(Home(home), first, report_id="faq/gpt-5/v1", message=None)
    assert [one.registration for one in pending(Home(home), "faq/gpt-5")] == [second.registration]
    assert {one.report_id for one in registrations(Home(home))} == {"faq/gpt-5/v1", None}


def test_an_export_is_kept_as_its_format_or_the_chosen_one_reads_it(tmp_path):
    home = Home(tmp_path / "home")
    said = {"outputs": {"answer": "Paris"}, "reference_outputs": {"answer": "Paris"}}
    rows = [{"id": one["id"], "inputs": {"question": one["question"]}, **said} for one in QUESTIONS]
    given = Source(jsonl(tmp_path / "runs.jsonl", rows), dataset="faq", release="gpt-5")
    made = registered(home, given)
    assert registered(home, replace(given, format="langsmith")) == made
    assert run(home, source_of(home, made), ["contains"]).ids == ["faq/gpt-5/v1"]
    assert query(tmp_path / "home", "SELECT sample_id, answer FROM answers ORDER BY ALL") == [
        ("q1", "Paris"),
        ("q2", "Paris"),
    ]
    with pytest.raises(UserError, match=r"runs\.jsonl: this is not promptfoo results; leave --format out"):
        registered(home, replace(given, format="promptfoo"))
    with pytest.raises(UserError) as error:
        registered(home, replace(given, slices=("topic",)))
    assert str(error.value).startswith(f"{tmp_path / 'runs.jsonl'}: no column 'topic' (for slice)")


def test_an_export_without_ids_has_those_that_its_questions_give(tmp_path):
    home = Home(tmp_path / "home")
    rows = [{"inputs": {"question": one["question"]}, "outputs": {"answer": "Paris"}} for one in QUESTIONS]
    rows = [{**row, "reference_outputs": {"answer": "Paris"}} for row in rows]
    given = Source(jsonl(tmp_path / "runs.jsonl", rows), dataset="faq", release="gpt-5", format="langsmith")
    loaded = load(given, tmp_path / "work")
    kept = load(source_of(home, registered(home, given)), tmp_path / "kept")
    ids = [row["sample_id"] for row in rows_of(loaded.staged)]
    assert None not in ids
    assert [row["sample_id"] for row in rows_of(kept.staged)] == ids


def test_rows_that_were_tried_least_come_first(source, tmp_path):
    home = tmp_path / "home"
    broken = registered(Home(home), source)
    note_attempt(Home(home), broken, report_id=None, message="UserError: no")
    fresh = registered(Home(home), Source(source.answers, source.references, "faq", "gpt-6"))
    assert [one.release for one in pending(Home(home), limit=1)] == [fresh.release]
    assert [(one.release, one.attempts, one.message) for one in pending(Home(home))] == [
        ("gpt-6", 0, None),
        ("gpt-5", 1, "UserError: no"),
    ]


def test_references_come_from_the_newest_version_of_the_data_set(source, tmp_path):
    home = tmp_path / "home"
    run(home, source_of(Home(home), registered(Home(home), source)), ["contains"])
    alone = jsonl(tmp_path / "six.jsonl", [{"id": "q2", "answer": "Москва", "release": "gpt-6"}])
    made = registered(Home(home), Source(alone, None, "faq", "gpt-6"))
    run(home, source_of(Home(home), made), ["contains"])
    assert query(home, "SELECT count(*), count(DISTINCT version) FROM datasets") == [(1, 1)]
    assert query(home, "SELECT \"value\" FROM scores WHERE report_id = 'faq/gpt-6/v1'") == [(1.0,)]
    assert query(home, "SELECT slices['lang'] FROM answers WHERE release = 'gpt-6'") == [("ru",)]


def test_a_table_is_kept_as_it_was(source, tmp_path):
    file = tmp_path / "log.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE TABLE answers AS SELECT 'q1' AS id, 'Paris' AS answer")
    made = registered(Home(tmp_path / "home"), Source(f"{file}::answers", source.references, "faq", "gpt-5"))
    with duckdb.connect(str(file)) as connection:
        connection.execute("UPDATE answers SET answer = 'Lyon'")
    assert query(tmp_path / "home", "SELECT answer FROM answers") == [("Paris",)]
    assert made.source == f"{file}::answers"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"release": " "}, "a registered release needs a name"),
        ({"dataset": "a/b"}, "--dataset 'a/b': use letters"),
        ({"slices": ("topic",)}, "no column 'topic' (for slice)"),
        (
            {"references": None, "slices": (), "paths": {"id": "answer", "answer": "answer"}},
            "50 % of the rows (1 of 2) are in quarantine",
        ),
    ],
)
def test_what_could_not_be_evaluated_is_refused_and_leaves_nothing(source, tmp_path, change, message):
    with pytest.raises(UserError) as caught:
        registered(Home(tmp_path / "home"), replace(source, **change))
    assert message in str(caught.value)
    assert pending(Home(tmp_path / "home")) == []
    if (tmp_path / "home" / "answerkey.duckdb").exists():
        assert query(tmp_path / "home", "SELECT count(*) FROM answers") == [(0,)]


def test_answers_without_references_are_kept_for_metrics_that_need_none(tmp_path, caplog):
    home = Home(tmp_path / "home")
    answers = jsonl(tmp_path / "new.jsonl", [{"id": "q1", "question": "Capital of France?", "answer": "Paris."}])
    made = registered(home, Source(answers, None, "faq", "gpt-5"))
    assert "registered without references, for metrics that need none: " in caplog.text
    assert "no column for references was recognised among" in caplog.text
    kept = source_of(home, made)
    with pytest.raises(AssertionError, match=r"1 row .*without a reference"):
        run(home, kept, ["contains"])
    with JudgeServer(lambda _body: '{"reason": "so", "verdict": "yes"}') as server:
        judge = JudgeOptions(judges=(f"openai/m@{server.url}",), probes="never")
        unused = Contract(references="unused")
        run(home, replace(kept, needs_references=False), ["politeness"], contract=unused, options={"judge": judge})
    assert query(tmp_path / "home", "SELECT release, metric, value FROM scores") == [("gpt-5", "politeness", 1.0)]


def test_references_of_a_file_that_lacks_them_are_refused(source, tmp_path):
    bare = jsonl(tmp_path / "bare.jsonl", [{"id": "q1", "question": "Capital of France?"}])
    with pytest.raises(UserError, match=r"bare\.jsonl: no column for references"):
        registered(Home(tmp_path / "home"), replace(source, references=bare))


def test_answers_of_several_releases_are_refused(source, tmp_path):
    rows = [{"id": "q1", "answer": "a", "release": name} for name in ("old", "new")]
    both = jsonl(tmp_path / "both.jsonl", rows)
    with pytest.raises(UserError, match=r"several releases \(new, old\); give each a file of its own"):
        registered(Home(tmp_path / "home"), Source(both, source.references, "faq", "gpt-5"))


def test_one_process_at_a_time_has_a_registration(source, tmp_path):
    home = tmp_path / "home"
    made = registered(Home(home), source)
    script = (
        "import sys, time; from pathlib import Path; from answerkey.tasks.releases.register import *\n"
        "home = Home(Path(sys.argv[1]))\n"
        "with claimed(home, registrations(home)[0]) as mine:\n"
        "    print(mine is not None, flush=True); time.sleep(250)"
    )
    other = subprocess.Popen([sys.executable, "-c", script, str(home)], stdout=subprocess.PIPE, text=True)
    assert other.stdout
    assert other.stdout.readline() == "True\n"
    with claimed(Home(home), made) as mine:
        assert mine is None
    # The claim ends with the run, however the run ends.
    other.kill()
    other.communicate()
    with claimed(Home(home), made) as mine:
        assert mine == made


def test_a_report_that_a_killed_run_made_counts(source, tmp_path):
    home = tmp_path / "home"
    made = registered(Home(home), source)
    kept = source_of(Home(home), made)
    run(home, kept, ["contains"], parameters={"data": {"answers": made.address}})
    with claimed(Home(home), made) as mine:
        assert mine is not None
        assert mine.report_id == "faq/gpt-5/v1"
    assert pending(Home(home)) == []


def test_an_unknown_name_is_refused(source, tmp_path):
    registered(Home(tmp_path / "home"), source)
    with pytest.raises(UserError, match=r"gpt-7: no such registered release"):
        pending(Home(tmp_path / "home"), "gpt-7")


def test_rows_in_quarantine_are_kept_with_the_run_that_registered_them(source, tmp_path):
    home = tmp_path / "home"
    rows = [{"id": f"q{i}", "answer": str(i)} for i in range(1, 9)] + [{"id": None, "answer": "whose?"}]
    made = registered(home, replace(source, answers=jsonl(tmp_path / "nine.jsonl", rows)))
    assert query(home, 'SELECT "row", rule FROM quarantine') == [(9, "id_present")]
    assert query(home, "SELECT count(*) FROM validations WHERE NOT success AND rule = 'id_present'") == [(1,)]
    done = run(home, source_of(Home(home), made), ["contains"], contract=Contract(references="unused"))
    assert (done.committed.releases[0].n_rows, done.committed.releases[0].answers_version) == (8, made.answers_version)
