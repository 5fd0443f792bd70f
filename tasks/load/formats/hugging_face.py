"""Rows of a data set as the viewer of Hugging Face gives them. Their columns are recognised by their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from answerkey.tasks.load.formats.format import Convert, Format, Record, Row, has, items


def _recognise(records: Sequence[Record]) -> Convert | None:
    fits = all(items(one.get("rows")) and has(items(one["rows"])[0], "row_idx", "row") for one in records)
    return _page if fits else None


def _page(page: Record) -> Iterator[Row]:
    for one in items(page["rows"]):
        yield dict(one["row"])


HUGGING_FACE = Format("hugging-face", "rows of a data set on Hugging Face", _recognise, "models")
