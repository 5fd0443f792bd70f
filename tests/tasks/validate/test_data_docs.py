"""The context of Great Expectations in a home: what its own users find there, and that no text of a row is in it."""

import re

import great_expectations as gx
import pytest

from answerkey.tasks.validate import data_docs
from answerkey.tasks.validate.contract import Contract, row_rules
from answerkey.tasks.validate.data_docs import SITE, build_data_docs
from answerkey.tasks.validate.library import its_own_project
from answerkey.tasks.validate.validate import Check, Validation
from answerkey.tasks.warehouse.home import Home
from tests.tasks.validate.validating_help import APOLOGY, expecting, rows, validated

SECRET = "Sorry, the ZEBRA-7 is not for sale."
WHOLE = [
    "{type: expect_column_most_common_value_to_be_in_set, kwargs: {column: answer, value_set: [A]}, severity: warning}",
    "{type: expect_column_distinct_values_to_be_in_set, kwargs: {column: answer, value_set: [A]}, severity: warning}",
    "{type: expect_column_quantile_values_to_be_between, severity: warning, kwargs: {column: answer_chars, "
    "quantile_ranges: {quantiles: [0.5], value_ranges: [[100, 200]]}}}",
]
"""Of these the library observes texts of rows, or draws a table."""


@pytest.mark.nightly
def test_a_user_of_the_library_finds_suites_checkpoint_results_and_docs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(data_docs, "_MAX_RESULTS", 2)
    given = expecting(APOLOGY, *WHOLE)
    found = validated(
        tmp_path, rows({}, {"answer": SECRET}, {"references": []}, {"answer": "<think>a"}), given
    ).validation
    assert "ZEBRA" not in str(found.checks)
    home = Home(tmp_path / "home #1")
    with its_own_project():
        mine = gx.get_context(mode="ephemeral")
    others = [validated(tmp_path / str(n), rows(*[{}] * n), given).validation for n in (1, 2, 3)]
    for number, one in enumerate([*others, found]):
        page = build_data_docs(home, f"run{number}", "faqé", given, one)
    assert "Traceback" not in "".join(capsys.readouterr())
    shown = _text(home.local / page)
    assert "1 unexpected values found. 25% of 4 total rows. 1 row without a reference (row 3)" in shown
    assert "No answer is longer than 100,000 characters 0% unexpected" in shown
    n_rules = len(row_rules(given)) + 4
    assert f"Evaluated Expectations {n_rules} Successful Expectations {n_rules - 2}" in shown
    assert "Data asset: faqé" in shown and "run3" in shown

    files = [file for file in home.local.rglob("*") if file.is_file()]
    assert not [file for file in files if b"ZEBRA" in file.read_bytes()]
    pages = [file.read_text() for file in files if file.suffix == ".html"]
    assert len(pages) == 1 + 2 + 2 * 2
    assert not [one for one in pages if "dataContextId=" in one or "utm_" in one]

    with its_own_project():
        context = gx.get_context(mode="file", project_root_dir=home.local / "great_expectations")
        suite = context.suites.get("contract")
        assert {one.meta["name"]: one.description for one in suite.expectations}["id_present"] == "Every row has an id"
        assert [one.meta["name"] for one in context.suites.get("mine").expectations][:1] == ["no_apology"]
        checkpoint = context.checkpoints.get("faqé")
        assert [one.name for one in checkpoint.validation_definitions] == ["faqé contract", "faqé mine"]
        kept = [context.validation_results_store.get(key) for key in context.validation_results_store.list_keys()]
        assert len(kept) == 4
        own = {tuple(one.results[0].result[name] for name in ("element_count", "unexpected_count"))
               for one in kept if one.suite_name == "mine"}  # fmt: skip
        assert own == {(3, 0), (4, 1)}
        assert context.variables.analytics_enabled is False
    assert mine.data_sources.all() == {}


def test_the_page_that_is_linked_is_of_the_first_suite_that_the_rows_break(tmp_path):
    given, home = expecting(APOLOGY), Home(tmp_path / "home")
    texts = []
    for n, answers in enumerate((["Paris"], [SECRET])):
        found = validated(tmp_path / str(n), rows(*({"answer": answer} for answer in answers)), given).validation
        texts.append(_text(home.local / build_data_docs(home, f"run{n}", "d", given, found)))
    assert "Expectation Suite: contract" in texts[0]
    assert "Expectation Suite: mine" in texts[1] and "1 unexpected values found" in texts[1]


def test_the_same_outcomes_have_one_page_and_get_it_again_where_it_is_gone(tmp_path):
    home = Home(tmp_path / "home")
    found = validated(tmp_path, rows({}, {"references": []})).validation
    first = build_data_docs(home, "run0", "d", Contract(), found)
    assert "run0" in first
    assert build_data_docs(home, "run1", "d", Contract(), found) == first
    assert "run2" in build_data_docs(home, "run2", "d", Contract(max_answer_chars=9_000), found)
    (home.local / first).unlink()
    assert "run3" in build_data_docs(home, "run3", "d", Contract(), found)


def test_counts_of_releases_add_up(tmp_path):
    home, releases = Home(tmp_path), [("a", 6), ("b", 1), ("c", 0)]
    checks = tuple(Check("same_samples", "warning", n == 0, 7, n, f"lacks {n}", name) for name, n in releases)
    many = Check("length_drift", "warning", False, 900, 120, "120 of 900 releases fail this check")
    checks += (*(Check("length_drift", "warning", False, 1, 1, "longer", name) for name, _ in releases), many)
    found = Validation("", "", 21, 21, 0, checks, None)
    shown = _text(home.local / build_data_docs(home, "run", "d", Contract(), found))
    assert "7 unexpected values found. ≈33.33% of 21 total rows. lacks 6; lacks 1" in shown
    assert "120 unexpected values found. ≈13.33% of 900 total rows. longer; longer; longer; 120 of 900" in shown


def test_texts_of_data_and_of_suites_are_no_markup(tmp_path):
    markup = "<img src=x onerror=alert(1)>"
    given, home = expecting(APOLOGY.replace("answer begins", markup), WHOLE[0]), Home(tmp_path / "home")
    each = [{"release": "a" if n % 2 else markup, "sample_id": f"q{n}", "answer": "Sorry"} for n in range(9)]
    found = validated(tmp_path, rows(*each), given).validation
    build_data_docs(home, "run", "d", given, found)
    pages = "".join(page.read_text() for page in (home.local / SITE).rglob("*.html"))
    assert "release '&lt;img src=x onerror=alert(1)&gt;' lacks" in pages and "No &lt;img src=x" in pages
    assert "<img src=x" not in pages


def _text(page):
    bare = re.sub(r"<script.*?</script>|<style.*?</style>|<[^>]+>", " ", page.read_text(), flags=re.DOTALL)
    return re.sub(r"\s+", " ", bare)
