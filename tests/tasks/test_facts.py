"""Facts as rows: what became of each, in every report, and which ones a new release lost."""

import re
from pathlib import Path

import pytest

from tests.judge_server import JudgeServer
from tests.tasks.judging_help import judged, wordy
from tests.tasks.staging_help import query, run, source_of

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/warehouse.md"
METRIC = "ground_truth_similarity"
ADA = "Ada wrote it. Born 1815. Lived in London."
# Question, references, the answer of the old release, that of the new one.
SAMPLES = {
    "changed": ([ADA], "Ada wrote it. Born 1815. English too.", "Born 1816. Ada wrote it."),
    "was equal": (["Jupiter is big. Has moons."], " Jupiter is big.  Has moons.", "Jupiter is big."),
    "is equal": (["Red it is. Hot too."], "Red it is.", "Red it is. Hot too. "),
    "is blank": (["One it is."], "One it is. Two as well.", None),
    "was blank": (["Yes it is."], None, "Yes it is. Really so."),
    "all is gone": (["Nothing remains."], "Nothing remains. ", ""),
    "other reference": (["Cats purr. They sleep.", "Dogs bark. Dogs run."], "Cats purr.", "Dogs bark."),
    "failed now": (["Snow falls."], "Snow falls. Often so.", "Broken."),
}
ROWS = [
    {"id": name, "question": f"{name}?", "references": references, "answer": answer, "release": release}
    for name, (references, *answers) in SAMPLES.items()
    for release, answer in zip(("old", "new"), answers, strict=True)
]
LOST = [
    ("all is gone", "all is gone?", None, "missing", None),
    ("changed", "changed?", "Born 1815.", "contradicted", "Born 1816."),
    ("is blank", "is blank?", "One it is.", "missing", None),
    ("was equal", "was equal?", "Has moons.", "missing", None),
]


@pytest.fixture(scope="module")
def completed(tmp_path_factory):
    home = tmp_path_factory.mktemp("facts")
    with JudgeServer(wordy, faults=lambda _n, body: "content_filter" if "Broken." in str(body) else None) as server:
        completed = run(home, source_of(home, ROWS, "faq"), [METRIC, "rouge_l"], options=judged(server.url))
    return home, completed


def statements():
    blocks = re.findall(r"```sql\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    return [statement for block in blocks for statement in block.split(";") if statement.strip()]


def test_the_documents_queries_run(completed):
    home, _ = completed
    found = [len(query(home, statement)) for statement in statements()]
    assert len(found) == 7
    # Of the reports of gpt-4 and the quarantine there is nothing here, and the verdicts of this run are on facts.
    assert [n > 0 for n in found] == [True, False, False, False, False, True, True]


def test_which_facts_did_the_new_release_lose(completed):
    home, made = completed
    assert made.ids == ["faq/old/v1", "faq/new/v1"]
    assert made.reports[1].message == f"{METRIC}: 1 of 8 not scored: 1 content_filter"
    [lost] = [statement for statement in statements() if "now_says" in statement]
    assert sorted(query(home, lost)) == LOST
    # The other way round: what the new release gained.
    gained = lost.replace("faq/old/v1", "x").replace("faq/new/v1", "faq/old/v1").replace("'x'", "'faq/new/v1'")
    assert [(name, fact) for name, _, fact, *_ in query(home, gained)] == [
        ("is equal", "Hot too."),
        ("was blank", "Yes it is."),
    ]


def test_every_fact_has_its_fate(completed):
    home, _ = completed
    facts = (
        "SELECT side, fact_id, fact, status, with_id, with_fact FROM report_facts WHERE report_id = ? AND sample_id = ?"
    )
    old = query(home, f"{facts} ORDER BY side DESC, fact_id", ["faq/old/v1", "changed"])
    assert old == [
        ("reference", "r1.1", "Ada wrote it.", "matched", "a1", "Ada wrote it."),
        ("reference", "r1.2", "Born 1815.", "matched", "a2", "Born 1815."),
        ("reference", "r1.3", "Lived in London.", "missing", None, None),
        ("answer", "a1", "Ada wrote it.", "matched", "r1.1", "Ada wrote it."),
        ("answer", "a2", "Born 1815.", "matched", "r1.2", "Born 1815."),
        ("answer", "a3", "English too.", "extra", None, None),
    ]
    new = query(home, f"{facts} ORDER BY side DESC, fact_id", ["faq/new/v1", "changed"])
    assert new == [
        ("reference", "r1.1", "Ada wrote it.", "matched", "a2", "Ada wrote it."),
        ("reference", "r1.2", "Born 1815.", "contradicted", "a1", "Born 1816."),
        ("reference", "r1.3", "Lived in London.", "missing", None, None),
        ("answer", "a1", "Born 1816.", "contradicted", "r1.2", "Born 1815."),
        ("answer", "a2", "Ada wrote it.", "matched", "r1.1", "Ada wrote it."),
    ]
    for name, status in (("is equal", "matched"), ("is blank", "missing")):
        rows = query(home, facts, ["faq/new/v1", name])
        assert rows == [("reference", None, None, status, None, None)]
    assert query(home, facts, ["faq/new/v1", "failed now"]) == []
    other = query(home, f"{facts} ORDER BY side DESC, fact_id", ["faq/new/v1", "other reference"])
    assert [row[1] for row in other] == ["r2.1", "r2.2", "a1"]


def test_a_measurement_has_the_same_facts(completed):
    home, _ = completed
    columns = "sample_key, signature, side, fact_id, fact, status, with_id"
    joined = query(
        home,
        f"SELECT {columns} FROM report_facts JOIN answers USING (release, sample_id) "
        "JOIN (SELECT DISTINCT sample_key, signature FROM measurements WHERE metric = 'ground_truth_similarity') "
        "USING (sample_key) ORDER BY ALL",
    )
    assert joined == query(home, f"SELECT {columns} FROM facts ORDER BY ALL")


def test_a_jury_keeps_the_facts_of_the_vote_that_decided(home):
    with JudgeServer(wordy) as server:
        options = judged(server.url, repeats=3)
        run(home, source_of(home, ROWS[:2], "faq"), [METRIC], options=options)
        # Taken apart once, and matched three times; the new answer likewise.
        assert server.n_requests == 1 + 3 + 3
        run(home, source_of(home, ROWS[:2], "faq"), [METRIC], options=options)
        assert server.n_requests == 7
    rows = query(home, "SELECT release, side, count(*) FROM report_facts GROUP BY ALL ORDER BY ALL")
    assert rows == [("new", "answer", 4), ("new", "reference", 6), ("old", "answer", 6), ("old", "reference", 6)]
    spread = query(home, "SELECT DISTINCT value FROM scores WHERE field = 'spread'")
    assert spread == [(0.0,)]
