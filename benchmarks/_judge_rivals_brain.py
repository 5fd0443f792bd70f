"""Replies of the loopback server of `judge_rivals.py`: equal for equal prompts, in the format that is asked for.

A prompt is recognised by its structure: by the title of the JSON schema that ragas writes into it, by the headings that
DeepEval puts over its data, by the marks of Inspect around it, by the fields in answerkey's fence. Statements are
sentences, and one counts as supported when at least half of its words are on the other side. Whether that judges well
does not matter: what is compared is how a judge is asked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from tests.judge_brains import Body, data_of, message_text, sentences

Fields = dict[str, Any]

_DECODER = json.JSONDecoder()
_SCHEMA = "as specified in JSON Schema:\n"
_INPUT = "\nNow perform the same with the following input\ninput: "
_STEPS = [
    "Compare the facts of the actual output with those of the expected output.",
    "Check that nothing in the actual output contradicts the expected output.",
    "Take points off for every fact of the expected output that is missing.",
]
_GRADED = re.compile(r"\n\[Expert\]: (.*?)\n\*+\n\[Submission\]: (.*?)\n\*+\n\[END DATA\]\n", re.DOTALL)
_TEST_CASE = re.compile(r"\nTest Case:\n.*\nActual Output:\n(.*?) \n\nExpected Output:\n(.*?) \n\n", re.DOTALL)


def answer(body: Body) -> str:
    """The reply to a prompt of any of the contestants.

    Raises:
        ValueError: the prompt comes from none of them.
    """
    # The first user message: where a client asks for the same again, it adds messages behind it.
    prompt = message_text(next(message for message in body["messages"] if message["role"] == "user"))
    if graded := _GRADED.search(prompt):
        expert, submission = graded.groups()
        return f"By its words.\n\nGRADE: {'C' if _supported(expert, [submission]) else 'I'}"
    said = _rival(prompt)
    return json.dumps(_own(data_of(body)) if said is None else said, ensure_ascii=False)


def _rival(prompt: str) -> Fields | None:
    if _SCHEMA in prompt and _INPUT in prompt:
        return _RAGAS[_object_after(_SCHEMA, prompt)["title"]](_object_after(_INPUT, prompt))
    if "\nEvaluation Criteria:\n" in prompt:
        return {"steps": _STEPS}
    if found := _TEST_CASE.search(prompt):
        return _scored(*found.groups())
    return None


def _object_after(mark: str, text: str) -> Fields:
    value: Fields = _DECODER.raw_decode(text, text.index(mark) + len(mark))[0]
    return value


def _statements(data: Fields) -> Fields:
    return {"statements": sentences(data["answer"])}


def _classified(data: Fields) -> Fields:
    answer, truth = data["answer"], data["ground_truth"]
    found = [statement for statement in answer if _supported(statement, truth)]
    return {
        "TP": _with_reason(found, "The ground truth says so."),
        "FP": _with_reason([statement for statement in answer if statement not in found], "It is not there."),
        "FN": _with_reason([text for text in truth if not _supported(text, answer)], "The answer leaves it out."),
    }


def _mended(data: Fields) -> Fields:
    # The prompt whose reply could not be read is quoted whole, so it can be answered as it was.
    return {"text": json.dumps(_rival(data["prompt_value"]), ensure_ascii=False)}


_RAGAS: dict[str, Callable[[Fields], Fields]] = {
    "StatementGeneratorOutput": _statements,
    "ClassificationWithReason": _classified,
    "StringIO": _mended,
}


def _with_reason(statements: list[str], reason: str) -> list[Fields]:
    return [{"statement": statement, "reason": reason} for statement in statements]


def _scored(actual: str, expected: str) -> Fields:
    words = _words(expected)
    share = len(words & _words(actual)) / len(words) if words else 0.0
    return {"reason": "So much of the expected output is in the actual output.", "score": round(10 * share)}


def _own(data: Fields) -> Fields:
    if "reference" in data:
        return {"facts": sentences(data["reference"])}
    answer, references = data["answer"], data["references"]
    if "facts" in references[0]:
        return _matched(sentences(answer), [fact for reference in references for fact in reference["facts"]])
    number = next((one["number"] for one in references if _supported(one["text"], [answer])), None)
    verdict = "mismatch" if number is None else "match"
    return {"reason": "By its words.", "reference": number, "rule": "factual_equivalence", "verdict": verdict}


def _matched(facts: list[str], references: list[Fields]) -> Fields:
    found = {f"a{number}": fact for number, fact in enumerate(facts, 1)}
    links = [
        {
            "id": reference["id"],
            "equivalent": [name for name, fact in found.items() if _supported(reference["fact"], [fact])],
            "contradicted_by": [],
        }
        for reference in references
    ]
    stated = [{"id": name, "fact": fact} for name, fact in found.items()]
    return {"answer_facts": stated, "reference_facts": links, "abstained": not facts}


def _supported(statement: str, others: list[str]) -> bool:
    words = _words(statement)
    return 2 * len(words & _words(" ".join(others))) >= len(words)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))
