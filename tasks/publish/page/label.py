"""The page on which people label answers: empty until its script asks the server that sent it."""

from __future__ import annotations

from functools import cache

from answerkey.tasks.publish.page.html import from_template


@cache
def label_page() -> str:
    """The page as HTML. It may ask nobody but the server that it came from."""
    return from_template("label.html.j2", ["label.js"], ["page.css", "label.css"])
