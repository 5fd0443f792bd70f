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


@pytest.mark.nightly
def test_a_home_is_moved_and_nothing_is_moved_onto_it(bare_cli, home, tmp_path):
    done = bare_cli("warehouse", "move", home, tmp_path / "new", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"{tmp_path}/new has what {home} has, compared by content: 3 rows of 23 tables, 1 files (0.0 MB), 0 paid calls",
        f"{home} is as it was; use the new one with ANSWERKEY_HOME={tmp_path}/new",
    ]
    again = bare_cli("warehouse", "move", home, tmp_path / "new")
    assert (again.returncode, again.stdout) == (2, "")
    assert again.stderr == (
        f"answerkey: {tmp_path}/new: there is the file pages/data.html already; move to a home with nothing in it\n"
    )


def test_a_file_is_maintained(bare_cli, home):
    done = bare_cli("warehouse", "maintain", code=0)
    assert "0 files merged, 0 old snapshots removed, 0 files removed" in done.stdout
    found = json.loads(bare_cli("warehouse", "maintain", "--json").stdout)
    assert found == {"merged": 0, "states": 0, "removed": 0, "size": home.warehouse.size()[1]}


def test_what_was_changed_is_named_and_what_is_forgotten_is_counted(bare_cli, home, tmp_path):
    clean = bare_cli("warehouse", "verify")
    assert (clean.returncode, clean.stderr) == (1, "")
    assert clean.stdout.splitlines() == [
        *(f"datasets: data/{n}: 1 rows that answerkey has not written" for n in range(3)),
        f"{home}: hashes of 3 parts of tables and 0 reports, and 0 calls of judges compared: 3 findings",
    ]
    # Folders of the user with the names that such programs give to what is not finished.
    mine = [tmp_path / f"{name}.part" / "thesis.txt" for name in ("out", "copy")]
    for file in mine:
        file.parent.mkdir()
        file.write_text("years of work")
    done = bare_cli("warehouse", "export", tmp_path / "out", "datasets", "report_metrics", "--format", "csv")
    assert done.stdout == f"{tmp_path / 'out'}: 2 csv files, 3 rows\n"
    done = bare_cli("warehouse", "backup", tmp_path / "copy")
    assert done.stdout.startswith(f"{tmp_path / 'copy'} has {home} as it was: 0 reports, 0 paid calls, 1 other files, ")
    assert [file.read_text() for file in mine] == ["years of work"] * 2
    assert sorted(file.name for file in tmp_path.iterdir() if file.name.startswith(".")) == []
    again = bare_cli("warehouse", "backup", tmp_path / "copy")
    assert (again.returncode, again.stderr) == (
        2, f"answerkey: {tmp_path / 'copy'}: this is there already; name a folder that is not\n",
    )  # fmt: skip
