"""A request to a model, with everything that could change the reply; the reply; and the ways to get none."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from functools import cached_property
from typing import Literal

from answerkey.metrics_core.sample import content_hash

Message = dict[str, str]
FailureKind = Literal["limited", "trouble", "again", "refused", "permanent", "fatal"]
"""What an error means: slow down; the server is in trouble, so wait; this reply was useless, so ask once more; not in
this format or with these parameters; this request is hopeless; every request to this model is."""
ReplyKind = Literal["text", "refusal", "tool_call", "thoughts"]
"""What a reply consists of: a text; a field in which the model declines; a call of a tool that was not offered;
thoughts that no answer follows."""

NO_CONNECTION = "connection"
"""Code of a call to a server that could not be reached, so that nothing was sent."""
GARBLED = "garbled"
"""Code of a status 200 with something that is no completion: it may have to be paid."""
ERROR_IN_REPLY = "error_in_reply"
"""Code of an answer with status 200 that reports trouble of the server within."""


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
        extras: what else is sent, as `provider_options.extras` has it; empty: nothing.
        again: what it is asked again for, although there is a reply; empty: it is asked once.

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
    extras: str = ""
    again: str = ""

    @cached_property
    def key(self) -> str:
        """128-bit hash of all fields, hex."""
        values = list(astuple(self))
        # An option that is not used changes no key, so that what was paid before there was such an option stays known.
        while values[-1] == "":
            values.pop()
        return content_hash(values)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The chat messages; without instructions there is no system message."""
        user = {"role": "user", "content": self.user}
        return ({"role": "system", "content": self.system}, user) if self.system else (user,)


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply of a model.

    Attributes:
        text: what the model says. For another `kind`: the words of its refusal, the call, the thoughts.
        tokens_in, tokens_out: as the server counts them; None where it does not say, or not credibly.
        model: the one that answered, as the server names it.
        cached_tokens: those of `tokens_in` that the provider had in its cache.
    """

    text: str
    finish_reason: str
    tokens_in: int | None
    tokens_out: int | None
    model: str
    fingerprint: str
    cached_tokens: int | None = None
    kind: ReplyKind = "text"


@dataclass(eq=False)
class CallError(Exception):
    """A call without a reply.

    Attributes:
        retry_after: seconds that the server asks to wait.
        parameter: the setting that the server refused, or "system", the role.
        about_format: whether the server spoke of the format.
        most_tokens: the most that it takes as `max_tokens`.

    >>> CallError("limited", "http_429", "slow down", retry_after=2.0).retry_after
    2.0
    """

    kind: FailureKind
    code: str
    message: str
    retry_after: float | None = None
    parameter: str | None = None
    about_format: bool = False
    most_tokens: int | None = None

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class Unsent(Exception):
    """A call in a batch was not worked on, so that nothing is paid for it."""


@dataclass(eq=False)
class CallFailed(Exception):
    """A model was asked and gave nothing that can be used.

    >>> str(CallFailed("timeout", "no reply within 60 s"))
    'timeout: no reply within 60 s'
    """

    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


@dataclass(eq=False)
class CallSkipped(Exception):
    """A model was not asked, and can be asked later: the budget is used up, the run was cancelled, the question waits
    in a batch, or, where `unavailable`, its server accepts no calls for now.
    """

    message: str
    unavailable: bool = field(default=False, kw_only=True)
