"""The server of the labelling page: who may ask, what is refused, and that nothing tells which release answered."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from answerkey.flows.pages import LOGIN, TOKEN, labelling_server
from answerkey.metrics_core.errors import UserError
from answerkey.tasks.gate.labelling import LabellingSession
from answerkey.tasks.gate.queue import LabelPlan, label_queue
from answerkey.tasks.warehouse.home import Home
from tests.kit.serving import answering
from tests.tasks.labelling_help import POLICY, ask_page, made_releases, verdict_of
from tests.tasks.staging_help import query


class Server:
    def __init__(self, home: Path) -> None:
        queue = label_queue(Home(home), "old", "new", POLICY, LabelPlan(labels=3))
        self.home, self.http = home, labelling_server(LabellingSession(Home(home), queue), "secret", 0)
        self.address = f"http://127.0.0.1:{self.http.server_port}"

    def ask(self, action: str, place: int = 0, **more: Any) -> tuple[int, Any]:
        return ask_page(self.address, "secret", action, place, **more)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made_releases(tmp_path, 12)
    made = Server(tmp_path)
    with answering(made.http):
        yield made


def test_the_page_has_the_login_of_the_server(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOGIN, "ada:x")
    assert server.ask("state")[0] == 401
    assert server.ask("state", headers={"Authorization": "Basic YWRhOng="})[0] == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({TOKEN: "guessed"}, 403),
        ({"Origin": "http://example.com"}, 403),
        ({"Origin": ""}, 403),
        ({"Host": "example.com"}, 421),
        ({"Host": "example.com", "Origin": "http://example.com"}, 421),
    ],
)
def test_only_its_own_page_may_read_and_write(server: Server, headers: dict[str, str], status: int) -> None:
    shown = server.ask("state")[1]
    verdicts = {answer["key"]: "right" for answer in shown["answers"]}
    refused, reply = server.ask("label", shown["place"], verdicts=verdicts, headers=headers)
    assert (refused, reply.count("\n")) == (status, 1)
    assert query(server.home, "SELECT count(*) FROM labels") == [(0,)]
    assert server.ask("label", shown["place"], verdicts=verdicts)[0] == 200
    assert query(server.home, "SELECT count(*) FROM labels") == [(2,)]


def test_what_is_no_label_of_the_question_on_the_screen_is_refused(server: Server) -> None:
    shown = server.ask("state")[1]
    keys = [answer["key"] for answer in shown["answers"]]
    for place, verdicts, why in (
        (shown["place"] + 1, dict.fromkeys(keys, "right"), "others have labelled this question"),
        (shown["place"], {keys[0]: "right"}, "each answer on the screen is one of"),
        (shown["place"], dict.fromkeys(keys, "withdrawn"), "each answer on the screen is one of"),
        (shown["place"], {**dict.fromkeys(keys, "right"), "another": "right"}, "each answer on the screen is one of"),
    ):
        status, reply = server.ask("label", place, verdicts=verdicts)
        assert (status, why in reply) == (400, True)
    assert query(server.home, "SELECT count(*) FROM labels") == [(0,)]


@pytest.mark.parametrize(
    "body",
    [
        {"action": "label"},
        {"action": "label", "verdicts": [1]},
        {"action": "skip", "place": None},
        {"action": "undo", "annotator": 7},
        {"action": "delete"},
        "[" * 5_000,
    ],
    ids=lambda body: str(body)[:50],
)
def test_a_request_of_another_shape_is_refused_and_the_page_goes_on(server: Server, body: Any) -> None:
    content = body if isinstance(body, str) else json.dumps({"annotator": "AB", "place": 1, **body})
    headers = {TOKEN: "secret", "Origin": server.address}
    request = urllib.request.Request(f"{server.address}/", content.encode(), headers, method="POST")

    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=300)

    assert refused.value.code == 400
    assert server.ask("state")[0] == 200


def test_the_end_is_a_verdict_and_nothing_before_tells_who_answered(server: Server) -> None:
    state = server.ask("state")[1]
    shown = []
    while state["kind"] == "question":
        text = json.dumps(state)
        assert "old" not in text and "new" not in text and "exact_match" not in text
        shown.append([answer["text"] for answer in state["answers"]])
        verdicts = {answer["key"]: verdict_of(answer["text"]) for answer in state["answers"]}
        state = server.ask("label", state["place"], verdicts=verdicts)[1]
    assert (state["kind"], state["outcome"], state["analysed"], len(shown)) == ("stopped", "INCONCLUSIVE", 3, 3)
    assert "(analysis 1 of 1)" not in state["sentence"] and state["notes"][0].startswith("3 questions were drawn")
    # A label more is none: the question is on no screen.
    assert server.ask("label", 1, verdicts={})[0] == 400


def test_a_question_is_on_one_screen_at_a_time_until_that_person_has_gone(tmp_path: Path) -> None:
    made_releases(tmp_path, 12)
    queue = label_queue(Home(tmp_path), "old", "new", POLICY, LabelPlan(labels=2))
    session = LabellingSession(Home(tmp_path), queue)
    places = [session.state(name).get("place") for name in ("Ann", "Bob", "Cid", "Ann")]
    assert (places[0], places[1], places[2], places[3]) == (1, 2, None, 1)
    session.patience_s = -1.0
    shown = session.state("Cid")
    assert shown["place"] == 1
    verdicts = {answer["key"]: "right" for answer in shown["answers"]}
    session.label("Cid", 1, verdicts)
    with pytest.raises(UserError, match="others have labelled this question"):
        session.label("Ann", 1, verdicts)
    assert query(tmp_path, "SELECT DISTINCT annotator FROM labels") == [("Cid",)]
