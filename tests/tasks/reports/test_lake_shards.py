"""What workers write of a commit and of reports on a lake is what the run would have inserted, with the same hashes."""

from pathlib import Path

import pytest

from answerkey.metrics_core.registry import create
from answerkey.tasks.load.load import Source, load
from answerkey.tasks.reports import commit as committing
from answerkey.tasks.reports import scores
from answerkey.tasks.reports.aggregate import aggregate
from answerkey.tasks.reports.commit import commit, split_commit, start_run
from answerkey.tasks.reports.commit_shard import write_commit
from answerkey.tasks.reports.scores import split_scores, write_scores
from answerkey.tasks.score.plan import plan
from answerkey.tasks.score.score import score
from answerkey.tasks.verify import verify
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.lake import Lake
from tests.tasks.staging_help import jsonl, query, run

pytestmark = pytest.mark.nightly

ODD = "NULL/a=b?ü %2F"
ROWS = {
    "samples": "FROM samples ORDER BY ALL",
    "answers": "FROM answers ORDER BY ALL",
    "measurements": "SELECT * EXCLUDE (created_at, seconds) FROM measurements ORDER BY ALL",
    "hashes": """
        SELECT table_name, part, n_rows, content_hash FROM content_hashes
        WHERE table_name IN ('samples', 'answers') ORDER BY ALL
    """,
}


def faq(folder, *, apart=False, repeated=True):
    """Two releases, one with labels, a blank answer and questions that were asked again; perhaps references apart."""
    rows = [
        {"id": f"{i}", "release": release, "answer": f"It is {i * n}.", "topic": f"{i % 3}"}
        | ({} if apart else {"reference": f"{i * 7}"})
        | ({"correct": i % n == 0} if release == "plain" else {"repeat": "1"} if repeated else {})
        for n, release in ((7, "plain"), (8, ODD))
        for i in range(40)
    ]
    rows[3]["answer"] = None
    if repeated:
        rows += [{**row, "answer": f"{row['answer']} So it is.", "repeat": "2"} for row in rows[-9:]]
    references = None
    if apart:
        questions = [{"id": f"{i}", "question": f"What is {i} times 7?", "reference": f"{i * 7}"} for i in range(50)]
        references = jsonl(folder / "questions.jsonl", questions)
    file = jsonl(folder / "faq.jsonl", rows)
    return Source(file, references, "faq", paths={"label": "correct"}, slices=() if apart else ("topic",))


def verified(home):
    assert not verify(home).findings
    return True


class TestCommit:
    """Samples, answers and measurements."""

    @pytest.fixture
    def lake_home(self, lake, monkeypatch):
        """A lake that adopts whatever there is, in shares of some 30 rows."""
        monkeypatch.setattr(Lake, "adopts_from", 1)
        monkeypatch.setattr(committing, "_SHARD_ROWS", 30)
        return Home.parse(lake)

    def scored(self, home, loaded, run_id, metrics=("rouge_l", "contains")):
        made = plan(loaded.staged, home, home.scratch / run_id, create(metrics), only_failed=False)
        return [score(shard, spawn=False) for shard in made.shards]

    def written(self, home, run_id, loaded, parts):
        cut = split_commit(home, run_id, loaded, loaded.staged, parts, home.scratch / run_id)
        # In any order, and twice.
        for shard in (*reversed(cut.shards), *cut.shards):
            assert write_commit(shard) == shard.part
        return cut

    def committed(self, home, run_id, source):
        loaded = load(source, home.scratch / run_id)
        parts = self.scored(home, loaded, run_id)
        cut = self.written(home, run_id, loaded, parts) if home.shared else None
        return commit(home, run_id, "made", loaded, loaded.staged, parts, cut)

    @pytest.mark.parametrize("apart", [False, True])
    def test_adopted_rows_are_those_of_an_insert(self, lake_home, tmp_path, apart):
        source, folder = faq(tmp_path, apart=apart), Home(tmp_path / "home")
        here, there = (self.committed(home, "run", source) for home in (folder, lake_home))
        assert there == here and [release.n_rows for release in here.releases] == [40, 49]
        for rows in ROWS.values():
            assert query(lake_home, rows) == query(folder, rows)
        for table in ("samples", "answers", "measurements"):
            # Copied from a store, under names that DuckLake would not choose.
            names = [Path(file.name).name for file in lake_home.store.files(f"data/main/{table}")]
            assert sum(not name.startswith("ducklake-") for name in names) == 2
        assert verified(lake_home)
        assert not [file for file in lake_home.store.files("runs/run") if "commit-" in file.name]

    def test_a_commit_again_and_one_of_a_run_that_has_committed_before(self, lake_home, tmp_path):
        source = faq(tmp_path)
        first = self.committed(lake_home, "run", source)
        before = {name: query(lake_home, rows) for name, rows in ROWS.items()}
        # Everything is known, so there is nothing new to score, and nothing changes.
        assert self.committed(lake_home, "again", source) == first
        assert {name: query(lake_home, rows) for name, rows in ROWS.items()} == before
        # More parts under the id of an earlier run: its hash is of all of them.
        loaded = load(source, lake_home.scratch / "run")
        parts = self.scored(lake_home, loaded, "run", ["bleu"])
        cut = self.written(lake_home, "run", loaded, parts)
        commit(lake_home, "run", "made", loaded, loaded.staged, parts, cut)
        [(n_rows,)] = query(lake_home, "SELECT n_rows FROM content_hashes WHERE table_name = 'measurements'")
        assert n_rows == len(query(lake_home, "FROM measurements")) > len(before["measurements"])
        assert verified(lake_home)

    def test_a_part_that_another_run_has_brought_in_meanwhile(self, lake_home, tmp_path):
        loaded = load(faq(tmp_path), lake_home.scratch / "late")
        parts = self.scored(lake_home, loaded, "late")
        cut = self.written(lake_home, "late", loaded, parts)
        content = lake_home.store.read(parts[0]).read()
        commit(lake_home, "early", "made", loaded, loaded.staged, parts)
        with lake_home.store.atomic_write(parts[0]) as file:
            file.write_bytes(content)
        commit(lake_home, "late", "made", loaded, loaded.staged, parts, cut)
        assert verified(lake_home)
        [(n, keys)] = query(lake_home, "SELECT count(*), count(DISTINCT (sample_key, signature)) FROM measurements")
        assert n == keys


class TestScores:
    """The rows of reports."""

    METRICS = ("rouge_l", "bleu")

    @pytest.fixture
    def lake_home(self, lake, monkeypatch):
        monkeypatch.setattr(scores, "LARGE", 1)
        monkeypatch.setattr(scores, "SHARD_ROWS", 60)
        return Home.parse(lake)

    @pytest.fixture
    def done(self, lake_home, tmp_path):
        """A run on a lake, one of whose metrics has failed."""
        return run(lake_home, faq(tmp_path, repeated=False), self.METRICS, failing=["bleu"])

    def written(self, home, done):
        cut = split_scores(home, done.committed, create(self.METRICS), home.scratch / "run")
        # In any order, and twice.
        for shard in (*reversed(cut.shards), *cut.shards):
            assert write_scores(shard) == shard.part
        return cut

    def aggregated(self, home, done, cut):
        return aggregate(home, done.committed, create(self.METRICS), {"run_id": "again"}, cut)

    def content(self, home, version):
        return [
            row
            for table in ("scores", "report_scores")
            for row in query(
                home,
                f"SELECT * EXCLUDE (report_id) FROM {table} WHERE report_id LIKE ? ORDER BY ALL",
                [f"%/v{version}"],
            )
        ]

    def adopted(self, home):
        return sum("/report_id=" in file.name for file in home.store.files("data/main/scores"))

    def test_adopted_rows_are_those_of_an_insert(self, lake_home, done):
        cut = self.written(lake_home, done)
        # Of four numbers of 40 answers there are 160 rows.
        assert [(shard.release, shard.share, shard.of) for shard in cut.shards] == [
            (release, share, 2) for release in ("plain", ODD) for share in range(2)
        ]
        assert self.adopted(lake_home) == 0
        reports = self.aggregated(lake_home, done, cut)
        assert [report.report_id for report in reports] == ["faq/plain/v2", f"faq/{ODD}/v2"]
        assert [report.message for report in reports] == [report.message for report in done.reports]
        assert self.adopted(lake_home) == 4 and list(lake_home.store.files("runs/run")) == []
        assert self.content(lake_home, 2) == self.content(lake_home, 1) and len(self.content(lake_home, 2)) > 2 * 160
        # Hashed where they were written, but for the labels, which workers do not write.
        hashes = (
            "SELECT n_rows, content_hash FROM content_hashes WHERE table_name = 'scores' AND part LIKE ? ORDER BY part"
        )
        assert query(lake_home, hashes, ["%/v2"]) == query(lake_home, hashes, ["%/v1"])
        assert [n_rows for n_rows, _ in query(lake_home, hashes, ["%/v2"])] == [200, 200]
        assert verified(lake_home)
        statuses = query(lake_home, "SELECT DISTINCT status FROM scores ORDER BY ALL")
        assert statuses == [("failed",), ("scored",), ("undefined",)]

    def test_rows_are_inserted_where_others_have_written_meanwhile_and_older_parts_are_of_no_use(self, lake_home, done):
        cut = self.written(lake_home, done)
        start_run(lake_home, "another", "evaluate-release", "other", {})
        with lake_home.warehouse.reading() as warehouse:
            assert not lake_home.warehouse.changed(warehouse, ["answers", "measurements"], cut.state)
            assert lake_home.warehouse.changed(warehouse, ["answers", "runs"], cut.state)
        with lake_home.warehouse.writing() as warehouse:
            warehouse.execute("UPDATE measurements SET status = 'skipped' WHERE status = 'failed'")
        self.aggregated(lake_home, done, cut)
        assert self.adopted(lake_home) == 0 and list(lake_home.store.files("runs/run")) == []
        again = self.written(lake_home, done)
        assert not {shard.part for shard in cut.shards} & {shard.part for shard in again.shards}
        self.aggregated(lake_home, done, again)
        assert self.adopted(lake_home) == 4
        counts = "SELECT report_id[-1:], status, count(*) FROM scores WHERE metric = 'bleu' AND release = 'plain' "
        assert query(lake_home, f"{counts} AND report_id NOT LIKE '%v1' GROUP BY ALL ORDER BY ALL") == [
            ("2", "skipped", 40), ("3", "skipped", 40),
        ]  # fmt: skip
