"""What a run prints at its end: the commands that come next, which work when they are pasted."""

import shlex

import pytest

from answerkey.flows.cli.evaluate import print_result
from answerkey.flows.cli.main import main
from answerkey.tasks.load.load import Source
from answerkey.tasks.warehouse.home import Home
from tests.tasks.staging_help import jsonl, run

NEW = 'it\'s $(new); "*" é'


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Three releases, one of which has a name that a shell would take apart, in a home with a blank in its name."""
    folder = tmp_path_factory.mktemp("next") / "my home"
    for name, right in (("first", 9), ("old", 6), (NEW, 8), ("steers\u00a0by", 8)):
        rows = [
            {"id": f"q{n}", "question": "Q?", "answer": "Paris" if n < right else "Rome", "reference": "Paris"}
            for n in range(12)
        ]
        file = jsonl(folder.parent / "rows.jsonl", rows)
        run(folder, Source(file, dataset="faq", release=name), ("exact_match",))
    return folder


def commands(home, capsys, *reports, compared=False):
    print_result(list(reports), Home(home), dry_run=False, as_json=False, compared=compared)
    printed = capsys.readouterr().out.partition("\nnext:\n")[2].splitlines()
    assert [line[:4] for line in printed] == ["  # ", "  an"] * (len(printed) // 2)
    return [shlex.split(line) for line in printed[1::2]]


def test_a_new_release_is_compared_with_the_one_before_and_the_commands_run(home, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    found = commands(home, capsys, f"faq/{NEW}/v1")
    where = ["--home", str(home)]
    pair = ["faq/steers\u00a0by/v1", f"faq/{NEW}/v1"]
    # The release that was made last has a name that cannot be pasted.
    assert found == [["answerkey", "report", f"faq/{NEW}/v1", "--html", "report.html", *where]]
    assert pair[0] not in str(found)
    assert [main(words[1:]) for words in found] == [0]
    several = commands(home, capsys, "faq/old/v1", f"faq/{NEW}/v1")
    assert several == [
        ["answerkey", "compare", "faq/old/v1", f"faq/{NEW}/v1", "--samples", "5", *where],
        [
            "answerkey", "gate", "faq/old/v1", f"faq/{NEW}/v1", "--primary", "exact_match.match", "--margin", "0.02",
            *where,
        ],
        ["answerkey", "report", "faq/old/v1", f"faq/{NEW}/v1", "--html", "report.html", *where],
    ]  # fmt: skip
    assert [main(words[1:]) for words in several] == [0, 3, 0]
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_the_home_is_named_where_a_shell_would_take_another(home, capsys, monkeypatch):
    monkeypatch.setenv("ANSWERKEY_HOME", str(home))
    [first, *_] = commands(home, capsys, "faq/first/v1", "faq/old/v1")
    assert first == ["answerkey", "compare", "faq/first/v1", "faq/old/v1", "--samples", "5"]
    monkeypatch.delenv("ANSWERKEY_HOME")
    [first, *_] = commands(home, capsys, "faq/first/v1", "faq/old/v1")
    assert first[-2:] == ["--home", str(home)]


def test_what_was_compared_is_not_compared_again(home, capsys):
    print_result(["faq/old/v1"], Home(home), dry_run=False, as_json=False, compared=True)
    assert "answerkey compare" not in capsys.readouterr().out
    print_result(["faq/old/v1"], Home(home), dry_run=False, as_json=True)
    assert capsys.readouterr().out.startswith('[{"report_id":"faq/old/v1"')
