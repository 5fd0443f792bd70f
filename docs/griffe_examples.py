"""An extension of griffe: doctests at the end of a docstring are shown as code under the heading "Examples"."""

from __future__ import annotations

from textwrap import indent
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Put the doctests of each docstring into a section of its own, where griffe looks for them."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of an object, if it ends with doctests."""
        if obj.docstring and "\n>>> " in obj.docstring.value:
            text, mark, examples = obj.docstring.value.partition("\n>>> ")
            obj.docstring.value = f"{text}\nExamples:\n{indent(mark[1:] + examples, '    ')}"
