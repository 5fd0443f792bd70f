"""Calls that go to a provider together, as a batch that takes up to a day and costs about half.

A batch is a file of requests in OpenAI's format, which is uploaded with OpenAI's client library; its results are files
again. A call in a batch is written down in the ledger before the batch is sent, with the batch's own name, and so is
the batch. A process that is killed leaves both: who asks next finds the batch at its provider, whichever moment it was,
and waits for it instead of sending another one. A line that its batch did not get to is not paid.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from answerkey.metrics_core.llm.access import Access, CallLimits
from answerkey.metrics_core.llm.ledger import AsyncLedger, BatchedCall, Ledger
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.provider import body_of, by_sdk, json_object, reply_in, without_secrets
from answerkey.metrics_core.llm.request import GARBLED, CallError, CallSkipped, Message, Reply, Unsent
from answerkey.metrics_core.llm.untrusted import one_line

T = TypeVar("T")

BATCHING = frozenset(("openai", "hosted_vllm", "lm_studio", "llamafile"))
"""The providers, as litellm names them, with OpenAI's batch endpoints."""

_QUIET_S = 0.5
"""A batch is sent once no call has joined it for so long."""
_MAX_LINES = 20_000
_MAX_BYTES = 90 * 2**20
"""Less than half of what providers take."""
_MAX_RESULT_BYTES = 512 * 2**20
_ATTEMPTS = 3
_SLICE_S = 1.0
_QUICK_S = 60.0
_LONG_S = 900.0
"""For one question about a batch, and for a file of all lines."""
_EARLY_S = 300.0
"""How far the clocks of two machines may differ."""
_PAGE = 100
_COMPLETIONS = "/v1/chat/completions"
_ENDED = ("completed", "failed", "expired", "cancelled")

_log = logging.getLogger("answerkey")


@dataclass(eq=False)
class Batches:
    """The batches of one run, sent and waited for. Lives on one event loop.

    Attributes:
        ledger: has every batch, and the calls in it.
        access: says whether the run was cancelled.
        limits: whether batches are waited for, or looked at once, and the seconds between two looks.
        prepared: waited for before a model is asked.
        collecting: by model, the batch that calls may still join.
        resumed: by name, those that earlier processes have sent.
        fetching: the task of each batch.
    """

    ledger: AsyncLedger
    access: Access
    limits: CallLimits
    prepared: Callable[[ModelRef], Awaitable[None]]
    collecting: dict[ModelRef, Batch] = field(default_factory=dict)
    resumed: dict[str, Batch] = field(default_factory=dict)
    fetching: dict[Batch, asyncio.Task[None]] = field(default_factory=dict)

    @contextmanager
    def joined(self, model: ModelRef) -> Iterator[Batch]:
        """The next batch, for a call that it is to `take`; it is not sent before the context is left."""
        batch = self.collecting.get(model)
        if batch is None or batch.full:
            batch = self.collecting[model] = Batch(self, model, uuid.uuid4().hex[:16])
        batch.coming += 1
        try:
            yield batch
        finally:
            batch.coming -= 1
            batch.joined_at = asyncio.get_running_loop().time()

    def of_call(self, model: ModelRef, call: BatchedCall) -> Batch:
        """The batch in which an earlier process has left a call."""
        if call.batch not in self.resumed:
            batch = Batch(self, model, call.batch, sent_at=call.sent_at, provider_id=call.provider_id)
            self.resumed[call.batch] = batch
        return self.resumed[call.batch]


@dataclass(slots=True, eq=False)
class Batch:
    """One batch: being collected, on its way, or waited for.

    Attributes:
        run: whose batch it is.
        results: for each line, by its call id, the status and the body of its answer; several where they contradict
            each other. Status 0: the provider did not work on it.
        garbled: whether some results belong to no line.
        rows: the lines of its file.
        coming: calls that are about to join.
        joined_at: when the last one did, by the clock of the loop.
    """

    run: Batches
    model: ModelRef
    name: str
    results: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)
    garbled: bool = False
    completed: bool = False
    rows: list[str] = field(default_factory=list)
    size: int = 0
    coming: int = 0
    joined_at: float = 0.0
    sent_at: float | None = None
    provider_id: str | None = None

    def __post_init__(self) -> None:
        self.run.fetching[self] = asyncio.create_task(self._fetch())

    @property
    def full(self) -> bool:
        """Whether no more calls may join."""
        return len(self.rows) + self.coming >= _MAX_LINES or self.size >= _MAX_BYTES

    @property
    def goes_on(self) -> str:
        """What to do about a batch that is not waited for, for people."""
        name = self.provider_id or f"{self.name} (as answerkey calls it)"
        return (
            f"the batch {name} goes on at {self.model.label} and will have to be paid for: run the same command again "
            f"with --batch to fetch its replies, or cancel it at the provider"
        )

    def take(self, call_id: str, messages: Sequence[Message], settings: Mapping[str, Any]) -> None:
        """Have a call sent with the batch; `settings` as `complete` takes them."""
        row = {
            "custom_id": f"{self.name}-{call_id}",
            "method": "POST",
            "url": _COMPLETIONS,
            "body": body_of(self.model, messages, settings),
        }
        self.rows.append(json.dumps(row))
        self.size += len(self.rows[-1])

    def read(self, content: str) -> None:
        """Take the results in a file of them."""
        for text in filter(str.strip, content.split("\n")):
            row = json_object(text)
            batch, _, call_id = str(row.get("custom_id")).partition("-")
            if batch != self.name or not call_id:
                self.garbled = True
                continue
            answer: tuple[int, Any] = (0, None)
            response = row.get("response")
            if isinstance(response, dict):
                status: Any = response.get("status_code")
                is_status = isinstance(status, int) and 100 <= status < 600
                answer = status if is_status else 500, response.get("body")
            elif response is not None:
                answer = 500, None
            answers = self.results.setdefault(call_id, [])
            if answer not in answers:
                answers.append(answer)

    async def reply(self, call_id: str) -> Reply:
        """Wait for the reply to a call.

        Raises:
            Unsent: it was not worked on.
            CallSkipped: its batch goes on, and the run was cancelled or does not wait.
            CallError: the call failed, or its reply cannot be read; or nothing can be known of its batch.
            LedgerError: the ledger cannot be used.
        """
        await asyncio.shield(self.run.fetching[self])
        answers = self.results.get(call_id, [])
        if len(answers) > 1:
            problem = "its batch has several results for it, which contradict each other"
        elif not answers and self.garbled:
            problem = "the results of its batch cannot be read"
        elif not answers and self.completed:
            problem = "it is missing from the results of its batch, which was completed"
        elif not answers or not answers[0][0]:
            raise Unsent("the provider did not process it: its batch expired or was cancelled")
        else:
            return reply_in(*answers[0], self.model)
        raise CallError("permanent", GARBLED, f"{problem}; it counts as paid")

    async def _fetch(self) -> None:
        """Send a batch unless that was done, wait until it has ended, and read its results."""
        # It is sent once no call has joined it for a while
        now = asyncio.get_running_loop().time
        while self.coming or not (self.full or now() > self.joined_at + _QUIET_S):
            await asyncio.sleep(_QUIET_S / 10)
        if self.run.collecting.get(self.model) is self:
            del self.run.collecting[self.model]

        await self.run.prepared(self.model)
        if self.rows:
            await self._send()
        elif self.sent_at is None:
            raise Unsent("the run was ended before its batch was sent")
        elif self.provider_id is None:
            self.provider_id = await self._find(self.sent_at)
            if self.provider_id is None:
                raise Unsent("the run was ended before the provider had its batch")
            await self._record()

        # Wait until it has ended
        provider_id = self.provider_id
        logged = ""
        while (state := await self._surely(lambda sdk: sdk.batches.retrieve(provider_id))).status not in _ENDED:
            n_done = sum(getattr(state.request_counts, name, 0) for name in ("completed", "failed"))
            progress = f"batch {provider_id} ({self.model.label}): {state.status}, {n_done:,} questions done"
            if progress != logged:
                logged = progress
                _log.info(progress)
            if not self.run.limits.batch:
                raise CallSkipped(self.goes_on)
            await self._pause(self.run.limits.poll_s)

        # Read its results
        if state.status == "failed":
            errors = getattr(state.errors, "data", None) or []
            message = one_line(str(errors[0].message)) if errors else "it names no reason"
            message = without_secrets(message, self.model)
            raise Unsent(f"the provider refused the batch {self.provider_id}: {message}")
        self.completed = state.status == "completed"
        for file in filter(None, (state.output_file_id, state.error_file_id)):
            download = await self._surely(lambda sdk, file=file: sdk.files.content(file), _LONG_S)  # type: ignore[misc]
            self.read(download.content.decode("utf-8-sig", "replace"))
        _log.info(f"batch {self.provider_id} ({self.model.label}): {state.status}, {len(self.results):,} results")

    async def _send(self) -> None:
        """Send it; without a name afterwards, the provider does not have it."""
        if self.run.access.is_stopped:
            raise Unsent("not asked, since the run was cancelled")
        await self._record()
        self.sent_at = time.time()
        content = "\n".join(self.rows).encode() + b"\n"

        async def create(sdk: Any) -> str:
            file = await sdk.files.create(file=(f"answerkey-{self.name}.jsonl", content), purpose="batch")
            created = await sdk.batches.create(
                input_file_id=file.id,
                endpoint=_COMPLETIONS,
                completion_window="24h",
                metadata={"answerkey": self.name},
            )
            return str(created.id)

        attempt = 0
        while self.provider_id is None:
            attempt += 1
            began = time.time()
            try:
                self.provider_id = await by_sdk(self.model, create, _LONG_S)
            except CallError as error:
                if error.kind == "trouble":
                    # It may be there although no answer came.
                    self.provider_id = await self._find(began)
                if self.provider_id is None:
                    if attempt == _ATTEMPTS or error.kind not in ("trouble", "limited"):
                        raise Unsent(f"the batch could not be sent: {error.message}") from error
                    await self._pause(max(self.run.limits.poll_s, error.retry_after or 0.0))
        await self._record()
        _log.info(
            f"batch {self.provider_id}: {len(self.rows):,} questions sent to {self.model.label}. It may take a "
            "day; if this run ends before, the same with --batch waits for it again, and nothing is paid twice"
        )

    async def _record(self) -> None:
        """Write down that it is about to be sent or, once it is known, how the provider names it."""
        await self.run.ledger.do(Ledger.put_batch, self.name, self.model.label, self.provider_id)

    async def _find(self, tried_at: float) -> str | None:
        """The provider's name of a batch that was last tried to be sent then, if it has it."""

        async def search(sdk: Any) -> str | None:
            async for listed in sdk.batches.list(limit=_PAGE):
                if isinstance(listed.metadata, dict) and listed.metadata.get("answerkey") == self.name:
                    return str(listed.id)
                # The newest come first.
                if isinstance(listed.created_at, int) and listed.created_at < (self.sent_at or 0.0) - _EARLY_S:
                    break
            return None

        while (provider_id := await self._surely(search)) is None:
            # A list may be some seconds behind.
            if time.time() > tried_at + self.run.limits.poll_s:
                break
            await self._pause(self.run.limits.poll_s)
        return provider_id

    async def _surely(self, ask: Callable[[Any], Awaitable[T]], timeout_s: float = _QUICK_S) -> T:
        """What a provider says about a batch, as soon as it can be asked."""
        is_logged = False
        while True:
            try:
                return await by_sdk(self.model, ask, timeout_s, _MAX_RESULT_BYTES)
            except CallError as error:
                # What no later answer could change ends the wait
                if error.code == "http_404":
                    name = self.provider_id or self.name
                    gone = f"{self.model.label} has no batch {name} (any more); it counts as paid"
                    raise CallError("permanent", "batch_gone", gone) from error
                if error.code == "too_large" and self.provider_id is not None:
                    raise
                if error.kind not in ("trouble", "limited") or not self.run.limits.batch:
                    raise CallSkipped(f"{self.goes_on} ({error.message})") from error
                # Anything else is the provider's trouble, of which one line is enough
                if not is_logged:
                    _log.warning(
                        f"batch {self.provider_id or self.name}: {error.message}; asked again until it answers"
                    )
                is_logged = True
                pause_s = max(self.run.limits.poll_s, error.retry_after or 0.0)
            await self._pause(pause_s)

    async def _pause(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (remaining_s := end - loop.time()) > 0:
            if self.run.access.is_stopped:
                _log.warning(self.goes_on)
                raise CallSkipped(self.goes_on)
            await asyncio.sleep(min(remaining_s, _SLICE_S))
