"""What a question asks for and what a reference is: a number, a date, a name, or words."""

from __future__ import annotations

from typing import Literal

from answerkey.metrics_core.offline_judge.reading import Text
from answerkey.metrics_core.offline_judge.vocabulary import word_set

Asked = Literal["who", "when", "where", "how_many", "why", "which", "closed", "other"]

_ASKING: tuple[tuple[Asked, frozenset[str]], ...] = (
    (
        "who",
        word_set("who whose whom кто кем кого кому чей чья чье чьи wer qui quien quién"),
    ),
    ("when", word_set("when когда wann quand cuando cuándo")),
    ("where", word_set("where где куда откуда wo où donde dónde")),
    ("why", word_set("why почему зачем warum pourquoi")),
    (
        "how_many",
        word_set("many much long old often far tall high big сколько wieviel combien cuántos"),
    ),
    (
        "which",
        word_set("what which что какой какая какое какие каком какого как which welche quel que qué"),
    ),
)
_TIME_WORDS = word_set("year date day month century год году день дата месяц веке век")
_CLOSED = word_set("is are was were do does did can could has have had will should ли")


def asked(question: Text) -> Asked:
    """What kind of thing `question` asks for, from the question words of a few languages."""
    tokens = frozenset(question.tokens)
    for kind, words in _ASKING:
        if not words & tokens:
            continue
        if kind == "how_many" and not tokens & {"how", "сколько", "wieviel", "combien", "cuántos"}:
            continue
        if kind == "which" and tokens & _TIME_WORDS:
            return "when"
        return kind
    if tokens and (question.tokens[0] in _CLOSED or "ли" in tokens):
        return "closed"
    return "other"


def kind_of(text: Text) -> Literal["date", "number", "name", "words"]:
    """What a reference is made of."""
    if text.dates and all(any(d.start <= i < d.stop for d in text.dates) for i in text.content):
        return "date"
    if text.numbers:
        return "number"
    return "name" if text.names else "words"
