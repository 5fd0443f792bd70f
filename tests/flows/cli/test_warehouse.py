"""`answerkey warehouse`: what it says, and what it refuses."""

import json

import pytest

from answerkey.tasks.warehouse.home import Home


@pytest.fixture
def home(tmp_path):
    home = Home.parse(tmp_path / "home")
    with home.warehouse.writing() as connection:
        connection.execute("INSERT INTO datasets SELECT 'data', range::VARCHAR, now(), 1, NULL FROM range(3)")
    with home.store.atomic_write("pages/data.html") as page:
        page.write_text("a page")
    return home


def test_a_file_is_maintained(bare_cli, home):
    process = bare_cli("warehouse", "maintain", code=0)
    assert "0 files merged, 0 old snapshots removed, 0 files removed" in process.stdout
    content = json.loads(bare_cli("warehouse", "maintain", "--json").stdout)
    assert content == {"merged": 0, "states": 0, "removed": 0, "size": home.warehouse.size()[1]}


def test_tables_are_exported_and_a_home_is_backed_up(bare_cli, home, tmp_path):
    # Folders of the user with the names that such programs give to what is not finished.
    mine = [tmp_path / f"{name}.part" / "thesis.txt" for name in ("out", "copy")]
    for file in mine:
        file.parent.mkdir()
        file.write_text("years of work")
    process = bare_cli("warehouse", "export", tmp_path / "out", "datasets", "report_metrics", "--format", "csv")
    assert process.stdout == f"{tmp_path / 'out'}: 2 csv files, 3 rows\n"
    process = bare_cli("warehouse", "backup", tmp_path / "copy")
    assert process.stdout.startswith(
        f"{tmp_path / 'copy'} has {home} as it was: 0 reports, 0 paid calls, 1 other files, "
    )
    assert [file.read_text() for file in mine] == ["years of work"] * 2
    assert sorted(file.name for file in tmp_path.iterdir() if file.name.startswith(".")) == []
    again = bare_cli("warehouse", "backup", tmp_path / "copy")
    assert (again.returncode, again.stderr) == (
        2, f"answerkey: {tmp_path / 'copy'}: this is there already; name a folder that is not\n",
    )  # fmt: skip
