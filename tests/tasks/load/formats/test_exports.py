"""Files that other tools export, from the file to a report with no option but the release where they have none."""

from pathlib import Path

import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.load import Source, load
from answerkey.tasks.warehouse.home import Home
from tests.tasks.load.formats.exports import ANSWERS, EXPORTS, RIGHT, Export
from tests.tasks.staging_help import query, rows_of, run


def written(folder: Path, export: Export, dataset: str = "") -> Source:
    (folder / export.file).write_bytes(export.content)
    references = None
    if export.references:
        name, content = export.references
        (folder / name).write_bytes(content)
        references = str(folder / name)
    return Source(str(folder / export.file), references, release=export.release, dataset=dataset)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home(tmp_path_factory.mktemp("home"))


@pytest.mark.parametrize("export", EXPORTS, ids=[export.name for export in EXPORTS])
def test_an_export_becomes_a_report(export: Export, home: Home, tmp_path: Path) -> None:
    done = run(home, written(tmp_path, export, export.name.replace(" ", "_").replace(",", "")), ["token_overlap"])
    rows = rows_of(done.validation.accepted)
    releases = export.releases or (export.release,)
    expected = [
        (release, question, answer, [right], list(export.context))
        for release in sorted(releases)
        for question, answer, right in zip(export.questions, ANSWERS, RIGHT, strict=True)
    ]
    found = [(row["release"], row["question"], row["answer"], row["references"], row["context"]) for row in rows]
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert any(export.says in note for note in done.loaded.notes), done.loaded.notes
    assert sorted(one.release for one in done.reports) == sorted(releases)
    scored = "SELECT DISTINCT n_scored FROM report_scores WHERE list_contains(?, report_id) AND field = 'recall'"
    assert query(home, scored, [done.ids]) == [(3,)]


def test_there_are_forty_exports() -> None:
    assert len(EXPORTS) >= 40


@pytest.mark.parametrize("export", [one for one in EXPORTS if one.release], ids=lambda export: export.name)
def test_a_format_without_releases_asks_for_one(export: Export, tmp_path: Path) -> None:
    source = written(tmp_path, export)
    with pytest.raises(UserError) as error:
        load(Source(source.answers, source.references), tmp_path / "work")
    assert str(error.value).startswith(f"{export.file}: it is not said which release answered (")
    assert str(error.value).endswith("); name it with --release")
