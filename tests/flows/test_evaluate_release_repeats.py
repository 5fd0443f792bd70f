"""Twenty questions with three answers each, through the command line; every number by a formula written here."""

import json
from collections.abc import Mapping
from math import comb
from statistics import fmean, variance

import pytest

RIGHT: Mapping[str, tuple[int, ...]] = {"v1": (3, 3, 2, 3, 0), "v2": (3, 2, 2, 0, 0)}
"""How many of the three answers are right, by the question's number modulo 5."""
K, N = 3, 20


def rows(name, right):
    return [
        {
            "id": f"q{question}", "question": f"Question {question}?", "reference": "yes", "release": name,
            "run": f"run {repeat}", "answer": "yes" if repeat < right[question % 5] else f"no {repeat}",
        }
        for question in range(N)
        for repeat in range(K)
    ]  # fmt: skip


@pytest.mark.slow
def test_answers_to_one_question_are_one_unit(cli, tmp_path):
    file, home = tmp_path / "d.jsonl", tmp_path / "home"
    file.write_text("".join(json.dumps(row) + "\n" for name, right in RIGHT.items() for row in rows(name, right)))
    asked = ("evaluate", file, "--metrics", "exact_match", "--home", home)
    # Without a column that tells them apart they are duplicates.
    refused = cli(*asked)
    assert refused.returncode == 2
    assert "most often `id_unique`" in refused.stderr

    made = cli(*asked, "--map", "repeat=run", "--json")
    assert made.returncode == 0, made.stderr
    means: dict[str, list[float]] = {}
    for report in json.loads(made.stdout):
        right = RIGHT[report["release"]] * (N // 5)
        means[report["release"]] = [c / K for c in right]
        scores = {score["field"]: score for score in report["scores"]}
        one = scores["match"]
        assert [one[name] for name in ("n_total", "n_scored", "n_questions", "coverage")] == [60, 60, 20, 1.0]
        assert one["mean"] == pytest.approx(fmean(means[report["release"]]))
        assert one["within_variance"] == pytest.approx(fmean(variance([1.0] * c + [0.0] * (K - c)) for c in right))
        assert one["ci_low"] < one["mean"] < one["ci_high"]
        any_, each = scores["match_pass@3"], scores["match_pass^3"]
        assert (any_["n_total"], each["n_scored"]) == (20, 20)
        assert any_["mean"] == pytest.approx(fmean(1 - comb(K - c, K) / comb(K, K) for c in right))
        assert each["mean"] == pytest.approx(fmean(comb(c, K) / comb(K, K) for c in right))
        assert any_["ci_low"] < any_["mean"] <= any_["ci_high"]
    shown = cli("report", "d/v1", "--home", home)
    assert "60 answers to 20 questions" in shown.stdout
    assert "exact_match.match_pass@3" in shown.stdout and "exact_match.match_pass^3" in shown.stdout
    assert "variance between the answers to one question: exact_match.match 0.067" in shown.stdout

    compared = cli("compare", "v1", "v2", "--home", home, "--json")
    assert compared.returncode in (0, 1), compared.stderr
    [row, *_] = [row for row in json.loads(compared.stdout)["rows"] if row["field"] == "match"]
    assert (row["n_common"], row["fixed"]) == (20, None)
    assert row["difference"] == pytest.approx(fmean(means["v2"]) - fmean(means["v1"]))
    gated = cli("gate", "v1", "v2", "--primary", "exact_match.match", "--margin", "0.05", "--home", home, "--json")
    # Twenty questions are few for a gate, and sixty answers to them are no more.
    [rule, *_] = json.loads(gated.stdout)["rules"]
    assert (gated.returncode, rule["outcome"], rule["n"]) == (3, "INCONCLUSIVE", 20)
    assert rule["value"] == pytest.approx(fmean(means["v2"]) - fmean(means["v1"]))
    # Nothing is scored twice, and the same answers from the warehouse are the same release.
    again = cli("rerun", "d/v2", "--home", home, "--json")
    assert again.returncode == 0, again.stderr
    [second] = json.loads(again.stdout)
    assert second["report_id"] == "d/v2/v2"
    assert {s["field"]: s["mean"] for s in second["scores"]} == {
        s["field"]: s["mean"] for s in json.loads(made.stdout)[1]["scores"]
    }
