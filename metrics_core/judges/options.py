"""What a user decides about judges."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal, get_args
from urllib.parse import urlsplit

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.request import Judge, provider_address

Jury = Literal["majority", "unanimous", "mean"]
"""How the votes of several judges, or of several repeats, become one score.

`majority`: the median vote, which for yes and no is what more than half say; an even split has none and fails.
`unanimous`: the lowest vote, so an answer passes only if every vote passes it. `mean`: the mean vote.
"""


Role = Literal["judge", "model"]
"""Who is asked: a judge, whose reply has a format, or a model under test, whose reply is its answer."""

OFFLINE = "offline"
"""The judge that asks nobody: rules and a small model, on this machine."""


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """Which judges to ask, how, and for how much at most.

    Args:
        judges: models as litellm names them (`openai/gpt-4o-mini`), each optionally with the address of an
            OpenAI-compatible server (`openai/qwen2.5@http://127.0.0.1:8080/v1`). None, or `offline`: the offline
            matcher alone.
        cascade: the share of errors (0 to .5) that is accepted where the offline matcher decides `meaning_match` before
            the judges, who are asked about the rest. None: they are asked about all. `ground_truth_similarity` has no
            cascade: its judges are asked about all.
        api_base: the address for judges that name none; empty: the provider's own.
        api_key: the key for all of them; None: what litellm finds in the environment (`OPENAI_API_KEY`, ...), and
            nothing for an address that is named here.
            It is in no signature, no representation and no ledger.
        jury: see `Jury`.
        repeats: how often each judge is asked about each sample.
        concurrency: calls in flight to one judge at most. What it really bears is found out while it works.
        timeout_s: seconds that one call may take.
        deadline_s: seconds that one question to a judge may take, with all waiting and retries.
        max_calls: calls that a run may make; the samples left over are skipped.
        max_cost_usd: dollars that a run may cost; needs judges whose price is known.
        ledger: folder of the ledger; None: replies are kept for the one call of `measure` only.
        run: what the budget is counted for. Empty: each call of `measure` on its own.
        role: see `Role`; messages call those who are asked by it.
    """

    judges: tuple[str, ...] = ()
    api_base: str = ""
    api_key: str | None = field(default=None, repr=False, compare=False)
    jury: Jury = "majority"
    repeats: int = 1
    concurrency: int = 64
    timeout_s: float = 60.0
    deadline_s: float = 180.0
    max_calls: int | None = None
    max_cost_usd: float | None = None
    ledger: str | None = None
    run: str = ""
    cascade: float | None = None
    role: Role = "judge"

    def __post_init__(self) -> None:
        if self.jury not in get_args(Jury):
            raise ValueError(f"jury {self.jury!r} is not one of {', '.join(get_args(Jury))}")
        for name in ("repeats", "concurrency", "timeout_s", "deadline_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)!r}; it must be above 0")
        for name in ("max_calls", "max_cost_usd"):
            if (most := getattr(self, name)) is not None and not most >= 0:
                raise ValueError(f"{name} is {most!r}; it must be 0 or more")
        if len(set(self.judges)) < len(self.judges):
            raise ValueError("a judge is named twice; `repeats` asks one several times")
        if not self.judges:
            object.__setattr__(self, "judges", (OFFLINE,))
        self._check_offline()

    def _check_offline(self) -> None:
        if OFFLINE in self.judges and len(self.judges) > 1:
            raise ValueError(
                "the offline judge sits in no jury; name the others alone, with `cascade` if it is to decide first"
            )
        if self.offline and self.repeats > 1:
            raise ValueError("the offline judge says the same every time; leave `repeats` at 1")
        if self.cascade is None:
            return
        if not 0 < self.cascade < 0.5:
            raise ValueError(f"cascade is {self.cascade!r}; it is the share of errors to accept, for instance 0.02")
        if self.offline:
            raise ValueError("cascade needs a judge to ask where the offline one is undecided, like openai/gpt-4o-mini")

    @property
    def offline(self) -> bool:
        """Whether nobody is asked, since the offline judge decides alone."""
        return self.judges == (OFFLINE,)

    @property
    def labels(self) -> tuple[str, ...]:
        """The judges as signatures and reports name them.

        Raises:
            UserError: as `seats`.
        """
        return tuple(dict.fromkeys(judge.label for judge, _ in self.seats())) or self.judges

    def seats(self) -> tuple[tuple[Judge, int], ...]:
        """Every judge with every repeat index: each is one vote. None for the offline judge.

        Raises:
            UserError: the same judge is named twice; a name, an address or a key is none.
        """
        if self.offline:
            return ()
        judges = [_judge(text, self.api_base, self.api_key, self.role) for text in self.judges]
        labels = [judge.label for judge in judges]
        # Both would get the one reply that the ledger keeps, and count as two votes.
        if twice := sorted({label for label in labels if labels.count(label) > 1}):
            raise UserError(f"the judge {twice[0]} is named twice; `repeats` asks one several times")
        return tuple((judge, repeat) for judge in judges for repeat in range(self.repeats))


def _judge(text: str, api_base: str, api_key: str | None, role: Role) -> Judge:
    # Model names may hold an @ of their own; an address begins with its scheme.
    model, *given = re.split(r"@(?=https?://)", text.strip(), maxsplit=1, flags=re.IGNORECASE)
    provider, _, name = model.partition("/")
    if not provider or not name or "://" in model:
        # No more of it: an address alone may have a password in it.
        offline = ", or offline" if role == "judge" else ""
        raise UserError(f"{role} {provider!r}: write PROVIDER/MODEL, for instance openai/gpt-4o-mini{offline}")
    address = given[0] if given else api_base or provider_address(model)
    if address and not _is_address(address):
        # Not shown: there may be a password in it.
        raise UserError(f"{role} {model}: its address is not one; write it like http://127.0.0.1:8080/v1")
    # A key from a file often ends with a line break, which no header can carry.
    key = (api_key or "").strip() or None
    if key and not (key.isascii() and key.isprintable()):
        raise UserError(f"{role} {model}: its key holds a character that no key has; copy it again")
    return Judge(model, address.rstrip("/"), key)


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        # To read the port is to check it.
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


NO_JUDGE = JudgeOptions()
"""Nobody is asked: the offline judge."""
