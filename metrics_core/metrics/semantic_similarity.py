"""Semantic similarity: how close an answer is in meaning to a reference, by the cosine of sentence embeddings."""

from __future__ import annotations

import math
import re
import time
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

from answerkey.metrics_core.embeddings.calibration import KNOTS, band, pairs_for, rating
from answerkey.metrics_core.embeddings.encoder import Encoder
from answerkey.metrics_core.embeddings.models import field_suffixes, identify
from answerkey.metrics_core.measurement import Failed, Measurement, Outcome, Scored, Undefined, Usage
from answerkey.metrics_core.metric import Field, Metric, identical_reference, option
from answerkey.metrics_core.sample import Sample

if TYPE_CHECKING:
    from answerkey.metrics_core.embeddings.embed import Embedding, Embeddings
    from answerkey.metrics_core.embeddings.encoder import Embedded

Aggregation = Literal["mean", "median", "min", "max", "vote", "consensus"]

DEFAULT_MODELS = ("use-multilingual",)
"""One multilingual model, so that every row of a data set is measured on one scale, whatever its language.

`minilm` is the better one on English and misleads on everything else: docs and `benchmarks/semantic.py`.
"""

DECIMALS = 6
"""Cosines are kept to six decimals.

The last bits of an embedding depend on which texts shared its batch (measured: up to 3e-7 in the cosine), so
further digits would say something about the batch and not about the texts.
"""

VOTE_AT = 0.5
"""A model votes for a text from this cosine on, unless a threshold is set."""


@dataclass(frozen=True)
class SemanticSimilarity(Metric):
    """Cosine similarity of the answer and its best reference; see `answerkey.metrics_core.metric.Metric`.

    Args:
        models: names (see `answerkey.metrics_core.embeddings.models`) or `Encoder` objects, one or several.
        aggregation: from the cosines of several models to one (see `aggregate`).
        threshold: adds the field `pass`: 1 where the aggregated similarity, a cosine, reaches it. It is compared after
            the aggregation, so `pass` is 0 or 1 however many models there are.
        tolerance: the largest difference between models that still is a consensus.
        blank_answer: the policy for blank answers.
        embedding_cache: a folder for the embeddings of earlier calls; it changes no number.

    Its fields are `similarity`, `similarity_<model>` for each of several models, `calibrated` where all of them are
    packaged ones, and `pass` where there is a threshold. The best reference is the one with the highest aggregated
    similarity; all fields come from it. `calibrated` is what people say of texts with such a cosine (see `calibration`;
    of several models the mean), and the reason names its band.

    An answer that equals a reference after normalisation has similarity 1, without a model. A sample is
    undefined where a model cannot read the answer or any reference (letters that it does not know, a zero
    vector), or where `consensus` finds none. It fails where a model fails on one of its texts: a number from
    the remaining models would be another number.

    Raises:
        ValueError: an option is out of its range, or a model is named twice.
    """

    name = "semantic_similarity"
    summary = "cosine of sentence embeddings, one or several models"
    kind = "semantic"
    version = 2

    models: Sequence[str | Encoder] = option(
        DEFAULT_MODELS,
        title="Embedding models",
        description="Names or paths of sentence-transformers models, one or several.",
        min_length=1,
    )
    aggregation: Aggregation = option(
        "mean",
        title="Aggregation",
        description="How the similarities of several embedding models are combined into one.",
    )
    threshold: float | None = option(
        None,
        title="Threshold",
        description="Lowest semantic similarity with which an answer passes; it adds the field pass.",
        gt=0,
        le=1,
    )
    tolerance: float = option(
        0.1,
        title="Tolerance",
        description="The largest difference between embedding models that the aggregation consensus accepts.",
        ge=0,
    )
    embedding_cache: str | None = option(
        None, title="Embedding cache", description="a folder for the embeddings of earlier calls", signed=False
    )

    def __post_init__(self) -> None:
        models = (self.models,) if isinstance(self.models, str) else tuple(self.models)
        object.__setattr__(self, "models", models)
        if not math.isfinite(self.tolerance):
            raise ValueError(f"tolerance {self.tolerance!r} is not a number from 0 on")
        super().__post_init__()

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """Fixed by the options."""
        return tuple(self._fields())

    def _fields(self) -> Iterator[Field]:
        vote = self.aggregation == "vote"
        yield Field("similarity", _DESCRIPTION, low=0.0 if vote else -1.0, binary=vote)
        names = _names(self.models)
        suffixes = field_suffixes(names)
        if len(names) > 1:
            for suffix, name in zip(suffixes, names, strict=True):
                yield Field(f"similarity_{suffix}", f"cosine of the embeddings of {name}", low=-1.0)
        if self._is_calibrated:
            yield Field("calibrated", "what people say of texts with such a cosine: 0 nothing in common, 1 the same")
        if self.threshold is not None:
            yield Field("pass", f"1 where similarity reaches {self.threshold}", binary=True)

    @property
    def _is_calibrated(self) -> bool:
        # Another encoder may have the name of a packaged one.
        return all(isinstance(model, str) and model in KNOTS for model in self.models)

    @property
    def signature(self) -> str:
        """For instance `semantic_similarity|v2|models:minilm@53aa5117|agg:mean|threshold:none|...`.

        Made from constants and from files, without loading a model.

        Raises:
            EncoderError: a model is not there.
        """
        models = ",".join(sorted(map(_label, self.models)))
        how = f"consensus({float(self.tolerance)})" if self.aggregation == "consensus" else self.aggregation
        threshold = "none" if self.threshold is None else str(float(self.threshold))
        return (
            f"{self.name}|v{self.version}|models:{models}|agg:{how}|threshold:{threshold}|chunk:max_seq|refs:best"
            f"|blank:{self.blank_answer}"
        )

    def measure(self, samples: Sequence[Sample]) -> list[Measurement]:
        """Score `samples`: same length, same order.

        Usage is that of the whole call, in equal parts on the samples whose texts went to the models.

        Raises:
            EncoderError: a model is not there or cannot be loaded.
        """
        signature = self.signature
        started = time.perf_counter()
        outcomes = {i: known for i, sample in enumerate(samples) if (known := self.without_score(sample))}
        pending = {i: sample for i, sample in enumerate(samples) if i not in outcomes}
        usage = Usage()
        if pending:
            found = self._embeddings(list(pending.values()))
            for i, sample in pending.items():
                outcomes[i] = self._with_models(sample, found)
            usage = _usage(found.values(), time.perf_counter() - started, len(pending))
        return [
            Measurement(sample.sample_id, self.name, signature, outcomes[i], usage if i in pending else Usage())
            for i, sample in enumerate(samples)
        ]

    def without_score(self, sample: Sample) -> Outcome | None:
        """As for every metric; an answer that equals a reference needs no model either."""
        known = super().without_score(sample)
        if known is not None:
            return known
        index = identical_reference(sample)
        return None if index is None else self._scored(sample, [1.0] * len(self.models), {"reference": index})

    def _embeddings(self, samples: Sequence[Sample]) -> dict[str, Embeddings]:
        # numpy is not for those who only ask what the fields are.
        from answerkey.metrics_core.embeddings.cache import EmbeddingCache
        from answerkey.metrics_core.embeddings.embed import embed
        from answerkey.metrics_core.embeddings.models import load_encoder

        cache = EmbeddingCache(Path(self.embedding_cache)) if self.embedding_cache else None
        encoders = [load_encoder(model) if isinstance(model, str) else model for model in self.models]
        texts = {text for sample in samples for text in Texts.of(sample)}
        named = zip(_names(self.models), encoders, strict=True)
        return {name: embed(encoder, texts, cache) for name, encoder in named}

    def _with_models(self, sample: Sample, found: Mapping[str, Embeddings]) -> Outcome:
        by_model = {name: embeddings.by_text for name, embeddings in found.items()}
        compared = compare(Texts.of(sample), by_model, self._rank)
        return self._scored(sample, compared.cosines, compared.details) if isinstance(compared, Cosines) else compared

    def _rank(self, cosines: Sequence[float]) -> float:
        # Without a consensus a reference still can be the best one; then the sample has none.
        aggregated = self._aggregate(cosines)
        return mean(cosines) if aggregated is None else aggregated

    def _aggregate(self, cosines: Sequence[float]) -> float | None:
        return aggregate(cosines, self.aggregation, threshold=self.threshold, tolerance=self.tolerance)

    def _scored(self, sample: Sample, cosines: Sequence[float], details: Mapping[str, Any]) -> Outcome:
        similarity = self._aggregate(cosines)
        if similarity is None:
            return Undefined(
                f"no consensus: the cosines of the models differ by {spread(cosines):g}, more than {self.tolerance:g}"
            )
        values = [similarity]
        if len(cosines) > 1:
            values += cosines
        reason = None
        if self._is_calibrated:
            pairs = pairs_for(sample.answer or "", sample.references[details["reference"]])
            ratings = [rating(name, pairs, one) for name, one in zip(_names(self.models), cosines, strict=True)]
            values.append(round(mean(ratings), DECIMALS))
            reason, details = band(values[-1]), {**details, "calibrated_on": pairs}
        if self.threshold is not None:
            values.append(passes(similarity, self.threshold))
        names = [field.name for field in self.fields]
        return Scored(dict(zip(names, values, strict=True)), reason, details)


_DESCRIPTION = "cosine of sentence embeddings of the answer and its best reference"


def _names(models: Sequence[str | Encoder]) -> list[str]:
    return [model if isinstance(model, str) else model.name for model in models]


def _label(model: str | Encoder) -> str:
    """`name@revision`, without the characters that structure a signature."""
    if isinstance(model, str):
        known = identify(model)
        name, revision = known.label, known.revision
    else:
        name, revision = model.name, model.revision
    return "@".join(re.sub(r"[|,\s]", "_", part) for part in (name, revision))


def _usage(found: Collection[Embeddings], seconds: float, samples: int) -> Usage:
    costs = [embeddings.cost_usd for embeddings in found]
    total = None if None in costs else sum(cost for cost in costs if cost is not None)
    return Usage(
        seconds=seconds / samples,
        tokens_in=round(sum(embeddings.tokens for embeddings in found) / samples),
        cost_usd=None if total is None else total / samples,
    )


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
class Cosines:
    """The cosine of each model with the best reference, and what is worth knowing beside them."""

    cosines: Sequence[float]
    details: Mapping[str, Any]


def compare(
    texts: Texts, found: Mapping[str, Mapping[str, Embedding]], rank: Callable[[Sequence[float]], float]
) -> Cosines | Undefined | Failed:
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
    return Cosines(cosines, details)


def _by_all(text: str, found: Mapping[str, Mapping[str, Embedding]]) -> list[Embedded] | Undefined | Failed:
    """The embeddings of a text by all models, or what a model without one says; failures come first."""
    embeddings = [by_text[text] for by_text in found.values()]
    for embedding in embeddings:
        if isinstance(embedding, Failed):
            return embedding
    for embedding in embeddings:
        if isinstance(embedding, Undefined):
            return embedding
    return [embedding for embedding in embeddings if not isinstance(embedding, Failed | Undefined)]


def _cosines(names: Sequence[str], a: Sequence[Embedded], b: Sequence[Embedded]) -> list[float] | Failed:
    from answerkey.metrics_core.embeddings.embed import cosine

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


def aggregate(cosines: Sequence[float], how: Aggregation, *, threshold: float | None, tolerance: float) -> float | None:
    """One number from the cosines of several models, in -1..1, with `DECIMALS` decimals.

    `vote` is 1 where strictly more than half of the models reach the threshold (`VOTE_AT` without one), else
    0. `consensus` is the mean where the largest and the smallest cosine differ by at most `tolerance`.

    Returns:
        None where `consensus` was asked for and there is none.

    Raises:
        ValueError: there is no cosine.
    """
    if not cosines:
        raise ValueError("nothing to aggregate")
    if how == "vote":
        votes = sum(cosine >= (VOTE_AT if threshold is None else threshold) for cosine in cosines)
        return float(2 * votes > len(cosines))
    if how == "consensus" and spread(cosines) > tolerance:
        return None
    return round(_AVERAGES[how](cosines), DECIMALS)


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean, the same in whatever order the values come."""
    return math.fsum(values) / len(values)


def spread(values: Sequence[float]) -> float:
    """The largest minus the smallest value, without the noise of binary fractions (.8 - .7 is .1)."""
    return round(max(values) - min(values), DECIMALS)


def passes(similarity: float, threshold: float) -> float:
    """1 where `similarity` reaches `threshold`, else 0. It comes after the aggregation, so it is never .5."""
    return float(similarity >= threshold)


_AVERAGES: Mapping[Aggregation, Callable[[Sequence[float]], float]] = {
    "mean": mean,
    "consensus": mean,
    "median": median,
    "min": min,
    "max": max,
}
