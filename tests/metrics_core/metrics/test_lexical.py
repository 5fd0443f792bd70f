"""The lexical metrics one by one: degenerate inputs, small numbers by hand, details; the basket; rouge-score."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from answerkey import Sample, create, evaluate
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.metrics.answer_correctness import NAMES
from tests.metrics_core.metrics_help import scored

LEXICAL = ["answer_correctness", "rouge_l", "token_overlap", "bleu", "chrf", "exact_match", "contains"]
INVISIBLE = "\u200b\u200d\ufeff\u00ad \u3164"
BLANKS = [None, "  \n", INVISIBLE]
NO_REFERENCE = "no reference: every reference is missing or blank"

each_metric = pytest.mark.parametrize("name", LEXICAL)
each_policy = pytest.mark.parametrize("policy", ["zero", "undefined"])


def one(name, answer, references, **options):
    measurement = scored(name, answer, references, **options)
    assert measurement.metric == name
    return measurement


def constant(name, value):
    [metric] = create([name])
    return {field.name: value for field in metric.fields}


@each_policy
@each_metric
@pytest.mark.parametrize("answer", BLANKS, ids=ascii)
def test_a_blank_answer_is_a_wrong_answer_or_left_out(name, policy, answer):
    measurement = one(name, answer, ["Paris", "Lutetia"], blank_answer=policy)
    assert measurement.reason == "blank answer"
    assert measurement.status == ("scored" if policy == "zero" else "undefined")
    assert measurement.values == (constant(name, 0.0) if policy == "zero" else {})


@each_policy
@each_metric
@pytest.mark.parametrize("answer", ["Paris", "  \n"], ids=ascii)
@pytest.mark.parametrize("references", [[], ["", "  "], [INVISIBLE]], ids=["none", "blank", "invisible"])
def test_without_a_reference_nothing_is_defined(name, policy, answer, references):
    measurement = one(name, answer, references, blank_answer=policy)
    assert (measurement.status, measurement.values, measurement.reason) == ("undefined", {}, NO_REFERENCE)


@each_metric
def test_a_text_is_scored_on_the_references_that_are_not_blank(name):
    assert one(name, "a b", ["", "a c", INVISIBLE, "x"]).values == one(name, "a b", ["a c", "x"]).values


@each_policy
@each_metric
@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        ("?", "?"),
        ("—", "—"),
        ("ёж", "еж"),
    ],
)
def test_equal_after_normalisation_scores_one(name, policy, answer, reference):
    measurement = one(name, answer, ["something else", reference], blank_answer=policy)
    assert (measurement.status, measurement.values) == ("scored", constant(name, 1.0))


@each_policy
@each_metric
@pytest.mark.parametrize(("answer", "reference"), [("?", "!"), ("!", "Paris"), ("Paris", "!")])
def test_texts_without_words_agree_only_when_they_are_equal(name, policy, answer, reference):
    measurement = one(name, answer, [reference], blank_answer=policy)
    assert (measurement.status, measurement.values) == ("scored", constant(name, 0.0))


@pytest.mark.parametrize(
    ("name", "answer", "references", "expected"),
    [
        ("rouge_l", "the cat sat", ["the cat sat down"], (1, 3 / 4, 6 / 7)),
        # The best F1 wins, with its own precision and recall.
        ("rouge_l", "a b c d", ["a b c d e f g h", "a x", "y"], (1, 1 / 2, 2 / 3)),
        ("rouge_l", "北京是首都", ["首都是北京"], (2 / 5, 2 / 5, 2 / 5)),
        # Clipped: each word counts as often as it stands in both.
        ("token_overlap", "the the the cat", ["the cat sat on the mat"], (3 / 4, 3 / 6, 3 / 5)),
        ("token_overlap", "it is not 5", ["it is 5"], (3 / 4, 1, 6 / 7)),
        ("token_overlap", "x", ["y", "x z"], (1, 1 / 2, 2 / 3)),
    ],
)
def test_precision_recall_and_f1_by_hand(name, answer, references, expected):
    values = one(name, answer, references).values
    assert tuple(values) == ("precision", "recall", "f1")
    assert tuple(values.values()) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("answer", "reference", "match"),
    [
        ("Елка", "ёлка", 1),
        ("¿París?", "París", 1),
        ("−5", "-5", 1),
        ("It is Paris", "Paris", 0),
        ("-5", "5", 0),
        ("10²", "102", 0),
        ("St. John", "St John", 0),
        ("?", "!", 0),
    ],
)
def test_exact_match(answer, reference, match):
    assert one("exact_match", answer, ["other", reference]).values == {"match": match}
    assert one("exact_match", reference, ["other", answer]).values == {"match": match}


@pytest.mark.parametrize(
    ("answer", "reference", "match"),
    [
        ("It is Paris, of course.", "paris", 1),
        ("New City of York", "New York", 0),
        ("Parisian", "Paris", 0),
        ("It is 1,000 m", "1000", 1),
        ("It is -5 °C", "5", 0),
        ("这是北京市", "北京", 1),
        ("Это не Париж", "париж", 1),
        ("Paris", "It is Paris", 0),
        ("Paris?", "?", 0),
    ],
)
def test_contains(answer, reference, match):
    assert one("contains", answer, ["other", reference]).values == {"match": match}


@pytest.mark.parametrize(
    ("field", "answer", "reference", "value"),
    [
        ("exact_match.match", "İZMİR", "İzmir", 1.0),
        ("exact_match.match", "sinir", "sınır", 0.0),
        ("exact_match.match", "القُرآن", "القران", 1.0),
        ("bleu.bleu", "کتاب", "كتاب", 1.0),
        ("exact_match.match", "ארה״ב", 'ארה"ב', 1.0),
        ("exact_match.match", "على", "إلى", 0.0),
        ("exact_match.match", "१२३", "123", 1.0),
        ("contains.match", "서울은 한국의 수도이다", "서울", 1.0),
        ("contains.match", "1987년이었다. 42입니다", "42", 1.0),
        ("contains.match", "서울대학교는 크다", "서울", 0.0),
        ("token_overlap.recall", "정답은 고양이입니다.", "고양이", 1.0),
        ("rouge_l.recall", "한국의 수도는 서울이다", "한국 수도 서울", 1.0),
        ("exact_match.match", "1,000", "1000", 1.0),
        ("exact_match.match", "1,00,000", "100000", 1.0),
        ("exact_match.match", "[Paris](https://a.example)", "Paris", 1.0),
        ("exact_match.match", r"\boxed{42}", "42", 1.0),
        ("exact_match.match", "$29", "29", 0.0),
    ],
)
def test_texts_are_compared_as_people_read_them(field, answer, reference, value):
    metric, _, name = field.partition(".")
    assert scored(metric, answer, [reference]).values[name] == pytest.approx(value)


def test_bleu_keeps_the_statistics_of_a_missing_answer():
    # Its reference still counts in the brevity penalty of the whole release: the closest is the shortest.
    assert one("bleu", None, ["a b c", "a b"]).details == {"stats": [0, 2, 0, 0, 0, 0, 0, 0, 0, 0]}


def test_the_details_name_the_reference_that_counted():
    references = ["", "Rome", "Paris is it", "Paris"]
    assert one("rouge_l", "So Paris is it!", references).details == {"reference": 2}
    assert one("token_overlap", "Paris", references).details == {"reference": 3}
    assert one("exact_match", "paris.", references).details == {"reference": 3}
    assert one("contains", "It is Paris", references).details == {"reference": 3}
    assert one("contains", "It is Oslo", references).details == {}
    # Of equal ones the first is named.
    assert one("rouge_l", "Paris", ["PARIS", "Paris"]).details == {"reference": 0}


@each_metric
def test_the_policy_is_in_the_signature_and_an_unknown_one_is_refused(name):
    [zero], [undefined] = create([name]), create([name], dict(blank_answer="undefined"))
    assert undefined.signature == zero.signature.replace("blank:zero", "blank:undefined") != zero.signature
    with pytest.raises(UserError, match=f"metric {name}: blank_answer is 'maybe', expected zero or undefined"):
        create([name], dict(blank_answer="maybe"))


# The basket: each field its maximum over the references, beside the coherent numbers of the best one.


WORDS = st.lists(st.sampled_from(["a", "b", "c", "d", "не", "-5", "5", "北", "?"]), min_size=1, max_size=8)
TEXTS = WORDS.map(" ".join)


def basket(answer, references, **options):
    return scored("answer_correctness", answer, references, **options)


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=4))
def test_each_field_is_the_maximum_of_its_values_for_single_references(answer, references):
    single = [basket(answer, [reference]).values for reference in references]
    assert basket(answer, references).values == {name: max(values[name] for values in single) for name in NAMES}


@given(TEXTS, st.lists(TEXTS, min_size=2, max_size=4))
def test_the_coherent_numbers_are_those_of_the_best_reference(answer, references):
    measurement = basket(answer, references)
    index = measurement.details["reference"]
    alone = basket(answer, [references[index]]).values
    # An identical reference is the best for every field, and nothing else needs to be said.
    assert measurement.details.get("coherent", measurement.values) == alone
    assert alone["rouge_l_f1"] == max(basket(answer, [text]).values["rouge_l_f1"] for text in references)


@given(TEXTS, TEXTS)
def test_the_basket_agrees_with_the_metrics_that_it_holds(answer, reference):
    values = basket(answer, [reference]).values
    assert tuple(values) == NAMES
    samples = [Sample("1", answer, [reference])]
    rouge_l, token_overlap, bleu = evaluate(samples, ["rouge_l", "token_overlap", "bleu"])
    assert list(values.values()) == [*rouge_l.values.values(), *token_overlap.values.values(), bleu.values["bleu"]]


def test_a_profile_changes_the_numbers_and_the_signature():
    default = basket("Paris is not it", ["Paris is it"])
    v0_3 = basket("Paris is not it", ["Paris is it"], profile="continuous_eval_v0_3")
    assert v0_3.signature == "answer_correctness|v1|profile:continuous_eval_v0_3|blank:zero"
    assert "profile" not in default.signature
    # The old version dropped "not"; this is why it is a profile and not the default.
    assert v0_3.values["token_overlap_f1"] == 1
    assert default.values["token_overlap_f1"] < 1
    assert tuple(v0_3.values) == tuple(default.values) == NAMES


def test_where_a_profile_has_no_number_it_says_so():
    measurement = basket("a", ["..."], profile="continuous_eval_v0_2")
    assert measurement.status == "undefined"
    assert measurement.reason.startswith("continuous_eval_v0_2 has no number for this: ")
    assert "'...'" in measurement.reason


# The metric `rouge` is rouge-score, called as papers call it.


TYPES = ["rouge1", "rouge2", "rougeL", "rougeLsum"]


@pytest.mark.parametrize(
    ("answer", "references"),
    [
        ("The cats were sitting\non the mats.", ["The cat sat.\nIt was on a mat.", "cats sit on mats"]),
        ("Paris", ["Paris"]),
        ("a b c d", ["a b c d e f g h", "a", "c d", "x"]),
        ("It's 3.14, isn't it?", ["it is 3.14"]),
        ("столица Paris", ["Paris — столица", "Rome"]),
        ("!", ["Paris"]),
    ],
)
def test_rouge_is_rouge_scores(answer, references):
    expected = RougeScorer(TYPES).score_multi(references, answer)
    assert scored("rouge", answer, references).values == {name.lower(): expected[name].fmeasure for name in TYPES}


@pytest.mark.parametrize(
    ("answer", "references", "reason"),
    [
        ("Париж", ["Париж"], "no reference has a word that rouge-score reads"),
        ("a " * 6_000, ["b " * 5_000], "too long for rouge-score: 30,000,000 pairs of words"),
        ("a", [" "], "no reference"),
    ],
)
def test_where_rouge_score_has_no_number_there_is_none(answer, references, reason):
    measurement = scored("rouge", answer, references)
    assert measurement.status == "undefined"
    assert (measurement.reason or "").startswith(reason)
