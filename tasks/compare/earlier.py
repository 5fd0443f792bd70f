"""What was asked and decided about two releases before: questions that have gone since, and other verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from answerkey.metrics_core.gate.evidence import PairedScores, Veto, statistic_of
from answerkey.metrics_core.gate.gate import PRECEDENCE, decisions
from answerkey.metrics_core.gate.paired_field import SCORED
from answerkey.metrics_core.gate.policy import Policy
from answerkey.metrics_core.metrics.label import LABEL
from answerkey.metrics_core.statistics.bounded_mean import Floats
from answerkey.tasks.compare.paired_samples import CORPUS_BLEU, PairedSamples, floats
from answerkey.tasks.compare.warnings import relabelled_notes, relabelled_vetoes
from answerkey.tasks.warehouse.sql import statements

_SQL = statements(__name__)
_BY_PEOPLE: tuple[str, ...] = ("people",)
"""Kinds of rules that rest on human labels."""
_SCORES: tuple[str, ...] = ("difference", "level", *_BY_PEOPLE)
"""Kinds of rules that bound a number, and share the error of a FAIL."""
_MOST_VERDICTS = 3
"""Earlier verdicts that are named one by one; of more, the outcomes are counted."""


@dataclass(frozen=True, slots=True)
class RemovedQuestions:
    """Questions that earlier reports had, and that neither report has now.

    Attributes:
        n: how many of the `total` questions of earlier reports that are.
        old, new: the newest comparable scores of those that have one in both releases, each of shape (scored,). A
            question that the new release never answered has the lowest score.
        n_unanswered: how many of these it never answered.
    """

    n: int
    total: int
    old: Floats
    new: Floats
    n_unanswered: int


def check_earlier(samples: PairedSamples, policy: Policy) -> Iterator[Veto | str]:
    """What the past of two releases and their data say against the numbers of a gate: vetoes, and notes."""
    yield from removed_notes(samples, policy.primary.field, policy)
    yield from earlier_verdicts(samples, policy)
    yield from samples.cluster_notes
    by_people = {rule.field for rule in policy.rules if rule.kind in _BY_PEOPLE or rule.field.startswith(f"{LABEL}.")}
    yield from list(relabelled_vetoes(samples, sorted(by_people))) or relabelled_notes(samples)


def removed_questions(samples: PairedSamples, name: str) -> RemovedQuestions:
    """The questions that have gone from the data since earlier looks at the new release; `name` is METRIC.FIELD.

    Earlier reports are those of the new release that are older than the newer one of the two, and those of the old
    release that a gate held the new one against. A question with the same text under another id has not gone.
    """
    new = samples.new
    metric, _, field = name.partition(".")
    about = {"metric": metric, "field": field, "signature": new.manifest["signatures"].get(metric)}
    with samples.home.warehouse.reading() as warehouse:
        n, total = warehouse.execute(_SQL["removed"] + "\n" + _SQL["removed_counts"], samples.ids).fetchone() or (0, 0)
        if not n:
            return RemovedQuestions(0, total, np.empty(0), np.empty(0), 0)
        found: dict[str, Any] = warehouse.execute(
            _SQL["removed"] + "\n" + _SQL["removed_scores"], {**samples.ids, **about, "low": new.range(name)[0]}
        ).fetchnumpy()
    return RemovedQuestions(
        n, total, floats(found["old"]), floats(found["new"]), int(found["unanswered"].astype(bool).sum())
    )


def removed_notes(samples: PairedSamples, name: str, policy: Policy | None = None) -> Iterator[str]:
    """A sentence about questions that were taken out of the data, with the scores in METRIC.FIELD `name` on them.

    With a `policy`, it says what its primary rule would decide with them.
    """
    removed = removed_questions(samples, name)
    if not removed.n:
        return
    old, new = samples.names
    were = "was" if removed.n == 1 else "were"
    start = f"{removed.n:,} of the {removed.total:,} questions of earlier reports about {new} {were} taken out"
    if not len(removed.new) or name == CORPUS_BLEU:
        yield f"{start}, and there are no comparable scores of both releases for {name} on them."
        return
    where = "them" if len(removed.new) == removed.n else f"the {len(removed.new):,} that can be compared"
    if removed.n_unanswered:
        where += f" (the {removed.n_unanswered:,} that it never answered counted as the lowest score)"
    statistic, outcome = _with_removed(samples, name, removed, policy)
    yield (
        f"{start}: in {name}, {new} scored {removed.new.mean():.3f} on {where}, {old} {removed.old.mean():.3f}; with "
        f"them the difference is {statistic:+.3f}{outcome}."
    )


def _with_removed(
    samples: PairedSamples, name: str, removed: RemovedQuestions, policy: Policy | None
) -> tuple[float, str]:
    """The difference on the samples of both reports and the removed ones, and the outcome in brackets."""
    scores, unscored = samples.scores(name), samples.unscored(name)
    low, high = samples.new.range(name)
    new = np.where(scores.new_status == SCORED, scores.new, np.nan)
    for mask in unscored.by_release.values():
        new[mask] = low
    known = (scores.old_status == SCORED) & ~samples.changed_for(name.partition(".")[0])
    before = np.concatenate([np.where(known, scores.old, np.nan), removed.old])
    after = np.concatenate([new, removed.new])
    both = np.isfinite(before) & np.isfinite(after)
    binary = (low, high) == (0.0, 1.0) and all(np.isin(side[both], (0, 1)).all() for side in (before, after))
    clusters = samples.clusters
    if clusters is not None:
        clusters = np.concatenate([clusters, clusters.max(initial=0) + 1 + np.arange(len(removed.new))])
    statistic = statistic_of(PairedScores(before, after, binary, low, high), clusters, difference=True)
    assert statistic is not None  # Some samples were removed that both have a score for.
    if policy is None:
        return statistic.value, ""
    n_rules = sum(rule.kind in _SCORES for rule in policy.rules)
    return statistic.value, f" ({decisions({policy.primary: statistic}, n_rules)[policy.primary]})"


def earlier_verdicts(samples: PairedSamples, policy: Policy) -> Iterator[str]:
    """A sentence about verdicts other than PASS that other policies came to on the same data and answers.

    Of each policy the newest verdict counts.
    """
    rows = samples.home.rows(_SQL["verdicts"], samples.ids)
    primary, margin = policy.primary.field, abs(policy.primary.floor)
    own = (primary, margin, sorted(rule.text for rule in policy.rules))
    earlier = []
    for outcome, *about in rows:
        if tuple(about) == own or outcome == "PASS":
            continue
        other_primary, other_margin, _ = about
        how = f"by {other_primary}, " if other_primary != primary else ""
        how += f"with margin {other_margin:g}" if how or other_margin != margin else "with other rules"
        earlier.append((outcome, how))
    if len(earlier) == 1:
        [(outcome, how)] = earlier
        yield f"An earlier verdict on the same data, {how}, was {outcome}."
    elif earlier:
        counts = Counter(outcome for outcome, _ in earlier)
        shown = (
            ", ".join(f"{outcome} {how}" for outcome, how in earlier)
            if len(earlier) <= _MOST_VERDICTS
            else ", ".join(f"{counts[outcome]} {outcome}" for outcome in PRECEDENCE if counts[outcome])
        )
        yield f"{len(earlier):,} earlier verdicts on the same data, by other policies: {shown}."
