"""The two compatibility profiles of `answer_correctness`: the old numbers of continuous-eval, digit for digit.

For people who have scores from continuous-eval and want to carry on with comparable ones. `continuous_eval_v0_2`
gives what versions 0.2.0 to 0.2.4 returned (the published example), `continuous_eval_v0_3` what 0.2.5 and later
returned; they differ in the token overlap and in which answers count as empty. For anything new use the default profile.

What the original does is reproduced on purpose, faults included. None of the following is a mistake to mend here:

* **BLEU counts characters**, blanks included: the original handed strings to a function that expects lists of words.
  No smoothing: an order without a match counts as the smallest positive float, hence scores such as 1e-154, and an
  answer shorter than four characters never reaches 1.
* **ROUGE-L** is that of the `rouge` package: a sentence ends at every "." ("3.5" is two), case and punctuation count,
  precision and recall are shares of *distinct* tokens, the matched ones being the union over one longest common
  subsequence for each pair of sentences, and F carries a `1e-8` in its denominator, so identical texts get 0.999999995.
* **Token overlap** divides the number of *distinct* common tokens by the *length of the list* of tokens, so repeated
  words are punished ("Bora Bora" against itself: 0.5).
* **v0.3 drops English stop words**, "no" and "not" among them, and deletes punctuation, so "3.14" equals "314".
* With several references every field is the maximum for itself; precision and recall may come from different ones.

Two departures. Texts of any length work (the original's recursion failed from about 1,000 words on); a reference
without any ROUGE sentence (empty, or periods only) raises `ValueError` here as there, but says which one.
"""

import math
import string
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import add
from typing import Final, Literal, get_args

from metrics_core.lexical.continuous_eval_tokens import Token, words_v0_2, words_v0_3

Profile = Literal["continuous_eval_v0_2", "continuous_eval_v0_3"]
PROFILES: Final[tuple[Profile, ...]] = get_args(Profile)

FIELDS: Final = (
    "rouge_l_precision",
    "rouge_l_recall",
    "rouge_l_f1",
    "token_overlap_precision",
    "token_overlap_recall",
    "token_overlap_f1",
    "bleu_score",
)
"""The seven fields, each a float from 0 to 1."""

_MAX_ORDER = 4
_CACHED_REFERENCES = 4096
# Only short texts are kept: their statistics take up to some 350 bytes a character.
_CACHED_LENGTH = 160

_Sentence = tuple[tuple[str, ...], frozenset[str]]


@dataclass(frozen=True, slots=True)
class _Text:
    """What the three scores need of one text, computed once for all the texts that it is compared with."""

    text: str
    sentences: tuple[_Sentence, ...]  # for ROUGE-L: tokens in order, and the set of them
    vocabulary: frozenset[str]
    words: frozenset[Token]  # for the token overlap
    word_count: int
    ngrams: tuple[Mapping[str, int], ...]  # for BLEU: character n-grams of order 1 to 4, with their counts


@dataclass(frozen=True, slots=True)
class _Reference:
    """A reference with its n-grams that occur more than once, one mapping for each order."""

    content: _Text
    repeated: tuple[tuple[tuple[str, int], ...], ...]


def score(answer: str, references: Sequence[str], profile: Profile) -> dict[str, float]:
    """The seven fields of `answer`, each the maximum over `references`.

    Raises `ValueError` for an unknown profile, for no references, and as `score_pair` does.
    """
    _check_profile(profile)
    if isinstance(references, str):
        references = [references]
    if not references:
        raise ValueError(f"{profile} needs at least one reference, got none")
    analysed = _analyse(answer, profile)
    rows = [_score(analysed, _reference(reference, profile), profile) for reference in references]
    return dict(zip(FIELDS, map(max, zip(*rows, strict=True)), strict=True))


def score_pair(answer: str, reference: str, profile: Profile) -> dict[str, float]:
    """The seven fields of `answer` against one reference.

    Raises `ValueError` for an unknown profile, and where the reference is empty or consists of periods only while the
    answer has something to compare (an empty answer scores zero before the reference is looked at).
    """
    return score(answer, [reference], profile)


def _check_profile(profile: str) -> None:
    if profile not in PROFILES:
        raise ValueError(f"unknown profile {profile!r}; known: {', '.join(PROFILES)}")


def _analyse(text: str, profile: Profile) -> _Text:
    # A sentence of nothing but blanks is one empty token: "Paris. " has a precision of 0.5 against "Paris".
    pieces = [tuple(piece.split()) or ("",) for piece in text.split(".") if piece]
    sentences = tuple((piece, frozenset(piece)) for piece in pieces)
    words = words_v0_2(text) if profile == "continuous_eval_v0_2" else words_v0_3(text)
    return _Text(
        text=text,
        sentences=sentences,
        vocabulary=frozenset[str]().union(*pieces),
        words=frozenset(words),
        word_count=len(words),
        ngrams=_character_ngrams(text),
    )


def _character_ngrams(text: str) -> tuple[Mapping[str, int], ...]:
    grams = list(text)
    counts = [Counter(grams)]
    for shift in range(1, _MAX_ORDER):
        grams = list(map(add, grams, text[shift:]))
        counts.append(Counter(grams))
    return tuple(counts)


def _reference(text: str, profile: Profile) -> _Reference:
    return _cached_reference(text, profile) if len(text) <= _CACHED_LENGTH else _analyse_reference(text, profile)


def _analyse_reference(text: str, profile: Profile) -> _Reference:
    content = _analyse(text, profile)
    repeated = [tuple((gram, count) for gram, count in counts.items() if count > 1) for counts in content.ngrams]
    return _Reference(content, tuple(repeated))


_cached_reference = lru_cache(maxsize=_CACHED_REFERENCES)(_analyse_reference)


def _score(answer: _Text, reference: _Reference, profile: Profile) -> tuple[float, ...]:
    """The values of `FIELDS` for one pair."""
    content = reference.content
    if _counts_as_empty(answer, profile):
        rouge = (0.0, 0.0, 0.0)
    elif not content.sentences:
        raise ValueError(f"{profile}: the reference {content.text!r} is blank (empty or periods only)")
    else:
        rouge = _rouge_l(answer, content)
    return *rouge, *_token_overlap(answer, content), _bleu(answer, reference)


def _counts_as_empty(answer: _Text, profile: Profile) -> bool:
    """Whether ROUGE-L is zero without a look at the reference: in v0.3 so is an answer of ASCII punctuation only."""
    if profile == "continuous_eval_v0_2":
        return not answer.sentences
    return not answer.text.strip(string.punctuation)


def _rouge_l(answer: _Text, reference: _Text) -> tuple[float, float, float]:
    matched = len(_matched_tokens(answer, reference))
    precision = matched / len(answer.vocabulary)
    recall = matched / len(reference.vocabulary)
    return precision, recall, 2.0 * (precision * recall / (precision + recall + 1e-8))


def _matched_tokens(answer: _Text, reference: _Text) -> set[str]:
    """The union, over all pairs of sentences, of the tokens of their longest common subsequence."""
    matched: set[str] = set()
    shared = answer.vocabulary & reference.vocabulary
    for expected, expected_set in reference.sentences:
        if expected_set.isdisjoint(shared):
            continue
        for given, given_set in answer.sentences:
            common = expected_set & given_set
            if common <= matched:  # the subsequence can add nothing; true for an empty set as well
                continue
            if len(common) == 1:
                matched |= common
            else:
                matched |= _common_subsequence_tokens(
                    [token for token in expected if token in common], [token for token in given if token in common]
                )
            if len(matched) == len(shared):
                return matched
    return matched


def _common_subsequence_tokens(expected: Sequence[str], given: Sequence[str]) -> set[str]:
    """The tokens of that longest common subsequence which the original's back-tracking finds.

    The original walks back from the ends of both: equal tokens are taken, otherwise it goes up in `expected` where
    that table cell is strictly greater, else left in `given`. Going left on ties means that from (i, j) it reaches the
    smallest j with the same length before anything else happens, so only these columns matter. They are the columns where
    row i of the table rises by one, and a row of these is one integer in the bit-parallel computation of
    H. Hyyro (2004), "Bit-parallel LCS-length computation revisited": bit j - 1 is set where row i rises at j.
    len(expected) rows of len(given) bits take 3 MB for two texts of 5,000 words.
    """
    if expected == given:
        return set(expected)
    positions: dict[str, int] = {}
    for column, token in enumerate(given):
        positions[token] = positions.get(token, 0) | 1 << column
    full = (1 << len(given)) - 1
    flat = full  # bits where the current row does not rise
    rises: list[int] = []
    for token in expected:
        hits = flat & positions[token]
        flat = ((flat + hits) | (flat - hits)) & full
        rises.append(flat ^ full)
    tokens: set[str] = set()
    row = len(expected) - 1
    column = rises[row].bit_length() - 1
    while column >= 0:
        if expected[row] == given[column]:
            tokens.add(given[column])
            below = rises[row - 1] & ((1 << column) - 1) if row else 0
            column = below.bit_length() - 1
        row -= 1
    return tokens


def _token_overlap(answer: _Text, reference: _Text) -> tuple[float, float, float]:
    common = len(answer.words & reference.words)
    if not common:
        return 0.0, 0.0, 0.0
    precision = common / answer.word_count
    recall = common / reference.word_count
    return precision, recall, 2 * (precision * recall / (precision + recall))


def _bleu(answer: _Text, reference: _Reference) -> float:
    """Sentence BLEU of orders 1 to 4 over characters, unsmoothed, one reference (Papineni et al. 2002)."""
    length, reference_length = len(answer.text), len(reference.content.text)
    logarithms: list[float] = []
    for order, (given, expected, repeated) in enumerate(
        zip(answer.ngrams, reference.content.ngrams, reference.repeated, strict=True), start=1
    ):
        matches = len(expected.keys() & given.keys())
        for gram, count in repeated:
            matches += max(0, min(count, given.get(gram, 0)) - 1)
        if not matches and order == 1:
            return 0.0
        precision = matches / (length - order + 1) if matches else sys.float_info.min
        logarithms.append(math.log(precision) / _MAX_ORDER)
    penalty = 1.0 if length > reference_length else math.exp(1 - reference_length / length)
    return penalty * math.exp(math.fsum(logarithms))
