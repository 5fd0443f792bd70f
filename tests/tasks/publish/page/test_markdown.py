"""The page as markdown."""

from dataclasses import replace

from answerkey.metrics_core.comparison import Comparison
from answerkey.tasks.publish.page.markdown import as_markdown
from tests.tasks.publish.page.page_help import VERDICT, field_comparison, page


def test_it_has_everything_but_plots_and_samples():
    slice_ = field_comparison(slice="lang=en", n_common=5)
    compared = Comparison("old", "new", (field_comparison(), slice_), ("answers are longer",))
    text = as_markdown(replace(page(), gates=(VERDICT,), comparisons=(compared,)), "pages/set/new-v1.html")
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "# set", "## FAIL", "## Before you trust a number", "## Scores", "## old → new",
        "### rouge\\_l.recall by slice", "## rouge\\_l.recall by slice: mean \\[95 % interval\\]",
        "## Coverage and failures",
        "## Validation and quarantine", "## Methods", "## Reproduction",
    ]  # fmt: skip
    for line in (
        "**old**, **new**. Made 2026-01-01 00:00 UTC. The whole page: `pages/set/new-v1.html`",
        "**summary 0**",
        "New loses more than the margin.",
        "| rouge\\_l.recall \\>= -0.02 | FAIL | -0.100 [-0.150, -0.050] | 10 | It lost 0.1. |",
        "| rouge\\_l.recall | 0.500 [0.400, 0.600] | 0.600 [0.500, 0.700] |",
        "| rouge\\_l.recall | 10 | 0.500 | 0.600 | +0.100 [+0.050, +0.150] | 0.002 | better | 0.040 |",
        "| lang=en | 5 | 0.500 | 0.600 | +0.100 [+0.050, +0.150] | 0.002 | better | 0.040 |",
        "- answers are longer",
        "| rouge\\_l | new | failed | 1 | failure 0 |",
        "- warning: check 0",
        "- quarantined by encoding: reason 0",
        "- `rouge_l|v1|refs:best`",
        "answerkey evaluate a.jsonl",
    ):
        assert line in text.splitlines()


def test_text_from_data_stays_text():
    nasty = "<img src=x onerror=alert(1)> [a](javascript:b) | `c` \u202e*d*\n# e"
    text = as_markdown(page(names=(nasty, "new"), text=lambda kind, place: f"{kind} {nasty}"))
    assert "\u202e" not in text
    shown = "\\<img src=x onerror=alert(1)\\> \\[a\\](javascript:b) \\| \\`c\\` \\[RLO\\]\\*d\\* \\# e"
    assert f"- **Warning:** warning {shown}" in text
    assert not [line for line in text.splitlines() if line.startswith("# ") and line != "# set"]


def test_it_names_the_judge():
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
