"""A request to a model: everything that could change the reply, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

from answerkey.metrics_core.llm.reply import Unreadable, read_object
from answerkey.metrics_core.llm.untrusted import encoded
from answerkey.metrics_core.sample import content_hash_of_list

Message = dict[str, str]

_LONGEST_SHOWN = 20_000
_NOT_SHOWN = "(This reply is left out.)"


@dataclass(frozen=True)
class Request:
    """One question to one model.

    `key` addresses the reply in the ledger. Every field is in it, so that whatever is asked differently is
    asked anew. How the request travels (timeouts, structured output or not) is not: the reply answers the
    same question.

    Args:
        model: `ModelRef.label`.
        prompt: name and version of the prompt.
        system: the instructions.
        user: the data, fenced.
        schema: JSON schema of the reply, as JSON text. Empty: the reply is any text.
        temperature, seed, max_tokens: as the provider is asked; the seed counts the repeats.
        repeat: which of several identical questions.
        reasoning_effort: as the provider is asked; empty: it is not.
        weighed: the key of the reply whose value comes with log-probabilities; empty: none does.

    >>> Request("openai/m", "p@1", "", "Hi", "").key == Request("openai/m", "p@1", "", "Hi", "", repeat=1).key
    False
    """

    model: str
    prompt: str
    system: str
    user: str
    schema: str
    temperature: float = 0.0
    seed: int = 0
    max_tokens: int = 1_024
    repeat: int = 0
    reasoning_effort: str = ""
    weighed: str = ""

    @cached_property
    def key(self) -> str:
        """128-bit hash of all fields, hex."""
        rest = [getattr(self, name) for name in _AFTER_SYSTEM]
        # The keys of requests from before there was an effort, and from before a value could be weighed.
        while rest[-1] == "":
            rest.pop()
        return content_hash_of_list((self.model, self.prompt, self.system), rest)

    @property
    def messages(self) -> tuple[Message, ...]:
        """As chat messages: without a system message where there are no instructions."""
        user = {"role": "user", "content": self.user}
        return ({"role": "system", "content": self.system}, user) if self.system else (user,)


_AFTER_SYSTEM = tuple(one.name for one in fields(Request))[3:]
"""The fields after the instructions, which are long, and the same in most requests of a run."""


def repair(messages: Sequence[Message], reply: str, problem: str) -> tuple[Message, ...]:
    """The messages that ask for the same again, because the reply could not be used.

    A reply may repeat the text that it was given, and outside the fence that would be words of our own. So of the
    reply no more than an object is shown, encoded like the fields, and the problem without what it quotes.

    >>> asked = Request("openai/m", "p@1", "Judge.", "data", "{}").messages
    >>> [message["role"] for message in repair(asked, "no JSON", "the reply holds no JSON object")]
    ['system', 'user', 'assistant', 'user']
    """
    replied = {"role": "assistant", "content": _shown(reply)}
    plain = re.sub(r'"[^"]*"', '"..."', problem)
    again = (
        f"This reply cannot be used: {plain}. Answer the same question again. "
        "Reply with one JSON object in the format that was asked for, and nothing else."
    )
    return *messages, replied, {"role": "user", "content": again}


def _shown(reply: str) -> str:
    try:
        line = encoded(read_object(reply))
    except Unreadable:
        return _NOT_SHOWN
    return line if len(line) <= _LONGEST_SHOWN else _NOT_SHOWN
