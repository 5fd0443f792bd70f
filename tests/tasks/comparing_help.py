"""Two releases in a warehouse, made by the steps of a run, for the tests of what is said about pairs of reports."""

from answerkey.tasks.validate.contract import Contract
from tests.tasks.staging_help import run, source_of

LENIENT = Contract(references="wanted", max_quarantined=1.0)


def answer(sample, text, right=None, **more):
    """An answer to question `sample`, whose reference is `yes`."""
    row = {"id": f"q{sample:03}", "question": f"Question {sample}?", "references": ["yes"], "answer": text}
    return row | ({} if right is None else {"correct": right}) | more


def release(home, name, rows, metrics=("exact_match",), **more):
    """Evaluate the answers of one release on the data set `d`; the id of its report."""
    [report] = releases(home, {name: rows}, metrics, **more)
    return report


def releases(home, rows, metrics=("exact_match",), **more):
    """Evaluate the answers of several releases in one run, which takes half a second of CPU for one as for ten."""
    every = [{"release": name} | row for name, answers in rows.items() for row in answers]
    paths = {"label": "correct"} if any("correct" in row for row in every) else {}
    slices = tuple(name for name in ("kind", "half") if any(name in row for row in every))
    source = source_of(home, every, paths=paths, slices=slices)
    return run(home, source, metrics, contract=LENIENT, **more).ids


def row_of(pair, name, slice_="all"):
    """The one row about a field on a slice."""
    [row] = [row for row in pair.rows if (row.name, row.slice) == (name, slice_)]
    return row
