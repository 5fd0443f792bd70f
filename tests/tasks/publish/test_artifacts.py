"""Where a page is put."""

import pytest

from answerkey.tasks.publish.artifacts import file_name


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
