"""The page of the documentation site about tables and views, made of the comments in tasks/warehouse/schema.sql."""

from answerkey.tasks.warehouse.schema import VERSION, Relation, definitions, relations
from answerkey.tasks.warehouse.warehouse import session

_HEAD = """# Tables and views of the warehouse

Version {version}. The same texts are in the database: `SELECT table_name, column_name, comment FROM duckdb_columns()`.
How to read it is in [Query and export](warehouse.md). Analysts mostly need the views, and
`report_metrics` is the one to begin with.

"""


def reference() -> str:
    """The page: views first, then tables, with all columns."""
    with session() as connection:
        connection.execute(definitions(constraints=True))
        kinds: dict[str, dict[str, str]] = {}
        query = (
            "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal ORDER BY column_index"
        )
        for name, column, kind in connection.execute(query).fetchall():
            kinds.setdefault(name, {})[column] = kind
    views = [relation for relation in relations().values() if relation.is_view]
    tables = [relation for relation in relations().values() if not relation.is_view]
    parts = [_HEAD.format(version=VERSION), "## Views\n\n", *(_section(one, kinds[one.name]) for one in views)]
    parts += ["## Tables\n\n", *(_section(one, kinds[one.name]) for one in tables)]
    return "".join(parts)


def _section(relation: Relation, kinds: dict[str, str]) -> str:
    lines = [f"### {relation.name}\n\n{_plain(relation.comment)}\n"]
    if relation.key:
        checked = "DuckDB checks it, but not on a lake" if relation.keeps_key else "DuckDB does not check it"
        key = ", ".join(f"`{column}`" for column in relation.key)
        lines.append(f"Key: {key}. {checked}.\n")
    lines.append("| column | type | what it is |\n|---|---|---|")
    lines += [f"| `{column}` | {kind} | {_plain(relation.columns[column])} |" for column, kind in kinds.items()]
    return "\n".join(lines) + "\n\n"


def _plain(comment: str) -> str:
    return comment.replace("|", "\\|").replace("<", "&lt;")
