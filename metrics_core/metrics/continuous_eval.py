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
reference of blanks alone is no error, as in the original.

How they cut a text:
* sentences for ROUGE-L, and n-grams of characters for BLEU, are the same in both profiles (`_analyse`, `_Text.counts`).
* `words_v0_2`: sentences, then Penn Treebank words, as NLTK 3.8.1 cut them (the version of January 2024, when
  the published numbers were made). Case and punctuation stay; clitics and contractions are taken apart.
* `words_v0_3`: lower case, ASCII punctuation deleted (which *joins* what it stood between), English stop
  words dropped, contractions taken apart, numbers turned into floats.

Limit: NLTK found sentences with a trained model (punkt). `sentences` follows its decision rules with a short
list of abbreviations and sentence openers instead of the trained tables. That can move only
`token_overlap_*` of v0.2, by the one token that a final period is: it did for 16 of 50,163 English answers,
questions and references, such as "an average U.S. Congressman".
"""

import math
import re
import string
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import add
from typing import Final, Literal, get_args

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

Token = str | float
_Sentence = tuple[tuple[str, ...], frozenset[str]]


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
        """Counts of all n-grams of characters, blanks included, of order 1 to 4."""
        grams = list(self.text)
        counts = [Counter(grams)]
        for shift in range(1, _MAX_ORDER):
            grams = list(map(add, grams, self.text[shift:]))
            counts.append(Counter(grams))
        return counts


def score(answer: str, references: Sequence[str], profile: Profile) -> dict[str, float]:
    """The seven fields of `answer`, each the maximum over `references`.

    Raises `ValueError` for a reference that is empty or periods only, unless the answer is empty too (an empty answer
    scores zero before the reference is looked at).
    """
    analysed = _analyse(answer, profile)
    rows = [_score(analysed, _analyse(reference, profile), profile) for reference in references]
    return dict(zip(FIELDS, map(max, zip(*rows, strict=True)), strict=True))


def _analyse(text: str, profile: Profile) -> _Text:
    # Sentences of ROUGE-L are cut at every "." and hold none. One of nothing but blanks is an empty token, so that
    # "Paris. " has a precision of 0.5 against "Paris".
    pieces = dict.fromkeys(tuple(piece.split()) or ("",) for piece in text.split(".") if piece)
    words = words_v0_2(text) if profile == "continuous_eval_v0_2" else words_v0_3(text)
    return _Text(
        text=text,
        sentences=[(piece, frozenset(piece)) for piece in pieces],
        vocabulary=frozenset(chain.from_iterable(pieces)),
        words=frozenset(words),
        word_count=len(words),
    )


def _score(answer: _Text, reference: _Text, profile: Profile) -> tuple[float, ...]:
    """The values of `FIELDS` for one pair."""
    # ROUGE-L of an empty answer is zero without a look at the reference. In v0.3 so is that of ASCII punctuation only.
    is_empty = not answer.sentences
    if profile == "continuous_eval_v0_3":
        is_empty = not answer.text.strip(string.punctuation)
    if is_empty:
        rouge = (0.0, 0.0, 0.0)
    elif not reference.sentences:
        raise ValueError(f"{profile}: the reference {reference.text!r} is blank (empty or periods only)")
    else:
        rouge = _rouge_l(answer, reference)
    return *rouge, *_token_overlap(answer, reference), _bleu(answer, reference)


def _rouge_l(answer: _Text, reference: _Text) -> tuple[float, float, float]:
    # The union, over all pairs of sentences, of the tokens of their longest common subsequence
    matched: set[str] = set()
    for expected, expected_set in reference.sentences:
        for answered, answered_set in answer.sentences:
            common = expected_set & answered_set
            # Where all of them are matched already, the subsequence can add nothing.
            if not common <= matched:
                matched |= _common_subsequence_tokens(
                    [token for token in expected if token in common], [token for token in answered if token in common]
                )
    precision = len(matched) / len(answer.vocabulary)
    recall = len(matched) / len(reference.vocabulary)
    return precision, recall, 2.0 * (precision * recall / (precision + recall + 1e-8))


def _common_subsequence_tokens(expected: Sequence[str], answered: Sequence[str]) -> set[str]:
    """The tokens of that longest common subsequence which the original's back-tracking finds.

    The original walks back from the ends of both: equal tokens are taken, otherwise it goes up in `expected`
    where that table cell is strictly greater, else left in `answered`. Since ties go left, it reaches the smallest
    column of the same length before anything else happens, and only those columns matter: where a row of the
    table rises. Rows of these are single integers in the bit-parallel computation of H. Hyyro (2004),
    "Bit-parallel LCS-length computation revisited". Tokens that only one side has never change the walk, so
    the caller leaves them out. Two texts of 5,000 words take 3 MB for len(expected) x len(given) bits.
    """
    if expected == answered:
        return set(expected)
    # By token, the columns that it stands in, as the bits of an integer
    positions: dict[str, int] = {}
    for column, token in enumerate(answered):
        positions[token] = positions.get(token, 0) | 1 << column
    full = (1 << len(answered)) - 1
    flat = full  # bits where the current row does not rise
    rises: list[int] = []
    for token in expected:
        hits = flat & positions[token]
        flat = ((flat + hits) | (flat - hits)) & full
        rises.append(flat ^ full)
    # The walk back from the ends of both
    tokens: set[str] = set()
    row = len(expected) - 1
    column = rises[row].bit_length() - 1
    while column >= 0:
        if expected[row] == answered[column]:
            tokens.add(answered[column])
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
    length = len(answer.text)
    reference_length = len(reference.text)
    # For each order, the character n-grams in common, each counted as often as it is in both texts.
    matches = [
        (in_answer & in_reference).total()
        for in_answer, in_reference in zip(answer.counts, reference.counts, strict=True)
    ]
    if not matches[0]:
        return 0.0
    logarithms = []
    for shift, n_matched in enumerate(matches):
        precision = n_matched / (length - shift) if n_matched else sys.float_info.min
        logarithms.append(math.log(precision) / len(matches))
    # A text that is shorter than its reference is penalised
    penalty = 1.0 if length > reference_length else math.exp(1 - reference_length / length)
    return penalty * math.exp(math.fsum(logarithms))


_MAX_ORDER = 4

_STOP_WORD_LIST = """
    i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers
    herself it its itself they them their theirs themselves what which who whom this that these those am is
    are was were be been being have has had having do does did doing a an the and but if or because as until
    while of at by for with about against between into through during before after above below to from up
    down in out on off over under again further then once here there when where why how all any both each few
    more most other some such no nor not only own same so than too very s t can will just don should now d ll
    m o re ve y ain aren couldn didn doesn hadn hasn haven isn ma mightn mustn needn shan shouldn wasn weren
    won wouldn
"""
STOP_WORDS: frozenset[str] = frozenset(_STOP_WORD_LIST.split())
"""English stop words of v0.3. Entries with an apostrophe are absent: punctuation is gone before the look-up,
so they never matched. "no", "not" and "nor" are in it on purpose: that is what the original dropped."""

_ABBREVIATION_LIST = """
    adm ave bros cie co col corp dr ft gen inc jr lt ltd maj messrs mg mr mrs ms prof rep reps sen sr st vs vt yr
    jan feb aug sep sept oct nov dec tues wed fri ariz calif colo conn fla ga ill kan ky mich minn nev okla ore
    pa tenn va wash wis w.va d.c l.a n.c n.d n.h n.j n.y s.c u.k u.n u.s u.s.a u.s.s.r a.d a.m p.m m.b.a ph.d
    a.a b.f d.h d.w e.f e.l f.j g.d h.f h.m j.b j.c j.j j.k j.p j.r l.f r.h r.i r.j r.k r.t t.j w.c w.r w.w
"""
_OPENER_LIST = "according also although despite even however indeed instead many meanwhile since though thus yet"
_ABBREVIATIONS = frozenset(_ABBREVIATION_LIST.split())
_LONGEST_ABBREVIATION = max(map(len, _ABBREVIATIONS))
# Words that open a sentence when capitalised after an abbreviation.
_OPENERS = frozenset(_OPENER_LIST.split()) | {word for word in STOP_WORDS if len(word) > 1 or word in "ai"}
# A period after these letters is always an abbreviation; after the others it depends on the next word.
_LETTER_ABBREVIATIONS = frozenset("cdefghklmnprstvw")
_BREAK_CANDIDATE = re.compile(r"""[.?!](?=[)";}\]*:@'({\[!?]|\s+\S)""")
_ASCII_BLANK = re.compile(r"[ \t\n\r\x0b\x0c]")
_BLANKS = re.compile(r"\s*")
_WORD_BEFORE = re.compile(r"""[^\s"'({\[)}\];*:@!?]*$""")
_WORD_AFTER = re.compile(r"\w*")
_NUMBER = re.compile(r"-?[.,]?\d[\d,.-]*")
_CLOSERS = re.compile(r"""["')\]}]+(?:\s+|(?=--)|$)""", re.MULTILINE)
_CONTEXT = 64  # characters looked at on the left of a period; longer "words" are no abbreviations


def sentences(text: str) -> list[str]:
    """Cut `text` into sentences, each without white space at its end; blank text gives none."""
    candidates = list(_BREAK_CANDIDATE.finditer(text))
    if not candidates:
        return [sentence] if (sentence := text.rstrip()) else []
    pieces: list[str] = []
    start = 0
    for candidate, following in zip(candidates, [*candidates[1:], None], strict=False):
        end = candidate.end()
        # Of several candidates in one run of non-blank characters only the last one counts.
        if following is not None and not _ASCII_BLANK.search(text, end, following.start()):
            continue
        if candidate.group() == "." and not _period_ends_sentence(text, end):
            continue
        next_start = _skip_blanks(text, end)
        closers = _CLOSERS.match(text, next_start)
        if closers:  # quotes and brackets that close stay with the sentence that they close
            end = next_start + len(closers.group().rstrip())
            next_start = closers.end()
        pieces.append(text[start:end])
        start = next_start
    pieces.append(text[start:].rstrip())
    return [piece for piece in pieces if piece]


def _skip_blanks(text: str, position: int) -> int:
    blanks = _BLANKS.match(text, position)
    return blanks.end() if blanks else position


def _period_ends_sentence(text: str, end: int) -> bool:
    """Punkt's decision about the period at `text[end - 1]`, with what stands around it as the evidence."""
    preceding = text[max(0, end - _CONTEXT) : end - 1].lower()
    word = preceding[preceding.rfind(" ") + 1 :]
    if word.isalpha() and len(word) > _LONGEST_ABBREVIATION:
        return True
    delimited = _WORD_BEFORE.search(word)
    word = delimited.group() if delimited else ""
    position = _skip_blanks(text, end)
    # The word behind the period tells whether a sentence begins
    following = _WORD_AFTER.match(text, position)
    next_word = following.group() if following else ""
    opens = next_word[:1].isupper() and next_word.lower() in _OPENERS
    continues = next_word[:1].islower() or text[position] in ";:,.!?"
    # An initial, as in "J. Smith"
    if len(word) == 1 and word.isalpha():
        name_follows = next_word[:1].isupper() and not opens
        return word not in _LETTER_ABBREVIATIONS and not (continues or name_follows)
    suffix = word.rpartition("-")[2]
    if word.endswith(".") or suffix in _ABBREVIATIONS or suffix in _LETTER_ABBREVIATIONS:
        return opens
    return not (continues and _NUMBER.fullmatch(word))


_QUOTE = re.compile("[\"'`«“‘„»”’]")
_OPENING_MARKS = ("«", "“", "‘", "„")
_BACKTICKS = re.compile("`+")
# Looking behind only after the quote lets the engine skip to the next quote; so do the patterns below.
_OPENING_QUOTE = re.compile(r"""(?:"(?<=[ (\[{<]")|''(?<=[ (\[{<]''))""")
_QUOTED_LETTER = re.compile(r"'(?!re|ve|ll|m|t|s|d|n)(?=\w\b)", re.IGNORECASE)
_CLOSING_MARKS = ("»", "”", "’", "''")
_AFTER_PERIOD = "])}>\"'»”’ "
_SEPARATOR = re.compile(r"([:,])(\D|$)")
_ELLIPSIS = re.compile(r"\.{2,}")
_MARKS = (";", "@", "#", "$", "%", "&", "?", "!")
_APOSTROPHE = re.compile(r"'(?<=[^']') ")
_BRACKETS = ("[", "]", "(", ")", "{", "}", "<", ">", "*", "--")
_CLITIC = re.compile(r"'(?<=[^' ]')(?=[sSmMdD]? )")
_LONG_CLITIC = re.compile(r"(?<=[^' ])(?=(?:'ll|'LL|'re|'RE|'ve|'VE|n't|N'T) )")
_CONTRACTED = ("cannot", "gimme", "gonna", "gotta", "lemme", "wanna", "d'ye", "more'n", "'tis", "'twas")
_CONTRACTIONS = (
    re.compile(
        r"\b(can(?=not\b)|gim(?=me\b)|gon(?=na\b)|got(?=ta\b)|lem(?=me\b)|wan(?=na\s))(not|me|na|ta)",
        re.IGNORECASE,
    ),
    re.compile(r"\b(d(?='ye\b)|more(?='n\b))('ye|'n)", re.IGNORECASE),
    re.compile(r"(?<= )('t)(is|was)\b", re.IGNORECASE),
)


def words_v0_2(text: str) -> list[Token]:
    """Treebank words of every sentence, case and punctuation kept: "isn't." gives "is", "n't", "."."""
    return list(chain.from_iterable(map(_treebank_words, sentences(text))))


def _treebank_words(sentence: str) -> list[str]:
    """Words of one sentence after the Penn Treebank conventions, with the extensions of NLTK 3.8.1.

    The order of the steps is part of the result: a later rule sees the blanks that an earlier one put in.
    """
    quoted = _QUOTE.search(sentence) is not None
    if quoted:
        # Double quotes that open become two backticks
        sentence = _set_apart(sentence, _OPENING_MARKS)
        if "`" in sentence:
            sentence = _BACKTICKS.sub(r" \g<0> ", sentence)
        if sentence.startswith('"'):
            sentence = "``" + sentence[1:]
        sentence = _OPENING_QUOTE.sub(" `` ", sentence.replace("``", " `` "))
        sentence = _QUOTED_LETTER.sub("' ", sentence)
    # Only the last period of a sentence is a token, and only if no second one stands before it
    body = sentence.rstrip(_AFTER_PERIOD)
    if body.endswith(".") and len(body) > 1 and body[-2] != ".":
        sentence = f"{body[:-1]} . {sentence[len(body) :]}"
    if "," in sentence or ":" in sentence:
        # The character after a separator is consumed with it, so of two in a row the second stays glued.
        sentence = _SEPARATOR.sub(r" \1 \2", sentence)
    if ".." in sentence:
        sentence = _ELLIPSIS.sub(r" \g<0> ", sentence)
    sentence = _set_apart(sentence, _MARKS)
    if quoted:
        sentence = _APOSTROPHE.sub(" ' ", sentence)
    sentence = f" {_set_apart(sentence, _BRACKETS)} "
    if quoted:
        sentence = _set_apart(sentence, _CLOSING_MARKS).replace('"', " '' ")
        sentence = _LONG_CLITIC.sub(" ", _CLITIC.sub(" '", sentence))
    return _split_contractions(sentence).split()


def _set_apart(text: str, marks: tuple[str, ...]) -> str:
    for mark in marks:
        if mark in text:
            text = text.replace(mark, f" {mark} ")
    return text


def _split_contractions(text: str) -> str:
    lowered = text.lower()
    if any(word in lowered for word in _CONTRACTED):
        for contraction in _CONTRACTIONS:
            text = contraction.sub(r" \1 \2 ", text)
    return text


_PUNCTUATION = str.maketrans("", "", string.punctuation)
_GLUED_BREAK = re.compile(r"""[.?!][)";}\]*:@'({\[!?]""")
_WHOLE_NUMBER = re.compile(r"\d+(?:e\d+)?")


def words_v0_3(text: str) -> list[Token]:
    """Lower-case words without punctuation and stop words; what looks like a number ("12", "1e2") is a float."""
    # A sentence end that no blank follows keeps two words apart, which deleting the punctuation would join.
    pieces = sentences(text) if _GLUED_BREAK.search(text) else [text]
    tokens: list[Token] = []
    for piece in pieces:
        bare = piece.lower().translate(_PUNCTUATION)
        words = [word for word in bare.split() if word not in STOP_WORDS]
        if any(word in bare for word in _CONTRACTED):
            words = _split_contractions(f" {' '.join(words)} ").split()
        for word in words:
            tokens.append(float(word) if _WHOLE_NUMBER.fullmatch(word) else word)
    return tokens
