"""One reference against an answer, fact by fact: the one-to-one matching, the shares, what became of each fact.

Facts of the first reference have the ids r1.1, r1.2, of the second r2.1 and so on; facts of the answer a1, a2.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Link = tuple[str, str]
"""The id of a reference fact and the id of an answer fact."""


def reference_ids(reference: int, count: int) -> tuple[str, ...]:
    """The ids of the facts of one reference; `reference` is its index from 0."""
    return tuple(f"r{reference + 1}.{n}" for n in range(1, count + 1))


def answer_ids(count: int) -> tuple[str, ...]:
    """The ids of the facts of the answer."""
    return tuple(f"a{n}" for n in range(1, count + 1))


@dataclass(frozen=True, slots=True)
class Comparison:
    """One reference against the answer. All shares are in 0 to 1.

    `pairs` is the one-to-one matching. `contradicted` holds every contradiction that the judge named, also of facts
    that are matched elsewhere. Both are in the order of the ids. `reference` is the index among the references sent.
    """

    n_reference: int
    n_answer: int
    pairs: tuple[Link, ...] = ()
    contradicted: tuple[Link, ...] = ()
    reference: int = 0

    @property
    def matched(self) -> int:
        """The number of facts that both texts state."""
        return len(self.pairs)

    @property
    def similarity(self) -> float | None:
        """Matched facts over the larger number of facts; None where neither text has a fact."""
        return self._share(max(self.n_reference, self.n_answer))

    @property
    def precision(self) -> float | None:
        """Matched facts over the facts of the answer: 0 where only the reference has facts, None where neither has."""
        return self._share(self.n_answer)

    @property
    def recall(self) -> float | None:
        """Matched facts over the facts of the reference: 0 where only the answer has facts, None where neither has."""
        return self._share(self.n_reference)

    @property
    def f1(self) -> float | None:
        """The harmonic mean of precision and recall (Dice coefficient); None where neither text has a fact."""
        return self._share((self.n_reference + self.n_answer) / 2)

    @property
    def missing(self) -> tuple[str, ...]:
        """Reference facts that the answer neither states nor contradicts."""
        return self._alone(reference_ids(self.reference, self.n_reference))

    @property
    def extra(self) -> tuple[str, ...]:
        """Answer facts that the reference neither states nor contradicts."""
        return self._alone(answer_ids(self.n_answer))

    def fates(self) -> dict[str, tuple[str, str]]:
        """By fact id: `matched` or `contradicted`, and the id on the other side; of several the smallest."""
        fates: dict[str, tuple[str, str]] = {}
        for status, links in (("matched", self.pairs), ("contradicted", self.contradicted)):
            for ours, theirs in links:
                fates.setdefault(ours, (status, theirs))
                fates.setdefault(theirs, (status, ours))
        return fates

    def _share(self, whole: float) -> float | None:
        if not self.n_reference and not self.n_answer:
            return None
        return self.matched / whole if whole else 0.0

    def _alone(self, identifiers: Sequence[str]) -> tuple[str, ...]:
        fates = self.fates()
        return tuple(identifier for identifier in identifiers if identifier not in fates)


def compared(
    reference: int, equivalent: Sequence[Iterable[int]], contradicted: Sequence[Iterable[int]], n_answer: int
) -> Comparison:
    """Match one to one.

    Args:
        reference: its index among the references.
        equivalent: for each of its facts the positions of the answer's facts that say the same; `contradicted`: those
            that contradict it.
        n_answer: facts of the answer.
    """
    ids = reference_ids(reference, len(equivalent))
    matching = one_to_one([sorted(choices) for choices in equivalent])
    return Comparison(
        n_reference=len(ids),
        n_answer=n_answer,
        pairs=tuple((ids[ours], f"a{theirs + 1}") for ours, theirs in sorted(matching.items())),
        contradicted=tuple((i, f"a{n + 1}") for i, found in zip(ids, contradicted, strict=True) for n in sorted(found)),
        reference=reference,
    )


def rows(
    comparison: Comparison, reference_facts: Sequence[str], answer_facts: Sequence[str]
) -> list[dict[str, str | None]]:
    """Every fact of the reference and of the answer with what became of it.

    `status` is matched, contradicted (and not matched), missing (reference) or extra (answer); `with` is the id of the
    matching or contradicting fact. `reference_facts` are those of the reference that `comparison` is about.

    Raises:
        ValueError: the facts are not as many as those that were compared.
    """
    fates: Mapping[str, tuple[str, str | None]] = comparison.fates()
    ours = reference_ids(comparison.reference, comparison.n_reference)
    sides = (
        ("reference", "missing", ours, reference_facts),
        ("answer", "extra", answer_ids(comparison.n_answer), answer_facts),
    )
    found = []
    for side, alone, identifiers, facts in sides:
        for identifier, fact in zip(identifiers, facts, strict=True):
            status, other = fates.get(identifier, (alone, None))
            found.append({"side": side, "id": identifier, "fact": fact, "status": status, "with": other})
    return found


def one_to_one(choices: Sequence[Sequence[int]]) -> dict[int, int]:
    """A largest one-to-one matching: position in `choices` -> one of its choices.

    Shortest augmenting paths (Berge), breadth first, so without recursion. What stands earlier in a list is preferred.

    >>> one_to_one([[0, 1], [0]])
    {0: 1, 1: 0}
    """
    partner: dict[int, int] = {}
    owner: dict[int, int] = {}
    for start in range(len(choices)):
        free, reached = _shortest_path(start, choices, owner)
        while free is not None:
            position = reached[free]
            owner[free] = position
            # The choice that this position gives up is taken by the one before it on the path.
            partner[position], free = free, partner.get(position)
    return partner


def _shortest_path(
    start: int, choices: Sequence[Sequence[int]], owner: Mapping[int, int]
) -> tuple[int | None, dict[int, int]]:
    """The nearest choice that nobody owns, and for each choice on the way the position from which it was reached."""
    reached: dict[int, int] = {}
    queue = deque([start])
    while queue:
        position = queue.popleft()
        for choice in choices[position]:
            if choice in reached:
                continue
            reached[choice] = position
            if choice not in owner:
                return choice, reached
            queue.append(owner[choice])
    return None, reached
