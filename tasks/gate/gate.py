"""The gate: from a policy and two reports to a verdict."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from answerkey.metrics_core.decide.bounded_mean import ENOUGH
from answerkey.metrics_core.decide.clustered import Mask, mean, mean_interval
from answerkey.metrics_core.decide.evidence import (
    OFFLINE_ALONE,
    Basis,
    Depth,
    Evidence,
    Missing,
    PairedScores,
    Veto,
)
from answerkey.metrics_core.decide.intervals import Estimate, independent_difference
from answerkey.metrics_core.decide.policy import ALL, SCORE_KINDS, Policy, PolicyRule
from answerkey.metrics_core.decide.verdict import RuleOutcome, Verdict, apply_policy
from answerkey.metrics_core.document import read_yaml
from answerkey.metrics_core.errors import UserError, did_you_mean
from answerkey.metrics_core.metric import Field, Metric
from answerkey.metrics_core.metrics.label import LABEL, LABEL_FIELD, LABELLED, MOST_LABELLED
from answerkey.metrics_core.paired_field import SCORED, PairedField, is_checked, people_decide
from answerkey.metrics_core.policy_file import check_ranges, parse_policy
from answerkey.metrics_core.registry import METRICS, create
from answerkey.tasks.compare.paired_samples import CORPUS_BLEU, PairedSamples, pair_samples
from answerkey.tasks.compare.warnings import (
    check_earlier,
    differing_methods,
    few_samples_note,
    judge_notes,
    judge_vetoes,
)
from answerkey.tasks.gate.calibrate import calibrations_of
from answerkey.tasks.gate.verdicts import ReleaseVerdict, anchor_of, releases_held_against, store_verdict
from answerkey.tasks.labels import DrawnLabels, drawn_labels
from answerkey.tasks.load.formats.registry import FORMATS
from answerkey.tasks.load.given import GIVEN, USAGE_METRICS
from answerkey.tasks.reports.headline import headlines
from answerkey.tasks.reports.manifest import most_frequent, noted
from answerkey.tasks.reports.report import Report, is_known, pair_named, read_pair, report_named
from answerkey.tasks.warehouse.home import Home

FROM_THE_DATA = frozenset((LABEL, GIVEN, *USAGE_METRICS, *(name.replace("-", "_") for name in FORMATS)))
"""Names of metrics that come with the answers."""

_SELECTION_LEVEL = 0.995
"""The confidence level of the two tests whether labelled samples are like the others: high, for few false alarms."""


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
    fields: dict[str, Field] = {}
    for metric in metrics:
        fields |= {f"{metric.name}.{field.name}": field for field in metric.fields}
    _check_directions(rules, {name: field.lower_is_better for name, field in fields.items()})
    ranges = {name: (field.low, field.high) for name, field in fields.items()}
    check_ranges(rules, {LABELLED: (LABEL_FIELD.low, LABEL_FIELD.high)} | ranges)
    return rules


def check_fields(policy: Policy, metrics: Sequence[Metric]) -> None:
    """Check, before anything is scored, that a run with these metrics will have every field of the policy.

    Raises:
        UserError: it names a field that the run will not have. Labels and the scores of other tools come with the
            data, which is not loaded yet, so their fields are not checked.
    """
    fields: list[str] = []
    for metric in metrics:
        fields += [f"{metric.name}.{field.name}" for field in metric.fields]
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
        UserError: there is no report `new`, it is not clear which are meant, or they cannot be a pair. A missing
            baseline is not bad input: the verdict is then INCOMPLETE, and never a PASS.
    """
    # One session, so that both decisions are about the same tables
    with home.warehouse.reading():
        gated = _decide(home, old, new, policy, dataset=dataset)
        if anchor := anchor_of(home, gated):
            anchored = _decide(home, anchor, gated.new, policy, dataset=gated.new.partition("/")[0])
            difference = anchored.verdict.rules[0].sentence
            sentence = f"{gated.verdict.sentence} Against the anchor {anchored.old}: {difference}."
            gated = replace(gated, verdict=replace(gated.verdict, sentence=sentence))
    store_verdict(home, gated)
    return gated


def _decide(home: Home, old: str, new: str, policy: Policy, *, dataset: str) -> ReleaseVerdict:
    """Decide about one pair of reports; keep nothing.

    Raises:
        UserError: they are one report, or about two data sets; no release could meet, or break, a rule; or a field is
            misspelled. A field that a report merely lacks makes the verdict INCOMPLETE.
    """
    if not is_known(home, old):
        new = report_named(home, new, dataset, policy.fields)
        rules = tuple(RuleOutcome(rule.text, "INCOMPLETE", "there is no baseline") for rule in policy.rules)
        sentence = (
            f"It cannot be decided whether {new} may ship: there is no report or release {old} in {home} to compare "
            f"{new} with; evaluate the baseline first"
        )
        return ReleaseVerdict(old, new, policy, Verdict("INCOMPLETE", sentence, rules))
    old_report, new_report = read_pair(home, *pair_named(home, old, new, dataset, fields=policy.fields))

    # The directions and limits of the rules, by the ranges of their fields
    lower_is_better = {}
    ranges = {}
    for name in policy.fields:
        metric = name.partition(".")[0]
        kind = new_report.kind(metric)
        field_range = new_report.range(name)
        if name in new_report.names:
            lower_is_better[name] = new_report.lower_is_better(name)
        # Another release may exceed the range that was seen in given scores, but not that of shares
        is_share = kind == "given" and metric not in USAGE_METRICS and field_range == (0.0, 1.0)
        if name == LABELLED or kind not in ("", "given") or is_share:
            ranges[name] = field_range
    _check_directions(policy, lower_is_better)
    check_ranges(policy, ranges)

    # Labels come with the data; a field that resembles none of the reports' is no typing error
    reported = {*old_report.names, *new_report.names}
    for name in policy.fields:
        metric, _, field = name.partition(".")
        hint = did_you_mean(name, reported)
        if name in reported or metric == LABEL or not hint:
            continue
        if metric not in METRICS or field not in [existing.name for existing in create([metric])[0].fields]:
            raise UserError(f"{name}: neither report has such a field{hint}")
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


def _check_directions(policy: Policy, lower_is_better: Mapping[str, bool]) -> None:
    """Check that a rule has a ceiling if less of its field is better, and otherwise a floor.

    Raises:
        UserError: one does not.
    """
    for rule in policy.rules:
        if rule.kind != "broken" and rule.at_most != lower_is_better.get(rule.field, rule.at_most):
            better, sign = ("more", ">=") if rule.at_most else ("less", "<=")
            raise UserError(f"policy: {rule.text}: {better} of {rule.field} is better; write it as a rule with {sign}")


def evidence(home: Home, old: Report, new: Report, policy: Policy) -> tuple[Policy, Evidence]:
    """Gather what is known of the fields that `policy` names, and add the rules that this calls for.

    Returns:
        The policy, whose primary rule is about people where the labels of both releases allow for that, with a rule on
        depth for each field that the offline judge scored; and the evidence. A field without scores has the reason.
    """
    # The scores of each field and slice, with the labels that people gave to the same answers
    samples = pair_samples(home, old, new)
    drawing = drawn_labels(home, old.report_id, new.report_id)
    labels = (drawing.old, drawing.new) if drawing else samples.labels()
    fields = {name: _field(samples, name) for name in policy.fields}
    basis_of_kind: Mapping[str, Basis] = {"judge": "judge", "given": "given"}
    bases: dict[str, Basis] = {}
    for name in policy.fields:
        metric = name.partition(".")[0]
        bases[name] = "people" if metric == LABEL else basis_of_kind.get(new.kind(metric), "text")
    members = {name: (in_old, in_new) for name, in_old, in_new in samples.members()}
    scores: dict[tuple[str, str], PairedScores | Missing] = {}
    for name, slice_ in policy.needs:
        field = fields[name]
        if isinstance(field, Missing):
            scores[name, slice_] = field
        elif slice_ not in members:
            hint = did_you_mean(slice_, members) or "; evaluate with --slice, or with samples that have slices"
            scores[name, slice_] = Missing(f"the two reports have no slice {slice_} in common{hint}")
        else:
            # The old release says what belongs to a slice, as far as it has the sample
            in_old, in_new = members[slice_]
            scores[name, slice_] = field.scores(
                np.where(samples.in_old, in_old, in_new),
                labels if is_checked(policy, name, bases[name]) else None,
                drawing.draw if drawing else None,
                asked=drawing.asked if drawing else None,
            )

    # People decide where they labelled enough: for the field that a queue was drawn for, and for judges
    primary = policy.primary.field
    is_queued = drawing is not None and drawing.queue.policy.primary.field == primary
    if policy.primary.kind == "difference" and (is_queued or bases[primary] == "judge"):
        is_random = policy.labels == "random"
        policy = policy.by_people() if people_decide(scores[primary, ALL], drawn=is_random) else policy

    # The offline judge decides only on answers like those that it was trained on
    depth = {name: depths for name in policy.fields if (depths := _depth(samples, name))}
    scored = dict.fromkeys(rule.field for rule in policy.rules if rule.kind in SCORE_KINDS)
    policy = policy.with_depth([name for name in scored if name in depth])

    # What speaks against the numbers: vetoes, which make rules INCOMPLETE, and notes
    vetoes: dict[str, tuple[str, ...]] = {}
    notes = []
    for objection in _objections(samples, policy, fields, drawing):
        if isinstance(objection, Veto):
            vetoes[objection.field] = (*vetoes.get(objection.field, ()), objection.reason)
        else:
            notes.append(objection)
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
        notes=tuple(notes),
        bases=bases,
        depth=depth,
    )


def _objections(
    samples: PairedSamples, policy: Policy, fields: Mapping[str, PairedField | Missing], drawing: DrawnLabels | None
) -> Iterator[Veto | str]:
    """Yield the vetoes and the notes of all checks."""
    # Whether the judges of both releases are the same, and decided something
    for name in policy.fields:
        metric = name.partition(".")[0]
        yield from (Veto(name, reason) for reason in judge_vetoes(samples, metric))
        yield from judge_notes(samples.old, samples.new, metric)
    yield from check_earlier(samples, policy)
    # How the labels were drawn, and whether people could judge the share of them that the coverage demands
    if drawing is None:
        yield from _selection_objections(samples, policy)
    else:
        yield drawing.sentence
        if drawing.n_untold > (1 - policy.coverage) * drawing.n_drawn:
            reason = f"people cannot judge {drawing.n_untold:,} of {drawing.n_drawn:,} drawn questions"
            yield from (Veto(rule.field, reason) for rule in policy.rules if rule.kind == "people")
    # Fields without a highest value whose mean a rule reads from few samples
    for name in dict.fromkeys(rule.field for rule in policy.rules if rule.kind in SCORE_KINDS and not rule.share):
        field = fields[name]
        if isinstance(field, PairedField) and field.limits:
            n_samples = int(np.isfinite(field.columns.new).sum())
            if n_samples < ENOUGH:
                yield few_samples_note(name, n_samples)


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


def _selection_objections(samples: PairedSamples, policy: Policy) -> Iterator[Veto | str]:
    """Check that samples with labels are like those without, as far as their scores can tell."""
    by_labels = [rule.field for rule in policy.rules if rule.kind == "people" or rule.field.startswith(f"{LABEL}.")]
    if not by_labels or any(LABELLED not in report.names for report in (samples.old, samples.new)):
        return

    # How many of the samples of both releases have labels in both
    labels = samples.scores(LABELLED)
    compared = samples.in_old & samples.in_new & ~samples.changed
    labelled = compared & (labels.old_status == SCORED) & (labels.new_status == SCORED)
    n_labelled = int(labelled.sum())
    n_compared = int(compared.sum())
    if not 0 < n_labelled < n_compared:
        return
    counted = f"{n_labelled:,} of {n_compared:,} samples have labels in both releases"

    # What the policy says of how they were drawn
    if policy.labels == "chosen":
        yield f"{counted}, and these were chosen: what their labels say holds for these samples."
    else:
        source = "as the policy says they were" if policy.labels == "random" else "which the policy does not say"
        yield f"{counted}; what their labels say of all samples holds if they were drawn at random, {source}."

    # A score that differs between samples with and without labels shows that somebody chose
    predictor = next((name for name in headlines([samples.old, samples.new]) if not name.startswith(f"{LABEL}.")), "")
    difference = _selection_difference(samples, predictor, compared, labelled) if predictor else ""
    if difference:
        if policy.labels == "random" or (policy.labels is None and n_labelled < MOST_LABELLED * n_compared):
            yield from (
                Veto(name, f"{counted}, and these are not like the others: {difference}")
                for name in dict.fromkeys(by_labels)
            )
        else:
            yield f"The samples with labels are not like the others: {difference}."


def _selection_difference(samples: PairedSamples, name: str, compared: Mask, labelled: Mask) -> str:
    """Say how the samples with labels differ from the others by a score; empty where that is not significant."""
    scores = samples.scores(name)
    low, high = samples.range(name)
    scored = compared & (scores.old_status == SCORED) & (scores.new_status == SCORED)
    groups = [scored & labelled, scored & ~labelled]
    if any(group.sum() < 2 for group in groups):
        return ""
    changes = scores.new - scores.old
    # By how much the scores changed, and then how high those of the new release are
    for values, lowest, highest in ((changes, low - high, high - low), (scores.new, low, high)):
        estimates = []
        for group in groups:
            interval = mean_interval(
                values[group], samples.codes(group), low=lowest, high=highest, level=_SELECTION_LEVEL
            )
            estimates.append(Estimate(mean(values[group]), interval))
        interval = independent_difference(*estimates)
        if interval and not interval.low <= 0 <= interval.high:
            change_labelled, change_unlabelled = (
                f"from {mean(scores.old[group]):.3f} to {mean(scores.new[group]):.3f}" for group in groups
            )
            return f"{name} went {change_labelled} on the samples with labels, and {change_unlabelled} on the others"
    return ""


def _field(samples: PairedSamples, name: str) -> PairedField | Missing:
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
    columns = samples.scores(name)
    low, high = samples.range(name)
    if samples.new.lower_is_better(name):
        columns = replace(columns, old=-columns.old, new=-columns.new)
        low, high = sorted((-low, -high))
    return PairedField.of(columns, samples.unscored(name), samples.changed_for(metric), low=low, high=high)


# Counts of right answers alone: `47/50`, or `41/50` and `47/50`
_COUNTED_FIELD = "given.right"
_COUNTED_BASES: Mapping[str, Basis] = {_COUNTED_FIELD: "given"}
_PAIRS_TELL_MORE = (
    "The counts are taken as those of different questions. If both releases answered the same ones, pairs tell more: "
    "gate a file with the columns id, old, new."
)
_COUNT = re.compile(r"(\d{1,7})/(\d{1,7})")


def counts_in(*texts: str) -> list[tuple[int, int]]:
    """Return each text of the form RIGHT/ALL as two numbers; nothing if one of them has another form.

    Raises:
        UserError: more are right than there are, or there are fewer than two.

    >>> counts_in("41/50", "47/50"), counts_in("faq/gpt-4", "47/50")
    ([(41, 50), (47, 50)], [])
    """
    # As long as one text is the name of a release, these are no counts
    matches = [match for text in texts if (match := _COUNT.fullmatch(text))]
    if len(matches) < len(texts):
        return []
    counts = [(int(match[1]), int(match[2])) for match in matches]
    for n_right, n in counts:
        if n_right > n or n < 2:
            raise UserError(f"{n_right}/{n}: write how many of how many answers were right, for instance 47/50")
    return counts


def decide_counts(counts: Sequence[tuple[int, int]], *, margin: float | None, level: float | None) -> ReleaseVerdict:
    """Decide on the share of right answers of one release, or on the difference of two that share no question.

    Args:
        counts: right answers and all answers, of the old release, if there is one, and of the new one.
        margin: the loss of the share that is accepted, for two; `level`: the share that must be reached, for one.

    Raises:
        UserError: there is no limit, or one that cannot be met or broken.
    """
    *old, new = counts
    names = [f"{n_right}/{n}" for n_right, n in counts]
    limit, excluded = (margin, level) if old else (level, margin)
    if limit is None or limit < 0 or excluded is not None:
        option = "--margin X, the largest loss" if old else "--level X, the lowest share"
        raise UserError(f"{' '.join(names)}: give {option} of right answers that you accept, and no other limit")

    # Two counts are of different questions, so nothing is paired; one is decided as its answers would be
    sides = "".join(names[:-1]), names[-1]
    if old:
        rule = PolicyRule("difference", _COUNTED_FIELD, ALL, -limit if limit else 0.0)
        evidence = Evidence(*sides, {}, {}, notes=(_PAIRS_TELL_MORE,), bases=_COUNTED_BASES, counts=(old[0], new))
    else:
        rule = PolicyRule("level", _COUNTED_FIELD, ALL, limit)
        scores = np.repeat([1.0, 0.0], [new[0], new[1] - new[0]])
        evidence = Evidence(
            *sides, {(_COUNTED_FIELD, ALL): PairedScores(scores, scores, binary=True)}, {}, bases=_COUNTED_BASES
        )

    policy = Policy((rule,))
    check_ranges(policy, {_COUNTED_FIELD: (0.0, 1.0)})
    return ReleaseVerdict(*sides, policy, apply_policy(policy, evidence))
