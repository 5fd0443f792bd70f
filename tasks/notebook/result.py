"""What `evaluate` returns: measurements, with their means, their worst samples, comparisons and verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields as attributes
from dataclasses import replace
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
    from answerkey.metrics_core.decide.clustered import Codes, Mask
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
        self.samples, self.metrics, self.release = list(samples), list(metrics), release
        self._pairs: dict[int, tuple[Result, tuple[Home, Report, Report]]] = {}

    @property
    def fields(self) -> dict[str, Field]:
        """The fields by METRIC.FIELD."""
        return {f"{metric.name}.{field.name}": field for metric in self.metrics for field in metric.fields}

    @property
    def headlines(self) -> list[str]:
        """One METRIC.FIELD per metric. The first summarises the result.

        That is `label.correct` if at least half of the samples have a human label, else `meaning_match.match`, if it
        was computed.
        """
        names = [f"{metric.name}.{metric.headline}" for metric in self.metrics]
        labelled = sum(sample.label is not None for sample in self.samples)
        if LABELLED in names and labelled >= MOST_LABELLED * len(self.samples):
            first = LABELLED
        else:
            first = MATCH if MATCH in names else next((name for name in names if name != LABELLED), LABELLED)
        return sorted(names, key=lambda name: name != first)

    @property
    def unscored(self) -> list[str]:
        """A sentence for each metric that has no score for any sample, with the most frequent reason."""
        return [
            f"{metric.name} has no score for any of {len(found):,} samples: {reason} ({n:,} of them)"
            for metric in self.metrics
            if (found := self.of(metric.name)) and not any(one.status == "scored" for one in found)
            for reason, n in Counter(one.reason for one in found).most_common(1)
        ]

    def of(self, metric: str) -> list[Measurement]:
        """The measurements of one metric, in the order of the samples."""
        index = [known.name for known in self.metrics].index(metric) * len(self.samples)
        return self[index : index + len(self.samples)]

    def scores(self, field: str = "") -> Floats:
        """The numbers of METRIC.FIELD, by default the first of `headlines`: (samples,), NaN for no number.

        Raises:
            UserError: there is no such field.
        """
        import numpy as np

        name = self._known(field)
        metric, _, value = name.partition(".")
        return np.array([measured.values.get(value, np.nan) for measured in self.of(metric)], np.float64)

    def to_pandas(self) -> Any:
        """One row per sample: its texts, METRIC.FIELD for each number, METRIC.status and METRIC.reason.

        Returns:
            pandas.DataFrame: of shape (samples, columns), in the order of the samples; NaN for no number.
        """
        columns = self._texts(range(len(self.samples)))
        for metric in self.metrics:
            names = [f"{metric.name}.{field.name}" for field in metric.fields]
            columns |= {name: self.scores(name) for name in names}
            columns[f"{metric.name}.status"] = [measured.status for measured in self.of(metric.name)]
            columns[f"{metric.name}.reason"] = [measured.reason for measured in self.of(metric.name)]
        return to_frame(columns)

    def summary(self) -> Any:
        """The mean of every field, the ends of its 95 % interval, and the number of samples.

        Returns:
            pandas.DataFrame: one row per METRIC.FIELD, with the columns `mean`, `low`, `high`, `scored` and `total`.
        """
        rows = self.means(self.fields)
        return to_frame({name: [getattr(row, name) for row in rows] for name in Mean._fields}, "field")

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
        name, scores = self._known(field), self.scores(field)
        badness = -scores if self.fields[name].lower_is_better else scores
        order = [int(index) for index in np.argsort(badness, kind="stable") if not np.isnan(scores[index])][:n]
        measured = self.of(name.partition(".")[0])
        texts = self._texts(order)
        return to_frame(
            {"id": texts.pop("id"), name: scores[order], **texts, "reason": [measured[index].reason for index in order]}
        )

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

        places = [index for index, sample in enumerate(self.samples) if sample.sample_id == sample_id]
        if not places:
            raise UserError(f"{sample_id!r}: no sample of this result has this id")
        rows = []
        for metric in self.metrics:
            if not isinstance(metric, JudgeMetric) or metric.judge.offline:
                continue
            if metric.access.ledger is None:
                raise UserError(f"{metric.name}: its replies were not kept; evaluate with access=Access(ledger=FOLDER)")
            with ledger_calls(metric.access.ledger) as calls:
                for index in places:
                    requests = self.of(metric.name)[index].requests
                    for one in asked_about(metric, self.samples[index], requests, calls):
                        texts = {"metric": metric.name, "system": one.system, "user": one.user}
                        rows += [{**texts, **call} for call in one.calls]
        names = list(rows[0]) if rows else ["metric"]
        return to_frame({name: [row[name] for row in rows] for name in names})

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

        name = self._known(field)
        home, old, new = self._beside(baseline)
        found = largest_changes(home, old.report_id, new.report_id, name, direction=direction, limit=n)
        return to_frame(
            {one.name: [getattr(change, one.name) for change in found] for one in attributes(LargestChange)}
        )

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
        from answerkey.tasks.reports.headline import primary as first_of

        home, old, new = self._beside(baseline)
        written = {"primary": first_of([old, new]), "margin": margin, **policy}
        verdict = gate(home, old.report_id, new.report_id, parse_policy(written, "gate")).verdict
        return ShownVerdict(**{one.name: getattr(verdict, one.name) for one in attributes(verdict)})

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
            folder = mkdtemp(prefix="answerkey-")
            finalize(self, rmtree, folder, ignore_errors=True)
            home = Home(Path(folder))
            sides = (("baseline", baseline), ("result", self))
            old, new = (add_report(home, r.release or name, r.samples, r.metrics, r) for name, r in sides)
            # The baseline too, so that no other result gets its id
            self._pairs[id(baseline)] = baseline, (home, old, new)
        return self._pairs[id(baseline)][1]

    def _known(self, field: str) -> str:
        if not (name := field or next(iter(self.headlines), "")):
            raise UserError("this result has no metrics")
        if name not in self.fields:
            known = list(self.fields)
            raise UserError(f"{name}: this result has {', '.join(known)}{did_you_mean(name, known)}")
        return name

    def _texts(self, indices: Iterable[int]) -> dict[str, Any]:
        chosen = [self.samples[index] for index in indices]
        texts = {name: [getattr(sample, name) for sample in chosen] for name in ("sample_id", "question", "answer")}
        return {"id": texts.pop("sample_id"), **texts, "references": [list(sample.references) for sample in chosen]}

    def _mean(self, name: str) -> Mean:
        import numpy as np

        from answerkey.metrics_core.decide.clustered import mean_interval, proportion_interval
        from answerkey.metrics_core.decide.intervals import of_all_rows

        field, scores = self.fields[name], self.scores(name)
        scored = ~np.isnan(scores)
        values = scores[scored]
        if not len(values):
            return Mean(name, None, None, None, 0, len(scores))
        codes = self._units(scored)
        if field.binary:
            interval = proportion_interval(values, codes)
        else:
            interval = mean_interval(values, codes, low=field.low, high=field.high)
        wanted = sum(one.status != "undefined" for one in self.of(name.partition(".")[0]))
        coverage = len(values) / wanted
        mean, interval = of_all_rows(float(values.mean()), interval, coverage, field.low, field.high)
        low, high, _ = interval or (None, None, None)
        return Mean(name, mean, low, high, len(values), len(scores))

    def _units(self, rows: Mask) -> Codes | None:
        """The clusters of these samples, where answers to one question are a cluster; None if all are independent."""
        from answerkey.metrics_core.decide.clustered import codes_of

        units = [("id", s.sample_id) if s.cluster is None else ("cluster", s.cluster) for s in self.samples]
        return codes_of([unit for unit, chosen in zip(units, rows, strict=True) if chosen], int(rows.sum()))


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
        after, before = self._pair(new, old)
        return after.compare(before, fields, all_fields=all_fields)

    def changed(self, new: str = "", old: str = "", **options: Any) -> Any:
        """The samples that moved most between two releases; `options` are the arguments of `Result.changed`.

        Raises:
            UserError: there is no such release, or more than two and none is named.
        """
        after, before = self._pair(new, old)
        return after.changed(before, **options)

    def gate(self, new: str = "", old: str = "", **policy: Any) -> ShownVerdict:
        """Decide whether `new` may ship in place of `old`; `policy` are the arguments of `Result.gate`.

        Raises:
            UserError: there is no such release, or more than two and none is named.
        """
        after, before = self._pair(new, old)
        return after.gate(before, **policy)

    def shown(self) -> Shown:
        """The means of every release."""
        return _means(list(self.values()))

    def __repr__(self) -> str:
        return str(self)

    def _pair(self, new: str, old: str) -> tuple[Result, Result]:
        names = list(self)
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
    fields = list(dict.fromkeys(name for result in results for name in result.headlines))
    means = [{row.field: row for row in result.means(set(fields) & set(result.fields))} for result in results]
    counts = [{name: f"{row.scored:,}/{row.total:,}" for name, row in of.items()} for of in means]
    # One line of counts if all metrics have the same.
    alike = all(len(set(of.values())) <= 1 for of in counts)
    rows = [[name, *(_estimate(of.get(name), with_count=not alike) for of in means)] for name in fields]
    if alike and fields:
        rows.append(["scored/total", *(next(iter(of.values()), number(None)) for of in counts)])
    sizes = {len(result.samples) for result in results}
    caption = f"{' or '.join(f'{size:,}' for size in sorted(sizes))} sample{'' if sizes == {1} else 's'}"
    named = [f"{result.release}: " if len(results) > 1 else "" for result in results]
    notes = [f"{name}{problem}" for name, result in zip(named, results, strict=True) for problem in result.unscored]
    return Shown(
        f"{caption}: mean [95 % interval]", ["", *(result.release or "result" for result in results)], rows, notes
    )


def _estimate(row: Mean | None, *, with_count: bool) -> str:
    if row is None:
        return number(None)
    interval = "" if row.low is None else f" [{number(row.low)}, {number(row.high)}]"
    return number(row.mean) + interval + (f" {row.scored:,}/{row.total:,}" if with_count else "")
