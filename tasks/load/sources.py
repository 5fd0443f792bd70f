"""Read any supported source row by row, as records with their row number. Nothing is lost silently.

A row that cannot be parsed comes out as a `Raw` with an error and its text, for the quarantine.
"""

from __future__ import annotations

import glob
import hashlib
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from answerkey.metrics_core.errors import UserError, listed
from answerkey.tasks.load.columns import is_usual
from answerkey.tasks.load.plain import (
    ARROW,
    COMPRESSED,
    CSV,
    EXCEL,
    JSON_LINES,
    PARQUET,
    TEXTS,
    check_kind,
    decoded,
    decompressed,
    encoding_of,
    kind_of,
    stem_of,
)
from answerkey.tasks.load.remote import S3, URL, WILDCARD, download, objects, without_secrets
from answerkey.tasks.load.rows import (
    Raw,
    read_archive,
    read_arrow,
    read_csv,
    read_json,
    read_lines,
    read_parquet,
    read_table,
)
from answerkey.tasks.load.workbook import sheet_rows

DUCKDB_TABLE = re.compile(r"^(?P<file>.+\.(?:duckdb|db|ddb))::(?P<table>.+)$")
SHEET = re.compile(r"^(?P<file>.+\.(?:xlsx|xlsm))::(?P<sheet>.+)$", re.IGNORECASE)
STANDARD_INPUT = "answerkey-stdin-"
"""How folders are called into which standard input is put."""
_LONGEST_HEAD = 10_000
"""Characters of a line that may name columns."""
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
SUPPORTED = (
    "CSV, TSV, JSONL, JSON, Parquet, Excel (.xlsx), Arrow or Feather, each also as .gz or .zst, FILE.duckdb::TABLE, "
    "a URL of one of these, or a folder or pattern of them"
)


@dataclass(slots=True)
class Contents:
    """What the files of a source held when they were read."""

    digests: list[str] = field(default_factory=list)
    n_bytes: int = 0
    assumed: dict[str, list[str]] = field(default_factory=dict)
    """By assumption about the content of files, such as their encoding: the files."""

    def assume(self, notes: Iterable[str], file: str) -> None:
        """Take in what was assumed about a file."""
        for note in notes:
            self.assumed.setdefault(note, []).append(file)

    def add(self, file: Path) -> None:
        """Take in a file, a piece at a time."""
        with file.open("rb") as content:
            self.digests.append(hashlib.file_digest(content, "sha256").hexdigest())
        self.n_bytes += file.stat().st_size

    def notes(self) -> list[str]:
        """What was assumed about which files, a line each."""
        return [f"{listed(files)}: {note}" for note, files in self.assumed.items()]

    def about(self) -> dict[str, Any]:
        """The number of files, their bytes, and their SHA-256; of several, that of their digests, one a line."""
        lines = "\n".join(self.digests)
        digest = lines if len(self.digests) == 1 else hashlib.sha256(lines.encode()).hexdigest()
        return {"files": len(self.digests), "bytes": self.n_bytes, "sha256": digest}


def read(source: str, work: Path, contents: Contents | None = None, encoding: str = "") -> Iterator[Raw]:
    """Rows of a file, a URL or a DuckDB table (`FILE.duckdb::TABLE`); of a folder or a pattern, those of all files.

    The files of `answers/*.parquet`, `s3://bucket/answers/**/*.jsonl` or a folder come in the order of their names, and
    their rows are numbered through. Folders in their paths that are called COLUMN=VALUE are columns of their rows.

    Args:
        source: see `SUPPORTED`; several are one per line.
        work: a folder for temporary files (downloads, decompressed files, spilling).
        contents: takes in every file that is read.
        encoding: of files of text; empty: it is found out.

    Raises:
        UserError: the source is missing, of no known kind, damaged, or not what its ending says.
    """
    contents = contents or Contents()
    files = files_of(source)
    if files is None:
        yield from _read_one(source, work, contents, encoding)
        return
    if len(files) > 1 and all(kind_of(file) == ".txt" and not URL.match(file) for file in files):
        # Each is one answer, unless the first line of a table names columns
        with Path(files[0]).open(encoding="utf-8-sig", errors="replace") as text:
            names = re.split("[,;\t|]", text.readline(_LONGEST_HEAD).strip())
        if not any(map(is_usual, names)):
            yield from _texts(files, work, contents, encoding)
            return
    # One file after another; what its folders say stands beside its rows
    n_before = n_rows = 0
    for file_name in files:
        columns = columns_of_path(file_name)
        shown = _shown(file_name)
        for raw in _read_one(file_name, work, contents, encoding):
            n_rows = n_before + raw.row
            record = raw.record if raw.record is None else {**columns, **raw.record}
            error = raw.error and f"{shown}: {raw.error}"
            yield Raw(n_rows, record, error, raw.text, raw.document, shown, raw.row)
        n_before = n_rows


def _texts(files: Sequence[str], work: Path, contents: Contents, encoding: str) -> Iterator[Raw]:
    """The answers of files that each are one; folders of them are releases."""
    of_releases = len({Path(file).parent for file in files}) > 1
    for number, file in enumerate(files, start=1):
        text = ""
        if Path(file).stat().st_size:
            with local(file, work, contents, encoding) as (readable, _notes):
                text = readable.read_text(encoding="utf-8-sig", errors="replace").strip()
        record = {"id": stem_of(file), "answer": text, **columns_of_path(file)}
        if of_releases:
            record.setdefault("release", Path(file).parent.name)
        yield Raw(number, record, file=_shown(file), file_row=1)
    contents.assume(["each file is one answer, whose id is the name of the file"], "*.txt")


def releases_of(files: Sequence[str]) -> dict[str, str]:
    """The release of each of several files that each have those of one: called after it, or after its folder.

    >>> releases_of(["a/v1.csv", "a/v2.csv"]), releases_of(["gpt/answers.csv", "claude/answers.csv"])
    ({'a/v1.csv': 'v1', 'a/v2.csv': 'v2'}, {'gpt/answers.csv': 'gpt', 'claude/answers.csv': 'claude'})
    """
    shown = [_shown(file) for file in files]
    stems = [stem(file) for file in files]
    folders = [Path(file).parent.name for file in files]
    for names in (stems, folders):
        if len({*names}) == len(files):
            return dict(zip(shown, names, strict=True))
    paired = [f"{folder}/{name}" for folder, name in zip(folders, stems, strict=True)]
    return dict(zip(shown, paired, strict=True))


def check_there(source: str) -> None:
    """Find out before anything is read whether files on this machine are there; URLs are not looked at.

    Raises:
        UserError: there is no such file, or a folder or a pattern has no file of a known kind.
    """
    local_sources = [path for path in several(source) if not URL.match(path)]
    for path in itertools.chain.from_iterable(files_of(path) or [path] for path in local_sources):
        inner = DUCKDB_TABLE.match(path) or SHEET.match(path)
        file = inner["file"] if inner else path
        _check_file(file, Path(file))


def _check_file(shown: str, file: Path) -> None:
    if not file.is_file():
        siblings = sorted(path.name for path in file.parent.glob("*") if kind_of(path.name) in _KINDS)
        verb = "are" if len(siblings) > 1 else "is"
        hint = f"; in its folder there {verb} {listed(siblings)}" if siblings else ""
        raise UserError(f"{without_secrets(shown)}: there is no such file{hint}")
    try:
        with file.open("rb"):
            pass
    except OSError as error:
        raise UserError(f"{shown}: the file cannot be read: {error.strerror}") from error
    if file.stat().st_size == 0:
        raise UserError(f"{shown}: the file is empty; it needs at least one row")


def stem(source: str) -> str:
    """The name of a file, URL, table's file or folder without its ending; of a pattern, that of its folder.

    >>> stem("answers/*.parquet"), stem("answers/release=*/*.jsonl"), stem("https://host/nq.csv?token=1")
    ('answers', 'answers', 'nq')
    """
    # A login in an address is no part of a name, which is kept and shown.
    file = re.sub(r"://[^/]*@", "://", source).split("::", maxsplit=1)[0]
    if WILDCARD.search(file) and (S3.match(file) or not URL.match(file)) and not Path(file).is_file():
        # The folder that all files of a pattern are in
        file = WILDCARD.split(file, maxsplit=1)[0].rpartition("/")[0] or file
    return stem_of(file.split("?", maxsplit=1)[0])


def several(source: str) -> list[str]:
    """The sources in a text, one per line."""
    return [path for path in map(str.strip, source.splitlines()) if path]


def called(source: str) -> str:
    """What messages call a source."""
    return listed([_shown(path) for path in several(source)])


def _shown(source: str) -> str:
    """What people call a source: a URL without its keys, and standard input, wherever it was put, as they gave it."""
    return "-" if Path(source).parent.name.startswith(STANDARD_INPUT) else without_secrets(source)


def files_of(source: str) -> list[str] | None:
    """The files of several sources (one per line), a pattern or a folder, each sorted by name; None of a single one.

    Raises:
        UserError: no file is given, or a folder or a pattern has none of a known kind.
    """
    sources = several(source)
    if not sources:
        raise UserError(f"no file is given; give {SUPPORTED}")
    if len(sources) > 1:
        return list(itertools.chain.from_iterable(files_of(path) or [path] for path in sources))
    if DUCKDB_TABLE.match(source) or SHEET.match(source):
        return None

    # All files of a folder or a pattern, in a bucket or here
    bucket = S3.match(source)
    has_wildcard = WILDCARD.search(source) is not None
    if bucket and (has_wildcard or source.endswith("/")):
        files = objects(bucket["bucket"], bucket["name"])
    elif not URL.match(source) and Path(source).is_dir():
        if (dataset := _dataset_files(Path(source))) is not None:
            return dataset
        files = [str(path) for path in Path(source).rglob("*") if path.is_file()]
    elif URL.match(source) or not has_wildcard or Path(source).is_file():
        return None
    else:
        files = [name for name in glob.glob(source, recursive=True) if Path(name).is_file()]

    # Those of a known kind
    readable = sorted(name for name in files if kind_of(name) in _KINDS and Path(name).name[0] not in "._")
    if not readable:
        names = listed(sorted(Path(name).name for name in files))
        problem = f"there is only {names}" if files else "there is no file"
        raise UserError(f"{_shown(source)}: {problem}; give {SUPPORTED}")
    return readable


def _dataset_files(folder: Path) -> list[str] | None:
    """The files with the rows of a data set that `save_to_disk` of `datasets` wrote; None of any other folder.

    Raises:
        UserError: it has several splits, of which one is to be chosen, or a file of it is missing.
    """
    if (splits := _object_in(folder / "dataset_dict.json").get("splits")) is not None:
        if len(splits) != 1:
            names = ", ".join(map(str, splits)) or "none"
            raise UserError(f"{folder}: a data set with the splits {names}; name one, {folder}/SPLIT")
        folder /= str(splits[0])
    files = _object_in(folder / "state.json").get("_data_files")
    if files is None:
        return None
    paths = [folder / file["filename"] for file in files]
    for path in paths:
        if not path.is_file():
            raise UserError(f"{folder}: the file {path.name} of this data set is missing; copy all of the folder")
    return list(map(str, paths))


def _object_in(file: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def columns_of_path(name: str) -> dict[str, str | None]:
    """The columns in the folders of a path, as Hive writes them: `release=v1/lang=en/part-0.parquet`."""
    pairs = (folder.split("=", 1) for folder in name.split("/")[:-1] if "=" in folder)
    return {column: None if value == _HIVE_NULL else unquote(value) for column, value in pairs}


def _read_one(source: str, work: Path, contents: Contents, encoding: str) -> Iterator[Raw]:
    if table := DUCKDB_TABLE.match(source):
        file = Path(table["file"])
        if not file.is_file():
            raise UserError(f"{file}: there is no such DuckDB file")
        contents.add(file)
        yield from read_table(file, table["table"])
        return
    sheet = SHEET.match(source)
    with local(sheet["file"] if sheet else source, work, contents, encoding) as (file, notes):
        if kind_of(file.name) in EXCEL:
            yield from sheet_rows(file, notes, sheet["sheet"] if sheet else "")
        else:
            yield from _READERS[kind_of(file.name)](file, work, notes)


@contextmanager
def local(source: str, work: Path, contents: Contents, encoding: str) -> Iterator[tuple[Path, list[str]]]:
    """A file of a source at a path of this machine, decompressed and in UTF-8, and a list for notes on it.

    Args:
        source: a file or URL.
        work: a folder for temporary files.
        contents: takes in the file, and in the end the notes: what was assumed about it.
        encoding: of a file of text; empty: it is found out.

    Raises:
        UserError: as `read`. An error raised within the context names the source, not the copy.
    """
    shown = _shown(source)
    name = source.split("?", 1)[0] if URL.match(source) else source
    if kind_of(name) not in _KINDS:
        ending = Path(name).suffix.lower()
        raise UserError(f"{shown}: {ending or 'no file ending'!r} is not a known kind; give {SUPPORTED}")
    file = Path(source)
    notes = list[str]()
    copies = []

    def copied(prefix: str, content: Iterator[bytes]) -> Path:
        work.mkdir(parents=True, exist_ok=True)
        copies.append(work / f"{prefix}-{stem_of(file.name)}{kind_of(file.name)}")
        with copies[-1].open("wb") as out:
            out.writelines(content)
        return copies[-1]

    try:
        if URL.match(source):
            copies.append(file := download(source, work))
        _check_file(shown, file)
        contents.add(file)
        # Readers take plain files in UTF-8
        if file.suffix.lower() in COMPRESSED:
            file = copied("plain", decompressed(file))
        check_kind(file)
        if kind_of(file.name) in TEXTS and (other_encoding := encoding_of(file, encoding, notes)):
            file = copied("utf8", decoded(file, other_encoding))
        yield file, notes
        contents.assume(notes, Path(name).name)
    except UserError as error:
        # A message names the source that was given
        message = str(error)
        for copy in (*copies, source):
            message = message.replace(str(copy), shown)
        raise UserError(message) from error
    finally:
        for copy in copies:
            copy.unlink(missing_ok=True)


_READERS: Mapping[str, Callable[[Path, Path, list[str]], Iterator[Raw]]] = {
    **dict.fromkeys(JSON_LINES, lambda file, *_: read_lines(file)),
    ".json": lambda file, *_: read_json(file),
    ".eval": lambda file, *_: read_archive(file),
    **dict.fromkeys(PARQUET, lambda file, work, _: read_parquet(file, work)),
    **dict.fromkeys(CSV, lambda file, _, notes: read_csv(file, notes)),
    **dict.fromkeys(ARROW, lambda file, *_: read_arrow(file)),
}
"""By the ending of a file: what yields its rows, given a folder for temporary files and a list for notes."""
_KINDS = {*_READERS, *EXCEL}
"""The endings of files that can be read."""
