"""The gate: a policy and two reports, to a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from metrics_core.errors import BadInput
from metrics_core.evidence import Evidence
from metrics_core.gate import RuleOutcome, Verdict, verdict
from metrics_core.gate_trial import SelfTest, self_test
from metrics_core.policy import Policy, parse_policy
from tasks.evidence import evidence
from tasks.report import read_reports
from tasks.report_names import pair_named, report_named
from tasks.warehouse.warehouse import reading

EXIT_CODES: Mapping[str, int] = {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 3, "INCOMPLETE": 4}
"""What the command ends with; 2 is bad input."""


@dataclass(frozen=True, slots=True)
class Gated:
    """A verdict and the ids of the reports that it is about; `old` is the name that was asked for if there is none."""

    old: str
    new: str
    policy: Policy
    verdict: Verdict

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON: old, new, outcome, exit_code, sentence, policy and rules."""
        return {
            "old": self.old,
            "new": self.new,
            "outcome": self.verdict.outcome,
            "exit_code": EXIT_CODES[self.verdict.outcome],
            "sentence": self.verdict.sentence,
            "policy": [rule.text for rule in self.policy.rules],
            "rules": [asdict(rule) for rule in self.verdict.rules],
        }


def read_policy(file: Path) -> Policy:
    """The policy in a YAML file (or JSON, which is YAML).

    Raises:
        BadInput: the file cannot be read, is no YAML, or holds no policy; one line a problem.
    """
    import yaml

    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise BadInput(f"{file}{where}: not YAML; put a text with a colon, bracket or star in quotes") from error
    return parse_policy(content, str(file))


def gate(home: Path, old: str, new: str, policy: Policy, dataset: str = "") -> Gated:
    """Decide whether the release of report `new` may ship in place of that of `old`.

    Args:
        old, new: ids of reports, or names of releases, which stand for their newest report; `dataset`: where a release
            has reports on several.

    Raises:
        BadInput: there is no report `new`, it is not clear which are meant, or they cannot be a pair. A baseline that
            is missing is no bad input: the verdict is then INCOMPLETE, and never a PASS.
    """
    if not _is_there(home, old):
        new = report_named(home, new, dataset)
        sentence = f"there is no report or release {old} in {home} to compare {new} with; evaluate the baseline first"
        rules = tuple(RuleOutcome(rule.text, "INCOMPLETE", "there is no baseline") for rule in policy.rules)
        return Gated(
            old, new, policy, Verdict("INCOMPLETE", f"whether {new} may ship cannot be said: {sentence}", rules)
        )
    old, new, found = _evidence(home, old, new, policy, dataset)
    return Gated(old, new, policy, verdict(policy, found))


def gate_self_test(home: Path, old: str, new: str, policy: Policy, dataset: str = "", *, seed: int = 0) -> SelfTest:
    """Simulate the gate on the samples of two reports: its real rates of false alarms and of detection.

    Raises:
        BadInput: a report is not there, they cannot be a pair, or they have nothing to simulate with.
    """
    return self_test(policy, _evidence(home, old, new, policy, dataset)[2], seed=seed)


def _evidence(home: Path, old: str, new: str, policy: Policy, dataset: str) -> tuple[str, str, Evidence]:
    """The ids of both reports, and what the policy asks about them."""
    old, new = pair_named(home, old, new, dataset)
    before, after = read_reports(home, [old, new])
    if old == new:
        raise BadInput(f"{old}: a report cannot be compared with itself")
    if before.dataset != after.dataset:
        raise BadInput(f"{old} is about {before.dataset}, and {new} about {after.dataset}")
    return old, new, evidence(home, before, after, policy)


def _is_there(home: Path, name: str) -> bool:
    with reading(home) as warehouse:
        found = warehouse.execute(
            "SELECT 1 FROM reports WHERE ? IN (report_id, release, dataset || '/' || release) LIMIT 1", [name]
        ).fetchone()
    return found is not None
