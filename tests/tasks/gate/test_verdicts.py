"""Looks and candidates: what is counted as a look, and what the verdicts say and do about it."""

from collections.abc import Callable
from subprocess import CompletedProcess

import pytest

from answerkey.metrics_core.gate.policy import parse_policy
from answerkey.tasks.gate.gate import gate
from answerkey.tasks.gate.verdicts import look_at, looks_taken, stored_verdicts
from answerkey.tasks.reports.report import read_reports
from tests.tasks.comparing_help import answer, release

Cli = Callable[..., CompletedProcess[str]]
FIELD = "exact_match.match"


def policy(looks="once", margin=0.05):
    return parse_policy({"primary": FIELD, "margin": margin, "looks": looks}, "x")


def night(home, name, wrong, n=200, **more):
    """A report of one night: `wrong` are the questions that the release gets wrong."""
    return release(home, name, [answer(i, "no" if i in wrong else "yes") for i in range(n)], **more)


def looked(home, new, rules, candidates=1):
    said = gate(home, "d/old/v1", new, rules, candidates=candidates).verdict
    return said.look, said.level, said.sentence.rpartition("This is ")[2]


@pytest.mark.nightly
def test_every_new_night_is_a_look_and_the_same_data_are_none(home):
    night(home, "old", range(20))
    first, second = night(home, "new", range(10, 30)), night(home, "new", range(15, 35))
    assert looked(home, first, policy())[:2] == (1, 0.95)
    assert looked(home, second, policy())[0] == 2
    # The same reports again, with another margin, and a report of the same answers: nothing new was seen.
    assert looked(home, first, policy())[0] == 1
    assert looked(home, second, policy(margin=0.1))[0] == 2
    again = night(home, "new", range(15, 35))
    assert (again, looked(home, again, policy())[0]) == ("d/new/v3", 2)
    # Another release, and another way of measuring.
    other = night(home, "other", range(10, 30))
    assert looked(home, other, policy())[0] == 1
    grown = night(home, "new", range(15, 35), n=250)
    assert looked(home, grown, policy())[0] == 3
    old, new = read_reports(home, ["d/old/v1", first])
    assert [look_at(home, old, new, name) for name in (FIELD, "label.correct")] == [(1, 1), (1, 1)]
    assert [(one.old, one.new, one.looks) for one in looks_taken(home, ["d"], FIELD)["d"]] == [
        ("old", "new", 3), ("old", "other", 1),
    ]  # fmt: skip
    assert looks_taken(home, ["d"], "label.correct") == {"d": ()}


def test_a_gate_without_a_baseline_is_no_look(home):
    new = night(home, "new", range(10))
    assert gate(home, "old", new, policy()).verdict.outcome == "INCOMPLETE"
    night(home, "old", range(10))
    assert looked(home, new, policy())[0] == 1


@pytest.mark.nightly
def test_repeated_looks_and_candidates_share_the_error(home):
    night(home, "old", range(20))
    nights = [night(home, "new", range(10 + k, 30 + k)) for k in range(3)]
    rules = policy("repeated")
    assert [looked(home, new, rules)[1] for new in nights] == pytest.approx([0.975, 1 - 0.05 / 6, 1 - 0.05 / 12])
    look, level, sentence = looked(home, nights[2], rules, candidates=4)
    assert (look, level) == (3, pytest.approx(1 - 0.05 / 48))
    assert sentence == (
        "look 3, one of 4 candidates: intervals at 99.9 %, so that all looks and candidates together keep the error "
        "rate of one."
    )
    assert looked(home, nights[1], policy())[2] == (
        "look 2; the stated error rate holds for one look. Where data arrive, write looks: repeated, or how many looks "
        "there will be, before the first."
    )
    assert looked(home, nights[0], policy(), candidates=2)[1:] == (
        0.975, "one of 2 candidates: intervals at 97.5 %, so that all candidates together keep the error rate of one."
    )  # fmt: skip
    # A release that was one of several cannot get rid of them by being asked about alone.
    assert looked(home, nights[0], policy())[1] == 0.975
    [kept] = stored_verdicts(home, [nights[2]])
    assert (kept.verdict.look, kept.verdict.candidates, kept.verdict.level) == (3, 4, pytest.approx(1 - 0.05 / 48))
    assert {rule.level for rule in kept.verdict.rules} == {kept.verdict.level, None}
