"""`semantic_similarity`: how near an answer's meaning is to a reference's, by sentence embeddings."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from answerkey.metrics_core.embeddings.encoder import Encoder
from answerkey.metrics_core.embeddings.models import field_suffixes, identify
from answerkey.metrics_core.measurement import Measurement, Outcome, Scored, Undefined, Usage
from answerkey.metrics_core.metric import BlankAnswer, Field, Need, degenerate, identical_reference
from answerkey.metrics_core.metrics.semantic_aggregation import Aggregation, aggregate, mean, passes, spread
from answerkey.metrics_core.sample import Sample

if TYPE_CHECKING:
    from answerkey.metrics_core.embeddings.embed import Embeddings

DEFAULT_MODELS = ("use-multilingual",)
"""One multilingual model, so that every row of a data set is measured on one scale, whatever its language.

`minilm` is the better one on English and misleads on everything else: docs and `benchmarks/semantic.py`.
"""


@dataclass(frozen=True, slots=True)
class SemanticSimilarity:
    """Cosine similarity of the answer and its best reference; see `answerkey.metrics_core.metric.Metric`.

    Args:
        models: names (see `answerkey.metrics_core.embeddings.models`) or `Encoder` objects, one or several.
        aggregation: from the cosines of several models to one (see `aggregate`).
        threshold: adds the field `pass`: 1 where the aggregated similarity reaches it. It is compared after
            the aggregation, so `pass` is 0 or 1 however many models there are.
        tolerance: the largest difference between models that still is a consensus.
        blank_answer: the policy for blank answers.
        cache_dir: a folder for the embeddings of earlier calls; it changes no number.

    Its fields are `similarity`, `similarity_<model>` for each of several models, and `pass` where there is a
    threshold. The best reference is the one with the highest aggregated similarity; all fields come from it.

    An answer that equals a reference after normalisation has similarity 1, without a model. A sample is
    undefined where a model cannot read the answer or any reference (letters that it does not know, a zero
    vector), or where `consensus` finds none. It fails where a model fails on one of its texts: a number from
    the remaining models would be another number.

    Raises:
        ValueError: an option is out of its range, or a model is named twice.
    """

    models: Sequence[str | Encoder] = DEFAULT_MODELS
    aggregation: Aggregation = "mean"
    threshold: float | None = None
    tolerance: float = 0.1
    blank_answer: BlankAnswer = "zero"
    cache_dir: str | None = None
    name: str = field(default="semantic_similarity", init=False)
    fields: tuple[Field, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        models = (self.models,) if isinstance(self.models, str) else tuple(self.models)
        object.__setattr__(self, "models", models)
        if not self.models:
            raise ValueError("at least one embedding model is needed")
        if self.aggregation not in get_args(Aggregation):
            known = ", ".join(get_args(Aggregation))
            raise ValueError(f"aggregation {self.aggregation!r} is not one of {known}")
        if self.threshold is not None and not 0.0 < self.threshold <= 1.0:
            raise ValueError(f"threshold {self.threshold!r} is not in (0, 1]; leave it out to have none")
        if not 0.0 <= self.tolerance < math.inf:
            raise ValueError(f"tolerance {self.tolerance!r} is not a number from 0 on")
        object.__setattr__(self, "fields", tuple(self._fields()))

    def _fields(self) -> Iterator[Field]:
        vote = self.aggregation == "vote"
        yield Field("similarity", _DESCRIPTION, low=0.0 if vote else -1.0, binary=vote)
        names = _names(self.models)
        suffixes = field_suffixes(names)
        if len(names) > 1:
            for suffix, name in zip(suffixes, names, strict=True):
                yield Field(f"similarity_{suffix}", f"cosine of the embeddings of {name}", low=-1.0)
        if self.threshold is not None:
            yield Field("pass", f"1 where similarity reaches {self.threshold}", binary=True)

    @property
    def needs(self) -> frozenset[Need]:
        """An answer and its references."""
        return frozenset(("answer", "references"))

    @property
    def signature(self) -> str:
        """For instance `semantic_similarity|v1|models:minilm@53aa5117|agg:mean|threshold:none|...`.

        Made from constants and from files, without loading a model.

        Raises:
            EncoderError: a model is not there.
        """
        models = ",".join(sorted(map(_label, self.models)))
        how = f"consensus({float(self.tolerance)})" if self.aggregation == "consensus" else self.aggregation
        threshold = "none" if self.threshold is None else str(float(self.threshold))
        return (
            f"{self.name}|v1|models:{models}|agg:{how}|threshold:{threshold}|chunk:max_seq|refs:best"
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
        outcomes = {i: known for i, sample in enumerate(samples) if (known := self._without_model(sample))}
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

    def _without_model(self, sample: Sample) -> Outcome | None:
        known = degenerate(sample, self.fields, self.blank_answer)
        if known is not None:
            return known
        index = identical_reference(sample)
        return None if index is None else self._scored([1.0] * len(self.models), {"reference": index})

    def _embeddings(self, samples: Sequence[Sample]) -> dict[str, Embeddings]:
        # numpy is not for those who only ask what the fields are.
        from answerkey.metrics_core.embeddings.cache import EmbeddingCache
        from answerkey.metrics_core.embeddings.embed import embed
        from answerkey.metrics_core.embeddings.models import load_encoder
        from answerkey.metrics_core.metrics.semantic_comparison import Texts

        cache = EmbeddingCache(Path(self.cache_dir)) if self.cache_dir else None
        encoders = [load_encoder(model) if isinstance(model, str) else model for model in self.models]
        texts = {text for sample in samples for text in Texts.of(sample)}
        named = zip(_names(self.models), encoders, strict=True)
        return {name: embed(encoder, texts, cache) for name, encoder in named}

    def _with_models(self, sample: Sample, found: Mapping[str, Embeddings]) -> Outcome:
        from answerkey.metrics_core.metrics.semantic_comparison import Comparison, Texts, compare

        by_model = {name: embeddings.by_text for name, embeddings in found.items()}
        compared = compare(Texts.of(sample), by_model, self._rank)
        return self._scored(compared.cosines, compared.details) if isinstance(compared, Comparison) else compared

    def _rank(self, cosines: Sequence[float]) -> float:
        # Without a consensus a reference still can be the best one; then the sample has none.
        aggregated = self._aggregate(cosines)
        return mean(cosines) if aggregated is None else aggregated

    def _aggregate(self, cosines: Sequence[float]) -> float | None:
        return aggregate(cosines, self.aggregation, threshold=self.threshold, tolerance=self.tolerance)

    def _scored(self, cosines: Sequence[float], details: Mapping[str, Any]) -> Outcome:
        similarity = self._aggregate(cosines)
        if similarity is None:
            return Undefined(
                f"no consensus: the cosines of the models differ by {spread(cosines):g}, more than {self.tolerance:g}"
            )
        values = [similarity]
        if len(cosines) > 1:
            values += cosines
        if self.threshold is not None:
            values.append(passes(similarity, self.threshold))
        names = [field.name for field in self.fields]
        return Scored(dict(zip(names, values, strict=True)), details=details)


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
