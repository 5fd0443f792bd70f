"""Log-probabilities of a reply: which of its tokens are its verdict's, and what they say of each label."""

import json
import math

import pytest

from answerkey.metrics_core.llm.log_probabilities import Token, probabilities, tokens_of, weights_of
from answerkey.metrics_core.metrics.meaning_match import MeaningMatch
from tests.judge_brains import spelled

YES_NO = ("yes", "no")


def token(said, share=1.0, **others):
    return Token(said.encode(), math.log(share), tuple((text.encode(), math.log(one)) for text, one in others.items()))


def shares(*tokens, labels=YES_NO, key="verdict"):
    weights = weights_of(tokens, key)
    return {label: round(one, 6) for label, one in probabilities(weights or "[]", labels).items()}


def other(said, share, *others):
    """As `token`, for alternatives that are no words."""
    return Token(said.encode(), math.log(share), tuple((text.encode(), math.log(one)) for text, one in others))


@pytest.mark.parametrize(
    "tokens",
    [
        # However a tokenizer cuts the same reply.
        [token('{"verdict": "'), token("yes", 0.75, no=0.25), token('"}')],
        [token('{"verdict":'), other(' "yes', 0.75, (' "no', 0.25)), token('"}')],
        [token('{"verdict":'), other(' "yes"}', 0.75, (' "no"}', 0.25))],
        [token('{"verdict": "'), token("y", 0.75, n=0.25), token("es"), token('"}')],
        # The same label in several ways, and what is no label at all.
        [token('{"verdict": "'), other("Yes", 0.3, ("yes", 0.3), ("NO", 0.15), ("no", 0.05), ("so", 0.2)), token('"}')],
        [token('{"verdict":'), other(' "yes', 0.75, ('"no', 0.125), (' "NO', 0.125)), token('"}')],
    ],
)  # fmt: skip
def test_a_label_gets_what_all_its_spellings_are_worth(tokens):
    assert shares(*tokens) == {"yes": 0.75, "no": 0.25}


@pytest.mark.parametrize("cut", range(1, 6))
def test_a_label_whose_tokens_end_within_a_character_is_read_whole(cut):
    said = "是的".encode()
    first = Token(said[:cut], math.log(0.75), (("否".encode(), math.log(0.25)),))
    tokens = [token('{"verdict": "'), first, Token(said[cut:], 0.0), token('"}')]
    assert shares(*tokens, labels=("是的", "否")) == {"是的": 0.75, "否": 0.25}


def test_what_was_said_in_another_spelling_is_not_taken_for_its_alternatives():
    escaped = [token('{"verdict": "'), token("\\u0434", 0.9, нет=0.1), token("\\u0430"), token('"}')]
    assert shares(*escaped, labels=("да", "нет")) == {}
    assert shares(token('{"verdict": "'), token(" "), token("yes", 0.75, no=0.25), token('"}')) == {
        "yes": 0.75, "no": 0.25,
    }  # fmt: skip


def test_labels_that_begin_alike_are_told_apart_where_they_part():
    labels = ("match", "mismatch", "match_in_part", "10", "1", "100")
    tokens = [token('{"verdict": "'), token("match", 0.8, mis=0.2), other('"', 0.75, ("_in", 0.25)), token("}")]
    found = shares(*tokens, labels=labels)
    assert found == {"match": 0.6, "mismatch": 0.2, "match_in_part": 0.2, "10": 0.0, "1": 0.0, "100": 0.0}
    numbers = [token('{"verdict": '), token("1", 0.9, perhaps=0.1), other("0", 0.5, ("}", 0.5)), other("}", 1.0)]
    assert {label: one for label, one in shares(*numbers, labels=labels).items() if one} == {"10": 0.5, "1": 0.5}


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
    before, after = text.rsplit("yes", 1)
    tokens = [Token(bytes([one]), 0.0, ((b"no", -3.0),)) for one in before.encode()]
    tokens += [token("yes", 0.5, no=0.25), *(Token(bytes([one]), 0.0) for one in after.encode())]
    assert json.loads(weights_of(tokens, "verdict") or "") == [
        [["yes", math.log(0.5)], ["no", math.log(0.25)]],
        [['"', 0.0]],
    ]
    assert shares(*tokens) == {"yes": 0.666667, "no": 0.333333}


@pytest.mark.parametrize(
    "text",
    ["yes", '{"score": 1}', '{"verdict": {"is": "yes"}}', '{"verdict": ["yes"]}', '{"verdict": "ye', ""],
)
def test_a_reply_without_the_verdict_has_no_weights(text):
    assert weights_of([token(text)] if text else [], "verdict") is None


def test_what_says_nothing_of_any_label_gives_no_probabilities():
    assert shares(token('{"verdict": "'), token("perhaps", 0.9), token('"}')) == {}
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
    given = {"content": [{"token": "?", "bytes": [195], "logprob": 1e30, "top_logprobs": others}]}
    [found] = tokens_of(given)
    assert found == Token(b"\xc3", 0.0, ((b"b", -9999.0), (b"a", 0.0)))
    assert probabilities('[[["yes", -9999.0], ["no", -1.0]]]', YES_NO) == {"yes": 0.0, "no": 1.0}


@pytest.mark.parametrize("logprob", [-math.inf, -(10**400), -1e308], ids=["infinite", "no float", "a float"])
def test_a_log_probability_below_all_that_count_is_zero_and_stays_json(logprob):
    others = [{"token": "no", "logprob": logprob}]
    tokens = tokens_of({"content": [{"token": '{"verdict": "', "logprob": 10**400},
                                    {"token": "yes", "logprob": -1, "top_logprobs": others},
                                    {"token": '"}', "logprob": logprob}]})  # fmt: skip
    assert shares(*tokens) == {"yes": 1.0, "no": 0.0}
    assert "Infinity" not in (weights_of(tokens, "verdict") or "")


def test_the_verdicts_of_meaning_match_are_told_apart_by_their_first_tokens():
    text = '{"reason": "a match", "rule": "alias", "verdict": "match"}'
    tokens = tokens_of(spelled(text, {"match": {"match": 0.7, "mis": 0.2, "part": 0.06, "multiple": 0.04, "m": 0.0}}))
    found = shares(*tokens, labels=tuple(MeaningMatch().labels))
    assert found == {
        "match": 0.7, "mismatch": 0.2, "partial": 0.06, "multiple_alternatives": 0.04, "hedged": 0.0, "refusal": 0.0,
    }  # fmt: skip
