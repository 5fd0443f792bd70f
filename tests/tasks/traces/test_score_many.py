"""Many traces and three rules: the counts add up, a second run scores only what is new, samples grow.

`benchmarks/score_traces.py` has the same checks on more of them.
"""

from datetime import UTC, datetime

import pytest

from answerkey.tasks.traces.select import Window
from tests.judge_server import JudgeServer
from tests.tasks.judging_help import judged, wordy
from tests.tasks.staging_help import jsonl, query
from tests.tasks.traces.tracing_help import counts, rule, run, trace

N = 20_000
DISTINCT = N // 5


def taken(home, name):
    found = query(home, "SELECT trace_id FROM trace_outcomes WHERE rule = ? AND outcome = 'scored'", [name])
    return {trace_id for (trace_id,) in found}


@pytest.mark.slow
def test_three_rules_over_many_traces(tmp_path):
    environments = ["production"] * 9 + ["staging"]
    jsonl(
        tmp_path / "log.jsonl",
        (trace(n % DISTINCT, id=f"t{n}", env=environments[n % 10], ms=n % 100) for n in range(N)),
    )
    rules = {
        "words": rule(tmp_path, name="words", metric="token_overlap", where="env = 'staging' AND ms < 50"),
        "tenth": rule(tmp_path, name="tenth", metric="contains", sampling=0.1, where="env = 'production'"),
        "judged": rule(tmp_path, name="judged", metric="meaning_match", judge="openai/some-model", sampling=0.005),
    }
    with JudgeServer(wordy) as judge:
        options = {"judged": judged(judge.url)}
        first = {name: run(tmp_path, one, options=options.get(name)) for name, one in rules.items()}
        for funnel in first.values():
            ends = ("disabled", "filtered", "sampled_out", "quarantined", "scored", "undefined", "failed", "skipped")
            assert funnel.seen == N == sum(getattr(funnel, end) for end in ends)
        assert counts(first["words"]) == {"seen": N, "filtered": 19_000, "scored": 1_000, "measured": 200}
        assert first["tenth"].filtered == 2_000 and abs(first["tenth"].scored - 1_800) < 3 * 41
        assert abs(first["judged"].scored - 100) < 30 and judge.n_requests == first["judged"].measured

        jsonl(
            tmp_path / "log.jsonl",
            [trace(DISTINCT + n, id=f"new{n}", env="staging", ms=1) for n in range(50)],
            mode="a",
        )
        second = {name: run(tmp_path, one, options=options.get(name)) for name, one in rules.items()}
    assert [funnel.seen for funnel in second.values()] == [50, 50, 50]
    assert counts(second["words"]) == {"seen": 50, "scored": 50, "measured": 50}
    assert counts(second["tenth"]) == {"seen": 50, "filtered": 50}

    tenth = taken(tmp_path, "tenth")
    fifth = rule(tmp_path, name="tenth", metric="contains", sampling=0.2, where="env = 'production'")
    run(tmp_path, fifth, Window(since=datetime(2026, 1, 1, tzinfo=UTC)))
    assert tenth < taken(tmp_path, "tenth") and abs(len(taken(tmp_path, "tenth")) - 3_600) < 3 * 54
    assert query(tmp_path, "SELECT rule, count(*) FROM trace_funnels GROUP BY rule ORDER BY rule") == [
        ("judged", 2), ("tenth", 3), ("words", 2),
    ]  # fmt: skip
