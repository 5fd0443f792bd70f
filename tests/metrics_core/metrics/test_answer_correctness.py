"""The basket: each field its maximum over the references, beside the coherent numbers of the best one."""

from hypothesis import given
from hypothesis import strategies as st

from answerkey.metrics_core import Sample, evaluate
from answerkey.metrics_core.metrics.answer_correctness import NAMES
from tests.metrics_core.metrics_help import scored

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


def test_blank_references_are_left_out_and_keep_their_place():
    with_blanks = basket("a b", ["", "x", " \u200b", "a c"])
    assert with_blanks.values == basket("a b", ["x", "a c"]).values
    assert with_blanks.details["reference"] == 3


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


def test_a_profile_shares_the_table_of_degenerate_inputs():
    for profile in ("continuous_eval_v0_2", "continuous_eval_v0_3"):
        assert basket("", ["a"], profile=profile).values == dict.fromkeys(NAMES, 0.0)
        assert basket(None, ["a"], profile=profile, blank_answer="undefined").status == "undefined"
        assert basket("a", [" "], profile=profile).status == "undefined"


def test_where_a_profile_has_no_number_it_says_so():
    measurement = basket("a", ["..."], profile="continuous_eval_v0_2")
    assert measurement.status == "undefined"
    assert measurement.reason.startswith("continuous_eval_v0_2 has no number for this: ")
    assert "'...'" in measurement.reason
