"""Time the continuous-eval profiles against the original recipe, on the same rows in one process.

The recipe is what continuous-eval runs for each pair of answer and reference: the `rouge` package, a token
overlap with NLTK's tokenizers, and NLTK's sentence BLEU over characters. NLTK's sentence model and stop-word
file need a download, so the recipe gets the sentences and the stop words from us; that makes it faster than
the original, which read the stop-word file again for every sentence.

"Largest difference" is over ROUGE-L and BLEU. "Overlap differs" counts rows with another token overlap: in
v0.2 those with typographic quotes, which the Treebank tokenizer used here leaves glued to words.

Usage: python benchmarks/continuous_eval.py [FILE.jsonl] [--rows N]
Rows need `answer` (text) and `references` (list of texts); rows that lack either are left out.
"""

import argparse
import json
import random
import re
import string
import time
import warnings
from pathlib import Path

from nltk.tokenize.destructive import MacIntyreContractions
from nltk.tokenize.treebank import TreebankWordTokenizer
from nltk.translate.bleu_score import sentence_bleu
from rouge import Rouge

from answerkey.metrics_core.metrics.continuous_eval import (
    FIELDS,
    PROFILES,
    STOP_WORDS,
    Profile,
    Token,
    score,
    sentences,
)

Row = tuple[str, list[str]]
Scores = dict[str, float]

DEFAULT_FILE = Path(__file__).resolve().parents[2] / "shared" / "data" / "evouna_nq" / "evouna_nq_dev.jsonl"
_TREEBANK = TreebankWordTokenizer()
_CONTRACTIONS = [re.compile(pattern) for pattern in MacIntyreContractions.CONTRACTIONS2]
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


def recipe_words(text: str, profile: Profile) -> list[Token]:
    """The tokens of the overlap, sentence by sentence."""
    if profile == "continuous_eval_v0_2":
        return [word for sentence in sentences(text) for word in _TREEBANK.tokenize(sentence)]
    words: list[Token] = []
    for sentence in sentences(text):
        bare = "".join(character for character in sentence.lower() if character not in string.punctuation)
        bare = " " + " ".join(word for word in bare.split() if word not in STOP_WORDS) + " "
        for pattern in _CONTRACTIONS:
            bare = pattern.sub(r" \1 \2 ", bare)
        words += [float(word) if _NUMBER.fullmatch(word) else word for word in bare.split()]
    return words


def recipe_pair(answer: str, reference: str, profile: Profile) -> Scores:
    """The seven fields of one pair as the original computes them."""
    rouge = Rouge().get_scores(answer, reference)[0]["rouge-l"] if answer.strip(string.punctuation) else {}
    given, expected = recipe_words(answer, profile), recipe_words(reference, profile)
    common = len(set(given) & set(expected))
    precision = common / len(given) if given else 0.0
    recall = common / len(expected) if expected else 0.0
    f1 = 2 * precision * recall / (precision + recall) if common else 0.0
    values = [rouge.get(key, 0.0) for key in "prf"] + [
        precision,
        recall,
        f1,
        sentence_bleu([reference], answer),
    ]
    return dict(zip(FIELDS, values, strict=True))


def recipe(answer: str, references: list[str], profile: Profile) -> Scores:
    """The maximum of every field over the references."""
    scores = [recipe_pair(answer, reference, profile) for reference in references]
    return {field: max(row[field] for row in scores) for field in FIELDS}


def read_rows(path: Path, count: int) -> list[Row]:
    """A seeded sample of `count` rows that have an answer and references."""
    with path.open(encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    rows = [(r["answer"], r["references"]) for r in records if (r["answer"] or "").strip() and r["references"]]
    return random.Random(0).sample(rows, min(count, len(rows)))


def race(rows: list[Row], profile: Profile) -> tuple[list[float], list[list[Scores]]]:
    """CPU seconds and scores of the recipe and of ours, in turns of 50 rows so that both meet the same load."""
    seconds, scores = [0.0, 0.0], [list[Scores](), list[Scores]()]
    for first in range(0, len(rows), 50):
        for side, scorer in enumerate((recipe, score)):
            start = time.process_time()
            scores[side] += [scorer(answer, references, profile) for answer, references in rows[first : first + 50]]
            seconds[side] += time.process_time() - start
    return seconds, scores


def largest_difference(left: list[Scores], right: list[Scores], fields: tuple[str, ...]) -> float:
    """The largest absolute difference of any of `fields` in any row."""
    return max(abs(a[field] - b[field]) for a, b in zip(left, right, strict=True) for field in fields)


def main() -> None:
    parser = argparse.ArgumentParser(description="continuous-eval profiles against the original recipe")
    parser.add_argument("file", nargs="?", type=Path, default=DEFAULT_FILE, help="JSONL with answer and references")
    parser.add_argument("--rows", type=int, default=500, help="rows to sample (default 500)")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", message=r"\s*The hypothesis contains 0 counts")
    rows = read_rows(arguments.file, arguments.rows)
    pairs = sum(len(references) for _, references in rows)
    overlap_fields = tuple(field for field in FIELDS if field.startswith("token_overlap"))
    other_fields = tuple(field for field in FIELDS if field not in overlap_fields)
    print("profile               rows  pairs  original s  ours s  ratio  largest difference  overlap differs")
    for profile in PROFILES:
        (slow, fast), (expected, got) = race(rows, profile)
        difference = largest_difference(expected, got, other_fields)
        differing = sum(largest_difference([a], [b], overlap_fields) > 1e-9 for a, b in zip(expected, got, strict=True))
        print(
            f"{profile}  {len(rows):4d}  {pairs:5d}  {slow:10.2f}  {fast:6.3f}  {slow / fast:4.1f}x"
            f"  {difference:18.1e}  {differing:7d} rows"
        )


if __name__ == "__main__":
    main()
