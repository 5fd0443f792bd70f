"""Decide whether a release got better or worse, and how sure that is: from scores, labels and clusters alone.

Rests on numpy and scipy. It is a part of answerkey, and a package of its own: `answerkey-decide`.

>>> verdict = gate([1, 0, 1, 1] * 100, [1, 1, 1, 1] * 100, margin=0.02)
>>> verdict.outcome
'PASS'
"""

from .evidence import Evidence, PairedScores
from .intervals import Interval, clopper_pearson, unpaired_proportions
from .multiple_testing import holm
from .multiple_testing import planned_level as planned_look
from .policy import Policy, PolicyRule, parse_rule
from .ppi import ppi_difference as people_and_judge
from .scores import compare, gate, rows_needed
from .verdict import Verdict, apply_policy

__all__ = [
    "Evidence",
    "Interval",
    "PairedScores",
    "Policy",
    "PolicyRule",
    "Verdict",
    "apply_policy",
    "clopper_pearson",
    "compare",
    "gate",
    "holm",
    "parse_rule",
    "people_and_judge",
    "planned_look",
    "rows_needed",
    "unpaired_proportions",
]
