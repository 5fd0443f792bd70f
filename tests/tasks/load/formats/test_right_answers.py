"""Right answers of other tools that are assertions, templates or read by several filters."""

import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.load import Source, load
from tests.tasks.staging_help import jsonl, rows_of, stage


def result(assertion, rendered=None, variables=None):
    """A row of promptfoo's results, with what it made of the assertion where that is in the file."""
    component = {"assertion": assertion, "metadata": {"renderedAssertionValue": rendered} if rendered else {}}
    return {
        "promptIdx": 0, "testIdx": 0, "provider": {"id": "p"}, "prompt": {"raw": "?"},
        "vars": {"q": "?", **(variables or {})},
        "response": {"output": "Bern"}, "testCase": {"assert": [assertion]},
        "gradingResult": {"componentResults": [component]},
    }  # fmt: skip


TEMPLATE = "the right answer {!r} is not in the file"
FILE = "file:/" + "/a.txt"
ASSERTED = [
    (result({"type": "equals", "value": "{{ x | upper }}"}, "BERN"), ["BERN"]),
    (result({"type": "contains", "value": FILE}, "Bern"), ["Bern"]),
    (result({"type": "similar", "value": "{{x}}"}, "Berne", {"x": FILE}), ["Berne"]),
    (result({"type": "equals", "value": "{{x}}!"}, None, {"x": "Bern"}), ["Bern!"]),
    (result({"type": "contains-any", "value": "Bern, Berne"}), ["Bern", "Berne"]),
    (result({"type": "equals", "value": "{{ x | trim }}"}, None, {"x": "Bern"}), TEMPLATE.format("{{ x | trim }}")),
    (result({"type": "equals", "value": FILE}), TEMPLATE.format(FILE)),
    (result({"type": "is-json"}, None, {"expected": FILE}), TEMPLATE.format(FILE)),
    (result({"type": "icontains", "value": "{% if a %}b"}), TEMPLATE.format("{% if a %}b")),
]


@pytest.mark.parametrize(("row", "expected"), ASSERTED)
def test_the_right_answers_of_promptfoo_are_what_it_compared_with(tmp_path, row, expected):
    loaded = stage(tmp_path, [result({"type": "equals", "value": "good"}), row])
    if isinstance(expected, str):
        [refused] = rows_of(loaded.rejects)
        assert expected in refused["reason"]
    else:
        assert rows_of(loaded.staged)[1]["references"] == expected


CELLS = [
    ("icontains: Paris", ["Paris"]), ("contains:a:b", ["a:b"]), ("equals: Rome", ["Rome"]), ("starts-with: Mr", ["Mr"]),
    ("levenshtein(5): Praga", ["Praga"]), ("similar:cosine(0.8): Oslo", ["Oslo"]), ("rouge-n(0.5): Ulm", ["Ulm"]),
    ("icontains-any: red, blue", ["red", "blue"]), ("contains-all: red, blue", []), ("not-contains: red", []),
    ("llm-rubric: is polite", []), ("grade: is polite", []), ("regex: ^a+$", []), ("is-json", []), ("cost(0.01)", []),
    ("javascript: output.length > 3", []), ("python: len(output) > 3", []),
    ("Madrid", ["Madrid"]), ("python", ["python"]),
    ("note: see above", ["note: see above"]), ("12:30", ["12:30"]), ("https://example.com", ["https://example.com"]),
]  # fmt: skip


def test_the_prefix_of_an_expected_value_of_promptfoo_is_no_part_of_it(tmp_path):
    rows = [{"question": f"q {n}", "answer": "x", "__expected": cell} for n, (cell, _) in enumerate(CELLS)]
    found = [row["references"] for row in rows_of(stage(tmp_path, rows, release="r").staged)]
    assert found == [expected for _, expected in CELLS]


@pytest.mark.parametrize("head", ["question,answer", "question,[p] hi"])
def test_several_expected_values_in_a_table_of_promptfoo(tmp_path, head):
    variables, output = head.split(",")
    cell = "[PASS] x" if "[" in output else "x"
    file = tmp_path / "a.csv"
    file.write_text(
        f"{variables},__expected1,__expected2,{output}\nq 1,icontains: a,llm-rubric: kind,{cell}\n"
        f"q 2,b,equals: c,{cell}\nq 3,{FILE},b,{cell}\n"
    )
    loaded = load(Source(str(file), release="r"), tmp_path / "work")
    assert [row["references"] for row in rows_of(loaded.staged)] == [["a"], ["b", "c"]]
    assert [TEMPLATE.format(FILE) in row["reason"] for row in rows_of(loaded.rejects)] == [True]


def filtered(*filters):
    """Samples of lm-evaluation-harness, of outputs that each filter reads; all of one filter come first."""
    sample = {"doc": {"question": "q"}, "target": "7", "filtered_resps": ["7"], "metrics": ["exact_match"]}
    return [
        {**sample, "doc_id": n, "filter": name, "exact_match": float(n < n_right)}
        for name, n_right in filters
        for n in range(150)
    ]


@pytest.mark.parametrize(
    ("filters", "releases"),
    [
        ([("strict", 50), ("flexible", 100)], {"m strict": 50, "m flexible": 100}),
        ([("none", 50)], {"m": 50}),
        ([("none", 50), ("first", 75), ("last", 100)], {"m none": 50, "m first": 75, "m last": 100}),
    ],
)
def test_filters_of_lm_eval_are_no_attempts(tmp_path, filters, releases):
    loaded = stage(tmp_path, filtered(*filters), release="m")
    right = dict.fromkeys(releases, 0.0)
    for row in rows_of(loaded.staged):
        assert row["repeat"] == "1"
        right[row["release"]] += dict(row["given"])["lm_eval.exact_match"]
    assert right == releases
    assert any("read the same outputs: each is a release" in note for note in loaded.notes) == (len(filters) > 1)


def trace(*expectations, run="run-1"):
    """A trace of MLflow, as `search_traces` gives it, with what people expect."""
    assessments = [{"assessment_name": name, "expectation": value} for name, value in expectations]
    metadata = {"mlflow.sourceRun": run} if run else {}
    columns = {"trace_id": "t", "request": {"question": "q"}, "response": "a", "trace_metadata": metadata}
    return {**columns, "assessments": [{"assessment_name": "tone", "feedback": {"value": 1}}, *assessments]}


def serialized(text):
    return {"serialized_value": {"serialization_format": "JSON_FORMAT", "value": text}}


EXPECTED = [
    (("expected_response", {"value": "r"}), ["r"]),
    (("expected_response", serialized('["r", "s"]')), ["r", "s"]),
    (("expected_response", serialized('{"answer": "r"}')), ["r"]),
    (("ground_truth", serialized('["r"]')), ["r"]),
    (("expected_response", {"value": 7}), ["7"]),
]


@pytest.mark.parametrize(("expectation", "references"), EXPECTED)
def test_expectations_of_mlflow_are_right_answers_of_their_run(tmp_path, expectation, references):
    comment = ("guidelines", {"value": "be brief"})
    traces = [trace(comment, expectation, run=run) for run in ("run-1", "run-2")]

    rows = rows_of(stage(tmp_path, traces).staged)

    assert [row["references"] for row in rows] == [references, references]
    assert [row["release"] for row in rows] == ["run-1", "run-2"]


def test_an_expectation_of_mlflow_that_is_no_json_refuses_its_row_only(tmp_path):
    broken = trace(("expected_response", serialized("[")))
    loaded = stage(tmp_path, [trace(("expected_response", {"value": "r"})), broken])
    assert [len(rows_of(file)) for file in (loaded.staged, loaded.rejects)] == [1, 1]


CHAT = {
    "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}],
    "metadata": {"gold": {"text": "g"}, "number": "n1"},
}
LOGGED = {
    "id": "t1", "input": "q", "output": "a", "timestamp": "2026-01-01T00:00:00Z", "projectId": "p", "sessionId": "s",
    "expectedOutput": "r", "metadata": {"gold": {"text": "g"}},
}  # fmt: skip


@pytest.mark.parametrize(
    ("record", "paths", "read"),
    [
        (CHAT, {"references": "metadata.gold.text", "id": "metadata.number"}, ("n1", "q", "a", ["g"])),
        (LOGGED, {"references": "metadata.gold.text"}, ("t1", "q", "a", ["g"])),
        (LOGGED, {"answer": "metadata.gold.text"}, ("t1", "q", "g", ["r"])),
        (LOGGED, {"id": "sessionId"}, ("s", "q", "a", ["r"])),
    ],
)
def test_a_mapped_column_adds_to_a_recognised_format_or_takes_its_place(tmp_path, record, paths, read):
    loaded = load(Source(jsonl(tmp_path / "a.jsonl", [record]), paths=paths, release="v1"), tmp_path / "out")
    [row] = rows_of(loaded.staged)
    assert (row["sample_id"], row["question"], row["answer"], row["references"]) == read


def test_a_mapped_column_that_no_row_has_is_refused(tmp_path):
    source = Source(jsonl(tmp_path / "a.jsonl", [LOGGED]), paths={"references": "metadata.nothing"}, release="v1")
    with pytest.raises(UserError, match=r"no column 'metadata.nothing' \(for references\)"):
        load(source, tmp_path / "out")
