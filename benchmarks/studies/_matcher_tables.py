"""The tables of docs/offline_judge_measured.md: agreement with people, bias by release, cascades, flags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from _matcher_data import MADE, Row, Table
from _matcher_training import Judged

from answerkey.metrics_core.decide.agreement import agreement
from answerkey.metrics_core.judges.cascade import holds, trial_size
from answerkey.metrics_core.text import words

SHOWN, DRAWS = (0.02, 0.05), 1_000
RIVALS = {"judge_bem": "BEM", "judge_davinci003": "text-davinci-003", "judge_gpt4": "GPT-4"}


@dataclass(frozen=True)
class Outcome:
    """What training found: a table, what judges say of it."""

    data: Table
    rows: Mapping[str, Sequence[Row]]
    real: np.ndarray
    within: Judged
    left_out: Mapping[str, Judged]
    final: Judged

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
    """People stand in for the language model. The trial is drawn anew `DRAWS` times, as in cascades of as many runs."""
    print("\n| data | left out | promise | sure | wrong of these | trial holds | wrong if so | broken | calls saved |")
    print("|---|---|---|---|---|---|---|---|---|")
    data, rng = outcome.data, np.random.default_rng(0)
    for title, name, own in outcome.groups():
        asked = own & ~data.given
        for judge, found in outcome.judged(name).items():
            left = judge.endswith("left out") or name == "nq301"
            for promise in SHOWN:
                sure = np.maximum(found.probabilities, 1 - found.probabilities) > 1 - promise
                stands = asked & sure & (~found.flagged | ~found.by_model)
                wrong = (found.verdicts != data.labels)[stands]
                held = [kept for kept in (_trial(rng.permutation(wrong), promise) for _ in range(DRAWS)) if len(kept)]
                shares = [kept.mean() for kept in held]
                saved = sum(map(len, held)) / DRAWS / asked.sum()
                own_share = f"{np.mean(shares):.2%}" if held else ""
                row = f"{promise:.0%} | {len(wrong)} of {asked.sum()} | {_share(wrong)} | {len(held) / DRAWS:.0%}"
                broken = sum(share > promise for share in shares) / DRAWS
                print(f"| {title} | {'yes' if left else 'no'} | {row} | {own_share} | {broken:.1%} | {saved:.1%} |")


def _trial(wrong: np.ndarray, promise: float) -> np.ndarray:
    """Of the verdicts of a cascade, in random order, those that are given without a judge: none where it is refused."""
    drawn = trial_size(len(wrong), promise)
    held = drawn < len(wrong) and holds(len(wrong), drawn, int(wrong[:drawn].sum()), promise)
    return wrong[drawn:] if held else wrong[:0]


def _share(wrong: np.ndarray) -> str:
    return f"{wrong.mean():.2%}" if len(wrong) else ""


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
