"""The cascade: the offline matcher first, and a real request over HTTP only where it is undecided."""

import json
import logging
from collections.abc import Callable

import pytest

from answerkey.metrics_core import Sample, create
from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.offline_judge import matcher
from answerkey.metrics_core.offline_judge.matcher import Match
from tests.judge_server import JudgeServer, data_of

Serve = Callable[..., JudgeServer]
SAMPLES = [
    Sample("known", "PARIS", ["paris"], "Capital?"),
    Sample("sure", "It is Paris.", ["Paris"], "Capital of France?"),
    Sample("unsure", "It lies on the Seine.", ["Paris"], "Capital of France?"),
    Sample("blank", None, ["Paris"], "Capital of France?"),
]


def says_no(body):
    assert data_of(body)["answer"] == "It lies on the Seine."
    return json.dumps({"reason": "A river.", "reference": None, "rule": "factual_equivalence", "verdict": "mismatch"})


def undecided(found, accepted_error):
    """As the matcher's own, with probabilities that a test can know."""
    return min(found.probability, 1 - found.probability) > accepted_error


def scripted(pairs, *, cache_dir=None):
    assert cache_dir == "kept"
    known = {"It is Paris.": (True, 0.99), "It lies on the Seine.": (True, 0.6)}
    return [
        Match(match, p, "match" if match else "mismatch", "model", "looks alike", 0, "")
        for match, p in (known[pair.answer] for pair in pairs)
    ]


@pytest.fixture
def measure(judge_server, monkeypatch):
    monkeypatch.setattr(matcher, "match", scripted)
    monkeypatch.setattr(matcher, "undecided", undecided)
    server = judge_server(says_no)

    def run(**changes):
        judge = JudgeOptions(**{"judges": (f"openai/m@{server.url}",), "cascade": 0.05, **changes})
        [metric] = create(["meaning_match"], dict(judge=judge, embedding_cache="kept"))
        return metric.measure(SAMPLES)

    run.server = server
    return run


def test_only_what_is_undecided_is_asked_and_the_details_say_who_decided(measure, caplog):
    with caplog.at_level(logging.INFO, "answerkey"):
        known, sure, unsure, blank = measure()
    assert [m.values["match"] for m in (known, sure, unsure, blank)] == [1.0, 1.0, 0.0, 0.0]
    assert measure.server.n_requests == 1
    assert (sure.details["decided_by"], sure.details["probability"], sure.reason) == ("offline", 0.99, "looks alike")
    assert (unsure.details["decided_by"], unsure.details["rule"], unsure.reason) == (
        "judge",
        "factual_equivalence",
        "A river.",
    )
    assert "decided_by" not in {**known.details, **blank.details}
    assert (len(unsure.requests), sure.requests) == (1, ())
    assert caplog.messages[0] == (
        "meaning_match: the offline matcher decided 1 of 2 answers at an accepted error of 0.05; "
        "the other 1 go to the judge"
    )


def test_the_more_error_is_accepted_the_less_is_asked(measure):
    assert measure(cascade=0.45)[2].values == {"match": 1.0}
    assert measure.server.n_requests == 0


def test_a_jury_behind_it_has_a_spread_and_the_matcher_has_none(measure):
    _, sure, unsure, _ = measure(repeats=3)
    assert (sure.values, unsure.values) == ({"match": 1.0, "spread": 0.0}, {"match": 0.0, "spread": 0.0})
    assert measure.server.n_requests == 3


def test_a_judge_that_is_down_fails_only_what_it_is_asked(measure):
    measure.server.faults = lambda _number, _body: "unauthorized"
    assert [m.status for m in measure()] == ["scored", "scored", "failed", "scored"]


def test_signatures_name_both_judges_and_the_error():
    judge = JudgeOptions(judges=("openai/m",), cascade=0.02)
    match, similarity = create(["meaning_match", "ground_truth_similarity"], dict(judge=judge))
    parts = dict(part.split(":", 1) for part in match.signature.split("|")[2:])
    assert (parts["judge"], parts["first"], parts["cascade"]) == ("openai/m", matcher.signature(), "0.02")
    # There is no cascade for facts: the judge is asked about all, and nothing is measured again for it.
    [plain] = create(["ground_truth_similarity"], dict(judge=judge.model_copy(update={"cascade": 0.0})))
    assert similarity.signature == plain.signature
