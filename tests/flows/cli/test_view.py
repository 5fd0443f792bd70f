"""`answerkey view` and `answerkey init`: the pages as files, the server, and what a newcomer gets."""

import os
import signal
import subprocess
import sys
import urllib.request

import pytest

from answerkey.metrics_core.judges.rubric import read_rubric
from answerkey.tasks.publish.site import Site
from tests.cluster_servers import dies_with_its_parent
from tests.conftest import ROOT
from tests.kit.waiting import FAULT_S
from tests.tasks.publish.site_help import made_home


@pytest.mark.real
def test_the_files_are_what_is_served_until_a_signal(bare_cli, tmp_path):
    home = made_home(tmp_path)
    done = bare_cli("view", "--to", tmp_path / "site", "--home", home)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"4 files in {tmp_path}/site; open {tmp_path}/site/index.html\n"
    written = {path.relative_to(tmp_path / "site").as_posix() for path in (tmp_path / "site").rglob("*.html")}
    assert written == set(Site(home).names())
    command = [sys.executable, "-m", "answerkey.flows.cli", "view", "--port", "0", "--home", str(home)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=dict(os.environ), preexec_fn=dies_with_its_parent()  # noqa: PLW1509
    ) as process:  # fmt: skip
        assert process.stdout is not None
        address, _, said = process.stdout.readline().partition(" ")
        assert said.strip() == f"(home {home}, read-only; Ctrl-C stops it)"
        with urllib.request.urlopen(address, timeout=FAULT_S) as reply:
            assert b"Judges and spend" in reply.read()
        process.send_signal(signal.SIGINT)
        assert (process.stdout.read(), process.wait(FAULT_S)) == ("stopped\n", 0)


@pytest.mark.nightly
def test_pages_that_are_none_any_more_are_removed_and_nothing_else(bare_cli, tmp_path):
    home, site = made_home(tmp_path), tmp_path / "site"
    site.mkdir()
    outside = tmp_path / "kept.html"
    for own in (site / "robots.txt", site / "faq" / "notes.html", outside):
        own.parent.mkdir(exist_ok=True)
        own.write_text("mine", encoding="utf-8")
    assert bare_cli("view", "--to", site, "--home", home).returncode == 0
    pages = set((site / ".answerkey-pages").read_text(encoding="utf-8").splitlines())
    assert pages == set(Site(home).names())
    # As if the home had had other pages, and somebody had written paths into the list that lead elsewhere.
    (site / "old" / "deep").mkdir(parents=True)
    for gone in ("old/deep/gone-v1.html", "faq/gone-v1.html"):
        (site / gone).parent.mkdir(exist_ok=True)
        (site / gone).write_text("old", encoding="utf-8")
    (site / "away").symlink_to(tmp_path)
    elsewhere = ["../kept.html", str(outside), "away/kept.html", "a\0b", ""]
    listed = [*pages, "old/deep/gone-v1.html", "faq/gone-v1.html", *elsewhere]
    (site / ".answerkey-pages").write_text("\n".join(listed), encoding="utf-8")
    process = bare_cli("view", "--to", site, "--home", home)
    assert process.stdout == f"{len(pages)} files in {site}; open {site}/index.html\n"
    there = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    assert there >= pages | {"robots.txt", "faq/notes.html"}
    assert not (site / "old").exists() and not (site / "faq/gone-v1.html").exists()
    assert outside.read_text(encoding="utf-8") == "mine"
    assert set((site / ".answerkey-pages").read_text(encoding="utf-8").splitlines()) == pages


def test_nothing_is_overwritten(bare_cli, tmp_path):
    (tmp_path / "gate.yaml").write_text("mine", encoding="utf-8")
    refused = bare_cli("init", tmp_path)
    assert (refused.returncode, [path.name for path in tmp_path.iterdir()]) == (2, ["gate.yaml"])
    assert refused.stderr == (
        f"answerkey: {tmp_path / 'gate.yaml'} exists already, and nothing is overwritten; name an empty folder\n"
    )


def test_its_judge_is_a_rubric():
    assert read_rubric(str(ROOT / "examples/judges/directness.yaml")).name == "directness"
