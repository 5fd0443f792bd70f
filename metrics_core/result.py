"""What `evaluate` returns: measurements, with their means, their worst samples, and how they compare with others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from answerkey.metrics_core.chart import Bar, Chart, number, table_html, to_frame
from answerkey.metrics_core.errors import UserError, did_you_mean
from answerkey.metrics_core.measurement import Measurement
from answerkey.metrics_core.metric import Field, Metric
from answerkey.metrics_core.sample import Sample

if TYPE_CHECKING:
    from answerkey.metrics_core.comparison import Comparison
    from answerkey.metrics_core.statistics.bounded_mean import Floats
    from answerkey.metrics_core.statistics.clustered import Codes, Mask

_MATCH = "meaning_match.match"


class Mean(NamedTuple):
    """The mean of a field with its 95 % interval, None where there is none, of `scored` of `total` samples."""

    field: str
    mean: float | None
    low: float | None
    high: float | None
    scored: int
    total: int


class Result(list[Measurement]):
    """The measurements, metric by metric, in the order of the samples; a notebook shows their means.

    Samples of one cluster, or with one id, are not taken for independent.

    Attributes:
        samples: what was scored; `metrics`: what it was scored with.

    >>> from answerkey import Sample, evaluate
    >>> old = evaluate([Sample(str(n), "Rome", ["Paris"], "Capital?") for n in range(9)], ["contains"])
    >>> new = evaluate([Sample(str(n), "It is Paris.", ["Paris"], "Capital?") for n in range(9)], ["contains"])
    >>> new
    9 samples: mean [95 % interval], scored/total
    contains.match  1.000 [0.664, 1.000]  9/9
    >>> new.compare(old).rows[0].finding
    'better'
    """

    def __init__(
        self, measurements: Iterable[Measurement] = (), samples: Sequence[Sample] = (), metrics: Sequence[Metric] = ()
    ) -> None:
        super().__init__(measurements)
        self.samples, self.metrics = list(samples), list(metrics)

    @property
    def fields(self) -> dict[str, Field]:
        """What every METRIC.FIELD is."""
        return {f"{metric.name}.{field.name}": field for metric in self.metrics for field in metric.fields}

    @property
    def headlines(self) -> list[str]:
        """One METRIC.FIELD of each metric. The first speaks for the result: `meaning_match.match`, where it is."""
        names = [f"{metric.name}.{metric.headline}" for metric in self.metrics]
        return sorted(names, key=lambda name: name != _MATCH)

    def of(self, metric: str) -> list[Measurement]:
        """The measurements of one metric, in the order of the samples."""
        place = [one.name for one in self.metrics].index(metric) * len(self.samples)
        return self[place : place + len(self.samples)]

    def scores(self, field: str = "") -> Floats:
        """The numbers of METRIC.FIELD, by default of the first of `headlines`: (samples,), NaN where there is none.

        Raises:
            UserError: there is no such field.
        """
        import numpy as np

        name = self._known(field)
        metric, _, own = name.partition(".")
        return np.array([one.values.get(own, np.nan) for one in self.of(metric)], np.float64)

    def to_pandas(self) -> Any:
        """A row for each sample: its texts, METRIC.FIELD for each number, METRIC.status and METRIC.reason.

        Returns:
            pandas.DataFrame: of shape (samples, columns), in the order of the samples; NaN where there is no number.
        """
        columns = self._texts(range(len(self.samples)))
        for metric in self.metrics:
            names = [f"{metric.name}.{field.name}" for field in metric.fields]
            columns |= {name: self.scores(name) for name in names}
            columns[f"{metric.name}.status"] = [one.status for one in self.of(metric.name)]
            columns[f"{metric.name}.reason"] = [one.reason for one in self.of(metric.name)]
        return to_frame(columns)

    def summary(self) -> Any:
        """The mean of every field with both ends of its 95 % interval, and how many samples it is of.

        Returns:
            pandas.DataFrame: a row for each METRIC.FIELD, with the columns `mean`, `low`, `high`, `scored` and `total`.
        """
        rows = self.means(self.fields)
        return to_frame({name: [getattr(row, name) for row in rows] for name in Mean._fields}, "field")

    def means(self, fields: Iterable[str]) -> list[Mean]:
        """The means of these fields."""
        return [self._mean(name) for name in fields]

    def worst(self, n: int = 10, field: str = "") -> Any:
        """The samples with the lowest numbers in METRIC.FIELD, by default in the first of `headlines`.

        Those without a number are left out: `to_pandas` has them, with the reason. Samples with the same number come
        in their order.

        Returns:
            pandas.DataFrame: of up to `n` rows, with the number, the texts and what the metric said.

        Raises:
            UserError: there is no such field, or `n` is no count.
        """
        import numpy as np

        if not (isinstance(n, int) and n >= 0):
            raise UserError(f"n is {n!r}; give a count, and name a field with field=")
        name, scores = self._known(field), self.scores(field)
        order = [int(place) for place in np.argsort(scores, kind="stable") if not np.isnan(scores[place])][:n]
        measured = self.of(name.partition(".")[0])
        texts = self._texts(order)
        return to_frame(
            {"id": texts.pop("id"), name: scores[order], **texts, "reason": [measured[place].reason for place in order]}
        )

    def compare(self, baseline: Result, fields: Sequence[str] = (), *, all_fields: bool = False) -> Comparison:
        """Is this result better or worse than an earlier one, of the same samples? Paired, as `answerkey compare` does.

        Samples are matched by their ids; one whose question or references differ is not the same sample, and is left
        out. A field is not compared where the signatures of its metric differ. What `baseline` has a number for and
        this result has no answer to counts against calling this one better.

        Args:
            baseline: the older result.
            fields: METRIC.FIELD, those to compare; where none is named, one of each metric, or with `all_fields` all.

        Raises:
            UserError: it is no result, ids occur twice, or neither result has one of the `fields`.
        """
        from answerkey.metrics_core.comparison import ALL_FIELDS, HEADLINES, Settings, adjust
        from answerkey.metrics_core.result_pair import ResultPair

        if not isinstance(baseline, Result):
            raise UserError(f"compare takes what evaluate returned for the baseline, not {type(baseline).__name__}")
        if isinstance(fields, str):
            raise UserError(f"fields is the text {fields!r}; give a list: fields=[{fields!r}]")
        known = [*self.fields, *baseline.fields]
        for name in fields:
            if name not in known:
                raise UserError(
                    f"{name}: these results have {', '.join(dict.fromkeys(known))}{did_you_mean(name, known)}"
                )
        wanted = list(fields) or self._comparable(baseline, all_fields=all_fields)
        pair, settings = ResultPair(baseline, self), Settings(n_tests=len(wanted))
        rows = tuple(pair.compared(name, settings) for name in wanted)
        [found] = adjust([pair.comparison(rows, ", ".join(fields) or (ALL_FIELDS if all_fields else HEADLINES))])
        return found

    def plot(self) -> Chart:
        """The mean of one field of each metric with its 95 % interval, as a drawing (SVG) that notebooks show."""
        means = self.means(self.headlines)
        bars = [Bar(one.field, one.mean, one.low, one.high) for one in means if one.mean is not None]
        return Chart(f"{len(self.samples):,} samples: mean and 95 % interval", bars)

    def _repr_html_(self) -> str:
        rows = [
            (one.field, number(one.mean), number(one.low), number(one.high), f"{one.scored:,}/{one.total:,}")
            for one in self.means(self.headlines)
        ]
        return table_html(f"{len(self.samples):,} samples", ("", "mean", "95 % from", "to", "scored/total"), rows)

    def __repr__(self) -> str:
        rows = [(one.field, _estimate(one), f"{one.scored:,}/{one.total:,}") for one in self.means(self.headlines)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([f"{len(self.samples):,} samples: mean [95 % interval], scored/total", *lines])

    def _known(self, field: str) -> str:
        if not (name := field or next(iter(self.headlines), "")):
            raise UserError("this result has no metrics")
        if name not in self.fields:
            known = list(self.fields)
            raise UserError(f"{name}: this result has {', '.join(known)}{did_you_mean(name, known)}")
        return name

    def _texts(self, places: Iterable[int]) -> dict[str, Any]:
        chosen = [self.samples[place] for place in places]
        texts = {name: [getattr(one, name) for one in chosen] for name in ("sample_id", "question", "answer")}
        return {"id": texts.pop("sample_id"), **texts, "references": [list(one.references) for one in chosen]}

    def _comparable(self, baseline: Result, *, all_fields: bool) -> list[str]:
        """The headlines first. The spread of votes is about the judges: less of it is no worse a release."""
        from answerkey.metrics_core.judges.votes import SPREAD

        names = [*self.headlines, *(name for name in self.fields if all_fields and not name.endswith(f".{SPREAD}"))]
        return [name for name in dict.fromkeys(names) if name in baseline.fields]

    def _mean(self, name: str) -> Mean:
        import numpy as np

        from answerkey.metrics_core.statistics.clustered import mean_interval, proportion_interval

        field, scores = self.fields[name], self.scores(name)
        there = ~np.isnan(scores)
        values = scores[there]
        if not len(values):
            return Mean(name, None, None, None, 0, len(scores))
        codes = self._units(there)
        if field.binary:
            interval = proportion_interval(values, codes)
        else:
            interval = mean_interval(values, codes, low=field.low, high=field.high)
        low, high, _ = interval or (None, None, None)
        return Mean(name, float(values.mean()), low, high, len(values), len(scores))

    def _units(self, rows: Mask) -> Codes | None:
        """What is not independent among these samples: clusters, and answers to one question; None: all are."""
        from answerkey.metrics_core.statistics.clustered import codes_of

        units = [("id", one.sample_id) if one.cluster is None else ("cluster", one.cluster) for one in self.samples]
        return codes_of([unit for unit, there in zip(units, rows, strict=True) if there], int(rows.sum()))


def _estimate(one: Mean) -> str:
    return number(one.mean) + ("" if one.low is None else f" [{number(one.low)}, {number(one.high)}]")
