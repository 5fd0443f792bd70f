"""A home of the first version opens and gives the numbers that the first version gave."""

import gzip
import json
import math
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from answerkey.flows.cli import main
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.metrics.answer_correctness import PARTS
from answerkey.tasks.load.load import Source
from answerkey.tasks.traces.rules import load_rules
from answerkey.tasks.traces.select import Window
from answerkey.tasks.warehouse.home import Home
from tests.tasks.staging_help import query, run
from tests.tasks.traces.tracing_help import run as run_rule

FIXTURE = Path(__file__).parent / "fixtures" / "home_v1"
PRINTED = [json.loads(line) for line in (FIXTURE / "expected.jsonl").read_text(encoding="utf-8").splitlines()]
PROSE = {"message", "sentence", "warnings", "checks", "about"}
"""What is said in words may be said better; the numbers beside it may not change."""
RECOMPUTED = {"p_adjusted", "low", "high", "mde", "needed"}
"""What comparisons, gates and periods of traces find out anew. The primary field is in the family now, and nothing is
in it under two names; what would be shown, and by how many rows, allows for the family. Intervals keep their level now
for few rows and rare large losses, which Student's t does not, and take more rows; those that are stored in reports
(`ci_low`, `ci_high`) stay as they are."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the home; the current folder has the data."""
    folder = tmp_path / "home"
    folder.mkdir()
    for packed in FIXTURE.glob("*.gz"):
        (folder / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
    shutil.copytree(FIXTURE / "registered", folder / "registered")
    shutil.copytree(FIXTURE / "data", tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    return folder


def differences(old: Any, new: Any, place: str = "") -> Iterator[str]:
    """Where `new` lacks something of `old` or has another value; additions do not count."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old.keys() - PROSE - RECOMPUTED:
            yield from differences(old[key], new[key], f"{place}.{key}") if key in new else [f"{place}.{key}: gone"]
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from differences(one, other, f"{place}[{number}]")
    elif isinstance(old, float) and isinstance(new, float | int):
        if not math.isclose(old, new, rel_tol=1e-12, abs_tol=1e-12):
            yield f"{place}: {old} became {new}"
    elif old != new:
        yield f"{place}: {old!r} became {new!r}"


@pytest.mark.parametrize("shown", PRINTED, ids=lambda shown: shown["name"])
def test_it_prints_the_same_numbers(shown: dict[str, Any], home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    as_json = ["--json", "-"] if shown["name"] == "gate" else ["--json"]
    every = ["--all-fields"] if shown["command"][0] == "compare" else []
    assert main([*shown["command"], *every, *as_json, "--home", str(home)]) in (0, 1, 3, 4)
    printed, now = shown["printed"], json.loads(capsys.readouterr().out)
    if every:
        # The first version had the numbers of answer_correctness twice, under the names of its parts as well.
        there = {(row["metric"], row["field"]) for row in now["rows"]}
        gone = {(row["metric"], row["field"]) for row in printed["rows"]} - there
        twins = {tuple(name.split(".")) for name in PARTS.values()}
        assert gone <= twins | {("answer_correctness", field) for field in PARTS}
        printed["rows"] = [row for row in printed["rows"] if (row["metric"], row["field"]) in there]
    assert list(differences(printed, now)) == []


METRICS = (
    "answer_correctness", "rouge_l", "token_overlap", "bleu", "chrf", "exact_match", "contains", "semantic_similarity",
    "meaning_match", "ground_truth_similarity",
)  # fmt: skip
JUDGED = METRICS[-2:]
# It has a field more by now.
ANEW = (*JUDGED, "semantic_similarity")
"""By the offline judge, whose second edition is another measurement: it is free, and what is stored stays."""


def test_the_same_answers_are_not_scored_again(home: Path) -> None:
    before = query(home, "SELECT count(*), sum(attempts) FROM measurements")
    files = ("data/answers.jsonl", "data/questions.jsonl")
    source = Source(*files, dataset="faq", paths={"label": "correct"}, slices=("lang",))
    done = run(home, source, METRICS)
    assert dict(done.plan.n_todo) == {**dict.fromkeys(METRICS, 0), **dict.fromkeys(ANEW, 35)}
    assert done.ids == ["faq/aurora-1/v3", "faq/aurora-2/v2"]
    [(rows, attempts)] = before
    assert query(home, "SELECT count(*), sum(attempts) FROM measurements") == [(rows + 105, attempts + 105)]
    # The last decimals of a cosine depend on the other texts in its batch.
    changed = f"""
        SELECT count(*), count(*) FILTER (abs(o.mean - n.mean) > if(metric = 'semantic_similarity', 1e-6, 1e-12))
        FROM report_scores o JOIN report_scores n USING (metric, field, slice)
        WHERE o.report_id = 'faq/aurora-2/v1' AND n.report_id = 'faq/aurora-2/v2' AND metric NOT IN {JUDGED}
    """
    [(compared, differing)] = query(home, changed)
    assert compared > 40
    assert differing == 0


def test_every_table_keeps_its_rows(home: Path) -> None:
    tables = "SELECT table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE'"

    def counts() -> dict[str, int]:
        return {name: query(home, f"SELECT count(*) FROM {name}")[0][0] for (name,) in query(home, tables)}

    before = counts()
    with Home.parse(home).warehouse.writing():
        pass
    after = counts()
    assert {name: after.get(name) for name in before} == before


def test_a_rule_with_a_condition_takes_the_traces_that_its_filters_took(home: Path) -> None:
    with pytest.raises(UserError) as error:
        load_rules(["data/rules.yaml"])
    [line] = str(error.value).splitlines()
    rules = Path("data/rules.yaml")
    text = rules.read_text(encoding="utf-8")
    rules.write_text(re.sub(r"filters:.*", lambda _: line.partition("  ")[2], text), encoding="utf-8")
    funnels = "SELECT n_seen, n_filtered, n_sampled_out, n_scored, n_undefined FROM trace_funnels WHERE rule = $1"
    for rule in load_rules([str(rules)]):
        [before] = query(home, funnels, [rule.name])
        assert run_rule(home, rule).seen == 0
        funnel = run_rule(home, rule, Window(since=datetime(2020, 1, 1, tzinfo=UTC)))
        counts = (funnel.seen, funnel.filtered, funnel.sampled_out, funnel.scored, funnel.undefined)
        anew = funnel.scored if rule.metric in JUDGED else 0
        assert (counts, funnel.again, funnel.measured) == (before, funnel.seen, anew)
