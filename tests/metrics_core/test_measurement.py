"""The four outcomes, and what a measurement shows of each."""

import pickle

import pytest

from answerkey.metrics_core import Failed, Measurement, Sample, Scored, Skipped, Undefined, Usage, create
from answerkey.metrics_core.metric import Field, degenerate

SCORED = Scored({"f1": 0.5, "recall": 1.0}, reason="half of it", details={"reference": 0})


def measurement(outcome):
    return Measurement("q7", "rouge_l", "rouge_l|v1", outcome)


@pytest.mark.parametrize(
    ("outcome", "status", "values", "reason", "details"),
    [
        (SCORED, "scored", {"f1": 0.5, "recall": 1.0}, "half of it", {"reference": 0}),
        (Scored({"f1": 0.0}), "scored", {"f1": 0.0}, None, {}),
        (Undefined("no reference"), "undefined", {}, "no reference", {}),
        (Failed("timeout", "no reply in 60 s", attempts=3), "failed", {}, "timeout: no reply in 60 s", {}),
        (Skipped("budget"), "skipped", {}, "budget", {}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_measurement_shows(outcome, status, values, reason, details):
    shown = measurement(outcome)
    assert (shown.sample_id, shown.metric, shown.signature) == ("q7", "rouge_l", "rouge_l|v1")
    assert (shown.status, shown.values, shown.reason, shown.details) == (status, values, reason, details)
    assert pickle.loads(pickle.dumps(shown)) == shown


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_infinity_are_no_scores(bad):
    with pytest.raises(ValueError, match=r"\{'f1': 1\.0, 'recall': -?(nan|inf)\}: a score is a finite number"):
        Scored({"f1": 1.0, "recall": bad})


def test_usage_is_free_unless_said_and_an_unknown_price_is_not_zero():
    plain = measurement(SCORED)
    assert (plain.usage, plain.from_ledger) == (Usage(seconds=0.0, tokens_in=0, tokens_out=0, cost_usd=0.0), False)
    paid = Measurement("q7", "judge", "j", SCORED, Usage(1.5, 100, 20, None), from_ledger=True)
    assert (paid.usage.tokens_out, paid.usage.cost_usd) == (20, None)
    assert pickle.loads(pickle.dumps(paid)) == paid


def test_a_blank_answer_gets_the_lowest_value_of_each_field_and_not_less_than_zero():
    fields = (Field("similarity", "cosine", low=-1.0), Field("grade", "from one to five", low=1.0, high=5.0))
    sample = Sample("1", " ", ["Paris"])
    assert degenerate(sample, fields, "zero") == Scored({"similarity": 0.0, "grade": 1.0}, reason="blank answer")
    assert degenerate(sample, fields, "undefined") == Undefined("blank answer")
    assert degenerate(Sample("1", "a", ["Paris"]), fields, "zero") is None
    assert degenerate(Sample("1", " ", [" "]), fields, "zero") == Undefined(
        "no reference: every reference is missing or blank"
    )


def test_who_changes_the_values_of_a_measurement_changes_no_other():
    for name in ("contains", "token_overlap"):
        samples = [Sample("1", "It is Paris now.", ["Paris"]), Sample("2", "It is Paris now.", ["Paris"])]
        [metric] = create([name])
        one, other = metric.measure(samples)
        before = dict(one.values), dict(one.details)
        for mine in (one.values, one.details):
            mine["mine"] = 1.0
        assert (other.values, other.details) == (one.values, one.details) == before
        assert metric.measure(samples)[0].values == before[0]
