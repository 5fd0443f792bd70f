"""What a Prefect server is told about the forms of flows, and what it accepts of them."""

import json
from copy import deepcopy

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.utilities.callables import parameter_schema
from prefect.utilities.schema_tools.validation import (
    ValidationError,
    build_error_obj,
    is_valid_schema,
    validate,
)
from pydantic import Field

from answerkey.flows.forms import (
    ALL,
    CHOOSE,
    TYPE,
    USUAL,
    Form,
    ReleaseChoice,
    as_shown,
    names_of,
    with_defaults,
    with_limits,
    with_names,
    with_titles,
)
from answerkey.flows.parameters import Judging, Rerunning
from answerkey.flows.runs import _offer_names
from answerkey.flows.target import EvaluationTarget, on_target
from answerkey.tasks.maintenance import TAG
from answerkey.tasks.warehouse.home import Home
from tests.judge_http import http
from tests.raw_server import RawServer, ok
from tests.tasks.comparing_help import answer, release


class Cooking(Form):
    """How to cook it."""

    usual = ("dish", "guests")

    dish: str = Field(title="Dish", description="What to cook.")
    salt: float = Field(0.5, ge=0.0, le=1.0, title="Salt", description="How much.")
    guests: int = Field(2, ge=1, title="Guests", description="How many.")


class Serving(Cooking):
    """How to serve it."""

    usual = ("guests",)
    dish: str = Field("plate", title="Dish", description="On what.")


_SERVING = Serving()


def cook(cooking: Cooking, home: str = "here", serving: Serving = _SERVING, note: str = ""):
    """Cook.

    Args:
        cooking: What and how.
        home: Where.
        serving: On what.
        note: For the guests.
    """


@pytest.fixture(scope="module")
def schema():
    def shown(): ...

    shown.__signature__, shown.__doc__ = as_shown(cook), cook.__doc__  # type: ignore[attr-defined]
    made = parameter_schema(shown).model_dump_for_openapi()
    is_valid_schema(made)
    return made


def test_the_usual_comes_first_and_the_rest_is_folded(schema):
    properties = schema["properties"]
    assert sorted(properties, key=lambda name: properties[name]["position"]) == ["cooking", "serving", "note", "target"]
    ways = properties["cooking"]["anyOf"]
    assert [(way["title"], list(way["properties"])) for way in ways] == [
        (USUAL, ["dish", "guests"]),
        (ALL, ["dish", "salt", "guests"]),
    ]
    assert [way["properties"]["guests"]["position"] for way in ways] == [2, 2]
    assert properties["cooking"]["description"] == "What and how."
    assert schema["required"] == ["cooking"]
    # A value of the whole form would unfold it.
    assert properties["serving"]["default"] == {}
    # Where results are kept is up to the platform.
    assert properties["target"]["block_type_slug"] == "evaluation-target"


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"cooking": {"dish": "soup"}}, id="only what is required"),
        pytest.param({"cooking": {"dish": "soup", "salt": 0.1}, "serving": {"salt": 1}}, id="keys that are folded"),
        pytest.param(
            {"cooking": {"dish": "soup"}, "serving": {}, "target": {"$ref": {"block_document_id": "x"}}},
            id="nothing of a form",
        ),
    ],
)
def test_every_key_is_accepted_whether_it_is_folded_or_not(schema, given):
    assert validate(given, schema, raise_on_error=True) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"cooking": {"dish": "soup", "salt": 3}},
            "field 'cooking.salt'. Failure reason: 3 is greater than",
        ),
        ({"cooking": {"salt": 1}}, "field 'cooking'. Failure reason: 'dish' is a required property"),
        ({"cooking": {"dish": "soup", "pepper": 1}}, r"not allowed \('pepper' was unexpected\)"),
        ({"cooking": {"dish": "soup"}, "serving": {"guests": 0}}, "field 'serving.guests'. Failure reason: 0 is less"),
    ],
)
def test_what_is_refused_is_named(schema, given, message):
    with pytest.raises(ValidationError, match=message):
        validate(given, schema, raise_on_error=True)


def test_every_wrong_value_is_said_of_its_own_field(schema):
    limited = with_limits(with_titles(schema))
    is_valid_schema(limited)
    # Prefect's page leaves out of its question all but names and types, yet sends `allOf` as it is.
    asked = {"type": "object", "allOf": limited["allOf"]}
    given = {"cooking": {"dish": "soup", "salt": 3, "guests": 0}, "serving": {"guests": -1}}
    assert build_error_obj(validate(given, asked)) == {
        "errors": [
            {
                "property": "cooking",
                "errors": [
                    {"property": "salt", "errors": ["3 is greater than the maximum of 1.0"]},
                    {"property": "guests", "errors": ["0 is less than the minimum of 1"]},
                ],
            },
            {"property": "serving", "errors": [{"property": "guests", "errors": ["-1 is less than the minimum of 1"]}]},
        ],
        "valid": False,
    }
    assert validate({"cooking": {"dish": "soup"}}, limited) == []


def test_a_deployment_without_the_required_fields_is_one(schema):
    assert validate({"cooking": {"guests": 7}}, schema, raise_on_error=True, ignore_required=True) == []


def test_both_ways_begin_with_the_limits_of_the_deployment_and_no_text_comes_back_that_was_cleared(schema):
    parameters = {
        "cooking": {"dish": "soup", "guests": 7, "unknown": 1}, "serving": {"dish": "bowl", "guests": 3},
        "home": "there", "gone": {"a": 1},
    }  # fmt: skip
    shown, before = with_defaults(schema, parameters)["properties"], deepcopy(schema)["properties"]
    for fields, expected in (("cooking", ["soup", 7]), ("serving", ["plate", 3])):
        usual, every = shown[fields]["anyOf"]
        assert usual["properties"]["guests"]["default"] == expected[1]
        assert [every["properties"][key]["default"] for key in ("dish", "guests")] == expected
    assert schema["properties"] == before


class Ordering(Form):
    """What to order."""

    usual = ("wine",)
    wine: str = Field(title="Wine", description="Which.", json_schema_extra=names_of("datasets", typed_first=True))
    year: int = Field(0, title="Year", description="Of which year.")


def order(ordering: Ordering, cheese: ReleaseChoice = ""): ...


def test_a_field_for_a_name_offers_those_that_are_known_and_takes_any_other():
    def shown(): ...

    shown.__signature__ = as_shown(order)  # type: ignore[attr-defined]
    bare = parameter_schema(shown).model_dump_for_openapi()
    schema = with_names(
        with_defaults(bare, {"ordering": {"wine": "red"}}), {"datasets": ["rosé"], "releases": ["brie"]}
    )
    is_valid_schema(schema)
    ways = [way["properties"]["wine"]["anyOf"] for way in schema["properties"]["ordering"]["anyOf"]]
    # What the deployment sets, which the form must have, is offered too: a list without it would show nothing.
    offered = {"title": CHOOSE, "type": "string", "enum": ["", "red", "rosé"]}
    assert ways == [[{"title": TYPE, "type": "string"}, offered]] * 2
    assert [way.get("enum") for way in schema["properties"]["cheese"]["anyOf"]] == [["", "brie"], None]
    for given in ({"wine": "rosé"}, {"wine": "new since", "year": 7}):
        assert validate({"ordering": given, "cheese": "gouda"}, schema, raise_on_error=True) == []
    with pytest.raises(ValidationError, match="ordering"):
        validate({"ordering": {"wine": 7}}, schema, raise_on_error=True)
    # Names that come and go.
    assert with_names(schema, {}) == with_defaults(bare, {"ordering": {"wine": "red"}})


def test_titles_are_for_people_and_the_head_of_a_folded_form_is_one_line(schema):
    shown = with_titles(schema)["properties"]
    about = {name: (one["title"], one.get("description")) for name, one in shown.items()}
    assert about == {
        "cooking": ("What and how", None), "serving": ("On what", None), "note": ("Note", "For the guests."),
        "target": (
            "Evaluation target", "Where results are kept, where answers are scored, and what a run may cost at most.",
        ),
    }  # fmt: skip


def test_a_target_fills_what_a_form_leaves_open_and_its_limits_hold():
    target = EvaluationTarget(home="/srv", judges=["openai/m"], key_from="secret:platform", max_calls=100, price="1,2")
    filled = target.applied(Judging())
    assert (filled.judges, filled.key_from, filled.max_calls, filled.price) == (
        ("openai/m",), "secret:platform", 100, "1,2",
    )  # fmt: skip
    # The platform's key is not for the judge of somebody else's form.
    own = target.applied(Judging(judges=["openai/x@http://own"], max_calls=7, max_cost_usd=3.0))
    assert (own.judges, own.key_from, own.max_calls, own.max_cost_usd) == (("openai/x@http://own",), "", 7, 3.0)
    assert target.applied(Rerunning(report="faq/a\u2003offline", max_calls=500)).max_calls == 100

    def where(judging: Judging, home: str = "here"):
        return judging.max_calls, home

    on = on_target(where)
    assert on(Judging(), target=target) == (100, "/srv")
    # As an event says it.
    assert on(Judging(), home="/there", target=target) == (100, "/there")
    assert on(Judging()) == (0, "here")


@pytest.mark.nightly
def test_names_of_a_run_that_ends_while_others_are_offered_are_offered_too(tmp_path):
    """The run that is told last wins on the server, and may have looked before the other one had its reports."""
    home = Home(tmp_path / "home")
    release(tmp_path / "home", "first", [answer(1, "yes")])
    schema = {"properties": {"baseline": {"type": "string", **names_of("releases")}}}
    deployment = {"id": "e", "parameters": {"home": home.address}, "schedules": [], "tags": [TAG]}
    offered = [schema]

    def api(request):
        if request.startswith(b"GET"):
            return http(404, b"")
        if request.startswith(b"PATCH"):
            if len(offered) == 1:
                release(tmp_path / "home", "second", [answer(1, "no")])
            offered.append(json.loads(request.partition(b"\r\n\r\n")[2])["parameter_openapi_schema"])
            return b"HTTP/1.1 204 No Content\r\n\r\n"
        return ok([{**deployment, "parameter_openapi_schema": offered[-1]}])

    with RawServer(api) as server, temporary_settings({PREFECT_API_URL: f"http://127.0.0.1:{server.port}/api"}):
        _offer_names(home)
    chosen = [one["properties"]["baseline"]["anyOf"][0]["enum"] for one in offered[1:]]
    assert chosen == [["", "d/first"], ["", "d/second", "d/first"]]
