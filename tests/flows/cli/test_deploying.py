"""What people change on the pages of a deployment, in a browser, stays when everything is deployed again."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.flows.conftest import ROOT
from tests.flows.deployed_help import CHROMIUM, Deployed, field, in_a_browser, until

if TYPE_CHECKING:
    pass

NAME = "score-traces"
DOCS = ROOT / "deployments/README.md"


def settings(deployed):
    found = deployed.deployment(NAME)
    [hourly] = found["schedules"]
    return {
        "description": found["description"],
        "tags": sorted(found["tags"]),
        "limit": (found["global_concurrency_limit"] or {}).get("limit"),
        "home": found["parameters"]["home"],
        "active": hourly["active"],
    }


def edit(page, address):
    """As a person does: the form of the deployment, then the switch of its schedule."""
    # What is loaded late replaces what was typed before it came.
    page.goto(f"{address}/edit", wait_until="networkidle")
    page.locator("xpath=//*[contains(@class, 'p-tag') and normalize-space() = 'traces']//button").click()
    page.locator("textarea").first.fill("by hand")
    page.locator(".p-number-input__control").first.fill("3")
    field(page, "home (Optional)").fill("/elsewhere")
    page.get_by_role("button", name="Save").click()
    page.wait_for_url(f"{address}?**")
    page.goto(address, wait_until="networkidle")
    page.get_by_role("switch").click()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no Chromium at {CHROMIUM}")
def test_what_was_set_in_a_browser_stays_until_it_is_reset(server, bare_cli, tmp_path):
    deployed = Deployed(server, tmp_path / "home", bare_cli)
    deployed.cli("deploy", "--reset", NAME)
    before = settings(deployed)
    by_hand = {"description": "by hand", "tags": ["answerkey"], "limit": 3, "home": "/elsewhere", "active": True}
    with in_a_browser() as page:
        edit(page, f"{server.removesuffix('/api')}/deployments/deployment/{deployed.deployment(NAME)['id']}")
        until(lambda: True if settings(deployed)["active"] else None, 300, "an active schedule on the server")
    assert settings(deployed) == by_hand
    said = deployed.cli("deploy")
    assert settings(deployed) == by_hand
    assert "left as set on the server (--reset NAME brings one back): evaluate, " in said
    deployed.cli("deploy", "--reset", NAME)
    assert settings(deployed) == before


@pytest.mark.slow
@pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no Chromium at {CHROMIUM}")
def test_the_policy_in_the_docs_keeps_the_second_interface_from_other_hosts(server):
    base = server.removesuffix("/api")
    [name, policy] = re.findall(r"`(Content-Security-Policy): ([^`]+)`", DOCS.read_text(encoding="utf-8"))[0]
    abroad: list[str] = []

    def is_abroad(asked):
        return not asked.url.startswith((base, "data:", "blob:"))

    def proxied(route):
        reply = route.fetch()
        route.fulfill(response=reply, headers={**reply.headers, name: policy})

    # Of Prefect's analytics. Once it asks nobody any more, the docs need no policy.
    with in_a_browser() as page, page.expect_event("request", is_abroad):
        page.goto(f"{base}/v2/deployments")
    with in_a_browser() as page:
        page.on("request", lambda asked: abroad.append(asked.url) if is_abroad(asked) else None)
        page.route(f"{base}/v2/deployments", proxied)
        page.goto(f"{base}/v2/deployments")
        page.get_by_text("Deployments", exact=True).first.wait_for()
        page.wait_for_load_state("networkidle")
    assert abroad == []
