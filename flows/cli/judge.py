"""`answerkey judge`: try a judge on one answer, with the metrics, prompts and ledger of an evaluation."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from answerkey.flows.cli.options import HOME, JUDGING, AsJson, Flags, HomeOption, command, listed
from answerkey.flows.parameters import Judging
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.judges.votes import DECIDED_BY
from answerkey.metrics_core.llm.access import Access
from answerkey.metrics_core.llm.ledger import Ledger
from answerkey.metrics_core.measurement import Measurement
from answerkey.metrics_core.offline_judge.matcher import about
from answerkey.metrics_core.registry import METRICS, create
from answerkey.metrics_core.sample import Sample
from answerkey.tasks.score.keys import key
from answerkey.tasks.warehouse.home import Home


@dataclass(frozen=True, slots=True)
class Trial:
    """What one metric made of the answer, and its calls just now; `about` describes the offline judge, if asked."""

    measurement: Measurement
    calls: int
    about: str = ""


@command
def judge(
    question: Annotated[str, Parameter(metavar="QUESTION", help="The question; may be empty.")],
    reference: Annotated[str, Parameter(metavar="REFERENCE", help="An answer known to be right.")],
    answer: Annotated[str, Parameter(metavar="ANSWER", help="The answer to judge.")],
    /,
    judging: Annotated[Judging, Flags("Judge", JUDGING.names, omit=("max_calls", "max_cost_usd", "dry_run"))],
    *,
    references: Annotated[
        list[str] | None, Parameter("--reference", metavar="TEXT", help="Another answer known to be right.")
    ] = None,
    metric: Annotated[
        str,
        Parameter("--metric", metavar="A,B", show_default="meaning_match,ground_truth_similarity", help="What to ask."),
    ] = "",
    as_json: AsJson = False,
    home: HomeOption = HOME,
) -> int:
    """Ask judges about one answer, as an evaluation would. Replies are kept in the ledger, and not paid for twice."""
    from answerkey.flows.cli.tables import print_trials

    texts = [reference, *(references or ())]
    trials = ask_about(question, texts, answer, metrics_of(metric), judging, home)
    print_trials(trials, texts, as_json=as_json)
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


def ask_about(
    question: str, references: Sequence[str], answer: str, metrics: Sequence[str], judging: Judging, home: Home
) -> list[Trial]:
    """Measure one answer; the ledger in `home` answers what it can, and keeps what judges say.

    Raises:
        UserError: a judge cannot be asked.
    """
    sample = Sample("1", answer, references, question or None)
    options = judging.options()
    opened = Access(None if options.offline else key(judging.key_from), ledger=home.ledger)
    return [_measure(name, sample, options, replace(opened, run=uuid.uuid4().hex)) for name in metrics]


def _measure(name: str, sample: Sample, options: JudgeOptions, access: Access) -> Trial:
    cache = str(Path(access.ledger or "") / "embeddings")
    [metric] = create([name], {"judge": options, "access": access, "embedding_cache": cache})
    [measurement] = metric.measure([sample])
    if not measurement.requests:
        offline = options.offline or measurement.details.get(DECIDED_BY) == "offline"
        return Trial(measurement, 0, about() if offline else "")
    ledger = Ledger(Path(access.ledger or ""))
    try:
        return Trial(measurement, ledger.spent(access.run).calls)
    finally:
        ledger.close()
