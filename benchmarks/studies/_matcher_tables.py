"""The tables of docs/offline_judge_measured.md: agreement with people, bias by release, cascades, flags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from _matcher_data import MADE, Row, Table
from _matcher_training import Judged, border

from answerkey.metrics_core.statistics.agreement import agreement
from answerkey.metrics_core.text import words

SHOWN = (0.01, 0.02, 0.05)
HOMES = {
    "short answers": ("evouna_nq", "evouna_tq", "efficientqa"), "claims": ("truthfulqa",),
    "other languages": ("truthfulqa",),
}  # fmt: skip
"""The sets that a kind of data is known from. Without any of them, nothing is decided about it."""
RIVALS = {"judge_bem": "BEM", "judge_davinci003": "text-davinci-003", "judge_gpt4": "GPT-4"}


@dataclass(frozen=True)
class Outcome:
    """What training found: a table, what judges say of it, and the borders of the undecided zone."""

    data: Table
    rows: Mapping[str, Sequence[Row]]
    real: np.ndarray
    within: Judged
    left_out: Mapping[str, Judged]
    final: Judged
    borders: Mapping[str, Sequence[float]]
    errors: Sequence[float]

    def judged(self, name: str) -> dict[str, Judged]:
        """Who judges a set: nq301 the shipped model, which has seen none of its questions."""
        if name == "nq301":
            return {"offline judge": self.final}
        family = next(one for one in self.left_out if name.startswith(one))
        return {
            "offline judge, questions unseen": self.within,
            "offline judge, data set left out": self.left_out[family],
        }

    def groups(self) -> Iterator[tuple[str, str, np.ndarray]]:
        """Sets and languages: a title, the set, and which answers."""
        for name in (name for name in self.rows if name != MADE):
            inside = self.data.sets == name
            languages = sorted(set(self.data.languages[inside]))
            for language in languages:
                title = name if len(languages) == 1 else f"truthfulqa, {language}"
                yield title, name, inside & (self.data.languages == language)


def print_tables(outcome: Outcome) -> None:
    """All of them, as Markdown."""
    _agreements(outcome)
    _releases(outcome)
    _cascades(outcome)
    _flags(outcome)


def _line(title: str, name: str, verdicts: np.ndarray, labels: np.ndarray, questions: np.ndarray) -> None:
    found = agreement(verdicts, labels, clusters=np.unique(questions, return_inverse=True)[1])
    kappa, interval = found.kappa.value, found.kappa.interval
    span = f"{interval.low:.3f} to {interval.high:.3f}" if interval else ""
    print(f"| {title} | {name} | {found.accuracy.value:.3f} | {kappa:.3f} | {span} | {100 * found.bias.value:+.1f} |")


def _agreements(outcome: Outcome) -> None:
    print("\n| data | judge | accuracy | kappa | 95 % | bias, points |\n|---|---|---|---|---|---|")
    data = outcome.data
    everything = [row for some in outcome.rows.values() for row in some]
    for title, name, own in outcome.groups():
        places = np.flatnonzero(own)
        some = [everything[at] for at in places]
        about = (data.labels[places], data.questions[places])
        about_set = f"{title}: {len(some):,} answers, {len(set(about[1])):,} questions"
        for judge, verdicts in _baselines(some).items():
            _line(about_set, judge, verdicts, *about)
        for field, judge in RIVALS.items():
            known = np.array([row["meta"].get(field) is not None for row in some])
            if known.any():
                said = np.array([float(bool(row["meta"].get(field))) for row in some])
                _line(about_set, judge, said[known], about[0][known], about[1][known])
        for judge, found in outcome.judged(name).items():
            _line(about_set, f"**{judge}**", found.verdicts[places], *about)


def _baselines(rows: Sequence[Row]) -> dict[str, np.ndarray]:
    recalls, inside = [], []
    for row in rows:
        answer = _words(row["answer"])
        wanted = [_words(text) for text in row["references"] if text and _words(text)]
        shares = [sum((Counter(one) & Counter(answer)).values()) / len(one) for one in wanted]
        recalls.append(float(max(shares, default=0.0) >= 0.5))
        inside.append(float(any(f" {' '.join(one)} " in f" {' '.join(answer)} " for one in wanted)))
    return {"token recall >= .5": np.array(recalls), "contains": np.array(inside)}


def _words(text: str) -> list[str]:
    return [word for word in words(text) if word not in ("a", "an", "the")]


def _releases(outcome: Outcome) -> None:
    print("\n| data | release | answers | mean label | bias, points | kappa |\n|---|---|---|---|---|---|")
    data = outcome.data
    for name in ("evouna_nq", "evouna_tq", "nq301", "truthfulqa, five languages"):
        verdicts = next(iter(outcome.judged(name).values())).verdicts
        for release in sorted(set(data.releases[data.sets == name])):
            own = (data.sets == name) & (data.releases == release)
            found = agreement(verdicts[own], data.labels[own])
            means = f"{data.labels[own].mean():.3f} | {100 * found.bias.value:+.1f}"
            print(f"| {name} | {release} | {own.sum()} | {means} | {found.kappa.value:.3f} |")


def _cascades(outcome: Outcome) -> None:
    """People stand in for the language model. A set that was left out is judged by the borders of the others."""
    print("\n| data | left out | accepted error | calls saved | error found | 2 standard errors |")
    print("|---|---|---|---|---|---|")
    data = outcome.data
    for title, name, own in outcome.groups():
        for judge, found in outcome.judged(name).items():
            left = judge.endswith("left out")
            for error in SHOWN:
                at = _borders(outcome, name if left else "", error)
                sure = np.maximum(found.probabilities, 1 - found.probabilities)
                stands = own & (sure > np.array([at[kind] for kind in data.kinds]))
                stands &= ~found.flagged | ~found.by_model
                wrong = (stands & (found.verdicts != data.labels))[own]
                spread = 200 * _clustered(wrong.astype(float), data.questions[own])
                row = f"{error:.0%} | {stands[own].mean():.1%} | {wrong.mean():.2%} | {spread:.2f}"
                print(f"| {title} | {'yes' if left or name == 'nq301' else 'no'} | {row} |")


def _borders(outcome: Outcome, without: str, error: float) -> dict[str, float]:
    """By kind of data: the shipped borders, or those that the other sets of the kind give, 1 where there are none."""
    if not without:
        return {kind: some[list(outcome.errors).index(error)] for kind, some in outcome.borders.items()}
    data, found = outcome.data, {}
    for kind in outcome.borders:
        needed = [1.0]
        for family, judged in outcome.left_out.items():
            own = np.array([name.startswith(family) for name in data.sets]) & outcome.real & (data.kinds == kind)
            if not without.startswith(family) and own.sum() >= 200:
                right = np.where(data.labels == 1, judged.probabilities, 1 - judged.probabilities)[own]
                needed.append(border(right, error))
        others = any(not without.startswith(family) for family in HOMES[kind])
        found[kind] = max(needed[1:], default=1.0) if others else 1.0
    return found


def _clustered(values: np.ndarray, questions: np.ndarray) -> float:
    """The standard error of a mean whose values are independent between questions only."""
    codes = np.unique(questions, return_inverse=True)[1]
    sums = np.bincount(codes, values - values.mean())
    return float(np.sqrt((sums**2).sum()) / len(values))


def _flags(outcome: Outcome) -> None:
    print("\n| data | left out | flagged | kappa of flagged | kappa of unflagged |\n|---|---|---|---|---|")
    data = outcome.data
    for title, name, own in outcome.groups():
        for judge, found in outcome.judged(name).items():
            flagged, rest = own & found.flagged, own & ~found.flagged
            left = judge.endswith("left out") or name == "nq301"
            parts = " | ".join(_kappa(found, data, some) for some in (flagged, rest))
            print(f"| {title} | {'yes' if left else 'no'} | {flagged.sum()} of {own.sum()} | {parts} |")


def _kappa(found: Judged, data: Table, some: np.ndarray) -> str:
    """Kappa as text; "" where it is undefined."""
    kappa = agreement(found.verdicts[some], data.labels[some]).kappa if some.sum() > 1 else None
    return "" if kappa is None else f"{kappa.value:.3f}"
