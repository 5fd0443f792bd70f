"""Two files of ids and scores are compared and decided upon, without answers and without a run."""

import json
from pathlib import Path

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
    content = json.loads(bare_cli("compare", *files, "--json").stdout)
    assert (content["old"], content["new"]) == ("old", "new")
    [row] = content["rows"]
    assert (row["metric"], row["field"], row["n_common"], row["n_clusters"]) == ("given", "score", 100, 50)
    assert (row["old"], row["new"], row["fixed"], row["broken"], row["finding"]) == (0.5, 0.8, 30, 0, "better")


def test_the_only_score_decides(bare_cli, files, tmp_path):
    page = tmp_path / "page.html"
    process = bare_cli("gate", *files, "--margin", "0.02", "--output", str(page))
    assert process.returncode == 0
    assert process.stdout.startswith("PASS  new may ship in place of old: given.score went from 0.500")
    plot = "  ┊│         ├──────────●────────┤   ┊ -0.020, the accepted loss   │ no difference   ● +0.300"
    assert process.stdout.splitlines()[1] == plot
    assert "basis: given scores, which were not measured here" in process.stdout
    assert "<title>Ship new" in page.read_text()
    assert bare_cli("gate", *files[::-1], "--margin", "0.02").returncode == 1


def test_labels_from_a_file_decide_and_scores_predict_the_others(bare_cli, files, tmp_path):
    wide, long, verdict = (tmp_path / name for name in ("wide.csv", "long.csv", "gate.json"))
    wide.write_text("\n".join(["id,old,new", *(f"q{n},{n < 50},{n < 80}" for n in range(0, 100, 2))]))
    long.write_text("\n".join(["id,release,label", *(f"q{n},{side},yes" for side in ("old", "new") for n in range(9))]))
    options = ("--margin", "0.02", "--clusters", "cluster", "--labels", wide, "--output", verdict)
    bare_cli("gate", *files, *options, code=0)
    content = json.loads(verdict.read_text())
    rule = content["rules"][0]
    assert (content["basis"], rule["n_labelled"], round(rule["value"], 2)) == ("people and judge", 50, 0.3)
    rows = json.loads(bare_cli("compare", *files, "--labels", long, "--json", code=0).stdout)["rows"]
    assert {row["field"]: row["n_labelled"] for row in rows} == {"correct": None, "score": 9}


def test_what_files_of_scores_cannot_have_is_refused(refusal, files, tmp_path):
    labels = tmp_path / "labels.csv"
    labels.write_text("id,release,label\nq1,gpt-4,1\n")
    gate = ("gate", *files, "--margin", "0.02")
    message = f"{labels}: q1 of gpt-4 has a label and no score; the scores are of old and new"
    assert refusal(*gate, "--labels", labels) == message
    assert refusal(*gate, "--keep").startswith("--keep: files of scores have no data set; name two reports")


def test_every_score_of_two_files_is_compared(bare_cli, tmp_path):
    file = tmp_path / "scores.jsonl"
    scores = ({"id": n, "f1": n / 9, "accuracy": n % 2, "prompt_tokens": n, "latency_ms": 9} for n in range(9))
    file.write_text("".join(json.dumps(row) + "\n" for row in scores))
    rows = json.loads(bare_cli("compare", str(file), str(file), "--json").stdout)["rows"]
    assert [(row["field"], row["lower_is_better"]) for row in rows] == [
        ("accuracy", False), ("f1", False), ("seconds", True), ("prompt", True)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("order", "doubt", "long"),
    [
        ("candidate_score,Baseline score", "", False),
        ("new,old", "", True),
        ("gpt-4,gpt-5", "gpt-4 comes first, so it is taken as the old release\n", False),
    ],
)
def test_one_file_has_the_scores_of_both_releases(bare_cli, tmp_path, order, doubt, long):
    """Those of the two files above: a column a release, in this order, or a row for each answer."""
    names = order.split(",")
    old, new = names if doubt else names[::-1]
    right = {old: range(50), new: range(80)}
    lines = [f"id,{order},cluster"]
    lines += [f"q{n},{','.join(str(int(n in right[name])) for name in names)},c{n // 2}" for n in range(100)]
    if long:
        rows = [f"q{n},{name},{int(n in right[name])},c{n // 2}" for name in names for n in range(100)]
        lines = ["id,release,score,cluster", *rows]
    file = tmp_path / "scores.csv"
    file.write_text("\n".join(lines))
    process = bare_cli("compare", file, "--json", code=0)
    content = json.loads(process.stdout)
    [row] = content["rows"]
    assert (row["old"], row["new"], row["fixed"], row["n_clusters"]) == (0.5, 0.8, 30, 50)
    assert (content["old"], content["new"]) == (old, new)
    assert process.stderr.endswith(doubt) and bool(process.stderr) == bool(doubt)


def test_columns_are_named_and_an_empty_cell_is_no_answer(bare_cli, tmp_path):
    file = tmp_path / "scores.csv"
    rows = [f"q{n},{n % 5},1,{'' if n < 10 else 1},c{n // 2}" for n in range(100)]
    file.write_text("\n".join(["n,length,gpt-4,gpt-5,document", *rows]))
    columns = ("id=n", "scores=gpt-4", "scores=gpt-5", "cluster=document")
    process = bare_cli(
        "gate", file, "--margin", "0.02", *(word for column in columns for word in ("--map", column)), "--json"
    )
    content = json.loads(process.stdout)
    rule = content["rules"][0]
    assert (process.returncode, rule["n_unmeasured"], rule["value"], rule["n_clusters"]) == (4, 10, -0.1, 50)
    assert "only 90 of 100 samples of gpt-5 (10 undefined) have a comparable number" in content["sentence"]


def test_ids_are_joined_as_people_spell_them_and_a_cell_may_say_that_there_is_no_score(bare_cli, files):
    old, new = map(Path, files)
    old.write_text(old.read_text().replace("\nq", "\n"))
    new.write_text(new.read_text().replace("\nq", "\n00").replace("007,passed", "007,NaN"))
    [row] = json.loads(bare_cli("compare", old, new, "--json").stdout)["rows"]
    assert (row["n_common"], row["n_only_old"], row["missing_new"]) == (99, 1, {"undefined": 1})


def test_a_share_and_percent_are_no_pair(bare_cli, files):
    old, new = map(Path, files)
    new.write_text(new.read_text().replace("passed", "100").replace("failed", "0"))
    output = " ".join(bare_cli("gate", new, old, "--margin", "0.02", code=4).stdout.split())
    assert "given.score has two scales: at most 1 in old, 80 on average in new" in output
    assert "not compared: given.score has two scales" in " ".join(bare_cli("compare", old, new).stdout.split())


@pytest.mark.parametrize(
    ("n_files", "content", "message"),
    [
        (2, "id,score,f1\na,1,0.5\n", "which score decides? name it: --primary given.f1, or given.score"),
        (2, "id,word\na,hello\n", "bad.csv: no column of scores among id, word; write a number beside each id"),
        (2, "n,score\na,1\n", "bad.csv: no column of ids was recognised among n, score; name it: --map id=COLUMN"),
        (2, "id,latency\na,31\n", "bad.csv: in which unit is latency? Call the column latency_s or latency_ms"),
        (
            2,
            "id,score,f1\na,1,1\nb,error,0\nc,0,1\n",
            "bad.csv, row 2: score is 'error', which is no number; correct it, leave",
        ),
        (2, "id;score\na;0,5\n", "bad.csv, row 1: score is '0,5', which is no number; correct it"),
        (2, "id,score\na,1\n,0\n", "bad.csv, row 2: the id (id) is missing; correct or remove the row"),
        (
            2,
            "id,score\na,1\na,0\n",
            "bad.csv, row 2: the id 'a' is that of row 1; drop one of them, or number several answers to a question",
        ),
        (1, "id,a,b,c\nq,1,0,1\n", "bad.csv: scores in a, b, c, and two releases are compared: name two with --map"),
        (1, "id,model,score\nq,a,1\nq,b,1\nq,c,0\n", "bad.csv: 3 releases (a, b, c); keep the rows of two of them"),
        (1, "id,old,new,label\nq,1,0,yes\n", "one column of labels, and two releases are compared: name two"),
    ],
)
def test_files_without_what_it_takes_are_refused_in_one_line(refusal, tmp_path, n_files, content, message):
    file = tmp_path / "bad.csv"
    file.write_text(content)
    assert message in refusal("gate", *[file] * n_files, "--margin", "0.02")


def test_a_level_that_no_share_can_exceed_is_refused(refusal, files):
    rule = ("--rule", "level given.score >= 1")
    message = "rule 'level given.score >= 1': no release could pass, since given.score is 0 to 1; write a floor between"
    assert message in refusal("gate", *files, "--margin", "0.02", *rule)


def test_a_file_that_is_not_there_is_named(refusal, files):
    missing = "old.csv: there is no such file"
    assert refusal("gate", "old.csv", files[1], "--margin", "0.02").startswith(f"{missing}; give two files of scores")
    assert refusal("compare", "old.csv") == f"{missing}, and for two reports or releases NEW is missing"
    assert refusal("gate", "a", "b", "--map", "id=n").startswith(
        "--map: it is about files of scores; a report has read"
    )


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (
            ("47/50", "--level", "0.9"), 3,
            "It is not yet clear whether 47/50 may ship: given.right is 0.940 (95 % interval 0.835 to 0.987, 50 "
            "samples); at least 0.9 is not shown, and roughly 300 samples would show it with a power of 80 % if it is "
            "as high as it seems.",
        ),
        (("400/500", "--level", "0.9"), 1, "400/500 must not ship: given.right is 0.800 (95 % interval 0.762 to 0.8"),
        (
            ("41/50", "47/50", "--margin", "0.05"), 0,
            "47/50 may ship in place of 41/50: given.right went from 0.820 to 0.940 (+0.120, 95 % "
            "interval -0.031 to +0.272, 100 samples); a loss of 0.05 or more is ruled out.",
        ),
    ],
)  # fmt: skip
def test_counts_alone_decide(bare_cli, tmp_path, words, code, sentence):
    file = tmp_path / "gate.json"
    process = bare_cli("gate", *words, "--output", file, code=code)
    content = json.loads(file.read_text())
    assert content["sentence"].startswith(sentence)
    assert (content["basis"], len(content["rules"]), content["exit_code"]) == ("given", 1, code)
    pairs = "If both releases answered the same ones, pairs tell more: gate a file with the columns id, old, new."
    assert (pairs in process.stdout, "┊" in process.stdout.splitlines()[1]) == (len(words) == 4, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("3000/3000", "--level", "1"),
            "rule 'level given.right >= 1': no release could pass, since given.right is 0 to 1",
        ),
        (("51/50", "--level", "0.9"), "51/50: write how many of how many answers were right, for instance 47/50"),
        (("47/50", "--margin", "0.1"), "47/50: give --level X, the lowest share of right answers that you accept"),
        (("41/50", "47/50"), "41/50 47/50: give --margin X, the largest loss of right answers that you accept"),
        (("47/50", "--level", "0.9", "--output", "page.html"), "counts are decided by --margin or --level alone, and"),
    ],
)
def test_counts_without_the_limit_that_decides_are_refused(refusal, words, message):
    assert message in refusal("gate", *words)
