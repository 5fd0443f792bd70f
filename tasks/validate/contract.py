"""The data contract: the thresholds that a data set must meet before it is scored, and the rule behind each check."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import ConfigDict, Field

from answerkey.metrics_core.sample import content_hash, sample_key
from answerkey.metrics_core.validation import Validated

Severity = Literal["critical", "warning"]
Row = Mapping[str, object]
"""A staged row."""
Marks = Mapping[str, int]
"""What `measures.sql` measured of a staged row."""
Reason = Callable[[Row, Marks], str]

MISSING_TOLERANCE = 0.05
"""The share of the samples of all releases that one of them may lack without a warning."""
LENGTH_TOLERANCE = 1.5
"""The ratio of median answer lengths without a warning: `comparison.LENGTH_RATIO`, which would import numpy here."""


class Thresholds(Validated):
    """What users set of validation."""

    max_quarantined: float = Field(
        0.20,
        ge=0.0,
        le=1.0,
        title="Quarantined at most",
        description="Share of rows that may break a rule before the run stops.",
    )
    expectations: str = Field(
        "",
        title="Expectations",
        description="A suite of Great Expectations of your own, in JSON or YAML: the path of its file, or its text. "
        "Rows that break a critical expectation are quarantined.",
    )


class Contract(Thresholds):
    """All thresholds of validation.

    Lengths are in characters and inclusive. A row without references is quarantined where they are `required`. Where
    they are `wanted` it is kept, with a warning, and metrics that need one leave it undefined; where they are `unused`
    nothing is said about it.
    """

    model_config = ConfigDict(frozen=True)

    max_question_chars: int = Field(100_000, ge=1)
    max_answer_chars: int = Field(100_000, ge=1)
    max_reference_chars: int = Field(100_000, ge=1)
    references: Literal["required", "wanted", "unused"] = "required"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the contract, and how to word it.

    A row or release breaks it whose number in `column`, which `measures.sql` measures, is above `limit`.

    Args:
        holds: what is true when nothing breaks it.
        breaks: follows a number of rows. Where there are `texts`, which the column numbers from 1, the place `{detail}`
            is for those that occur.
        reason: what is wrong with a row. Only the rules that send rows to quarantine have it.
    """

    name: str
    severity: Severity
    column: str
    holds: str
    breaks: str = ""
    limit: float = 0
    reason: Reason | None = None
    texts: Sequence[str] = ()


def reserved() -> set[str]:
    """The names of the rules of the contract, which no expectation of a user can have."""
    return {rule.name for rule in row_rules(Contract())} | {
        "not_empty", "quarantined_share", "same_samples", "length_drift", "release_scored", "unreadable", "wrong_type",
    }  # fmt: skip


def quarantined(row: dict[str, Any], marks: Mapping[Any, Any], broken: Sequence[Rule]) -> dict[str, Any]:
    """A row of the quarantine file, of a staged row that breaks these rules."""
    reasons = [rule.reason(row, marks) for rule in broken if rule.reason]
    also = [f"also {rule.name}: {reason}" for rule, reason in zip(broken[1:], reasons[1:], strict=True)]
    for name in ("slices", "columns"):
        row[name] = None if row[name] is None else dict(row[name])
    file = row.pop("file")
    file_row = row.pop("file_row")
    return {
        "file": file,
        "row": row["row"] if file is None else file_row,
        "sample_id": row["sample_id"],
        "release": row["release"],
        "rule": broken[0].name,
        "reason": "; ".join([reasons[0], *also]),
        "raw": json.dumps({name: _shortened(value) for name, value in row.items()}, ensure_ascii=False),
    }


_MAX_TEXT_CHARS = 1_000_000
"""Characters of a text in quarantine. With tens of millions, its row could not be hashed in the memory of a session."""


def _shortened(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _MAX_TEXT_CHARS:
        return f"{value[:_MAX_TEXT_CHARS]}... ({len(value):,} characters)"
    return list(map(_shortened, value)) if isinstance(value, list) else value


_SAMPLE_RULES = frozenset((
    "id_present", "release_present", "sample_consistent", "references_present", "length_reference", "length_question",
))  # fmt: skip
"""Rules that leave open which sample the row is about, or whether that can be scored at all."""


def without_answer(
    row: Mapping[str, Any], marks: Mapping[str, Any], quarantined: Mapping[str, Any], broken: Collection[str]
) -> dict[str, Any] | None:
    """A quarantined row as a question to which the release gave no answer; None where the row is not about one.

    Without it, the mean of a release whose service fails would be that of its better answers. Of several rows with one
    id, the first stands for all of them.

    Args:
        row: the staged row.
        quarantined: the row of the quarantine file that was made of it.
        broken: the names of the rules that the row breaks.
    """
    if not _SAMPLE_RULES.isdisjoint(broken):
        return None
    if "id_unique" in broken and (marks["id_clash"] == 1 or row["row"] != marks["first_row"]):
        return None
    if "encoding" in broken and any(name != "answer" and _BROKEN.search(text) for name, text in _texts(row)):
        return None
    names = ("references", "facts", "context", "incorrect_references")
    references, facts, context, incorrect = (row[name] or () for name in names)
    key = sample_key(row["question"], None, references, facts, context, incorrect, dict(row["columns"] or ()))
    return {
        **row,
        "answer": None,
        "finish_reason": None,
        "missing_because": f"quarantined ({quarantined['rule']}): {quarantined['reason']}",
        "sample_key": content_hash([key, "missing"]),
    }


RELEASE_RULES = (
    Rule(
        "same_samples", "warning", "missing_share",
        f"no release lacks more than {100 * MISSING_TOLERANCE:.4g} % of the samples that the releases have together",
        limit=MISSING_TOLERANCE,
    ),
    Rule(
        "length_drift", "warning", "drift",
        f"no release's median answer is {LENGTH_TOLERANCE:g} times longer or shorter than the first release's",
        limit=LENGTH_TOLERANCE,
    ),
)  # fmt: skip
"""The rules for releases. They cause warnings only."""


def row_rules(contract: Contract) -> tuple[Rule, ...]:
    """The rules for single rows: those that quarantine, most basic first, then those that only warn."""
    with_references = contract.references
    return tuple(
        _row_rule(entry, contract)
        for entry in _row_entries()
        if entry.get("references", with_references) == with_references
    )


@cache
def _row_entries() -> Any:
    """The entries of `rules.yml`, read when they are first used: most commands check no rows."""
    return yaml.safe_load(Path(__file__).with_name("rules.yml").read_text(encoding="utf-8"))


def _row_rule(entry: Mapping[str, Any], contract: Contract) -> Rule:
    """Return an entry of `rules.yml` as a rule."""
    limit = getattr(contract, entry.get("limit", ""), 0)
    rule: dict[str, Any] = {"severity": "warning", **entry, "limit": limit}
    rule.pop("references", None)
    for key in ("holds", "breaks"):
        rule[key] = entry[key].replace("{limit:,}", f"{limit:,}")
    rule["reason"] = partial(_reason, entry, limit) if rule["severity"] == "critical" else None
    return Rule(**rule)


def _reason(entry: Mapping[str, Any], limit: float, row: Row, marks: Marks) -> str:
    """Say what is wrong with a row that breaks the rule of an entry of `rules.yml`."""
    rule = entry["name"]
    reason: str = entry.get("reason", "").format(**marks, limit=limit)
    if rule == "id_unique" and marks["id_clash"] == 1:
        reason = f"the same row again, first seen at row {marks['first_row']}"
    elif rule == "id_unique":
        repeat = "" if row["repeat"] in (None, "1") else f" with repeat {row['repeat']!r}"
        reason = (
            f"the id {row['sample_id']!r} has {marks['same_id']} rows{repeat} in release {row['release']!r} that "
            f"differ, the first at row {marks['first_row']}: it is not known which is right; several answers to one "
            "question need a column `repeat`"
        )
    elif rule == "sample_consistent":
        names = ("question", "references", "facts", "cluster", "incorrect_references")
        differing = [name for bit, name in enumerate(names) if marks["differing"] >> bit & 1] or ["sample"]
        is_plural = len(differing) > 1 or differing[0].endswith("s")
        verb = "differ" if is_plural else "differs"
        reason = f"the {' and '.join(differing)} of the id {row['sample_id']!r} {verb}"
        if marks["votes"]:
            reason += f" from what {marks['votes']} of its {marks['voters']} rows have"
        else:
            reason += " between its rows, and no variant has a majority"
    elif rule == "encoding":
        matches = [(name, match) for name, text in _texts(row) if (match := _BROKEN.search(text))]
        reason = "; ".join(
            f"the {name} holds U+{ord(match[0]):04X} at character {match.start() + 1:,}" for name, match in matches
        )
    elif rule == "error_page":
        reason = f"the answer is an error message: {textwrap.shorten(str(row['answer']), 80, placeholder='...')}"
    elif rule == "truncated_answer" and row["finish_reason"]:
        reason = f"the model stopped at its token limit (finish_reason {row['finish_reason']!r})"
    elif rule == "truncated_answer":
        reason = "the answer ends with a mark that it was cut off"
    elif rule == "label_boolean":
        label = str(row["label"])
        excerpt = label if len(label) <= 40 else label[:40] + "..."
        reason = f"the label {excerpt!r} is neither true nor false"
    return reason


_BROKEN = re.compile("[\ufffd\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def _texts(row: Row) -> Iterator[tuple[str, str]]:
    """The texts of a row, with the names used in messages."""
    for name in ("question", "answer"):
        if isinstance(text := row[name], str):
            yield name, text
    references = row["references"]
    if isinstance(references, Sequence):
        for number, text in enumerate(references, start=1):
            if isinstance(text, str):
                yield f"reference {number}" if len(references) > 1 else "reference", text
