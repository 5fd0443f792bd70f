"""A table for people. The terminal, the page, Markdown and Prefect's artifacts each write the same one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress

from answerkey.metrics_core.formatting import literal
from answerkey.tasks.publish.escape import visible
from answerkey.tasks.publish.text import NONE, ends, number


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in a cell.

    Attributes:
        text: the number or the words.
        more: what follows on the same line, for instance an interval in brackets.
        below: what the page has below the text instead of `more`, in smaller print.
        kind: a finding of a comparison or the outcome of a rule, which has its own colour; or `code` or `raw`, for
            the page.
        link: the address that the page links the text to, if there is one.
    """

    text: str
    more: str = ""
    below: tuple[str, ...] = ()
    kind: str = ""
    link: str = ""

    def __str__(self) -> str:
        return f"{self.text} {self.more}".rstrip()


def estimate(
    value: float | None,
    low: float | None = None,
    high: float | None = None,
    show: Callable[[float | None], str] = number,
) -> Cell:
    """A number with both ends of its interval.

    >>> str(estimate(0.671, 0.5537, 0.772))
    '0.671 [0.554, 0.772]'
    """
    if value is None or low is None or high is None:
        return Cell(show(value))
    return Cell(show(value), f"[{show(low)}, {show(high)}]", (ends(low, high, show),))


@dataclass(frozen=True, slots=True)
class Table:
    """A table with the names of its columns and a row for each thing that it is about.

    Attributes:
        left: the columns of text besides the first; all others are numbers, to the right.
        wrapped: the columns of long text, with the least width in characters that a terminal gives them.
        groups: what each row belongs to: a rule parts the groups, unless each has one row.
        under: columns whose cells the page has below those of another column.
        each: every column but the first is about a thing of its own, such as a release: where the screen is too
            narrow, each has its own line.
        notes: sentences below the table.
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell | str]]
    left: Collection[str] = ()
    wrapped: Mapping[str, int] = field(default_factory=dict)
    groups: Sequence[object] = ()
    under: Mapping[str, str] = field(default_factory=dict)
    each: bool = False
    notes: Sequence[str] = ()

    @property
    def parted(self) -> Sequence[bool]:
        """For each row, whether a rule parts it from the row before it."""
        groups = self.groups if len(set(self.groups)) < len(self.groups) else [""] * len(self.rows)
        return [place > 0 and groups[place - 1] != group for place, group in enumerate(groups)]

    def without(self, *names: str) -> Table:
        """The table without the columns `names`."""
        retained = [name not in names for name in self.head]
        rows = [list(compress(row, retained)) for row in self.rows]
        wrapped = {name: width for name, width in self.wrapped.items() if name not in names}
        return replace(self, head=list(compress(self.head, retained)), rows=rows, wrapped=wrapped)

    def without_empty(self, *names: str) -> Table:
        """The table without those of the columns `names` that have nothing but dashes."""
        columns = dict(zip(self.head, zip(*self.rows, strict=True), strict=True)) if self.rows else {}
        return self.without(*(name for name in names if {*map(str, columns.get(name, ()))} <= {NONE}))

    def first(self, n_rows: int) -> Table:
        """The table with at most so many rows."""
        return replace(self, rows=self.rows[:n_rows], groups=self.groups[:n_rows])

    def folded(self) -> Table:
        """The table as the page has it: each cell a `Cell`, and the columns `under` others below the cells of those."""
        # By the index of a column, the one that its cells go under
        column_under = {
            self.head.index(name): target for name, target in self.under.items() if {name, target} <= {*self.head}
        }
        rows = []
        for row in self.rows:
            cells = list(map(_as_cell, row))
            for column, target in column_under.items():
                text = str(cells[column])
                if text != NONE:
                    above = self.head.index(target)
                    below = (*cells[above].below, f"{text} {self.head[column]}")
                    cells[above] = replace(cells[above], below=below)
            rows.append(cells)
        return replace(self, rows=rows).without(*(self.head[column] for column in column_under))

    def records(self) -> list[dict[str, str]]:
        """The rows as an artifact of Prefect has them: text by the name of the column.

        Releases and rules give columns their names; one that has the name of a column before it is numbered.
        """
        names: list[str] = []
        for name in self.head:
            names.append(f"{name} ({len(names) + 1})" if name in self.head[: len(names)] else name)
        return [dict(zip(names, map(str, row), strict=True)) for row in self.rows]

    def markdown(self) -> str:
        """The table and its notes as Markdown; text from data is shown literally."""
        # The head is a row like others, with a rule below it
        rows = (self.head, *self.rows)
        head, *lines = (f"| {' | '.join(map(_markdown, row))} |" for row in rows)
        return "\n".join(
            [head, f"|{' --- |' * len(self.head)}", *lines, *(f"\n{literal(note)}" for note in self.notes)]
        )


def _as_cell(cell: Cell | str) -> Cell:
    return cell if isinstance(cell, Cell) else Cell(cell)


def _markdown(text: Cell | str) -> str:
    # What follows a number is ours
    cell = _as_cell(text)
    return f"{literal(visible(cell.text))} {cell.more}".rstrip()
