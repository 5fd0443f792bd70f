"""One field in two releases, sample by sample: what each sample has there, and what a gate makes of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from answerkey.metrics_core.decide.bounded_mean import Floats
from answerkey.metrics_core.decide.clustered import Mask
from answerkey.metrics_core.decide.evidence import Basis, Coverage, LabelDraw, Missing, PairedScores
from answerkey.metrics_core.decide.policy import Policy
from answerkey.metrics_core.registry import METRICS

STATUSES = ("absent", "scored", "failed", "undefined", "skipped")
"""What a sample can be in a release, by its code in `FieldScores`."""
SCORED = STATUSES.index("scored")
_WANTED = tuple(STATUSES.index(name) for name in ("scored", "failed", "skipped"))
"""What a sample is that the metric has something to say about."""


@dataclass(frozen=True, slots=True, eq=False)
class FieldScores:
    """Scores and statuses of one field in both releases, of shape (samples,). NaN where there is no number.

    >>> FieldScores(np.ones(2), np.array([1.0, np.nan]), np.array([1, 1], np.int8), np.array([1, 0], np.int8)).wanted
    array([ True,  True])
    """

    old: Floats
    new: Floats
    old_status: npt.NDArray[np.int8]
    new_status: npt.NDArray[np.int8]

    @property
    def sides(self) -> tuple[tuple[Floats, npt.NDArray[np.int8]], tuple[Floats, npt.NDArray[np.int8]]]:
        """Scores and statuses of the old release, then of the new one."""
        return (self.old, self.old_status), (self.new, self.new_status)

    @property
    def wanted(self) -> Mask:
        """The samples that the field has something to say about in either release."""
        wanted: Mask = np.isin(self.old_status, _WANTED) | np.isin(self.new_status, _WANTED)
        return wanted

    def known(self) -> tuple[Floats, Floats]:
        """The numbers of both releases, NaN for every sample that is not scored."""
        old, new = (np.where(status == SCORED, side, np.nan) for side, status in self.sides)
        return old, new


@dataclass(frozen=True, slots=True, eq=False)
class Unscored:
    """The samples for which the new release has no number, by reason: masks of shape (samples,).

    Attributes:
        by_release: the release has no answer (it is absent, quarantined, or was not given), or none that the metric has
            a number for.
        by_measurement: there may be an answer, but it was not scored, or the data set lacks what the metric needs.
        share: of the samples that have a number, the share of their answers that the release did not give, 0 to 1;
            `n_missing`: how many answers that are. Both of shape (samples,).

    >>> Unscored({"absent": np.array([False, True])}, {}, np.zeros(2), np.zeros(2, np.int64)).by_release["absent"]
    array([False,  True])
    """

    by_release: Mapping[str, Mask]
    by_measurement: Mapping[str, Mask]
    share: Floats
    n_missing: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class PairedField:
    """One field in both releases, with the samples that are not the same in both.

    Attributes:
        columns: scores and statuses; where the new release lacks some of its answers to a sample, they are counted in.
        changed: (samples,): samples with a different question or different references.
        binary: whether all scores are 0 or 1. Otherwise they lie in `low` to `high`.
        limits: as in `PairedScores`, where scores have an open end.

    >>> scores, scored = np.repeat([1.0, 0.0], [15, 5]), np.ones(20, np.int8)
    >>> none = Unscored({}, {}, np.zeros(20), np.zeros(20, np.int64))
    >>> field = PairedField.of(FieldScores(scores, scores, scored, scored), none, np.zeros(20, bool), 0.0, 1.0)
    >>> field.binary, [part.share for part in field.coverage(("v1", "v2"))]
    (True, [1.0, 1.0])
    """

    columns: FieldScores
    unscored: Unscored
    changed: Mask
    binary: bool
    low: float
    high: float
    limits: tuple[float, float] | None = None

    @classmethod
    def of(cls, columns: FieldScores, unscored: Unscored, changed: Mask, low: float, high: float) -> PairedField:
        """The field of these columns, whose scores lie in `low` to `high`, of which one may be infinite."""
        limits = (low, high) if math.isinf(high - low) else None
        if limits:
            scores = np.concatenate([side[np.isfinite(side)] for side in columns.known()])
            if not len(scores):
                scores = np.zeros(1)
            if math.isinf(high):
                high = float(scores.max())
            else:
                low = float(scores.min())
        # A missing answer is the lowest score, so it has to be one of the two.
        binary = not limits and (low, high) == (0.0, 1.0) and not unscored.share.any()
        for side, status in columns.sides:
            binary = binary and bool(np.isin(side[status == SCORED], (0, 1)).all())
        # Of several answers to a question those that are missing are the lowest score, as a missing question is.
        filled = columns.new + unscored.share * (low - columns.new)
        return cls(
            columns=replace(columns, new=filled),
            unscored=unscored,
            changed=changed,
            binary=binary,
            low=low,
            high=high,
            limits=limits,
        )

    def scores(
        self,
        inside: Mask,
        labels: tuple[Floats, Floats] | None = None,
        draw: LabelDraw | None = None,
        *,
        asked: Mask | None = None,
    ) -> PairedScores:
        """The scores of the samples `inside`.

        Args:
            labels: human labels of both releases, if they are about what the field measures; `draw`: how these were
                drawn.
            asked: (samples,): those that could be drawn for labels; the labels of a draw say nothing of others.
        """
        old, new = (np.where(inside, side, np.nan) for side in self.columns.known())
        # A sample that is undefined in both releases is nothing that either could have answered.
        wanted = inside & self.columns.wanted
        unanswered = {reason: mask & wanted for reason, mask in self.unscored.by_release.items()}
        unmeasured = {reason: mask & wanted for reason, mask in self.unscored.by_measurement.items()}
        left_out = np.where(np.isfinite(new), self.unscored.n_missing, 0)
        old_status = self.columns.old_status
        # Of the old release, what has an answer but no number
        unmeasured_old = inside & np.isin(old_status, _WANTED) & (old_status != SCORED)
        if asked is not None:
            unmeasured_old &= asked
        labels_inside = None
        if labels is not None:
            labels_inside = (np.where(inside, labels[0], np.nan), np.where(inside, labels[1], np.nan))
        return PairedScores(
            old=old,
            new=new,
            binary=self.binary,
            low=self.low,
            high=self.high,
            unanswered=unanswered,
            unmeasured=unmeasured,
            changed=self.changed & inside,
            left_out=left_out,
            labels=labels_inside,
            draw=draw,
            unmeasured_old=unmeasured_old,
            limits=self.limits,
        )

    def coverage(self, names: Sequence[str]) -> tuple[Coverage, ...]:
        """Of the samples that the field has something to say about in either release, those with a comparable number.

        A sample that is undefined in both has nothing to say (no reference, no label). One that is undefined or absent
        in one only counts against that one: leaving answers out must not pay.

        Args:
            names: of the old and the new release.
        """
        wanted = self.columns.wanted
        coverages = []
        for name, (_, status) in zip(names, self.columns.sides, strict=True):
            # What the data set has changed is not compared
            scored = wanted & (status == SCORED) & ~self.changed
            counts = np.bincount(status[wanted], minlength=len(STATUSES))
            missing = {label: int(n) for label, n in zip(STATUSES, counts, strict=True) if n and label != "scored"}
            if changed := int((wanted & (status == SCORED) & self.changed).sum()):
                missing["changed in the data set"] = changed
            coverages.append(Coverage(name, int(wanted.sum()), int(scored.sum()), missing))
        return tuple(coverages)


def is_checked(policy: Policy, name: str, basis: Basis) -> bool:
    """Whether human labels are about what the field measures: whether answers agree with the references.

    Metrics of others may measure something else; where a rule about people names one, its author says that it predicts
    labels. Of fields of the text alone, the primary one stands for the answers.

    >>> from answerkey.metrics_core.policy_file import parse_policy
    >>> policy = parse_policy({"primary": "exact_match.match", "margin": 0.02}, "example")
    >>> is_checked(policy, "exact_match.match", "text"), is_checked(policy, "rouge_l.f1", "text")
    (True, False)
    """
    metric = name.partition(".")[0]
    needs_references = metric in METRICS and "references" in METRICS[metric].needs
    decides = name == policy.primary.field or basis == "judge"
    return policy.rule("people", name) is not None or (needs_references and decides)


def people_decide(column: PairedScores | Missing, *, drawn: bool) -> bool:
    """Whether every sample has a human label in both releases, or those that do were `drawn`.

    >>> people_decide(PairedScores(np.ones(2), np.ones(2), binary=True), drawn=True)
    False
    """
    people = None if isinstance(column, Missing) else column.by_people()
    if people is None or isinstance(column, Missing):
        return False
    wanted = column.as_predictions().comparable() & np.isfinite(column.filled(column.low))
    labelled = wanted & np.isfinite(people.filled(0.0))
    return bool(labelled.any()) and (drawn or column.draw is not None or int(labelled.sum()) == int(wanted.sum()))
