"""What a user can set. These models are the forms of the Prefect UI and the arguments of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from answerkey.metrics_core.judges.options import OFFLINE_JUDGE, JudgeOptions
from answerkey.metrics_core.llm.access import NO_ACCESS, Access
from answerkey.metrics_core.metric import BlankAnswer, Metric
from answerkey.metrics_core.metrics.semantic_similarity import Aggregation
from answerkey.metrics_core.registry import METRICS, create
from answerkey.tasks.load.columns import parse_map
from answerkey.tasks.load.load import Source
from answerkey.tasks.validate.contract import Contract

SILENT = {
    "judges": "write PROVIDER/MODEL or PROVIDER/MODEL@http://address, for instance openai/gpt-4o-mini; or offline",
    "api_base": "write the address of a server, for instance http://127.0.0.1:8080/v1, without a password",
    "model": "write PROVIDER/MODEL or PROVIDER/MODEL@http://address, for instance openai/gpt-4o-mini",
    "key_from": "say where the key is (env:NAME, secret:BLOCK or variable:NAME); never give the key itself",
}
"""The message for fields that may hold a secret by mistake: it repeats nothing of what was typed."""


def wrong_value(error: Mapping[str, Any]) -> str:
    """What one of pydantic's errors says of a value."""
    if error["type"] == "literal_error":
        return f"choose from {error['ctx']['expected'].replace(' or ', ', ')}".replace("'", "")
    return str(error["msg"]).removeprefix("Value error, ")


class Form(BaseModel):
    """Refuses what it does not know, so that a misspelt parameter is not silently ignored."""

    model_config = ConfigDict(extra="forbid")


class Data(Form):
    """What to evaluate."""

    answers: str = Field(
        title="Answers",
        description="CSV, TSV, JSONL, JSON or Parquet file, FILE.duckdb::TABLE, or a URL of one of these.",
        examples=["examples/answers.jsonl"],
        json_schema_extra={"position": 0},
    )
    references: str = Field(
        "",
        title="References",
        description="A second file with the right answers, joined by id. Empty: they are in the answers.",
        json_schema_extra={"position": 1},
    )
    dataset: str = Field(
        "",
        title="Data set",
        description="Its name. Empty: the name of the file.",
        json_schema_extra={"position": 2},
    )
    release: str = Field(
        "",
        title="Release",
        description="The release that gave all these answers. Empty: a column says it for each.",
        json_schema_extra={"position": 3},
    )
    columns: list[str] = Field(
        default_factory=list,
        title="Columns of the answers",
        description="KEY=PATH, for instance id=meta.question_id. Usual names are recognised without.",
        json_schema_extra={"position": 4},
    )
    reference_columns: list[str] = Field(
        default_factory=list,
        title="Columns of the references",
        description="KEY=PATH, as above, for the references file.",
        json_schema_extra={"position": 5},
    )
    slices: list[str] = Field(
        default_factory=list,
        title="Slices",
        description="Columns to report separately, for instance lang.",
        json_schema_extra={"position": 6},
    )

    def source(self) -> Source:
        """The same as the loader takes it.

        Raises:
            UserError: a column is not KEY=PATH.
        """
        return Source(
            answers=self.answers,
            references=self.references or None,
            dataset=self.dataset,
            release=self.release,
            paths=parse_map(self.columns),
            reference_paths=parse_map(self.reference_columns),
            slices=tuple(self.slices),
        )


class Scoring(Form):
    """How to score."""

    metrics: list[str] = Field(
        default_factory=lambda: list(METRICS),
        title="Metrics",
        description="What to compute: names (see `answerkey metrics`), or metrics of your own by import path, like "
        "my_package.metrics:Politeness(threshold=0.9). meaning_match and ground_truth_similarity need a judge: the "
        "offline one, which is free, unless another one is named.",
        min_length=1,
        json_schema_extra={"position": 0},
    )
    profile: Literal["default", "continuous_eval_v0_2", "continuous_eval_v0_3"] = Field(
        "default",
        title="Profile",
        description="Old numbers of answer_correctness, for people who migrate from continuous-eval.",
        json_schema_extra={"position": 1},
    )
    blank_answer: BlankAnswer = Field(
        "zero",
        title="Blank answers",
        description="zero: a missing answer is a wrong answer. undefined: it is left out.",
        json_schema_extra={"position": 2},
    )
    embedding_models: list[str] = Field(
        default_factory=list,
        title="Embedding models",
        description="Names or paths of sentence-transformers models. Empty: the embedded default.",
        json_schema_extra={"position": 3},
    )
    aggregation: Aggregation = Field(
        "mean",
        title="Aggregation",
        description="How several embedding models become one similarity.",
        json_schema_extra={"position": 4},
    )
    threshold: float = Field(
        0.0,
        ge=0.0,
        le=1.0,
        title="Threshold",
        description="Semantic similarity from which an answer passes. 0: no pass or fail.",
        json_schema_extra={"position": 5},
    )
    only_failed: bool = Field(
        False,
        title="Only failed",
        description="Score again what failed in earlier runs, and nothing else.",
        json_schema_extra={"position": 6},
    )

    @field_validator("metrics", mode="before")
    @classmethod
    def _known(cls, metrics: Any) -> Any:
        create([str(name) for name in metrics] if isinstance(metrics, list | tuple) else [])
        return metrics

    @property
    def asks_judges(self) -> bool:
        """Whether any of the metrics needs one; the offline judge counts."""
        return any(metric.kind == "judge" for metric in create(self.metrics))

    def create(
        self, embedding_cache: str = "", judge: JudgeOptions = OFFLINE_JUDGE, access: Access = NO_ACCESS
    ) -> list[Metric]:
        """The metrics, each with those of the options that it has.

        Raises:
            UserError: a metric is not known or cannot be loaded, or an option does not fit one.
        """
        options: dict[str, object] = {
            "profile": None if self.profile == "default" else self.profile,
            "blank_answer": self.blank_answer,
            "aggregation": self.aggregation,
            "threshold": self.threshold or None,
            "embedding_cache": embedding_cache or None,
            "judge": judge,
            "access": access,
        }
        if self.embedding_models:
            options["embedding_models"] = tuple(self.embedding_models)
        return create(self.metrics, options)


class Limits(Form):
    """When the data are too bad to score, and the scores too few to trust."""

    max_quarantined: float = Field(
        0.20,
        ge=0.0,
        le=1.0,
        title="Quarantined at most",
        description="Share of rows that may break a rule before the run stops.",
        json_schema_extra={"position": 0},
    )
    missing_tolerance: float = Field(
        0.05,
        ge=0.0,
        le=1.0,
        title="Missing samples",
        description="Share of samples that one release may lack and another has, before it is warned of.",
        json_schema_extra={"position": 1},
    )
    length_drift: float = Field(
        1.5,
        gt=1.0,
        title="Length drift",
        description="Ratio of median answer lengths between releases from which it is warned of.",
        json_schema_extra={"position": 2},
    )
    min_coverage: float = Field(
        0.95,
        ge=0.0,
        le=1.0,
        title="Scored at least",
        description="Share of rows that every metric must score for a report to be COMPLETE, and not PARTIAL.",
        json_schema_extra={"position": 3},
    )

    def contract(self) -> Contract:
        """The same as validation takes it."""
        return Contract(**self.model_dump(exclude={"min_coverage"}))


class Waiting(Form):
    """Which of the registered releases."""

    release: str = Field(
        "",
        title="Release",
        description="A registered release (gpt-5, or faq/gpt-5), or a registration. Empty: all without a report.",
        json_schema_extra={"position": 0},
    )
    at_most: int = Field(
        10,
        ge=1,
        title="At most",
        description="How many this run evaluates. The next run goes on with the others.",
        json_schema_extra={"position": 1},
    )
