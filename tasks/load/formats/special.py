"""What `formats.yaml` cannot say in paths: how chats and cells that hold JSON are read, and what one tool alone has.

The functions for single tools are below; `formats.yaml` refers to them by name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from answerkey.metrics_core.sample import UNANSWERABLE
from answerkey.tasks.load.columns import KEYS, usual_names, value
from answerkey.tasks.load.plain import Record, as_json

Row = dict[str, Any]
"""A record with the columns that `row` gives it."""


class Unreadable(NamedTuple):
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


_NO_ANSWER = "unanswerable"
"""What an empty prediction of SQuAD says."""
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


def with_choices(base_row: Row, _sample: Record) -> Iterator[Row]:
    """Add its choices to a question of Inspect, and the texts of the right letters to its references."""
    choices = base_row.pop("choices")
    if not isinstance(choices, list) or not choices:
        yield base_row
        return
    text_by_letter = {chr(ord("A") + index): text for index, text in enumerate(choices)}
    lines = [f"{letter}) {text}" for letter, text in text_by_letter.items()]
    target = base_row["references"]
    references = []
    for letter in target if isinstance(target, list) else [target]:
        references += [letter, text_by_letter.get(str(letter).strip())]
    references = [text for text in references if text is not None]
    yield {**base_row, "question": "\n".join([str(base_row["question"]), *lines]), "references": references}


def lm_eval_sample(base_row: Row, sample: Record) -> Iterator[Row]:
    """Take question and answer out of the nested lists of a sample of lm-evaluation-harness.

    Raises:
        ValueError: the task compares the likelihoods of choices.
    """
    question = base_row["question"]
    while isinstance(question, dict | list) and question:
        question = next(iter(question.values())) if isinstance(question, dict) else question[0]

    # A log-likelihood with whether it is greedy is all that tasks of choices log
    answer = decoded(sample["filtered_resps"])
    while isinstance(answer, list) and answer and not (len(answer) == 2 and str(answer[1]) in ("True", "False")):
        answer = answer[0]
    if not isinstance(answer, str):
        raise ValueError("the task compares likelihoods of given choices: there is no answer in words to score")
    yield {**base_row, "question": question, "answer": answer, "references": decoded(base_row["references"])}


def expected_by_people(base_row: Row, trace: Record) -> Iterator[Row]:
    """Add the right answers that people wrote to a trace of MLflow, which keeps lists of them as JSON."""
    expected = {}
    for assessment in items(decoded(trace.get("assessments"))):
        name = str(assessment.get("assessment_name") or assessment.get("name"))
        serialized = value(assessment, "expectation.serialized_value.value")
        answers = value(assessment, "expectation.value") if serialized is None else json.loads(serialized)
        if answers is not None:
            expected[name] = answers
    names = [name for name in ("expected_response", *usual_names("references")) if name in expected]
    answers = expected[names[0]] if names else None
    yield {**base_row, "references": base_row["references"] if answers is None else references_in(answers)}


def are_predictions(records: Sequence[Record]) -> bool:
    """Tell whether the document maps ids to texts, as predictions of SQuAD do, and is not a row with texts."""
    names = {*usual_names(*KEYS), *KEYS, "version", "name"}
    document = records[0]
    is_all_texts = bool(document) and all(isinstance(text, str) for text in document.values())
    return isinstance(document, Document) and is_all_texts and not names & document.keys()


def squad_predictions(_base_row: Row, predictions: Record) -> Iterator[Row]:
    """Yield the predictions of a document by their ids."""
    for sample_id, text in predictions.items():
        yield row(id=sample_id, answer=text or _NO_ANSWER)


def squad_prediction(base_row: Row, _record: Record) -> Iterator[Row]:
    """Read an empty prediction as one that there is no answer."""
    yield {**base_row, "answer": base_row["answer"] or _NO_ANSWER}


def squad_article(_base_row: Row, article: Record) -> Iterator[Row | Unreadable]:
    """Yield the questions to the paragraphs of an article."""
    for paragraph in items(article["paragraphs"]):
        for question in items(paragraph.get("qas")):
            texts = [answer["text"] for answer in items(question.get("answers"))]
            base_row = row(
                id=question.get("id"),
                question=question.get("question"),
                references=texts,
                context=paragraph.get("context"),
                extra={"title": article.get("title")},
            )
            yield from squad_question(base_row, question)


def squad_question(base_row: Row, question: Record) -> Iterator[Row]:
    """Name each right answer once; where there is none, that the question has no answer is right."""
    texts = base_row["references"] or []
    texts = dict.fromkeys(texts if isinstance(texts, list) else [texts])
    incorrect = [answer.get("text") for answer in items(question.get("plausible_answers"))]
    wrong = {"incorrect_references": incorrect} if incorrect else {}
    yield {**base_row, "references": list(texts) or [UNANSWERABLE, _NO_ANSWER], **wrong}


def each_choice(base_row: Row, record: Record) -> Iterator[Row]:
    """Yield each of several answers to a request as one of its repeats."""
    choices = items(value(record, "response.body.choices"))
    if not choices:
        yield base_row
    for number, choice in enumerate(choices, start=1):
        answer = content(choice.get("message"))
        yield {**base_row, "answer": answer, "finish_reason": choice.get("finish_reason"), "repeat": number}


def with_input(_base_row: Row, record: Record) -> list[Row]:
    """Put what an instruction is about below it."""
    others = dict(record)
    parts = [others.pop(name) for name in ("instruction", "input")]
    return [{"question": "\n\n".join(part for part in parts if isinstance(part, str) and part.strip()), **others}]


def in_parts(base_row: Row, _record: Record) -> list[Row]:
    """Put the texts of a message together."""
    return [{**base_row, "answer": content(base_row["answer"])}]


def viewed_row(base_row: Row, item: Record) -> list[Row]:
    """Return a row of the viewer of Hugging Face, which has the columns of its data set.

    Raises:
        ValueError: the viewer has cut off a cell.
    """
    if truncated := item.get("truncated_cells"):
        raise ValueError(f"{', '.join(truncated)} cut off by the viewer; download the data set")
    return [dict(base_row["row"])]


def helm_answer(base_row: Row, record: Record) -> Iterator[Row]:
    """Put the text of a choice in place of its letter, and part the right references of HELM from the wrong ones."""
    choices = mapping(base_row.pop("choices", None))
    answer = base_row["answer"]
    if answer is not None:
        answer = str(answer).strip()
        answer = choices.get(answer, answer)
    base_row = {**base_row, "answer": answer}

    options = value(record, "instance.references") or record.get("references")
    if options is None:
        yield base_row
        return
    correct = list[str]()
    incorrect = list[str]()
    for option in items(options):
        if has(option, "output", "tags"):
            (correct if "correct" in option["tags"] else incorrect).append(str(value(option, "output.text")))
    yield {**base_row, "references": correct, "incorrect_references": incorrect}


def natural_question(base_row: Row, record: Record) -> Iterator[Row]:
    """Yield a question of Natural Questions with its short answers, and yes or no where that is one."""
    annotations = mapping(record["annotations"])
    texts = []
    for answers in items(annotations["short_answers"]):
        texts += answers["text"]
    for verdict in annotations.get("yes_no_answer", []):
        texts += {"0": ["No"], "1": ["Yes"]}.get(str(verdict), [])
    yield {**base_row, "references": list(dict.fromkeys(texts))}


def trivia_question(_base_row: Row, record: Record) -> Iterator[Row]:
    """Yield a question of TriviaQA with all spellings of its answer, beside an answer of another name."""
    answer_entry = mapping(record["answer"])
    other_cells = {name: cell for name, cell in record.items() if name != "answer"}
    texts = filter(None, [answer_entry.get("value"), *answer_entry["aliases"]])
    answer = next((other_cells[name] for name in usual_names("answer") if name in other_cells), None)
    yield {**other_cells, "answer": answer, "references": list(dict.fromkeys(texts))}


def chat_turn(base_row: Row, record: Record) -> Iterator[Row]:
    """Yield a record with the question and answer at the end of its chat, unless other columns have them."""
    chat = items(decoded(record["messages"]))
    columns = {}
    if base_row["question"] is None or not any(name in record for name in usual_names("question")):
        columns["question"] = question_in(chat)
    if not any(name in record for name in usual_names("answer")):
        is_answered = chat[-1].get("role") in ("assistant", "ai", "model")
        columns["answer"] = answer_in(chat) if is_answered else None
    yield {**columns, **record}
