"""What the parts of the offline matcher are worth: kappa with people without each of them.

    nice -n 10 python benchmarks/studies/ablation.py FOLDER              # all variants
    nice -n 10 python benchmarks/studies/ablation.py FOLDER --only rule  # those whose name contains a text

The first run reads all texts, and keeps features and rulings in the folder; after that, a variant takes its training
alone, and a rule less takes none. Kappa is on questions that were not seen in training; nq301 is never trained on.
Trained with three folds and one seed, and each answer on the reference that looks nearest, so that a variant takes
20 seconds of CPU: differences below .005 are chance. `benchmarks/studies/train_matcher.py` trains what is shipped.
"""

from __future__ import annotations

import argparse
import pickle
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import _matcher_training as training
import numpy as np
from _matcher_data import FILES, MADE, Row, Side, Table, pair_of, rarities, table
from train_matcher import all_rows, texts_of, trainable

from answerkey.metrics_core.offline_judge.matcher import Pair, cases
from answerkey.metrics_core.offline_judge.rules import RULES, Ruling
from answerkey.metrics_core.statistics.agreement import agreement

GROUPS = {
    "words found": "recall recall_all recall_focus given_share echo whole rouge_recall",
    "rare words": "recall_idf soft_idf missing_idf missing_idf_rarest found_idf_rarest extra_idf extra_idf_rarest"
    " precision_idf",
    "words beyond": "extra_focus precision_residue residue in_question said_focus question_kept",
    "numbers": "numbers_wanted numbers_found numbers_other number_gap",
    "dates": "date_state date_parts_wanted date_parts_said year_gap dates_said",
    "characters": "characters_part characters_tokens characters_residue",
    "form": "length_answer length_reference sentences negation hedge refusal polarity alternatives",
    "all references": "references full_share",
}
PLAIN = ("words found", "characters", "rare words", "form", "all references")
Rulings = list[list[list[Ruling | None]]]
"""By answer, reference and rule."""
Scores = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Material:
    """Features, the rulings of every rule against right and wrong answers, and which answers may be trained on."""

    data: Table
    rulings: tuple[Rulings, Rulings]
    trainable: np.ndarray


def material(folder: Path) -> Material:
    """From the folder, or made and kept there."""
    file = folder / "ablation.pickle"
    if not file.exists():
        rows = all_rows()
        data = table(rows, rarities(texts_of(rows)))
        flat = [(name, row) for name, some in rows.items() for row in some]
        ours = np.array([trainable(name, row) for name, row in flat])
        file.write_bytes(pickle.dumps(Material(data, _rulings([row for _, row in flat]), ours)))
    kept: Material = pickle.loads(file.read_bytes())
    return kept


def _rulings(rows: list[Row]) -> tuple[Rulings, Rulings]:
    pairs = [pair_of(row) for row in rows]
    right, wrong = (
        [[[ruling if rule(case) else None for rule, ruling in RULES.items()]
          for case in cases(Pair(p.question, p.answer, texts))] if texts else []
         for p, texts in side]
        for side in ([(p, p.references) for p in pairs], [(p, p.wrong) for p in pairs])
    )  # fmt: skip
    return right, wrong


def without_features(data: Table, dropped: set[str]) -> Table:
    """The table without some columns."""
    columns = [at for at, name in enumerate(data.names) if name not in dropped]
    right, wrong = (replace(side, x=side.x[:, columns]) for side in (data.right, data.wrong))
    return replace(data, names=tuple(data.names[at] for at in columns), right=right, wrong=wrong)


def without_rules(kept: Material, dropped: set[str]) -> Table:
    """The table where the first of the other rules decides."""
    places = [at for at, rule in enumerate(RULES) if rule.__name__ not in dropped]

    def ruled(side: Side, rulings: Rulings) -> Side:
        seen = [
            one and replace(one, rulings=tuple(next((own[at] for at in places if own[at]), None) for own in some))
            for one, some in zip(side.seen, rulings, strict=True)
        ]
        return replace(side, seen=tuple(seen))

    right, wrong = (ruled(*both) for both in zip((kept.data.right, kept.data.wrong), kept.rulings, strict=True))
    return replace(kept.data, right=right, wrong=wrong)


def boosted(x: np.ndarray, y: np.ndarray, weight: np.ndarray, trees: int = 100) -> Any:
    """Fitted trees."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    settings = {**training.SETTINGS, "max_iter": trees, "learning_rate": 10 / trees}
    return HistGradientBoostingClassifier(**settings, random_state=0).fit(x, y, sample_weight=weight)


def logistic(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Any:
    """Fitted logistic regression on standardised features."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.3, max_iter=1_000))
    return model.fit(x, y, logisticregression__sample_weight=weight)


def unseen(kept: Material, dropped: set[str], fit: Callable[..., Any] = boosted) -> Scores:
    """Logits of right and wrong references by models that have not seen the question."""
    from sklearn.model_selection import GroupKFold

    guesses = [training.guess(kept.data, side) for side in (kept.data.right, kept.data.wrong)]
    data = without_features(kept.data, dropped)
    scores = np.zeros(len(data.right.x)), np.zeros(len(data.wrong.x))
    nearest = training.best(data.right, guesses[0])
    for seen, unseen in GroupKFold(3, shuffle=True, random_state=1).split(data.labels, data.labels, data.questions):
        answers = seen[kept.trainable[seen]]
        model = fit(*training.examples(data, answers, nearest[answers], guesses[1]))
        for side, out in zip((data.right, data.wrong), scores, strict=True):
            rows = np.isin(side.source, unseen)
            out[rows] = model.decision_function(side.x[rows])
    return scores


def kappas(data: Table, ours: np.ndarray, scores: Scores) -> list[float]:
    """By set."""
    real = ours & (data.sets != MADE)
    slope, offset = training.platt(training.highest(data, scores[0])[real], data.labels[real])
    judged = training.Judged(data, *(slope * one + offset for one in scores), real)
    inside = [data.sets == name for name in FILES]
    return [agreement(judged.verdicts[own], data.labels[own]).kappa.value for own in inside]


def variants(kept: Material) -> Iterator[tuple[str, Callable[[], list[float]]]]:
    """Names, and what trains and judges the variant."""
    data, ours = kept.data, kept.trainable
    full: list[Scores] = []

    def ruled(dropped: set[str]) -> list[float]:
        if not full:
            full.append(unseen(kept, set()))
        return kappas(without_rules(kept, dropped), ours, full[0])

    def trained(groups: tuple[str, ...], fit: Callable[..., Any] = boosted) -> list[float]:
        dropped = {name for group in groups for name in GROUPS[group].split()}
        return kappas(without_features(data, dropped), ours, unseen(kept, dropped, fit))

    beside_plain = tuple(group for group in GROUPS if group not in PLAIN)
    every = {rule.__name__ for rule in RULES}
    yield "all", lambda: ruled(set())
    yield "no rule", lambda: ruled(every)
    for name in sorted(every):
        yield f"without the rule {name}", lambda name=name: ruled({name})  # type: ignore[misc]
    for group in GROUPS:
        yield f"without {group}", lambda group=group: trained((group,))  # type: ignore[misc]
    yield "50 trees", lambda: trained((), lambda *some: boosted(*some, trees=50))
    yield "plain features", lambda: trained(beside_plain)
    yield "logistic regression", lambda: trained((), logistic)
    yield "logistic regression, plain features", lambda: trained(beside_plain, logistic)
    yield (
        "logistic regression, no rule",
        lambda: kappas(without_rules(kept, every), ours, unseen(kept, set(), logistic)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="only variants whose name contains this")
    args = parser.parse_args()
    kept = material(args.folder)
    missing = set(kept.data.names).symmetric_difference(name for some in GROUPS.values() for name in some.split())
    if missing:
        parser.error(f"the groups and the features differ: {', '.join(sorted(missing))}")
    print(f"| variant | {' | '.join(FILES)} | mean | CPU, s |\n|{'---|' * (len(FILES) + 3)}", flush=True)
    for name, judge in variants(kept):
        if args.only in name:
            before = time.process_time()
            found = judge()
            cells = [*(f"{kappa:.3f}" for kappa in found), f"{np.mean(found):.4f}"]
            print(f"| {name} | {' | '.join(cells)} | {time.process_time() - before:.0f} |", flush=True)


if __name__ == "__main__":
    main()
