"""Validation: which row breaks which rule, what its messages say, and that no row is lost."""

import json
import os
import random
import subprocess
import sys
import unicodedata
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import regex

from answerkey.metrics_core.sample import content_hash
from answerkey.metrics_core.text import is_blank
from answerkey.metrics_core.validation import InvalidValue
from answerkey.tasks.load.staged import quarantine_schema, staged_schema
from answerkey.tasks.validate import validate as validation
from answerkey.tasks.validate.contract import Contract, Expectation
from answerkey.tasks.validate.suite import breaking
from answerkey.tasks.validate.validate import validate
from answerkey.tasks.warehouse.store import parquet_writer

LENIENT = Contract(max_quarantined=1.0)


def row(**fields):
    """A sound row, but for the fields given."""
    whole = {
        "sample_id": "q1",
        "release": "old",
        "question": "Where is the Kremlin?",
        "answer": "In Moscow.",
        "references": ["Moscow"],
        "facts": [],
        "cluster": None,
        "label": "true",
        "slices": {"topic": "geography"},
    } | fields
    sample = [whole[name] for name in ("question", "references", "facts", "cluster")]
    whole["sample_hash"] = fields.get("sample_hash", content_hash(sample))
    whole["sample_key"] = content_hash([whole["answer"], *sample[:3]])
    return whole


def rows(*each):
    """Rows with ids of their own."""
    return [row(**({"sample_id": f"q{number}"} | dict(fields))) for number, fields in enumerate(each, start=1)]


def stage(path, staged):
    numbered = [{"row": number} | dict(fields) for number, fields in enumerate(staged, start=1)]
    pq.write_table(pa.Table.from_pylist(numbered, schema=staged_schema()), path)
    return str(path)


class Outcome:
    def __init__(self, validation):
        self.validation = validation
        lines: list[dict[str, Any]] = pq.read_table(validation.accepted).to_pylist()
        quarantined = [str(line["missing_because"]).startswith("quarantined (") for line in lines]
        self.accepted = [line for line, out in zip(lines, quarantined, strict=True) if not out]
        self.without_answer = [line for line, out in zip(lines, quarantined, strict=True) if out]
        self.quarantine: list[dict[str, Any]] = pq.read_table(validation.quarantine).to_pylist()
        self.reasons = {line["row"]: (line["rule"], line["reason"]) for line in self.quarantine}

    @property
    def kept(self):
        return [line["row"] for line in self.accepted]

    def check(self, rule, release=None):
        [found] = [c for c in self.validation.checks if c.rule == rule and c.release == release]
        return found


def run(
    folder,
    staged,
    contract=LENIENT,
    rejects=None,
):
    refused = None
    if rejects is not None:
        refused = str(folder / "rejects.parquet")
        pq.write_table(pa.Table.from_pylist(list(rejects), schema=quarantine_schema()), refused)
    found = Outcome(validate(stage(folder / "staged.parquet", staged), refused, str(folder / "out"), contract))
    # Rows that are all accepted as they are stay where they were staged.
    assert {*os.listdir(folder / "out"), "accepted.parquet"} == {"accepted.parquet", "quarantine.parquet"}
    assert found.validation.n_rows == found.validation.n_accepted + found.validation.n_quarantined
    assert found.validation.n_accepted == len(found.accepted)
    assert found.validation.n_quarantined == len(found.quarantine)
    return found


def test_sound_rows_are_accepted_in_order_with_the_label_understood(tmp_path):
    labels = [
        "true",
        " YES ",
        "1",
        "1.0",
        "t",
        "Y",
        "Correct",
        "False",
        "no",
        "0",
        "0.0",
        "F",
        "n",
        "INCORRECT",
        None,
    ]
    staged = rows(*({"label": label} for label in labels))
    found = run(tmp_path, staged)
    assert found.kept == list(range(1, 16))
    assert [line["correct"] for line in found.accepted] == [True] * 7 + [False] * 7 + [None]
    assert pq.read_schema(found.validation.accepted) == staged_schema()
    assert pq.read_schema(found.validation.quarantine) == quarantine_schema()
    assert found.quarantine == []
    assert found.validation.broken is None
    assert all(check.success and check.n_failed == 0 for check in found.validation.checks)
    for written, given in zip(found.accepted, staged, strict=True):
        assert dict(written.pop("slices")) == given.pop("slices")
        assert {name: written[name] for name in given} == given


ONE_ROW: list[tuple[dict[str, Any], str, str]] = [
    ({"sample_id": None}, "id_present", "the id is missing or blank"),
    ({"sample_id": " \u00a0\t"}, "id_present", "the id is missing or blank"),
    ({"release": None}, "release_present", "the release is missing or blank"),
    ({"release": ""}, "release_present", "the release is missing or blank"),
    ({"references": []}, "references_present", "no reference that is not blank"),
    ({"references": None}, "references_present", "no reference that is not blank"),
    ({"references": ["", " \u00a0", "\u2028"]}, "references_present", "no reference that is not blank"),
    ({"answer": "a" * 41}, "length_answer", "an answer of 41 characters, 40 are allowed"),
    ({"references": ["b", "я" * 31]}, "length_reference", "a reference of 31 characters, 30 are allowed"),
    ({"question": "c" * 51}, "length_question", "a question of 51 characters, 50 are allowed"),
    ({"answer": "caf\ufffd"}, "encoding", "the answer holds U+FFFD at character 4"),
    ({"question": "\x00"}, "encoding", "the question holds U+0000 at character 1"),
    ({"references": ["\x1b[0m"]}, "encoding", "the reference holds U+001B at character 1"),
    ({"references": ["ok", "a\x85"]}, "encoding", "the reference 2 holds U+0085 at character 2"),
    ({"label": "maybe"}, "label_boolean", "the label 'maybe' is neither true nor false"),
    ({"label": "2"}, "label_boolean", "the label '2' is neither true nor false"),
    ({"label": "x" * 60}, "label_boolean", f"the label '{'x' * 40}...' is neither true nor false"),
]


def test_rows_that_are_all_accepted_as_they_are_are_not_written_again(tmp_path):
    clean: list[dict[str, Any]] = [{"label": None, "answer": f"In Moscow {i}."} for i in range(3)]
    warned = {"label": None, "answer": "In Moscow.[1]"}
    odd = {"label": None, "release": " "}
    written = {"clean": clean, "warned": [*clean, warned], "labelled": [*clean, {"label": "no"}], "odd": [*clean, odd]}
    for name, each in written.items():
        (tmp_path / name).mkdir()
        found = run(tmp_path / name, rows(*each))
        as_staged = found.validation.accepted == str(tmp_path / name / "staged.parquet")
        assert as_staged == (name in ("clean", "warned"))
        assert found.kept == list(range(1, len(each) + (name != "odd")))
        assert [one["correct"] for one in found.accepted][3:] == {"labelled": [False], "warned": [None]}.get(name, [])
        # What is only warned of is counted all the same.
        assert found.check("citation_mark").n_failed == (name == "warned")


def test_the_rules_of_one_row(tmp_path):
    contract = Contract(max_quarantined=1.0, max_answer_chars=40, max_reference_chars=30, max_question_chars=50)
    at_the_edge = {"answer": "a" * 40, "references": ["я" * 30], "question": "c" * 50}
    found = run(tmp_path, rows(*(fields for fields, _, _ in ONE_ROW), at_the_edge), contract)
    assert found.reasons == {n: (rule, reason) for n, (_, rule, reason) in enumerate(ONE_ROW, start=1)}
    assert found.kept == [len(ONE_ROW) + 1]
    rules = [rule for _, rule, _ in ONE_ROW]
    for rule in rules:
        check = found.check(rule)
        assert (check.severity, check.success) == ("critical", False)
        assert (check.n_checked, check.n_failed) == (len(ONE_ROW) + 1, rules.count(rule))
    assert found.check("length_answer").message == "1 row with an answer longer than 40 characters (row 8)"
    assert found.check("encoding").message == (
        "4 rows with broken characters (U+FFFD or control characters) (rows 11, 12, 13, ...)"
    )


@pytest.mark.slow
def test_blank_is_what_a_metric_takes_for_blank(tmp_path):
    characters = [c for c in map(chr, (*range(0xD800), *range(0xE000, 0x110000))) if _spacelike(c)]
    found = run(tmp_path, rows(*({"references": [c]} for c in characters)))
    blank = [r for r, (rule, _) in found.reasons.items() if rule == "references_present"]
    assert blank == [number for number, c in enumerate(characters, start=1) if is_blank(c)]
    # 29 kinds of white space, and 4,174 code points that Unicode says are not shown.
    assert len(blank) == 29 + 4174


def _spacelike(character):
    return bool(
        character.isspace()
        or regex.match(r"\p{Default_Ignorable_Code_Point}", character)
        or unicodedata.category(character) in ("Zs", "Zl", "Zp", "Cc", "Cf")
    )


def test_control_characters_that_texts_have_are_kept(tmp_path):
    harmless = "a\tb\nc\r\nd\u00a0e\u200bf\u200dg\U0001f469"
    found = run(tmp_path, rows({"answer": harmless, "question": harmless, "references": [harmless]}))
    assert found.kept == [1]
    every = [chr(i) for i in (*range(0x20), *range(0x7F, 0xA1), 0xFFFD)]
    found = run(tmp_path, rows(*({"answer": f"a{c}b"} for c in every)))
    assert [every[r - 1] for r in found.kept] == ["\t", "\n", "\r", "\xa0"]


def test_damage_in_several_fields_names_each(tmp_path):
    found = run(tmp_path, rows({"answer": "\ufffd", "question": "a\x07", "references": ["\x7f"]}))
    assert found.reasons[1][1] == (
        "the question holds U+0007 at character 2; the answer holds U+FFFD at character 1; "
        "the reference holds U+007F at character 1"
    )


def test_the_same_row_again_is_kept_once(tmp_path):
    other = {"sample_id": "q2"}
    found = run(tmp_path, [row(), row(**other), row(), row(release="new"), row(slices={"a": "b"})])
    assert found.kept == [1, 2, 4]
    again = ("id_unique", "the same row again, first seen at row 1")
    assert found.reasons == {3: again, 5: again}
    assert found.check("id_unique").message == ("2 rows whose id occurs more than once in the release (rows 3, 5)")


def test_rows_that_differ_under_one_id_are_all_out(tmp_path):
    changes: list[dict[str, Any]] = [
        {"answer": "In Paris."},
        {"label": "false"},
        {"label": None},
        {"answer": None},
        {"references": ["Moskva"]},
    ]
    staged = []
    for number, change in enumerate(changes):
        same: dict[str, Any] = {"sample_id": f"q{number}"}
        staged += [row(**same), row(**same, **change), row(**same)]
    found = run(tmp_path, [*staged, row(sample_id="fine")])
    assert found.kept == [16]
    for number in range(1, 16):
        rule, reason = found.reasons[number]
        id_number, first = (number - 1) // 3, (number - 1) // 3 * 3 + 1
        assert rule == "id_unique"
        assert reason.split("; also ")[0] == (
            f"the id 'q{id_number}' has 3 rows in release 'old' that are not the same, the first at row {first}: "
            "which one is right is not known; several answers to one question need a column `repeat`"
        )


def test_repeats_are_other_answers_and_a_repeat_that_comes_again_is_a_duplicate(tmp_path):
    found = run(
        tmp_path,
        [
            row(repeat="1"),
            row(repeat="2"),
            row(repeat="3", answer="In Paris."),
            row(repeat="2"),
            row(repeat="run b", sample_id="q2"),
            row(repeat="run b", sample_id="q2", answer="In Paris."),
            row(repeat="run b", sample_id="q2", release="new"),
            row(repeat="4", references=["Paris"]),
        ],
    )
    assert found.kept == [1, 2, 3, 7]
    several = "the id 'q2' has 2 rows with repeat 'run b' in release 'old' that are not the same, the first at row 5: "
    several += "which one is right is not known; several answers to one question need a column `repeat`"
    assert found.reasons == {
        4: ("id_unique", "the same row again, first seen at row 2"),
        5: ("id_unique", several),
        6: ("id_unique", several),
        8: ("sample_consistent", "the references of the id 'q1' differ from what 3 of its 4 rows have"),
    }


def test_blank_ids_are_not_repeated_ids(tmp_path):
    found = run(tmp_path, [row(sample_id=None), row(sample_id=""), row(sample_id=None, question="Else?"), row()])
    assert {rule for rule, _ in found.reasons.values()} == {"id_present"}
    assert found.reasons[1] == ("id_present", "the id is missing or blank")
    assert found.check("id_unique").n_failed == 0
    assert found.kept == [4]


def test_the_sample_that_most_rows_have_is_kept(tmp_path):
    found = run(
        tmp_path,
        [
            row(release="a"),
            row(release="b", references=["Moskva"]),
            row(release="c"),
            row(release="d", question="Where?", facts=["It is in Moscow."]),
            row(release="e"),
        ],
    )
    assert found.kept == [1, 3, 5]
    tail = "from what 3 of its 5 rows have"
    assert found.reasons == {
        2: ("sample_consistent", f"the references of the id 'q1' differ {tail}"),
        4: ("sample_consistent", f"the question and facts of the id 'q1' differ {tail}"),
    }


def test_without_a_majority_all_rows_of_the_id_are_out(tmp_path):
    changes: list[tuple[dict[str, Any], str]] = [
        ({"cluster": "page 7"}, "the cluster of the id 'q0' differs"),
        ({"question": None}, "the question of the id 'q1' differs"),
        ({"references": ["Moscow", "Moskva"]}, "the references of the id 'q2' differ"),
        ({"facts": ["It is."], "question": "Eh?"}, "the question and facts of the id 'q3' differ"),
        ({"sample_hash": "other"}, "the sample of the id 'q4' differs"),
        ({"answer": "Elsewhere."}, ""),
    ]
    staged = []
    for number, (change, _) in enumerate(changes):
        same: dict[str, Any] = {"sample_id": f"q{number}"}
        staged += [row(**same), row(**same, **change, release="new")]
    found = run(tmp_path, staged)
    assert found.kept == [11, 12]
    for number in range(1, 11):
        said = changes[(number - 1) // 2][1]
        assert found.reasons[number] == (
            "sample_consistent",
            f"{said} between its rows, and no variant has a majority",
        )


def test_repeated_rows_have_one_vote_and_contradicting_rows_none(tmp_path):
    wrong = {"references": ["Paris"]}
    found = run(
        tmp_path,
        [
            row(release="a", **wrong),
            row(release="a", **wrong),
            row(release="a", **wrong),
            row(release="b"),
            row(release="c"),
            row(release="d", **wrong),
            row(release="d", **wrong, answer="Paris."),
        ],
    )
    assert found.kept == [4, 5]
    assert found.reasons[1] == (
        "sample_consistent",
        "the references of the id 'q1' differ from what 2 of its 3 rows have",
    )
    assert [found.reasons[number][0] for number in (2, 3, 6, 7)] == ["id_unique"] * 4


def test_a_row_that_breaks_several_rules_is_quarantined_once(tmp_path):
    found = run(tmp_path, rows({}, {"label": "maybe", "references": [], "answer": "\x01", "release": None}))
    assert [line["row"] for line in found.quarantine] == [2]
    assert found.reasons[2] == (
        "release_present",
        "the release is missing or blank; also references_present: no reference that is not blank; "
        "also encoding: the answer holds U+0001 at character 1; "
        "also label_boolean: the label 'maybe' is neither true nor false",
    )
    for rule in ("release_present", "references_present", "encoding", "label_boolean"):
        assert found.check(rule).n_failed == 1


def test_references_may_be_optional(tmp_path):
    found = run(tmp_path, rows({"references": []}, {}), Contract(references="wanted"))
    assert found.kept == [1, 2]
    check = found.check("references_present")
    assert (check.severity, check.success, check.n_failed) == ("warning", False, 1)
    assert check.message == "1 row without a reference: metrics that need one leave them undefined (row 1)"
    unused = run(tmp_path, rows({"references": []}, {}), Contract(references="unused"))
    assert (unused.kept, [one for one in unused.validation.checks if one.rule == "references_present"]) == ([1, 2], [])


def test_a_text_that_stands_for_no_label_is_counted_and_is_no_label(tmp_path):
    found = run(tmp_path, rows({"label": "nan"}, {"label": "true"}, {"label": " NaN"}, {"label": None}))
    assert [line["correct"] for line in found.accepted] == [None, True, None, None]
    assert [line["label"] for line in found.accepted] == ["nan", "true", " NaN", None]
    check = found.check("label_missing_text")
    assert (check.severity, check.success, check.n_checked, check.n_failed) == ("warning", False, 4, 2)
    assert check.message == ("2 rows with the text 'nan' instead of a label: they count as unlabelled (rows 1, 3)")
    labels = ["", "nan", "null", "None", "n/a", "NA", "-", "-", "  "]
    found = run(tmp_path, rows(*({"label": label} for label in labels)))
    assert found.kept == list(range(1, 10))
    assert found.check("label_missing_text").message == (
        "9 rows with the text '' (2) or '-' (2) or 'nan' (1) or 'null' (1) or 'none' (1) or 'n/a' (1) "
        "or 'na' (1) instead of a label: they count as unlabelled (rows 1, 2, 3, ...)"
    )


def warned(folder, rule, each):
    """How many of the rows are warned about; none may be quarantined."""
    found = run(folder, rows(*each))
    assert found.validation.n_quarantined == 0
    check = found.check(rule)
    assert check.severity == "warning"
    assert check.success == (check.n_failed == 0)
    return check.n_failed


MOJIBAKE = ["cafÃ©", "itâ€™s", "Ð°Ñ‚Ð¾Ð¼", "РїСЂРёРІРµС‚", "20Â°C", "ðŸ˜€", "ï»¿Moscow", "\ufeffMoscow"]
READABLE = [
    "café",
    "it’s",
    "атом",
    "привет",
    "РСФСР",
    "SÃO PAULO",
    "ESPAÑA",
    "Âge",
    "20°C",
    "😀",
    "Ðorđe",
    "Сірка Її",
]


def test_wrongly_decoded_text_is_distinguished_from_other_scripts(tmp_path):
    assert warned(tmp_path, "mojibake", ({"answer": text} for text in MOJIBAKE)) == len(MOJIBAKE)
    assert warned(tmp_path, "mojibake", ({"answer": text} for text in READABLE)) == 0


DAMAGED_WORDS = ["finullce", "Fernullndo", "nullotechnology", "банnull", "MAGnullTE", "null and finullce"]
SOUND_WORDS = [
    "the null hypothesis",
    "nullify",
    "annulled",
    "NullPointerException",
    "isNull",
    "nulls",
    "null",
    "нуль",
]


def test_null_inside_a_word_is_distinguished_from_words_that_contain_it(tmp_path):
    assert warned(tmp_path, "null_in_word", ({"references": [t]} for t in DAMAGED_WORDS)) == len(DAMAGED_WORDS)
    assert warned(tmp_path, "null_in_word", ({"references": [t]} for t in SOUND_WORDS)) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "hits", "misses"),
    [
        (
            "joined_references",
            [{"references": [text]} for text in ("Moscow/Moskva", "1990 / 1991", "Лев Толстой/Tolstoy")],
            [
                *({"references": [text]} for text in ("km/h", "24/7", "https://a.org/bb/cc", "and/or")),
                {"references": ["Moscow/Moskva", "Moscow"]},
                {"answer": "Moscow/Moskva"},
            ],
        ),
        (
            "think_block",
            [{"answer": "<think>hm</think>Moscow"}, {"answer": "hm\n</THINK>\nMoscow"}],
            [{"answer": "I think so"}, {"question": "What is <think>?"}],
        ),
        (
            "citation_mark",
            [{"answer": text} for text in ("Moscow[1]", "Moscow.[12][3]", "Москва[^2^]", "Moscow【4†source】")],
            [{"answer": text} for text in ("see [1]", "[1] Moscow", "a[i]", "Moscow")],
        ),
        (
            "right_and_wrong",
            [{"references": ["A", " bern"], "incorrect_references": ["Bern ", "B"]}],
            [{"references": ["A"], "incorrect_references": ["B"]}, {"references": ["A"], "incorrect_references": None}],
        ),
        (
            "doubled_backslash",
            [{"answer": "C:\\\\temp"}, {"question": "\\\\n"}, {"references": ["a", "\\\\u00e9"]}],
            [{"answer": "C:\\temp"}, {"answer": "a/b"}],
        ),
        (
            "answer_missing_text",
            [{"answer": text} for text in ("nan", "None", " N/A ", "NULL", "<NA>")],
            [{"answer": "None of them"}, {"answer": "None", "references": ["None"]}, {"answer": "-"}],
        ),
        (
            "reference_missing_text",
            [{"references": ["nan"]}, {"references": ["Moscow", "None"]}],
            [{"references": ["None of them"]}, {"answer": "nan"}],
        ),
        (
            "unfinished_answer",
            [{"answer": "It is a city. " * 30 + "It was"}, {"answer": "One, " * 100}],
            [{"answer": "It is a city. " * 30}, {"answer": "It is a city that"}],
        ),
        (
            "blank_answer",
            [{"answer": None}, {"answer": ""}, {"answer": "\u00a0\n"}],
            [{"answer": "."}, {"answer": "nan"}],
        ),
    ],
)  # fmt: skip
def test_other_warnings(tmp_path, rule, hits, misses):
    assert warned(tmp_path, rule, hits) == len(hits)
    assert warned(tmp_path, rule, misses) == 0


def test_samples_that_a_release_lacks(tmp_path):
    staged = [row(sample_id=f"q{i}", release="old") for i in range(100)]
    staged += [row(sample_id=f"q{i}", release="new") for i in range(5, 101)]
    staged += [row(sample_id=f"q{i}", release="tiny") for i in range(3)]
    found = run(tmp_path, staged, Contract(missing_tolerance=0.05))
    assert found.validation.broken is None
    old, new, tiny = (found.check("same_samples", release) for release in ("old", "new", "tiny"))
    assert (old.success, old.n_checked, old.n_failed) == (True, 101, 1)
    assert old.message == (
        "release 'old' lacks 1 of the 101 samples that the releases have together (0.9901 %, 5 % are tolerated)"
    )
    assert (new.success, new.n_failed) == (True, 5)
    assert (tiny.success, tiny.n_failed, tiny.severity) == (False, 98, "warning")
    assert tiny.message.startswith("release 'tiny' lacks 98 of the 101 samples")
    assert tiny.message.endswith("compare it with the others only on the samples that both have")


def test_answer_length_against_the_first_release(tmp_path):
    staged = [row(sample_id=f"q{i}", release="zeta", answer="a" * 10) for i in range(3)]
    staged += [row(sample_id=f"q{i}", release="same", answer="a" * 15) for i in range(3)]
    staged += [row(sample_id=f"q{i}", release="long", answer="a" * 40) for i in range(3)]
    staged += [row(sample_id=f"q{i}", release="brief", answer="a" * 4) for i in range(3)]
    staged += [row(sample_id=f"q{i}", release="mute", answer=None) for i in range(3)]
    found = run(tmp_path, staged)
    first, same, long, brief, mute = (
        found.check("length_drift", release) for release in ("zeta", "same", "long", "brief", "mute")
    )
    assert [check.success for check in (first, same, long, brief, mute)] == [True, True, False, False, True]
    assert first.message == "release 'zeta': median answer length 10 characters"
    assert same.message == "release 'same': median answer length 15 characters, against 10 characters in 'zeta'"
    assert long.message == (
        "release 'long': median answer length 40 characters, against 10 characters in 'zeta' "
        "(4 times longer, 1.5 times is tolerated): scores that reward overlap shift with length alone, "
        "so look at recall and at a judge metric before ranking releases"
    )
    assert "4 characters, against 10 characters in 'zeta' (2.5 times shorter, " in brief.message
    assert mute.message.startswith("release 'mute': median answer length unknown, no answers")
    assert found.validation.n_quarantined == 0


def test_very_many_releases_are_summed_up(tmp_path):
    found = run(tmp_path, [row(sample_id=f"q{i}", release=f"r{i}") for i in range(150)])
    checks = [check for check in found.validation.checks if check.rule == "same_samples"]
    assert len(checks) == 101
    assert checks[-1].release is None
    assert (checks[-1].n_checked, checks[-1].n_failed) == (150, 150)
    assert checks[-1].message == (
        "150 of 150 releases fail this check, not all of them listed: is the release mapped to the right column?"
    )
    assert [check for check in found.validation.checks if check.rule == "length_drift"] == []


def test_too_much_quarantine_breaks_the_contract(tmp_path):
    staged = rows(*({"references": []} if i % 4 == 1 else {} for i in range(20)), {"label": "maybe"})
    at_the_limit = run(tmp_path, staged, Contract(max_quarantined=6 / 21))
    assert at_the_limit.validation.broken is None
    assert at_the_limit.check("quarantined_share").success
    found = run(tmp_path, staged, Contract(max_quarantined=0.28))
    assert found.validation.broken == (
        "28.57 % of the rows (6 of 21) are in quarantine, 28 % are allowed; most often `references_present`: "
        "5 rows (rows 2, 6, 10, ...): without a reference. "
        "Correct the data or the mapping, or raise --max-quarantined"
    )
    check = found.check("quarantined_share")
    assert (check.severity, check.success, check.n_checked, check.n_failed) == ("critical", False, 21, 6)
    assert len(found.quarantine) == 6  # what is broken is still kept for people to see


def test_no_rows_break_the_contract(tmp_path):
    found = run(tmp_path, [])
    assert found.validation.broken == "there are no rows: check the file and its mapping"
    assert not found.check("not_empty").success
    assert found.check("quarantined_share").success
    assert found.accepted == found.quarantine == []


def test_rows_that_could_not_be_read_count(tmp_path):
    refused = [
        {"row": number, "rule": "unreadable", "reason": f"line {number}\n is not JSON", "raw": "{oops"}
        for number in (2, 5, 9, 11)
    ] + [{"row": None, "rule": "wrong_type", "reason": "answer is a list", "raw": "[]"}]
    found = run(tmp_path, rows({}, {"references": []}), rejects=refused)
    assert (found.validation.n_rows, found.validation.n_accepted) == (7, 1)
    assert [line["row"] for line in found.quarantine] == [2, 5, 9, 11, None, 2]
    assert found.quarantine[0] == refused[0] | dict.fromkeys(("file", "sample_id", "release"))
    check = found.check("unreadable")
    assert (check.severity, check.success, check.n_checked, check.n_failed) == ("critical", False, 7, 4)
    assert check.message == "4 rows could not be read (rows 2, 5, 9, ...): line 2 is not JSON"
    assert found.check("wrong_type").message == ("1 row could not be read (row numbers unknown): answer is a list")
    broken = run(tmp_path, [], Contract(), refused).validation.broken
    assert broken is not None and "most often `unreadable`: 4 rows (rows 2, 5, 9, ...)" in broken


def test_raw_restores_the_row(tmp_path):
    odd = row(
        sample_id="ид-1",
        answer='a\x00b "quoted" \\ \n\u2028 \U0001f600\ufffd',
        references=["", None, "Москва"],
        facts=None,
        slices={"kind": "числа", "empty": None},
        label="so so",
    )
    staged = [odd, row(sample_id="q2", references=[], slices=None)]
    found = run(tmp_path, staged)
    assert found.kept == []
    for line, given in zip(found.quarantine, staged, strict=True):
        restored = json.loads(line["raw"])
        assert list(restored) == [name for name in staged_schema().names if name not in ("file", "file_row")]
        names = ("correct", "missing_because", "finish_reason", "repeat", "context", "incorrect_references")
        added = dict.fromkeys(names)
        assert restored == {"row": line["row"]} | added | given
        table = pa.Table.from_pylist([restored], schema=staged_schema())
        assert table.equals(pq.read_table(tmp_path / "staged.parquet").slice(line["row"] - 1, 1))
    assert found.quarantine[0]["sample_id"] == "ид-1"


@pytest.mark.parametrize(
    ("rule", "hits", "misses"),
    [
        (
            "error_page",
            [
                {"answer": text}
                for text in (
                    "502 Bad Gateway", "Error: 429", "Error code: 500 - {'error': None}", "503 Service Unavailable",
                    "Traceback (most recent call last):\n  File", "<html><head><title>504 Gateway Time-out</title>",
                    "openai.RateLimitError: slow down", '{"error": {"message": "overloaded", "code": 529}}',
                )
            ],
            [
                {"answer": text}
                for text in (
                    "A 502 is called Bad Gateway", "429 people", "Error 404 is a song", "Error: it is Paris", "500",
                    "Python prints: Traceback (most recent call last):",
                )
            ]
            + [{"answer": "502 Bad Gateway", "references": ["502 Bad Gateway"]}],
        ),
        (
            "truncated_answer",
            [
                {"finish_reason": "length"}, {"finish_reason": "MAX_TOKENS"},
                {"finish_reason": "max_tokens", "answer": None}, {"answer": "It is [truncated]"},
            ],
            [{"finish_reason": "stop"}, {"finish_reason": ""}, {"answer": "It was truncated."}],
        ),
    ],
)  # fmt: skip
def test_texts_that_are_no_answers(tmp_path, rule, hits, misses):
    found = run(tmp_path, rows(*hits, *misses), Contract(max_quarantined=1))
    assert found.kept == [*range(len(hits) + 1, len(hits) + len(misses) + 1)]
    assert {broken for broken, _ in found.reasons.values()} == {rule}
    assert found.check(rule).n_failed == len(hits)


DIRT: list[tuple[dict[str, Any], str]] = [
    ({}, "kept"),
    ({"label": "nan"}, "kept label_missing_text"),
    ({"answer": None}, "kept blank_answer"),
    ({"answer": "The finullce minister of Japan"}, "kept null_in_word"),
    ({"references": ["Moscow/Moskva"]}, "kept joined_references"),
    ({"references": ["Moscow|Moskva"]}, "kept joined_references"),
    ({"references": ["Moscow;Moskva"]}, "kept joined_references"),
    ({"references": ["In Moscow; it is a city"]}, "kept"),
    ({"answer": "<think>Let me see.</think> Moscow"}, "kept think_block"),
    ({"answer": "It is Moscow[1][2]."}, "kept citation_mark"),
    ({"answer": "a\\\\nb"}, "kept doubled_backslash"),
    ({"question": "\ufeffWhere is the Kremlin?"}, "kept mojibake"),
    ({"answer": "cafÃ©"}, "kept mojibake"),
    ({"answer": "10\u00a0km\u202fnorth"}, "kept"),
    ({"references": []}, "references_present"),
    ({"references": ["", "\u00a0"]}, "references_present"),
    ({"answer": "caf\ufffd"}, "encoding"),
    ({"answer": "502 Bad Gateway"}, "error_page"),
    ({"finish_reason": "length"}, "truncated_answer"),
    ({"answer": "N/A"}, "kept answer_missing_text"),
    ({"answer": "'In Moscow.'\t'Moscow'"}, "kept"),
    ({"sample_id": "q1"}, "id_unique"),
    ({"label": "unsure"}, "label_boolean"),
    ({"sample_id": " "}, "id_present"),
    ({"answer": "x" * 100_001}, "length_answer"),
]


def test_a_dirty_set_loses_nothing(tmp_path):
    refused = [{"row": 26, "rule": "unreadable", "reason": "not JSON", "raw": "{"}]
    found = run(tmp_path, rows(*(fields for fields, _ in DIRT)), Contract(max_quarantined=0.5), refused)
    fates = {number: fate for number, (_, fate) in enumerate(DIRT, start=1)} | {26: "unreadable"}
    kept = [number for number, fate in fates.items() if fate.startswith("kept")]
    assert found.kept == kept
    assert found.validation.broken is None
    out = {number: fate for number, fate in fates.items() if number not in kept}
    assert {number: rule for number, (rule, _) in found.reasons.items()} == out
    assert all(reason for _, reason in found.reasons.values())
    assert Counter(line["rule"] for line in found.quarantine) == Counter(out.values())
    for rule in (
        "id_present",
        "id_unique",
        "references_present",
        "length_answer",
        "encoding",
        "label_boolean",
    ):
        assert found.check(rule).n_failed == list(out.values()).count(rule)
    said = Counter(fate.split()[1] for fate in fates.values() if " " in fate)
    warnings = {c.rule: c.n_failed for c in found.validation.checks if c.severity == "warning" and c.n_failed}
    assert warnings == dict(said)


def test_the_rules_between_rows_against_a_plain_reading_of_them(tmp_path):
    rng = random.Random(7)
    staged = [
        row(
            sample_id=rng.choice([f"q{i}" for i in range(150)] + [None]),
            release=rng.choice("abc"),
            answer=rng.choice(["Moscow", "Moscow", "Moscow", "Paris"]),
            references=rng.choice([["Moscow"]] * 4 + [["Moskva"]]),
        )
        for _ in range(400)
    ]
    clashing, repeats = set(), set()
    groups: dict[Any, list[int]] = defaultdict(list)
    for number, one in enumerate(staged):
        if one["sample_id"]:
            groups[one["release"], one["sample_id"]].append(number)
    for group in groups.values():
        if len({(staged[n]["answer"], *staged[n]["references"]) for n in group}) > 1:
            clashing.update(group)
        else:
            repeats.update(group[1:])
    inconsistent: set[int] = set()
    for sample_id in {one["sample_id"] for one in staged} - {None}:
        members = [n for n, one in enumerate(staged) if one["sample_id"] == sample_id]
        votes = Counter(staged[n]["sample_hash"] for n in members if n not in clashing | repeats)
        right = [sample for sample, count in votes.items() if 2 * count > votes.total()]
        if len({staged[n]["sample_hash"] for n in members}) > 1:
            inconsistent.update(n for n in members if staged[n]["sample_hash"] not in right)
    nameless = {n for n, one in enumerate(staged) if one["sample_id"] is None}
    assert min(len(some) for some in (clashing, repeats, inconsistent, nameless)) > 1

    found = run(tmp_path, staged)
    assert found.check("id_unique").n_failed == len(clashing | repeats)
    assert found.check("sample_consistent").n_failed == len(inconsistent)
    out = clashing | repeats | inconsistent | nameless
    assert sorted(found.reasons) == sorted(n + 1 for n in out)
    assert found.kept == [n + 1 for n in range(400) if n not in out]
    for n in inconsistent - clashing - repeats:
        assert found.reasons[n + 1][0] == "sample_consistent"


def test_batches_change_nothing(tmp_path, monkeypatch):
    staged = rows(*({"label": ("true", "x", "false", "0", "z")[i % 5]} for i in range(43)))
    (tmp_path / "whole").mkdir()
    (tmp_path / "parts").mkdir()
    whole = run(tmp_path / "whole", staged)
    monkeypatch.setattr(validation, "_MAX_BATCH_ROWS", 7)
    monkeypatch.setattr(validation, "_REFUSED_ROWS", 2)
    parts = run(tmp_path / "parts", staged)
    assert parts.accepted == whole.accepted
    assert parts.quarantine == whole.quarantine
    assert parts.validation.checks == whole.validation.checks
    assert [line["correct"] for line in whole.accepted[:3]] == [True, False, False]
    assert whole.validation.n_quarantined == 17


def test_a_check_that_cannot_run_is_not_a_check_that_failed():
    frame: dict[str, Any] = {"n": [0, 3, 1], "text": ["a", "b", "c"]}
    [outside] = breaking(frame, [Expectation("small", "critical", "n", high=1)])
    assert outside.tolist() == [1]
    with pytest.raises(RuntimeError, match=r"`gone` could not run: expect_column_values_to_be_between .*'absent'"):
        breaking(frame, [Expectation("small", "critical", "n", high=1), Expectation("gone", "warning", "absent")])
    with pytest.raises(RuntimeError, match=r"`text` could not run: expect_column_values_to_be_between"):
        breaking(frame, [Expectation("text", "warning", "text")])


def test_bounds_are_inclusive_and_missing_values_break_nothing():
    frame = {"x": [0.5, 1.0, 2.0, float("nan"), 2.5]}
    low, high, both = breaking(
        frame,
        [
            Expectation("low", "critical", "x", low=1, high=None),
            Expectation("high", "critical", "x", high=2),
            Expectation("both", "critical", "x", low=1, high=2),
        ],
    )
    assert (low.tolist(), high.tolist(), both.tolist()) == ([0], [4], [0, 4])


def test_columns_with_the_same_numbers_break_each_its_own_bounds():
    frame = {"a": [0, 7, 1], "b": [0, 7, 1], "c": [7, 0, 1]}
    asked = [("a", 6), ("b", 6), ("c", 6), ("b", 0), ("a", 0)]
    found = breaking(frame, [Expectation(f"{column} {high}", "warning", column, high=high) for column, high in asked])
    assert [of_one.tolist() for of_one in found] == [[1], [1], [0], [1, 2], [1, 2]]


@pytest.mark.slow
def test_a_fresh_process_prints_nothing_and_writes_nothing_else(tmp_path):
    staged = stage(tmp_path / "staged.parquet", rows({}, {"label": "maybe"}, {"answer": None}))
    home = tmp_path / "home"
    home.mkdir()
    code = (
        "import sys\n"
        "from answerkey.tasks.validate.contract import Contract\n"
        "from answerkey.tasks.validate.validate import validate\n"
        "heavy = {'great_expectations', 'pandas', 'duckdb'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        f"found = validate({staged!r}, None, {str(tmp_path / 'out')!r}, Contract())\n"
        "assert (found.n_accepted, found.n_quarantined) == (2, 1)\n"
        "assert found.broken\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", code],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        env=os.environ | {"HOME": str(home)},
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(home.iterdir()) == []


def test_folders_with_pattern_characters(tmp_path):
    folder = tmp_path / "run [1]*?"
    folder.mkdir()
    assert run(folder, [row()]).kept == [1]


def test_a_file_appears_only_when_it_is_whole(tmp_path):
    path = tmp_path / "accepted.parquet"
    path.write_text("earlier")
    with pytest.raises(RuntimeError, match="in the middle"), parquet_writer(str(path), staged_schema()):
        raise RuntimeError("in the middle")
    assert path.read_text() == "earlier"
    assert os.listdir(tmp_path) == ["accepted.parquet"]


@pytest.mark.parametrize(
    ("threshold", "message"),
    [
        ({"max_quarantined": 20}, "less than or equal to 1"),
        ({"missing_tolerance": -0.1}, "greater than or equal to 0"),
        ({"max_quarantined": float("nan")}, "less than or equal to 1"),
        ({"max_answer_chars": 0}, "greater than or equal to 1"),
        ({"length_drift": 0.5}, "greater than 1"),
        ({"length_drift": float("inf")}, "a finite number"),
        ({"max_answers": 1}, "max_answers: there is no such field; did you mean max_answer_chars?"),
    ],
)
def test_thresholds_out_of_range(threshold, message):
    with pytest.raises(InvalidValue, match=message):
        Contract(**threshold)


def test_a_release_that_is_all_in_quarantine_is_named(tmp_path):
    staged = rows({}, {}, {}, {"release": "lost", "references": []})
    check = run(tmp_path, staged).check("release_scored", "lost")
    assert (check.success, check.message) == (
        False,
        "release 'lost': all its rows (1) are in quarantine, so it gets no report",
    )


@pytest.mark.parametrize("invisible", ["\u200b", "\ufeff \u2060", "\u00ad"])
def test_invisible_characters_are_blank(tmp_path, invisible):
    found = run(tmp_path, rows({"references": [invisible]}, {"answer": invisible}))
    assert found.check("references_present").n_failed == 1
    assert found.check("blank_answer").n_failed == 1
