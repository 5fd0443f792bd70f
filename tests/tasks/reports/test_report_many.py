"""A home with many reports: what is read for one question about it does not grow with them."""

import sys

import pytest

from answerkey.tasks.compare.compare import compare
from answerkey.tasks.compare.drift import drift
from answerkey.tasks.gate.verdicts import looks_taken
from answerkey.tasks.publish.page.build import build_page
from answerkey.tasks.reports.report import history, list_reports, read_reports, report_named
from answerkey.tasks.warehouse.home import Home
from tests.tasks.staging_help import run, source_of

FEW, MANY = 45, 90
"""More than a history looks back."""
FIELD = "exact_match.match"


def home_with(folder, releases):
    rows = [
        {"id": f"q{n}", "release": f"r{release:03}", "answer": f"{n + (release % 3 == n)}", "reference": f"{n}"}
        for release in range(releases)
        for n in range(3)
    ]
    home = Home(folder / "home")
    run(home, source_of(folder, rows, dataset="numbers"), ["exact_match"])
    return home


@pytest.fixture(scope="module")
def homes(tmp_path_factory):
    few, many = (home_with(tmp_path_factory.mktemp(f"of-{n}"), n) for n in (FEW, MANY))
    return few, many


def statements(work):
    """How many statements DuckDB is given."""
    n = 0

    def count(frame, event, called):
        nonlocal n
        n += event == "c_call" and called.__name__ == "execute"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return n


def whole_history(home):
    for dataset, moments in history(home, FIELD).items():
        drift(home, moments)
        looks_taken(home, dataset, FIELD)


QUESTIONS = {
    "a report": lambda home, _, new: read_reports(home, [report_named(home, new)]),
    "all reports": lambda home, *_: list_reports(home),
    "a history": lambda home, *_: whole_history(home),
    "a comparison": lambda home, old, new: compare(home, f"numbers/{old}/v1", f"numbers/{new}/v1"),
    "a page": lambda home, old, new: build_page(home, [f"numbers/{old}/v1", f"numbers/{new}/v1"]),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_twice_as_many_reports_take_no_more_statements(homes, question):
    ask = QUESTIONS[question]
    few, many = (
        statements(lambda home=home, n=n: ask(home, f"r{n - 2:03}", f"r{n - 1:03}"))
        for home, n in zip(homes, (FEW, MANY), strict=True)
    )
    assert 0 < few == many
