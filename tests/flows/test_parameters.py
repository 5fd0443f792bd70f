"""Forms offer what the library has, pass it on unchanged, and refuse what may be a key; a rerun merges them."""

import re
from dataclasses import dataclass
from typing import get_args

import pytest

from answerkey.flows.evaluate_release import evaluate_release
from answerkey.flows.parameters import Data, Judging, Limits, Scoring
from answerkey.flows.rerun_report import Rerunning, changed_forms
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.options import JudgeOptions, Jury
from answerkey.metrics_core.metric import Field, Metric, option
from answerkey.metrics_core.registry import METRICS, create
from answerkey.metrics_core.sample import Sample
from answerkey.metrics_core.validation import InvalidValue
from answerkey.tasks.load.load import Source, load
from answerkey.tasks.validate.contract import Contract
from answerkey.tasks.validate.validate import validate
from tests.tasks.staging_help import jsonl

SUITE = """
expectations:
  - type: expect_column_values_to_not_match_regex
    kwargs: {column: answer, regex: sorry}
    description: No answer says sorry
    meta: {name: no_apology}
"""
"""As it is typed into the form."""
FOUR = ["answer_correctness", "semantic_similarity", "meaning_match", "ground_truth_similarity"]


def test_four_metrics_are_the_default():
    assert Scoring().metrics == FOUR
    assert Scoring.model_validate({"own_metrics": ["exact_match"]}).metrics == [*FOUR, "exact_match"]
    # As a saved schedule has them.
    assert Scoring.model_validate({"metrics": list(METRICS)}).metrics == list(METRICS)
    assert Scoring().asks_judges
    assert not Scoring(metrics=["contains"]).asks_judges
    assert Scoring(metrics=["contains", "meaning_match"]).asks_judges


def test_a_suite_typed_into_the_form_is_checked(tmp_path):
    rows = [{"id": str(n), "answer": "sorry" if n == 2 else "Paris", "reference": "Paris"} for n in range(9)]
    form = evaluate_release.validate_parameters({"data": {"answers": "a.jsonl"}, "limits": {"expectations": SUITE}})
    loaded = load(Source(jsonl(tmp_path / "a.jsonl", rows)), tmp_path / "work")
    checked = validate(loaded.staged, loaded.rejects, str(tmp_path / "valid"), form["limits"].contract())
    [said] = [check.message for check in checked.checks if check.rule == "no_apology"]
    assert said == "1 row in breach of `no_apology`: No answer says sorry (row 3)"


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
    limits = Limits(max_quarantined=0.5, min_coverage=0.5)
    assert limits.contract() == Contract(max_quarantined=0.5)
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


KEY = "sk-canary-0123456789"
OPENAI = "openai/gpt-4o-mini"


def test_untouched_forms_are_the_library_s_defaults(monkeypatch):
    assert Scoring().create("cache") == create(FOUR, {"embedding_cache": "cache"})
    assert Limits().contract() == Contract()
    assert Data(answers="a.csv").source() == Source("a.csv")
    assert Judging().options() == Judging(judges=["offline"]).options() and Judging().options().offline
    monkeypatch.setenv("ANSWERKEY_JUDGE", OPENAI)
    assert Judging().options() == JudgeOptions(judges=(OPENAI,))
    assert get_args(Judging.model_fields["jury"].annotation) == get_args(Jury)


def test_choices_of_judges_reach_the_library():
    chosen = dict(
        judges=("openai/a", "openai/b@http://127.0.0.1:8080/v1"), api_base="https://judge.example/v1",
        jury="unanimous", repeats=3, concurrency=5, timeout_s=8.0, deadline_s=9.0, max_calls=7, max_cost_usd=0.5,
        cascade=0.02,
    )  # fmt: skip
    assert Judging(**chosen, key_from="env:JUDGE_KEY").options() == JudgeOptions(**chosen)
    unlimited = Judging(judges=["openai/a"]).options()
    assert (unlimited.limits.max_calls, unlimited.limits.max_cost_usd, unlimited.cascade) == (None, None, 0.0)
    # Every option of the library is one of the form.
    assert set(JudgeOptions.model_fields) == set(Judging.model_fields) - {"key_from"}


def test_schedules_saved_with_none_or_with_zero_have_no_limit():
    for saved in (None, 0):
        form = Judging.model_validate(dict.fromkeys(("max_calls", "max_cost_usd", "cascade"), saved))
        assert (form.max_calls, form.max_cost_usd, form.cascade) == (0, 0.0, 0.0)


@pytest.mark.parametrize(
    "judge",
    [
        OPENAI,
        "offline",
        "vertex_ai/claude-3-5-sonnet@20240620@https://judge.example/v1",
        "bedrock/anthropic.claude-3-haiku-20240307-v1:0",
    ],
)
def test_judges_as_they_are_written(judge):
    assert Judging(judges=[judge]).judges == (judge,)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("key_from", KEY),
        ("key_from", "env:"),
        ("key_from", f"file:{KEY}"),
        ("judges", [KEY]),
        ("judges", [f"openai/x@http://127.0.0.1/v1?key={KEY}"]),
        ("api_base", KEY),
        ("api_base", f"https://user:{KEY}@judge.example/v1"),
        ("api_base", f"https://judge.example/v1?key={KEY}"),
        ("judges", [f"openai/{KEY}"]),
    ],
)
def test_what_may_hold_a_key_is_refused_and_not_repeated(field, value):
    with pytest.raises(InvalidValue) as caught:
        Judging.model_validate({field: value})
    assert caught.value.field == field
    assert KEY not in str(caught.value)
    # The same in the form of the UI, which checks before it stores.
    schema = Judging.model_json_schema()["properties"][field]
    pattern = schema["items"]["pattern"] if field == "judges" else schema["pattern"]
    assert not re.search(pattern, value[0] if isinstance(value, list) else str(value))


@pytest.fixture
def manifest():
    judging = Judging(judges=["openai/a"], api_base="http://127.0.0.1:1/v1", key_from="env:K", repeats=3, max_calls=7)
    scoring = Scoring(metrics=["contains", "semantic_similarity", "meaning_match"], threshold=0.6, only_failed=True)
    forms = {"scoring": scoring, "judging": judging, "limits": Limits(min_coverage=0.5)}
    return {"parameters": {name: form.model_dump() for name, form in forms.items()}}


def test_nothing_changed_but_the_limits_of_the_run(manifest):
    scoring, judging, limits = changed_forms(manifest, Rerunning(report="r", max_cost_usd=1.5))
    assert scoring == Scoring(metrics=["contains", "semantic_similarity", "meaning_match"], threshold=0.6)
    assert judging.model_dump(exclude={"max_calls", "max_cost_usd"}) == Judging(
        judges=["openai/a"], api_base="http://127.0.0.1:1/v1", key_from="env:K", repeats=3
    ).model_dump(exclude={"max_calls", "max_cost_usd"})
    assert (judging.max_calls, judging.max_cost_usd) == (0, 1.5)
    assert limits.min_coverage == 0.5


def test_a_suite_of_expectations_is_the_one_that_was_checked(manifest):
    manifest["parameters"]["limits"]["expectations"] = "/gone/suite.yaml"
    text = "expectations: [{type: expect_column_to_exist, kwargs: {column: answer}}]\n"
    _, _, limits = changed_forms(manifest | {"expectations": text}, Rerunning(report="r"))
    assert limits == Limits(min_coverage=0.5, expectations=text)


def test_another_judge_brings_its_own_address_and_keeps_the_rest(manifest):
    scoring, judging, _ = changed_forms(
        manifest, Rerunning(report="r", judges=["openai/b"], metrics=["meaning_match"], threshold=0.0)
    )
    assert (judging.judges, judging.api_base, judging.key_from) == (("openai/b",), "", "env:K")
    assert (judging.repeats, scoring.metrics, scoring.threshold) == (3, ["meaning_match"], 0.0)


def test_options_that_the_new_metrics_lack_are_dropped_unless_they_are_asked_for(manifest):
    scoring, _, _ = changed_forms(manifest, Rerunning(report="r", metrics=["contains"]))
    assert scoring == Scoring(metrics=["contains"])
    with pytest.raises(UserError, match="threshold: none of these metrics has such an option"):
        changed_forms(manifest, Rerunning(report="r", metrics=["contains"], threshold=0.5))


def test_the_form_offers_metrics_as_the_form_of_an_evaluation_does(manifest):
    ours, theirs = (form.model_json_schema()["properties"]["metrics"] for form in (Rerunning, Scoring))
    assert ours["items"] == theirs["items"] and "contains" in ours["items"]["enum"]
    name = "mine=contains(blank_answer=undefined)"
    assert changed_forms(manifest, Rerunning(report="r", own_metrics=[name]))[0].metrics == [
        "contains", "semantic_similarity", "meaning_match", name,
    ]  # fmt: skip
    both, _, _ = changed_forms(manifest, Rerunning(report="r", metrics=["bleu"], own_metrics=[name]))
    assert both.metrics == ["bleu", name]


@pytest.mark.parametrize("change", [{"judges": ["openai/b"]}, {"threshold": 0.5}])
def test_failed_rows_are_those_of_the_same_judge_and_threshold(manifest, change):
    assert changed_forms(manifest, Rerunning(report="r", only_failed=True))[0].only_failed
    with pytest.raises(UserError, match="only failed rows: nothing has failed yet with another judge or threshold"):
        changed_forms(manifest, Rerunning(report="r", only_failed=True, **change))


def test_judges_that_were_named_elsewhere_must_still_be_the_same(manifest, monkeypatch):
    manifest["parameters"]["judging"]["judges"] = []
    manifest["parameters"]["judging"]["api_base"] = ""
    manifest["judge"] = {"judges": ["openai/then"]}
    monkeypatch.setenv("ANSWERKEY_JUDGE", "openai/then")
    assert changed_forms(manifest, Rerunning(report="r"))[1].judges == ()
    monkeypatch.setenv("ANSWERKEY_JUDGE", "openai/now")
    with pytest.raises(UserError, match=r"the report asked openai/then, .* now it would ask openai/now; name the ones"):
        changed_forms(manifest, Rerunning(report="r"))
    # A lexical metric asks no judge.
    assert changed_forms(manifest, Rerunning(report="r", metrics=["contains"]))[0].metrics == ["contains"]


def test_a_report_of_another_version_is_refused_in_one_line(manifest):
    manifest["parameters"]["scoring"]["no_such_field"] = 1
    with pytest.raises(UserError, match="r: it was made by another version of answerkey"):
        changed_forms(manifest, Rerunning(report="r"))
