"""The two compatibility profiles of `answer_correctness`: the old numbers of continuous-eval, digit for digit.

For people who have scores from continuous-eval and want to go on with comparable ones: `continuous_eval_v0_2`
gives what versions 0.2.0 to 0.2.4 returned (the published example), `continuous_eval_v0_3` what 0.2.5 and
later returned. For anything new use the default profile.

The original is reproduced with its faults. None of the following is a mistake to mend here:

* **BLEU counts characters**, blanks included: the original handed strings to a function that expects lists of
  words. Nothing is smoothed, but an order without a match counts as the smallest positive float, hence scores
  such as 1e-154, and an answer shorter than four characters never reaches 1.
* **ROUGE-L** is that of the `rouge` package: a sentence ends at every "." ("3.5" is two), case and punctuation
  count, precision and recall are shares of *distinct* tokens, the matched ones being the union over one
  longest common subsequence a pair of sentences, and F has `1e-8` in its denominator, so that identical texts
  get 0.999999995. An empty answer gets 0; for v0.3 an answer of punctuation alone is empty as well.
* **Token overlap** divides the number of *distinct* common tokens by the *length of the list* of tokens, so
  that repeated words are punished ("Bora Bora" against itself: 0.5).
* **v0.3 drops English stop words**, "no" and "not" among them, and deletes punctuation: "3.14" equals "314".
* With several references every field is the maximum for itself, whichever reference it comes from.

Two departures: texts of any length work (the original's recursion failed from about 1,000 words on), and the
`ValueError` for a reference without any ROUGE sentence (empty, or periods only) says what is wrong. A
reference of blanks alone is no error, as in the original. `continuous_eval_tokens` names the known limit.
"""

import math
import string
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, repeat
from operator import contains
from typing import Final, Literal, get_args

from answerkey.metrics_core.metrics.continuous_eval_tokens import (
    Token,
    character_ngrams,
    rouge_sentences,
    words_v0_2,
    words_v0_3,
)

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

# Up to this length the n-grams of one text are searched for in the other, which then need not be taken apart, and a
# reference is kept for the answers to come, at 30 kB or less each.
_SHORT = 64
_KEPT_REFERENCES = 4096

_Sentence = tuple[tuple[str, ...], frozenset[str]]
_Repeated = list[tuple[str, int]]


@dataclass(frozen=True)
class _Text:
    """What the three scores need of one text, computed once for all the texts that it is compared with."""

    text: str
    sentences: list[_Sentence]  # for ROUGE-L, each once: tokens in order, and the set of them
    vocabulary: frozenset[str]  # the tokens of all sentences
    words: frozenset[Token]  # for the token overlap
    word_count: int

    @cached_property
    def counts(self) -> list[Counter[str]]:
        """Character n-grams of order 1 to 4 with their counts."""
        return [Counter(grams) for grams in character_ngrams(self.text)]

    @cached_property
    def distinct(self) -> list[tuple[set[str], _Repeated]]:
        """For each order the distinct n-grams, and those that occur more than once with their counts."""
        return [_distinct_and_repeated(grams) for grams in character_ngrams(self.text)]


def score(answer: str, references: Sequence[str], profile: Profile) -> dict[str, float]:
    """The seven fields of `answer`, each the maximum over `references`.

    Raises `ValueError` for an unknown profile, for no references, and as `score_pair` does.
    """
    _check_profile(profile)
    if isinstance(references, str):
        references = [references]
    if not references:
        raise ValueError(f"{profile} needs at least one reference, got none")
    given = _analyse(answer, profile)
    rows = [_score(given, _analyse_reference(reference, profile), profile) for reference in references]
    return dict(zip(FIELDS, map(max, zip(*rows, strict=True)), strict=True))


def score_pair(answer: str, reference: str, profile: Profile) -> dict[str, float]:
    """The seven fields of `answer` against one reference.

    Raises `ValueError` for an unknown profile, and for a reference that is empty or periods only, unless the
    answer is empty too (an empty answer scores zero before the reference is looked at).
    """
    return score(answer, [reference], profile)


def _check_profile(profile: str) -> None:
    if profile not in PROFILES:
        raise ValueError(f"unknown profile {profile!r}; known: {', '.join(PROFILES)}")


def _analyse(text: str, profile: Profile) -> _Text:
    pieces = rouge_sentences(text)
    words = words_v0_2(text) if profile == "continuous_eval_v0_2" else words_v0_3(text)
    return _Text(
        text=text,
        sentences=[(piece, frozenset(piece)) for piece in pieces],
        vocabulary=frozenset(chain.from_iterable(pieces)),
        words=frozenset(words),
        word_count=len(words),
    )


_analyse_cached = lru_cache(maxsize=_KEPT_REFERENCES)(_analyse)


def _analyse_reference(text: str, profile: Profile) -> _Text:
    return _analyse_cached(text, profile) if len(text) <= _SHORT else _analyse(text, profile)


def _distinct_and_repeated(grams: list[str]) -> tuple[set[str], _Repeated]:
    distinct = set(grams)
    if len(distinct) == len(grams):
        return distinct, []
    return distinct, [(gram, count) for gram, count in Counter(grams).items() if count > 1]


def _score(answer: _Text, reference: _Text, profile: Profile) -> tuple[float, ...]:
    """The values of `FIELDS` for one pair."""
    if _counts_as_empty(answer, profile):
        rouge = (0.0, 0.0, 0.0)
    elif not reference.sentences:
        raise ValueError(f"{profile}: the reference {reference.text!r} is blank (empty or periods only)")
    else:
        rouge = _rouge_l(answer, reference)
    return *rouge, *_token_overlap(answer, reference), _bleu(answer, reference)


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
    shared = answer.vocabulary & reference.vocabulary
    # A sentence of one token has it in common with any sentence of the other side that holds it.
    both = (*reference.sentences, *answer.sentences)
    matched = {tokens[0] for tokens, _ in both if len(tokens) == 1 and tokens[0] in shared}
    if len(matched) == len(shared):
        return matched
    for expected, expected_set in reference.sentences:
        if expected_set & shared <= matched:
            continue
        for given, given_set in answer.sentences:
            common = expected_set & given_set
            if common <= matched:  # the subsequence can add nothing; true for an empty set as well
                continue
            if len(common) == 1:
                matched |= common
            else:
                matched |= _common_subsequence_tokens(
                    [token for token in expected if token in common],
                    [token for token in given if token in common],
                )
            if len(matched) == len(shared):
                return matched
    return matched


def _common_subsequence_tokens(expected: Sequence[str], given: Sequence[str]) -> set[str]:
    """The tokens of that longest common subsequence which the original's back-tracking finds.

    The original walks back from the ends of both: equal tokens are taken, otherwise it goes up in `expected`
    where that table cell is strictly greater, else left in `given`. Since ties go left, it reaches the smallest
    column of the same length before anything else happens, and only those columns matter: where a row of the
    table rises. Rows of these are single integers in the bit-parallel computation of H. Hyyro (2004),
    "Bit-parallel LCS-length computation revisited". Tokens that only one side has never change the walk, so
    the caller leaves them out. Two texts of 5,000 words take 3 MB for len(expected) x len(given) bits.
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


def _bleu(answer: _Text, reference: _Text) -> float:
    """Sentence BLEU of orders 1 to 4 over characters, unsmoothed, one reference (Papineni et al. 2002)."""
    length, reference_length = len(answer.text), len(reference.text)
    matches = _clipped_matches(answer, reference)
    if not matches[0]:
        return 0.0
    logarithms = [
        math.log(matched / (length - shift) if matched else sys.float_info.min) / len(matches)
        for shift, matched in enumerate(matches)
    ]
    penalty = 1.0 if length > reference_length else math.exp(1 - reference_length / length)
    return penalty * math.exp(math.fsum(logarithms))


def _clipped_matches(answer: _Text, reference: _Text) -> list[int]:
    """For each order the number of character n-grams in common, each counted as often as it is in both texts."""
    if len(reference.text) <= _SHORT:
        return _search(reference, answer.text)
    if len(answer.text) <= _SHORT:
        return _search(answer, reference.text)
    return [
        sum(min(given[gram], expected[gram]) for gram in given.keys() & expected.keys())
        for given, expected in zip(answer.counts, reference.counts, strict=True)
    ]


def _search(needles: _Text, text: str) -> list[int]:
    matches: list[int] = []
    for distinct, repeated in needles.distinct:
        found = sum(map(contains, repeat(text), distinct))
        if found:
            for gram, count in repeated:
                found += max(0, _occurrences(gram, text, count) - 1)
        matches.append(found)
    return matches


def _occurrences(gram: str, text: str, limit: int) -> int:
    """How often `gram` is in `text`, overlaps included, `limit` at most."""
    found = text.count(gram)  # leaves out overlaps, which only longer n-grams have
    if found >= limit or found == 0 or len(gram) == 1:
        return min(found, limit)
    found = 0
    position = text.find(gram)
    while position >= 0 and found < limit:
        found += 1
        position = text.find(gram, position + 1)
    return found
