"""Real releases with human labels: five releases of EVOUNA-NQ, and three automatic judges on NQ-301."""

import itertools

import numpy as np
import pytest
import scipy.stats

from answerkey.metrics_core.statistics.agreement import agreement
from answerkey.metrics_core.statistics.multiple_testing import holm
from answerkey.metrics_core.statistics.paired import difference_interval, paired_difference
from answerkey.metrics_core.statistics.power import minimum_detectable
from tests.metrics_core.metrics_help import read_jsonl
from tests.metrics_core.statistics.simulations import share

RELEASES = ("fid", "gpt35", "chatgpt", "gpt4", "newbing")


@pytest.fixture(scope="module")
def labels(shared):
    """The label of each usable question, by release."""
    labels = {release: {} for release in RELEASES}
    for row in read_jsonl(shared / "data/evouna_nq/evouna_nq_dev.jsonl"):
        if row["meta"]["usable"]:
            labels[row["meta"]["model_key"]][row["meta"]["question_id"]] = bool(row["human_label"])
    return labels


def common(labels, old, new):
    questions = sorted(labels[old].keys() & labels[new].keys())
    return [[labels[release][q] for q in questions] for release in (old, new)]


def compared(labels, old, new):
    return paired_difference(*common(labels, old, new), binary=True)


@pytest.mark.parametrize(
    ("old", "new", "n", "fixed", "broken"),
    [
        ("fid", "gpt35", 1620, 217, 284),
        ("gpt35", "chatgpt", 1621, 234, 103),
        ("chatgpt", "gpt4", 1621, 181, 100),
        ("gpt4", "newbing", 1618, 144, 142),
    ],
)
def test_neighbouring_releases(labels, old, new, n, fixed, broken):
    result = compared(labels, old, new)
    assert (result.n, result.fixed, result.broken, result.test) == (n, fixed, broken, "mcnemar")
    assert result.difference == pytest.approx((fixed - broken) / n, abs=1e-12)
    assert result.p == pytest.approx(scipy.stats.binomtest(fixed, fixed + broken).pvalue, rel=1e-9)
    # With so many rows the score interval is all but the t interval.
    before, after = np.array(common(labels, old, new), float)
    oracle = scipy.stats.ttest_rel(after, before).confidence_interval(0.95)
    assert result.interval[:2] == pytest.approx((oracle.low, oracle.high), abs=3e-4)


def test_chatgpt_4_is_better_than_3_5_also_among_four_comparisons(labels):
    result = compared(labels, "chatgpt", "gpt4")
    assert result.p == pytest.approx(1.554e-6, rel=1e-3)
    assert result.interval.low > 0.029
    adjusted = holm([compared(labels, old, new).p for old, new in itertools.pairwise(RELEASES)])
    assert adjusted[2] == pytest.approx(3 * result.p)
    assert [p <= 0.05 for p in adjusted] == [True, True, True, False]


def test_bing_is_not_shown_to_differ_from_chatgpt_4(labels):
    result = compared(labels, "gpt4", "newbing")
    assert result.p == pytest.approx(0.953, abs=1e-3)
    # At a margin of two points the lower end, -.0195, just clears it.
    assert -0.02 < result.interval.low < -0.019 < 0 < result.interval.high
    # (1.96 + .84) * sqrt(286 / 1618) / sqrt(1618), and a little more for the exact test.
    assert minimum_detectable(result) == pytest.approx(0.0298, abs=1.2e-3)


def test_releases_that_are_exchanged_at_random_raise_no_alarm(labels):
    old, new = np.array(common(labels, "chatgpt", "gpt4"), float)
    change = (new - old) * np.random.default_rng(1).choice([-1, 1], (2000, len(old)))
    intervals = [difference_interval(row, None, binary=True) for row in change]
    assert share(one.high < 0 for one in intervals) <= 0.035
    assert share(not one.low <= 0 <= one.high for one in intervals) <= 0.06


@pytest.mark.parametrize(("judge", "kappa"), [("judge_bem", 0.637), ("judge_gpt4", 0.685), ("judge_davinci003", 0.672)])
def test_the_kappa_of_three_judges(shared, judge, kappa):
    rows = [
        (row["meta"][judge], row["human_label"], row["meta"]["question_id"])
        for row in read_jsonl(shared / "data/nq301/nq301.jsonl")
        if row["human_label"] is not None and row["meta"][judge] is not None
    ]
    verdicts, truth, questions = zip(*rows, strict=True)
    clustered, plain = agreement(verdicts, truth, clusters=questions), agreement(verdicts, truth)
    assert clustered.kappa.value == pytest.approx(kappa, abs=5e-4)
    assert clustered.base_rate == pytest.approx(0.693, abs=3e-3)
    # The twelve systems answer the same 301 questions, and what is hard to judge is hard for all.
    assert clustered.kappa.interval.low < plain.kappa.interval.low < kappa < plain.kappa.interval.high
