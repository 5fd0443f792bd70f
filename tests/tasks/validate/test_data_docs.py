"""The context of Great Expectations in a home: what its own users find there, and that no text of a row is in it."""

from __future__ import annotations

import re
from pathlib import Path

import great_expectations as gx
import pytest

from answerkey.tasks.validate import data_docs
from answerkey.tasks.validate.contract import row_rules
from answerkey.tasks.validate.data_docs import build_data_docs
from answerkey.tasks.validate.suite import its_own_project
from answerkey.tasks.warehouse.home import Home
from tests.tasks.validate.test_expectations import APOLOGY, contract
from tests.tasks.validate.test_validate import rows, run

SECRET = "Sorry, the ZEBRA-7 is not for sale."


def test_a_user_of_the_library_finds_suites_checkpoint_results_and_docs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_docs, "_KEPT", 2)
    given = contract(APOLOGY)
    found = run(tmp_path, rows({}, {"answer": SECRET}, {"references": []}, {"answer": "<think>a"}), given).validation
    home = Home(tmp_path / "home")
    with its_own_project():
        mine = gx.get_context(mode="ephemeral")
    for number in range(4):
        page = build_data_docs(home, f"run{number}", "faq", given, found)
    shown = _text(tmp_path / "home" / page)
    assert "1 unexpected values found. 25% of 4 total rows. 1 row without a reference (row 3)" in shown
    assert "No answer is longer than 100,000 characters 0% unexpected" in shown
    n_rules = len(row_rules(given)) + 4
    assert f"Evaluated Expectations {n_rules} Successful Expectations {n_rules - 2}" in shown
    assert "Data asset: faq" in shown and "run3" in shown

    files = [file for file in (tmp_path / "home").rglob("*") if file.is_file()]
    assert not [file for file in files if b"ZEBRA" in file.read_bytes()]
    pages = [file.read_text() for file in files if file.suffix == ".html"]
    assert len(pages) == 1 + 2 + 2 * 2
    assert not [one for one in pages if "dataContextId=" in one or "utm_" in one]

    with its_own_project():
        context = gx.get_context(mode="file", project_root_dir=tmp_path / "home" / "great_expectations")
        suite = context.suites.get("contract")
        assert {one.meta["name"]: one.description for one in suite.expectations}["id_present"] == "Every row has an id"
        assert [one.meta["name"] for one in context.suites.get("mine").expectations] == ["no_apology"]
        checkpoint = context.checkpoints.get("faq")
        assert [one.name for one in checkpoint.validation_definitions] == ["faq contract", "faq mine"]
        kept = [context.validation_results_store.get(key) for key in context.validation_results_store.list_keys()]
        assert len(kept) == 4
        [own] = {tuple(one.results[0].result[name] for name in ("element_count", "unexpected_count"))
                 for one in kept if one.suite_name == "mine"}  # fmt: skip
        assert own == (4, 1)
        assert context.variables.analytics_enabled is False
    assert mine.data_sources.all() == {}


def _text(page: Path) -> str:
    bare = re.sub(r"<script.*?</script>|<style.*?</style>|<[^>]+>", " ", page.read_text(), flags=re.DOTALL)
    return re.sub(r"\s+", " ", bare)
