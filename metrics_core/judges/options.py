"""Every option that a user sets about judges, declared once: the library, the form and the flags read it from here."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.access import CallLimits
from answerkey.metrics_core.llm.model import ModelRef, NoKey
from answerkey.metrics_core.llm.provider_options import (
    EXTRA_BODY,
    EXTRA_HEADERS,
    Headers,
    JsonObject,
    extras,
)
from answerkey.metrics_core.validation import NO_OPTION, Validated

Jury = Literal["majority", "unanimous", "mean"]
"""How the votes of several judges, or of several repeats, become one score.

`majority`: the median vote, which for yes and no is the vote of more than half; an even split has no median and fails.
`unanimous`: the lowest vote, so an answer passes only if every vote passes it. `mean`: the mean vote.
"""

Checking = Literal["auto", "always", "never"]
"""Whether judges are checked first: `auto` where there are enough answers to judge that it is worth the calls."""

Effort = Literal["default", "none", "minimal", "low", "medium", "high", "xhigh"]
"""How much a judge thinks before it replies, where its provider offers a choice."""

OFFLINE = "offline"
"""The judge that calls no model API: rules and a small model, on this machine."""


NoLimitIfZero = BeforeValidator(lambda value: 0 if value is None else value)
"""None and 0 both mean "no limit"."""


class JudgeOptions(Validated):
    """Which judges to ask, how, and what they may cost.

    What is not an option (the key, the ledger, the run that the budget belongs to) is in `Access`.

    Raises:
        UserError: an option is out of range, or options contradict each other. The message repeats only numbers, since
            a secret may have been typed into the wrong field.

    >>> JudgeOptions(judges=["openai/gpt-4o-mini", "mistral/mistral-small-latest"], repeats=2).labels
    ('openai/gpt-4o-mini', 'mistral/mistral-small-latest')
    """

    model_config = ConfigDict(title="Judge", frozen=True, hide_input_in_errors=True, allow_inf_nan=False)

    judges: Annotated[tuple[str, ...], AfterValidator(lambda judges: judges or (OFFLINE,))] = Field(
        (OFFLINE,),
        title="Judges",
        description="offline, PROVIDER/MODEL or PROVIDER/MODEL@ADDRESS. Empty: offline, that is, rules and a small "
        "model on this machine, free.",
        examples=[["openai/gpt-4o-mini"]],
    )
    api_base: str = Field(
        "",
        title="Address",
        description="http://... of an OpenAI-compatible server, for judges without an address of their own. Empty: "
        "the provider's own.",
    )
    max_calls: Annotated[int, NoLimitIfZero] = Field(
        0,
        ge=0,
        title="Calls at most",
        description="Calls that the run may make; the rest is skipped, and the next run continues there. 0: no limit.",
    )
    max_cost_usd: Annotated[float, NoLimitIfZero] = Field(
        0.0,
        ge=0.0,
        title="Dollars at most",
        description="What the run may cost, for models whose price is known. 0: no limit.",
    )
    max_cost_total_usd: Annotated[float, NoLimitIfZero, NO_OPTION] = Field(
        0.0,
        ge=0.0,
        title="Dollars a month at most",
        description="What all runs that share the ledger may cost together in a calendar month (UTC). 0: no limit.",
    )
    price: str = Field(
        "",
        title="Price",
        description="IN,OUT: dollars per million tokens of input and output, for all judges, for instance "
        "0.15,0.6. Empty: as litellm knows it.",
    )
    cascade: Annotated[float, NoLimitIfZero] = Field(
        0.0,
        ge=0.0,
        lt=0.5,
        title="Cascade",
        description="Let the offline judge decide meaning_match where it is sure, and ask the judges only about the "
        "rest, if at most this share of its own verdicts is wrong by theirs, for instance 0.02. A trial on the answers "
        "of the run shows that; if not, they are asked about all. 0: ask them about everything.",
    )
    check: Annotated[Checking, NO_OPTION] = Field(
        "auto",
        title="Check judges",
        description="Ask each judge up to 40 questions with known answers before anything else, many of them made from "
        "the references; one that is wrong too often is stopped. auto: in runs of at least 10 answers.",
    )
    jury: Annotated[Jury, NO_OPTION] = Field(
        "majority",
        title="Jury",
        description="How several votes become one: majority, unanimous or mean.",
    )
    repeats: int = Field(
        1,
        ge=1,
        title="Repeats",
        description="How often each judge is asked about each sample. The spread of the votes is reported.",
    )
    fallbacks: tuple[Annotated[str, NoKey], ...] = Field(
        (),
        title="Fallback judges",
        description="Judges to ask, in this order, if a named judge fails for good. The report counts "
        "their verdicts, and the next run asks the named judge again.",
    )
    temperature: Annotated[float, NO_OPTION] = Field(
        0.0,
        ge=0.0,
        le=2.0,
        title="Temperature",
        description="0: as repeatable as the provider allows. Repeats of a judge without a seed need more than 0.",
    )
    max_tokens: Annotated[int, NO_OPTION] = Field(
        1_024,
        ge=1,
        title="Tokens of a reply",
        description="The longest reply, in tokens, with the judge's reasoning. A reply that was cut off is asked for "
        "once more, with four times as many.",
    )
    reasoning_effort: Annotated[Effort, NO_OPTION] = Field(
        "default",
        title="Reasoning effort",
        description="How much the judge reasons before it replies. default: as its provider sets it.",
    )
    concurrency: Annotated[int, NO_OPTION] = Field(
        64,
        ge=1,
        title="Calls at once",
        description="The most calls in flight to one model. Its rate limit is learned during the run.",
    )
    timeout_s: Annotated[float, NO_OPTION] = Field(
        60.0,
        gt=0.0,
        title="Seconds per call",
        description="Seconds after which a call is abandoned and retried.",
    )
    deadline_s: Annotated[float, NO_OPTION] = Field(
        180.0,
        gt=0.0,
        title="Seconds per question",
        description="Seconds after which a question is abandoned for good, retries and waiting included.",
    )
    extra_headers: Headers = EXTRA_HEADERS
    extra_body: JsonObject = EXTRA_BODY
    batch: bool = Field(
        False,
        title="As a batch",
        description="Send what is not in the ledger as a batch, at about half the price, and wait for it, up to a day. "
        "For OpenAI and servers with OpenAI's batch endpoints. The same command picks up a batch again.",
    )
    batch_poll_s: Annotated[float, NO_OPTION] = Field(
        60.0,
        gt=0.0,
        title="Seconds between looks",
        description="Seconds between two polls of a batch.",
    )

    @field_validator("price")
    @classmethod
    def _two_prices(cls, price: str) -> str:
        if price and _dollars_per_token(price) is None:
            raise ValueError("write the dollars per million tokens of input and output, for instance 0.15,0.6")
        return price

    @model_validator(mode="after")
    def _consistent(self) -> JudgeOptions:
        # Who judges
        if len(set(self.judges)) < len(self.judges):
            raise ValueError("a judge is named twice; `repeats` asks one judge several times")
        if OFFLINE in self.judges and len(self.judges) > 1:
            raise ValueError(
                "the offline judge cannot be part of a jury; name only the others, with `cascade` if it should decide "
                "first"
            )
        if self.offline and self.fallbacks:
            raise ValueError("the offline judge never fails, so it needs no fallback")
        if set(self.fallbacks) & {*self.judges, OFFLINE} or len(set(self.fallbacks)) < len(self.fallbacks):
            raise ValueError("a fallback is a language model that is not a judge already, and is named once")

        # What cannot be had of the offline judge, nor all of a batch
        if self.offline and self.repeats > 1:
            raise ValueError("the offline judge always gives the same verdict; leave `repeats` at 1")
        if self.offline and self.batch:
            raise ValueError("the offline judge costs nothing and takes no batch; leave `batch` out")
        if self.batch and self.extra_headers:
            raise ValueError("a batch carries no headers of its own; leave extra_headers or batch out")
        if self.offline and self.cascade:
            raise ValueError("cascade needs a judge to ask where the offline one is undecided, like openai/gpt-4o-mini")
        return self

    @property
    def extras(self) -> str:
        """What is sent with every call beside the question, as JSON text; empty: nothing."""
        return extras(self.extra_headers, self.extra_body)

    @property
    def offline(self) -> bool:
        """Whether the offline judge decides alone, so that no model API is called."""
        return self.judges == (OFFLINE,)

    @property
    def n_votes(self) -> int:
        """How often a sample is judged: by each judge, as often as it repeats."""
        return len(self.judges) * self.repeats

    @property
    def labels(self) -> tuple[str, ...]:
        """The judges as signatures and reports name them.

        Raises:
            UserError: a judge is named twice; a model name or an address is malformed.
        """
        return tuple(judge.label for judge in self.models()) or self.judges

    @property
    def fallback_labels(self) -> list[str]:
        """The fallback judges as signatures and reports name them. Raises as `labels`."""
        return [model.label for model in self.all_models()[len(self.judges) :]]

    @property
    def limits(self) -> CallLimits:
        """The limits of a run, as the client takes them."""
        return CallLimits(
            concurrency=self.concurrency,
            timeout_s=self.timeout_s,
            deadline_s=self.deadline_s,
            max_calls=self.max_calls or None,
            max_cost_usd=self.max_cost_usd or None,
            max_cost_total_usd=self.max_cost_total_usd or None,
            batch=self.batch,
            poll_s=self.batch_poll_s,
        )

    def models(self, api_key: str | None = None) -> tuple[ModelRef, ...]:
        """Every judge once, in the order in which they are named. Empty for the offline judge.

        Raises:
            UserError: a judge is named twice; a model name, an address or the key is malformed.
        """
        return self.all_models(api_key)[: len(self.judges)]

    def all_models(self, api_key: str | None = None) -> tuple[ModelRef, ...]:
        """The judges, then the fallback judges. Empty for the offline judge.

        Raises:
            UserError: a judge is named twice; a model name, an address or the key is malformed.
        """
        if self.offline:
            return ()
        price = _dollars_per_token(self.price)
        models: dict[str, ModelRef] = {}
        for text in (*self.judges, *self.fallbacks):
            model = ModelRef.parse(text, api_base=self.api_base, api_key=api_key, noun="judge", or_else=OFFLINE)
            # Both would get the single reply that the ledger keeps, and count as two votes.
            if model.label in models:
                raise UserError(f"the judge {model.label} is named twice; `repeats` asks one judge several times")
            models[model.label] = replace(model, price=price)
        return tuple(models.values())


def _dollars_per_token(price: str) -> tuple[float, float] | None:
    """The two numbers of IN,OUT, as dollars per token; None where they are not two finite numbers from 0 on."""
    try:
        price_in, price_out = (float(number) / 1e6 for number in price.split(","))
    except ValueError:
        return None
    return (price_in, price_out) if 0.0 <= price_in < math.inf and 0.0 <= price_out < math.inf else None


OFFLINE_JUDGE = JudgeOptions()
"""The offline judge alone: no model API is called."""
