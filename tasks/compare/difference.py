"""Why did a number move? Everything in which two reports differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from answerkey.tasks.compare.paired_samples import pair_samples
from answerkey.tasks.load.remote import without_secrets
from answerkey.tasks.reports.report import read_pair
from answerkey.tasks.warehouse.home import Home

ChangeKind = Literal["judge", "prompt", "parser", "code", "settings", "library", "parameter"]
_CODE = ("metric", "version")
"""The first parts of a signature, which have no names in it."""
_KINDS: Mapping[str, ChangeKind] = {
    "metric": "code", "version": "code", "prompt": "prompt", "parser": "parser",
    "judge": "judge", "jury": "judge", "repeats": "judge", "t": "judge", "seed": "judge",
}  # fmt: skip
"""What a part of a signature is about; the others are settings."""


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
    `n_answers` another answer, `n_labels` another label; all of them are samples that both reports have.
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
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]


def diff(home: Home, old_report_id: str, new_report_id: str) -> Difference:
    """Find out in which rows, references, answers, judges, prompts, code and parameters two reports differ.

    Raises:
        UserError: a report is not there, both are the same, or they are about two data sets.
    """
    old, new = read_pair(home, old_report_id, new_report_id)
    # The samples that both have, and those that only one has
    samples = pair_samples(home, old, new)
    common = samples.in_old & samples.in_new

    # How the reports were made, by their manifests
    old_manifest = old.manifest
    new_manifest = new.manifest
    changed: list[Changed] = []
    for metric, signature in new_manifest["signatures"].items():
        for change in signature_changes(old_manifest["signatures"].get(metric, signature), signature):
            changed.append(replace(change, what=f"{metric}, {change.what}"))
    if old_manifest.get("code") != new_manifest.get("code"):
        changed.append(Changed("code", "revision", old_manifest.get("code"), new_manifest.get("code")))
    changed += _mapping_changes("library", old_manifest.get("versions", {}), new_manifest.get("versions", {}))
    changed += _mapping_changes(
        "parameter", _flat(old_manifest.get("parameters", {})), _flat(new_manifest.get("parameters", {}))
    )
    return Difference(
        old.report_id,
        new.report_id,
        n_common=int(common.sum()),
        n_only_old=int((samples.in_old & ~samples.in_new).sum()),
        n_only_new=int((samples.in_new & ~samples.in_old).sum()),
        n_questions=int(samples.changed.sum()),
        n_facts=int(samples.facts_changed.sum()),
        n_answers=int((common & ~samples.same_answer).sum()),
        n_labels=int((common & ~samples.same_label).sum()),
        changed=tuple(changed),
        only_old=tuple(name for name in old.names if name not in new.names),
        only_new=tuple(name for name in new.names if name not in old.names),
    )


def _mapping_changes(kind: ChangeKind, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Changed]:
    """Yield what differs between two mappings."""
    for name in dict.fromkeys([*new, *old]):
        if old.get(name) != new.get(name):
            # Our own version is about the code that scored
            yield Changed("code" if name == "answerkey" else kind, name, old.get(name), new.get(name))


def _flat(parameters: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return nested parameters as `scoring.metrics`: text."""
    texts: dict[str, str] = {}
    for name, value in parameters.items():
        if isinstance(value, Mapping):
            texts |= _flat(value, f"{prefix}{name}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            # An address may have a password in it
            texts[f"{prefix}{name}"] = without_secrets(text)
    return texts


def signature_changes(old: str, new: str) -> tuple[Changed, ...]:
    """Find the parts in which two signatures of one metric differ, in the order of the new one.

    A signature is `metric|vN|part:value|...`; `vN` counts the versions of the metric's code.
    """
    # Parts by name, since a part may be new or gone
    old_parts = _signature_parts(old)
    new_parts = _signature_parts(new)
    return tuple(
        Changed(_KINDS.get(part, "settings"), part, old_parts.get(part), new_parts.get(part))
        for part in dict.fromkeys([*new_parts, *old_parts])
        if old_parts.get(part) != new_parts.get(part)
    )


def _signature_parts(signature: str) -> dict[str, str]:
    """The values of a signature's parts by name; the first ones have no names in it."""
    pieces = signature.split("|")
    values = dict(zip(_CODE, pieces, strict=False))
    for piece in pieces[len(_CODE) :]:
        part, _, value = piece.partition(":")
        values[part] = value
    return values
