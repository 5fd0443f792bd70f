"""Cut a delimited text file into records, and say of each that is none why.

This module provides:
- find_dialect: how a file writes its records, decided from its header and all of its lines
- RecordReader: the records in their order, with what speaks for and against the reading of quotes
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from answerkey.tasks.load.columns import header_at, is_usual

DELIMITERS = ",;\t|"
_MAX_RECORD_CHARS = 16 << 20
_MAX_TITLE_LINES = 10
_MAX_HEADER_CHARS = 10_000
_CHUNK_CHARS = 1 << 20
_BATCH_LINES = 2_000
_WINDOW_LINES = 50
"""Lines after a broken one that are tried, to find where the next record begins."""
_MIN_BROKEN = 3
"""Records with broken quotes, from which on they may outweigh the sound ones."""
_CR, _QUOTE, _BACKSLASH = "\udc0d", "\udc22", "\udc5c"
"""What stands for characters that Python's csv would take for syntax. No decoded text has them."""
_BROKEN_QUOTE = 'a quote is not closed, or one within quotes is not doubled; write "" for it'
_TOO_LONG = "a row is longer than 16 MiB; shorten it, or write it as JSON Lines or Parquet"


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a file writes its records."""

    delimiter: str = ","
    quote: str = '"'
    newline: str = "\n"
    """The end of a line: a line feed, before which a carriage return may stand, or that alone."""
    n_skipped: int = 0
    """Lines above the names of the columns."""
    skips_blanks: bool = False
    """Whether blanks may stand between a delimiter and the quote that opens a field."""
    escapes_quotes: bool = False
    """Whether a backslash before a quote makes it a part of the text."""
    escapes_backslashes: bool = False
    """Whether two backslashes stand for one."""

    def open(self, file: Path) -> TextIO:
        """Open a file in UTF-8 with these ends of lines."""
        return file.open(encoding="utf-8-sig", errors="replace", newline=self.newline)


class BadRecord(NamedTuple):
    """A record that cannot be read: its text, and why, with the number of its line in the file."""

    error: str
    text: str


class RecordReader:
    """The records of a file in their order, of which the first has the names of the columns.

    A record is sound if its quotes are closed and doubled, and it has as many fields as there are columns. One
    that is not costs itself alone: reading goes on at the next line that begins a sound one.
    """

    def __init__(self, lines: Iterable[str], dialect: Dialect) -> None:
        # The limit is one of the process; Python's own is 128 KiB a field
        csv.field_size_limit(_MAX_RECORD_CHARS)
        self._dialect = dialect
        self._source = itertools.islice(lines, dialect.n_skipped, None)
        self.n_lines = dialect.n_skipped
        """Lines of all records so far, with those above the names of the columns."""
        self._lines: list[str] = []
        """Lines that were taken from the source, from the first one of the next record on."""
        self._min_fields = self._max_fields = 0
        # Text that csv would take for syntax
        self._has_marks = False
        backslash = "\\" if dialect.escapes_backslashes else "\\\\"
        self._marks = str.maketrans({_CR: "\r", _QUOTE: '"', _BACKSLASH: backslash})
        # A quote within quotes that is followed by more text is text, to find the end of a broken record
        delimiter, quote = re.escape(dialect.delimiter), re.escape(dialect.quote)
        blanks = " *" if dialect.skips_blanks else ""
        self._opening = re.compile(f"(?:^|{delimiter}){blanks}{quote}")
        text = f"(?:[^{quote}]|{quote}{quote}|{quote}(?!{delimiter}|[\r\n]|$))*+"
        self._closing = re.compile(f"{text}{quote}")
        field = f"(?:{blanks}{quote}(?:[^{quote}]|{quote}{quote})*+{quote}|[^{quote}{delimiter}]*+)"
        self._clean = re.compile(f"{field}(?:{delimiter}{field})*+\\s*")
        # What speaks for and against quotes that enclose fields
        self._n_quoted = self._n_needed_quotes = self._n_broken = self._n_joined = 0
        self._n_sound = self._n_quoted_starts = 0
        self._quoted_names = False
        self._doubtful_lines: list[int] = []
        self.n_bad = 0

    def __iter__(self) -> Iterator[list[str] | BadRecord]:
        while self._lines or self._take(_BATCH_LINES):
            odd_fields, n_used = yield from self._sound_records()
            # Quotes that are open where the lines at hand end may be closed further on
            is_open = odd_fields is None and n_used == len(self._lines) > 0
            if is_open and self._n_chars() < _MAX_RECORD_CHARS and self._take(max(n_used, _BATCH_LINES)):
                continue
            if self._lines:
                yield self._bad_record(odd_fields, n_used)

    def doubt(self) -> str:
        """Say why it is not certain that quotes enclose fields in what was read; empty if it is."""
        outweighed = self._n_broken >= _MIN_BROKEN and self._n_broken > self._n_quoted
        if not outweighed and (self._quoted_names or self._n_joined <= self._n_needed_quotes):
            return ""
        lines = ", ".join(map(str, self._doubtful_lines[:3]))
        return (
            f"it is not certain that quotes enclose fields (line {lines}); put quotes around each field that has one, "
            'and write "" for a quote within, or write it as JSON Lines or Parquet'
        )

    def _take(self, n_lines: int) -> bool:
        """Take lines from the source, and put marks for text that csv would take for syntax."""
        lines = list(itertools.islice(self._source, n_lines))
        text = "".join(lines)
        if self._dialect.newline == "\n" and text.count("\r") > text.count("\r\n"):
            lines = [re.sub(r"\r(?!\n|$)", _CR, line) for line in lines]
            self._has_marks = True
        if self._dialect.escapes_quotes:
            lines = [line.replace("\\\\", _BACKSLASH).replace('\\"', _QUOTE) for line in lines]
            self._has_marks = True
        self._lines += lines
        return bool(lines)

    def _n_chars(self) -> int:
        return sum(map(len, self._lines))

    def _reader(self, lines: list[str]) -> Any:
        dialect = self._dialect
        return csv.reader(
            lines,
            delimiter=dialect.delimiter,
            quotechar=dialect.quote,
            skipinitialspace=dialect.skips_blanks,
            strict=True,
        )

    def _sound_records(self) -> Generator[list[str], None, tuple[list[str] | None, int]]:
        """Yield records up to one that is not sound; return its fields, if it has any, and how many lines it has."""
        lines, delimiter, quote = self._lines, self._dialect.delimiter, self._dialect.quote
        opening, escaped_quote = delimiter + quote, quote + quote
        n_columns, has_marks = self._max_fields, self._has_marks
        reader = self._reader(lines)
        n_done, fields = 0, None
        try:
            for fields in reader:
                n_used = reader.line_num - n_done
                line = lines[n_done]
                if len(fields) != n_columns and n_used == 1 and not line.strip():
                    n_done += 1
                    continue
                if len(fields) != n_columns and n_columns and not self._is_complete(fields):
                    break
                if not n_columns:
                    n_columns = self._take_names(fields, line)
                elif line[0] == quote:
                    self._n_quoted_starts += 1

                # What it says of quotes
                if n_used > 1 or (quote in line and (line[0] == quote or opening in line)):
                    self._n_quoted += 1
                    if n_used > 1 and not self._quoted_names:
                        self._weigh_line_breaks(lines[n_done : n_done + n_used], self.n_lines + n_done + 1)
                    elif line.count(delimiter) >= n_columns or escaped_quote in line:
                        self._n_needed_quotes += 1
                yield [field.translate(self._marks) for field in fields] if has_marks else fields
                self._n_sound += 1
                n_done += n_used
            else:
                n_used = 0
        except csv.Error:
            fields, n_used = None, reader.line_num - n_done
        self.n_lines += n_done
        del lines[:n_done]
        return fields, n_used

    def _take_names(self, names: list[str], line: str) -> int:
        """Take the names of the columns, which say how many fields a record has; those at the end may be empty."""
        self._max_fields = len(names)
        self._min_fields = max(index for index, name in enumerate(names, 1) if index == 1 or name.strip())
        self._quoted_names = self._opening.search(line) is not None
        return self._max_fields

    def _is_complete(self, fields: list[str]) -> bool:
        """Tell whether there is a field for each column; at the end, empty ones may be missing or too many."""
        if not any(fields[self._max_fields :]):
            del fields[self._max_fields :]
        is_complete = self._min_fields <= len(fields) <= self._max_fields
        fields += [""] * (self._max_fields - len(fields)) if is_complete else []
        return is_complete

    def _weigh_line_breaks(self, lines: list[str], line_number: int) -> None:
        """Note whether each line of a sound record would be a record if quotes were text."""
        delimiter, quote = self._dialect.delimiter, self._dialect.quote
        are_records = {line.count(delimiter) for line in lines} == {self._max_fields - 1}
        ids = [line.partition(delimiter)[0] for line in lines]
        is_unlikely_text = self._max_fields > 2 or delimiter == "\t"
        if are_records and is_unlikely_text and all(ids) and not any(quote in name for name in ids):
            self._n_joined += 1
            self._doubtful_lines.append(line_number)
        else:
            self._n_needed_quotes += 1

    def _bad_record(self, fields: list[str] | None, n_used: int) -> BadRecord:
        """Cut off a record that is not sound, given its fields, or None if its quotes are broken."""
        line_number = self.n_lines + 1
        n_lines = self._end_of_broken() if fields is None else n_used
        n_own_lines = self._n_own_lines(n_lines)
        if len(self._lines[0]) > _MAX_RECORD_CHARS:
            reason = _TOO_LONG
        elif fields is None or n_own_lines < n_lines:
            reason = _BROKEN_QUOTE
            self._n_broken += 1
            self._doubtful_lines.append(line_number)
        else:
            reason = (
                f"{len(fields)} fields for {self._max_fields} columns; put quotes around a field that has "
                f"{self._dialect.delimiter!r} in it"
            )
        text = "".join(self._lines[:n_own_lines]).rstrip("\r\n").translate(self._marks)
        del self._lines[:n_own_lines]
        self.n_lines += n_own_lines
        self.n_bad += 1
        return BadRecord(f"line {line_number}: {reason}", text)

    def _end_of_broken(self) -> int:
        """Return how many lines a record with broken quotes has, if quotes amid text are text."""
        n_lines, n_chars, is_open = 0, 0, True
        while is_open and n_chars < _MAX_RECORD_CHARS:
            if n_lines == len(self._lines) and not self._take(_BATCH_LINES):
                break
            line = self._lines[n_lines]
            is_open = self._is_open_after(line, is_open=is_open and n_lines > 0)
            n_lines += 1
            n_chars += len(line)
        return n_lines

    def _is_open_after(self, line: str, *, is_open: bool) -> bool:
        """Tell whether a line ends within quotes."""
        position = 0
        while True:
            if not is_open:
                opening = self._opening.search(line, position)
                if opening is None:
                    return False
                position = opening.end()
            closing = self._closing.match(line, position)
            if closing is None:
                return True
            position, is_open = closing.end(), False

    def _n_own_lines(self, n_lines: int) -> int:
        """Return how many of the lines of a bad record are its own: those before the first that begins another."""
        window = self._lines[1:n_lines][:_WINDOW_LINES]
        # The names of the columns are the first sound record
        all_quoted = 0 < self._n_quoted_starts == self._n_sound - 1
        for start, line in enumerate(window):
            if all_quoted and not line.startswith(self._dialect.quote):
                continue
            has_all_fields = line.count(self._dialect.delimiter) == self._max_fields - 1
            if (has_all_fields and self._opening.search(line)) or self._are_mostly_sound(window[start:]):
                return start + 1
        return n_lines

    def _are_mostly_sound(self, lines: list[str]) -> bool:
        """Tell whether a sound record begins with the first line, and most lines belong to such ones."""
        n_sound_lines = position = 0
        while position < len(lines):
            reader = self._reader(lines[position:])
            try:
                is_sound = self._min_fields <= len(next(reader)) <= self._max_fields
                # A quote in a field without quotes is rather the end of a broken one
                text = "".join(lines[position:][: reader.line_num])
                is_sound = is_sound and self._clean.fullmatch(text) is not None
            except csv.Error:
                is_sound = False
            if not is_sound and not position:
                return False
            n_sound_lines += reader.line_num if is_sound else 0
            position += reader.line_num if is_sound else 1
        return n_sound_lines * 2 > len(lines)


def title_lines(file: Path) -> list[str]:
    """Return the lines of a CSV above the names of its columns, such as a title."""
    lines = _first_lines(file)
    # Excel's line that names the delimiter is no title
    n_excel_lines = 1 if lines and _excel_delimiter(lines[0]) else 0
    return lines[n_excel_lines : n_excel_lines + _n_title_lines(lines[n_excel_lines:])]


def find_dialect(file: Path) -> Dialect:
    """Decide how a file in UTF-8 writes its records.

    Where several readings are possible, the one counts in which the fewest records are bad.
    """
    # The names of the columns tell the delimiter, unless Excel's first line does
    lines = _first_lines(file)
    newline = _newline(file)
    excel_delimiter = _excel_delimiter(lines[0]) if lines else ""
    n_excel_lines = 1 if excel_delimiter else 0
    n_skipped = n_excel_lines + _n_title_lines(lines[n_excel_lines:])
    header = next((line for line in lines[n_skipped:] if line.strip()), "")
    delimiters = [excel_delimiter] if excel_delimiter else _likely_delimiters(header)

    # All other signs may stand anywhere
    dialects = []
    for delimiter in delimiters:
        dialect = Dialect(delimiter=delimiter, newline=newline, n_skipped=n_skipped)
        signs = _Signs.of(file, dialect)
        dialect = replace(dialect, skips_blanks=signs.blank_before_quote and not signs.quote)
        dialects.append(dialect)
        if signs.backslash_before_quote:
            escaped = replace(dialect, escapes_quotes=True)
            dialects += [replace(escaped, escapes_backslashes=not signs.lone_backslash)]
        if signs.single_quote and not signs.quote:
            dialects.append(replace(dialect, quote="'"))
    if len(dialects) == 1:
        return dialects[0]
    return min(dialects, key=lambda dialect: _n_bad(file, dialect))


def _first_lines(file: Path) -> list[str]:
    with file.open(encoding="utf-8-sig", errors="replace", newline="") as text:
        lines = iter(lambda: text.readline(_MAX_HEADER_CHARS), "")
        return list(itertools.islice(lines, _MAX_TITLE_LINES + 1))


def _newline(file: Path) -> str:
    with file.open(encoding="utf-8-sig", errors="replace", newline="") as text:
        beginning = text.read(_CHUNK_CHARS)
    first = re.search(r"\r\n|[\r\n]", beginning)
    n_lone_returns = beginning.count("\r") - beginning.count("\r\n")
    is_return = first is not None and first[0] == "\r" and n_lone_returns > beginning.count("\n")
    return "\r" if is_return else "\n"


def _excel_delimiter(line: str) -> str:
    """Return the delimiter of a line `sep=;`, as Excel reads and writes it; empty for any other line."""
    match = re.fullmatch(r'"?sep=(.)"?[,;\t]*\s*', line, re.IGNORECASE)
    return match[1] if match else ""


def _n_title_lines(lines: list[str]) -> int:
    cut_by_each = ([next(csv.reader([line], delimiter=mark), []) for line in lines] for mark in DELIMITERS)
    return max(map(header_at, cut_by_each))


def _likely_delimiters(header: str) -> list[str]:
    """Return those that give the names of the columns the most usual names; of these, the most names first.

    >>> _likely_delimiters("id;question (short, plain);answer"), _likely_delimiters("answer")
    ([';'], [','])
    """
    n_names = {}
    for delimiter in DELIMITERS:
        names = next(csv.reader([header], delimiter=delimiter), [])
        if len(names) > 1:
            n_names[delimiter] = (sum(map(is_usual, names)), len(names))
    if not n_names:
        return [","]
    n_most_usual = max(n_usual for n_usual, _ in n_names.values())
    likely = [delimiter for delimiter, (n_usual, _) in n_names.items() if n_usual == n_most_usual]
    return sorted(likely, key=lambda delimiter: -n_names[delimiter][1])


def _n_bad(file: Path, dialect: Dialect) -> int:
    with dialect.open(file) as text:
        reader = RecordReader(text, dialect)
        for _ in reader:
            pass
    return reader.n_bad


@dataclass(slots=True)
class _Signs:
    """What is anywhere in a file that tells how it quotes."""

    quote: bool = False
    """A quote opens a field."""
    single_quote: bool = False
    blank_before_quote: bool = False
    backslash_before_quote: bool = False
    lone_backslash: bool = False
    """A backslash stands before neither a quote nor another one."""

    @classmethod
    def of(cls, file: Path, dialect: Dialect) -> _Signs:
        """Look for them in all of a file."""
        delimiter, newline, signs, overlap = dialect.delimiter, dialect.newline, cls(), dialect.newline
        with dialect.open(file) as text:
            while chunk := text.read(_CHUNK_CHARS):
                chunk = overlap + chunk
                overlap = chunk[-2:]
                signs.quote |= f'{delimiter}"' in chunk or f'{newline}"' in chunk
                signs.single_quote |= f"{delimiter}'" in chunk or f"{newline}'" in chunk
                signs.blank_before_quote |= f'{delimiter} "' in chunk
                if "\\" in chunk:
                    signs.backslash_before_quote |= '\\"' in chunk
                    lone = re.search(r'(?<!\\)(?:\\\\)*+\\[^"\\]', chunk)
                    signs.lone_backslash |= lone is not None
        return signs
