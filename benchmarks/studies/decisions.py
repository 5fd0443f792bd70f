"""How often a judge, labels, or both decide rightly about real releases: the tables of docs/decisions.md.

    python benchmarks/studies/decisions.py                   # measure and print everything
    python benchmarks/studies/decisions.py --only NQ301      # data sets whose name contains a text
    python benchmarks/studies/decisions.py --write           # and write the tables and decisions.json

Each pair of releases is decided with the functions of the product at a margin of .02. The truth is the difference in
the labels of all questions. Labels are drawn at random, several times with fixed seeds. Needs ../shared/data.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from _decision_data import OFFLINE, SETS, Floats, ReleasePair, Releases, pairs, releases_of  # noqa: E402

from answerkey.metrics_core.decide.evidence import PairedScores, RuleStatistic, statistic_of  # noqa: E402
from answerkey.metrics_core.decide.ppi import ppi_difference  # noqa: E402

MARGIN = 0.02
LABELS = (50, 100, 200, 400)
SHOWN = (100, 400)
"""Numbers of labels in the document; decisions.json has all."""
SHOWN_JUDGES = 4
"""Most judges of a data set that the document shows."""
DRAWS, DRAWS_OF_MANY_JUDGES, MANY_JUDGES = 8, 2, 3
SEED = 17
RESULTS = Path(__file__).with_suffix(".json")
DOCUMENT = ROOT / "docs/decisions.md"
OUTCOMES = ("right", "wrong PASS", "wrong FAIL", "undecided")
Row = dict[str, Any]


def measured(releases: Releases, judge: str, draws: int) -> list[Row]:
    """One row for each method and number of labels: shares of the decisions about all ordered pairs."""
    tally: dict[tuple[str, int], list[tuple[str, bool]]] = {}
    for pair in pairs(releases, judge):
        harmless = float(np.mean(pair.new_labels - pair.old_labels)) > -MARGIN
        settled = _gate(_statistic(pair, pair.old_labels, pair.new_labels)) != "undecided"

        def count(method: str, labels: int, decision: str, harmless: bool = harmless, settled: bool = settled) -> None:
            tally.setdefault((method, labels), []).append((_outcome(decision, harmless), settled))

        count("mean of the judge", 0, _naive(pair.new_verdicts - pair.old_verdicts))
        count("judge alone", 0, _gate(_statistic(pair, pair.old_verdicts, pair.new_verdicts)))
        for labels in (number for number in LABELS if number < len(pair.old_labels)):
            for draw in range(draws):
                name = f"{releases.name}, {pair.old}, {pair.new}, {labels}, {draw}"
                rng = np.random.default_rng([SEED, zlib.crc32(name.encode())])
                chosen = np.zeros(len(pair.old_labels), np.bool_)
                chosen[rng.permutation(len(chosen))[:labels]] = True
                old, new = (np.where(chosen, side, np.nan) for side in (pair.old_labels, pair.new_labels))
                count("mean of the labels", labels, _naive(new[chosen] - old[chosen]))
                count("labels alone", labels, _gate(_statistic(pair, old, new)))
                count("people and judge", labels, _people(pair, old, new))
    return [_row(method, labels, found) for (method, labels), found in tally.items()]


def _naive(change: Floats) -> str:
    return "PASS" if float(np.mean(change)) > -MARGIN else "FAIL"


def _statistic(pair: ReleasePair, old: Floats, new: Floats) -> RuleStatistic:
    statistic = statistic_of(PairedScores(old, new, binary=True), pair.clusters, difference=True)
    if statistic is None:
        raise ValueError(f"{pair.old}, {pair.new}: no question has a number in both")
    return statistic


def _gate(statistic: RuleStatistic) -> str:
    if statistic.lies_beyond(-MARGIN, 1):
        return "PASS"
    return "FAIL" if statistic.lies_beyond(-MARGIN, -1) else "undecided"


def _people(pair: ReleasePair, old: Floats, new: Floats) -> str:
    interval = ppi_difference(pair.old_verdicts, pair.new_verdicts, old, new, clusters=pair.clusters).interval
    if interval is None:
        return "undecided"
    if interval.low > -MARGIN:
        return "PASS"
    return "FAIL" if interval.high < -MARGIN else "undecided"


def _outcome(decision: str, harmless: bool) -> str:
    if decision == "undecided":
        return "undecided"
    return "right" if (decision == "PASS") == harmless else f"wrong {decision}"


def _row(method: str, labels: int, found: list[tuple[str, bool]]) -> Row:
    shares = {name: round(float(np.mean([outcome == name for outcome, _ in found])), 4) for name in OUTCOMES}
    settled = [outcome == "right" for outcome, settled in found if settled]
    of_settled = round(float(np.mean(settled)), 4) if settled else None
    return {"method": method, "labels": labels, "decisions": len(found), **shares, "right, decided pairs": of_settled}


def bias(releases: Releases, judge: str) -> list[float]:
    """How much the judge's error, mean verdict - mean label, differs between two releases: one number for each pair."""
    differences = (
        abs(float(np.mean(pair.new_verdicts - pair.new_labels) - np.mean(pair.old_verdicts - pair.old_labels)))
        for pair in pairs(releases, judge)
        if pair.old < pair.new
    )
    return [round(difference, 4) for difference in differences]


def summary(differences: list[float]) -> Row:
    """Of the differences of a judge's bias: how many pairs, their median and the largest."""
    return {
        "pairs": len(differences),
        "median": round(float(np.median(differences)), 4),
        "largest": max(differences),
    }


def tables_of(releases: Releases) -> Iterator[dict[str, Any]]:
    """The figures of one data set, for each judge."""
    draws = DRAWS_OF_MANY_JUDGES if len(releases.verdicts) > MANY_JUDGES else DRAWS
    for judge in releases.verdicts:
        every = list(pairs(releases, judge))
        yield {
            "data": releases.name,
            "judge": judge,
            "pairs": len(every),
            "questions": min(len(pair.old_labels) for pair in every),
            "bias": bias(releases, judge),
            "rows": measured(releases, judge, draws),
        }


def pooled(tables: list[dict[str, Any]]) -> list[Row]:
    """The rows of several tables as one, weighted by their decisions."""
    keys = list(dict.fromkeys((row["method"], row["labels"]) for table in tables for row in table["rows"]))
    found = []
    for method, labels in keys:
        rows = [row for table in tables for row in table["rows"] if (row["method"], row["labels"]) == (method, labels)]
        total = sum(row["decisions"] for row in rows)
        shares = {name: sum(row[name] * row["decisions"] for row in rows) / total for name in OUTCOMES}
        found.append({"method": method, "labels": labels, "decisions": total, **shares})
    return found


def _shown(share: float) -> str:
    return "0" if share == 0 else f"{share:.3f}".replace("0.", ".", 1)


def _outcomes(row: Row) -> str:
    return " | ".join(_shown(row[name]) for name in OUTCOMES)


def by_data(tables: list[dict[str, Any]]) -> str:
    """How labels, alone and with the offline judge, decided, by data set and number of labels."""
    parts = {part["data"]: part["rows"] for part in tables if part["judge"] == OFFLINE}
    short = [part for part in tables if part["data"].startswith("EVOUNA")]
    if short:
        parts = {"EVOUNA": pooled(short)} | {name: rows for name, rows in parts.items() if "EVOUNA" not in name}
    head = "| data | labels | labels alone: right | with judge: right | wrong PASS | wrong FAIL | undecided |"
    lines = [head, "|" + "---|" * 7]
    for name, rows in parts.items():
        by_way = {(row["method"], row["labels"]): row for row in rows}
        for labels in (labels for labels in SHOWN if ("people and judge", labels) in by_way):
            alone = _shown(by_way["labels alone", labels]["right"])
            lines.append(f"| {name} | {labels} | {alone} | {_outcomes(by_way['people and judge', labels])} |")
    return "\n".join(lines)


def by_judge(tables: list[dict[str, Any]]) -> str:
    """How each judge decides alone, and how much its bias differs between releases."""
    head = "| judge | data | right | wrong PASS | wrong FAIL | undecided | median bias | largest |"
    lines = [head, "|" + "---|" * 8]
    for part in _extremes(tables):
        [alone] = [row for row in part["rows"] if row["method"] == "judge alone"]
        bias_row = summary(part["bias"])
        biases = f"{_shown(bias_row['median'])} | {_shown(bias_row['largest'])}"
        lines.append(f"| {part['judge']} | {part['data']} | {_outcomes(alone)} | {biases} |")
    return "\n".join(lines)


def _extremes(tables: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The tables of the document: of many judges of one data set those with the least and the largest bias."""
    for _, parts in itertools.groupby(tables, key=lambda part: part["data"]):
        by_bias = sorted(parts, key=lambda part: summary(part["bias"])["largest"])
        if len(by_bias) > SHOWN_JUDGES:
            by_bias = [by_bias[0], by_bias[-1]]
        yield from by_bias


def sections(tables: list[dict[str, Any]]) -> dict[str, str]:
    """What belongs to each marked place of the document."""
    return {"data": by_data(tables), "judges": by_judge(tables)}


def written(text: str, tables: list[dict[str, Any]]) -> str:
    """The document with its tables."""
    for name, body in sections(tables).items():
        start, end = f"<!-- table: {name} -->\n", "<!-- end -->"
        before, _, rest = text.partition(start)
        if not rest:
            raise SystemExit(f"{DOCUMENT}: no place for the table {name}")
        text = f"{before}{start}\n{body}\n\n{end}{rest.partition(end)[2]}"
    return text


def stored() -> list[dict[str, Any]]:
    """The figures of the document."""
    return list(json.loads(RESULTS.read_text(encoding="utf-8"))) if RESULTS.exists() else []


def store(tables: list[dict[str, Any]]) -> None:
    """Keep the figures."""
    RESULTS.write_text(json.dumps(tables, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT", help="data sets whose name contains this")
    parser.add_argument("--write", action="store_true", help="keep the figures and write the document")
    arguments = parser.parse_args()
    measured_now = []
    for name in (name for name in SETS if arguments.only in name):
        measured_now += tables_of(releases_of(name))
        print(name, file=sys.stderr, flush=True)
        if arguments.write:
            kept = [part for part in stored() if part["data"] != name]
            order = list(SETS)
            fresh = [part for part in measured_now if part["data"] == name]
            store(sorted([*kept, *fresh], key=lambda part: order.index(part["data"])))
    for body in sections(measured_now).values():
        print(f"\n{body}")
    if arguments.write:
        DOCUMENT.write_text(written(DOCUMENT.read_text(encoding="utf-8"), stored()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
