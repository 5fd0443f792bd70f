"""Tell a Prefect server what happened, so that its automations can act on it. Nobody waits for what they do."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping

from answerkey.tasks.publish.server import has_server

RELEASE_REGISTERED = "answerkey.release.registered"

_log = logging.getLogger("answerkey")


def emit(event: str, resource_id: str, payload: Mapping[str, object]) -> bool:
    """Send an event, and return whether a server has it. Without a server nothing happens.

    Delivery is at most once: what must not be missed is found by a schedule as well.

    Args:
        event: its name, for instance `answerkey.release.registered`.
        resource_id: what it is about, for instance `answerkey.release.faq.gpt-5`.
        payload: what automations may use as parameters. It holds no answers and no keys.
    """
    # Within a run Prefect knows its server, which may be a temporary one.
    if "prefect" not in sys.modules and not has_server():
        return False
    import httpx
    from prefect.client.orchestration import get_client
    from prefect.context import FlowRunContext
    from prefect.events.schemas.events import Event
    from prefect.settings import get_current_settings

    if not get_current_settings().api.url and FlowRunContext.get() is None:
        return False
    content = Event(event=event, resource={"prefect.resource.id": resource_id}, payload=dict(payload))
    try:
        # Not through Prefect's queue, which a short command would have to wait for at its end.
        with get_client(sync_client=True) as client:
            client.request("POST", "/events", json=[content.model_dump(mode="json")])
    except httpx.HTTPError as error:
        _log.warning(f"the event {event} did not reach the Prefect server: {error}")
        return False
    return True
