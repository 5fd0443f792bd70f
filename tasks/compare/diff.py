"""Why did a number move? Everything in which two reports differ, told apart, and how much each thing did."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.compare.attribution import Movement, movements
from answerkey.tasks.compare.paired_samples import pairing
from answerkey.tasks.compare.signatures import changes
from answerkey.tasks.load.sources import without_secrets
from answerkey.tasks.reports.report import Report, read_reports
from answerkey.tasks.warehouse.home import Home

Kind = Literal["judge", "prompt", "parser", "code", "settings", "library", "parameter"]


@dataclass(frozen=True, slots=True)
class Changed:
    """One thing that is not the same in how the two reports were made; None where one of them lacks it."""

    kind: Kind
    what: str
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True)
class Difference:
    """Two reports, and in what they differ.

    Counts are samples. `n_questions` have another question or other references, `n_facts` other facts, `n_answers`
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
    """Tell rows, references, answers, judge, prompt, parser, code and parameters apart.

    Raises:
        UserError: a report is not there, both are the same, or they are about two data sets.
    """
    old, new = read_reports(home, [old_report_id, new_report_id])
    if old.report_id == new.report_id:
        raise UserError(f"{old.report_id}: a report does not differ from itself")
    if old.dataset != new.dataset:
        raise UserError(f"{old.report_id} is about {old.dataset}, and {new.report_id} about {new.dataset}")
    pair = pairing(home, old, new)
    both = pair.in_old & pair.in_new
    names = [[f"{score.metric}.{score.field}" for score in report.overall] for report in (old, new)]
    return Difference(
        old.report_id,
        new.report_id,
        n_common=int(both.sum()),
        n_only_old=int((pair.in_old & ~pair.in_new).sum()),
        n_only_new=int((pair.in_new & ~pair.in_old).sum()),
        n_questions=int(pair.changed.sum()),
        n_facts=int(pair.facts_changed.sum()),
        n_answers=int((both & ~pair.same_answer).sum()),
        n_labels=int((both & ~pair.same_label).sum()),
        changed=tuple(_changed(old, new)),
        movements=tuple(movements(pair)),
        only_old=tuple(name for name in names[0] if name not in names[1]),
        only_new=tuple(name for name in names[1] if name not in names[0]),
    )


def _changed(old: Report, new: Report) -> Iterator[Changed]:
    before, after = old.manifest, new.manifest
    for metric, signature in after["signatures"].items():
        for change in changes(before["signatures"].get(metric, signature), signature):
            yield Changed(change.kind, f"{metric}, {change.part}", change.old, change.new)
    if before.get("code") != after.get("code"):
        yield Changed("code", "revision", before.get("code"), after.get("code"))
    yield from _compared("library", before.get("versions", {}), after.get("versions", {}))
    yield from _compared("parameter", _flat(before.get("parameters", {})), _flat(after.get("parameters", {})))


def _compared(kind: Kind, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Changed]:
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
