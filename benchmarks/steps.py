"""Processor time and memory of each step of a run on many short rows, called as the plain function that it is.

    python benchmarks/bench.py steps
    python benchmarks/steps.py [--rows 100000 1000000] [--steps validate plan commit aggregate] [--folder FOLDER]

Every step is a process of its own: `us` is its processor time per row, and `MiB` the most memory that it had resident,
with everything that it maps. Scoring is left out: the parts are made by SQL, and so are the inputs of the first step
that is asked for; what else it needs is run and not shown. `again` is the plan of a second run, which finds every row
measured.
"""

from __future__ import annotations

import argparse
import pickle
import resource
import subprocess
import sys
import tempfile
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from answerkey.metrics_core.comparison import Comparison
from answerkey.metrics_core.metrics.answer_correctness import AnswerCorrectness
from answerkey.tasks.compare.compare import compare
from answerkey.tasks.load.load import Loaded, Source, load
from answerkey.tasks.publish.page.build import build_page
from answerkey.tasks.publish.page.html import write
from answerkey.tasks.reports.aggregate import aggregate
from answerkey.tasks.reports.commit import Committed, commit
from answerkey.tasks.reports.manifest import manifest
from answerkey.tasks.reports.report import Report
from answerkey.tasks.score.plan import Plan, plan
from answerkey.tasks.validate.contract import Contract
from answerkey.tasks.validate.validate import Validation, validate
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.warehouse import scratch, write_parquet
from benchmarks._turns import spread

RUN = "0" * 32
METRICS = (AnswerCorrectness(),)
REPORTS = ("made/made/v1", "made/second/v1")

SOURCE = """
WITH picked AS (
    SELECT i, word[(1 + hash(i) % 6)::BIGINT] AS a, word[(1 + hash(i, 1) % 6)::BIGINT] AS b,
           concat(a, ' ', word[(1 + hash(i, 2) % 6)::BIGINT]) AS truth
    FROM range($rows) t(i), (SELECT ['balan', 'kodor', 'mivik', 'sunes', 'temo', 'ratur'] AS word) words
)
SELECT 'question ' || i AS id, concat_ws(' ', 'It is', truth, i, a, b) AS answer,
       [concat(truth, ' ', i), a] AS "references"
FROM picked
"""
"""About seven words an answer, two references, every row its own."""
STAGED = """
SELECT row_number() OVER () AS "row", NULL::VARCHAR AS file, NULL::BIGINT AS file_row, id AS sample_id,
       'made' AS release, NULL::DOUBLE AS release_order, NULL::VARCHAR AS question, answer,
       NULL::VARCHAR AS missing_because,
       NULL::VARCHAR AS finish_reason, '1' AS repeat, "references",
       []::VARCHAR[] AS facts, []::VARCHAR[] AS context, []::VARCHAR[] AS incorrect_references,
       NULL::VARCHAR AS "cluster",
       NULL::VARCHAR AS label, NULL::BOOLEAN AS correct, MAP {}::MAP(VARCHAR, VARCHAR) AS slices,
       md5(id) AS sample_key, md5(concat('sample ', id)) AS sample_hash
FROM read_parquet($source)
"""
REJECTS = """
SELECT NULL::VARCHAR AS file, 0::BIGINT AS "row", '' AS sample_id, '' AS release, '' AS rule, '' AS reason, '' AS raw
LIMIT 0
"""
PART = """
SELECT sample_key, $signature AS signature, $metric AS metric, 'scored' AS status,
       map_from_entries([(name, (hash(sample_key, name) % 1000) / 999) FOR name IN $fields]) AS "values",
       NULL::VARCHAR AS reason, NULL::VARCHAR AS details, 1::INTEGER AS attempts, 1e-4::DOUBLE AS seconds,
       0::BIGINT AS tokens_in, 0::BIGINT AS tokens_out, NULL::DOUBLE AS cost_usd, []::VARCHAR[] AS requests,
       false AS from_ledger
FROM read_parquet($todo, file_row_number = true) WHERE file_row_number >= $first AND file_row_number < $end
"""
SECOND = """
INSERT INTO answers BY NAME SELECT * REPLACE ('second' AS release) FROM answers;
INSERT INTO reports BY NAME
SELECT * REPLACE ('second' AS release, 'made/second/v1' AS report_id) FROM reports;
INSERT INTO report_scores BY NAME
SELECT * REPLACE ('second' AS release, 'made/second/v1' AS report_id) FROM report_scores;
INSERT INTO scores BY NAME
SELECT * REPLACE ('second' AS release, 'made/second/v1' AS report_id, "value" * 0.99 AS "value") FROM scores;
"""
"""Another release, a little worse, with its report."""


class Work:
    """A folder with the files of a run, and what each of its steps returned."""

    def __init__(self, folder: Path, rows: int) -> None:
        self.folder, self.rows = folder, rows
        self.home = Home(folder / "home")
        self.work = self.home.scratch / RUN

    def keep(self, name: str, value: Any) -> None:
        (self.folder / f"{name}.pickle").write_bytes(pickle.dumps(value))

    def kept(self, name: str) -> Any:
        return pickle.loads((self.folder / f"{name}.pickle").read_bytes())

    def make_source(self) -> None:
        with scratch(self.folder) as connection:
            write_parquet(connection, SOURCE, self.folder / "made.parquet", {"rows": self.rows})

    def make_staged(self) -> None:
        self.work.mkdir(parents=True, exist_ok=True)
        staged, rejects = self.work / "staged.parquet", self.work / "rejects.parquet"
        with scratch(self.folder) as connection:
            source = {"source": str(self.folder / "made.parquet")}
            write_parquet(connection, STAGED, staged, source, group_rows=10_240)
            write_parquet(connection, REJECTS, rejects)
        self.keep("load", Loaded("made", str(staged), str(rejects), None, self.rows, ()))

    def make_accepted(self) -> None:
        self.keep("validate", Validation(self.kept("load").staged, "", self.rows, self.rows, 0, (), None))

    def make_parts(self) -> None:
        with scratch(self.folder) as connection:
            for shard in self.kept("plan").shards:
                about = {"todo": self.home.store.address(shard.todo), "first": shard.first}
                about |= {"end": shard.first + shard.n_rows, "fields": [field.name for field in shard.metric.fields]}
                about |= {"signature": shard.metric.signature, "metric": shard.metric.name}
                with self.home.store.atomic_write(shard.part) as part:
                    write_parquet(connection, PART, part, about, group_rows=2_048)

    def make_second(self) -> None:
        with self.home.warehouse.writing() as warehouse:
            warehouse.execute(SECOND)

    def load(self) -> Loaded:
        return load(Source(str(self.folder / "made.parquet")), self.work)

    def validate(self) -> Validation:
        loaded = self.kept("load")
        return validate(loaded.staged, loaded.rejects, str(self.work), Contract())

    def plan(self) -> Plan:
        return plan(self.kept("validate").accepted, self.home, self.work, METRICS, only_failed=False)

    def again(self) -> Plan:
        return plan(self.kept("validate").accepted, self.home, self.work / "again", METRICS, only_failed=False)

    def commit(self) -> Committed:
        parts = [shard.part for shard in self.kept("plan").shards]
        return commit(self.home, RUN, "made", self.kept("load"), self.kept("validate").accepted, parts)

    def aggregate(self) -> tuple[Report, ...]:
        content = manifest(RUN, {"data": {}}, self.kept("load"), self.kept("validate"), self.kept("plan"))
        return aggregate(self.home, self.kept("commit"), METRICS, content)

    def compare(self) -> Comparison:
        return compare(self.home, *REPORTS)

    def page(self) -> int:
        return write(build_page(self.home, REPORTS), self.folder / "page.html").stat().st_size


BEFORE: dict[str, tuple[str, ...]] = {
    "load": ("make_source",),
    "validate": ("make_source", "make_staged"),
    "plan": ("make_source", "make_staged", "make_accepted"),
    "commit": ("make_parts",),
    "again": (),
    "aggregate": (),
    "compare": ("make_second",),
    "page": (),
}
"""The steps in their order, and what SQL makes before each, unless a step or an earlier call made it."""
_MADE_BY = {"make_staged": "load", "make_accepted": "validate"}
_WANTED_LATER = ("plan", "commit", "aggregate")
"""What SQL does not stand in for: run all the same where only later steps are asked for."""


def run(folder: Path, rows: int, step: str) -> None:
    """A step in this process; prints its processor seconds and peak MiB."""
    work, before = Work(folder, rows), _seconds()
    work.keep(step, getattr(work, step)())
    [peak] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")]
    print(_seconds() - before, int(peak.split()[1]) / 1024, flush=True)


def _seconds() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def measured(folder: Path, rows: int, step: str) -> tuple[float, float]:
    """Processor seconds and peak MiB of a step in a process of its own."""
    command = [sys.executable, __file__, "--run", step, "--rows", str(rows), "--folder", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{rows:>12,} {step:<12} {done.stderr.strip() or done.returncode}")
    seconds, peak = done.stdout.split()[-2:]
    return float(seconds), float(peak)


def figures(cache: Path, n_rounds: int, rows: int = 100_000) -> dict[str, Any]:
    """Every step, in runs one after the other; half as many as the rounds of others."""
    found: dict[str, list[list[float]]] = {}
    for _ in range(max(1, n_rounds // 2)):
        with tempfile.TemporaryDirectory(prefix="answerkey-steps-") as folder:
            for step, *of_step in table(Path(folder), rows, list(BEFORE)):
                found.setdefault(step, []).append(of_step)
    return {
        "rows": [
            {
                "step": step,
                "rows": rows,
                "us": spread(1e6 * seconds / rows for seconds, _ in of),
                "mib": round(max(peak for _, peak in of)),
            }
            for step, of in found.items()
        ]
    }


def table(folder: Path, rows: int, steps: Container[str]) -> Iterator[tuple[str, float, float]]:
    """Measure and print the lines of the table for a number of rows; yields step, seconds and MiB."""
    folder.mkdir(parents=True, exist_ok=True)
    last = max(place for place, step in enumerate(BEFORE) if step in steps)
    for step in list(BEFORE)[: last + 1]:
        if step not in steps and (step not in _WANTED_LATER or (folder / f"{step}.pickle").exists()):
            continue
        for made in BEFORE[step]:
            if not (folder / f"{made}.pickle").exists() and _MADE_BY.get(made) not in steps:
                measured(folder, rows, made)
        seconds, peak = measured(folder, rows, step)
        if step in steps:
            print(
                f"{rows:>12,} {step:<10}{seconds:>9.1f} s{1e6 * seconds / rows:>8.1f} us{peak:>8,.0f} MiB", flush=True
            )
            yield step, seconds, peak


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--steps", nargs="+", choices=BEFORE, default=list(BEFORE))
    parser.add_argument("--folder", type=Path, help="where the files are made and kept; otherwise they are removed")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.run:
        run(chosen.folder, chosen.rows[0], chosen.run)
        return 0
    for rows in chosen.rows:
        with tempfile.TemporaryDirectory(prefix="answerkey-steps-") as temporary:
            list(table((chosen.folder or Path(temporary)) / str(rows), rows, chosen.steps))
    return 0


if __name__ == "__main__":
    sys.exit(main())
