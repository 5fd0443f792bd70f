"""SQuAD: the data set, nested or as rows, which is given as references; and predictions, which are answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from answerkey.tasks.load.columns import KEYS, usual_names
from answerkey.tasks.load.formats.format import (
    Convert,
    Document,
    Format,
    Record,
    Row,
    Unreadable,
    decoded,
    each,
    has,
    items,
    mapping,
    row,
)


def _recognise(records: Sequence[Record]) -> Convert | None:
    if all(items(one.get("data")) and has(items(one["data"])[0], "paragraphs") for one in records):
        return _data_set
    if all(has(one, "id", "question", "answers") and has(decoded(one["answers"]), "text") for one in records):
        return _row
    if all(has(one, "id", "prediction_text") for one in records):
        return _prediction
    if isinstance(records[0], Document) and _is_predictions(records[0]):
        return _predictions
    return None


def _is_predictions(record: Record) -> bool:
    """Whether an object maps ids to texts, and is not a row with texts."""
    names = {*usual_names(*KEYS), *KEYS, "version", "name"}
    return bool(record) and all(isinstance(one, str) for one in record.values()) and not names & record.keys()


def _data_set(data_set: Record) -> Iterator[Row | Unreadable]:
    return each(data_set["data"], _article)


def _article(article: Record) -> Iterator[Row]:
    for paragraph in items(article["paragraphs"]):
        for asked in items(paragraph.get("qas")):
            texts = [answer["text"] for answer in items(asked.get("answers"))]
            yield _known(asked, texts, paragraph.get("context"), article.get("title"))


def _row(record: Record) -> Iterator[Row]:
    texts = mapping(record["answers"])["text"]
    yield _known(record, list(texts), record.get("context"), record.get("title"))


def _known(asked: Record, texts: list[str], context: object, title: object) -> Row:
    return row(
        id=asked.get("id"),
        question=asked.get("question"),
        answer=None,
        references=list(dict.fromkeys(texts)),
        context=context,
        extra={"title": title},
    )


def _prediction(record: Record) -> Iterator[Row]:
    yield row(id=record["id"], question=None, answer=record["prediction_text"], references=None)


def _predictions(predictions: Record) -> Iterator[Row]:
    for id, text in predictions.items():
        yield row(id=id, question=None, answer=text, references=None)


SQUAD = Format("squad", "SQuAD data or predictions", _recognise)
