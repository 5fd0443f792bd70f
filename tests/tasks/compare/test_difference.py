"""In what two reports differ: rows, references, answers, methods, parameters."""

import random
from dataclasses import replace

import pytest

from answerkey.tasks.compare.difference import Changed, diff, signature_changes
from answerkey.tasks.warehouse.home import Home
from tests.tasks.comparing_help import answer, release
from tests.tasks.staging_help import refusal

WORDS = ["yes", "no", "maybe", "never", "always", "perhaps"]
METRICS = ("rouge_l", "exact_match", "token_overlap")


def random_rows(seed, n=40):
    chance = random.Random(seed)
    return [
        answer(i, " ".join(chance.sample(WORDS, 3)), chance.random() < 0.5)
        | {"references": [" ".join(chance.sample(WORDS, 3))]}
        for i in range(n)
    ]


@pytest.fixture(scope="module")
def twice(tmp_path_factory):
    """Version 2 differs from version 1 in everything: rows, references, answers, labels, method, failures."""
    folder = tmp_path_factory.mktemp("diff")
    old, other = random_rows(1), random_rows(2)
    new = [dict(row) for row in old]
    for i in range(10):
        new[i]["answer"] = other[i]["answer"]
    for i in range(8, 20):
        new[i]["references"] = other[i]["references"]
    new[30]["correct"] = not new[30]["correct"]
    new[31]["answer"] = None
    release(folder, "a", old[:36], METRICS, parameters={"scoring": {"blank_answer": "zero"}})
    options = dict(blank_answer="undefined")
    release(
        folder, "a", new[3:], METRICS, options=options, failing={"exact_match"},
        parameters={"scoring": {"blank_answer": "undefined"}, "data": {"answers": "https://u:secret@host/a?token=1"}},
    )  # fmt: skip
    return Home(folder)


@pytest.fixture(scope="module")
def found(twice):
    return diff(twice, "d/a/v1", "d/a/v2")


def test_what_differs_is_counted(found):
    assert (found.n_common, found.n_only_old, found.n_only_new) == (33, 3, 4)
    assert (found.n_questions, found.n_answers, found.n_labels, found.n_facts) == (12, 8, 1, 0)
    methods = {(one.what, one.old, one.new) for one in found.changed if one.kind == "settings"}
    assert methods == {(f"{metric}, blank", "zero", "undefined") for metric in METRICS}
    parameters = [one for one in found.changed if one.kind == "parameter"]
    assert parameters == [
        Changed("parameter", "scoring.blank_answer", "zero", "undefined"),
        Changed("parameter", "data.answers", None, "https://…@host/a?…"),
    ]


def test_a_rerun_differs_in_nothing(home):
    for _ in range(2):
        release(home, "a", random_rows(1, 5))
    found = diff(home, "d/a/v1", "d/a/v2")
    assert found == replace(found, n_common=5, n_only_old=0, n_only_new=0, n_answers=0, n_questions=0, changed=())
    assert "cannot be compared with itself" in refusal(diff, home, "d/a/v1", "d/a/v1")


SIGNATURE = "meaning_match|v1|judge:openai/a@http://host:1|prompt:3fa2c1|parser:1|t:0|seed:0|blank:zero"


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (SIGNATURE, ()),
        (
            SIGNATURE.replace("openai/a@", "openai/b@"),
            (Changed("judge", "judge", "openai/a@http://host:1", "openai/b@http://host:1"),),
        ),
        (SIGNATURE.replace("3fa2c1", "000000"), (Changed("prompt", "prompt", "3fa2c1", "000000"),)),
        (SIGNATURE.replace("parser:1", "parser:2"), (Changed("parser", "parser", "1", "2"),)),
        (SIGNATURE.replace("|v1|", "|v2|"), (Changed("code", "version", "v1", "v2"),)),
        (
            SIGNATURE.replace("blank:zero", "blank:undefined"),
            (Changed("settings", "blank", "zero", "undefined"),),
        ),
        (
            SIGNATURE.replace("|blank", "|jury:mean|repeats:3|blank"),
            (Changed("judge", "jury", None, "mean"), Changed("judge", "repeats", None, "3")),
        ),
    ],
)  # fmt: skip
def test_the_parts_of_two_signatures_that_differ(new, expected):
    assert signature_changes(SIGNATURE, new) == expected


def test_a_change_of_a_signature_in_words():
    [change] = signature_changes(SIGNATURE, SIGNATURE.replace("|blank", "|jury:mean|blank"))
    assert str(change) == "jury none → mean"
