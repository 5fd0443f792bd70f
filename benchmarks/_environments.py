"""Environments of the other libraries, one for each, with pinned versions: made once through pip or npm, then kept.

All of them take five gigabytes, and some ten minutes to install.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

CACHE = Path.home() / ".cache" / "answerkey-benchmarks"
PINS: dict[str, tuple[str, ...]] = {
    "torchmetrics": ("torchmetrics==1.9.0", "torch==2.13.0", "nltk==3.10.4", "regex==2026.11.15", "sacrebleu==2.6.0"),
    "evaluate": ("evaluate==0.4.6", "rouge-score==0.1.2"),
    "ragas": (
        "ragas==0.4.3",
        "langchain-community==0.4.1",
        "instructor==1.17.0",
        "rouge-score==0.1.2",
        "sacrebleu==2.6.0",
        "rapidfuzz==3.14.6",
    ),
    "deepeval": ("deepeval==4.3.1", "rouge-score==0.1.2", "nltk==3.10.4"),
    "inspect-ai": ("inspect-ai==0.3.285", "openai==3.54.0"),
    "lm-eval": ("lm-eval==0.4.13",),
}
_OURS = ("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT")
NODE = ("node@22.22.0", "promptfoo@0.123.1")


class Missing(RuntimeError):
    """An environment that cannot be made here, with the reason."""


def python_of(library: str, cache: Path) -> str:
    """The Python of the environment of a library, which is made if it is not there.

    Raises:
        Missing: it cannot be installed.
    """
    pins = PINS[library]
    folder = _folder(cache, library, pins)
    python = folder / "bin" / "python"
    if not (folder / ".installed").exists():
        try:
            venv.create(folder, with_pip=True, clear=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise Missing(f"{library} cannot be installed: {error}") from error
        _install([str(python), "-m", "pip", "install", "-q", *pins], library)
        (folder / ".installed").touch()
    return str(python)


def promptfoo(cache: Path) -> list[str]:
    """The command of promptfoo, with the Node.js that it needs.

    Raises:
        Missing: it cannot be installed.
    """
    folder = _folder(cache, "promptfoo", NODE)
    if not (folder / ".installed").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text("{}", encoding="utf-8")
        _install(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), *NODE], "promptfoo")
        (folder / ".installed").touch()
    modules = folder / "node_modules"
    return [str(modules / "node" / "bin" / "node"), str(modules / "promptfoo" / "dist" / "src" / "main.js")]


def python_for(library: str | None, cache: Path) -> str:
    """That of a library's environment, or this one for None."""
    return python_of(library, cache) if library else sys.executable


def _folder(cache: Path, library: str, pins: tuple[str, ...]) -> Path:
    return cache / f"{library}-{hashlib.sha256(' '.join(pins).encode()).hexdigest()[:8]}"


def _install(command: list[str], library: str) -> None:
    # The constraints of this project, which `make` sets, are not those of other libraries.
    variables = {name: value for name, value in os.environ.items() if name not in _OURS}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    except FileNotFoundError as error:
        raise Missing(f"{library} cannot be installed: {error}") from error
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
        raise Missing(f"{library} cannot be installed: {lines[-1][:200]}")
