"""The form for judges: whom to ask, where the key is, and what it may cost. A key itself has no place in it."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import ConfigDict, Field

from answerkey.flows.forms.parameters import Form
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.judge_metric import check
from answerkey.metrics_core.judges.options import JudgeOptions, Jury
from answerkey.tasks.score.keys import key, settings
from answerkey.tasks.warehouse.home import Home

# What people may paste by mistake (a key, an address with a password in it) fits none of these, so the form
# refuses it before anything stores it.
MODEL_PATTERN = r"^[^\s/@]+/[^\s@?#]+(@[^\s@/:?#]+)?(@https?://[^\s@?#]+)?$"
JUDGE_PATTERN = rf"^offline$|{MODEL_PATTERN}"
ADDRESS_PATTERN = r"^(https?://[^\s@?#]+)?$"
PLACE_PATTERN = r"^(env:[A-Za-z_][A-Za-z0-9_]*|secret:[a-z0-9-]+|variable:[a-z0-9_-]+)?$"


class Judging(Form):
    """Whom to ask, where the key is, and what it may cost."""

    # Whatever was typed into the wrong field is in no message.
    model_config = ConfigDict(title="Judge", hide_input_in_errors=True, allow_inf_nan=False)

    judges: list[Annotated[str, Field(pattern=JUDGE_PATTERN)]] = Field(
        default_factory=list,
        title="Judges",
        description="offline, PROVIDER/MODEL or PROVIDER/MODEL@ADDRESS. Empty: what ANSWERKEY_JUDGE or the "
        "Prefect variable answerkey_judge names, else offline: rules and a small model on this machine, free.",
        examples=[["openai/gpt-4o-mini"]],
        json_schema_extra={"position": 0},
    )
    api_base: str = Field(
        "",
        pattern=ADDRESS_PATTERN,
        title="Address",
        description="http://... of an OpenAI-compatible server, for judges that name none. Empty: "
        "ANSWERKEY_JUDGE_BASE, the Prefect variable answerkey_judge_base, or the provider's own.",
        json_schema_extra={"position": 1},
    )
    key_from: str = Field(
        "",
        pattern=PLACE_PATTERN,
        title="Key",
        description="Where the key is: env:NAME, secret:BLOCK or variable:NAME; never the key itself. Empty: "
        "ANSWERKEY_JUDGE_KEY, the secret answerkey-judge-key, or the provider's own variable.",
        examples=["secret:judge-key"],
        json_schema_extra={"position": 2},
    )
    max_calls: int = Field(
        0,
        ge=0,
        title="Calls at most",
        description="Calls that the run may make; what is left over is skipped, and the next run goes on. 0: no limit.",
        json_schema_extra={"position": 3},
    )
    max_cost_usd: float = Field(
        0.0,
        ge=0.0,
        title="Dollars at most",
        description="What the run may cost, for judges whose price is known. 0: no limit.",
        json_schema_extra={"position": 4},
    )
    dry_run: bool = Field(
        False,
        title="Dry run",
        description="Say what it would cost, and stop before anybody is asked.",
        json_schema_extra={"position": 5},
    )
    cascade: float = Field(
        0.0,
        ge=0.0,
        lt=0.5,
        title="Cascade",
        description="The share of errors to accept, for instance 0.02, where the offline judge decides meaning_match "
        "first, and the judges are asked about the rest only. 0: they are asked about all.",
        json_schema_extra={"position": 6},
    )
    jury: Jury = Field(
        "majority",
        title="Jury",
        description="How several votes become one: majority, unanimous or mean.",
        json_schema_extra={"position": 7},
    )
    repeats: int = Field(
        1,
        ge=1,
        title="Repeats",
        description="How often each judge is asked about each sample. The spread of the votes is reported.",
        json_schema_extra={"position": 8},
    )
    concurrency: int = Field(
        64,
        ge=1,
        title="Calls at once",
        description="To one judge, at most. What it really bears is found out while it works.",
        json_schema_extra={"position": 9},
    )
    timeout_s: float = Field(
        60.0,
        gt=0.0,
        title="Seconds a call",
        description="After which a call is given up and made again.",
        json_schema_extra={"position": 10},
    )
    deadline_s: float = Field(
        180.0,
        gt=0.0,
        title="Seconds a question",
        description="After which a question to a judge is given up for good, with all its calls and waiting.",
        json_schema_extra={"position": 11},
    )

    def options(self, home: Home, run: str) -> JudgeOptions:
        """The same as the scoring library's options: without the key, with the ledger in `home`. Where no judge is
        named anywhere, the offline one.

        Raises:
            UserError: a judge is named twice, or what is asked for does not go together.
        """
        judges, api_base = settings(self.judges, self.api_base)
        try:
            options = JudgeOptions(
                judges=judges,
                api_base=api_base,
                jury=self.jury,
                repeats=self.repeats,
                concurrency=self.concurrency,
                timeout_s=self.timeout_s,
                deadline_s=self.deadline_s,
                max_calls=self.max_calls or None,
                max_cost_usd=self.max_cost_usd or None,
                ledger=home.ledger,
                run=run,
                cascade=self.cascade or None,
            )
        except ValueError as error:
            raise UserError(str(error)) from error
        options.seats()
        return options


def preflight(options: JudgeOptions, key_from: str) -> None:
    """Find out before anything is paid, or even loaded, whether the judges can be asked. Nobody is; the offline judge
    needs no asking.

    Raises:
        UserError: a judge's provider is not known, a key is missing, or the cost is to be limited and a price is
            not known.
    """
    if not options.offline:
        check(replace(options, api_key=key(key_from)))
