"""The page on which people label answers: empty until its script asks the server that sent it."""

from __future__ import annotations

from functools import cache

from markupsafe import Markup

from answerkey.tasks.publish.page.html import code, environment, policy


@cache
def label_page() -> str:
    """The page as HTML. It may ask nobody but the server that it came from."""
    style, script = code("page.css") + code("label.css"), code("label.js")
    html = (
        environment()
        .get_template("label.html.j2")
        .render(style=Markup(style), script=Markup(script), policy=f"{policy(style, script)}; connect-src 'self'")
    )
    return f"{html.strip()}\n"
