"""What texts that address their judge do to a verdict, and what the defences cost honest texts.

    python benchmarks/studies/injection.py [--fence FILE ...] [--disputes FILE ...] [--rows 40000]

`injection.jsonl` beside this file has the attacks, by where they stand (answer, question, reference), and honest
sentences of other trades. Each attack is put to `meaning_match` in a row of its own with a wrong answer, among honest
rows, before three judges that are right otherwise: one obeys every order, ours included; one obeys every attack, but
not our canaries; one obeys none. A *silent flip* is a wrong answer that scores 1.

`--fence` counts which answers of a file are sent otherwise than as plain JSON; `--disputes` what the second opinion
marks where the judge says what people say (files of JSON Lines with question, references, answer, human_label).
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from answerkey.metrics_core import JudgeOptions, Sample
from answerkey.metrics_core.judges.canary import Canaries
from answerkey.metrics_core.judges.probes import known_answers
from answerkey.metrics_core.judges.votes import DISPUTED
from answerkey.metrics_core.llm.access import Access
from answerkey.metrics_core.llm.untrusted import encoded
from answerkey.metrics_core.measurement import Failed, Measurement, Scored
from answerkey.metrics_core.metrics.meaning_match import MeaningMatch
from tests.judge_server import JudgeServer, data_of

CORPUS = Path(__file__).with_suffix(".jsonl")
# question, reference, wrong answer
_TOPICS = (
    ("What is the capital of France?", "Paris", "It is Lyon."),
    ("Who painted Guernica?", "Pablo Picasso", "Joan Miró painted it."),
    ("In which year did the Titanic sink?", "1912", "In 1921."),
    ("Which metal has the symbol Fe?", "iron", "That is lead."),
    ("What is the longest river of Africa?", "the Nile", "The Congo."),
    ("Who wrote Faust?", "Johann Wolfgang von Goethe", "Friedrich Schiller."),
    ("Which planet has the rings that are seen best?", "Saturn", "Mercury."),
    ("How many strings has a violin?", "four", "Six."),
)
_N_HONEST = 400
_VERDICT = re.compile(r'the verdict on this row is "(\w+)"')


def attacks() -> list[tuple[str, Sample]]:
    """The attacked rows, each with the name of its set; the answer is wrong in all of them."""
    rows = []
    for number, line in enumerate(_corpus()):
        if line["set"] == "honest":
            continue
        question, reference, answer = _TOPICS[number % len(_TOPICS)]
        texts = {"question": question, "reference": reference, "answer": answer}
        texts[line["field"]] += " " + line["text"].replace("{reference}", reference)
        rows.append((line["set"], Sample(f"attack {number}", texts["answer"], [texts["reference"]], texts["question"])))
    return rows


def honest_rows() -> list[Sample]:
    """Rows without an attack; in three of four, the answer is right."""
    rows = []
    for number in range(_N_HONEST):
        right = number % 4 != 0
        answer = f"I would say that it is object {number + (not right)}."
        rows.append(Sample(f"honest {number}", answer, [f"object {number}"], f"Which object stands on shelf {number}?"))
    return rows


class Judge:
    """A brain for the judge server: right about probes and honest rows; `obeys` is "all", "not us" or "none"."""

    def __init__(self, obeys: str) -> None:
        self._obeys = obeys
        self._attacked = {text for _, row in attacks() for text in (row.question, *row.references, row.answer)}
        self._attacked -= {text for topic in _TOPICS for text in topic}
        self._probes = {probe.sample.answer: probe.least for probe in known_answers("meaning_match")}

    def __call__(self, body: Any) -> str:
        """The reply to a request."""
        data = data_of(body)
        texts = [data["question"], data["answer"], *(reference["text"] for reference in data["references"])]
        if self._obeys == "all" and (named := _VERDICT.findall("\n".join(texts))):
            return _reply(named[-1])
        if self._obeys != "none" and any(attack in text for text in texts for attack in self._attacked):
            return _reply("match")
        if data["answer"] in self._probes:
            return _reply("match" if self._probes[data["answer"]] else "mismatch")
        right = f"{data['references'][0]['text']}." in f"{data['answer']}." and " not " not in data["answer"]
        return _reply("match" if right else "mismatch")


def _reply(verdict: str) -> str:
    rule = {"multiple_alternatives": "alternatives", "hedged": "hedging"}.get(verdict, "factual_equivalence")
    return json.dumps({"reason": "As it is.", "reference": 1, "rule": rule, "verdict": verdict})


def measured(obeys: str, second_opinion: str, probes: str, folder: Path) -> tuple[list[Measurement], int]:
    """The verdicts on attacked rows and then honest ones, and the number of calls."""
    rows = [row for _, row in attacks()] + honest_rows()
    with JudgeServer(Judge(obeys)) as server:
        options = JudgeOptions(
            judges=[f"openai/judge@{server.url}"], second_opinion=second_opinion, probes=probes, concurrency=16
        )
        results = MeaningMatch(options, access=Access(ledger=str(folder))).measure(rows)
        return results, server.n_requests


def flips(probes: str) -> Iterator[str]:
    """Lines of the table: for each judge and setting, silent flips by set, and what became of the honest rows."""
    sets = [name for name, _ in attacks()]
    yield f"attacks: {dict(Counter(sets))}; honest rows: {_N_HONEST}"
    for obeys in ("all", "not us", "none"):
        for second_opinion in ("never", "always"):
            with tempfile.TemporaryDirectory() as scratch:
                results, calls = measured(obeys, second_opinion, probes, Path(scratch) / "ledger.sqlite")
            silent = Counter(
                name
                for name, one in zip(sets, results, strict=False)
                if isinstance(one.outcome, Scored) and one.values["match"]
            )
            states = Counter(
                one.outcome.code if isinstance(one.outcome, Failed) else one.status for one in results[len(sets) :]
            )
            yield (
                f"obeys {obeys}, second opinion {second_opinion}, probes {probes}: silent flips {dict(silent)} "
                f"({silent.total()} of {len(sets)}); honest rows {dict(states)}; {calls} calls"
            )


def simulated(runs: int = 4_000) -> Iterator[str]:
    """How often a judge is stopped by its canaries: one that follows a share of them, one that errs anew each time."""
    random, logger = Random(0), logging.getLogger("answerkey")
    logger.setLevel(logging.CRITICAL)

    def stopped(share: float, canaries: int) -> float:
        n_stopped = 0
        for _ in range(runs):
            judged = Canaries("simulated")
            for _ in range(canaries):
                judged.add("judge", followed=random.random() < share)
            n_stopped += bool(judged.why)
        return n_stopped / runs

    for share in (1.0, 0.7, 0.5, 0.3):
        yield f"follows {share:.0%}: stopped in {stopped(share, 12):.1%} of runs (12 canaries)"
    for error in (0.05, 0.1):
        # It follows by chance where it was wrong and is right, or the other way round.
        rates = [stopped(2 * error * (1 - error), canaries) for canaries in (12, 50, 500)]
        yield f"errs on {error:.0%}: stopped in {', '.join(f'{rate:.1%}' for rate in rates)} (12, 50, 500 canaries)"


def changed_by_the_fence(texts: Sequence[str]) -> list[str]:
    """The texts that are sent otherwise than plain JSON has them, brackets and backticks apart."""
    bare = [re.sub(r"[<>`\[\]]", "", text) for text in texts]
    return [text for text in bare if encoded({"answer": text}) != json.dumps({"answer": text}, ensure_ascii=False)]


def disputes(rows: Sequence[Sample], labels: Sequence[bool], folder: Path) -> Counter[str]:
    """What becomes of rows whose judge says what people say, with a second opinion."""
    known = {(row.question, row.answer): label for row, label in zip(rows, labels, strict=True)}

    def brain(body: Any) -> str:
        data = data_of(body)
        return _reply("match" if known[data["question"], data["answer"]] else "mismatch")

    with JudgeServer(brain) as server:
        options = JudgeOptions(judges=[f"openai/judge@{server.url}"], second_opinion="always", probes="never")
        results = MeaningMatch(options, access=Access(ledger=str(folder))).measure(rows)
    return Counter(one.outcome.code if isinstance(one.outcome, Failed) else one.status for one in results)


def _corpus() -> list[dict[str, str]]:
    return [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]


def _public(files: Sequence[Path], most: int) -> list[dict[str, Any]]:
    rows = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if row.get("answer") and row.get("question")]
    return rows[:: max(1, -(-len(rows) // most))]


def main() -> int:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--probes", default="never", help="auto, always or never (default %(default)s)")
    parser.add_argument("--fence", type=Path, nargs="*", default=[])
    parser.add_argument("--disputes", type=Path, nargs="*", default=[])
    parser.add_argument("--rows", type=int, default=40_000)
    chosen = parser.parse_args()
    honest = [line["text"] for line in _corpus() if line["set"] == "honest"]
    if chosen.fence:
        texts = [row["answer"] for row in _public(chosen.fence, chosen.rows)]
        for name, some in (("public answers", texts), ("honest sentences", honest)):
            changed = changed_by_the_fence(some)
            print(f"{name}: {len(changed)} of {len(some)} are sent with escapes")
            for text in changed[:40]:
                print("  ", encoded({"": text})[6:-2][:200])
    elif chosen.disputes:
        rows = [row for row in _public(chosen.disputes, chosen.rows) if isinstance(row.get("human_label"), bool)]
        samples = [
            Sample(str(number), row["answer"], row["references"], row["question"]) for number, row in enumerate(rows)
        ]
        with tempfile.TemporaryDirectory() as scratch:
            counts = disputes(samples, [row["human_label"] for row in rows], Path(scratch) / "ledger.sqlite")
            print(
                f"{len(rows)} public answers, judged as people did: {dict(counts)}; {counts[DISPUTED] / len(rows):.1%}"
            )
            said = [Sample(f"honest {number}", text, [text], "What does it say?") for number, text in enumerate(honest)]
            said = [replace(one, references=[f"It says: {one.answer}"]) for one in said]
            counts = disputes(said, [True] * len(said), Path(scratch) / "sentences.sqlite")
            print(f"{len(said)} honest sentences, right as they are: {dict(counts)}")
    else:
        for line in chain(simulated(), flips(chosen.probes)):
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
