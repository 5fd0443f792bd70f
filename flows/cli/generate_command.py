"""`answerkey generate`: what it takes on the command line, and what it does."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from answerkey.tasks.warehouse.home import Home

if TYPE_CHECKING:
    from answerkey.flows.forms.generating import Afterwards, Generating, Questions
    from answerkey.flows.generate_answers import Made

Add = Callable[[argparse._ActionsContainer], None]

_OPTIONS = {
    "key_from": "--key-from",
    "concurrency": "--concurrency",
    "timeout_s": "--timeout",
    "deadline_s": "--deadline",
    "max_cost_usd": "--max-cost",
}
"""Fields that the command line knows by another name."""


def generate_options(
    parser: argparse.ArgumentParser, *, scoring: Add, judge: Add, comparing: Add, output: Callable[..., None]
) -> None:
    """Add the options of `answerkey generate`.

    Args:
        scoring, judge, comparing: add those of an evaluation: how to score, whom to ask, what to compare with.
        output: adds those about what is printed.
    """
    parser.description = (
        "Ask a model all questions of a data set and register its answers as a release. What was answered is in the "
        "ledger, and is never asked again."
    )
    _question_options(parser.add_argument_group("questions"))
    _model_options(parser.add_argument_group("model"))
    _limits(parser.add_argument_group("limits"))
    parser.add_argument("--evaluate", action="store_true", help="evaluate the release at once, with the options below")
    scoring(parser.add_argument_group("scoring"))
    judges = parser.add_argument_group("judge")
    judge(judges)
    judges.add_argument("--judge-concurrency", type=int, default=64, metavar="N", help="calls to one judge at once")
    judges.add_argument(
        "--judge-max-calls", dest="max_calls", type=int, default=0, metavar="N", help="stop asking judges after N calls"
    )
    judges.add_argument(
        "--judge-max-cost",
        dest="max_cost",
        type=float,
        default=0.0,
        metavar="USD",
        help="or before it costs more",
    )
    parser.set_defaults(dry_run=False)
    comparing(parser)
    output(parser)


def _question_options(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--dataset", metavar="FILE_OR_NAME", required=True,
        help="a file with questions and known answers, or the name of a data set that was evaluated before",
    )  # fmt: skip
    group.add_argument("--dataset-name", metavar="NAME", default="", help="of the data set in a file (the file's name)")
    group.add_argument(
        "--map", metavar="KEY=PATH", action="append", default=[], help="where a column of the file is, as for evaluate"
    )
    group.add_argument(
        "--slice", metavar="COLUMN", action="append", default=[], help="report every value of a column of the file too"
    )


def _model_options(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--model", metavar="NAME", required=True, help="PROVIDER/MODEL, or PROVIDER/MODEL@http://address"
    )
    group.add_argument("--release", metavar="NAME", required=True, help="what the answers are registered as")
    group.add_argument(
        "--key-from", metavar="WHERE", default="",
        help="where the key is: env:NAME, secret:BLOCK or variable:NAME (default: $ANSWERKEY_MODEL_KEY, the Prefect "
        "secret answerkey-model-key, or the provider's own variable)",
    )  # fmt: skip
    group.add_argument("--system", metavar="TEXT_OR_FILE", default="", help="the system prompt (default: none)")
    group.add_argument(
        "--template", metavar="TEXT_OR_FILE", default="{question}",
        help="what is asked, with columns of the data set in braces (default: {question})",
    )  # fmt: skip
    group.add_argument("--temperature", type=float, default=0.0, metavar="T", help="default 0")
    group.add_argument("--max-tokens", type=int, default=1_024, metavar="N", help="of one answer (default 1024)")
    group.add_argument("--seed", type=int, default=0, metavar="N", help="another seed asks anew (default 0)")


def _limits(group: argparse._ActionsContainer) -> None:
    group.add_argument("--concurrency", type=int, default=64, metavar="N", help="calls at once (default 64)")
    group.add_argument(
        "--timeout", type=float, default=120.0, metavar="S", help="seconds that one call may take (default 120)"
    )
    group.add_argument(
        "--deadline", type=float, default=300.0, metavar="S",
        help="seconds that one question may take with all its calls (default 300)",
    )  # fmt: skip
    group.add_argument(
        "--max-calls", dest="model_calls", type=int, default=0, metavar="N", help="stop asking after N calls"
    )
    group.add_argument(
        "--max-cost", dest="model_cost", type=float, default=0.0, metavar="USD", help="stop asking before it costs more"
    )
    group.add_argument(
        "--min-answered", type=float, default=0.95, metavar="SHARE",
        help="share of the questions that must have an answer for the release to be registered (default 0.95)",
    )  # fmt: skip
    group.add_argument("--dry-run", dest="model_dry_run", action="store_true", help="say what it would cost, and stop")


def generate(chosen: argparse.Namespace) -> int:
    """Run the flow, and print what came of the questions, or what they would cost."""
    from answerkey.flows.cli.arguments import how_to_score
    from answerkey.flows.cli.run import prepare_run, started_here

    prepare_run(chosen.home, quiet=chosen.quiet)
    questions, generating, afterwards = _forms(chosen)
    _try(chosen.home, questions, generating)
    scoring, limits, judging = how_to_score(chosen)
    with started_here():
        from answerkey.flows.generate_answers import generate_answers

        made = generate_answers(questions, generating, afterwards, scoring, judging, limits, str(chosen.home))
    return _print(chosen, made)


def _forms(chosen: argparse.Namespace) -> tuple[Questions, Generating, Afterwards]:
    from pydantic import ValidationError

    from answerkey.flows.cli.arguments import absolute, bad_argument, policy_given
    from answerkey.flows.forms.generating import Afterwards, Generating, Questions

    there = "::" in chosen.dataset or Path(chosen.dataset).is_file()
    try:
        questions = Questions(
            dataset=absolute(chosen.dataset) if there else chosen.dataset,
            name=chosen.dataset_name,
            columns=chosen.map,
            slices=chosen.slice,
        )
        generating = Generating(
            release=chosen.release,
            model=chosen.model,
            key_from=chosen.key_from,
            system=_path_or_text(chosen.system),
            template=_path_or_text(chosen.template),
            temperature=chosen.temperature,
            max_tokens=chosen.max_tokens,
            seed=chosen.seed,
            max_calls=chosen.model_calls,
            max_cost_usd=chosen.model_cost,
            dry_run=chosen.model_dry_run,
            min_answered=chosen.min_answered,
            concurrency=chosen.concurrency,
            timeout_s=chosen.timeout,
            deadline_s=chosen.deadline,
        )
    except ValidationError as error:
        # Not as the cause: a traceback of it could show what was typed.
        problem = bad_argument(error.errors()[0], _OPTIONS)
    else:
        policy = policy_given(chosen)
        page = not chosen.no_page
        return questions, generating, Afterwards(
            evaluate=chosen.evaluate, baseline=chosen.baseline, policy=policy, page=page
        )  # fmt: skip
    raise problem


def _path_or_text(given: str) -> str:
    from answerkey.flows.cli.arguments import absolute
    from answerkey.tasks.releases.questions import text_or_file

    # A file may have another path for the process that reads it, and its content is another than its name.
    return absolute(given.strip()) if text_or_file(given) != given else given


def _try(home: Home, questions: Questions, generating: Generating) -> None:
    """Whatever is wrong is said before a server is started for it.

    Raises:
        UserError: a file or data set is not there, a column is not in it, the release has answers of another kind, or
            the model cannot be asked.
    """
    import shutil

    from answerkey.metrics_core.llm.litellm import check
    from answerkey.tasks.releases.generate import check_release
    from answerkey.tasks.releases.questions import questions as read

    asking = generating.asking(home, "")
    work = home.scratch / f"tried-{os.getpid()}"
    try:
        found = questions.find(home, work)
        check_release(home, found.dataset, generating.release, asking)
        next(read(found, asking.prompting.template, work))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    check([asking.with_key().model], asking.limits, "model")


def _print(chosen: argparse.Namespace, made: Any) -> int:
    from answerkey.flows.cli.release_commands import print_found
    from answerkey.flows.terminal.generated import print_generated
    from answerkey.flows.terminal.judges import print_estimates
    from answerkey.metrics_core.judges.estimate import Estimate
    from answerkey.tasks.releases.registered import registrations

    if isinstance(made, Estimate):
        print_estimates([made], as_json=chosen.json, whom="the model")
        return 0
    done: Made = made
    reports = list(done.report_ids)
    if chosen.json and reports:
        return print_found(chosen, reports, dry_run=False, baseline=chosen.baseline, policy=chosen.policy)
    [registration] = registrations(chosen.home, done.registration)
    print_generated(done.generated, registration, as_json=chosen.json)
    if reports:
        print()
        return print_found(chosen, reports, dry_run=False, baseline=chosen.baseline, policy=chosen.policy)
    return 0
