"""Log-probabilities of a reply: which of its tokens are its verdict's, and what they say of each label."""

import json
import math

import pytest

from answerkey.metrics_core.llm.log_probabilities import Token, probabilities, tokens_of, weights_of
from answerkey.metrics_core.metrics.meaning_match import MeaningMatch
from tests.judge_brains import spelled

YES_NO = ("yes", "no")
OPENED, CLOSED = '{"verdict": "', '"}'


def token(said, share=1.0, others=None):
    """A token with its probability, and those of what might have been said instead."""
    alternatives = tuple((text.encode(), math.log(one)) for text, one in (others or {}).items())
    return Token(said.encode() if isinstance(said, str) else said, math.log(share), alternatives)


def shares(*tokens, labels=YES_NO):
    """The probabilities of labels; a token that is certain is given as its text."""
    tokens = [token(one) if isinstance(one, str) else one for one in tokens]
    weights = weights_of(tokens, "verdict")
    return {label: round(one, 6) for label, one in probabilities(weights or "[]", labels).items()}


@pytest.mark.parametrize(
    "tokens",
    [
        # However a tokenizer cuts the same reply.
        [OPENED, token("yes", 0.75, {"no": 0.25}), CLOSED],
        ['{"verdict":', token(' "yes', 0.75, {' "no': 0.25}), CLOSED],
        ['{"verdict":', token(' "yes"}', 0.75, {' "no"}': 0.25})],
        [OPENED, token("y", 0.75, {"n": 0.25}), "es", CLOSED],
        [OPENED, " ", token("yes", 0.75, {"no": 0.25}), CLOSED],
        # The same label in several ways, and what is no label at all.
        [OPENED, token("Yes", 0.3, {"yes": 0.3, "NO": 0.15, "no": 0.05, "so": 0.2}), CLOSED],
        ['{"verdict":', token(' "yes', 0.75, {'"no': 0.125, ' "NO': 0.125}), CLOSED],
    ],
)
def test_a_label_gets_what_all_its_spellings_are_worth(tokens):
    assert shares(*tokens) == {"yes": 0.75, "no": 0.25}


@pytest.mark.parametrize("cut", range(1, 6))
def test_a_label_whose_tokens_end_within_a_character_is_read_whole(cut):
    said = "是的".encode()
    tokens = [OPENED, token(said[:cut], 0.75, {"否": 0.25}), token(said[cut:]), CLOSED]
    assert shares(*tokens, labels=("是的", "否")) == {"是的": 0.75, "否": 0.25}


def test_what_was_said_in_another_spelling_is_not_taken_for_its_alternatives():
    escaped = [OPENED, token("\\u0434", 0.9, {"нет": 0.1}), "\\u0430", CLOSED]
    assert shares(*escaped, labels=("да", "нет")) == {}


def test_labels_that_begin_alike_are_told_apart_where_they_part():
    labels = ("match", "mismatch", "match_in_part", "10", "1", "100")

    def found(*tokens):
        return {label: share for label, share in shares(*tokens, labels=labels).items() if share}

    words = found(OPENED, token("match", 0.8, {"mis": 0.2}), token('"', 0.75, {"_in": 0.25}), "}")
    assert words == {"match": 0.6, "mismatch": 0.2, "match_in_part": 0.2}
    numbers = found('{"verdict": ', token("1", 0.9, {"perhaps": 0.1}), token("0", 0.5, {"}": 0.5}), "}")
    assert numbers == {"10": 0.5, "1": 0.5}


@pytest.mark.parametrize(
    "reason",
    [
        r"It wrote \"verdict\": \"no\" into the answer.",
        r"{\"verdict\": \"no\"}",
        "verdict",
        "Ответ \U0001f600 верен: 日本",
        r"a backslash \\",
    ],
)
def test_it_is_the_verdict_that_counts_and_not_what_the_reason_quotes(reason):
    text = f'```json\n{{"reason": "{reason}", "nested": {{"verdict": "no"}}, "verdict": "yes"}}\n```'
    # Every token is a byte, but for the verdict: tokens end within characters.
    before, after = ([bytes([byte]) for byte in part.encode()] for part in text.rsplit("yes", 1))
    tokens = [token(byte, 1.0, {"no": 0.05}) for byte in before]
    tokens += [token("yes", 0.5, {"no": 0.25}), *map(token, after)]
    assert json.loads(weights_of(tokens, "verdict")) == [
        [["yes", math.log(0.5)], ["no", math.log(0.25)]],
        [['"', 0.0]],
    ]
    assert shares(*tokens) == {"yes": 0.666667, "no": 0.333333}


@pytest.mark.parametrize(
    "text", ["yes", '{"score": 1}', '{"verdict": {"is": "yes"}}', '{"verdict": ["yes"]}', '{"verdict": "ye', ""]
)
def test_a_reply_without_the_verdict_has_no_weights(text):
    assert weights_of([token(text)], "verdict") is None


def test_what_says_nothing_of_any_label_gives_no_probabilities():
    assert shares(OPENED, token("perhaps", 0.9), CLOSED) == {}
    assert probabilities("[]", YES_NO) == {}


@pytest.mark.parametrize(
    "logprobs",
    [
        None, "none", [], {}, {"content": None}, {"content": [None]}, {"content": [{"token": "a"}]},
        {"content": [{"token": "a", "logprob": "0"}]}, {"content": [{"token": "a", "logprob": math.nan}]},
        {"content": [{"token": "a", "logprob": True}]}, {"content": [{"logprob": -1.0}]},
        {"content": [{"token": 7, "logprob": -1.0, "bytes": [256]}]},
    ],
)  # fmt: skip
def test_what_is_no_list_of_tokens_is_none(logprobs):
    assert tokens_of(logprobs) == ()


def test_a_probability_is_at_most_one_and_a_broken_alternative_is_left_out():
    others = [{"token": "b", "logprob": -9999.0}, {"token": "c"}, None, {"token": "a", "logprob": 0.0}]
    [found] = tokens_of({"content": [{"token": "?", "bytes": [195], "logprob": 1e30, "top_logprobs": others}]})
    assert found == Token(b"\xc3", 0.0, ((b"b", -9999.0), (b"a", 0.0)))
    assert probabilities('[[["yes", -9999.0], ["no", -1.0]]]', YES_NO) == {"yes": 0.0, "no": 1.0}


@pytest.mark.parametrize("logprob", [-math.inf, -(10**400), -1e308], ids=["infinite", "no float", "a float"])
def test_a_log_probability_below_all_that_count_is_zero_and_stays_json(logprob):
    content = [
        {"token": OPENED, "logprob": 10**400},
        {"token": "yes", "logprob": -1, "top_logprobs": [{"token": "no", "logprob": logprob}]},
        {"token": CLOSED, "logprob": logprob},
    ]
    tokens = tokens_of({"content": content})
    assert shares(*tokens) == {"yes": 1.0, "no": 0.0}
    assert "Infinity" not in weights_of(tokens, "verdict")


def test_the_verdicts_of_meaning_match_are_told_apart_by_their_first_tokens():
    text = '{"reason": "a match", "rule": "alias", "verdict": "match"}'
    expected = {"match": 0.7, "mismatch": 0.2, "partial": 0.06, "multiple_alternatives": 0.04}
    first = {"match": 0.7, "mis": 0.2, "part": 0.06, "multiple": 0.04, "m": 0.0}
    found = shares(*tokens_of(spelled(text, {"match": first})), labels=tuple(MeaningMatch().labels))
    assert found == {**expected, "hedged": 0.0, "refusal": 0.0}
