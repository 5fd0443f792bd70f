"""Named scores: the golden parser cases, names, and what counts as a number."""

import json
from pathlib import Path

import pytest

from answerkey.metrics_core.llm.reply import ReplyScore, Unreadable, number_of, read_scores

N_PARSER = 16


@pytest.mark.parametrize("index", range(N_PARSER))
def test_golden_parser(index: int, shared: Path) -> None:
    cases = json.loads((shared / "golden" / "meaning_match.json").read_text(encoding="utf-8"))["parser"]
    assert len(cases) == N_PARSER
    case = cases[index]
    status = case.get("status")
    if status in {"no_score_fields", "not_object", "no_answer"}:
        with pytest.raises(Unreadable) as caught:
            read_scores(case["reply"], case["declared"])
        assert (caught.value.code, caught.value.repairable) == (status, True)
        return
    [(name, score)] = read_scores(case["reply"], case["declared"]).items()
    problem = {None: None, "skipped_null": "null", "unreadable": "unreadable"}[status]
    assert (name, score.value, score.problem) == (case["declared"][0], case["value"], problem)
    assert score.reason == json.loads(case["reply"]).get("reason", score.reason)
    assert score.reason == case.get("reason", score.reason) != ""


def test_scores_are_found_under_their_names_in_any_case() -> None:
    reply = '{"relevance": {"score": 5, "reason": "a"}, "TONE": {"score": 4.0}, "Safe": {"score": false}, "x": 1}'
    assert read_scores(reply, ["Relevance", "Tone", "safe", "missing"]) == {
        "Relevance": ReplyScore(5.0, "a", None),
        "Tone": ReplyScore(4.0, "", None),
        "safe": ReplyScore(0.0, "", None),
    }


def test_an_unreadable_score_leaves_its_siblings_alone() -> None:
    reply = '{"A": {"score": "high", "reason": "r"}, "B": {"score": null}, "C": {"score": " Yes "}}'
    assert read_scores(reply, ["A", "B", "C"]) == {
        "A": ReplyScore(None, "r", "unreadable"),
        "B": ReplyScore(None, "", "null"),
        "C": ReplyScore(1.0, "", None),
    }


def test_a_flat_score_counts_where_one_is_declared() -> None:
    reply = '{"score": true, "reason": ["same fact", "other words"]}'
    assert read_scores(reply, ["S"]) == {"S": ReplyScore(1.0, "same fact, other words", None)}
    assert read_scores(reply, ["score"]) == {"score": ReplyScore(1.0, "same fact, other words", None)}
    with pytest.raises(Unreadable, match='its fields are "score, reason"') as caught:
        read_scores(reply, ["A", "B", "C"])
    assert caught.value.code == "no_score_fields"


@pytest.mark.parametrize("reply", ["{}", '{"S": true}', '{"a": {"score": 1}, "b": {"score": 1}}'])
def test_no_score_is_guessed(reply: str) -> None:
    with pytest.raises(Unreadable) as caught:
        read_scores(reply, ["S"])
    assert caught.value.code == "no_score_fields"


@pytest.mark.parametrize(
    "reply",
    ['{"S": {"score": true}, "s": {"score": false}}', '{"S": {"score": true}, "score": false}'],
    ids=["names", "flat and named"],
)
def test_two_values_of_one_score_are_a_conflict(reply: str) -> None:
    with pytest.raises(Unreadable, match='gives the score "S" two values') as caught:
        read_scores(reply, ["S"])
    assert (caught.value.code, caught.value.repairable) == ("conflict", False)


@pytest.mark.parametrize(
    ("value", "number"),
    [(True, 1), (False, 0), (3, 3), (-2.5, -2.5), ("0.8", 0.8), ("1", 1), (" -2e3\n", -2000), ("+.5", 0.5), ("3.", 3)]
    + [(word, 1) for word in ("true", "TRUE", "yes", "on", "t", "Y", " pass ")]
    + [(word, 0) for word in ("false", " False ", "no", "OFF", "f", "n", "FAIL")],
)
def test_values_that_are_numbers(value: object, number: float) -> None:
    read = number_of(value)
    assert (read, type(read)) == (number, float)


@pytest.mark.parametrize(
    "value",
    [
        *("high", "", " ", "nan", "inf", "-Infinity", "1e999", "1_000", "0,8", "80%", "0x1", "１", "1 2", "..", "e5"),
        *([], [1], {}, {"nested": 1}, float("nan"), float("inf"), 10**400),
    ],
    ids=repr,
)
def test_values_that_are_no_numbers(value: object) -> None:
    with pytest.raises(Unreadable) as caught:
        number_of(value)
    assert (caught.value.code, caught.value.repairable) == ("unreadable", True)
    assert str(caught.value).endswith("is neither a number nor true or false")


def test_null_is_distinguished_from_unreadable() -> None:
    with pytest.raises(Unreadable, match="the value is null") as caught:
        number_of(None)
    assert caught.value.code == "null"
