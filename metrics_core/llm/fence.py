"""Untrusted text for a judge: as data on one line, between two lines that the text cannot write."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import regex

from answerkey.metrics_core.sample import content_hash

# Brackets and backticks could open or close something; so could a square bracket before a name with a capital or a
# slash, since [INST] and [/INST] are control tokens of some models wherever they stand (no JSON has one there but
# in a text). The rest is what a judge reads and a person does not see: controls, format characters (zero width,
# bidi, tags), private use, variation selectors, unassigned characters.
_HIDDEN = r"\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}"
_ESCAPED = regex.compile(rf"[<>`{_HIDDEN}]+|\[(?=/|[a-z]*[A-Z])")
_BLOCK = re.compile(r"^<data-([0-9a-f]{32})>\n([^\n]*)\n</data-\1>$", re.MULTILINE)


def fenced(fields: Mapping[str, object]) -> str:
    """Three lines: an opening line, the fields as one line of JSON, a closing line. No line break at the end.

    Names are sorted, so equal fields give equal text. `json.loads` of the middle line gives the fields back; only
    the two halves of a character beyond U+FFFF, should a text hold them apart, come back as that character.
    The outer lines carry the hash of the middle one, so no text can hold the closing line of its own fence.

    Raises:
        TypeError: a value that JSON does not have.
        ValueError: NaN or infinity.
    """
    line = encoded(fields)
    nonce = content_hash(line)
    return f"<data-{nonce}>\n{line}\n</data-{nonce}>"


def encoded(fields: Mapping[str, object]) -> str:
    """The line of `fenced`: JSON without anything that could open, close or hide.

    Raises:
        TypeError, ValueError: as `fenced`.
    """
    plain = json.dumps(fields, ensure_ascii=False, allow_nan=False, sort_keys=True)
    line: str = _ESCAPED.sub(lambda match: _escape(match[0]), plain)
    return line


def nonce_of(text: str) -> str:
    """The nonce of the first block of `fenced` in a text: 32 hexadecimal digits.

    Raises:
        ValueError: there is no such block. One whose line was changed is none.
    """
    for block in _BLOCK.finditer(text):
        if block[1] == content_hash(block[2]):
            return block[1]
    raise ValueError("the text holds no fenced block")


def _escape(text: str) -> str:
    units = text.encode("utf-16-be", "surrogatepass").hex()
    return "".join(rf"\u{units[start : start + 4]}" for start in range(0, len(units), 4))
