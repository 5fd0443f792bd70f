"""Real releases with human labels: five releases of EVOUNA-NQ, and three automatic judges on NQ-301."""

import itertools
import json

import numpy as np
import pytest
import scipy.stats

from answerkey.metrics_core.statistics.agreement import agreement
from answerkey.metrics_core.statistics.multiple_testing import holm
from answerkey.metrics_core.statistics.paired import difference_interval, paired_difference
from answerkey.metrics_core.statistics.power import minimum_detectable
from tests.metrics_core.statistics.simulations import share

RELEASES = ("fid", "gpt35", "chatgpt", "gpt4", "newbing")
PAIRS = list(itertools.pairwise(RELEASES))

Labels = dict[str, dict[str, bool]]


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def labels(shared):
    """The label of each usable question, by release."""
    found = {release: {} for release in RELEASES}
    for row in lines(shared / "data/evouna_nq/evouna_nq_dev.jsonl"):
        meta = row["meta"]
        assert isinstance(meta, dict)
        if meta["usable"]:
            found[meta["model_key"]][meta["question_id"]] = bool(row["human_label"])
    return found


def common(labels, old, new):
    questions = sorted(labels[old].keys() & labels[new].keys())
    return [labels[old][q] for q in questions], [labels[new][q] for q in questions]


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
    found = compared(labels, old, new)
    assert (found.n, found.fixed, found.broken, found.test) == (n, fixed, broken, "mcnemar")
    before, after = common(labels, old, new)
    assert found.difference == pytest.approx(sum(after) / n - sum(before) / n, abs=1e-12)
    assert found.difference == pytest.approx((fixed - broken) / n, abs=1e-12)
    assert found.p == pytest.approx(scipy.stats.binomtest(fixed, fixed + broken).pvalue, rel=1e-9)
    # With so many rows the score interval is all but the t interval.
    oracle = scipy.stats.ttest_rel(np.array(after, float), np.array(before, float)).confidence_interval(0.95)
    assert found.interval[:2] == pytest.approx((oracle.low, oracle.high), abs=3e-4)


def test_chatgpt_4_is_better_than_3_5_also_among_four_comparisons(labels):
    found = compared(labels, "chatgpt", "gpt4")
    assert found.difference == pytest.approx(0.0500, abs=1e-4)
    assert found.p == pytest.approx(1.554e-6, rel=1e-3)
    assert found.interval.low > 0.029
    adjusted = holm([compared(labels, old, new).p for old, new in PAIRS])
    assert adjusted[2] == pytest.approx(3 * found.p)
    assert [p <= 0.05 for p in adjusted] == [True, True, True, False]


def test_bing_is_not_shown_to_differ_from_chatgpt_4(labels):
    found = compared(labels, "gpt4", "newbing")
    assert found.p == pytest.approx(0.953, abs=1e-3)
    assert found.interval.low < 0 < found.interval.high
    # At a margin of two points the lower end, -.0195, just clears it.
    assert -0.02 < found.interval.low < -0.019
    # (1.96 + .84) * sqrt(286 / 1618) / sqrt(1618), and a little more for the exact test.
    assert minimum_detectable(found) == pytest.approx(0.0298, abs=1.2e-3)


def test_releases_that_are_exchanged_at_random_raise_no_alarm(labels):
    old, new = (np.array(column, float) for column in common(labels, "chatgpt", "gpt4"))
    change = (new - old) * np.random.default_rng(1).choice([-1, 1], (2000, len(old)))
    found = [difference_interval(row, None, binary=True) for row in change]
    assert share(one is not None and one.high < 0 for one in found) <= 0.035
    assert share(one is None or not one.low <= 0 <= one.high for one in found) <= 0.06


@pytest.mark.parametrize(("judge", "kappa"), [("judge_bem", 0.637), ("judge_gpt4", 0.685), ("judge_davinci003", 0.672)])
def test_the_kappa_of_three_judges(shared, judge, kappa):
    rows = []
    for row in lines(shared / "data/nq301/nq301.jsonl"):
        meta = row["meta"]
        assert isinstance(meta, dict)
        if row["human_label"] is not None and meta[judge] is not None:
            rows.append((meta[judge], row["human_label"], meta["question_id"], row["model"]))
    verdicts, truth, questions, systems = zip(*rows, strict=True)
    found, plain = agreement(verdicts, truth, clusters=questions), agreement(verdicts, truth)
    assert found.kappa.value == pytest.approx(kappa, abs=5e-4)
    assert found.base_rate == pytest.approx(0.693, abs=3e-3)
    # The twelve systems answer the same 301 questions, and what is hard to judge is hard for all.
    assert found.kappa.interval.low < plain.kappa.interval.low < kappa < plain.kappa.interval.high
    for system in sorted(set(systems)):
        chosen = [row for row in rows if row[3] == system]
        own = agreement([row[0] for row in chosen], [row[1] for row in chosen])
        assert -1 < own.kappa.interval.low < own.kappa.value < own.kappa.interval.high < 1
