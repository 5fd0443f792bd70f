"""Registered releases: committed without scores, evaluated once, claimed by one run, and exported."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.tasks.load.load import Source, load
from answerkey.tasks.releases.export import stored_references
from answerkey.tasks.releases.register import (
    claimed,
    pending,
    registration_named,
    stored_source,
)
from answerkey.tasks.validate.contract import Contract
from answerkey.tasks.warehouse.home import Home
from tests.judge_server import JudgeServer
from tests.tasks.staging_help import jsonl, query, refusal, registered, rows_of, run, stored

QUESTIONS = [
    {"id": "q1", "question": "Capital of France?", "reference": "Paris", "lang": "en"},
    {"id": "q2", "question": "Столица России?", "reference": ["Москва", "Moscow"], "lang": "ru"},
]
ANSWERS = [{"id": "q1", "answer": "Paris"}, {"id": "q2", "answer": None}]
UNUSED = Contract(references="unused")


@pytest.fixture
def source(tmp_path):
    answers, references = jsonl(tmp_path / "new.jsonl", ANSWERS), jsonl(tmp_path / "faq.jsonl", QUESTIONS)
    return Source(answers, references, "faq", "gpt-5", slices=("lang",))


@pytest.fixture
def export(tmp_path):
    """An export of LangSmith, whose rows have no ids."""
    right = {"outputs": {"answer": "Paris"}, "reference_outputs": {"answer": "Paris"}}
    rows = [{"inputs": {"question": question["question"]}, **right} for question in QUESTIONS]
    return Source(jsonl(tmp_path / "runs.jsonl", rows), dataset="faq", release="gpt-5", format="langsmith")


def source_of(home, registration):
    return stored_source(home, registration, home.scratch / registration.registration)


def evaluated(home, registration, **how):
    return run(home, source_of(home, registration), ["contains"], **how)


def test_what_is_kept_outlives_its_sources(source, home):
    registration = registered(home, source)
    Path(source.answers).unlink()
    Path(source.references).unlink()
    assert evaluated(home, registration).ids == ["faq/gpt-5/v1"]
    assert (registration.name, registration.report_id, registration.source) == ("faq/gpt-5", None, source.answers)
    assert query(home, "SELECT sample_id, slices['lang'] FROM answers ORDER BY ALL") == [("q1", "en"), ("q2", "ru")]
    # The evaluation is of what was registered, and not of a copy of it.
    about = query(home, "SELECT dataset_version, answers_version FROM reports")
    assert about == [(registration.dataset_version, registration.answers_version)]
    assert query(home, "SELECT count(*) FROM answers") == [(2,)]


def test_the_same_again_changes_nothing_and_other_answers_are_another_registration(source, home, tmp_path):
    first = registered(home, source)
    assert registered(home, replace(source, answers=jsonl(tmp_path / "copy.jsonl", ANSWERS))) == first
    changed = jsonl(tmp_path / "changed.jsonl", [{"id": "q1", "answer": "Lyon"}])
    second = registered(home, replace(source, answers=changed))
    assert second.registration != first.registration

    # The older answers would become the newest report of the release.
    assert pending(home) == [second] == [registration_named(home, "faq/gpt-5")]
    with claimed(home, first.address) as left_out:
        assert left_out == (
            [], f"faq/gpt-5: {first.registration} is left out, since the release has newer answers"
        )  # fmt: skip


@pytest.mark.nightly
def test_an_export_is_kept_as_its_format_or_the_chosen_one_reads_it(export, home, tmp_path):
    registration = registered(home, export)
    assert registered(home, replace(export, format="")) == registration
    # The ids that its questions give are kept.
    rows = query(home, "SELECT sample_id, answer FROM answers ORDER BY ALL")
    ids = sorted(row["sample_id"] for row in rows_of(load(export, tmp_path / "work").staged))
    assert rows == [(sample_id, "Paris") for sample_id in ids] and None not in ids
    assert evaluated(home, registration).ids == ["faq/gpt-5/v1"]


def test_references_come_from_the_newest_version_of_the_data_set(source, home, tmp_path):
    evaluated(home, registered(home, source))
    alone = jsonl(tmp_path / "six.jsonl", [{"id": "q2", "answer": "Москва", "release": "gpt-6"}])
    evaluated(home, registered(home, Source(alone, None, "faq", "gpt-6")))
    assert query(home, "SELECT count(*), count(DISTINCT version) FROM datasets") == [(1, 1)]
    assert query(home, "SELECT \"value\" FROM scores WHERE report_id = 'faq/gpt-6/v1'") == [(1.0,)]
    assert query(home, "SELECT slices['lang'] FROM answers WHERE release = 'gpt-6'") == [("ru",)]


SEVERAL = [{"id": "q1", "answer": "a", "release": name} for name in ("old", "new")]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"release": " "}, "a registered release needs a name"),
        ({"dataset": "a/b"}, "--dataset 'a/b': use letters"),
        ({"slices": ("topic",)}, "no column 'topic' (for a slice or a metric)"),
        (
            {"references": None, "slices": (), "paths": {"id": "answer", "answer": "answer"}},
            "50 % of the rows (1 of 2) are in quarantine",
        ),
        ({"format": "promptfoo"}, "new.jsonl: this is not promptfoo results; leave --format out"),
        ({"references": [{"id": "q1", "question": "Why?"}]}, "bare.jsonl: no column for references"),
        (
            {"answers": SEVERAL},
            "bare.jsonl: these are answers of several releases (new, old); give each a file",
        ),
    ],
)
def test_what_could_not_be_evaluated_is_refused_and_leaves_nothing(source, home, tmp_path, change, message):
    file = tmp_path / "bare.jsonl"
    files = {name: jsonl(file, rows) for name, rows in change.items() if isinstance(rows, list)}
    assert message in refusal(lambda: registered(home, replace(source, **change | files)))
    assert pending(home) == []
    if home.warehouse.exists():
        assert query(home, "SELECT count(*) FROM answers") == [(0,)]


def test_answers_without_references_are_kept_for_metrics_that_need_none(home, tmp_path, caplog):
    answers = jsonl(tmp_path / "new.jsonl", [{"id": "q1", "question": "Capital of France?", "answer": "Paris."}])
    registration = registered(home, Source(answers, None, "faq", "gpt-5"))
    assert "registered without references, for metrics that need none: " in caplog.text
    assert "no column for references was recognised among" in caplog.text
    with pytest.raises(AssertionError, match=r"1 row .*without a reference"):
        evaluated(home, registration)
    with JudgeServer(lambda _body: '{"reason": "so", "verdict": "yes"}') as server:
        options = {"judge": JudgeOptions(judges=(f"openai/m@{server.url}",), check="never")}
        kept = replace(source_of(home, registration), needs_references=False)
        run(home, kept, ["politeness"], contract=UNUSED, options=options)
    assert query(home, "SELECT release, metric, value FROM scores") == [("gpt-5", "politeness", 1.0)]


CLAIM = """
import sys
from pathlib import Path
from answerkey.tasks.releases.register import Home, claimed

with claimed(Home(Path(sys.argv[1])), sys.argv[2]) as claim:
    print(claim, flush=True)
    sys.stdin.read()
"""


@pytest.mark.real
def test_one_process_at_a_time_has_a_registration(source, home):
    registration = registered(home, source)
    command = [sys.executable, "-c", CLAIM, str(home.local), registration.address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "([], '')\n"
        with claimed(home, registration.address) as claim:
            assert claim == ([], "faq/gpt-5: another run is evaluating it")
        # The claim ends with the run, however the run ends.
        other.kill()
    with claimed(home, registration.address) as claim:
        assert claim == ([], "")


def test_a_report_that_a_killed_run_made_counts(source, home):
    registration = registered(home, source)
    evaluated(home, registration, parameters={"data": {"answers": registration.address}})
    with claimed(home, registration.address) as claim:
        assert claim == (["faq/gpt-5/v1"], "nothing new: faq/gpt-5 has the report faq/gpt-5/v1")
    assert pending(home) == []
    assert refusal(registration_named, home, "gpt-7").startswith("gpt-7: no such registered release")


def test_rows_in_quarantine_are_kept_with_the_run_that_registered_them(source, home, tmp_path):
    rows = [{"id": f"q{i}", "answer": str(i)} for i in range(1, 9)] + [{"id": None, "answer": "whose?"}]
    registration = registered(home, replace(source, answers=jsonl(tmp_path / "nine.jsonl", rows)))
    assert query(home, 'SELECT "row", rule FROM quarantine') == [(9, "id_present")]
    assert query(home, "SELECT count(*) FROM validations WHERE NOT success AND rule = 'id_present'") == [(1,)]
    [release] = evaluated(home, registration, contract=UNUSED).committed.releases
    assert (release.n_rows, release.answers_version) == (8, registration.answers_version)


# What the warehouse holds can be loaded again: the same data set, answers and sample keys.


VERSIONS = (
    "SELECT dataset_version, json_extract_string(manifest, '$.answers_version') FROM reports "
    "WHERE release = 'new' ORDER BY version"
)
ROWS = [
    {"id": "2", "release": "new", "question": "Сколько?", "answer": "-5", "reference": ["-5", "−5"], "ok": "yes"},
    {"id": "10", "release": "new", "question": None, "answer": None, "reference": "[1, 2]", "ok": None},
    {"id": "2", "release": "old", "question": "Сколько?", "answer": "5", "reference": ["-5", "−5"], "ok": "no"},
    {"id": "3", "release": "old", "question": "Who?", "answer": "x", "reference": "A \"quoted\" name", "ok": "no"},
]  # fmt: skip


def test_a_report_of_one_file(tmp_path):
    home = tmp_path / "home"
    rows = [
        {
            **row,
            "_sample": "a column",
            "topic": row["id"],
            "facts": ["a", "b"],
            "cluster": "c",
            "incorrect_references": ["w"],
        }
        for row in ROWS
    ]
    source = Source(jsonl(tmp_path / "d.jsonl", rows), dataset="d", paths={"label": "ok"}, slices=("topic",))
    run(home, source, ["contains", "rouge_l"])
    before = query(home, "SELECT count(*) FROM measurements")
    repeated = run(home, stored(home, "d/new/v1", tmp_path / "out"), ["contains", "rouge_l"])
    assert repeated.ids == ["d/new/v2"]
    [first, second] = query(home, VERSIONS)
    assert first == second
    # Nothing is new: not a data set version, not an answer, not a measurement.
    assert query(home, "SELECT count(*) FROM datasets") == [(1,)]
    assert query(home, "SELECT count(*) FROM answers") == [(4,)]
    assert query(home, "SELECT DISTINCT incorrect_references FROM report_answers") == [(["w"],)]
    assert query(home, "SELECT count(*) FROM measurements") == before
    same = "SELECT sample_id, metric, field, \"value\" FROM scores WHERE report_id = '{}' ORDER BY ALL"
    assert query(home, same.format("d/new/v1")) == query(home, same.format("d/new/v2"))


@pytest.mark.parametrize("asked_in", ["references", "answers"])
def test_a_report_with_references_of_their_own(tmp_path, asked_in):
    """Where the questions stand decides on the version, and so does a sample without an answer."""
    home = tmp_path / "home"
    references = [{"id": str(i), "reference": f"r {i}"} for i in range(3)]
    answers = [{"id": str(i), "answer": f"a {i}", "release": "new"} for i in range(2)]
    for row in references if asked_in == "references" else answers:
        row["question"] = f"q {row['id']}"
    source = Source(jsonl(tmp_path / "a.jsonl", answers), jsonl(tmp_path / "r.jsonl", references), "d")
    run(home, source)
    run(home, stored(home, "d/new/v1", tmp_path / "out"))
    [first, second] = query(home, VERSIONS)
    assert first == second
    assert query(home, "SELECT count(*) FROM samples") == [(3,)]
    assert query(home, "SELECT count(*) FROM measurements") == [(2,)]


def test_only_what_is_there_is_written(tmp_path):
    home = tmp_path / "home"
    run(home, Source(jsonl(tmp_path / "d.jsonl", ROWS[:1]), dataset="d"))
    assert "d/old/v1: no such report" in refusal(stored, home, "d/old/v1", tmp_path / "out")
    assert stored_references(Home(home), "other", tmp_path / "out" / "r.jsonl") is None
