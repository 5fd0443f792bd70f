"""Every kind of damage that was met in real data, in one file: each row is scored or quarantined with its reason."""

import json
from collections import Counter

import pytest

from answerkey.tasks.load.columns import parse_map
from answerkey.tasks.load.load import Source
from answerkey.tasks.reports.report import read_reports
from answerkey.tasks.validate.contract import Contract
from answerkey.tasks.warehouse.home import Home
from tests.tasks.staging_help import Row, query, run

GOOD = 50
"""Rows without damage, before the others: one release, ids 0 to 49."""

# What is wrong with a row -> the fields that differ from a good one, and the rule that quarantines it.
# No rule: the row is scored, and `contains` gives the number.
DAMAGE: dict[str, tuple[Row, str | None, float | None]] = {
    "label nan": ({"label": "nan"}, None, 1.0),
    "label maybe": ({"label": "maybe"}, "label_boolean", None),
    "null answer": ({"answer": None}, None, 0.0),
    "blank answer": ({"answer": " \u00a0\t"}, None, 0.0),
    "null in a word": ({"answer": "the answer is fine, and finullcial"}, None, 0.0),
    "joined references": ({"references": "Paris/Lutetia"}, None, 0.0),
    "think block": ({"answer": "<think>Lyon? No.</think> Paris"}, None, 1.0),
    "citation mark": ({"answer": "It is in the city of Paris[1]"}, None, 1.0),
    "doubled backslashes": ({"answer": "C:\\\\Paris\\\\n"}, None, 1.0),
    "byte order mark in a text": ({"answer": "\ufeffParis"}, None, 1.0),
    "mojibake": ({"answer": "Paris sâ€™il vous plaÃ®t"}, None, 1.0),
    "non-breaking spaces": ({"answer": "in\u00a0Paris", "references": ["\u00a0in Paris\u202f"]}, None, 1.0),
    "no references": ({"references": None}, "references_present", None),
    "an empty list": ({"references": []}, "references_present", None),
    "blank references": ({"references": ["", "\u00a0", " \t"]}, "references_present", None),
    "one blank reference of two": ({"references": ["", "Paris"]}, None, 1.0),
    "a list in a text": ({"references": "['Lutetia', 'Paris']"}, None, 1.0),
    "surrogate": ({"answer": "Paris \ud83d"}, "encoding", None),
    "surrogate in a reference": ({"references": ["Paris", "\udc00"]}, "encoding", None),
    "control character": ({"question": "Capital?\x00"}, "encoding", None),
    "no id": ({"id": None}, "id_present", None),
    "blank id": ({"id": " "}, "id_present", None),
    "no release": ({"model": None}, "release_present", None),
    "answer is a list": ({"answer": ["Paris"]}, "unreadable", None),
    "far too long": ({"answer": "Paris " * 20_000}, "length_answer", None),
    "duplicate": ({"id": "0"}, "id_unique", None),
    "conflict": ({"id": "twice", "answer": "Paris"}, "id_unique", None),
    "conflict again": ({"id": "twice", "answer": "Lyon"}, "id_unique", None),
    "the same question": ({"id": "1", "model": "two"}, None, 1.0),
    "other references": ({"id": "1", "model": "three", "references": ["Lyon"]}, "sample_consistent", None),
}
# Lines that are not rows at all, after the damaged rows.
LINES = [b"{'id': 'python'}", b'{"id": "cut off', b'["no", "object"]', b"", b"null"]
LATIN_1 = b'{"id": "latin", "question": "Capital?", "answer": "Par\xeds", "references": ["Paris"], "model": "one"}'
WARNINGS = {
    "label_missing_text": 1, "blank_answer": 2, "null_in_word": 1, "joined_references": 1, "think_block": 1,
    "citation_mark": 1, "doubled_backslash": 1, "mojibake": 2,
}  # fmt: skip


def row(number, **changed):
    good = {"id": str(number), "question": "Capital?", "answer": "It is Paris", "references": ["Paris"]}
    return good | {"model": "one", "label": "true"} | changed


ROWS = [row(i) for i in range(GOOD)] + [row(name, **changed) for name, (changed, _, _) in DAMAGE.items()]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("dirt")


@pytest.fixture(scope="module")
def done(home):
    file = home / "dirt.jsonl"
    lines = [json.dumps(row).encode() for row in ROWS] + LINES + [LATIN_1]
    file.write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(lines))
    source = Source(str(file), paths=parse_map(["label=label"]), slices=("label",))
    return run(home, source, ["contains", "bleu"], contract=Contract(max_quarantined=0.5))


def test_every_line_is_scored_or_in_quarantine_and_none_is_both(home, done):
    quarantined = query(home, 'SELECT "row" FROM quarantine')
    refused = Counter(number for (number,) in quarantined)
    assert set(refused.values()) == {1}
    scored = Counter(
        number
        for (sample_id, release) in query(home, "SELECT sample_id, release FROM scores WHERE metric = 'bleu'")
        for number, row in enumerate(ROWS, start=1)
        if (str(row["id"]), row["model"]) == (sample_id, release) and number not in refused
    )
    assert set(scored.values()) == {1}
    blank = len(ROWS) + LINES.index(b"") + 1
    everything = set(range(1, len(ROWS) + len(LINES) + 2)) - {blank}
    assert set(scored) | set(refused) == everything and not set(scored) & set(refused)
    counts = (done.validation.n_rows, done.validation.n_accepted, done.validation.n_quarantined)
    assert counts == (len(everything), len(scored), len(refused))
    assert done.loaded.n_rows == len(everything)


@pytest.mark.parametrize("what", [what for what, (_, rule, _) in DAMAGE.items() if rule])
def test_a_row_in_quarantine_has_its_rule_and_is_whole(home, done, what):
    number = GOOD + 1 + list(DAMAGE).index(what)
    changed, expected, _ = DAMAGE[what]
    [(rule, reason, raw)] = query(home, 'SELECT rule, reason, raw FROM quarantine WHERE "row" = ?', [number])
    assert rule == expected
    assert reason
    kept = json.loads(raw)
    given = row(what, **changed)
    assert (kept["release"] if "release" in kept else kept["model"]) == given["model"]
    answer = "Paris \ufffd" if what == "surrogate" else given["answer"]
    assert kept["answer"] == answer


def test_the_reasons_say_what_is_wrong(home, done):
    reasons = dict(query(home, 'SELECT "row", reason FROM quarantine'))
    numbers = {what: GOOD + 1 + i for i, what in enumerate(DAMAGE)}
    assert {what: reasons[numbers[what]] for what in ("surrogate", "duplicate", "label maybe", "no id")} == {
        "surrogate": "the answer holds U+FFFD at character 7",
        "duplicate": "the same row again, first seen at row 1",
        "label maybe": "the label 'maybe' is neither true nor false",
        "no id": "the id is missing or blank",
    }
    first = numbers["conflict"]
    for what in ("conflict", "conflict again"):
        assert reasons[numbers[what]] == (
            "the id 'twice' has 2 rows in release 'one' that are not the same, "
            f"the first at row {first}: which one is right is not known; several answers to one question need a "
            "column `repeat`"
        )
    other = "the references of the id '1' differ from what 2 of its 3 rows have"
    assert reasons[numbers["other references"]] == other


def test_lines_that_are_not_rows(home, done):
    first = len(ROWS) + 1
    found = query(home, 'SELECT "row", rule, reason, raw FROM quarantine WHERE "row" >= ? ORDER BY "row"', [first])
    assert [(number - first, rule) for number, rule, _, _ in found] == [
        (0, "unreadable"), (1, "unreadable"), (2, "unreadable"), (4, "unreadable"), (5, "encoding"),
    ]  # fmt: skip
    assert [raw for *_, raw in found[:4]] == [line.decode() for line in LINES if line]
    starts = [f"line {first} is not JSON: ", f"line {first + 1} is not JSON: "]
    starts += [f"line {first + 2} is a JSON list", f"line {first + 4} is a JSON NoneType"]
    starts += ["the answer holds U+FFFD at character 4"]
    assert all(reason.startswith(start) for (_, _, reason, _), start in zip(found, starts, strict=True))


@pytest.mark.parametrize("what", [what for what, (_, rule, _) in DAMAGE.items() if not rule])
def test_a_row_that_can_be_scored_is(home, done, what):
    changed, _, value = DAMAGE[what]
    place = row(what, **changed)
    found = query(
        home,
        "SELECT status, value FROM scores WHERE metric = 'contains' AND sample_id = ? AND release = ?",
        [place["id"], place["model"]],
    )
    assert found == [("scored", value)]


def test_damage_that_is_scored_is_warned_of(done):
    found = {check.rule: check.n_failed for check in done.validation.checks if check.severity == "warning"}
    assert {rule: found[rule] for rule in WARNINGS} == WARNINGS
    warned = {check.rule for check in done.validation.checks if check.severity == "warning" and not check.success}
    assert warned - {"same_samples", "release_scored"} == set(WARNINGS)


def test_labels_are_true_false_or_nothing(home, done):
    counts = dict(
        query(
            home, "SELECT coalesce(label, '(none)'), count(*) FROM answers WHERE missing_because IS NULL GROUP BY ALL"
        )
    )
    assert counts.pop("nan") == 1
    assert list(counts) == ["true"]
    assert query(home, "SELECT correct FROM answers WHERE label = 'nan'") == [(None,)]
    understood = "SELECT count(*) FROM answers WHERE correct AND missing_because IS NULL"
    assert query(home, understood) == [(counts["true"],)]


def test_the_counts_of_the_report_add_up(home, done):
    [report] = [report for report in read_reports(Home(home), done.ids) if report.release == "one"]
    # What is in quarantine has no score, as in the gate, and lowers the coverage.
    because = query(home, "SELECT split_part(missing_because, ':', 1) FROM answers WHERE missing_because IS NOT NULL")
    assert Counter(why for (why,) in because) == {
        "quarantined (encoding)": 2, "quarantined (id_unique)": 1, "quarantined (label_boolean)": 1,
        "quarantined (length_answer)": 1,
    }  # fmt: skip
    assert (report.status, report.n_total) == ("PARTIAL", 68)
    assert {score.n_failed for score in report.overall if score.metric == "contains"} == {5}
    for score in report.scores:
        assert score.n_total == score.n_scored + score.n_failed + score.n_undefined + score.n_skipped
    assert {score.n_total for score in report.overall} == {report.n_total}
    slices = {score.slice: score.n_total for score in report.scores if score.slice != "all"}
    assert sum(slices.values()) == report.n_total
    expected = Counter(rule for _, rule, _ in DAMAGE.values() if rule)
    expected += Counter({"unreadable": 4, "encoding": 1})
    counted = Counter(dict(query(home, "SELECT rule, count(*) FROM quarantine GROUP BY rule")))
    assert counted == expected


def test_a_table_in_single_quotes_with_the_same_damage(tmp_path):
    lines = ["id\tquestion\tanswer\tground_truth\tmodel"]
    lines += [f"{i}\t'Capital?'\t'it''s\tParis'\t'Paris'\tone" for i in range(12)]
    lines += [
        "empty answer\t'Capital?'\t\t'Paris'\tone",
        "empty reference\t'Capital?'\t'Paris'\t\tone",
        "joined\t'Capital?'\t'Paris'\t'Paris/Lutetia'\tone",
        "spaces\t'Capital?'\t'Paris\u00a0'\t'\u00a0Paris'\tone",
        "one column more\t'Capital?'\t'Paris'\t'Paris'\tone\tmore",
        "one column less\t'Capital?'\t'Paris'\t'Paris'",
        "latin\t'Capital?'\t'Par\udced s'\t'Paris'\tone",
        "0\t'Capital?'\t'it''s\tParis'\t'Paris'\tone",
    ]
    file = tmp_path / "dirt.tsv"
    file.write_bytes(b"\xef\xbb\xbf" + "\n".join(lines).encode("utf-8", "surrogateescape"))
    done = run(tmp_path, Source(str(file)), ["contains"], contract=Contract(max_quarantined=0.5))
    assert (done.validation.n_rows, done.validation.n_accepted, done.validation.n_quarantined) == (20, 15, 5)
    values = dict(query(tmp_path, "SELECT sample_id, value FROM scores"))
    assert values == {
        **{str(i): 1.0 for i in range(12)}, "empty answer": 0.0, "joined": 0.0, "spaces": 1.0, "latin": None,
    }  # fmt: skip
    quarantined = query(tmp_path, "SELECT sample_id, rule, reason FROM quarantine ORDER BY rule, reason")
    assert quarantined == [
        ("latin", "encoding", "the answer holds U+FFFD at character 4"),
        ("0", "id_unique", "the same row again, first seen at row 1"),
        ("empty reference", "references_present", "no reference that is not blank"),
        (None, "unreadable", "row 17: Expected Number of Columns: 5 Found: 6"),
        (None, "unreadable", "row 18: Expected Number of Columns: 5 Found: 4"),
    ]
    raws = [raw for (raw,) in query(tmp_path, "SELECT raw FROM quarantine WHERE rule = 'unreadable' ORDER BY \"row\"")]
    assert raws == lines[17:19]
