"""Whether a user has named a server to Prefect, found out without Prefect."""

import pytest
from prefect.settings import Settings

from answerkey.tasks.server import has_server

PROFILES = """
active = "away"

[profiles.away]
PREFECT_API_URL = "http://127.0.0.1:9/api"

[profiles.alone]
# PREFECT_API_URL = "http://127.0.0.1:9/api"
PREFECT_LOGGING_LEVEL = "INFO"
"""


@pytest.mark.parametrize(
    ("content", "chosen", "expected"),
    [
        (PROFILES, "", True),
        (PROFILES, "alone", False),
        (PROFILES.replace('"away"', '"alone"'), "", False),
        (PROFILES.replace('"away"', '"alone"'), "away", True),
        (PROFILES, "nowhere", False),
        ("", "", False),
        (None, "away", False),
    ],
)
def test_the_active_profile_decides(content, chosen, expected, tmp_path, monkeypatch):
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    monkeypatch.setenv("PREFECT_PROFILE", chosen)
    if content is not None:
        (tmp_path / "profiles.toml").write_text(content)
    assert has_server() == expected
    # Prefect has profiles of its own where the user has none.
    assert content is None or bool(Settings().api.url) == expected


@pytest.mark.parametrize(
    "files",
    [
        {".env": "PREFECT_API_URL=http://127.0.0.1:9/api"},
        {"prefect.toml": '[api]\nurl = "http://127.0.0.1:9/api"'},
        {"pyproject.toml": '[tool.prefect.api]\nurl = "http://127.0.0.1:9/api"'},
        {".env": "PREFECT_PROFILES_PATH=mine.toml", "mine.toml": PROFILES},
        {"prefect.toml": 'profiles_path = "mine.toml"', "mine.toml": PROFILES},
    ],
)
def test_the_files_of_the_working_folder_name_no_server(files, tmp_path, monkeypatch):
    for name in ("PREFECT_API_URL", "PREFECT_PROFILE", "PREFECT_PROFILES_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    assert not has_server()
    # Prefect itself takes it.
    assert Settings().api.url


@pytest.mark.parametrize("content", ["no TOML [", "active = 1", "profiles = 1", 'active = "a"\nprofiles.a = 1'])
def test_what_is_no_profile_names_no_server(content, tmp_path, monkeypatch):
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    (tmp_path / "profiles.toml").write_text(content)
    assert not has_server()
