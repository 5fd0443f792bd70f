"""The forms offer what the library has, and pass it on unchanged."""

from typing import get_args

import pytest
from pydantic import ValidationError

from flows.parameters import ALL_METRICS, Data, Limits, MetricName, Scoring
from metrics_core.lexical.continuous_eval import PROFILES
from metrics_core.registry import METRICS, Options
from tasks.contract import Contract
from tasks.load import Source


def test_the_form_offers_every_metric_and_profile() -> None:
    assert list(get_args(MetricName)) == ALL_METRICS == list(METRICS)
    assert get_args(Scoring.model_fields["profile"].annotation) == ("default", *PROFILES)


def test_untouched_forms_are_the_library_s_defaults() -> None:
    assert Scoring().options("cache") == Options(embedding_cache="cache")
    assert Contract(**Limits().model_dump()) == Contract()
    assert Data(answers="a.csv").source() == Source("a.csv")


def test_choices_reach_the_library() -> None:
    scoring = Scoring(
        profile="continuous_eval_v0_3",
        blank_answer="undefined",
        embedding_models=["minilm"],
        aggregation="min",
        threshold=0.7,
    )
    assert scoring.options("c") == Options(
        "continuous_eval_v0_3", "undefined", ("minilm",), "min", 0.7, embedding_cache="c"
    )
    data = Data(answers="a.csv", references="r.csv", columns=["id=meta.id"], reference_columns=["id=key"], slices=["x"])
    assert data.source() == Source(
        "a.csv", "r.csv", paths={"id": "meta.id"}, reference_paths={"id": "key"}, slices=("x",)
    )


def test_a_misspelt_parameter_is_refused() -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        Scoring.model_validate({"metrix": ["bleu"]})
