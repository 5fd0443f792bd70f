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
from answerkey.metrics_core.policy_file import check_ranges, parse_policy
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
    document = read_yaml(policy, "policy")
    return parse_policy(document.content, document)


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
    rules = read_policy(policy)
    check_fields(rules, metrics)
    fields = {f"{metric.name}.{field.name}": field for metric in metrics for field in metric.fields}
    _check_directions(rules, {name: field.lower_is_better for name, field in fields.items()})
    ranges = {name: (field.low, field.high) for name, field in fields.items()}
    check_ranges(rules, {LABELLED: (LABEL_FIELD.low, LABEL_FIELD.high)} | ranges)
    return rules


def check_fields(policy: Policy, metrics: Sequence[Metric]) -> None:
    """Find out before anything is scored whether a run with these metrics can have all that the policy asks.

    Raises:
        UserError: it names a field that the run will not have. Labels and the scores of other tools are in the data,
            so nothing is said of theirs.
    """
    fields = [f"{metric.name}.{field.name}" for metric in metrics for field in metric.fields]
    # A metric that the run computes may have the name of scores that other tools bring
    unchecked = FROM_THE_DATA - {metric.name for metric in metrics}
    for name in policy.fields:
        if name not in fields and name.partition(".")[0] not in unchecked:
            hint = did_you_mean(name, fields) or f"; it has {', '.join(fields)}"
            raise UserError(f"policy: {name}: this run will have no such field{hint}")


def gate(home: Home, old: str, new: str, policy: Policy, dataset: str = "") -> ReleaseVerdict:
    """Decide whether the release of report `new` may ship in place of that of `old`, and keep what was decided.

    For a gate that is kept, and whose baseline has moved on (baseline: last shipped), the verdict also gives the
    difference to the first baseline, the anchor.

    Args:
        old, new: ids of reports, or names of releases, which stand for their newest report with the fields of the
            policy; `dataset`: where a release has reports on several.

    Raises:
        UserError: there is no report `new`, it is not clear which are meant, or they cannot be a pair. A baseline that
            is missing is no bad input: the verdict is then INCOMPLETE, and never a PASS.
    """
    # One session, so that both decisions are about the same tables
    with home.warehouse.reading():
        gated = _decide(home, old, new, policy, dataset)
        if anchor := anchor_of(home, gated):
            anchored = _decide(home, anchor, gated.new, policy, gated.new.partition("/")[0])
            difference = anchored.verdict.rules[0].sentence
            sentence = f"{gated.verdict.sentence} Against the anchor {anchored.old}: {difference}."
            gated = replace(gated, verdict=replace(gated.verdict, sentence=sentence))
    store_verdict(home, gated)
    return gated


def _check_spelling(policy: Policy, old_report: Report, new_report: Report) -> None:
    """Refuse a field that no metric has.

    Raises:
        UserError: a field is misspelled. One that a report merely lacks makes the verdict INCOMPLETE.
    """
    reported = {*old_report.names, *new_report.names}
    for name in policy.fields:
        metric, _, field = name.partition(".")
        hint = did_you_mean(name, reported)
        # Labels come with the data; a field that resembles none of the reports' is not a slip of the pen
        if name in reported or metric == LABEL or not hint:
            continue
        if metric not in METRICS or field not in [known.name for known in create([metric])[0].fields]:
            raise UserError(f"{name}: neither report has such a field{hint}")


def _decide(home: Home, old: str, new: str, policy: Policy, dataset: str) -> ReleaseVerdict:
    if not is_known(home, old):
        new = report_named(home, new, dataset, policy.fields)
        sentence = f"there is no report or release {old} in {home} to compare {new} with; evaluate the baseline first"
        rules = tuple(RuleOutcome(rule.text, "INCOMPLETE", "there is no baseline") for rule in policy.rules)
        sentence = f"It cannot be decided whether {new} may ship: {sentence}"
        return ReleaseVerdict(old, new, policy, Verdict("INCOMPLETE", sentence, rules))
    old_report, new_report = _read_reports(home, old, new, dataset, policy)
    _check_spelling(policy, old_report, new_report)
    verdict = apply_policy(*evidence(home, old_report, new_report, policy))

    # Nothing corrects for earlier releases, so the reader is told of them
    n_releases = releases_held_against(home, old_report, new_report)
    sentence = verdict.sentence
    if n_releases > 1:
        sentence += (
            f" {n_releases:,} releases, or versions of their answers, were held against {old_report.release} so far, "
            "and each verdict has the error rate of one."
        )
    verdict = replace(verdict, sentence=sentence, n_releases=n_releases)
    # The policy as it was written: what `evidence` added shows in the rules of the verdict
    return ReleaseVerdict(old_report.report_id, new_report.report_id, policy, verdict)


def _read_reports(home: Home, old: str, new: str, dataset: str, policy: Policy) -> tuple[Report, Report]:
    """Read both reports, and check the directions and limits of the rules by the ranges of their fields.

    Raises:
        UserError: they are one report, or about two data sets; or a rule cannot be met, or not be broken.
    """
    old_report, new_report = read_pair(home, *pair_named(home, old, new, dataset, policy.fields))
    reported = [name for name in policy.fields if name in new_report.names]
    _check_directions(policy, {name: new_report.lower_is_better(name) for name in reported})
    ranges = {}
    for name in policy.fields:
        metric = name.partition(".")[0]
        kind, ends = new_report.kind(metric), new_report.range(name)
        # Another release may exceed the range that was seen in given scores, but not that of shares
        is_share = kind == "given" and metric not in USAGE_METRICS and ends == (0.0, 1.0)
        if name == LABELLED or kind not in ("", "given") or is_share:
            ranges[name] = ends
    check_ranges(policy, ranges)
    return old_report, new_report


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
    """Gather what is known of the fields that `policy` names, and add the rules that this calls for.

    Returns:
        The policy, whose primary rule is about people where the labels of both releases allow for that, with a rule on
        depth for each field that the offline judge scored; and the evidence. A field without scores has the reason.
    """
    # The scores of each field and slice, with the labels that people gave to the same answers
    samples = pair_samples(home, old, new)
    drawn = drawn_labels(home, old.report_id, new.report_id)
    labels = (drawn.old, drawn.new) if drawn else samples.labels()
    fields = {name: _field(samples, name, policy) for name in policy.fields}
    bases = {name: _basis(new, name) for name in policy.fields}
    members = {name: (in_old, in_new) for name, in_old, in_new in samples.members()}
    scores: dict[tuple[str, str], PairedScores | Missing] = {}
    for name, slice_ in policy.needs:
        field_labels = labels if is_checked(policy, name, bases[name]) else None
        scores[name, slice_] = _scores_on_slice(samples, fields[name], slice_, members, field_labels, drawn)

    # People decide where they labelled enough: for the field that a queue was drawn for, and for judges
    primary = policy.primary.field
    is_queued = drawn is not None and drawn.queue.policy.primary.field == primary
    if policy.primary.kind == "difference" and (is_queued or bases[primary] == "judge"):
        is_random = policy.labels == "random"
        policy = policy.by_people() if people_decide(scores[primary, ALL], drawn=is_random) else policy

    # The offline judge decides only on answers like those that it was trained on
    depth = {name: depths for name in policy.fields if (depths := _depth(samples, name))}
    scored = dict.fromkeys(rule.field for rule in policy.rules if rule.kind in SCORE_KINDS)
    policy = policy.with_depth([name for name in scored if name in depth])

    # What speaks against the numbers: vetoes, which make rules INCOMPLETE, and notes
    checks = [check for check in (check_judges, *CHECKS) if drawn is None or check is not labels_selected]
    objections = [objection for check in checks for objection in check(samples, policy)]
    objections += _draw_objections(drawn, policy) if drawn else ()
    objections += _few_samples_notes(fields, policy)
    vetoes: dict[str, tuple[str, ...]] = {}
    for objection in objections:
        if isinstance(objection, Veto):
            vetoes[objection.field] = (*vetoes.get(objection.field, ()), objection.reason)

    return policy, Evidence(
        *samples.names,
        scores=scores,
        coverage={
            name: field.coverage(samples.names) for name, field in fields.items() if isinstance(field, PairedField)
        },
        calibrations={
            name: calibrations_of(home, (old, new), name) for name in policy.fields if policy.rule("kappa", name)
        },
        clusters=None if samples.clusters is None else samples.clusters.astype(np.intp),
        vetoes=vetoes,
        notes=tuple(note for note in objections if isinstance(note, str)),
        bases=bases,
        depth=depth,
    )


def _draw_objections(drawn: DrawnLabels, policy: Policy) -> Iterator[Veto | str]:
    """Say how the labels were drawn, and veto them if people cannot judge more questions than may lack a number."""
    yield drawn.sentence
    if drawn.n_untold > (1 - policy.coverage) * drawn.n_drawn:
        reason = f"people cannot judge {drawn.n_untold:,} of {drawn.n_drawn:,} drawn questions"
        yield from (Veto(rule.field, reason) for rule in policy.rules if rule.kind == "people")


def _few_samples_notes(fields: Mapping[str, PairedField | Missing], policy: Policy) -> Iterator[str]:
    """Yield a note on each field without a highest value whose mean a rule reads from few samples."""
    for name in dict.fromkeys(rule.field for rule in policy.rules if rule.kind in SCORE_KINDS and not rule.share):
        field = fields[name]
        if isinstance(field, PairedField) and field.limits:
            n_samples = int(np.isfinite(field.columns.new).sum())
            if n_samples < ENOUGH:
                yield few_samples_note(name, n_samples)


def _basis(report: Report, name: str) -> Basis:
    """Return what a field's scores rest on."""
    metric = name.partition(".")[0]
    if metric == LABEL:
        return "people"
    bases: Mapping[str, Basis] = {"judge": "judge", "given": "given"}
    return bases.get(report.kind(metric), "text")


def _depth(samples: PairedSamples, name: str) -> tuple[Depth, ...]:
    """Count the verdicts that the offline judge flags in each report; empty where it did not give them all."""
    metric = name.partition(".")[0]
    depths = []
    for report, report_name in zip((samples.old, samples.new), samples.names, strict=True):
        if OFFLINE_ALONE not in str(report.manifest["signatures"].get(metric)):
            return ()
        counts = noted(report.manifest, "out_of_depth").get(metric, {"why": {}})
        score = report.score(name)
        n_verdicts = counts.get("of") or (score.n_scored if score else 0)
        reasons = sorted(counts["why"].items(), key=lambda pair: (-pair[1], pair[0]))
        depths.append(Depth(report_name, n_verdicts, sum(counts["why"].values()), most_frequent(reasons)))
    return tuple(depths)


def check_judges(samples: PairedSamples, policy: Policy) -> Iterator[Veto | str]:
    """Check that the judges of both releases are the same, and decided something."""
    for name in policy.fields:
        metric = name.partition(".")[0]
        yield from (Veto(name, reason) for reason in judge_vetoes(samples, metric))
        yield from judge_notes(samples.old, samples.new, metric)


def _field(samples: PairedSamples, name: str, policy: Policy) -> PairedField | Missing:
    """Return the scores of a field in both releases, or why there are none. More is better in them."""
    metric = name.partition(".")[0]
    for report in (samples.old, samples.new):
        if name not in report.names:
            hint = did_you_mean(name, report.names) or f"; it has {', '.join(report.names)}"
            return Missing(f"{report.report_id} has no such field{hint}")
    if difference := differing_methods(samples.old, samples.new).get(metric):
        return Missing(f"{difference}; evaluate both releases with the same settings")
    if name == CORPUS_BLEU:
        return Missing("it is one number for a whole release, and a gate needs one for each sample; use bleu.bleu")
    columns, unscored = samples.scores(name), samples.unscored(name)
    low, high = samples.range(name)
    if samples.new.lower_is_better(name):
        low, high, columns = -high, -low, replace(columns, old=-columns.old, new=-columns.new)
    return PairedField.of(columns, unscored, samples.changed_for(metric), low, high)


def _scores_on_slice(
    samples: PairedSamples,
    field: PairedField | Missing,
    slice_: str,
    members: Mapping[str, tuple[Mask, Mask]],
    labels: tuple[Floats, Floats] | None,
    drawn: DrawnLabels | None,
) -> PairedScores | Missing:
    """Return the scores of a field on a slice.

    Args:
        members: by slice, the samples that belong to it by the data of the old and of the new release.
        labels: of both releases, if they are about what the field measures; `drawn`: their queue, if any.
    """
    if isinstance(field, Missing):
        return field
    if slice_ not in members:
        hint = did_you_mean(slice_, members) or "; evaluate with --slice, or with samples that have slices"
        return Missing(f"the two reports have no slice {slice_} in common{hint}")
    # The old release says what belongs to a slice, as far as it has the sample
    in_old, in_new = members[slice_]
    is_member = np.where(samples.in_old, in_old, in_new)
    return field.scores(is_member, labels, drawn.draw if drawn else None, asked=drawn.asked if drawn else None)
