"""What `gate`, `compare` and `history` remember of two releases, and what their data cannot hide."""

import json

import pytest

from answerkey.flows.cli.main import main
from answerkey.metrics_core.policy_file import parse_policy
from answerkey.tasks.gate.gate import gate
from answerkey.tasks.load.load import Source
from answerkey.tasks.publish.site import build_overview, render_overview
from answerkey.tasks.warehouse.home import Home
from tests.tasks.comparing_help import LENIENT, answer
from tests.tasks.staging_help import check_whole, jsonl, run

N, BROKEN = 600, 30


def rows(right=range(N), n=N, **more):
    """Answers to `n` questions; those in `right` are right."""
    return [answer(i, "yes" if i in right else "no", **more) for i in range(n)]


def evaluated(home, name, answers, **paths):
    file = jsonl(home / f"{name}.jsonl", answers)
    source = Source(file, dataset="d", release=name, paths=paths)  # type: ignore[arg-type]
    return run(home, source, ("exact_match",), contract=LENIENT).ids[0]


@pytest.fixture
def command(capsys, tmp_path):
    def call(*arguments):
        code = main([*arguments, "--home", str(tmp_path)])
        return code, " ".join(capsys.readouterr().out.split())

    return call


def gated(command, primary="exact_match.match", margin="0.02"):
    return command("gate", "old", "new", "--primary", primary, "--margin", margin)


def notes(home, margin=0.02):
    """The outcome of the gate, and the sentences beside it."""
    policy = parse_policy({"primary": "exact_match.match", "margin": margin}, "test")
    verdict = gate(Home(home), "old", "new", policy).verdict
    return verdict.outcome, verdict.notes


@pytest.mark.nightly
def test_questions_that_were_taken_out_are_counted(command, tmp_path):
    old, new = rows(range(500)), rows(range(BROKEN, 500))
    evaluated(tmp_path, "old", old)
    evaluated(tmp_path, "new", new)
    assert notes(tmp_path) == ("FAIL", ())
    # Both are evaluated again, without the questions that the new one has lost, one of which has another id only.
    renamed = {**old[0], "id": "renamed"}
    evaluated(tmp_path, "old", [*old[BROKEN:], renamed])
    evaluated(tmp_path, "new", [*new[BROKEN:], renamed | {"answer": "no"}])
    sentence = "29 of the 600 questions of earlier reports about new were taken out: neither report has them."
    assert notes(tmp_path) == ("PASS", (sentence,))
    assert sentence in command("compare", "old", "new")[1]
    # What was asked before a report was made is no news about it.
    assert "taken out" not in command("compare", "d/old/v1", "d/new/v1")[1]
    # A question that is forgotten is one less that was taken out, which makes no comparison a forged one.
    assert command("warehouse", "forget", "d", "--sample", old[1]["id"])[0] == 0
    check_whole(Home(tmp_path))


@pytest.mark.nightly
def test_an_earlier_verdict_by_another_policy_is_named(tmp_path):
    evaluated(tmp_path, "old", rows())
    evaluated(tmp_path, "new", rows(range(BROKEN, N)))
    assert notes(tmp_path, 0.02) == notes(tmp_path, 0.02) == ("FAIL", ())
    # Under other names, the same data are the same data.
    evaluated(tmp_path, "new", rows(range(BROKEN, N)))
    earlier = "An earlier verdict on the same data, with margin 0.02, was FAIL."
    assert notes(tmp_path, 0.06) == ("INCONCLUSIVE", (earlier,))
    both = (
        "2 earlier verdicts on the same data, by other policies: FAIL with margin 0.02, INCONCLUSIVE with margin 0.06."
    )
    assert notes(tmp_path, 0.1) == ("PASS", (both,))
    # The overview shows the newest verdict about two reports, and the worst of those before it.
    [newest, _] = build_overview(Home(tmp_path)).verdicts
    assert (newest.outcome, newest.n_earlier, newest.worst, newest.margin) == ("PASS", 1, "INCONCLUSIVE", 0.06)
    html = render_overview(build_overview(Home(tmp_path)))
    assert "1 earlier verdict on these reports: " in html
    assert " with margin 0.06</p>" in html
    evaluated(tmp_path, "new", rows(range(BROKEN - 1, N)))
    assert notes(tmp_path, 0.1) == ("PASS", ())


@pytest.mark.nightly
def test_a_new_file_cannot_take_clusters_apart(command, tmp_path):
    documents = [row | {"doc": f"doc{i // 10}"} for i, row in enumerate(rows())]
    evaluated(tmp_path, "old", documents, cluster="doc")
    evaluated(tmp_path, "new", [row | {"doc": row["id"]} for row in documents], cluster="doc")
    code, said = gated(command)
    assert code == 3
    assert "with 60 clusters it could not be even if no answer changed" in said
    differ = (
        "The 600 samples with a cluster in both data sets are in 60 clusters with old and in 600 with new. Samples "
        "that are in one cluster with either count as dependent, which makes 60."
    )
    assert differ in command("compare", "old", "new")[1]
    # Chains count: pairs here, and pairs there that overlap with them, are one. Other names for the same are no news.
    evaluated(tmp_path, "old", [row | {"doc": f"a{i // 2}"} for i, row in enumerate(rows())], cluster="doc")
    evaluated(tmp_path, "new", [row | {"doc": f"b{(i + 1) // 2}"} for i, row in enumerate(rows())], cluster="doc")
    assert "which makes 1." in command("compare", "old", "new")[1]
    evaluated(tmp_path, "new", [row | {"doc": f"c{i // 2}"} for i, row in enumerate(rows())], cluster="doc")
    content = json.loads(command("compare", "old", "new", "--json")[1])
    assert (content["rows"][0]["n_clusters"], [w for w in content["warnings"] if "cluster" in w]) == (300, [])


@pytest.mark.nightly
@pytest.mark.parametrize(("other", "code"), [(60, 4), (5, 0)])
def test_other_labels_for_the_same_answers_are_named_and_soon_decide_nothing(command, tmp_path, other, code):
    changed = [row | {"label": i >= other} for i, row in enumerate(rows())]
    evaluated(tmp_path, "old", changed, label="label")
    evaluated(tmp_path, "new", rows(label=True), label="label")
    sentence = (
        f"{other} answers with the same text have a different label in new than in old, of 600 questions that people "
        "labelled in both"
    )
    assert f"{sentence}. That alone moves the labels" in command("compare", "old", "new")[1]
    found, said = gated(command, "label.correct")
    assert found == code
    assert (f"decides nothing, because {sentence}; label these answers once" in said) == (code == 4)


@pytest.mark.nightly
def test_copies_of_a_question_are_no_more_evidence_than_one(command, tmp_path):
    copies = [{**row, "id": f"{row['id']}{copy}"} for row in rows(n=100) for copy in "abcdef"]
    evaluated(tmp_path, "old", copies)
    evaluated(tmp_path, "new", copies)
    assert gated(command)[0] == 3
    sentence = (
        "600 samples have the same question and the same answers as another one: these copies are 100 clusters, which "
        "count as one sample each. If they are different questions, name each in a column `cluster` "
        "(--map cluster=COLUMN)."
    )
    said = command("compare", "old", "new")[1]
    assert sentence in said
    assert "[-0.036, +0.036]" in said
    named = [row | {"own": row["id"]} for row in copies]
    evaluated(tmp_path, "new", named, cluster="own")
    assert gated(command)[0] == 0
    # A few copies among many samples change nothing.
    for name in ("old", "new"):
        evaluated(tmp_path, name, [*rows(), {**rows()[0], "id": "again"}])
    assert "copies" not in command("compare", "old", "new")[1]


@pytest.mark.nightly
def test_single_answers_are_enough_where_the_old_release_gave_single_ones(command, tmp_path):
    old = rows(n=200)
    evaluated(tmp_path, "old", old)
    more = [row | {"repeat": repeat} for row in old[:10] for repeat in range(1, 6)]
    evaluated(tmp_path, "new", [*more, *(row | {"repeat": 1} for row in old[10:])])
    code, said = gated(command, margin="0.05")
    assert (code, "not given" in said) == (0, False)
    # Where most questions have five, those that have fewer lack some.
    many = [row | {"repeat": repeat} for row in old for repeat in range(1, 6)]
    evaluated(tmp_path, "new", many[4:])
    assert "4 single answers to 1 of them not given by new and counted as 0" in gated(command)[1]
