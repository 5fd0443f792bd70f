"""Tables of reports, metrics, costs and generated answers, drawn by rich; plain text where there is no terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from answerkey.flows.cli.layout import brief, fits, grid, show, title_line
from answerkey.flows.cli.main import print_json
from answerkey.flows.cli.options import HOME, pasted
from answerkey.metrics_core.comparison import ALL
from answerkey.metrics_core.errors import UserError, did_you_mean
from answerkey.metrics_core.judges.options import OFFLINE
from answerkey.metrics_core.llm.cost import Cost, total_usd
from answerkey.metrics_core.llm.untrusted import one_line
from answerkey.tasks.publish.text import bleu_note, dollars, ends, estimate, number, price, spent_on_judges
from answerkey.tasks.releases.generate import Generated, counts, spent
from answerkey.tasks.releases.register import Registration
from answerkey.tasks.reports.headline import fields_of, headlines, primary
from answerkey.tasks.reports.manifest import depth_warnings, saved, second_opinions
from answerkey.tasks.reports.report import LABEL, Report, Score

if TYPE_CHECKING:
    from answerkey.metrics_core.metric import Metric
    from answerkey.tasks.compare.examples import LowestScore
    from answerkey.tasks.warehouse.home import Home


def print_reports(
    reports: Sequence[Report],
    *,
    as_json: bool,
    with_checks: bool = False,
    by: str | None = None,
    all_fields: bool = False,
    home: Home = HOME,
    samples: int = 0,
) -> None:
    """One release: metric, mean, interval, scored/total. Several: one column each. Then the slices, if any.

    There is one field per metric, with `all_fields` there are all. `with_checks` adds what validation found; a run has
    said so already while it worked. `by` names the METRIC.FIELD that the slices show, by default the primary field.
    `home` is where a command finds the reports. `samples`: how many of the lowest scores of each report are shown, in
    the same field as the slices.

    Raises:
        UserError: no report has the field `by`.
    """
    if as_json:
        lowest = _lowest(home, reports, by, samples) or [()] * len(reports)
        asked = [{"samples": [asdict(one) for one in some]} if samples else {} for some in lowest]
        print_json([{**asdict(report), **own} for report, own in zip(reports, asked, strict=True)])
        return
    every = fields_of(reports)
    names = every if all_fields else [*_with_passes(headlines(reports), every)]
    scores = _one(reports[0], names) if len(reports) == 1 else _side_by_side(reports, names)
    tables = [*scores, *_slices(reports, by)]
    found = {message: None for report in reports for _, _, ok, message in report.checks if not ok}
    more = len(every) - len(names)
    rest = pasted(home, "report", *(report.report_id for report in reports), "--all-fields")
    about = [f"[dim]{more} more field{'s' if more > 1 else ''}: {escape(rest)}[/dim]"] if more and rest else []
    about += [line for report in reports for line in _about(report, names)]
    show(*tables, *about, *_spent(reports), *(escape(f"- {message}") for message in found if with_checks))
    for report, some in zip(reports, _lowest(home, reports, by, samples), strict=False):
        show("", *_samples(report, some))


def _lowest(home: Home, reports: Sequence[Report], by: str | None, samples: int) -> list[tuple[LowestScore, ...]]:
    """Of each report, where any are asked for. One that lacks the field, which another has, has none."""
    if not samples:
        return []
    from answerkey.tasks.compare.examples import lowest_scores

    field = primary(reports, by or "")
    return [lowest_scores(home, report.report_id, field, samples) for report in reports]


def _samples(report: Report, samples: Sequence[LowestScore]) -> Iterator[str]:
    what = f"the samples with the lowest {samples[0].field}" if samples else "no sample has a number"
    yield title_line(f"{report.release}: {what}")
    for sample in samples:
        yield f"[bold]{brief(sample.sample_id)}[/bold]  {number(sample.value)}"
        texts = {
            "question": sample.question,
            "reference": " | ".join(sample.references),
            "answer": sample.answer,
            "reason": sample.reason,
        }
        yield from (f"  [dim]{name:<9}[/dim]  {brief(text)}" for name, text in texts.items() if text)


def _with_passes(names: Sequence[str], every: Sequence[str]) -> Iterator[str]:
    """The names, each with its pass@k and pass^k where questions have several answers."""
    for name in names:
        yield name
        yield from (other for other in every if other.startswith((f"{name}_pass@", f"{name}_pass^")))


def _about(report: Report, names: Sequence[str]) -> Iterator[str]:
    several = f" to {report.n_questions:,} questions" if report.n_questions != report.n_total else ""
    notes = [f"{report.n_total:,} answers{several}", f"data {report.dataset_version}", report.status]
    if quarantined := sum(count for _, count in report.quarantined):
        notes.append(f"{quarantined:,} quarantined")
    yield f"{escape(report.report_id)}  [dim]{', '.join(notes)}[/dim]"
    if report.message:
        yield from (f"  {escape(part)}" for part in report.message.split("; "))
    within = [f"{name} {number(found)}" for name in names if (found := report.variance_within(name)) is not None]
    if within:
        yield f"  variance between the answers to one question: {', '.join(within)}"
    yield from (f"  {escape(warning)}" for warning in depth_warnings(report.manifest))
    yield from (f"  {escape(one_line(warning))}" for warning in second_opinions(report.manifest))
    if note := bleu_note(report):
        yield f"  {note}"


def _spent(reports: Sequence[Report]) -> Iterator[str]:
    """Who judged, and what was paid for it, once a run."""
    runs: dict[str, list[Report]] = {}
    for report in reports:
        runs.setdefault(report.run_id, []).append(report)
    said = []
    for of_run in runs.values():
        if judge := of_run[0].manifest.get("judge"):
            said += [f"  {line}" for line in spent_on_judges(of_run[0].manifest)]
            said.append(_judged(judge, list(filter(None, (saved(report.manifest) for report in of_run)))))
    # Runs with the free judge have the same line.
    yield from map(escape, dict.fromkeys(said) if all(line.endswith("; free") for line in said) else said)


def _judged(judge: Mapping[str, Any], cascades: Sequence[tuple[int, int]]) -> str:
    if judge["judges"] == [OFFLINE]:
        return f"judge: {judge['about']}; free"
    line = f"judge: {judge['calls']:,} call{'' if judge['calls'] == 1 else 's'}, {price(judge['cost_usd'])}"
    if not cascades:
        return line
    decided, calls = (sum(part) for part in zip(*cascades, strict=True))
    return (
        f"{line}; {calls:,} call{'' if calls == 1 else 's'} saved, since the offline judge decided {decided:,} "
        f"answers of meaning_match at an accepted error of {judge['cascade']:.3g} ({judge['about']})"
    )


def _one(report: Report, names: Sequence[str]) -> Iterator[Table | str]:
    by_name = {score.name: score for score in report.overall}
    scores = [by_name[name] for name in names]
    clustered = any(score.n_clusters for score in scores)
    head = ("metric", "mean", "95 % interval", "scored/total", *(["clusters"] if clustered else []))
    rows = [
        (
            score.name, number(score.mean), ends(score.ci_low, score.ci_high),
            f"{score.n_scored:,}/{score.n_total:,}", *([_clusters(score)] if clustered else []),
        )
        for score in scores
    ]  # fmt: skip
    groups = [score.metric for score in scores]
    yield from grid(f"{report.release} on {report.dataset}", head, rows, groups=groups)


def _side_by_side(reports: Sequence[Report], names: Sequence[str]) -> Iterator[Table | str]:
    by_name = [{score.name: score for score in report.overall} for report in reports]
    lines = [(name, [scores.get(name) for scores in by_name]) for name in names]
    foot = [("scored/total", [_coverage(report) for report in reports])]
    if any(score.metric == LABEL for report in reports for score in report.overall):
        foot.insert(0, ("labelled/total", [_coverage(report, labels=True) for report in reports]))
    title = f"{len(reports)} releases on {reports[0].dataset}: mean [95 % interval]"
    yield from _by_release(title, "metric", reports, lines, foot)


def _slices(reports: Sequence[Report], by: str | None) -> Iterator[Table | str]:
    by_place = [{(score.name, score.slice): score for score in report.scores} for report in reports]
    fields = list(dict.fromkeys(field for scores in by_place for field, _ in scores))
    if by is not None and by not in fields:
        raise UserError(f"--by {by}: these reports have {', '.join(fields)}{did_you_mean(by, fields)}")
    chosen = by or primary(reports)
    slices = dict.fromkeys(slice_ for scores in by_place for _, slice_ in scores if slice_ != ALL)
    if slices:
        lines = [(slice_, [scores.get((chosen, slice_)) for scores in by_place]) for slice_ in slices]
        yield from _by_release(f"{chosen} by slice: mean [95 % interval]", "slice", reports, lines, counted=True)


def _by_release(
    title: str,
    first: str,
    reports: Sequence[Report],
    lines: Sequence[tuple[str, Sequence[Score | None]]],
    foot: Sequence[tuple[str, Sequence[str]]] = (),
    *,
    counted: bool = False,
) -> Iterator[Table | str]:
    """A column for each release; where these do not fit, a line for each release under the name of each line.

    `foot` has what is said about a whole release. `counted`: how many samples each line is about.
    """
    clustered = any(score.n_clusters for _, scores in lines for score in scores if score)
    counts: dict[str, Callable[[Score], str]] = {
        **({"scored": lambda score: f"{score.n_scored:,}"} if counted else {}),
        **({"clusters": _clusters} if clustered else {}),
    }
    head = (first, *(report.release for report in reports), *counts)
    rows = [
        (
            name,
            *map(_cell, scores),
            *(_alike([count(score) if score else "–" for score in scores]) for count in counts.values()),
        )
        for name, scores in lines
    ]
    groups = [name.partition("=")[0] if first == "slice" else first for name, _ in lines]
    rows += [(name, *cells, *("" for _ in counts)) for name, cells in foot]
    [*shown] = grid(title, head, rows, groups=[*groups, *("foot" for _ in foot)])
    if any(isinstance(part, Table) for part in shown):
        yield from shown
        return
    yield title_line(title)
    width = max(cell_len(report.release) for report in reports)
    longest = max((len(_counts(score)) for _, scores in lines for score in scores if score), default=0)
    for name, scores in lines:
        yield title_line(name)
        for report, score in zip(reports, scores, strict=True):
            if score:
                yield _of_release(report.release, width if fits(width + longest + 27) else None, score)
    yield ""


def _of_release(release: str, width: int | None, score: Score) -> str:
    """A release, in `width` columns, in a line with its number; without a width, on two lines."""
    numbers = f"{number(score.mean)}  {ends(score.ci_low, score.ci_high):<14}  [dim]{_counts(score)}[/dim]"
    name = escape(one_line(release))
    if width is None:
        return f"  {name}\n    {numbers}"
    return f"  {name}{' ' * (width - cell_len(release))}  {numbers}"


def _counts(score: Score) -> str:
    clusters = f" in {_clusters(score)} clusters" if score.n_clusters else ""
    return f"{score.n_scored:,}/{score.n_total:,}{clusters}"


def _cell(score: Score | None) -> Text | str:
    return "–" if score is None else estimate(score.mean, score.ci_low, score.ci_high)


def _clusters(score: Score) -> str:
    return "–" if score.n_clusters is None else f"{score.n_clusters:,}"


def _alike(counts: Sequence[str]) -> str:
    """The count that the releases mostly share, else one for each of them."""
    return " / ".join(counts if len(set(counts)) > 1 else counts[:1])


def _coverage(report: Report, *, labels: bool = False) -> str:
    """Of the metric that covers least: a table may not look more complete than its weakest row.

    Human labels stand apart: an answer without a label is no failure.
    """
    chosen = [score for score in report.overall if (score.metric == LABEL) == labels]
    if not chosen:
        return "–"
    # Where questions have several answers, pass@k and pass^k are about questions.
    whole = max(score.n_total for score in chosen)
    least = min((score for score in chosen if score.n_total == whole), key=lambda score: score.n_scored)
    return f"{least.n_scored:,}/{least.n_total:,}"


def print_list(rows: Sequence[tuple[str, str, str, str]], *, as_json: bool) -> None:
    """Reports, one per line."""
    names = ("report", "data set version", "made (UTC)", "status")
    if as_json:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
        return
    show(*grid("", names, rows, left=names))


def print_metrics(catalogue: Sequence[tuple[str, Metric]]) -> None:
    """The metrics with their fields and needs."""
    head = ("metric", "what it is", "fields", "needs")
    rows = [
        (name, metric.described(), ", ".join(field.name for field in metric.fields), ", ".join(sorted(metric.needs)))
        for name, metric in catalogue
    ]
    show(*grid("", head, rows, left=head, wrapped={"what it is": 24, "fields": 24, "needs": 11}))


def print_estimates(
    estimates: Sequence[Cost], *, as_json: bool, models: str = "the judges", at_most: bool = False
) -> None:
    """A dry run: one line per metric, and the total; `at_most`: how many calls depends on replies."""
    if as_json:
        print_json([asdict(estimate) for estimate in estimates])
        return
    head = ("metric", "samples", "calls", "ledger", "tokens in/out", "cost")
    rows = [
        (
            one.metric, f"{one.samples:,}", f"{one.calls:,}", f"{one.in_ledger:,}",
            f"{_rough(one.tokens_in)}/{_rough(one.tokens_out)}", dollars(one.cost_usd),
        )
        for one in estimates
    ]  # fmt: skip
    names = ("calls", "in_ledger", "tokens_in", "tokens_out")
    calls, known, asked, answered = (sum(getattr(one, name) for one in estimates) for name in names)
    tokens = f"{_rough(asked)}/{_rough(answered)}"
    rows.append(("total", "", f"{calls:,}", f"{known:,}", tokens, dollars(total_usd(estimates))))
    decided = [f"{one.metric}: the offline judge decides {one.offline:,}" for one in estimates if one.offline]
    decided += [f"{one.metric}: {one.probes:,} of the calls test the judges" for one in estimates if one.probes]
    title = f"dry run: what {models} would be asked{' at most' if at_most else ''}"
    page = grid(title, head, rows, groups=[*("metric" for _ in estimates), "total"])
    show(*page, *decided, "no model was asked; reply tokens are estimated, and failed calls come on top")


def _rough(tokens: int) -> str:
    """Three digits: an estimate has no more to say."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if tokens >= 0.9995 * size:
            return f"{tokens / size:.3g}{unit}"
    return str(tokens)


def print_generated(made: Generated, registration: Registration, *, as_json: bool) -> None:
    """The answers of a release: what came of the questions, where they are, and how to go on."""
    if as_json:
        print_json({**asdict(made), "registration": asdict(registration)})
        return
    (unit, total), *parts = counts(made)
    rows = [(what, f"{n:,}") for what, n in (*parts, ("all", total))]
    page = grid(f"{made.release} on {made.dataset}", ("", unit), rows, groups=[*("" for _ in parts), "all"])
    lines = [f"without an answer: {escape(made.why)}"] if made.reasons else []
    if made.n_cut_off:
        lines.append(f"cut off at the limit of tokens: {made.n_cut_off:,}")
    state = f"has the report {registration.report_id}" if registration.report_id else "waits for its evaluation"
    lines += [
        f"model: {spent(made)}",
        f"answers: {escape(made.answers)}",
        f"{escape(registration.name)} is registered as {registration.registration} and {state}",
    ]
    show(*page, *lines)
