"""`answerkey judge`: an answer before a judge, and why an answer of a report has its verdicts."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.markup import escape

from answerkey.flows.cli import layout
from answerkey.flows.cli.main import print_json
from answerkey.flows.cli.options import HOME, AsJson, Dataset, Flags, HomeOption, command, listed
from answerkey.flows.environment import use_kept_server
from answerkey.flows.parameters import Estimating, preflight
from answerkey.metrics_core.errors import UserError, choice
from answerkey.metrics_core.judges.votes import OUT_OF_DEPTH
from answerkey.metrics_core.llm.access import Access
from answerkey.metrics_core.llm.untrusted import one_line
from answerkey.metrics_core.measurement import Scored
from answerkey.metrics_core.registry import METRICS, create
from answerkey.metrics_core.sample import Sample
from answerkey.tasks.publish.table import Table
from answerkey.tasks.publish.text import number, price, total
from answerkey.tasks.score.keys import key
from answerkey.tasks.warehouse.home import Home

if TYPE_CHECKING:
    from answerkey.metrics_core.judges.asked import Asked
    from answerkey.metrics_core.judges.judge_metric import JudgeMetric
    from answerkey.metrics_core.judges.known_answer import KnownAnswer
    from answerkey.metrics_core.metric import Metric
    from answerkey.tasks.reports.judged import Judged

_NAMES = Parameter(metavar="A,B")
_LABEL = 9
_OF_RUNS = (
    "max_calls", "max_cost_total_usd", "check", "cascade", "fallbacks", "batch", "batch_poll_s", "concurrency",
    "timeout_s", "deadline_s",
)  # fmt: skip
"""Options of judges that a run needs, and a single answer does not."""


@command
def judge(  # noqa: PLR0912, PLR0913
    words: Annotated[list[str], Parameter("SAMPLE")],
    /,
    judging: Annotated[Estimating, Flags("Judge", omit=_OF_RUNS)],
    *,
    release: Annotated[str, _NAMES] = "",
    dataset: Dataset = "",
    reference: list[str] | None = None,
    incorrect: list[str] | None = None,
    context: list[str] | None = None,
    metric: Annotated[str, _NAMES] = "",
    rubric: Annotated[str, Parameter(metavar="FILE")] = "",
    check: bool = False,
    as_json: AsJson = False,
    home: HomeOption = HOME,
) -> int:
    """Judge one answer, show why an answer of a report has its verdicts, or check a judge.

    Three texts are judged with the metrics and prompts of an evaluation.

    A sample is looked up in the reports: prompts, replies, votes and cost, also those of other judges and prompts. With
    --judge or --rubric its answers are judged again.

    --check asks a judge up to 40 questions a metric whose answers are known, and ends with 1 if it fails.

    No report is made, and a reply that is in the ledger is not paid for twice.

    Args:
        words: The id of a sample; or three texts: question, right answer, answer; or, with --check, a judge.
        release: Releases or reports; without it, all releases with the sample.
        reference: Another answer known to be right.
        incorrect: An answer known to be wrong.
        context: A passage that the answer was to rest on.
        metric: These metrics only; without it, all that need a judge.
        rubric: Ask by this rubric: a file, or a name like politeness.
        check: Ask a judge the questions with known answers that runs begin with.

    Examples:
        answerkey judge "Capital of France?" "Paris" "It is Paris."
        answerkey judge "Capital of France?" "Paris" "Lyon" --judge openai/gpt-4o-mini --repeats 3
        answerkey judge q17
        answerkey judge q17 --release gpt-5 --judge openai/gpt-4o --max-cost 0.1
        answerkey judge q17 --rubric judges/tone.yaml --judge openai/gpt-4o --dry-run
        answerkey judge openai/gpt-4o-mini --check --metric meaning_match
    """
    use_kept_server(home)
    if check:
        if len(words) != 1 or judging.judges or release or dataset or reference or incorrect or context:
            raise UserError("--check takes one judge and nothing about answers, like openai/gpt-4o-mini --check")
        return _check(judging.model_copy(update={"judges": tuple(words)}), metric, rubric, home, as_json=as_json)

    # A sample of a report, or the three texts of a new one
    stored: list[Judged] = []
    questions: list[_Question] = []
    if len(words) == 1:
        if reference or incorrect or context:
            raise UserError("--reference, --incorrect and --context go with three texts, not with a sample")
        stored = _stored(words[0], release, dataset, metric, home)
        if rubric or judging != Estimating():
            questions = _asked_again(stored, rubric, _access(judging, home))
    elif len(words) == 3:
        if release or dataset:
            raise UserError("--release and --dataset go with the id of a sample, not with three texts")
        if rubric and metric:
            raise UserError("--rubric: give it, or --metric, and not both")
        question, right_answer, answer = words
        sample = Sample(
            "1", answer, [right_answer, *(reference or ())], question or None, context=context or (),
            incorrect_references=incorrect or (),
        )  # fmt: skip
        metrics = _judge_metrics(metric, rubric, judging, home)
        questions = [_Question("", 1, sample, judge_metric) for judge_metric in metrics]
    else:
        raise UserError("give the id of a sample, or three texts: question, right answer, answer")

    # What it costs, then the replies
    if questions and not questions[0].metric.judge.offline:
        _say_cost([(question.metric, [question.sample], ()) for question in questions])
    if judging.dry_run:
        return 0
    replies = _ask(questions, home)
    rows = [*stored, *replies]
    if as_json:
        print_json([row.as_dict() for row in rows])
    elif stored:
        layout.show(*_page(words[0], rows))
    else:
        for row in replies:
            layout.show(*_lines(row), "")
    return int(any(row.measurement.status not in ("scored", "undefined") for row in replies))


def _check(judging: Estimating, metric: str, rubric: str, home: Home, *, as_json: bool) -> int:
    """Check a judge, and print how it went; 1 if it fails.

    Raises:
        UserError: it cannot be asked, or no metric has questions.
    """
    from answerkey.metrics_core.judges.check import check_judges, wrong_replies
    from answerkey.tasks.reports.manifest import check_notes

    # Metrics whose judges can be asked something with a known answer
    metrics = _judge_metrics(metric, rubric, judging, home)
    questions_by_metric = {judge_metric: judge_metric.known_answers(()) for judge_metric in metrics}
    if metrics[0].judge.offline or not any(questions_by_metric.values()):
        raise UserError("--check: there is no question; name a language model, and a rubric with examples")

    # What it costs, then the replies
    _say_cost([(judge_metric, (), questions) for judge_metric, questions in questions_by_metric.items()])
    if judging.dry_run:
        return 0
    checks = [
        check_judges(judge_metric, questions) for judge_metric, questions in questions_by_metric.items() if questions
    ]
    wrong = [wrong_replies(check, of_data=True) for check in checks]
    if as_json:
        rows = [
            {"metric": check.metric, "check": check.counts(), "wrong": replies, "changed": [*check.changed],
             "failed": check.why_stopped}
            for check, replies in zip(checks, wrong, strict=True)
        ]  # fmt: skip
        print_json(rows)
    else:
        counts = {check.metric: check.counts() for check in checks}
        changed = {check.metric: check.changed for check in checks if check.changed}
        layout.show(*map(escape, check_notes({"judge": {"check": counts, "changed": changed}})))
        for replies in wrong:
            layout.show(*(f"  {escape(reply)}" for reply in replies))
    return int(any(check.why_stopped for check in checks))


@dataclass(frozen=True, slots=True)
class _Question:
    """An answer that a metric is to judge. `answer_of` and `repeat` say where it comes from, as in `Judged`."""

    answer_of: str
    repeat: int
    sample: Sample
    metric: JudgeMetric


def _judge_metrics(metric: str, rubric: str, judging: Estimating, home: Home) -> list[JudgeMetric]:
    """Return the metrics that `metric` names, or all that need a judge; in place of them the one of a rubric.

    Raises:
        UserError: one of them does not need a judge, or a judge cannot be asked.
    """
    judge_metrics = [name for name, metric_info in METRICS.items() if metric_info.kind == "judge"]
    names = listed(metric) or judge_metrics
    unfit = [name for name in names if name not in judge_metrics]
    if unfit and not rubric:
        raise UserError(f"--metric {unfit[0]}: choose from {', '.join(judge_metrics)}")
    if rubric:
        names = [rubric]
    return [_askable(created) for created in create(names, _access(judging, home))]


def _access(judging: Estimating, home: Home) -> dict[str, Any]:
    """What metrics need to ask these judges, in one run, so that its limits hold for all questions together.

    Raises:
        UserError: a judge cannot be asked.
    """
    options = judging.model_copy(update={"check": "never"}).options()
    preflight(options, judging.key_from, needs_key=not judging.dry_run)
    api_key = None if options.offline or judging.dry_run else key(judging.key_from)
    return {"judge": options, "access": Access(api_key, home.ledger, uuid.uuid4().hex)}


def _askable(metric: Metric | None, name: str = "") -> JudgeMetric:
    """The metric, if its judges can be asked about a single answer.

    Raises:
        UserError: they cannot.
    """
    from answerkey.metrics_core.judges.judge_metric import JudgeMetric, ModelMetric

    if not isinstance(metric, JudgeMetric):
        raise UserError(f"{name}: cannot be asked about single rows")
    if isinstance(metric, ModelMetric):
        metric.check()
    return metric


def _stored(sample_id: str, release: str, dataset: str, metric: str, home: Home) -> list[Judged]:
    """What reports have about a sample.

    Raises:
        UserError: nothing, or nothing by the metrics that are named.
    """
    from answerkey.tasks.reports.judged import judged_rows

    rows = judged_rows(home, sample_id, listed(release), dataset)
    names = list(dict.fromkeys(row.measurement.metric for row in rows))
    if unknown := [name for name in listed(metric) if name not in names]:
        problem = choice(unknown[0], names) if names else "no judge was asked"
        raise UserError(f"--metric {unknown[0]}: {problem}")
    if not rows:
        raise UserError(f"{sample_id}: no judge was asked about it; evaluate with a metric that needs one")
    return [row for row in rows if row.measurement.metric in (listed(metric) or names)]


def _asked_again(stored: Sequence[Judged], rubric: str, access: Mapping[str, Any]) -> list[_Question]:
    """Each answer once more, before other judges or by a rubric.

    Raises:
        UserError: a metric or the rubric cannot be used.
    """
    questions: dict[tuple[str, int, str], _Question] = {}
    for row in stored:
        changed = create([rubric], access)[0] if rubric else row.metric and replace(row.metric, **access)
        metric = _askable(changed, rubric or row.measurement.metric)
        question = _Question(row.answer_of, row.repeat, row.sample, metric)
        questions.setdefault((row.answer_of, row.repeat, metric.name), question)
    return list(questions.values())


def _say_cost(questions: Sequence[tuple[JudgeMetric, Sequence[Sample], Sequence[KnownAnswer]]]) -> None:
    """Say what judges will be asked at most, by each metric about samples, and to check them."""
    from answerkey.metrics_core.judges.check import estimate_cost

    cost = total([estimate_cost(metric, samples, checks) for metric, samples, checks in questions])
    print(
        f"{', '.join(questions[0][0].judge.labels)}: calls to make {cost.calls:,}, about {price(cost.cost_usd)}; "
        f"replies that the ledger has {cost.in_ledger:,}", file=sys.stderr,
    )  # fmt: skip


def _ask(questions: Sequence[_Question], home: Home) -> list[Judged]:
    from answerkey.metrics_core.judges.asked import asked_about, ledger_calls
    from answerkey.tasks.reports.judged import Judged

    judged = []
    for question in questions:
        sample = question.sample
        metric = question.metric
        [measurement] = metric.measure([sample])
        with ledger_calls(home.ledger) as calls_of:
            requests = asked_about(metric, sample, measurement.requests, calls_of)
        judged.append(Judged(question.answer_of, "", question.repeat, sample, metric, measurement, tuple(requests)))
    return judged


def _page(sample_id: str, rows: Sequence[Judged]) -> Iterator[str | Table]:
    """Each answer with its measurements below each other, and what judges were asked about it."""
    answers = list(dict.fromkeys((row.answer_of, row.repeat) for row in rows))
    for index, (report, repeat) in enumerate(answers):
        of_answer = [row for row in rows if (row.answer_of, row.repeat) == (report, repeat)]
        sample = of_answer[0].sample
        texts = {"question": sample.question, "reference": " | ".join(sample.references), "answer": sample.answer}
        numbered = f", answer {repeat}" if repeat > 1 else ""
        if index:
            yield ""
        yield from layout.sample_lines(sample_id, f"{escape(report)}{numbered}", texts)
        # Those of one metric below each other
        metrics = list(dict.fromkeys(row.measurement.metric for row in of_answer))
        for row in sorted(of_answer, key=lambda row: metrics.index(row.measurement.metric)):
            yield ""
            yield from _lines(row)

    # What judges were asked by each prompt, each text once
    requests_by_prompt: dict[str, list[Asked]] = {}
    for request in chain.from_iterable(row.asked for row in rows):
        if request.calls:
            requests_by_prompt.setdefault(request.calls[0]["prompt"], []).append(request)
    for prompt, requests in requests_by_prompt.items():
        yield from ("", layout.title_line(f"prompt {prompt}"))
        asked = chain.from_iterable((request.system, request.user) for request in requests)
        for text in filter(None, dict.fromkeys(asked)):
            yield from ("", *(f"  {escape(line)}" for line in text.split("\n")))
        if not all(request.system for request in requests):
            yield "  [dim]It has changed since, or its rubric is not here, so that it cannot be shown.[/dim]"


def _lines(row: Judged) -> Iterator[str | Table]:
    """A measurement in lines: the number first, then why, then the replies of the judges."""
    measurement = row.measurement
    details = measurement.details
    values = ", ".join(f"{name} {_short(value)}" for name, value in measurement.values.items())
    yield f"[bold]{measurement.metric}[/bold]  {values or measurement.status}"
    if "verdict" in details:
        rule = f", by the rule {details['rule']}" if details.get("rule") else ""
        yield _line("verdict", f"{details['verdict']}{rule}")
    if "probability" in details:
        yield _line("estimate", f"human annotators call it a match with a probability of {details['probability']:.2f}")
    if OUT_OF_DEPTH in details:
        yield _line("warning", f"outside the offline judge's training data: {details[OUT_OF_DEPTH]}")
    if measurement.reason:
        yield _line("reason" if isinstance(measurement.outcome, Scored) else "cause", measurement.reason)
    if isinstance(index := details.get("reference"), int):
        yield _line("reference", f"{index + 1}: {row.sample.references[index]}")

    # Who says so, and where, if it is not the report that was asked for
    if row.judge:
        yield _line("judge", row.judge)
    if row.report != row.answer_of:
        yield _line("report", row.report or "just now")

    # What makes up the number
    votes = details.get("votes", ())
    if len(votes) > 1:
        head = ("vote", "judge", "reason")
        vote_rows = [(number(vote["vote"]), vote["judge"], one_line(vote["reason"] or "")) for vote in votes]
        yield Table("", head, vote_rows, left=head, wrapped={"judge": 16, "reason": 24})
    if "facts" in details:
        yield _facts(details["facts"])

    # The replies, each with its judge and its price
    for call in chain.from_iterable(request.calls for request in row.asked):
        if call["reply"]:
            yield _line("reply", call["reply"])
        else:
            yield _line("error", f"{call['code']}: {call['message']}")
        yield _line("", _origin(call))


def _origin(call: Mapping[str, Any]) -> str:
    """Where a reply came from, and what it cost."""
    parts = [call["judge"], call["prompt"]]
    if call["kind"] != "ask":
        parts.append(call["kind"])
    if call["model"]:
        parts.append(f"answered by {call['model']}")
    if call["tokens_out"] is not None:
        parts.append(f"{call['tokens_in']:,} tokens in, {call['tokens_out']:,} out")
    return ", ".join(filter(None, [*parts, price(call["cost_usd"])]))


def _line(label: str, text: str) -> str:
    """A line with a label. Judges wrote much of it: no markup or control character of theirs gets through."""
    return f"  [dim]{label:<{_LABEL}}[/dim]  {escape(one_line(text))}"


def _short(value: float) -> str:
    return f"{value:.0f}" if value.is_integer() else number(value)


def _facts(facts: Sequence[Mapping[str, str | None]]) -> Table:
    """The facts of both texts, those that belong together side by side."""
    head = ("", "fact of the reference", "fact of the answer")
    texts = {row["id"]: one_line(row["fact"] or "") for row in facts}
    matched = {row["with"] for row in facts if row["side"] == "reference"}
    rows = []
    for row in facts:
        if row["side"] == "reference":
            rows.append((row["status"] or "", texts[row["id"]], texts.get(row["with"], "")))
        elif row["id"] not in matched:
            rows.append((row["status"] or "", "", texts[row["id"]]))
    return Table("", head, rows, left=head, wrapped=dict.fromkeys(head[1:], 16))
