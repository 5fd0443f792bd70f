"""The two judge metrics by the offline judge: laws that hold for every metric, degenerate inputs, depth, no network."""

import unicodedata

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from answerkey import Sample, create
from tests.metrics_core.metrics_help import imported_by

NAMES = ["meaning_match", "ground_truth_similarity"]
METRICS = create(NAMES)
WORDS = "Paris Rome not no -5 5 3.14 and , . ; Ada likes is was in 1815 red cars Париж не и — стоит на Сене 巴黎 不是"
TEXTS = st.lists(st.sampled_from(WORDS.split()), min_size=1, max_size=7).map(" ".join)
# Smaller examples are not worth the time that looking for them takes.
some = settings(max_examples=15, phases=(Phase.explicit, Phase.reuse, Phase.generate))


def measured(*samples, blank="zero"):
    metrics = create(NAMES, dict(blank_answer=blank))
    return [measurement for metric in metrics for measurement in metric.measure(samples)]


def values(answer, references, question="Who, where and when?"):
    return [(m.status, dict(m.values)) for m in measured(Sample("1", answer, references, question))]


@some
@given(answer=TEXTS, references=st.lists(TEXTS, min_size=1, max_size=3), data=st.data())
def test_range_order_and_form(answer, references, data):
    found = values(answer, references)
    for metric, (_, scores) in zip(METRICS, found, strict=True):
        assert list(scores) in ([], [field.name for field in metric.fields])
        assert all(0.0 <= value <= 1.0 for value in scores.values())
    assert values(answer, data.draw(st.permutations(references))) == found
    assert values(f" \n{answer}\u00a0", [f"\t{text} " for text in references]) == found
    for form in ("NFD", "NFKD"):
        turned = [unicodedata.normalize(form, text) for text in references]
        assert values(unicodedata.normalize(form, answer), turned) == found


@some
@given(rows=st.lists(st.tuples(TEXTS, TEXTS), min_size=2, max_size=4), data=st.data())
def test_the_order_of_rows_changes_nothing(rows, data):
    samples = [Sample(str(i), answer, [reference], "Who?") for i, (answer, reference) in enumerate(rows)]
    outcomes = {(m.metric, m.sample_id): m.outcome for m in measured(*samples)}
    shuffled = data.draw(st.permutations(samples))
    assert {(m.metric, m.sample_id): m.outcome for m in measured(*shuffled)} == outcomes
    assert {(m.metric, m.sample_id): m.outcome for s in samples for m in measured(s)} == outcomes


def test_a_verdict_comes_with_rule_probability_and_reason():
    [found, _] = measured(Sample("1", "The answer is twenty", ["20"], "What's 10 + 10?"))
    assert found.values == {"match": 1.0}
    assert (found.details["verdict"], found.details["reference"]) == ("match", 0)
    assert found.details["rule"] != "model"
    assert 0.5 < found.details["probability"] <= 1.0
    assert found.reason
    assert (found.usage.cost_usd, found.usage.tokens_in, found.requests, found.from_ledger) == (0.0, 0, (), False)
    [wrong, _] = measured(Sample("1", "Pablo Picasso", ["Leonardo da Vinci"], "Who painted the Mona Lisa?"))
    assert (wrong.values, wrong.details["reference"]) == ({"match": 0.0}, None)


def test_out_of_its_depth_it_says_so():
    for found in measured(Sample("1", "これは日本語の答えです。", ["東京は日本の首都です"], "首都はどこですか")):
        assert "not trained on" in found.details["out_of_depth"]
    for found in measured(Sample("1", "It is Paris.", ["Paris"], "What is the capital?")):
        assert "out_of_depth" not in found.details


@pytest.mark.parametrize("answer", ["Its headquarters are in Berlin.", "Its headquarters are in Munich."])
def test_every_answer_to_a_sentence_without_a_question_is_out_of_its_depth(answer):
    outcomes = measured(Sample("1", answer, ["Its headquarters are in Berlin."]))

    for outcome in outcomes:
        assert outcome.details["out_of_depth"] == "without a question that tells which word of the sentence counts"


def test_a_repeated_reference_is_within_its_depth_where_a_question_is_asked_or_it_is_short():
    outcomes = measured(
        Sample("1", "Berlin", ["Berlin"]),
        Sample("2", "Its headquarters are in Berlin.", ["Its headquarters are in Berlin."], "Where is it managed?"),
    )

    for outcome in outcomes:
        assert "out_of_depth" not in outcome.details


@pytest.mark.nightly
def test_no_client_of_any_provider_is_imported():
    code = (
        "from answerkey import Sample, evaluate\n"
        "samples = [Sample('1', 'It is Rome.', ['Paris'], 'Capital?')]\n"
        "assert evaluate(samples, ['meaning_match', 'ground_truth_similarity'])[0].values == {'match': 0.0}"
    )
    assert imported_by(code, "litellm", "openai", "httpx") == []
