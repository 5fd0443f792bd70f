"""What the new reports of releases with several answers to each question have besides: pass@k, pass^k, and counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.decide.intervals import pass_at_k, pass_hat_k
from answerkey.metrics_core.metric import Field
from answerkey.tasks.warehouse.sql import statements

if TYPE_CHECKING:
    import duckdb

_SQL = statements(__name__)

Fields = Mapping[tuple[str, str], Field]

_CHANCE = Field("chance", "of k answers to a question, that any, or each, is right")
"""With more than k answers both are shares of subsets, between 0 and 1."""


def add_passes(warehouse: duckdb.DuckDBPyConnection, repeats: Mapping[str, int], fields: Fields) -> Fields:
    """Add pass@k and pass^k to `scores`, a row per question, for every field that is 0 or 1.

    Args:
        repeats: by report id, the usual number of answers to a question, which is k. A report with 1 gets none.
        fields: of the reports, by metric and name.

    Returns:
        The fields with those that were added, `NAME_pass@K` and `NAME_pass^K`, behind the one that they are of.
    """
    binary = [key for key, field in fields.items() if field.binary]
    several = {report_id: k for report_id, k in repeats.items() if k > 1}
    for report_id, k in several.items():
        _add(warehouse, report_id, k, binary)
    found: dict[tuple[str, str], Field] = {}
    for (metric, name), field in fields.items():
        found[metric, name] = field
        for k in sorted(set(several.values()) if field.binary else ()):
            found |= dict.fromkeys([(metric, f"{name}_pass@{k}"), (metric, f"{name}_pass^{k}")], _CHANCE)
    return found


def _add(warehouse: duckdb.DuckDBPyConnection, report_id: str, k: int, fields: list[tuple[str, str]]) -> None:
    about = {
        "report_id": report_id,
        "metrics": [metric for metric, _ in fields],
        "fields": [name for _, name in fields],
    }
    warehouse.execute(_SQL["count_right"], {**about, "k": k})
    pairs = warehouse.execute(_SQL["pairs"], {"k": k}).fetchall()
    warehouse.execute(
        _SQL["add_passes"],
        {
            "k": k,
            "n": [n for n, _ in pairs],
            "right": [right for _, right in pairs],
            "any": [pass_at_k(n, right, k) for n, right in pairs],
            "each": [pass_hat_k(n, right, k) for n, right in pairs],
        },
    )
    warehouse.execute("DROP TABLE right_answers")


def count_answers(warehouse: duckdb.DuckDBPyConnection, reports: Sequence[str], fields: Fields) -> None:
    """Give the aggregates of reports, which are made of means per question, the counts and bounds of their answers.

    And the variance of the numbers within a question, where questions have several.
    """
    warehouse.execute(_SQL["count_answers"], {"reports": list(reports), **as_columns(fields)})


def as_columns(fields: Fields) -> dict[str, list[Any]]:
    """Fields as the statements about reports take them: NULL where there is no highest value."""
    return {
        "metrics": [metric for metric, _ in fields],
        "fields": [name for _, name in fields],
        "lows": [field.low for field in fields.values()],
        "highs": [field.as_dict()["high"] for field in fields.values()],
    }
