"""Whether a model answers at all, and when a run stops asking it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from answerkey.metrics_core.llm.rate_limit import Queue
from answerkey.metrics_core.llm.response import NO_LOG_PROBABILITIES
from answerkey.metrics_core.llm.transport import CallError

_ENOUGH_LOST = 10
"""Questions without a reply after all attempts, before the first reply of a run: the model is not there."""

_ENOUGH_REFUSED = 3
"""Calls, each made after the one before was refused until later than anybody waits."""

_LONGEST_REFUSED_S = 300.0
_LONGEST_SILENCE_S = 600.0

_MAYBE_OF_ONE = ("http_403", "http_404", NO_LOG_PROBABILITIES)
"""Codes that concern one question where others have had their replies."""


class Unavailable(Exception):
    """The model is not asked, since its server accepts no calls for now. Later the question can be asked as it is."""


@dataclass(slots=True)
class Availability:
    """What a run has learned about one model: whether it ever replied, and why it is not asked any more.

    Args:
        queue: where its calls wait.
        noun: the word for a model in messages.
        deadline_s: how long one question may take.

    Attributes:
        replied: whether there was any reply.
        given_up: code and message of a failure that each further call would repeat.
        left: why the model is not asked for now; empty: it is.
    """

    queue: Queue
    noun: str
    deadline_s: float
    replied: bool = False
    given_up: tuple[str, str] | None = None
    left: str = ""
    _n_lost: int = 0
    _n_refused: int = 0
    _refused: set[str] = field(default_factory=set)
    _refused_at: float = -math.inf
    _silent_since: float = math.inf
    _failed_at: float = -math.inf

    def reply(self) -> None:
        """A reply came."""
        self.replied = True
        self._n_refused, self._refused_at = 0, -math.inf
        self._silent_since = math.inf
        self._refused.clear()

    def hopeless(self, error: CallError) -> bool:
        """Whether a refusal lasts longer than any question waits."""
        return error.retry_after is not None and error.retry_after > self.deadline_s

    def failure(self, error: CallError, question: str, started: float, now: float) -> None:
        """A call that began at `started` ended without a reply. Seconds of any clock that does not run backwards."""
        if error.code == "quota":
            self._leave(f"the {self.noun}'s quota is used up, and its server does not say until when", error)
            return
        if error.kind == "fatal" and not (error.code in _MAYBE_OF_ONE and self.replied):
            # A model that replies has the right address and name: then it was a filter, and about this text.
            why = "is of no use here" if error.code == NO_LOG_PROBABILITIES else "refuses every call"
            self.given_up = error.code, f"not asked, since the {self.noun} {why}: {error.message}"
            return
        if error.kind not in ("limited", "trouble"):
            return
        if started > self._failed_at + 2 * self.deadline_s:
            # Nobody asked meanwhile: that is no silence of the server.
            self._silent_since = math.inf
            self._refused.clear()
        self._failed_at = max(self._failed_at, now)
        self._silent_since = min(self._silent_since, now)
        self._refused.add(question)
        if error.kind == "limited" and self.hopeless(error) and started >= self._refused_at:
            # Not at the first: a call made before it may yet be answered.
            self._n_refused, self._refused_at = self._n_refused + 1, now
        if self._n_refused >= _ENOUGH_REFUSED:
            self._leave(f"the {self.noun}'s quota is used up{_until(error)}", error)
        elif error.kind == "limited":
            self._refuses(now, error, min(self.deadline_s, _LONGEST_REFUSED_S))
        elif now - self._silent_since >= min(2 * self.deadline_s, _LONGEST_SILENCE_S):
            self._leave(f"the {self.noun} has not replied for {now - self._silent_since:.0f} s", error)

    def question_refused(self, error: CallError, now: float) -> None:
        """A question was refused until its time was over."""
        self._refuses(now, error, self.deadline_s / 2)

    def question_lost(self, error: CallError) -> None:
        """A question has used up its attempts."""
        self._n_lost += not self.replied
        if self._n_lost >= _ENOUGH_LOST and not self.replied:
            self.given_up = error.code, f"not asked, since the {self.noun} never replies: {error.message}"

    def _refuses(self, now: float, error: CallError, seconds: float) -> None:
        # One question alone may be refused for what it is.
        gone = now - self._silent_since
        if len(self._refused) > 1 and gone >= seconds:
            self._leave(f"the {self.noun} has refused every call for {gone:.0f} s{_until(error)}", error)

    def _leave(self, why: str, error: CallError) -> None:
        if not self.left:
            self.left = f"{why}; the next run continues there: {error.message}"


def _until(error: CallError) -> str:
    if error.retry_after is None:
        return ""
    return f", until {datetime.now(UTC) + timedelta(seconds=error.retry_after):%Y-%m-%d %H:%M} UTC by its server"
