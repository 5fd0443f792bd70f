"""The manifest, from which a report can be made again: parameters, hashes, signatures, versions, seeds."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from typing import Any

import answerkey.metrics_core
import answerkey.tasks
from answerkey.metrics_core.decide.intervals import clopper_pearson
from answerkey.metrics_core.judges.cascade import OTHER, SAME
from answerkey.metrics_core.judges.check import in_words, wrong_replies
from answerkey.metrics_core.judges.judge_metric import JudgeMetric
from answerkey.metrics_core.judges.options import OFFLINE, OFFLINE_JUDGE, JudgeOptions
from answerkey.metrics_core.judges.rubric import ENDINGS, RubricMetric
from answerkey.metrics_core.llm.access import NO_ACCESS, Access
from answerkey.metrics_core.llm.ledger import JudgeSpent, Spent, existing_ledger
from answerkey.metrics_core.sample import content_hash
from answerkey.tasks.load.load import Loaded
from answerkey.tasks.load.remote import kept_parameters
from answerkey.tasks.score.plan import Plan
from answerkey.tasks.validate.validate import Validation

SEED = 20_240_101
"""The seed of the bootstrap of corpus BLEU."""

_CODE = (".py", ".sql")
_PAGE = 500
"""Requests that are looked up at once."""
_MAX_REASONS = 3
_MIN_UNIFORM = 100
"""Long answers from which on a judge may be named as uniform."""
_UNIFORM_SHARE = 0.98
"""The share of them with the same score from which on it is."""

LIBRARIES = (
    "duckdb", "sacrebleu", "rapidfuzz", "regex", "numpy", "scipy", "sentence-transformers", "torch",
    "great-expectations", "prefect", "litellm",
)  # fmt: skip
OF_EXTRAS = frozenset(("sentence-transformers", "torch"))
"""Those of `LIBRARIES` that an installation can do without."""


def manifest(
    run_id: str,
    parameters: Mapping[str, Any],
    loaded: Loaded,
    validation: Validation,
    plan: Plan,
    judge: JudgeOptions = OFFLINE_JUDGE,
    access: Access = NO_ACCESS,
) -> dict[str, Any]:
    """The part of a report's manifest that all releases of a run share; to be made after scoring.

    Where metrics needed judges, it says which, and what the run has spent on them; of the offline judge, how well it
    agrees with human labels.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    # What a report must know of a metric to be read where the metric's code is not
    metrics = {
        metric.name: {
            "spec": metric.spec,
            "kind": metric.kind,
            "summary": metric.described(),
            "fields": [field.as_dict() for field in metric.fields],
            "headline": metric.headline,
        }
        for metric in plan.metrics
    }
    content = {
        "run_id": run_id,
        "parameters": kept_parameters(parameters),
        "rows": {
            "read": validation.n_rows,
            "accepted": validation.n_accepted,
            "quarantined": validation.n_quarantined,
        },
        "signatures": {metric.name: metric.signature for metric in plan.metrics},
        "metrics": metrics,
        "seed": SEED,
        "versions": versions(),
        **_revisions(),
        "notes": list(loaded.notes),
        "sources": {name: dict(source) for name, source in loaded.contents.items()},
        **({"expectations": validation.expectations} if validation.expectations else {}),
        # The rubrics that judges went by, wherever their files are by now.
        "rubrics": {
            metric.target: metric.rubric.braces
            for metric in plan.metrics
            if isinstance(metric, RubricMetric) and metric.target.endswith(ENDINGS)
        },
    }
    if any(metric.kind == "judge" for metric in plan.metrics):
        content["judge"] = _judge(judge, access) | _checked(plan)
    return content


def _judge(options: JudgeOptions, access: Access) -> dict[str, Any]:
    """Which judges there were, and what the run has spent on them."""
    from answerkey.metrics_core.offline_judge.matcher import about

    spent = spent_by(access)
    # No index leads to the calls of a run: they are looked for only where there are some.
    by_judge = []
    if spent.calls:
        with existing_ledger(access.ledger) as ledger:
            by_judge = [asdict(judge_spent) for judge_spent in ledger.spent_by_judge(access.run)]
    return {
        "judges": list(options.labels),
        **({"about": about()} if options.offline or options.cascade else {}),
        **({"cascade": options.cascade} if options.cascade else {}),
        "jury": options.jury,
        "repeats": options.repeats,
        "calls": spent.calls,
        # A sum that leaves calls out would look like the price of all of them.
        "cost_usd": None if spent.unpriced else spent.cost_usd,
        "unpriced": spent.unpriced,
        **({"by_judge": by_judge} if by_judge else {}),
        "max_calls": options.max_calls or None,
        "max_cost_usd": options.max_cost_usd or None,
        **({"max_cost_total_usd": options.max_cost_total_usd} if options.max_cost_total_usd else {}),
    }


def _checked(plan: Plan) -> dict[str, Any]:
    """How the check of the judges went.

    Under `check`, by metric whose judges this run had rows for, and by judge: for each right verdict the lowest and
    the highest number that it may have, how many questions were answered, and how many rightly. Under `wrong` the
    replies that were wrong, without texts of the data, which can be forgotten. Under `changed` how judges have shown
    that another model answers under their name. Under `unchecked`, by rubric: the criteria that no question is about.
    """
    # Judges that had rows to score, and how they did on questions with known answers
    todo = dict(plan.n_todo)
    checks = {check.metric: check for check in plan.checks}
    counts: dict[str, Any] = {}
    wrong_verdicts: dict[str, list[str]] = {}
    unchecked: dict[str, list[str]] = {}
    for metric in plan.metrics:
        if not isinstance(metric, JudgeMetric) or metric.judge.offline or not todo[metric.name]:
            continue
        check = checks.get(metric.name)
        counts[metric.name] = check.counts() if check else {}
        if check and (lines := wrong_replies(check, of_data=False)):
            wrong_verdicts[metric.name] = lines
        if isinstance(metric, RubricMetric) and len(metric.rubric.criteria) > 1:
            unchecked[metric.name] = [criterion.field for criterion in metric.rubric.criteria[1:]]
    changed = {metric: [*check.changed] for metric, check in checks.items() if check.changed}
    notes = {"check": counts, "wrong": wrong_verdicts, "changed": changed, "unchecked": unchecked}
    return {name: note for name, note in notes.items() if note}


def check_notes(manifest: Mapping[str, Any]) -> list[str]:
    """For each metric and judge, how often it was right on questions with known answers; or that it was not checked.

    The shares are intervals at 95 % (Clopper-Pearson). Real answers are harder than these questions as a rule.

    >>> counts = {"openai/m": [[0.0, 0.0, 9, 7], [1.0, 1.0, 9, 9]]}
    >>> for line in check_notes({"judge": {"check": {"meaning_match": counts, "politeness": {}}}}):
    ...     print(line)
    meaning_match: openai/m was right on known answers of 0: 7 of 9 (40 to 97 %); of 1: 9 of 9 (66 to 100 %)
    politeness: the judge was not checked
    >>> check_notes({"judge": {"check": {"support": counts}, "unchecked": {"support": ["tone"]}}})[1]
    'support: the judge was checked by the first criterion, not by tone'
    """
    lines = []
    for metric, by_judge in noted(manifest, "check").items():
        lines += [f"{metric}: {line}" for line in noted(manifest, "changed").get(metric, ())]
        answered = {judge: counts for judge, counts in by_judge.items() if counts}
        for judge, counts in answered.items():
            shares = []
            for low, high, n, n_right in counts:
                share = f"of {in_words(low, high)}: {n_right} of {n}"
                if interval := clopper_pearson(n_right, n):
                    share += f" ({100 * interval.low:.0f} to {100 * interval.high:.0f} %)"
                shares.append(share)
            lines.append(f"{metric}: {judge} was right on known answers {'; '.join(shares)}")
        lines += [f"{metric}: wrong on {line}" for line in noted(manifest, "wrong").get(metric, ())]
        unchecked = noted(manifest, "unchecked").get(metric)
        if not answered:
            lines.append(f"{metric}: the judge was not checked")
        elif unchecked:
            lines.append(f"{metric}: the judge was checked by the first criterion, not by {', '.join(unchecked)}")
    return lines


def spent_by(access: Access) -> Spent:
    """What the run has spent so far, as its ledger has it.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    with existing_ledger(access.ledger) as ledger:
        return ledger.spent(access.run)


def spent_on(access: Access, keys: Sequence[str]) -> Iterator[JudgeSpent]:
    """What all runs together have spent on these requests, as the ledger has it.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    with existing_ledger(access.ledger) as ledger:
        for start in range(0, len(keys), _PAGE):
            yield from ledger.spent_by_judge(None, keys[start : start + _PAGE])


def versions() -> dict[str, str]:
    """Versions of answerkey, Python and the libraries that a number may depend on."""
    python = {"answerkey": _version("answerkey"), "python": platform.python_version()}
    return python | {name: _version(name) for name in LIBRARIES}


@cache
def _version(name: str) -> str:
    """The version of a library."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


@cache
def _revisions() -> dict[str, str]:
    """Hashes of the scoring code with the statistics (`code`), which tell two working copies of a version apart, and of
    the code that makes numbers of reports, comparisons and verdicts out of scores (`aggregation`)."""
    # Every module that scores, and the modules and statements of three steps
    core = Path(answerkey.metrics_core.__file__).parent
    tasks = Path(answerkey.tasks.__file__).parent
    steps = chain.from_iterable((tasks / step).iterdir() for step in ("reports", "compare", "gate"))
    files_by_name = {
        "code": (core, core.rglob("*.py")),
        "aggregation": (tasks, [file for file in steps if file.suffix in _CODE]),
    }
    hashes = {}
    for name, (folder, files) in files_by_name.items():
        texts = [[str(file.relative_to(folder)), file.read_text(encoding="utf-8")] for file in sorted(files)]
        hashes[name] = content_hash(texts)[:12]
    return hashes


def saved(manifest: Mapping[str, Any]) -> tuple[int, int, int, int] | None:
    """Of the cascade of a report, None without one: the answers that the offline judge decided, those of the trial, how
    many of these the judges decided otherwise, and the calls that its run saved.
    """
    judge = manifest.get("judge") or {}
    if "decided" not in judge:
        return None
    decisions = sum((Counter(counts) for counts in judge["decided"].values()), Counter[str]())
    calls = sum(judge["saved"].values()) * len(judge["judges"]) * judge["repeats"]
    return decisions["offline"], decisions[SAME] + decisions[OTHER], decisions[OTHER], calls


def named(manifest: Mapping[str, Any]) -> str:
    """Who judged a report, in a few words: the offline judge with its agreement with human labels; "" if none."""
    judge = manifest.get("judge") or {}
    models = ", ".join(name for name in judge.get("judges", ()) if name != OFFLINE)
    return "; then ".join(filter(None, (judge.get("about", ""), models)))


def depth_warnings(manifest: Mapping[str, Any], metrics: Sequence[str] | None = None) -> list[str]:
    """The answers outside the training data of the offline judge: one sentence for metrics with the same counts.

    Args:
        metrics: those that are looked at; by default all.
    """
    metrics_by_sentence: dict[str, list[str]] = {}
    for metric, counts in noted(manifest, "out_of_depth").items():
        if metrics is not None and metric not in metrics:
            continue
        reasons = most_frequent(sorted(counts["why"].items(), key=lambda pair: (-pair[1], pair[0])))
        n = sum(counts["why"].values())
        sentence = f"{n:,} of {counts['of']:,} answers are outside the offline judge's training data: {reasons}"
        metrics_by_sentence.setdefault(sentence, []).append(metric)
    return [f"{', '.join(metrics)}: {sentence}" for sentence, metrics in metrics_by_sentence.items()]


def fallback_warnings(manifest: Mapping[str, Any]) -> list[str]:
    """For each metric in which fallback judges gave verdicts, a sentence that counts them.

    >>> noted = {"of": 300, "by": {"openai/b": 75}}
    >>> fallback_warnings({"judge": {"fallbacks": {"meaning_match": noted}}})
    ['meaning_match: 75 of 300 answers were judged by the fallback openai/b']
    """
    lines = []
    for metric, note in noted(manifest, "fallbacks").items():
        counts = ", ".join(f"{n:,}" for n in note["by"].values())
        fallbacks = ", ".join(note["by"])
        lines.append(f"{metric}: {counts} of {note['of']:,} answers were judged by the fallback {fallbacks}")
    return lines


def uniform_warnings(manifest: Mapping[str, Any]) -> list[str]:
    """For each metric in which a judge gave one score to nearly all of many long answers, a sentence that says so.

    Long answers seldom are all right or all wrong; a judge that cannot tell them apart says so of all.

    >>> noted = {"of": 500, "same": 499, "value": 1.0, "characters": 200}
    >>> uniform_warnings({"judge": {"uniform": {"meaning_match": noted}}})[0][:84]
    'meaning_match: the judge gave 1.000 to 499 of the 500 answers of 200 characters or m'
    """
    return [
        f"{metric}: the judge gave {note['value']:.3f} to {note['same']:,} of the {note['of']:,} answers of "
        f"{note['characters']:,} characters or more; it may not tell them apart, so label some of them by hand"
        for metric, note in noted(manifest, "uniform").items()
        if note["of"] >= _MIN_UNIFORM and note["same"] >= _UNIFORM_SHARE * note["of"]
    ]


def noted(manifest: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """What a report's manifest has noted about its judges under this key, by metric."""
    notes: Mapping[str, Any] = (manifest.get("judge") or {}).get(key) or {}
    return notes


def judge_warnings(manifest: Mapping[str, Any], depth_of: Sequence[str] | None = None) -> list[str]:
    """What a reader of the scores of judges has to know, in sentences, but for what is in the report's message.

    Args:
        depth_of: the metrics of which it is said how many answers are outside the training data of the offline judge.
    """
    return [*check_notes(manifest), *depth_warnings(manifest, depth_of), *uniform_warnings(manifest)]


def model_warnings(manifest: Mapping[str, Any]) -> list[str]:
    """For each judge that more than one model answered for, a sentence.

    >>> noted = {"openai/m": {"models": {"m-2026-05": 90, "m-2026-08": 10}, "fingerprints": {}}}
    >>> model_warnings({"judge": {"answered": {"meaning_match": noted}}})
    ['meaning_match: several models answered for openai/m: m-2026-05 (90 replies), m-2026-08 (10 replies)']
    """
    lines = []
    for metric, judges in noted(manifest, "answered").items():
        for judge, replies in judges.items():
            if len(replies["models"]) > 1:
                names = ", ".join(f"{name} ({n:,} replies)" for name, n in replies["models"].items())
                lines.append(f"{metric}: several models answered for {judge}: {names}")
    return lines


def changed_models(old: Mapping[str, Any], new: Mapping[str, Any], metrics: Sequence[str]) -> list[str]:
    """For each judge of two manifests that another model, or another configuration, answered for, a sentence.

    Providers have several configurations at once, so those that are partly the same say nothing.

    >>> before, after = ({"judge": {"answered": {"meaning_match": {"openai/m": {
    ...     "models": {name: 9}, "fingerprints": {}}}}}} for name in ("m-2026-05", "m-2026-08"))
    >>> changed_models(before, after, ["meaning_match"])
    ['meaning_match: for the judge openai/m, m-2026-05 answered before and m-2026-08 does now']
    """
    lines = []
    old_replies = noted(old, "answered")
    for metric, judges in noted(new, "answered").items():
        for judge, replies in judges.items():
            previous = old_replies.get(metric, {}).get(judge)
            if metric not in metrics or previous is None:
                continue
            models, fingerprints = ((set(previous[kind]), set(replies[kind])) for kind in ("models", "fingerprints"))
            if all(models) and models[0] != models[1]:
                old_names, new_names = (", ".join(sorted(names)) for names in models)
                lines.append(f"{metric}: for the judge {judge}, {old_names} answered before and {new_names} does now")
            elif all(fingerprints) and not fingerprints[0] & fingerprints[1]:
                old_names, new_names = (", ".join(sorted(names)) for names in fingerprints)
                lines.append(
                    f"{metric}: the configuration behind the judge {judge} was {old_names}, and is {new_names} now"
                )
    return lines


def most_frequent(reasons: Sequence[tuple[str, int]]) -> str:
    """The first few reasons with their numbers of rows, and how many rows have others."""
    phrases = [f"{n:,} {reason}" for reason, n in reasons[:_MAX_REASONS]]
    n_others = sum(n for _, n in reasons[_MAX_REASONS:])
    if n_others:
        phrases.append(f"{n_others:,} for other reasons")
    return ", ".join(phrases)
