"""Metrics as users write them, for the tests."""

from collections.abc import Sequence
from dataclasses import dataclass

from answerkey import Field, Measurement, Metric, Sample, Scored, metric, option


@dataclass(frozen=True)
class Politeness(Metric):
    """Whether an answer is polite, and how much of it is."""

    name = "politeness"
    fields = (Field("polite", "1 where polite", binary=True), Field("share", "polite words of all words"))

    threshold: float = option(0.5, description="share of polite words from which an answer is polite", ge=0, le=1)

    def score(self, sample: Sample) -> Scored:
        words = (sample.answer or "").lower().split()
        share = words.count("please") / len(words)
        return Scored({"polite": float(share >= self.threshold), "share": share}, details={"words": len(words)})


@dataclass(frozen=True)
class Fragile(Metric):
    """Raises, or has impossible values, for some answers."""

    name = "fragile"
    fields = (Field("grade"),)

    def score(self, sample: Sample) -> float | dict[str, float] | None:
        values = {"big": 1.5, "nan": float("nan"), "other": {"grad": 1.0}, "none": None}
        if sample.answer == "boom":
            raise RuntimeError("cannot\nbear this")
        return values.get(sample.answer or "", 1.0)  # type: ignore[return-value]


@dataclass(frozen=True)
class Batched(Metric):
    """Scores samples together: raises, or has impossible values, for some of them."""

    name = "batched"
    fields = (Field("grade"),)

    def measure(self, samples: Sequence[Sample]) -> list[Measurement]:
        if any(sample.answer == "boom" for sample in samples):
            raise RuntimeError("cannot\nbear this")
        values = {"big": {"grade": 1.5}, "other": {"grad": 1.0}}
        outcomes = [Scored(values.get(sample.answer or "", {"grade": 0.5})) for sample in samples]
        return [
            Measurement(sample.sample_id, "x", "x", outcome) for sample, outcome in zip(samples, outcomes, strict=True)
        ]


@metric
def short(answer: str, references: Sequence[str], *, words: int = 3) -> bool:
    """The answer is short."""
    return len(answer.split()) <= words


def first_letter(answer: str, references: Sequence[str]) -> float:
    """The answer starts like a reference."""
    return float(any(answer[0] == reference[0] for reference in references))


NOT_ONE = 7
