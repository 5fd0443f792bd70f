"""Register a release: load, validate and commit its answers, which a run of their own scores."""

from __future__ import annotations

from answerkey.flows.parameters import Data
from answerkey.flows.prefect_or_local import flow, task
from answerkey.flows.runs import completed, form_of, started
from answerkey.tasks.load.load import dataset_name
from answerkey.tasks.releases.register import Registration, register

register_answers = task(register, name="register")


def _run_name() -> str:
    form = form_of("data", Data)
    return f"register {form.release} on {form.dataset}"


@flow(
    name="register-release",
    description="Commit the answers of a release without scoring them, so that it waits for its evaluation.",
    flow_run_name=_run_name,
)
def register_release(data: Data, home: str = ".answerkey") -> Registration:
    """Commit the answers of a release, and announce it to the Prefect server, if there is one.

    Registering the same answers again changes nothing.

    Args:
        data: The answers of one release, with its name and that of the data set.
        home: Where everything is kept: a folder of the machine that runs this, or s3://BUCKET/PREFIX.
    """
    source = data.source()
    with (
        started(home) as run,
        run.recorded("register-release", dataset_name(source), {"data": data.model_dump()}),
    ):
        registration = register_answers(run.home, source, run.id, run.folder)
    return completed(registration, f"{registration.name} is registered as {registration.registration}")
