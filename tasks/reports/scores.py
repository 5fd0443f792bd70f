"""The rows of the table `scores`: inserted where a report is made, or written in shards by any process and adopted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from answerkey.metrics_core.metric import Kind, Metric
from answerkey.tasks.reports.commit import Committed
from answerkey.tasks.warehouse.content import Checksum, ScoreChecksums, checksums_of_files
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.warehouse import one_file, write_parquet

if TYPE_CHECKING:
    import duckdb

LARGE = 1_000_000
"""Rows from which they are worth several processes, each of which opens the warehouse and reads all measurements."""
SHARD_ROWS = 500_000
MOST_SHARDS = 16
"""Most shards of a release."""
_LONGEST_NAME = 600
"""Characters of a report's id as part of a path: S3 takes 1,024 bytes."""
_SOURCES = ("answers", "measurements")

_SQL = statements(__name__)


@dataclass(frozen=True, slots=True)
class ScoresShard:
    """One of `of` shares of the rows of a release, numbered from 0, and the file in the store that they become.

    `hashed` is another file in the store, with the `Checksum` of the rows as JSON.

    `metrics` has the name, the signature and the fields of each metric. It is sent to other processes and machines,
    which read answers and measurements from the warehouse of the home at the address `home`.
    """

    home: str
    dataset: str
    dataset_version: str
    release: str
    answers_version: str
    metrics: tuple[tuple[str, str, tuple[str, ...]], ...]
    share: int
    of: int
    part: str
    hashed: str

    workload: ClassVar[Kind] = "lexical"
    name: ClassVar[str] = "scores"


@dataclass(frozen=True, slots=True)
class SplitScores:
    """The rows of all releases of a run in shards; `state` is the warehouse's before any of them was written."""

    state: int
    shards: tuple[ScoresShard, ...]

    @property
    def files(self) -> list[str]:
        """What there is in the store of it, once it is written."""
        return [file for shard in self.shards for file in (shard.part, shard.hashed)]


def split_scores(home: Home, committed: Committed, metrics: Sequence[Metric], out: Path) -> SplitScores | None:
    """Cut what the reports of a run will have in `scores` into shards; None where they are better inserted.

    `out` is a folder of this run alone, in the scratch folder of the home. A run that was killed and begins again may
    find parts of its own there, of an older state, so names have the state in them.
    """
    state, n_fields = home.warehouse.snapshot(), sum(len(metric.fields) for metric in metrics)
    n_rows = [release.n_rows * n_fields for release in committed.releases]
    if state is None or home.warehouse.adopts_from is None or sum(n_rows) < LARGE:
        return None
    asked = tuple((metric.name, metric.signature, tuple(field.name for field in metric.fields)) for metric in metrics)
    shards = []
    for number, (release, rows) in enumerate(zip(committed.releases, n_rows, strict=True)):
        of = min(MOST_SHARDS, max(1, rows // SHARD_ROWS))
        shards += [
            ScoresShard(
                home.address, committed.dataset, committed.dataset_version, release.release, release.answers_version,
                asked, share, of, home.shared_name(out / f"{name}.parquet"), home.shared_name(out / f"{name}.json"),
            )
            for share in range(of)
            for name in [f"scores-{state}-{number}-{share}"]
        ]  # fmt: skip
    return SplitScores(state, tuple(shards))


def write_scores(shard: ScoresShard) -> str:
    """Write the rows of a shard, and return the name of its part; one that is there already is kept."""
    home = Home.parse(shard.home)
    if not home.store.exists(shard.part):
        about = _about(shard.dataset, shard.dataset_version, shard.metrics) | {"share": shard.share, "of": shard.of}
        about |= {"release": shard.release, "answers_version": shard.answers_version}
        rows = f"SELECT * EXCLUDE (report_id) FROM ({_SQL['of_a_release']}{_SQL['rows']})"
        with home.warehouse.reading() as warehouse, home.store.atomic_write(shard.part) as file:
            write_parquet(warehouse, rows, file, about)
            # The sums are published first, so that a part that exists always has them.
            with home.store.atomic_write(shard.hashed) as hashed:
                # They are of no report yet, so all of them are of one part.
                [sums] = checksums_of_files(warehouse, "scores", [one_file(file)], {"report_id": ""}).values() or [
                    Checksum()
                ]
                hashed.write_text(json.dumps(asdict(sums)))
    return shard.part


def add_scores(
    warehouse: duckdb.DuckDBPyConnection,
    home: Home,
    committed: Committed,
    reports: Sequence[str],
    metrics: Sequence[Metric],
    cut: SplitScores | None,
) -> ScoreChecksums | None:
    """Bring the rows of new reports in, within the caller's transaction.

    Args:
        reports: their ids, in the order of the releases.
        cut: shards that have all been written. They are adopted, unless anybody has changed what they were made from.

    Returns:
        What is hashed of them already.
    """
    # The id becomes a part of a path.
    short = all(len(quote(report_id, safe="")) <= _LONGEST_NAME for report_id in reports)
    if cut and short and not home.warehouse.changed(warehouse, _SOURCES, cut.state):
        sums = dict.fromkeys(reports, Checksum())
        for report_id, release in zip(reports, committed.releases, strict=True):
            shards = [shard for shard in cut.shards if shard.release == release.release]
            home.warehouse.adopt(warehouse, "scores", [shard.part for shard in shards], {"report_id": report_id})
            for shard in shards:
                with home.store.read(shard.hashed) as file:
                    sums[report_id] += Checksum(**json.loads(file.read()))
        return ScoreChecksums(
            tuple(f"{metric.name}.{field.name}" for metric in metrics for field in metric.fields), sums
        )
    asked = [(metric.name, metric.signature, [field.name for field in metric.fields]) for metric in metrics]
    about = _about(committed.dataset, committed.dataset_version, asked) | {"reports": list(reports)}
    rows = f"{_SQL['of_reports']}{_SQL['rows']}"
    warehouse.execute(f"INSERT INTO scores BY NAME {rows}", {**about, "share": 0, "of": 1})
    return None


def _about(dataset: str, dataset_version: str, metrics: Sequence[tuple[str, str, Sequence[str]]]) -> dict[str, Any]:
    """Parameters of the statement `rows`."""
    return {
        "dataset": dataset,
        "dataset_version": dataset_version,
        "metrics": [name for name, _, _ in metrics],
        "signatures": [signature for _, signature, _ in metrics],
        "fields": [list(fields) for _, _, fields in metrics],
    }
