"""`answerkey show`: why an answer has its verdicts, and what another judge or rubric says of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.markup import escape

from answerkey.flows.cli import layout
from answerkey.flows.cli.judge import line, measured_lines, opened
from answerkey.flows.cli.main import print_json
from answerkey.flows.cli.options import HOME, AsJson, Dataset, Flags, HomeOption, command, listed
from answerkey.flows.environment import use_kept_server
from answerkey.flows.parameters import Judging
from answerkey.metrics_core.errors import UserError, choice
from answerkey.tasks.publish.text import price

if TYPE_CHECKING:
    from answerkey.tasks.publish.table import Table
    from answerkey.tasks.reports.judged import Judged
    from answerkey.tasks.warehouse.home import Home


@command
def show(
    sample: Annotated[str, Parameter(metavar="SAMPLE", help="The id of a sample.")],
    /,
    judging: Annotated[Judging, Flags("Judge", omit=("probes", "batch", "batch_poll_s", "cascade"))],
    *,
    release: Annotated[
        str,
        Parameter("--release", metavar="A,B", help="Releases or reports; without it, all releases with the sample."),
    ] = "",
    dataset: Dataset = "",
    metric: Annotated[str, Parameter("--metric", metavar="A,B", help="Of these metrics only.")] = "",
    rubric: Annotated[
        str,
        Parameter("--rubric", metavar="FILE", help="Ask again by this rubric: a file, or a name like politeness."),
    ] = "",
    as_json: AsJson = False,
    home: HomeOption = HOME,
) -> int:
    """Show why an answer has its verdicts: prompt, reply, votes, cost.

    Reads the warehouse and the ledger. Where another report has judged the same answer with another judge or prompt,
    both are shown. With --judge or --rubric the answer is judged again, beside them: no report is made, and a reply
    that is in the ledger is not paid for twice.

    Examples:
        answerkey show q17
        answerkey show q17 --release gpt-5 --judge openai/gpt-4o --max-cost 0.1
        answerkey show q17 --rubric judges/tone.yaml --judge openai/gpt-4o --dry-run
    """
    from answerkey.tasks.reports.judged import judged_rows

    use_kept_server(home)
    rows = judged_rows(home, sample, listed(release), dataset)
    names = list(dict.fromkeys(row.measurement.metric for row in rows))
    if unknown := [name for name in listed(metric) if name not in names]:
        raise UserError(f"--metric {unknown[0]}: {choice(unknown[0], names) if names else 'no judge was asked'}")
    rows, again = [row for row in rows if row.measurement.metric in (listed(metric) or names)], []
    if not rows:
        raise UserError(f"{sample}: no judge was asked about it; evaluate with a metric that needs one")
    if rubric or judging != Judging():
        again = _again(rows, rubric, judging, home)
        if judging.dry_run:
            return 0
    if as_json:
        print_json([row.as_dict() for row in (*rows, *again)])
    else:
        layout.show(*_page(sample, [*rows, *again]))
    return 0 if all(row.measurement.status in ("scored", "undefined") for row in again) else 1


def _again(rows: Sequence[Judged], rubric: str, judging: Judging, home: Home) -> list[Judged]:
    """The answers judged again, by the metrics of `rows` or by a rubric; what that will cost is said before.

    Raises:
        UserError: a judge or the rubric cannot be used.
    """
    from answerkey.metrics_core.judges.asked import asked_about, ledger_calls
    from answerkey.metrics_core.judges.estimate import estimate_cost
    from answerkey.metrics_core.judges.judge_metric import JudgeMetric, ModelMetric
    from answerkey.metrics_core.llm.cost import total_usd
    from answerkey.metrics_core.registry import create

    # One run, so that the limits are those of all rows together.
    changes = opened(judging.model_copy(update={"probes": "never"}), home)
    options = changes["judge"]
    wanted: dict[tuple[str, int, str], tuple[Judged, JudgeMetric]] = {}
    for row in rows:
        metric = create([rubric], changes)[0] if rubric else row.metric and replace(row.metric, **changes)
        if not isinstance(metric, JudgeMetric):
            raise UserError(f"{rubric or row.measurement.metric}: cannot be asked about single rows")
        if isinstance(metric, ModelMetric):
            metric.check()
        wanted.setdefault((row.answer_of, row.repeat, metric.name), (row, metric))
    if not options.offline:
        costs = [estimate_cost(metric, [row.sample]) for row, metric in wanted.values()]
        calls, known = sum(one.calls for one in costs), sum(one.in_ledger for one in costs)
        print(
            f"{', '.join(options.labels)}: calls to make {calls:,}, about {price(total_usd(costs))}; replies that the "
            f"ledger has {known:,}", file=sys.stderr,
        )  # fmt: skip
    if judging.dry_run:
        return []
    found = []
    for row, metric in wanted.values():
        [measurement] = metric.measure([row.sample])
        with ledger_calls(home.ledger) as calls_of:
            asked = asked_about(metric, row.sample, measurement.requests, calls_of)
        found.append(replace(row, report="", metric=metric, measurement=measurement, asked=tuple(asked)))
    return found


def _page(sample_id: str, rows: Sequence[Judged]) -> Iterator[str | Table]:
    """Each answer with its measurements below each other, and what judges were asked about it."""
    answers = list(dict.fromkeys((row.answer_of, row.repeat) for row in rows))
    for place, (report, repeat) in enumerate(answers):
        own = [row for row in rows if (row.answer_of, row.repeat) == (report, repeat)]
        sample = own[0].sample
        texts = {"question": sample.question, "reference": " | ".join(sample.references), "answer": sample.answer}
        which = f"{escape(report)}{f', answer {repeat}' if repeat > 1 else ''}"
        yield from [""] * bool(place)
        yield from layout.sample_lines(sample_id, which, texts)
        for name in dict.fromkeys(row.measurement.metric for row in own):
            for row in own:
                if row.measurement.metric == name:
                    yield ""
                    yield from _lines(row)
    yield from _prompts(rows)


def _lines(row: Judged) -> Iterator[str | Table]:
    made = "just now" if not row.report else "" if row.report == row.answer_of else row.report
    yield from measured_lines(row.measurement, row.sample.references, judge=row.judge, report=made)
    for asked in row.asked:
        for call in asked.calls:
            yield line("reply", call["reply"]) if call["reply"] else line("error", f"{call['code']}: {call['message']}")
            yield line("", _about(call))


def _about(call: Mapping[str, Any]) -> str:
    """Where a reply came from, and what it cost."""
    parts = [call["judge"], call["prompt"], "" if call["kind"] == "ask" else call["kind"]]
    parts += [f"answered by {call['model']}" if call["model"] else ""]
    parts += [f"{call['tokens_in']:,} tokens in, {call['tokens_out']:,} out" if call["tokens_out"] is not None else ""]
    return ", ".join(filter(None, [*parts, price(call["cost_usd"])]))


def _prompts(rows: Sequence[Judged]) -> Iterator[str]:
    """What judges were asked, each text once."""
    asked = [(one, call["prompt"]) for row in rows for one in row.asked for call in one.calls[:1]]
    for name in dict.fromkeys(prompt for _, prompt in asked):
        own = [one for one, prompt in asked if prompt == name]
        yield from ("", layout.title_line(f"prompt {name}"))
        texts = [text for one in own for text in (one.system, one.user)]
        for text in filter(None, dict.fromkeys(texts)):
            yield from ("", *(f"  {escape(part)}" for part in text.split("\n")))
        if not all(one.system for one in own):
            yield "  [dim]It has changed since, or its rubric is not here, so that it cannot be shown.[/dim]"
