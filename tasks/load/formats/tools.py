"""The files of other tools, but for promptfoo: which shapes their records have, and where our columns are in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from answerkey.metrics_core.sample import UNANSWERABLE
from answerkey.tasks.load.columns import KEYS, usual_names, value
from answerkey.tasks.load.formats.format import (
    NOTED,
    Convert,
    Document,
    Format,
    Row,
    Unreadable,
    all_have,
    answer_in,
    decoded,
    each,
    has,
    is_chat,
    items,
    mapping,
    named,
    question_in,
    references_in,
    row,
    seconds,
)
from answerkey.tasks.load.given import given, is_given
from answerkey.tasks.load.rows import Record

_READ_BY = {
    "question": question_in,
    "answer": answer_in,
    "references": references_in,
    "release": decoded,
    "release_order": seconds,
}
_NOTHING: tuple[Any, ...] = (None, "", {}, [])


def _first(record: Record, paths: Sequence[str]) -> Any:
    """What stands at the first path that leads to anything; a blank text only where that is all."""
    found = [value(record, path) for path in paths]
    return next((one for one in found if one not in _NOTHING), "" if "" in found else None)


def _in(place: str, *keys: Any) -> list[str]:
    """The usual names of keys, within an object."""
    return [f"{place}.{name}" for name in usual_names(*keys)]


@dataclass(frozen=True, slots=True)
class Shape:
    """A shape of records: the names that they have, and the paths to each of our columns, of which the first counts.

    Beside the names in `has`, as many as each of the `marks` says are among the names that follow. Records in which
    something else than `only` says stands at a path are no answers. `extra` leads to what slices can name: the fields
    of an object, or a value.
    """

    has: tuple[str, ...]
    columns: Mapping[str, Sequence[str]]
    extra: tuple[str, ...] = ()
    marks: tuple[tuple[int, tuple[str, ...]], ...] = ()
    only: Mapping[str, tuple[Any, ...]] | None = None

    def fits(self, record: Record) -> bool:
        """Whether a record has this shape."""
        return has(record, *self.has) and all(sum(name in record for name in names) >= n for n, names in self.marks)

    def rows(self, record: Record, **known: Any) -> Iterator[Row]:
        """The row of a record, if it is an answer, with columns that are known from elsewhere.

        Raises:
            KeyError: it lacks a name in `has`.
        """
        if not has(record, *self.has):
            raise KeyError(*self.has)
        if any(value(record, path) not in wanted for path, wanted in (self.only or {}).items()):
            return
        found = {key: _first(record, paths) for key, paths in self.columns.items()}
        read = {key: _READ_BY[key](one) if key in _READ_BY else one for key, one in found.items()}
        extra: dict[str, Any] = {}
        for path in self.extra:
            beside = decoded(value(record, path))
            extra |= beside if isinstance(beside, Mapping) else {} if beside is None else {path: beside}
        yield row(**{**read, **known}, scores=given(record), extra=extra)


def _shaped(shapes: Sequence[Shape], records: Sequence[Record]) -> Convert | None:
    return next((one.rows for one in shapes if all(map(one.fits, records))), None)


_EVENT: Mapping[str, Sequence[str]] = {
    "id": ["origin.id", "id"],
    "question": ["input"],
    "answer": ["output"],
    "references": ["expected"],
    "release": ["experiment_name", "experiment", "experiment_id"],
    "release_order": ["created"],
    "missing_because": ["error"],
}
_BRAINTRUST_ONLY = (
    "span_id", "root_span_id", "_xact_id", "experiment_id", "scores", "metrics", "_pagination_key", "dataset_id",
)  # fmt: skip
_ROOT = {"span_attributes.type": (None, "eval")}
BRAINTRUST = Format(
    "braintrust",
    "an export of Braintrust",
    partial(
        _shaped,
        (
            Shape(("input", "expected"), _EVENT, ("metadata",), ((1, _BRAINTRUST_ONLY),), _ROOT),
            Shape(("input", "output", "expected"), _EVENT, ("metadata",), (), _ROOT),
        ),
    ),
    "experiments",
)

_CASES = ("testCases", "test_cases", "testResults", "test_results")


def _deepeval(records: Sequence[Record]) -> Convert | None:
    return _run if all(_cases(record) for record in records) else None


def _inner(run: Record) -> Record:
    """The run itself: the last one, in `.latest_test_run.json`, stands beside the link to its page."""
    return mapping(run.get("testRunData")) or run


def _cases(run: Record) -> list[Record]:
    run = _inner(run)
    cases = next((items(run[name]) for name in _CASES if items(run.get(name))), [])
    fits = all("input" in case or _first(case, ("actual_output", "actualOutput")) is not None for case in cases)
    return cases if fits else []


_CASE = Shape(
    (),
    {
        "question": ["input"],
        "answer": ["actual_output", "actualOutput"],
        "references": ["expected_output", "expectedOutput"],
        "context": ["retrieval_context", "retrievalContext", "context"],
    },
    ("metadata", "additionalMetadata", "additional_metadata", "name"),
)


def _run(run: Record) -> Iterator[Row | Unreadable]:
    run = _inner(run)
    cases = next(run[name] for name in _CASES if items(run.get(name)))
    return each(cases, partial(_CASE.rows, release=value(run, "hyperparameters.model")))


DEEPEVAL = Format("deepeval", "a test run of DeepEval", _deepeval, "models")
"""Its data sets have columns with usual names, and need no format."""


def _hugging_face(records: Sequence[Record]) -> Convert | None:
    fits = all(items(one.get("rows")) and has(items(one["rows"])[0], "row_idx", "row") for one in records)
    return _page if fits else None


def _page(page: Record) -> Iterator[Row | Unreadable]:
    return each(page["rows"], lambda item: [dict(item["row"])])


HUGGING_FACE = Format("hugging-face", "rows of a data set on Hugging Face", _hugging_face, "models")


def _inspect(records: Sequence[Record]) -> Convert | None:
    fits = all_have(records, "eval", "samples") and all_have([one["eval"] for one in records], "model", "task")
    return _log if fits else None


_LOGGED = Shape(
    (),
    {
        "id": ["id"],
        "question": ["input"],
        "answer": ["output.completion", "output.choices[0].message", "output.choices[0].text"],
        "references": ["target"],
        "repeat": ["epoch"],
        "missing_because": ["error.message", "output.error"],
        "finish_reason": ["output.choices[0].stop_reason"],
    },
    ("metadata",),
)


def _log(log: Record) -> Iterator[Row | Unreadable]:
    about = log["eval"]
    known = {**mapping(about.get("task_args")), **mapping(about.get("metadata"))}
    known |= {name: about[name] for name in ("solver", "task", "created", "run_id") if about.get(name)}
    return each(log["samples"] or [], partial(_logged, model=about["model"], known=known))


def _logged(sample: Record, model: Any, known: Record) -> Iterator[Row]:
    for made in _LOGGED.rows(sample, release=model):
        yield {**known, **made, **_chosen_from(sample, made)}


def _chosen_from(sample: Record, made: Row) -> Row:
    """The question with its choices, and the letters and texts of the right ones, where a sample has choices."""
    choices = sample.get("choices")
    if not isinstance(choices, list) or not choices:
        return {}
    lettered = {chr(ord("A") + index): text for index, text in enumerate(choices)}
    listed = "\n".join(f"{letter}) {text}" for letter, text in lettered.items())
    target = made["references"] if isinstance(made["references"], list) else [made["references"]]
    right = [text for one in target for text in (one, lettered.get(str(one).strip())) if text is not None]
    return {"question": f"{made['question']}\n{listed}", "references": right}


INSPECT = Format("inspect", "logs of Inspect", _inspect, "models")

_EXPECTED = ("expectedOutput", "expected_output", *NOTED)
_TIMES = ("timestamp", "startTime", "start_time")
_LANGFUSE_ONLY = (
    "projectId", "sessionId", "userId", "traceId", "bookmarked", "environment", "htmlPath", "observations",
    "parentObservationId", "promptName", "completionStartTime", "project_id", "session_id", "user_id", "trace_id",
)  # fmt: skip
_ITEM_ONLY = ("datasetId", "datasetName", "sourceTraceId", "sourceObservationId", "dataset_id", "dataset_name")
_OBSERVED = Shape(
    ("id", "input", "output"),
    {
        "id": ["metadata.dataset_item_id", "metadata.datasetItemId", "id"],
        "question": ["input"],
        "answer": ["output"],
        "references": [*_EXPECTED, *(f"metadata.{name}" for name in _EXPECTED)],
        "release": ["release", "model", "providedModelName"],
        "release_order": _TIMES,
    },
    ("metadata", "tags", "environment"),
    ((1, _TIMES), (2, _LANGFUSE_ONLY)),
)
_ITEM = Shape(
    ("id", "input"),
    {"id": ["id"], "question": ["input"], "references": _EXPECTED},
    ("metadata",),
    ((1, _ITEM_ONLY),),
)


def _langfuse(records: Sequence[Record]) -> Convert | None:
    return _shaped((_OBSERVED,) if any("output" in one for one in records) else (_ITEM,), records)


LANGFUSE = Format("langfuse", "an export of Langfuse", _langfuse, "releases")

_REFERENCE = ("reference_outputs", "reference outputs", "reference", "expected_outputs")
_REFERENCES = ("reference.", "reference_outputs.")
_EXAMPLE_NAMES = {
    "id", "inputs", "outputs", "metadata", "dataset_id", "created_at", "modified_at", "split", "source_run_id", "name",
    "attachments", "dataset_name",
}  # fmt: skip
"""What an example of a data set can have: its outputs are the right ones."""
_RESULT = Shape(
    ("inputs", "outputs"),
    {
        "id": ["reference_example_id", "example_id", "id"],
        "question": ["inputs"],
        "answer": ["outputs"],
        "references": _REFERENCE,
        "context": ["inputs.contexts", "inputs.context"],
        "release": ["experiment", "experiment_name", "session_name"],
        "release_order": ["start_time", "created_at"],
        "missing_because": ["error"],
    },
    ("metadata",),
    ((1, _REFERENCE),),
)
_EXAMPLE = Shape(
    ("inputs", "outputs"), {"id": ["id"], "question": ["inputs"], "references": ["outputs"]}, ("metadata",)
)


def _langsmith(records: Sequence[Record]) -> Convert | None:
    records = [_in_lower_case(one) for one in records]
    first = records[0]
    known = "example_id" in first or any(_part(first, prefix) for prefix in _REFERENCES)
    if known and _part(first, "inputs.") and _part(first, "outputs."):
        return _flat
    if shaped := _shaped((_RESULT,), records):
        return lambda record: shaped(_in_lower_case(record))
    if all(_EXAMPLE.fits(one) and one.keys() <= _EXAMPLE_NAMES for one in records):
        return lambda record: _EXAMPLE.rows(_in_lower_case(record))
    return None


def _in_lower_case(record: Record) -> Record:
    """A record with the names of its columns as the API has them; tables may say "Reference Outputs"."""
    return {name.lower(): cell for name, cell in record.items()}


def _part(record: Record, prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): cell for name, cell in record.items() if name.startswith(prefix)}


def _flat(record: Record) -> Iterator[Row]:
    """A row of a table whose columns are called `inputs.question`, `outputs.answer`, `reference.answer`."""
    record = _in_lower_case(record)
    reference = next(filter(None, (_part(record, prefix) for prefix in _REFERENCES)), {})
    parts = {"inputs": _part(record, "inputs."), "outputs": _part(record, "outputs."), "reference": reference}
    return _RESULT.rows({**record, **parts})


LANGSMITH = Format("langsmith", "an export of LangSmith", _langsmith, "experiments")


def _lm_eval(records: Sequence[Record]) -> Convert | None:
    return _sample if all_have(records, "doc_id", "doc", "target", "filtered_resps") else None


def _sample(sample: Record) -> Iterator[Row]:
    document, target = mapping(sample["doc"]), decoded(sample["target"])
    listed = document.get("answers")
    yield row(
        id=sample["doc_id"],
        question=_question(sample, document),
        answer=_answer(sample),
        references=listed if isinstance(listed, list) and not target else target,
        scores=given(sample),
        # What was read from the output by a filter; several are no attempts, for the model answered once
        extra={**document, "response_filter": sample.get("filter")},
    )


def _question(sample: Record, document: Record) -> Any:
    if (asked := named(document, "question")) is not None:
        return asked
    arguments = sample.get("arguments")
    while isinstance(arguments, dict | list) and arguments:
        arguments = next(iter(arguments.values())) if isinstance(arguments, dict) else arguments[0]
    return question_in(arguments)


def _answer(sample: Record) -> Any:
    found = decoded(sample["filtered_resps"])
    while isinstance(found, list) and found and not _is_choice(found):
        found = found[0]
    if not isinstance(found, str):
        raise ValueError("the task compares likelihoods of given choices: there is no answer in words to score")
    return found


def _is_choice(found: list[Any]) -> bool:
    """Whether a list is a log-likelihood with whether it is greedy, which is all that tasks of choices log."""
    return len(found) == 2 and str(found[1]) in ("True", "False")


LM_EVAL = Format("lm-eval", "samples of lm-evaluation-harness", _lm_eval)

_OUTPUTS = ("outputs", "predictions", "prediction", "response")
_INPUTS = ("inputs", "question", "request", "input")
_TARGETS = (
    "expected_response/value", "expectations/expected_response", "ground_truth", "targets", "target", "expectations",
    "expected_response",
)  # fmt: skip


def _mlflow(records: Sequence[Record]) -> Convert | None:
    if all_have(records, "columns", "data") and all({*_OUTPUTS} & {*_names(one)} for one in records):
        return _table
    return _evaluated if all(map(_is_evaluated, records)) else None


def _names(table: Record) -> list[str]:
    return [str(name) for name in table["columns"]] if isinstance(table["columns"], list) else []


def _is_evaluated(record: Record) -> bool:
    """Whether a row has the scores that MLflow writes beside it, or the names that only it uses."""
    endings = ("/v1/score", "/v1/justification", "/value", "/rationale")
    scored = bool(_expected(record)) or any(name.endswith(endings) for name in record)
    named = "inputs" in record and any(name in record for name in ("outputs", "predictions"))
    return (
        any(name in record for name in _OUTPUTS)
        and any(name in record for name in _INPUTS)
        and (scored or (named and (any(name in record for name in _TARGETS) or len(record) == 2)))
    )


def _expected(record: Record) -> Record:
    """The right answers that people have written to a trace, by their names."""
    noted = items(decoded(record.get("assessments"))) if "trace_id" in record else []
    return {
        str(one.get("assessment_name") or one.get("name")): value(one, "expectation.value")
        for one in noted
        if one.get("expectation")
    }


def _table(table: Record) -> Iterator[Row | Unreadable]:
    return each(table["data"], partial(_listed, names=_names(table)))


def _listed(values: Any, names: Sequence[str]) -> Iterator[Row]:
    if len(values) != len(names):
        raise ValueError(f"has {len(values)} values, and the table {len(names)} columns")
    return _evaluated(dict(zip(names, values, strict=True)))


def _evaluated(record: Record) -> Iterator[Row]:
    inputs = next((record[name] for name in _INPUTS if name in record), None)
    target = _first({**_expected(record), **record}, _TARGETS)
    used = (*_OUTPUTS, *_INPUTS, *_TARGETS, "assessments", "spans", "trace")
    yield row(
        id=mapping(inputs).get("id") or record.get("id"),
        question=question_in(inputs),
        answer=answer_in(next((record[name] for name in _OUTPUTS if name in record), None)),
        references=references_in(mapping(target).get("expected_response") or target),
        context=record.get("retrieved_context") or record.get("context"),
        release=record.get("model") or record.get("run_id"),
        release_order=seconds(record.get("request_time") or record.get("timestamp_ms")),
        scores=given(record),
        extra={name: cell for name, cell in record.items() if name not in used and not is_given(name)},
    )


MLFLOW = Format("mlflow", "an evaluation table of MLflow", _mlflow, "models")

_RIGHT = (*usual_names("references"), "correct_label", "label")
_MATCH = Shape(
    ("sample_id", "type", "data"),
    {"id": ["sample_id"], "answer": ["data.sampled"], "references": ["data.expected"]},
    only={"type": ("match",)},
)
_IDEAL = Shape(
    ("input", "ideal"), {"id": ["id"], "question": ["input"], "references": ["ideal"]}, ("metadata",)
)  # fmt: skip


def _openai_evals(records: Sequence[Record]) -> Convert | None:
    if has(records[0].get("spec"), "completion_fns") or all(map(_MATCH.fits, records)):
        models = mapping(records[0].get("spec")).get("completion_fns") or [None]
        return partial(_matched, model=models[0])
    if all_have(records, "datasource_item", "sample"):
        return _output_item
    answered = any(name in one for name in usual_names("answer") for one in records)
    return None if answered else _shaped((_IDEAL,), records)


def _matched(event: Record, model: str | None) -> Iterator[Row]:
    """An event of a log; only those that compare an answer become rows, and they do not say what was asked."""
    if "expected" in mapping(event.get("data")):
        for made in _MATCH.rows(event, release=model):
            answer = made["answer"]
            made["scores"] = given({"scores": {"correct": event["data"].get("correct")}})
            yield {**made, "answer": answer[0] if isinstance(answer, list) and len(answer) == 1 else answer}


def _output_item(item: Record) -> Iterator[Row]:
    sample, asked = mapping(item["sample"]), mapping(item["datasource_item"])
    asked = mapping(asked.get("item")) or asked
    yield row(
        id=item.get("datasource_item_id"),
        question=question_in(named(asked, "question") or sample.get("input")),
        answer=answer_in(sample.get("output")) if items(sample.get("output")) else sample.get("output_text"),
        references=decoded(next((asked[name] for name in _RIGHT if name in asked), None)),
        release=sample.get("model"),
        release_order=seconds(item.get("created_at")),
        missing_because=value(sample, "error.message"),
        finish_reason=sample.get("finish_reason"),
        scores=given(item),
        extra=asked,
    )


OPENAI_EVALS = Format("openai-evals", "a log of OpenAI evals", _openai_evals, "models")

_TRACE_ONLY = ("project_id", "feedback_scores", "thread_id", "span_count", "start_time")


def _asked_in(place: str, id: str, answer: str, *release: str) -> Mapping[str, Sequence[str]]:
    """Where the columns of Opik are: what was asked is within an object."""
    return {
        "id": [id],
        "question": _in(place, "question"),
        "answer": [answer],
        "references": [*(f"{place}.{name}" for name in NOTED), f"{place}.expected_model_output"],
        "context": _in(place, "context"),
        "release": release,
        "release_order": ["start_time", "created_at"],
    }


_ANSWERED = Shape(
    ("dataset_item_data", "evaluation_task_output"),
    _asked_in("dataset_item_data", "dataset_item_id", "evaluation_task_output", "experiment_name"),
    ("dataset_item_data",),
)
_TRACED = Shape(
    ("input", "output", "name"),
    {**_asked_in("metadata", "id", "output", "metadata.release"), "question": ["input"]},
    ("metadata",),
    ((2, _TRACE_ONLY),),
)
_COMPARED = Shape((), _asked_in("data", "id", "output", "experiment_name", "experiment_id"), ("data",))


def _opik(records: Sequence[Record]) -> Convert | None:
    if all_have(records, "data", "experiment_items"):
        return _compared
    return _shaped((_ANSWERED, _TRACED), records)


def _compared(record: Record) -> Iterator[Row]:
    """An item of a data set, with what each of the experiments that are compared made of it."""
    for item in items(record["experiment_items"]):
        yield from _COMPARED.rows({**item, "data": record["data"], "id": record.get("id")})


OPIK = Format("opik", "items or traces of Opik", _opik, "experiments")


def _ragas(records: Sequence[Record]) -> Convert | None:
    return _conversation if all(is_chat(decoded(record.get("user_input"))) for record in records) else None


def _conversation(sample: Record) -> Iterator[Row]:
    yield row(
        id=sample.get("id"),
        question=question_in(sample["user_input"]),
        answer=sample.get("response") or answer_in(sample["user_input"]),
        references=sample.get("reference"),
        context=sample.get("retrieved_contexts"),
        release=sample.get("release") or sample.get("model"),
        extra={name: cell for name, cell in sample.items() if name != "user_input"},
    )


RAGAS = Format("ragas", "conversations of ragas", _ragas, "models")
"""Data sets whose question is a list of messages; its other data sets have usual columns."""


def _squad(records: Sequence[Record]) -> Convert | None:
    if all(items(one.get("data")) and has(items(one["data"])[0], "paragraphs") for one in records):
        return _data_set
    if all_have(records, "id", "question", "answers") and all(has(decoded(one["answers"]), "text") for one in records):
        return _known
    if isinstance(records[0], Document) and _is_predictions(records[0]):
        return _predictions
    return _prediction if all_have(records, "id", "prediction_text") else None


_NO_ANSWER = "unanswerable"
"""What an empty prediction says."""


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
            about = {"context": paragraph.get("context"), "title": article.get("title")}
            yield from _known({**asked, "answers": {"text": texts}, **about})


def _known(asked: Record) -> Iterator[Row]:
    known = list(dict.fromkeys(mapping(asked["answers"])["text"]))
    wrong = [one.get("text") for one in items(asked.get("plausible_answers"))]
    yield row(
        id=asked.get("id"),
        question=asked.get("question"),
        references=known or [UNANSWERABLE, _NO_ANSWER],
        context=asked.get("context"),
        extra={"title": asked.get("title"), **({"incorrect_references": wrong} if wrong else {})},
    )


def _predictions(predictions: Record) -> Iterator[Row]:
    for id, text in predictions.items():
        yield row(id=id, answer=text or _NO_ANSWER)


def _prediction(prediction: Record) -> Iterator[Row]:
    yield from _predictions({prediction["id"]: prediction["prediction_text"]})


SQUAD = Format("squad", "SQuAD data or predictions", _squad)
"""The data set, nested or as rows, is given as references; predictions are answers."""

_AZURE = Format(
    "azure",
    "an evaluation of Azure AI",
    partial(
        _shaped,
        (
            Shape(
                (),
                {
                    "id": _in("inputs", "id"),
                    "question": _in("inputs", "question"),
                    "answer": [*_in("outputs", "answer"), *_in("inputs", "answer")],
                    "references": _in("inputs", "references"),
                    "context": _in("inputs", "context"),
                    "release": _in("inputs", "release"),
                },
                (),
                (
                    (1, tuple(_in("inputs", "answer") + _in("outputs", "answer"))),
                    (1, tuple(_in("inputs", "references"))),
                ),
            ),
        ),
    ),
    "models",
)
_BATCH = Format(
    "batch",
    "output of a batch of OpenAI or Anthropic",
    partial(
        _shaped,
        (
            Shape(
                ("custom_id",),
                {
                    "id": ["custom_id"],
                    "answer": ["response.body.choices[0].message", "response.body.output", "result.message"],
                    "release": ["response.body.model", "result.message.model"],
                    "missing_because": [
                        "error.message",
                        "response.body.error.message",
                        "result.error.error.message",
                        "result.error.message",
                        "result.type",
                    ],
                    "finish_reason": ["response.body.choices[0].finish_reason", "result.message.stop_reason"],
                },
                (),
                ((1, ("response", "result")),),
            ),
        ),
    ),
    "models",
)
_PHOENIX = Format(
    "phoenix",
    "an experiment or spans of Phoenix",
    partial(
        _shaped,
        (
            Shape(
                ("example_id", "input", "output", "reference_output"),
                {
                    "id": ["example_id"],
                    "question": ["input"],
                    "answer": ["output"],
                    "references": ["reference_output"],
                    "repeat": ["repetition_number"],
                    "missing_because": ["error"],
                },
            ),
            Shape(
                ("context.span_id", "attributes.input.value", "attributes.output.value"),
                {
                    "id": ["context.span_id"],
                    "question": ["attributes.input.value"],
                    "answer": ["attributes.output.value"],
                    "release": ["attributes.llm.model_name"],
                    "release_order": ["start_time"],
                },
                ("name", "span_kind"),
                only={"parent_id": (None, "")},
            ),
        ),
    ),
    "models",
)
_WEAVE_CALL = Shape(
    ("op_name", "inputs", "output"),
    {
        "id": ["inputs.example.id", "id"],
        "question": ["inputs.example"],
        "answer": ["output.output", "output.model_output"],
        "references": _in("inputs.example", "references"),
        "release": ["inputs.model"],
        "release_order": ["started_at"],
        "missing_because": ["exception"],
    },
    ("inputs.example",),
)


def _weave(records: Sequence[Record]) -> Convert | None:
    return _scored_call if all(map(_WEAVE_CALL.fits, records)) else None


def _scored_call(call: Record) -> Iterator[Row]:
    """A call of an evaluation: those that ask the model or sum up are within or around the ones that score."""
    if "predict_and_score" in str(call["op_name"]):
        yield from _WEAVE_CALL.rows(call)


_WEAVE = Format("weave", "calls of an evaluation of Weave", _weave, "models")


def _helm(records: Sequence[Record]) -> Convert | None:
    if all_have(records, "request_states", "adapter_spec"):
        return _scenario
    if all_have(records, "instance_id", "predicted_text"):
        return _predicted
    return _instance if all_have(records, "input", "references", "split") and all(map(_outputs, records)) else None


def _outputs(instance: Record) -> list[Record]:
    return [one for one in items(instance["references"]) if has(one, "output", "tags")]


def _scenario(scenario: Record) -> Iterator[Row | Unreadable]:
    model = mapping(scenario["adapter_spec"]).get("model")
    return each(scenario["request_states"], partial(_state, model=model))


def _state(state: Record, model: Any) -> Iterator[Row]:
    completions = items(value(state, "result.completions"))
    text = str(completions[0]["text"]).strip() if completions else None
    for made in _instance(state["instance"]):
        yield {
            **made,
            # What a model was asked to choose from has letters.
            "answer": mapping(state.get("output_mapping")).get(text or "", text),
            "release": model or value(state, "request.model"),
            "repeat": state.get("train_trial_index"),
            "missing_because": value(state, "result.error"),
            "scores": given(state),
        }


def _instance(instance: Record) -> Iterator[Row]:
    texts = {str(value(one, "output.text")): "correct" in one["tags"] for one in _outputs(instance)}
    yield row(
        id=instance.get("id"),
        question=value(instance, "input.text"),
        references=[text for text, right in texts.items() if right],
        extra={
            "incorrect_references": [text for text, right in texts.items() if not right],
            "split": instance["split"],
        },
    )


def _predicted(prediction: Record) -> Iterator[Row]:
    text = str(prediction["predicted_text"]).strip()
    yield row(
        id=prediction["instance_id"],
        answer=mapping(prediction.get("mapped_output")).get(text, text),
        repeat=prediction.get("train_trial_index"),
        scores=given(prediction),
    )


_HELM = Format("helm", "a run of HELM", _helm, "models")


def _questions(records: Sequence[Record]) -> Convert | None:
    if all_have(records, "question", "annotations") and all(
        has(decoded(one["annotations"]), "short_answers") for one in records
    ):
        return _natural
    known = all_have(records, "question", "answer") and all(has(decoded(one["answer"]), "aliases") for one in records)
    return _trivia if known else None


def _natural(asked: Record) -> Iterator[Row]:
    noted = mapping(asked["annotations"])
    texts = [text for one in items(noted["short_answers"]) for text in one["text"]]
    said = [{"0": "No", "1": "Yes"}.get(str(one)) for one in noted.get("yes_no_answer", [])]
    known = list(dict.fromkeys([*texts, *filter(None, said)]))
    yield row(id=asked.get("id"), question=question_in(asked["question"]), references=known)


def _trivia(asked: Record) -> Iterator[Row]:
    right = mapping(asked["answer"])
    others = {name: cell for name, cell in asked.items() if name != "answer"}
    known = [right.get("value"), *right["aliases"]]
    yield {**others, "answer": named(others, "answer"), "references": list(dict.fromkeys(filter(None, known)))}


_QUESTIONS = Format("questions", "TriviaQA or Natural Questions", _questions, "models")


def _chats(records: Sequence[Record]) -> Convert | None:
    complete = all(any(name in one for one in records for name in usual_names(key)) for key in ("question", "answer"))
    return _chat if not complete and all(is_chat(decoded(one.get("messages"))) for one in records) else None


def _chat(record: Record) -> Iterator[Row]:
    """The question and the answer at the end of a chat, unless another column has them; the chat stays beside them."""
    chat = items(decoded(record["messages"]))
    found: Row = {}
    if not any(name in record for name in usual_names("question")):
        found["question"] = question_in(chat)
    if not any(name in record for name in usual_names("answer")):
        found["answer"] = answer_in(chat) if chat[-1].get("role") in ("assistant", "ai", "model") else None
    yield {**found, **record}


CHATS = Format("chat", "chat messages", _chats, "models")

TOOLS = (
    LM_EVAL, INSPECT, DEEPEVAL, OPIK, LANGFUSE, LANGSMITH, MLFLOW, BRAINTRUST, RAGAS, SQUAD, OPENAI_EVALS, HUGGING_FACE,
    _AZURE, _BATCH, _PHOENIX, _WEAVE, _HELM, _QUESTIONS, CHATS,
)  # fmt: skip
