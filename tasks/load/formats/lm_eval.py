"""Logged samples of the Language Model Evaluation Harness: `samples_TASK_TIME.jsonl`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from answerkey.tasks.load.columns import usual_names
from answerkey.tasks.load.formats.format import Convert, Format, Record, Row, decoded, has, mapping, question_in, row


def _recognise(records: Sequence[Record]) -> Convert | None:
    return _sample if all(has(one, "doc_id", "doc", "target", "filtered_resps") for one in records) else None


def _sample(sample: Record) -> Iterator[Row]:
    document = mapping(sample["doc"])
    yield row(
        id=sample["doc_id"],
        question=_question(sample, document),
        answer=_answer(sample),
        references=_references(sample, document),
        # Several filters read the same output, each in its own way: what each finds is an answer of its own.
        repeat=None if sample.get("filter", "none") == "none" else sample["filter"],
        extra=document,
    )


def _question(sample: Record, document: Record) -> Any:
    named = next((document[name] for name in usual_names("question") if name in document), None)
    if named is not None:
        return named
    arguments = sample.get("arguments")
    while isinstance(arguments, dict | list) and arguments:
        arguments = next(iter(arguments.values())) if isinstance(arguments, dict) else arguments[0]
    return question_in(arguments)


def _answer(sample: Record) -> Any:
    found = decoded(sample["filtered_resps"])
    while isinstance(found, list) and len(found) >= 1 and not _is_choice(found):
        found = found[0]
    if _is_choice(found) or not isinstance(found, str):
        raise ValueError("the task compares likelihoods of given choices: there is no answer in words to score")
    return found


def _is_choice(found: Any) -> bool:
    """Whether something is a log-likelihood with whether it is greedy, which is all that tasks of choices log."""
    return isinstance(found, list) and len(found) == 2 and str(found[1]) in ("True", "False")


def _references(sample: Record, document: Record) -> Any:
    target = decoded(sample["target"])
    return document.get("answers") if isinstance(document.get("answers"), list) and not target else target


LM_EVAL = Format("lm-eval", "samples of lm-evaluation-harness", _recognise)
