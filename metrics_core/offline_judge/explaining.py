"""Why the model decided, in plain words."""

from __future__ import annotations

from collections.abc import Mapping

from answerkey.metrics_core.metrics.meaning_match import Verdict


def explained(row: Mapping[str, float], *, matched: bool) -> tuple[Verdict, str]:
    """The verdict from the closed list, and the features that speak for it most plainly."""
    reasons = [text for holds, text in (_for(row) if matched else _against(row)) if holds][:2]
    reason = "; ".join(reasons)
    if matched:
        return "match", reason
    if row["refusal"] and row["recall"] < 1:
        return "refusal", reason
    if row["hedge"] and row["recall"] >= 1:
        return "hedged", reason
    return ("partial" if 0 < row["recall"] < 1 else "mismatch"), reason


def _for(row: Mapping[str, float]) -> list[tuple[bool, str]]:
    near = row["near_asked_focus"]
    return [
        (row["whole"] > 0, "the answer uses another name of the reference"),
        (row["date_state"] >= 3, "the answer has the date of the reference"),
        (row["date_state"] == 2, "the dates agree as far as both say them"),
        (row["recall"] >= 1, "the answer has every word of the reference that the question does not give"),
        (row["numbers_wanted"] > 0 and row["numbers_found"] >= 1, "the answer has the numbers of the reference"),
        (0 < row["recall"] < 1, f"the answer has {row['recall']:.0%} of the words of the reference"),
        (True, f"the answer to this question is near the reference in meaning (cosine {near:.2f})"),
    ]


def _against(row: Mapping[str, float]) -> list[tuple[bool, str]]:
    near = row["near_asked_focus"]
    missing = int(row["missing"])
    return [
        (row["refusal"] > 0, "the answer declines to answer"),
        (row["hedge"] > 0, "the answer is not sure"),
        (row["polarity"] < 0, "one says yes, the other no"),
        (row["date_state"] == -2, "the dates differ"),
        (row["numbers_wanted"] > 0 and row["numbers_found"] < 1, "a number of the reference is missing"),
        (0 < row["recall"] < 1, f"the answer lacks {missing} of the words of the reference"),
        (row["recall"] == 0, "the answer has no word of the reference that the question does not give"),
        (row["recall"] >= 1, "the words of the reference are there, but not as the answer to the question"),
        (True, f"the cosine with the reference is {near:.2f}"),
    ]
