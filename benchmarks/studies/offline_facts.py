"""What the facts of the offline judge are worth: the same figures for simpler ways to split a text.

    python benchmarks/studies/offline_facts.py

Three inputs: gold answers that physicians took apart (K-QA, 201 answers), the golden cases of ground truth
similarity, with and without the rules that compare facts before the matcher is asked, and answers with human labels:
how well fact recall tells right ones from wrong ones, with and without cutting answers as finely as references.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

SHARED = Path(__file__).resolve().parents[3] / "shared"
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from answerkey.metrics_core.judges.facts import compared  # noqa: E402
from answerkey.metrics_core.offline_judge.claims import (  # noqa: E402
    Asked,
    claims_of,
    refined,
)
from answerkey.metrics_core.offline_judge.facts import (  # noqa: E402
    Fact,
    facts_of,
)
from answerkey.metrics_core.offline_judge.matcher import Match, Pair, match  # noqa: E402
from answerkey.metrics_core.offline_judge.reading import clean, read, sentences  # noqa: E402
from answerkey.metrics_core.offline_judge.similarity import Links  # noqa: E402

Splitter = Callable[[str, str | None], Sequence[Fact]]

_ITEM = re.compile(r"(?:^|(?<=\s))(?:[-*•]|\(?\d{1,2}[.)])\s+")
_JOINT = re.compile(r"\s*[,;]\s+(?:and|и|but|но)?\s*|\s+(?:and|и)\s+")


def by_sentence(text: str, question: str | None) -> list[Fact]:
    """Sentences, lines, bullets and numbered items."""
    lines = [item for line in text.splitlines() for item in _ITEM.split(line) if item.strip()]
    parts = [part.strip(" .;:,") for line in lines for part in sentences(clean(line))]
    return [Fact(part) for part in dict.fromkeys(parts) if part]


def by_joint(text: str, question: str | None) -> list[Fact]:
    """The same, cut at commas, semicolons and "and" as well."""
    parts = [part.strip() for fact in by_sentence(text, question) for part in _JOINT.split(fact.text)]
    return [Fact(part) for part in dict.fromkeys(parts) if part]


SPLITTERS: dict[str, Splitter] = {
    "sentences and items": by_sentence,
    "and joints": by_joint,
    "clauses and items": facts_of,
}


def physicians() -> None:
    path = SHARED / "data" / "kqa_facts" / "kqa_gold_facts.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    theirs = [[*row["meta"]["must_have"], *row["meta"]["nice_to_have"]] for row in rows]
    n = np.array([len(facts) for facts in theirs])
    print("| splitter | correlation of counts | counts apart | facts, physicians | overlap F1 |\n|---|---|---|---|---|")
    for name, split in SPLITTERS.items():
        ours = [[fact.text for fact in split(row["references"][0], row["question"])] for row in rows]
        counts = np.array([len(facts) for facts in ours])
        overlap = np.mean([_overlap(mine, yours) for mine, yours in zip(ours, theirs, strict=True)])
        means = f"{counts.mean():.1f}, {n.mean():.1f}"
        print(
            f"| {name} | {np.corrcoef(counts, n)[0, 1]:.3f} | {abs(counts - n).mean():.2f} | {means} | {overlap:.3f} |"
        )


def _overlap(ours: Sequence[str], theirs: Sequence[str]) -> float:
    """F1 of the best one-to-one matching of two lists of facts, each pair worth the F1 of its content stems."""
    table = np.array([[_stem_f1(a, b) for b in theirs] for a in ours]) if ours and theirs else np.zeros((0, 0))
    rows, columns = linear_sum_assignment(-table)
    return float(2 * table[rows, columns].sum() / max(1, len(ours) + len(theirs)))


def _stem_f1(a: str, b: str) -> float:
    x, y = frozenset(read(a).content_stems), frozenset(read(b).content_stems)
    return 2 * len(x & y) / (len(x) + len(y)) if x or y else 0.0


def golden() -> None:
    found = json.loads((SHARED / "golden" / "ground_truth_similarity.json").read_text(encoding="utf-8"))
    cases, question, reference = [], "", ""
    for case in [*found["ground_truth_similarity"], *found["reference_fact_recall"]]:
        question = question if case["question"] == "(same)" else case["question"]
        reference = reference if case["reference"] == "(same)" else case["reference"]
        wanted = case.get("gts", case.get("gts_if_computed"))
        answer = case["response"].replace("... ", "Here is a list of items to bring: ")
        cases.append((question, reference, answer, wanted))
    print("\n| splitter | golden cases right, rules and matcher | matcher alone |\n|---|---|---|")
    for name, split in SPLITTERS.items():
        both = [sum(abs(how(split, *case[:3]) - case[3]) < 1e-9 for case in cases) for how in (_by_rules, _plain)]
        print(f"| {name} | {both[0]} of {len(cases)} | {both[1]} of {len(cases)} |")


def people(answers: int = 500) -> None:
    """The area under the curve of fact recall, by the labels of the first answers of each set."""
    from sklearn.metrics import roc_auc_score

    print(f"\n| splitter | answers cut | {' | '.join(LABELLED)} |\n|---|---|{'---|' * len(LABELLED)}")
    rows = {name: _labelled(name)[:answers] for name in LABELLED}
    for (name, split), cut in product(SPLITTERS.items(), (True, False)):
        areas = []
        for some in rows.values():
            recall = [max(_recall(split, row, text, cut=cut) for text in row["references"] if text) for row in some]
            areas.append(roc_auc_score([bool(row["human_label"]) for row in some], recall))
        print(f"| {name} | {'yes' if cut else 'no'} | {' | '.join(f'{area:.3f}' for area in areas)} |", flush=True)


LABELLED = ("evouna_nq/evouna_nq", "truthfulqa/truthfulqa_english")


def _labelled(name: str) -> list[dict[str, Any]]:
    path = SHARED / "data" / f"{name}_dev.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    kept = [row for row in rows if row["human_label"] is not None and (row["answer"] or "").strip()]
    return random.Random(1).sample([row for row in kept if row["meta"].get("usable", True)], 500)


def _recall(split: Splitter, row: dict[str, Any], reference: str, *, cut: bool) -> float:
    links = _links(split, row["question"], reference, row["answer"], cut=cut)
    return len(links.comparison(0).pairs) / max(1, len(links.expected))


def _by_rules(split: Splitter, question: str, reference: str, answer: str) -> float:
    links = _links(split, question, reference, answer, cut=True)
    return len(links.comparison(0).pairs) / max(1, len(links.expected), len(links.stated))


def _links(split: Splitter, question: str, reference: str, answer: str, *, cut: bool) -> Links:
    asked = Asked.of(question)
    ours, whole = (claims_of(split(text, question), asked) for text in (reference, answer))
    links = Links.of(asked, ours, refined(whole, ours, asked) if cut else whole)
    links.settle(_matches(links.pairs()))
    return links


def _plain(split: Splitter, question: str, reference: str, answer: str) -> float:
    """Two facts are the same where the matcher says so both ways."""
    ours, theirs = ([fact.text for fact in split(text, question)] for text in (reference, answer))
    both = _matches([Pair(question, *pair) for a in ours for b in theirs for pair in ((b, (a,)), (a, (b,)))])
    same = [{j for j in range(len(theirs)) if _agree(both, (i * len(theirs) + j) * 2)} for i in range(len(ours))]
    return len(compared(0, same, [set() for _ in ours], len(theirs)).pairs) / max(1, len(ours), len(theirs))


def _agree(found: Sequence[Match], at: int) -> bool:
    return found[at].match and found[at + 1].match


def _matches(pairs: list[Any]) -> list[Match]:
    return match(pairs) if pairs else []


if __name__ == "__main__":
    if not SHARED.is_dir():
        sys.exit("this benchmark reads ../shared, which is not beside the repository")
    physicians()
    golden()
    people()
