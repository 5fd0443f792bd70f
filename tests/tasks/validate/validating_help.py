"""Staged rows made for a test, and what validation makes of them."""

import os

import pyarrow as pa
import pyarrow.parquet as pq

from answerkey.metrics_core.sample import content_hash
from answerkey.tasks.load.rows import quarantine_schema, staged_schema
from answerkey.tasks.validate.contract import Contract
from answerkey.tasks.validate.validate import validate
from tests.tasks.staging_help import rows_of

LENIENT = Contract(max_quarantined=1.0)
APOLOGY = """{type: expect_column_values_to_not_match_regex,
  kwargs: {column: answer, regex: "(?i)^(sorry|i apologi[sz]e)"}, meta: {name: no_apology},
  description: "No answer begins with an apology {of any kind}"}"""


def expecting(*expectations, max_quarantined=1.0):
    """A contract with expectations of a user, each an item of a list in YAML."""
    suite = "name: mine\nexpectations:\n" + "".join(f"- {one}\n" for one in expectations)
    return Contract(max_quarantined=max_quarantined, expectations=suite)


def row(**fields):
    """A sound row, but for the fields given."""
    whole = {
        "sample_id": "q1", "release": "old", "question": "Where is the Kremlin?", "answer": "In Moscow.",
        "references": ["Moscow"], "facts": [], "cluster": None, "label": "true", "slices": {"topic": "geography"},
    } | fields  # fmt: skip
    sample = [whole[name] for name in ("question", "references", "facts", "cluster")]
    hashes = {"sample_hash": content_hash(sample), "sample_key": content_hash([whole["answer"], *sample[:3]])}
    return hashes | whole


def rows(*each):
    """Rows with ids of their own."""
    return [row(**({"sample_id": f"q{number}"} | dict(fields))) for number, fields in enumerate(each, start=1)]


def written(path, staged):
    """A staged file with these rows."""
    numbered = [{"row": number} | dict(fields) for number, fields in enumerate(staged, start=1)]
    pq.write_table(pa.Table.from_pylist(numbered, schema=staged_schema()), path)
    return str(path)


class Outcome:
    """Where the rows went, the reason of each in quarantine by its number, and the numbers of those that were kept."""

    def __init__(self, validation):
        self.validation = validation
        questions = "quarantined ("
        self.accepted = [
            line for line in rows_of(validation.accepted) if not str(line["missing_because"]).startswith(questions)
        ]
        self.quarantine = rows_of(validation.quarantine)
        self.reasons = {line["row"]: (line["rule"], line["reason"]) for line in self.quarantine}
        self.kept = [line["row"] for line in self.accepted]

    def check(self, rule, release=None):
        [found] = [c for c in self.validation.checks if c.rule == rule and c.release == release]
        return found


def validated(
    folder,
    staged,
    contract=LENIENT,
    rejects=None,
):
    folder.mkdir(exist_ok=True)
    refused = None
    if rejects is not None:
        refused = str(folder / "rejects.parquet")
        pq.write_table(pa.Table.from_pylist(list(rejects), schema=quarantine_schema()), refused)
    found = Outcome(validate(written(folder / "staged.parquet", staged), refused, str(folder / "out"), contract))
    # Rows that are all accepted as they are stay where they were staged.
    assert {*os.listdir(folder / "out"), "accepted.parquet"} == {"accepted.parquet", "quarantine.parquet"}
    n_rows = found.validation.n_rows, found.validation.n_accepted, found.validation.n_quarantined
    assert n_rows == (len(found.accepted) + len(found.quarantine), len(found.accepted), len(found.quarantine))
    return found
