"""The form for judges: which to ask, where the key is, and what it may cost. A key itself has no place in it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, ValidationError, field_validator, model_validator

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.judge_metric import check
from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.tasks.score.keys import key, settings

# What people may paste by mistake (a key, an address with a password in it) fits none of these, so the form
# refuses it before anything stores it.
MODEL_PATTERN = r"^[^\s/@]+/[^\s@?#]+(@[^\s@/:?#]+)?(@https?://[^\s@?#]+)?$"
JUDGE_PATTERN = rf"^offline$|{MODEL_PATTERN}"
ADDRESS_PATTERN = r"^(https?://[^\s@?#]+)?$"
PLACE_PATTERN = r"^(env:[A-Za-z_][A-Za-z0-9_]*|secret:[a-z0-9-]+|variable:[a-z0-9_-]+)?$"


class Judging(JudgeOptions):
    """Which judges to ask, where the key is, and what it may cost.

    Every field of `JudgeOptions` is one of the form. The two below also look in the environment and in Prefect, and
    refuse what may contain a password, since the server stores what is typed.
    """

    judges: tuple[Annotated[str, Field(pattern=JUDGE_PATTERN)], ...] = Field(
        (),
        title="Judges",
        description="offline, PROVIDER/MODEL or PROVIDER/MODEL@ADDRESS. Empty: what ANSWERKEY_JUDGE or the "
        "Prefect variable answerkey_judge names, else offline: rules and a small model on this machine, free.",
        examples=[["openai/gpt-4o-mini"]],
    )
    api_base: str = Field(
        "",
        pattern=ADDRESS_PATTERN,
        title="Address",
        description="http://... of an OpenAI-compatible server, for judges that name none. Empty: "
        "ANSWERKEY_JUDGE_BASE, the Prefect variable answerkey_judge_base, or the provider's own.",
    )
    key_from: str = Field(
        "",
        pattern=PLACE_PATTERN,
        title="Key",
        description="Where the key is: env:NAME, secret:BLOCK or variable:NAME; never the key itself. Empty: "
        "ANSWERKEY_JUDGE_KEY, the secret answerkey-judge-key, or the provider's own variable.",
        examples=["secret:judge-key"],
    )
    dry_run: bool = Field(
        False,
        title="Dry run",
        description="Estimate the cost and stop before any judge is asked.",
    )

    @field_validator("judges")
    @classmethod
    def _offline_if_empty(cls, judges: tuple[str, ...]) -> tuple[str, ...]:
        # Empty means the judge of the environment, which `options` looks up.
        return judges

    @model_validator(mode="after")
    def _consistent(self) -> Judging:
        # Only once it is known which judges are meant.
        return self

    def options(self) -> JudgeOptions:
        """The options of the scoring library, with the judges that the environment or Prefect names, else the offline
        one.

        Raises:
            UserError: a judge is named twice, or the options contradict each other.
        """
        judges, api_base = settings(self.judges, self.api_base)
        given = {name: getattr(self, name) for name in JudgeOptions.model_fields}
        try:
            options = JudgeOptions(**{**given, "judges": judges, "api_base": api_base})
        except ValidationError as error:
            messages = [one["msg"].removeprefix("Value error, ") for one in error.errors(include_input=False)]
            raise UserError("; ".join(messages)) from None
        options.seats()
        return options


def preflight(options: JudgeOptions, key_from: str) -> None:
    """Check before anything is paid, or even loaded, that the judges can be asked. No call is made.

    Raises:
        UserError: the provider of a judge is unknown, a key is missing, or the cost is to be limited and a price is
            unknown.
    """
    if not options.offline:
        check(options, key(key_from))
