"""The tables of scores in Prefect, and where a page is put."""

from dataclasses import replace

import pytest

from answerkey.tasks.publish.artifacts import file_name, table_rows
from tests.tasks.publish.page.page_help import report


def test_a_score_has_both_ends_of_its_interval_and_its_clusters() -> None:
    made = report("a", (0.5, None, 0.3))
    assert table_rows(made)[:2] == [
        {
            "metric": "rouge_l.recall",
            "mean": "0.500",
            "95 % interval": "0.400 to 0.600",
            "scored": "10/10",
            "failed": 0,
        },
        {"metric": "rouge_l.f1", "mean": "–", "95 % interval": "–", "scored": "10/10", "failed": 0},
    ]
    clustered = replace(made, scores=tuple(replace(score, n_clusters=3) for score in made.scores))
    assert [row["clusters"] for row in table_rows(clustered)] == [3, 3, 3]


@pytest.mark.parametrize("name", ["gpt-4", "GPT_4.1", "модель"])
def test_a_plain_name_is_the_name_of_the_file(name: str) -> None:
    assert file_name(name) == name


def test_no_name_leaves_the_folder_or_is_that_of_another() -> None:
    odd = [
        "..",
        ".",
        "",
        "a/b",
        "a b",
        "a-b",
        "../../etc",
        "x" * 300,
        "x" * 301,
        "\x00",
        "я" * 99,
        "\ud800",
        "a\n",
        ".hidden",
        "-",
    ]
    found = [file_name(name) for name in odd]
    assert len(set(found)) == len(odd)
    assert all(name and "/" not in name and "\x00" not in name and len(name.encode()) < 100 for name in found)
    assert not any(name.startswith(".") for name in found)
