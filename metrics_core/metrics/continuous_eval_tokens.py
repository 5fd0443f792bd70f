"""How the two continuous-eval profiles cut a text: one way for each score, and two for the token overlap.

* `rouge_sentences` for ROUGE-L, `character_ngrams` for BLEU: the same in both profiles.
* `words_v0_2`: sentences, then Penn Treebank words, as NLTK 3.8.1 cut them (the version of January 2024, when
  the published numbers were made). Case and punctuation stay; clitics and contractions are taken apart.
* `words_v0_3`: lower case, ASCII punctuation deleted (which *joins* what it stood between), English stop
  words dropped, contractions taken apart, numbers turned into floats.

The oddities are the point, since old numbers must come out again. None of this is for new measurements.

Limit: NLTK found sentences with a trained model (punkt). `sentences` follows its decision rules with a short
list of abbreviations and sentence openers instead of the trained tables. That can move only
`token_overlap_*` of v0.2, by the one token that a final period is: it did for 16 of 50,163 English answers,
questions and references, such as "an average U.S. Congressman".
"""

import re
import string
from collections.abc import Iterator
from operator import add

Token = str | float

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


def rouge_sentences(text: str) -> dict[tuple[str, ...], None]:
    """The distinct sentences of `text`, in order, cut at every "." and at blanks; no "." is left in them.

    A sentence of nothing but blanks is one empty token: "Paris. " has a precision of 0.5 against "Paris".
    """
    return dict.fromkeys(tuple(piece.split()) or ("",) for piece in text.split(".") if piece)


def character_ngrams(text: str) -> Iterator[list[str]]:
    """All n-grams of characters, blanks included, first those of order 1, last those of order 4."""
    grams = list(text)
    yield grams
    for shift in range(1, _MAX_ORDER):
        grams = list(map(add, grams, text[shift:]))
        yield grams


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
            end, next_start = next_start + len(closers.group().rstrip()), closers.end()
        pieces.append(text[start:end])
        start = next_start
    pieces.append(text[start:].rstrip())
    return [piece for piece in pieces if piece]


def _skip_blanks(text: str, position: int) -> int:
    blanks = _BLANKS.match(text, position)
    return blanks.end() if blanks else position


def _period_ends_sentence(text: str, end: int) -> bool:
    """Punkt's decision about the period at `text[end - 1]`, with what stands around it as the evidence."""
    before = text[max(0, end - _CONTEXT) : end - 1].lower()
    word = before[before.rfind(" ") + 1 :]
    if word.isalpha() and len(word) > _LONGEST_ABBREVIATION:
        return True
    delimited = _WORD_BEFORE.search(word)
    word = delimited.group() if delimited else ""
    position = _skip_blanks(text, end)
    after = _WORD_AFTER.match(text, position)
    next_word = after.group() if after else ""
    opener = next_word[:1].isupper() and next_word.lower() in _OPENERS
    continues = next_word[:1].islower() or text[position] in ";:,.!?"
    if len(word) == 1 and word.isalpha():
        name_follows = next_word[:1].isupper() and not opener
        return word not in _LETTER_ABBREVIATIONS and not (continues or name_follows)
    last_part = word.rpartition("-")[2]
    if word.endswith(".") or last_part in _ABBREVIATIONS or last_part in _LETTER_ABBREVIATIONS:
        return opener
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
    return [word for sentence in sentences(text) for word in _treebank_words(sentence)]


def _treebank_words(sentence: str) -> list[str]:
    """Words of one sentence after the Penn Treebank conventions, with the extensions of NLTK 3.8.1.

    The order of the steps is part of the result: a later rule sees the blanks that an earlier one put in.
    """
    quoted = _QUOTE.search(sentence) is not None
    if quoted:
        sentence = _mark_opening_quotes(sentence)
    sentence = _set_final_period_apart(sentence)
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


def _mark_opening_quotes(sentence: str) -> str:
    """Turn double quotes that open into two backticks and set opening marks apart."""
    sentence = _set_apart(sentence, _OPENING_MARKS)
    if "`" in sentence:
        sentence = _BACKTICKS.sub(r" \g<0> ", sentence)
    if sentence.startswith('"'):
        sentence = "``" + sentence[1:]
    sentence = _OPENING_QUOTE.sub(" `` ", sentence.replace("``", " `` "))
    return _QUOTED_LETTER.sub("' ", sentence)


def _set_final_period_apart(sentence: str) -> str:
    """Only the last period of a sentence is a token, and only if no second one stands before it."""
    body = sentence.rstrip(_AFTER_PERIOD)
    if body.endswith(".") and len(body) > 1 and body[-2] != ".":
        return f"{body[:-1]} . {sentence[len(body) :]}"
    return sentence


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
    return [word for piece in pieces for word in _plain_words(piece)]


def _plain_words(piece: str) -> list[Token]:
    bare = piece.lower().translate(_PUNCTUATION)
    words = [word for word in bare.split() if word not in STOP_WORDS]
    if any(word in bare for word in _CONTRACTED):
        words = _split_contractions(f" {' '.join(words)} ").split()
    return [float(word) if _WHOLE_NUMBER.fullmatch(word) else word for word in words]
