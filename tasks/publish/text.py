"""Numbers and comparisons in plain words, for the terminal, the page and the Prefect UI.

Every place that shows a number, an interval or a finding takes its words from here. The page sets them with true minus
signs.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.comparison import Comparison, FieldComparison
from answerkey.metrics_core.decide.intervals import decimals
from answerkey.metrics_core.decide.verdict import rounded
from answerkey.metrics_core.formatting import chance
from answerkey.metrics_core.llm.cost import Cost, total_usd

if TYPE_CHECKING:
    from answerkey.metrics_core.decide.verdict import Verdict
    from answerkey.metrics_core.judges.learning import Learned
    from answerkey.metrics_core.llm.access import CallLimits

NONE = "–"
NOT_SHOWN = "not shown to differ"
HUMAN = "in human labels"
"""The column after the difference, where a part of the samples has human labels."""
DETECTABLE = "detectable: the smallest true difference that these samples show with a power of 80 %"
NEEDED = "needed: about how many samples would show a difference of the size that was seen, with that power"
BASES: Mapping[str, str] = {
    "people": "human labels",
    "people and judge": "human labels, which correct the judge",
    "judge": "the judge alone",
    "text": "the text of the answers",
    "given": "given scores, which were not measured here",
}
"""What a verdict rests on, in words."""
_DECISIONS: Mapping[str, str] = {
    "PASS": "Ship",
    "FAIL": "Do not ship",
    "INCONCLUSIVE": "Not decided yet:",
    "INCOMPLETE": "Cannot be decided:",
}
MEANINGS: Mapping[str, str] = {
    "PASS": "A loss as large as the margin is ruled out. That the new release is better is not said.",
    "FAIL": "The new release loses more than the margin.",
    "INCONCLUSIVE": "It may be either: more samples can tell, and the rule says about how many.",
    "INCOMPLETE": "There is too little to go by; the sentence says what is missing.",
    "basis": "Who says so: people, a judge (a model, or the offline judge), or the text of the answers. No interval "
    "contains the errors of a judge.",
    "margin": "The largest loss that is accepted. The policy sets it.",
    "interval": "Where the number may lie on all questions of this kind. About one in twenty misses it.",
    "better, worse": "A difference that would hardly come about by chance. It may still be too small to matter.",
    "not shown to differ": "These samples cannot tell. That the releases are equally good is not said.",
    "moves with length": "The answers of one release are much longer, and this score changes with length alone.",
    "detectable": "The smallest true difference that these samples show four times out of five.",
}
"""What the words on a page mean, for who decides."""
PLOT = 32
"""Characters of an interval that is drawn."""
_NO_FINDING = "is not shown to differ from"


def decision(outcome: str, release: str) -> str:
    """What an outcome of a gate means for a release.

    >>> decision("FAIL", "v2"), decision("INCONCLUSIVE", "v2")
    ('Do not ship v2', 'Not decided yet: v2')
    """
    return f"{_DECISIONS[outcome]} {release}"


def number(value: float | None) -> str:
    """Three decimals, or a dash where there is no number."""
    return NONE if value is None else f"{value:.3f}"


def count(n: float | None) -> str:
    """How many, or a dash where there is no number."""
    return NONE if n is None else f"{n:,.0f}"


def signed(value: float | None, *marks: float) -> str:
    """A difference with its sign, also where it is plus, and digits enough to tell it from the `marks`; zero has none.

    >>> signed(0.0535), signed(-0.00021), signed(0.0)
    ('+0.053', '-0.0002', '0.000')
    """
    if value is None:
        return NONE
    size = f"{abs(value):.{decimals(value, *marks, 0.0)}f}"
    if float(size) == 0:
        return size
    return f"+{size}" if value > 0 else f"-{size}"


def points(value: float, *marks: float) -> str:
    """A difference of shares, in percentage points, with digits enough to tell it from 0 and from the `marks`.

    >>> points(0.14), points(-0.0004), points(-0.0298, -0.03)
    ('+14.0', '-0.04', '-2.98')
    """
    return f"{100 * value + 0.0:+.{max(1, decimals(value, *marks, 0.0) - 2)}f}"


def plot_line(
    value: float | None, low: float | None, high: float | None, axis: tuple[float, float], marks: Mapping[float, str]
) -> str:
    """A value with its interval as one line of characters, and marks at other places of the axis.

    >>> plot_line(0.14, 0.08, 0.2, axis=(-0.03, 0.2), marks={-0.03: "┊", 0.0: "│"})
    '┊   │          ├───────●───────┤'
    >>> plot_line(0.01, -0.04, 0.07, axis=(-0.04, 0.07), marks={-0.03: "┊", 0.0: "│"})
    '├──┊───────│──●────────────────┤'
    """
    start, end = axis
    cells = [" "] * PLOT

    def column(position: float) -> int:
        return round((position - start) / ((end - start) or 1.0) * (PLOT - 1))

    # Later characters are drawn over earlier ones: the interval, the marks, the value
    if low is not None and high is not None:
        left = column(low)
        right = column(high)
        cells[left : right + 1] = "─" * (right - left + 1)
        cells[left] = "├"
        cells[right] = "┤"
    for position, mark in marks.items():
        cells[column(position)] = mark
    if value is not None:
        cells[column(value)] = "●"
    return "".join(cells)


_LEVELS = re.compile(r"(level|median|p\d[\d.]*|kappa|coverage|in depth) ")


def rule_number(rule: str) -> Callable[[float | None], str]:
    """How the numbers of a rule are shown: a difference has a sign, and a relative one is in percent.

    >>> rule_number("latency.seconds <= +10%")(0.042), rule_number("p95 latency.seconds <= 2")(1.5)
    ('+4.2 %', '1.500')
    """
    if rule.endswith("%"):
        return lambda value: NONE if value is None else f"{100 * value:+.1f} %"
    return number if _LEVELS.match(rule) else signed


def verdict_plot(verdict: Verdict, margin: float) -> str:
    """The interval that decides beside zero and the largest loss that is accepted, in one line; empty without one."""
    rule = verdict.rules[0] if verdict.rules else None
    if rule is None or rule.value is None or rule.low is None or rule.high is None:
        return ""
    is_level = rule_number(rule.rule) is number
    marks = {margin: "┊"} if is_level else {-margin: "┊", 0.0: "│"}
    axis = (min(rule.low, *marks), max(rule.high, *marks))
    line = plot_line(rule.value, rule.low, rule.high, axis=axis, marks=marks)
    if is_level:
        return f"{line}   ┊ {number(margin)}, the limit   ● {number(rule.value)}"
    accepted = f"┊ {signed(-margin)}, the accepted loss   " if margin else ""
    return f"{line}   {accepted}│ no difference   ● {signed(rule.value)}"


def percent(value: float | None) -> str:
    """A share; never rounded to 100 % or 0 % where it is not."""
    if value is None:
        return NONE
    text = f"{100 * value:.1f}"
    # What is rounded to a whole is only nearly one
    if text == "100.0":
        return "100 %" if value >= 1 else "> 99.9 %"
    return "< 0.1 %" if text == "0.0" and value > 0 else f"{text.removesuffix('.0')} %"


def ends(low: float | None, high: float | None, show: Callable[[float | None], str] = number) -> str:
    """Both ends of an interval, as `0.554 to 0.772`; a dash where there is none.

    >>> ends(-0.105, 0.21, signed)
    '-0.105 to +0.210'
    """
    return NONE if low is None or high is None else f"{show(low)} to {show(high)}"


def samples(n: int, clusters: int | None = None) -> str:
    """How many, and in how many clusters where there are any.

    >>> samples(1618), samples(15, 5)
    ('1,618 samples', '15 samples in 5 clusters')
    """
    return counted(n, "sample") + (f" in {counted(clusters, 'cluster')}" if clusters else "")


def counted(n: int, noun: str) -> str:
    """Return a number with what is counted: 1 call, 2,000 calls."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def finding(row: FieldComparison) -> str:
    """Better, worse, or not shown to differ, with the reason where the interval does not tell; or why there is none."""
    if row.finding == NOT_SHOWN and row.low is not None and not row.low <= 0 <= (row.high or 0.0):
        lowest = row.low_with_unanswered
        if lowest is not None and lowest <= 0 < (row.difference or 0.0):
            return f"{NOT_SHOWN} (unanswered count as wrong)"
        return f"{NOT_SHOWN} (by p adjusted)"
    return row.finding or f"not compared: {row.note}"


def first_is_old(old: str, new: str) -> str:
    """Say why a release is the old one of two that were compared without being asked, and how to turn them round.

    >>> first_is_old("gpt-4", "gpt 5")
    "gpt-4 comes first, so it is taken as the old release (the other way round: --baseline 'gpt 5')."
    """
    return f"{old} comes first, so it is taken as the old release (the other way round: --baseline {shlex.quote(new)})."


def headline(comparison: Comparison, primary: str, verdict: Verdict | None = None) -> str:
    """Say what is shown about the field `primary`; without its numbers beside a verdict, whose sentence has them."""
    row = comparison.row(primary)
    if row is None:
        sentence = f"{comparison.new} and {comparison.old} share no number of {primary}."
    else:
        sentence = _difference_sentence(comparison, row, beside_verdict=verdict is not None)
    return " ".join([*by_people(comparison, row, verdict), sentence])


def by_people(comparison: Comparison, decisive: FieldComparison | None, verdict: Verdict | None) -> Iterator[str]:
    """Say what the difference in human labels is, if it is significant, of all samples, or decides."""
    # The labels are a field of their own
    old = comparison.old
    new = comparison.new
    if verdict is None or verdict.basis != "people and judge":
        for row in comparison.overall:
            if row.metric != "label" or row is decisive or row.difference is None:
                continue
            is_significant = row.finding in ("better", "worse")
            if is_significant or (decisive and row.n_common == decisive.n_common):
                finding = f"is {row.finding} than" if is_significant else _NO_FINDING
                interval = f"95 % interval {ends(row.low, row.high, signed)}, {samples(row.n_common)}"
                yield f"By human labels, {new} {finding} {old}: {signed(row.difference)} ({interval})."
                return
    # Labels that a policy does not name are not known to be drawn at random
    elif decisive and decisive.people is not None and decisive.people_low is not None:
        finding = "is better than" if decisive.people > 0 else "is worse than"
        if decisive.people_low <= 0 <= (decisive.people_high or 0.0):
            finding = _NO_FINDING
        interval = f"95 % interval {ends(decisive.people_low, decisive.people_high, signed)}"
        yield (
            f"By human labels of {decisive.n_labelled:,} samples, which correct {decisive.name}, {new} {finding} "
            f"{old}: {signed(decisive.people)} ({interval})."
        )


def _difference_sentence(comparison: Comparison, row: FieldComparison, *, beside_verdict: bool) -> str:
    """Say whether the new release is better or worse in a field; where that is not shown, why."""
    old = comparison.old
    new = comparison.new
    if row.finding is None:
        return f"{new} cannot be compared with {old} in {row.name}: {row.note}."
    numbers = f" in {row.name}."
    if not beside_verdict:
        interval = "no interval" if row.low is None else f"95 % interval {ends(row.low, row.high, signed)}"
        size = f"{signed(row.difference)}, {interval}, {samples(row.n_common, row.n_clusters)}"
        numbers = f": {row.name} went from {number(row.old)} to {number(row.new)} ({size})."
    if row.finding != NOT_SHOWN:
        return f"{new} is {row.finding} than {old}{numbers}"

    # Why it is not shown
    lowest = row.low_with_unanswered
    if row.low is None or row.high is None:
        reason = ""
    elif row.low <= 0 <= row.high:
        reason = " The interval contains 0."
    elif lowest is not None and lowest <= 0 < (row.difference or 0.0):
        reason = (
            f" With the lowest score for the {counted(row.n_unanswered, 'sample')} that {new} did not "
            f"answer, the interval begins at {signed(lowest)}."
        )
    else:
        reason = f" The p-value, adjusted for everything that was compared, is {chance(row.p_adjusted)}."
    # How many samples it takes is for the gate to say, where there is one
    needed = "" if beside_verdict else _needed(row)
    return f"No difference between {new} and {old} is shown{numbers}{reason}{needed}"


def _needed(row: FieldComparison) -> str:
    """Say how many samples the observed difference needs, or else the minimum detectable effect, or why there is none.

    The range begins with as few samples as it would need if it were as large as its interval allows.
    """
    if row.mde_note:
        return f" {row.mde_note[:1].upper()}{row.mde_note[1:]}."
    if row.needed:
        largest = max(abs(row.low or 0.0), abs(row.high or 0.0))
        fewest = rounded(row.needed * ((row.difference or 0.0) / largest) ** 2, 1) if largest else 0
        from_fewest = f", anything from {fewest:,} up," if 0 < fewest < row.needed else ""
        n = f"{rounded(row.needed, 1):,} samples{from_fewest}"
        return f" Roughly {n} would show a difference of this size with a power of 80 %."
    return f" These samples show a difference of {number(row.mde)} with a power of 80 %." if row.mde is not None else ""


def undetectable(comparison: Comparison) -> Iterator[str]:
    """Why fields have no minimum detectable effect, each reason once."""
    fields: dict[str, list[str]] = {}
    for row in comparison.overall:
        if row.mde_note:
            fields.setdefault(row.mde_note, []).append(row.name)
    yield from (f"{', '.join(names)}: {note}" for note, names in fields.items())


def doubts(comparison: Comparison) -> Iterator[str]:
    """Yield why reports cannot be compared, what to know of the comparison, and which fields have one-sided samples.

    Those have a number in one report only. Samples that a report does not have at all are in the warnings.
    """
    if comparison.not_comparable:
        yield comparison.not_comparable
    yield from comparison.warnings

    # The fields with the same one-sided samples, in one line
    fields: dict[str, list[str]] = {}
    old = comparison.old
    new = comparison.new
    for row in comparison.overall:
        # Samples with a number in the old or in the new report only
        sides = []
        for missing, having, lacking in ((row.missing_new, old, new), (row.missing_old, new, old)):
            counts = {reason: n for reason, n in missing.items() if reason != "absent"}
            reasons = ", ".join(f"{n:,} {reason}" for reason, n in counts.items())
            if counts:
                sides.append(f"{sum(counts.values()):,} only in {having}, where {lacking} has {reasons}")
        if sides:
            fields.setdefault("; ".join(sides), []).append(row.name)
    for sides_text, names in fields.items():
        field_names = ", ".join(names)
        if len(names) > 1 and len(names) == len(comparison.overall):
            field_names = f"all {len(names)} fields"
        yield f"{field_names}: some samples have a number in one report only: {sides_text}"


def human_note(comparison: Comparison) -> str | None:
    """What the column `HUMAN` is, where there is one."""
    n = max((row.n_labelled or 0 for row in comparison.overall), default=0)
    if not n:
        return None
    return (
        f"{HUMAN}: of all samples, estimated from the {n:,} that people labelled in both releases and from these "
        "scores (PPI++); valid if those were drawn at random"
    )


def code_block(text: str, language: str = "") -> str:
    """Lines of text as Markdown that is shown as it is, whatever stands in it.

    >>> print(code_block("a: '```'\\n", "yaml"))
    ````yaml
    a: '```'
    ````
    """
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`*", text)))
    return f"{fence}{language}\n{text}{fence}"


def what_it_learned(learned: Learned) -> str:
    """What examples from labels change in how far a judge agrees with people."""
    gain = learned.gain
    interval = learned.gain.interval
    interval_text = f" (95 % interval {interval.low:+.3f} to {interval.high:+.3f})" if interval else ""
    no_gain = (
        "" if interval and interval.low > 0 else ". That is no gain that these labels show: the rubric stays as it is"
    )
    return (
        f"{learned.rubric.name}: {learned.n:,} labelled answers; the judge got {learned.corrected:,} of them wrong. On "
        f"answers that were not used to choose examples, it agrees with people on {gain.old:.1%} without the new "
        f"examples and on {gain.new:.1%} with them: {gain.difference:+.3f}{interval_text}{no_gain}."
    )


def price(cost: float | None) -> str:
    """A cost in a sentence."""
    return "price unknown" if cost is None else dollars(cost)


def spent_on_judges(manifest: Mapping[str, Any]) -> list[str]:
    """For each judge that the run of a report has asked, its calls, tokens and dollars.

    >>> spent = {"judge": "openai/m", "calls": 1200, "tokens_in": 90000, "tokens_out": 4000, "cost_usd": 0.5}
    >>> spent_on_judges({"judge": {"by_judge": [{**spent, "reserved_usd": 0.02}]}})
    ['openai/m: 1,200 calls, 90,000 tokens sent, 4,000 received, $0.5000 at most ($0.0200 for calls of unknown cost)']
    >>> spent_on_judges({"judge": {"by_judge": [{**spent, "cost_usd": None, "reserved_usd": 0.0}]}})
    ['openai/m: 1,200 calls, 90,000 tokens sent, 4,000 received, price unknown']
    """
    lines = []
    for spending in (manifest.get("judge") or {}).get("by_judge") or ():
        cost = price(spending["cost_usd"])
        if spending["cost_usd"] is not None and spending["reserved_usd"]:
            cost = f"{cost} at most ({dollars(spending['reserved_usd'])} for calls of unknown cost)"
        tokens = f"{spending['tokens_in']:,} tokens sent, {spending['tokens_out']:,} received"
        lines.append(f"{spending['judge']}: {counted(spending['calls'], 'call')}, {tokens}, {cost}")
    return lines


def total(estimates: Sequence[Cost]) -> Cost:
    """Add up costs."""
    # The price is not known if one is not
    names = ("samples", "calls", "in_ledger", "tokens_in", "tokens_out")
    sums = {name: sum(getattr(estimate, name) for estimate in estimates) for name in names}
    return Cost("total", **sums, cost_usd=total_usd(estimates))


def what_it_costs(
    models: Sequence[str], limits: CallLimits, estimates: Sequence[Cost], fallbacks: Sequence[str] = ()
) -> str:
    """Say which models a run will ask, how often, what it may cost, and its limits, in a sentence."""
    cost = total(estimates)
    # The limits that are set
    limited = []
    if limits.max_calls is not None:
        limited.append(f"{limits.max_calls:,} calls")
    if limits.max_cost_usd is not None:
        limited.append(dollars(limits.max_cost_usd))
    if limits.max_cost_total_usd is not None:
        limited.append(f"{dollars(limits.max_cost_total_usd)} a month for all runs together")
    as_batch = " as a batch" if limits.batch else ""
    return (
        f"{', '.join(models)} will be asked {cost.calls:,} times ({cost.in_ledger:,} replies are in the ledger), about "
        f"{price(cost.cost_usd)}{as_batch}; limit: {' and '.join(limited) or 'none'}{not_counted(fallbacks)}"
    )


def not_counted(fallbacks: Sequence[str]) -> str:
    """The end of a sentence about what judges cost: nobody knows how often they will fail.

    >>> not_counted(["openai/c"]), not_counted([])
    ('; asked where a judge fails, and not counted: openai/c', '')
    """
    return f"; asked where a judge fails, and not counted: {', '.join(fallbacks)}" if fallbacks else ""


def dollars(cost: float | None) -> str:
    """An amount of money in a table; "unknown" where a price is."""
    if cost is None:
        return "unknown"
    return f"${cost:,.4f}" if cost < 1 else f"${cost:,.2f}"
