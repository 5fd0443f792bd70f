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
NUMBERS = {what: GOOD + 1 + place for place, what in enumerate(DAMAGE)}
SCORED = "SELECT sample_id, release, value FROM scores WHERE metric = 'contains'"


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


@pytest.fixture(scope="module")
def quarantine(home, done):
    """By its number: the rule, the reason and the text of each row in quarantine."""
    found = query(home, 'SELECT "row", rule, reason, raw FROM quarantine')
    assert len(found) == len({number for number, *_ in found})
    return {number: about for number, *about in found}


def test_every_line_is_scored_or_in_quarantine_and_none_is_both(home, done, quarantine):
    scored = Counter(
        number
        for sample_id, release, _ in query(home, SCORED)
        for number, row in enumerate(ROWS, start=1)
        if (str(row["id"]), row["model"]) == (sample_id, release) and number not in quarantine
    )
    assert set(scored.values()) == {1}
    everything = set(range(1, len(ROWS) + len(LINES) + 2)) - {len(ROWS) + LINES.index(b"") + 1}
    assert set(scored) | set(quarantine) == everything
    counts = (done.validation.n_rows, done.validation.n_accepted, done.validation.n_quarantined)
    assert counts == (len(everything), len(scored), len(quarantine))
    assert done.loaded.n_rows == len(everything)


def test_rows_in_quarantine_have_their_rule_and_reason_and_are_whole(quarantine):
    for what, (changed, expected, _) in DAMAGE.items():
        if expected:
            rule, reason, raw = quarantine[NUMBERS[what]]
            kept, given = json.loads(raw), row(what, **changed)
            assert (rule, bool(reason)) == (expected, True)
            assert (kept["release"] if "release" in kept else kept["model"]) == given["model"]
            assert kept["answer"] == ("Paris \ufffd" if what == "surrogate" else given["answer"])
    first = len(ROWS) + 1
    lines = {number - first: (rule, raw) for number, (rule, _, raw) in quarantine.items() if number >= first}
    assert lines.pop(5)[0] == "encoding"
    assert lines == {place: ("unreadable", line.decode()) for place, line in enumerate(LINES) if line}


def test_rows_that_can_be_scored_are(home, done):
    values = {(sample_id, release): value for sample_id, release, value in query(home, SCORED)}
    expected = {what: value for what, (_, rule, value) in DAMAGE.items() if not rule}
    places = {what: row(what, **DAMAGE[what][0]) for what in expected}
    assert {what: values[place["id"], place["model"]] for what, place in places.items()} == expected


def test_damage_that_is_scored_is_warned_of(done):
    warned = {check.rule: check.n_failed for check in done.validation.checks if not check.success}
    assert {rule: n for rule, n in warned.items() if rule in WARNINGS} == WARNINGS
    severities = {check.rule: check.severity for check in done.validation.checks if not check.success}
    odd = {rule for rule, severity in severities.items() if severity == "warning"} - set(WARNINGS)
    assert odd == {"same_samples", "release_scored"}


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
