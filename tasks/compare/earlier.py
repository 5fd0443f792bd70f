"""What was asked and decided about two releases before: questions that have gone since, and other verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from answerkey.metrics_core.decide.evidence import Veto
from answerkey.metrics_core.decide.policy import Policy
from answerkey.metrics_core.decide.verdict import PRECEDENCE
from answerkey.metrics_core.metrics.label import LABEL
from answerkey.tasks.compare.paired_samples import PairedSamples
from answerkey.tasks.compare.warnings import relabelled_notes, relabelled_vetoes
from answerkey.tasks.warehouse.sql import statements

_SQL = statements(__name__)
_MOST_VERDICTS = 3
"""Earlier verdicts that are named one by one; of more, the outcomes are counted."""


def check_earlier(samples: PairedSamples, policy: Policy) -> Iterator[Veto | str]:
    """Yield what the past of two releases and their data say against the numbers of a gate: vetoes, and notes."""
    yield from removed_notes(samples)
    yield from earlier_verdicts(samples, policy)
    yield from samples.cluster_notes
    # Labels that contradict each other are vetoes if they are many, and a note otherwise
    by_people = {rule.field for rule in policy.rules if rule.kind == "people" or rule.field.startswith(f"{LABEL}.")}
    yield from list(relabelled_vetoes(samples, sorted(by_people))) or relabelled_notes(samples)


def removed_notes(samples: PairedSamples) -> Iterator[str]:
    """Yield a sentence about questions that earlier reports about the new release had, and that neither report has now.

    Earlier reports are those of the new release that are older than the newer one of the two, and those of the old
    release that a gate held the new one against. A question with the same text under another id has not gone.
    """
    [(n_removed, n_asked)] = samples.home.rows(_SQL["removed"], samples.ids)
    if n_removed:
        were = "was" if n_removed == 1 else "were"
        yield (
            f"{n_removed:,} of the {n_asked:,} questions of earlier reports about {samples.names[1]} {were} taken out: "
            "neither report has them."
        )


def earlier_verdicts(samples: PairedSamples, policy: Policy) -> Iterator[str]:
    """Yield a sentence about verdicts other than PASS that other policies came to on the same data and answers.

    Of each policy the newest verdict counts.
    """
    primary, margin = policy.primary.field, abs(policy.primary.floor)
    own_policy = (primary, margin, sorted(rule.text for rule in policy.rules))
    earlier = []
    for outcome, *earlier_policy in samples.home.rows(_SQL["verdicts"], samples.ids):
        if tuple(earlier_policy) == own_policy or outcome == "PASS":
            continue
        earlier_primary, earlier_margin, _ = earlier_policy
        difference = f"by {earlier_primary}, " if earlier_primary != primary else ""
        is_by_margin = difference or earlier_margin != margin
        difference += f"with margin {earlier_margin:g}" if is_by_margin else "with other rules"
        earlier.append((outcome, difference))

    # A few are named one by one
    if len(earlier) == 1:
        [(outcome, difference)] = earlier
        yield f"An earlier verdict on the same data, {difference}, was {outcome}."
    elif earlier:
        verdicts = ", ".join(f"{outcome} {difference}" for outcome, difference in earlier)
        if len(earlier) > _MOST_VERDICTS:
            counts = Counter(outcome for outcome, _ in earlier)
            verdicts = ", ".join(f"{counts[outcome]} {outcome}" for outcome in PRECEDENCE if counts[outcome])
        yield f"{len(earlier):,} earlier verdicts on the same data, by other policies: {verdicts}."
