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
`make bench` measures everything on this page and prints it; the page is made from that output. All sides of a contest
run by turns on the same machine, each in a process of its own, in several rounds after one that does not count; a
different side begins each round. Imports are not counted but where the start is what is measured. A figure is
the median with the lowest and the highest in brackets. **Times** are always what the other takes, divided by what
answerkey takes in the same round: below 1, the other is faster. Only ratios carry over to another machine.
"""
METRICS = {
    "rouge_l": "ROUGE-L",
    "token_overlap": "Token overlap (F1 of SQuAD)",
    "exact_match": "Exact match",
    "continuous_eval": "Profile `continuous_eval_v0_3`",
}


def spread(found: Sequence[float]) -> str:
    """Median and range; of one measurement the number alone."""
    median, low, high = map(number, found)
    if low == high:
        return median
    return f"{median} ({low} to {high})"


def number(value: float) -> str:
    """Three digits, without an exponent."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def prose(text: str) -> str:
    """A paragraph."""
    return textwrap.fill(text, 120, break_on_hyphens=False) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [[head[0] or "measured", *head[1:]], ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def seconds_and_times(row: dict[str, Any]) -> Iterator[str]:
    """On the clock and of the processor, each with how many times ours."""
    for what in ("wall", "cpu"):
        yield spread(row[what])
        yield spread(row["times"][what])


def lexical(found: Figures) -> Iterator[str]:
    """Tables of the lexical metrics, one for each."""
    sets = found["sets"]
    drawn = ", ".join(f"{name} {one['answers']:,} with {one['references']:,}" for name, one in sets.items())
    yield prose(
        f"Processor time; answers and their references: {drawn}. `made` are texts of invented words with the "
        "lengths, numbers, marks and scripts of real ones. Every turn begins without caches and may keep what it "
        "likes; texts are tokenised once where the library lets its caller do so. *Same*: rows whose value is "
        "ours to 1e-6, over all sets; where a library gives one mean only, the means. Where fewer are the same, "
        "its definition of a word or of the formula is another one. "
        "A library whose turn takes more than three seconds of CPU has one turn only."
    )
    for metric, title in METRICS.items():
        rows = [row for row in found["rows"] if row["metric"] == metric]
        yield f"### {title}\n"
        ours = {row["set"]: row for row in rows if row["library"] == "answerkey"}
        lines = [
            [
                "answerkey, ms per 1,000 answers",
                *(spread(ours[name]["ms"]) if name in ours else "" for name in sets),
                "",
            ]
        ]
        for library in dict.fromkeys(row["library"] for row in rows if "ratio" in row):
            theirs = {row["set"]: row for row in rows if row["library"] == library}
            same, of = (sum(row[key] for row in theirs.values()) for key in ("same", "of"))
            cells = [spread(theirs[name]["ratio"]) if name in theirs else "" for name in sets]
            agreement = f"{same:,} of {of:,}" + (" means" if of <= len(sets) else "")
            lines.append([f"{library}, times", *cells, agreement])
        yield table(["", *sets, "same"], lines)


def lexical_slower(found: Figures) -> Iterator[str]:
    """What is faster than a lexical metric of ours."""
    for row in found["rows"]:
        if "ratio" in row and row["ratio"][0] < 1:
            metric, times = METRICS[row["metric"]], spread(row["ratio"])
            yield f"{metric} on {row['set']}: {row['library']} takes {times} times as long"


def first_result(found: Figures) -> Iterator[str]:
    """Ten rows with the command of each tool."""
    yield prose(
        "Ten answers, exact match, nothing asked of any model; the whole command in a fresh process. The result "
        "of each is .6. `answerkey evaluate` validates the rows with Great Expectations, keeps them, their scores"
        " and a report, and writes a page."
    )
    yield table(
        ["", "seconds", "times", "seconds of CPU", "times"],
        [[row["tool"], *seconds_and_times(row)] for row in found["rows"]],
    )


def first_result_slower(found: Figures) -> Iterator[str]:
    """Which tool has a first result sooner than our command."""
    for row in found["rows"]:
        if row["times"]["wall"][0] < 1 and not row["tool"].startswith("answerkey"):
            yield f"Ten rows: {row['tool']} takes {spread(row['times']['wall'])} times as long as `answerkey evaluate`"


def orchestration(found: Figures) -> Iterator[str]:
    """The command beside the library."""
    yield prose(
        f"{found['answers']:,} made answers, the seven lexical metrics, no page; each side a fresh process with a "
        "new home. Times are those of the library. What the command does more: it reads and validates the rows "
        "(the import of Great Expectations alone takes two seconds), and keeps them, their scores and the report."
    )
    yield table(
        ["", "seconds", "times", "seconds of CPU", "times"],
        [[row["what"], *seconds_and_times(row)] for row in found["rows"]],
    )


def scale(found: Figures) -> Iterator[str]:
    """Runs by their number of rows."""
    yield prose(
        "One run each, with imports and start in CPU and memory. Made rows with the lengths of real answers, some 400 "
        "bytes each; memory is that of all processes together, disk that of the whole home. The language model is a "
        "scripted one on loopback that takes 200 ms, 64 calls at once; its price is that of a dry run with gpt-4o-mini."
    )
    yield table(
        ["metric", "rows", "minutes", "CPU, us a row", "peak MiB", "dollars", "disk, bytes a row"],
        [
            [
                row["metric"],
                f"{row['rows']:,}",
                number(row["seconds"] / 60),
                number(1e6 * row["cpu"] / row["rows"]),
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
        [[row["step"], f"{row['rows']:,}", spread(row["us"]), f"{row['mib']:,}"] for row in found["rows"]],
    )


def many_reports(found: Figures) -> Iterator[str]:
    """Commands on a home with many reports."""
    yield prose(
        f"A home with {found['releases']:,} releases of one data set and a report on each, {found['questions']} "
        f"questions, three metrics ({found['mib']} MiB). The whole command in a fresh process."
    )
    yield table(
        ["command", "seconds", "seconds of CPU"],
        [[f"`{row['command']}`", spread(row["wall"]), spread(row["cpu"])] for row in found["rows"]],
    )


def semantic(found: Figures) -> Iterator[str]:
    """Beside sentence-transformers, and beside people."""
    yield prose(
        f"{found['pairs']} pairs, model loaded, no cache, one thread; times are those of our `minilm`. Equal texts are "
        "embedded once on both sides."
    )
    yield table(
        ["", "CPU, ms a pair", "times", "largest difference of a cosine"],
        [
            [row["what"], spread(row["ms"]), spread(row["times"]) if "times" in row else "", row.get("largest", "")]
            for row in found["rows"]
        ],
    )
    if "people" in found:
        yield prose("Agreement with the mean rating of people on the development pairs of STS-B (ru: translated):")
        yield table(
            ["model", "language", "pairs", "Pearson", "Spearman"],
            [
                [f"`{row['model']}`", row["language"], f"{row['pairs']:,}", row["pearson"], row["spearman"]]
                for row in found["people"]
            ],
        )


def semantic_slower(found: Figures) -> Iterator[str]:
    """Whether sentence-transformers is faster with the same model."""
    for row in found["rows"]:
        if row["what"].startswith("sentence") and row["times"][0] < 1:
            yield f"Semantic similarity: {row['what']} takes {spread(row['times'])} times as long"


def judge(found: Figures) -> Iterator[str]:
    """The engine beside its client library."""
    yield prose(
        f"{found['samples']:,} samples against a server on loopback that takes {found['latency_ms']:.0f} ms, "
        f"{found['concurrency']} calls at once; the bound is calls x latency / calls at once. Server and client share "
        "the cores. `litellm alone` sends the same requests, without a ledger, retries, pacing or reading of replies."
    )
    yield table(
        ["", "calls", "times the bound", "CPU, ms a sample", "times"],
        [
            [row["what"], f"{row['calls']:,}", spread(row["bound"]), spread(row["ms"]), spread(row["times"])]
            for row in found["rows"]
        ],
    )


def judge_slower(found: Figures) -> Iterator[str]:
    """Whether bare litellm is faster."""
    for row in found["rows"]:
        if row["what"] == "litellm alone" and row["times"][0] < 1:
            yield f"Judge engine: litellm alone takes {spread(row['times'])} times the CPU"


def judge_rivals(found: Figures) -> Iterator[str]:
    """Judges of several libraries."""
    yield prose(
        f"{found['samples']} samples a turn, made of the examples, never the same twice; a scripted judge on "
        "loopback that takes 50 ms. Faults: 429, 500, 503, empty, prose around the JSON, cut-off JSON. ragas with its "
        "AnswerCorrectness (without embeddings), DeepEval with GEval, Inspect with `model_graded_fact`. Tokens are "
        "characters / 4; times are those of `meaning_match`, in CPU. answerkey takes longer under faults because a 429 "
        "holds up all calls to that judge for a moment, and slows them after that: a real rate limit is obeyed, "
        "scattered false ones cost time. *Changed*: rows with another score than without faults."
    )
    yield table(
        ["", "faults", "calls", "tokens", "seconds", "CPU, ms a sample", "times", "no score", "changed"],
        [
            [
                *(row["what"], f"{row['faults']:.0%}", row["calls"], f"{row['tokens']:,}", spread(row["seconds"])),
                *(spread(row["ms"]), spread(row["times"]), f"{row['without']} of {row['of']}", row["changed"]),
            ]
            for row in found["rows"]
        ],
    )


def judge_rivals_slower(found: Figures) -> Iterator[str]:
    """Which judge asks for less than ours."""
    ours = {row["faults"]: row for row in found["rows"] if row["what"] == "answerkey meaning_match"}
    for row in found["rows"]:
        mine = ours[row["faults"]]
        if row["what"].startswith("answerkey"):
            continue
        said = f"Judges, {row['faults']:.0%} faults: {row['what']}"
        if row["seconds"][0] < mine["seconds"][0]:
            yield f"{said} takes {spread(row['seconds'])} s, `meaning_match` {spread(mine['seconds'])} s"
        if row["times"][0] < 1:
            yield f"{said} takes {spread(row['times'])} times the CPU of `meaning_match`"
        if row["tokens"] < mine["tokens"] and row["faults"] == 0:
            yield f"{said} sends and receives {row['tokens']:,} tokens, `meaning_match` {mine['tokens']:,}"


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
        "Traces of 500 characters and three rules, one of which asks a judge on this machine that takes 0.2 s a call. "
        "Seconds are those of the flow, without the start and the end of the process. One run each."
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


SECTIONS: dict[str, tuple[str, Callable[[Figures], Iterator[str]], Callable[[Figures], Iterator[str]] | None]] = {
    "first_result": ("The first result: `benchmarks/first_result.py`", first_result, first_result_slower),
    "lexical": ("Lexical metrics: `benchmarks/lexical.py`", lexical, lexical_slower),
    "semantic": ("Semantic similarity: `benchmarks/semantic.py`", semantic, semantic_slower),
    "judge": ("Judge engine: `benchmarks/judge.py`", judge, judge_slower),
    "judge_rivals": ("Judges side by side: `benchmarks/judge_rivals.py`", judge_rivals, judge_rivals_slower),
    "orchestration": ("Pipeline: `benchmarks/orchestration.py`", orchestration, None),
    "scale": ("Scale: `benchmarks/scale.py`", scale, None),
    "scale-large": ("Larger runs", scale, None),
    "scale-10m": ("Millions of rows", scale, None),
    "steps": ("Steps: `benchmarks/steps.py`", steps, None),
    "many_reports": ("A thousand reports: `benchmarks/many_reports.py`", many_reports, None),
    "generate": ("Answers: `benchmarks/generate.py`", generate, None),
    "score_traces": ("Logged traces: `benchmarks/score_traces.py`", score_traces, None),
    "growth": ("Growth with the input: `benchmarks/growth.py`", growth, None),
}
"""Title, text and what is slower than a peer of each part, in the order of the page."""


def section(part: str, found: Figures) -> str:
    """The section of a part."""
    title, text, _ = SECTIONS[part]
    machine = found["machine"]
    load = f", other work on it (load {machine['load']})" if machine["load"] >= 0.5 * machine["cores"] else ""
    about = (
        f"`python benchmarks/bench.py {part}`, rounds: {found['rounds']}, {found['at']}, commit {found['commit']}, "
        f"{found['seconds']:,} s on "
        f"{machine['cores']} cores of {machine['cpu']}, {machine['memory_gib']} GiB{load}; Python {machine['python']}"
    )
    versions = ", ".join(f"{name} {version}" for name, version in found.get("versions", {}).items())
    missing = "; ".join(f"{name}: {reason}" for name, reason in found.get("missing", {}).items())
    parts = [f"## {title}\n", *text(found), prose(f"{about}{f', {versions}' if versions else ''}.")]
    if missing:
        parts.append(prose(f"Not measured: {missing}."))
    return "\n".join(parts)


def slower(stored: dict[str, Figures]) -> Iterator[str]:
    """What a peer does in less time, of all parts."""
    for part, (_, _, behind) in SECTIONS.items():
        if behind and part in stored:
            yield from behind(stored[part])


def page(stored: dict[str, Figures]) -> str:
    """The whole page."""
    behind = [f"- {line}\n" for line in slower(stored)] or ["- Nothing that was measured.\n"]
    return "\n".join([
        "# Benchmarks\n",
        INTRODUCTION,
        "## Where another is faster\n",
        "".join(behind),
        *(section(part, stored[part]) for part in SECTIONS if part in stored),
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
