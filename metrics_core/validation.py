"""The base class of all options that users set: a wrong value is one line, which repeats nothing secret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from answerkey.metrics_core.errors import UserError, did_you_mean

SILENT = {
    "judges": "write PROVIDER/MODEL or PROVIDER/MODEL@http://address, for instance openai/gpt-4o-mini; or offline",
    "api_base": "write the address of a server, for instance http://127.0.0.1:8080/v1, without a password",
    "model": "write PROVIDER/MODEL or PROVIDER/MODEL@http://address, for instance openai/gpt-4o-mini",
    "key_from": "say where the key is (env:NAME, secret:BLOCK or variable:NAME); never give the key itself",
}
"""The problem of fields that may hold a secret by mistake, whatever is wrong with them."""


COMMAS = r",(?![^(]*\))"
"""What separates the values of a list: commas, but for those within brackets."""


@dataclass(frozen=True, slots=True)
class Option:
    """How the command line calls a field, where that is not `--its-name`; part of the annotation of the field.

    Attributes:
        name: an option, as `--map`, or the placeholder of an argument without one, as FILE. Empty: the command line
            does not set the field.
        several: whether such an argument may be given several times.
        separator: a regular expression of what separates the values of a list.
    """

    name: str
    several: bool = False
    separator: str = COMMAS


NO_OPTION = Option("")
"""For fields that are set once for a project: in the file of `--config` or in a form, and by no option."""


class InvalidValue(UserError):
    """A field cannot have the value that it was given.

    Args:
        field: its name; empty where fields contradict each other.
        problem: what is wrong, and what would be right.
        value: what was given, if it is a number; nothing else is repeated in the message.
    """

    def __init__(self, field: str, problem: str, value: float | None = None) -> None:
        super().__init__(field, problem, value)
        self.field = field
        self.problem = problem
        self.value = value

    def __str__(self) -> str:
        if not self.field:
            return self.problem
        number = "" if self.value is None else f" {self.value}"
        return f"{self.field}{number}: {self.problem}"


class Validated(BaseModel):
    """A model whose fields are options. It refuses what it does not know, so that a typing error is not ignored.

    Raises:
        InvalidValue: a field is not known, or its value is wrong.

    >>> from pydantic import Field
    >>> class Grading(Validated):
    ...     threshold: float = Field(0.5, le=1)
    >>> Grading(threshold=2.0)
    Traceback (most recent call last):
    answerkey.metrics_core.validation.InvalidValue: threshold 2.0: must be less than or equal to 1; 2 % is 0.02
    """

    model_config = ConfigDict(extra="forbid")

    # Type checkers take the arguments from the fields.
    if not TYPE_CHECKING:

        def __init__(self, /, **values: Any) -> None:
            try:
                super().__init__(**values)
                return
            except ValidationError as error:
                invalid = _invalid_value(error, type(self))
            # Not as the cause: a traceback of it could show what was typed.
            raise invalid


def _invalid_value(error: ValidationError, model: type[BaseModel]) -> InvalidValue:
    details: Mapping[str, Any] = dict(error.errors()[0])
    field = str(details["loc"][0]) if details["loc"] else ""
    if not field:
        return InvalidValue("", _problem(details))
    # What our own validators say repeats nothing either.
    if field in SILENT and field in model.model_fields and details["type"] != "value_error":
        return InvalidValue(field, SILENT[field])
    if details["type"] == "extra_forbidden":
        return InvalidValue(field, f"there is no such field{did_you_mean(field, model.model_fields)}")
    value = details["input"]
    return InvalidValue(field, _problem(details), value if isinstance(value, int | float) else None)


def _problem(error: Mapping[str, Any]) -> str:
    if error["type"] == "literal_error":
        return f"choose from {error['ctx']['expected'].replace(' or ', ', ')}".replace("'", "")
    message = str(error["msg"]).removeprefix("Value error, ").replace("Input should be", "must be")
    value = error["input"]
    limits = error.get("ctx", {})
    # Whoever writes 95 for a share means percent.
    is_share = 1 in (limits.get("lt"), limits.get("le"))
    if is_share and isinstance(value, int | float) and 2 <= value <= 100:
        message += f"; {value:g} % is {value / 100:g}"
    return message
