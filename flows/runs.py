"""What runs say about themselves: in the terminal, and on the run's page in the Prefect UI."""

from __future__ import annotations

import logging

from prefect.logging.handlers import APILogHandler

from answerkey.metrics_core.errors import UserError

log = logging.getLogger("answerkey")
# A worker has set up its logging before it imports this.
log.setLevel(logging.INFO)
log.addHandler(APILogHandler())


def _in_one_line(record: logging.LogRecord) -> bool:
    """Prefect shows every error with its traceback. That of a wrong input only hides what is wrong."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, UserError):
        record.msg, record.args, record.exc_info = str(error), (), None
    return True


for _name in ("prefect.flow_runs", "prefect.task_runs", "prefect.engine"):
    logging.getLogger(_name).addFilter(_in_one_line)
