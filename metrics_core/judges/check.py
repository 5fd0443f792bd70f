"""Check judges: ask each one questions with known answers before anything about the rows is paid.

The questions come with the metric or are made from the references of the data, so that they are in
its languages and no judge knows them beforehand. They go through the same client, ledger and budget
as every question. A judge that fails is stopped: what the ledger has of it stands, and nothing more
is asked.

The rule: questions are weighed in groups, one for each right verdict, one for the answers that give
the judge an order, and one for each verdict in each script if the rows are written in several. A
judge fails a group if it is wrong so often that a judge that is wrong on `ERROR` of all would be so
with a probability of at most `FALSE_STOPS`, which all groups and judges share. A judge that gives no
verdict on nearly all of the questions, because its replies cannot be read or the order of two answers
decides them, fails too. Errors of its server say nothing.

Replies of earlier runs stand in the ledger, so another model could answer under the name of a judge
unnoticed. Some of the questions that earlier runs asked are therefore asked again. Where a verdict
differs, it is asked for once more: if the earlier one comes back, the judge wavers; if not, the verdict
has moved. A judge has changed if more verdicts have moved than chance explains for one that wavers as
often. Then all questions are asked again, and a gate does not compare its scores with earlier ones.
"""

from __future__ import annotations

import logging
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import get_args

from answerkey.metrics_core.judges.asked import ledger_calls
from answerkey.metrics_core.judges.judge_metric import JudgeMetric
from answerkey.metrics_core.judges.known_answer import ORDER, KnownAnswer
from answerkey.metrics_core.judges.votes import ORDER_DECIDED
from answerkey.metrics_core.llm.cost import Cost, CostCounter
from answerkey.metrics_core.llm.ledger import existing_ledger
from answerkey.metrics_core.llm.reply import Code
from answerkey.metrics_core.llm.untrusted import cut, one_line
from answerkey.metrics_core.measurement import Failed, Measurement, Scored
from answerkey.metrics_core.sample import Sample

FEWEST_ANSWERS = 10
"""Answers of a run from which on its judges are checked, unless an option says otherwise."""
ERROR = 0.05
"""How often a judge may be wrong that is hardly ever to be stopped."""
FALSE_STOPS = 0.018
"""How often such a judge is stopped, at most."""

N_AGAIN = 10
"""Questions that a judge is asked again, of those that earlier runs asked it."""

_MOST_WITHOUT_VERDICT = 0.8
_LONGEST_TEXT = 120
_AGAIN, _ONCE_MORE = "again", "once more"

_log = logging.getLogger("answerkey")


@dataclass(frozen=True, slots=True)
class JudgeCheck:
    """What the judges of a metric replied to its questions with known answers.

    Attributes:
        replies: by judge and fallback, each question that it gave a verdict on, with its number.
        why_stopped: what a judge got wrong, for people; empty if all of them passed.
        changed: how each judge that changed under its name has shown that, for people.
    """

    metric: str
    replies: Mapping[str, Sequence[tuple[KnownAnswer, float]]]
    why_stopped: str
    changed: Sequence[str] = ()

    def counts(self) -> dict[str, list[list[float]]]:
        """For each judge and right verdict: `[least, most, questions answered, answered rightly]`."""
        counts: dict[str, list[list[float]]] = {}
        for judge, replies in self.replies.items():
            n_answered = Counter(question.bounds for question, _ in replies)
            n_right = Counter(question.bounds for question, value in replies if question.is_right(value))
            counts[judge] = [[*bounds, n_answered[bounds], n_right[bounds]] for bounds in sorted(n_answered)]
        return counts


@dataclass(frozen=True, slots=True)
class Group:
    """Questions that are weighed together: those with this right verdict, and perhaps only some."""

    bounds: tuple[float, float]
    script: str = ""
    orders: bool = False

    def has(self, question: KnownAnswer) -> bool:
        """Check if a question belongs to it."""
        in_script = self.script in ("", question.script)
        return question.bounds == self.bounds and in_script and (not self.orders or question.name == ORDER)


def questions_for(metric: JudgeMetric, samples: Iterable[Sample], n_answers: int) -> tuple[KnownAnswer, ...]:
    """The questions for the judges of a run; none if its options say so or it has too few answers.

    Args:
        samples: have the questions and references that some are made from.
        n_answers: the number of answers that the run has to judge.
    """
    options = metric.judge
    too_few = options.check == "auto" and n_answers < FEWEST_ANSWERS
    if options.offline or options.check == "never" or too_few:
        return ()
    return metric.known_answers(samples)


def asks_anything(metric: JudgeMetric, samples: Iterable[Sample]) -> bool:
    """Check if judges have to be called about any of the samples: the ledger lacks a reply.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    with existing_ledger(metric.access.ledger) as ledger:
        calls = chain.from_iterable(metric.expected(samples, ledger.reply))
        return any(not call.exact or ledger.reply(call.request.key) is None for call in calls)


def check_judges(metric: JudgeMetric, questions: Sequence[KnownAnswer]) -> JudgeCheck:
    """Ask each judge and fallback all questions, and weigh the replies.

    Raises:
        UserError: a judge cannot be asked.
        LedgerError: the ledger cannot be used.
    """
    replies: dict[str, list[tuple[KnownAnswer, float]]] = {}
    changed: list[str] = []
    why_stopped = ""
    if not metric.access.run:
        metric = replace(metric, access=replace(metric.access, run=uuid.uuid4().hex))
    judges = metric.alone()
    for model, alone in judges:
        asking, n_changes = _since_it_changed(alone, questions)
        repeated = asked_before(asking, questions)
        measurements = _asked(asking, questions)
        fresh = _asked(asking, repeated, again=_AGAIN)
        how_changed = _how_changed(asking, measurements, fresh, n_judges=len(judges))
        if how_changed:
            # Earlier replies say nothing of it; later runs compare with those of today
            changed.append(f"{model.label} {how_changed}")
            fresh = _asked(_asking_again(asking, f"changed {n_changes + 1}"), questions)
        measurements |= fresh

        answered = replies[model.label] = [
            (question, measurement.values[metric.main.name])
            for question, measurement in measurements.items()
            if isinstance(measurement.outcome, Scored)
        ]
        # One judge that fails stops them all
        reason = _why_failed(metric, questions, answered, list(measurements.values()), n_judges=len(judges))
        if reason and not why_stopped:
            why_stopped = f"judge stopped: {model.label} {reason}"

    # What people read of it
    check = JudgeCheck(metric.name, replies, why_stopped, changed)
    for judge, answered in replies.items():
        n_right = sum(question.is_right(value) for question, value in answered)
        _log.info(f"{metric.name}: {judge} was right on {n_right} of {len(answered)} questions with known answers")
    for line in changed:
        _log.warning(f"{metric.name}: {line}")
    if why_stopped:
        lines = [f"{metric.name}: {why_stopped}. No row is judged.", *wrong_replies(check, of_data=True)]
        _log.warning("\n  ".join(lines))
    return check


def _since_it_changed(asking: JudgeMetric, questions: Sequence[KnownAnswer]) -> tuple[JudgeMetric, int]:
    """The metric that asks a judge as runs do since it last changed under its name, and how often it has changed."""
    n_changes = 0
    while asked_before(later := _asking_again(asking, f"changed {n_changes + 1}"), questions):
        asking = later
        n_changes += 1
    return asking, n_changes


def _asking_again(asking: JudgeMetric, again: str) -> JudgeMetric:
    return replace(asking, access=replace(asking.access, again=again))


def asked_before(asking: JudgeMetric, questions: Sequence[KnownAnswer]) -> list[KnownAnswer]:
    """Choose the questions that a judge is asked again, from all that earlier runs have its replies to.

    Args:
        asking: the metric that asks this judge alone.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    keys_by_question: list[list[str]] = []
    for calls in asking.expected([question.sample for question in questions], lambda _key: None):
        requests = [replace(call.request, again=asking.access.again) for call in calls if call.exact]
        keys_by_question.append([request.key for request in requests] if len(requests) == len(calls) else [])
    usable = set()
    with ledger_calls(asking.access.ledger) as calls_of:
        for call in calls_of([*chain.from_iterable(keys_by_question)]):
            if call["run"] != asking.access.run and call["status"] == "usable":
                usable.add(call["request_key"])
    in_ledger = []
    for question, keys in zip(questions, keys_by_question, strict=True):
        if keys and usable.issuperset(keys):
            in_ledger.append(question)
    # Evenly, so that there are some of each verdict
    return in_ledger[:: max(1, -(-len(in_ledger) // N_AGAIN))]


def estimate_cost(
    metric: JudgeMetric, samples: Iterable[Sample], questions: Sequence[KnownAnswer] | None = None
) -> Cost:
    """What the check of its judges and `metric.measure(samples)` will ask and cost. No call is made, and no ledger is
    created.

    The calls of a cascade are those that it makes if its trial fails.

    Args:
        samples: none for the check alone.
        questions: of the check; None: those for a run with these samples.

    Raises:
        UserError: litellm does not know the provider of a judge.
        LedgerError: the ledger cannot be read.

    >>> from answerkey import Sample
    >>> from answerkey.metrics_core.judges.options import JudgeOptions
    >>> from answerkey.metrics_core.metrics.meaning_match import MeaningMatch
    >>> metric = MeaningMatch(JudgeOptions(judges=["openai/gpt-4o-mini"]))
    >>> estimate_cost(metric, [Sample("1", "Paris", ["Paris"], "Capital?")]).calls  # the answer is the reference
    0
    """
    if questions is None:
        samples = list(samples)
        questions = questions_for(metric, samples, len(samples))
        metric = metric.with_trial(samples)
    n_samples = 0
    with existing_ledger(metric.access.ledger) as ledger:
        counter = CostCounter(ledger.reply)
        for calls in metric.expected(samples, ledger.reply):
            n_samples += 1
            for call in calls:
                counter.add(call, in_batch=metric.judge.batch)
        # Judges that need not be asked about rows are not checked
        row_calls = counter.calls
        if row_calls or not n_samples:
            for _, alone in metric.alone():
                asking, _ = _since_it_changed(alone, questions)
                # All questions, and those that are asked again; a judge that has changed is asked more
                for asked, again in ((questions, ""), (asked_before(asking, questions), _AGAIN)):
                    calls_of_check = asking.expected([question.sample for question in asked], ledger.reply)
                    for call in chain.from_iterable(calls_of_check):
                        counter.add(replace(call, request=replace(call.request, again=again or asking.access.again)))
    trial = metric.trial
    offline = trial.candidates - len(trial.drawn) if trial and trial.drawn else 0
    return counter.cost(metric.name, n_samples, offline, checks=counter.calls - row_calls)


def _asked(asking: JudgeMetric, questions: Sequence[KnownAnswer], again: str = "") -> dict[KnownAnswer, Measurement]:
    """What a judge replies: what the ledger has, or, if it is asked `again`, what this run was told then."""
    if again:
        asking = _asking_again(asking, f"{asking.access.run} {again}")
    measurements = asking.measure([question.sample for question in questions])
    return dict(zip(questions, measurements, strict=True))


def _how_changed(
    asking: JudgeMetric,
    earlier: Mapping[KnownAnswer, Measurement],
    fresh: Mapping[KnownAnswer, Measurement],
    *,
    n_judges: int,
) -> str:
    """How a judge has shown that it is another model than in earlier runs; nothing if it has not.

    Args:
        fresh: its verdicts on the questions that it was asked again.
    """
    n_compared = sum(isinstance(measurement.outcome, Scored) for measurement in fresh.values())
    field = asking.main.name
    differing = [question for question in fresh if _differ(question, field, earlier[question], fresh[question])]

    # A judge that wavers gives either verdict when it is asked once more
    once_more = _asked(asking, differing, again=_ONCE_MORE)
    replied = [question for question in differing if isinstance(once_more[question].outcome, Scored)]
    n_moved = sum(not _differ(question, field, fresh[question], once_more[question]) for question in replied)
    n_wavering = len(replied) - n_moved
    error = max(ERROR, n_wavering / max(n_compared, 1))
    if n_moved < fewest_wrong(n_compared, FALSE_STOPS / n_judges, error):
        return ""
    return (
        f"gave another verdict than in earlier runs on {n_moved} of {n_compared} questions that it was asked again, "
        f"and wavers on {n_wavering}: another model may answer under its name"
    )


def _differ(question: KnownAnswer, field: str, earlier: Measurement, later: Measurement) -> bool:
    """Check if two verdicts are further apart than those of two judges that are right may be."""
    if not (isinstance(earlier.outcome, Scored) and isinstance(later.outcome, Scored)):
        return False
    return abs(earlier.values[field] - later.values[field]) > question.most - question.least


def checked(metric: JudgeMetric, samples: Sequence[Sample]) -> JudgeMetric:
    """The metric after the check of its judges: with a judge that failed it asks nothing.

    Raises:
        UserError: a judge cannot be asked.
        LedgerError: the ledger cannot be used.
    """
    questions = questions_for(metric, samples, len(samples))
    if not questions or not asks_anything(metric, samples):
        return metric
    return without_calls(metric, check_judges(metric, questions).why_stopped)


def without_calls(metric: JudgeMetric, reason: str) -> JudgeMetric:
    """The metric that asks nothing for this reason; an empty reason changes nothing."""
    return replace(metric, access=replace(metric.access, refusal=reason))


def groups_of(questions: Sequence[KnownAnswer]) -> list[Group]:
    """The groups that questions are weighed in."""
    verdicts = sorted({question.bounds for question in questions})
    verdicts_on_orders = sorted({question.bounds for question in questions if question.name == ORDER})
    scripts = sorted({question.script for question in questions} - {""})
    groups = [Group(bounds) for bounds in verdicts]
    groups += [Group(bounds, orders=True) for bounds in verdicts_on_orders]
    if len(scripts) > 1:
        groups += [Group(bounds, script) for bounds, script in product(verdicts, scripts)]
    return groups


def fewest_wrong(n: int, level: float, error: float = ERROR) -> int:
    """The fewest wrong verdicts on `n` questions that are no chance, by the binomial distribution.

    A judge that is wrong on the share `error` of all has so many with a probability of at most `level`.

    >>> [fewest_wrong(n, 0.006) for n in (1, 2, 4, 7, 20)]
    [2, 2, 3, 3, 5]
    """
    from scipy.special import bdtrc

    return next(wrong for wrong in range(n + 2) if bdtrc(wrong - 1, n, error) <= level)


def failed_group(
    groups: Sequence[Group], answered: Sequence[tuple[KnownAnswer, bool]], n_judges: int = 1
) -> Group | None:
    """The first group that a judge fails, or None.

    Args:
        answered: the questions that it gave a verdict on, each with whether it was right.
        n_judges: how many judges are checked; one that fails stops them all.
    """
    level = FALSE_STOPS / max(len(groups) * n_judges, 1)
    for group in groups:
        rights = [is_right for question, is_right in answered if group.has(question)]
        if rights.count(False) >= fewest_wrong(len(rights), level):
            return group
    return None


def in_words(low: float, high: float) -> str:
    """The range in which a number is known to lie.

    >>> in_words(0.0, 0.0), in_words(0.5, 1.0)
    ('0', '0.5 to 1')
    """
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def described(question: KnownAnswer, value: float, *, of_data: bool) -> str:
    """A question with its answer, the number that is expected and the one that a judge gave.

    Args:
        of_data: whether texts of the data may stand in it. They must not in what a report keeps, since
            a row can be forgotten.
    """
    sample = question.sample
    name = question.name
    if of_data or not question.script:
        texts = {"question": sample.question, "reference": "".join(sample.references[:1]), "answer": sample.answer}
        labelled = [f"{label}: {cut(one_line(text), _LONGEST_TEXT)}" for label, text in texts.items() if text]
        name = f"{name}: {' | '.join(labelled)}"
    return f"{name}; expected {in_words(*question.bounds)}, replied {value:g}"


def wrong_replies(check: JudgeCheck, *, of_data: bool) -> list[str]:
    """A line for each wrong reply of each judge; `of_data` as for `described`."""
    lines: dict[str, None] = {}
    for judge, replies in check.replies.items():
        for question, value in replies:
            if not question.is_right(value):
                lines[f"{judge}: {described(question, value, of_data=of_data)}"] = None
    return list(lines)


def _why_failed(
    metric: JudgeMetric,
    questions: Sequence[KnownAnswer],
    answered: Sequence[tuple[KnownAnswer, float]],
    measurements: Sequence[Measurement],
    *,
    n_judges: int,
) -> str:
    """What a judge got wrong, if it was too much; else nothing."""
    rights = [(question, question.is_right(value)) for question, value in answered]
    group = failed_group(groups_of(questions), rights, n_judges)
    if group is not None:
        of_group = [(question, value) for question, value in answered if group.has(question)]
        mistakes = [(question, value) for question, value in of_group if not question.is_right(value)]
        # Rather one whose texts can be shown
        example = min(mistakes, key=lambda reply: reply[0].script != "")
        kind = " with an order to the judge" if group.orders else ""
        script = f" in the script {group.script}" if group.script else ""
        return (
            f"was right on {len(of_group) - len(mistakes)} of {len(of_group)} questions{kind}{script} whose "
            f"{metric.main.name} is known to be {in_words(*group.bounds)}; wrong on "
            f"{described(*example, of_data=False)}"
        )

    # Replies that nobody can read, and preferences that the order of the answers decides
    no_verdict = [
        measurement.outcome.reason
        for measurement in measurements
        if isinstance(measurement.outcome, Failed) and measurement.outcome.code in (*get_args(Code), ORDER_DECIDED)
    ]
    if len(no_verdict) >= max(2, _MOST_WITHOUT_VERDICT * len(questions)):
        return f"gave no verdict on {len(no_verdict)} of {len(questions)} questions; the first: {no_verdict[0]}"
    return ""
