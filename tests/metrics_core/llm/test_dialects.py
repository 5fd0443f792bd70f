"""Replies in the dialects of models and servers, over HTTP: one call for each, and the verdict that the judge gave.

Every reply with a draft holds the opposite verdict too, so a reader that takes the wrong object shows.
"""

import json

import pytest

from tests.metrics_core.judges.asking import ask, number_of, samples, setup
from tests.raw_server import RawServer, ok, said

pytestmark = pytest.mark.usefixtures("first_call_made")

YES = '{"reason":"same city","reference":1,"rule":"alias","verdict":"match"}'
NO = '{"reason":"another city","reference":null,"rule":"factual_equivalence","verdict":"mismatch"}'
THOUGHTS = {
    "capitals": f"<THINK>{NO}</THINK>{YES}",
    "reasoning": f"<reasoning>{NO}</reasoning>\n{YES}",
    "thought": f"<thought>{NO}</thought>{YES}",
    "analysis": f"<analysis>{NO}</analysis>{YES}",
    "attributes": f'<thinking type="draft">{NO}</thinking>{YES}',
    "two blocks": f"<think>{NO}</think>\n<reflection>{NO}</reflection>{YES}",
    "within an answer's tags": f"<scratchpad>{NO}</scratchpad><answer>{YES}</answer>",
    "brackets": f"[THINK]{NO}[/THINK]{YES}",
    "brackets, end alone": f"{NO} Wait.[/THINK]{YES}",
    "after a greeting": f"Certainly.\n<reasoning>{NO}</reasoning>{YES}",
    "triangles": f"◁think▷{NO}◁/think▷{YES}",
    "begin and end": f"<|begin_of_thought|>{NO}<|end_of_thought|><|begin_of_solution|>{YES}<|end_of_solution|>",
    "start and end": f"<|START_THINKING|>{NO}<|END_THINKING|><|START_RESPONSE|>{YES}<|END_RESPONSE|>",
    "bars": f"<|thinking|>{NO}<|/thinking|>{YES}",
    "channels, constrained": (
        f"<|channel|>analysis<|message|>{NO}<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>{YES}"
    ),
    "channels without marks": f"analysis{NO} So yes.assistantfinal{YES}",
    "unused tokens": f"<unused94>thought\n{NO}<unused95>{YES}",
}
FORMS = {
    "LaTeX": r'{"reason":"\(x=2\) is \theta, \frac{1}{2} or \nu","reference":1,"rule":"alias","verdict":"match"}',
    "regular expression": r'{"reason":"it matches \d+\.\w","reference":1,"rule":"alias","verdict":"match"}',
    "apostrophe": r'{"reason":"it\'s right","reference":1,"rule":"alias","verdict":"match"}',
    "comments": '{"reason":"it is", // "so"\n"reference":1, /* 1 */ "rule":"alias",\n"verdict":"match" # sure\n}',
    "brace in a comment": '{"reason":"it is", // } {"a":1}\n"reference":1,"rule":"alias","verdict":"match"}',
    "last commas": '{"reason":["it","is",],"reference":1,"rule":"alias","verdict":"match" , }',
    "Python's constants": '{"reason":"it is","reference":1,"rule":None,"verdict":"match","score":True}',
    "fixed blanks": '{\u00a0"reason":"it is",\u2003"reference":1,"rule":"alias","verdict":"match"}',
    "keys with capitals": '{"Reason":"it is","REFERENCE":1,"Rule":"alias"," Verdict":"match"}',
    "number as text": '{"reason":"it is","reference":" 1","rule":"alias","verdict":"match"}',
    "number in a list": '{"reason":"it is","reference":[1],"rule":"alias","verdict":"match"}',
    "rule with a blank": '{"reason":"it is","reference":1,"rule":"Factual equivalence","verdict":"match"}',
    "no rule": '{"reason":"it is","reference":1,"verdict":"match"}',
    "score of 1": '{"reason":"it is","reference":1,"rule":"alias","verdict":"match","score":1}',
    "score in words": '{"reason":"it is","reference":1,"rule":"alias","verdict":"match","score":"passed"}',
    "score alone": '{"Score":"PASSED","Reason":"it is"}',
}
AS_THOUGHTS = {
    "reasoning_content": {"content": None, "reasoning_content": YES},
    "reasoning": {"content": "", "reasoning": f" {YES}\n"},
}
REFUSED = {
    "two verdicts": (f"{NO} or rather {YES}", "conflict"),
    "thoughts alone": (f"<reasoning>{YES}", "only_thoughts"),
    "thoughts alone, later": (f"Well. <reasoning>{YES}", "only_thoughts"),
    "nothing after the thoughts": (f"Well. <reasoning>{YES}</reasoning>", "no_answer"),
    "another mark at the end": (f"[THINK]{NO}</THINK>{YES}", "only_thoughts"),
    "two ends": (f"{NO}</reasoning>{NO}</reasoning>{YES}", "conflict"),
    "a key in two cases": (YES.replace("{", '{"Verdict":"mismatch",'), "conflict"),
    "score of 0": (YES.replace("{", '{"score":0,'), "inconsistent"),
    "score between": (YES.replace("{", '{"score":0.9,'), "inconsistent"),
    "another reference as text": (YES.replace(":1,", ':"2",'), "inconsistent"),
    "two references": (YES.replace(":1,", ":[1,2],"), "inconsistent"),
    "true for a reference": (YES.replace(":1,", ":true,"), "inconsistent"),
    "comment without an end": (YES.replace("}", " /* }"), "truncated"),
    "two commas": (YES.replace("}", ",,}"), "not_json"),
    "objects in thoughts of the server": ({"content": None, "reasoning_content": f"Perhaps {YES}"}, "only_thoughts"),
}


def judge_saying(replies, folder):
    """The measurements by a judge that says these to one sample after the other, and the number of calls."""
    messages = [reply if isinstance(reply, dict) else {"content": reply} for reply in replies]

    def answer(request):
        return ok(said(messages[number_of(json.loads(request.partition(b"\r\n\r\n")[2]))]))

    with RawServer(answer) as server:
        measurements = ask(samples(len(messages)), setup(f"openai/dialects@{server.url}", ledger=str(folder)))
        return measurements, len(server.requests)


def test_every_dialect_is_read_with_one_call(tmp_path):
    dialects = THOUGHTS | FORMS | AS_THOUGHTS
    measurements, n_calls = judge_saying(dialects.values(), tmp_path)
    verdicts = {name: one.values or one.reason for name, one in zip(dialects, measurements, strict=True)}
    assert verdicts == {name: {"match": 1.0} for name in dialects}
    assert n_calls == len(dialects)


def test_what_can_be_read_in_two_ways_gives_no_number(tmp_path):
    measurements, _ = judge_saying([reply for reply, _ in REFUSED.values()], tmp_path)
    codes = {name: one.values or one.outcome.code for name, one in zip(REFUSED, measurements, strict=True)}
    assert codes == {name: code for name, (_, code) in REFUSED.items()}
    assert "check that its parser of thoughts (reasoning parser)" in (measurements[-1].reason or "")


def test_a_reason_keeps_its_letters(tmp_path):
    [latex, *_], _ = judge_saying([FORMS["LaTeX"]], tmp_path)
    assert latex.reason == r"\(x=2\) is \theta, \frac{1}{2} or \nu"
