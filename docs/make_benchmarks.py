"""Writes docs/benchmarks.md from what the benchmarks measured: `python docs/make_benchmarks.py`."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("benchmarks.md")
STORE = Path(__file__).resolve().parents[1] / "benchmarks" / "bench.json"
Figures = dict[str, Any]

INTRODUCTION = """\
How fast answerkey is beside other libraries, and how it grows. `make bench` measures everything,
and writes this page.

All sides of a contest take turns on the same machine, each in its own process, in several rounds after a warm-up.
Imports do not count, except in the first section. A figure is the median. **Times** is what the other takes divided by
what answerkey takes in the same round; where it is **bold**, the other is faster. Only ratios carry over to another
machine.
"""
METRICS = {
    "rouge_l": "ROUGE-L",
    "token_overlap": "Token overlap (F1 of SQuAD)",
    "exact_match": "Exact match",
    "continuous_eval": "Profile `continuous_eval_v0_3`",
}


def median(found: Sequence[float]) -> str:
    """The median of the rounds, which comes first."""
    return number(found[0])


def ratio(found: Sequence[float]) -> str:
    """How many times as long another takes, bold where it is faster."""
    return f"**{median(found)}**" if found[0] < 1 else median(found)


def number(value: float) -> str:
    """Three digits, without an exponent."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def prose(text: str) -> str:
    """A paragraph."""
    return textwrap.fill(text, 120, break_on_hyphens=False) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(map(str, line)) + " |" for line in [[head[0] or "measured", *head[1:]], *rows]]
    lines.insert(1, "|" + "---|" * len(head))
    return "\n".join(lines) + "\n"


def seconds_and_times(row: dict[str, Any]) -> Iterator[str]:
    """On the clock and of the processor, each with how many times ours."""
    for what in ("wall", "cpu"):
        yield median(row[what])
        yield ratio(row["times"][what])


def lexical(found: Figures) -> Iterator[str]:
    """Tables of the lexical metrics, one for each."""
    sets = found["sets"]
    drawn = ", ".join(f"{name} {one['answers']:,} with {one['references']:,}" for name, one in sets.items())
    yield prose(
        f"CPU time. Answers and their references: {drawn}. `made` has invented words with the lengths, numbers, marks "
        "and scripts of real texts. Every turn begins without caches. *Same*: rows whose value equals ours to 1e-6, "
        "or means if a library gives one mean only; the others define words or the formula differently."
    )
    lines = []
    for metric, title in METRICS.items():
        rows = [row for row in found["rows"] if row["metric"] == metric]
        ours = [row["ms"][0] for row in rows if row["library"] == "answerkey"]
        lines.append([title, "answerkey", f"{number(min(ours))} to {number(max(ours))} ms per 1,000 answers", ""])
        for library in dict.fromkeys(row["library"] for row in rows if "ratio" in row):
            theirs = [row for row in rows if row["library"] == library]
            same, of = (sum(row[key] for row in theirs) for key in ("same", "of"))
            least, most = (extreme((row["ratio"] for row in theirs), key=lambda one: one[0]) for extreme in (min, max))
            agreement = f"{same:,} of {of:,}" + (" means" if of <= len(sets) else "")
            lines.append(["", library, f"{ratio(least)} to {ratio(most)}", agreement])
    yield table(["metric", "library", "times, over the sets", "same"], lines)


def first_result(found: Figures) -> Iterator[str]:
    """Ten rows with the command of each tool."""
    yield prose(
        "Ten answers, exact match, no model; the whole command in a fresh process. Each tool gets .6. `answerkey "
        "evaluate` also validates the rows with Great Expectations, stores rows, scores and a report, and writes a "
        "page."
    )
    yield table(
        ["", "seconds", "times"],
        [[row["tool"], median(row["wall"]), ratio(row["times"]["wall"])] for row in found["rows"]],
    )


def orchestration(found: Figures) -> Iterator[str]:
    """The command beside the library."""
    yield prose(
        f"{found['answers']:,} made answers, the seven lexical metrics, no page; each side a fresh process with a "
        "new home. Times are relative to the library. The command also reads and validates the rows (importing Great "
        "Expectations takes two seconds), and stores rows, scores and the report."
    )
    yield table(
        ["", "seconds", "times", "seconds of CPU", "times"],
        [[row["what"], *seconds_and_times(row)] for row in found["rows"]],
    )


def scale(found: Figures) -> Iterator[str]:
    """Runs by their number of rows."""
    yield prose(
        "One run each, with start and imports. Made rows of some 400 bytes; memory of all processes together, disk of "
        "the home. The language model is scripted, on loopback, and takes 200 ms, with 64 calls at once; the price is "
        "that of a dry run with gpt-4o-mini."
    )
    yield from scale_rows(found)


def scale_rows(found: Figures) -> Iterator[str]:
    """The table of runs by their number of rows."""
    yield table(
        ["metric", "rows", "minutes", "peak MiB", "dollars", "disk, bytes a row"],
        [
            [
                row["metric"],
                f"{row['rows']:,}",
                number(row["seconds"] / 60),
                *(f"{row[key]:,}" for key in ("peak_mib", "dollars", "disk")),
            ]
            for row in found["rows"]
        ],
    )


def steps(found: Figures) -> Iterator[str]:
    """Each step of a run."""
    yield prose(
        "Each step of a run with `answer_correctness` as a process of its own, without scoring, on short rows: "
        "microseconds of CPU a row, start-up included (3 s for Great Expectations in validation), and the most "
        "resident memory. DuckDB has 400 MB and spills the rest."
    )
    yield table(
        ["step", "rows", "CPU, us a row", "peak MiB"],
        [[row["step"], f"{row['rows']:,}", median(row["us"]), f"{row['mib']:,}"] for row in found["rows"]],
    )


def many_reports(found: Figures) -> Iterator[str]:
    """Commands on a home with many reports."""
    yield prose(
        f"A home with {found['releases']:,} releases of one data set and a report on each, {found['questions']} "
        f"questions, three metrics ({found['mib']} MiB). The whole command in a fresh process."
    )
    yield table(
        ["command", "seconds", "seconds of CPU"],
        [[f"`{row['command']}`", median(row["wall"]), median(row["cpu"])] for row in found["rows"]],
    )


def semantic(found: Figures) -> Iterator[str]:
    """Beside sentence-transformers."""
    yield prose(f"{found['pairs']} pairs, model loaded, no cache, one thread; times are relative to our `minilm`.")
    yield table(
        ["", "CPU, ms a pair", "times", "largest difference of a cosine"],
        [
            [row["what"], median(row["ms"]), ratio(row["times"]) if "times" in row else "", row.get("largest", "")]
            for row in found["rows"]
        ],
    )


def judge(found: Figures) -> Iterator[str]:
    """The engine beside its client library."""
    yield prose(
        f"{found['samples']:,} samples against a server on loopback that takes {found['latency_ms']:.0f} ms, "
        f"{found['concurrency']} calls at once; the bound is calls x latency / calls at once. Server and client share "
        "the cores. `litellm alone` sends the same requests without ledger, retries, pacing and reading of replies."
    )
    yield table(
        ["", "calls", "times the bound", "CPU, ms a sample", "times"],
        [
            [row["what"], f"{row['calls']:,}", median(row["bound"]), median(row["ms"]), ratio(row["times"])]
            for row in found["rows"]
        ],
    )


def judge_rivals(found: Figures) -> Iterator[str]:
    """Judges of several libraries."""
    yield prose(
        f"{found['samples']} new samples a turn; a scripted judge on loopback that takes 50 ms. Faults: 429, 500, 503, "
        "empty, prose around the JSON, cut-off JSON. ragas AnswerCorrectness runs without embeddings. Tokens are "
        "characters / 4; times are CPU relative to `meaning_match`. Under faults answerkey takes longer because after "
        "a 429 all calls to that judge pause, then go more slowly. *Changed*: rows with another score than without "
        "faults."
    )
    yield table(
        ["", "faults", "calls", "tokens", "seconds", "CPU, ms a sample", "times", "no score", "changed"],
        [
            [
                *(row["what"], f"{row['faults']:.0%}", row["calls"], f"{row['tokens']:,}", median(row["seconds"])),
                *(median(row["ms"]), ratio(row["times"]), f"{row['without']} of {row['of']}", row["changed"]),
            ]
            for row in found["rows"]
        ],
    )


def generate(found: Figures) -> Iterator[str]:
    """Answers of a model, with faults and a kill."""
    yield prose(
        f"{found['questions']:,} questions to a server on loopback that takes {found['latency_ms']:.0f} ms, "
        f"{found['concurrency']} calls at once. Faults: 500, 503, dropped connections, empty replies, bodies that are "
        "not JSON. What failed got six bad replies, and is asked again by the next run. After a kill, the next run "
        "waits until what was in flight is no longer claimed by the dead process. One run each."
    )
    yield table(
        ["run", "calls", "answers asked for", "from the ledger", "failed", "times the bound"],
        [
            [row["what"], *(f"{row[key]:,}" for key in ("calls", "asked", "known", "failed")), row["bound"]]
            for row in found["rows"]
        ],
    )


def score_traces(found: Figures) -> Iterator[str]:
    """Logged traces by rules."""
    yield prose(
        "Traces of 500 characters and three rules, one of which asks a local judge that takes 0.2 s a call. Seconds "
        "are those of the flow alone. One run each."
    )
    rows = [
        [
            row["what"],
            row["seconds"],
            "; ".join(f"{one['rule']} {one['seen']:,}, {one['scored']:,}" for one in row["rules"]),
        ]
        for row in found["rows"]
    ]
    yield table(["run", "seconds", "seen and scored by each rule"], rows)
    yield prose(
        f"Of the {found['sampled']:,} traces that were sampled at .1, {found['kept']:,} are among those at .2. The "
        f"judge was called {found['calls']:,} times."
    )


def growth(found: Figures) -> Iterator[str]:
    """How many times as long a longer input takes, of the cases that come nearest to what they may."""
    rows = sorted(found["rows"], key=lambda row: row["times"] / row["most"], reverse=True)
    yield prose(
        f"{len(rows)} functions, each on a short input and a long one; the least CPU time of all rounds counts, and "
        "5 ms at least. The part fails where a long input takes more times as long than it may. Those nearest to that:"
    )
    yield table(
        ["", "short", "long", "times as long", "at most"],
        [
            [row["case"], f"{row['short']:,}", f"{row['long']:,}", number(row["times"]), number(row["most"])]
            for row in rows[:10]
        ],
    )


SECTIONS: dict[str, tuple[str, Callable[[Figures], Iterator[str]]]] = {
    "first_result": ("The first result: `benchmarks/first_result.py`", first_result),
    "lexical": ("Lexical metrics: `benchmarks/lexical.py`", lexical),
    "semantic": ("Semantic similarity: `benchmarks/semantic.py`", semantic),
    "judge": ("Judge engine: `benchmarks/judge.py`", judge),
    "judge_rivals": ("Judges side by side: `benchmarks/judge_rivals.py`", judge_rivals),
    "orchestration": ("Pipeline: `benchmarks/orchestration.py`", orchestration),
    "scale": ("Scale: `benchmarks/scale.py`", scale),
    "scale-large": ("Larger runs", scale_rows),
    "scale-10m": ("Millions of rows", scale_rows),
    "many_reports": ("A thousand reports: `benchmarks/many_reports.py`", many_reports),
    "score_traces": ("Logged traces: `benchmarks/score_traces.py`", score_traces),
    "steps": ("Steps: `benchmarks/steps.py`", steps),
    "generate": ("Answers: `benchmarks/generate.py`", generate),
    "growth": ("Growth with the input: `benchmarks/growth.py`", growth),
}
"""Title and text of each part, in the order of the page."""
PRINTED_ONLY = ("judge", "orchestration", "many_reports", "score_traces", "steps", "generate", "growth")
"""Parts that `make bench` prints, and that are not on the page."""


def provenance(found: Figures) -> str:
    """When, at which commit, in how many rounds and on which machine a part was measured."""
    machine = found["machine"]
    return (
        f"{found['at']}, commit {found['commit'].rstrip('+')}, {found['rounds']} rounds, {machine['cores']} cores of "
        f"{machine['cpu']}, Python {machine['python']}"
    )


def section(part: str, found: Figures, common: str = "") -> str:
    """The section of a part, without the provenance that it has in common with others."""
    title, text = SECTIONS[part]
    about = [f"`python benchmarks/bench.py {part}`", *([provenance(found)] if provenance(found) != common else [])]
    about += [f"{name} {version}" for name, version in found.get("versions", {}).items() if name != "answerkey"]
    missing = "; ".join(f"{name}: {reason}" for name, reason in found.get("missing", {}).items())
    parts = [f"## {title}\n", *text(found), prose(f"{', '.join(about)}.")]
    if missing:
        parts.append(prose(f"Not measured: {missing}."))
    return "\n".join(parts)


def page(stored: dict[str, Figures]) -> str:
    """The whole page. The newest provenance is said once."""
    shown = [part for part in SECTIONS if part in stored and part not in PRINTED_ONLY]
    common = max(provenance(stored[part]) for part in shown)
    loads = [stored[part]["machine"]["load"] for part in shown]
    return "\n".join([
        "# Benchmarks\n",
        INTRODUCTION,
        prose(f"Measured, unless a section says otherwise: {common}, load of other work {min(loads)} to {max(loads)}."),
        *(section(part, stored[part], common) for part in shown),
        "<!-- Made by docs/make_benchmarks.py; do not edit. -->\n",
    ])  # fmt: skip


def compact(stored: dict[str, Figures]) -> str:
    """The figures as JSON: a line for each row of a table."""
    lines = []
    for part, found in stored.items():
        about = {key: value for key, value in found.items() if key != "rows"}
        rows = ",\n".join(f"  {json.dumps(row)}" for row in found.get("rows", []))
        head = json.dumps(about)[:-1]
        lines.append(f"{json.dumps(part)}: {head}" + (f', "rows": [\n{rows}\n ]}}' if rows else "}"))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def read() -> dict[str, Figures]:
    """The figures that are kept."""
    stored: dict[str, Figures] = json.loads(STORE.read_text(encoding="utf-8"))
    return stored


if __name__ == "__main__":
    FILE.write_text(page(read()), encoding="utf-8")
