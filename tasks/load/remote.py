"""Files in other places: web servers and buckets."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, BinaryIO

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.warehouse.bucket import BucketStore
from answerkey.tasks.warehouse.store import Unreachable
from answerkey.tasks.warehouse.warehouse import extension, quoted, scratch

URL = re.compile(r"^(https?|s3|gs|gcs|r2|hf|az|abfss)://")
S3 = re.compile(r"^(?P<bucket>s3://[^/]+)/(?P<name>.*)$")
GOOGLE = re.compile(r"^gc?s://(?P<object>[^/]+/.+)$")
WILDCARD = re.compile(r"[*?\[]")
MOST_BYTES = 20 * 2**30
"""Most bytes of a file from a web server, unpacked: replies may have no end."""
_TIMEOUT_S = 60.0
"""Without a byte from a web server."""


def without_secrets(text: str) -> str:
    """A text whose URLs lack the parts that may hold passwords and tokens."""
    text = re.sub(r"://[^/\s]*@", "://…@", text)
    # The quote and the colon that may follow belong to the sentence around the URL.
    return re.sub(r"(://[^\s?]*)\?[^\s'\"]*?(?=[:;,]?([\s'\"]|$))", r"\1?…", text)


def kept_parameters(value: Any) -> Any:
    """What is kept of the parameters of a run: all, but for passwords and tokens in the URLs of its sources."""
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, Mapping):
        return {name: kept_parameters(inner) for name, inner in value.items()}
    return list(map(kept_parameters, value)) if isinstance(value, list | tuple) else value


def objects(bucket: str, pattern: str) -> list[str]:
    """The objects of a bucket whose names match, or that are in the folder `pattern`, which ends with a slash."""
    folder = WILDCARD.split(pattern, maxsplit=1)[0].rpartition("/")[0]
    try:
        names = [file.name for file in BucketStore(bucket, Path()).files(folder)]
    except Unreachable as error:
        raise UserError(str(error)) from error
    if WILDCARD.search(pattern):
        names = [name for name in names if _matches(name.split("/"), pattern.split("/"))]
    return [f"{bucket}/{name}" for name in names]


def _matches(path: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a path fits a pattern, both cut at the slashes; `**` is any number of folders."""
    if not pattern or (not path and pattern[0] != "**"):
        return not path and not pattern
    if pattern[0] == "**":
        return any(_matches(path[n:], pattern[1:]) for n in range(len(path) + 1))
    return fnmatchcase(path[0], pattern[0]) and _matches(path[1:], pattern[1:])


def download(url: str, work: Path) -> Path:
    """A copy of a remote file on this machine, made a piece at a time."""
    import duckdb

    name = url.split("?", 1)[0].rstrip("/").rsplit("/", 1)[-1]
    target = work / f"download-{name}"
    work.mkdir(parents=True, exist_ok=True)
    try:
        source: BinaryIO | None = None
        if url.startswith(("http://", "https://")):
            _fetch(url, target)
        elif (match := S3.match(url)) and os.environ.get("AWS_ACCESS_KEY_ID"):
            source = BucketStore(match["bucket"], work).read(match["name"])
        elif match := GOOGLE.match(url):
            from pyarrow import fs

            # With the key or the login of the user, where there is one, and otherwise as anybody
            login = Path.home() / ".config/gcloud/application_default_credentials.json"
            has_login = "GOOGLE_APPLICATION_CREDENTIALS" in os.environ or login.is_file()
            google = fs.GcsFileSystem(anonymous=not has_login, retry_time_limit=timedelta(seconds=_TIMEOUT_S))
            source = google.open_input_stream(match["object"])
        else:
            with scratch(work) as connection:
                # DuckDB's extension for URLs comes from its Python package; nothing is downloaded.
                needs = "reading URLs needs the package duckdb-extension-httpfs: pip install it, or download the file"
                connection.execute(f"LOAD {quoted(extension('httpfs', needs))}")
                [(content,)] = connection.execute("SELECT content FROM read_blob(?)", [url]).fetchall()
            target.write_bytes(content)
        if source:
            with source, target.open("wb") as out:
                shutil.copyfileobj(source, out, 1 << 20)
    except (duckdb.Error, ValueError, OSError, Unreachable) as error:
        raise UserError(without_secrets(f"{url}: could not be read: {first_line(error)}")) from error
    return target


def _fetch(url: str, target: Path) -> None:
    """Download a file from a web server.

    Raises:
        OSError: it cannot be had.
    """
    import httpx

    try:
        with (
            httpx.stream("GET", url, follow_redirects=True, timeout=_TIMEOUT_S) as reply,
            target.open("wb") as out,
        ):
            reply.raise_for_status()
            for piece in reply.iter_bytes(1 << 20):
                out.write(piece)
                if out.tell() > MOST_BYTES:
                    raise OSError(f"it is larger than {MOST_BYTES / 2**30:g} GiB; download it, and name the file")
    except httpx.HTTPStatusError as error:
        raise OSError(f"HTTP Error: {error.response.status_code} {error.response.reason_phrase}") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise OSError(str(error) or type(error).__name__) from error


def first_line(error: object) -> str:
    """The first line of a message."""
    return str(error).strip().split("\n", 1)[0]
