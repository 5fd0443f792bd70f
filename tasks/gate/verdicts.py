"""What gates have said: the noun, the exit codes of the command line, and the table `verdicts`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from answerkey.metrics_core.gate.gate import PRECEDENCE, Outcome, RuleOutcome, Verdict
from answerkey.tasks.warehouse.home import Home

EXIT_CODES: Mapping[str, int] = {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 3, "INCOMPLETE": 4}
"""What the command ends with; 2 is bad input."""


@dataclass(frozen=True, slots=True)
class Gated:
    """A verdict and the ids of the reports that it is about; `old` is the name that was asked for if there is none.

    `primary` is the METRIC.FIELD that decides, and `margin` the loss of it that is tolerated.
    """

    old: str
    new: str
    primary: str
    margin: float
    verdict: Verdict

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON: old, new, outcome, exit_code, sentence, policy and rules."""
        return {
            "old": self.old,
            "new": self.new,
            "outcome": self.verdict.outcome,
            "exit_code": EXIT_CODES[self.verdict.outcome],
            "sentence": self.verdict.sentence,
            "policy": [rule.rule for rule in self.verdict.rules],
            "rules": [asdict(rule) for rule in self.verdict.rules],
        }


def store(home: Home, gated: Gated) -> None:
    """Keep a verdict in the warehouse, beside those that were said before."""
    said = gated.verdict
    rules = json.dumps([asdict(rule) for rule in said.rules], allow_nan=False)
    with home.warehouse.writing() as warehouse:
        warehouse.execute(
            'INSERT INTO verdicts (created_at, old_report, new_report, outcome, sentence, "primary", margin, rules) '
            "VALUES (now(), ?, ?, ?, ?, ?, ?, ?)",
            [gated.old, gated.new, said.outcome, said.sentence, gated.primary, gated.margin, rules],
        )


def stored(home: Home, new_report_ids: Sequence[str]) -> tuple[Gated, ...]:
    """The newest verdict about each pair of reports whose new one is one of `new_report_ids`, in that order."""
    with home.warehouse.reading() as warehouse:
        rows = warehouse.execute(
            'SELECT old_report, new_report, "primary", margin, outcome, sentence, rules FROM verdicts '
            "WHERE new_report IN (SELECT unnest(?)) "
            "QUALIFY row_number() OVER (PARTITION BY old_report, new_report ORDER BY created_at DESC, rowid DESC) = 1 "
            "ORDER BY list_position(?, new_report), created_at, rowid",
            [list(new_report_ids)] * 2,
        ).fetchall()
    return tuple(
        Gated(old, new, primary, margin, Verdict(outcome, sentence, _rules(rules)))
        for old, new, primary, margin, outcome, sentence, rules in rows
    )


def _rules(text: str) -> tuple[RuleOutcome, ...]:
    return tuple(RuleOutcome(**rule) for rule in json.loads(text))


def exit_code(gates: Sequence[Gated], *, asked: bool = False) -> int:
    """What a command ends with: the code of the worst verdict. A gate that was `asked` and said nothing is no pass."""
    if not gates:
        return EXIT_CODES["INCOMPLETE"] if asked else 0
    return EXIT_CODES[worst(gates)]


def worst(gates: Sequence[Gated]) -> Outcome:
    """What several verdicts come to: a release that fails outweighs one of which too little is known.

    Raises:
        ValueError: there is no verdict.
    """
    return min((gated.verdict.outcome for gated in gates), key=PRECEDENCE.index)
