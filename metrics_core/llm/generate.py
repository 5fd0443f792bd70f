"""Answers of a model under test: prompts filled from a template, asked through litellm, and never twice.

An answer is whatever text comes back. Ledger, rate limit, retries, deadline and budget are those of `client`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm import loop as runtime
from answerkey.metrics_core.llm.access import NO_ACCESS, NO_LIMITS, Access, CallLimits
from answerkey.metrics_core.llm.client import Client, learned_of
from answerkey.metrics_core.llm.cost import Bill, Cost, CostCounter, ExpectedCall
from answerkey.metrics_core.llm.ledger import Ledger, Origin, existing_ledger
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.provider import abilities, check
from answerkey.metrics_core.llm.reply import Unreadable
from answerkey.metrics_core.llm.request import CallFailed, CallSkipped, Request
from answerkey.metrics_core.text import is_blank

ANSWERS = "answers"
"""What is told of how far `generate` is."""
PROMPT = "answer@1"
"""Stands in the ledger as the prompt; the words themselves are the user's."""

_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_PARAMETERS = ("temperature", "seed", "max_tokens")
_GUESSED_TOKENS = 150
"""Of an answer whose length is not known yet."""

Status = Literal["generated", "from_ledger", "failed", "skipped"]


def placeholders(template: str) -> tuple[str, ...]:
    """The names in braces of a template, each once, in order. `{{` and `}}` stand for braces.

    Raises:
        UserError: a brace stands alone, or there is nothing between two.

    >>> placeholders("{question} Answer in {lang}.")
    ('question', 'lang')
    """
    names: dict[str, None] = {}
    for match in _BRACES.finditer(template):
        name = match[1]
        if match[0] in ("{", "}") or (name is not None and not name.strip()):
            excerpt = " ".join(template[max(0, match.start() - 15) : match.end() + 15].split())
            raise UserError(
                f"template: {match[0]} near {excerpt!r} names no column; write {{question}}, and {{{{ or }}}} for a "
                "brace"
            )
        if name is not None:
            names[name.strip()] = None
    return tuple(names)


def filled(template: str, values: Mapping[str, str]) -> str:
    """A template with the values of its placeholders; what looks like a placeholder in a value stays as it is.

    >>> filled("{question} Reply as {{'answer': ...}}", {"question": "What is {x}?"})
    "What is {x}? Reply as {'answer': ...}"
    """

    def text(match: re.Match[str]) -> str:
        return match[0][0] if match[1] is None else values[match[1].strip()]

    return _BRACES.sub(text, template)


@dataclass(frozen=True, slots=True)
class Prompting:
    """How a model under test is asked.

    Args:
        system: the system message; empty: none.
        template: the user message, with places like `{question}`.
        temperature, seed, max_tokens: as the provider is asked. What a server refuses is left out; see `left_out`.
        extras: what else is sent, as `provider_options.extras` has it; empty: nothing.

    >>> from answerkey.metrics_core.llm.model import ModelRef
    >>> how = Prompting(system="Be brief.", template="{question} Answer in {lang}.")
    >>> how.request(ModelRef("openai/m"), {"question": "Who wrote it?", "lang": "German"}).user
    'Who wrote it? Answer in German.'
    """

    system: str = ""
    template: str = "{question}"
    temperature: float = 0.0
    seed: int = 0
    max_tokens: int = 1_024
    extras: str = ""

    def request(self, model: ModelRef, values: Mapping[str, str], repeat: int = 1) -> Request:
        """What the model is asked about a question with these values, for its answer number `repeat`, from 1.

        Each repeat has a seed of its own: with the same seed a provider may give the same answer again.
        """
        return Request(
            model=model.label,
            prompt=PROMPT,
            system=self.system,
            user=filled(self.template, values),
            schema="",
            temperature=self.temperature,
            seed=self.seed + repeat - 1,
            max_tokens=self.max_tokens,
            repeat=repeat - 1,
            extras=self.extras,
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a question.

    `status`: generated (asked now), from_ledger (asked before), failed, or skipped (the budget, or the
    provider's quota, was used up). Without a text, `reason` says why. `bill` is what was spent now, `origin` what the
    ledger knows of the reply.
    """

    text: str | None
    status: Status
    reason: str | None
    bill: Bill
    origin: Origin | None = None


def generate(
    requests: Sequence[Request], model: ModelRef, limits: CallLimits = NO_LIMITS, access: Access = NO_ACCESS
) -> list[Answer]:
    """Ask `model`: same length, same order. The key is that of `model`.

    Raises:
        UserError: the model cannot be asked.
        LedgerError: the ledger cannot be used.

    >>> generate([], ModelRef("openai/gpt-4o-mini"))
    []
    """
    if not requests:
        return []
    progress = runtime.Progress(ANSWERS, "questions", len(requests))

    async def answer(client: Client, request: Request) -> Answer:
        bill = Bill()
        try:
            text = await client.ask(model, request, _with_text, bill)
            origin = await client.ledger.do(Ledger.origin, request.key)
            status: Status = "generated" if bill.calls else "from_ledger"
            answer = Answer(text, status, reason=None, bill=bill, origin=origin)
        except CallFailed as error:
            answer = Answer(None, "failed", str(error), bill)
        except CallSkipped as error:
            answer = Answer(None, "skipped", error.message, bill)
        progress.add(failed=answer.status == "failed", cost_usd=bill.cost_usd)
        return answer

    return runtime.ask(
        lambda client: runtime.each(requests, partial(answer, client), limits.concurrency),
        access=access,
        limits=limits,
        noun="model",
        check=lambda: check([model], limits, "model"),
        progress=progress,
    )


def estimate_cost(requests: Iterable[Request], model: ModelRef, ledger: str | None = None) -> Cost:
    """What `generate` will ask and cost. No call is made, and no ledger is created.

    Raises:
        UserError: litellm does not know the provider.
        LedgerError: the ledger cannot be read.
    """
    count = 0
    with existing_ledger(ledger) as opened:
        counter = CostCounter(opened.reply)
        for request in requests:
            count += 1
            counter.add(ExpectedCall(model, request, min(request.max_tokens, _GUESSED_TOKENS)))
        return counter.cost(ANSWERS, count)


def left_out(model: ModelRef) -> tuple[str, ...]:
    """The parameters that the model does not accept, as far as litellm and this process know."""
    # `max_tokens` is sent under its other name
    refused = learned_of(model, structured=False).best.without - {"max_tokens"}
    accepted = abilities(model.model).parameters - refused
    return tuple(name for name in _PARAMETERS if name not in accepted)


def _with_text(reply: str) -> str:
    if is_blank(reply):
        raise Unreadable("no_room", "no visible text before the answer was cut off; allow more (max_tokens)")
    return reply
