"""Two files of ids and scores are compared and decided upon, without answers and without a run."""

import json

import pytest


@pytest.fixture
def files(tmp_path):
    """Of 100 questions the old release has 50 right, the new one 80, these among them; in 50 clusters."""
    right = {"old": range(50), "new": range(80)}
    for name, of_release in right.items():
        rows = [f"q{n},{'passed' if n in of_release else 'failed'},c{n // 2}" for n in range(100)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,score,cluster", *rows]))
    return [str(tmp_path / f"{name}.csv") for name in right]


def test_two_files_of_scores_are_compared(bare_cli, files):
    done = bare_cli("compare", *files, "--json")
    [row] = json.loads(done.stdout)["rows"]
    assert (row["metric"], row["field"], row["n_common"], row["n_clusters"]) == ("given", "score", 100, 50)
    assert (row["old"], row["new"], row["fixed"], row["broken"], row["finding"]) == (0.5, 0.8, 30, 0, "better")


def test_the_only_score_decides(bare_cli, files, tmp_path):
    page = tmp_path / "page.html"
    done = bare_cli("gate", *files, "--margin", "0.02", "--output", str(page))
    assert done.returncode == 0
    assert done.stdout.startswith("PASS  new may ship in place of old, every rule holds: given.score went from 0.500")
    plot = "  ┊│         ├─────────●─────────┤   ┊ -0.020, the accepted loss   │ no difference   ● +0.300"
    assert done.stdout.splitlines()[1] == plot
    assert "basis: scores that came with the answers" in done.stdout
    assert "<title>Ship new" in page.read_text()
    assert bare_cli("gate", *files[::-1], "--margin", "0.02").returncode == 1


def test_every_score_of_two_files_is_compared(bare_cli, tmp_path):
    file = tmp_path / "scores.jsonl"
    file.write_text("".join(json.dumps({"id": n, "f1": n / 9, "accuracy": n % 2}) + "\n" for n in range(9)))
    done = bare_cli("compare", str(file), str(file), "--json")
    assert [row["field"] for row in json.loads(done.stdout)["rows"]] == ["accuracy", "f1"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,score,f1\na,1,0.5\n", "which score decides? name it: --primary given.f1, or given.score"),
        ("id,word\na,hello\n", "bad.csv: no column of scores among id, word; write a number beside each id"),
        ("n,score\na,1\n", "bad.csv: no column of ids was recognised among n, score; call one of them id"),
        ("id,score\na,1\n,0\n", "bad.csv, row 2: the id (id) is missing; correct or remove the row"),
        (
            "id,score\na,1\na,0\n",
            "bad.csv, row 2: the id 'a' is that of row 1 (a column `repeat` may number answers); ",
        ),
    ],
)
def test_files_without_what_it_takes_are_refused_in_one_line(bare_cli, tmp_path, content, message):
    file = tmp_path / "bad.csv"
    file.write_text(content)
    done = bare_cli("gate", str(file), str(file), "--margin", "0.02")
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
