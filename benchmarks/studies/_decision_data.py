"""Public releases with human labels and a judge's verdicts on the same questions, for `decisions.py`.

The offline judge's verdicts are those of models that have not seen the question: three-fold out-of-fold verdicts on the
sets that it is trained on (fitted again here, as `train_matcher.py` does), the packaged model elsewhere. They take some
ten minutes, so they are kept in a file of the temporary folder.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from _matcher_data import DATA, FILES, rarities, read_rows, table
from train_matcher import all_rows, texts_of, trainable

from answerkey.metrics_core.offline_judge.matcher import Pair, match
from answerkey.metrics_core.offline_judge.model import FILE

Floats = npt.NDArray[np.float64]
OFFLINE = "offline judge"
PRIME = DATA / "llmdrift_prime/llmdrift_prime.jsonl"
OTHER_JUDGES = DATA / "judging_judges/judging_judges_dev.jsonl"
LEXICAL_JUDGES = frozenset(("EM", "Contains"))
FOLDS = 3
LEFT_OUT = "EMDR2"
"""A system of nq301 whose published answers are not the annotated ones."""


@dataclass(frozen=True, slots=True)
class Releases:
    """Answers of several releases to the same questions.

    Attributes:
        labels: by release and question id, 1 where people (or an objective check) call the answer right.
        verdicts: by judge, then like `labels`.
        clusters: by question id, its cluster; empty where questions are independent.
    """

    name: str
    labels: dict[str, dict[str, float]]
    verdicts: dict[str, dict[str, dict[str, float]]]
    clusters: dict[str, str]


@dataclass(frozen=True, slots=True)
class ReleasePair:
    """Two releases on the questions that both have labels and verdicts for; every array has the shape (questions,)."""

    old: str
    new: str
    old_labels: Floats
    new_labels: Floats
    old_verdicts: Floats
    new_verdicts: Floats
    clusters: npt.NDArray[np.intp] | None


def pairs(releases: Releases, judge: str) -> Iterator[ReleasePair]:
    """All ordered pairs of releases, with the verdicts of one judge."""
    judged = releases.verdicts[judge]
    for old, new in permutations(sorted(judged), 2):
        sides = (releases.labels[old], releases.labels[new], judged[old], judged[new])
        questions = sorted(set.intersection(*(set(side) for side in sides)))
        codes = None
        if releases.clusters:
            codes = np.unique([releases.clusters[q] for q in questions], return_inverse=True)[1]
        yield ReleasePair(old, new, *(np.array([side[q] for q in questions]) for side in sides), clusters=codes)


SETS = {
    "EVOUNA-NQ": "evouna_nq",
    "EVOUNA-TriviaQA": "evouna_tq",
    "NQ301": "nq301",
    "TruthfulQA, five languages": "truthfulqa, five languages",
    "LLMDrift, primes": "llmdrift_prime",
    "Judging the judges": "judging_judges",
}
"""The data sets of docs/decisions.md, in its order, and their names elsewhere."""


def releases_of(name: str) -> Releases:
    """The releases of one of `SETS`."""
    if name == "Judging the judges":
        return _other_judges()
    if name == "LLMDrift, primes":
        return _prime(offline_verdicts("primes"))
    return _judged_offline(name, SETS[name], offline_verdicts("nq301" if name == "NQ301" else "trained"))


def _judged_offline(name: str, file: str, offline: dict[str, float]) -> Releases:
    rows = [row for row in read_rows(file) if row["model"] != LEFT_OUT]
    verdicts = {OFFLINE: _by_release(rows, lambda row: offline[row["id"]])}
    for key in ("judge_bem", "judge_gpt4", "judge_davinci003"):
        judged = [row for row in rows if isinstance(row["meta"].get(key), bool)]
        if judged:
            verdicts[_JUDGES[key]] = _by_release(judged, lambda row, key=key: float(row["meta"][key]))
    clusters = {}
    if file.endswith("languages"):
        clusters = {row["meta"]["question_id"]: row["meta"]["question_id"].split("-")[2] for row in rows}
    return Releases(name, _by_release(rows, lambda row: float(row["human_label"])), verdicts, clusters)


_JUDGES = {"judge_bem": "BEM", "judge_gpt4": "GPT-4", "judge_davinci003": "text-davinci-003"}


def _prime(offline: dict[str, float]) -> Releases:
    rows = [row for row in _lines(PRIME) if row["id"] in offline]
    labels = _by_release(rows, lambda row: float(row["meta"]["auto_label"]))
    return Releases("LLMDrift, primes", labels, {OFFLINE: _by_release(rows, lambda row: offline[row["id"]])}, {})


def _other_judges() -> Releases:
    rows = _lines(OTHER_JUDGES)
    names = sorted(set(rows[0]["judges"]) - LEXICAL_JUDGES)
    verdicts = {}
    for name in names:
        judged = [
            {**row, "meta": {"question_id": row["question_id"]}} for row in rows if row["judges"].get(name) is not None
        ]
        verdicts[name] = _by_release(judged, lambda row, name=name: float(row["judges"][name]))
    rows = [{**row, "meta": {"question_id": row["question_id"]}} for row in rows]
    return Releases("Judging the judges", _by_release(rows, lambda row: float(row["human_label"])), verdicts, {})


def _by_release(rows: list[dict[str, Any]], number: Any) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        found.setdefault(row["model"], {})[row["meta"]["question_id"]] = number(row)
    return found


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def offline_verdicts(part: str) -> dict[str, float]:
    """By row id, whether the offline judge calls the answer right: of one of `_PARTS`."""
    key = hashlib.sha256(FILE.read_bytes()).hexdigest()[:12]
    kept = Path(tempfile.gettempdir()) / f"answerkey-decisions-{part}-{key}.json"
    if not kept.exists():
        kept.write_text(json.dumps(_PARTS[part]()), encoding="utf-8")
    return dict(json.loads(kept.read_text(encoding="utf-8")))


def _out_of_fold() -> dict[str, float]:
    from _matcher_training import Judged, highest, out_of_fold, platt

    rows = all_rows()
    data = table(rows, rarities(texts_of(rows)))
    ours = np.array([trainable(name, row) for name, some in rows.items() for row in some])
    real = ours & np.isin(data.sets, list(FILES))
    right, wrong = out_of_fold(data, ours, FOLDS)
    slope, offset = platt(highest(data, right)[real], data.labels[real])
    judged = Judged(data, slope * right + offset, slope * wrong + offset, real)
    flat = [(name, row) for name, some in rows.items() for row in some]
    return {row["id"]: float(v) for (name, row), v in zip(flat, judged.verdicts, strict=True) if name in FILES}


def _packaged(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Verdicts of the packaged model on answers to questions that it was not trained on."""
    rows = [row for row in rows if (row["answer"] or "").strip()]
    verdicts = match([Pair(row["question"], row["answer"], tuple(row["references"])) for row in rows])
    return {row["id"]: float(verdict.match) for row, verdict in zip(rows, verdicts, strict=True)}


_PARTS = {
    "trained": _out_of_fold,
    "nq301": lambda: _packaged(read_rows("nq301")),
    "primes": lambda: _packaged(_lines(PRIME)),
}
