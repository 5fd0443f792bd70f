"""What is known is not scored again, what failed is, and the shards stay few."""

import os
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.llm.access import Access
from answerkey.metrics_core.metrics.preference import Preference
from answerkey.metrics_core.registry import METRICS, create
from answerkey.tasks.load.rows import staged_schema
from answerkey.tasks.reports.commit import commit
from answerkey.tasks.score.plan import plan, with_baseline_answers
from answerkey.tasks.score.shard import fail_shard, samples_of, score_shard
from tests.tasks.staging_help import query, refusal, rows_of, stage

ROWS = [
    {"id": f"q{i}", "question": f"Q{i}", "answer": f"a {i}", "references": [f"a {i} b"], "model": "one"}
    for i in range(8)
]


def planned(home, rows, *metrics, only_failed=False, **options):
    """The plan for some rows, or for an accepted file."""
    accepted = rows if isinstance(rows, str) else stage(home.local, rows).staged
    return plan(accepted, home, home.scratch / "plan", create(metrics, options), only_failed=only_failed)


def measured(home, rows, *metrics, failing="", **how):
    """Score some rows as planned, and commit the parts."""
    shards = planned(home, rows, *metrics, **how).shards
    parts = [fail_shard(c, "no answer") if c.metric.name == failing else score_shard(c) for c in shards]
    loaded = stage(home.local, rows)
    commit(home, "run", "source", loaded, loaded.staged, parts)


def todo_of(shard):
    return [row["sample_id"] for row in rows_of(f"{shard.home}/{shard.todo}")]


def test_shards_have_only_the_answers_of_the_baseline_that_their_rows_need(home):
    rows = [
        {"id": f"q{i}", "question": f"Q{i}", "answer": f"{release} {i}", "references": ["r"], "model": release}
        | ({"missing_because": "timeout", "answer": None} if (release, i) == ("old", 3) else {})
        for release in ("old", "new")
        for i in range(1_000)
    ]
    loaded = stage(home.local, rows)
    with_answers = with_baseline_answers([Preference(judge=JudgeOptions(judges=("openai/m",)))], loaded.staged, "old")
    made = plan(loaded.staged, home, home.scratch / "plan", with_answers, only_failed=False)
    seen = {}
    for shard in made.shards:
        texts = {one.sample_id: one.answer for some in samples_of(shard) for one in some}
        assert set(shard.metric.baseline_answers) <= set(texts)
        seen |= {texts[key]: rival for key, rival in shard.metric.baseline_answers.items()}
    assert len(made.shards) > 1
    # What the baseline did not answer is no blank answer, over which any other wins.
    answered = [i for i in range(1_000) if i != 3]
    assert seen == {f"{release} {i}": f"old {i}" for release in ("old", "new") for i in answered}


def test_new_and_changed_rows_alone_are_to_do(home):
    measured(home, ROWS, "bleu")
    rows = [*ROWS[:6], {**ROWS[6], "answer": "other"}, {**ROWS[7], "references": ["a 7"]}, {**ROWS[0], "id": "new"}]
    again = planned(home, rows, "bleu")
    # The row under a new id has the texts of the first one.
    assert (again.n_samples, again.n_known, again.n_todo) == (8, (("bleu", 6),), (("bleu", 2),))
    [shard] = again.shards
    assert todo_of(shard) == ["q6", "q7"]


def test_what_failed_is_tried_again(home):
    measured(home, ROWS[:5], "bleu", "chrf", failing="chrf")
    everything = planned(home, ROWS, "bleu", "chrf")
    assert everything.n_known == (("bleu", 5), ("chrf", 0))
    assert everything.n_todo == (("bleu", 3), ("chrf", 8))
    failed = planned(home, ROWS, "bleu", "chrf", only_failed=True)
    assert failed.n_todo == (("bleu", 0), ("chrf", 5))
    [shard] = failed.shards
    assert shard.metric.name == "chrf"
    assert todo_of(shard) == ["q0", "q1", "q2", "q3", "q4"]
    measured(home, ROWS[:5], "bleu", "chrf", only_failed=True)
    counts = query(home, "SELECT metric, status, count(*) FROM measurements GROUP BY ALL ORDER BY ALL")
    assert counts == [("bleu", "scored", 5), ("chrf", "scored", 5)]


def test_what_was_skipped_is_tried_again_but_has_not_failed(home):
    measured(home, ROWS, "bleu", failing="bleu")
    with home.warehouse.writing() as warehouse:
        warehouse.execute(
            "UPDATE measurements SET status = 'skipped' FROM answers a "
            "WHERE a.sample_key = measurements.sample_key AND sample_id < 'q3'"
        )
    again = planned(home, ROWS, "bleu")
    assert (again.n_known, again.n_todo) == ((("bleu", 0),), (("bleu", 8),))
    failed = planned(home, ROWS, "bleu", only_failed=True)
    assert failed.n_todo == (("bleu", 5),)
    assert todo_of(failed.shards[0]) == ["q3", "q4", "q5", "q6", "q7"]


def test_a_part_finished_before_a_crash_is_found_again(home):
    [shard] = planned(home, ROWS, "bleu").shards
    score_shard(shard)
    os.utime(Path(shard.home, shard.part), ns=(1, 1))
    # The process died here and is started again, with the rows in another order.
    [again] = planned(home, ROWS[::-1], "bleu").shards
    assert again.part == shard.part
    score_shard(again)
    assert Path(again.home, again.part).stat().st_mtime_ns == 1
    [other] = planned(home, ROWS[1:], "bleu").shards
    assert other.part != shard.part


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """An accepted file of 100,000 tiny rows, shuffled."""
    ids = random.Random(1).sample(range(100_000), 100_000)
    file = tmp_path_factory.mktemp("many") / "accepted.parquet"
    columns = {
        "row": list(range(100_000)),
        "sample_id": [f"{i:05}" for i in ids],
        "release": ["r"] * 100_000,
        "answer": ["a"] * 100_000,
        "references": [["a"]] * 100_000,
        "sample_key": [f"{i:032x}" for i in ids],
    }
    nothing = [None] * 100_000
    columns |= {name: nothing for name in staged_schema().names if name not in columns}
    pq.write_table(pa.table(columns, schema=staged_schema()), file)
    return str(file)


JUDGED = dict(judge=JudgeOptions(judges=("openai/some-model",)))


@pytest.mark.parametrize(
    ("rows", "names", "sizes"),
    [
        (1, ["meaning_match"], [1]),
        (999, ["meaning_match"], [999]),
        (1_000, ["meaning_match"], [500, 500]),
        (2_600, ["meaning_match"], [520] * 5),
        (100_000, ["meaning_match"], [2_500] * 40),
        # Each of several metrics has its share of the 40 shards.
        (2_600, list(METRICS)[-10:], [650] * 4),
    ],
)
def test_judges_get_small_shards(home, tmp_path, many, rows, names, sizes):
    some = tmp_path / "some.parquet"
    pq.write_table(pq.read_table(many).slice(0, rows), some)
    made = planned(home, str(some), *names, **JUDGED)
    judged = [shard for shard in made.shards if shard.metric.name == "meaning_match"]
    assert [shard.n_rows for shard in judged] == sizes
    # What they said is in the ledger, so a part serves one run only and lies with it.
    assert {Path(shard.part).parents[1] for shard in judged} == {Path("runs", "plan", "parts")}


def test_parts_of_the_offline_judge_outlive_a_run_that_was_killed(home):
    [shard] = planned(home, ROWS, "meaning_match").shards
    assert Path(shard.part).parents[1] == Path("parts")


def test_an_invalid_judge_is_refused_and_a_key_is_not_repeated(home):
    assert "judge 'some-model': write PROVIDER/MODEL, for instance openai/gpt-4o-mini, or" in refusal(
        planned, home, ROWS, "meaning_match", judge=JudgeOptions(judges=("some-model",))
    )
    with pytest.raises(ValueError, match="a judge's key does not travel") as error:
        planned(home, ROWS, "meaning_match", **JUDGED, access=Access("sk-secret"))
    assert "sk-secret" not in str(error.value)


def test_rows_are_scored_in_the_order_of_their_ids(home, many):
    assert todo_of(planned(home, many, "bleu").shards[0]) == [f"{i:05}" for i in range(100_000)]
