"""`answerkey labels`: `export` and `import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from answerkey.flows.cli.compare import NewReport, OldReport
from answerkey.flows.cli.options import HOME, Dataset, HomeOption


def export(
    old: OldReport,
    new: NewReport,
    file: Annotated[Path, Parameter(metavar="FILE", help="The CSV file to write.")],
    /,
    *,
    dataset: Dataset = "",
    every: Annotated[
        bool, Parameter("--all", help="All drawn questions, not only those up to the next analysis.")
    ] = False,
    home: HomeOption = HOME,
) -> int:
    """Write the questions of the newest queue for two releases, with their labels, as CSV.

    A row for each answer and annotator; the verdict is empty where there is none. Rows do not name the release of an
    answer. What is written into `verdict` (right, wrong, cannot tell) and `annotator` can be imported.

    Examples:
        answerkey labels export gpt-4 gpt-5 labels.csv
    """
    from answerkey.tasks.label_files import export_labels

    n, labelled = export_labels(home, old, new, file, dataset, every=every)
    print(f"{file}: {n:,} rows, {labelled:,} of them with a label")
    return 0


def import_(
    file: Annotated[Path, Parameter(metavar="FILE", help="A CSV file with the columns of `labels export`.")],
    /,
    *,
    annotator: Annotated[
        str, Parameter("--annotator", help="Who labelled the rows that name nobody in `annotator`.")
    ] = "",
    home: HomeOption = HOME,
) -> int:
    """Take labels from a CSV file into the warehouse.

    Rows without a verdict are left out, and so are labels that are known already. A changed label counts from now
    on; the earlier one stays in the table `labels`. Nothing is taken from a file with a wrong row.

    Examples:
        answerkey labels import labels.csv --annotator AB
    """
    from answerkey.tasks.label_files import import_labels

    print(f"{file}: {import_labels(home, file, annotator):,} new labels; `answerkey gate` decides with them")
    home.warehouse.publish()
    return 0
