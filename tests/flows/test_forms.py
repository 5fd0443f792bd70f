"""What a Prefect server is told about the forms of flows, and what it accepts of them."""

from importlib import import_module

import pytest
import yaml
from prefect.utilities.callables import parameter_schema
from prefect.utilities.schema_tools.validation import ValidationError, is_valid_schema, validate

from answerkey.flows.evaluate_release import evaluate_release
from answerkey.metrics_core.registry import ASKED, DEFAULT_METRICS, METRICS
from tests.flows.conftest import ROOT


@pytest.fixture(scope="module")
def schema():
    made = parameter_schema(evaluate_release.fn).model_dump_for_openapi()
    is_valid_schema(made)
    return made


def test_a_form_begins_with_what_must_be_filled_in_and_explains_every_field(schema):
    properties = schema["properties"]
    assert schema["required"] == ["data"]
    by_place = sorted(properties, key=lambda name: properties[name]["position"])
    assert by_place[:4] == ["data", "scoring", "judging", "limits"]
    forms = schema["definitions"]
    fields = [
        field for name in ("Data", "Scoring", "Judging", "Limits") for field in forms[name]["properties"].values()
    ]
    assert [field for field in fields if not (field.get("title") and field.get("description"))] == []
    first = min(forms["Judging"]["properties"].items(), key=lambda item: item[1]["position"])
    assert first[0] == "judges"
    metrics = forms["Scoring"]["properties"]["metrics"]
    assert metrics["items"]["enum"] == [*METRICS, *ASKED]
    assert metrics["default"] == list(DEFAULT_METRICS)


def test_no_form_has_more_than_24_inputs():
    content = yaml.safe_load((ROOT / "deployments/prefect.yaml").read_text(encoding="utf-8"))
    lengths = {}
    for entry in content["deployments"]:
        module, _, flow = entry["entrypoint"].rpartition(".")
        schema = parameter_schema(getattr(import_module(module), flow).fn).model_dump_for_openapi()
        forms = [form["properties"] for form in schema.get("definitions", {}).values() if "properties" in form]
        lengths[entry["name"]] = sum(map(len, (schema["properties"], *forms))) - len(forms)
    assert (max(lengths.values()), lengths["register"], lengths["generate"]) == (23, 7, 16)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"data": {"answers": "a"}, "scoring": {"threshold": 3}}, "field 'scoring.threshold'"),
        ({"data": {"release": "r"}}, "field 'data'. Failure reason: 'answers' is a required property"),
        ({"data": {"answers": "a", "pepper": 1}}, r"'pepper' does not match any of the regexes"),
        # What the form does not show is checked alike.
        ({"data": {"answers": "a"}, "judging": {"repeats": 0}}, "field 'judging.repeats'. Failure reason: 0 is less"),
        (
            {"data": {"answers": "a"}, "limits": {"min_coverage": 2}},
            "field 'limits.min_coverage'. Failure reason: 2 is",
        ),
        ({"data": {"answers": "a"}, "judging": {"key_from": "sk-canary-0123456789"}}, "field 'judging.key_from'"),
    ],
)
def test_what_is_refused_is_named(schema, given, message):
    with pytest.raises(ValidationError, match=message):
        validate(given, schema, raise_on_error=True)
