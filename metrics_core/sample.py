"""A sample: one answer to one question, with the answers known to be right."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from answerkey.metrics_core.text import is_blank

_canonical = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode
TRUTH = dict.fromkeys(("true", "yes", "1", "1.0", "t", "y", "correct"), True) | dict.fromkeys(
    ("false", "no", "0", "0.0", "f", "n", "incorrect"), False
)
NO_LABEL = ("", "nan", "null", "none", "n/a", "na", "-")
"""Spellings of a label."""


UNANSWERABLE = "The question cannot be answered."
"""The reference of a question to which the right answer is to decline; see `MeaningMatch`."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One answer of one release to one question.

    `references`, `facts`, `context` (the passages that the answer should rest on) and `incorrect_references` (answers
    known to be wrong) accept any sequence of texts; a single text counts as a list of one.
    `columns` has others of the row, which rubrics and metrics of your own are about, by name: a list or an object as
    such, any other value as its text. The column `messages` is a conversation, in the form of `conversation.turns`.
    `label` says whether people call the answer right. A missing answer is `None`; metrics score it by their policy
    `blank_answer`.

    Raises:
        TypeError: a text field is not a text. A number that slipped into `answer` would otherwise be
            scored as if it had been written that way.
    """

    sample_id: str
    answer: str | None
    references: Sequence[str] = ()
    question: str | None = None
    facts: Sequence[str] = ()
    cluster: str | None = None
    slices: Mapping[str, str] = field(default_factory=dict, hash=False)
    context: Sequence[str] = ()
    incorrect_references: Sequence[str] = ()
    columns: Mapping[str, Any] = field(default_factory=dict, hash=False)
    label: bool | None = None

    def __post_init__(self) -> None:
        for name in ("answer", "question", "cluster"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise TypeError(f"sample {self.sample_id!r}: {name} is {type(value).__name__}, expected a text")
        for name in ("references", "facts", "context", "incorrect_references"):
            value = getattr(self, name)
            if type(value) is tuple and not value:
                # Most are empty in most samples, and there may be millions of samples.
                continue
            texts: tuple[Any, ...] = ()
            if isinstance(value, str):
                texts = (value,)
            elif isinstance(value, Iterable):
                texts = tuple(value)
            elif value is not None:
                raise TypeError(f"sample {self.sample_id!r}: {name} is {type(value).__name__}, expected texts")
            for text in texts:
                if not isinstance(text, str):
                    raise TypeError(f"sample {self.sample_id!r}: {name} holds {type(text).__name__}, expected texts")
            object.__setattr__(self, name, texts)

        if self.columns:
            columns = {name: value for name, value in self.columns.items() if value is not None}
            if "messages" in columns:
                from answerkey.metrics_core.conversation import turns

                # The form in which files of all tools are read. What is no conversation stays, and fails where judged.
                with suppress(ValueError):
                    columns["messages"] = turns(columns["messages"])
            object.__setattr__(self, "columns", {name: _column_value(value) for name, value in columns.items()})

    def __reduce__(self) -> tuple[type[Sample], tuple[object, ...]]:
        # A frozen dataclass with slots pickles field by field in Python, ten times slower; processes exchange many.
        rest = (self.question, self.facts, self.cluster, self.slices, self.context, self.incorrect_references)
        return Sample, (self.sample_id, self.answer, self.references, *rest, self.columns, self.label)

    @property
    def usable_references(self) -> tuple[tuple[int, str], ...]:
        """The non-blank references with their index in `references`."""
        # Every metric asks: texts in ASCII are looked at here.
        usable = []
        for i, text in enumerate(self.references):
            if (text and not text.isspace()) if text.isascii() else not is_blank(text):
                usable.append((i, text))
        return tuple(usable)

    @property
    def usable_incorrect_references(self) -> tuple[tuple[int, str], ...]:
        """The non-blank answers known to be wrong, with their index in `incorrect_references`."""
        return tuple((i, text) for i, text in enumerate(self.incorrect_references) if not is_blank(text))

    @property
    def column_texts(self) -> dict[str, str]:
        """The other columns as texts: what judges are shown, and keys are made of."""
        return {name: column_text(value) for name, value in self.columns.items()}

    @property
    def key(self) -> str:
        """A hash of everything that a score depends on (128 bits, hex)."""
        return sample_key(
            self.question, self.answer, self.references, self.facts, self.context, self.incorrect_references,
            self.column_texts,
        )  # fmt: skip


def sample_key(
    question: str | None,
    answer: str | None,
    references: Sequence[str],
    facts: Sequence[str],
    context: Sequence[str],
    incorrect_references: Sequence[str],
    columns: Mapping[str, str],
) -> str:
    """A hash of everything that a score depends on (128 bits, hex).

    The id, the cluster, the slices and the label are not in it, so the same answer in two releases, or under two
    ids, is scored and paid for once. References are hashed in order: a metric may name one by index. A sample
    without context, without answers known to be wrong, and without other columns, has the key that it had before there
    were any.

    >>> sample_key("Q", "A", ["R"], (), (), (), {}) == Sample("any", "A", "R", "Q").key
    True
    """
    optional: list[object] = [context, incorrect_references, columns]
    while optional and not optional[-1]:
        optional.pop()
    return content_hash([question, answer, references, facts, *optional])


def column_text(value: object) -> str:
    """A value of a column as a text: a text as it is, any other as its JSON.

    >>> column_text("formal"), column_text(["a", 1])
    ('formal', '["a",1]')
    """
    return value if isinstance(value, str) else _canonical(value)


def _column_value(value: object) -> object:
    """A list or an object, or the text that is the `column_text` of one, which is what warehouses keep, as a list or an
    object of plain values; anything else as its text.
    """
    text = column_text(value)
    if text[:1] not in ("[", "{"):
        return text
    try:
        plain = json.loads(text)
        return plain if column_text(plain) == text else text
    except (ValueError, RecursionError):
        return text


def content_hash(value: object) -> str:
    """128-bit hex digest of the canonical JSON of `value`.

    Lone surrogates, which JSON files can smuggle into a Python text, are hashed rather than refused.
    """
    return hashlib.blake2b(_canonical(value).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def truth(text: str) -> bool | None:
    """The label that a text is; None if it says that there is none.

    Raises:
        ValueError: it is neither true nor false.

    >>> truth("Yes"), truth("n/a")
    (True, None)
    """
    word = text.strip().lower()
    if word in NO_LABEL:
        return None
    if word not in TRUTH:
        raise ValueError(f"{text[:40]!r} is neither true nor false")
    return TRUTH[word]
