"""What the platform decides about runs: a block on a Prefect server, which forms name and nobody types anew."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from prefect.blocks.core import Block
from pydantic import Field

from answerkey.flows.forms import PLATFORM, TARGET_SLUG
from answerkey.flows.parameters import LOCAL, RUNNER, Generating, Judging, Rerunning, as_in
from answerkey.tasks.publish.artifacts import PAGES

P = ParamSpec("P")
R = TypeVar("R")

_LIMITS = ("max_calls", "max_cost_usd", "max_cost_total_usd")
_OF_JUDGES = ("judges", "api_base", "key_from", "price")


class EvaluationTarget(Block):
    """Where runs keep their results and score, which judges they ask, and what they may cost at most."""

    _block_type_name = "Evaluation target"
    _block_type_slug = TARGET_SLUG
    _description = "Where runs keep their results and score, which judges they ask, and what they may cost at most."

    home: str = Field(title="Home", description="A folder of the worker's machine, or s3://BUCKET/PREFIX.")
    runner: str = Field(LOCAL, title="Runner", description=RUNNER.description)
    judges: tuple[str, ...] = as_in(Judging, "judges", "Where a form names none. Empty: those of the worker.")
    api_base: str = as_in(Judging, "api_base")
    key_from: str = as_in(Judging, "key_from")
    price: str = as_in(Judging, "price")
    max_calls: int = as_in(Judging, "max_calls", "More than that no run may make, whatever its form says. 0: no limit.")
    max_cost_usd: float = as_in(Judging, "max_cost_usd", "Likewise. 0: no limit.")
    max_cost_total_usd: float = as_in(Judging, "max_cost_total_usd", "Likewise. 0: no limit.")
    pages: str = Field(
        "",
        title="Address of the pages",
        description="Where a browser opens the pages of the home. Empty: ANSWERKEY_PAGES of the worker.",
    )

    def applied(self, value: Any) -> Any:
        """A form with the judges of the target, if it names none, and with the lower one of both limits."""
        if not isinstance(value, Judging | Rerunning | Generating):
            return value
        both = {name: (getattr(value, name), getattr(self, name)) for name in _LIMITS}
        changes: dict[str, Any] = {name: min(filter(None, pair), default=0) for name, pair in both.items()}
        if isinstance(value, Judging) and not value.judges:
            changes |= {name: getattr(self, name) for name in _OF_JUDGES if not getattr(value, name)}
        return value.model_copy(update=changes)


def on_target(fn: Callable[P, R]) -> Callable[P, R]:
    """A flow's function that also takes a `target`, from which it has what its other parameters leave open."""
    signature = inspect.signature(fn, eval_str=True)
    defaults = {name: signature.parameters[name].default for name in PLATFORM if name in signature.parameters}
    if not defaults:
        return fn
    parameters = [
        one.replace(default=None, annotation=one.annotation | None) if one.name in defaults else one
        for one in signature.parameters.values()
    ]
    target = inspect.Parameter(
        "target", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=EvaluationTarget | None
    )
    shown = signature.replace(parameters=[*parameters, target])

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> R:
        bound = shown.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        chosen: EvaluationTarget | None = given.pop("target")
        for name, default in defaults.items():
            if given[name] is None:
                given[name] = getattr(chosen, name, None) or default
        if chosen:
            given = {name: chosen.applied(value) for name, value in given.items()}
            if chosen.pages:
                # A worker has a process for every run.
                os.environ[PAGES] = chosen.pages
        return cast(Callable[..., R], fn)(**given)

    call.__signature__ = shown  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in shown.parameters.values()}
    return cast(Callable[P, R], call)
