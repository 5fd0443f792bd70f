"""Which tokens of a reference occur in an answer, in whatever form: inflections, typos, aliases, acronyms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from rapidfuzz.distance import Levenshtein, Prefix

from answerkey.metrics_core.offline_judge.reading import Text
from answerkey.metrics_core.offline_judge.vocabulary import ALIASES, FUNCTION_WORDS, ROMAN

HIT = 0.8
"""Two tokens of at least this similarity count as the same word."""


@lru_cache(maxsize=262_144)
def alike(a: str, b: str) -> float:
    """How alike two stems are, 0..1: 1 for the same, less for typos, inflections and initials.

    Numbers are alike only when they are equal.

    >>> alike("leonardo", "leonardo"), alike("1851", "1852")
    (1.0, 0.0)
    >>> alike("битлз", "beatles") >= HIT
    True
    """
    if a == b:
        return 1.0
    if not (a.isalpha() and b.isalpha()):
        return 0.0
    if a.isascii() != b.isascii():
        return _across_scripts(a, b)
    short, long = (len(a), len(b)) if len(a) < len(b) else (len(b), len(a))
    if short == 1:
        # R. for Richard; a single initial is weak evidence.
        return 0.5 if a[0] == b[0] and long > 2 else 0.0
    # With lengths so far apart, neither the distance nor a common beginning can be enough.
    if short <= 3 or 5 * short < 3 * long:
        return 0.0
    distance = Levenshtein.distance(a, b, score_cutoff=long // 2)
    ratio = 1 - distance / long
    if a[:4] == b[:4] and Prefix.similarity(a, b) >= 0.6 * long:
        ratio = max(ratio, HIT)
    return ratio if ratio >= 0.6 else 0.0


def _across_scripts(a: str, b: str) -> float:
    """How alike two words of different scripts sound, by their consonants in Latin letters: "битлз" and "beatles"."""
    x, y = _skeleton(a), _skeleton(b)
    if not x or not y or x[0] != y[0] or min(len(x), len(y)) < 2:
        return 0.0
    ratio = 1 - Levenshtein.distance(x, y) / max(len(x), len(y))
    if ratio == 1 and len(x) >= 3:
        return 0.9
    return HIT if ratio >= 0.7 else ratio if ratio >= 0.6 else 0.0


@lru_cache(maxsize=65_536)
def _skeleton(word: str) -> str:
    """Consonants as they sound, roughly, Cyrillic in Latin letters; "" for other scripts."""
    latin = "".join(ROMAN.get(letter, letter) for letter in word)
    if not latin or not latin.isascii():
        return ""
    for spelling, sound in _SOUNDS:
        latin = latin.replace(spelling, sound)
    bare = latin[0] + "".join(letter for letter in latin[1:] if letter not in "aeiouyhjw")
    bare = bare.replace("w", "v") if bare[0] == "w" else bare
    return "".join(letter for i, letter in enumerate(bare) if i == 0 or letter != bare[i - 1])


_SOUNDS = (
    ("shch", "s"), ("sch", "s"), ("tch", "c"), ("ph", "f"), ("ck", "k"), ("ch", "c"), ("sh", "s"), ("zh", "s"),
    ("th", "t"), ("kh", "h"), ("ks", "x"), ("ts", "c"), ("tz", "c"), ("dg", "s"), ("dj", "s"), ("q", "k"), ("z", "s"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Alignment:
    """The content tokens of a reference looked up in an answer.

    Attributes:
        stems: of the reference's content tokens; `score`: each one's best similarity in the answer, 0..1.
        where: the token position in the answer of each best similarity; -1 for none.
        given: for each, whether the question contains it too, so that it is no evidence.
        whole: whether an alias or acronym in the answer names the whole reference.
        missing: stems that neither the answer nor the question contains; `found`: those that only the answer contains.

    >>> from answerkey.metrics_core.offline_judge.reading import read
    >>> found = align(read("Leonardo da Vinci"), read("It was Leonardo"), read("Who painted it?"))
    >>> found.found, found.missing
    (('leonardo',), ('da', 'vinci'))
    """

    stems: tuple[str, ...]
    score: tuple[float, ...]
    where: tuple[int, ...]
    given: tuple[bool, ...]
    whole: bool
    missing: tuple[str, ...]
    found: tuple[str, ...]


def align(reference: Text, answer: Text, question: Text) -> Alignment:
    """Look every content token of `reference` up in `answer`.

    >>> from answerkey.metrics_core.offline_judge.reading import read
    >>> align(read("41 m"), read("It is forty-one metres high."), read("How high is it?")).score
    (1.0, 0.5)
    """
    stems = reference.content_stems
    positions = dict(zip(reversed(answer.stems), range(len(answer.stems) - 1, -1, -1), strict=True))
    known = question.stem_set
    scores, where = [], []
    for stem in stems:
        at = positions.get(stem)
        if at is not None:
            scores.append(1.0)
            where.append(at)
            continue
        best, best_at = 0.0, -1
        # Nothing is nearly alike that is no word.
        for other, i in positions.items() if stem.isalpha() else ():
            similarity = alike(stem, other)
            if similarity > best:
                best, best_at = similarity, i
        scores.append(best)
        where.append(best_at)
    given = tuple([stem in known for stem in stems])
    if all(given):
        # A question that offers the answer ("A or B?") does not give it away.
        given = (False,) * len(stems)
    values = {number.value for number in reference.numbers}
    if values and values <= {number.value for number in answer.numbers}:
        spelled = {i for number in reference.numbers for i in range(number.start, number.stop)}
        content = reference.content or tuple(range(len(reference.stems)))
        scores = [1.0 if i in spelled else score for i, score in zip(content, scores, strict=True)]
    whole = names_whole(reference, answer)
    new = [(stem, whole or score >= HIT) for stem, score, old in zip(stems, scores, given, strict=True) if not old]
    missing, found = (tuple([stem for stem, hit in new if hit is wanted]) for wanted in (False, True))
    return Alignment(stems, tuple(scores), tuple(where), given, whole, missing, found)


def names_whole(reference: Text, answer: Text) -> bool:
    """Whether the answer contains a listed alias or an acronym of the reference, or the reverse.

    >>> from answerkey.metrics_core.offline_judge.reading import read
    >>> names_whole(read("New York City"), read("It is in NYC."))
    True
    """
    return alias_inside(reference.normal, answer.normal) or acronym_inside(reference, answer)


def alias_inside(reference: str, answer: str) -> bool:
    """Whether the answer contains a listed alias of the whole reference, as separate words.

    >>> alias_inside("new york city", "it is in nyc.")
    True
    """
    names = _aliases(reference)
    padded = f" {bare(answer)} " if names else ""
    return any(f" {name} " in padded for name in names)


@lru_cache(maxsize=16_384)
def _aliases(reference: str) -> frozenset[str]:
    key = bare(reference)
    return next((names for names in ALIASES if key in names), frozenset())


def bare(normal: str) -> str:
    """A normalised text without articles and without punctuation around its words.

    >>> bare("the paris!")
    'paris'
    """
    marks = ".,;:!?\"'()[]{}"
    kept = [word.strip(marks) for word in normal.split()]
    return " ".join(word for word in kept if word and word not in ("the", "a", "an"))


def acronym_inside(reference: Text, answer: Text) -> bool:
    """Whether one is an acronym (at least two letters, three inside a longer text) of words in the other.

    >>> from answerkey.metrics_core.offline_judge.reading import read
    >>> acronym_inside(read("World Health Organization"), read("It is the WHO"))
    True
    """
    letters = _initials(reference.tokens)
    if len(letters) >= 2:
        shortest = 2 if len(answer.content) <= 2 else 3
        if len(letters) >= shortest and letters in _acronyms(answer):
            return True
    short = _compact(reference)
    return short is not None and short in _runs(answer.tokens, len(short))


@lru_cache(maxsize=16_384)
def _initials(tokens: tuple[str, ...]) -> str:
    return "".join(token[0] for token in tokens if token not in FUNCTION_WORDS and token.isalpha())


def _acronyms(text: Text) -> frozenset[str]:
    """Words written entirely in capitals, without dots, in lower case."""
    acronyms = set()
    for word in text.raw.split():
        if word.isascii() and not word.isupper():
            continue
        letters = "".join(c for c in word if c.isalpha())
        if len(letters) >= 2 and letters.isupper() and len(letters) <= 7:
            acronyms.add(letters.lower())
    return frozenset(acronyms)


def _compact(text: Text) -> str | None:
    if len(text.raw.split()) != 1:
        return None
    letters = "".join(c for c in text.raw if c.isalpha())
    return letters.lower() if letters.isupper() and 2 <= len(letters) <= 7 else None


def _runs(tokens: Sequence[str], n: int) -> set[str]:
    words = [token for token in tokens if token not in FUNCTION_WORDS and token.isalpha()]
    return {"".join(token[0] for token in words[i : i + n]) for i in range(len(words) - n + 1)}
