"""`answerkey init`: examples to start from."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

from rich.markup import escape

from answerkey.flows.cli.layout import show
from answerkey.metrics_core.errors import UserError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
_ENDINGS = (".csv", ".jsonl", ".yaml", ".py", ".md", ".ipynb")


def init(folder: Path = Path("answerkey-examples"), /) -> int:
    """Copy example data, a policy, a judge, a metric and rules into a folder, to start from.

    Args:
        folder: Where to put them; nothing is overwritten.

    Examples:
        answerkey init trial
    """
    # Nothing is written if any of it exists already
    files = [
        path.relative_to(EXAMPLES)
        for path in sorted(EXAMPLES.rglob("*"))
        if path.suffix in _ENDINGS and "__pycache__" not in path.parts
    ]
    if existing := [str(folder / file) for file in files if (folder / file).exists()]:
        raise UserError(f"{existing[0]} exists already, and nothing is overwritten; name an empty folder")

    # Copies, in the folders that the examples have
    try:
        for file in files:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(EXAMPLES / file, folder / file)
    except OSError as error:
        raise UserError(f"{error.filename or folder}: cannot be written: {error.strerror or error}") from error
    show(
        f"{len(files)} files in {escape(str(folder))}. README.md there says what each of them is. Next:",
        "",
        f"  answerkey evaluate {_quoted(folder, 'helpdesk/v1.csv')} {_quoted(folder, 'helpdesk/v2.csv')} "
        f"--references {_quoted(folder, 'helpdesk/questions.jsonl')} "
        f"--config {_quoted(folder, 'helpdesk/evaluate.yaml')}",
        f"  answerkey gate helpdesk/v1 helpdesk/v2 --policy {_quoted(folder, 'helpdesk/gate.yaml')}",
    )
    return 0


def _quoted(folder: Path, name: str) -> str:
    return escape(shlex.quote(str(folder / name)))
