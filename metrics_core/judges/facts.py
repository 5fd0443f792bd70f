"""Facts: what a judge finds in two texts, checked, matched one to one and counted.

The judge takes texts apart and says which facts agree. Bookkeeping and arithmetic are done here: a reply that
invents, repeats or drops an id is refused, and no number that a judge writes is ever a score.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from answerkey.metrics_core.judges.fact_comparison import Comparison, answer_ids, compared, reference_ids, rows
from answerkey.metrics_core.judges.prompt import load_prompt
from answerkey.metrics_core.llm.reply import Unreadable, read_object
from answerkey.metrics_core.llm.untrusted import storable
from answerkey.metrics_core.text import normalise

__all__ = [
    "DECOMPOSE",
    "MATCH",
    "Comparison",
    "Matches",
    "best",
    "decompose_fields",
    "match_fields",
    "merged",
    "read_facts",
    "read_matches",
    "rows",
]


def _list_of(items: Mapping[str, object]) -> dict[str, object]:
    return {"type": "array", "items": items}


def _closed(**properties: Mapping[str, object]) -> dict[str, object]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


_TEXT = {"type": "string"}
DECOMPOSE = load_prompt("decompose", _closed(facts=_list_of(_TEXT)))
"""Takes a reference apart; `decompose_fields` is its material, `read_facts` reads the reply."""
MATCH = load_prompt(
    "match_facts",
    _closed(
        answer_facts=_list_of(_closed(id=_TEXT, fact=_TEXT)),
        reference_facts=_list_of(_closed(id=_TEXT, equivalent=_list_of(_TEXT), contradicted_by=_list_of(_TEXT))),
        abstained={"type": "boolean"},
    ),
)
"""Takes an answer apart and compares; `match_fields` is its material, `read_matches` reads the reply."""

# Only ids of this form are quoted in a message: the message may go back to the judge, and an id may hold anything.
_ID = re.compile(r"[ar]\d{1,5}(\.\d{1,5})?", re.ASCII)
_LONGEST_LIST = 8


@dataclass(frozen=True, slots=True)
class Matches:
    """What a reply says: the facts of the answer (a1 is the first), and each reference compared with them.

    `abstained`: the answer declined to answer and states no fact.
    """

    answer_facts: tuple[str, ...]
    abstained: bool
    by_reference: tuple[Comparison, ...]


def merged(facts: Iterable[str]) -> tuple[str, ...]:
    """The facts in their order, without blank ones; of those that differ only in form the first stays."""
    first: dict[str, str] = {}
    for fact in facts:
        first.setdefault(normalise(fact), fact)
    first.pop("", None)
    return tuple(first.values())


def decompose_fields(question: str | None, reference: str) -> dict[str, object]:
    """The material of a `DECOMPOSE` request."""
    return {"question": question, "reference": reference}


def match_fields(question: str | None, reference_facts: Sequence[Sequence[str]], answer: str) -> dict[str, object]:
    """The material of a `MATCH` request. `reference_facts` holds the facts of each reference, as `merged` left them."""
    references = [
        {"facts": [{"id": i, "fact": fact} for i, fact in zip(reference_ids(index, len(facts)), facts, strict=True)]}
        for index, facts in enumerate(reference_facts)
    ]
    return {"question": question, "references": references, "answer": answer}


def read_facts(reply: str) -> tuple[str, ...]:
    """The facts of a `DECOMPOSE` reply, `merged`. Empty for a text that states none.

    Raises:
        Unreadable: what `read_object` raises; "unreadable" without a list of texts.
    """
    return merged(map(_storable, _texts(read_object(reply), "facts")))


def read_matches(reply: str, reference_facts: Sequence[Sequence[str]]) -> Matches:
    """What a `MATCH` reply says about the references that were sent; `reference_facts` is what `match_fields` got.

    Answer facts that differ only in form become one, with the links of all of them; the ids are then counted anew.

    Raises:
        Unreadable: what `read_object` raises; "unreadable" for a field that is missing or of the wrong type; "ids"
            for ids that do not add up; "inconsistent" for an answer that abstained and states facts.
    """
    found = read_object(reply)
    abstained = found.get("abstained")
    if not isinstance(abstained, bool):
        raise _unreadable("abstained must be true or false")
    answer_facts, places = _answer_facts(found)
    if abstained and answer_facts:
        raise Unreadable("inconsistent", "abstained is true although answer_facts holds facts")
    sent = [reference_ids(index, len(facts)) for index, facts in enumerate(reference_facts)]
    equivalent, contradicted = _links(found, dict.fromkeys(i for ids in sent for i in ids), places)
    comparisons = [
        compared(index, [equivalent[i] for i in ids], [contradicted[i] for i in ids], len(answer_facts))
        for index, ids in enumerate(sent)
    ]
    return Matches(answer_facts, abstained, tuple(comparisons))


def best(matches: Matches) -> tuple[int, Comparison] | None:
    """The index of the reference with the highest similarity, and the comparison with it.

    Of equally similar ones it is that with the highest F1, then recall, so that no number depends on the order of
    the references; then the first. None where all are undefined.
    """

    def worth(place: tuple[int, Comparison]) -> tuple[float, ...]:
        return tuple(share or 0.0 for share in (place[1].similarity, place[1].f1, place[1].recall))

    defined = [place for place in enumerate(matches.by_reference) if place[1].similarity is not None]
    return max(defined, key=worth, default=None)


def _answer_facts(found: Mapping[str, object]) -> tuple[tuple[str, ...], dict[str, int]]:
    """The merged answer facts, and for each id in the reply the position of its fact among them."""
    entries = [(_text(row, "id"), _storable(_text(row, "fact"))) for row in _objects(found, "answer_facts")]
    facts = dict(entries)
    expected = dict.fromkeys(answer_ids(len(facts)))
    _check(_misuse("answer_facts", [identifier for identifier, _ in entries], expected, complete=True))
    in_order = {identifier: facts[identifier] for identifier in expected}
    kept = merged(in_order.values())
    position = {normalise(fact): index for index, fact in enumerate(kept)}
    # A blank fact has no position, and a link to its id is a link to nothing.
    return kept, {i: position[normalise(fact)] for i, fact in in_order.items() if normalise(fact) in position}


def _links(
    found: Mapping[str, object], expected: Mapping[str, object], places: Mapping[str, int]
) -> tuple[dict[str, set[int]], dict[str, set[int]]]:
    """By reference fact: the positions of the equivalent and of the contradicting answer facts."""
    entries = _objects(found, "reference_facts")
    problems = _misuse("reference_facts", [_text(row, "id") for row in entries], expected, complete=True)
    equivalent: dict[str, set[int]] = {}
    contradicted: dict[str, set[int]] = {}
    for row in entries:
        identifier = _text(row, "id")
        for name, links in (("equivalent", equivalent), ("contradicted_by", contradicted)):
            named = _texts(row, name)
            problems += _misuse(f"{name} of {_shown([identifier])}", named, places, complete=False)
            links[identifier] = {places[i] for i in named if i in places}
        both = equivalent[identifier] & contradicted[identifier]
        if both:
            named = [i for i, place in places.items() if place in both]
            problems.append(f"{_shown([identifier])} is both equivalent to and contradicted by {_shown(named)}")
    _check(problems)
    return equivalent, contradicted


def _misuse(where: str, named: Sequence[str], known: Mapping[str, object], *, complete: bool) -> list[str]:
    """What is wrong with the ids that a list names; a complete list must name every known one."""
    counts = Counter(named)
    wrong = {
        "names more than once": [i for i, count in counts.items() if count > 1],
        "names unknown": [i for i in counts if i not in known],
        "lacks": [i for i in known if i not in counts] if complete else [],
    }
    return [f"{where} {what} {_shown(identifiers)}" for what, identifiers in wrong.items() if identifiers]


def _shown(identifiers: Sequence[str]) -> str:
    proper = [i for i in identifiers if _ID.fullmatch(i)]
    others = len(identifiers) - len(proper[:_LONGEST_LIST])
    if not others:
        return ", ".join(proper)
    rest = f"{others} other id{'s' if others > 1 else ''}"
    return f"{', '.join(proper[:_LONGEST_LIST])} and {rest}" if proper else rest


def _check(problems: Sequence[str]) -> None:
    if problems:
        raise Unreadable("ids", "; ".join(problems[:_LONGEST_LIST]))


def _unreadable(message: str) -> Unreadable:
    return Unreadable("unreadable", message)


def _storable(fact: str) -> str:
    """On one line, as a table takes it."""
    return " ".join(storable(fact).split())


def _texts(found: Mapping[str, object], name: str) -> list[str]:
    texts = found.get(name)
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise _unreadable(f"{name} must be a list of texts")
    return texts


def _text(found: Mapping[str, object], name: str) -> str:
    text = found.get(name)
    if not isinstance(text, str):
        raise _unreadable(f"{name} must be a text everywhere")
    return text


def _objects(found: Mapping[str, object], name: str) -> list[dict[str, object]]:
    entries = found.get(name)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise _unreadable(f"{name} must be a list of objects")
    return entries
