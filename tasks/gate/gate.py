"""The gate: a policy and two reports, to a verdict."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.gate.evidence import Evidence
from answerkey.metrics_core.gate.gate import RuleOutcome, Verdict, apply_policy
from answerkey.metrics_core.gate.policy import Policy, parse_policy
from answerkey.metrics_core.gate.simulate import SelfTest, self_test
from answerkey.metrics_core.registry import Options, create
from answerkey.tasks.gate.evidence import evidence
from answerkey.tasks.gate.verdicts import Gated, store
from answerkey.tasks.reports.labels import LABEL
from answerkey.tasks.reports.names import is_known, pair_named, report_named
from answerkey.tasks.reports.report import read_reports
from answerkey.tasks.warehouse.home import Home


def is_text(policy: str) -> bool:
    """Whether this is a policy itself, and not the path of its file: it has several lines, or a brace."""
    return "\n" in policy or "{" in policy


def read_policy(policy: str) -> Policy:
    """The policy in YAML (or JSON, which is YAML): its text, or the path of its file.

    Raises:
        UserError: the file cannot be read, is no YAML, or holds no policy; one line a problem.
    """
    import yaml

    where = "policy" if is_text(policy) else policy
    try:
        content = yaml.safe_load(policy if is_text(policy) else Path(policy).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UserError(f"{where}: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise UserError(f"{where}{line}: not YAML; put a text with a colon, bracket or star in quotes") from error
    return parse_policy(content, where)


def check_fields(policy: Policy, metrics: Sequence[str], options: Options) -> None:
    """Find out before anything is scored whether a run with these metrics can have all that the policy asks.

    Raises:
        UserError: it names a field that the run will not have. Labels are in the data, so nothing is said of theirs.
    """
    known = [f"{metric.name}.{one.name}" for metric in create(metrics, options) for one in metric.fields]
    for name in policy.fields:
        if name not in known and name.partition(".")[0] != LABEL:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(known)}"
            raise UserError(f"policy: {name}: this run will not have such a field; {hint}")


def gate(home: Home, old: str, new: str, policy: Policy, dataset: str = "") -> Gated:
    """Decide whether the release of report `new` may ship in place of that of `old`, and keep what was decided.

    Args:
        old, new: ids of reports, or names of releases, which stand for their newest report; `dataset`: where a release
            has reports on several.

    Raises:
        UserError: there is no report `new`, it is not clear which are meant, or they cannot be a pair. A baseline that
            is missing is no bad input: the verdict is then INCOMPLETE, and never a PASS.
    """
    gated = _decided(home, old, new, policy, dataset)
    store(home, gated)
    return gated


def _decided(home: Home, old: str, new: str, policy: Policy, dataset: str) -> Gated:
    primary, margin = policy.primary.field, abs(policy.primary.floor)
    if not is_known(home, old):
        new = report_named(home, new, dataset)
        sentence = f"there is no report or release {old} in {home} to compare {new} with; evaluate the baseline first"
        rules = tuple(RuleOutcome(rule.text, "INCOMPLETE", "there is no baseline") for rule in policy.rules)
        sentence = f"whether {new} may ship cannot be said: {sentence}"
        return Gated(old, new, primary, margin, Verdict("INCOMPLETE", sentence, rules))
    old, new, found = _evidence(home, old, new, policy, dataset)
    return Gated(old, new, primary, margin, apply_policy(policy, found))


def gate_self_test(home: Home, old: str, new: str, policy: Policy, dataset: str = "", *, seed: int = 0) -> SelfTest:
    """Simulate the gate on the samples of two reports: its real rates of false alarms and of detection.

    Raises:
        UserError: a report is not there, they cannot be a pair, or they have nothing to simulate with.
    """
    return self_test(policy, _evidence(home, old, new, policy, dataset)[2], seed=seed)


def _evidence(home: Home, old: str, new: str, policy: Policy, dataset: str) -> tuple[str, str, Evidence]:
    """The ids of both reports, and what the policy asks about them."""
    old, new = pair_named(home, old, new, dataset)
    before, after = read_reports(home, [old, new])
    if old == new:
        raise UserError(f"{old}: a report cannot be compared with itself")
    if before.dataset != after.dataset:
        raise UserError(f"{old} is about {before.dataset}, and {new} about {after.dataset}")
    return old, new, evidence(home, before, after, policy)
