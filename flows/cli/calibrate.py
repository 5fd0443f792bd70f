"""`answerkey calibrate`: a metric or judge against human labels, and what a rubric can learn from them."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from answerkey.flows.cli.options import HOME, AsJson, Flags, HomeOption, command
from answerkey.flows.environment import running
from answerkey.flows.parameters import Estimating


@command
def calibrate(  # noqa: PLR0913
    name: Annotated[
        str, Parameter(metavar="METRIC.FIELD", help="What to calibrate, for instance meaning_match.match.")
    ],
    /,
    judging: Annotated[
        Estimating,
        # The others are in the file of --config
        Flags("Judge (with --learn)", omit=("max_calls", "price", "cascade", "repeats", "fallbacks", "batch")),
    ],
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
    rubric: Annotated[str, Parameter("--rubric", metavar="FILE", help="The rubric that --learn improves.")] = "",
    out: Annotated[str, Parameter("--out", metavar="FILE", help="Where --learn writes the rubric.")] = "",
    as_json: AsJson = False,
    home: HomeOption = HOME,
) -> int:
    """Compare a metric or judge with human labels.

    The labels are those that came with the answers, or those in a file. The result is kept, and a gate can require it.
    With --learn, examples for a rubric are chosen from them instead, and tested on other answers.

    Examples:
        answerkey calibrate meaning_match.match
        answerkey calibrate meaning_match.match --labels labels.csv --map second=annotator_2
        answerkey calibrate tone.score --rubric tone.yaml --learn 4 --out tone2.yaml --judge openai/gpt-4o-mini
    """
    from answerkey.flows.cli.comparison_tables import print_calibration, print_learned
    from answerkey.flows.cli.tables import print_estimates
    from answerkey.tasks.gate.calibrate import Calibration

    with running(home):
        from answerkey.flows.calibrate_judge import calibrate_judge

        result = calibrate_judge(
            name, report or [], labels, mapping or [], str(home), learn=learn, rubric=rubric, out=out,
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
