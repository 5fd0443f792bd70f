"""Questions of a queue as CSV for people who label elsewhere, and their labels back."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.export import FORMULA
from answerkey.tasks.labels import (
    VERDICTS,
    NewLabel,
    Queue,
    QueuedAnswer,
    add_labels,
    drawn_labels,
    newest_queue,
    queued_answers,
)
from answerkey.tasks.reports.report import pair_named
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.store import atomic_write

COLUMNS = ("queue", "place", "question", "references", "answer", "verdict", "annotator", "sample_key")


def export_labels(
    home: Home, old: str, new: str, file: Path, dataset: str = "", *, every: bool = False
) -> tuple[int, int]:
    """Write the newest queue for two releases as CSV: a row for each answer and annotator.

    Args:
        every: all drawn questions; else those up to the next analysis.

    Returns:
        The number of rows, and how many of them have a label.

    Raises:
        UserError: there is no queue, or the file cannot be written.
    """
    before, after = pair_named(home, old, new, dataset)
    queue = newest_queue(home, before, after)
    if queue is None:
        raise UserError(f"{after} against {before}: there is no queue; draw one with `answerkey label --draw-only`")
    most = queue.analyses[-1] if every else queue.until(drawn_labels(home, before, after))
    # Within a question, in an order that does not tell which release gave which answer.
    answers = sorted(
        queued_answers(home, queue, most), key=lambda one: (one.place, Random(f"{queue.id} {one.sample_key}").random())
    )
    rows = [row for answer in answers for row in _rows(answer, queue)]
    try:
        with atomic_write(file) as unfinished, unfinished.open("w", encoding="utf-8", newline="") as out:
            writer = csv.DictWriter(out, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        raise UserError(f"{file}: cannot be written: {error.strerror or error}") from error
    return len(rows), sum(row["verdict"] != "" for row in rows)


def _rows(answer: QueuedAnswer, queue: Queue) -> Iterator[dict[str, str]]:
    about = {
        "queue": queue.id,
        "place": str(answer.place),
        "question": _harmless(answer.question or ""),
        "references": json.dumps(answer.references, ensure_ascii=False),
        "answer": _harmless(answer.answer or ""),
        "sample_key": answer.sample_key,
    }
    known = sorted(answer.labels.items())
    missing = [] if answer.complete else [("", "")] * max(0, queue.annotators - len(known))
    for annotator, verdict in [*known, *missing]:
        yield {**about, "annotator": _harmless(annotator), "verdict": verdict}


def _harmless(text: str) -> str:
    return f"'{text}" if re.match(FORMULA, text) else text


def import_labels(home: Home, file: Path, annotator: str = "") -> int:
    """Take the labels of a CSV file into the warehouse, all of them or none.

    Args:
        annotator: who labelled rows that name nobody.

    Returns:
        How many labels are new.

    Raises:
        UserError: the file cannot be read, or a row cannot be used.
    """
    rows = list(_read(file, annotator))
    queues = dict.fromkeys(queue for _, queue, _ in rows)
    if len(queues) > 1:
        raise UserError(f"{file}: labels of {len(queues)} queues; import a file for each")
    [queue_id] = queues or [""]
    queue = newest_queue(home, queue=queue_id) if queue_id else None
    if queue_id and queue is None:
        raise UserError(f"{file}: there is no queue {queue_id} in {home}")
    known: dict[str, dict[str, str]] = {}
    if queue:
        known = {a.sample_key: dict(a.labels) for a in queued_answers(home, queue, queue.analyses[-1])}
    new: dict[tuple[str, str], NewLabel] = {}
    for row, _, label in rows:
        if queue and label.sample_key not in known:
            raise UserError(f"{file}, row {row}: sample_key belongs to no answer that queue {queue.id} has drawn")
        key = (label.sample_key, label.annotator)
        if new.setdefault(key, label).verdict != label.verdict:
            raise UserError(f"{file}, row {row}: a second verdict of {label.annotator} on the same answer; keep one")
    wanted = [new[key] for key in new if known.get(key[0], {}).get(key[1]) != new[key].verdict]
    if wanted:
        add_labels(home, wanted, queue.id if queue else None)
    return len(wanted)


def _read(file: Path, annotator: str) -> Iterator[tuple[int, str, NewLabel]]:
    """The row, the queue and the label of each row that has a verdict."""
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            reader = csv.DictReader(lines)
            absent = {"sample_key", "verdict"} - set(reader.fieldnames or ())
            if absent:
                raise UserError(f"{file}: no column {', '.join(sorted(absent))}; `labels export` writes them")
            for number, row in enumerate(reader, 1):
                verdict = (row["verdict"] or "").strip().lower()
                # As the export wrote a name that a spreadsheet would take for a formula.
                who = re.sub(f"^'(?={FORMULA})", "", (row.get("annotator") or "").strip()) or annotator
                if not verdict:
                    continue
                if verdict not in VERDICTS:
                    raise UserError(f"{file}, row {number}, verdict: {verdict[:40]!r}; write {', '.join(VERDICTS)}")
                if not who:
                    raise UserError(f"{file}, row {number}, annotator: no name; give --annotator")
                found = NewLabel((row["sample_key"] or "").strip(), who, verdict)
                yield number, (row.get("queue") or "").strip(), found
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
