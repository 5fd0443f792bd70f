"""What is promised to metrics of users, classes and functions: options, checks, outcomes and signatures."""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from answerkey import (
    Failed,
    Field,
    Measurement,
    Metric,
    Sample,
    Scored,
    Undefined,
    Usage,
    create,
    evaluate,
    metric,
    option,
)
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.metric import blank_outcome, measured
from answerkey.metrics_core.metrics.words import RougeL
from answerkey.metrics_core.sample import content_hash


@dataclass(frozen=True)
class Fixed(Metric):
    """Returns the outcomes it was made with."""

    name = "fixed"
    fields = (Field("grade", low=-1.0),)

    value: Any = option(0.5)
    note: str = option("", signed=False)

    def score(self, sample):
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


def outcome(value, answer="a", **options):
    [measured] = Fixed(value=value, **options).measure([Sample("1", answer, ["r"])])
    return measured.outcome


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.25, Scored({"grade": 0.25})),
        (True, Scored({"grade": 1.0})),
        ({"grade": -1}, Scored({"grade": -1.0})),
        (Scored({"grade": 1.0}, "why", {"n": 1}), Scored({"grade": 1.0}, "why", {"n": 1})),
        (Undefined("nothing to say"), Undefined("nothing to say")),
        (None, Undefined("the metric has no value for this sample")),
        (1.5, Failed("invalid value", "grade is 1.5, outside -1.0 to 1.0")),
        (float("nan"), Failed("invalid value", "grade is nan, outside -1.0 to 1.0")),
        ({"grad": 1.0}, Failed("invalid value", "values for grad; expected grade")),
        (ValueError("no\nway"), Failed("exception", "ValueError: no way")),
        ("high", Failed("exception", "ValueError: could not convert string to float: 'high'")),
        (
            Scored({"grade": 1.0}, details={"set": {1}}),
            Failed("exception", "TypeError: Object of type set is not JSON serializable"),
        ),
    ],
)
def test_what_score_returns_or_raises_becomes_an_outcome(value, expected):
    assert outcome(value) == expected


def test_a_failure_is_that_of_its_sample_alone():
    @dataclass(frozen=True)
    class Picky(Fixed):
        def score(self, sample):
            return 1 / len((sample.answer or "").replace("x", ""))

    measured = Picky().measure([Sample("1", "a"), Sample("2", "x", ["r"]), Sample("3", "ab", ["r"])])
    assert [m.status for m in measured] == ["undefined", "failed", "scored"]
    assert measured[1].reason == "exception: ZeroDivisionError: division by zero"


def test_samples_without_what_a_metric_needs_are_not_scored():
    @dataclass(frozen=True)
    class Answers(Fixed):
        needs = frozenset(("answer",))

    @dataclass(frozen=True)
    class Questions(Fixed):
        needs = frozenset(("question",))

    def statuses(metric):
        rows = [Sample("1", "a", ["r"], "q"), Sample("2", " ", ["r"]), Sample("3", "a", [" "], "q"), Sample("4", None)]
        return [(m.status, m.reason) for m in metric.measure(rows)]

    no_reference = ("undefined", "no reference: every reference is missing or blank")
    no_question = ("undefined", "no question: it is missing or blank")
    blank, scored = ("scored", "blank answer"), ("scored", None)
    assert statuses(Fixed()) == [scored, blank, no_reference, no_reference]
    assert statuses(Answers()) == [scored, blank, scored, blank]
    assert statuses(Answers(blank_answer="undefined"))[1] == ("undefined", "blank answer")
    fields = (
        Field("errors", high=9.0, lower_is_better=True),
        Field("cosine", low=-1.0),
        Field("grade", low=1.0, high=5.0),
    )
    # What a wrong answer gets at best
    assert blank_outcome(fields, "zero").values == {"errors": 9.0, "cosine": 0.0, "grade": 1.0}
    seconds = (Field("seconds", high=math.inf, lower_is_better=True),)
    assert blank_outcome(seconds, "zero") == Undefined("blank answer")
    assert statuses(Questions()) == [scored, no_question, scored, no_question]


def test_the_signature_changes_with_version_and_options_and_names_the_code():
    @dataclass(frozen=True)
    class Later(Fixed):
        version = 2

    source = content_hash([Path(__file__).read_text(encoding="utf-8")])[:8]
    assert Fixed().signature == f"fixed|v1|code:{Fixed.__module__}:Fixed@{source}|value:0.5|blank:zero"
    assert Fixed(value=[1, "a|b"]).signature.endswith('|value:[1,%20"a%7Cb"]|blank:zero')
    assert "|v2|" in Later().signature
    texts = [Fixed(value="x" * n).signature for n in (80, 81, 82)]
    assert len(set(texts)) == 3
    assert max(map(len, texts)) < 200
    # What changes no number is left out; another name is another metric.
    assert Fixed(note="a").signature == Fixed().signature
    assert Fixed(alias="other").signature.startswith("other|v1|")


@pytest.mark.parametrize(
    ("namespace", "message"),
    [
        ({"fields": (Field("a"), Field("a"))}, "Bad must declare fields, each with a name of its own"),
        ({"headline": "volume"}, "Bad: the headline 'volume' is none of its fields"),
        ({"name": "my metric"}, "Bad is named 'my metric': a name is made of a-z, 0-9 and _"),
        ({"score": Metric.score}, r"Bad must have score\(sample\), or measure\(samples\)"),
        (
            {"limit": 0.5, "__annotations__": {"limit": float}},
            r"Bad.limit is not an option yet: decorate the class with @dataclass\(frozen=True\)",
        ),
    ],
)
def test_what_is_no_metric_is_refused_where_it_is_made(namespace, message):
    with pytest.raises(ValueError, match=message):
        type("Bad", (Fixed,), namespace)()


@pytest.mark.parametrize("ends", [(0.0, 0.0), (1.0, 0.0), (-math.inf, 1.0), (math.nan, 1.0)])
def test_a_field_has_a_name_and_a_range(ends):
    with pytest.raises(ValueError, match="is not a range"):
        Field("a", "", *ends)
    with pytest.raises(ValueError, match="field 'A b': a name is made of"):
        Field("A b")


def test_options_are_checked_and_brought_to_their_type():
    @dataclass(frozen=True)
    class Limited(Fixed):
        most: int = option(3, ge=1, le=9)
        mode: str = option("a", pattern="^[ab]$")
        names: tuple[str, ...] = option(())

    assert Limited(most="4", names=["x"]) == Limited(most=4, names=("x",))
    for options, message in (
        ({"most": 0}, "most is 0; it should be greater than or equal to 1"),
        ({"most": "many"}, "most is 'many'; it should be a valid integer"),
        ({"mode": "c"}, "mode is 'c'; String should match pattern"),
        ({"blank_answer": "one"}, "blank_answer is 'one', expected zero or undefined"),
    ):
        with pytest.raises(ValueError, match=message):
            Limited(**options)
    assert [one.name for one in Limited.options()] == ["value", "note", "most", "mode", "names", "blank_answer"]


def test_a_metric_is_described_by_its_docstring():
    assert Fixed.described() == "Returns the outcomes it was made with."
    assert RougeL.described() == RougeL.summary


@dataclass(frozen=True)
class Batched(Metric):
    """Scores samples together, and gives what their answers say."""

    name = "batched"
    fields = (Field("grade"),)

    def measure(self, samples):
        answers = [sample.answer for sample in samples]
        if "boom" in answers:
            raise RuntimeError("cannot\nbear this")
        if "model" in answers:
            raise UserError("there is no model")
        made = [Measurement(s.sample_id, "x", "x", Scored({"grade": float(s.answer or 0)}), Usage(2)) for s in samples]
        return made[:-1] if "9" in answers else made


@pytest.mark.real
def test_a_metric_with_measure_of_its_own_is_held_to_the_same_rules():
    metric = Batched()
    samples = [Sample(str(i), text) for i, text in enumerate(["0.5", "boom", "1.5", "1"])]
    measurement = measured(metric, samples)
    assert [one.outcome for one in measurement] == [
        Scored({"grade": 0.5}),
        Failed("exception", "RuntimeError: cannot bear this"),
        Failed("invalid value", "grade is 1.5, outside 0.0 to 1.0"),
        Scored({"grade": 1.0}),
    ]
    assert {(one.metric, one.signature) for one in measurement} == {("batched", metric.signature)}
    assert [one.usage.seconds for one in measurement] == [2, 0, 2, 2]
    assert evaluate(samples, [metric], workers=2) == evaluate(samples, [metric]) == measurement


def test_a_measure_that_loses_samples_fails_them_all_and_one_that_cannot_work_at_all_says_so():
    lost = Failed("invalid value", "measure returned other samples than it was given, or in another order")
    assert [one.outcome for one in measured(Batched(), [Sample("1", "1"), Sample("2", "9")])] == [lost, lost]
    with pytest.raises(UserError, match="there is no model"):
        evaluate([Sample("1", "1"), Sample("2", "model")], [Batched()])


# Plain functions as metrics

ANSWERS = [Sample(str(i), text, ["r"]) for i, text in enumerate(["r", "a b c d", "", None])]


def test_a_decorated_function_is_a_metric_with_options(custom_metrics):
    short, long = custom_metrics.short(), custom_metrics.short(words=9, alias="long")
    assert [m.values["score"] for m in short.measure(ANSWERS)] == [1.0, 0.0, 0.0, 0.0]
    assert [m.values["score"] for m in long.measure(ANSWERS)] == [1.0, 1.0, 0.0, 0.0]
    assert short.fields == (Field("score", "The answer is short.", binary=True),)
    assert re.fullmatch(r"short\|v1\|code:custom_metrics:short@[0-9a-f]{8}\|words:3\|blank:zero", short.signature)
    assert (short.described(), long.spec) == ("The answer is short.", "long=custom_metrics:short(words=9)")


def test_a_plain_function_is_one_too(custom_metrics):
    [given] = create([custom_metrics.first_letter])
    [named] = create(["custom_metrics:first_letter"])
    assert given.signature == named.signature
    assert [m.values["score"] for m in given.measure(ANSWERS)] == [1.0, 0.0, 0.0, 0.0]


def test_a_function_that_no_process_can_import_is_refused_for_several_and_fine_for_one():
    @metric(name="local", fields=["a", "b"], needs=["answer"])
    def local(answer: str, references: object, *, scale: float) -> dict[str, float]:
        return {"a": scale, "b": len(answer) / 10}

    assert evaluate(ANSWERS, [local(scale=0.5)])[0].values == {"a": 0.5, "b": 0.1}
    with pytest.raises(UserError, match=r"metric local cannot be sent to another process .* top level of a module"):
        evaluate(ANSWERS, [local(scale=0.5)], workers=2)
    with pytest.raises(UserError, match=r"metric local: .*scale"):
        evaluate(ANSWERS, [local])


def test_what_is_no_metric_is_refused():
    with pytest.raises(TypeError, match="metric 'alone': the function must take an answer and references"):

        @metric
        def alone(answer: str) -> float:
            return 1.0

    with pytest.raises(UserError, match="is named '<lambda>': a name is made of"):
        create([lambda answer, references: 1.0])
    with pytest.raises(ValueError, match="field 'A': a name"):
        metric(fields=["A"])(lambda answer, references: 1.0)
