"""One sample's embeddings to the cosines with its best reference."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from answerkey.metrics_core.embeddings.embed import Embedding, cosine
from answerkey.metrics_core.embeddings.encoder import Embedded
from answerkey.metrics_core.measurement import Failed, Undefined
from answerkey.metrics_core.metrics.semantic_aggregation import DECIMALS, mean
from answerkey.metrics_core.sample import Sample


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts of a sample as the models read them, each reference with its index."""

    answer: str
    references: tuple[tuple[int, str], ...]

    @classmethod
    def of(cls, sample: Sample) -> Texts:
        """The answer and the usable references of `sample`."""
        references = ((index, prepared(text)) for index, text in sample.usable_references)
        return cls(prepared(sample.answer or ""), tuple(references))

    def __iter__(self) -> Iterator[str]:
        yield self.answer
        for _, text in self.references:
            yield text


def prepared(text: str) -> str:
    """One normal form, no outer white space, and no half of a surrogate pair, which tokenizers refuse."""
    if not text.isascii():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        text = unicodedata.normalize("NFC", text)
    return text.strip()


@dataclass(frozen=True, slots=True)
class Comparison:
    """The cosine of each model with the best reference, and what is worth knowing beside them."""

    cosines: Sequence[float]
    details: Mapping[str, Any]


def compare(
    texts: Texts, found: Mapping[str, Mapping[str, Embedding]], rank: Callable[[Sequence[float]], float]
) -> Comparison | Undefined | Failed:
    """Compare the answer with each reference and keep the best.

    References without an embedding because the model has nothing to say about them are left out, like blank
    ones. One without an embedding because of a failure fails the sample, since it could have been the best.

    Args:
        texts: of one sample.
        found: model to text to embedding.
        rank: of two references the better one has the higher rank; then the mean and the single cosines
            decide, so that the order of the references never shows in the values.
    """
    answer = _by_all(texts.answer, found)
    if isinstance(answer, Failed):
        return answer
    if isinstance(answer, Undefined):
        return Undefined(f"answer: {answer.reason}")
    candidates: list[tuple[float, float, list[float], int]] = []
    unusable: dict[str, str] = {}
    chunks: dict[str, list[int]] = {}
    for index, text in texts.references:
        reference = _by_all(text, found)
        if isinstance(reference, Failed):
            return reference
        if isinstance(reference, Undefined):
            unusable[str(index)] = reference.reason
            continue
        cosines = _cosines(list(found), answer, reference)
        if isinstance(cosines, Failed):
            return cosines
        candidates.append((rank(cosines), mean(cosines), cosines, -index))
        chunks[str(index)] = [embedded.chunks for embedded in reference]
    if not candidates:
        return Undefined(f"references: {'; '.join(sorted(set(unusable.values())))}")
    _, _, cosines, position = max(candidates)
    details: dict[str, Any] = {"reference": -position}
    if unusable:
        details["unusable_references"] = unusable
    noted = _chunks_noted(list(found), [embedded.chunks for embedded in answer], chunks)
    if noted:
        details["chunks"] = noted
    return Comparison(cosines, details)


def _by_all(text: str, found: Mapping[str, Mapping[str, Embedding]]) -> list[Embedded] | Undefined | Failed:
    """The embeddings of a text by all models, or what a model without one says; failures come first."""
    embeddings = [by_text[text] for by_text in found.values()]
    for embedding in embeddings:
        if isinstance(embedding, Failed):
            return embedding
    for embedding in embeddings:
        if isinstance(embedding, Undefined):
            return embedding
    return [embedding for embedding in embeddings if isinstance(embedding, Embedded)]


def _cosines(names: Sequence[str], a: Sequence[Embedded], b: Sequence[Embedded]) -> list[float] | Failed:
    cosines = []
    for name, x, y in zip(names, a, b, strict=True):
        try:
            cosines.append(round(cosine(x.vector, y.vector), DECIMALS))
        except ValueError as error:
            return Failed("encoder", f"{name}: {error}")
    return cosines


def _chunks_noted(
    names: Sequence[str], answer: Sequence[int], references: Mapping[str, Sequence[int]]
) -> dict[str, Any]:
    """Model to the number of chunks, {"answer": 3, "references": {"0": 2}}, without texts in one piece."""
    noted: dict[str, Any] = {}
    for i, name in enumerate(names):
        entry: dict[str, Any] = {"answer": answer[i]} if answer[i] > 1 else {}
        long = {index: counts[i] for index, counts in references.items() if counts[i] > 1}
        if long:
            entry["references"] = long
        if entry:
            noted[name] = entry
    return noted
