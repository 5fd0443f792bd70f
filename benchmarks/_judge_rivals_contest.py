"""The process of one contestant of `judge_rivals.py`: `python _judge_rivals_contest.py NAME`.

It runs in the interpreter where the contestant is installed, so nothing of this project is imported before it is
answerkey's turn. The values of a turn are scores, null for a row without one.
"""

# mypy: disable-error-code="import-not-found"
# The rivals are in another interpreter.

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _turns import serve

KEY = "sk-loopback"
MODEL = "gpt-4o-mini"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Row:
    """One sample, in a form that every contestant takes."""

    question: str
    answer: str
    reference: str


Scores = list[float | None]
Contestant = Callable[[list[Row], str], Callable[[], Scores]]
"""Imports and prepares, given the samples and the server's address, and returns the function to time."""


def _answerkey(metric: str, field: str) -> Contestant:
    def prepare(rows: list[Row], url: str) -> Callable[[], Scores]:
        sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
        from answerkey import Sample, evaluate
        from answerkey.metrics_core.judges.options import JudgeOptions
        from answerkey.metrics_core.llm.access import Access
        from answerkey.metrics_core.llm.provider import litellm

        litellm()  # which is imported where it is first used
        samples = [Sample(str(i), row.answer, [row.reference], row.question) for i, row in enumerate(rows)]
        judge = JudgeOptions(judges=(f"openai/{MODEL}",), api_base=url, check="never")

        def run() -> Scores:
            measured = evaluate(samples, [metric], judge=judge, access=Access(KEY))
            return [one.values[field] if one.status == "scored" else None for one in measured]

        return run

    return prepare


def _ragas(rows: list[Row], url: str) -> Callable[[], Scores]:
    from langchain_openai import ChatOpenAI
    from ragas import EvaluationDataset, SingleTurnSample, evaluate
    from ragas.metrics import AnswerCorrectness

    samples = [SingleTurnSample(user_input=r.question, response=r.answer, reference=r.reference) for r in rows]
    # Factuality alone: the other part of its score comes from embeddings.
    metric = AnswerCorrectness(weights=[1.0, 0.0])
    model = ChatOpenAI(model=MODEL, base_url=url, api_key=KEY)

    def run() -> Scores:
        result = evaluate(EvaluationDataset(samples), [metric], llm=model, show_progress=False)
        values = [float(scores[metric.name]) for scores in result.scores]
        return [None if math.isnan(value) else value for value in values]

    return run


def _deepeval(rows: list[Row], url: str) -> Callable[[], Scores]:
    from deepeval import evaluate
    from deepeval.evaluate import CacheConfig, DisplayConfig, ErrorConfig
    from deepeval.metrics import GEval
    from deepeval.models import OpenAIModel
    from deepeval.test_case import LLMTestCase, SingleTurnParams

    cases = [
        LLMTestCase(name=str(i), input=r.question, actual_output=r.answer, expected_output=r.reference)
        for i, r in enumerate(rows)
    ]
    parameters = SingleTurnParams.INPUT, SingleTurnParams.ACTUAL_OUTPUT, SingleTurnParams.EXPECTED_OUTPUT
    metric = GEval(
        name="Correctness",
        criteria="Taking the expected output as right, is the actual output a correct answer to the input?",
        evaluation_params=list(parameters),
        model=OpenAIModel(model=MODEL, base_url=url, api_key=KEY),
    )
    settings = {
        "error_config": ErrorConfig(ignore_errors=True),
        "display_config": DisplayConfig(show_indicator=False, print_results=False, inspect_after_run=False),
        # It writes all results so far to a file after each sample, which takes longer than the samples.
        "cache_config": CacheConfig(write_cache=False),
    }

    def run() -> Scores:
        result = evaluate(cases, [metric], **settings)
        scores: Scores = [None] * len(rows)
        for test in result.test_results:
            scores[int(test.name)] = test.metrics_data[0].score if test.metrics_data else None
        return scores

    return run


def _inspect(rows: list[Row], url: str) -> Callable[[], Scores]:
    from inspect_ai import Task
    from inspect_ai import eval as evaluate
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ModelOutput, get_model
    from inspect_ai.scorer import model_graded_fact
    from inspect_ai.solver import solver

    @solver  # type: ignore[untyped-decorator]
    def given() -> Any:
        """Each answer is there already."""

        async def solve(state: Any, _generate: Any) -> Any:
            state.output = ModelOutput.from_content("given", state.metadata["given"])
            return state

        return solve

    samples = [
        Sample(id=i, input=r.question, target=r.reference, metadata={"given": r.answer}) for i, r in enumerate(rows)
    ]
    model = get_model(f"openai/{MODEL}", base_url=url, api_key=KEY)
    task = Task(MemoryDataset(samples), solver=given(), scorer=model_graded_fact(model=model))

    def run() -> Scores:
        [log] = evaluate(task, model="mockllm/model", display="none", log_dir="logs", fail_on_error=False)
        scores: Scores = [None] * len(rows)
        for sample in log.samples or ():
            for score in (sample.scores or {}).values():
                scores[int(sample.id)] = float(score.value == "C")
        return scores

    return run


CONTESTANTS: dict[str, Contestant] = {
    "answerkey meaning_match": _answerkey("meaning_match", "match"),
    "answerkey ground_truth_similarity": _answerkey("ground_truth_similarity", "similarity"),
    "ragas AnswerCorrectness": _ragas,
    "DeepEval GEval": _deepeval,
    "inspect-ai model_graded_fact": _inspect,
}


def _stay_on_loopback(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook: a connection to any other host raises an error."""
    if event == "socket.connect" and isinstance(address := arguments[1], tuple) and address[0] not in _LOOPBACK:
        raise ConnectionRefusedError(f"this benchmark connects to loopback only, not to {address[0]}")


DISTRIBUTIONS = {"ragas": "ragas", "DeepEval": "deepeval", "inspect-ai": "inspect-ai"}

if __name__ == "__main__":
    contestant = CONTESTANTS[sys.argv[1]]
    sys.addaudithook(_stay_on_loopback)

    def prepare(url: str, file: str) -> Callable[[], Scores]:
        return contestant([Row(**row) for row in json.loads(Path(file).read_text(encoding="utf-8"))], url)

    # The clients of these libraries have threads, which do not survive a fork; every turn has questions of its own.
    serve(prepare, DISTRIBUTIONS.get(sys.argv[1].partition(" ")[0], "answerkey"), forks=False)
