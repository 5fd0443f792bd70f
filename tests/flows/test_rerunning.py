"""The form for a rerun: what is left as it is stays as in the report, and contradictions are refused."""

import pytest

from answerkey.flows.parameters import Judging, Limits, Scoring
from answerkey.flows.rerun_report import Rerunning, again
from answerkey.metrics_core.errors import UserError


@pytest.fixture
def manifest():
    judging = Judging(judges=["openai/a"], api_base="http://127.0.0.1:1/v1", key_from="env:K", repeats=3, max_calls=7)
    scoring = Scoring(metrics=["contains", "semantic_similarity", "meaning_match"], threshold=0.6, only_failed=True)
    forms = {"scoring": scoring, "judging": judging, "limits": Limits(min_coverage=0.5)}
    return {"parameters": {name: form.model_dump() for name, form in forms.items()}}


def test_nothing_changed_but_the_limits_of_the_run(manifest):
    forms = again(manifest, Rerunning(report="r", max_cost_usd=1.5))
    assert forms.scoring == Scoring(metrics=["contains", "semantic_similarity", "meaning_match"], threshold=0.6)
    assert forms.judging.model_dump(exclude={"max_calls", "max_cost_usd"}) == Judging(
        judges=["openai/a"], api_base="http://127.0.0.1:1/v1", key_from="env:K", repeats=3
    ).model_dump(exclude={"max_calls", "max_cost_usd"})
    assert (forms.judging.max_calls, forms.judging.max_cost_usd) == (0, 1.5)
    assert forms.limits.min_coverage == 0.5


def test_a_suite_of_expectations_is_the_one_that_was_checked(manifest):
    manifest["parameters"]["limits"]["expectations"] = "/gone/suite.yaml"
    text = "expectations: [{type: expect_column_to_exist, kwargs: {column: answer}}]\n"
    forms = again(manifest | {"expectations": text}, Rerunning(report="r"))
    assert forms.limits == Limits(min_coverage=0.5, expectations=text)


def test_another_judge_brings_its_own_address_and_keeps_the_rest(manifest):
    forms = again(manifest, Rerunning(report="r", judges=["openai/b"], metrics=["meaning_match"], threshold=0.0))
    assert (forms.judging.judges, forms.judging.api_base, forms.judging.key_from) == (("openai/b",), "", "env:K")
    assert (forms.judging.repeats, forms.scoring.metrics, forms.scoring.threshold) == (3, ["meaning_match"], 0.0)


def test_options_that_the_new_metrics_lack_are_dropped_unless_they_are_asked_for(manifest):
    forms = again(manifest, Rerunning(report="r", metrics=["contains"]))
    assert forms.scoring == Scoring(metrics=["contains"])
    with pytest.raises(UserError, match="threshold: none of these metrics has such an option"):
        again(manifest, Rerunning(report="r", metrics=["contains"], threshold=0.5))


def test_the_form_offers_metrics_as_the_form_of_an_evaluation_does(manifest):
    ours, theirs = (form.model_json_schema()["properties"]["metrics"] for form in (Rerunning, Scoring))
    assert ours["items"] == theirs["items"] and "contains" in ours["items"]["enum"]
    name = "mine=contains(blank_answer=undefined)"
    assert again(manifest, Rerunning(report="r", own_metrics=[name])).scoring.metrics == [
        "contains", "semantic_similarity", "meaning_match", name,
    ]  # fmt: skip
    both = again(manifest, Rerunning(report="r", metrics=["bleu"], own_metrics=[name]))
    assert both.scoring.metrics == ["bleu", name]


@pytest.mark.parametrize("change", [{"judges": ["openai/b"]}, {"threshold": 0.5}])
def test_failed_rows_are_those_of_the_same_judge_and_threshold(manifest, change):
    assert again(manifest, Rerunning(report="r", only_failed=True)).scoring.only_failed
    with pytest.raises(UserError, match="only failed rows: nothing has failed yet with another judge or threshold"):
        again(manifest, Rerunning(report="r", only_failed=True, **change))


def test_judges_that_were_named_elsewhere_must_still_be_the_same(manifest, monkeypatch):
    manifest["parameters"]["judging"]["judges"] = []
    manifest["parameters"]["judging"]["api_base"] = ""
    manifest["judge"] = {"judges": ["openai/then"]}
    monkeypatch.setenv("ANSWERKEY_JUDGE", "openai/then")
    assert again(manifest, Rerunning(report="r")).judging.judges == ()
    monkeypatch.setenv("ANSWERKEY_JUDGE", "openai/now")
    with pytest.raises(UserError, match=r"the report asked openai/then, .* now it would ask openai/now; name the ones"):
        again(manifest, Rerunning(report="r"))
    # A lexical metric asks no judge.
    assert again(manifest, Rerunning(report="r", metrics=["contains"])).scoring.metrics == ["contains"]


def test_a_report_of_another_version_is_refused_in_one_line(manifest):
    manifest["parameters"]["scoring"]["no_such_field"] = 1
    with pytest.raises(UserError, match="r: it was made by another version of answerkey"):
        again(manifest, Rerunning(report="r"))
