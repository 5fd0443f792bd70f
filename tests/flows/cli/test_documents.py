"""Whatever stands in a document of the user's, a command ends with a verdict or with a line and exit code 2."""

from datetime import date, datetime

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from answerkey.flows.cli.main import main
from answerkey.tasks.load.load import Source
from tests.tasks.staging_help import jsonl, run

VERDICTS = {0, 1, 3, 4}
FIELD = "exact_match.match"
POLICY = {"primary": FIELD, "margin": 0.1, "labels": "random", "judge_bias": 0.0, "rules": []}
RUBRIC = {"name": "r", "version": 1, "summary": "s", "inputs": ["answer"], "criterion": "c", "scale": "yes/no"}
RUBRIC |= {"field": "score", "steps": ["a"], "examples": [{"answer": "a", "verdict": "yes", "reason": "r"}]}
RULE = {"name": "r", "source": "gone.jsonl", "metric": "exact_match", "id": "id", "time": "t", "enabled": True}
RULE |= {"where": "a = 1", "sampling": 0.5, "start": "2026-01-01", "late_days": 3, "options": {}, "dataset": "d"}
RULE |= {"mapping": {"answer": "a", "key": "id"}, "judge": "offline"}
EXPECTATION = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "answer"}, "severity": "warning"}
EXPECTATION |= {"meta": {}, "description": "d"}
CONFIG = {
    "data": ["answers", "columns", "dataset", "release", "references", "slices", "wide", "encoding"],
    "scoring": ["metrics", "own_metrics", "threshold", "models"],
    "judging": ["judges", "max_cost_usd", "max_calls", "repeats", "timeout_s", "concurrency", "price"],
    "limits": ["max_quarantined", "min_coverage", "max_parallel"],
}

NUMBERS = st.one_of(
    st.sampled_from([0, -1, 1e-320, 1e300, 10**30, 2**63, float("nan"), float("inf")]), st.integers(), st.floats()
)
VALUES = st.one_of(
    NUMBERS,
    st.text(max_size=20),
    st.booleans(),
    st.none(),
    st.sampled_from([date(2020, 1, 1), datetime(2020, 1, 1), b"\x00", [], {}, [None], {"a": 1}, "1e999", "5%"]),
    st.lists(NUMBERS, max_size=2),
)
BOUNDED = settings(max_examples=6, suppress_health_check=list(HealthCheck), derandomize=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with answers of two releases, and a home with their reports."""
    made = tmp_path_factory.mktemp("documents")
    rows = [
        {"id": f"q{n}", "release": release, "question": "Q?", "answer": "Paris", "reference": "Paris"}
        for n in range(6)
        for release in ("old", "new")
    ]
    run(made / "home", Source(jsonl(made / "answers.jsonl", rows)), ("exact_match",))
    return made


@pytest.fixture
def code_of(folder, monkeypatch, capsys):
    """Return what a command ends with, that has a document; its words name it DOCUMENT."""
    monkeypatch.setenv("ANSWERKEY_HOME", str(folder / "home"))
    monkeypatch.chdir(folder)

    def code(words, document):
        file = folder / "document.yaml"
        file.write_text(yaml.safe_dump(document, allow_unicode=True))
        capsys.readouterr()
        exit_code = main([str(file) if word == "DOCUMENT" else word for word in words.split()])
        assert "Traceback" not in capsys.readouterr().err
        return exit_code

    return code


@BOUNDED
@example(key="margin", value=1e-320)
@given(key=st.sampled_from(list(POLICY)), value=VALUES)
def test_a_policy(code_of, key, value):
    assert code_of("gate old new --policy DOCUMENT", {**POLICY, key: value}) in VERDICTS | {2}


@BOUNDED
@example(key="name", value=date(2020, 1, 1))
@example(key="scale", value=datetime(2020, 1, 1))
@given(key=st.sampled_from(list(RUBRIC)), value=VALUES)
def test_a_rubric(code_of, key, value):
    words = "evaluate answers.jsonl --metrics DOCUMENT --judge openai/m@http://127.0.0.1:9/v1 --dry-run --quiet"

    assert code_of(words, {**RUBRIC, key: value}) in (0, 2)


@BOUNDED
@given(key=st.sampled_from(list(RULE)), value=VALUES)
def test_a_rule_over_traces(code_of, key, value):
    assert code_of("score-traces DOCUMENT --dry-run --quiet", {**RULE, key: value}) in (0, 2)


@BOUNDED
@given(key=st.sampled_from(list(EXPECTATION)), value=VALUES)
def test_a_suite(code_of, key, value):
    words = "evaluate answers.jsonl --metrics exact_match --dry-run --quiet --expectations DOCUMENT"

    assert code_of(words, {"expectations": [{**EXPECTATION, key: value}]}) == 2


@BOUNDED
@example(place=("scoring", "own_metrics"), value=1)
@given(place=st.sampled_from([(form, key) for form, keys in CONFIG.items() for key in keys]), value=VALUES)
def test_a_configuration(code_of, place, value):
    form, key = place
    content = {"data": {"answers": "answers.jsonl"}, "scoring": {"metrics": ["exact_match"]}}
    content[form] = {**content.get(form, {}), key: value}

    # None of its metrics asks a judge, so a dry run is refused after everything was read
    assert code_of("evaluate --config DOCUMENT --dry-run --quiet", content) == 2
