"""Real releases that people judged: five on the same questions, and one that got worse while its overlap rose."""

import json
from itertools import pairwise

import pytest

from answerkey.tasks.compare.compare import compare
from answerkey.tasks.warehouse.home import Home
from tests.tasks.comparing_help import row_of
from tests.tasks.staging_help import run, source_of

pytestmark = pytest.mark.nightly

RELEASES = ("fid", "gpt35", "chatgpt", "gpt4", "newbing")
PAIRS = list(pairwise(RELEASES))
LABEL = "label.correct"


def lines(file):
    with file.open(encoding="utf-8") as rows:
        yield from map(json.loads, rows)


@pytest.fixture(scope="module")
def evouna(shared):
    """The usable answers of all five releases."""
    names = {"question": "question", "references": "references", "answer": "answer", "human_label": "label"}
    return [
        {new: row[old] for old, new in names.items()}
        | {"id": row["meta"]["question_id"], "release": row["meta"]["model_key"]}
        for row in lines(shared / "data/evouna_nq/evouna_nq_dev.jsonl")
        if row["meta"]["usable"]
    ]


@pytest.fixture(scope="module")
def home(evouna, tmp_path_factory):
    folder = tmp_path_factory.mktemp("evouna")
    run(folder, source_of(folder, evouna, "evouna", paths={"label": "label"}), ["exact_match"])
    return Home(folder)


def test_what_may_be_said_of_the_five(home):
    found = {}
    for old, new in PAIRS:
        row = row_of(compare(home, f"evouna/{old}/v1", f"evouna/{new}/v1", primary=LABEL), LABEL)
        found[new] = (row.finding, row.n_common, row.fixed, row.broken, f"{row.difference:+.4f}", row.mde)
    # What would be shown allows for two fields, the labels and exact_match. It is simulated; by formula it is this.
    assert found == {
        "gpt35": ("worse", 1620, 217, 284, "-0.0414", pytest.approx(0.0431, rel=0.05)),
        "chatgpt": ("better", 1621, 234, 103, "+0.0808", pytest.approx(0.0354, rel=0.05)),
        "gpt4": ("better", 1621, 181, 100, "+0.0500", pytest.approx(0.0324, rel=0.05)),
        "newbing": ("not shown to differ", 1618, 144, 142, "+0.0012", pytest.approx(0.0327, rel=0.05)),
    }


@pytest.fixture(scope="module")
def drift(shared, tmp_path_factory):
    folder = tmp_path_factory.mktemp("drift")
    rows = [
        {"id": row["meta"]["question_id"], "release": row["model"], "correct": row["meta"]["auto_label"]}
        | {name: row[name] for name in ("question", "references", "answer")}
        for row in lines(shared / "data/llmdrift_prime/llmdrift_prime.jsonl")
        if row["model"].startswith("gpt-4")
    ]
    source = source_of(folder, rows, "drift", paths={"label": "correct"})
    ids = run(folder, source, ["rouge_l", "token_overlap", "bleu"]).ids
    assert ids == ["drift/gpt-4-0314/v1", "drift/gpt-4-0613/v1"]
    return compare(Home(folder), *ids, all_fields=True)


def test_overlap_rises_while_the_answers_get_worse_and_shorter(drift):
    label = row_of(drift, LABEL)
    assert (label.finding, f"{label.old:.3f}", f"{label.new:.3f}") == ("worse", "0.840", "0.511")
    for name in ("rouge_l.f1", "rouge_l.precision", "token_overlap.f1", "bleu.bleu"):
        assert row_of(drift, name).finding == "better", name
    for name in ("rouge_l.recall", "token_overlap.recall"):
        assert row_of(drift, name).finding == "worse", name

    [warning] = drift.warnings
    assert warning.startswith("answers are 132 times shorter: the median went from 527.5 to 4 characters.")
    assert warning.endswith("move with length alone; rely on recall, judges and human labels")
