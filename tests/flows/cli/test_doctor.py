"""What `answerkey doctor` finds, and what it says where something is wrong."""

import pytest

from answerkey.metrics_core.offline_judge.matcher import about
from answerkey.tasks.warehouse.home import Home


def findings(result):
    """Name to mark and text."""
    rows = [line.split(maxsplit=1) for line in result.stdout.splitlines()]
    return {rest[:22].strip(): (mark, rest[22:].strip()) for mark, rest in rows}


@pytest.mark.real
def test_all_is_well(cli, server, tmp_path):
    with Home(tmp_path).warehouse.writing():
        pass
    result = cli("doctor", "--home", tmp_path, code=0)
    found = findings(result)
    assert {mark for mark, _ in found.values()} == {"ok"}
    assert found["model use-multilingual"][1] == "found, checksum right, revision 0db566fd"
    assert found["model minilm"][1] == "found, checksum right, revision 53aa5117"
    assert found["judge"][1] == f"{about()}; ANSWERKEY_JUDGE or --judge names another"
    assert found["warehouse"][1].endswith("0 reports on 0 data sets")
    assert found["server"][1] == f"{server} answers"
    assert "duckdb 1.5" in found["versions"][1]


@pytest.mark.nightly
def test_a_shared_home_is_tried(bare_cli, lake, monkeypatch):
    result = bare_cli("doctor", "--home", lake)
    found = findings(result)
    assert result.returncode == 0
    assert found["server"] == ("ok", "none; none is needed (`answerkey serve` starts one)")
    assert found["warehouse"] == ("ok", f"none yet in {lake}; the first evaluation makes it")
    assert (found["lock"], found["files"]) == (("ok", "acquired and released"), ("ok", "written, read and removed"))
    assert found["clock"][0] == "ok"
    assert list(Home.parse(lake).store.files("")) == []
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of somebody else")
    result = bare_cli("doctor", "--home", lake)
    assert (result.returncode, findings(result)["lock"][0], findings(result)["files"][0]) == (1, "ok", "fail")
    assert "of somebody else" not in result.stdout + result.stderr


def test_a_catalog_beside_a_folder_is_a_finding(bare_cli, tmp_path):
    result = bare_cli("doctor", "--home", tmp_path, ANSWERKEY_CATALOG="postgres:host=db")
    mark, text = findings(result)["catalog"]
    assert (result.returncode, mark) == (1, "fail")
    assert text.startswith(f"ANSWERKEY_CATALOG has no effect on the home {tmp_path}, which is a folder")


@pytest.mark.real
def test_a_server_that_is_down_is_named_with_the_remedy(bare_cli, tmp_path):
    judged = {"ANSWERKEY_JUDGE": "openai/gpt-4o-mini", "OPENAI_API_KEY": "k"}
    server = "http://name:secret@127.0.0.1:9/api"
    result = bare_cli("doctor", "--home", tmp_path, **judged, PREFECT_API_URL=server, code=1)
    mark, text = findings(result)["server"]
    assert mark == "fail"
    assert text.startswith("http://…@127.0.0.1:9/api does not answer")
    assert "secret" not in result.stdout + result.stderr
    assert text.endswith("start it, or unset PREFECT_API_URL")
    assert findings(result)["warehouse"][1] == f"none yet in {tmp_path}; the first evaluation makes it"
