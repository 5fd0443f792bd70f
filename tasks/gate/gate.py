"""The gate: from a policy and two reports to a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from answerkey.metrics_core.decide.bounded_mean import ENOUGH, Floats
from answerkey.metrics_core.decide.clustered import Mask
from answerkey.metrics_core.decide.evidence import (
    OFFLINE_ALONE,
    Basis,
    Depth,
    Evidence,
    Missing,
    PairedScores,
    Veto,
)
from answerkey.metrics_core.decide.policy import ALL, SCORE_KINDS, Policy
from answerkey.metrics_core.decide.verdict import RuleOutcome, Verdict, apply_policy
from answerkey.metrics_core.document import read_yaml
from answerkey.metrics_core.errors import UserError, did_you_mean
from answerkey.metrics_core.metric import Metric
from answerkey.metrics_core.metrics.label import LABEL, LABEL_FIELD, LABELLED
from answerkey.metrics_core.paired_field import PairedField, is_checked, people_decide
from answerkey.metrics_core.policy import check_ranges, parse_policy
from answerkey.metrics_core.registry import METRICS, create
from answerkey.tasks.compare.earlier import check_earlier
from answerkey.tasks.compare.paired_samples import CORPUS_BLEU, PairedSamples, pair_samples
from answerkey.tasks.compare.warnings import differing_methods, few_samples_note, judge_notes, judge_vetoes
from answerkey.tasks.gate.calibrate import calibrations_of
from answerkey.tasks.gate.checks import labels_selected
from answerkey.tasks.gate.verdicts import ReleaseVerdict, anchor_of, releases_held_against, store_verdict
from answerkey.tasks.labels import DrawnLabels, drawn_labels
from answerkey.tasks.load.formats.registry import FORMATS
from answerkey.tasks.load.given import GIVEN, USAGE_METRICS
from answerkey.tasks.reports.manifest import most_frequent, noted
from answerkey.tasks.reports.report import Report, is_known, pair_named, read_pair, report_named
from answerkey.tasks.warehouse.home import Home

FROM_THE_DATA = frozenset((LABEL, GIVEN, *USAGE_METRICS, *(name.replace("-", "_") for name in FORMATS)))
"""Names of metrics that come with the answers."""

Check = Callable[[PairedSamples, Policy], Iterable[Veto | str]]
"""What may speak against the numbers of two reports.

A check gets the paired samples (with `home`, and the reports `old` and `new`) and the policy. It yields vetoes for
fields of the policy, and notes: whole sentences that change nothing about the verdict.
"""
CHECKS: tuple[Check, ...] = (check_earlier, labels_selected)
"""In the order in which their sentences are read."""


def read_policy(policy: str) -> Policy:
    """The policy in YAML (or JSON, which is YAML): its text, or the path of its file.

    Raises:
        UserError: the file cannot be read, is no YAML, or holds no policy; one line a problem.
    """
    found = read_yaml(policy, "policy")
    return parse_policy(found.content, found)


def policy_for(policy: str, baseline: str, metrics: Sequence[Metric]) -> Policy | None:
    """The policy of a run, checked before anything is loaded; None where the run has no gate.

    Args:
        policy: the path of a policy, or its text; empty: no gate.
        baseline: the release or report that the policy compares with.
        metrics: what the run will score.

    Raises:
        UserError: it cannot be read, there is no baseline, it names a field that this run will not have, or a rule
            that every release would pass, or none.
    """
    if not policy:
        return None
    if not baseline:
        raise UserError("a policy needs a baseline: name the release that the new one is to replace")
    read = read_policy(policy)
    check_fields(read, metrics)
    fields = {f"{metric.name}.{one.name}": one for metric in metrics for one in metric.fields}
    _check_directions(read, {name: one.lower_is_better for name, one in fields.items()})
    ranges = {name: (one.low, one.high) for name, one in fields.items()}
    check_ranges(read, {LABELLED: (LABEL_FIELD.low, LABEL_FIELD.high)} | ranges)
    return read


def check_fields(policy: Policy, metrics: Sequence[Metric]) -> None:
    """Find out before anything is scored whether a run with these metrics can have all that the policy asks.

    Raises:
        UserError: it names a field that the run will not have. Labels and the scores of other tools are in the data,
            so nothing is said of theirs.
    """
    known = [f"{metric.name}.{one.name}" for metric in metrics for one in metric.fields]
    measured = {metric.name for metric in metrics}
    for name in policy.fields:
        if name not in known and name.partition(".")[0] not in FROM_THE_DATA - measured:
            hint = did_you_mean(name, known) or f"; it has {', '.join(known)}"
            raise UserError(f"policy: {name}: this run will have no such field{hint}")


def gate(home: Home, old: str, new: str, policy: Policy, dataset: str = "") -> ReleaseVerdict:
    """Decide whether the release of report `new` may ship in place of that of `old`, and keep what was decided.

    By a gate that is kept, the verdict also says how far the release is from the anchor, once that is another.

    Args:
        old, new: ids of reports, or names of releases, which stand for their newest report with the fields of the
            policy; `dataset`: where a release has reports on several.

    Raises:
        UserError: there is no report `new`, it is not clear which are meant, or they cannot be a pair. A baseline that
            is missing is no bad input: the verdict is then INCOMPLETE, and never a PASS.
    """
    with home.warehouse.reading():
        gated = _decided(home, old, new, policy, dataset)
        if anchor := anchor_of(home, gated):
            anchored = _decided(home, anchor, gated.new, policy, gated.new.partition("/")[0])
            against = f"Against the anchor {anchored.old}: {anchored.verdict.rules[0].sentence}."
            gated = replace(gated, verdict=replace(gated.verdict, sentence=f"{gated.verdict.sentence} {against}"))
    store_verdict(home, gated)
    return gated


def _check_known(policy: Policy, before: Report, after: Report) -> None:
    """Tell a field that neither report has from one that no metric has at all.

    Raises:
        UserError: a field is misspelled. One that a report merely lacks makes the verdict INCOMPLETE.
    """
    there = {*before.names, *after.names}
    for name in policy.fields:
        metric, _, field = name.partition(".")
        if name in there or metric == LABEL or (hint := did_you_mean(name, there)) == "":
            continue
        if metric not in METRICS or field not in [one.name for one in create([metric])[0].fields]:
            raise UserError(f"{name}: neither report has such a field{hint}")


def _decided(home: Home, old: str, new: str, policy: Policy, dataset: str) -> ReleaseVerdict:
    if not is_known(home, old):
        new = report_named(home, new, dataset, policy.fields)
        sentence = f"there is no report or release {old} in {home} to compare {new} with; evaluate the baseline first"
        rules = tuple(RuleOutcome(rule.text, "INCOMPLETE", "there is no baseline") for rule in policy.rules)
        sentence = f"It cannot be decided whether {new} may ship: {sentence}"
        return ReleaseVerdict(old, new, policy, Verdict("INCOMPLETE", sentence, rules))
    before, after = _reports(home, old, new, dataset, policy)
    _check_known(policy, before, after)
    verdict = apply_policy(*evidence(home, before, after, policy))
    n_releases = releases_held_against(home, before, after)
    sentence = verdict.sentence
    if n_releases > 1:
        sentence += (
            f" {n_releases:,} releases, or versions of their answers, were held against {before.release} so far, and "
            "each verdict has the error rate of one."
        )
    verdict = replace(verdict, sentence=sentence, n_releases=n_releases)
    return ReleaseVerdict(before.report_id, after.report_id, policy, verdict)


def _reports(home: Home, old: str, new: str, dataset: str, policy: Policy) -> tuple[Report, Report]:
    """Both reports, which must be two, and about one data set, with fields that the rules can decide on."""
    before, after = read_pair(home, *pair_named(home, old, new, dataset, policy.fields))
    _check_directions(policy, {name: after.lower_is_better(name) for name in policy.fields if name in after.names})
    ranges = {}
    for name in policy.fields:
        metric = name.partition(".")[0]
        kind, ends = after.kind(metric), after.range(name)
        # Another release may exceed the range that was seen in given scores, but not that of shares
        is_share = kind == "given" and metric not in USAGE_METRICS and ends == (0.0, 1.0)
        if name == LABELLED or kind not in ("", "given") or is_share:
            ranges[name] = ends
    check_ranges(policy, ranges)
    return before, after


def _check_directions(policy: Policy, lower: Mapping[str, bool]) -> None:
    """Check that rules put a ceiling on that of which less is better, as `lower` says, and a floor under all else.

    Raises:
        UserError: one does not.
    """
    for rule in policy.rules:
        if rule.kind != "broken" and rule.at_most != lower.get(rule.field, rule.at_most):
            less, sign = ("more", ">=") if rule.at_most else ("less", "<=")
            raise UserError(f"policy: {rule.text}: {less} of {rule.field} is better; write it as a rule with {sign}")


def evidence(home: Home, old: Report, new: Report, policy: Policy) -> tuple[Policy, Evidence]:
    """All that is known of the fields that `policy` names, and the policy with the rules that this calls for.

    The primary rule is about people where the labels of both releases allow for that, and fields that the offline judge
    scored get a rule about its depth. A field that has no scores gets the reason.
    """
    samples = pair_samples(home, old, new)
    fields = {name: _field(samples, name, policy) for name in policy.fields}
    masks = {name: (in_old, in_new) for name, in_old, in_new in samples.members()}
    drawn = drawn_labels(home, old.report_id, new.report_id)
    correct = (drawn.old, drawn.new) if drawn else samples.labels()
    scores = {
        (name, slice_): _column(
            samples, fields[name], slice_, masks, correct if is_checked(policy, name, _basis(new, name)) else None,
            drawn,
        )
        for name, slice_ in policy.needs
    }  # fmt: skip
    bases = {name: _basis(new, name) for name in policy.fields}
    asked = drawn is not None and drawn.queue.policy.primary.field == policy.primary.field
    if policy.primary.kind == "difference" and (asked or bases[policy.primary.field] == "judge"):
        drawn_so = policy.labels == "random"
        policy = policy.by_people() if people_decide(scores[policy.primary.field, ALL], drawn=drawn_so) else policy
    depth = {name: depths for name in policy.fields if (depths := _depth(samples, name))}
    judged = [rule.field for rule in policy.rules if rule.kind in SCORE_KINDS]
    policy = policy.with_depth([name for name in dict.fromkeys(judged) if name in depth])
    checks = [check for check in (check_judges, *CHECKS) if drawn is None or check is not labels_selected]
    objections = [objection for check in checks for objection in check(samples, policy)]
    objections += _of_draw(drawn, policy) if drawn else ()
    objections += _of_few(fields, policy)
    vetoes: dict[str, tuple[str, ...]] = {}
    for veto in objections:
        if isinstance(veto, Veto):
            vetoes[veto.field] = (*vetoes.get(veto.field, ()), veto.reason)
    return policy, Evidence(
        *samples.names,
        scores,
        {name: field.coverage(samples.names) for name, field in fields.items() if isinstance(field, PairedField)},
        {name: calibrations_of(home, (old, new), name) for name in policy.fields if policy.rule("kappa", name)},
        None if samples.clusters is None else samples.clusters.astype(np.intp),
        vetoes,
        tuple(note for note in objections if isinstance(note, str)),
        bases,
        depth,
    )


def _of_draw(drawn: DrawnLabels, policy: Policy) -> Iterator[Veto | str]:
    """How the labels were drawn, and a veto where people cannot judge more questions than may lack a number."""
    yield drawn.sentence
    if drawn.n_untold > (1 - policy.coverage) * drawn.n_drawn:
        reason = f"people cannot judge {drawn.n_untold:,} of {drawn.n_drawn:,} drawn questions"
        yield from (Veto(rule.field, reason) for rule in policy.rules if rule.kind == "people")


def _of_few(fields: Mapping[str, PairedField | Missing], policy: Policy) -> Iterator[str]:
    """A note on each field without a highest value whose mean a rule reads from few samples."""
    for name in dict.fromkeys(rule.field for rule in policy.rules if rule.kind in SCORE_KINDS and not rule.share):
        field = fields[name]
        n = int(np.isfinite(field.columns.new).sum()) if isinstance(field, PairedField) and field.limits else ENOUGH
        if n < ENOUGH:
            yield few_samples_note(name, n)


def _basis(report: Report, name: str) -> Basis:
    metric = name.partition(".")[0]
    kind = report.kind(metric)
    return "people" if metric == LABEL else "judge" if kind == "judge" else "given" if kind == "given" else "text"


def _depth(samples: PairedSamples, name: str) -> tuple[Depth, ...]:
    """How many verdicts the offline judge flags in each report; empty where it did not give them all."""
    metric, depths = name.partition(".")[0], []
    for report, shown in zip((samples.old, samples.new), samples.names, strict=True):
        if OFFLINE_ALONE not in str(report.manifest["signatures"].get(metric)):
            return ()
        counts = noted(report.manifest, "out_of_depth").get(metric, {"why": {}})
        n = counts.get("of") or (score.n_scored if (score := report.score(name)) else 0)
        why = most_frequent(sorted(counts["why"].items(), key=lambda pair: (-pair[1], pair[0])))
        depths.append(Depth(shown, n, sum(counts["why"].values()), why))
    return tuple(depths)


def check_judges(samples: PairedSamples, policy: Policy) -> Iterator[Veto | str]:
    """Whether the judges of both releases are the same, and decided something."""
    for name in policy.fields:
        metric = name.partition(".")[0]
        yield from (Veto(name, reason) for reason in judge_vetoes(samples, metric))
        yield from judge_notes(samples.old, samples.new, metric)


def _field(samples: PairedSamples, name: str, policy: Policy) -> PairedField | Missing:
    metric = name.partition(".")[0]
    for report in (samples.old, samples.new):
        if name not in report.names:
            hint = did_you_mean(name, report.names) or f"; it has {', '.join(report.names)}"
            return Missing(f"{report.report_id} has no such field{hint}")
    if why := differing_methods(samples.old, samples.new).get(metric):
        return Missing(f"{why}; evaluate both releases with the same settings")
    if name == CORPUS_BLEU:
        return Missing("it is one number for a whole release, and a gate needs one for each sample; use bleu.bleu")
    columns, unscored = samples.scores(name), samples.unscored(name)
    low, high = samples.range(name)
    if samples.new.lower_is_better(name):
        # More is better in a gate.
        low, high, columns = -high, -low, replace(columns, old=-columns.old, new=-columns.new)
    return PairedField.of(columns, unscored, samples.changed_for(metric), low, high)


def _column(
    samples: PairedSamples,
    field: PairedField | Missing,
    slice_: str,
    masks: dict[str, tuple[Mask, Mask]],
    correct: tuple[Floats, Floats] | None,
    drawn: DrawnLabels | None = None,
) -> PairedScores | Missing:
    """The scores on a slice. What belongs to it is for the old release to say, as far as it has the sample.

    `correct`: human labels of both releases, if they are about what the field measures; `drawn`: their queue, if any.
    """
    if isinstance(field, Missing):
        return field
    if slice_ not in masks:
        hint = did_you_mean(slice_, masks) or "; evaluate with --slice, or with samples that have slices"
        return Missing(f"the two reports have no slice {slice_} in common{hint}")
    in_old, in_new = masks[slice_]
    inside = np.where(samples.in_old, in_old, in_new)
    return field.scores(inside, correct, drawn.draw if drawn else None, asked=drawn.asked if drawn else None)
