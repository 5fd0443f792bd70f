"""An answer that equals a reference but for a case that may mean something is asked about."""

import pytest

from answerkey.metrics_core import Sample, evaluate
from tests.metrics_core.judges.asking import options


@pytest.mark.parametrize(
    ("answer", "reference", "asked"),
    [
        ("10 mg", "10 Mg", True), ("mW", "MW", True), ("Mb", "MB", True), ("US", "us", True), ("AIDS", "aids", True),
        ("oslo", "Oslo", False), ("OSLO", "Oslo", False), ("it is  Oslo", "It is Oslo", False), ("mW", "mW", False),
    ],
)  # fmt: skip
def test_a_case_that_may_mean_something_is_asked_about(answer, reference, asked, judge_server):
    server = judge_server(no)
    sample = Sample("1", answer, [reference], "Which is it?")
    [found] = evaluate([sample], ["meaning_match"], **options(server)._asdict())
    assert (server.n_requests, found.values["match"]) == ((1, 0.0) if asked else (0, 1.0))
    [offline] = evaluate([sample], ["meaning_match"])
    assert offline.values["match"] == 1.0
    several = Sample("2", answer, [reference, answer], "Which is it?")
    evaluate([several], ["meaning_match"], **options(server)._asdict())
    assert server.n_requests == int(asked), "one of the references has the same case"


def no(_body):
    return '{"reason": "another unit", "reference": null, "rule": "factual_equivalence", "verdict": "mismatch"}'
