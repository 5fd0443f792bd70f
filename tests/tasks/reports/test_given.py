"""Scores that came with answers: fields of the report like measured ones, set against ours, compared and gated."""

import json
from pathlib import Path

import pytest

from answerkey.metrics_core.policy_file import parse_policy
from answerkey.metrics_core.registry import create
from answerkey.tasks.compare.compare import compare
from answerkey.tasks.gate.gate import gate, policy_for
from answerkey.tasks.load.load import Source, load
from answerkey.tasks.releases.export import stored_answers
from answerkey.tasks.reports.report import read_reports
from tests.tasks.staging_help import at, jsonl, query, refusal, rows_of, run

REAL = Path(__file__).parents[1] / "load/files/real"
MEANS = "SELECT release, metric, field, n_scored, round(mean, 4) FROM report_scores WHERE slice = 'all' ORDER BY rowid"


def old_scores(home, file, metrics=("meaning_match", "exact_match", "contains"), **options):
    """What a run of another tool becomes: its reports, and the means by release and METRIC.FIELD."""
    completed = run(home, Source(str(REAL / file), **options), metrics)
    means = {(release, f"{metric}.{field}"): mean for release, metric, field, _, mean in query(home, MEANS)}
    return read_reports(at(home), completed.ids), means


def test_scores_of_deepeval_and_promptfoo(home, tmp_path):
    _, means = old_scores(home, "museum/deepeval")
    for name in ("deepeval.exact_match", "deepeval.pass", "exact_match.match"):
        assert [means[release, name] for release in ("v1", "v2")] == [0.5, 0.25]
    assert [means[release, "cost.usd_per_1000"] for release in ("v1", "v2")] == [0.2, 0.4]
    reports, means = old_scores(tmp_path / "home", "museum/promptfoo.json.gz")
    reports.sort(key=lambda report: report.release)
    shown = {name: [means[one.release, name] for one in reports] for _, name in means}
    assert shown["promptfoo.pass"] == shown["contains.match"] == [0.6667, 0.6667]
    assert (shown["exact_match.match"], shown["meaning_match.match"]) == ([0.5, 0.1667], [0.75, 0.8333])
    words = ("promptfoo.pass", "meaning_match.match")
    same = [
        (one["same"], len(one["samples"]))
        for report in reports
        for one in report.manifest["given"]["agreements"]
        if (one["given"], one["field"]) == words
    ]
    assert same == [(11, 1), (10, 2)]
    # A price of nothing is one that the tool does not know.
    assert not any(name.startswith("cost.") for _, name in means)


def test_a_given_score_can_be_the_label_or_a_slice(home):
    completed = run(
        home,
        Source(str(REAL / "promptfoo/out.json"), paths={"label": "promptfoo.pass"}, slices=("promptfoo.pass",)),
        ["exact_match"],
    )
    assert len(completed.ids) == 2
    slices = query(home, "SELECT DISTINCT slice FROM report_scores WHERE metric = 'label' ORDER BY ALL")
    assert slices == [("all",), ("promptfoo.pass=0",), ("promptfoo.pass=1",)]
    same = "SELECT bool_and(correct::DOUBLE = given['promptfoo.pass']) FROM answers"
    assert query(home, same) == [(True,)]


@pytest.mark.nightly
def test_answers_written_back_bring_their_scores(home, tmp_path):
    completed = run(home, Source(str(REAL / "museum/deepeval")), ["exact_match"])
    version = next(one for one in completed.committed.releases if one.release == "v1").answers_version
    stored = stored_answers(at(home), "deepeval", completed.committed.dataset_version, "v1", version, tmp_path)
    repeated = run(tmp_path / "again", stored, ["exact_match"])
    assert repeated.committed.releases[0].answers_version == version
    of_v1 = "SELECT sample_id, given FROM answers WHERE release = 'v1' ORDER BY ALL"
    assert query(tmp_path / "again", of_v1) == query(home, of_v1) != []
    # Other scores are another version, so that old reports keep theirs.
    rows = [{"id": "a", "answer": "x", "references": ["x"], "latency_ms": ms} for ms in (10, 20)]
    versions = [
        run(tmp_path / "two", Source(jsonl(tmp_path / f"{n}.jsonl", [row]), dataset="d", release="m",
                                     paths={"scores": "latency_ms"}), ["exact_match"])
        for n, row in enumerate(rows)
    ]  # fmt: skip
    assert len({one.committed.releases[0].answers_version for one in versions}) == 2


@pytest.mark.parametrize(
    ("own", "kept"),
    [(0.5, [("given.scores", 0.5)]), ([1, 2], None), ({"x": "good"}, None), ({"A b": 3}, [("chat.a_b", 3)])],
)
def test_a_column_of_the_data_that_is_called_scores_costs_no_row(tmp_path, own, kept):
    row = {"id": "a", "messages": [{"role": "user", "content": "Q?"}, {"role": "assistant", "content": "x"}]}
    loaded = load(Source(jsonl(tmp_path / "a.jsonl", [{**row, "ideal": "x", "scores": own}]), release="m"), tmp_path)
    assert [row["given"] for row in rows_of(loaded.staged)] == [kept]


def answers(latencies, scores):
    return [
        {"id": f"q{n:03}", "answer": "x", "references": ["x"], "model": model, "latency_ms": ms, "Old score": score}
        for model in latencies
        for n, (ms, score) in enumerate(zip(latencies[model], scores[model], strict=True))
    ]


@pytest.fixture(scope="module")
def timed(tmp_path_factory):
    """Two releases with 60 answers each: the new one takes .1 s longer, and its old score is the same.

    And two with 20 answers, of which `slow` takes .5 s longer than `few`.
    """
    folder = tmp_path_factory.mktemp("timed")
    latencies = {name: [start + n for n in range(60)] for name, start in (("old", 400), ("new", 500))}
    latencies |= {name: [start + n for n in range(20)] for name, start in (("few", 400), ("slow", 900))}
    rows = answers(latencies, {name: [4 + n % 2 for n in range(60)][: len(ms)] for name, ms in latencies.items()})
    source = Source(jsonl(folder / "a.jsonl", rows), dataset="d", paths={"scores": "latency_ms\nOld score"})
    run(folder, source, ["exact_match"])
    return folder


def decided(home, *rules, primary="exact_match.match", pair=("old", "new")):
    policy = parse_policy({"primary": primary, "margin": 0.1, "rules": list(rules)}, "x")
    return gate(at(home), *pair, policy).verdict


def test_latency_is_compared_and_gated(timed):
    row = compare(at(timed), "d/old/v1", "d/new/v1").row("latency.seconds")
    assert (round(row.old, 4), round(row.new, 4), row.finding) == (0.4295, 0.5295, "worse")
    finding = "SELECT finding FROM comparisons WHERE metric = 'latency' AND slice = 'all' AND new_report = 'd/new/v1'"
    assert query(timed, finding) == [("worse",)]
    rules = {}
    for bound in (
        ("level latency.seconds <= 2", "latency.seconds <= 0.5", "level given.old_score >= 4"),
        ("level latency.seconds <= 0.53", "latency.seconds <= 0.05"),
        ("latency.seconds <= +30%", "median latency.seconds <= 0.55", "p95 latency.seconds <= 0.56"),
        ("latency.seconds <= +10%", "p90 latency.seconds <= 0.53"),
    ):
        rules |= {rule.rule: rule for rule in decided(timed, *bound).rules}
    assert {text: rule.outcome for text, rule in rules.items()} == {
        "exact_match.match >= -0.1": "PASS",
        "level latency.seconds <= 2": "PASS",
        "latency.seconds <= 0.5": "PASS",
        "level given.old_score >= 4": "PASS",
        "coverage >= 0.95": "PASS",
        "level latency.seconds <= 0.53": "INCONCLUSIVE",
        "latency.seconds <= 0.05": "FAIL",
        "latency.seconds <= +30%": "PASS",
        "latency.seconds <= +10%": "FAIL",
        "median latency.seconds <= 0.55": "PASS",
        "p90 latency.seconds <= 0.53": "FAIL",
        "p95 latency.seconds <= 0.56": "INCONCLUSIVE",
    }
    level = rules["level latency.seconds <= 2"]
    assert round(level.value, 4) == 0.5295
    assert level.low < 0.5295 < level.high < 2
    assert level.sentence.startswith("latency.seconds is 0.530 (95 % interval ")
    assert level.sentence.endswith("at most 2 is shown")
    assert "went from 0.429 to 0.530 (+0.100" in rules["latency.seconds <= 0.5"].sentence
    relative, p95 = rules["latency.seconds <= +30%"], rules["p95 latency.seconds <= 0.56"]
    assert round(relative.value, 4) == 0.2328
    assert "0.429 to 0.530 (+23.3 %, 95 % interval +16.9 % to +29.6 %, 60 samples)" in relative.sentence
    assert relative.sentence.endswith("a rise of 30 % or more is ruled out")
    # 60 answers give no upper end: it takes 72 that are all within the limit.
    assert (p95.value, round(p95.low, 3), p95.high) == (0.556, 0.552, None)
    assert "p95 of latency.seconds is 0.556 (95 % interval 0.552 to any number, 60 samples)" in p95.sentence


def test_an_odd_answer_of_another_release_moves_no_interval_of_tokens(tmp_path):
    """300 answers take 10 tokens more each; in a second run, one answer of the old release took 90,000."""
    intervals = []
    for name, odd in (("even", 107), ("odd", 90_000)):
        rows = [
            {"id": n, "answer": "x", "references": ["x"], "model": model,
             "total_tokens": odd if (n, model) == (7, "old") else start + n}
            for model, start in (("old", 100), ("new", 110)) for n in range(300)
        ]  # fmt: skip
        run(tmp_path / name, Source(jsonl(tmp_path / f"{name}.jsonl", rows), dataset="d"), ["exact_match"])
        if name == "even":
            row = compare(at(tmp_path / name), "d/old/v1", "d/new/v1").row("tokens.total")
            assert row.finding == "worse"
            assert 6 < row.low < row.difference == 10 < row.high < 14
        mean = "SELECT ci_low, ci_high, bound_low, bound_high FROM report_scores WHERE metric = 'tokens'"
        intervals += query(tmp_path / name, f"{mean} AND release = 'new'")
    assert intervals[0] == intervals[1]
    # 110 to 409 tokens
    assert intervals[0][2:] == (259.5, 259.5)


def test_a_time_without_a_unit_is_asked_for(tmp_path):
    row = {"id": "a", "answer": "x", "references": ["x"], "latency": 3, "latency_ms": 20, "cost_usd": 0.5}
    file = jsonl(tmp_path / "a.jsonl", [row])
    notes = load(Source(file, release="m"), tmp_path / "read").notes
    assert "a.jsonl: not used: latency, a time without a unit; call the column latency_s or latency_ms" in notes
    assert "a.jsonl: columns id, answer, references, scores=latency_ms + cost_usd" in notes
    message = refusal(load, Source(file, release="m", paths={"scores": "latency"}), tmp_path / "mapped")
    assert message == f"{file}: in which unit is latency? Call the column latency_s or latency_ms"


def test_a_verdict_on_given_scores_names_its_basis(timed):
    assert decided(timed, primary="given.old_score").basis == "given"


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("level latency.seconds >= 2", "less of latency.seconds is better; write it as a rule with <="),
        ("level exact_match.match <= 0.5", "more of exact_match.match is better; write it as a rule with >="),
        ("kappa exact_match.match <= 0.5", "kappa takes a floor and no ceiling; write >="),
    ],
)
def test_rules_bound_a_field_on_its_bad_side(timed, rule, message):
    assert message in refusal(decided, timed, rule)


def test_a_ceiling_of_what_should_be_high_is_refused_before_anything_is_scored():
    rules = ["exact_match.match <= 0.1", "latency.seconds <= 2"]
    policy = json.dumps({"primary": "contains.match", "margin": 0.1, "rules": rules})
    message = refusal(policy_for, policy, "old", create(["exact_match", "contains"]))
    assert (
        message == "policy: exact_match.match <= 0.1: more of exact_match.match is better; write it as a rule with >="
    )


def test_few_samples_say_little_of_a_mean_of_seconds(timed):
    warning = (
        "latency.seconds has no highest value, and 20 samples show few of its large ones: its interval may be too "
        "narrow"
    )
    pair = ("few", "slow")
    assert warning in compare(at(timed), "d/few/v1", "d/slow/v1").warnings
    assert warning in decided(timed, "latency.seconds <= 0.9", pair=pair).notes
    assert warning not in decided(timed, "median latency.seconds <= 2", pair=pair).notes
