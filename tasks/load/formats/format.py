"""What a format is, and what the formats of several tools have in common: chat messages, cells that hold JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from answerkey.tasks.load.columns import usual_names
from answerkey.tasks.load.plain import as_json
from answerkey.tasks.load.rows import Record

Row = dict[str, Any]
"""A record with the columns that `row` gives it."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An item of a document that is not what its format has there, and what came of it."""

    item: Any
    error: Exception


NOTED = tuple(name for name in usual_names("references") if "target" not in name)
"""Names of right answers among variables and metadata, where a "target" may be a language or a place to deploy to."""

Convert = Callable[[Record], Iterable[Row | Unreadable]]
"""From a record of a file, or a whole JSON document, to its rows.

Raises one of `UNREADABLE` where the record cannot be read.
"""
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, IndexError)


class Document(dict[str, Any]):
    """A record that is a whole JSON file, and not a row of one."""


_OURS = (
    "id", "question", "answer", "references", "release", "context", "facts", "cluster", "repeat", "missing_because",
    "finish_reason", "scores", "release_order",
)  # fmt: skip


def row(*, extra: Record | None = None, **columns: Any) -> Row:
    """A row with our columns; those of `extra`, which slices can name, come beside them. `scores` are as `given` has
    them, and `release_order` as `staged_schema` has it."""
    return {**(extra or {}), **dict.fromkeys(_OURS), **columns}


def seconds(time: Any) -> float | None:
    """Return a time as a number that grows with it: a text as ISO 8601 has it, a time of Python, or a number.

    >>> seconds("2024-05-01T10:00:00Z"), seconds("2024-05-01 10:00"), seconds(1714557600000), seconds("soon")
    (1714557600.0, 1714557600.0, 1714557600000.0, None)
    """
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time.strip())
        except ValueError:
            return None
    if isinstance(time, datetime):
        aware = time if time.tzinfo else time.replace(tzinfo=UTC)
        return aware.timestamp()
    is_number = isinstance(time, int | float) and not isinstance(time, bool)
    return float(time) if is_number else None


def each(document_items: Any, convert: Convert) -> Iterator[Row | Unreadable]:
    """The rows of the items in a document. One that cannot be read takes none of the others with it.

    Raises:
        TypeError: they are no list.
    """
    if not isinstance(document_items, list | tuple):
        raise TypeError(f"a {type(document_items).__name__} is no list")
    for item in document_items:
        try:
            rows = list(convert(item))
        except UNREADABLE as error:
            yield Unreadable(item, error)
        else:
            yield from rows


def has(record: object, *names: str) -> bool:
    """Whether something is an object with all of these names."""
    return isinstance(record, Mapping) and all(name in record for name in names)


def items(payload: Any) -> list[Record]:
    """The objects in a list; of anything else, none."""
    return [item for item in payload if isinstance(item, Mapping)] if isinstance(payload, list | tuple) else []


def mapping(payload: Any) -> Record:
    """An object, also one that is written as JSON in a text; of anything else, an empty one."""
    payload = decoded(payload)
    return payload if isinstance(payload, Mapping) else {}


def decoded(cell: Any) -> Any:
    """What a cell holds that was written as JSON: an object, a list or a quoted text; any other cell as it is.

    >>> decoded('"A hexagon"'), decoded('["6", "six"]'), decoded("12"), decoded('"so" he said')
    ('A hexagon', ['6', 'six'], '12', '"so" he said')

    Raises:
        KeyTwice: an object in it has a key twice.
    """
    if not isinstance(cell, str) or (text := cell.strip())[:1] not in ("{", "[", '"'):
        return cell
    parsed = as_json(text)
    return cell if parsed is text else parsed


def content(message: Any) -> Any:
    """The text of a chat message, or of the parts that its content consists of."""
    body = message
    if isinstance(message, Mapping):
        # A model that refuses says so in a field of its own
        body = message.get("refusal") or message.get("content")
    if isinstance(body, list):
        parts = [
            part if isinstance(part, str) else part.get("text") or part.get("refusal")
            for part in body
            if isinstance(part, str) or (isinstance(part, dict) and not part.get("thought"))
        ]
        texts = [part for part in parts if isinstance(part, str)]
        return "\n".join(texts) if texts else None
    return body


def is_chat(messages: Any) -> bool:
    """Whether something is a list of chat messages."""
    return bool(items(messages)) and all(
        has(message, "content") and ("role" in message or "type" in message) for message in items(messages)
    )


_USER = ("user", "human")
_MODEL = ("assistant", "ai", "model")


def question_in(payload: Any) -> Any:
    """The question in what was put to a model: a text, chat messages (the last of the user), or an object with one."""
    return _text_in(decoded(payload), _USER, ("messages", *usual_names("question"), "text", "content"))


def answer_in(payload: Any) -> Any:
    """The answer in what a model gave: a text, chat messages (the last of the model), or an object with one.

    A text is the answer as it stands, also where it spells JSON. Of a list with one item, it is that.
    """
    if isinstance(payload, list) and len(payload) == 1 and isinstance(payload[0], str):
        return payload[0]
    return _text_in(payload, _MODEL, (*usual_names("answer"), "messages", "text", "content", "result"))


def references_in(payload: Any) -> Any:
    """The right answers in what a tool calls expected: a text, a list of texts, or an object with one."""
    if isinstance(payload, list) and not is_chat(payload):
        return [_text_in(item, _MODEL, (*usual_names("references", "answer"), "text", "content")) for item in payload]
    return _text_in(payload, _MODEL, (*usual_names("references", "answer"), "messages", "text", "content", "result"))


def _text_in(payload: Any, roles: Sequence[str], names: Sequence[str]) -> Any:
    if is_chat(messages := [message for message in items(payload) if message.get("type") != "reasoning"]):
        # The last message that one of the roles wrote; of none of them, the last one
        matching = [message for message in messages if (message.get("role") or message.get("type")) in roles]
        return content((matching or messages)[-1])
    if has(payload, "choices") and items(payload["choices"]):
        choice = items(payload["choices"])[0]
        return content(choice.get("message") or {"content": choice.get("text")})
    if has(payload, "role", "content"):
        return content(payload)
    if isinstance(payload, Mapping):
        name = next((name for name in names if payload.get(name) is not None), None)
        return payload if name is None else _text_in(payload[name], roles, names)
    return payload
