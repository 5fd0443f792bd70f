"""A home in a bucket: one machine evaluates, or a worker that was started from a form, and another one reads."""

import json

import pytest

from answerkey.tasks.warehouse.home import Home
from tests.tasks.staging_help import jsonl


def machine(folder):
    """The environment of a machine that shares no folder with others, but for the code."""
    for name in ("home", "temporary"):
        (folder / name).mkdir(parents=True)
    return {
        "HOME": str(folder / "home"), "TMPDIR": str(folder / "temporary"), "PREFECT_HOME": str(folder / "home/prefect"),
        "ANSWERKEY_SCRATCH": "", "ANSWERKEY_HOME": "",
    }  # fmt: skip


def answers(release, wrong):
    return [
        {"id": f"q{i:03}", "answer": "no" if i < wrong else "yes", "reference": "yes", "release": release}
        for i in range(60)
    ]


@pytest.mark.real
def test_what_one_machine_evaluates_another_one_reads(cli, lake, tmp_path):
    def on(machine, *words, code=0):
        own = tmp_path / machine
        own.mkdir(exist_ok=True)
        environment = {"HOME": str(own), "ANSWERKEY_SCRATCH": str(own / "scratch"), "ANSWERKEY_HOME": lake}
        process = cli(*words, page=True, **environment)
        assert process.returncode == code, process.stdout + process.stderr
        return process.stdout

    for release, wrong in (("old", 5), ("new", 30)):
        file = jsonl(tmp_path / f"{release}.jsonl", answers(release, wrong))
        on("first", "evaluate", file, "--dataset", "faq", "--metrics", "exact_match")
    # Nothing is left of the runs but what the warehouse has, the pages, and Data Docs beside them.
    home = Home.parse(lake)
    left = {file.name for file in home.store.files("") if not file.name.startswith("data/")}
    assert {name for name in left if not name.startswith("pages/_data-docs/")} == {
        "pages/faq/old-v1.html",
        "pages/faq/new-v1.html",
    }
    assert "pages/_data-docs/index.html" in left
    assert list((tmp_path / "first" / "scratch").glob("*/runs/*/*.parquet")) == []
    shown = on("second", "report", "new", "--json")
    assert "faq/new/v1" in shown and json.loads(shown)
    assert "exact_match" in on("second", "compare", "old", "new")
    assert "FAIL" in on("second", "gate", "old", "new", "--primary", "exact_match.match", "--margin", "0.02", code=1)
    assert "new" in on("second", "history", "exact_match.match")
    page = tmp_path / "page.html"
    on("second", "report", "new", "--html", page)
    assert "q059" in page.read_text(encoding="utf-8")
