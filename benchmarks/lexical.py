"""The lexical metrics beside the libraries that people use for them: `python benchmarks/bench.py lexical`."""

from __future__ import annotations

import json
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks._environments import Missing, python_for
from benchmarks._rows import SETS, sample
from benchmarks._turns import Contestant, Failed, Turn, ratios, rounds, spread

ROWS = 300
SIDES = Path(__file__).with_name("_lexical_sides.py")
PEERS: dict[str, tuple[str, ...]] = {
    "rouge_l": ("rouge-score", "rouge-score, our words", "torchmetrics", "evaluate", "ragas", "DeepEval"),
    "token_overlap": ("SQuAD's definition", "torchmetrics"),
    "exact_match": ("SQuAD's definition", "torchmetrics", "ragas", "DeepEval"),
    "continuous_eval": ("rouge + NLTK",),
}
ENVIRONMENTS = {"torchmetrics": "torchmetrics", "evaluate": "evaluate", "ragas": "ragas", "DeepEval": "deepeval"}
SAME = 1e-6
SLOW_S = 1.5


def figures(cache: Path, n_rounds: int, rows: int = ROWS) -> dict[str, Any]:
    """Processor time of every contestant for the same rows, by turns, and how far the values agree."""
    out: dict[str, Any] = {"sets": {}, "versions": {}, "missing": {}, "rows": []}
    with tempfile.TemporaryDirectory(prefix="answerkey-lexical-") as folder, ExitStack() as stack:
        contestants = _contestants(cache, out, stack)
        for name in SETS:
            drawn = sample(name, rows)
            if drawn is None:
                out["missing"][name] = "the data are not there"
                continue
            file = Path(folder, f"{name}.jsonl")
            file.write_text("".join(json.dumps(row) + "\n" for row in drawn), encoding="utf-8")
            out["sets"][name] = {"answers": len(drawn), "references": sum(len(row["references"]) for row in drawn)}
            for metric, peers in PEERS.items():
                _contest(out, contestants, metric, name, file, peers, n_rounds)
    return out


def _contestants(cache: Path, out: dict[str, Any], stack: ExitStack) -> dict[str, Contestant]:
    found: dict[str, Contestant] = {}
    for library in dict.fromkeys(("answerkey", *(peer for peers in PEERS.values() for peer in peers))):
        try:
            contestant = Contestant(python_for(ENVIRONMENTS.get(library), cache), SIDES, library)
        except (Missing, Failed) as error:
            out["missing"][library] = str(error)
            continue
        stack.callback(contestant.close)
        found[library] = contestant
        out["versions"] |= contestant.versions
    return found


def _contest(
    out: dict[str, Any],
    all_of: dict[str, Contestant],
    metric: str,
    name: str,
    file: Path,
    peers: tuple[str, ...],
    n: int,
) -> None:
    sides = {
        library: (lambda contestant=all_of[library]: contestant.turn(metric, file))
        for library in ("answerkey", *peers)
        if library in all_of
    }
    turns, failed = rounds(sides, n, SLOW_S)
    out["missing"] |= {f"{library}, {metric}": reason for library, reason in failed.items()}
    ours = turns.pop("answerkey")
    answers = out["sets"][name]["answers"]
    milliseconds = spread(1e6 * turn.cpu / answers for turn in ours)
    out["rows"].append({"metric": metric, "set": name, "library": "answerkey", "ms": milliseconds})
    for library, theirs in turns.items():
        agreement = _agreement(ours[0], theirs[0])
        out["rows"].append(
            {"metric": metric, "set": name, "library": library, "ratio": ratios(theirs, ours), **agreement}
        )
        median, low, high = ratios(theirs, ours)
        print(f"{name:10} {metric:15} {library:24} {median:7.2f} ({low:.2f} to {high:.2f})  {agreement}", flush=True)


def _agreement(ours: Turn, theirs: Turn) -> dict[str, Any]:
    """How many values are the same, of how many; the largest difference. One value alone is compared with our mean."""
    mine = ours.values if len(theirs.values) > 1 else [statistics.fmean(ours.values)]
    apart = [abs(a - b) for a, b in zip(mine, theirs.values, strict=True)]
    return {"same": sum(one < SAME for one in apart), "of": len(apart), "largest": float(f"{max(apart):.1e}")}
