"""The pages of the documentation site about the command line, made of the commands themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cyclopts import App

from answerkey.flows.cli.main import make_app
from answerkey.flows.forms import option_of
from answerkey.flows.parameters import Generating, Judging, Scoring

_HEAD = """# Command line

`answerkey COMMAND --help` prints the same as these pages. [Configuration](../configuration.md) has the environment
variables, and what a file for `--config` holds. [Exit codes](../configuration.md#exit-codes) are the same for every
command.

| command | what it does |
|---|---|
"""


_KEYS = """
## Keys without an option

In the file of `--config`, or in a form on a server:

| key | what it sets |
|---|---|
"""


def pages() -> dict[str, str]:
    """Markdown by the name of the page: `cli/index.md`, and a page for each command.

    >>> sorted(pages())[:2]
    ['cli/calibrate.md', 'cli/compare.md']
    """
    app = make_app()
    commands = {name: app[name] for name in app if not name.startswith("-")}
    lines = (f"| [`answerkey {name}`]({name}.md) | {_first_line(one)} |\n" for name, one in commands.items())
    return {"cli/index.md": _HEAD + "".join(lines) + _KEYS + "".join(_keys())} | {
        f"cli/{name}.md": _page(one) for name, one in commands.items()
    }


def _keys() -> Iterator[str]:
    forms = {"scoring": Scoring, "judging": Judging, "generating": Generating}
    for form, model in forms.items():
        for name, info in model.model_fields.items():
            if not option_of(name, info):
                description = (info.description or "").replace("|", "\\|")
                yield f"| `{form}.{name}` | {description} |\n"


def _first_line(app: App) -> str:
    return app.help.partition("\n")[0]


def _page(app: App) -> str:
    name = app.name[0]
    text = app.generate_docs(usage_name=f"answerkey {name}").replace(f"# {name}\n", f"# answerkey {name}\n", 1)
    # The site has its own table of contents. "Empty" and "no" mean that nothing was given: nobody types them.
    text = re.sub(r"## Table of Contents\n\n(- .*\n)*\n", "", text)
    text = re.sub(r", --empty-[a-z-]+", "", text)
    text = re.sub(r", --no-[a-z-]+(?=`: .*\*\[default: False\]\*)", "", text)
    text = re.sub(r' \*\[default: (""|False)\]\*', "", text)
    return "\n\n".join((text.strip(), *_examples(app))) + "\n"


def _examples(app: App) -> Iterator[str]:
    nested = [app[name] for name in app if not name.startswith("-")]
    lines = [line.strip() for one in (app, *nested) for line in (one.help_epilogue or "").splitlines()[1:]]
    if lines:
        yield "## Examples\n\n```sh\n" + "\n".join(lines) + "\n```"
