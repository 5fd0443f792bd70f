"""Text that others wrote: made fit to be shown (in a message, a terminal, a database), and fenced in a prompt as data
between two lines that the text cannot write.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping

import regex

from answerkey.metrics_core.sample import content_hash

LONGEST_QUOTE = 60

_REPLACED = {"Cc": " ", "Zl": " ", "Zp": " ", "Cf": "", "Cs": "\ufffd"}
_JOINERS = "\u200c\u200d"  # these two belong to the spelling of Persian, of Indian scripts and of emoji
_MARKUP = str.maketrans(dict.fromkeys('<>`"', " "))

# Brackets and backticks could open or close something; so could a square bracket before a name with a capital or a
# slash, since [INST] and [/INST] are control tokens of some models wherever they stand (no JSON has one there but
# in a text). The rest is what a model reads and a person does not see: controls, format characters (zero width,
# bidi, tags), private use, variation selectors, unassigned characters, blank symbols.
_HIDDEN = r"\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800\U0001d159"
# Some of these belong to the spelling of honest texts, and stay where they do: joiners after a virama and between
# Arabic letters, a soft hyphen within a word, the selector and the joiners of an emoji, keycaps, three flags.
_SPELLING = "|".join(
    (
        r"(?<=\p{L}\p{Canonical_Combining_Class=Virama})[\u200c\u200d]",
        r"(?<=[\p{Arabic}\p{Mn}])\u200c(?=\p{Arabic})",
        r"(?<=\p{L})\u00ad(?=\p{L})",
        r"(?<=\p{Extended_Pictographic})\ufe0f|(?<=[0-9#*])\ufe0f(?=\u20e3)",
        r"(?<=[\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f])\u200d(?=\p{Extended_Pictographic})",
        "\U0001f3f4\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074"
        "|\U000e0077\U000e006c\U000e0073)\U000e007f",
    )
)
# What a person takes for a Latin letter and a model does not: Cyrillic and Greek letters within a Latin word, or at
# its beginning. At its end they may be a Russian ending (SMSа).
_IMITATION = "[асеорхуіѕјԁһАВСЕНІКМОРТХЅЈοΑΒΕΖΗΙΚΜΝΟΡΤΥΧ]++(?=[A-Za-z])"
_CONFUSABLE = rf"(?<!\p{{L}}){_IMITATION}|(?<=[A-Za-z]){_IMITATION}"
# Role markers of other shapes, told by their shape, since every family of models has its own: a bracket of any script
# beside a bar ([|user|]), around a role ([user], and in full width) or a name_of_parts ([im_start], but no index of an
# array), or a few letters from a tilde (]~b]user). What has no such marker is written as it always was: what is sent
# is part of the key of a paid reply.
_OPEN, _CLOSE, _BAR = r"[\[［＜﹤〈〈⟨⟪‹❮❰【〖〔《⟦〚]", r"[\]］＞﹥〉〉⟩⟫›❯❱】〗〕》⟧〛]", r"[|｜¦│∣❘⏐]"
_ROLE = "(?i:system|sys|developer|user|human|assistant|model|tool|inst|bos|eos|begin|end|sep|pad)"
_MARKER = "|".join(
    (
        rf"{_OPEN}(?={_BAR})|(?<={_BAR}){_CLOSE}",
        rf"{_OPEN}(?=[/!]?{_ROLE}{_CLOSE})",
        rf"(?<!\w){_OPEN}(?=[/!]?[a-z]+(?:_[a-z]+)+{_CLOSE})",
        rf"{_OPEN}(?=[/!]?(?:im_[a-z]+|(?:start|end|begin)_(?:of|header)_[a-z_]+){_CLOSE})",
        r"[\[\]](?=[a-z!]{0,2}~)|(?<=~[a-z!]{0,2})[\[\]]",
    )
)
_ESCAPED = regex.compile(rf"(?P<kept>{_SPELLING})|[<>`{_HIDDEN}]+|\[(?=/|[a-z]*[A-Z])|{_MARKER}|{_CONFUSABLE}")


def one_line(text: str) -> str:
    """One line that reads as it looks: white space folded, no controls, no format characters, no lone surrogates.

    >>> one_line(" It is\\n\\x1b[31m Paris.")
    'It is [31m Paris.'
    """
    if not text.isprintable():
        text = "".join(
            character if character in _JOINERS else _REPLACED.get(unicodedata.category(character), character)
            for character in text
        )
    return " ".join(text.split())


def cut(text: str, longest: int) -> str:
    """At most `longest` characters of a text; the last is an ellipsis if something is missing.

    >>> cut("a long reply", 6)
    'a lon…'
    """
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def quoted(value: object) -> str:
    """A value of JSON or YAML, which has dates, in quotation marks: at most 60 characters on one line, no markup.

    >>> quoted("a <b>\\nc")
    '"a b c"'
    """
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    plain = " ".join(one_line(text[: 2 * LONGEST_QUOTE]).translate(_MARKUP).split())
    return f'"{cut(plain, LONGEST_QUOTE)}"'


def fenced(fields: Mapping[str, object]) -> str:
    """Three lines: an opening line, the fields as one line of JSON, a closing line. No line break at the end.

    Names are sorted, so equal fields give equal text. `json.loads` of the middle line gives the fields back; only
    the two halves of a character beyond U+FFFF, should a text hold them apart, come back as that character.
    The outer lines carry the hash of the middle one, so no text can contain the closing line of its own fence.

    Raises:
        TypeError: a value that JSON does not have.
        ValueError: NaN or infinity.

    >>> fenced({"answer": "Paris <b>"}).splitlines()[1]
    '{"answer": "Paris \\\\u003cb\\\\u003e"}'
    """
    line = encoded(fields)
    nonce = content_hash(line)
    return f"<data-{nonce}>\n{line}\n</data-{nonce}>"


def encoded(fields: Mapping[str, object]) -> str:
    """The line of `fenced`: JSON without anything that could open, close, hide or pass for another letter.

    >>> encoded({"answer": "Nоte\\u200b"})  # with a Cyrillic о
    '{"answer": "N\\\\u043ete\\\\u200b"}'

    Raises:
        TypeError, ValueError: as `fenced`.
    """
    plain = json.dumps(fields, ensure_ascii=False, allow_nan=False, sort_keys=True)
    line: str = _ESCAPED.sub(lambda match: match["kept"] or _escape(match[0]), plain)
    return line


def _escape(text: str) -> str:
    units = text.encode("utf-16-be", "surrogatepass").hex()
    return "".join(rf"\u{units[start : start + 4]}" for start in range(0, len(units), 4))
