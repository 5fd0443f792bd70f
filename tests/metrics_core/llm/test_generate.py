"""Prompts from templates, and answers over real HTTP through the judges' machinery."""

from __future__ import annotations

import itertools
import re
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.access import Access, CallLimits
from answerkey.metrics_core.llm.generate import Prompting, estimate_cost, filled, generate, left_out, placeholders
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.metrics.meaning_match import MeaningMatch
from answerkey.metrics_core.sample import Sample
from tests.judge_server import JudgeServer, Reply, agreeable, scheduled
from tests.metrics_core.judges.asking import KEY, count, rows, setup

_fresh = itertools.count()


def echo(body):
    """The model says the last words of the question."""
    return f"It is {body['messages'][-1]['content'].split()[-1]}"


class Setup(NamedTuple):
    """The arguments of `generate`."""

    model: ModelRef
    limits: CallLimits
    access: Access


def options(server, model="", ledger=None, **limits):
    """A model at this server; its name is new unless `model` gives one, since a process remembers what models take."""
    name = model or f"openai/model-{next(_fresh)}"
    return Setup(ModelRef(name, server.url, KEY), CallLimits(**limits), Access(ledger=ledger))


def requests(asked, n, prompting=None):
    how = prompting or Prompting()
    return [how.request(asked.model, {"question": f"Number {i}"}) for i in range(n)]


@pytest.mark.parametrize(
    ("template", "names"),
    [
        ("{question}", ("question",)),
        ("{ meta.topic }: {question} {question}", ("meta.topic", "question")),
        ('Reply as {{"answer": ...}}: {q}', ("q",)),
        ("no place", ()),
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
    assert placeholders(template) == ()
    assert filled(template, {}) == text


def test_answers_come_in_the_order_of_the_questions_and_once_only(tmp_path):
    with JudgeServer(echo) as server:
        asked = options(server, ledger=str(tmp_path))
        how = Prompting("Be brief.", "Q: {question}", 0.7, 5, 20)
        questions = requests(asked, 40, how)
        found = generate([*questions, questions[3]], *asked)
        assert [one.text for one in found] == [*(f"It is {i}" for i in range(40)), "It is 3"]
        assert [one.status for one in found].count("generated") == server.n_requests == 40
        body = server.requests[0].body
        assert body["messages"][0] == {"role": "system", "content": "Be brief."}
        assert re.fullmatch(r"Q: Number \d+", body["messages"][1]["content"])
        assert (body["temperature"], body["seed"], body["max_tokens"]) == (0.7, 5, 20)
        assert "response_format" not in body
        again = generate(questions, *asked)
        assert {(one.status, one.bill.calls) for one in again} == {("from_ledger", 0)}
        assert server.n_requests == 40
    assert set(rows(tmp_path, "prompt, kind, format, status")) == {("answer@1", "ask", "text", "usable")}


@pytest.mark.parametrize("change", [{"temperature": 0.1}, {"seed": 1}, {"max_tokens": 9}, {"system": "Be brief."}])
def test_what_is_asked_otherwise_is_asked_anew(change, tmp_path):
    with JudgeServer(echo) as server:
        asked = options(server, ledger=str(tmp_path))
        generate(requests(asked, 2), *asked)
        generate(requests(asked, 2, Prompting(**change)), *asked)
        assert server.n_requests == 4


def test_faults_in_a_third_of_the_calls_cost_no_answer(tmp_path):
    kinds = ("rate_limit", "error_500", "error_503", "drop", "empty", "not_json_body")
    with JudgeServer(echo, faults=scheduled(0.3, 4, kinds), latency=0.01) as server:
        asked = options(server, ledger=str(tmp_path), concurrency=16, deadline_s=60.0)
        found = generate(requests(asked, 60), *asked)
        assert [one.text for one in found] == [f"It is {i}" for i in range(60)]
        assert sum(server.fault_counts.values()) >= 12
    assert count(tmp_path, "status = 'usable'") == 60
    assert sum(one.bill.calls for one in found) == server.n_requests


@pytest.mark.parametrize(
    ("say", "reason", "calls"),
    [
        (lambda _body: Reply("", "length"), "no_room: nothing that can be seen before the answer was cut off; ", 1),
        (lambda _body: Reply("\u200b"), "empty_reply: the reply is empty", 3),
        (lambda _body: Reply("", "content_filter"), "content_filter: ", 1),
    ],
)
def test_an_empty_answer_counts_as_no_answer(say, reason, calls, tmp_path):
    with JudgeServer(say) as server:
        asked = options(server, ledger=str(tmp_path))
        [found] = generate(requests(asked, 1), *asked)
        assert (found.text, found.status, server.n_requests) == (None, "failed", calls)
        assert found.reason is not None and found.reason.startswith(reason)


def test_an_answer_that_was_cut_off_is_an_answer_as_long_as_it_is(tmp_path):
    with JudgeServer(lambda _body: Reply('It is {"a": 1} and', "length")) as server:
        asked = options(server, ledger=str(tmp_path))
        [found] = generate(requests(asked, 1), *asked)
        assert (found.text, found.status, server.n_requests) == ('It is {"a": 1} and', "generated", 1)
        assert found.origin is not None and found.origin.finish_reason == "length"


def test_the_budget_stops_and_the_next_run_goes_on(tmp_path):
    with JudgeServer(echo) as server:
        asked = options(server, ledger=str(tmp_path))
        first = generate(requests(asked, 10), *options(server, asked.model.model, ledger=str(tmp_path),
                                                      max_calls=4))  # fmt: skip
        assert sorted(one.status for one in first) == ["generated"] * 4 + ["skipped"] * 6
        assert {one.reason for one in first if one.text is None} == {"budget used up: 4 calls (max_calls)"}
        second = generate(requests(asked, 10), *asked)
        assert [one.text for one in second] == [f"It is {i}" for i in range(10)]
        assert server.n_requests == 10


def test_as_many_calls_are_made_as_were_estimated(tmp_path):
    with JudgeServer(echo) as server:
        asked = options(server, "openai/gpt-4o-mini", ledger=str(tmp_path / "home"))
        questions = [*requests(asked, 5), *requests(asked, 2)]
        before = estimate_cost(questions, asked.model, asked.access.ledger)
        assert (before.samples, before.calls, before.in_ledger, server.n_requests) == (7, 5, 0, 0)
        assert before.cost_usd is not None and before.cost_usd > 0
        assert list(tmp_path.iterdir()) == []
        generate(questions[:3], *asked)
        assert (
            estimate_cost(questions, asked.model, asked.access.ledger).calls,
            estimate_cost(questions, asked.model, asked.access.ledger).in_ledger,
        ) == (2, 3)
        generate(questions, *asked)
        assert server.n_requests == 5


def test_a_parameter_that_the_server_refuses_is_left_out_and_named(tmp_path):
    with JudgeServer(echo, refuse_parameters=("temperature",)) as server:
        asked = options(server, ledger=str(tmp_path))
        assert left_out(asked.model) == ()
        [found] = generate(requests(asked, 1), *asked)
        assert (found.text, left_out(asked.model)) == ("It is 0", ("temperature",))


def test_a_model_that_judges_as_well_is_still_asked_for_a_format(tmp_path):
    with JudgeServer(lambda body: echo(body) if "response_format" not in body else agreeable(body)) as server:
        asked = options(server, ledger=str(tmp_path))
        generate(requests(asked, 2), *asked)
        judge = setup(f"{asked.model.model}@{server.url}", ledger=str(tmp_path))
        [found] = judge.metric(MeaningMatch).measure([Sample("s", "It is one.", ["1"], "How many?")])
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
        asked = Setup(ModelRef.parse(model), CallLimits(), Access())
        generate(requests(asked, 1), *asked)


def test_a_model_that_refuses_every_call_is_called_a_model(tmp_path):
    with JudgeServer(echo, faults=lambda _number, _body: "unauthorized") as server:
        asked = options(server, ledger=str(tmp_path), concurrency=2)
        found = generate(requests(asked, 30), *asked)
        assert server.n_requests <= 8
    reasons = [one.reason or "" for one in found]
    assert all(reason.startswith("http_401: ") for reason in reasons)
    assert any("not asked, since the model refuses every call" in reason for reason in reasons)
    assert KEY not in repr(found)
