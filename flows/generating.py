"""The forms for generating answers: which questions, which model, how to ask it, and what to do afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field

from answerkey.flows.forms import Form, names_of
from answerkey.flows.parameters import MODEL_PATTERN, PAIRS, PLACE_PATTERN
from answerkey.metrics_core.llm.access import Access, CallLimits
from answerkey.metrics_core.llm.generate import Prompting, placeholders
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.validation import Option
from answerkey.tasks.load.columns import parse_map
from answerkey.tasks.releases.generate import Asking
from answerkey.tasks.releases.questions import QuestionSet, find_questions, text_or_file
from answerkey.tasks.warehouse.home import Home


class Questions(Form):
    """Which questions to ask."""

    usual = ("dataset", "name", "slices")
    model_config = ConfigDict(title="Questions")

    dataset: str = Field(
        min_length=1,
        title="Data set",
        description="A file with questions and known answers (CSV, TSV, JSONL, JSON, Parquet, FILE.duckdb::TABLE or a "
        "URL), or the name of a data set that was evaluated before.",
        examples=["examples/questions.jsonl"],
        json_schema_extra=names_of("datasets", typed_first=True),
    )
    name: Annotated[str, Option("--dataset-name")] = Field(
        "",
        title="Name",
        description="Name of the data set in a file. Empty: the name of the file.",
    )
    columns: Annotated[list[str], Option("--map", separator=PAIRS)] = Field(
        default_factory=list,
        title="Columns",
        description="For a file: KEY=PATH, for instance question=meta.prompt. Common names are recognised without it.",
    )
    slices: Annotated[list[str], Option("--slice")] = Field(
        default_factory=list,
        title="Slices",
        description="Columns of a file to report separately, for instance lang.",
    )

    def find(self, home: Home, work: Path) -> QuestionSet:
        """The data set, looked up.

        Raises:
            UserError: the data set does not exist, or a column is not KEY=PATH.
        """
        paths = parse_map(self.columns)
        return find_questions(home, self.dataset, work, name=self.name, paths=paths, slices=self.slices)


class Generating(Form):
    """Which model to ask, how, and what it may cost."""

    usual = ("release", "model", "key_from", "system", "template", "max_calls", "dry_run")
    # Whatever was typed into the wrong field is in no message.
    model_config = ConfigDict(title="Model", hide_input_in_errors=True, allow_inf_nan=False)

    release: str = Field(
        min_length=1,
        pattern=r"^[^\r\n]*[^\s][^\r\n]*$",
        title="Release",
        description="The name under which the answers are registered and compared.",
        examples=["gpt-4o-mini, short prompt"],
    )
    model: str = Field(
        pattern=MODEL_PATTERN,
        title="Model",
        description="PROVIDER/MODEL, or PROVIDER/MODEL@http://address of an OpenAI-compatible server.",
        examples=["openai/gpt-4o-mini"],
    )
    key_from: str = Field(
        "",
        pattern=PLACE_PATTERN,
        title="Key",
        description="Where the key is: env:NAME, secret:BLOCK or variable:NAME; never the key itself. Empty: "
        "ANSWERKEY_MODEL_KEY, the secret answerkey-model-key, or the provider's own variable.",
        examples=["secret:model-key"],
    )
    system: str = Field(
        "",
        title="System prompt",
        description="The instructions, or a text file (.txt, .md) with them. Empty: none.",
        examples=["Answer in one sentence."],
    )
    template: str = Field(
        "{question}",
        min_length=1,
        title="Template",
        description="What is asked, or a text file with it: {question} and other columns of the data set in braces.",
        examples=["{question}\nAnswer in the language {lang}."],
    )
    temperature: float = Field(
        0.0,
        ge=0.0,
        le=2.0,
        title="Temperature",
        description="0: the most probable answer, if the provider honours it.",
    )
    repeats: int = Field(
        1,
        ge=1,
        title="Answers per question",
        description="How often the model answers each question. The mean of a question's answers is its score. Above "
        "1, set a temperature above 0.",
    )
    max_tokens: int = Field(
        1_024,
        ge=1,
        title="Tokens at most",
        description="The longest answer, in tokens; a longer one is cut off there.",
    )
    seed: int = Field(0, title="Seed", description="Another seed asks everything anew.")
    max_calls: int = Field(
        0,
        ge=0,
        title="Calls at most",
        description="Calls that the run may make; the next run continues. 0: no limit.",
    )
    max_cost_usd: float = Field(
        0.0,
        ge=0.0,
        title="Dollars at most",
        description="What the run may cost, for a model whose price is known. 0: no limit.",
    )
    max_cost_total_usd: float = Field(
        0.0,
        ge=0.0,
        title="Dollars a month at most",
        description="What all runs that share the ledger may cost together in a calendar month (UTC). 0: no limit.",
    )
    dry_run: bool = Field(
        False,
        title="Dry run",
        description="Estimate the cost and stop before the model is asked.",
    )
    min_answered: float = Field(
        0.95,
        ge=0.0,
        le=1.0,
        title="Answered at least",
        description="Share of the answers that must be there for the release to be registered.",
    )
    concurrency: int = Field(
        64,
        ge=1,
        title="Calls at once",
        description="The most calls in flight. The model's rate limit is learned during the run.",
    )
    timeout_s: float = Field(
        120.0,
        gt=0.0,
        title="Seconds per call",
        description="Seconds after which a call is abandoned and retried.",
    )
    deadline_s: float = Field(
        300.0,
        gt=0.0,
        title="Seconds per question",
        description="Seconds after which a question is abandoned for good, retries and waiting included.",
    )

    def asking(self, home: Home, run: str) -> Asking:
        """The same as generation takes it: without the key, with the ledger in `home`.

        Raises:
            UserError: the template, the model or its address is malformed, or a file does not exist.
        """
        template = text_or_file(self.template)
        placeholders(template)
        model = ModelRef.parse(self.model)
        limits = CallLimits(
            self.concurrency, self.timeout_s, self.deadline_s, self.max_calls or None, self.max_cost_usd or None,
            self.max_cost_total_usd or None,
        )  # fmt: skip
        prompting = Prompting(
            text_or_file(self.system), template, self.temperature, self.seed, self.max_tokens
        )  # fmt: skip
        return Asking(prompting, model, limits, Access(ledger=home.ledger, run=run), self.key_from, self.repeats)


class Afterwards(Form):
    """What to do with the release once it is registered."""

    model_config = ConfigDict(title="Afterwards")

    evaluate: bool = Field(
        False,
        title="Evaluate",
        description="Evaluate the release at once. Off: leave it to an automation, the nightly run or a person.",
    )
    baseline: str = Field(
        "",
        title="Baseline",
        description="A release or report to compare it with. Empty: none.",
        json_schema_extra=names_of("releases"),
    )
    policy: str = Field(
        "",
        title="Policy",
        description="What must hold for it to ship in place of the baseline: the path of a YAML file, or its text.",
    )
    page: bool = Field(
        True,
        title="Page",
        description="Write a page for the browser into the folder pages of the warehouse.",
    )
