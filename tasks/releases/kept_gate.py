"""The gate of a data set, kept in the warehouse: what decides where a run names neither a baseline nor a policy."""

from __future__ import annotations

import json

from answerkey.metrics_core.decide.policy import Policy
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements

_SQL = statements(__name__)


def keep_gate(home: Home, dataset: str, baseline: str, policy: Policy) -> None:
    """Keep the gate of a data set. It holds until another is kept; its policy says what a PASS makes of the baseline.

    Args:
        baseline: a release, of which always the newest report counts, or the id of a report, which stays the same.
    """
    columns = {"dataset": dataset, "baseline": baseline, "policy": json.dumps(policy.as_dict())}
    with home.warehouse.writing() as warehouse:
        warehouse.execute(_SQL["keep"], columns)


def kept_gate(home: Home, dataset: str) -> tuple[str, str]:
    """The baseline of a data set, and the text of its policy; both empty where no gate is kept.

    >>> from answerkey.tasks.warehouse.home import Home
    >>> kept_gate(Home.parse("no such home"), "faq")
    ('', '')
    """
    rows = home.rows(_SQL["newest"], {"dataset": dataset}) if home.warehouse.exists() else []
    return (str(rows[0][0]), str(rows[0][1])) if rows else ("", "")


def never_gated(home: Home) -> list[tuple[str, str, str, str]]:
    """Report, baseline, policy and time of the gate of each newest registered release that it has not decided on.

    A gate may be kept only after a release was evaluated, or changed since.
    """
    return home.rows(_SQL["never_gated"]) if home.warehouse.exists() else []
