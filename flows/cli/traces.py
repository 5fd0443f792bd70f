"""`answerkey score-traces`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

from answerkey.flows.cli.evaluate import RunnerOption, check_runner
from answerkey.flows.cli.options import HOME, AsJson, Flags, HomeOption, Quiet, absolute, command
from answerkey.flows.environment import prepare_run, started_here
from answerkey.flows.parameters import LOCAL
from answerkey.flows.tracing import Tracing, jobs

if TYPE_CHECKING:
    from answerkey.tasks.traces.score import Preview
    from answerkey.tasks.traces.summary import Funnel


@command
def score_traces(
    traces: Annotated[Tracing, Flags("Traces", {"only": "rule"}, {"rules": "RULES"}, repeated=("rules", "only"))],
    /,
    *,
    as_json: AsJson = False,
    quiet: Quiet = False,
    home: HomeOption = HOME,
    runner: RunnerOption = LOCAL,
) -> int:
    """Score the logged traces that rules take: a source, a condition, a sample, a metric, a judge."""
    from answerkey.flows.cli.comparison_tables import print_funnels, print_previews
    from answerkey.flows.cli.progress import bars

    traces = traces.model_copy(update={"rules": [absolute(place) for place in traces.rules]})
    traces.window()
    with bars(quiet=quiet):
        prepare_run(home, quiet=quiet)
        # Before a server is told: what is wrong with a rule is said at once.
        todo = jobs(traces, home, "")
        if not traces.dry_run:
            check_runner(runner, home, ((job.metric, job.key_from) for job in todo))
        with started_here():
            from answerkey.flows.score_traces import score_traces as run

            result = run(traces, str(home), runner=runner)
    if traces.dry_run:
        print_previews(cast("list[Preview]", result), as_json=as_json)
    else:
        print_funnels(cast("list[Funnel]", result), as_json=as_json)
    return 0
