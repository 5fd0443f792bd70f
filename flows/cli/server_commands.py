"""`answerkey serve` and `answerkey deploy`: the flows on a Prefect server."""

from __future__ import annotations

import argparse
import os

from answerkey.flows.cli.serving import (
    POOL,
    Stopped,
    page_server,
    running,
    server,
    server_environment,
    stopping_on_signals,
    wait_for,
)
from answerkey.metrics_core.errors import UserError
from answerkey.tasks.publish.server import has_server
from answerkey.tasks.warehouse.home import Home


def serve(chosen: argparse.Namespace) -> int:
    """`answerkey serve`: a Prefect server on loopback and a worker, until Ctrl-C."""
    home = Home(chosen.home.folder.resolve())
    environment = server_environment(home, chosen.port)
    try:
        with stopping_on_signals():
            _serve(home, chosen.port, environment)
    except Stopped:
        print("stopped; reports, runs and schedules are kept", flush=True)
        return 0
    return 1


def _serve(home: Home, port: int, environment: dict[str, str]) -> None:
    print(f"starting a Prefect server on port {port} (the first time takes half a minute)", flush=True)
    with server(home, port, environment) as prefect:
        # Prefect reads them when it is imported, which is now.
        os.environ.update(environment)
        from answerkey.flows.cli.deploying import deploy_all, make_automations, make_pool, project_folder

        make_pool()
        deploy_all(home, environment)
        make_automations()
        log = home.folder / "prefect" / "worker.log"
        command = ["-m", "prefect", "worker", "start", "--pool", POOL, "--type", "process"]
        with (
            page_server(home, port + 1, environment) as pages,
            running(command, environment, log, project_folder()) as worker,
        ):
            print(f"ready: http://127.0.0.1:{port}  (home {home}; Ctrl-C stops it)", flush=True)
            wait_for(prefect, worker, pages)
            raise UserError(f"the server or the worker ended by itself; the logs in {log.parent} say why")


def deploy(chosen: argparse.Namespace) -> int:
    """`answerkey deploy`: bring a server up to date."""
    if not has_server():
        raise UserError("no Prefect server is named: set PREFECT_API_URL, or use `answerkey serve`")
    from answerkey.flows.cli.deploying import deploy_all, make_automations, make_pool

    pool = make_pool(chosen.pool)
    deploy_all(chosen.home, dict(os.environ), pool)
    made = make_automations(chosen.notify)
    print(f"deployed to {os.environ.get('PREFECT_API_URL', 'the server of your Prefect profile')}; automations:")
    print("\n".join(f"  {name}" for name in made))
    if not chosen.notify:
        print("nobody is notified; --notify TYPE/NAME names a block of Prefect that does")
    print(f"start a worker with: prefect worker start --pool {pool}")
    return 0
