"""What `formats.yaml` cannot say of a format in paths: functions that it refers to by name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from answerkey.metrics_core.sample import UNANSWERABLE
from answerkey.tasks.load.columns import KEYS, usual_names, value
from answerkey.tasks.load.formats.format import (
    Document,
    Row,
    Unreadable,
    answer_in,
    content,
    decoded,
    has,
    items,
    mapping,
    question_in,
    references_in,
    row,
)
from answerkey.tasks.load.rows import Record

_NO_ANSWER = "unanswerable"
"""What an empty prediction of SQuAD says."""


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
