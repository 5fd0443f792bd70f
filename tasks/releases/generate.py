"""Ask a model under test all questions of a data set, and keep its answers with their provenance.

The ledger is the memory: every answer is in it as soon as it arrives, so a run that was killed, or that the budget
stopped, is simply started again. The file of answers is rewritten as a whole each time.
"""

from __future__ import annotations

import itertools
import json
import shutil
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.access import Access, CallLimits
from answerkey.metrics_core.llm.cost import REFUSAL, Cost
from answerkey.metrics_core.llm.generate import Answer, Prompting, estimate_cost, left_out
from answerkey.metrics_core.llm.generate import generate as ask
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.request import Request
from answerkey.tasks.load.load import Source
from answerkey.tasks.publish.text import counted, price
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
        most_frequent = [f"{n:,} {reason}" for reason, n in self.reasons[:_MOST_REASONS]]
        n_others = sum(n for _, n in self.reasons[_MOST_REASONS:])
        return ", ".join([*most_frequent, *([f"{n_others:,} for other reasons"] if n_others else [])])


def counts(generated: Generated) -> list[tuple[str, int]]:
    """What came of the questions, or of all answers to them; the first count is the sum of the others."""
    return [
        ("questions" if generated.repeats == 1 else "answers", generated.n_wanted),
        ("generated", generated.n_generated),
        ("from ledger", generated.n_from_ledger),
        ("failed", generated.n_failed),
        ("skipped", generated.n_skipped),
    ]


def tally(generated: Generated) -> str:
    """What came of the questions in a sentence, with its cost."""
    _, *parts = counts(generated)
    outcomes = ", ".join(f"{count:,} {name}" for name, count in parts)
    times = f", {generated.repeats:,} answers each" if generated.repeats > 1 else ""
    reasons = f" ({generated.why})" if generated.reasons else ""
    incomplete = f"; {generated.n_cut_off:,} cut off at the token limit" if generated.n_cut_off else ""
    incomplete += f"; {generated.n_refused:,} refused" if generated.n_refused else ""
    release = f"{generated.dataset}/{generated.release}: {generated.n_questions:,} questions{times}"
    return f"{release}: {outcomes}{reasons}{incomplete}; {spent(generated)}"


def spent(generated: Generated) -> str:
    """The calls that generation made, and their cost."""
    return f"{counted(generated.calls, 'call')}, {price(generated.cost_usd)}"


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
        # What is known of a reply only
        if (origin := answer.origin) is None:
            return
        self.models[origin.model] += 1
        self.fingerprints[origin.fingerprint] += 1
        self.cut_off += origin.finish_reason == "length"
        self.refused += origin.finish_reason == REFUSAL
        self.tokens_in += origin.tokens_in or 0
        self.tokens_out += origin.tokens_out or 0
        is_priced = self.cost is not None and origin.cost_usd is not None
        self.cost = self.cost + origin.cost_usd if is_priced else None  # type: ignore[operator]


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
    # Ask all questions, in the folder of the run, which is cleared after it even if it is killed: this may take hours
    check_release(home, question_set.dataset, release, asking)
    asking_with_key = asking.with_key()
    file = answers_file(home, question_set.dataset, release)
    tally = _Tally()
    remaining = questions(question_set, asking.prompting.template, work)
    work.mkdir(parents=True, exist_ok=True)
    unfinished = work / f"{uuid.uuid4().hex}.jsonl"
    with unfinished.open("w", encoding="utf-8") as out:
        while batch := list(itertools.islice(remaining, max(1, _BATCH // asking.repeats))):
            _answer(batch, asking_with_key, tally, out)
    with atomic_write(file) as target:
        shutil.move(unfinished, target)

    # What came of them, which the manifest keeps
    spending = spent_by(asking.access)
    generated = Generated(
        dataset=question_set.dataset,
        release=release,
        answers=str(file),
        n_questions=tally.status.total() // asking.repeats,
        n_generated=tally.status["generated"],
        n_from_ledger=tally.status["from_ledger"],
        n_failed=tally.status["failed"],
        n_skipped=tally.status["skipped"],
        n_cut_off=tally.cut_off,
        reasons=tuple(tally.reasons.most_common()),
        calls=spending.calls,
        cost_usd=None if spending.unpriced else spending.cost_usd,
        repeats=asking.repeats,
        n_refused=tally.refused,
    )
    # If this run made no call, the manifest of the run that did knows more.
    if spending.calls or generation_of(str(file)) is None:
        content = _manifest(question_set, asking, generated, tally)
        run = {"calls": spending.calls, "cost_usd": generated.cost_usd, "unpriced": spending.unpriced}
        write_manifest(file, {**content, "run": run})
    share(home, file)
    return generated


def _requests(asking: Asking, batch: Iterable[Question]) -> Iterator[Request]:
    for question in batch:
        if not question.blank:
            for repeat in range(1, asking.repeats + 1):
                yield asking.prompting.request(asking.model, question.values, repeat)


def _answer(batch: list[Question], asking: Asking, tally: _Tally, out: TextIO) -> None:
    # The ledger answers what was asked before
    requests = list(_requests(asking, batch))
    answers = iter(zip(requests, ask(requests, asking.model, asking.limits, asking.access), strict=True))
    # What all runs together have spent on these requests
    for spending in spent_on(asking.access, [request.key for request in requests]):
        tally.calls_ever += spending.calls
        is_priced = tally.cost_ever is not None and spending.cost_usd is not None
        tally.cost_ever = tally.cost_ever + spending.cost_usd if is_priced else None  # type: ignore[operator]

    # A row for each answer, in the order of the questions
    for question, repeat in itertools.product(batch, range(1, asking.repeats + 1)):
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


def _manifest(question_set: QuestionSet, asking: Asking, generated: Generated, tally: _Tally) -> dict[str, Any]:
    used_versions = versions()
    return {
        "dataset": question_set.dataset,
        "release": generated.release,
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "run_id": asking.access.run,
        **_settings(asking),
        "not_taken": list(left_out(asking.model)),
        "answered_by": dict(tally.models),
        "fingerprints": {name: n for name, n in tally.fingerprints.items() if name},
        "questions": generated.n_questions,
        **({"repeats": generated.repeats} if generated.repeats > 1 else {}),
        "answered": generated.n_answered,
        "failed": generated.n_failed,
        "skipped": generated.n_skipped,
        "cut_off": generated.n_cut_off,
        "refused": generated.n_refused,
        "reasons": dict(generated.reasons),
        "tokens_in": tally.tokens_in,
        "tokens_out": tally.tokens_out,
        "cost_usd": tally.cost,
        "all_runs": {"calls": tally.calls_ever, "cost_usd": tally.cost_ever},
        "versions": {name: used_versions[name] for name in ("answerkey", "python", "litellm")},
    }


def _settings(asking: Asking) -> dict[str, Any]:
    """The settings in which answers of one release must agree."""
    return {"model": asking.model.label, **asdict(asking.prompting)}


def check_answered(generated: Generated, min_share: float) -> None:
    """Check that enough of the answers are there for the release to be registered.

    Args:
        min_share: share of the answers that were asked for, 0 to 1. There must be at least one in any case.

    Raises:
        UserError: there are too few.
    """
    if generated.n_answered and generated.n_answered >= min_share * generated.n_wanted:
        return
    subject = "questions have an answer" if generated.repeats == 1 else "answers are there"
    raise UserError(
        f"{generated.dataset}/{generated.release}: {generated.n_answered:,} of {generated.n_wanted:,} {subject} "
        f"({generated.why}), and it takes {min_share:.0%} to register the release (--min-answered); "
        "run again to go on: what was answered is not asked again"
    )


def register_generated(
    home: Home, question_set: QuestionSet, generated: Generated, run_id: str, work: Path
) -> Registration:
    """Register the answers as a release that waits for its evaluation; see `register`."""
    source = Source(
        answers=generated.answers,
        references=question_set.known,
        dataset=question_set.dataset,
        release=generated.release,
        paths=_PATHS if generated.repeats == 1 else _REPEATED,  # type: ignore[arg-type]
        reference_paths=question_set.paths if question_set.known else {},
        slices=question_set.slices,
    )
    return register(home, source, run_id, work)
