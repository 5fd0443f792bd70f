"""`answerkey judge`: try a judge on one answer, with the metrics, prompts and ledger of an evaluation."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

from cyclopts import Parameter
from rich.markup import escape

from answerkey.flows.cli.layout import show
from answerkey.flows.cli.main import print_json
from answerkey.flows.cli.options import HOME, AsJson, Flags, HomeOption, command, listed
from answerkey.flows.environment import use_kept_server
from answerkey.flows.parameters import Judging, preflight
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.votes import DECIDED_BY, OUT_OF_DEPTH
from answerkey.metrics_core.llm.access import Access
from answerkey.metrics_core.llm.ledger import open_ledger
from answerkey.metrics_core.llm.untrusted import one_line
from answerkey.metrics_core.measurement import Measurement, Scored
from answerkey.metrics_core.offline_judge.matcher import about
from answerkey.metrics_core.registry import METRICS, create
from answerkey.metrics_core.sample import Sample
from answerkey.tasks.publish.table import Table
from answerkey.tasks.publish.text import number, price
from answerkey.tasks.score.keys import key
from answerkey.tasks.warehouse.home import Home

_LABEL = 9


@dataclass(frozen=True, slots=True)
class Trial:
    """What one metric made of the answer, and its calls just now; `about` describes the offline judge, if asked."""

    measurement: Measurement
    calls: int
    about: str = ""


@command
def judge(  # noqa: PLR0913
    question: Annotated[str, Parameter(metavar="QUESTION", help="The question; may be empty.")],
    reference: Annotated[str, Parameter(metavar="REFERENCE", help="An answer known to be right.")],
    answer: Annotated[str, Parameter(metavar="ANSWER", help="The answer to judge.")],
    /,
    judging: Annotated[Judging, Flags("Judge", omit=("max_calls", "max_cost_usd", "max_cost_total_usd", "dry_run"))],
    *,
    references: Annotated[
        list[str] | None, Parameter("--reference", metavar="TEXT", help="Another answer known to be right.")
    ] = None,
    incorrect: Annotated[
        list[str] | None, Parameter("--incorrect", metavar="TEXT", help="An answer known to be wrong.")
    ] = None,
    metric: Annotated[
        str,
        Parameter("--metric", metavar="A,B", show_default="meaning_match,ground_truth_similarity", help="What to ask."),
    ] = "",
    rubric: Annotated[
        str,
        Parameter("--rubric", metavar="FILE", help="Ask by this rubric instead: a file, or a name like politeness."),
    ] = "",
    context: Annotated[
        list[str] | None, Parameter("--context", metavar="TEXT", help="A passage that the answer was to rest on.")
    ] = None,
    as_json: AsJson = False,
    home: HomeOption = HOME,
) -> int:
    """Try a judge on one answer.

    The metrics, prompts and ledger are those of an evaluation: a reply is not paid for twice.

    Examples:
        answerkey judge "Capital of France?" "Paris" "It is Paris."
        answerkey judge "Capital of France?" "Paris" "Lyon" --judge openai/gpt-4o-mini --repeats 3
    """
    texts = [reference, *(references or ())]
    if rubric and metric:
        raise UserError("--rubric: give it, or --metric, and not both")
    use_kept_server(home)
    sample = Sample("1", answer, texts, question or None, context=context or (), incorrect_references=incorrect or ())
    metrics, asked = [rubric] if rubric else metrics_of(metric), opened(judging, home)
    trials = [_measure(name, sample, asked) for name in metrics]
    _print(trials, texts, as_json=as_json)
    return 0 if all(trial.measurement.status in ("scored", "undefined") for trial in trials) else 1


def metrics_of(text: str) -> list[str]:
    """The metrics named in `text`, or all that need a judge.

    Raises:
        UserError: one of them does not need a judge.
    """
    known = [name for name, info in METRICS.items() if info.kind == "judge"]
    given = listed(text) or known
    if wrong := [name for name in given if name not in known]:
        raise UserError(f"--metric {wrong[0]}: choose from {', '.join(known)}")
    return given


def opened(judging: Judging, home: Home) -> dict[str, Any]:
    """What metrics need to ask these judges through the ledger in `home`, which answers what it can.

    Raises:
        UserError: a judge cannot be asked.
    """
    options = judging.options()
    preflight(options, judging.key_from, dry_run=judging.dry_run)
    api_key = None if options.offline or judging.dry_run else key(judging.key_from)
    return {"judge": options, "access": Access(api_key, home.ledger, uuid.uuid4().hex)}


def _measure(name: str, sample: Sample, asked: Mapping[str, Any]) -> Trial:
    access = replace(asked["access"], run=uuid.uuid4().hex)
    [metric] = create([name], {**asked, "access": access})
    [measurement] = metric.measure([sample])
    if not measurement.requests:
        offline = asked["judge"].offline or measurement.details.get(DECIDED_BY) == "offline"
        return Trial(measurement, 0, about() if offline else "")
    ledger = open_ledger(access.ledger)
    try:
        return Trial(measurement, ledger.spent(access.run).calls)
    finally:
        ledger.close()


def _print(trials: Sequence[Trial], references: Sequence[str], *, as_json: bool) -> None:
    """What judges said about one sample, metric by metric."""
    if as_json:
        print_json([_as_json(trial) for trial in trials])
        return
    for place, trial in enumerate(trials):
        show(*([""] if place else []), *measured_lines(trial.measurement, references, calls=_calls(trial)))


def _as_json(trial: Trial) -> dict[str, Any]:
    found = trial.measurement
    return {
        "metric": found.metric, "status": found.status, "values": dict(found.values), "reason": found.reason,
        "details": dict(found.details), "signature": found.signature, "from_ledger": found.from_ledger,
        "calls": trial.calls, "usage": asdict(found.usage), "requests": list(found.requests),
    }  # fmt: skip


def measured_lines(found: Measurement, references: Sequence[str], **more: str) -> Iterator[str | Table]:
    """A measurement in lines: the number first, then why; `more` are further lines, by their labels."""
    values = ", ".join(f"{name} {_short(value)}" for name, value in found.values.items())
    yield f"[bold]{found.metric}[/bold]  {values or found.status}"
    details = found.details
    if "verdict" in details:
        rule = f", by the rule {details['rule']}" if details.get("rule") else ""
        yield line("verdict", f"{details['verdict']}{rule}")
    if "probability" in details:
        yield line("estimate", f"human annotators call it a match with a probability of {details['probability']:.2f}")
    if OUT_OF_DEPTH in details:
        yield line("warning", f"outside the offline judge's training data: {details[OUT_OF_DEPTH]}")
    if found.reason:
        yield line("reason" if isinstance(found.outcome, Scored) else "cause", found.reason)
    if isinstance(index := details.get("reference"), int):
        yield line("reference", f"{index + 1}: {references[index]}")
    yield from (line(label.replace("_", " "), text) for label, text in more.items() if text)
    if len(details.get("votes", ())) > 1:
        yield from _votes(details["votes"])
    if "facts" in details:
        yield from _facts(details["facts"])


def line(label: str, text: str) -> str:
    """A line with a label. Judges wrote much of it: no markup or control character of theirs gets through."""
    return f"  [dim]{label:<{_LABEL}}[/dim]  {escape(one_line(text))}"


def _short(value: float) -> str:
    return f"{value:.0f}" if value.is_integer() else number(value)


def _calls(trial: Trial) -> str:
    found = trial.measurement
    if not trial.calls and trial.about:
        return f"none: judged by the {trial.about}"
    if not trial.calls:
        return "none: the ledger has the replies" if found.from_ledger else "none needed"
    usage = found.usage
    tokens = f"{usage.tokens_in:,} tokens in, {usage.tokens_out:,} out"
    return f"{trial.calls:,}, {tokens}, {price(usage.cost_usd)}, {usage.seconds:.1f} s"


def _votes(votes: Sequence[Mapping[str, Any]]) -> Iterator[Table | str]:
    head = ("vote", "judge", "reason")
    rows = [(number(vote["vote"]), vote["judge"], one_line(vote["reason"] or "")) for vote in votes]
    yield Table("", head, rows, left=head, wrapped={"judge": 16, "reason": 24})


def _facts(facts: Sequence[Mapping[str, str | None]]) -> Iterator[Table | str]:
    """The facts of both texts, those that belong together side by side."""
    head = ("", "fact of the reference", "fact of the answer")
    rows = []
    texts = {row["id"]: one_line(row["fact"] or "") for row in facts}
    shown = set()
    for row in facts:
        if row["side"] == "reference":
            rows.append((row["status"] or "", texts[row["id"]], texts.get(row["with"], "")))
            shown.add(row["with"])
        elif row["id"] not in shown:
            rows.append((row["status"] or "", "", texts[row["id"]]))
    yield Table("", head, rows, left=head, wrapped=dict.fromkeys(head[1:], 16))
