"""The ladder of formats, step by step."""

from __future__ import annotations

import json
from typing import Any

import pytest

from answerkey.metrics_core.llm.litellm import CallError
from answerkey.metrics_core.llm.request import Request
from answerkey.metrics_core.llm.terms import Offer, Terms

REQUEST = Request("openai/j", "p@1", "Judge this.", "data", '{"type": "object"}', seed=3)

SCHEMA, OBJECT, TEXT = Offer("json_schema"), Offer("json_object"), Offer("text")
NO_SEED, NO_HEAT = frozenset({"seed"}), frozenset({"temperature"})

BARE = CallError("refused", "http_400", "Bad request.")
FORMAT = CallError("refused", "http_400", "response_format: not supported", about_format=True)
SEED = CallError("refused", "http_400", "seed is not supported", parameter="seed")
HEAT = CallError("refused", "http_400", "temperature must be 1", parameter="temperature")


def settings(**changes: Any) -> dict[str, Any]:
    return {"temperature": 0.0, "seed": 3, "max_tokens": 50, **changes}


@pytest.mark.parametrize(
    ("offer", "expected"),
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
        (Offer("text", NO_SEED | NO_HEAT), {"max_tokens": 50}),
    ],
)
def test_an_offer_as_the_arguments_of_a_call(offer: Offer, expected: dict[str, Any]) -> None:
    assert offer.settings(REQUEST, 50) == expected


@pytest.mark.parametrize(
    ("errors", "offers"),
    [
        # From the top, one step a refusal, whatever the words; at the bottom the request itself is refused.
        ([BARE, BARE, BARE], [SCHEMA, OBJECT, TEXT, None]),
        ([FORMAT, FORMAT, FORMAT], [SCHEMA, OBJECT, TEXT, None]),
        # A parameter that is named is left out first, and only once.
        ([SEED, BARE], [SCHEMA, Offer("json_schema", NO_SEED), Offer("json_object", NO_SEED)]),
        ([SEED, SEED], [SCHEMA, Offer("json_schema", NO_SEED), Offer("json_object", NO_SEED)]),
        (
            [FORMAT, HEAT, SEED, FORMAT, BARE],
            [
                SCHEMA,
                OBJECT,
                Offer("json_object", NO_HEAT),
                Offer("json_object", NO_HEAT | NO_SEED),
                Offer("text", NO_HEAT | NO_SEED),
                None,
            ],
        ),
    ],
)
def test_a_judge_that_has_not_answered_yet(errors: list[CallError], offers: list[Offer | None]) -> None:
    terms = Terms(takes_format=True)
    found: list[Offer | None] = [terms.first()]
    for error in errors:
        assert found[-1] is not None
        found.append(terms.after_refusal(found[-1], error))
    assert found == offers
    # Nothing was accepted, so nothing is remembered.
    assert terms.first() == SCHEMA


@pytest.mark.parametrize(
    ("accepted", "refused", "error", "other"),
    [
        # Once a format was taken, a refusal that does not speak of it is about the request.
        (SCHEMA, SCHEMA, BARE, None),
        (OBJECT, OBJECT, BARE, None),
        (TEXT, TEXT, FORMAT, None),
        (SCHEMA, SCHEMA, FORMAT, OBJECT),
        (OBJECT, OBJECT, FORMAT, TEXT),
        (SCHEMA, SCHEMA, SEED, Offer("json_schema", NO_SEED)),
        (Offer("json_schema", NO_SEED), Offer("json_schema", NO_SEED), SEED, None),
        # Asked before the others found out: straight to what they found.
        (TEXT, SCHEMA, BARE, TEXT),
        (TEXT, OBJECT, FORMAT, TEXT),
        (Offer("json_object", NO_HEAT), SCHEMA, FORMAT, Offer("json_object", NO_HEAT)),
    ],
)
def test_a_judge_that_has_answered(accepted: Offer, refused: Offer, error: CallError, other: Offer | None) -> None:
    terms = Terms(takes_format=True)
    terms.accepted(accepted)
    assert terms.first() == accepted
    assert terms.after_refusal(refused, error) == other


def test_a_model_that_is_known_to_take_no_format_is_asked_in_words() -> None:
    terms = Terms(takes_format=False)
    assert terms.first() == TEXT
    assert terms.after_refusal(TEXT, BARE) is None


def test_one_odd_request_does_not_lower_the_format_for_all() -> None:
    """It was sent before the first answer came, refused for what it says, and taken once something else had changed."""
    terms = Terms(takes_format=True)
    odd = terms.after_refusal(terms.first(), BARE)
    assert odd == OBJECT
    terms.accepted(SCHEMA)  # another request, in the meantime
    terms.accepted(odd)
    assert terms.first() == SCHEMA


def test_a_server_that_takes_its_word_back_is_believed() -> None:
    """A server behind the same address may be another one tomorrow."""
    terms = Terms(takes_format=True)
    terms.accepted(SCHEMA)
    other = terms.after_refusal(SCHEMA, FORMAT)
    assert other == OBJECT
    terms.accepted(other)
    assert terms.first() == OBJECT


def test_what_is_left_out_stays_left_out() -> None:
    terms = Terms(takes_format=True)
    other = terms.after_refusal(SCHEMA, SEED)
    assert other is not None
    terms.accepted(other)
    assert terms.first() == Offer("json_schema", NO_SEED)


def test_the_ladder_ends_after_five_steps_whatever_is_said() -> None:
    for error in (BARE, FORMAT, SEED, HEAT):
        offer: Offer | None = SCHEMA
        terms, steps = Terms(takes_format=True), 0
        while offer is not None:
            offer, steps = terms.after_refusal(offer, error), steps + 1
        assert steps <= 5
