"""The form for a comparison: which two reports, and what to look at."""

from __future__ import annotations

from pydantic import Field

from answerkey.flows.forms.parameters import Form


class Comparing(Form):
    """Which two reports, and what to look at."""

    old: str = Field(
        title="Old",
        description="A report (faq/gpt-4/v2) or a release (gpt-4), which stands for its newest report.",
        examples=["gpt-4"],
        json_schema_extra={"position": 0},
    )
    new: str = Field(
        title="New",
        description="The report or release that is compared with the old one.",
        examples=["gpt-5"],
        json_schema_extra={"position": 1},
    )
    dataset: str = Field(
        "",
        title="Data set",
        description="Needed where both releases have reports on several.",
        json_schema_extra={"position": 2},
    )
    fields: list[str] = Field(
        default_factory=list,
        title="Fields",
        description="METRIC.FIELD, those to look at: fewer are easier to tell apart. Empty: all that both have.",
        examples=[["meaning_match.match"]],
        json_schema_extra={"position": 3},
    )
    primary: str = Field(
        "",
        title="Primary field",
        description="METRIC.FIELD that decides, declared before anybody has looked. Empty: none.",
        json_schema_extra={"position": 4},
    )
    level: float = Field(
        0.95,
        gt=0.5,
        lt=1.0,
        title="Level",
        description="Of the intervals, and 1 less the p-value from which a difference counts as shown.",
        json_schema_extra={"position": 5},
    )
    seed: int = Field(
        0,
        ge=0,
        title="Seed",
        description="Of the random sign flips and of the bootstrap.",
        json_schema_extra={"position": 6},
    )
