"""Facts: what a judge finds in two texts, checked, matched one to one and counted.

The judge takes texts apart and says which facts agree. Bookkeeping and arithmetic are done here: a reply that
invents, repeats or drops an id is refused, and no number that a judge writes is ever a score.

Facts of the first reference have the ids r1.1, r1.2, of the second r2.1 and so on; facts of the answer a1, a2.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from operator import itemgetter
from typing import TypeVar

from answerkey.metrics_core.judges.prompt import closed, load_prompt
from answerkey.metrics_core.llm.reply import Unreadable, read_object
from answerkey.metrics_core.measurement import Outcome, Scored, Undefined
from answerkey.metrics_core.text import normalise, storable

T = TypeVar("T")


def _list_of(items: Mapping[str, object]) -> dict[str, object]:
    return {"type": "array", "items": items}


_TEXT = {"type": "string"}
DECOMPOSE = load_prompt("decompose", closed(facts=_list_of(_TEXT)))
"""Takes a reference apart; `read_facts` reads the reply."""
MATCH = load_prompt(
    "match_facts",
    closed(
        answer_facts=_list_of(closed(id=_TEXT, fact=_TEXT)),
        reference_facts=_list_of(closed(id=_TEXT, equivalent=_list_of(_TEXT), contradicted_by=_list_of(_TEXT))),
        abstained={"type": "boolean"},
    ),
)
"""Takes an answer apart and compares; `match_fields` is its material, `read_matches` reads the reply."""

# Only ids of this form are quoted in a message: the message may go back to the judge, and an id may hold anything.
_ID = re.compile(r"[ar]\d{1,5}(\.\d{1,5})?", re.ASCII)
_LONGEST_LIST = 8

Link = tuple[str, str]
"""The id of a reference fact and the id of an answer fact."""


def reference_ids(reference: int, count: int) -> tuple[str, ...]:
    """The ids of the facts of one reference; `reference` is its index from 0.

    >>> reference_ids(0, 2)
    ('r1.1', 'r1.2')
    """
    return tuple(f"r{reference + 1}.{n}" for n in range(1, count + 1))


def answer_ids(count: int) -> tuple[str, ...]:
    """The ids of the facts of the answer."""
    return tuple(f"a{n}" for n in range(1, count + 1))


@dataclass(frozen=True, slots=True)
class FactMatching:
    """One reference against the answer.

    `pairs` is the one-to-one matching. `contradicted` holds every contradiction that the judge named, also of facts
    that are matched elsewhere. Both are in the order of the ids. `reference` is the index among the references sent.

    >>> FactMatching(n_reference=2, n_answer=1, pairs=(("r1.1", "a1"),)).shares["similarity"]
    0.5
    """

    n_reference: int
    n_answer: int
    pairs: tuple[Link, ...] = ()
    contradicted: tuple[Link, ...] = ()
    reference: int = 0

    @property
    def shares(self) -> dict[str, float]:
        """The numbers of `ground_truth_similarity`, in 0 to 1; empty where neither text has a fact.

        Matched facts over the larger number of facts, over the facts of the answer (precision), over those of the
        reference (recall), and the harmonic mean of these two (Dice coefficient). A text without facts has a share
        of 0.
        """
        totals = {
            "similarity": max(self.n_reference, self.n_answer),
            "fact_precision": self.n_answer,
            "fact_recall": self.n_reference,
            "fact_f1": (self.n_reference + self.n_answer) / 2,
        }
        if not totals["similarity"]:
            return {}
        # A text without facts has no pairs either
        return {name: len(self.pairs) / (total or 1) for name, total in totals.items()}


def compared(
    reference: int, equivalent: Sequence[Iterable[int]], contradicted: Sequence[Iterable[int]], n_answer: int
) -> FactMatching:
    """Match one to one.

    Args:
        reference: its index among the references.
        equivalent: for each of its facts the positions of the answer's facts that say the same; `contradicted`: those
            that contradict it.
        n_answer: facts of the answer.

    >>> compared(0, equivalent=[[0, 1], [0]], contradicted=[[], []], n_answer=2).pairs
    (('r1.1', 'a2'), ('r1.2', 'a1'))
    """
    # Facts that are matched may be contradicted as well
    ids = reference_ids(reference, len(equivalent))
    matching = one_to_one([sorted(choices) for choices in equivalent])
    contradictions = []
    for identifier, positions in zip(ids, contradicted, strict=True):
        contradictions += [(identifier, f"a{position + 1}") for position in sorted(positions)]
    return FactMatching(
        n_reference=len(ids),
        n_answer=n_answer,
        pairs=tuple((ids[index], f"a{position + 1}") for index, position in sorted(matching.items())),
        contradicted=tuple(contradictions),
        reference=reference,
    )


def rows(
    comparison: FactMatching, reference_facts: Sequence[str], answer_facts: Sequence[str]
) -> list[dict[str, str | None]]:
    """Every fact of the reference and of the answer with what became of it.

    `status` is matched, contradicted (and not matched), missing (reference) or extra (answer); `with` is the id of the
    matching or contradicting fact. `reference_facts` are those of the reference that `comparison` is about.

    Raises:
        ValueError: the facts are not as many as those that were compared.

    >>> one = compared(0, equivalent=[[0]], contradicted=[[]], n_answer=1)
    >>> [row["status"] for row in rows(one, ["It is Paris."], ["Paris it is."])]
    ['matched', 'matched']
    """
    # By id, what became of a fact and the id on the other side: of several the smallest
    fates: dict[str, tuple[str, str | None]] = {}
    for status, links in (("matched", comparison.pairs), ("contradicted", comparison.contradicted)):
        for reference_id, answer_id in links:
            fates.setdefault(reference_id, (status, answer_id))
            fates.setdefault(answer_id, (status, reference_id))
    sides = (
        ("reference", "missing", reference_ids(comparison.reference, comparison.n_reference), reference_facts),
        ("answer", "extra", answer_ids(comparison.n_answer), answer_facts),
    )
    fates_of_facts = []
    for side, without_link, identifiers, facts in sides:
        for identifier, fact in zip(identifiers, facts, strict=True):
            status, partner = fates.get(identifier, (without_link, None))
            fates_of_facts.append({"side": side, "id": identifier, "fact": fact, "status": status, "with": partner})
    return fates_of_facts


@dataclass(frozen=True, slots=True)
class Matches:
    """What a reply says: the facts of the answer (a1 is the first), and each reference compared with them.

    `abstained`: the answer declined to answer and states no fact.
    """

    answer_facts: tuple[str, ...]
    abstained: bool
    by_reference: tuple[FactMatching, ...]


def merged(facts: Iterable[str]) -> tuple[str, ...]:
    """The facts in their order, without blank ones; of those that differ only in form the first stays.

    >>> merged(["It is Paris.", " it is  paris.", ""])
    ('It is Paris.',)
    """
    first: dict[str, str] = {}
    for fact in facts:
        first.setdefault(normalise(fact), fact)
    first.pop("", None)
    return tuple(first.values())


def match_fields(question: str | None, reference_facts: Sequence[Sequence[str]], answer: str) -> dict[str, object]:
    """The material of a `MATCH` request. `reference_facts` holds the facts of each reference, as `merged` left them.

    >>> match_fields("Capital?", [["It is Paris."]], "Paris")["references"]
    [{'facts': [{'id': 'r1.1', 'fact': 'It is Paris.'}]}]
    """
    references = []
    for index, facts in enumerate(reference_facts):
        ids = reference_ids(index, len(facts))
        references.append({"facts": [{"id": i, "fact": fact} for i, fact in zip(ids, facts, strict=True)]})
    return {"question": question, "references": references, "answer": answer}


def read_facts(reply: str) -> tuple[str, ...]:
    """The facts of a `DECOMPOSE` reply, `merged`. Empty for a text that states none.

    Raises:
        Unreadable: what `read_object` raises; "unreadable" without a list of texts.

    >>> read_facts('{"facts": ["It is Paris.", "It is large."]}')
    ('It is Paris.', 'It is large.')
    """
    return merged(map(_storable, _list(read_object(reply), "facts", str, of="texts")))


def read_matches(reply: str, reference_facts: Sequence[Sequence[str]]) -> Matches:
    """What a `MATCH` reply says about the references that were sent; `reference_facts` is what `match_fields` got.

    Answer facts that differ only in form become one, with the links of all of them; the ids are then counted anew.

    Raises:
        Unreadable: what `read_object` raises; "unreadable" for a field that is missing or of the wrong type; "ids"
            for ids that do not add up; "inconsistent" for an answer that abstained and states facts.

    >>> reply = (
    ...     '{"answer_facts": [{"id": "a1", "fact": "Paris"}], "abstained": false,'
    ...     '"reference_facts": [{"id": "r1.1", "equivalent": ["a1"], "contradicted_by": []}]}'
    ... )
    >>> read_matches(reply, [["It is Paris."]]).by_reference[0].shares["similarity"]
    1.0
    """
    reply_object = read_object(reply)
    abstained = reply_object.get("abstained")
    if not isinstance(abstained, bool):
        raise Unreadable("unreadable", "abstained must be true or false")
    # The facts of the answer, those that differ only in form as one. A blank one has no position among them
    fact_rows = _list(reply_object, "answer_facts", dict, of="objects")
    entries = [(_text(row, "id"), _storable(_text(row, "fact"))) for row in fact_rows]
    facts = dict(entries)
    expected = answer_ids(len(facts))
    _check(_misuse("answer_facts", [identifier for identifier, _ in entries], expected, complete=True))
    answer_facts = merged(facts[identifier] for identifier in expected)
    position_of = {normalise(fact): position for position, fact in enumerate(answer_facts)}
    forms = {identifier: normalise(facts[identifier]) for identifier in expected}
    positions = {identifier: position_of[form] for identifier, form in forms.items() if form in position_of}
    if abstained and answer_facts:
        raise Unreadable("inconsistent", "abstained is true although answer_facts holds facts")

    # Their links with the facts of the references
    sent = [reference_ids(index, len(facts)) for index, facts in enumerate(reference_facts)]
    equivalent, contradicted = _links(reply_object, list(chain.from_iterable(sent)), positions)
    comparisons = []
    for index, ids in enumerate(sent):
        same = [equivalent[i] for i in ids]
        against = [contradicted[i] for i in ids]
        comparisons.append(compared(index, same, against, len(answer_facts)))
    return Matches(answer_facts, abstained, tuple(comparisons))


def outcome_of(matches: Matches, references: Sequence[Sequence[str]], indices: Sequence[int | None]) -> Outcome:
    """The outcome from the reference with the highest similarity; undefined where no text states a fact.

    Of equally similar ones it is that with the highest F1, then recall, so that no number depends on the order of
    the references; then the first.

    Args:
        references: the facts of each; `indices`: which reference of the sample it is, None for the sample's own facts.
    """
    defined = [comparison for comparison in matches.by_reference if comparison.shares]
    if not defined:
        return Undefined("no facts: neither the answer nor a reference states one")
    by_rank = itemgetter("similarity", "fact_f1", "fact_recall")
    best = max(defined, key=lambda comparison: by_rank(comparison.shares))
    facts = rows(best, references[best.reference], matches.answer_facts)
    reason = "the answer abstains"
    if not matches.abstained:
        reason = f"{len(best.pairs)} of {max(best.n_reference, best.n_answer)} facts match"
        # A contradiction has a fact on each side; it is one, not two.
        by_side = Counter(fact["side"] for fact in facts if fact["status"] == "contradicted")
        if by_side:
            reason += f", {max(by_side.values())} contradicted"
    details = {
        "reference": indices[best.reference],
        "n_reference": best.n_reference,
        "n_answer": best.n_answer,
        "n_matched": len(best.pairs),
        "abstained": matches.abstained,
        "similarities": [comparison.shares.get("similarity") for comparison in matches.by_reference],
        "facts": facts,
    }
    return Scored(best.shares, reason, details)


def one_to_one(choices: Sequence[Sequence[int]]) -> dict[int, int]:
    """A largest one-to-one matching (Hopcroft and Karp 1973): position in `choices` -> one of its choices.

    >>> one_to_one([[0, 1], [0]])
    {0: 1, 1: 0}
    """
    import numpy as np
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    columns = list(chain.from_iterable(choices))
    if not columns:
        return {}
    # A row for each position, with a True for each of its choices
    ends = [0, *accumulate(map(len, choices))]
    links = csr_array((np.ones(len(columns), bool), columns, ends), shape=(len(choices), max(columns) + 1))
    partners = maximum_bipartite_matching(links, perm_type="column")
    return {position: int(choice) for position, choice in enumerate(partners) if choice >= 0}


def _links(
    reply_object: Mapping[str, object], expected: Sequence[str], positions: Mapping[str, int]
) -> tuple[dict[str, set[int]], dict[str, set[int]]]:
    """By reference fact: the positions of the equivalent and of the contradicting answer facts."""
    fact_rows = _list(reply_object, "reference_facts", dict, of="objects")
    problems = _misuse("reference_facts", [_text(row, "id") for row in fact_rows], expected, complete=True)
    equivalent: dict[str, set[int]] = {}
    contradicted: dict[str, set[int]] = {}
    for row in fact_rows:
        fact_id = _text(row, "id")
        # The facts of the answer that it is linked with; an answer's fact cannot agree and contradict
        for name, links in (("equivalent", equivalent), ("contradicted_by", contradicted)):
            answer_fact_ids = _list(row, name, str, of="texts")
            problems += _misuse(f"{name} of {_shown([fact_id])}", answer_fact_ids, positions, complete=False)
            links[fact_id] = {positions[i] for i in answer_fact_ids if i in positions}
        in_both = equivalent[fact_id] & contradicted[fact_id]
        if in_both:
            shown = _shown([i for i, position in positions.items() if position in in_both])
            problems.append(f"{_shown([fact_id])} is both equivalent to and contradicted by {shown}")
    _check(problems)
    return equivalent, contradicted


def _misuse(list_name: str, identifiers: Sequence[str], known_ids: Collection[str], *, complete: bool) -> list[str]:
    """What is wrong with the ids that a list names; a complete list must name every known one."""
    counts = Counter(identifiers)
    wrong_by_problem = {
        "names more than once": [i for i, count in counts.items() if count > 1],
        "names unknown": [i for i in counts if i not in known_ids],
        "lacks": [i for i in known_ids if complete and i not in counts],
    }
    return [f"{list_name} {problem} {_shown(wrong)}" for problem, wrong in wrong_by_problem.items() if wrong]


def _shown(identifiers: Sequence[str]) -> str:
    proper = [i for i in identifiers if _ID.fullmatch(i)][:_LONGEST_LIST]
    n_others = len(identifiers) - len(proper)
    others = [f"{n_others} other id{'s' if n_others > 1 else ''}"] if n_others else []
    return " and ".join(filter(None, [", ".join(proper), *others]))


def _check(problems: Sequence[str]) -> None:
    if problems:
        raise Unreadable("ids", "; ".join(problems[:_LONGEST_LIST]))


def _storable(fact: str) -> str:
    """On one line, as a table takes it."""
    return " ".join(storable(fact).split())


def _text(reply_object: Mapping[str, object], name: str) -> str:
    text = reply_object.get(name)
    if not isinstance(text, str):
        raise Unreadable("unreadable", f"{name} must be a text everywhere")
    return text


def _list(reply_object: Mapping[str, object], name: str, kind: type[T], *, of: str) -> list[T]:
    values = reply_object.get(name)
    if not isinstance(values, list) or not all(isinstance(value, kind) for value in values):
        raise Unreadable("unreadable", f"{name} must be a list of {of}")
    return values
