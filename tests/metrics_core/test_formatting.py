"""Text from data in Markdown: it is shown as it is, makes no link, and notifies nobody."""

import html
import re

import pytest
from markdown_it import MarkdownIt

from answerkey.metrics_core.formatting import literal

INVISIBLE = "\u200b"
MADE_A_LINK = re.compile(r"(?<![\w])@\w|\w@\w|://|www\.|#\d|GH-\d", re.IGNORECASE)
"""What GitHub looks for in the text of a page that Markdown has become: names, addresses, numbers of issues."""


def read(markdown):
    """What a reader sees of Markdown, and the tags."""
    page = MarkdownIt("commonmark").enable("table").render(markdown)
    return html.unescape(re.sub("<[^>]*>", "", page)).strip(), set(re.findall(r"<(\w+)", page))


@pytest.mark.parametrize(
    "text",
    [
        "@octocat",
        "thanks to @octocat, @org/team and (@a-b)",
        "mail me@example.com",
        "see https://github.com/org/repo/issues/1 and HTTP://example.com",
        "www.example.com",
        "ftp://example.com/@octocat",
        "fixes #12, org/repo#12, GH-12",
        "org/repo@0123456789abcdef0123456789abcdef01234567",
        # As Markdown spells a character, or takes one apart.
        "&#64;octocat &commat;octocat",
        "\\@octocat \\\\@octocat",
        "`@octocat`",
        "<a href='https://example.com'>@octocat</a>",
        "[@octocat](https://example.com)",
        "@octocat\n@octocat",
        "@@octocat",
        "**@octocat**",
        "|@octocat|",
    ],
)
def test_a_text_is_shown_as_it_is_and_makes_no_link(text):
    seen, tags = read(literal(text))

    assert seen.replace(INVISIBLE, "") == text.replace("\n", " ")
    assert not MADE_A_LINK.search(seen)
    assert tags == {"p"}


@pytest.mark.parametrize("text", ["5 @ 3", "a # b", "a: b // c", "50 % @", "the web, www"])
def test_what_notifies_nobody_is_left_alone(text):
    assert INVISIBLE not in read(literal(text))[0]
