"""The forms offer what the library has, and pass it on unchanged."""

from typing import get_args

import pytest
from pydantic import ValidationError

from answerkey.flows.parameters import Data, Limits, Scoring
from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.metrics.continuous_eval import PROFILES
from answerkey.metrics_core.registry import METRICS, create
from answerkey.tasks.load.load import Source
from answerkey.tasks.validate.contract import Contract


def test_the_form_offers_every_metric_and_profile() -> None:
    assert Scoring().metrics == list(METRICS)
    assert get_args(Scoring.model_fields["profile"].annotation) == ("default", *PROFILES)


def test_all_metrics_are_the_default_since_the_offline_judge_is_free() -> None:
    assert Scoring().metrics == list(METRICS)
    assert not Scoring(metrics=["contains"]).asks_judges
    assert Scoring(metrics=["contains", "meaning_match"]).asks_judges


def test_untouched_forms_are_the_library_s_defaults() -> None:
    assert Scoring().create("cache") == create(METRICS, {"embedding_cache": "cache"})
    assert Limits().contract() == Contract()
    assert Data(answers="a.csv").source() == Source("a.csv")


def test_choices_reach_the_library() -> None:
    scoring = Scoring(
        profile="continuous_eval_v0_3",
        blank_answer="undefined",
        embedding_models=["minilm"],
        aggregation="min",
        threshold=0.7,
    )
    judge = JudgeOptions(judges=("openai/a",))
    assert scoring.create("c", judge) == create(
        METRICS, profile="continuous_eval_v0_3", blank_answer="undefined", embedding_models=("minilm",),
        aggregation="min", threshold=0.7, embedding_cache="c", judge=judge,
    )  # fmt: skip
    limits = Limits(max_quarantined=0.5, missing_tolerance=0.1, length_drift=2.0, min_coverage=0.5)
    assert limits.contract() == Contract(max_quarantined=0.5, missing_tolerance=0.1, length_drift=2.0)
    data = Data(answers="a.csv", references="r.csv", columns=["id=meta.id"], reference_columns=["id=key"], slices=["x"])
    assert data.source() == Source(
        "a.csv", "r.csv", paths={"id": "meta.id"}, reference_paths={"id": "key"}, slices=("x",)
    )


def test_a_misspelt_parameter_is_refused() -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        Scoring.model_validate({"metrix": ["bleu"]})
