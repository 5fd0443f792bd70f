"""What the model sees beside words found: rare ones, other ones in their place, kinds and lengths."""

import pytest

from answerkey.metrics_core.offline_judge.features import rarities, word_features
from answerkey.metrics_core.offline_judge.reading import read
from answerkey.metrics_core.offline_judge.rules import Case


def seen(question: str, answer: str, reference: str, words: dict[str, float] | None = None) -> dict[str, float]:
    case = Case.of(read(question), read(answer), read(reference))
    return word_features(case, case.head, words or {})


def test_stems_of_many_texts_are_less_rare_and_those_of_few_are_left_out() -> None:
    texts = [f"the river {i}" for i in range(8)] + [f"a lake {i}" for i in range(8, 16)]
    found = rarities(texts, least=8)
    assert found == {"a": 0.25, "lake": 0.25, "river": 0.25, "the": 0.25}
    assert rarities(reversed(texts), least=8) == found


@pytest.mark.parametrize(
    ("answer", "rivals", "names", "numbers"),
    [
        ("It was Jane Smith.", 1, 1, 0),
        ("It was John Smith.", 0, 0, 0),
        ("It was Smith.", 0, 0, 0),
        ("It was John Smith of Leeds.", 0, 0, 0),
    ],
)
def test_another_name_in_the_place_of_a_missing_one_is_a_rival(
    answer: str, rivals: float, names: float, numbers: float
) -> None:
    found = seen("Who did it?", answer, "John Smith")
    assert (found["rivals"], found["rival_names"], found["rival_numbers"]) == (rivals, names, numbers)


def test_rare_words_count_for_more() -> None:
    words = {"river": 0.2}
    common, rare = (seen("What is it?", answer, "river Aire", words) for answer in ("a river", "the Aire"))
    assert common["recall_idf"] == pytest.approx(0.2 / 1.2)
    assert rare["recall_idf"] == pytest.approx(1 / 1.2)
    assert (common["missing_idf_rarest"], rare["missing_idf_rarest"]) == (1.0, 0.2)
    assert rare["precision_idf"] == 1.0
    assert seen("What is it?", "river Wharfe", "river Aire", words)["extra_idf"] == 1.0


def test_the_shape_of_an_answer_beside_its_reference() -> None:
    found = seen("When was it?", "in 1851, instead of 1850 (or so)", "1851")
    assert (found["turns"], found["brackets"], found["quotes"]) == (1.0, 1.0, 0.0)
    assert found["longer_focus"] > 0
    assert seen("How many?", "five", "the sea")["same_kind_head"] == 0.0
    assert seen("How many?", "five", "seven")["same_kind_head"] == 1.0
    assert seen("Which city?", "Leeds", "Leeds")["trigrams_both"] == 1.0
