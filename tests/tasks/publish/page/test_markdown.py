"""The page as markdown, where it is put, and what automations are told."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from answerkey.metrics_core.comparison import Comparison
from answerkey.tasks.gate.verdicts import ReleaseVerdict
from answerkey.tasks.load.load import Source
from answerkey.tasks.publish import announce
from answerkey.tasks.publish.page.markdown import as_markdown
from answerkey.tasks.publish.page.publish import file_name
from answerkey.tasks.warehouse.home import Home
from tests.tasks.publish.page.page_help import VERDICT, field_comparison, page
from tests.tasks.staging_help import jsonl, run


def test_it_has_everything_but_plots_and_samples() -> None:
    slice_ = field_comparison(slice="lang=en", n_common=5)
    compared = Comparison("old", "new", (field_comparison(), slice_), ("answers are longer",))
    text = as_markdown(replace(page(), gates=(VERDICT,), comparisons=(compared,)), "pages/set/new-v1.html")
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "# set", "## FAIL", "## Before you trust a number", "## Scores", "## old → new",
        "### rouge\\_l.recall by slice", "## rouge\\_l.recall by lang", "## Coverage and failures",
        "## Validation and quarantine", "## Methods", "## How to make it again",
    ]  # fmt: skip
    for line in (
        "**old**, **new**. Made 2026-01-01 00:00 UTC. The whole page: `pages/set/new-v1.html`",
        "**New loses more than the margin.**",
        "| rouge\\_l.recall \\>= -0.02 | FAIL | -0.100 (-0.150 to -0.050) | 10 | It lost 0.1. |",
        "| rouge\\_l.recall | 0.500 (0.400 to 0.600) | 0.600 (0.500 to 0.700) |",
        "| rouge\\_l.recall | 10 | 0.500 | 0.600 | +0.100 ±0.050 | 0.002 | better | – |",
        "| lang=en | 5 | 0.500 | 0.600 | +0.100 ±0.050 | 0.002 | better | – |",
        "- answers are longer",
        "| rouge\\_l | new | failed | 1 | failure 0 |",
        "- warning: check 0",
        "- quarantined by encoding: reason 0",
        "- `rouge_l|v1|refs:best`",
        "answerkey evaluate a.jsonl",
    ):
        assert line in text.splitlines()


def test_text_from_data_stays_text() -> None:
    nasty = "<img src=x onerror=alert(1)> [a](javascript:b) | `c` \u202e*d*\n# e"
    text = as_markdown(page(names=(nasty, "new"), text=lambda kind, place: f"{kind} {nasty}"))
    assert "\u202e" not in text
    shown = "\\<img src=x onerror=alert(1)\\> \\[a\\](javascript:b) \\| \\`c\\` \\[RLO\\]\\*d\\* \\# e"
    assert f"- **Warning:** warning {shown}" in text
    assert not [line for line in text.splitlines() if line.startswith("# ") and line != "# set"]


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


def test_automations_are_told_of_verdicts_and_of_reports_that_are_partial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"id": f"{i}", "reference": "yes", "answer": "yes", "release": name} for i in range(4) for name in "ab"]
    done = run(tmp_path, Source(jsonl(tmp_path / "d.jsonl", rows)), ["exact_match"], failing={"exact_match"})
    sent: list[tuple[str, str, dict[str, Any]]] = []
    monkeypatch.setattr(announce, "emit", lambda *one: sent.append(one) or True)
    gated = ReleaseVerdict(done.ids[0], done.ids[1], "exact_match.match", 0.02, VERDICT.verdict)
    assert announce.announce(Home(tmp_path), done.ids[1:], [gated]) == [
        "answerkey.gate.failed",
        "answerkey.run.incomplete",
    ]
    about = {"dataset": "d", "release": "b", "report": "d/b/v1"}
    assert sent == [
        (
            "answerkey.gate.failed", "answerkey.release.d.b",
            about | {"baseline": "d/a/v1", "outcome": "FAIL", "sentence": "New loses more than the margin."},
        ),
        (
            "answerkey.run.incomplete", "answerkey.release.d.b",
            about | {"status": "PARTIAL", "message": "exact_match: 4 of 4 not scored: 4 task"},
        ),
    ]  # fmt: skip


def test_it_names_the_judge() -> None:
    about = "offline matcher v1, kappa 0.82 with people"
    judges = (
        {"judges": ["offline"], "about": about},
        {"judges": ["openai/m"], "about": about, "cascade": 0.02},
    )
    shown = page()
    releases = tuple(
        replace(release, report=replace(release.report, manifest={**release.report.manifest, "judge": judge}))
        for release, judge in zip(shown.releases, judges, strict=True)
    )
    lines = as_markdown(replace(shown, releases=releases)).splitlines()
    assert [line for line in lines if line.startswith("Judge: ")] == [
        f"Judge: {about}",
        f"Judge: {about}; then openai/m",
    ]
    assert "Judge:" not in as_markdown(shown)
