"""Drawn labels, simulated: estimates are unbiased, and one may look after every batch at the stated error rate."""

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from answerkey.metrics_core.decide.evidence import LabelDraw, PairedScores, RuleStatistic, people_statistic
from answerkey.tasks.gate.queue import draw_order, planned_analyses

Column = npt.NDArray[np.float64]
MARGIN = 0.05


def population(rng: np.random.Generator, n: int = 400) -> tuple[Column, Column, Column, Column]:
    """Labels of two releases, of which the new one loses exactly the margin, and a judge that hides the loss."""
    kind = rng.choice([-1, 0, 1], n, p=[0.09, 0.87, 0.04])
    old = np.where(kind == 0, rng.random(n) < 0.8, kind < 0).astype(float)
    new = old + kind
    judged_old = np.where(rng.random(n) < 0.05, 1 - old, old)
    judged_new = np.where(rng.random(n) < np.where(new == 1, 0.02, 0.35), 1 - new, new)
    return old, new, judged_old, judged_new


def analysed(
    sides: tuple[Column, Column, Column, Column], rng: np.random.Generator, *, stratified: bool
) -> Iterator[RuleStatistic]:
    """The statistic of the gate at every analysis of one draw."""
    old, new, judged_old, judged_new = sides
    strata = np.full(len(old), "all", dtype="<U6")
    if stratified:
        change = judged_new - judged_old
        strata = np.select([change < 0, change > 0], ["worse", "better"], "same")
    place = np.argsort(draw_order(strata, rng))
    analyses = planned_analyses(len(old), None)
    for at, until in enumerate(analyses, 1):
        drawn = place < until
        chances = np.ones(len(old))
        for name in np.unique(strata):
            chances[strata == name] = drawn[strata == name].mean()
        labels = (np.where(drawn, old, np.nan), np.where(drawn, new, np.nan))
        draw = LabelDraw(chances, drawn, tuple(n / analyses[-1] for n in analyses[:at]), len(analyses))
        column = PairedScores(judged_old, judged_new, binary=True, labels=labels, draw=draw)
        statistic = people_statistic(column, None)
        assert statistic is not None and statistic.n_labelled == until
        yield statistic


@pytest.mark.nightly
@pytest.mark.parametrize("stratified", [False, True])
def test_the_estimate_of_a_draw_is_unbiased(stratified: bool) -> None:
    rng = np.random.default_rng(5)
    sides = population(rng)
    truth = float((sides[1] - sides[0]).mean())
    values = np.array(
        [
            [s.value for _, s in zip(range(4), analysed(sides, rng, stratified=stratified), strict=False)]
            for _ in range(60)
        ]
    )
    errors = values.mean(axis=0) - truth
    assert (np.abs(errors) < 3 * values.std(axis=0) / math.sqrt(len(values))).all(), errors
    # What the judge says is far away.
    assert abs(float((sides[3] - sides[2]).mean()) - truth) > 0.04


@pytest.mark.nightly
def test_stopping_at_the_first_decision_errs_as_rarely_as_stated() -> None:
    rng = np.random.default_rng(11)
    wrong = {1: 0, -1: 0}
    repetitions = 400
    for _ in range(repetitions):
        # The true loss is the margin: each decision is wrong for a release that is a little worse, or better.
        for statistic in analysed(population(rng), rng, stratified=True):
            interval = statistic.interval()
            decided = 0 if interval is None else (interval.low > -MARGIN) - (interval.high < -MARGIN)
            if decided:
                wrong[decided] += 1
                break
    most = 0.025 + 3 * math.sqrt(0.025 * 0.975 / repetitions)
    assert max(wrong.values()) / repetitions <= most, wrong
    assert sum(wrong.values()) > 0
