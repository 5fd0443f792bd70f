"""`semantic_similarity` beside plain sentence-transformers, and both models beside people (STS-B).

    python benchmarks/bench.py semantic

The pairs are those of STS-B where the data are there, and made ones otherwise; agreement with people needs the data.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from answerkey.metrics_core.embeddings.calibration import BANDS, band, mapped
from benchmarks._rows import SHARED, made
from benchmarks._turns import Contestant, Failed, Turn, ratios, rounds, spread

SIDES = Path(__file__).with_name("_semantic_sides.py")
PAIRS = 400
LANGUAGES = ("en", "ru")
MODELS = ("minilm", "use-multilingual")
KNOTS, FOLDS = 12, 10


def figures(cache: Path, n_rounds: int) -> dict[str, Any]:
    """Processor time for the same pairs, the largest difference of cosines, and the agreement with people."""
    out: dict[str, Any] = {"pairs": PAIRS, "versions": {}, "missing": {}, "rows": []}
    with tempfile.TemporaryDirectory(prefix="answerkey-semantic-") as folder, ExitStack() as stack:
        found: dict[str, Contestant] = {}
        for who in ("answerkey", "sentence-transformers"):
            try:
                found[who] = Contestant(sys.executable, SIDES, who)
            except Failed as error:
                out["missing"][who] = str(error)
                continue
            stack.callback(found[who].close)
            out["versions"] |= found[who].versions
        rows = _pairs("en")
        file = Path(folder, "pairs.jsonl")
        file.write_text(
            "".join(json.dumps(row) + "\n" for row in (rows or list(made(PAIRS)))[:PAIRS]), encoding="utf-8"
        )
        sides = {
            "answerkey, minilm": ("answerkey", "minilm"),
            "answerkey, use-multilingual": ("answerkey", "use-multilingual"),
            "sentence-transformers, the same MiniLM": ("sentence-transformers", "minilm"),
        }
        turns, failed = rounds(
            {
                name: (lambda contestant=found[who], model=model: contestant.turn(model, file))
                for name, (who, model) in sides.items()
                if who in found
            },
            n_rounds,
        )
        out["missing"] |= failed
        for name, of in turns.items():
            out["rows"].append(_line(name, of, turns["answerkey, minilm"]))
        if rows and "answerkey" in found:
            out["people"] = [_agreement(found["answerkey"], Path(folder), *each) for each in _each()]
    return out


def _line(name: str, of: list[Turn], ours: list[Turn]) -> dict[str, Any]:
    line: dict[str, Any] = {"what": name, "ms": spread(1e3 * turn.cpu / PAIRS for turn in of)}
    if of is not ours:
        line["times"] = ratios(of, ours)
        if "MiniLM" in name:
            apart = max(abs(a - b) for a, b in zip(of[0].values, ours[0].values, strict=True))
            line["largest"] = float(f"{apart:.1e}")
    return line


def _each() -> list[tuple[str, str]]:
    return [(language, model) for language in LANGUAGES if _file(language).exists() for model in MODELS]


def _agreement(contestant: Contestant, folder: Path, language: str, model: str) -> dict[str, Any]:
    from scipy.stats import pearsonr, spearmanr

    rows = _pairs(language) or []
    file = folder / f"{language}.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    values, labels = contestant.turn(model, file).values, [row["label"] for row in rows]
    ratings = [label / 5 for label in labels]
    correlations = {
        "pearson": round(float(pearsonr(values, labels)[0]), 3),
        "spearman": round(float(spearmanr(values, labels)[0]), 3),
    }
    return {
        "model": model, "language": language, "pairs": len(rows), **correlations,
        "knots": knots(values, ratings), "bands": bands(values, ratings),
    }  # fmt: skip


def knots(cosines: Sequence[float], ratings: Sequence[float]) -> list[tuple[float, float]]:
    """The map of `answerkey.metrics_core.embeddings.calibration`: isotonic regression on groups of equal size."""
    import numpy as np
    from scipy.optimize import isotonic_regression

    x, y = np.asarray(cosines), np.asarray(ratings)
    groups = np.array_split(np.argsort(x, kind="stable"), KNOTS)
    rising = isotonic_regression([y[one].mean() for one in groups], weights=[len(one) for one in groups]).x
    return [(round(float(x[one].mean()), 3), round(float(value), 3)) for one, value in zip(groups, rising, strict=True)]


def bands(cosines: Sequence[float], ratings: Sequence[float]) -> dict[str, tuple[int, float]]:
    """How many pairs each band has, and their mean rating, each pair with a map that was made without it."""
    found: dict[str, list[float]] = {name: [] for _, name in BANDS}
    pairs = list(zip(cosines, ratings, strict=True))
    for fold in range(FOLDS):
        others = [pair for n, pair in enumerate(pairs) if n % FOLDS != fold]
        made = knots(*zip(*others, strict=True))
        for cosine, given in pairs[fold::FOLDS]:
            found[band(mapped(made, cosine))].append(given)
    return {name: (len(given), round(sum(given) / len(given), 3)) for name, given in found.items()}


def _file(language: str) -> Path:
    return SHARED / "stsb" / f"stsb_{language}_dev.jsonl"


def _pairs(language: str) -> list[dict[str, Any]] | None:
    file = _file(language)
    if not file.exists():
        return None
    rows = (json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())
    return [
        {"id": row["id"], "answer": row["answer"], "references": row["references"], "label": float(row["human_label"])}
        for row in rows
    ]
