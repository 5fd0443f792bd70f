"""litellm, made quiet: the one door to models behind an API, for judges and for embeddings."""

from __future__ import annotations

import gc
import logging
import math
import os
import time
from contextvars import ContextVar
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any


def litellm() -> Any:
    """The module, imported when it is first needed (seconds), with its logging, downloads and retries off.

    Ask for it wherever it is called: what it reports of its calls is switched off for the context that asks.
    """
    module, reporting = _quiet()
    if reporting is not None:
        reporting.set(True)
    return module


@cache
def _quiet() -> tuple[Any, ContextVar[bool] | None]:
    # Otherwise the import asks the network for prices.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm as module

    # Two lines a call otherwise, in the log of whoever shows more than warnings.
    for name in ("LiteLLM", "httpx", "openai"):
        logging.getLogger(name).setLevel(logging.WARNING)
    module.telemetry = False
    module.suppress_debug_info = True
    # Where a call's `max_retries=0` is taken for "not given", this is what counts.
    module.DEFAULT_MAX_RETRIES = 0  # type: ignore[attr-defined]
    # Every full collection would walk litellm's price tables, which takes a quarter of the time of a call.
    gc.collect()
    gc.freeze()
    try:
        # After each call litellm draws up a report for loggers that nobody has named here, in a task that can outlive
        # its loop. This is its switch for calls that are not to be reported; other versions may have none.
        from litellm._internal_context import is_internal_call
    except ImportError:
        return module, None
    return module, is_internal_call


def retry_after(error: Exception) -> float | None:
    """Seconds that a server asks to wait, in the error that litellm made of its answer; None where it does not."""
    # litellm keeps the server's headers here, and gives `error.response` empty ones.
    headers = getattr(error, "litellm_response_headers", None) or {}
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        text = str(headers.get(name) or "")
        try:
            seconds = float(text) * unit
        except ValueError:
            try:
                seconds = parsedate_to_datetime(text).timestamp() - time.time()
            except (ValueError, OverflowError):
                continue
        if math.isfinite(seconds):
            return max(seconds, 0.0)
    return None
