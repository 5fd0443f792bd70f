"""Files that other tools export, from the file to a report with no option but the release where they have none."""

import gzip
from dataclasses import replace

import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.load import Source, load
from answerkey.tasks.warehouse.home import Home
from tests.tasks.load.formats.exports import ANSWERS, EXPORTS, RIGHT
from tests.tasks.staging_help import jsonl, query, rows_of, run


def written(folder, export):
    (folder / export.file).write_bytes(export.content)
    references = None
    if export.references:
        name, content = export.references
        (folder / name).write_bytes(content)
        references = str(folder / name)
    return Source(str(folder / export.file), references, release=export.release)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """Every export, loaded by itself."""
    found = {}
    for export in EXPORTS:
        folder = tmp_path_factory.mktemp("export")
        found[export.name] = load(written(folder, export), folder / "work")
    return found


@pytest.fixture(scope="module")
def reports(loaded, tmp_path_factory):
    """The releases of which each export got a report, all in one run: one for each would take half a minute."""
    folder = tmp_path_factory.mktemp("all")
    rows = [
        {**row, "id": f"{name} {row['sample_id']}", "release": f"{name}: {row['release']}"}
        for name, one in loaded.items()
        for row in rows_of(one.staged)
    ]
    home = Home(folder / "home")
    names = ("id", "release", "question", "answer", "references")
    file = jsonl(folder / "all.jsonl", [{name: row[name] for name in names} for row in rows])
    done = run(home, Source(file), ["token_overlap"])
    scored = "SELECT release FROM report_scores WHERE field = 'recall' AND slice = 'all' AND n_scored = 3"
    releases = [str(release).split(": ", 1) for (release,) in query(home, scored)]
    assert len(releases) == len(done.ids)
    return {name: sorted(one for export, one in releases if export == name) for name in loaded}


@pytest.mark.slow
@pytest.mark.parametrize("export", EXPORTS, ids=[export.name for export in EXPORTS])
def test_an_export_becomes_a_report(export, loaded, reports):
    one = loaded[export.name]
    releases = sorted(export.releases or (export.release,))
    expected = [
        (release, question, answer, [right], list(export.context))
        for release in releases
        for question, answer, right in zip(export.questions, ANSWERS, RIGHT, strict=True)
    ]
    rows = rows_of(one.staged)
    found = [(row["release"], row["question"], row["answer"], row["references"], row["context"]) for row in rows]
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert rows_of(one.rejects) == []
    assert any(export.says in note for note in one.notes), one.notes
    assert reports[export.name] == releases


TEXTS = [one for one in EXPORTS if one.file.endswith((".json", ".jsonl", ".csv"))]


@pytest.mark.parametrize("export", TEXTS[::3], ids=[export.name for export in TEXTS[::3]])
def test_an_export_in_utf_16_and_compressed_is_the_same(export, loaded, tmp_path):
    packed = gzip.compress(export.content.decode().encode("utf-16"))
    one = load(written(tmp_path, replace(export, file=f"{export.file}.gz", content=packed)), tmp_path / "work")
    assert rows_of(one.staged) == rows_of(loaded[export.name].staged)
    assert f"{export.file}.gz: read as UTF-16" in one.notes


def test_there_are_forty_exports():
    assert len(EXPORTS) >= 40


@pytest.mark.parametrize("export", [one for one in EXPORTS if one.release], ids=lambda export: export.name)
def test_a_format_without_releases_asks_for_one(export, tmp_path):
    source = written(tmp_path, export)
    with pytest.raises(UserError) as error:
        load(Source(source.answers, source.references), tmp_path / "work")
    assert str(error.value).startswith(f"{export.file}: it is not said which release answered (")
    assert str(error.value).endswith("); name it with --release")
