"""A plugin for pytest: the gate as a test. Nothing of answerkey is imported until a test uses it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from answerkey.tasks.gate.verdicts import ReleaseVerdict


class ReleaseGate(Protocol):
    """What the fixture `answerkey_gate` is: a function that fails the test unless a release may ship."""

    def __call__(
        self, old: str, new: str, policy: str, *, dataset: str = "", home: str | Path | None = None
    ) -> ReleaseVerdict:
        """Decide whether the release of report `new` may ship in place of that of `old`.

        Args:
            old, new: reports, or names of releases, which stand for their newest report.
            policy: the path of a policy, or its text: `{primary: meaning_match.match, margin: 0.02}`.
            dataset: the data set, where a release has reports on several.
            home: a folder or s3://BUCKET/PREFIX; None: ANSWERKEY_HOME, or `.answerkey`.

        Returns:
            The verdict, which is a PASS. Every other one fails the test, with its sentence and a line a rule: too few
            samples or a missing baseline are no pass. Bad input fails the test in one line.
        """


@pytest.fixture(scope="session")
def answerkey_gate() -> ReleaseGate:
    """Fails the test unless a policy lets a release ship: `answerkey_gate("gpt-4", "gpt-5", "gate.yaml")`."""

    def decide(old: str, new: str, policy: str, *, dataset: str = "", home: str | Path | None = None) -> ReleaseVerdict:
        from answerkey.metrics_core.errors import UserError
        from answerkey.tasks.gate.gate import gate, read_policy
        from answerkey.tasks.warehouse.home import Home

        try:
            place = Home.parse(str(home or os.environ.get("ANSWERKEY_HOME") or ".answerkey"))
            gated = gate(place, old, new, read_policy(policy), dataset)
        except UserError as error:
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        verdict = gated.verdict
        if verdict.outcome != "PASS":
            rules = [f"  {rule.outcome:<12}  {rule.rule}: {rule.sentence}" for rule in verdict.rules]
            pytest.fail("\n".join([f"{verdict.outcome}  {verdict.sentence}", *verdict.notes, *rules]), pytrace=False)
        return gated

    return decide
