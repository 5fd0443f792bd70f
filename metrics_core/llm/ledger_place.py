"""Where a ledger is: in memory, in a folder, or in a PostgreSQL database. One text says which."""

from __future__ import annotations

from pathlib import Path

from answerkey.metrics_core.llm.ledger import Ledger
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
