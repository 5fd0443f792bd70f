"""The ladder of formats, step by step."""

import json

import pytest

from answerkey.metrics_core.llm.request import CallError, Request
from answerkey.metrics_core.llm.response import FormatNegotiation, ResponseFormat

REQUEST = Request("openai/j", "p@1", "Judge this.", "data", '{"type": "object"}', seed=3)

SCHEMA, OBJECT, TEXT = ResponseFormat("json_schema"), ResponseFormat("json_object"), ResponseFormat("text")
NO_SEED, NO_HEAT = frozenset({"seed"}), frozenset({"temperature"})

BARE = CallError("refused", "http_400", "Bad request.")
FORMAT = CallError("refused", "http_400", "response_format: not supported", about_format=True)
SEED = CallError("refused", "http_400", "seed is not supported", parameter="seed")
HEAT = CallError("refused", "http_400", "temperature must be 1", parameter="temperature")


def settings(**changes):
    return {"temperature": 0.0, "seed": 3, "max_tokens": 50, **changes}


@pytest.mark.parametrize(
    ("offered", "expected"),
    [
        (TEXT, settings()),
        (OBJECT, settings(response_format={"type": "json_object"})),
        (
            SCHEMA,
            settings(
                response_format={
                    "type": "json_schema",
                    "json_schema": {"name": "reply", "strict": True, "schema": json.loads(REQUEST.schema)},
                }
            ),
        ),
        (ResponseFormat("text", NO_SEED | NO_HEAT), {"max_tokens": 50}),
    ],
)
def test_an_offer_as_the_arguments_of_a_call(offered, expected):
    assert offered.settings(REQUEST, 50) == expected


@pytest.mark.parametrize(
    ("errors", "offers"),
    [
        # From the top, one step a refusal, whatever the words; at the bottom the request itself is refused.
        ([BARE, BARE, BARE], [SCHEMA, OBJECT, TEXT, None]),
        ([FORMAT, FORMAT, FORMAT], [SCHEMA, OBJECT, TEXT, None]),
        # A parameter that is named is left out first, and only once.
        ([SEED, BARE], [SCHEMA, ResponseFormat("json_schema", NO_SEED), ResponseFormat("json_object", NO_SEED)]),
        ([SEED, SEED], [SCHEMA, ResponseFormat("json_schema", NO_SEED), ResponseFormat("json_object", NO_SEED)]),
        (
            [FORMAT, HEAT, SEED, FORMAT, BARE],
            [
                SCHEMA,
                OBJECT,
                ResponseFormat("json_object", NO_HEAT),
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
        assert found[-1] is not None
        found.append(negotiation.after_refusal(found[-1], error))
    assert found == offers
    # Nothing was accepted, so nothing is remembered.
    assert negotiation.best == SCHEMA


@pytest.mark.parametrize(
    ("accepted", "refused", "error", "other"),
    [
        # Once a format was taken, a refusal that does not speak of it is about the request.
        (SCHEMA, SCHEMA, BARE, None),
        (OBJECT, OBJECT, BARE, None),
        (TEXT, TEXT, FORMAT, None),
        (SCHEMA, SCHEMA, FORMAT, OBJECT),
        (OBJECT, OBJECT, FORMAT, TEXT),
        (SCHEMA, SCHEMA, SEED, ResponseFormat("json_schema", NO_SEED)),
        (ResponseFormat("json_schema", NO_SEED), ResponseFormat("json_schema", NO_SEED), SEED, None),
        # Asked before the others learned the format: goes straight to it.
        (TEXT, SCHEMA, BARE, TEXT),
        (TEXT, OBJECT, FORMAT, TEXT),
        (ResponseFormat("json_object", NO_HEAT), SCHEMA, FORMAT, ResponseFormat("json_object", NO_HEAT)),
    ],
)
def test_a_judge_that_has_answered(accepted, refused, error, other):
    negotiation = FormatNegotiation(takes_format=True)
    negotiation.accepted(accepted)
    assert negotiation.best == accepted
    assert negotiation.after_refusal(refused, error) == other


def test_a_model_that_is_known_to_take_no_format_is_asked_in_words():
    negotiation = FormatNegotiation(takes_format=False)
    assert negotiation.best == TEXT
    assert negotiation.after_refusal(TEXT, BARE) is None


def test_one_odd_request_does_not_lower_the_format_for_all():
    """It was sent before the first answer came, refused for what it says, and taken once something else had changed."""
    negotiation = FormatNegotiation(takes_format=True)
    odd = negotiation.after_refusal(negotiation.best, BARE)
    assert odd == OBJECT
    negotiation.accepted(SCHEMA)  # another request, in the meantime
    negotiation.accepted(odd)
    assert negotiation.best == SCHEMA


def test_a_server_that_takes_its_word_back_is_believed():
    """A server behind the same address may be another one tomorrow."""
    negotiation = FormatNegotiation(takes_format=True)
    negotiation.accepted(SCHEMA)
    other = negotiation.after_refusal(SCHEMA, FORMAT)
    assert other == OBJECT
    negotiation.accepted(other)
    assert negotiation.best == OBJECT


def test_what_is_left_out_stays_left_out():
    negotiation = FormatNegotiation(takes_format=True)
    other = negotiation.after_refusal(SCHEMA, SEED)
    assert other is not None
    negotiation.accepted(other)
    assert negotiation.best == ResponseFormat("json_schema", NO_SEED)


def test_the_ladder_ends_after_five_steps_whatever_is_said():
    for error in (BARE, FORMAT, SEED, HEAT):
        offered = SCHEMA
        negotiation, steps = FormatNegotiation(takes_format=True), 0
        while offered is not None:
            offered, steps = negotiation.after_refusal(offered, error), steps + 1
        assert steps <= 5
