"""What the judge server says: brains, and what a brain needs to understand our prompts."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """What a brain says. Token counts that are None are the texts' lengths // 4; `model` None is the one asked for.

    `usage`, in place of the token counts, is sent as it is; None: it is left out.
    """

    text: str | None
    finish_reason: str = "stop"
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    model: str | None = None
    usage: dict[str, Any] | str | None = "counted"


Brain = Callable[[Body], "str | Reply"]

_FENCE = re.compile(r"^<data-([0-9a-f]{32})>\n([^\n]*)\n</data-\1>$", re.MULTILINE)
_ORDERED = re.compile(r"judges|grader|instructions|verdict|examiner|simply reply", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[\u3002\u061f])\s*")


def message_text(message):
    """The text of one message; parts of text are joined."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def data_of(body):
    """The fields in the fence of the last user message that has one (the message that asks for a repair has none).

    Raises:
        ValueError: no user message has a fence.
    """
    for message in reversed(body["messages"]):
        if message["role"] == "user" and (fence := _FENCE.search(message_text(message))):
            fields = json.loads(fence[2])
            return fields
    raise ValueError("no user message has a fence with a line of JSON")


def sentences(text):
    """The text, split where sentences end; none for a blank one."""
    return [part.strip() for part in _SENTENCE_END.split(text) if part.strip()]


def agreeable(body):
    """A valid reply to each of our prompts: what is compared matches, and a fact is a sentence."""
    data = data_of(body)
    if "reference" in data:
        reply = {"facts": sentences(data["reference"])}
    elif "facts" in data["references"][0]:
        reply = _all_the_same(data["references"], sentences(data["answer"]))
    else:
        reply = {"reason": "They say the same.", "verdict": "match", "rule": "factual_equivalence", "reference": 1}
    return json.dumps(reply, ensure_ascii=False)


def _all_the_same(references, facts):
    """The first fact of each reference is the first of the answer, the second the second, as far as both go."""
    ids = [f"a{number}" for number, _ in enumerate(facts, 1)]
    pairs = [pair for reference in references for pair in zip_longest(reference["facts"], ids) if pair[0]]
    return {
        "answer_facts": [{"id": name, "fact": fact} for name, fact in zip(ids, facts, strict=True)],
        "reference_facts": [
            {"id": fact["id"], "equivalent": [name] if name else [], "contradicted_by": []} for fact, name in pairs
        ],
        "abstained": not facts,
    }


def says(match):
    """A reply of `meaning_match`: a match with the first reference, or none."""
    verdict = {"verdict": "match", "reference": 1} if match else {"verdict": "mismatch", "reference": None}
    return json.dumps({"reason": "So it reads.", "rule": "factual_equivalence", **verdict})


def garbage(right, shipped, seed=0):
    """Judges of `meaning_match` that nobody should believe, by name, and one that is right on 95 %.

    Args:
        right: whether the answer to a question is right, by both texts.
        shipped: the answers of the questions that come with the metric.
    """

    def share(data):
        digest = hashlib.sha256(f"{seed} {data['question']} {data['answer']}".encode()).digest()
        return int.from_bytes(digest[:4]) / 2**32

    def foreign(data):
        letters = [unicodedata.name(letter, "") for letter in data["question"] if letter.isalpha()]
        return Counter(name.split(" ")[0] for name in letters).most_common(1)[0][0]

    verdicts = {
        "right on 95 %": lambda data, truth: truth != (share(data) < 0.05),
        "constant yes": lambda _data, _truth: True,
        "constant no": lambda _data, _truth: False,
        "coin": lambda data, _truth: share(data) < 0.5,
        "lenient 15 %": lambda data, truth: truth or share(data) < 0.15,
        "lenient 30 %": lambda data, truth: truth or share(data) < 0.3,
        "strict 30 %": lambda data, truth: truth and share(data) >= 0.3,
        "verbosity": lambda data, _truth: len(data["answer"]) >= 25,
        "position": lambda data, _truth: data["question"] < data["answer"],
        "yes to all but Latin": lambda data, truth: truth or foreign(data) != "LATIN",
        "flipped in Latin": lambda data, truth: truth != (foreign(data) == "LATIN"),
        "flipped in Cyrillic": lambda data, truth: truth != (foreign(data) == "CYRILLIC"),
        "flipped in Chinese": lambda data, truth: truth != (foreign(data) == "CJK"),
        "knows the shipped questions": lambda data, truth: truth if data["answer"] in shipped else True,
        "follows orders": lambda data, truth: truth or bool(_ORDERED.search(data["answer"])),
    }

    def brain(verdict):
        def reply(body):
            data = data_of(body)
            return says(verdict(data, right(data["question"], data["answer"])))

        return reply

    return {**{name: brain(verdict) for name, verdict in verdicts.items()}, "echo": parrot}


def parrot(body):
    """A model under test that says what it was asked."""
    return f"You asked: {message_text(body['messages'][-1])}"


BRAINS = {"agreeable": agreeable, "parrot": parrot}
"""Brains by name, for `--brain`."""
