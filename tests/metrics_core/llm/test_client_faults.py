"""800 samples while the server fails 30 % of all requests in every way it knows. Nothing is lost, nothing is guessed,
nothing that was answered is asked again, and the ledger and the server tell the same story."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

from answerkey.metrics_core import Measurement
from answerkey.metrics_core.measurement import Failed
from tests.judge_faults import PASSING
from tests.judge_http import Received
from tests.judge_server import JudgeServer, scheduled
from tests.metrics_core.judges.asking import ask, every_third_match, number_of, options, rows, samples

pytestmark = pytest.mark.slow
SAMPLES = 800
# How the client records each fault.
CODES = {
    "rate_limit": "http_429",
    "rate_limit_after": "http_429",
    "error_500": "http_500",
    "error_503": "http_503",
    "hang": "timeout",
    "trickle": "timeout",
    "drop": "disconnected",
    "empty": "empty_reply",
    "conflict": "conflict",
    "cut_off": "truncated",
    "wrong_types": "unreadable",
}


@dataclass(frozen=True)
class Run:
    """What one evaluation left behind: its measurements, the server's requests, the ledger's rows."""

    found: list[Measurement]
    requests: list[Received]
    calls: list[tuple[str, str, str | None, str]]
    """kind, status, code, request_key"""


def run(server: JudgeServer, folder: Path, model: str, timeout_s: float) -> Run:
    """Evaluate all samples, with what was left before taken away."""
    server.reset()
    before = len(rows(folder, "kind")) if any(folder.iterdir()) else 0
    judge = options(server, model, ledger=str(folder), timeout_s=timeout_s)
    found = ask(samples(SAMPLES), judge)
    return Run(found, server.requests, rows(folder, "kind, status, code, request_key")[before:])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, first_call_made: None) -> tuple[Run, Run]:
    """The run, and the same again over the same ledger; with more time where good replies came too late."""
    for timeout_s in (1.0, 5.0, 20.0):
        folder = tmp_path_factory.mktemp("ledger")
        with JudgeServer(
            every_third_match, faults=scheduled(0.3, seed=11), retry_after=0.05, trickle_seconds=10 * timeout_s
        ) as server:
            model = f"openai/faulty-{timeout_s:g}"
            both = run(server, folder, model, timeout_s), run(server, folder, model, timeout_s)
        late = [sum(request.fault in ("hang", "trickle") for request in one.requests) for one in both]
        if [sum(code == "timeout" for _, _, code, _ in one.calls) for one in both] == late:
            break
    return both


def test_the_faults_are_what_they_should_be(runs: tuple[Run, Run]) -> None:
    kinds = Counter(request.fault for request in runs[0].requests)
    assert set(kinds) == {None, *PASSING}
    assert 0.25 < 1 - kinds[None] / kinds.total() < 0.35


def test_every_sample_ends_scored_or_failed_with_its_cause(runs: tuple[Run, Run]) -> None:
    for done in runs:
        assert len(done.found) == SAMPLES
        assert {one.status for one in done.found} == {"scored", "failed"}
        for one in done.found:
            if isinstance(one.outcome, Failed):
                assert one.outcome.code in CODES.values()
                assert one.outcome.message
                assert one.outcome.attempts >= 1


def test_the_order_is_kept(runs: tuple[Run, Run]) -> None:
    for done in runs:
        assert [one.sample_id for one in done.found] == [f"s{n}" for n in range(SAMPLES)]
        for n, one in enumerate(done.found):
            if one.status == "scored":
                assert (one.reason, one.values) == (f"this is {n}", {"match": float(n % 3 == 0)})


def test_the_server_and_the_ledger_count_the_same(runs: tuple[Run, Run]) -> None:
    for done in runs:
        assert len(done.requests) == len(done.calls)
        assert sum(one.outcome.attempts for one in done.found if isinstance(one.outcome, Failed)) <= len(done.calls)
        asked = Counter(number_of(request.body) for request in done.requests)
        keys = {one.requests[0]: n for n, one in enumerate(done.found)}
        assert Counter(keys[key] for *_, key in done.calls) == asked


def test_each_fault_is_in_the_ledger_under_its_name(runs: tuple[Run, Run]) -> None:
    for done in runs:
        met = Counter(CODES.get(request.fault or "") for request in done.requests)
        written = Counter(code for _, _, code, _ in done.calls)
        assert written == met


def test_nothing_is_asked_again_after_success(runs: tuple[Run, Run]) -> None:
    answered: set[str] = set()
    for done in runs:
        for _, status, _, key in done.calls:
            assert key not in answered
            if status == "usable":
                answered.add(key)
        assert answered == {one.requests[0] for one in done.found if one.status == "scored"}


def test_nothing_is_asked_again_after_a_conflict(runs: tuple[Run, Run]) -> None:
    for done in runs:
        codes: dict[str, list[str | None]] = defaultdict(list)
        for _, _, code, key in done.calls:
            codes[key].append(code)
        in_conflict = {key for key, of_key in codes.items() if "conflict" in of_key}
        assert {codes[key].index("conflict") - len(codes[key]) for key in in_conflict} <= {-1}
        assert in_conflict == {
            one.requests[0] for one in done.found if isinstance(one.outcome, Failed) and one.outcome.code == "conflict"
        }


def test_each_question_has_one_repair_and_more_room_once_at_most(runs: tuple[Run, Run]) -> None:
    for done in runs:
        remedies: dict[str, Counter[str]] = defaultdict(Counter)
        for kind, status, _, key in done.calls:
            if status != "error":
                remedies[key][kind] += 1
        assert max(max(counts.values()) for counts in remedies.values()) == 1
        # Trouble is tried six times for each of ask, longer and repair; limits are not counted, but are rare enough.
        assert max(Counter(key for *_, key in done.calls).values()) <= 12


def test_most_are_scored_and_the_second_run_asks_only_for_the_rest(runs: tuple[Run, Run]) -> None:
    first, second = runs
    failed = {n for n, one in enumerate(first.found) if one.status == "failed"}
    # A conflict is final in its run: 30 % of a thirteenth of all requests.
    assert 10 <= len(failed) < 0.06 * SAMPLES
    assert {number_of(request.body) for request in second.requests} == failed
    assert [one.outcome for n, one in enumerate(second.found) if n not in failed] == [
        one.outcome for n, one in enumerate(first.found) if n not in failed
    ]
    assert {n for n, one in enumerate(second.found) if one.from_ledger} == set(range(SAMPLES)) - failed
    assert sum(one.status == "failed" for one in second.found) < len(failed) / 2
