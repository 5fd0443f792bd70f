"""Rubrics: judges that users write as a file, with a criterion in words, a scale and examples.

name: politeness
version: 1
inputs: [question, answer]
criterion: The answer is polite. It may be short, and it may say no, but it does not mock or blame the person who asks.
scale: yes/no
examples:
  - question: Where is my parcel?
    answer: How should I know?
    verdict: no
    reason: It snubs the person who asks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, Literal

from answerkey.metrics_core.errors import UserError, did_you_mean
from answerkey.metrics_core.judges.prompt import Prompt, prompt_text
from answerkey.metrics_core.llm.reply import Unreadable, read_object, reason_of
from answerkey.metrics_core.llm.untrusted import encoded, quoted
from answerkey.metrics_core.metric import NAME
from answerkey.metrics_core.sample import Sample, content_hash
from answerkey.metrics_core.text import is_blank

if TYPE_CHECKING:
    from answerkey.metrics_core.document import Located

Input = Literal["question", "answer", "references", "context"]
"""What a rubric can be about."""

INPUTS: Mapping[Input, str] = {
    "question": '"question", a text',
    "answer": '"answer", the text to judge',
    "references": '"references", a list of answers that are right by definition',
    "context": '"context", a list of passages that the answer was to rest on',
}
"""The inputs in the order in which they are named, as the prompt describes them."""

SHIPPED = ("faithfulness", "answer_relevance", "completeness", "politeness", "refusal", "same_meaning")
"""The rubrics of this package, which go by their names."""

ENDINGS = (".yaml", ".yml")

KEYS = ("name", "version", "summary", "inputs", "criterion", "scale", "field", "examples")
"""What a rubric may say."""

MOST_EXAMPLES = 50
"""Examples that a rubric may have."""

_NEEDED = ("name", "inputs", "criterion", "scale")
_LABEL = re.compile(r"[\w-]{1,40}")
_RANGE = re.compile(r"(\d{1,3})\s*-\s*(\d{1,3})")
_MOST_LEVELS = 11
_LONGEST_CRITERION, _LONGEST_TEXT, _LONGEST_SUMMARY = 20_000, 20_000, 80
_SCALES = "write yes/no, a range like 1-5, or labels with their values from 0 to 1, like {rude: 0, polite: 1}"
_YES_NO = (("yes", 1.0), ("no", 0.0))
_UNEXPLAINED = "As a person judged it."
"""The reason in an example that gives none."""

Scale = tuple[tuple[str, float], ...]
"""Labels with their values from 0 to 1: the higher, the better."""


@dataclass(frozen=True, slots=True)
class Example:
    """A sample with the verdict that is right for it: one of the labels of the scale."""

    sample: Sample
    verdict: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Rubric:
    """A judge as its file describes it.

    Attributes:
        name: of the metric; `field`: of its number.
        version: in the signature; raise it to have everything judged again.
        inputs: what the judge is shown.
        criterion: what it goes by.
        scale: the verdicts that it can choose from, with their values.
        examples: for the prompt, and to test the judge with.
        source: what users name it by: its path, or the name of one of this package.
    """

    name: str
    version: int
    inputs: tuple[Input, ...]
    criterion: str
    scale: Scale
    field: str = "score"
    examples: tuple[Example, ...] = ()
    summary: str = ""
    source: str = ""

    @property
    def binary(self) -> bool:
        """Whether every verdict is worth 0 or 1."""
        return {value for _, value in self.scale} <= {0.0, 1.0}

    @property
    def scale_text(self) -> str:
        """The scale as a signature has it: `no=0,yes=1`."""
        return ",".join(f"{label}={value:.6g}" for label, value in sorted(self.scale))

    @property
    def text(self) -> str:
        """The rubric as a file: `read_rubric` reads the same from it."""
        import yaml

        plain = "yes/no" if self.scale == _YES_NO else dict(self.scale)
        examples = [
            {**self.shown(one.sample), "verdict": one.verdict, **({"reason": one.reason} if one.reason else {})}
            for one in self.examples
        ]
        content = {
            "name": self.name, "version": self.version, "summary": self.summary, "inputs": list(self.inputs),
            "field": self.field, "scale": plain, "criterion": self.criterion, "examples": examples,
        }  # fmt: skip
        kept = {key: value for key, value in content.items() if value}
        return str(yaml.safe_dump(kept, allow_unicode=True, sort_keys=False, width=100))

    def shown(self, sample: Sample) -> dict[str, object]:
        """The fields of a sample that the judge is shown."""
        texts: Mapping[Input, object] = {
            "question": sample.question,
            "answer": sample.answer,
            "references": [text for _, text in sample.usable_references],
            "context": [text for text in sample.context if not is_blank(text)],
        }
        return {name: texts[name] for name in self.inputs}

    def prompt(self, sample: Sample | None = None) -> Prompt:
        """What the judge is told about `sample`: everything but an example that is this very sample, which it could
        copy. So an example tests the judge as any other sample would. None: everything.
        """
        fields = None if sample is None else self.shown(sample)
        kept = tuple(one for one in self.examples if fields is None or self.shown(one.sample) != fields)
        return _prompt(self if len(kept) == len(self.examples) else replace(self, examples=kept))

    def read(self, reply: str) -> tuple[str, float, str]:
        """The verdict of a reply, its value and its reason.

        Raises:
            Unreadable: as `read_object`; "unreadable" for a verdict that is not on the scale.

        >>> rubric = Rubric("short", 1, ("answer",), "The answer is short.", (("yes", 1.0), ("no", 0.0)))
        >>> rubric.read('{"reason": "One word.", "verdict": "Yes"}')
        ('yes', 1.0, 'One word.')
        """
        given = read_object(reply)
        label = self.label(given.get("verdict"))
        if label is None:
            raise Unreadable("unreadable", f"verdict must be one of {', '.join(dict(self.scale))}")
        return label, dict(self.scale)[label], reason_of(given)

    def label(self, given: object) -> str | None:
        """The label that a verdict means: in any case, true for yes, 4 for "4"; None if it is none of them."""
        if isinstance(given, bool):
            given = "yes" if given else "no"
        if isinstance(given, float) and given.is_integer():
            given = int(given)
        text = str(given).strip().casefold() if isinstance(given, str | int) else ""
        return next((label for label, _ in self.scale if label.casefold() == text), None)


@cache
def _prompt(rubric: Rubric) -> Prompt:
    schema: dict[str, object] = {
        "type": "object",
        "properties": {
            "reason": {"type": "string"},
            "verdict": {"type": "string", "enum": [label for label, _ in rubric.scale]},
        },
        "required": ["reason", "verdict"],
        "additionalProperties": False,
    }
    examples = "".join(_shown(rubric, one) for one in rubric.examples)
    text = Template(prompt_text("rubric")).substitute(
        fields="; ".join(INPUTS[name] for name in rubric.inputs),
        criterion=rubric.criterion,
        verdicts=_verdicts(rubric.scale),
        first=rubric.scale[0][0],
        examples=f"\n\n## Examples{examples}" if examples else "",
    )
    return Prompt(rubric.name, text, schema, json.dumps(schema, sort_keys=True), content_hash([text, schema])[:6])


def _verdicts(scale: Scale) -> str:
    labels = [label for label, _ in scale]
    if scale == _YES_NO:
        return "- yes: the criterion is met.\n- no: it is not met. In doubt, choose no."
    if all(label.isdecimal() for label in labels):
        low, high = labels[0], labels[-1]
        return (
            f"A whole number from {low} to {high}, as a text: {low} where the criterion is not met at all, {high} "
            "where it is met in full."
        )
    return f"Choose one of: {', '.join(labels)}. The criterion says what they mean."


def _shown(rubric: Rubric, example: Example) -> str:
    reply = {"reason": example.reason or _UNEXPLAINED, "verdict": example.verdict}
    return f"\n\n{encoded(rubric.shown(example.sample))}\n{json.dumps(reply, ensure_ascii=False)}"


def read_rubric(target: str) -> Rubric:
    """A rubric by the path of its file, or by its name if it is one of `SHIPPED`.

    Raises:
        UserError: the file cannot be read, or something in it is wrong; a line for each problem.

    >>> read_rubric("politeness").scale
    (('yes', 1.0), ('no', 0.0))
    """
    from answerkey.metrics_core.document import read_located

    if target in SHIPPED:
        folder = resources.files("answerkey.metrics_core.judges.rubrics")
        return _rubric(read_located(folder.joinpath(f"{target}.yaml")), target)
    if not Path(target).is_file():
        raise UserError(f"{target}: there is no such rubric; write its path as seen from {Path.cwd()}")
    return _rubric(read_located(Path(target)), target)


def _rubric(located: Located, source: str) -> Rubric:
    problems = [f"{located.where(place)}: {message}" for place, message in _problems(located.content)]
    if problems:
        raise UserError("\n".join(problems))
    content: Mapping[str, Any] = located.content
    given = {key: content[key] for key in ("version", "field", "summary") if content.get(key) is not None}
    inputs = _inputs(content["inputs"])
    bare = Rubric(content["name"], 1, inputs, content["criterion"].strip(), _scale(content["scale"]))
    examples = (
        Example(_sample(number, example, inputs), str(bare.label(example["verdict"])), example.get("reason") or "")
        for number, example in enumerate(content.get("examples") or (), start=1)
    )
    return replace(bare, **given, examples=tuple(examples), source=source)


def _sample(number: int, example: Mapping[str, Any], inputs: Sequence[Input]) -> Sample:
    given = {name: example[name] for name in inputs}
    return Sample(f"example {number}", **{"answer": None, **given})


def _inputs(given: object) -> tuple[Input, ...]:
    named = [given] if isinstance(given, str) else given if isinstance(given, list) else []
    return tuple(name for name in INPUTS if name in named)


def _scale(given: object) -> Scale:
    """The scale; empty if `given` is not a valid one."""
    if given == "yes/no":
        return _YES_NO
    if isinstance(given, str) and (bounds := _RANGE.fullmatch(given.strip())):
        low, high = int(bounds[1]), int(bounds[2])
        if not 0 < high - low < _MOST_LEVELS:
            return ()
        return tuple((str(level), (level - low) / (high - low)) for level in range(low, high + 1))
    if not isinstance(given, dict) or not 1 < len(given) <= _MOST_LEVELS:
        return ()
    fits = all(
        _LABEL.fullmatch(label) and _is_number(value) and 0 <= value <= 1 for label, value in given.items()
    ) and len({label.casefold() for label in given}) == len(given)
    return tuple((label, float(value)) for label, value in given.items()) if fits else ()


def _choice(given: str, known: Sequence[str]) -> str:
    return did_you_mean(given, known) or f"; choose from {', '.join(known)}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _problems(content: object) -> Iterator[tuple[str, str]]:
    """Place and message of everything that is wrong."""
    if not isinstance(content, dict):
        yield "", f"a rubric has the keys {', '.join(_NEEDED)} and more, for instance name: politeness"
        return
    for key in content:
        if key not in KEYS:
            yield key, f"{key}: a rubric has no such key{_choice(key, KEYS)}"
    for key in _NEEDED:
        if content.get(key) in (None, "", [], {}):
            yield key, f"{key}: is missing; {_WRITTEN[key]}"
    for key in ("name", "field"):
        given = content.get(key)
        if given and not (isinstance(given, str) and NAME.fullmatch(given)):
            yield key, f"{key}: {quoted(given)} must be made of a-z, 0-9 and _, and start with a letter"
    version = content.get("version", 1)
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        yield "version", f"version: {quoted(version)} must be a whole number from 1"
    yield from _text_problems(content)
    known = content.get("inputs")
    wrong = _unknown_inputs(known)
    if wrong:
        yield "inputs", f"inputs: {quoted(wrong[0])} cannot be judged; choose from {', '.join(INPUTS)}"
    scale = _scale(content.get("scale"))
    if content.get("scale") and not scale:
        yield "scale", f"scale: {quoted(content['scale'])} is no scale; {_SCALES}"
    elif scale and len({value for _, value in scale}) == 1:
        yield "scale", f"scale: every label is worth {scale[0][1]:g}; {_SCALES}"
    if scale and not wrong and known:
        yield from _example_problems(content.get("examples"), _inputs(known), scale)


_WRITTEN = {
    "name": "write what the metric is called, for instance politeness",
    "inputs": f"write what the judge is shown, a list of some of {', '.join(INPUTS)}",
    "criterion": "write in words what an answer must be like",
    "scale": _SCALES,
}


def _text_problems(content: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, longest in (("criterion", _LONGEST_CRITERION), ("summary", _LONGEST_SUMMARY)):
        given = content.get(key)
        if given is not None and not isinstance(given, str):
            yield key, f"{key}: {quoted(given)} must be a text; put it in quotes, or after a |"
        elif given and len(given) > longest:
            yield key, f"{key}: {len(given):,} characters; write at most {longest:,}"


def _unknown_inputs(given: object) -> list[object]:
    """What is named as an input and is not one."""
    named = [given] if isinstance(given, str) else given if isinstance(given, list) else [given] if given else []
    return [one for one in named if not (isinstance(one, str) and one in INPUTS)]


def fits(rubric: Rubric, sample: Sample) -> bool:
    """Whether a sample could stand among the examples of a rubric.

    >>> rubric = read_rubric("politeness")
    >>> [fits(rubric, Sample("1", answer, (), "When?")) for answer in ("At eleven.", "At eleven." * 9_999)]
    [True, False]
    """
    return all(_fits(name, given) for name, given in zip(rubric.inputs, rubric.shown(sample).values(), strict=True))


def _example_problems(given: object, inputs: Sequence[Input], scale: Scale) -> Iterator[tuple[str, str]]:
    if given is None:
        return
    if not isinstance(given, list) or len(given) > MOST_EXAMPLES:
        yield "examples", f"examples: must be a list of at most {MOST_EXAMPLES}, each with a verdict"
        return
    keys, rubric = (*inputs, "verdict", "reason"), Rubric("", 1, tuple(inputs), "", scale)
    for number, example in enumerate(given):
        place = f"examples[{number}]"
        if not isinstance(example, dict):
            yield place, f"{place}: must have {', '.join((*inputs, 'verdict'))}"
            continue
        for key in example:
            if key not in keys:
                yield f"{place}.{key}", f"{place}.{key}: an example has no such key{_choice(key, keys)}"
        for name in inputs:
            if not _fits(name, example.get(name)):
                kind = "a text, or a list of texts" if name in ("references", "context") else "a text"
                yield f"{place}.{name}", f"{place}.{name}: must be {kind} that is not blank; put it in quotes"
        if rubric.label(example.get("verdict")) is None:
            labels = ", ".join(label for label, _ in scale)
            yield f"{place}.verdict", f"{place}.verdict: {quoted(example.get('verdict'))} is not one of {labels}"
        if not isinstance(example.get("reason", ""), str):
            yield f"{place}.reason", f"{place}.reason: must be a text; put it in quotes"


def _fits(name: Input, given: object) -> bool:
    many = isinstance(given, list) and name in ("references", "context")
    texts = given if isinstance(given, list) and many else [given]
    return bool(texts) and all(
        isinstance(text, str) and not is_blank(text) and len(text) <= _LONGEST_TEXT for text in texts
    )
