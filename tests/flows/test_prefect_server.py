"""Prefect's server as we start it: who may ask it, and what a page in a browser beside it can do."""

import asyncio
import http.client
import socket
from contextlib import contextmanager
from datetime import UTC, datetime
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import pytest
import yaml
from playwright.sync_api import sync_playwright
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from answerkey.flows.prefect_server import OwnHostAndOrigin, main
from tests.flows.conftest import ROOT
from tests.flows.deployed_help import CHROMIUM
from tests.kit.prefect_api import ask_prefect
from tests.kit.serving import served
from tests.kit.waiting import FAULT_S, wait_until

NAME = "made-by-a-page"
PAGE = """<!doctype html><title>Somebody else's</title><script>
const api = "API", text = (content) => new Blob([JSON.stringify(content)]);
const trigger = {type: "event", posture: "Reactive", expect: ["x"], threshold: 1, within: 0};
const automation = {name: "NAME", enabled: false, trigger, actions: [{type: "do-nothing"}]};
const event = {
    id: crypto.randomUUID?.() ?? "5f6a1e9e-3a54-4c0e-9d5e-0a8f0d1f2a3b", event: "NAME",
    occurred: new Date().toISOString(), resource: {"prefect.resource.id": "NAME"},
};
const tries = {
    // No type, so the browser sends no Content-Type, and asks for no permission.
    blob: () => fetch(`${api}/automations/`, {method: "POST", mode: "no-cors", body: text(automation)}),
    flow: () => fetch(`${api}/flows/`, {method: "POST", mode: "no-cors", body: text({name: "NAME"})}),
    events: () => fetch(`${api}/events`, {method: "POST", mode: "no-cors", body: text([event])}),
    beacon: async () => navigator.sendBeacon(`${api}/flows/`, text({name: "NAME"})),
    socket: () => new Promise((done) => {
        const socket = new WebSocket(`${api.replace("http", "ws")}/events/in`);
        socket.onopen = () => { socket.send(JSON.stringify(event)); done("open"); };
        socket.onerror = () => done("refused");
    }),
};
(async () => {
    const results = {};
    for (const [name, tried] of Object.entries(tries))
        results[name] = await tried().then((found) => found.type ?? found, (error) => `${error}`);
    window.results = results;
})();
</script>"""

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no Chromium at {CHROMIUM}")


# ----- Who may ask


async def _ask(kind, headers, hosts=("localhost", "127.0.0.1", "[::1]", "prefect.example")):
    """What the layer sends: `passed on`, or its own refusal."""
    sent = []

    async def app(scope, receive, send):
        sent.append("passed on")

    async def receive():
        return {"type": f"{kind}.connect"}

    async def send(message):
        sent.append((message["type"], message.get("status", message.get("code"))))

    scope = {"type": kind, "headers": [(name.encode(), value.encode()) for name, value in headers]}
    await OwnHostAndOrigin(app, hosts)(scope, receive, send)
    return sent[0]


OWN = [
    [("host", "127.0.0.1:4200")],
    [("Host", "LOCALHOST:4200"), ("Origin", "http://localhost:4200")],
    [("host", "[::1]:4200"), ("origin", "http://[::1]:4200")],
    [("host", "prefect.example"), ("origin", "https://prefect.example")],
]
FOREIGN = [
    [],
    [("host", "evil.test:4200")],
    [("host", "127.0.0.1.evil.test")],
    [("host", "127.0.0.1:4200"), ("host", "evil.test")],
    [("host", "127.0.0.1:4200"), ("origin", "http://evil.test")],
    [("host", "127.0.0.1:4200"), ("origin", "null")],
    # Of this machine, but of another program's page.
    [("host", "127.0.0.1:4200"), ("origin", "http://127.0.0.1:8888")],
    [("host", "127.0.0.1:4200"), ("origin", "http://127.0.0.1:4200"), ("origin", "http://evil.test")],
    [("host", "prefect.example"), ("origin", "https://prefect.example.evil.test")],
]


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize("headers", OWN)
def test_own_hosts_and_pages_are_answered(kind, headers):
    assert asyncio.run(_ask(kind, headers)) == "passed on"


@pytest.mark.parametrize(
    ("kind", "refusal"), [("http", ("http.response.start", 403)), ("websocket", ("websocket.close", 1008))]
)
@pytest.mark.parametrize("headers", FOREIGN)
def test_other_hosts_and_pages_are_refused(kind, refusal, headers):
    assert asyncio.run(_ask(kind, headers)) == refusal


def test_a_start_and_an_end_are_passed_on():
    assert asyncio.run(_ask("lifespan", [])) == "passed on"


@pytest.mark.real
def test_a_server_for_a_team_has_the_names_that_it_is_given(monkeypatch):
    started = {}
    monkeypatch.setattr("uvicorn.run", lambda app, **options: started.update(options, app=app))
    main(["--host", "10.1.2.3", "--port", "4321", "--name", "prefect.example", "--name", "server", "--no-services"])

    assert (started["host"], started["port"], started["log_level"]) == ("10.1.2.3", 4321, "warning")

    async def status(host):
        transport = httpx.ASGITransport(started["app"])
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}:4321") as client:
            return (await client.get("/api/health")).status_code

    hosts = ("10.1.2.3", "prefect.example", "server", "localhost", "evil.test")
    assert [asyncio.run(status(host)) for host in hosts] == [200, 200, 200, 200, 403]


def test_an_event_names_a_registered_release_and_no_file(bare_cli, tmp_path):
    deployments = yaml.safe_load((ROOT / "deployments/prefect.yaml").read_text(encoding="utf-8"))["deployments"]
    parameters = [trigger["parameters"] for deployment in deployments for trigger in deployment.get("triggers", ())]
    assert parameters == [{"data": {"answers": "registered:{{ event.payload.registration }}"}}]
    named = f"registered:x\n{ROOT / 'examples/museum.csv'}"
    assert "no such registered release" in bare_cli("evaluate", named, "--home", tmp_path, code=2).stderr


# ----- A real server


@pytest.fixture
def status(server):
    """The status of a request with these headers."""
    address = urlsplit(server)

    def asked(method, path, headers, body=None):
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=FAULT_S)
        connection.request(method, f"/api/{path}", body, headers)
        found = connection.getresponse().status
        connection.close()
        return found

    return asked


def test_a_foreign_host_is_given_no_token(server, status):
    port = urlsplit(server).port
    assert status("GET", "csrf-token?client=x", {}) == 200
    assert status("GET", "csrf-token?client=x", {"Host": f"localhost:{port}"}) == 200
    assert status("GET", "csrf-token?client=x", {"Host": f"evil.test:{port}"}) == 403
    assert status("GET", "csrf-token?client=x", {"Origin": "http://evil.test"}) == 403
    assert status("GET", "health", {"Host": "evil.test"}) == 403


def test_nothing_is_changed_without_a_token(status):
    flow = b'{"name": "without-a-token"}'
    assert status("POST", "flows/", {}, flow) == 403
    assert status("POST", "flows/", {"Prefect-Csrf-Token": "guessed", "Prefect-Csrf-Client": "x"}, flow) == 403


@pytest.mark.parametrize("path", ["events/in", "events/out", "logs/out"])
def test_a_foreign_websocket_is_refused_before_it_is_open(server, path):
    address = urlsplit(server)
    url = f"ws://{address.netloc}/api/{path}"
    for origin in (None, f"http://{address.netloc}"):
        with connect(url, origin=origin, subprotocols=["prefect"], proxy=None):
            pass
    for origin in ("http://evil.test", "null", f"http://127.0.0.1:{address.port + 1}"):
        with pytest.raises(InvalidStatus, match="403"):
            connect(url, origin=origin, subprotocols=["prefect"], proxy=None)
    with (
        socket.create_connection((address.hostname, address.port)) as own,
        pytest.raises(InvalidStatus, match="403"),
    ):
        connect(f"ws://evil.test:{address.port}/api/{path}", sock=own, subprotocols=["prefect"], proxy=None)


def somebody_elses_page(folder, server):
    """The address of a page on loopback that tries to change something on the server."""
    (folder / "index.html").write_text(PAGE.replace("API", server).replace("NAME", NAME), encoding="utf-8")
    return served(folder)


@contextmanager
def browsing():
    """A page of Chromium, for which every name that ends in `.test` is this machine."""
    rules = "--host-resolver-rules=MAP *.test 127.0.0.1"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox", rules])
        page = browser.new_page()
        page.set_default_timeout(1_000 * FAULT_S)
        yield page
        browser.close()


def _events(server, name):
    wanted = {"filter": {"event": {"name": [name]}}, "limit": 5}
    return ask_prefect(server, "POST", "events/filter", wanted)["events"]


def test_a_page_of_another_origin_changes_nothing_in_a_browser(server, tmp_path):
    address = urlsplit(server)
    with somebody_elses_page(tmp_path, server) as elsewhere, browsing() as page:
        page.goto(elsewhere.replace("127.0.0.1", "evil.test"))
        page.wait_for_function("window.results")
        results = page.evaluate("window.results")
        # By a name that leads to this machine, so that the browser takes it for one origin (DNS rebinding).
        rebound = page.goto(f"http://evil.test:{address.port}/api/csrf-token?client=x")
        assert rebound
        refused = rebound.status

    assert results["socket"] == "refused"
    # A page is not told what became of the others.
    assert set(results) == {"blob", "flow", "events", "beacon", "socket"}
    assert refused == 403
    # One that was sent later is there: so would be those of the page.
    later = {"event": "made-by-us", "occurred": datetime.now(UTC).isoformat(), "id": str(uuid4())}
    ask_prefect(server, "POST", "events", [later | {"resource": {"prefect.resource.id": "us"}}])
    wait_until(lambda: _events(server, "made-by-us"), "an event of our own")
    assert _events(server, NAME) == []
    wanted = {"automations": {"name": {"any_": [NAME]}}}
    assert ask_prefect(server, "POST", "automations/filter", wanted) == []
    assert ask_prefect(server, "POST", "flows/filter", {"flows": {"name": {"any_": [NAME]}}}) == []


def test_the_servers_own_pages_read_write_and_listen(server):
    base = server.removesuffix("/api")
    with browsing() as page:
        page.goto(base)
        page.get_by_text("Flows", exact=True).first.wait_for()
        made = page.evaluate(
            """async () => {
                const {token} = await (await fetch("/api/csrf-token?client=page")).json();
                const headers = {"Content-Type": "application/json", "Prefect-Csrf-Client": "page",
                                 "Prefect-Csrf-Token": token};
                const body = JSON.stringify({name: "made-by-its-own-page"});
                return (await fetch("/api/flows/", {method: "POST", headers, body})).status;
            }"""
        )
        listens = page.evaluate(
            """() => new Promise((done) => {
                const socket = new WebSocket(`ws://${location.host}/api/events/out`, ["prefect"]);
                socket.onopen = () => done(true);
                socket.onerror = () => done(false);
            })"""
        )
    assert (made, listens) == (201, True)
