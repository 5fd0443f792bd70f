"""What the model sees beside words found: how rare they are."""

import pytest

from answerkey.metrics_core.offline_judge.features import features
from answerkey.metrics_core.offline_judge.reading import read
from answerkey.metrics_core.offline_judge.rules import Case


def seen(question, answer, reference, words=None):
    case = Case.of(read(question), read(answer), read(reference))
    return features(case, case.head, words or {})


def test_rare_words_count_for_more():
    words = {"river": 0.2}
    common, rare = (seen("What is it?", answer, "river Aire", words) for answer in ("a river", "the Aire"))
    assert common["recall_idf"] == pytest.approx(0.2 / 1.2)
    assert rare["recall_idf"] == pytest.approx(1 / 1.2)
    assert (common["missing_idf"], rare["missing_idf"]) == (1.0, 0.2)
    assert rare["precision_idf"] == 1.0
    assert seen("What is it?", "river Wharfe", "river Aire", words)["extra_idf"] == 1.0
