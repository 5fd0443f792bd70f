"""Examples from labels: chosen by agreement, measured on other answers, and no gain where there is none."""

import numpy as np
import pytest

from answerkey.metrics_core import Sample
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.learning import LabelledSample, learn
from answerkey.metrics_core.judges.rubric import Criterion, Rubric, read_rubric

RUBRIC = Rubric("manners", 1, ("answer",), (Criterion("The answer is polite.", (("yes", 1.0), ("no", 0.0))),))


def rows(labels, word="indeed"):
    """Answers that people called impolite where they have the word."""
    return [
        LabelledSample(Sample(str(n), f"Answer {n}{'' if polite else f', {word}'}."), "yes" if polite else "no", n)
        for n, polite in enumerate(labels)
    ]


def apt(rubric, samples):
    """A judge that minds "indeed" once it was shown that people do."""
    minds = any(one.verdict == "no" and "indeed" in (one.sample.answer or "") for one in rubric.examples)
    return ["no" if minds and "indeed" in (sample.answer or "") else "yes" for sample in samples]


def stubborn(_rubric, samples):
    return ["yes"] * len(samples)


def test_what_people_corrected_is_shown_and_the_gain_is_that_on_other_answers():
    found = learn(RUBRIC, rows([n % 3 > 0 for n in range(60)]), apt, 2)
    assert (found.n, found.corrected) == (60, 20)
    assert (found.gain.old, found.gain.new) == (pytest.approx(2 / 3), 1.0)
    assert found.gain.interval is not None
    assert 0.15 < found.gain.interval.low < 1 / 3 < found.gain.interval.high < 0.55
    assert [one.verdict for one in found.rubric.examples] == ["no", "yes"]


def test_where_nothing_helps_the_rubric_stays_and_the_gain_is_none():
    found = learn(RUBRIC, rows([n % 3 > 0 for n in range(60)]), stubborn, 4)
    assert found.rubric is RUBRIC
    assert found.gain.difference == 0.0


def test_examples_that_help_only_where_they_were_chosen_show_no_gain():
    rng = np.random.default_rng(7)
    labels = [bool(one) for one in rng.integers(0, 2, 60)]

    def noisy(rubric, samples):
        salt = sum(int(one.sample.sample_id) for one in rubric.examples)
        return ["yes" if (int(one.sample_id) * 7 + salt) % 5 < 2 else "no" for one in samples]

    found = learn(RUBRIC, rows(labels), noisy, 3)
    assert found.gain.interval is not None
    assert found.gain.interval.low < 0.05
    assert found.rubric is RUBRIC


def test_no_answer_is_judged_with_an_example_from_its_own_cluster():
    plain = rows([n % 3 > 0 for n in range(40)])
    given = [LabelledSample(one.sample, one.verdict, n // 2) for n, one in enumerate(plain)]
    of = {one.sample.sample_id: one.cluster for one in given}

    def judge(rubric, samples):
        if rubric.examples and len(samples) < 20:  # the answers that were held out
            shown = {of[one.sample.sample_id] for one in rubric.examples}
            assert not shown & {of[one.sample_id] for one in samples}
        return apt(rubric, samples)

    learn(RUBRIC, given, judge, 2)


@pytest.mark.parametrize(("labels", "judge"), [([True, False] * 4, apt), ([True] * 40, apt)])
def test_too_few_labels_are_refused(labels, judge):
    with pytest.raises(UserError, match="it takes at least 12, with both verdicts"):
        learn(RUBRIC, rows(labels), judge, 2)


def test_a_judge_that_says_nothing_is_no_judge_to_learn_for():
    with pytest.raises(UserError, match="the judge gave a verdict on 0 of 40 answers"):
        learn(RUBRIC, rows([True, False] * 20), lambda _rubric, samples: [None] * len(samples), 2)


def test_a_rubric_is_written_as_it_is_read(tmp_path):
    for name in ("politeness", "completeness", "answer_relevance", "faithfulness"):
        rubric = read_rubric(name)
        file = f"{tmp_path}/{name}.yaml"
        with open(file, "w", encoding="utf-8") as out:
            out.write(rubric.text)
        again = read_rubric(file)
        assert (again.prompt(), again.criteria, again.name) == (rubric.prompt(), rubric.criteria, rubric.name)
