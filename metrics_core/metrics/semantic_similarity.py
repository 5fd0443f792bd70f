"""Semantic similarity of an answer and a reference: the cosine of their sentence embeddings."""

from __future__ import annotations

import math
import re
import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, Literal

from answerkey.metrics_core.embeddings.calibration import KNOTS, band, pairs_for, rating
from answerkey.metrics_core.embeddings.encoder import Encoder
from answerkey.metrics_core.embeddings.models import field_suffixes, identify
from answerkey.metrics_core.measurement import Failed, Measurement, Outcome, Scored, Undefined, Usage
from answerkey.metrics_core.metric import Field, Metric, identical_reference, option
from answerkey.metrics_core.sample import Sample
from answerkey.metrics_core.text import storable

if TYPE_CHECKING:
    from answerkey.metrics_core.embeddings.embed import Embedding, Embeddings
    from answerkey.metrics_core.embeddings.encoder import Embedded

Aggregation = Literal["mean", "median", "min", "max", "vote", "consensus"]

DEFAULT_MODELS = ("use-multilingual",)
"""One multilingual model, so that all rows of a data set are on the same scale, whatever their language.

`minilm` is better on English and misleading on everything else (docs and `benchmarks/semantic.py`).
"""

DECIMALS = 6
"""Cosines are kept to six decimals.

The last bits of an embedding depend on the other texts of its batch (measured: up to 3e-7 in the cosine), so further
digits would describe the batch and not the texts.
"""

VOTE_AT = 0.5
"""A model votes for a text from this cosine on, unless a threshold is set."""


@dataclass(frozen=True)
class SemanticSimilarity(Metric):
    """Cosine similarity of the answer with its best reference.

    Args:
        models: names (see `answerkey.metrics_core.embeddings.models`) or `Encoder` objects, one or several.
        aggregation: how the cosines of several models become one (see `aggregate`).
        threshold: adds the field `pass`: 1 if the aggregated similarity reaches it, else 0.
        tolerance: the largest difference between models that still counts as a consensus.
        blank_answer: the policy for blank answers.
        embedding_cache: a folder for the embeddings of earlier calls; it changes no number.

    The fields are `similarity`, `similarity_<model>` for each of several models, `calibrated` if all models are
    packaged ones, and `pass` if there is a threshold. All fields come from the best reference: the one with the highest
    aggregated similarity. `calibrated` is the mean rating that people give to texts with such a cosine (see
    `calibration`), averaged over the models; the reason names its band.

    An answer that equals a reference after normalisation has the similarity 1, without a model. A sample is undefined
    if a model cannot read the answer or any reference (unknown letters, a zero vector), or if the models reach no
    `consensus`. It fails if a model fails on one of its texts, since the remaining models would give another number.

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
        """The fields, which depend on the options."""
        is_vote = self.aggregation == "vote"
        fields = [Field("similarity", _DESCRIPTION, low=0.0 if is_vote else -1.0, binary=is_vote)]
        names = _names(self.models)
        suffixes = field_suffixes(names)
        if len(names) > 1:
            for suffix, name in zip(suffixes, names, strict=True):
                fields.append(Field(f"similarity_{suffix}", f"cosine of the embeddings of {name}", low=-1.0))
        if self._is_calibrated:
            description = "what people say of texts with such a cosine: 0 nothing in common, 1 the same"
            fields.append(Field("calibrated", description))
        if self.threshold is not None:
            fields.append(Field("pass", f"1 where similarity reaches {self.threshold}", binary=True))
        return tuple(fields)

    @property
    def headline(self) -> str:
        """`pass` where a threshold was asked for, else the similarity."""
        return "similarity" if self.threshold is None else "pass"

    @property
    def _is_calibrated(self) -> bool:
        # Another encoder may have the name of a packaged one.
        return all(isinstance(model, str) and model in KNOTS for model in self.models)

    @property
    def signature(self) -> str:
        """`semantic_similarity|v2|models:minilm@53aa5117|agg:mean|threshold:none|...`, without loading a model.

        Raises:
            EncoderError: a model is not there.
        """
        models = ",".join(sorted(map(_label, self.models)))
        aggregation = str(self.aggregation)
        if self.aggregation == "consensus":
            aggregation = f"consensus({float(self.tolerance)})"
        threshold = "none" if self.threshold is None else str(float(self.threshold))
        return (
            f"{self.name}|v{self.version}|models:{models}|agg:{aggregation}|threshold:{threshold}|chunk:max_seq|refs:best"
            f"|blank:{self.blank_answer}"
        )

    def measure(self, samples: Sequence[Sample]) -> list[Measurement]:
        """Score `samples`: same length, same order.

        The usage of the call is shared equally among the samples whose texts went to the models.

        Raises:
            EncoderError: a model is not there or cannot be loaded.
        """
        signature = self.signature
        started = time.perf_counter()
        # Blank answers, and those that equal a reference, need no model
        outcomes: dict[int, Outcome] = {}
        pending: dict[int, Sample] = {}
        for i, sample in enumerate(samples):
            outcome = self.without_score(sample)
            if outcome is None:
                pending[i] = sample
            else:
                outcomes[i] = outcome

        usage = Usage()
        if pending:
            # All others go to the models together, so that each text is embedded once
            by_model = self._embeddings(list(pending.values()))
            texts = {name: embeddings.by_text for name, embeddings in by_model.items()}
            for i, sample in pending.items():
                compared = compare(sample, texts, self._rank)
                outcomes[i] = self._scored(sample, *compared) if isinstance(compared, tuple) else compared
            costs = [embeddings.cost_usd for embeddings in by_model.values()]
            known_costs = [cost for cost in costs if cost is not None]
            usage = Usage(
                seconds=(time.perf_counter() - started) / len(pending),
                tokens_in=round(sum(embeddings.tokens for embeddings in by_model.values()) / len(pending)),
                # A sum with an unknown cost is unknown
                cost_usd=sum(known_costs) / len(pending) if len(known_costs) == len(costs) else None,
            )
        measurements = []
        for i, sample in enumerate(samples):
            shared = usage if i in pending else Usage()
            measurements.append(Measurement(sample.sample_id, self.name, signature, outcomes[i], usage=shared))
        return measurements

    def without_score(self, sample: Sample) -> Outcome | None:
        """The outcome of a sample that needs no model, including answers that equal a reference."""
        if (outcome := super().without_score(sample)) is not None:
            return outcome
        index = identical_reference(sample)
        return None if index is None else self._scored(sample, [1.0] * len(self.models), {"reference": index})

    def _embeddings(self, samples: Sequence[Sample]) -> dict[str, Embeddings]:
        # Imported here, since asking for the fields should not load numpy.
        from answerkey.metrics_core.embeddings.cache import EmbeddingCache
        from answerkey.metrics_core.embeddings.embed import embed
        from answerkey.metrics_core.embeddings.models import load_encoder

        cache = EmbeddingCache(Path(self.embedding_cache)) if self.embedding_cache else None
        encoders: list[Encoder] = []
        for model in self.models:
            encoders.append(load_encoder(model) if isinstance(model, str) else model)
        texts: set[str] = set()
        for sample in samples:
            answer, references = _texts(sample)
            texts.update((answer, *references.values()))
        encoder_by_name = zip(_names(self.models), encoders, strict=True)
        return {name: embed(encoder, texts, cache) for name, encoder in encoder_by_name}

    def _rank(self, cosines: Sequence[float]) -> float:
        # Without a consensus, references are still ranked; if the best one has none, neither has the sample.
        aggregated = self._aggregate(cosines)
        return fmean(cosines) if aggregated is None else aggregated

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
            # What people say of texts with such a cosine, by the script of these
            pairs = pairs_for(sample.answer or "", sample.references[details["reference"]])
            ratings = [rating(name, pairs, cosine) for name, cosine in zip(_names(self.models), cosines, strict=True)]
            values.append(round(fmean(ratings), DECIMALS))
            reason = band(values[-1])
            details = {**details, "calibrated_on": pairs}
        if self.threshold is not None:
            values.append(float(similarity >= self.threshold))
        names = [field.name for field in self.fields]
        return Scored(dict(zip(names, values, strict=True)), reason, details)


_DESCRIPTION = "cosine of sentence embeddings of the answer and its best reference"


def _names(models: Sequence[str | Encoder]) -> list[str]:
    names = []
    for model in models:
        names.append(model if isinstance(model, str) else model.name)
    return names


def _label(model: str | Encoder) -> str:
    """`name@revision`, without the characters that structure a signature."""
    if isinstance(model, str):
        identified = identify(model)
        label = f"{identified.label}@{identified.revision}"
    else:
        label = f"{model.name}@{model.revision}"
    return re.sub(r"[|,\s]", "_", label)


def _texts(sample: Sample) -> tuple[str, dict[int, str]]:
    """The answer and the usable references by index, as the models read them."""
    return prepared(sample.answer or ""), {index: prepared(text) for index, text in sample.usable_references}


def prepared(text: str) -> str:
    """A text in one normal form, without outer white space and lone surrogates, which tokenizers refuse."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", storable(text))
    return text.strip()


def compare(
    sample: Sample, by_model: Mapping[str, Mapping[str, Embedding]], rank: Callable[[Sequence[float]], float]
) -> tuple[Sequence[float], Mapping[str, Any]] | Undefined | Failed:
    """Compare the answer with each reference, and return the cosines of the best one by model, and the details.

    References that a model cannot read are left out, like blank ones. A reference whose embedding failed fails the
    sample, since it could have been the best.

    Args:
        by_model: model to text to embedding.
        rank: the rank of a reference, by its cosines. Ties are broken by the mean and the single cosines, so that the
            values do not depend on the order of the references.
    """
    text, references = _texts(sample)
    answer = _embedded_by_all(text, by_model)
    if isinstance(answer, Failed):
        return answer
    if isinstance(answer, Undefined):
        return Undefined(f"answer: {answer.reason}")
    candidates: list[tuple[float, float, list[float], int]] = []
    unusable: dict[str, str] = {}
    chunks: dict[str, list[int]] = {}
    for index, text in references.items():
        reference = _embedded_by_all(text, by_model)
        if isinstance(reference, Failed):
            return reference
        if isinstance(reference, Undefined):
            unusable[str(index)] = reference.reason
            continue
        cosines = _cosines(list(by_model), answer, reference)
        if isinstance(cosines, Failed):
            return cosines
        candidates.append((rank(cosines), fmean(cosines), cosines, -index))
        chunks[str(index)] = [embedded.chunks for embedded in reference]
    if not candidates:
        return Undefined(f"references: {'; '.join(sorted(set(unusable.values())))}")
    # The best reference, and the first of equal ones
    _, _, cosines, position = max(candidates)
    details: dict[str, Any] = {"reference": -position}
    if unusable:
        details["unusable_references"] = unusable
    chunk_counts = _chunk_counts(list(by_model), [embedded.chunks for embedded in answer], chunks)
    if chunk_counts:
        details["chunks"] = chunk_counts
    return cosines, details


def _embedded_by_all(text: str, by_model: Mapping[str, Mapping[str, Embedding]]) -> list[Embedded] | Undefined | Failed:
    """The embeddings of a text by all models, or the reason why a model has none; failures come first."""
    embeddings = [by_text[text] for by_text in by_model.values()]
    for embedding in embeddings:
        if isinstance(embedding, Failed):
            return embedding
    for embedding in embeddings:
        if isinstance(embedding, Undefined):
            return embedding
    return [embedding for embedding in embeddings if not isinstance(embedding, Failed | Undefined)]


def _cosines(names: Sequence[str], answer: Sequence[Embedded], reference: Sequence[Embedded]) -> list[float] | Failed:
    from answerkey.metrics_core.embeddings.embed import cosine

    cosines = []
    for name, x, y in zip(names, answer, reference, strict=True):
        try:
            cosines.append(round(cosine(x.vector, y.vector), DECIMALS))
        except ValueError as error:
            return Failed("encoder", f"{name}: {error}")
    return cosines


def _chunk_counts(
    names: Sequence[str], answer: Sequence[int], references: Mapping[str, Sequence[int]]
) -> dict[str, Any]:
    """Model to the number of chunks, {"answer": 3, "references": {"0": 2}}, without texts in one piece."""
    by_model: dict[str, Any] = {}
    for i, name in enumerate(names):
        entry: dict[str, Any] = {"answer": answer[i]} if answer[i] > 1 else {}
        long = {index: counts[i] for index, counts in references.items() if counts[i] > 1}
        if long:
            entry["references"] = long
        if entry:
            by_model[name] = entry
    return by_model


def aggregate(cosines: Sequence[float], how: Aggregation, *, threshold: float | None, tolerance: float) -> float | None:
    """Aggregate the cosines of several models to one number in -1..1, with `DECIMALS` decimals.

    `vote` is 1 if more than half of the models reach the threshold (by default `VOTE_AT`), else 0. `consensus` is the
    mean if the largest and the smallest cosine differ by at most `tolerance`.

    Returns:
        None if there is no consensus.
    """
    if how == "vote":
        vote_at = VOTE_AT if threshold is None else threshold
        n_votes = sum(cosine >= vote_at for cosine in cosines)
        return float(2 * n_votes > len(cosines))
    if how == "consensus" and spread(cosines) > tolerance:
        return None
    return round(_AVERAGES[how](cosines), DECIMALS)


def spread(values: Sequence[float]) -> float:
    """The largest minus the smallest value, rounded so that .8 - .7 is .1."""
    return round(max(values) - min(values), DECIMALS)


_AVERAGES: Mapping[Aggregation, Callable[[Sequence[float]], float]] = {
    "mean": fmean,
    "consensus": fmean,
    "median": median,
    "min": min,
    "max": max,
}
