"""Prompts from templates, and answers over real HTTP through the judges' machinery."""

import itertools
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.access import Access, CallLimits
from answerkey.metrics_core.llm.generate import Prompting, filled, generate, left_out, placeholders
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.metrics.meaning_match import MeaningMatch
from answerkey.metrics_core.sample import Sample
from tests.judge_server import Reply, agreeable, scheduled
from tests.kit.waiting import FAULT_S
from tests.metrics_core.judges.asking import KEY, always, count, rows, setup

_fresh = itertools.count()


def echo(body):
    """The model says the last words of the question."""
    return f"It is {body['messages'][-1]['content'].split()[-1]}"


class Model:
    """A model at a server; its name is new unless one is given, since a process remembers what models take."""

    def __init__(self, server, name="", ledger=None):
        self.ref = ModelRef(name or f"openai/model-{next(_fresh)}", server.url, KEY)
        self.access = Access(ledger=ledger and str(ledger))

    def requests(self, n, **prompting):
        return [Prompting(**prompting).request(self.ref, {"question": f"Number {i}"}) for i in range(n)]

    def ask(self, requests, **limits):
        return generate(requests, self.ref, CallLimits(**limits), self.access)


@pytest.mark.parametrize(
    ("template", "names"),
    [
        ("{question}", ("question",)),
        ("{ meta.topic }: {question} {question}", ("meta.topic", "question")),
        ('Reply as {{"answer": ...}}: {q}', ("q",)),
    ],
)
def test_placeholders(template, names):
    assert placeholders(template) == names


@pytest.mark.parametrize("template", ["{", "a } b", "{}", "{ }", "{{}", "{question} and {"])
def test_a_lone_brace_is_refused_in_one_line(template):
    with pytest.raises(
        UserError, match=r"^template: .* names no column; write \{question\}, and \{\{ or \}\} for a br"
    ):
        placeholders(template)


def test_values_are_not_templates():
    assert filled("{{{a}}} {b}", {"a": "{b}", "b": "{{x}} {a.__class__}"}) == "{{b}} {{x}} {a.__class__}"


@given(st.text())
def test_any_text_stands_for_itself_once_its_braces_are_doubled(text):
    template = text.replace("{", "{{").replace("}", "}}")
    assert (placeholders(template), filled(template, {})) == ((), text)


def test_answers_come_in_the_order_of_the_questions_and_once_only(judge_server, tmp_path):
    server = judge_server(echo)
    model = Model(server, ledger=tmp_path)
    how = {"system": "Be brief.", "template": "Q: {question}", "temperature": 0.7, "seed": 5, "max_tokens": 20}
    questions = model.requests(40, **how)
    found = model.ask([*questions, questions[3]])
    assert [one.text for one in found] == [*(f"It is {i}" for i in range(40)), "It is 3"]
    assert [one.status for one in found].count("generated") == server.n_requests == 40
    body = server.requests[0].body
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert re.fullmatch(r"Q: Number \d+", body["messages"][1]["content"])
    assert (body["temperature"], body["seed"], body["max_tokens"]) == (0.7, 5, 20)
    assert "response_format" not in body
    assert {(one.status, one.bill.calls) for one in model.ask(questions)} == {("from_ledger", 0)}
    assert server.n_requests == 40
    assert set(rows(tmp_path, "prompt, kind, format, status")) == {("answer@1", "ask", "text", "usable")}


def test_faults_in_a_third_of_the_calls_cost_no_answer(judge_server, tmp_path):
    kinds = ("rate_limit", "error_500", "error_503", "drop", "empty", "not_json_body")
    planned, tries = scheduled(0.3, 4, kinds), Counter()

    def fault(number, body):
        """Those that are planned, but none at a third try, whatever the order in which requests arrive."""
        tries[echo(body)] += 1
        return planned(number, body) if tries[echo(body)] <= 2 else None

    server = judge_server(echo, faults=fault, latency=0.01)
    model = Model(server, ledger=tmp_path)
    found = model.ask(model.requests(60), concurrency=16, deadline_s=FAULT_S)
    assert [one.text for one in found] == [f"It is {i}" for i in range(60)]
    assert sum(server.fault_counts.values()) >= 12
    assert count(tmp_path, "status = 'usable'") == 60
    assert sum(one.bill.calls for one in found) == server.n_requests


def test_an_empty_answer_counts_as_no_answer(judge_server):
    server = judge_server(lambda _body: Reply("\u200b"))
    model = Model(server)
    [found] = model.ask(model.requests(1))
    assert (found.text, found.status, server.n_requests) == (None, "failed", 3)
    assert found.reason.startswith("empty_reply: the reply is empty")


def test_a_parameter_that_the_server_refuses_is_left_out_and_named(judge_server):
    model = Model(judge_server(echo, refuse_parameters=("temperature",)))
    assert left_out(model.ref) == ()
    [found] = model.ask(model.requests(1))
    assert (found.text, left_out(model.ref)) == ("It is 0", ("temperature",))


def test_a_model_that_judges_as_well_is_still_asked_for_a_format(judge_server):
    server = judge_server(lambda body: echo(body) if "response_format" not in body else agreeable(body))
    model = Model(server)
    model.ask(model.requests(2))
    judge = setup(f"{model.ref.model}@{server.url}").metric(MeaningMatch)
    [found] = judge.measure([Sample("s", "It is one.", ["1"], "How many?")])
    assert found.status == "scored"
    assert server.requests[-1].body["response_format"]["type"] == "json_schema"


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            "openai/gpt-4o-mini",
            r"^model openai/gpt-4o-mini: no key; set OPENAI_API_KEY or ANSWERKEY_MODEL_KEY, or name",
        ),
        ("nobody/x", r"^model 'nobody/x': litellm knows no such provider; write PROVIDER/MODEL, "),
        ("nothing", r"^model 'nothing': write PROVIDER/MODEL, for instance openai/gpt-4o-mini$"),
    ],
)
def test_a_model_that_cannot_be_asked(model, message, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UserError, match=message):
        generate([Prompting().request(ModelRef("openai/m"), {"question": "?"})], ModelRef.parse(model))


def test_a_model_that_refuses_every_call_is_called_a_model(judge_server):
    server = judge_server(echo, faults=always("unauthorized"))
    model = Model(server)
    found = model.ask(model.requests(30), concurrency=2)
    assert server.n_requests <= 8
    assert all(one.reason.startswith("http_401: ") for one in found)
    assert any("not asked, since the model refuses every call" in one.reason for one in found)
    assert KEY not in repr(found)
