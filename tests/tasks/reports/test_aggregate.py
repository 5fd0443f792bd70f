"""Reports add up, agree with numpy, scipy and sacreBLEU, and never change once they are made."""

import json
import random
from importlib.metadata import version

import numpy as np
import pytest
from sacrebleu.metrics import BLEU
from scipy import stats

from answerkey.metrics_core.decide.clustered import mean_interval
from answerkey.tasks.load.load import Source
from answerkey.tasks.validate.contract import Contract
from answerkey.tasks.warehouse.home import Home
from tests.tasks.staging_help import jsonl, query, run

METRICS = ["token_overlap", "rouge_l", "exact_match", "bleu"]
RELEASES = ["gpt 4/turbo", "модель №2 'β'"]
COUNTS = "n_total, n_scored, n_failed, n_undefined, n_skipped, coverage"
OPTIONAL = Contract(references="wanted")


def make_rows():
    """48 questions and two releases: exact, near, wrong, missing answers, and questions without references."""
    chance = random.Random(7)
    words = ["the", "red", "fox", "saw", "a", "small", "dog", "near", "an", "old", "house", "in", "green", "fields"]
    rows = []
    for release in RELEASES:
        for i in range(48):
            references = [" ".join(chance.sample(words, 6)) for _ in range(1 + i % 3)]
            answer = references[-1]
            if i % 4:
                answer = " ".join([*references[0].split()[: i % 5], *chance.sample(words, 2)])
            if i % 16 == 5:
                answer = None
            row = {"id": f"q{i:02}", "question": f"Q{i}", "answer": answer, "release": release}
            rows.append(row | {"references": references if i % 12 != 7 else [], "lang": "ru" if i % 3 else "en"})
    # The references of the second release are those of the first.
    return [{**row, "references": rows[i % 48]["references"]} for i, row in enumerate(rows)]


ROWS = make_rows()


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return Home(tmp_path_factory.mktemp("home"))


def source(home, rows=ROWS, **more):
    return Source(jsonl(home.local / "d.jsonl", rows), slices=("lang",), **more)


@pytest.fixture(scope="module")
def partial(home):
    """token_overlap was measured on the first 20 questions, and failed on the others."""
    run(home, source(home, [row for row in ROWS if row["id"] < "q20"]), METRICS, contract=OPTIONAL)
    return run(home, source(home), METRICS, failing={"token_overlap"}, contract=OPTIONAL, parameters={"p": "é"})


def test_counts_add_up(home, partial):
    for report_id in partial.ids:
        rows = query(home, f"SELECT metric, slice, {COUNTS} FROM report_scores WHERE report_id = ?", [report_id])
        assert {(metric, *counts) for metric, slice_, *counts in rows if slice_ == "all"} == {
            ("token_overlap", 48, 18, 28, 2, 0, 18 / 48),
            *((metric, 48, 44, 0, 4, 0, 44 / 48) for metric in METRICS[1:]),
        }
        for _, _, total, *parts, coverage in rows:
            assert total == sum(parts)
            assert coverage == parts[0] / total
        totals = {slice_: total for _, slice_, total, *_ in rows}
        assert totals == {"all": 48, "lang=en": 16, "lang=ru": 32}
        # Three fields, three, one, one, and corpus BLEU; all rows and two slices.
        assert len(rows) == (3 + 3 + 1 + 1 + 1) * 3


def values(home, report_id, metric, field, slice_="all"):
    lang = {row["id"]: row["lang"] for row in ROWS}
    rows = query(
        home,
        "SELECT sample_id, value FROM scores WHERE report_id = ? AND metric = ? AND field = ? AND status = 'scored'",
        [report_id, metric, field],
    )
    return np.array([value for sample_id, value in rows if slice_ in ("all", f"lang={lang[sample_id]}")])


def test_means_and_intervals_are_those_of_numpy_and_scipy(home, partial):
    checked = []
    for report_id in partial.ids:
        rows = query(
            home,
            "SELECT metric, field, slice, n_scored, n_failed, mean, ci_low, ci_high, ci_method FROM report_scores "
            "WHERE report_id = ? AND field <> 'corpus_bleu'",
            [report_id],
        )
        for metric, field, slice_, n, failed, mean, low, high, method in rows:
            x = values(home, report_id, metric, field, slice_)
            assert len(x) == n
            coverage = n / (n + failed)
            assert mean == (pytest.approx(x.mean(), abs=1e-13) if coverage >= 0.5 else None)
            if metric == "exact_match":
                exact = stats.binomtest(int(x.sum()), n).proportion_ci(method="exact")
                expected = (exact.low, exact.high)
            else:
                # What comparisons and gates take of the same values.
                interval = mean_interval(x, None)
                expected = interval[:2]
            if failed:
                # What failed may have any score from 0 to 1.
                expected = (coverage * expected[0], coverage * expected[1] + 1 - coverage)
            assert (low, high) == pytest.approx(expected, abs=1e-5)
            assert method.endswith("+missing") is (failed > 0)
            checked.append(method.removesuffix("+missing"))
    assert checked.count("clopper-pearson") == 6 and checked.count("bounded-mean") == len(checked) - 6


def test_bounds_say_what_the_failed_rows_could_do(home, partial):
    rows = query(
        home,
        "SELECT report_id, metric, field, mean, n_scored, n_failed, bound_low, bound_high FROM report_scores "
        "WHERE slice = 'all' AND field <> 'corpus_bleu'",
    )
    for report_id, metric, field, mean, n, failed, low, high in rows:
        if metric == "token_overlap" and report_id in partial.ids:
            x = values(home, report_id, metric, field)
            assert (n, failed) == (18, 28)
            assert (low, high) == pytest.approx((x.sum() / 46, (x.sum() + 28) / 46), abs=1e-12)
        else:
            assert (failed, low, high) == (0, mean, mean)


@pytest.mark.parametrize("slice_", ["all", "lang=en", "lang=ru"])
def test_corpus_bleu_is_that_of_sacrebleu(home, partial, slice_):
    for report_id, release in zip(partial.ids, RELEASES, strict=True):
        used = [row for row in ROWS if row["release"] == release and row["references"]]
        used = [row for row in used if slice_ in ("all", f"lang={row['lang']}")]
        columns = [[(row["references"] + [None] * 3)[i] for row in used] for i in range(3)]
        expected = BLEU(lowercase=True).corpus_score([row["answer"] or "" for row in used], columns).score / 100
        [row] = query(
            home,
            "SELECT mean, ci_low, ci_high, ci_method, n_scored, n_undefined, bound_low, bound_high "
            "FROM report_scores WHERE report_id = ? AND field = 'corpus_bleu' AND slice = ?",
            [report_id, slice_],
        )
        assert row[0] == pytest.approx(expected, abs=1e-12)
        assert 0 <= row[1] < expected < row[2] <= 1
        assert row[3:] == ("bounded-bootstrap", len(used), {"all": 4, "lang=en": 0, "lang=ru": 4}[slice_], None, None)


def test_the_manifest_says_what_it_takes_to_make_it_again(home, partial):
    stored = query(home, "SELECT dataset_version, manifest FROM reports WHERE report_id = ?", [partial.ids[0]])
    [(dataset_version, text)] = stored
    content = json.loads(text)
    assert dataset_version == partial.committed.dataset_version
    assert content["answers_version"] == partial.committed.releases[0].answers_version
    assert (content["n_rows"], content["parameters"], content["run_id"]) == (48, {"p": "é"}, partial.run_id)
    assert content["rows"] == {"read": 96, "accepted": 96, "quarantined": 0}
    assert content["signatures"] == {metric.name: metric.signature for metric in partial.plan.metrics}
    assert list(content["signatures"]) == METRICS
    for name in ("duckdb", "sacrebleu", "rapidfuzz", "numpy", "great-expectations"):
        assert content["versions"][name] == version(name)
    assert set(content) >= {"seed", "code", "notes"} and len(content["code"]) == 12
