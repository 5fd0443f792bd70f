"""Rows of a data set as the viewer of Hugging Face gives them. Their columns are recognised by their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from answerkey.tasks.load.formats.format import Convert, Format, Record, Row, Unreadable, each, has, items


def _recognise(records: Sequence[Record]) -> Convert | None:
    fits = all(items(one.get("rows")) and has(items(one["rows"])[0], "row_idx", "row") for one in records)
    return _page if fits else None


def _page(page: Record) -> Iterator[Row | Unreadable]:
    return each(page["rows"], _row)


def _row(item: Record) -> Iterator[Row]:
    yield dict(item["row"])


HUGGING_FACE = Format("hugging-face", "rows of a data set on Hugging Face", _recognise, "models")
