"""The prompts of the judges, which are files beside the code, and the shape of their replies."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources

from answerkey.metrics_core.llm.reply import Unreadable
from answerkey.metrics_core.sample import content_hash


@dataclass(frozen=True)
class Prompt:
    """The instructions of a judge and the shape of its reply.

    `text` is the whole system message, the same for every sample. `schema` is a strict JSON schema: every object
    closed, every field required.
    """

    name: str
    text: str
    schema: Mapping[str, object] = field(hash=False)

    @cached_property
    def schema_text(self) -> str:
        """The schema as JSON."""
        return json.dumps(self.schema, sort_keys=True)

    @cached_property
    def version(self) -> str:
        """The first six hex digits of the hash of text and schema, for the metric's signature."""
        return content_hash([self.text, self.schema])[:6]


def load_prompt(name: str, schema: Mapping[str, object]) -> Prompt:
    """Read `prompts/NAME.md`.

    Raises:
        FileNotFoundError: the prompt does not exist.

    >>> load_prompt("meaning_match", {}).text.splitlines()[0][:31]
    'You decide whether an answer to'
    """
    return Prompt(name, prompt_text(name), schema)


def extended(prompt: Prompt, name: str) -> Prompt:
    """The prompt with `prompts/NAME.md` behind it, for samples that have more to compare with.

    Raises:
        FileNotFoundError: there is no such file.

    >>> extended(load_prompt("meaning_match", {}), "incorrect_references").text.count("known to be wrong")
    2
    """
    return Prompt(prompt.name, f"{prompt.text}\n\n{prompt_text(name)}", prompt.schema)


def closed(**properties: Mapping[str, object]) -> dict[str, object]:
    """The schema of an object with these properties and no others, as strict formats want it.

    >>> closed(reason={"type": "string"})["required"]
    ['reason']
    """
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def one_of(reply: Mapping[str, object], name: str, choices: Sequence[str]) -> str:
    """The value of a property that must be one of a closed list, in any case, and with blanks for its underscores.

    Raises:
        Unreadable: "unreadable" for anything else.

    >>> one_of({"verdict": " Tie"}, "verdict", ["first", "second", "tie"])
    'tie'
    """
    value = reply.get(name)
    text = re.sub("[ _-]+", "_", value.strip().lower()) if isinstance(value, str) else ""
    if text not in choices:
        raise Unreadable("unreadable", f"{name} must be one of {', '.join(choices)}")
    return text


def prompt_text(name: str) -> str:
    """The text of `prompts/NAME.md`.

    Raises:
        FileNotFoundError: the prompt does not exist.
    """
    folder = resources.files("answerkey.metrics_core.judges.prompts")
    return folder.joinpath(f"{name}.md").read_text(encoding="utf-8").strip()
