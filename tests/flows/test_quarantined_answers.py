"""Answers in quarantine are not scored, and everything that is said of the release says so."""

import json

import duckdb
import pytest

CAPITALS = ["Paris", "Rome", "Oslo", "Bern", "Wien", "Lima", "Kyiv", "Riga", "Bonn", "Cork"]


def answers(file, **bad):
    """Ten right answers, the last five about the south, with others in place of some, by `qNUMBER`."""
    rows = [
        {"id": f"q{n}", "question": f"Capital {n}?", "reference": right, "answer": bad.get(f"q{n}", right)}
        | {"part": "south" if n > 4 else "north"}
        for n, right in enumerate(CAPITALS)
    ]
    file.write_text("\n".join(json.dumps(row) for row in rows))
    return file


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"q8": "502 Bad Gateway", "q9": "Error: 429 Too Many Requests"}, "2 quarantined (error_page)"),
        pytest.param({"q8": "Bo\x07nn", "q9": "Cor\ufffd"}, "2 quarantined (encoding)", marks=pytest.mark.slow),
    ],
)
def test_answers_in_quarantine_are_in_the_counts_the_coverage_and_the_bounds(bare_cli, tmp_path, bad, why, home):
    home = ["--home", home]
    metric = ["--metrics", "exact_match", "--no-page"]
    file = answers(tmp_path / "faq.jsonl", **bad)
    done = bare_cli("evaluate", file, "--release", "new", "--slice", "part", "--json", *metric, *home)
    assert done.returncode == 0, done.stderr
    [report] = json.loads(done.stdout)
    assert (report["status"], report["message"]) == ("PARTIAL", f"exact_match: 2 of 10 not scored: {why}")
    score, south = (
        next(one for one in report["scores"] if one["slice"] == name and one["field"] == "match")
        for name in ("all", "part=south")
    )
    counts = [score[name] for name in ("mean", "n_scored", "n_total", "n_failed", "coverage")]
    assert counts == [1.0, 8, 10, 2, 0.8]
    assert (score["bound_low"], score["bound_high"]) == (pytest.approx(0.8), 1.0)
    assert (south["n_scored"], south["n_total"], south["bound_low"]) == (3, 5, pytest.approx(0.6))

    again = bare_cli("rerun", "faq/new/v1", "--metrics", "contains", *home)
    assert f"contains: 2 of 10 not scored: {why}" in again.stdout, again.stderr
    assert "8/10" in again.stdout
    assert bare_cli("warehouse", "verify", *home).returncode == 0

    bare_cli("evaluate", answers(tmp_path / "faq.jsonl"), "--release", "old", *metric, *home)
    gate = bare_cli("gate", "old", "faq/new/v1", "--primary", "exact_match.match", "--margin", "0.02", *home)
    assert f"2 of them not answered by new and counted as 0: {why}" in " ".join(gate.stdout.split())
    assert gate.returncode != 0


@pytest.mark.slow
def test_an_answer_of_45_megabytes_costs_its_own_score_and_nothing_else(bare_cli, tmp_path, home):
    file = answers(tmp_path / "faq.jsonl", q9="Paris " * 7_500_000)
    options = ("--release", "a", "--metrics", "exact_match", "--no-page")
    done = bare_cli("evaluate", file, *options)
    assert done.returncode == 0, done.stderr[-2_000:]
    assert "exact_match: 1 of 10 not scored: 1 quarantined (length_answer)" in done.stdout
    with duckdb.connect(str(tmp_path / "home/snapshot.duckdb"), read_only=True) as warehouse:
        [(reason, raw)] = warehouse.execute("SELECT reason, raw FROM quarantine").fetchall()
    assert reason == "an answer of 45,000,000 characters, 100,000 are allowed"
    assert json.loads(raw)["answer"].endswith("... (45,000,000 characters)")
    assert len(raw) < 1_001_000
