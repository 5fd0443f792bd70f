"""Why did a number move? Everything in which two reports differ, and how much each cause contributed to the change."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from answerkey.metrics_core.gate.paired_field import SCORED
from answerkey.metrics_core.statistics.clustered import Mask, mean
from answerkey.tasks.compare.paired_samples import PairedSamples, pair_samples
from answerkey.tasks.load.remote import without_secrets
from answerkey.tasks.reports.report import Report, read_pair
from answerkey.tasks.warehouse.home import Home

ChangeKind = Literal["judge", "prompt", "parser", "code", "settings", "library", "parameter"]
_JUDGE = ("judge", "jury", "repeats", "t", "seed")
_CODE = ("metric", "version")
"""The first parts of a signature, which have no names in it."""

Cause = Literal["rows", "coverage", "sample", "answer", "method", "several", "none"]

CAUSES: dict[Cause, str] = {
    "rows": "samples that only one report has",
    "coverage": "samples that only one report has a score for",
    "sample": "different question, references or facts",
    "answer": "another answer",
    "method": "the same texts, scored in a different way",
    "several": "more than one of these at once",
    "none": "the same texts, scored in the same way, with a different result",
}
"""What each cause means, in the order of reports."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one cause did: the rows it touched, and by how much it moved the mean."""

    cause: Cause
    n_rows: int
    amount: float


@dataclass(frozen=True, slots=True)
class Movement:
    """One field in both reports, with means over all rows that have a number there.

    `change` = new - old = the sum of the amounts of `parts`. Causes that touched no row are left out.
    """

    metric: str
    field: str
    old: float
    new: float
    change: float
    parts: tuple[Contribution, ...]


def movement(samples: PairedSamples, metric: str, field: str, *, same_method: bool) -> Movement | None:
    """Take the change of a mean apart; None where a report has no number for the field.

    With O the rows of the old report, N those of the new one, and C those in both:
    mean(N) - mean(O) = sum over C of (new - old) / |C| + sum over N - C of (value - mean of C) / |N|
    - the same over O - C. So every row has a share of its own, and the shares are added up by cause. Where no row is
    in both, everything is due to rows, or to coverage where the samples are the same.
    """
    columns = samples.scores(f"{metric}.{field}")
    before, after = columns.old_status == SCORED, columns.new_status == SCORED
    if not before.any() or not after.any():
        return None
    common, either = before & after, before | after
    shares = np.zeros(len(common))
    shares[common] = (columns.new[common] - columns.old[common]) / common.sum()
    for values, side, sign in ((columns.new, after, 1), (columns.old, before, -1)):
        alone = side & ~common
        centre = mean(values[common]) if common.any() else 0.0
        shares[alone] = sign * (values[alone] - centre) / side.sum()
    causes = _causes(samples, common, same_method=same_method)
    # Rows where nothing changed, the number least of all, are no cause of anything.
    causes["none"] &= shares != 0
    parts = tuple(
        Contribution(cause, int(touched.sum()), math.fsum(shares[touched].tolist()))
        for cause in CAUSES
        if (touched := causes[cause] & either).any()
    )
    old, new = mean(columns.old[before]), mean(columns.new[after])
    return Movement(metric, field, old, new, new - old, parts)


def _causes(samples: PairedSamples, common: Mask, *, same_method: bool) -> dict[Cause, Mask]:
    """Every row is in exactly one of them."""
    in_both = samples.in_old & samples.in_new
    sample, answer = samples.changed | samples.facts_changed, in_both & ~samples.same_answer
    method = np.full(len(common), not same_method)
    n = sample.astype(int) + answer + method
    one = common & (n == 1)
    return {
        "rows": ~in_both,
        "coverage": in_both & ~common,
        "sample": one & sample,
        "answer": one & answer,
        "method": one & method,
        "several": common & (n > 1),
        "none": common & (n == 0),
    }


def movements(samples: PairedSamples) -> Iterator[Movement]:
    """Of every field that both reports have rows for, in the order of the new one. Corpus BLEU has none."""
    before, after = samples.old.manifest["signatures"], samples.new.manifest["signatures"]
    for score in samples.new.overall:
        if score.name in samples.old.names:
            same_method = before.get(score.metric) == after.get(score.metric)
            if found := movement(samples, score.metric, score.field, same_method=same_method):
                yield found


@dataclass(frozen=True, slots=True)
class Changed:
    """One thing that is not the same in how the two reports were made; None where one of them lacks it."""

    kind: ChangeKind
    what: str
    old: str | None
    new: str | None

    def __str__(self) -> str:
        return f"{self.what} {self.old or 'none'} → {self.new or 'none'}"


@dataclass(frozen=True, slots=True)
class Difference:
    """Two reports, and in what they differ.

    Counts are samples. `n_questions` have a different question or different references, `n_facts` other facts,
    `n_answers`
    another answer, `n_labels` another label; all of them are samples that both reports have.
    """

    old: str
    new: str
    n_common: int
    n_only_old: int
    n_only_new: int
    n_questions: int
    n_facts: int
    n_answers: int
    n_labels: int
    changed: tuple[Changed, ...]
    movements: tuple[Movement, ...]
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]


def diff(home: Home, old_report_id: str, new_report_id: str) -> Difference:
    """Attribute changes to rows, references, answers, judge, prompt, parser, code and parameters.

    Raises:
        UserError: a report is not there, both are the same, or they are about two data sets.
    """
    old, new = read_pair(home, old_report_id, new_report_id)
    samples = pair_samples(home, old, new)
    both = samples.in_old & samples.in_new
    return Difference(
        old.report_id,
        new.report_id,
        n_common=int(both.sum()),
        n_only_old=int((samples.in_old & ~samples.in_new).sum()),
        n_only_new=int((samples.in_new & ~samples.in_old).sum()),
        n_questions=int(samples.changed.sum()),
        n_facts=int(samples.facts_changed.sum()),
        n_answers=int((both & ~samples.same_answer).sum()),
        n_labels=int((both & ~samples.same_label).sum()),
        changed=tuple(_changed(old, new)),
        movements=tuple(movements(samples)),
        only_old=tuple(name for name in old.names if name not in new.names),
        only_new=tuple(name for name in new.names if name not in old.names),
    )


def _changed(old: Report, new: Report) -> Iterator[Changed]:
    before, after = old.manifest, new.manifest
    for metric, signature in after["signatures"].items():
        for change in signature_changes(before["signatures"].get(metric, signature), signature):
            yield replace(change, what=f"{metric}, {change.what}")
    if before.get("code") != after.get("code"):
        yield Changed("code", "revision", before.get("code"), after.get("code"))
    yield from _compared("library", before.get("versions", {}), after.get("versions", {}))
    yield from _compared("parameter", _flat(before.get("parameters", {})), _flat(after.get("parameters", {})))


def _compared(kind: ChangeKind, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Changed]:
    for name in dict.fromkeys([*after, *before]):
        if before.get(name) != after.get(name):
            # Our own version is about the code that scored.
            yield Changed("code" if name == "answerkey" else kind, name, before.get(name), after.get(name))


def _flat(parameters: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested parameters as `scoring.metrics`: text."""
    found: dict[str, str] = {}
    for name, value in parameters.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{name}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            found[f"{prefix}{name}"] = without_secrets(text)
    return found


def signature_changes(old: str, new: str) -> tuple[Changed, ...]:
    """The parts in which two signatures of one metric differ, in the order of the new one.

    A signature is `metric|vN|part:value|...`; `vN` counts the versions of the metric's code.
    """
    before, after = _parts(old), _parts(new)
    return tuple(
        Changed(_kind(part), part, before.get(part), after.get(part))
        for part in dict.fromkeys([*after, *before])
        if before.get(part) != after.get(part)
    )


def _parts(signature: str) -> dict[str, str]:
    pieces = signature.split("|")
    named = dict(zip(_CODE, pieces, strict=False))
    for piece in pieces[len(_CODE) :]:
        part, _, value = piece.partition(":")
        named[part] = value
    return named


def _kind(part: str) -> ChangeKind:
    if part in _JUDGE:
        return "judge"
    if part == "prompt":
        return "prompt"
    if part == "parser":
        return "parser"
    return "code" if part in _CODE else "settings"
