"""A cascade: a cheap judge decides what it is sure of, once a trial has shown that a dear one agrees.

Of the answers that the cheap judge would decide in a run, some are drawn at random, and the dear one is asked about
them. The cheap judge decides the others where the draw shows, with a confidence of 95 %, that at most the accepted
share of its verdicts on them differs from what the dear one would say. Nothing is assumed about the data: the draw is
from the very answers that the promise is about, so it holds for data unlike any that a judge was trained on.
"""

from __future__ import annotations

import heapq
import logging
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from answerkey.metrics_core.judges.votes import DECIDED_BY
from answerkey.metrics_core.measurement import Measurement, Scored
from answerkey.metrics_core.sample import Sample, content_hash

TRIED = 0.2
"""The share of the answers that are drawn: the more there are, the less the trial costs beside what it saves."""
MOST_TRIED = 500
TOLERATED = 2
"""So many different verdicts must be tolerable, or hardly any good judge would pass."""
_LEVEL = 0.05
_MATCHED_AT_ONCE = 512

OFFLINE_DECIDED, JUDGE_DECIDED = "offline", "judge"
SAME, OTHER = "judge, as offline", "judge, unlike offline"
"""Who decided an answer of the trial, in its details: the judges, and whether the offline judge says so too."""

Cheap = Callable[[Sequence[Sample]], list[Measurement | None]]
"""What the cheap judge decides about samples; None where it is not sure."""
Dear = Callable[[Sequence[Sample], bool], Awaitable[list[Measurement]]]
"""Has the dear judge decide about samples; the flag says that they are those of the trial."""

_log = logging.getLogger("answerkey")


@dataclass(frozen=True, slots=True)
class Trial:
    """The answers that the offline judge would decide, `candidates` in number, and those drawn from them.

    Nothing is drawn where the trial would have to have all of them.
    """

    candidates: int
    drawn: tuple[Sample, ...]


async def judge_in_cascade(
    samples: Sequence[Sample], trial: Trial, *, metric: str, field: str, accepted: float, cheap: Cheap, dear: Dear
) -> list[Measurement]:
    """Judge samples: same length, same order. In the details, `DECIDED_BY` says who decided.

    Args:
        metric: its name, for people.
        field: what both judges are compared on.
        accepted: the share of verdicts of the cheap judge that may be wrong, 0 to .5.
    """
    keys = [key_of(sample) for sample in samples]
    drawn = trial.drawn
    by_trial: dict[str, Measurement] = {}
    cheap_decides = False
    if drawn:
        # What the dear judge says of the answers of the trial
        n_different = 0
        for sample, by_dear, by_cheap in zip(drawn, await dear(drawn, True), cheap(drawn), strict=True):
            agrees = by_cheap is not None and by_dear.values.get(field) == by_cheap.values[field]
            by_trial[key_of(sample)] = _signed(by_dear, SAME if agrees else OTHER)
            n_different += not agrees
        cheap_decides = holds(trial.candidates, len(drawn), n_different, accepted)

        # Every shard of a run comes by here, and one of them says so
        if key_of(drawn[0]) in keys:
            decides = "nothing, and the judge is asked about all"
            if cheap_decides:
                decides = f"{trial.candidates - len(drawn):,} answers"
            _log.log(
                logging.INFO if cheap_decides else logging.WARNING,
                f"{metric}: the cascade decides {decides}: on {n_different:,} of the {len(drawn):,} that "
                f"were tried, the judge says otherwise than the offline judge ({accepted:.3g} of its "
                "verdicts may be wrong)",
            )

    # Those of the trial, then what the cheap judge is sure of, and the rest
    decided: list[Measurement | None] = [by_trial.get(key) for key in keys]
    if cheap_decides:
        for index, verdict in enumerate(cheap(samples)):
            if decided[index] is None and verdict is not None:
                decided[index] = _signed(verdict, OFFLINE_DECIDED)
    pending = [sample for sample, verdict in zip(samples, decided, strict=True) if verdict is None]
    rest = iter(await dear(pending, False))
    return [
        _signed(next(rest), JUDGE_DECIDED) if verdict is None else verdict._replace(sample_id=sample.sample_id)
        for sample, verdict in zip(samples, decided, strict=True)
    ]


def _signed(verdict: Measurement, decided_by: str) -> Measurement:
    if not isinstance(verdict.outcome, Scored):
        return verdict
    details = {**verdict.outcome.details, DECIDED_BY: decided_by}
    return verdict._replace(outcome=replace(verdict.outcome, details=details))


def drawn_trial(metric: str, cheap: Cheap, samples: Iterable[Sample], accepted: float) -> Trial:
    """The trial of a run that judges these samples; a warning says so if the cheap judge is to decide nothing."""
    rest = iter(samples)
    batches = iter(lambda: list(islice(rest, _MATCHED_AT_ONCE)), [])
    candidates = (
        sample for batch in batches for sample, verdict in zip(batch, cheap(batch), strict=True) if verdict is not None
    )
    trial = trial_of(candidates, accepted)
    if not trial.drawn:
        _log.warning(
            f"{metric}: the cascade decides nothing. The {trial.candidates:,} answers that the offline judge is "
            f"sure of are too few to show that at most {accepted:.3g} of its verdicts on them are wrong"
        )
    return trial


def trial_of(candidates: Iterable[Sample], accepted: float) -> Trial:
    """Draw the trial of a run from the answers that the offline judge would decide: by their texts, so always the same.

    Args:
        accepted: the share of verdicts that may be wrong, 0 to .5.

    >>> answers = [Sample(str(n), f"answer {n}", ["Paris"]) for n in range(400)]
    >>> len(trial_of(answers, 0.05).drawn), len(trial_of(answers[:60], 0.05).drawn)
    (136, 59)
    """
    n = 0

    def counted() -> Iterable[tuple[str, Sample]]:
        nonlocal n
        for sample in candidates:
            n += 1
            yield key_of(sample), sample

    most = trial_size(10**6, accepted)
    nearest = heapq.nsmallest(most, counted(), key=lambda pair: pair[0])
    size = trial_size(n, accepted)
    return Trial(n, tuple(sample for _, sample in nearest[:size]) if size < n else ())


def key_of(sample: Sample) -> str:
    """A hash of the texts that an answer is judged by."""
    texts = [sample.question, sample.answer, list(sample.references), list(sample.incorrect_references)]
    return content_hash(["trial of a cascade", *texts])


def trial_size(candidates: int, accepted: float) -> int:
    """How many answers to draw: at least so many that the trial holds with `TOLERATED` different verdicts.

    >>> trial_size(600, 0.05), trial_size(10_000, 0.02), trial_size(100, 0.05)
    (132, 500, 99)
    """
    fewest = bisect_left(
        range(candidates),
        True,
        lo=min(TOLERATED + 1, candidates),
        key=lambda drawn: holds(candidates, drawn, TOLERATED, accepted),
    )
    return max(fewest, min(int(TRIED * candidates), MOST_TRIED))


def holds(candidates: int, drawn: int, different: int, accepted: float) -> bool:
    """Whether at most the `accepted` share of the answers that were not drawn has another verdict, at 95 % confidence.

    The fewest different verdicts among all candidates that would break the promise are found too many, by the
    hypergeometric distribution, to show so few in the draw.

    >>> holds(1_000, 150, 2, 0.05), holds(1_000, 150, 5, 0.05)
    (True, False)
    """
    from scipy.stats import hypergeom

    rest = candidates - drawn
    if rest <= 0:
        return False
    broken = different + int(accepted * rest) + 1
    return bool(broken > candidates or hypergeom.cdf(different, candidates, broken, drawn) <= _LEVEL)
