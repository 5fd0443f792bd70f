"""What a run needs to call models, beside the user's options: the key, the ledger, the run id; and its limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Access:
    """How one run reaches models and remembers their replies. None of it affects a number.

    Args:
        api_key: the key for all models; None: what litellm finds in the environment (`OPENAI_API_KEY`, ...), and
            nothing for an address that is given explicitly. It is in no signature, representation or ledger.
        ledger: the place of the ledger, a folder or `postgresql:...` (see `open_ledger`); None: replies are kept only
            while one call of `measure` lasts.
        run: what the budget is counted for. Empty: each call of `measure` on its own.
        stopped: whether the run was cancelled: no further call is made then, and what was not asked is skipped. Calls
            in flight are waited for, since they are paid. None: it cannot be.
        again: what everything is asked again for, although the ledger has replies. Those that come are kept apart, by
            this name. Empty: what the ledger has is not asked.
        refusal: why no call may be made, though replies in the ledger may be used; empty: calls may be made.

    >>> Access(api_key="sk-secret", run="nightly")
    Access(ledger=None, run='nightly')
    """

    api_key: str | None = field(default=None, repr=False, compare=False)
    ledger: str | None = None
    run: str = ""
    stopped: Callable[[], bool] | None = field(default=None, repr=False, compare=False)
    refusal: str = field(default="", repr=False)
    again: str = field(default="", repr=False)

    @property
    def is_stopped(self) -> bool:
        """Whether the run was cancelled."""
        return self.stopped is not None and self.stopped()


NO_ACCESS = Access()
"""No key, no ledger: keys come from the environment, and replies are not kept."""


@dataclass(frozen=True, slots=True)
class CallLimits:
    """How much a run may ask of each model at once, how long it waits, and what it may spend.

    Args:
        concurrency: the most calls in flight to one model. The limit that the model can bear is learned on the way.
        timeout_s: seconds that one call may take.
        deadline_s: seconds that one question may take, with all its calls and waiting.
        max_calls: calls that the run may make; None: no limit.
        max_cost_usd: dollars that the run may cost; None: no limit. Needs models whose price is known.
        max_cost_total_usd: dollars that all calls in the ledger in this calendar month (UTC) may cost; None: no limit.
        batch: whether questions go to the provider as a batch, which is waited for.
        poll_s: seconds between two looks at a batch.
        run: what calls and dollars are counted for, as `Access.run`.

    >>> CallLimits(max_calls=100).deadline_s
    180.0
    """

    concurrency: int = 64
    timeout_s: float = 60.0
    deadline_s: float = 180.0
    max_calls: int | None = None
    max_cost_usd: float | None = None
    max_cost_total_usd: float | None = None
    batch: bool = False
    poll_s: float = 60.0
    run: str = ""


NO_LIMITS = CallLimits()
"""No limit on calls or cost."""
