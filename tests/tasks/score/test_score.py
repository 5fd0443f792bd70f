"""In which order and where shards are scored, and where judges and their key come from."""

import multiprocessing
import os
import signal
from dataclasses import replace

import pytest

from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.registry import create
from answerkey.tasks.score.keys import key, settings
from answerkey.tasks.score.score import _pool, schedule_order, spawns, start_processes
from answerkey.tasks.score.shard import Shard
from tests.tasks.staging_help import refusal

ASKED = dict(judge=JudgeOptions(judges=("openai/a",)))


def shard(metric, number, options=ASKED):
    [made] = create([metric], options)
    return Shard(made, "home", "todo.parquet", number, 1, f"{number}.parquet")


def test_a_judge_and_a_model_start_at_once_and_take_turns_when_the_words_are_done():
    judges = [shard("meaning_match", number) for number in range(5)]
    semantic = [shard("semantic_similarity", number) for number in range(3)]
    lexical = [shard("bleu", number) for number in range(4)]
    found = schedule_order([*lexical, *semantic, *judges])
    assert found[:6] == [semantic[0], judges[0], *lexical]
    assert found[6:] == [judges[1], semantic[1], judges[2], judges[3], semantic[2], judges[4]]
    assert schedule_order([*lexical, *judges]) == [judges[0], *lexical, *judges[1:]]


def test_the_offline_judge_is_done_by_processes_and_first_since_it_takes_longest():
    offline = [shard("meaning_match", number, {}) for number in range(2)]
    lexical = [shard("bleu", number) for number in range(2)]
    assert schedule_order([*lexical, *offline]) == [*offline, *lexical]


@pytest.fixture
def _no_processes(monkeypatch):
    """On a machine of two processors; the processes that are started end with the test."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    yield
    _pool().shutdown(kill_workers=True)
    _pool.cache_clear()


@pytest.mark.real
@pytest.mark.usefixtures("_no_processes")
def test_only_what_is_computed_in_python_is_worth_processes():
    def rows(**n_rows):
        return [replace(shard(metric, 0), n_rows=n) for metric, n in n_rows.items()]

    assert not spawns(rows(bleu=40_000, semantic_similarity=1_000_000, meaning_match=1_000_000))
    assert spawns(rows(bleu=20_001, chrf=20_000))
    offline = replace(shard("meaning_match", 0, {}), n_rows=8_001)
    assert spawns([offline]) and not spawns([replace(offline, n_rows=8_000)])


@pytest.mark.usefixtures("_no_processes")
@pytest.mark.real
def test_processes_are_started_before_there_is_anything_to_score():
    # Another test may have started the one of Great Expectations.
    others = len(multiprocessing.active_children())

    def started(metrics, n_rows):
        start_processes([shard(metric, 0).metric for metric in metrics], n_rows)
        return len(multiprocessing.active_children()) - others

    assert started(["bleu", "chrf", "semantic_similarity"], 20_000) == 0
    assert started(["bleu", "chrf"], 20_001) == 2


@pytest.mark.usefixtures("_no_processes")
@pytest.mark.real
def test_without_processes_everything_is_scored_in_this_one(caplog):
    start_processes([shard("bleu", 0).metric], 40_001)
    for process in multiprocessing.active_children():
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    assert not spawns([replace(shard("bleu", 0), n_rows=40_001)])
    assert [record.message for record in caplog.records] == [
        "no other process could be started, so this one does everything"
    ]
    # The next run tries again.
    assert spawns([replace(shard("bleu", 0), n_rows=40_001)])


# Where judges and their key come from, as far as parameters and the environment go.


SECRET = "sk-0123456789abcdef"


def test_parameters_come_before_the_environment(monkeypatch):
    assert settings((), "") == ((), "")
    assert settings(["openai/a"], "http://here/v1") == (("openai/a",), "http://here/v1")
    monkeypatch.setenv("ANSWERKEY_JUDGE", " openai/b , openai/c@http://there/v1,")
    monkeypatch.setenv("ANSWERKEY_JUDGE_BASE", " http://base/v1 ")
    assert settings((), "") == (("openai/b", "openai/c@http://there/v1"), "http://base/v1")
    assert settings(["openai/a"], "") == (("openai/a",), "http://base/v1")
    assert settings([], "http://here/v1") == (("openai/b", "openai/c@http://there/v1"), "http://here/v1")
    monkeypatch.setenv("ANSWERKEY_JUDGE", "  ")
    assert settings((), "") == ((), "http://base/v1")


def test_the_key_comes_from_the_environment(monkeypatch):
    assert key("") is None
    monkeypatch.setenv("ANSWERKEY_JUDGE_KEY", f" {SECRET}\n")
    monkeypatch.setenv("OTHER", "other-key")
    assert key("") == SECRET
    assert key("env:OTHER") == "other-key"
    monkeypatch.setenv("OTHER", " ")
    assert refusal(key, "env:OTHER") == "the judge's key is not in env:OTHER: export OTHER=... where the run starts"


@pytest.mark.parametrize("place", ["secret:block", "variable:name"])
def test_without_a_server_prefect_has_no_key(place):
    assert refusal(key, place) == (
        f"the judge's key is not in {place}: there is no Prefect server: set PREFECT_API_URL, or use env:NAME"
    )


@pytest.mark.parametrize("given", [SECRET, "env:", f"env:{SECRET}", f"key:{SECRET}"])
def test_a_key_given_in_place_of_its_location_is_not_repeated(given):
    message = refusal(key, given)
    assert "is written env:NAME, secret:BLOCK or variable:NAME" in message and SECRET not in message
