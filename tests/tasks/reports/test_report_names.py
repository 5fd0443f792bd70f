"""A report is meant by its id, a release by its name, and what is not clear is asked for."""

import duckdb
import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.reports.report import check_baseline, pair_named, report_named
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.warehouse import FILE
from tests.tasks.comparing_help import answer, release


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Releases a (v1, v2) and b on data set d, release a on data set e, and one whose name looks like an id."""
    folder = tmp_path_factory.mktemp("names")
    with Home(folder).warehouse.writing() as warehouse:
        for dataset, name, version in (("d", "a", 1), ("d", "a", 2), ("d", "b", 1), ("e", "a", 1), ("e", "d/a/v1", 1)):
            warehouse.execute(
                "INSERT INTO reports BY NAME SELECT ? AS report_id, ? AS dataset, 'x' AS dataset_version, "
                "? AS release, ? AS version, now() AS created_at, 'COMPLETE' AS status, '{}' AS manifest",
                [f"{dataset}/{name}/v{version}", dataset, name, version],
            )
    return folder


def test_names(home):
    assert report_named(Home(home), "d/a/v1") == "d/a/v1"
    assert report_named(Home(home), "b") == "d/b/v1"
    assert report_named(Home(home), "d/a") == "d/a/v2"
    assert report_named(Home(home), "a", "e") == "e/a/v1"
    with pytest.raises(UserError, match=r"^a: has reports on d, e; write DATASET/a$"):
        report_named(Home(home), "a")
    with pytest.raises(UserError, match=r"^c: no such report or release in "):
        report_named(Home(home), "c")
    with pytest.raises(UserError, match=r"^b: no such report or release on e in "):
        report_named(Home(home), "b", "e")


def test_one_name_says_which_data_set_the_other_is_about(home):
    assert pair_named(Home(home), "a", "b") == ("d/a/v2", "d/b/v1")
    assert pair_named(Home(home), "e/a/v1", "a") == ("e/a/v1", "e/a/v1")
    assert pair_named(Home(home), "d/a/v1", "a", "d") == ("d/a/v1", "d/a/v2")
    with pytest.raises(UserError, match="has reports on d, e"):
        pair_named(Home(home), "a", "a")


def test_a_baseline_is_found_before_anything_is_scored(home, tmp_path):
    accepted = str(tmp_path / "accepted.parquet")
    duckdb.sql("SELECT unnest(['x', 'y']) AS release").write_parquet(accepted)
    for name in ("x", "b", "d/a/v1"):
        check_baseline(Home(home), name, "d", accepted)
    with pytest.raises(UserError, match=r"^z: no such report or release on d"):
        check_baseline(Home(home), "z", "d", accepted)
    with pytest.raises(UserError, match=r"^e/a/v1: no such report or release on d"):
        check_baseline(Home(home), "e/a/v1", "d", accepted)
    with pytest.raises(UserError, match=r"^b: nothing to compare with; this run has x, y, and .* no reports$"):
        check_baseline(Home(tmp_path), "b", "d", accepted)
    assert not (tmp_path / FILE).exists()


def test_the_newest_report_of_a_release_is_meant(tmp_path):
    for version in (1, 2):
        assert release(tmp_path, "one", [answer(1, "yes")]) == f"d/one/v{version}"
    assert report_named(Home(tmp_path), "one") == "d/one/v2"


def test_a_name_that_is_nearly_right_is_suggested(home):
    with pytest.raises(UserError, match=r"^d/a/v9: no such report .*; did you mean d/a/v[12]\?$"):
        report_named(Home(home), "d/a/v9")
    with pytest.raises(UserError, match=r"; `answerkey report --list` shows them$"):
        report_named(Home(home), "gone")
