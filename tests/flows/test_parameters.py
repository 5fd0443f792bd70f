"""The forms offer what the library has, and pass it on unchanged."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import pytest
from pydantic import create_model

from answerkey.flows.evaluate_release import evaluate_release
from answerkey.flows.forms import Form
from answerkey.flows.parameters import METRIC_OPTIONS, Data, Limits, Scoring, metric_options
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.metric import BlankAnswer, Field, Metric, option
from answerkey.metrics_core.metrics.continuous_eval import PROFILES
from answerkey.metrics_core.registry import ASKED, METRICS, create
from answerkey.metrics_core.sample import Sample
from answerkey.metrics_core.validation import InvalidValue
from answerkey.tasks.load.load import Source, load
from answerkey.tasks.validate.contract import Contract
from answerkey.tasks.validate.data_docs import build_data_docs
from answerkey.tasks.validate.validate import validate
from answerkey.tasks.warehouse.home import Home

SUITE = """
expectations:
  - type: expect_column_values_to_not_match_regex
    kwargs: {column: answer, regex: sorry}
    description: No answer says sorry
    meta: {name: no_apology}
"""
"""As it is typed into the form."""
FOUR = ["answer_correctness", "semantic_similarity", "meaning_match", "ground_truth_similarity"]


def test_the_form_offers_every_metric_and_profile():
    metrics = Scoring.model_json_schema()["properties"]["metrics"]
    assert metrics["items"]["enum"] == [*METRICS, *ASKED]
    assert get_args(Scoring.model_fields["profile"].annotation) == ("default", *PROFILES)


def test_four_metrics_are_the_default():
    assert Scoring().metrics == FOUR
    assert Scoring.model_validate({"own_metrics": ["exact_match"]}).metrics == [*FOUR, "exact_match"]
    # As a saved schedule has them.
    assert Scoring.model_validate({"metrics": list(METRICS)}).metrics == list(METRICS)
    assert Scoring().asks_judges
    assert not Scoring(metrics=["contains"]).asks_judges
    assert Scoring(metrics=["contains", "meaning_match"]).asks_judges


def test_a_suite_typed_into_the_form_is_checked_and_documented(tmp_path):
    rows = [{"id": str(n), "answer": "sorry" if n == 2 else "Paris", "reference": "Paris"} for n in range(9)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    sent = {"data": {"answers": f"{tmp_path}/a.jsonl"}, "limits": {"expectations": SUITE}}
    form = evaluate_release.validate_parameters(sent)
    contract = form["limits"].contract()
    loaded = load(form["data"].source(), tmp_path / "work")
    checked = validate(loaded.staged, loaded.rejects, str(tmp_path / "valid"), contract)
    assert (checked.n_accepted, checked.expectations) == (8, SUITE)
    [said] = [check.message for check in checked.checks if check.rule == "no_apology"]
    assert said == "1 row in breach of `no_apology`: No answer says sorry (row 3)"
    home = Home(tmp_path / "home")
    build_data_docs(home, "run", "a", contract, checked)
    [page] = (home.local / "pages/_data-docs/validations/expectations").rglob("*.html")
    assert "No answer says sorry" in page.read_text()


def test_untouched_forms_are_the_library_s_defaults():
    assert Scoring().create("cache") == create(FOUR, {"embedding_cache": "cache"})
    assert Limits().contract() == Contract()
    assert Data(answers="a.csv").source() == Source("a.csv")


def test_choices_reach_the_library():
    scoring = Scoring(
        profile="continuous_eval_v0_3",
        blank_answer="undefined",
        models=["minilm"],
        aggregation="min",
        threshold=0.7,
    )
    judge = JudgeOptions(judges=("openai/a",))
    assert scoring.create("c", judge) == create(
        FOUR, profile="continuous_eval_v0_3", blank_answer="undefined", models=("minilm",),
        aggregation="min", threshold=0.7, embedding_cache="c", judge=judge,
    )  # fmt: skip
    limits = Limits(max_quarantined=0.5, missing_tolerance=0.1, length_drift=2.0, min_coverage=0.5)
    assert limits.contract() == Contract(max_quarantined=0.5, missing_tolerance=0.1, length_drift=2.0)
    data = Data(answers="a.csv", references="r.csv", columns=["id=meta.id"], reference_columns=["id=key"], slices=["x"])
    assert data.source() == Source(
        "a.csv", "r.csv", paths={"id": "meta.id"}, reference_paths={"id": "key"}, slices=("x",)
    )


def test_an_option_that_is_not_set_is_left_to_the_metric():
    unset = Scoring(profile="default", models=[], threshold=0, tolerance=0.1)
    assert unset.options == {}
    assert unset.create() == create(FOUR)


@dataclass(frozen=True)
class Polite(Metric):
    """An option that is called like one of ours, with a default of its own."""

    name = "polite"
    fields = (Field("value"),)

    threshold: float = option(0.2, description="From which an answer is polite.", ge=0, le=1)

    def score(self, sample: Sample) -> float:
        return self.threshold


def test_a_metric_of_one_s_own_keeps_its_default_of_an_option_that_ours_have_too():
    polite = f"{__name__}:Polite"
    assert Scoring(metrics=[polite]).create() == [Polite()]
    assert Scoring(metrics=[polite], threshold=0.7).create() == [Polite(threshold=0.7)]


def test_an_option_that_none_of_the_metrics_has_is_refused_with_its_name():
    for given in ({"threshold": 0.5}, {"profile": "continuous_eval_v0_2"}, {"models": ["minilm"]}):
        [name] = given
        with pytest.raises(UserError, match=f"^{name}: none of these metrics has such an option$"):
            Scoring(metrics=["rouge_l"], **given).create()
    assert Scoring(metrics=["rouge_l"], blank_answer="undefined").create() == create(
        ["rouge_l"], blank_answer="undefined"
    )


@dataclass(frozen=True)
class Optional(Metric):
    """One option of each type that may be None, and lists."""

    name = "optional"
    fields = (Field("value"),)

    most: int | None = option(None, title="Most", description="The most.", gt=2, le=9)
    mode: Literal["a", "b"] | None = option(None, title="Mode", description="How.")
    note: str | None = option(None, title="Note", description="What.", min_length=3)
    names: tuple[str, ...] = option(("x", "y"), title="Names", description="Which.", min_length=1)
    sizes: Sequence[int] = option((), title="Sizes", description="How large.")
    strict: bool = option(False, title="Strict", description="Whether.")

    def score(self, sample: Sample) -> float:
        return 1.0


def test_an_option_becomes_a_field_in_which_none_is_zero_or_empty():
    made = {name: (hint, info.default, info.description) for name, (hint, info) in metric_options([Optional]).items()}
    assert made == {
        "most": (int, 0, "The most. 0: no most."),
        "mode": (Literal["default", "a", "b"], "default", "How."),
        "note": (str, "", "What."),
        "names": (list[str], [], "Which. Empty: x, y."),
        "sizes": (list[int], [], "How large. Empty: none."),
        "strict": (bool, False, "Whether."),
        "blank_answer": (BlankAnswer, "zero", METRIC_OPTIONS["blank_answer"][1].description),
    }
    form: type[Form] = create_model("Made", __base__=Form, **metric_options([Optional]))  # type: ignore[call-overload]
    assert form(**form().model_dump()) == form()
    for wrong in ({"most": -1}, {"most": 10}, {"mode": "c"}, {"sizes": ["x"]}):
        with pytest.raises(InvalidValue):
            form(**wrong)


def test_a_misspelt_parameter_is_refused():
    with pytest.raises(InvalidValue, match=r"metrix: there is no such field; did you mean metrics\?"):
        Scoring.model_validate({"metrix": ["bleu"]})
