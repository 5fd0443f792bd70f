"""The pages of a home in a browser: from a folder, and from a bucket that this machine has never seen."""

import base64
import http.client
import socket
import struct
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from answerkey.flows.pages import LOGIN, page_server
from answerkey.metrics_core.errors import UserError
from answerkey.tasks.warehouse.home import Home
from tests.kit.serving import answering
from tests.kit.waiting import FAULT_S


@pytest.fixture
def get(any_home):
    """Ask the server: status, type and content."""

    def ask(path):
        try:
            with urllib.request.urlopen(f"{address}/{path}", timeout=FAULT_S) as reply:
                return reply.status, reply.headers["Content-Type"], reply.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers["Content-Type"], error.read()

    with answering(page_server(any_home, 0)) as address:
        yield ask


def test_a_page_is_read_from_the_store_and_nothing_else_is(any_home, get):
    assert b"There are no reports yet" in get("")[2]
    for name in ("pages/faq & co/gpt-v1.html", "registered/secret.jsonl"):
        with any_home.store.atomic_write(name) as file:
            Path(file).write_text("<p>é")
    assert get("faq%20%26%20co/gpt-v1.html") == (200, "text/html; charset=utf-8", "<p>é".encode())
    assert b'<a href="faq%20%26%20co/gpt-v1.html"><bdi dir="auto">faq &amp; co/gpt-v1.html</bdi></a>' in get("")[2]
    for hidden in (
        "../registered/secret.jsonl", "%2e%2e/registered/secret.jsonl", "faq", "//etc/passwd", "nothing", "a%00b",
        "x%2f..%2f..%2fregistered/secret.jsonl", "..%5cregistered%5csecret.jsonl",
    ):  # fmt: skip
        assert get(hidden)[0] == 404, hidden


@pytest.fixture
def port(tmp_path):
    """Of a server in this process."""
    with answering(page_server(Home(tmp_path), 0)) as address:
        yield int(address.rpartition(":")[2])


def ask(port, method, host, body=None, path="/", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=FAULT_S)
    connection.request(method, path, body, {"Host": host, **headers})
    reply = connection.getresponse()
    reply.read()
    connection.close()
    return reply


def test_only_names_of_this_machine_are_answered(port):
    """A page from elsewhere whose name has come to mean 127.0.0.1 sends its own name."""
    hosts = ("127.0.0.1", f"localhost:{port}", "LOCALHOST", "[::1]:80", "evil.example", f"evil.example:{port}", "",
             "127.0.0.1.evil.example", "localhost@evil.example", "0.0.0.0")  # fmt: skip
    assert {host: ask(port, "GET", host).status for host in hosts} == dict.fromkeys(hosts[:4], 200) | dict.fromkeys(
        hosts[4:], 421
    )


@pytest.mark.parametrize(("given", "status"), [("", 401), ("ada:wrong", 401), ("ada:pass:wörd", 200)])
def test_pages_have_the_login_of_the_server(port, monkeypatch, given, status):
    monkeypatch.setenv(LOGIN, "ada:pass:wörd")
    reply = ask(port, "GET", "localhost", Authorization=f"Basic {base64.b64encode(given.encode()).decode()}")
    assert (reply.status, "WWW-Authenticate" in reply.headers) == (status, status == 401)


def test_nothing_is_written_framed_or_asked_for_elsewhere(port, tmp_path):
    assert {method: ask(port, method, "localhost", b"x").status for method in ("POST", "PUT", "DELETE", "PATCH")} == (
        dict.fromkeys(("POST", "PUT", "DELETE", "PATCH"), 501)
    )
    reply = ask(port, "GET", "localhost")
    policy = reply.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'self'") and "http" not in policy and "frame-ancestors 'none'" in policy
    assert reply.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert (reply.headers["X-Content-Type-Options"], reply.headers["Referrer-Policy"]) == ("nosniff", "no-referrer")
    assert ask(port, "HEAD", "localhost").headers["Content-Length"] == reply.headers["Content-Length"]
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_read_is_refused_and_a_browser_that_breaks_off_is_no_error(port, tmp_path, capfd):
    before = set(threading.enumerate())
    (tmp_path / "secret.txt").write_text("secret")
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "large.txt").write_bytes(b"x" * 50_000_000)
    (pages / "link.txt").symlink_to(tmp_path / "secret.txt")
    (pages / "own.txt").symlink_to(pages / "large.txt")
    assert {path: ask(port, "HEAD", "localhost", path=path).status for path in (
        "/large.txt?x#y", "/own.txt", "/link.txt", "/" + "a" * 300, "http://[x/", "/a%0Ab",
    )} == {"/large.txt?x#y": 200, "/own.txt": 200, "/link.txt": 404, "/" + "a" * 300: 503, "http://[x/": 404,
           "/a%0Ab": 404}  # fmt: skip
    with socket.create_connection(("127.0.0.1", port)) as connection:
        # Closed at once with data unread: the server's next write is refused.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.sendall(b"GET /large.txt HTTP/1.0\r\nHost: localhost\r\n\r\n")
        assert connection.recv(8) == b"HTTP/1.0"
    for thread in set(threading.enumerate()) - before:
        thread.join(FAULT_S)
    assert capfd.readouterr() == ("", "")


def test_a_port_that_is_taken_is_one_line(port, tmp_path):
    with pytest.raises(UserError, match=f"--port {port}: not available"):
        page_server(Home(tmp_path), port)
