"""Corpus BLEU of two reports on the samples that both have: no mean of rows, so it is resampled as a whole."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from answerkey.metrics_core.metrics.bleu import BleuStats, corpus_bleu
from answerkey.metrics_core.statistics.paired import PairedDifference, pooled_difference
from answerkey.tasks.compare.grouping import groups
from answerkey.tasks.compare.paired_samples import Columns, Mask, Pairing

CORPUS_BLEU = ("bleu", "corpus_bleu")

_NUMBERS = 10
_MOST_GROUPS = 2_000

# What is scored without statistics is a blank answer.
_SIDE = """
SELECT s.sample_id, coalesce(CAST(json_extract(m.details, '$.stats') AS INTEGER[]), list_resize([0], {n}, 0)) AS numbers
FROM scores s
JOIN answers a ON a.dataset = s.dataset AND a.release = s.release AND a.sample_id = s.sample_id
    AND a.answers_version = ${side}_answers
JOIN measurements m ON m.sample_key = a.sample_key AND m.signature = s.signature AND m.status = 'scored'
WHERE s.report_id = ${side} AND s.metric = 'bleu' AND s.field = 'bleu' AND s.status = 'scored'
"""
_PICK = ", ".join(
    f"coalesce({side}.numbers[{i}], 0)::INTEGER AS {side}{i}" for side in ("o", "n") for i in range(1, _NUMBERS + 1)
)
_STATS = f"""
SELECT {_PICK} FROM (
    SELECT DISTINCT sample_id FROM scores WHERE report_id IN ($old, $new) AND metric = 'bleu' AND field = 'bleu'
) LEFT JOIN ({_SIDE.format(side="old", n=_NUMBERS)}) o USING (sample_id)
LEFT JOIN ({_SIDE.format(side="new", n=_NUMBERS)}) n USING (sample_id)
ORDER BY sample_id
"""


@dataclass(frozen=True, slots=True)
class Bleu:
    """Sentence BLEU, for who has a number, and the statistics behind it: shape (samples, 2 x 10), old ones first."""

    columns: Columns
    stats: npt.NDArray[np.int32]

    def difference(
        self, common: Mask, clusters: npt.NDArray[np.int64] | None, seed: int, level: float
    ) -> PairedDifference:
        """Of corpus BLEU on the samples in `common`."""
        rows = self.stats[common]
        of_row = groups(len(rows), None if clusters is None else clusters[common], _MOST_GROUPS, seed)
        sums = np.zeros((int(of_row.max()) + 1, rows.shape[1]))
        np.add.at(sums, of_row, rows)
        return pooled_difference(sums[:, :_NUMBERS], sums[:, _NUMBERS:], _corpus_bleu, seed=seed, level=level)


def read_bleu(pair: Pairing) -> Bleu:
    """The statistics that the metric `bleu` left with every answer of the two reports."""
    parameters = {"old": pair.old.report_id, "new": pair.new.report_id}
    parameters |= {f"{side}_answers": report.answers_version for side, report in (("old", pair.old), ("new", pair.new))}
    with pair.home.warehouse.reading() as warehouse:
        found = warehouse.execute(_STATS, parameters).fetchnumpy()
    return Bleu(pair.columns("bleu", "bleu"), np.column_stack([np.asarray(column) for column in found.values()]))


def _corpus_bleu(numbers: npt.NDArray[np.float64]) -> float:
    return corpus_bleu(BleuStats.of_flat(np.rint(numbers).astype(np.int64).tolist()))
