"""Files as other tools write them, with the same three questions and answers in each.

The shapes are those of the tools; what is asked and answered is ours.
"""

import csv
import io
import json
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

QUESTIONS = (
    "How many moons does Mars have?",
    "Which metal is liquid in a warm room?",
    "Which mountain is the highest of the Alps?",
)
RIGHT = ("Two", "Mercury", "Mont Blanc")
ANSWERS = ("Mars has two moons", "Mercury", "The Matterhorn, at 4,478 m")
BOTH = tuple(zip(QUESTIONS, ANSWERS, RIGHT, strict=True))

Cell = Any
Row = dict[str, Any]


@dataclass(frozen=True)
class Export:
    """A file of a tool. `says` is part of the line that tells what it was recognised as.

    `releases` are those in the file; `release` is what a user has to say where there are none.
    """

    name: str
    file: str
    content: bytes
    says: str
    releases: tuple[str, ...] = ()
    release: str = ""
    questions: tuple[str | None, ...] = QUESTIONS
    references: tuple[str, bytes] | None = None
    context: tuple[str, ...] = field(default=())


def _json(data: Any) -> bytes:
    return json.dumps(data, ensure_ascii=False, indent=1).encode()


def _lines(rows: Sequence[Row]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def _csv(rows: Sequence[Row], names: Sequence[str] | None = None) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(names or list(rows[0]))
    writer.writerows([_cell(value) for value in row.values()] for row in rows)
    return out.getvalue().encode()


def _cell(value: Cell) -> Cell:
    return json.dumps(value) if isinstance(value, dict | list) else value


def _each(make: Callable[[int, str, str, str], Row]) -> list[Row]:
    return [make(n, *texts) for n, texts in enumerate(BOTH)]


def _chat(question: str) -> list[Row]:
    return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": question}]


# promptfoo


def _promptfoo_result(n: int, question: str, answer: str, right: str, provider: str, prompt: int = 0) -> Row:
    return {
        "cost": 0.0001, "error": None, "gradingResult": {"pass": True, "score": 1, "reason": "All assertions passed"},
        "id": f"{provider}-{n}", "latencyMs": 811, "namedScores": {}, "failureReason": 0, "success": True, "score": 1,
        "prompt": {"raw": f"Answer briefly: {question}", "label": f"prompt {prompt}"}, "promptId": f"p{prompt}",
        "promptIdx": prompt, "testIdx": n, "provider": {"id": provider, "label": ""},
        "response": {"output": answer, "tokenUsage": {"total": 31}, "cached": False, "finishReason": "stop"},
        "testCase": {"vars": {"question": question, "right": right},
                     "assert": [{"type": "llm-rubric", "value": "polite"}, {"type": "equals", "value": "{{right}}"}]},
        "vars": {"question": question, "right": right},
    }  # fmt: skip


def _promptfoo(providers: Sequence[str]) -> list[Row]:
    return [_promptfoo_result(n, *texts, provider) for n, texts in enumerate(BOTH) for provider in providers]


def _promptfoo_document(results: list[Row], version: int) -> Row:
    inner = {"version": version, "timestamp": "2026-03-01T10:00:00Z", "results": results, "stats": {"successes": 6}}
    inner |= {"prompts": []} if version == 3 else {"table": {"head": {}, "body": []}}
    return {"evalId": "eval-abc", "results": inner, "config": {"tests": []}, "shareableUrl": None, "metadata": {}}


def _promptfoo_table(n: int, question: str, answer: str, right: str) -> Row:
    cell = f"[PASS] (1.00)\n\n{answer}\n\nPass Reason: All assertions passed"
    return {"question": question, "__expected": right, "[openai:gpt-x] Answer": cell, "[local:tiny] Answer": cell}


_WEB = ["question", "__expected", "[openai:gpt-x] Answer", "Status", "Score", "Named Scores", "Grader Reason",
        "Comment"]  # fmt: skip
_PROVIDERS = ("local:tiny", "openai:gpt-x")


# lm-evaluation-harness


def _lm_eval(n: int, question: str, answer: str, right: str) -> Row:
    return {
        "doc_id": n, "doc": {"question": question, "answer": f"{right} (explained)"}, "target": right,
        "arguments": {"gen_args_0": {"arg_0": f"Question: {question}\nAnswer:", "arg_1": {"until": ["\n"]}}},
        "resps": [[answer]], "filtered_resps": [answer], "filter": "none", "metrics": ["exact_match"],
        "doc_hash": "d", "prompt_hash": "p", "target_hash": "t", "exact_match": 0.0,
    }  # fmt: skip


def _lm_eval_prompted(n: int, question: str, answer: str, right: str) -> Row:
    row = _lm_eval(n, question, answer, right)
    return {**row, "doc": {"passage": "..."}, "arguments": [[question, {"until": []}]], "target": json.dumps([right])}


# Inspect


def _inspect_sample(n: int, question: str, answer: str, right: str) -> Row:
    message = {"role": "assistant", "content": [{"type": "text", "text": answer}], "source": "generate"}
    return {
        "id": n + 1, "epoch": 1, "input": _chat(question), "target": right, "messages": [],
        "output": {"choices": [{"message": message, "stop_reason": "stop"}], "completion": answer},
        "metadata": {"level": "easy"},
        "scores": {"match": {"value": "C", "answer": answer}}, "store": {}, "events": [], "attachments": {},
    }  # fmt: skip


_INSPECT = {
    "version": 2,
    "status": "success",
    "eval": {"task": "facts", "model": "local/tiny", "dataset": {"name": "facts"}, "config": {}},
    "plan": {"steps": []},
    "results": {"total_samples": 3},
    "stats": {},
}


def _inspect_archive(zstandard: bool) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for sample in _each(_inspect_sample):
            archive.writestr(f"samples/{sample['id']}_epoch_1.json", json.dumps(sample))
        archive.writestr("summaries.json", "[]")
        archive.writestr("header.json", json.dumps(_INSPECT))
    return _with_zstandard(out.getvalue()) if zstandard else out.getvalue()


def _with_zstandard(archive: bytes) -> bytes:
    """The archive with entries that are compressed as newer versions of Inspect do it."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as new:
        for name in old.namelist():
            new.writestr(name, pa.compress(old.read(name), codec="zstd", asbytes=True))
    content = out.getvalue()
    # Stored entries, called compressed: in the header of each, and in the directory at the end.
    local, central, method = b"PK\x03\x04", b"PK\x01\x02", (93).to_bytes(2, "little")
    for mark, offset in ((local, 8), (central, 10)):
        place = content.find(mark)
        while place >= 0:
            content = content[: place + offset] + method + content[place + offset + 2 :]
            place = content.find(mark, place + 4)
    return content


# DeepEval


def _camel(n: int, question: str, answer: str, right: str) -> Row:
    return {
        "name": f"test_case_{n}", "input": question, "actualOutput": answer, "expectedOutput": right, "success": True,
        "retrievalContext": ["a passage"], "metricsData": [], "runDuration": 0.5, "order": n,
    }  # fmt: skip


def _snake(n: int, question: str, answer: str, right: str) -> Row:
    return {"name": f"t{n}", "input": question, "actual_output": answer, "expected_output": right, "context": None}


# Opik


def _opik_item(n: int, question: str, answer: str, right: str) -> Row:
    data = {"id": f"i{n}", "input": {"question": question}, "expected_output": {"output": right}}
    return {
        "id": f"e{n}", "dataset_item_id": f"i{n}", "trace_id": f"t{n}", "dataset_item_data": data,
        "evaluation_task_output": {"output": answer}, "feedback_scores": [], "assertion_results": [],
    }  # fmt: skip


def _opik_compared(n: int, question: str, answer: str, right: str) -> Row:
    made = [{"experiment_id": f"exp-{one}", "dataset_item_id": f"i{n}", "output": {"output": answer}} for one in "ab"]
    return {"id": f"i{n}", "data": {"input": question, "reference": right}, "experiment_items": made}


def _opik_trace(n: int, question: str, answer: str, right: str) -> Row:
    return {
        "id": f"t{n}", "project_id": "p", "name": "ask", "start_time": "2026-03-01T10:00:00Z", "end_time": None,
        "input": {"messages": _chat(question)}, "output": {"choices": [{"message": {"content": answer}}]},
        "metadata": {"expected_output": right, "lang": "en"}, "tags": [], "feedback_scores": [], "usage": {},
    }  # fmt: skip


# Langfuse


def _langfuse(n: int, question: str, answer: str, right: str) -> Row:
    return {
        "id": f"t{n}", "timestamp": "2026-03-01T10:00:00Z", "name": "ask", "userId": None, "sessionId": None,
        "release": None, "version": None, "environment": "default", "bookmarked": False, "public": False, "tags": [],
        "input": {"messages": _chat(question)}, "output": answer, "metadata": {"expected_output": right},
    }  # fmt: skip


def _langfuse_cells(n: int, question: str, answer: str, right: str) -> Row:
    row = _langfuse(n, question, answer, right)
    return {
        **row,
        "release": "v7",
        "output": json.dumps(answer),
        "metadata": {},
        "expected_output": json.dumps([right]),
    }


def _langfuse_observation(n: int, question: str, answer: str, right: str) -> Row:
    return {
        "id": f"o{n}", "traceId": f"t{n}", "type": "GENERATION", "startTime": "2026-03-01T10:00:00Z", "model": "tiny",
        "environment": "default", "promptName": None, "input": _chat(question),
        "output": {"role": "assistant", "content": answer}, "metadata": {"expectedOutput": right},
    }  # fmt: skip


# LangSmith


def _langsmith_flat(n: int, question: str, answer: str, right: str) -> Row:
    return {
        "inputs.question": question, "outputs.answer": answer, "error": None, "reference.answer": right,
        "feedback.correctness": 1, "execution_time": 0.5, "example_id": f"x{n}", "id": f"r{n}",
    }  # fmt: skip


def _langsmith_result(n: int, question: str, answer: str, right: str) -> Row:
    return {
        "id": f"r{n}", "inputs": {"question": question}, "reference_outputs": {"answer": right},
        "outputs": {"answer": answer}, "status": "success", "latency": 0.5, "tokens": 31,
    }  # fmt: skip


def _langsmith_run(n: int, question: str, answer: str, right: str) -> Row:
    return {
        "id": f"r{n}", "run_type": "chain", "session_name": "facts-4f2", "inputs": {"messages": _chat(question)},
        "outputs": {"messages": [{"type": "ai", "content": answer}]}, "reference_outputs": {"label": right},
        "reference_example_id": f"x{n}", "error": None,
    }  # fmt: skip


def _langsmith_example(n: int, question: str, _answer: str, right: str) -> Row:
    return {"id": f"x{n}", "inputs": {"question": question}, "outputs": {"answer": right}, "metadata": {}}


# MLflow


def _mlflow(n: int, question: str, answer: str, right: str) -> Row:
    return {"inputs": question, "ground_truth": right, "outputs": answer, "token_count": 5, "toxicity/v1/score": 0.1}


def _mlflow_trace(n: int, question: str, answer: str, right: str) -> Row:
    return {
        "trace_id": f"t{n}", "request": {"messages": _chat(question)}, "response": {"response": answer},
        "expected_response/value": right, "correctness/value": "yes", "correctness/rationale": "It agrees.",
    }  # fmt: skip


def _mlflow_logged(n: int, question: str, answer: str, right: str) -> Row:
    source = {"source_type": "HUMAN", "source_id": "me"}
    noted = [
        {"assessment_name": "expected_response", "source": source, "expectation": {"value": right}},
        {"assessment_name": "helpful", "source": source, "feedback": {"value": True}},
    ]
    return {
        "trace_id": f"t{n}", "state": "OK", "request": {"question": question}, "response": {"answer": answer},
        "spans": [], "tags": {}, "assessments": noted,
    }  # fmt: skip


def _split(rows: list[Row]) -> Row:
    return {"columns": list(rows[0]), "data": [list(row.values()) for row in rows]}


# Braintrust


def _braintrust(n: int, question: str, answer: str, right: str) -> Row:
    return {
        "id": f"b{n}", "span_id": f"b{n}", "root_span_id": f"b{n}", "experiment_id": "exp-1", "input": question,
        "output": answer, "expected": right, "scores": {"Factuality": 1}, "metadata": {"lang": "en"}, "tags": None,
        "metrics": {"start": 1.0}, "span_attributes": {"type": "eval", "name": "eval"},
    }  # fmt: skip


def _braintrust_table(n: int, question: str, answer: str, right: str) -> Row:
    return {"input": {"question": question}, "output": {"answer": answer}, "expected": right, "Factuality": 1}


# SQuAD


def _squad(version: str = "1.1") -> Row:
    asked = [
        {"id": f"s{n}", "question": question, "answers": [{"text": right, "answer_start": 0}] * 2}
        for n, (question, _, right) in enumerate(BOTH)
    ]
    return {"version": version, "data": [{"title": "Facts", "paragraphs": [{"context": "a passage", "qas": asked}]}]}


def _squad_row(n: int, question: str, _answer: str, right: str) -> Row:
    answers = {"text": [right], "answer_start": [0]}
    return {"id": f"s{n}", "title": "Facts", "context": "a passage", "question": question, "answers": answers}


# OpenAI


def _openai_log() -> list[Row]:
    log: list[Row] = [{"spec": {"completion_fns": ["tiny-1"], "eval_name": "facts.test.v1", "split": "test"}}]
    for n, (question, answer, right) in enumerate(BOTH):
        event = {"run_id": "r", "sample_id": f"facts.{n}", "created_by": "", "created_at": "2026-03-01"}
        sampling = {"prompt": _chat(question), "sampled": [answer]}
        match = {"correct": False, "expected": right, "picked": None, "sampled": answer, "options": [right]}
        log += [event | {"event_id": 2 * n, "type": "sampling", "data": sampling}]
        log += [event | {"event_id": 2 * n + 1, "type": "match", "data": match}]
    return [*log, {"final_report": {"accuracy": 0.0}}]


def _openai_item(n: int, question: str, answer: str, right: str) -> Row:
    sample = {"model": "tiny-1", "input": _chat(question), "output": [{"role": "assistant", "content": answer}]}
    return {
        "object": "eval.run.output_item", "id": f"outputitem_{n}", "run_id": "r", "eval_id": "e", "status": "pass",
        "datasource_item_id": n, "datasource_item": {"question": question, "ground_truth": right}, "results": [],
        "sample": {**sample, "finish_reason": "stop", "error": None, "usage": {"total_tokens": 31}},
    }  # fmt: skip


# ragas


def _ragas_old(n: int, question: str, answer: str, right: str) -> Row:
    return {"question": question, "answer": answer, "contexts": ["a passage"], "ground_truth": right}


def _ragas(n: int, question: str, answer: str, right: str) -> Row:
    return {"user_input": question, "retrieved_contexts": ["a passage"], "response": answer, "reference": right}


def _ragas_conversation(n: int, question: str, answer: str, right: str) -> Row:
    said = [{"content": "Hello", "type": "human"}, {"content": "Hello!", "type": "ai"}]
    said += [{"content": question, "type": "human"}, {"content": answer, "type": "ai"}]
    return {"user_input": said, "reference": right}


def _plain(n: int, question: str, answer: str, right: str) -> Row:
    return {"Id": n, "Question": question, "Answer": answer, "Ground Truth": right}


_PASSAGE = ("a passage",)
_SQUAD_NAMED = ("squad.json", _json(_squad()))
_PREDICTIONS = {f"s{n}": answer for n, answer in enumerate(ANSWERS)}

EXPORTS = (
    Export("promptfoo 3", "out.json", _json(_promptfoo_document(_promptfoo(_PROVIDERS), 3)),
           "promptfoo results (2 providers: releases), 6 answers", _PROVIDERS),
    Export("promptfoo 2", "out.json", _json(_promptfoo_document(_promptfoo(_PROVIDERS[:1]), 2)),
           "promptfoo results (1 provider: releases), 3 answers", _PROVIDERS[:1]),
    Export("promptfoo lines", "out.jsonl", _lines(_promptfoo(_PROVIDERS)), "promptfoo results (2", _PROVIDERS),
    Export("promptfoo two prompts", "out.jsonl",
           _lines([_promptfoo_result(n, *texts, "p", k) for n, texts in enumerate(BOTH) for k in (0, 1)]),
           "promptfoo results (2 providers", ("p prompt 0", "p prompt 1")),
    Export("promptfoo table", "out.csv", _csv(_each(_promptfoo_table)), "promptfoo results (2 providers", _PROVIDERS),
    Export("promptfoo web table", "out.csv",
           _csv([dict(enumerate((q, r, a, "PASS", "1.00", "", "fine", ""))) for q, a, r in BOTH], _WEB),
           "promptfoo results (1 provider", _PROVIDERS[1:]),
    Export("lm-eval", "samples_facts_2026-03-01.jsonl", _lines(_each(_lm_eval)), "lm-evaluation-harness, 3", (), "m"),
    Export("lm-eval prompts", "samples_facts.jsonl", _lines(_each(_lm_eval_prompted)), "lm-evaluation", (), "m"),
    Export("inspect", "log.json", _json({**_INSPECT, "samples": _each(_inspect_sample)}),
           "logs of Inspect (1 model: releases), 3 answers", ("local/tiny",)),
    Export("inspect archive", "log.eval", _inspect_archive(False), "logs of Inspect (1 model", ("local/tiny",)),
    Export("inspect zstandard", "log.eval", _inspect_archive(True), "logs of Inspect (1 model", ("local/tiny",)),
    Export("deepeval run", "run.json", _json({"testCases": _each(_camel), "conversationalTestCases": [],
           "metricsScores": [], "hyperparameters": {"model": "tiny"}, "testPassed": 3}),
           "a test run of DeepEval (1 model", ("tiny",), context=_PASSAGE),
    Export("deepeval run, underscores", "run.json", _json({"test_cases": _each(_snake), "metrics_scores": []}),
           "a test run of DeepEval", (), "m"),
    Export("deepeval last run", "latest_test_run.json", _json({"testRunData": {"testCases": _each(_camel),
           "hyperparameters": {"model": "tiny"}}, "testRunLink": None}),
           "a test run of DeepEval (1 model", ("tiny",), context=_PASSAGE),
    Export("deepeval results", "results.json", _json({"test_results": _each(_snake), "confident_link": None}),
           "a test run of DeepEval", (), "m"),
    Export("deepeval data set", "cases.json", _json(_each(_snake)), "columns recognised by name", ("cases",)),
    Export("deepeval cloud", "cases.csv", _csv(_each(_camel)), "answer=actualOutput", ("cases",), context=_PASSAGE),
    Export("opik items", "items.json", _json(_each(_opik_item)), "items or traces of Opik", (), "m"),
    Export("opik compared", "items.json", _json({"content": _each(_opik_compared), "total": 3}),
           "items or traces of Opik (2 experiments", ("exp-a", "exp-b")),
    Export("opik traces", "traces.jsonl", _lines(_each(_opik_trace)), "items or traces of Opik", (), "m"),
    Export("langfuse", "langfuse.json", _json(_each(_langfuse)), "an export of Langfuse", (), "m"),
    Export("langfuse cells", "langfuse.csv", _csv(_each(_langfuse_cells)), "Langfuse (1 release:", ("v7",)),
    Export("langfuse lines", "langfuse.jsonl", _lines(_each(_langfuse)), "an export of Langfuse", (), "m"),
    Export("langfuse api", "page.json", _json({"data": _each(_langfuse_observation), "meta": {"page": 1}}),
           "an export of Langfuse", ("tiny",)),
    Export("langsmith table", "exp.csv", _csv(_each(_langsmith_flat)), "an export of LangSmith", (), "m"),
    Export("langsmith cells", "exp.csv", _csv(_each(_langsmith_result)), "an export of LangSmith", (), "m"),
    Export("langsmith titles", "exp.csv",
           _csv([{name.replace("_", " ").title(): value for name, value in one.items()}
                 for one in _each(_langsmith_result)]),
           "an export of LangSmith", (), "m"),
    Export("langsmith reference outputs", "exp.csv",
           _csv([{name.replace("reference.", "reference_outputs."): value for name, value in one.items()}
                 for one in _each(_langsmith_flat)]),
           "an export of LangSmith", (), "m"),
    Export("langsmith runs", "runs.jsonl", _lines(_each(_langsmith_run)), "LangSmith (1 experiment", ("facts-4f2",)),
    Export("mlflow table", "eval_results_table.json", _json(_split(_each(_mlflow))), "table of MLflow", (), "m"),
    Export("mlflow csv", "table.csv", _csv(_each(_mlflow)), "an evaluation table of MLflow", (), "m"),
    Export("mlflow traces", "results.jsonl", _lines(_each(_mlflow_trace)), "an evaluation table of MLflow", (), "m"),
    Export("mlflow logged traces", "traces.jsonl", _lines(_each(_mlflow_logged)), "table of MLflow", (), "m"),
    Export("braintrust", "exp.jsonl", _lines(_each(_braintrust)), "an export of Braintrust (1 experiment", ("exp-1",)),
    Export("braintrust csv", "exp.csv", _csv(_each(_braintrust_table)), "an export of Braintrust", (), "m"),
    Export("braintrust api", "exp.json", _json({"events": _each(_braintrust), "cursor": ""}), "Brain", ("exp-1",)),
    Export("ragas 0.1", "ragas.jsonl", _lines(_each(_ragas_old)), "=ground_truth", ("ragas",), context=_PASSAGE),
    Export("ragas", "ragas.csv", _csv(_each(_ragas)), "question=user_input", ("ragas",), context=_PASSAGE),
    Export("ragas conversations", "ragas.jsonl", _lines(_each(_ragas_conversation)), "conversations of ragas", (), "m"),
    Export("squad", "predictions.json", _json(_PREDICTIONS), "SQuAD data or predictions, 3 answers", (), "m",
           references=_SQUAD_NAMED, context=_PASSAGE),
    Export("squad rows", "predictions.jsonl",
           _lines([{"id": id, "prediction_text": a} for id, a in _PREDICTIONS.items()]),
           "SQuAD", (), "m", references=("squad.jsonl", _lines(_each(_squad_row))), context=_PASSAGE),
    Export("openai log", "facts.jsonl", _lines(_openai_log()), "OpenAI evals (1 model: releases), 3", ("tiny-1",),
           questions=(None, None, None)),
    Export("openai items", "items.json", _json({"object": "list", "data": _each(_openai_item), "has_more": False}),
           "OpenAI evals (1 model", ("tiny-1",)),
    Export("hugging face viewer", "rows.json", _json({"features": [], "num_rows_total": 3, "rows": [
           {"row_idx": n, "row": row, "truncated_cells": []} for n, row in enumerate(_each(_ragas_old))]}),
           "rows of a data set on Hugging Face", (), "m", context=_PASSAGE),
    Export("spreadsheet", "Title Case.csv", _csv(_each(_plain)), "references=Ground Truth", ("Title Case",)),
)  # fmt: skip
