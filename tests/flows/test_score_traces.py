"""Scoring traces from the command line and as a flow: dry run, run, backfill, what the UI shows, what is refused."""

import json
import re
from datetime import UTC, datetime

import pytest
import yaml

from answerkey.flows.score_traces import Tracing, jobs, window_of
from answerkey.metrics_core.errors import UserError
from answerkey.tasks.warehouse.home import Home
from tests.judge_server import JudgeServer
from tests.kit.prefect_api import artifacts_of
from tests.tasks.judging_help import wordy
from tests.tasks.staging_help import jsonl, query
from tests.tasks.traces.tracing_help import MAPPING, trace


@pytest.fixture
def judge():
    with JudgeServer(wordy) as running:
        yield running


@pytest.fixture
def rules(tmp_path, judge):
    """Three rules on one log: words, a judge with a budget, and one that is switched off."""
    traces = [trace(n, output="wrong" if n % 4 == 0 else f"It is {n}") for n in range(40)]
    jsonl(tmp_path / "log.jsonl", [*traces, trace(40, env="staging"), "no json"])
    shared = {"source": "../log.jsonl", "mapping": MAPPING, "where": "env = 'production'"}
    asked = {"judges": [f"openai/gpt-4o-mini@{judge.url}"], "key_from": "env:KEY_OF_THE_TEST", "max_calls": 6}
    asked |= {"check": "never"}
    content = [
        {"name": "words", "metric": "token_overlap", **shared},
        {"name": "meaning", "metric": "meaning_match", "judge": asked, "sampling": 0.3, **shared},
        {"name": "off", "metric": "bleu", "enabled": False, **shared},
    ]
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "all.yaml").write_text(yaml.safe_dump({"rules": content}))
    return tmp_path / "rules"


@pytest.mark.real
def test_from_dry_run_to_history(cli, rules, judge, tmp_path, ask, home):

    def score(*arguments):
        process = cli("score-traces", rules, "--json", *arguments, KEY_OF_THE_TEST="secret-of-the-test", code=0)
        return {one["rule"]: one for one in json.loads(process.stdout)}

    foreseen = score("--dry-run")
    taken = foreseen["meaning"]["taken"]
    assert (judge.n_requests, query(home, "SELECT count(*) FROM trace_outcomes")) == (0, [(0,)])
    assert foreseen["words"]["taken"] == 40 and 6 < taken < 20
    estimate = foreseen["meaning"]["estimate"]
    assert estimate["calls"] == taken == len(foreseen["meaning"]["traces"]) and 0 < estimate["cost_usd"] < 0.01
    assert foreseen["words"]["estimate"] is None and foreseen["off"]["disabled"] == 42

    first = score()
    assert {name: one["seen"] for name, one in first.items()} == {"words": 42, "meaning": 42, "off": 42}
    assert (first["words"]["filtered"], first["words"]["quarantined"], first["words"]["scored"]) == (1, 1, 40)
    assert (first["meaning"]["scored"], first["meaning"]["skipped"], judge.n_requests) == (6, taken - 6, 6)
    assert {request.headers["authorization"] for request in judge.requests} == {"Bearer secret-of-the-test"}
    _what_the_ui_shows(home, ask, first["words"]["mean"])

    # What the budget left over is taken up, what is new is scored, and nothing else.
    jsonl(tmp_path / "log.jsonl", [trace(50)], mode="a")
    second = score("--rule", "words", "--rule", "meaning")
    assert (second["words"]["seen"], second["words"]["measured"]) == (1, 1)
    assert second["meaning"]["again"] == taken - 6
    assert judge.stats()["bodies"].most_common(1)[0][1] == 1
    _history(cli, home)


def _what_the_ui_shows(home, ask, mean):
    [(run_id,)] = query(home, "SELECT run_id FROM runs WHERE message IS NULL")
    [run] = ask("flow_runs/filter", {"flow_runs": {"id": {"any_": [run_id]}}})
    assert (run["name"], run["state_type"]) == ("score traces: rules", "COMPLETED")
    found = artifacts_of(ask, run_id)
    rows = {row["traces"]: row for row in json.loads(found["score-traces"]["data"])}
    assert [[row[rule] for rule in ("words", "meaning", "off")] for row in (rows["seen"], rows["disabled"])] == [
        ["42", "42", "42"], ["0", "0", "42"],
    ]  # fmt: skip
    assert rows["mean"]["words"] == f"{mean:.3f}"
    assert "| quarantined | 1 | cannot be scored |" in found["rule-words"]["data"]
    tasks = ask("task_runs/filter", {"task_runs": {}, "flow_runs": {"id": {"any_": [run_id]}}})
    names = sorted(task["name"] for task in tasks)
    assert [name for name in names if not name.startswith("score ")] == [
        "commit meaning", "commit off", "commit words", "prepare meaning", "prepare off", "prepare words", "publish",
    ]  # fmt: skip


def _history(cli, home):
    lines = cli("history", "--rule", "words", "--by", "week").stdout.splitlines()
    assert lines[0] == "token_overlap.recall of words by week"
    assert [line.split()[0] for line in lines if line.strip().startswith("2026")] == ["2026-10-26"]
    content = json.loads(cli("history", "recall", "--rule", "words", "--json").stdout)
    [day] = content["words"]["token_overlap.recall"]
    assert (day["start"], day["n_scored"], day["n_total"], day["methods"]) == ("2026-11-01", 41, 41, 1)


def test_one_source_that_cannot_be_read_holds_up_no_other_rule(cli, rules, tmp_path):
    (tmp_path / "broken.parquet").write_text("no parquet")
    shared = {"mapping": MAPPING, "metric": "contains"}
    (rules / "all.yaml").write_text(
        yaml.safe_dump({"rules": [
            {"name": "bad", "source": "../broken.parquet", **shared},
            {"name": "good", "source": "../log.jsonl", **shared},
        ]})
    )  # fmt: skip
    process = cli("score-traces", rules, "--home", tmp_path / "home", code=2)
    assert process.stderr.splitlines()[-1].startswith(
        f"answerkey: {tmp_path}/broken.parquet: this is not a .parquet file"
    )
    assert query(tmp_path / "home", "SELECT rule, n_scored FROM trace_funnels") == [("good", 41)]
    assert query(tmp_path / "home", "SELECT status FROM runs") == [("stopped",)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("source: ../log.jsonl", "source: ../nowhere", "source: {folder}/nowhere: there is no such file; in its"),
        ("max_calls: 6", "max_calls: -6", "judge.max_calls: must be greater than or equal to 0"),
        ("key_from: env:KEY_OF_THE_TEST", "key_from: sk-sparrow-123", "judge.key_from: say where the key is (env:NAME"),
        ("name: 'off'", "name: 'off'\n  options: {threshold: 2}", "options.threshold: must be less than"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_rule_is_reported_with_its_place(rules, tmp_path, monkeypatch, old, new, message):
    monkeypatch.setenv("KEY_OF_THE_TEST", "x")
    text = (rules / "all.yaml").read_text()
    assert old in text
    (rules / "all.yaml").write_text(text.replace(old, new))
    with pytest.raises(UserError) as error:
        jobs(Tracing(rules=[str(rules)]), Home(tmp_path / "home"), "run")
    first = str(error.value).splitlines()[0]
    assert re.match(rf"{rules}/all\.yaml:\d+: ", first) and message.format(folder=tmp_path) in first
    assert "sparrow" not in str(error.value)


def test_a_rule_that_is_switched_off_needs_no_key(rules, tmp_path):
    text = (rules / "all.yaml").read_text()
    with pytest.raises(UserError, match=r"all\.yaml:\d+: judge: .*KEY_OF_THE_TEST"):
        jobs(Tracing(rules=[str(rules)]), Home(tmp_path / "home"), "run")
    (rules / "all.yaml").write_text(text.replace("name: meaning\n", "name: meaning\n  enabled: false\n"))
    assert [job.rule.enabled for job in jobs(Tracing(rules=[str(rules)]), Home(tmp_path / "home"), "run")] == [
        True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"since": "2026-02-30"}, "--since 2026-02-30: write a day or a time, like 2026-11-01 or 2026-11-01T12:00Z"),
        ({"since": "2026-11-02", "until": "2026-11-01"}, "nothing lies between them; until is exclusive"),
        ({"only": ["wrods"]}, "--rule wrods: there is no rule of this name; did you mean words?"),
    ],
)
def test_parameters_that_cannot_be_used(rules, tmp_path, form, message):
    given = Tracing(rules=[str(rules)], **form)
    with pytest.raises(UserError) as error:
        window_of(given)
        jobs(given, Home(tmp_path / "home"), "run")
    assert message in str(error.value)


def test_the_days_of_a_backfill_are_those_of_utc():
    window = window_of(Tracing(since="2026-11-01", until="2026-11-02T01:30+01:00"))
    assert window.since == datetime(2026, 11, 1, tzinfo=UTC)
    assert window.until == datetime(2026, 11, 2, 0, 30, tzinfo=UTC)
    assert window.backfill and not window_of(Tracing()).backfill


def test_a_data_set_that_is_not_there_is_reported_at_once(rules, tmp_path):
    (rules / "all.yaml").write_text(
        yaml.safe_dump({
            "name": "joined", "source": "../log.jsonl", "metric": "contains", "dataset": "faq",
            "mapping": {"output": "output", "key": "id"},
        })
    )  # fmt: skip
    with pytest.raises(
        UserError,
        match=r"all\.yaml:1: dataset: there is no warehouse in .*; `answerkey evaluate` makes one",
    ):
        jobs(Tracing(rules=[str(rules)]), Home(tmp_path / "nowhere"), "run")


def test_the_judge_of_a_rule_is_checked_before_the_first_trace(bare_cli, rules, judge, home):
    """The judge takes every answer without the word "wrong" for right."""
    file = rules / "all.yaml"
    file.write_text(file.read_text().replace("check: never", "check: always").replace("max_calls: 6", "max_calls: 99"))
    words = ("score-traces", rules, "--json")
    process = bare_cli(*words, KEY_OF_THE_TEST="secret-of-the-test", code=0)
    funnels = {one["rule"]: one for one in json.loads(process.stdout)}
    assert (funnels["meaning"]["scored"], judge.n_requests) == (0, 40)
    assert funnels["meaning"]["skipped"] > 0 < funnels["words"]["scored"]
    reasons = query(home, "SELECT DISTINCT reason FROM measurements WHERE metric = 'meaning_match'")
    assert all("judge stopped: openai/gpt-4o-mini@" in reason for (reason,) in reasons)
