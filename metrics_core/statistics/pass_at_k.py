"""pass@k and pass^k: whether any, or each, of k answers to one question is right."""

from __future__ import annotations

import math


def pass_at_k(n: int, right: int, k: int) -> float:
    """The chance that at least one of `k` answers is right, estimated from `right` of `n` answers.

    1 - C(n - right, k) / C(n, k): the share of the subsets of k answers with a right one in it, which is unbiased
    (Chen et al., Evaluating Large Language Models Trained on Code, 2021, equation 1).

    Raises:
        ValueError: not 1 <= k <= n, or not 0 <= right <= n.

    >>> pass_at_k(5, 1, 5), pass_at_k(5, 0, 5), pass_at_k(4, 1, 2)
    (1.0, 0.0, 0.5)
    """
    _check(n, right, k)
    return 1 - math.comb(n - right, k) / math.comb(n, k)


def pass_hat_k(n: int, right: int, k: int) -> float:
    """The chance that all of `k` answers are right (pass^k), estimated from `right` of `n` answers.

    C(right, k) / C(n, k): the share of the subsets of k answers that are all right, which is unbiased (Yao et al.,
    tau-bench, 2024).

    Raises:
        ValueError: as `pass_at_k`.

    >>> pass_hat_k(5, 4, 5), pass_hat_k(5, 5, 5), pass_hat_k(4, 3, 2)
    (0.0, 1.0, 0.5)
    """
    _check(n, right, k)
    return math.comb(right, k) / math.comb(n, k)


def _check(n: int, right: int, k: int) -> None:
    if not (1 <= k <= n and 0 <= right <= n):
        raise ValueError(f"{right} right of {n} answers, and k = {k}: it takes 1 <= k <= n and 0 <= right <= n")
