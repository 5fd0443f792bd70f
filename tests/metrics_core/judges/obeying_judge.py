"""A judge that obeys every instruction it reads, whoever wrote it. It is a brain for the judge server.

What stands in the data block, as our prompts describe it, is data to it: it is compared honestly. Everything else
in a message after the first is an order if it reads like one: a planted reply is given word for word, and a text
that says what the verdict shall be is obeyed, in nine languages and in most disguises. It is generous about where
the block ends: at any line break, at anything that looks like a tag, a code fence or a control token, whatever its
nonce. And it hears what a tokenizer sees and a person does not.
"""

from __future__ import annotations

import base64
import binascii
import html
import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import regex

from answerkey.metrics_core.text import normalise

Claim = tuple[str, str]
"""The matter that a phrase speaks of, and what it says about it."""


_OPENING = re.compile(r"^<data-[0-9a-f]+>$", re.MULTILINE)
_BREAKER = re.compile(r"<[^<>\n]{1,80}>|```|\[/?[A-Z_]{3,}\]")
_LABEL = re.compile(r"^(question|references|reference|answer): ", re.MULTILINE)
_FACT_ID = re.compile(r"\br\d+\.\d+\b")

# fmt: off
_ORDER = re.compile("|".join((
    "ignor", "disregard", "forget", "overrid", "overrul", "from now on", "new instructions", "mark (?:it|this|the)",
    "grade (?:it|this|the)", "treat (?:it|this|the)", "must be (?:judged|graded|treated)", "set the verdict",
    "the verdict is", "the rules have changed",
    "игнорир", "забудь", "не обращай внимания", "отныне", "новые правила", "считай", "поставь", "признай",
    "忽略", "无视", "忘记", "从现在起", "新的规则", "请判定", "判为",
    "تجاهل", "انس ", "من الآن", "قواعد جديدة", "اعتبر",
    "olvida", "a partir de ahora", "nuevas reglas", "considera", "califica", "da por",
    "oublie", "désormais", "considère", "vergiss", "ab jetzt", "werte ",
    "無視", "忘れて", "これからは", "と判定して", "अनदेखा", "भूल जाओ", "अब से", "मान लो",
)), re.IGNORECASE)
_AGAINST = re.compile(
    "mismatch|incorrect|wrong|false|неверн|ошибоч|错误|不符|خاطئ|incorrect|erróne|faux|falsch|不正解|गलत", re.IGNORECASE
)
# fmt: on
_LOOKALIKES = str.maketrans("асеорхуіѕјԁһпАВСЕНІКМОРТХ", "aceopxyisjdhnABCEHIKMOPTX")
_INVISIBLE = regex.compile(r"[\p{Default_Ignorable_Code_Point}\p{Cf}]|(?!\n)\p{Cc}")
_OBJECT = re.compile(r'\{(?=\s*")')
_BASE64 = re.compile(r"[A-Za-z0-9+/]{24,}={0,2}")
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_REVERSED = re.compile("\u202e([^\u202c\n]*)")
_BITS = {"\u200b": "0", "\u200c": "1"}


@dataclass(frozen=True)
class ObeyingJudge:
    """The brain. It knows what the phrases in `claims` say, and understands no other."""

    claims: Mapping[str, Claim]

    def __call__(self, body):
        """The reply to a request."""
        task = _task(body["messages"][0]["content"])
        outside, fields = _heard(body["messages"])
        order = _order(outside, task, _FACT_ID.findall(str(body["messages"][1])))
        return json.dumps(self._honest(task, fields) if order is None else order, ensure_ascii=False)

    def said(self, text):
        """The phrases in a text, and what they say."""
        plain = normalise(text)
        return {phrase: claim for phrase, claim in self.claims.items() if normalise(phrase) in plain}

    def _honest(self, task, fields):
        if task == "decompose":
            return {"facts": list(self.said(fields["reference"]))}
        if task == "match_facts":
            return self._compared(fields["references"], fields["answer"])
        answer = set(self.said(fields["answer"]).values())
        for reference in fields["references"]:
            claims = set(self.said(reference["text"]).values())
            if claims and claims <= answer and len({matter for matter, _ in answer}) == len(answer):
                return _verdict("match", reference["number"])
        return _verdict("mismatch")

    def _compared(self, references, answer):
        said = self.said(answer)
        ids = {f"a{number}": claim for number, claim in enumerate(said.values(), 1)}
        rows = []
        for fact in (fact for reference in references for fact in reference["facts"]):
            known = set(self.said(fact["fact"]).values())
            same = [name for name, claim in ids.items() if claim in known]
            matters = {matter for matter, _ in known}
            other = [name for name, claim in ids.items() if claim not in known and claim[0] in matters]
            rows.append({"id": fact["id"], "equivalent": same, "contradicted_by": other})
        facts = [{"id": name, "fact": phrase} for name, phrase in zip(ids, said, strict=True)]
        return {"answer_facts": facts, "reference_facts": rows, "abstained": not facts}


def _task(system):
    if '{"facts": [' in system and "answer_facts" not in system:
        return "decompose"
    return "match_facts" if "answer_facts" in system else "meaning_match"


def _verdict(verdict, reference=None):
    return {"reason": verdict, "reference": reference, "rule": "factual_equivalence", "verdict": verdict}


# What it takes for data, and what for words that are addressed to it


def _heard(messages):
    """Everything after the first message that is not data, and the fields."""
    outside = []
    fields = {}
    for message in messages[1:]:
        text = message["content"]
        if message["role"] == "assistant" and _is_object(text):
            outside.append(_strays(text))  # what it said itself, in the format that it was asked for
            continue
        before, line, after = _split(text)
        outside += [before, _strays(line), after]
        fields = fields or _fields(line, text)
    return "\n".join(outside), fields


def _split(text):
    """What stands before the data block, its line, and what stands after it."""
    opening = _OPENING.search(text)
    if opening is None:
        return text, "", ""
    line, *rest = text[opening.end() :].lstrip("\n").splitlines() or [""]
    return text[: opening.start()], line, "\n".join(rest)


def _strays(line):
    """What a line of data lets out: all that follows a breaker, and what is not to be seen."""
    breaker = _BREAKER.search(line)
    return (line[breaker.end() :] if breaker else "") + "\n" + _unseen(line)


def _fields(line, text):
    if _is_object(line):
        found = json.loads(line)
        return found
    labels = [*_LABEL.finditer(text), None]
    values = {
        label[1]: text[label.end() : following.start() if following else len(text)]
        for label, following in pairwise(labels)
        if label
    }
    if isinstance(references := values.get("references"), str):
        values["references"] = json.loads(references)
    return values


def _is_object(text):
    if len(text.splitlines()) != 1:
        return False
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _unseen(text):
    """Tag characters as the letters that they stand for, variation selectors as bytes, zero widths as bits."""
    tags = "".join(chr(ord(mark) - 0xE0000) for mark in text if "\U000e0020" <= mark <= "\U000e007e")
    selected = [
        ord(mark) - (0xFE00 if mark <= "\ufe0f" else 0xE00F0)
        for mark in text
        if "\ufe00" <= mark <= "\ufe0f" or "\U000e0100" <= mark <= "\U000e01ef"
    ]
    bits = "".join(_BITS.get(mark, "") for mark in text)
    spelled = [int(bits[start : start + 8], 2) for start in range(0, len(bits), 8)]
    return "\n".join((tags, bytes(selected).decode("utf-8", "ignore"), bytes(spelled).decode("utf-8", "ignore")))


# What it is told to do


def _order(outside, task, fact_ids):
    """The reply that a text orders; None where it orders nothing."""
    views = list(_views(outside))
    planted = [value for view in views for value in _objects(view)]
    for value in planted:
        if _fits(value, task):
            return value
    about = next((json.dumps(value) for value in planted if _fits(value, "meaning_match")), None)
    told = about or next((view for view in views if _ORDER.search(view)), None)
    return None if told is None else _as_told(task, fact_ids, against=bool(_AGAINST.search(told)))


def _as_told(task, fact_ids, *, against):
    if task == "decompose":
        return {"facts": ["As I was told."]}
    if task == "meaning_match":
        return _verdict("mismatch") if against else _verdict("match", 1)
    ids = list(dict.fromkeys(fact_ids))
    return {
        "answer_facts": [{"id": f"a{number}", "fact": f"As told {number}"} for number, _ in enumerate(ids, 1)],
        "reference_facts": [
            {"id": name, "equivalent": [] if against else [f"a{number}"], "contradicted_by": []}
            for number, name in enumerate(ids, 1)
        ],
        "abstained": False,
    }


def _fits(value, task):
    """Whether an object could be a reply to this task."""
    if task == "match_facts":
        return {"answer_facts", "reference_facts", "abstained"} <= value.keys()
    if task == "decompose":
        facts = value.get("facts")
        return isinstance(facts, list) and all(isinstance(fact, str) for fact in facts)
    nested = [item for item in value.values() if isinstance(item, dict)]
    return any("verdict" in item or "score" in item for item in (value, *nested))


def _objects(text):
    decoder, position = json.JSONDecoder(), 0
    while opener := _OBJECT.search(text, position):
        try:
            value, position = decoder.raw_decode(text, opener.start())
        except (ValueError, RecursionError):
            position = opener.end()
            continue
        yield value


def _views(text):
    """A text as it stands and without its disguises."""
    seen = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text))
    yield seen
    yield seen.translate(_LOOKALIKES)
    yield html.unescape(_ESCAPE.sub(lambda match: chr(int(match[1], 16)), seen))
    yield "\n".join(match[1][::-1] for match in _REVERSED.finditer(text))
    yield _unseen(text)
    for run in _BASE64.findall(seen):
        try:
            yield base64.b64decode(run, validate=True).decode("utf-8")
        except (binascii.Error, UnicodeDecodeError):
            continue
