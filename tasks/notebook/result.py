"""What `evaluate` returns: measurements, with their means, their worst samples, comparisons and verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields as attributes
from dataclasses import replace
from itertools import chain
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import finalize

from answerkey.metrics_core.errors import UserError, did_you_mean
from answerkey.metrics_core.formatting import Displayed, Shown, number
from answerkey.metrics_core.frame import to_frame
from answerkey.metrics_core.measurement import Measurement
from answerkey.metrics_core.metric import Field, Metric
from answerkey.metrics_core.metrics.label import LABELLED, MOST_LABELLED
from answerkey.metrics_core.sample import Sample
from answerkey.tasks.reports.headline import MATCH

if TYPE_CHECKING:
    from answerkey.metrics_core.comparison import Comparison
    from answerkey.metrics_core.decide.bounded_mean import Floats
    from answerkey.tasks.compare.examples import Direction
    from answerkey.tasks.gate.verdicts import ShownVerdict
    from answerkey.tasks.reports.report import Report
    from answerkey.tasks.warehouse.home import Home


class Mean(NamedTuple):
    """The mean of a field over `scored` of `total` samples, with its 95 % interval; None if there is none.

    Where samples have no score that should have one, mean and interval are those of `intervals.of_all_rows`.
    """

    field: str
    mean: float | None
    low: float | None
    high: float | None
    scored: int
    total: int


class Result(Displayed, list[Measurement]):
    """The measurements of one release, metric by metric, in the order of the samples. A notebook shows their means.

    Samples of the same cluster, or with the same id, are not treated as independent.

    Attributes:
        samples: the scored samples; `metrics`: the metrics that scored them.
        release: its name, empty where the data name none.

    >>> from answerkey import Sample, evaluate
    >>> old = evaluate([Sample(str(n), "Rome", ["Paris"], f"Capital {n}?") for n in range(9)], ["contains"])
    >>> new = evaluate([Sample(str(n), "It is Paris.", ["Paris"], f"Capital {n}?") for n in range(9)], ["contains"])
    >>> new
    9 samples: mean [95 % interval]
    <BLANKLINE>
    |                | result               |
    |----------------|----------------------|
    | contains.match | 1.000 [0.664, 1.000] |
    | scored/total   | 9/9                  |
    >>> new.compare(old).rows[0].finding
    'better'
    >>> new.gate(old, margin=0.1).outcome
    'PASS'
    """

    def __init__(
        self,
        measurements: Iterable[Measurement] = (),
        samples: Sequence[Sample] = (),
        metrics: Sequence[Metric] = (),
        release: str = "",
    ) -> None:
        super().__init__(measurements)
        self.samples = list(samples)
        self.metrics = list(metrics)
        self.release = release
        self._pairs: dict[int, tuple[Result, tuple[Home, Report, Report]]] = {}

    @property
    def fields(self) -> dict[str, Field]:
        """The fields by METRIC.FIELD."""
        fields: dict[str, Field] = {}
        for metric in self.metrics:
            fields |= {f"{metric.name}.{field.name}": field for field in metric.fields}
        return fields

    @property
    def headlines(self) -> list[str]:
        """One METRIC.FIELD per metric. The first summarises the result.

        That is `label.correct` if at least half of the samples have a human label, else `meaning_match.match`, if it
        was computed.
        """
        # Labels of most samples decide, else the judge that compares meaning
        names = [f"{metric.name}.{metric.headline}" for metric in self.metrics]
        n_labelled = sum(sample.label is not None for sample in self.samples)
        if LABELLED in names and n_labelled >= MOST_LABELLED * len(self.samples):
            return sorted(names, key=lambda name: name != LABELLED)
        if MATCH in names:
            return sorted(names, key=lambda name: name != MATCH)
        # The first that is no label, then the others as they are
        primary = next((name for name in names if name != LABELLED), LABELLED)
        return sorted(names, key=lambda name: name != primary)

    @property
    def unscored(self) -> list[str]:
        """A sentence for each metric that has no score for any sample, with the most frequent reason."""
        sentences = []
        for metric in self.metrics:
            measurements = self.of(metric.name)
            if not measurements or any(measurement.status == "scored" for measurement in measurements):
                continue
            [(reason, n)] = Counter(measurement.reason for measurement in measurements).most_common(1)
            sentences.append(
                f"{metric.name} has no score for any of {len(measurements):,} samples: {reason} ({n:,} of them)"
            )
        return sentences

    def of(self, metric: str) -> list[Measurement]:
        """The measurements of one metric, in the order of the samples."""
        index = [each.name for each in self.metrics].index(metric) * len(self.samples)
        return self[index : index + len(self.samples)]

    def scores(self, field: str = "") -> Floats:
        """The numbers of METRIC.FIELD, by default the first of `headlines`: (samples,), NaN for no number.

        Raises:
            UserError: there is no such field.
        """
        import numpy as np

        metric, _, name = self._field_name(field).partition(".")
        return np.array([measurement.values.get(name, np.nan) for measurement in self.of(metric)], np.float64)

    def to_pandas(self) -> Any:
        """One row per sample: its texts, METRIC.FIELD for each number, METRIC.status and METRIC.reason.

        Returns:
            pandas.DataFrame: of shape (samples, columns), in the order of the samples; NaN for no number.
        """
        columns = self._texts(range(len(self.samples)))
        for metric in self.metrics:
            names = [f"{metric.name}.{field.name}" for field in metric.fields]
            columns |= {name: self.scores(name) for name in names}
            columns[f"{metric.name}.status"] = [measurement.status for measurement in self.of(metric.name)]
            columns[f"{metric.name}.reason"] = [measurement.reason for measurement in self.of(metric.name)]
        return to_frame(columns)

    def summary(self) -> Any:
        """The mean of every field, the ends of its 95 % interval, and the number of samples.

        Returns:
            pandas.DataFrame: one row per METRIC.FIELD, with the columns `mean`, `low`, `high`, `scored` and `total`.
        """
        rows = self.means(self.fields)
        columns: dict[str, list[Any]] = {}
        for name in Mean._fields:
            columns[name] = [getattr(row, name) for row in rows]
        return to_frame(columns, "field")

    def means(self, fields: Iterable[str]) -> list[Mean]:
        """The means of these fields."""
        return [self._mean(name) for name in fields]

    def worst(self, n: int = 10, field: str = "") -> Any:
        """The samples with the worst numbers in METRIC.FIELD, by default in the first of `headlines`.

        Samples without a number are left out; `to_pandas` has them, with the reason. Ties keep the order.

        Returns:
            pandas.DataFrame: up to `n` rows, with the number, the texts and the reason that the metric gave.

        Raises:
            UserError: there is no such field, or `n` is no count.
        """
        import numpy as np

        if not (isinstance(n, int) and n >= 0):
            raise UserError(f"n is {n!r}; give a count, and name a field with field=")
        name = self._field_name(field)
        scores = self.scores(name)
        goodness = -scores if self.fields[name].lower_is_better else scores
        order = [int(index) for index in np.argsort(goodness, kind="stable") if not np.isnan(scores[index])][:n]
        measurements = self.of(name.partition(".")[0])
        reasons = [measurements[index].reason for index in order]
        texts = self._texts(order)
        return to_frame({"id": texts.pop("id"), name: scores[order], **texts, "reason": reasons})

    def calls(self, sample_id: str) -> Any:
        """What judges were asked about a sample, and what they replied, from the ledger that `Access` names.

        Returns:
            pandas.DataFrame: one row per call, oldest first within a request: `metric`, the messages `system` and
                `user`, and the columns of the ledger, among them `judge`, `status`, `reply`, `model` and `cost_usd`.

        Raises:
            UserError: there is no such sample, or the replies were not kept.
            LedgerError: the ledger cannot be read.
        """
        from answerkey.metrics_core.judges.asked import asked_about, ledger_calls
        from answerkey.metrics_core.judges.judge_metric import JudgeMetric

        indices = [index for index, sample in enumerate(self.samples) if sample.sample_id == sample_id]
        if not indices:
            raise UserError(f"{sample_id!r}: no sample of this result has this id")
        columns: dict[str, list[Any]] = {}
        for metric in self.metrics:
            if not isinstance(metric, JudgeMetric) or metric.judge.offline:
                continue
            if metric.access.ledger is None:
                raise UserError(f"{metric.name}: its replies were not kept; evaluate with access=Access(ledger=FOLDER)")
            with ledger_calls(metric.access.ledger) as calls:
                for index in indices:
                    requests = self.of(metric.name)[index].requests
                    for request in asked_about(metric, self.samples[index], requests, calls):
                        texts = {"metric": metric.name, "system": request.system, "user": request.user}
                        for call in request.calls:
                            for name, cell in {**texts, **call}.items():
                                columns.setdefault(name, []).append(cell)
        return to_frame(columns or {"metric": []})

    def compare(self, baseline: Result, fields: Sequence[str] = (), *, all_fields: bool = False) -> Comparison:
        """Compare this result with an earlier one of the same samples, pair by pair, as `answerkey compare` does.

        Samples are matched by id; several answers of a release to a question count by their mean. Samples whose
        question or references differ are left out. A field is not compared if the signatures of its metric differ.
        Samples that only `baseline` answers count against this result.

        Args:
            baseline: the older result.
            fields: the METRIC.FIELDs to compare; by default one per metric.
            all_fields: compare all fields instead, unless `fields` names some.

        Raises:
            UserError: `baseline` is not a result, or neither result has one of the `fields`.
        """
        from answerkey.tasks.compare.compare import compare

        if isinstance(fields, str):
            raise UserError(f"fields is the text {fields!r}; give a list: fields=[{fields!r}]")
        home, old, new = self._beside(baseline)
        comparison = compare(home, old.report_id, new.report_id, fields=fields, all_fields=all_fields)
        return replace(comparison, old=old.release, new=new.release)

    def changed(self, baseline: Result, n: int = 10, field: str = "", direction: Direction = "worse") -> Any:
        """The samples that moved most since an earlier result, by default those that got worse.

        Args:
            baseline: the older result.
            field: METRIC.FIELD; by default the first of `headlines`.
            direction: "worse", "better" or "both".

        Returns:
            pandas.DataFrame: up to `n` rows with both answers, both numbers, their difference, and both reasons.

        Raises:
            UserError: `baseline` is not a result, or there is no such field.
        """
        from answerkey.tasks.compare.examples import LargestChange, largest_changes

        name = self._field_name(field)
        home, old, new = self._beside(baseline)
        changes = largest_changes(home, old.report_id, new.report_id, name, direction=direction, limit=n)
        columns: dict[str, list[Any]] = {}
        for column in attributes(LargestChange):
            columns[column.name] = [getattr(change, column.name) for change in changes]
        return to_frame(columns)

    def gate(self, baseline: Result, *, margin: float, **policy: Any) -> ShownVerdict:
        """Decide whether this release may ship in place of an earlier one, as `answerkey gate` does.

        Args:
            baseline: the older result.
            margin: the largest loss in the primary field that is accepted.
            policy: the other keys of a policy file, for instance `primary="meaning_match.match"` (by default the first
                field that `compare` shows) or `rules=["level meaning_match.match >= 0.8"]`.

        Raises:
            UserError: `baseline` is not a result, or the policy is not valid.
        """
        from answerkey.metrics_core.policy_file import parse_policy
        from answerkey.tasks.gate.gate import gate
        from answerkey.tasks.gate.verdicts import ShownVerdict
        from answerkey.tasks.reports.headline import primary

        home, old, new = self._beside(baseline)
        written = {"primary": primary([old, new]), "margin": margin, **policy}
        verdict = gate(home, old.report_id, new.report_id, parse_policy(written, "gate")).verdict
        return ShownVerdict(**{attribute.name: getattr(verdict, attribute.name) for attribute in attributes(verdict)})

    def shown(self) -> Shown:
        """The means of `headlines`."""
        return _means([self])

    def __repr__(self) -> str:
        return str(self)

    def __getstate__(self) -> dict[str, Any]:
        # Another process has no use for a temporary folder of this one
        return {**vars(self), "_pairs": {}}

    def _beside(self, baseline: Result) -> tuple[Home, Report, Report]:
        """Return a home, with the reports of the baseline and of this result, that is kept as long as this result."""
        from answerkey.tasks.notebook.reports import add_report
        from answerkey.tasks.warehouse.home import Home

        if not isinstance(baseline, Result):
            raise UserError(f"the baseline is a {type(baseline).__name__}; give the result of the older release")
        if id(baseline) not in self._pairs:
            # Comparisons are made in a home of their own, which goes with this result
            folder = mkdtemp(prefix="answerkey-")
            finalize(self, rmtree, folder, ignore_errors=True)
            home = Home(Path(folder))
            old, new = (
                add_report(home, result.release or name, result.samples, metrics=result.metrics, measurements=result)
                for name, result in (("baseline", baseline), ("result", self))
            )
            # The baseline too, so that no other result gets its id
            self._pairs[id(baseline)] = baseline, (home, old, new)
        return self._pairs[id(baseline)][1]

    def _field_name(self, field: str) -> str:
        """The METRIC.FIELD that is meant, by default the first of `headlines`.

        Raises:
            UserError: there is no such field.
        """
        if not (name := field or next(iter(self.headlines), "")):
            raise UserError("this result has no metrics")
        if name not in self.fields:
            names = list(self.fields)
            raise UserError(f"{name}: this result has {', '.join(names)}{did_you_mean(name, names)}")
        return name

    def _texts(self, indices: Iterable[int]) -> dict[str, Any]:
        """The texts of these samples, as columns."""
        samples = [self.samples[index] for index in indices]
        return {
            "id": [sample.sample_id for sample in samples],
            "question": [sample.question for sample in samples],
            "answer": [sample.answer for sample in samples],
            "references": [list(sample.references) for sample in samples],
        }

    def _mean(self, name: str) -> Mean:
        """The mean of METRIC.FIELD `name`."""
        import numpy as np

        from answerkey.metrics_core.decide.clustered import codes_of, mean_interval, proportion_interval
        from answerkey.metrics_core.decide.intervals import of_all_rows

        field = self.fields[name]
        scores = self.scores(name)
        has_score = ~np.isnan(scores)
        values = scores[has_score]
        if not len(values):
            return Mean(name, mean=None, low=None, high=None, scored=0, total=len(scores))
        # Answers to one question are a cluster
        clusters = []
        for sample, is_scored in zip(self.samples, has_score, strict=True):
            if is_scored:
                is_alone = sample.cluster is None
                clusters.append(("id", sample.sample_id) if is_alone else ("cluster", sample.cluster))
        codes = codes_of(clusters, len(values))
        if field.binary:
            interval = proportion_interval(values, codes)
        else:
            interval = mean_interval(values, codes, low=field.low, high=field.high)
        # Samples that should have a score and have none widen the interval
        n_due = sum(measurement.status != "undefined" for measurement in self.of(name.partition(".")[0]))
        mean, interval = of_all_rows(
            float(values.mean()), interval, len(values) / n_due, low=field.low, high=field.high
        )
        low, high, _ = interval or (None, None, None)
        return Mean(name, mean, low, high, scored=len(values), total=len(scores))


class Results(Displayed, dict[str, Result]):
    """The `Result` of each release of a data frame by its name, in the order of their first rows.

    Of two releases, the first is the old one, unless they are named.

    >>> import pyarrow as pa
    >>> from answerkey import evaluate
    >>> asked = {"id": [*range(9)] * 2, "model": ["gpt-3.5"] * 9 + ["gpt-4o"] * 9, "reference": ["Paris"] * 18}
    >>> results = evaluate(pa.table({**asked, "answer": ["Rome"] * 9 + ["Paris"] * 9}), ["contains"])
    >>> results.compare("gpt-4o", "gpt-3.5").rows[0].finding
    'better'
    >>> results.gate(margin=0.02).outcome
    'PASS'
    """

    def compare(
        self, new: str = "", old: str = "", fields: Sequence[str] = (), *, all_fields: bool = False
    ) -> Comparison:
        """Compare two releases; see `Result.compare`.

        Raises:
            UserError: there is no such release, or more than two and none is named.
        """
        new_result, old_result = self._pair(new, old)
        return new_result.compare(old_result, fields, all_fields=all_fields)

    def changed(self, new: str = "", old: str = "", **options: Any) -> Any:
        """The samples that moved most between two releases; `options` are the arguments of `Result.changed`.

        Raises:
            UserError: there is no such release, or more than two and none is named.
        """
        new_result, old_result = self._pair(new, old)
        return new_result.changed(old_result, **options)

    def gate(self, new: str = "", old: str = "", **policy: Any) -> ShownVerdict:
        """Decide whether `new` may ship in place of `old`; `policy` are the arguments of `Result.gate`.

        Raises:
            UserError: there is no such release, or more than two and none is named.
        """
        new_result, old_result = self._pair(new, old)
        return new_result.gate(old_result, **policy)

    def shown(self) -> Shown:
        """The means of every release."""
        return _means(list(self.values()))

    def __repr__(self) -> str:
        return str(self)

    def _pair(self, new: str, old: str) -> tuple[Result, Result]:
        """The results of two releases, which need not be named where there are no others.

        Raises:
            UserError: it is not clear which are meant, or one is not there.
        """
        names = list(self)
        # Of two releases, the name of one is enough
        if not (new and old):
            if len(names) != 2:
                raise UserError(f"name the new and the old release, of {', '.join(names)}")
            new = new or next(name for name in names[::-1] if name != old)
            old = old or next(name for name in names if name != new)
        for name in (new, old):
            if name not in self:
                raise UserError(f"no release {name!r}; there are {', '.join(names)}{did_you_mean(name, names)}")
        return self[new], self[old]


def _means(results: Sequence[Result]) -> Shown:
    """The means of the headlines of one or several results, a column each."""
    # A line for each field, and a column for each result
    fields = list(dict.fromkeys(chain.from_iterable(result.headlines for result in results)))
    means: list[dict[str, Mean]] = []
    for result in results:
        means.append({row.field: row for row in result.means(set(fields) & set(result.fields))})
    # One line of counts if all metrics of a result have the same.
    counts = [list(dict.fromkeys(f"{row.scored:,}/{row.total:,}" for row in rows.values())) for rows in means]
    has_count_line = all(len(result_counts) <= 1 for result_counts in counts)
    table = []
    for name in fields:
        cells = [name]
        for rows in means:
            row = rows.get(name)
            cell = number(row.mean if row else None)
            if row and row.low is not None:
                cell += f" [{number(row.low)}, {number(row.high)}]"
            if row and not has_count_line:
                cell += f" {row.scored:,}/{row.total:,}"
            cells.append(cell)
        table.append(cells)
    if has_count_line and fields:
        table.append(["scored/total", *((result_counts or [number(None)])[0] for result_counts in counts)])

    # How many samples there are, and what has no score
    sizes = sorted({len(result.samples) for result in results})
    caption = " or ".join(f"{size:,}" for size in sizes)
    plural = "" if sizes == [1] else "s"
    notes: list[str] = []
    for result in results:
        prefix = f"{result.release}: " if len(results) > 1 else ""
        notes += [f"{prefix}{problem}" for problem in result.unscored]
    columns = ["", *(result.release or "result" for result in results)]
    return Shown(f"{caption} sample{plural}: mean [95 % interval]", columns, table, notes)
