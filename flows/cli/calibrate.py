"""`answerkey calibrate`: a metric or judge against human labels, and what a rubric can learn from them."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from answerkey.flows.cli.main import print_json
from answerkey.flows.cli.options import HOME, JUDGING, AsJson, Flags, HomeOption, command
from answerkey.flows.environment import use_kept_server
from answerkey.flows.parameters import Judging
from answerkey.metrics_core.errors import UserError
from answerkey.tasks.warehouse.home import Home

if TYPE_CHECKING:
    from answerkey.tasks.gate.learn import Learning


@command
def calibrate(  # noqa: PLR0913
    name: Annotated[
        str, Parameter(metavar="METRIC.FIELD", help="What to calibrate, for instance meaning_match.match.")
    ],
    /,
    judging: Annotated[Judging, Flags("Judge (with --learn)", JUDGING.names, prefix="judge")],
    *,
    report: Annotated[
        list[str] | None,
        Parameter("--report", help="A report, or the name of a release. May be repeated. Without: the newest run."),
    ] = None,
    labels: Annotated[
        str,
        Parameter(
            "--labels",
            help="A file with id, label and release. If it has a column score, those scores are calibrated.",
        ),
    ] = "",
    mapping: Annotated[
        list[str] | None,
        Parameter(
            "--map",
            metavar="KEY=PATH",
            help="Where a column of that file is: id, release, label, second (another annotator), score, cluster.",
        ),
    ] = None,
    learn: Annotated[
        int,
        Parameter(
            "--learn", help="Choose this many examples for --rubric from these labels, and report what they change."
        ),
    ] = 0,
    rubric: Annotated[str, Parameter("--rubric", metavar="FILE", help="The rubric that --learn is about.")] = "",
    out: Annotated[str, Parameter("--out", metavar="FILE", help="Where --learn writes the rubric.")] = "",
    seed: Annotated[int, Parameter("--seed", help="Seed of the bootstrap.")] = 0,
    as_json: AsJson = False,
    home: HomeOption = HOME,
) -> int:
    """Compare a metric or judge with human labels: those that came with the answers, or of a file.

    The result is kept, and a gate can demand it.
    """
    if mapping and not labels:
        raise UserError("--map names columns of a labels file; give --labels FILE as well")
    if learn:
        from answerkey.tasks.gate.learn import Learning

        asked = Learning(name, rubric, learn, report or [], labels, mapping or [], seed, out, judging.key_from)
        return _learn(home, asked, judging, as_json=as_json)
    if rubric or out:
        raise UserError("--rubric and --out go with --learn N: how many examples to choose")
    if judging.judges or judging.cascade or judging.dry_run:
        raise UserError(
            "--judge and --dry-run go with --learn: without it, scores of reports are compared, and no judge is asked"
        )
    return _calibrate(home, name, report or [], labels, mapping or [], seed, as_json=as_json)


def _calibrate(
    home: Home, name: str, reports: list[str], labels: str, mapping: list[str], seed: int, *, as_json: bool
) -> int:
    from answerkey.flows.cli.comparison_tables import print_calibration
    from answerkey.tasks.gate.calibrate import calibrate as calibrate_metric
    from answerkey.tasks.gate.calibrate import columns_of, store_calibration
    from answerkey.tasks.reports.commit import publish

    result = calibrate_metric(home, name, reports=reports, labels=labels, mapping=mapping, seed=seed)
    store_calibration(home, result)
    publish(home)
    if as_json:
        about: dict[str, Any] = {"metric": result.name, "signature": result.signature, "reports": result.report_ids}
        about |= {"labels": result.labels, "n_without_score": result.n_without_score}
        about["calibrations"] = [columns_of(result, part) for part in result.parts]
        print_json(about)
    else:
        print_calibration(result)
    return 0


def _learn(home: Home, asked: Learning, judging: Judging, *, as_json: bool) -> int:
    from answerkey.flows.cli.comparison_tables import print_learned
    from answerkey.flows.cli.tables import print_estimates
    from answerkey.flows.parameters import preflight
    from answerkey.tasks.gate.learn import estimate_learning, learn

    asked.check()
    use_kept_server(home)
    options = judging.options()
    preflight(options, judging.key_from)
    if judging.dry_run:
        print_estimates([estimate_learning(home, asked, options)], as_json=as_json, at_most=True)
    else:
        print_learned(learn(home, asked, options, uuid.uuid4().hex), asked.out, as_json=as_json)
    return 0
