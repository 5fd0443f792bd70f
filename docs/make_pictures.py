"""The pictures of the README: the page of a first run, and the page on which people label, from a fresh home."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
COMMAND = (sys.executable, "-m", "answerkey.flows.cli")
LABEL = ("label", "museum/old", "museum/new", "--primary", "meaning_match.match", "--margin", "0.02", "--port", "0")


def main() -> None:
    """Evaluate the smallest example, and photograph what a reader of the README would see."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not found:
        sys.exit(f"no browser: none of {', '.join(BROWSERS)} is on the PATH")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        environment = {**os.environ, "ANSWERKEY_HOME": folder}
        museum = ("evaluate", str(ROOT / "examples/museum.csv"), "--quiet")
        subprocess.run([*COMMAND, *museum], env=environment, check=True, stdout=subprocess.DEVNULL)
        # A browser that runs as root, as in containers, refuses its own sandbox.
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=found, args=options)
        page = browser.new_page(viewport={"width": 1100, "height": 625}, color_scheme="light")
        page.goto((Path(folder) / "pages/museum/new-v1.html").as_uri())
        page.screenshot(path=ROOT / "docs/report.png")
        with subprocess.Popen([*COMMAND, *LABEL], env=environment, stdout=subprocess.PIPE, text=True) as served:
            photograph_labels(page, served)
        browser.close()


def photograph_labels(page: Page, served: "subprocess.Popen[str]") -> None:
    """Give a name, and photograph the first question."""
    try:
        address = next(line for line in served.stdout or () if line.startswith("http")).split()[0]
        page.goto(address)
        page.keyboard.press("Tab")
        page.keyboard.type("AB")
        page.keyboard.press("Enter")
        page.locator(".answer").first.wait_for()
        page.set_viewport_size({"width": 1100, "height": 660})
        page.screenshot(path=ROOT / "docs/label.png")
    finally:
        served.terminate()


if __name__ == "__main__":
    main()
