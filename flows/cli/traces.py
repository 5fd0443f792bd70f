"""`answerkey score-traces`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

from answerkey.flows.cli.evaluate import RunnerOption
from answerkey.flows.cli.options import HOME, AsJson, Flags, HomeOption, Quiet, absolute, command
from answerkey.flows.environment import running
from answerkey.flows.parameters import LOCAL, Tracing

if TYPE_CHECKING:
    from answerkey.tasks.traces.score import Preview
    from answerkey.tasks.traces.summary import Funnel


@command
def score_traces(
    traces: Annotated[Tracing, Flags("Traces")],
    *,
    as_json: AsJson = False,
    quiet: Quiet = False,
    home: HomeOption = HOME,
    runner: RunnerOption = LOCAL,
) -> int:
    """Score logged traces by rules: new ones, or a range.

    Examples:
        answerkey score-traces rules --dry-run
        answerkey score-traces rules
        answerkey score-traces rules --rule faq-meaning --since 2026-11-01 --until 2026-12-01
    """
    from answerkey.flows.cli.comparison_tables import print_funnels, print_previews
    from answerkey.flows.cli.progress import bars

    traces = traces.model_copy(update={"rules": [absolute(place) for place in traces.rules]})
    with running(home, quiet=quiet, findings=True), bars(quiet=quiet):
        from answerkey.flows.score_traces import score_traces as run

        result = run(traces, str(home), runner=runner)
    if traces.dry_run:
        print_previews(cast("list[Preview]", result), as_json=as_json)
    else:
        print_funnels(cast("list[Funnel]", result), as_json=as_json)
    return 0
