"""Ask a model under test all questions of a data set, and keep its answers with their provenance.

The ledger is the memory: every answer is in it as soon as it arrives, so a run that was killed, or that the budget
stopped, is simply started again. The file of answers is rewritten as a whole each time.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.access import Access, CallLimits
from answerkey.metrics_core.llm.budget import REFUSAL
from answerkey.metrics_core.llm.cost import Cost
from answerkey.metrics_core.llm.generate import Answer, Prompting, estimate_cost, left_out
from answerkey.metrics_core.llm.generate import generate as ask
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.request import Request
from answerkey.tasks.load.load import Source
from answerkey.tasks.publish.text import price
from answerkey.tasks.releases.provenance import (
    answers_file,
    check_settings,
    generation_of,
    share,
    write_manifest,
)
from answerkey.tasks.releases.questions import Question, QuestionSet, questions
from answerkey.tasks.releases.register import Registration, register
from answerkey.tasks.reports.manifest import spent_by, spent_on, versions
from answerkey.tasks.score.keys import MODEL, key
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.store import atomic_write

NOTHING_TO_ASK = "the question is blank"

_BATCH = 5_000
"""Questions in memory at once."""

_PATHS = {name: name for name in ("id", "question", "answer", "missing_because")}
_REPEATED = {**_PATHS, "repeat": "repeat"}
_MOST_REASONS = 3


@dataclass(frozen=True, slots=True)
class Asking:
    """Which model to ask, how, and how many answers to each question it should give.

    Neither `model` nor `access` has the key, only `key_from` the place of it.
    """

    prompting: Prompting
    model: ModelRef
    limits: CallLimits
    access: Access
    key_from: str = ""
    repeats: int = 1

    def with_key(self) -> Asking:
        """This with the key in `model`.

        Raises:
            UserError: there is no key where it should be, or it is malformed.
        """
        return replace(self, model=self.model.with_key(key(self.key_from, MODEL)))


@dataclass(frozen=True, slots=True)
class Generated:
    """The answers of a release: where they are, and what came of the questions.

    Each of the `n_questions` questions was asked `repeats` times, and `n_questions` * `repeats` = `n_generated` +
    `n_from_ledger` + `n_failed` + `n_skipped`. `reasons` say why there is no answer, the most frequent first.
    `n_cut_off` answers were cut off at the token limit, and in `n_refused` the model declines. `calls` and `cost_usd`
    are of this run; the cost is None where a price is not known.
    """

    dataset: str
    release: str
    answers: str
    n_questions: int
    n_generated: int
    n_from_ledger: int
    n_failed: int
    n_skipped: int
    n_cut_off: int
    reasons: tuple[tuple[str, int], ...]
    calls: int
    cost_usd: float | None
    repeats: int = 1
    n_refused: int = 0

    @property
    def n_wanted(self) -> int:
        """Answers that were asked for."""
        return self.n_questions * self.repeats

    @property
    def n_answered(self) -> int:
        """Answers that exist."""
        return self.n_generated + self.n_from_ledger

    @property
    def why(self) -> str:
        """The most frequent reasons, for people; empty where every question has an answer."""
        named = [f"{n:,} {reason}" for reason, n in self.reasons[:_MOST_REASONS]]
        rest = sum(n for _, n in self.reasons[_MOST_REASONS:])
        return ", ".join([*named, *([f"{rest:,} for other reasons"] if rest else [])])


def counts(made: Generated) -> list[tuple[str, int]]:
    """What came of the questions, or of all answers to them; the first count is the sum of the others."""
    return [
        ("questions" if made.repeats == 1 else "answers", made.n_wanted),
        ("generated", made.n_generated),
        ("from ledger", made.n_from_ledger),
        ("failed", made.n_failed),
        ("skipped", made.n_skipped),
    ]


def tally(made: Generated) -> str:
    """What came of the questions in a sentence, with its cost."""
    _, *parts = counts(made)
    said = ", ".join(f"{count:,} {name}" for name, count in parts)
    times = f", {made.repeats:,} answers each" if made.repeats > 1 else ""
    why = f" ({made.why})" if made.reasons else ""
    cut = f"; {made.n_cut_off:,} cut off at the token limit" if made.n_cut_off else ""
    cut += f"; {made.n_refused:,} refused" if made.n_refused else ""
    return f"{made.dataset}/{made.release}: {made.n_questions:,} questions{times}: {said}{why}{cut}; {spent(made)}"


def spent(made: Generated) -> str:
    """The calls that generation made, and their cost."""
    return f"{made.calls:,} call{'' if made.calls == 1 else 's'}, {price(made.cost_usd)}"


@dataclass(slots=True)
class _Tally:
    """Counts over the answers, as they come."""

    status: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    fingerprints: Counter[str] = field(default_factory=Counter)
    cut_off: int = 0
    refused: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = 0.0
    calls_ever: int = 0
    cost_ever: float | None = 0.0

    def add(self, answer: Answer) -> None:
        self.status[answer.status] += 1
        if answer.reason is not None:
            self.reasons[answer.reason.partition(":")[0]] += 1
        if (origin := answer.origin) is None:
            return
        self.models[origin.model] += 1
        self.fingerprints[origin.fingerprint] += 1
        self.cut_off += origin.finish_reason == "length"
        self.refused += origin.finish_reason == REFUSAL
        self.tokens_in += origin.tokens_in or 0
        self.tokens_out += origin.tokens_out or 0
        known = self.cost is not None and origin.cost_usd is not None
        self.cost = self.cost + origin.cost_usd if known else None  # type: ignore[operator]

    def pay(self, access: Access, keys: Sequence[str]) -> None:
        """Add what all runs together have spent on these requests."""
        for spent in spent_on(access, keys):
            self.calls_ever += spent.calls
            known = self.cost_ever is not None and spent.cost_usd is not None
            self.cost_ever = self.cost_ever + spent.cost_usd if known else None  # type: ignore[operator]


def check_release(home: Home, dataset: str, release: str, asking: Asking) -> None:
    """Check that answers of this release that already exist were generated in the same way.

    Raises:
        UserError: they were generated differently.
    """
    check_settings(home, answers_file(home, dataset, release), f"{dataset}/{release}", _settings(asking))


def estimate_answers(question_set: QuestionSet, asking: Asking, work: Path) -> Cost:
    """What `generate` will ask and cost. No call is made.

    Raises:
        UserError: as `questions`; or litellm does not know the provider.
        LedgerError: the ledger cannot be read.
    """
    return estimate_cost(
        _requests(asking, questions(question_set, asking.prompting.template, work)), asking.model, asking.access.ledger
    )


def generate(home: Home, question_set: QuestionSet, asking: Asking, release: str, work: Path) -> Generated:
    """Ask every question, and write the answers and their manifest.

    The first answer to a question is the one that a run without repeats gets, so more repeats can be added later. An
    answer that is missing is a row with the reason in `missing_because`.

    Raises:
        UserError: as `questions` and `check_release`; or the key is missing, or the model cannot be asked.
        LedgerError: the ledger cannot be used.
    """
    check_release(home, question_set.dataset, release, asking)
    opened = asking.with_key()
    file, tally = answers_file(home, question_set.dataset, release), _Tally()
    rest = questions(question_set, asking.prompting.template, work)
    # In the folder of the run, which is cleared after it, also where it is killed: this may take hours.
    work.mkdir(parents=True, exist_ok=True)
    unfinished = work / f"{uuid.uuid4().hex}.jsonl"
    with unfinished.open("w", encoding="utf-8") as out:
        while batch := list(islice(rest, max(1, _BATCH // asking.repeats))):
            _answer(batch, opened, tally, out)
    with atomic_write(file) as published:
        shutil.move(unfinished, published)
    spent = spent_by(asking.access)
    made = Generated(
        question_set.dataset, release, str(file), tally.status.total() // asking.repeats, tally.status["generated"],
        tally.status["from_ledger"], tally.status["failed"], tally.status["skipped"], tally.cut_off,
        tuple(tally.reasons.most_common()), spent.calls, None if spent.unpriced else spent.cost_usd, asking.repeats,
        tally.refused,
    )  # fmt: skip
    # If this run made no call, the manifest of the run that did knows more.
    if spent.calls or generation_of(str(file)) is None:
        content = _manifest(question_set, asking, made, tally)
        run = {"calls": spent.calls, "cost_usd": made.cost_usd, "unpriced": spent.unpriced}
        write_manifest(file, {**content, "run": run})
    share(home, file)
    return made


def _requests(asking: Asking, some: Iterable[Question]) -> Iterator[Request]:
    return (
        asking.prompting.request(asking.model, one.values, repeat)
        for one in some
        if not one.blank
        for repeat in range(1, asking.repeats + 1)
    )


def _answer(batch: list[Question], asking: Asking, tally: _Tally, out: TextIO) -> None:
    requests = list(_requests(asking, batch))
    answers = iter(zip(requests, ask(requests, asking.model, asking.limits, asking.access), strict=True))
    tally.pay(asking.access, [request.key for request in requests])
    for question, repeat in ((one, number + 1) for one in batch for number in range(asking.repeats)):
        row: dict[str, Any] = {"id": question.sample_id, "question": question.text}
        row |= {"repeat": repeat} if asking.repeats > 1 else {}
        if question.blank:
            tally.status["skipped"] += 1
            tally.reasons[NOTHING_TO_ASK] += 1
            row |= {"answer": None, "missing_because": NOTHING_TO_ASK, "finish_reason": None, "request": None}
        else:
            request, answer = next(answers)
            tally.add(answer)
            finish = answer.origin.finish_reason if answer.origin is not None else None
            row |= {"answer": answer.text, "missing_because": answer.reason, "finish_reason": finish}
            row["request"] = request.key
        out.write(json.dumps(row, ensure_ascii=False) + "\n")


def _manifest(question_set: QuestionSet, asking: Asking, made: Generated, tally: _Tally) -> dict[str, Any]:
    used = versions()
    return {
        "dataset": question_set.dataset,
        "release": made.release,
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "run_id": asking.access.run,
        **_settings(asking),
        "not_taken": list(left_out(asking.model)),
        "answered_by": dict(tally.models),
        "fingerprints": {name: n for name, n in tally.fingerprints.items() if name},
        "questions": made.n_questions,
        **({"repeats": made.repeats} if made.repeats > 1 else {}),
        "answered": made.n_answered,
        "failed": made.n_failed,
        "skipped": made.n_skipped,
        "cut_off": made.n_cut_off,
        "refused": made.n_refused,
        "reasons": dict(made.reasons),
        "tokens_in": tally.tokens_in,
        "tokens_out": tally.tokens_out,
        "cost_usd": tally.cost,
        "all_runs": {"calls": tally.calls_ever, "cost_usd": tally.cost_ever},
        "versions": {name: used[name] for name in ("answerkey", "python", "litellm")},
    }


def _settings(asking: Asking) -> dict[str, Any]:
    """The settings in which answers of one release must agree."""
    return {"model": asking.model.label, **asdict(asking.prompting)}


def check_answered(made: Generated, least: float) -> None:
    """Check that enough of the answers are there for the release to be registered.

    Args:
        least: share of the answers that were asked for, 0 to 1. There must be at least one in any case.

    Raises:
        UserError: there are too few.
    """
    if made.n_answered and made.n_answered >= least * made.n_wanted:
        return
    what = "questions have an answer" if made.repeats == 1 else "answers are there"
    raise UserError(
        f"{made.dataset}/{made.release}: {made.n_answered:,} of {made.n_wanted:,} {what} ({made.why}), and it takes "
        f"{least:.0%} to register the release (--min-answered); run again to go on: what was answered is not asked "
        "again"
    )


def register_generated(home: Home, question_set: QuestionSet, made: Generated, run_id: str, work: Path) -> Registration:
    """Register the answers as a release that waits for its evaluation; see `register`."""
    source = Source(
        made.answers, question_set.known, question_set.dataset, made.release,
        _PATHS if made.repeats == 1 else _REPEATED,  # type: ignore[arg-type]
        question_set.paths if question_set.known else {}, question_set.slices,
    )  # fmt: skip
    return register(home, source, run_id, work)
