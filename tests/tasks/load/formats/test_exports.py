"""Files that other tools export, from the file to a report with no option but the release where they have none."""

import pytest

from answerkey.tasks.load.load import Source, load
from tests.tasks.load.formats.exports import ANSWERS, EXPORTS, FOLDER, QUESTIONS, RIGHT
from tests.tasks.staging_help import jsonl, query, rows_of, run

NAMED = pytest.mark.parametrize("export", EXPORTS, ids=lambda export: export.name)


def source(export):
    folder = FOLDER / export.name
    references = export.references and str(folder / export.references)
    return Source(str(folder / export.file), references, release="" if export.releases else "m")


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """Every export, loaded by itself."""
    return {export.name: load(source(export), tmp_path_factory.mktemp("export")) for export in EXPORTS}


@pytest.fixture(scope="module")
def reports(loaded, tmp_path_factory):
    """The releases of which each export got a report, all in one run: one for each would take half a minute."""
    folder = tmp_path_factory.mktemp("all")
    rows = [
        {
            **{key: row[key] for key in ("question", "answer", "references")},
            "id": f"{name} {row['sample_id']}", "release": f"{name}: {row['release']}",
        }
        for name, one in loaded.items()
        for row in rows_of(one.staged)
    ]  # fmt: skip
    done = run(folder / "home", Source(jsonl(folder / "all.jsonl", rows)), ["token_overlap"])
    scored = "SELECT release FROM report_scores WHERE field = 'recall' AND slice = 'all' AND n_scored = 3"
    releases = [release.split(": ", 1) for (release,) in query(folder / "home", scored)]
    assert len(releases) == len(done.ids)
    return {name: sorted(one for export, one in releases if export == name) for name in loaded}


@pytest.mark.nightly
@NAMED
def test_an_export_becomes_a_report(export, loaded, reports):
    one = loaded[export.name]
    releases = sorted(export.releases or ("m",))
    expected = [
        (release, question if export.questions else None, answer, [right], list(export.context))
        for release in releases
        for question, answer, right in zip(QUESTIONS, ANSWERS, RIGHT, strict=True)
    ]
    columns = ("release", "question", "answer", "references", "context")
    found = [tuple(row[name] for name in columns) for row in rows_of(one.staged)]
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert rows_of(one.rejects) == []
    assert any(export.says in note for note in one.notes), one.notes
    assert reports[export.name] == releases
