"""Validations in the folder `great_expectations` of a home, as Great Expectations keeps them, with pages to read them.

`gx.get_context(mode="file", project_root_dir="HOME/great_expectations")` opens it. No text of a row is written to it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.validate.context import SITE, keep_validation
from answerkey.tasks.validate.contract import Contract
from answerkey.tasks.validate.expectations import read_suite
from answerkey.tasks.validate.suite import contract_suite
from answerkey.tasks.validate.validate import Validation
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import text

FOLDER = "great_expectations"
_TRACKING = re.compile(
    r"<img[^>]*great-expectations-web-assets[^>]*>|<footer>.*?</footer>"
    r"|background: url\('https://great-expectations-web-assets[^;]*;",
    re.DOTALL,
)
_KEPT = 50
"""Results kept of each data set and suite; what older ones say is in the table `validations`."""


def build_data_docs(home: Home, run_id: str, dataset: str, contract: Contract, checked: Validation) -> str:
    """Keep a validation in the context of the home, and add it to the Data Docs.

    Returns:
        The name of its page in the store of the home: that of the first suite that the rows break, else the contract's.

    Raises:
        UserError: a page cannot be written.
    """
    suites = {"contract": contract_suite(contract)}
    if contract.expectations:
        own = read_suite(contract.expectations)
        suites[own.name] = own.configurations()
    root = (home.local / FOLDER).resolve()
    settings = root / "gx" / "great_expectations.yml"
    (home.local / SITE).mkdir(parents=True, exist_ok=True)
    # One process at a time.
    with home.warehouse.claimed(FOLDER, wait=True):
        if not settings.exists():
            settings.parent.mkdir(parents=True, exist_ok=True)
            settings.write_text(text("answerkey.tasks.validate", "great_expectations.yml"), encoding="utf-8")
        first, written, removed = keep_validation(str(root), run_id, dataset, suites, checked.checks, _KEPT)
        for page in removed:
            (home.local / page).unlink(missing_ok=True)
            if home.shared:
                home.store.remove(page)
        _without_tracking([home.local / name for name in (*written, f"{SITE}/index.html")])
        if home.shared:
            _share(home)
    return first


def _without_tracking(pages: Sequence[Path]) -> None:
    """Remove from new pages the images and links that report each visit to the makers of the library."""
    for page in pages:
        if not page.is_file():
            raise UserError(f"{page.parent}: a page cannot be written here; is the disk full?")
        content = page.read_text(encoding="utf-8")
        kept = _TRACKING.sub("", content)
        if kept != content:
            page.write_text(kept, encoding="utf-8")


def _share(home: Home) -> None:
    """Copy the site to the bucket of a home, where the pages of its reports are."""
    there = {file.name: file.size for file in home.store.files(SITE)}
    for file in sorted((home.local / SITE).rglob("*")):
        name = file.relative_to(home.local).as_posix()
        if file.is_file() and there.get(name) != file.stat().st_size:
            with home.store.atomic_write(name) as unfinished:
                shutil.copyfile(file, unfinished)
