"""Register a release: load, validate and commit its answers, which `evaluate_registered` scores later."""

from __future__ import annotations

from answerkey.flows.parameters import Data
from answerkey.flows.runs import started
from answerkey.tasks.load.load import dataset_name
from answerkey.tasks.releases.register import Registration, register


def register_release(data: Data, home: str = ".answerkey") -> Registration:
    """Commit the answers of a release without scoring them, under a run of its own; see `register`."""
    source = data.source()
    with started(home) as run:
        parameters = {"data": data.model_dump()}
        with run.recorded("register-release", dataset_name(source), parameters, dry_run=False):
            return register(run.home, source, run.id, run.folder)
