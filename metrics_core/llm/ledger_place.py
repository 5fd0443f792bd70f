"""Where a ledger is: in memory, in a folder, or in a PostgreSQL database. One text says which."""

from __future__ import annotations

from contextlib import closing
from itertools import zip_longest
from pathlib import Path
from typing import Any

from answerkey.metrics_core.llm.ledger import Ledger, LedgerError
from answerkey.metrics_core.llm.sqlite_ledger import FILE, SQLiteLedger

POSTGRES = "postgresql:"


def open_ledger(place: str | None) -> Ledger:
    """The ledger at a place, which is made if it is not there.

    Args:
        place: a folder; or `postgresql:` and what libpq takes, like `postgresql://me@db/answerkey` or
            `postgresql:host=db dbname=answerkey`, without a password; None: in memory, for this one user.

    Raises:
        LedgerError: it cannot be opened, or is damaged.
        UserError: the text after `postgresql:` cannot be used, or a package is missing.

    >>> ledger = open_ledger(None)
    >>> ledger.claim("a key")
    True
    >>> ledger.close()
    """
    if place is not None and place.startswith(POSTGRES):
        from answerkey.metrics_core.llm.postgres_ledger import PostgresLedger

        return PostgresLedger(place)
    return SQLiteLedger(None if place is None else Path(place))


def ledger_exists(place: str | None) -> bool:
    """Whether there is a ledger at a place. None is made.

    Raises:
        LedgerError: that cannot be said, since the server is not there.
        UserError: as `open_ledger`.

    >>> ledger_exists(None)
    False
    """
    if place is not None and place.startswith(POSTGRES):
        from answerkey.metrics_core.llm.postgres_ledger import exists

        return exists(place)
    return place is not None and (Path(place) / FILE).exists()


def copy_ledger(source: str, target: str) -> int:
    """Copy what the ledger at `source` has to the one at `target`, and compare the two; return the number of calls.

    What is there already is not copied again. Calls in flight count as spent in the copy, with the most that they may
    cost: nobody will write down there how they ended.

    Raises:
        LedgerError: one of them cannot be used; or calls still wait in a batch; or the copy is not equal, because
            somebody calls meanwhile, or because the target had calls of its own.
    """
    with closing(open_ledger(source)) as there, closing(open_ledger(target)) as here:
        if waiting := there.in_batches():
            raise LedgerError(
                f"{waiting:,} calls in the ledger wait in batches at their provider: run again what asked them, with "
                "--batch, so that their replies are here; then copy it"
            )
        here.take_in(there.calls(), there.budgets(), there.rest_of_calls())
        calls = 0
        for mine, theirs in zip_longest(there.calls(), here.calls()):
            if _comparable(mine) != _comparable(theirs):
                raise LedgerError(f"call {calls + 1} in the copy of the ledger is another one; copy it again")
            calls += 1
        if list(there.budgets()) != list(here.budgets()):
            raise LedgerError("the budgets in the copy of the ledger are other ones; copy it again")
    return calls


def _comparable(row: tuple[Any, ...] | None) -> tuple[Any, ...]:
    # What a database that has no such character keeps in its place.
    return tuple(value.replace("\0", "\ufffd") if isinstance(value, str) else value for value in row or ())
