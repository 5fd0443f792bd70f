"""The pages of a home in a browser: from a folder, and from a bucket that this machine has never seen."""

import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from answerkey.tasks.warehouse.home import Home
from tests.cluster_servers import dies_with_its_parent
from tests.flows.conftest import free_port
from tests.flows.deployed_help import until

Get = Callable[[str], tuple[int, str, bytes]]


@pytest.fixture
def get(any_home: Home) -> Iterator[Get]:
    """Ask the server: status, type and content."""
    port = free_port()
    command = [sys.executable, "-m", "answerkey.flows.pages", any_home.address, "--port", str(port)]

    def ask(path: str) -> tuple[int, str, bytes]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=100) as reply:
                return reply.status, reply.headers["Content-Type"], reply.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers["Content-Type"], error.read()

    def answers() -> bool | None:
        try:
            return bool(ask(""))
        except urllib.error.URLError:
            return None

    with subprocess.Popen(command, preexec_fn=dies_with_its_parent()) as process:  # noqa: PLW1509 - only the kernel
        until(answers, 100, "the server of the pages")
        yield ask
        process.kill()


def test_a_page_is_read_from_the_store_and_nothing_else_is(any_home: Home, get: Get) -> None:
    assert get("")[2].count(b"<li>") == 0
    for name in ("pages/faq & co/gpt-v1.html", "registered/secret.jsonl"):
        with any_home.store.whole(name) as file:
            Path(file).write_text("<p>é")
    assert get("faq%20%26%20co/gpt-v1.html") == (200, "text/html; charset=utf-8", "<p>é".encode())
    assert b'<a href="/faq%20%26%20co/gpt-v1.html">faq &amp; co/gpt-v1.html</a>' in get("")[2]
    for hidden in ("../registered/secret.jsonl", "%2e%2e/registered/secret.jsonl", "faq", "//etc/passwd", "nothing"):
        assert get(hidden)[0] == 404, hidden
