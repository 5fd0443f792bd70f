"""Whole pages as they read: the text of the HTML, and the Markdown.

Where a page is to say something else, run this file with UPDATE_GOLDEN=1, and read the difference of the golden files.
"""

import json
import math
import os
from dataclasses import replace
from pathlib import Path

import pytest

from answerkey.metrics_core.comparison import Comparison
from answerkey.tasks.publish import tables
from answerkey.tasks.publish.page.html import render, write
from answerkey.tasks.publish.page.markdown import as_markdown, comment_markdown
from answerkey.tasks.publish.page.model import as_json
from tests.tasks.publish.page.page_help import FIELDS, VERDICT, field_comparison, full, page, release, report, score
from tests.tasks.publish.page.page_help import text_of as text

GOLDEN = Path(__file__).parent / "golden"
PAGES = {"full": full(), "only": replace(page(names=("only",)), warnings=(), why_primary="It is the first.")}


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("ending", ["md", "txt"])
def test_a_page_reads_as_its_golden_file(name, ending):
    made, file = PAGES[name], GOLDEN / f"{name}.{ending}"
    written = as_markdown(made, "pages/set/new-v1.html") if ending == "md" else text(render(made))
    if "UPDATE_GOLDEN" in os.environ:
        file.write_text(written, encoding="utf-8")
    assert written == file.read_text(encoding="utf-8")


@pytest.mark.parametrize(("old", "new", "lower_is_better"), [("new", "old", False), ("old", "new", True)])
def test_an_answer_that_got_worse_stands_in_the_comment_and_in_the_page_without_a_script(old, new, lower_is_better):
    made = full()
    [primary, *others] = made.fields
    fields = (replace(primary, lower_is_better=lower_is_better), *others)
    made = replace(made, fields=fields, comparisons=(replace(made.comparisons[-1], old=old, new=new),))
    scores = ((old, "0.000"), (new, "1.000")) if lower_is_better else ((old, "1.000"), (new, "0.000"))
    html = render(made)
    static = text(html[html.index('<section id="worse"') : html.index('<nav aria-label="Sections"')])
    old_line, new_line = (f"{name} {score} answer of {name} 0" for name, score in scores)
    assert static.strip() == f"## 1 answer got worse\n-\nquestion 0 Right: reference 0\n{old_line}\n{new_line}"
    assert "1 sample got worse, 0 got better, and 1 stayed the same." in comment_markdown(made)


def test_a_page_is_json_with_every_value_in_its_place():
    content = json.loads(as_json(replace(page(3), gates=(VERDICT,))))
    assert content["gates"][0]["verdict"]["rules"][0]["sentence"] == "It lost 0.1."
    assert content["samples"]["answers"][1]["values"]["rouge_l.recall"] == [1.0, 0.5, None]
    assert content["samples"]["answers"][1]["unscored"]["rouge_l"]["2"] == ["failed", "why 0"]
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_json(field_comparison(difference=math.nan))
    with pytest.raises(TypeError, match="set is not JSON"):
        as_json({"a": {1}})


def test_a_file_is_written_whole_and_replaces_the_last_one(tmp_path):
    file = write(page(), tmp_path / "reports" / "page.html")
    first = file.read_text(encoding="utf-8")
    assert first.startswith("<!doctype html>") and first == render(page())
    write(page(n=2), file)
    assert file.read_text(encoding="utf-8") != first
    assert [path.name for path in file.parent.iterdir()] == ["page.html"]


def test_a_release_may_be_called_as_a_column_is():
    made = page(names=("clusters", "scored"))
    shown = tables.slices(made.by_release, FIELDS[0]).folded()
    assert tuple(shown.head) == ("slice", "clusters", "scored", "scored")
    [row] = shown.rows
    assert [str(cell) for cell in row] == ["lang=en", "0.500 [0.400, 0.600]", "0.600 [0.500, 0.700]", "10"]
    assert list(shown.records()[0]) == ["slice", "clusters", "scored", "scored (4)"]


def test_of_very_many_slices_the_largest_are_kept():
    many = tuple(score(FIELDS[0], 0.5, f"id=a={n}", n=n + 1) for n in range(100))
    sliced = replace(release("a"), report=report("a", scores=many))
    shown = tables.slices(replace(page(), releases=(sliced,)).by_release, FIELDS[0], 40)
    assert [row[0] for row in shown.rows[:2]] == ["id=a=99", "id=a=98"]
    assert len(shown.rows) == 40
    assert shown.notes == ["The largest values of each column; 60 smaller ones are in the warehouse."]


def test_columns_below_others_on_the_page_are_columns_of_their_own_elsewhere():
    row = field_comparison(n_clusters=5, needed=900, low=-0.1)
    [table] = tables.differences(Comparison("a", "b", (row,)), FIELDS[0])
    cells = dict(zip(table.folded().head, table.folded().rows[0], strict=True))
    assert (cells["samples"].below, cells["detectable"].below) == (("5 clusters",), ("~900 needed",))
    assert (table.records()[0]["clusters"], table.records()[0]["needed"]) == ("5", "~900")
