"""pass@k and pass^k are shares of subsets, and unbiased."""

from itertools import combinations

import pytest
from scipy.stats import binom, hypergeom

from answerkey.metrics_core.statistics.intervals import pass_at_k, pass_hat_k

CASES = [(n, right, k) for n in range(1, 7) for right in range(n + 1) for k in range(1, n + 1)]


@pytest.mark.parametrize(("n", "right", "k"), CASES)
def test_they_are_shares_of_all_subsets(n, right, k):
    subsets = list(combinations([True] * right + [False] * (n - right), k))
    assert pass_at_k(n, right, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))
    assert pass_hat_k(n, right, k) == pytest.approx(sum(map(all, subsets)) / len(subsets))
    drawn = hypergeom(n, right, k)
    assert pass_at_k(n, right, k) == pytest.approx(1 - drawn.pmf(0))
    assert pass_hat_k(n, right, k) == pytest.approx(drawn.pmf(k))


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize(("n", "k"), [(5, 5), (8, 3), (10, 1)])
def test_they_are_unbiased(p, n, k):
    chances = binom(n, p).pmf(range(n + 1))
    assert sum(c * pass_at_k(n, right, k) for right, c in enumerate(chances)) == pytest.approx(1 - (1 - p) ** k)
    assert sum(c * pass_hat_k(n, right, k) for right, c in enumerate(chances)) == pytest.approx(p**k)
