"""The tokens of a reference that occur in an answer, in any form: inflections, typos, aliases, acronyms."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein, Prefix

from answerkey.metrics_core.offline_judge.reading import Text
from answerkey.metrics_core.offline_judge.vocabulary import ALIASES, FUNCTION_WORDS, ROMAN, TABLES, word_list

HIT = 0.8
"""The similarity from which two tokens count as the same word."""
LONGEST_REFERENCE = 60
"""The most content words of a reference that are looked up in other forms, so that the time of a comparison grows with
the lengths of its texts and not with their product. References in training have at most 28."""
_ENDINGS = word_list("endings")
_NEGATING = word_list("negating_prefixes")
_OPPOSITE_PREFIXES = [pair.split() for pair in TABLES["opposite_prefixes"]]
_OPPOSITE_ENDINGS = [pair.split() for pair in TABLES["opposite_endings"]]
_MIN_COMMON_LETTERS = 4
"""Letters that two words must have in common beside prefixes or endings that turn their meaning round."""
LONG_WORD = 8
"""The letters from which a word hardly stands in another one by chance, but where a blank is lost."""
_INSIDE = 0.7
"""The most a word resembles a longer one that contains it: "Niger" is not "Nigeria", but "Phil" may be "Philip"."""
_MAX_PART_CHARS = 400
"""The most characters of a text that is searched for in another one. References in training have at most 174."""


@lru_cache(maxsize=262_144)
def alike(word: str, other_word: str) -> float:
    """The similarity of two stems, 0..1: 1 if equal, less for typos, inflections and initials.

    Numbers are alike only when they are equal. A word inside a longer one is another word, unless what follows it is an
    ending: "legal" is not "illegal".

    >>> alike("leonardo", "leonardo"), alike("1851", "1852")
    (1.0, 0.0)
    >>> alike("битлз", "beatles") >= HIT
    True
    >>> alike("legal", "illegal"), alike("niger", "nigeria") < HIT
    (0.0, True)
    """
    if word == other_word:
        return 1.0
    if not (word.isalpha() and other_word.isalpha()):
        return 0.0
    if word.isascii() != other_word.isascii():
        return _across_scripts(word, other_word)
    short, long = (len(word), len(other_word)) if len(word) < len(other_word) else (len(other_word), len(word))
    if short == 1:
        # R. for Richard; a single initial is weak evidence.
        return 0.5 if word[0] == other_word[0] and long > 2 else 0.0
    # The length ratio rules out a match, by distance as well as by prefix.
    if short <= 3 or 5 * short < 3 * long:
        return 0.0
    distance = Levenshtein.distance(word, other_word, score_cutoff=long // 2)
    ratio = 1 - distance / long
    if inside_word(word, other_word):
        ratio = min(ratio, _INSIDE)
    elif word[:4] == other_word[:4] and Prefix.similarity(word, other_word) >= 0.6 * long:
        ratio = max(ratio, HIT)
    return ratio if ratio >= 0.6 and not turned_round(word, other_word) else 0.0


def occurs(stem: str, other_stems: Iterable[str]) -> bool:
    """Whether a stem is one of others, in any form.

    >>> occurs("beatles", ["the", "beatle"])
    True
    """
    return any(alike(stem, other_stem) >= HIT for other_stem in other_stems)


@lru_cache(maxsize=65_536)
def turned_round(stem: str, other_stem: str) -> bool:
    """Whether a prefix or an ending turns the meaning round: "legal" and "illegal", "hypotension" and "hypertension",
    "chloride" and "chlorate".

    >>> turned_round("hypotension", "hypertension"), turned_round("prednison", "prednisolon")
    (True, True)
    """
    short, long = (stem, other_stem) if len(stem) < len(other_stem) else (other_stem, stem)
    if long.endswith(short) and long[: -len(short)] in _NEGATING and len(short) >= _MIN_COMMON_LETTERS:
        return True
    for word, opposite in ((stem, other_stem), (other_stem, stem)):
        for old_part, new_part in _OPPOSITE_PREFIXES:
            common = word[len(old_part) :]
            if word.startswith(old_part) and len(common) >= _MIN_COMMON_LETTERS and opposite == new_part + common:
                return True
        for old_part, new_part in _OPPOSITE_ENDINGS:
            common = word[: -len(old_part)]
            if word.endswith(old_part) and len(common) >= _MIN_COMMON_LETTERS and opposite == common + new_part:
                return True
    return False


def inside_word(word: str, other_word: str) -> bool:
    """Whether one word or number is a part of the other, and more than an ending is added: "iron" in "environment".

    >>> inside_word("legal", "illegal"), inside_word("125", "1250"), inside_word("bridge", "bridges")
    (True, True, False)
    """
    short, long = (word, other_word) if len(word) < len(other_word) else (other_word, word)
    if short == long or short not in long:
        return False
    added = long[len(short) :]
    is_ending = long.startswith(short) and (len(added) == 1 or added in _ENDINGS)
    return any(map(str.isdigit, long)) or not is_ending


def by_chance(word: str, other_word: str) -> bool:
    """Whether a word may stand in a longer one without any relation to it: it is short, a number, or denied.

    >>> by_chance("iron", "environment"), by_chance("midpiece", "themidpieceand")
    (True, False)
    """
    if not inside_word(word, other_word):
        return False
    return len(word) < LONG_WORD or not word.isalpha() or turned_round(word, other_word)


def same_words(stems: Collection[str], reference_stems: Collection[str]) -> frozenset[str]:
    """The `stems` that `reference_stems` contain: in any form if there are at most 60 of them.

    >>> sorted(same_words(["beatles", "1851"], ["beatle", "1852"]))
    ['beatles']
    """
    nearly = reference_stems if len(reference_stems) <= LONGEST_REFERENCE else ()
    exact = frozenset(reference_stems)
    return frozenset([stem for stem in stems if stem in exact or occurs(stem, nearly)])


def part_ratio(text: str, other_text: str) -> float:
    """The similarity of the shorter text and the best part of the longer one, 0..100; of two long texts, as wholes.

    >>> part_ratio("ada", "it was ada brown")
    100.0
    """
    return (
        fuzz.partial_ratio(text, other_text)
        if min(len(text), len(other_text)) <= _MAX_PART_CHARS
        else fuzz.ratio(text, other_text)
    )


def spelled_alike(expected: Sequence[str], stated: Sequence[str]) -> float:
    """The similarity of words in letters with the most similar run of about as many words, 0..1.

    Whole words and numbers are compared: the letters of a word inside a longer one are no evidence, nor the digits of a
    number.

    >>> spelled_alike(["legal"], ["it", "is", "illegal"]) < 0.5
    True
    >>> spelled_alike(["new", "york"], ["in", "new", "yorck"]) > 0.9
    True
    """
    text = " ".join(expected)
    if len(stated) <= 1 or len(text) > _MAX_PART_CHARS or len(stated) > _MAX_PART_CHARS:
        return run_alike(expected, stated)
    best = 0.0
    # A word may be missing, or stand between the others
    for length in {max(1, len(expected) - 1), len(expected), min(len(expected) + 1, len(stated))}:
        for start in range(max(1, len(stated) - length + 1)):
            best = max(best, run_alike(expected, stated[start : start + length]))
            if best == 1.0:
                return best
    return best


def run_alike(expected: Sequence[str], stated: Sequence[str]) -> float:
    """The similarity of two runs of words in letters, 0..1, without what they share only as parts of words or digits.

    >>> run_alike(["125"], ["1250"]), run_alike(["1250"], ["1250"])
    (0.0, 1.0)
    """
    text = " ".join(expected)
    ratio = fuzz.ratio(text, " ".join(stated)) / 100
    if ratio < 0.5 or ratio == 1:
        return ratio
    # What the two have in common only as a part of a word or as digits does not count
    unmatched = [word for word in stated if word not in expected]
    n_unlike = 0
    for word in expected:
        if word not in stated and any(by_chance(word, other_word) for other_word in unmatched):
            n_unlike += len(word)
    return ratio * max(0.0, 1 - n_unlike / len(text))


def _across_scripts(word: str, other_word: str) -> float:
    """The phonetic similarity of words in different scripts, by consonants in Latin letters: "битлз" and "beatles"."""
    x = _skeleton(word)
    y = _skeleton(other_word)
    if not x or not y or x[0] != y[0] or min(len(x), len(y)) < 2:
        return 0.0
    ratio = 1 - Levenshtein.distance(x, y) / max(len(x), len(y))
    if ratio == 1 and len(x) >= 3:
        return 0.9
    if ratio >= 0.7:
        return HIT
    return ratio if ratio >= 0.6 else 0.0


@lru_cache(maxsize=65_536)
def _skeleton(word: str) -> str:
    """The approximate sounds of consonants, in Latin letters; "" for scripts other than Latin and Cyrillic."""
    latin = "".join(ROMAN.get(letter, letter) for letter in word)
    if not latin or not latin.isascii():
        return ""
    for spelling, sound in TABLES["sounds"].items():
        latin = latin.replace(spelling, sound)
    bare = latin[0] + "".join(letter for letter in latin[1:] if letter not in "aeiouyhjw")
    bare = bare.replace("w", "v") if bare[0] == "w" else bare
    return "".join(letter for i, letter in enumerate(bare) if i == 0 or letter != bare[i - 1])


@dataclass(frozen=True, slots=True)
class Alignment:
    """The content tokens of a reference, looked up in an answer.

    Attributes:
        stems: of the content tokens of the reference; `score`: the best similarity of each in the answer, 0..1.
        in_question: for each, whether the question contains it too, so that it is no evidence.
        whole: whether an alias or acronym in the answer names the whole reference.
        missing: stems that neither the answer nor the question contains; `matched`: those that the answer contains.

    >>> from answerkey.metrics_core.offline_judge.reading import read
    >>> aligned = align(read("Leonardo da Vinci"), read("It was Leonardo"), read("Who painted it?"))
    >>> aligned.matched, aligned.missing
    (('leonardo',), ('da', 'vinci'))
    """

    stems: tuple[str, ...]
    score: tuple[float, ...]
    in_question: tuple[bool, ...]
    whole: bool
    missing: tuple[str, ...]
    matched: tuple[str, ...]


def align(reference: Text, answer: Text, question: Text) -> Alignment:
    """Look every content token of `reference` up in `answer`.

    >>> from answerkey.metrics_core.offline_judge.reading import read
    >>> align(read("41 m"), read("It is forty-one metres high."), read("How high is it?")).score
    (1.0, 0.5)
    """
    stems = reference.content_stems
    answer_stems = answer.stem_set
    question_stems = question.stem_set
    scores: list[float] = []
    for stem in stems:
        similarity = 0.0
        if stem in answer_stems:
            similarity = 1.0
        elif len(stems) <= LONGEST_REFERENCE and stem.isalpha():
            # Only words can be similar without being equal
            similarity = max((alike(stem, answer_stem) for answer_stem in answer_stems), default=0.0)
        scores.append(similarity)

    # Numbers are looked up by their value, however they are written
    values = {number.value for number in reference.numbers}
    if values and values <= {number.value for number in answer.numbers}:
        positions = reference.content or range(len(reference.stems))
        for i, position in enumerate(positions):
            if position in reference.number_positions:
                scores[i] = 1.0

    in_question = [stem in question_stems for stem in stems]
    if all(in_question):
        # A question that offers the answer ("A or B?") does not give it away.
        in_question = [False] * len(stems)
    is_named = names_whole(reference, answer)
    missing: list[str] = []
    matched: list[str] = []
    for stem, score, gives_nothing in zip(stems, scores, in_question, strict=True):
        if not gives_nothing:
            (matched if is_named or score >= HIT else missing).append(stem)
    return Alignment(
        stems=stems,
        score=tuple(scores),
        in_question=tuple(in_question),
        whole=is_named,
        missing=tuple(missing),
        matched=tuple(matched),
    )


def names_whole(reference: Text, answer: Text) -> bool:
    """Whether the answer contains a listed alias or an acronym of the reference, or the reference is an acronym of it.

    >>> from answerkey.metrics_core.offline_judge.reading import read
    >>> names_whole(read("New York City"), read("It is in NYC."))
    True
    """
    # A listed alias of the whole reference, as separate words
    names = _aliases(reference.normal)
    padded = f" {bare(answer.normal)} " if names else ""
    if any(f" {name} " in padded for name in names):
        return True
    # The acronym of the reference: two letters are too few inside a longer text
    letters = _initials(reference.tokens)
    shortest = 2 if len(answer.content) <= 2 else 3
    if len(letters) >= shortest and any(letters == _acronym(word) for word in answer.raw.split()):
        return True
    # Words of the answer of which the reference is the acronym
    words = reference.raw.split()
    acronym = _acronym(words[0]) if len(words) == 1 else ""
    return bool(acronym) and acronym in _initials(answer.tokens)


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
    words = [word.strip(marks) for word in normal.split()]
    return " ".join(word for word in words if word and word not in ("the", "a", "an"))


@lru_cache(maxsize=16_384)
def _initials(tokens: tuple[str, ...]) -> str:
    return "".join(token[0] for token in tokens if token not in FUNCTION_WORDS and token.isalpha())


def _acronym(word: str) -> str:
    """Return a word of two to seven capitals without its dots, in lower case; "" for other words."""
    if word.isascii() and not word.isupper():
        return ""
    letters = "".join([letter for letter in word if letter.isalpha()])
    return letters.lower() if letters.isupper() and 2 <= len(letters) <= 7 else ""
