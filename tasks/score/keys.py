"""Which judges to ask, their addresses and keys: from parameters, the environment or Prefect.

Parameters come first, then environment variables, then Prefect. A key is looked up where it is needed and is passed
nowhere: a run knows only the name of the place where it is kept.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.server import on_server

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

JUDGE = "ANSWERKEY_JUDGE"
JUDGE_BASE = "ANSWERKEY_JUDGE_BASE"
JUDGE_KEY = "ANSWERKEY_JUDGE_KEY"
"""Variables of the environment."""
VARIABLE = "answerkey_judge"
VARIABLE_BASE = "answerkey_judge_base"
SECRET = "answerkey-judge-key"
"""Variables and a secret block of Prefect."""


@dataclass(frozen=True, slots=True)
class KeyPlaces:
    """A key: the owner as messages name it, the environment variable, and the Prefect secret block."""

    owner: str
    variable: str
    block: str


JUDGES = KeyPlaces("the judge", JUDGE_KEY, SECRET)
MODEL = KeyPlaces("the model", "ANSWERKEY_MODEL_KEY", "answerkey-model-key")

_KEY_LOCATION = re.compile(r"env:\w+|(secret|variable):[\w-]+")


def settings(judges: Sequence[str], api_base: str) -> tuple[tuple[str, ...], str]:
    """The judges, and the address of those that name none, each from the first place that has it.

    These are the parameters, the environment (`ANSWERKEY_JUDGE`, comma separated, and `ANSWERKEY_JUDGE_BASE`), and
    the Prefect variables `answerkey_judge` (a text like that or a list) and `answerkey_judge_base`, where there is a
    Prefect server. Empty if no place has it.

    Raises:
        UserError: a Prefect variable is neither a text nor a list of texts.
    """
    # The server is asked last, and only for what no other place has
    judge_names = _names(list(judges)) or _names(os.environ.get(JUDGE)) or _names(_variable(VARIABLE))
    bases = _names([api_base]) or _names([os.environ.get(JUDGE_BASE, "")])
    if judge_names and not bases:
        bases = _names(_variable(VARIABLE_BASE))
    return judge_names, bases[0] if bases else ""


def _names(value: Any) -> tuple[str, ...]:
    """The names in a list, or in a text with commas.

    Raises:
        UserError: it is neither.
    """
    parts = value.split(",") if isinstance(value, str) else value or []
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise UserError(
            f"the Prefect variables {VARIABLE} and {VARIABLE_BASE} hold a text, or a list of texts, and one of them "
            "holds something else; set it again"
        )
    return tuple(part.strip() for part in parts if part.strip())


def key(key_from: str, places: KeyPlaces = JUDGES) -> str | None:
    """The key of the judges, or of the model under test.

    Args:
        key_from: empty for the variable of `places` in the environment (`ANSWERKEY_JUDGE_KEY`), else their Prefect
            secret block (`answerkey-judge-key`); or the one place to look: `env:NAME`, `secret:BLOCK`,
            `variable:NAME`.

    Returns:
        None if `key_from` is empty and neither place has one: providers have variables of their own.

    Raises:
        UserError: `key_from` is malformed, or there is no key in that place.
    """
    if not key_from:
        return _environment(places.variable) or (_secret(places.block) if on_server() else None)
    if not _KEY_LOCATION.fullmatch(key_from):
        # Not repeated: it may be the key itself.
        raise UserError(
            f"the location of {places.owner}'s key is written env:NAME, secret:BLOCK or variable:NAME; the key itself "
            f"belongs only there (or in the environment variable {places.variable})"
        )
    # The one place to look, and what to do if there is none
    kind, _, name = key_from.partition(":")
    key_text = None
    if kind == "env":
        key_text = _environment(name)
        remedy = f"export {name}=... where the run starts"
    elif not on_server():
        remedy = "there is no Prefect server: set PREFECT_API_URL, or use env:NAME"
    elif kind == "secret":
        key_text = _secret(name)
        remedy = f"save a Secret block called {name} in Prefect"
    else:
        value = _variable(name)
        key_text = value.strip() if isinstance(value, str) else None
        remedy = f"set it with `prefect variable set {name} ...`"
    if not key_text:
        raise UserError(f"{places.owner}'s key is not in {key_from}: {remedy}")
    return key_text


def _environment(name: str) -> str | None:
    """A variable of the environment."""
    return os.environ.get(name, "").strip() or None


@contextmanager
def _client() -> Iterator[SyncPrefectClient]:
    """Open a client of the Prefect server.

    Raises:
        UserError: it does not answer.
    """
    import httpx
    from prefect.client.orchestration import get_client

    try:
        with get_client(sync_client=True) as client:
            yield client
    except httpx.TransportError as error:
        raise UserError(
            f"the Prefect server, which may know the judge or its key, does not answer ({error}); start it, or unset "
            "PREFECT_API_URL"
        ) from error


def _variable(name: str) -> Any:
    """A variable of Prefect; None where there is no server."""
    if not on_server():
        return None
    with _client() as client:
        variable = client.read_variable_by_name(name)
    return variable.value if variable else None


def _secret(name: str) -> str | None:
    """The text of a secret block."""
    from prefect.exceptions import ObjectNotFound

    with _client() as client:
        try:
            document = client.read_block_document_by_name(name, "secret")
        except ObjectNotFound:
            return None
    # As it was saved: the block's own `get` makes a number of a key that is all digits.
    value = document.data.get("value")
    return value.strip() or None if isinstance(value, str) else None
