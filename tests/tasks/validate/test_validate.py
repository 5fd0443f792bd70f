"""Validation: which row breaks which rule, what its messages say, and that no row is lost."""

import json
import os
import re
import sys
import unicodedata
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import regex

from answerkey.metrics_core.text import is_blank
from answerkey.metrics_core.validation import InvalidValue
from answerkey.tasks.load.rows import quarantine_schema, staged_schema
from answerkey.tasks.validate import validate as validation
from answerkey.tasks.validate.contract import Contract
from answerkey.tasks.warehouse.store import parquet_writer
from tests.kit.processes import finished
from tests.tasks.validate.validating_help import APOLOGY, LENIENT, expecting, row, rows, validated, written


def test_sound_rows_are_accepted_in_order_with_the_label_understood(tmp_path):
    labels = {
        True: ["true", " YES ", "1", "1.0", "t", "Y", "Correct"],
        False: ["False", "no", "0", "0.0", "F", "n", "INCORRECT"],
        None: [None],
    }
    staged = rows(*({"label": label} for spelled in labels.values() for label in spelled))
    found = validated(tmp_path, staged)
    assert found.kept == list(range(1, 16))
    assert [line["correct"] for line in found.accepted] == [True] * 7 + [False] * 7 + [None]
    assert pq.read_schema(found.validation.accepted) == staged_schema()
    assert pq.read_schema(found.validation.quarantine) == quarantine_schema()
    assert (found.quarantine, found.validation.broken) == ([], None)
    assert all(check.success and check.n_failed == 0 for check in found.validation.checks)
    for kept, given in zip(found.accepted, staged, strict=True):
        assert dict(kept.pop("slices")) == given.pop("slices")
        assert {name: kept[name] for name in given} == given


NO_REFERENCE = ("references_present", "every reference is missing or blank")
ONE_ROW = [
    ({"sample_id": None}, "id_present", "the id is missing or blank"),
    ({"sample_id": " \u00a0\t"}, "id_present", "the id is missing or blank"),
    ({"release": None}, "release_present", "the release is missing or blank"),
    ({"release": ""}, "release_present", "the release is missing or blank"),
    ({"references": []}, *NO_REFERENCE),
    ({"references": None}, *NO_REFERENCE),
    ({"references": ["", " \u00a0", "\u2028"]}, *NO_REFERENCE),
    ({"references": ["\ufeff \u2060\u200b\u00ad"]}, *NO_REFERENCE),
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


def test_the_rules_of_one_row(tmp_path):
    contract = Contract(max_quarantined=1.0, max_answer_chars=40, max_reference_chars=30, max_question_chars=50)
    at_the_edge = {"answer": "a" * 40, "references": ["я" * 30], "question": "c" * 50}
    found = validated(tmp_path, rows(*(fields for fields, _, _ in ONE_ROW), at_the_edge), contract)
    assert found.reasons == {n: (rule, reason) for n, (_, rule, reason) in enumerate(ONE_ROW, start=1)}
    assert found.kept == [len(ONE_ROW) + 1]
    for rule, n in Counter(rule for _, rule, _ in ONE_ROW).items():
        check = found.check(rule)
        assert (check.severity, check.success, check.n_checked, check.n_failed) == ("critical", False, 19, n)
    assert found.check("length_answer").message == "1 row with an answer longer than 40 characters (row 9)"
    broken_characters = "4 rows with broken characters (U+FFFD or control characters) (rows 12, 13, 14, ...)"
    assert found.check("encoding").message == broken_characters


@pytest.mark.nightly
def test_blank_is_what_a_metric_takes_for_blank(tmp_path):
    characters = [c for c in map(chr, (*range(0xD800), *range(0xE000, 0x110000))) if _spacelike(c)]
    found = validated(tmp_path, rows(*({"references": [c]} for c in characters)))
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
    every = [chr(i) for i in (*range(0x20), *range(0x7F, 0xA1), 0xFFFD)]
    given = [{"answer": f"a{c}b"} for c in every] + [
        {"answer": harmless, "question": harmless, "references": [harmless]}
    ]
    *kept, last = validated(tmp_path, rows(*given)).kept
    assert ([every[n - 1] for n in kept], last) == (["\t", "\n", "\r", "\xa0"], len(given))


def test_the_same_row_again_is_kept_once(tmp_path):
    found = validated(tmp_path, [row(), row(sample_id="q2"), row(), row(release="new"), row(slices={"a": "b"})])
    assert found.kept == [1, 2, 4]
    assert found.reasons == dict.fromkeys((3, 5), ("id_unique", "the same row again, first seen at row 1"))
    assert found.check("id_unique").message == "2 rows whose id occurs more than once in the release (rows 3, 5)"


UNKNOWN = "it is not known which is right; several answers to one question need a column `repeat`"


def test_rows_that_differ_under_one_id_are_all_out(tmp_path):
    changes = [
        {"answer": "In Paris."}, {"label": "false"}, {"label": None}, {"answer": None}, {"references": ["Moskva"]},
    ]  # fmt: skip
    staged = [
        row(sample_id=f"q{number}", **fields) for number, change in enumerate(changes) for fields in ({}, change, {})
    ]
    found = validated(tmp_path, [*staged, row(sample_id="fine")])
    assert found.kept == [16]
    for number in range(15):
        rule, reason = found.reasons[number + 1]
        assert (rule, reason.split("; also ")[0]) == (
            "id_unique",
            f"the id 'q{number // 3}' has 3 rows in release 'old' that differ, the first at row "
            f"{number // 3 * 3 + 1}: {UNKNOWN}",
        )


def test_repeats_are_other_answers_and_a_repeat_that_comes_again_is_a_duplicate(tmp_path):
    named = {"repeat": "run b", "sample_id": "q2"}
    given = [
        {"repeat": "1"}, {"repeat": "2"}, {"repeat": "3", "answer": "In Paris."}, {"repeat": "2"}, named,
        named | {"answer": "In Paris."}, named | {"release": "new"}, {"repeat": "4", "references": ["Paris"]},
    ]  # fmt: skip
    found = validated(tmp_path, [row(**fields) for fields in given])
    assert found.kept == [1, 2, 3, 7]
    several = "the id 'q2' has 2 rows with repeat 'run b' in release 'old' that differ, the first at row 5: "
    assert found.reasons == {
        4: ("id_unique", "the same row again, first seen at row 2"),
        **dict.fromkeys((5, 6), ("id_unique", f"{several}{UNKNOWN}")),
        8: ("sample_consistent", "the references of the id 'q1' differ from what 3 of its 4 rows have"),
    }


MAJORITY = "{} from what {} of its {} rows have"
NO_MAJORITY = "{} between its rows, and no variant has a majority"


def test_the_sample_that_most_rows_have_is_kept(tmp_path):
    two = {"question": "Where?", "facts": ["It is in Moscow."]}
    given = [{}, {"references": ["Moskva"]}, {}, two, {}]
    found = validated(tmp_path, [row(release=str(n), **fields) for n, fields in enumerate(given)])
    assert found.kept == [1, 3, 5]
    assert found.reasons == {
        2: ("sample_consistent", MAJORITY.format("the references of the id 'q1' differ", 3, 5)),
        4: ("sample_consistent", MAJORITY.format("the question and facts of the id 'q1' differ", 3, 5)),
    }


def test_without_a_majority_all_rows_of_the_id_are_out(tmp_path):
    changes = [
        ({"cluster": "page 7"}, "the cluster of the id 'q0' differs"),
        ({"question": None}, "the question of the id 'q1' differs"),
        ({"references": ["Moscow", "Moskva"]}, "the references of the id 'q2' differ"),
        ({"facts": ["It is."], "question": "Eh?"}, "the question and facts of the id 'q3' differ"),
        ({"sample_hash": "other"}, "the sample of the id 'q4' differs"),
        ({"answer": "Elsewhere."}, ""),
    ]
    staged = []
    for number, (change, _) in enumerate(changes):
        staged += [row(sample_id=f"q{number}"), row(sample_id=f"q{number}", release="new", **change)]
    found = validated(tmp_path, staged)
    assert found.kept == [11, 12]
    assert found.reasons == {
        2 * number + place: ("sample_consistent", NO_MAJORITY.format(said))
        for number, (_, said) in enumerate(changes[:5])
        for place in (1, 2)
    }


def test_a_row_that_breaks_several_rules_is_quarantined_once(tmp_path):
    texts = {"answer": "\ufffd", "question": "a\x07", "references": ["\x7f"]}
    several = {"label": "maybe", "references": [], "answer": "\x01", "release": None}
    found = validated(tmp_path, rows({}, several, texts))
    assert {number: reason for number, (_, reason) in found.reasons.items()} == {
        2: "the release is missing or blank; also references_present: every reference is missing or blank; "
        "also encoding: the answer holds U+0001 at character 1; "
        "also label_boolean: the label 'maybe' is neither true nor false",
        3: "the question holds U+0007 at character 2; the answer holds U+FFFD at character 1; "
        "the reference holds U+007F at character 1",
    }
    assert [found.check(rule).n_failed for rule in ("release_present", "encoding", "label_boolean")] == [1, 2, 1]


def test_references_may_be_optional(tmp_path):
    found = validated(tmp_path, rows({"references": []}, {}), Contract(references="wanted"))
    check = found.check("references_present")
    assert (found.kept, check.severity, check.success, check.n_failed) == ([1, 2], "warning", False, 1)
    assert check.message == "1 row without a reference: metrics that need one leave them undefined (row 1)"
    unused = validated(tmp_path, rows({"references": []}, {}), Contract(references="unused"))
    assert unused.kept == [1, 2]
    assert "references_present" not in {one.rule for one in unused.validation.checks}


def test_a_text_that_stands_for_no_label_is_counted_and_is_no_label(tmp_path):
    labels = ["true", "", "nan", "null", "None", "n/a", "NA", "-", "-", " NaN", None]
    found = validated(tmp_path, rows(*({"label": label} for label in labels)))
    assert [(line["label"], line["correct"]) for line in found.accepted] == [
        (label, True if label == "true" else None) for label in labels
    ]
    check = found.check("label_missing_text")
    assert (check.severity, check.success, check.n_checked, check.n_failed) == ("warning", False, 11, 9)
    assert check.message == (
        "9 rows with the text 'nan' (2) or '-' (2) or '' (1) or 'null' (1) or 'none' (1) or 'n/a' (1) or 'na' (1) "
        "instead of a label: they count as unlabelled (rows 2, 3, 4, ...)"
    )


def of(field, *texts):
    return [{field: [text] if field == "references" else text} for text in texts]


TEXTS = {
    # The rows that break a rule, and those that look like them.
    "mojibake": (
        of("answer", "cafÃ©", "itâ€™s", "РїСЂРёРІРµС‚", "20Â°C", "ðŸ˜€", "\ufeffMoscow"),
        of("answer", "café", "it’s", "РСФСР", "SÃO PAULO", "Âge", "20°C", "😀", "Ðorđe", "Сірка Її",
           "10\u00a0km\u202fnorth"),
    ),
    "null_in_word": (
        of("references", "finullce", "nullotechnology", "банnull", "null and finullce"),
        of("references", "the null hypothesis", "annulled", "NullPointerException", "isNull", "nulls", "null"),
    ),
    "joined_references": (
        of("references", "Moscow/Moskva", "1990 / 1991", "Moscow|Moskva", "Moscow;Moskva"),
        [
            *of("references", "km/h", "24/7", "https://a.org/bb/cc", "In Moscow; it is a city"),
            {"references": ["Moscow/Moskva", "Moscow"]}, {"answer": "Moscow/Moskva"},
        ],
    ),
    "think_block": (
        of("answer", "<think>hm</think>Moscow", "hm\n</THINK>\nMoscow"),
        [{"answer": "I think so"}, {"question": "What is <think>?"}],
    ),
    "control_token": (
        of("answer", "Moscow</s>", "Moscow<|im_end|>", "<|assistant|> Moscow", "Moscow<end_of_turn>", "[INST] Moscow"),
        [*of("answer", "<b>Moscow</b>", "a <| b", "[in]"), {"answer": "<|eot_id|>", "references": ["<|eot_id|>"]}],
    ),
    "escaped_on_one_side": (
        [*of("answer", "R&amp;D", "it&#39;s", "caf\\u00e9"), {"references": ["R&amp;D"]}],
        [*of("answer", "R&D", "a & b;", "C:\\users"), {"answer": "R&amp;D", "references": ["R&amp;D"]}],
    ),
    "citation_mark": (
        of("answer", "Moscow[1]", "Moscow.[12][3]", "Москва[^2^]", "Moscow【4†source】"),
        of("answer", "see [1]", "[1] Moscow", "a[i]", "Moscow"),
    ),
    "right_and_wrong": (
        [{"references": ["A", " bern"], "incorrect_references": ["Bern ", "B"]}],
        [{"references": ["A"], "incorrect_references": ["B"]}, {"references": ["A"], "incorrect_references": None}],
    ),
    "doubled_backslash": (
        [{"answer": "C:\\\\temp"}, {"question": "\\\\n"}, {"references": ["a", "\\\\u00e9"]}],
        of("answer", "C:\\temp", "a/b"),
    ),
    "answer_missing_text": (
        of("answer", "nan", " N/A ", "#NAME?", "\\N"),
        [{"answer": "None of them"}, {"answer": "None", "references": ["None"]}, {"answer": "-"}],
    ),
    "reference_missing_text": (
        [{"references": ["nan"]}, {"references": ["Moscow", "None"]}],
        [{"references": ["None of them"]}, {"answer": "nan"}],
    ),
    "unfinished_answer": (
        of("answer", "It is a city. " * 30 + "It was", "One, " * 100),
        of("answer", "It is a city. " * 30, "It is a city that"),
    ),
    "blank_answer": (of("answer", None, "", "\u00a0\n", "\ufeff \u2060"), of("answer", ".", "nan")),
    "error_page": (
        of("answer", "502 Bad Gateway", "Error: 429", "Error code: 500 - {'error': None}",
           "Traceback (most recent call last):\n  File", "<html><head><title>504 Gateway Time-out</title>",
           "openai.RateLimitError: slow down", '{"error": {"message": "overloaded", "code": 529}}'),
        [
            *of("answer", "A 502 is called Bad Gateway", "429 people", "Error 404 is a song",
                "500", "Python prints: Traceback (most recent call last):"),
            {"answer": "502 Bad Gateway", "references": ["502 Bad Gateway"]},
        ],
    ),
    "truncated_answer": (
        [*of("finish_reason", "length", "MAX_TOKENS"), {"finish_reason": "max_tokens", "answer": None},
         {"answer": "It is [truncated]"}],
        [*of("finish_reason", "stop", ""), {"answer": "It was truncated."}],
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", TEXTS)
def test_texts_that_break_a_rule_are_distinguished_from_those_that_look_like_them(tmp_path, rule):
    hits, misses = TEXTS[rule]
    quarantines = rule in ("error_page", "truncated_answer")

    found = validated(tmp_path, rows(*misses, *hits))

    check = found.check(rule)
    assert (check.severity == "critical", check.success, check.n_failed) == (quarantines, False, len(hits))
    assert found.validation.n_quarantined == quarantines * len(hits)
    # The message names the first three rows: none of those that look alike, which stand before
    named = [int(row) for row in re.findall(r"\d+", check.message.rpartition("(row")[2])]
    assert named == [len(misses) + number for number in range(1, 1 + min(3, len(hits)))]


def test_samples_that_a_release_lacks(tmp_path):
    samples = {"old": range(100), "new": range(5, 101), "tiny": range(3)}
    staged = [row(sample_id=f"q{i}", release=release) for release, ids in samples.items() for i in ids]
    found = validated(tmp_path, staged)
    assert found.validation.broken is None
    old, new, tiny = (found.check("same_samples", release) for release in samples)
    assert (old.success, old.n_checked, old.n_failed) == (True, 101, 1)
    assert old.message == (
        "release 'old' lacks 1 of the 101 samples that the releases have together (0.9901 %, 5 % are tolerated)"
    )
    assert (new.success, new.n_failed) == (True, 5)
    assert (tiny.success, tiny.n_failed, tiny.severity) == (False, 98, "warning")
    assert tiny.message.endswith("compare it with the others only on the samples that both have")


def test_answer_length_against_the_first_release(tmp_path):
    lengths = {"zeta": 10, "same": 15, "long": 40, "brief": 4, "mute": 0}
    staged = [
        row(sample_id=f"q{i}", release=name, answer="a" * n or None) for name, n in lengths.items() for i in range(3)
    ]
    found = validated(tmp_path, staged)
    first, same, long, brief, mute = (found.check("length_drift", release) for release in lengths)
    assert [check.success for check in (first, same, long, brief, mute)] == [True, True, False, False, True]
    assert first.message == "release 'zeta': median answer length 10 characters"
    assert same.message == "release 'same': median answer length 15 characters, against 10 characters in 'zeta'"
    assert long.message == (
        "release 'long': median answer length 40 characters, against 10 characters in 'zeta' "
        "(4 times longer, 1.5 times is tolerated): length alone moves many scores"
    )
    assert "4 characters, against 10 characters in 'zeta' (2.5 times shorter, " in brief.message
    assert mute.message.startswith("release 'mute': median answer length unknown, no answers")


def test_very_many_releases_are_summed_up(tmp_path):
    found = validated(tmp_path, [row(sample_id=f"q{i}", release=f"r{i}") for i in range(150)])
    checks = [check for check in found.validation.checks if check.rule == "same_samples"]
    last = checks[-1]
    assert (len(checks), last.release, last.n_checked, last.n_failed) == (101, None, 150, 150)
    assert last.message == (
        "150 of 150 releases fail this check, not all of them listed: is the release mapped to the right column?"
    )
    assert "length_drift" not in {check.rule for check in found.validation.checks}


def test_too_much_quarantine_breaks_the_contract(tmp_path):
    staged = rows(*({"references": []} if i % 4 == 1 else {} for i in range(20)), {"label": "maybe"})
    at_the_limit = validated(tmp_path, staged, Contract(max_quarantined=6 / 21))
    assert at_the_limit.validation.broken is None
    assert at_the_limit.check("quarantined_share").success
    found = validated(tmp_path, staged, Contract(max_quarantined=0.28))
    assert found.validation.broken == (
        "28.57 % of the rows (6 of 21) are in quarantine, 28 % are allowed; most often `references_present`: "
        "5 rows (rows 2, 6, 10, ...): without a reference. "
        "Correct the data or the mapping, or raise --max-quarantined"
    )
    check = found.check("quarantined_share")
    assert (check.severity, check.success, check.n_checked, check.n_failed) == ("critical", False, 21, 6)
    assert len(found.quarantine) == 6  # what is broken is still kept for people to see


def test_no_rows_break_the_contract(tmp_path):
    found = validated(tmp_path, [])
    assert found.validation.broken == "there are no rows: check the file and its mapping"
    assert (found.check("not_empty").success, found.check("quarantined_share").success) == (False, True)


def test_rows_that_could_not_be_read_count(tmp_path):
    refused = [
        *(
            {"row": number, "rule": "unreadable", "reason": f"line {number}\n is not JSON", "raw": "{oops"}
            for number in (2, 5, 9, 11)
        ),
        {"row": None, "rule": "wrong_type", "reason": "answer is a list", "raw": "[]"},
    ]
    found = validated(tmp_path, rows({}, {"references": []}), rejects=refused)
    assert (found.validation.n_rows, found.kept) == (7, [1])
    assert [line["row"] for line in found.quarantine] == [2, 5, 9, 11, None, 2]
    assert found.quarantine[0] == refused[0] | dict.fromkeys(("file", "sample_id", "release"))
    check = found.check("unreadable")
    assert (check.severity, check.success, check.n_checked, check.n_failed) == ("critical", False, 7, 4)
    assert check.message == "4 rows could not be read (rows 2, 5, 9, ...): line 2 is not JSON"
    assert found.check("wrong_type").message == "1 row could not be read (row numbers unknown): answer is a list"
    broken = validated(tmp_path, [], Contract(), refused).validation.broken
    assert "most often `unreadable`: 4 rows (rows 2, 5, 9, ...)" in broken


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
    found = validated(tmp_path, staged)
    assert found.kept == []
    names = (
        "release_order",
        "correct",
        "missing_because",
        "finish_reason",
        "repeat",
        "context",
        "incorrect_references",
        "columns",
        "given",
        "release_order",
    )
    for line, given in zip(found.quarantine, staged, strict=True):
        restored = json.loads(line["raw"])
        assert list(restored) == [name for name in staged_schema().names if name not in ("file", "file_row")]
        assert restored == {"row": line["row"]} | dict.fromkeys(names) | given
        table = pa.Table.from_pylist([restored], schema=staged_schema())
        assert table.equals(pq.read_table(tmp_path / "staged.parquet").slice(line["row"] - 1, 1))
    assert found.quarantine[0]["sample_id"] == "ид-1"


def test_batches_change_nothing(tmp_path, monkeypatch):
    unique = "{type: expect_column_values_to_be_unique, kwargs: {column: question}, severity: warning}"
    contract = expecting(APOLOGY, unique)
    labels, answers = ("true", "x", "false", "0", "z"), ("Fine", "Sorry", "Sorry")
    fields = [{"label": labels[i % 5], "answer": answers[i % 3], "question": f"{i % 40}"} for i in range(43)]
    staged = rows(*fields)
    whole = validated(tmp_path / "whole", staged, contract)
    monkeypatch.setattr(validation, "_MAX_BATCH_ROWS", 7)
    monkeypatch.setattr(validation, "_REFUSED_ROWS", 2)
    parts = validated(tmp_path / "parts", staged, contract)
    assert (parts.accepted, parts.quarantine) == (whole.accepted, whole.quarantine)
    assert parts.validation.checks == whole.validation.checks
    assert [line["correct"] for line in whole.accepted[:3]] == [True, False, False]
    assert (whole.validation.n_quarantined, whole.check("question_be_unique").n_failed) == (34, 6)


@pytest.mark.nightly
def test_a_fresh_process_prints_nothing_and_writes_nothing_else(tmp_path):
    staged = written(tmp_path / "staged.parquet", rows({}, {"label": "maybe"}, {"answer": None}))
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
    command, environment = [sys.executable, "-W", "default", "-c", code], os.environ | {"HOME": str(home)}
    root = Path(__file__).parents[3]
    done = finished(command, cwd=root, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(home.iterdir()) == []


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
        ({"max_quarantined": float("nan")}, "less than or equal to 1"),
        ({"max_answer_chars": 0}, "greater than or equal to 1"),
        ({"max_quarantined": -0.1}, "greater than or equal to 0"),
        ({"max_answers": 1}, "max_answers: there is no such field; did you mean max_answer_chars?"),
    ],
)
def test_thresholds_out_of_range(threshold, message):
    with pytest.raises(InvalidValue, match=message):
        Contract(**threshold)


def test_a_release_that_is_all_in_quarantine_is_named(tmp_path):
    check = validated(tmp_path, rows({}, {"release": "lost", "references": []}), LENIENT).check(
        "release_scored", "lost"
    )
    assert not check.success
    assert check.message == "release 'lost': all its rows (1) are in quarantine, so it gets no report"
