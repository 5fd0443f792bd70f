"""How many releases were held against a baseline: what is counted, and what the verdict says of it."""

from answerkey.metrics_core.policy_file import parse_policy
from answerkey.tasks.gate.gate import gate
from answerkey.tasks.gate.verdicts import stored_verdicts
from tests.tasks.comparing_help import answer, release, releases

FIELD = "exact_match.match"


def answers(wrong, n=200):
    """`n` answers of which those to the questions `wrong` are wrong."""
    return [answer(i, "no" if i in wrong else "yes") for i in range(n)]


def n_releases(home, new, margin=0.05):
    policy = parse_policy({"primary": FIELD, "margin": margin}, "x")
    return gate(home, "d/old/v1", new, policy).verdict.n_releases


def test_a_verdict_says_how_many_releases_were_held_against_the_baseline(home):
    wrong = {"old": range(20), "new": range(10, 30), "other": range(10, 30)}
    _, first, other = releases(home, {name: answers(numbers) for name, numbers in wrong.items()})
    second = release(home, "new", answers(range(15, 35)))
    assert n_releases(home, first) == 1
    # New answers of a release count like another release.
    assert n_releases(home, second) == 2
    # The same answers again, in an older report, by another policy and in a new report, are not counted twice.
    assert [n_releases(home, first), n_releases(home, second, margin=0.1)] == [2, 2]
    assert n_releases(home, release(home, "new", answers(range(15, 35)))) == 2

    assert n_releases(home, other) == 3
    [kept] = stored_verdicts(home, [other])
    assert kept.verdict.n_releases == 3
    assert kept.verdict.sentence.endswith(
        " 3 releases, or versions of their answers, were held against old so far, and each verdict has the error rate "
        "of one."
    )
