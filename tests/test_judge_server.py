"""The judge server keeps its word: answers, faults, refusals, counts. Once also through litellm."""

import asyncio
import http.client
import json
import time
from urllib.parse import urlsplit

import pytest

from answerkey.metrics_core.llm.untrusted import fenced
from tests.judge_server import KINDS, JudgeProcess, JudgeServer, Reply, agreeable, data_of, scheduled

VERDICT = '{"verdict": "match", "reason": "the same"}'


def always(kind):
    return lambda number, body: kind


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
        status, _, answer = self.ask(body)
        assert status == 200
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


def test_a_reply_can_set_everything():
    with JudgeServer(lambda body: Reply("x", "length", 7, 5, "other")) as server:
        _, _, answer = Client(server.url).ask(request_of())
    assert (answer["model"], answer["choices"][0]["finish_reason"]) == ("other", "length")
    assert answer["usage"] == {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        ("rate_limit", 429, "rate_limit_exceeded"),
        ("rate_limit_after", 429, "rate_limit_exceeded"),
        ("quota", 429, "insufficient_quota"),
        ("error_500", 500, None),
        ("error_503", 503, None),
        ("unauthorized", 401, "invalid_api_key"),
        ("not_found", 404, "model_not_found"),
        ("context", 400, "context_length_exceeded"),
    ],
)
def test_errors(kind, status, code):
    with JudgeServer(lambda body: VERDICT, faults=always(kind), retry_after=0.25) as server:
        got, headers, answer = Client(server.url).ask(request_of())
        assert server.fault_counts == {kind: 1}
    assert (got, answer["error"]["code"]) == (status, code)
    assert ("Bearer" not in str(answer), "secret" in answer["error"]["message"]) == (True, kind == "unauthorized")
    assert headers.get("retry-after") == ("0.25" if kind == "rate_limit_after" else None)


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("empty", "", "stop"),
        ("null", None, "stop"),
        ("conflict", VERDICT + '\n{"verdict": "mismatch", "reason": "the same"}', "stop"),
        ("cut_off", VERDICT[: len(VERDICT) // 2], "length"),
        ("cut_off_stop", VERDICT[: len(VERDICT) // 2], "stop"),
        ("wrong_types", '{"verdict": 7, "reason": 7}', "stop"),
        ("wrong_finish_reason", VERDICT, "length"),
        ("content_filter", "", "content_filter"),
    ],
)
def test_malformed_replies(kind, text, reason):
    with JudgeServer(lambda body: VERDICT, faults=always(kind)) as server:
        assert Client(server.url).choice(request_of()) == (text, reason)


def test_prose_stands_around_the_reply_or_alone():
    kinds = ["prose", "only_prose"]
    with JudgeServer(lambda body: VERDICT, faults=lambda number, body: kinds[number]) as server:
        client = Client(server.url)
        around, _ = client.choice(request_of())
        alone, _ = client.choice(request_of())
    assert around and alone
    before, verdict, after = around.partition(VERDICT)
    assert (bool(before), verdict, bool(after)) == (True, VERDICT, True)
    assert "{" not in alone


@pytest.mark.parametrize(
    ("said", "second"),
    [
        ('{"score": true, "reason": "r"}', {"score": False, "reason": "r"}),
        ('{"facts": ["a", "b"], "n": 1}', {"facts": ["a"], "n": 2}),
        ('{"facts": []}', {"facts": ["another"]}),
    ],
)
def test_a_conflict_says_something_else(said, second):
    with JudgeServer(lambda body: said, faults=always("conflict")) as server:
        text, _ = Client(server.url).choice(request_of())
    assert text
    first, _, other = text.partition("\n")
    assert (first, json.loads(other)) == (said, second)


def test_a_page_that_is_not_json():
    with (
        JudgeServer(lambda body: VERDICT, faults=always("not_json_body")) as server,
        pytest.raises(json.JSONDecodeError),
    ):
        Client(server.url).ask(request_of())


def test_drop_and_hang_end_without_a_byte():
    kinds = ["drop", "hang"]
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


def test_closing_ends_what_hangs():
    with JudgeServer(lambda body: VERDICT, faults=always("hang")) as server:
        client = Client(server.url)
        client.connection.request("POST", "/v1/chat/completions", json.dumps(request_of()))
        until(lambda: server.n_requests == 1)
    with pytest.raises(ConnectionError):
        client.connection.getresponse()


def test_a_trickle_takes_its_time_and_sends_all():
    with JudgeServer(lambda body: VERDICT, faults=always("trickle"), trickle_seconds=1.0) as server:
        start = time.perf_counter()
        assert Client(server.url, timeout=0.8).choice(request_of()) == (VERDICT, "stop")
        assert 0.95 <= time.perf_counter() - start <= 20


def test_refusals_name_what_they_refuse():
    options = {"refuse_formats": {"json_schema"}, "refuse_parameters": {"seed"}}
    strict = request_of(response_format={"type": "json_schema", "json_schema": {}})
    with JudgeServer(lambda body: VERDICT, **options) as server:
        client = Client(server.url)
        status, _, answer = client.ask(strict)
        assert (status, "Input should be 'text' or 'json_object'" in answer["error"]["message"]) == (400, True)
        status, _, answer = client.ask(request_of(seed=1))
        assert (status, "'seed'" in answer["error"]["message"]) == (400, True)
        assert client.choice(request_of(response_format={"type": "json_object"})) == (VERDICT, "stop")
        assert server.fault_counts == {"refused_format": 1, "refused_parameter": 1}
    with JudgeServer(lambda body: VERDICT, refuse_status=422, **options) as server:
        status, _, answer = Client(server.url).ask(strict)
        assert (status, answer["detail"][0]["msg"]) == (422, "Input should be 'text' or 'json_object'")


def test_a_schedule_is_repeatable_and_keeps_its_rate():
    kinds = tuple(sorted(KINDS))
    first, again, other = scheduled(0.3, 1, kinds), scheduled(0.3, 1, kinds), scheduled(0.3, 2, kinds)
    drawn = [first(number, {}) for number in range(5_000)]
    assert drawn == [again(number, {}) for number in range(5_000)]
    assert drawn != [other(number, {}) for number in range(5_000)]
    assert sum(kind is not None for kind in drawn) / 5_000 == pytest.approx(0.3, abs=0.02)
    assert set(drawn) - {None} == set(KINDS)
    with pytest.raises(ValueError, match="surprise"):
        scheduled(0.1, 1, ["surprise"])


def test_an_error_of_the_script_is_answered_with_500_and_raised():
    with pytest.raises(ZeroDivisionError), JudgeServer(lambda body: str(1 // 0)) as server:
        status, _, answer = Client(server.url).ask(request_of())
        assert (status, "ZeroDivisionError" in answer["error"]["message"]) == (500, True)


def test_brains_read_our_prompts():
    def ask(**fields):
        again = {"role": "user", "content": "This reply cannot be used."}
        messages = [
            {"role": "user", "content": f"{fenced(fields)}\nReply."},
            {"role": "assistant", "content": "?"},
            again,
        ]
        return {"messages": messages}

    assert data_of(ask(answer="<a>\n{}")) == {"answer": "<a>\n{}"}
    with pytest.raises(ValueError, match="no user message"):
        data_of(request_of("{}"))
    assert json.loads(agreeable(ask(question="?", reference="A is 1.5. B!"))) == {"facts": ["A is 1.5.", "B!"]}
    facts = [{"id": "r1.1", "fact": "A."}, {"id": "r1.2", "fact": "B."}]
    assert json.loads(agreeable(ask(question="?", references=[{"facts": facts}], answer="A."))) == {
        "answer_facts": [{"id": "a1", "fact": "A."}],
        "reference_facts": [
            {"id": "r1.1", "equivalent": ["a1"], "contradicted_by": []},
            {"id": "r1.2", "equivalent": [], "contradicted_by": []},
        ],
        "abstained": False,
    }
    texts = [{"number": 1, "text": "A"}]
    assert json.loads(agreeable(ask(question="?", references=texts, answer="A."))) == {
        "reason": "They say the same.",
        "verdict": "match",
        "rule": "factual_equivalence",
        "reference": 1,
    }


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


def test_through_litellm(monkeypatch):
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm
    from litellm.exceptions import RateLimitError

    async def ask(url, number):
        return await litellm.acompletion(
            model="openai/x",
            api_base=url,
            api_key="k",
            max_retries=0,
            timeout=60,
            messages=[{"role": "user", "content": f"number {number}"}],
        )

    async def ask_all(url):
        return await asyncio.gather(*(ask(url, number) for number in range(12)), return_exceptions=True)

    with JudgeServer(lambda body: VERDICT, concurrency_limit=8, holds=lambda server: server.n_requests < 12) as server:
        answers = asyncio.run(ask_all(server.url))
        assert server.max_in_flight == 8
        assert server.fault_counts == {"over_limit": 4}
        assert server.requests[0].headers["authorization"] == "Bearer k"
    good = [answer for answer in answers if not isinstance(answer, Exception)]
    assert {answer.choices[0].message.content for answer in good} == {VERDICT}
    assert len(good) == 8
    assert sum(isinstance(answer, RateLimitError) for answer in answers) == 4


def until(true, seconds=100.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "this did not become true"
        time.sleep(0.005)
