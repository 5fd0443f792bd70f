"""How the answers of a file were generated: a manifest beside it.

`answers.jsonl` has `answers.manifest.json`, which names the content of the answers by its hash. Answers that were
changed since have no manifest.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.untrusted import cut, one_line
from answerkey.metrics_core.sample import content_hash
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.store import atomic_write

FOLDER = "answers"
DIGEST = "answers_sha256"
_LONGEST = 40
"""Characters of a setting that a message shows."""


def answers_name(dataset: str, release: str) -> str:
    """What the generated answers of a release are called in the store: answers/DATASET/RELEASE/answers.jsonl."""
    folder = re.sub(r"[^\w.-]+", "_", release).strip(".") or "_"
    # Names that differ in what a folder cannot hold must not share one.
    folder = folder if folder == release else f"{folder}-{content_hash(release)[:6]}"
    return f"{FOLDER}/{dataset}/{folder}/answers.jsonl"


def answers_file(home: Home, dataset: str, release: str) -> Path:
    """Where the answers of a release are written by this machine, before a store that other machines see has them.

    Another machine that goes on writes a file of its own, from the replies that the ledger has.
    """
    return home.local / answers_name(dataset, release)


def share(home: Home, answers: Path) -> None:
    """Copy generated answers and their manifest to where other machines see them."""
    if home.shared:
        for file in (answers, manifest_file(answers)):
            with home.store.atomic_write(str(file.relative_to(home.local))) as unfinished:
                shutil.copyfile(file, unfinished)


def manifest_file(answers: str | Path) -> Path:
    """Where the manifest of a file of answers is, if it has one."""
    return Path(answers).with_suffix(".manifest.json")


def check_settings(home: Home, answers: Path, release_name: str, required: Mapping[str, Any]) -> None:
    """Check that the answers of a release were generated with the settings that are required now.

    Args:
        answers: the file of the release on this machine, whether it exists or not.
        release_name: that of the release, for people.
        required: what the manifest must say.

    Raises:
        UserError: they were generated differently. Answers of two kinds under one name would be compared as one.
    """
    # What another machine has noted about the generation of these answers comes beside them
    file = manifest_file(answers)
    name = str(file.relative_to(home.local))
    if home.shared and home.store.exists(name):
        with home.store.local(name) as copy, atomic_write(file) as unfinished:
            shutil.copyfile(copy, unfinished)

    # The settings that differ, if there is a manifest
    content = _content(file)
    differences = [
        f"{key.replace('_', ' ')} {_brief(content.get(key))}, and here it is {_brief(value)}"
        for key, value in required.items()
        if content and content.get(key) != value
    ]
    if differences:
        raise UserError(
            f"{release_name}: its answers were generated with {'; '.join(differences)}; give the release another name "
            f"(--release), or remove {home.store.address(str(answers.parent.relative_to(home.local)))}"
        )


def _brief(value: object) -> str:
    text = cut(one_line(str(value)), _LONGEST)
    return repr(text) if isinstance(value, str) else text


def write_manifest(answers: Path, content: Mapping[str, Any]) -> None:
    """Put a manifest beside answers, with their hash in it."""
    text = json.dumps({**content, DIGEST: _digest(answers)}, indent=2, ensure_ascii=False)
    with atomic_write(manifest_file(answers)) as unfinished:
        unfinished.write_text(f"{text}\n", encoding="utf-8")


def generation_of(answers: str) -> dict[str, Any] | None:
    """The manifest of generated answers; None if there is none, or if it describes other answers."""
    content = _content(manifest_file(answers))
    is_current = Path(answers).is_file() and content.get(DIGEST) == _digest(Path(answers))
    return content if is_current else None


def _content(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        # There is none, or an unrelated file happens to have this name.
        return {}
    return content if isinstance(content, dict) and DIGEST in content else {}


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
