"""The judge server keeps its word: answers, faults, refusals, counts. The tests of the judges' client use the rest."""

import http.client
import json
import time
from urllib.parse import urlsplit

import pytest

from answerkey.metrics_core.llm.untrusted import fenced
from tests.judge_server import KINDS, JudgeProcess, JudgeServer, scheduled

VERDICT = '{"verdict": "match", "reason": "the same"}'


def server_with(kind, said=VERDICT, **options):
    return JudgeServer(lambda body: said, faults=lambda number, body: kind, **options)


def request_of(text="hello", **parameters):
    return {"model": "m", "messages": [{"role": "user", "content": text}], **parameters}


class Client:
    """One kept connection; gives status, headers and parsed body."""

    def __init__(self, url, timeout=60.0):
        self.connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=timeout)

    def ask(self, body):
        self.connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Authorization": "Bearer secret"})
        answer = self.connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, json.loads(answer.read())

    def choice(self, body):
        _, _, answer = self.ask(body)
        return answer["choices"][0]["message"]["content"], answer["choices"][0]["finish_reason"]


def test_answers_on_one_connection_and_records():
    with JudgeServer(lambda body: body["messages"][0]["content"].upper()) as server:
        client = Client(server.url)
        status, _, first = client.ask(request_of("abcdefgh"))
        assert client.choice(request_of("abcdefgh")) == ("ABCDEFGH", "stop")
        assert client.choice(request_of("other")) == ("OTHER", "stop")
        assert (status, first["object"], first["model"]) == (200, "chat.completion", "m")
        assert first["usage"] == {"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4}
        assert server.n_requests == len(server.requests) == 3
        assert server.requests[0].headers["authorization"] == "Bearer secret"
        assert all(request.answered and request.fault is None for request in server.requests)
        assert server.count_by_user_message() == {"abcdefgh": 2, "other": 1}
        assert sorted(server.stats()["bodies"].values()) == [1, 2]
        assert len(server.connections) == 1
        server.reset()
        assert (server.n_requests, server.max_in_flight) == (0, 0)


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        ("rate_limit_after", 429, "rate_limit_exceeded"),
        ("quota", 429, "insufficient_quota"),
        ("error_503", 503, None),
        ("unauthorized", 401, "invalid_api_key"),
        ("context", 400, "context_length_exceeded"),
    ],
)
def test_errors(kind, status, code):
    with server_with(kind, retry_after=0.25) as server:
        got, headers, answer = Client(server.url).ask(request_of())
        assert server.fault_counts == {kind: 1}
    assert (got, answer["error"]["code"]) == (status, code)
    assert ("Bearer" not in str(answer), "secret" in answer["error"]["message"]) == (True, kind == "unauthorized")
    assert headers.get("retry-after") == ("0.25" if kind == "rate_limit_after" else None)


@pytest.mark.parametrize(
    ("kind", "said", "text", "reason"),
    [
        ("cut_off", VERDICT, VERDICT[: len(VERDICT) // 2], "length"),
        ("wrong_types", VERDICT, '{"verdict": 7, "reason": 7}', "stop"),
        ("wrong_finish_reason", VERDICT, VERDICT, "length"),
        ("conflict", VERDICT, f'{VERDICT}\n{{"verdict": "mismatch", "reason": "the same"}}', "stop"),
        ("conflict", '{"score": true}', '{"score": true}\n{"score": false}', "stop"),
        ("conflict", '{"facts": ["a"], "n": 1}', '{"facts": ["a"], "n": 1}\n{"facts": [], "n": 2}', "stop"),
        ("conflict", '{"facts": []}', '{"facts": []}\n{"facts": ["another"]}', "stop"),
    ],
)
def test_malformed_replies(kind, said, text, reason):
    with server_with(kind, said) as server:
        assert Client(server.url).choice(request_of()) == (text, reason)


def test_drop_and_hang_end_without_a_byte_and_closing_ends_what_hangs():
    kinds = ["drop", "hang", "hang"]
    with JudgeServer(lambda body: VERDICT, faults=lambda number, body: kinds[number]) as server:
        with pytest.raises(http.client.RemoteDisconnected):
            Client(server.url).ask(request_of())
        waiting = Client(server.url, timeout=0.2)
        with pytest.raises(TimeoutError):
            waiting.ask(request_of())
        until(lambda: server.stats()["in_flight"] == 1)
        waiting.connection.close()
        until(lambda: server.stats()["in_flight"] == 0)
        assert [request.answered for request in server.requests] == [False, False]
        last = Client(server.url)
        last.connection.request("POST", "/v1/chat/completions", json.dumps(request_of()))
        until(lambda: server.n_requests == 3)
    with pytest.raises(ConnectionError):
        last.connection.getresponse()


def test_a_trickle_takes_its_time_and_sends_all():
    with server_with("trickle", trickle_seconds=1.0) as server:
        start = time.perf_counter()
        assert Client(server.url).choice(request_of()) == (VERDICT, "stop")
        assert time.perf_counter() - start >= 0.95


def test_refusals_name_what_they_refuse():
    options = {"refuse_formats": {"json_schema"}, "refuse_parameters": {"seed"}}
    strict = request_of(response_format={"type": "json_schema", "json_schema": {}})
    with JudgeServer(lambda body: VERDICT, **options) as server:
        client = Client(server.url)
        for body, words in ((strict, "Input should be 'text' or 'json_object'"), (request_of(seed=1), "'seed'")):
            status, _, answer = client.ask(body)
            assert (status, words in answer["error"]["message"]) == (400, True)
        assert client.choice(request_of(response_format={"type": "json_object"})) == (VERDICT, "stop")
        assert server.fault_counts == {"refused_format": 1, "refused_parameter": 1}
    with JudgeServer(lambda body: VERDICT, refuse_status=422, **options) as server:
        status, _, answer = Client(server.url).ask(strict)
        assert (status, answer["detail"][0]["msg"]) == (422, "Input should be 'text' or 'json_object'")


def test_a_schedule_is_repeatable_and_keeps_its_rate():
    kinds = tuple(sorted(KINDS))
    first, again, other = ([scheduled(0.3, seed, kinds)(n, {}) for n in range(5_000)] for seed in (1, 1, 2))
    assert first == again != other
    assert sum(kind is not None for kind in first) / 5_000 == pytest.approx(0.3, abs=0.02)
    assert set(first) - {None} == set(KINDS)
    with pytest.raises(ValueError, match="surprise"):
        scheduled(0.1, 1, ["surprise"])


def test_an_error_of_the_script_is_answered_with_500_and_raised():
    with pytest.raises(ZeroDivisionError), JudgeServer(lambda body: str(1 // 0)) as server:
        status, _, answer = Client(server.url).ask(request_of())
        assert (status, "ZeroDivisionError" in answer["error"]["message"]) == (500, True)


def test_as_a_process():
    kinds = ("--faults", "0.5", "--seed", "3", "--kinds", "error_500", "rate_limit")
    expected = scheduled(0.5, 3, ("error_500", "rate_limit"))
    with JudgeProcess("--latency", "0.01", *kinds) as server:
        client = Client(server.url)
        body = request_of(fenced({"question": "?", "references": [{"number": 1, "text": "A"}], "answer": "A"}))
        statuses = [client.ask(body)[0] for _ in range(20)]
        stats = server.stats()
    codes = {None: 200, "error_500": 500, "rate_limit": 429}
    assert statuses == [codes[expected(number, {})] for number in range(20)]
    assert (stats["requests"], stats["answered"], stats["in_flight"]) == (20, 20, 0)
    assert sum(stats["faults"].values()) == sum(status != 200 for status in statuses)
    assert list(stats["bodies"].values()) == [20]


def until(true, seconds=100.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "this did not become true"
        time.sleep(0.005)
