"""The requests that this process is asking, so that no other one does: held in the ledger while it is awake."""

from __future__ import annotations

import asyncio

from answerkey.metrics_core.llm.async_ledger import AsyncLedger


class ClaimLost(Exception):
    """Another process has taken over a request while this one stood still."""


class Claims:
    """Claims of one run in its ledger."""

    def __init__(self, ledger: AsyncLedger) -> None:
        self._ledger = ledger
        self._held: set[str] = set()
        self._awake = asyncio.Event()
        self._awake.set()

    async def take(self, key: str) -> bool:
        """Whether this process may ask this request now, as `Ledger.claim` says.

        Raises:
            LedgerError: the ledger cannot be used; so everywhere.
        """
        await self._awake.wait()
        mine = await self._ledger.claim(key)
        if mine:
            self._held.add(key)
        return mine

    async def check(self, key: str) -> None:
        """Wait until this process may ask again.

        Raises:
            ClaimLost: this request is another one's now.
        """
        await self._awake.wait()
        if key not in self._held:
            raise ClaimLost

    async def release(self, key: str) -> None:
        """Give up a claim."""
        self._held.discard(key)
        await self._ledger.release(key)

    async def rest(self) -> None:
        """Ask nothing from now on, and let other processes take over what is claimed."""
        self._awake.clear()
        await self._ledger.rest()

    async def wake(self) -> None:
        """Go on with what no other process has taken over."""
        try:
            self._held &= await self._ledger.wake()
        finally:
            self._awake.set()
