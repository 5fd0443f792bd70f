"""How much code there is, by folder: modules, tokens, classes and functions.

    python benchmarks/size.py              # this checkout
    python benchmarks/size.py ../before    # another one

Tokens are those of Python's own tokenizer, without comments, docstrings, line ends and indentation: unlike lines, they
do not change with the format of the code.
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("flows", "tasks", "metrics_core")
COLUMNS = ("modules", "tokens", "classes", "functions")
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def size(source: str) -> Counter[str]:
    """What one module holds."""
    nodes = list(ast.walk(ast.parse(source)))
    docstrings = {
        node.body[0].lineno for node in nodes if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None
    }
    tokens = [
        token
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in LAYOUT and not (token.type == tokenize.STRING and token.start[0] in docstrings)
    ]
    return Counter(
        modules=1,
        tokens=len(tokens),
        classes=sum(isinstance(node, ast.ClassDef) for node in nodes),
        functions=sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in nodes),
    )


def sizes(root: Path) -> dict[str, Counter[str]]:
    """Of each folder and its subfolders, of the product, and of tests and benchmarks."""
    table: dict[str, Counter[str]] = {}
    for folder in (*PRODUCT, "tests", "benchmarks"):
        for path in sorted((root / folder).rglob("*.py")):
            names = {folder, "product"} if folder in PRODUCT else {folder}
            if folder in PRODUCT and path.parent != root / folder:
                names.add("/".join(path.relative_to(root).parts[:2]))
            for name in names:
                table.setdefault(name, Counter()).update(size(path.read_text(encoding="utf-8")))
    return table


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, nargs="?", default=ROOT)
    print(f"{'':28}" + "".join(f"{column:>12}" for column in COLUMNS))
    for name, row in sorted(sizes(parser.parse_args().checkout).items()):
        print(f"{name:28}" + "".join(f"{row[column]:>12,}" for column in COLUMNS))


if __name__ == "__main__":
    main()
