"""Verdicts of gates: the record, the exit codes of the command line, and the table `verdicts`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from answerkey.metrics_core.decide.policy import Policy
from answerkey.metrics_core.decide.verdict import PRECEDENCE, GateOutcome, RuleOutcome, Verdict
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.formatting import Displayed, Shown
from answerkey.metrics_core.metrics.label import LABELLED
from answerkey.metrics_core.policy_file import parse_policy
from answerkey.tasks.reports.report import Report
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements

if TYPE_CHECKING:
    import duckdb

EXIT_CODES: Mapping[str, int] = {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 3, "INCOMPLETE": 4}
"""What the command ends with; 2 is bad input."""
_SQL = statements(__name__)
_TAGS = {"FAIL": "failure", "INCONCLUSIVE": "failure", "INCOMPLETE": "error"}
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, not even escaped."""


@dataclass(frozen=True, slots=True)
class ReleaseVerdict:
    """A verdict and the ids of the reports that it is about; `old` is the name that was asked for if there is none.

    `policy` is as it was written: the verdict may have further rules, and its first rule may be about people instead.
    """

    old: str
    new: str
    policy: Policy
    verdict: Verdict

    @property
    def primary(self) -> str:
        """The METRIC.FIELD that decides."""
        return self.policy.primary.field

    @property
    def deciding_field(self) -> str:
        """The METRIC.FIELD whose numbers decided: the human label, where people decided and not the primary field."""
        return LABELLED if self.verdict.basis == "people" else self.primary

    @property
    def margin(self) -> float:
        """The loss of the primary field that is tolerated."""
        return abs(self.policy.primary.floor)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON: what `old` and `new` are, the verdict, and its rules."""
        return {
            "old": self.old,
            "new": self.new,
            "outcome": self.verdict.outcome,
            "exit_code": EXIT_CODES[self.verdict.outcome],
            "sentence": self.verdict.sentence,
            "basis": self.verdict.basis,
            "notes": list(self.verdict.notes),
            "n_releases": self.verdict.n_releases,
            "policy": [rule.rule for rule in self.verdict.rules],
            "rules": [asdict(rule) for rule in self.verdict.rules],
        }


class ShownVerdict(Displayed, Verdict):
    """A verdict that a notebook and `print` show as a table."""

    def shown(self) -> Shown:
        """The sentence, the rules with their reasons, and the notes."""
        rows = [(rule.rule, rule.outcome, rule.sentence) for rule in self.rules]
        return Shown(f"{self.outcome}: {self.sentence}", ("rule", "outcome", "why"), rows, self.notes)


def store_verdict(home: Home, gated: ReleaseVerdict) -> None:
    """Keep a verdict in the warehouse, beside those before, and the baseline that a PASS of a kept gate makes."""
    verdict = gated.verdict
    columns = {"old": gated.old, "new": gated.new, "primary": gated.primary, "margin": gated.margin}
    columns |= {"policy": json.dumps(gated.policy.as_dict()), "notes": list(verdict.notes)}
    columns["rules"] = json.dumps([asdict(rule) for rule in verdict.rules], allow_nan=False)
    columns |= {name: getattr(verdict, name) for name in ("outcome", "sentence", "basis", "n_releases")}
    # In one transaction: a baseline without the verdict that promoted it could not be explained
    with home.warehouse.writing() as warehouse:
        warehouse.execute(_SQL["keep"], columns)
        _promote(warehouse, gated)


def promote(home: Home, gated: ReleaseVerdict) -> None:
    """Make the release of a PASS the baseline of the gate that was kept after it, where the policy says so."""
    with home.warehouse.writing() as warehouse:
        _promote(warehouse, gated)


def _promote(warehouse: duckdb.DuckDBPyConnection, gated: ReleaseVerdict) -> None:
    decision = {"old": gated.old, "new": gated.new, "outcome": gated.verdict.outcome}
    warehouse.execute(_SQL["promote"], {**decision, "policy": json.dumps(gated.policy.as_dict())})


def anchor_of(home: Home, gated: ReleaseVerdict) -> str:
    """Return the anchor of the gate that has decided, if it is kept and has moved to another baseline; else empty."""
    gate = {"old": gated.old, "new": gated.new, "policy": json.dumps(gated.policy.as_dict())}
    rows = home.rows(_SQL["anchor"], gate)
    return str(rows[0][0]) if rows else ""


def releases_held_against(home: Home, old: Report, new: Report) -> int:
    """Count the releases that gates have compared with the release of `old` on its data set, this one included.

    New answers of a release count as another one. The same answers again do not.
    """
    names = {"dataset": new.dataset, "old": old.release, "new": new.release, "answers": new.answers_version}
    [(n_releases,)] = home.rows(_SQL["releases_held"], names)
    return int(n_releases)


def stored_verdicts(home: Home, new_report_ids: Sequence[str]) -> tuple[ReleaseVerdict, ...]:
    """Read the newest verdict about each pair of reports whose new one is one of `new_report_ids`, in that order.

    Raises:
        UserError: the stored rules of one cannot be read, because something other than answerkey has changed them.
    """
    verdicts = []
    rows = home.rows(_SQL["newest"], [list(new_report_ids)] * 2)
    for old, new, policy_json, outcome, sentence, rules_json, n_releases, notes, basis in rows:
        # Somebody may have changed them by other means
        try:
            policy = parse_policy(json.loads(policy_json), "verdicts")
            rules = tuple(RuleOutcome(**rule) for rule in json.loads(rules_json))
        except (TypeError, ValueError) as error:
            raise UserError(
                f"the verdict on {new} against {old}: its rules are no rules, somebody has changed them: gate again"
            ) from error
        verdict = Verdict(outcome, sentence, rules, n_releases=n_releases, notes=tuple(notes), basis=basis)
        verdicts.append(ReleaseVerdict(old, new, policy, verdict))
    return tuple(verdicts)


def exit_code(gates: Sequence[ReleaseVerdict], *, asked: bool = False) -> int:
    """Return the exit code of the worst verdict. A gate that was `asked` and said nothing is no pass."""
    if not gates:
        return EXIT_CODES["INCOMPLETE"] if asked else 0
    return EXIT_CODES[worst(gates)]


def worst(gates: Sequence[ReleaseVerdict]) -> GateOutcome:
    """Return what several verdicts come to: a release that fails outweighs one of which too little is known.

    Raises:
        ValueError: there is no verdict.
    """
    return min((gated.verdict.outcome for gated in gates), key=PRECEDENCE.index)


def junit(gated: ReleaseVerdict, decided_at: datetime, took_s: float, *, allow_inconclusive: bool = False) -> str:
    """Write a suite of JUnit.

    A rule that holds passes, one that is not shown to hold is a failure, and a gap in the evidence is an error. With
    `allow_inconclusive`, a rule that too few samples leave open is skipped. Names come from data, and may hold
    anything: characters that XML has no place for become U+FFFD.
    """
    verdict = gated.verdict
    rules = verdict.rules
    kinds = _TAGS | ({"INCONCLUSIVE": "skipped"} if allow_inconclusive else {})
    tags = [kinds.get(rule.outcome) for rule in rules]
    suite = ElementTree.Element(
        "testsuite",
        name=_xml(f"answerkey gate {gated.old} {gated.new}"),
        tests=str(len(rules)),
        failures=str(tags.count("failure")),
        errors=str(tags.count("error")),
        skipped=str(tags.count("skipped")),
        time=f"{took_s:.3f}",
        timestamp=decided_at.isoformat(timespec="seconds"),
    )
    for rule, tag in zip(rules, tags, strict=True):
        case = ElementTree.SubElement(suite, "testcase", classname="answerkey.gate", name=_xml(rule.rule), time="0")
        if tag:
            message = _xml(f"{rule.outcome}: {rule.sentence}")
            problem = ElementTree.SubElement(case, tag, type=rule.outcome, message=message)
            problem.text = _xml(rule.sentence)
        else:
            ElementTree.SubElement(case, "system-out").text = _xml(rule.sentence)

    # The verdict as a whole; readers of JUnit expect properties before the first case
    text = "\n".join([f"{verdict.outcome}: {verdict.sentence}", *verdict.notes])
    ElementTree.SubElement(suite, "system-out").text = _xml(text)
    properties = ElementTree.Element("properties")
    for name in ("basis", "n_releases"):
        if (value := getattr(verdict, name)) is not None:
            ElementTree.SubElement(properties, "property", name=name, value=str(value))
    suite.insert(0, properties)

    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=False) + "\n"


def _xml(text: str) -> str:
    """Return a text with a substitute for what XML cannot hold."""
    return _NOT_XML.sub("\ufffd", text)
