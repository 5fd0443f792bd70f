"""How many labels it takes until a release is decided, with analyses after every batch: a replay of human labels.

    python benchmarks/studies/until_decided.py                        # EVOUNA, 20 draws of every pair
    python benchmarks/studies/until_decided.py --only NQ301 --draws 50

Every ordered pair of releases is decided as `answerkey label` does at a margin of .02: with its draws, analyses and
levels. The truth is the difference in the labels of all questions; a pair is decided where their interval excludes the
margin. Needs ../shared/data.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from _decision_data import OFFLINE, SETS, ReleasePair, pairs, releases_of  # noqa: E402

from answerkey.metrics_core.decide.evidence import LabelDraw, PairedScores, people_statistic  # noqa: E402
from answerkey.metrics_core.decide.paired import difference_interval  # noqa: E402
from answerkey.tasks.gate.queue import draw_order, planned_analyses  # noqa: E402

MARGIN = 0.02
SEED = 17
METHODS = ("labels alone", "random", "stratified")


def replay(pair: ReleasePair, method: str, rng: np.random.Generator) -> tuple[float, str]:
    """After how many questions a draw of labels decides, and how; infinity where all of them do not."""
    n = len(pair.old_labels)
    judged = [pair.old_verdicts, pair.new_verdicts]
    strata = np.full(n, "all", dtype="<U6")
    if method == "labels alone":
        judged = [np.zeros(n), np.zeros(n)]
    elif method == "stratified":
        strata = np.select([judged[1] < judged[0], judged[1] > judged[0]], ["worse", "better"], "same")
    place = np.argsort(draw_order(strata, rng))
    analyses = planned_analyses(n, None)
    for at, until in enumerate(analyses, 1):
        drawn, chances = place < until, np.ones(n)
        for name in np.unique(strata):
            chances[strata == name] = drawn[strata == name].mean()
        draw = LabelDraw(chances, drawn, tuple(one / analyses[-1] for one in analyses[:at]), len(analyses))
        labels = (np.where(drawn, pair.old_labels, np.nan), np.where(drawn, pair.new_labels, np.nan))
        column = PairedScores(judged[0], judged[1], binary=True, labels=labels, draw=draw)
        statistic = people_statistic(column, pair.clusters)
        interval = statistic.interval() if statistic else None
        if interval and (interval.low > -MARGIN or interval.high < -MARGIN):
            return until, "PASS" if interval.low > -MARGIN else "FAIL"
    return np.inf, ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="EVOUNA", metavar="TEXT", help="data sets whose name contains this")
    parser.add_argument("--draws", type=int, default=20, metavar="N", help="draws of every pair")
    parser.add_argument("--methods", nargs="*", choices=METHODS, help="all, if none is named")
    arguments = parser.parse_args()
    every = [pair for name in SETS if arguments.only in name for pair in pairs(releases_of(name), OFFLINE)]
    print("| method | median, decided pairs | quartiles | median, all pairs | undecided | wrong | most, one pair |")
    print("|---|---|---|---|---|---|---|")
    for method in arguments.methods or METHODS:
        rng = np.random.default_rng(SEED)
        counts: dict[bool, list[float]] = {True: [], False: []}
        wrong = []
        for pair in every:
            change = pair.new_labels - pair.old_labels
            whole = difference_interval(change, pair.clusters, binary=True)
            decided = whole is not None and not whole.low <= -MARGIN <= whole.high
            wrong.append(0)
            for _ in range(arguments.draws):
                n, outcome = replay(pair, method, rng)
                counts[decided].append(n)
                wrong[-1] += outcome != "" and (outcome == "PASS") != (float(change.mean()) > -MARGIN)
        of_decided, of_all = np.array(counts[True]), np.array(counts[True] + counts[False])
        low, high = np.quantile(of_decided, [0.25, 0.75], method="lower")
        print(
            f"| {method} | {np.median(of_decided):.0f} | {low:.0f} to {high:.0f} | {np.median(of_all):.0f} | "
            f"{np.isinf(of_all).mean():.3f} | {sum(wrong)} of {len(of_all)} | {max(wrong)} |",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
