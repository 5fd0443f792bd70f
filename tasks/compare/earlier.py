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
    """What the past of two releases and their data say against the numbers of a gate: vetoes, and notes."""
    yield from removed_notes(samples)
    yield from earlier_verdicts(samples, policy)
    yield from samples.cluster_notes
    by_people = {rule.field for rule in policy.rules if rule.kind == "people" or rule.field.startswith(f"{LABEL}.")}
    yield from list(relabelled_vetoes(samples, sorted(by_people))) or relabelled_notes(samples)


def removed_notes(samples: PairedSamples) -> Iterator[str]:
    """A sentence about questions that earlier reports about the new release had, and that neither report has now.

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
