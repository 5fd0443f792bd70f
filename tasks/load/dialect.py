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
from typing import NamedTuple, TextIO

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
_CR = "\udc0d"
_QUOTE = "\udc22"
_BACKSLASH = "\udc5c"
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
    title: str = ""
    """What is in them."""
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
        self.n_taken = dialect.n_skipped
        """Lines that were taken from the file so far: in the end, as many as there are in records."""
        self._lines: list[str] = []
        """Lines that were taken from the source, from the first one of the next record on."""
        self._n_columns = 0
        # Text that csv would take for syntax
        self._has_marks = False
        backslash = "\\" if dialect.escapes_backslashes else "\\\\"
        self._marks = str.maketrans({_CR: "\r", _QUOTE: '"', _BACKSLASH: backslash})
        delimiter = re.escape(dialect.delimiter)
        quote = re.escape(dialect.quote)
        blanks = " *" if dialect.skips_blanks else ""
        self._opening = re.compile(f"(?:^|{delimiter}){blanks}{quote}")
        end = "(?:\r?\n|\r|$)"
        sound_field = f"(?:{blanks}{quote}(?:[^{quote}]|{quote}{quote})*+{quote}|[^{quote}{delimiter}\r\n]*+)"
        self._sound_record = f"{sound_field}(?:{delimiter}{sound_field}){{N}}{end}"
        """A pattern, in which N stands for the number of the other fields."""
        # A quote that is followed by more text is text, to find the end of a broken record
        text = f"(?:[^{quote}]|{quote}{quote}|{quote}(?!{delimiter}|{end}))*+"
        field = f"(?:{blanks}{quote}{text}{quote}|[^{delimiter}\r\n]*+)"
        self._broken = re.compile(f"{field}(?:{delimiter}{field})*+{end}")
        # What speaks for and against quotes that enclose fields
        self._n_quoted = self._n_needed_quotes = self._n_broken = self._n_joined = 0
        self._n_sound = self._n_quoted_starts = 0
        self._quoted_names = False
        self._doubtful_lines: list[int] = []

    def __iter__(self) -> Iterator[list[str] | BadRecord]:
        while self._lines or self._take(_BATCH_LINES):
            odd_fields, n_used = yield from self._sound_records()
            # Quotes that are open where the lines at hand end may be closed further on
            has_open_quote = odd_fields is None and n_used == len(self._lines) > 0
            n_chars = sum(map(len, self._lines)) if has_open_quote else 0
            if has_open_quote and n_chars < _MAX_RECORD_CHARS and self._take(max(n_used, _BATCH_LINES)):
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
        self.n_taken += len(lines)
        text = "".join(lines)
        if self._dialect.newline == "\n" and text.count("\r") > text.count("\r\n"):
            lines = [re.sub(r"\r(?!\n|$)", _CR, line) for line in lines]
            self._has_marks = True
        if self._dialect.escapes_quotes:
            lines = [line.replace("\\\\", _BACKSLASH).replace('\\"', _QUOTE) for line in lines]
            self._has_marks = True
        self._lines += lines
        return bool(lines)

    def _sound_records(self) -> Generator[list[str], None, tuple[list[str] | None, int]]:
        """Yield records up to one that is not sound; return its fields, if it has any, and how many lines it has."""
        lines = self._lines
        delimiter = self._dialect.delimiter
        quote = self._dialect.quote
        opening = delimiter + quote
        escaped_quote = quote + quote
        n_columns = self._n_columns
        has_marks = self._has_marks
        reader = csv.reader(
            lines,
            delimiter=delimiter,
            quotechar=quote,
            skipinitialspace=self._dialect.skips_blanks,
            strict=True,
        )
        n_done = 0
        fields = None
        try:
            for fields in reader:
                n_used = reader.line_num - n_done
                line = lines[n_done]
                if len(fields) != n_columns and n_used == 1 and not line.strip():
                    n_done += 1
                    continue
                if len(fields) != n_columns and n_columns:
                    # Delimiters at the end of a line are no fields
                    if len(fields) < n_columns or any(fields[n_columns:]):
                        break
                    del fields[n_columns:]
                if not n_columns:
                    n_columns = self._n_columns = len(fields)
                    self._quoted_names = self._opening.search(line) is not None
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
            fields = None
            n_used = reader.line_num - n_done
        self.n_lines += n_done
        del lines[:n_done]
        return fields, n_used

    def _weigh_line_breaks(self, lines: list[str], line_number: int) -> None:
        """Note whether each line of a sound record would be a record if quotes were text."""
        delimiter = self._dialect.delimiter
        quote = self._dialect.quote
        are_records = {line.count(delimiter) for line in lines} == {self._n_columns - 1}
        ids = [line.partition(delimiter)[0] for line in lines]
        is_unlikely_text = self._n_columns > 2 or delimiter == "\t"
        if are_records and is_unlikely_text and all(ids) and not any(quote in name for name in ids):
            self._n_joined += 1
            self._doubtful_lines.append(line_number)
        else:
            self._n_needed_quotes += 1

    def _bad_record(self, fields: list[str] | None, n_used: int) -> BadRecord:
        """Cut off a record that is not sound, given its fields, or None if its quotes are broken."""
        line_number = self.n_lines + 1
        n_lines = n_used
        if fields is None:
            broken = self._broken.match("".join(self._lines))
            n_lines = len(self._lines) if broken is None else max(len(broken[0].splitlines()), 1)
        n_own_lines = self._n_own_lines(n_lines)
        if len(self._lines[0]) > _MAX_RECORD_CHARS:
            reason = _TOO_LONG
        elif fields is None or n_own_lines < n_lines:
            reason = _BROKEN_QUOTE
            self._n_broken += 1
            self._doubtful_lines.append(line_number)
        else:
            reason = (
                f"{len(fields)} fields for {self._n_columns} columns; put quotes around a field that has "
                f"{self._dialect.delimiter!r} in it"
            )
        text = "".join(self._lines[:n_own_lines]).rstrip("\r\n").translate(self._marks)
        del self._lines[:n_own_lines]
        self.n_lines += n_own_lines
        return BadRecord(f"line {line_number}: {reason}", text)

    def _n_own_lines(self, n_lines: int) -> int:
        """Return how many of the lines of a bad record are its own: those before the first that begins another."""
        window = self._lines[1:n_lines][:_WINDOW_LINES]
        # The names of the columns are the first sound record
        all_quoted = 0 < self._n_quoted_starts == self._n_sound - 1
        sound = self._sound_record.replace("{N}", f"{{{self._n_columns - 1}}}")
        newline = self._dialect.newline
        for start, line in enumerate(window):
            if all_quoted and not line.startswith(self._dialect.quote):
                continue
            if line.count(self._dialect.delimiter) == self._n_columns - 1 and self._opening.search(line):
                return start + 1
            # A sound record begins here, and most of what follows belongs to such ones
            text = "".join(window[start:])
            matches = re.finditer(f"(?P<sound>{sound})|[^{newline}]*{newline}?", text) if re.match(sound, text) else ()
            if sum(len(match["sound"] or "") for match in matches) * 2 > len(text):
                return start + 1
        return n_lines


def find_dialect(file: Path) -> Dialect:
    """Decide how a file in UTF-8 writes its records.

    Where several readings are possible, the one counts in which the fewest records are bad.
    """
    with file.open(encoding="utf-8-sig", errors="replace", newline="") as text:
        lines = list(itertools.islice(iter(lambda: text.readline(_MAX_HEADER_CHARS), ""), _MAX_TITLE_LINES + 1))
    # Excel's first line may name the delimiter, and is no title. Then the names of the columns tell it
    excel_line = re.match(r'"?sep=(.)"?[,;\t]*\s*$', lines[0] if lines else "", re.IGNORECASE)
    excel_delimiter = excel_line[1] if excel_line else ""
    below_excel_line = lines[len(excel_delimiter) :]
    n_titles = 0
    for mark in DELIMITERS:
        rows = (next(csv.reader([line], delimiter=mark), []) for line in below_excel_line)
        n_titles = max(n_titles, header_at(rows))
    n_skipped = len(excel_delimiter) + n_titles
    first_end = re.search(r"\r\n?|\n", "".join(lines))
    newline = "\r" if first_end and first_end[0] == "\r" else "\n"
    header = next((line for line in lines[n_skipped:] if line.strip()), "")

    # All other signs may stand anywhere
    dialects = []
    for delimiter in excel_delimiter or _likely_delimiters(header):
        title = " ".join(below_excel_line[:n_titles]).strip(f"{delimiter} \n\r")
        dialect = Dialect(delimiter=delimiter, newline=newline, n_skipped=n_skipped, title=title)
        signs = _signs(file, dialect)
        has_quotes = "quote" in signs
        dialect = replace(dialect, skips_blanks="blank before quote" in signs and not has_quotes)
        dialects.append(dialect)
        if "blank before quote" in signs and has_quotes:
            dialects.append(replace(dialect, skips_blanks=True))
        if "backslash before quote" in signs:
            is_lone = "lone backslash" in signs
            dialects.append(replace(dialect, escapes_quotes=True, escapes_backslashes=not is_lone))
        if "single quote" in signs and not has_quotes:
            dialects.append(replace(dialect, quote="'"))
    if len(dialects) == 1:
        return dialects[0]

    def n_bad(dialect: Dialect) -> int:
        with dialect.open(file) as text:
            return sum(isinstance(record, BadRecord) for record in RecordReader(text, dialect))

    return min(dialects, key=n_bad)


def _likely_delimiters(header: str) -> str:
    """Return those that give the names of the columns the most usual names; of these, the most names first.

    >>> _likely_delimiters("id;question (short, plain);answer"), _likely_delimiters("answer")
    (';', ',')
    """
    names = {mark: next(csv.reader([header], delimiter=mark), []) for mark in DELIMITERS if mark in header}
    ranks = {mark: (sum(map(is_usual, names[mark])), len(names[mark])) for mark in names}
    most_usual = max(ranks.values(), default=(0, 0))[0]
    likely = [mark for mark in ranks if ranks[mark][0] == most_usual and ranks[mark][1] > 1]
    return "".join(sorted(likely, key=lambda mark: -ranks[mark][1])) or ","


def _signs(file: Path, dialect: Dialect) -> set[str]:
    """Return what is anywhere in a file that tells how it quotes."""
    delimiter = dialect.delimiter
    newline = dialect.newline
    texts = {
        f'{delimiter}"': "quote",
        f'{newline}"': "quote",
        f"{delimiter}'": "single quote",
        f"{newline}'": "single quote",
        f'{delimiter} "': "blank before quote",
        '\\"': "backslash before quote",
    }
    signs = set()
    overlap = newline
    with dialect.open(file) as content:
        while chunk := content.read(_CHUNK_CHARS):
            chunk = overlap + chunk
            overlap = chunk[-2:]
            signs |= {sign for text, sign in texts.items() if text in chunk}
            if "\\" in chunk and re.search(r'(?<!\\)(?:\\\\)*+\\[^"\\]', chunk):
                signs.add("lone backslash")
    return signs
