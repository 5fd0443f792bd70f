"""The judge's prompts: files beside the code, each with a version that every change of a word changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources

from answerkey.metrics_core.sample import content_hash


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a judge is told and the shape that its reply must have.

    `text` is the whole system message, the same for every sample. `schema` is a strict JSON schema: every object
    closed, every field required; `schema_text` is the same as JSON. `version` goes into the metric's signature.
    """

    name: str
    text: str
    schema: Mapping[str, object] = field(hash=False)
    schema_text: str
    version: str


def load_prompt(name: str, schema: Mapping[str, object]) -> Prompt:
    """Read `prompts/NAME.md`; the version is the first six hex digits of the hash of text and schema.

    Raises:
        FileNotFoundError: there is no such prompt.
    """
    text = (
        resources.files("answerkey.metrics_core.judges.prompts")
        .joinpath(f"{name}.md")
        .read_text(encoding="utf-8")
        .strip()
    )
    return Prompt(name, text, schema, json.dumps(schema, sort_keys=True), content_hash([text, schema])[:6])
