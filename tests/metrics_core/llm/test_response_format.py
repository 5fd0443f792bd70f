"""The ladder of formats, step by step."""

import json

import pytest

from answerkey.metrics_core.llm.request import CallError, Request
from answerkey.metrics_core.llm.response import FormatNegotiation, ResponseFormat

REQUEST = Request("openai/j", "p@1", "Judge this.", "data", '{"type": "object"}', seed=3)

SCHEMA, OBJECT, TEXT = ResponseFormat("json_schema"), ResponseFormat("json_object"), ResponseFormat("text")
NO_SEED, NO_HEAT = frozenset({"seed"}), frozenset({"temperature"})
SCHEMA_NO_SEED, OBJECT_NO_HEAT = ResponseFormat("json_schema", NO_SEED), ResponseFormat("json_object", NO_HEAT)

BARE = CallError("refused", "http_400", "Bad request.")
FORMAT = CallError("refused", "http_400", "response_format: not supported", about_format=True)
SEED = CallError("refused", "http_400", "seed is not supported", parameter="seed")
HEAT = CallError("refused", "http_400", "temperature must be 1", parameter="temperature")


def test_an_offer_as_the_arguments_of_a_call():
    settings = {"temperature": 0.0, "seed": 3, "max_tokens": 50}
    strict = {"name": "reply", "strict": True, "schema": json.loads(REQUEST.schema)}
    assert [offered.settings(REQUEST, 50) for offered in (TEXT, OBJECT, SCHEMA)] == [
        settings,
        {**settings, "response_format": {"type": "json_object"}},
        {**settings, "response_format": {"type": "json_schema", "json_schema": strict}},
    ]
    assert ResponseFormat("text", NO_SEED | NO_HEAT).settings(REQUEST, 50) == {"max_tokens": 50}


@pytest.mark.parametrize(
    ("errors", "offers"),
    [
        # From the top, one step a refusal, whatever the words; at the bottom the request itself is refused.
        ([BARE, BARE, BARE], [SCHEMA, OBJECT, TEXT, None]),
        ([FORMAT, FORMAT, FORMAT], [SCHEMA, OBJECT, TEXT, None]),
        # A parameter that is named is left out first, and only once.
        ([SEED, SEED], [SCHEMA, SCHEMA_NO_SEED, ResponseFormat("json_object", NO_SEED)]),
        (
            [FORMAT, HEAT, SEED, FORMAT, BARE],
            [
                SCHEMA,
                OBJECT,
                OBJECT_NO_HEAT,
                ResponseFormat("json_object", NO_HEAT | NO_SEED),
                ResponseFormat("text", NO_HEAT | NO_SEED),
                None,
            ],
        ),
    ],
)
def test_a_judge_that_has_not_answered_yet(errors, offers):
    negotiation = FormatNegotiation(takes_format=True)
    found = [negotiation.best]
    for error in errors:
        found.append(negotiation.after_refusal(found[-1], error))
    assert found == offers
    # Nothing was accepted, so nothing is remembered.
    assert negotiation.best == SCHEMA


@pytest.mark.parametrize(
    ("accepted", "refused", "error", "other"),
    [
        # Once a format was taken, a refusal that does not speak of it is about the request.
        (SCHEMA, SCHEMA, BARE, None),
        (TEXT, TEXT, FORMAT, None),
        (SCHEMA, SCHEMA, FORMAT, OBJECT),
        (SCHEMA, SCHEMA, SEED, SCHEMA_NO_SEED),
        (SCHEMA_NO_SEED, SCHEMA_NO_SEED, SEED, None),
        # Asked before the others learned the format: goes straight to it.
        (TEXT, SCHEMA, BARE, TEXT),
        (TEXT, OBJECT, FORMAT, TEXT),
        (OBJECT_NO_HEAT, SCHEMA, FORMAT, OBJECT_NO_HEAT),
    ],
)
def test_a_judge_that_has_answered(accepted, refused, error, other):
    negotiation = FormatNegotiation(takes_format=True)
    negotiation.accepted(accepted)
    assert negotiation.best == accepted
    assert negotiation.after_refusal(refused, error) == other
    if other is not None:
        # A server behind the same address may be another one tomorrow: it is believed.
        negotiation.accepted(other)
        assert negotiation.best == other


def test_a_model_that_is_known_to_take_no_format_is_asked_in_words():
    negotiation = FormatNegotiation(takes_format=False)
    assert (negotiation.best, negotiation.after_refusal(TEXT, BARE)) == (TEXT, None)


def test_one_odd_request_does_not_lower_the_format_for_all():
    """It was sent before the first answer came, refused for what it says, and taken once something else had changed."""
    negotiation = FormatNegotiation(takes_format=True)
    odd = negotiation.after_refusal(negotiation.best, BARE)
    assert odd == OBJECT
    negotiation.accepted(SCHEMA)  # another request, in the meantime
    negotiation.accepted(odd)
    assert negotiation.best == SCHEMA
