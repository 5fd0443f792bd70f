"""How the answers of a file were generated: a manifest that stays beside them wherever they are kept.

`answers.jsonl` has `answers.manifest.json`, which names the content of the answers by its hash. Answers that were
changed since have no manifest.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DIGEST = "answers_sha256"


def manifest_file(answers: str | Path) -> Path:
    """Where the manifest of a file of answers is, if it has one."""
    return Path(answers).with_suffix(".manifest.json")


def write_manifest(answers: Path, content: Mapping[str, Any]) -> None:
    """Put a manifest beside answers, with their hash in it."""
    text = json.dumps({**content, DIGEST: _digest(answers)}, indent=2, ensure_ascii=False)
    unfinished = answers.with_name(f"{answers.name}.{os.getpid()}.manifest.part")
    unfinished.write_text(f"{text}\n", encoding="utf-8")
    os.replace(unfinished, manifest_file(answers))


def generation_of(answers: str) -> dict[str, Any] | None:
    """The manifest of generated answers; None where there is none, or it is about others than these."""
    file = manifest_file(answers)
    if not Path(answers).is_file() or not file.is_file():
        return None
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        # A file of somebody else's that happens to have this name.
        return None
    ours = isinstance(content, dict) and content.get(DIGEST) == _digest(Path(answers))
    return content if ours else None


def keep_manifest(answers: str, kept: Path) -> None:
    """Copy the manifest of answers beside a copy of them, once."""
    if generation_of(answers) is not None and not manifest_file(kept).exists():
        shutil.copyfile(manifest_file(answers), manifest_file(kept))


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
