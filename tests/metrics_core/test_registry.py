"""The catalogue of metrics, and what it says to a wrong name."""

import pytest

from metrics_core import METRICS, Options, create
from metrics_core.errors import BadInput


def test_the_catalogue_in_the_order_of_reports() -> None:
    assert {name: info.kind for name, info in METRICS.items()} == {
        "answer_correctness": "lexical",
        "rouge_l": "lexical",
        "token_overlap": "lexical",
        "bleu": "lexical",
        "chrf": "lexical",
        "exact_match": "lexical",
        "contains": "lexical",
        "semantic_similarity": "semantic",
    }
    assert all(info.summary and "\n" not in info.summary for info in METRICS.values())


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_goes_by_the_name_that_users_write(name: str) -> None:
    [metric] = create([name])
    assert metric.name == name
    assert metric.signature.startswith(f"{name}|v")
    assert metric.needs == {"answer", "references"}
    names = [field.name for field in metric.fields]
    assert len(names) == len(set(names)) > 0
    assert all(field.description and field.low < field.high for field in metric.fields)


def test_metrics_come_in_the_order_asked_for_and_once() -> None:
    assert [metric.name for metric in create(["chrf", "bleu", "chrf"])] == ["chrf", "bleu"]
    assert create([]) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rogue_l", "metric 'rogue_l' is not known: did you mean rouge_l?"),
        ("answer-correctness", "metric 'answer-correctness' is not known: did you mean answer_correctness?"),
        ("BLEU", "metric 'BLEU' is not known: choose from answer_correctness, rouge_l, token_overlap, bleu, chrf, "),
        ("", "metric '' is not known: choose from "),
    ],
)
def test_an_unknown_name_is_answered_with_a_suggestion(name: str, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        create(["rouge_l", name])
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_the_default_options_change_nothing() -> None:
    assert Options() == Options(profile=None, blank_answer="zero")
    assert [m.signature for m in create(list(METRICS))] == [m.signature for m in create(list(METRICS), Options())]


def test_options_that_change_numbers_change_signatures() -> None:
    def signature(name: str, options: Options) -> str:
        [metric] = create([name], options)
        return metric.signature

    lexical = {
        signature("answer_correctness", options)
        for options in (
            Options(),
            Options(blank_answer="undefined"),
            Options(profile="continuous_eval_v0_2"),
            Options(profile="continuous_eval_v0_3"),
            Options(profile="continuous_eval_v0_3", blank_answer="undefined"),
        )
    }
    assert len(lexical) == 5
    # The profile belongs to the basket alone.
    assert signature("rouge_l", Options(profile="continuous_eval_v0_2")) == signature("rouge_l", Options())
    # A folder for embeddings is no part of a number.
    assert signature("rouge_l", Options(embedding_cache="x")) == signature("rouge_l", Options())
