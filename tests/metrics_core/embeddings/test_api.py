"""The litellm encoder over real HTTP, against a server on this machine."""

import json

import pytest

from answerkey import Sample
from answerkey.metrics_core.embeddings.api import ApiEncoder
from answerkey.metrics_core.embeddings.encoder import EncoderError, EncodingFailed
from answerkey.metrics_core.metrics.semantic_similarity import SemanticSimilarity
from tests.judge_http import error_body
from tests.raw_server import RawServer, ok

NAME = "openai/text-embedding-3-small"


class Embedding(RawServer):
    """Embeds a text as (length, 1). `script` is a list of statuses to answer with first."""

    def __init__(self):
        super().__init__(self.answer)
        self.asked, self.script, self.refused = [], [], None

    def answer(self, request):
        head, _, content = request.partition(b"\r\n\r\n")
        body = json.loads(content)
        self.asked.append(body | {"path": head.split()[1].decode()})
        status = self.script.pop(0) if self.script else 200
        if self.refused in body["input"]:
            status = 400
        rows = [
            {"object": "embedding", "index": i, "embedding": [float(len(text)), 1.0]}
            for i, text in enumerate(body["input"])
        ]
        usage = {"prompt_tokens": 7, "total_tokens": 7}
        good = {"object": "list", "model": body["model"], "data": rows[::-1], "usage": usage}
        if status == 200:
            return ok(good)
        return error_body(status, "no", "x", None, "retry-after: 3\r\n" if status == 429 else "")


@pytest.fixture
def server(monkeypatch):
    with Embedding() as running:
        monkeypatch.setenv("OPENAI_API_KEY", "a key")
        monkeypatch.setenv("OPENAI_API_BASE", running.url)
        yield running


@pytest.fixture
def waits():
    return []


@pytest.fixture
def encoder(waits):
    return ApiEncoder(NAME, sleep=waits.append)


def test_by_name_from_end_to_end(server, tmp_path):
    metric = SemanticSimilarity([NAME], embedding_cache=str(tmp_path))
    samples = [Sample("1", "abc", ["a", "abcdefg"])]
    [measurement] = metric.measure(samples)
    assert measurement.signature.startswith(f"semantic_similarity|v2|models:{NAME}@api|")
    # (3, 1) and (7, 1): 22 / sqrt(10 * 50).
    assert measurement.values == {"similarity": 0.98387}
    assert measurement.details == {"reference": 1}
    assert (measurement.usage.tokens_in, measurement.usage.cost_usd) == (7, pytest.approx(7 * 0.02 / 1e6))
    assert [(request["path"], request["input"]) for request in server.asked] == [
        ("/v1/embeddings", ["a", "abc", "abcdefg"])
    ]
    [again] = metric.measure(samples)
    assert (again.values, again.usage.cost_usd, len(server.asked)) == (measurement.values, 0, 1)


def test_at_most_64_texts_per_request(server, encoder):
    SemanticSimilarity([encoder]).measure([Sample(str(i), f"answer {i}", ["a"]) for i in range(100)])
    assert [len(request["input"]) for request in server.asked] == [64, 37]


def test_an_unknown_price_is_not_zero(server):
    [measurement] = SemanticSimilarity(["openai/our-own"]).measure([Sample("1", "abc", ["a"])])
    assert (measurement.status, measurement.usage.cost_usd) == ("scored", None)


def test_transient_errors_are_retried_by_us_alone(server, encoder, waits):
    server.script = [429, 503]
    assert encoder.encode(["abc"]).vectors.tolist() == [[3, 1]]
    assert len(server.asked) == 3
    assert waits[0] == 3
    assert 1.5 <= waits[1] <= 2.5


def test_retries_end(server, encoder, waits):
    server.script = [500] * 10
    with pytest.raises(EncodingFailed) as caught:
        encoder.encode(["abc"])
    assert (caught.value.code, caught.value.attempts, caught.value.for_all) == ("http_500", 3, True)
    assert (len(server.asked), len(waits)) == (3, 2)


def test_a_wrong_key_is_not_retried_and_stops_the_rest(server, encoder, waits):
    server.script = [401] * 100
    measurements = SemanticSimilarity([encoder]).measure([Sample(str(i), f"{i}", ["a"]) for i in range(300)])
    assert (len(server.asked), waits) == (2, [])
    assert {m.status for m in measurements} == {"failed"}
    assert measurements[0].outcome.code == "http_401"
    assert "AuthenticationError" in measurements[0].outcome.message


def test_a_refused_text_fails_its_own_sample(server, encoder):
    server.refused = "forbidden"
    samples = [Sample(str(i), f"answer {i}", ["abc"]) for i in range(20)] + [Sample("x", "forbidden", ["abc"])]
    measurements = SemanticSimilarity([encoder]).measure(samples)
    assert [m.sample_id for m in measurements if m.status == "failed"] == ["x"]
    assert len(server.asked) <= 12


def test_a_server_that_is_not_there(monkeypatch, encoder, waits):
    monkeypatch.setenv("OPENAI_API_KEY", "a key")
    monkeypatch.setenv("OPENAI_API_BASE", "http://127.0.0.1:9/v1")
    [measurement] = SemanticSimilarity([encoder]).measure([Sample("1", "abc", ["a"])])
    assert measurement.outcome.attempts == 3
    assert "Connection error" in measurement.outcome.message
    assert len(waits) == 2


def test_an_unknown_provider_is_bad_input():
    with pytest.raises(EncoderError, match="'nobody/model': litellm knows no such provider"):
        SemanticSimilarity(["litellm:nobody/model"]).measure([Sample("1", "abc", ["a"])])


def test_long_texts_are_cut_at_the_known_limit(server, encoder):
    assert encoder.max_pieces == 8191
    long = "Some words of a long text. " * 1500
    [measurement] = SemanticSimilarity([encoder]).measure([Sample("1", long, ["a"])])
    assert measurement.details["chunks"] == {NAME: {"answer": 2}}
    assert [len(encoder.pieces(text)) <= 8191 for text in server.asked[0]["input"]] == [True] * 3
