"""Archives: `.eval`, in which Inspect keeps a log as a zip file of JSON files."""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path
from typing import Any

from answerkey.tasks.load.plain import JSON, KeyTwice

_ZSTANDARD = 93
"""The number of this compression in zip archives."""


def read_archive(file: Path) -> dict[str, Any]:
    """What is in a `.eval` file, as one log.

    Raises:
        ValueError: it is no such archive, or damaged, or an object in it has a key twice.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            names = [one for one in archive.infolist() if one.filename.endswith(".json")]
            header = next((one for one in names if one.filename == "header.json"), None)
            header = header or next(one for one in names if one.filename == "_journal/start.json")
            samples = sorted(
                (one for one in names if one.filename.startswith("samples/")), key=lambda one: one.filename
            )
            log: dict[str, Any] = _decoded(archive, header)
            return {**log, "samples": [_decoded(archive, one) for one in samples]}
    except StopIteration:
        raise ValueError("there is no log of Inspect in it") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError) as error:
        raise ValueError(f"not an archive of Inspect, or a damaged one ({error})") from error


def _decoded(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Any:
    try:
        return JSON.decode(_content(archive, entry).decode("utf-8-sig"))
    except KeyTwice as error:
        raise ValueError(f"{entry.filename}: {error}") from error


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    if entry.compress_type != _ZSTANDARD:
        return archive.read(entry)
    import pyarrow as pa

    # The standard library learns this compression with Python 3.14 only. The header of an entry has 30 bytes and names.
    file = archive.fp
    assert file is not None
    file.seek(entry.header_offset)
    head = file.read(30)
    file.seek(int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little"), io.SEEK_CUR)
    with pa.input_stream(io.BytesIO(file.read(entry.compress_size)), compression="zstd") as stream:
        content: bytes = stream.read()
    return content
