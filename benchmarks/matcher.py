"""The offline matcher against human labels, overlap metrics and the published verdicts of other judges.

    python benchmarks/matcher.py [--cache FOLDER]

evouna_nq is judged by models that have not seen the question (five folds), nq301 by the shipped model, which has seen
none of its questions. Intervals: 95 %, bootstrap by question.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from _matcher_made import made, russian
from _matcher_training import (
    DATA,
    Table,
    border,
    decided,
    final,
    logits,
    out_of_fold,
    pair_of,
    platt,
    question_key,
    read_rows,
    rule_probabilities,
    table,
    train,
)
from rapidfuzz.distance import LCSseq

from answerkey.metrics_core.offline_judge.matcher import match, undecided
from answerkey.metrics_core.offline_judge.model import load
from answerkey.metrics_core.statistics.agreement import agreement
from answerkey.metrics_core.statistics.intervals import bootstrap
from answerkey.metrics_core.text import words

ERRORS = (0.01, 0.02, 0.05)
RIVALS = {"judge_bem": "BEM", "judge_davinci003": "text-davinci-003", "judge_gpt4": "GPT-4"}


def kappa_of(counts: np.ndarray) -> float:
    """Cohen's kappa from (both 1, verdict only, label only, both 0)."""
    n = counts.sum()
    verdict, label = (counts[0] + counts[1]) / n, (counts[0] + counts[2]) / n
    chance = verdict * label + (1 - verdict) * (1 - label)
    return float(((counts[0] + counts[3]) / n - chance) / (1 - chance))


def line(name: str, verdicts: np.ndarray, labels: np.ndarray, questions: Sequence[str]) -> None:
    codes = np.unique(np.asarray(questions), return_inverse=True)[1]
    kind = np.where(verdicts == 1, np.where(labels == 1, 0, 1), np.where(labels == 1, 2, 3))
    counts = np.zeros((codes.max() + 1, 4))
    np.add.at(counts, (codes, kind), 1)
    found = agreement(verdicts, labels, clusters=codes)
    interval = bootstrap(counts, kappa_of, seed=0)
    span = f"{interval.low:.3f} to {interval.high:.3f}" if interval else ""
    print(f"| {name} | {found.accuracy.value:.3f} | {found.kappa.value:.3f} | {span} | {100 * found.bias.value:+.1f} |")


def header(title: str) -> None:
    print(f"\n{title}\n\n| judge | accuracy | kappa | 95 % | bias, points |\n|---|---|---|---|---|")


def overlaps(row: Mapping[str, Any]) -> dict[str, float]:
    """Verdicts of plain metrics, each by its best reference."""
    answer = [word for word in words(row["answer"]) if word not in ("a", "an", "the")]
    recall, rouge, inside = 0.0, 0.0, False
    for text in row["references"]:
        wanted = [word for word in words(text or "") if word not in ("a", "an", "the")]
        if wanted:
            recall = max(recall, sum((Counter(wanted) & Counter(answer)).values()) / len(wanted))
            rouge = max(rouge, LCSseq.similarity(wanted, answer) / len(wanted))
            inside = inside or f" {' '.join(wanted)} " in f" {' '.join(answer)} "
    return {"token recall >= .5": recall >= 0.5, "ROUGE-L recall >= .5": rouge >= 0.5, "contains": inside}


def baselines(rows: Sequence[Mapping[str, Any]], labels: np.ndarray, questions: Sequence[str]) -> None:
    found = [overlaps(row) for row in rows]
    for name in found[0]:
        line(name, np.array([float(one[name]) for one in found]), labels, questions)


def releases(verdicts: np.ndarray, labels: np.ndarray, names: Sequence[str]) -> None:
    print("\n| release | n | mean label | mean verdict | bias, points | kappa |\n|---|---|---|---|---|---|")
    for name in sorted(set(names)):
        own = np.asarray(names) == name
        found = agreement(verdicts[own], labels[own])
        means = f"{labels[own].mean():.3f} | {verdicts[own].mean():.3f} | {100 * found.bias.value:+.1f}"
        print(f"| {name} | {own.sum()} | {means} | {found.kappa.value:.3f} |")


def judged(data: Table, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    highest = np.full(len(data), -np.inf)
    np.maximum.at(highest, data.source, scores)
    slope, offset = platt(highest, data.labels)
    deciding = decided(data, 1 / (1 + np.exp(-(slope * scores + offset))))
    return final(deciding, rule_probabilities(data, deciding))


def evouna(cache: str) -> None:
    rows = read_rows("evouna_nq")
    data = table(rows, cache)
    scores, folds = out_of_fold(data)
    probabilities, verdicts = judged(data, scores)
    verdicts = verdicts.astype(float)
    header(f"evouna_nq: {len(data):,} answers, {len(set(data.questions)):,} questions, cross-validated by question")
    baselines(rows, data.labels, data.questions)
    line("offline matcher", verdicts, data.labels, data.questions)
    releases(verdicts, data.labels, data.releases)
    cascade(data, probabilities, verdicts, folds)
    reliability(probabilities, data.labels)
    left_out(data)


def cascade(data: Table, probabilities: np.ndarray, verdicts: np.ndarray, folds: np.ndarray) -> None:
    """The human label stands in for the language model. The border comes from the other folds."""
    print("\n| accepted error | calls saved | actual error | kappa of the cascade |\n|---|---|---|---|")
    right = np.where(data.labels == 1, probabilities, 1 - probabilities)
    for error in ERRORS:
        stands = np.zeros(len(data), bool)
        for fold in np.unique(folds):
            own = folds == fold
            stands[own] = np.maximum(probabilities, 1 - probabilities)[own] > border(right[~own], error)
        together = np.where(stands, verdicts, data.labels)
        found = agreement(together, data.labels)
        wrong = float(np.mean(together != data.labels))
        print(f"| {error:.0%} | {stands.mean():.1%} | {wrong:.2%} | {found.kappa.value:.3f} |")


def reliability(probabilities: np.ndarray, labels: np.ndarray) -> None:
    print("\n| probability | answers | mean probability | share of matches |\n|---|---|---|---|")
    for low in np.arange(0, 1, 0.2):
        own = (probabilities >= low) & (probabilities < low + 0.2 + (low > 0.7))
        means = f"{probabilities[own].mean():.3f} | {labels[own].mean():.3f}"
        print(f"| {low:.1f} to {low + 0.2:.1f} | {own.sum()} | {means} |")


def left_out(data: Table) -> None:
    """Train on four releases and test on the fifth, on questions that training has not seen either."""
    print("\n| release left out of training | kappa | bias, points |\n|---|---|---|")
    halves = np.unique(data.questions, return_inverse=True)[1] % 2
    for release in sorted(set(data.releases)):
        own = data.releases == release
        scores = np.zeros(len(data.x))
        for half in (0, 1):
            models = train(data, np.flatnonzero(~own & (halves != half)))
            rows = np.isin(data.source, np.flatnonzero(own & (halves == half)))
            scores[rows] = logits(models, data.x[rows])
        _, verdicts = judged(data, scores)
        found = agreement(verdicts[own].astype(float), data.labels[own])
        print(f"| {release} | {found.kappa.value:.3f} | {100 * found.bias.value:+.1f} |")


def nq301(cache: str) -> None:
    rows = read_rows("nq301")
    labels = np.array([float(row["human_label"]) for row in rows])
    questions = [question_key(row) for row in rows]
    found = match([pair_of(row) for row in rows], cache_dir=cache)
    verdicts = np.array([float(one.match) for one in found])
    header(f"nq301: {len(rows):,} answers, 301 questions, none of them in training")
    baselines(rows, labels, questions)
    for field, name in RIVALS.items():
        known = [i for i, row in enumerate(rows) if row["meta"][field] is not None]
        released = np.array([float(rows[i]["meta"][field]) for i in known])
        line(f"{name} ({len(known):,} released)", released, labels[known], [questions[i] for i in known])
    line("offline matcher", verdicts, labels, questions)
    releases(verdicts, labels, [row["model"] for row in rows])
    print("\n| accepted error | calls saved | actual error |\n|---|---|---|")
    for error in ERRORS:
        stands = np.array([not undecided(one, error) for one in found])
        wrong = np.mean(stands & (verdicts != labels))
        print(f"| {error:.0%} | {stands.mean():.1%} | {wrong:.2%} |")
    same_answers(rows, verdicts)


def same_answers(rows: Sequence[Mapping[str, Any]], verdicts: np.ndarray) -> None:
    """The same answer to the same question, labelled by the annotators of both data sets."""
    others = {(question_key(row), words(row["answer"])): float(row["human_label"]) for row in read_rows("evouna_nq")}
    both = [i for i, row in enumerate(rows) if (question_key(row), words(row["answer"])) in others]
    theirs = np.array([others[question_key(rows[i]), words(rows[i]["answer"])] for i in both])
    labels = np.array([float(rows[i]["human_label"]) for i in both])
    questions = [question_key(rows[i]) for i in both]
    header(f"nq301's annotators on {len(both):,} answers that both data sets have, word for word")
    line("evouna_nq's annotators", theirs, labels, questions)
    line("GPT-4", np.array([float(rows[i]["meta"]["judge_gpt4"]) for i in both]), labels, questions)
    line("offline matcher", verdicts[both], labels, questions)


def pairs_made(cache: str) -> None:
    print("\n| constructed pairs | n | expected share of matches | right |\n|---|---|---|---|")
    for name, pairs, labels in [*made(read_rows("evouna_nq")), *russian()]:
        found = match(pairs, cache_dir=cache)
        right = np.mean([one.match == label for one, label in zip(found, labels, strict=True)])
        print(f"| {name} | {len(pairs)} | {np.mean(labels):.2f} | {right:.3f} |")


def speed(cache: str) -> None:
    pairs = [pair_of(row) for row in read_rows("evouna_nq")][:2_000]
    match(pairs[:8])
    for name, folder in (("embeddings computed", None), ("embeddings cached", cache)):
        start = time.perf_counter()
        match(pairs, cache_dir=folder)
        print(f"{name}: {len(pairs) / (time.perf_counter() - start):.0f} samples per second")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", help="a folder for embeddings, to run again faster")
    args = parser.parse_args()
    if not DATA.is_dir():
        sys.exit("this benchmark reads ../shared/data, which is not beside the repository")
    print(f"offline matcher {load().revision}")
    with tempfile.TemporaryDirectory() as folder:
        cache = args.cache or folder
        for part in (evouna, nq301, pairs_made, speed):
            part(cache)


if __name__ == "__main__":
    main()
