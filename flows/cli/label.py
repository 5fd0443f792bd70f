"""The commands about human labels: `label`, `labels` and `calibrate`.

People label drawn answers in the browser, or in a file, until a gate can decide. Labels also say how good a metric or
judge is, and a rubric can learn from them.
"""

from __future__ import annotations

import secrets
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from answerkey.flows.cli.gate import Margin, PolicyFile, Primary, Rules, policy_of
from answerkey.flows.cli.main import heading
from answerkey.flows.cli.options import HOME, AsJson, Dataset, Flags, HomeOption, command
from answerkey.flows.environment import running
from answerkey.flows.parameters import Estimating
from answerkey.metrics_core.errors import UserError

if TYPE_CHECKING:
    from answerkey.tasks.gate.verdicts import ReleaseVerdict
    from answerkey.tasks.warehouse.home import Home

_DRAW = heading("Draw")
_IN_DRAW = Parameter(group=_DRAW)


def label(  # noqa: PLR0913
    old: str,
    new: str,
    /,
    *,
    dataset: Dataset = "",
    policy: PolicyFile = "",
    primary: Primary = None,
    margin: Margin = None,
    rule: Rules = None,
    labels: Annotated[int | None, _IN_DRAW] = None,
    until_decided: Annotated[bool, _IN_DRAW] = False,
    design: Annotated[Literal["random", "stratified"], _IN_DRAW] = "random",
    annotators: Annotated[int, _IN_DRAW] = 1,
    seed: Annotated[int, _IN_DRAW] = 0,
    draw_only: Annotated[bool, _IN_DRAW] = False,
    port: int = 4220,
    home: HomeOption = HOME,
) -> int:
    """Label answers in the browser until a gate can decide about two releases.

    Draws questions, and serves them on this machine until Ctrl-C: both answers in random order, without the names of
    the releases and without what a judge says. Run the same command again to continue. Exits with the code of the
    verdict, as `gate` does.

    Args:
        old: A report (faq/gpt-4/v2), or a release (gpt-4), which stands for its newest report.
        new: The report or release that is compared with the old one.
        labels: Label this many questions and decide once. Default: label until decided.
        until_decided: Decide after 25, 35, 49 ... questions, at the error rate of a single decision.
            This is the default.
        design: stratified: draw questions whose primary field changed twice as often as others.
        annotators: People who label each question; with 2, their agreement is reported.
        seed: Seed of the draw.
        draw_only: Draw the questions, for `labels export`, and serve no page.
        port: Port on this machine; 0 takes one that is free.

    Examples:
        answerkey label gpt-4 gpt-5 --primary meaning_match.match --margin 0.02
        answerkey label gpt-4 gpt-5 --policy gate.yaml --labels 200 --annotators 2
    """
    if labels is not None and until_decided:
        raise UserError("--labels and --until-decided: give one of the two")
    rules = policy_of(policy, primary, margin, rule or [])
    from answerkey.tasks.gate.labelling import LabellingSession
    from answerkey.tasks.gate.queue import LabelPlan, label_queue

    # The queue: the same questions as last time, if there is one
    plan = LabelPlan(labels, design, annotators, seed)
    queue = label_queue(home, old, new, rules, plan, dataset)
    print(
        f"queue {queue.id}: {queue.new} against {queue.old}, {queue.design} draw (seed {queue.seed}); analyses after "
        f"{', '.join(f'{n:,}' for n in queue.analyses)} questions"
    )
    if draw_only:
        return 0

    # One page at a time serves a queue, until Ctrl-C
    with running(home), home.warehouse.claimed(f"label-{queue.id}") as is_claimed:
        if not is_claimed:
            raise UserError(f"queue {queue.id}: another `answerkey label` serves it; open its page, or stop it first")
        from answerkey.flows.cli.server import answer_until_stopped
        from answerkey.flows.pages import labelling_server

        session = LabellingSession(home, queue, partial(_decided, home, queue.id))
        token = secrets.token_urlsafe(24)
        with labelling_server(session, token, port) as server:
            print(f"http://127.0.0.1:{server.server_port}/#{token}  (Ctrl-C stops; every label is kept)", flush=True)
            answer_until_stopped(server)
        print("stopped; run the same command to continue", flush=True)
    home.warehouse.publish()
    from answerkey.tasks.gate.verdicts import EXIT_CODES

    return EXIT_CODES[session.verdict.verdict.outcome if session.verdict else "INCONCLUSIVE"]


def _decided(home: Home, queue: str, verdict: ReleaseVerdict) -> None:
    """Print the verdict, and tell the server."""
    from answerkey.flows.cli.tables import print_verdict
    from answerkey.tasks.publish.events import announce_labels

    print_verdict(verdict)
    announce_labels(home, queue, verdict)


def export(
    old: str,
    new: str,
    file: Path,
    /,
    *,
    dataset: Dataset = "",
    every: Annotated[bool, Parameter("--all")] = False,
    home: HomeOption = HOME,
) -> int:
    """Write the questions of the newest queue for two releases, with their labels, as CSV.

    A row for each answer and annotator; the verdict is empty where there is none. Rows do not name the release of an
    answer. What is written into `verdict` (right, wrong, cannot tell) and `annotator` can be imported.

    Args:
        old: A report (faq/gpt-4/v2), or a release (gpt-4), which stands for its newest report.
        new: The report or release that is compared with the old one.
        file: The CSV file to write.
        every: All drawn questions, not only those up to the next analysis.

    Examples:
        answerkey labels export gpt-4 gpt-5 labels.csv
    """
    from answerkey.tasks.label_files import export_labels

    n, labelled = export_labels(home, old, new, file, dataset, every=every)
    print(f"{file}: {n:,} rows, {labelled:,} of them with a label")
    return 0


def import_(file: Path, /, *, annotator: str = "", home: HomeOption = HOME) -> int:
    """Take labels from a CSV file into the warehouse.

    Rows without a verdict are left out, and so are labels that are known already. A changed label counts from now
    on; the earlier one stays in the table `labels`. Nothing is taken from a file with a wrong row.

    Args:
        file: A CSV file with the columns of `labels export`.
        annotator: Who labelled the rows that name nobody in `annotator`.

    Examples:
        answerkey labels import labels.csv --annotator AB
    """
    from answerkey.tasks.label_files import import_labels

    print(f"{file}: {import_labels(home, file, annotator):,} new labels; `answerkey gate` decides with them")
    home.warehouse.publish()
    return 0


@command
def calibrate(  # noqa: PLR0913
    field: str,
    /,
    judging: Annotated[
        Estimating,
        # The others are in the file of --config
        Flags("Judge (with --learn)", omit=("max_calls", "price", "cascade", "repeats", "fallbacks", "batch")),
    ],
    *,
    report: list[str] | None = None,
    labels: Annotated[str, Parameter(metavar="FILE")] = "",
    mapping: Annotated[list[str] | None, Parameter("--map", metavar="KEY=PATH")] = None,
    learn: int = 0,
    rubric: Annotated[str, Parameter(metavar="FILE")] = "",
    out: Annotated[str, Parameter(metavar="FILE")] = "",
    as_json: AsJson = False,
    home: HomeOption = HOME,
) -> int:
    """Compare a metric or judge with human labels.

    The labels are those that came with the answers, or those in a file. The result is kept, and a gate can require it.
    With --learn, examples for a rubric are chosen from them instead, and tested on other answers.

    Args:
        field: The METRIC.FIELD to calibrate, for instance meaning_match.match.
        report: A report, or the name of a release. May be repeated. Without: the newest run.
        labels: A file with id, label and release. If it has a column score, those scores are calibrated.
        mapping: Where a column of that file is: id, release, label, second (another annotator), score, cluster.
        learn: Choose this many examples for --rubric from these labels, and report what they change.
        rubric: The rubric that --learn improves.
        out: Where --learn writes the rubric.

    Examples:
        answerkey calibrate meaning_match.match
        answerkey calibrate meaning_match.match --labels labels.csv --map second=annotator_2
        answerkey calibrate tone.score --rubric tone.yaml --learn 4 --out tone2.yaml --judge openai/gpt-4o-mini
    """
    from answerkey.flows.cli.tables import print_calibration, print_estimates, print_learned
    from answerkey.tasks.gate.calibrate import Calibration

    with running(home):
        from answerkey.flows.calibrate_judge import calibrate_judge

        result = calibrate_judge(
            field, report or [], labels, mapping or [], str(home), learn=learn, rubric=rubric, out=out,
            judging=judging,
        )  # fmt: skip

    # A dry run has costs, --learn has what was learned, and all else is a calibration
    if isinstance(result, list):
        print_estimates(result, as_json=as_json, at_most=True)
    elif isinstance(result, Calibration):
        print_calibration(result, as_json=as_json)
    else:
        print_learned(result, out, as_json=as_json)
    return 0
