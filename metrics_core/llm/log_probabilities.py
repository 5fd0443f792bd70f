"""How sure a model was of a value in its reply: the log-probabilities of its tokens, and of what could have been said.

Only the tokens of one value are kept, with their alternatives, since a whole reply's would be many times its text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from answerkey.metrics_core.llm.reply import value_of

ALTERNATIVES = 5
"""Tokens that are asked for in each place: as many as every provider gives that gives any."""

_LEAST = -10_000.0
"""The logarithm of a probability that is 0 in floating point; a provider may say minus infinity."""

_MOST_PLACES = 20
"""Tokens of a value that are kept: a label has fewer."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a reply: its bytes, its log-probability, and the same of what might have been said instead.

    Byte strings, since a token can end within a character.
    """

    said: bytes
    logprob: float
    others: tuple[tuple[bytes, float], ...] = ()


def tokens_of(logprobs: object) -> tuple[Token, ...]:
    """The tokens in `logprobs` of a choice, in OpenAI's format; none where it is anything else.

    >>> tokens_of({"content": [{"token": "yes", "logprob": -0.5, "bytes": None, "top_logprobs": []}]})
    (Token(said=b'yes', logprob=-0.5, others=()),)
    >>> tokens_of(None), tokens_of({"content": [{"token": "yes"}]})
    ((), ())
    """
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    tokens = []
    for entry in content if isinstance(content, list) else ():
        token = _token(entry)
        if token is None:
            # What follows would no longer be where it belongs.
            return ()
        others = entry.get("top_logprobs")
        alternatives = map(_token, others) if isinstance(others, list) else ()
        tokens.append(Token(*token, tuple(other for other in alternatives if other and other[0] != token[0])))
    return tuple(tokens)


def _token(entry: object) -> tuple[bytes, float] | None:
    if not isinstance(entry, Mapping):
        return None
    text, logprob, raw = entry.get("token"), entry.get("logprob"), entry.get("bytes")
    if isinstance(logprob, bool) or not isinstance(logprob, int | float):
        return None
    # Within its bounds before it is a float: there are whole numbers that no float holds.
    bounded = float(max(min(logprob, 0.0), _LEAST))
    if math.isnan(bounded):
        return None
    if isinstance(raw, list) and all(type(byte) is int and 0 <= byte < 256 for byte in raw):
        return bytes(raw), bounded
    return (text.encode("utf-8", "replace"), bounded) if isinstance(text, str) else None


def weights_of(tokens: Sequence[Token], key: str) -> str | None:
    """The tokens of the value of `key` in the JSON object that these tokens spell, as JSON; None: it is not there.

    A list of places; each is a list of `[text, log-probability]`, first what was said and then what else might have
    been. Texts begin where the value does, without its quote.

    >>> said = [(b'{"verdict":', 0.0), (b' "no', -0.1), (b'"}', 0.0)]
    >>> weights_of([Token(*one, ((b' "yes', -2.5),) if b"no" in one[0] else ()) for one in said], "verdict")
    '[[["no", -0.1], ["yes", -2.5]], [["\\\\"}", 0.0]]]'
    """
    # One character per byte, so that places in the one are places in the other.
    span = value_of(b"".join(token.said for token in tokens).decode("latin-1"), key)
    if span is None:
        return None
    places: list[list[tuple[str, float]]] = []
    end = 0
    for token in tokens:
        start, end = end, end + len(token.said)
        if end <= span[0] or len(places) == _MOST_PLACES:
            continue
        head = token.said[: max(0, span[0] - start)]
        said = [(_text(token.said[len(head) :]), token.logprob)]
        others = ((_after(head, other), logprob) for other, logprob in token.others)
        places.append([*said, *((text, logprob) for text, logprob in others if text)])
        # With what follows the value: only there it is clear that a 1 is not a 10.
        if end > span[1]:
            break
    return json.dumps(places)


def _after(head: bytes, other: bytes) -> str:
    """What an alternative says of the value, where the token that was said has `head` before it."""
    if not head:
        return _text(other)
    bare = other.lstrip()
    return _text(bare.removeprefix(b'"') if head.endswith(b'"') else bare)


def _text(said: bytes) -> str:
    """Text in which the bytes of a broken character stand for themselves, so that the next token can complete it."""
    return said.decode("utf-8", "surrogateescape")


def probabilities(weights: str, labels: Collection[str]) -> dict[str, float]:
    """The probability of each label, from the weights of `weights_of`; empty if the model said none of the labels.

    A label gets the probability of every beginning that it shares with no other label; case is ignored. If the tokens
    so far fit several labels, the next token decides. Texts that mean no label are left out, and the probabilities add
    up to 1.

    >>> probabilities('[[["yes", 0.0], ["no", 0.0], ["No", 0.0], ["perhaps", 0.0]]]', ["yes", "no", "maybe"])
    {'yes': 0.3333333333333333, 'no': 0.6666666666666666, 'maybe': 0.0}
    >>> found = probabilities('[[["1", -0.2], ["7", -1.8]], [["0", -0.7], ["}", -0.7]]]', ["1", "7", "10"])
    >>> {label: round(one, 2) for label, one in found.items()}
    {'1': 0.42, '7': 0.17, '10': 0.42}
    """
    mass = dict.fromkeys(labels, 0.0)
    said, so_far = "", 0.0
    for (taken, logprob), *others in json.loads(weights):
        for text, text_logprob in ((taken, logprob), *others):
            meant = list(_meant(said + text, labels))
            if len(meant) == 1:
                mass[meant[0]] += math.exp(so_far + text_logprob)
        said, so_far = said + taken, so_far + logprob
        left = len(list(_meant(said, labels)))
        if not left:
            # Its alternatives alone would be a verdict that nobody gave.
            return {}
        if left == 1:
            break
    total = sum(mass.values())
    return {label: share / total for label, share in mass.items()} if total else {}


def _meant(text: str, labels: Collection[str]) -> Iterator[str]:
    """The labels that a value can be that begins so."""
    begun = _text(text.encode("utf-8", "surrogateescape")).lstrip().casefold()
    spelled = begun.encode("utf-8", "surrogateescape")
    for label in labels:
        whole = label.casefold()
        rest = begun[len(whole) :]
        open_still = whole.encode().startswith(spelled)
        if open_still or (begun.startswith(whole) and not (rest[0].isalnum() or rest[0] in "_-")):
            yield label
