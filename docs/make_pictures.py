"""The pictures of the README and the documentation, from a fresh home: `make pictures`.

Pages are photographed in a light and a dark scheme: `NAME.png` and `NAME-dark.png`; Prefect's form, and its graph of a
run, in the dark one of its own.
"""

import fcntl
import html
import os
import pty
import re
import shlex
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
COMMAND = (sys.executable, "-m", "answerkey.flows.cli")
HELPDESK = ROOT / "examples/helpdesk"
EVALUATE = (
    "evaluate", str(HELPDESK / "v1.csv"), str(HELPDESK / "v2.csv"),
    "--references", str(HELPDESK / "questions.jsonl"), "--config", str(HELPDESK / "evaluate.yaml"),
    "--policy", str(HELPDESK / "gate.yaml"),
)  # fmt: skip
LABEL = ("label", "helpdesk/v1", "helpdesk/v2", "--primary", "meaning_match.match", "--margin", "0.02", "--port", "0")
SCHEMES = {"light": "", "dark": "-dark"}
TERMINAL = """<body style="margin:0;background:#1e1e24;color:#e6e6e6"><pre style="margin:0;padding:20px;font:14px/1.35
'DejaVu Sans Mono',monospace;white-space:pre-wrap"><span style="color:#8fbf8f">$ {command}</span>
{text}</pre></body>"""


def main() -> None:
    """Evaluate the examples, and photograph what a reader of the documentation would see."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not found:
        sys.exit(f"no browser: none of {', '.join(BROWSERS)} is on the PATH")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        environment = {**os.environ, "ANSWERKEY_HOME": folder, "COLUMNS": "100"}
        # A browser that runs as root, as in containers, refuses its own sandbox.
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=found, args=options)
        # The first run: all of its answers are still to be scored, which the graph is to show.
        with running("serve", "--port", str(free_port()), environment=environment) as served:
            address = address_of(served)
            subprocess.run([*COMMAND, *EVALUATE, "--quiet"], env=environment, check=False, stdout=subprocess.DEVNULL)
            photograph_form(browser, address)
            photograph_graph(browser, address)
        photograph_terminal(browser, "make evaluate", on_a_terminal([*COMMAND, *EVALUATE], environment))
        for scheme, suffix in SCHEMES.items():
            page = browser.new_page(viewport={"width": 1100, "height": 625}, color_scheme=scheme)
            page.goto((Path(folder) / "pages/helpdesk/v2-v1.html").as_uri())
            page.screenshot(path=DOCS / f"report{suffix}.png")
        with running("label", *LABEL[1:], environment=environment) as served:
            photograph_labels(browser, address_of(served))
        with running("view", "--port", str(free_port()), environment=environment) as served:
            address = address_of(served)
            for scheme, suffix in SCHEMES.items():
                page = browser.new_page(viewport={"width": 1100, "height": 800}, color_scheme=scheme)
                page.goto(address)
                page.screenshot(path=DOCS / f"overview{suffix}.png")
        browser.close()


@contextmanager
def running(*arguments: str, environment: dict[str, str]) -> Iterator["subprocess.Popen[str]"]:
    """A command that serves pages until it is no longer needed."""
    with subprocess.Popen([*COMMAND, *arguments], env=environment, stdout=subprocess.PIPE, text=True) as served:
        try:
            yield served
        finally:
            served.terminate()


def address_of(served: "subprocess.Popen[str]") -> str:
    """The first address that a command prints."""
    words = (word for line in served.stdout or () for word in line.split())
    return next(word for word in words if word.startswith("http"))


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as any_socket:
        any_socket.bind(("127.0.0.1", 0))
        return int(any_socket.getsockname()[1])


def on_a_terminal(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """What a command prints on a terminal of 150 columns, without its colours."""
    terminal, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("4H", 50, 150, 0, 0))
    environment = {**environment, "TERM": "xterm", "COLUMNS": "150"}
    process = subprocess.Popen(command, env=environment, stdout=side, stderr=subprocess.DEVNULL)
    os.close(side)
    printed = b""
    # Reading fails once nobody has the other side open any more
    with suppress(OSError):
        while piece := os.read(terminal, 65_536):
            printed += piece
    os.close(terminal)
    if process.wait():
        sys.exit(f"{shlex.join(command)}: exit code {process.returncode}")
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", printed.decode()).replace("\r\n", "\n")


def photograph_terminal(browser: Browser, command: str, text: str) -> None:
    """Show what a command prints as a terminal would."""
    page = browser.new_page(viewport={"width": 1310, "height": 100})
    page.set_content(TERMINAL.format(command=html.escape(command), text=html.escape(text)))
    page.screenshot(path=DOCS / "terminal.png", full_page=True)


def photograph_labels(browser: Browser, address: str) -> None:
    """Give a name, and photograph the first question."""
    page: Page = browser.new_page(viewport={"width": 1100, "height": 660}, color_scheme="light")
    page.goto(address)
    page.keyboard.press("Tab")
    page.keyboard.type("AB")
    page.keyboard.press("Enter")
    page.locator(".answer").first.wait_for()
    for scheme, suffix in SCHEMES.items():
        page.emulate_media(color_scheme=scheme)
        page.screenshot(path=DOCS / f"label{suffix}.png")


def photograph_form(browser: Browser, address: str) -> None:
    """The form that starts a run of the deployment `evaluate`."""
    page = new_prefect_page(browser)
    page.goto(f"{address}/deployments")
    page.get_by_role("link", name="evaluate", exact=True).click()
    page.wait_for_url("**/deployments/deployment/*")
    page.goto(f"{page.url.partition('?')[0]}/run")
    page.get_by_text("Answers").first.wait_for()
    page.screenshot(path=DOCS / "form.png")


def photograph_graph(browser: Browser, address: str) -> None:
    """The graph of the newest run."""
    page = new_prefect_page(browser)
    page.goto(f"{address}/runs")
    page.locator("a[href*='/runs/flow-run/']").first.click()
    graph = page.locator(".flow-run-graph")
    graph.wait_for()
    # Drawn on a canvas, whose boxes move to their places: nothing in the page tells when they are there.
    page.wait_for_timeout(10_000)
    graph.screenshot(path=DOCS / "graph.png")


def new_prefect_page(browser: Browser) -> Page:
    """Pages of a server that has just started come late."""
    page = browser.new_page(viewport={"width": 1400, "height": 900}, color_scheme="dark")
    page.set_default_timeout(240_000)
    return page


if __name__ == "__main__":
    main()
