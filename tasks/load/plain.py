"""A file as the readers take it: decompressed, in UTF-8, and known to be of the kind that its ending says."""

from __future__ import annotations

import ast
import codecs
import gzip
import json
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from answerkey.metrics_core.errors import UserError

Record = Mapping[str, Any]
"""A row by the names of its columns."""

JSON_LINES = (".jsonl", ".ndjson")
CSV = (".csv", ".tsv", ".txt")
PARQUET = (".parquet", ".pq")
ARROW = (".arrow", ".feather", ".ipc")
EXCEL = (".xlsx", ".xlsm")
DUCKDB = (".duckdb", ".db", ".ddb")
TEXTS = (*JSON_LINES, ".json", *CSV)
COMPRESSED = (".gz", ".zst")
_PIECE = 1 << 20
_SAMPLE_BYTES = 1 << 16
"""Of text that is no UTF-8: so many lines with bytes beyond ASCII tell its encoding."""

_MARKS: Mapping[bytes, str] = {
    codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32", codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}  # fmt: skip
"""By the byte order mark at the start; one of UTF-16 begins one of UTF-32."""

_KINDS = json.loads(Path(__file__).with_name("kinds.json").read_text(encoding="utf-8"))
_CODE_PAGES: list[str] = _KINDS["code_pages"]
"""What programs still write that write no UTF-8."""
_LETTERS: Sequence[str] = _KINDS["letters"]
"""The letters beyond ASCII of languages in Latin script, a text per language."""
_BINARY = {start.encode("latin-1"): entry for start, *entry in _KINDS["binary"]}
"""By its first bytes: what a file is, what to do if its name says otherwise, and the endings that it may have."""


def kind_of(name: str) -> str:
    """The ending that says how a file is read, in lower case, without that of its compression.

    >>> kind_of("answers.JSONL.gz"), kind_of("table.csv"), kind_of("README")
    ('.jsonl', '.csv', '')
    """
    return _uncompressed(name).suffix.lower()


def stem_of(name: str) -> str:
    """The name of a file without its folder and endings.

    >>> stem_of("data/answers.jsonl.gz"), stem_of("table.csv")
    ('answers', 'table')
    """
    return _uncompressed(name).stem


def _uncompressed(name: str) -> Path:
    path = Path(name)
    return path.with_suffix("") if path.suffix.lower() in COMPRESSED else path


def decompressed(file: Path) -> Iterator[bytes]:
    """The content of a compressed file, in pieces.

    Raises:
        UserError: it is not compressed, or cut off or damaged.
    """
    import pyarrow as pa

    check_kind(file)
    try:
        with gzip.open(file) if file.suffix.lower() == ".gz" else pa.input_stream(file, "zstd") as content:
            while piece := content.read(_PIECE):
                yield piece
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{file}: cut off or damaged ({error}); copy it again from its source") from error


def check_kind(file: Path) -> None:
    """Find out by its first bytes whether a file is what its ending says.

    Raises:
        UserError: it is not, or the end of a Parquet file is missing.
    """
    # Parquet has its mark at both ends
    with file.open("rb") as content:
        head = content.read(16)
        content.seek(-4, os.SEEK_END) if file.stat().st_size > 4 else None
        tail = content.read()
    ending = file.suffix.lower()
    if ending in PARQUET and head[:4] == b"PAR1" != tail:
        raise UserError(f"{file}: cut off or damaged: its end is missing; copy it again from its source")
    kind, remedy, endings = _of_start(_BINARY, head, ("", "", ()))
    if kind and ending not in endings:
        expected = "DuckDB" if ending in DUCKDB else ending or "a text"
        raise UserError(f"{file}: this is {kind}, not {expected}; {remedy}")
    is_unmarked = head[8:12] != b"DUCK" if ending in DUCKDB else ending in (*COMPRESSED, *EXCEL, *PARQUET)
    if not kind and is_unmarked:
        raise UserError(
            f"{file}: this is not a {ending} file: it begins with {head[:8]!r}; give it the ending of its kind"
        )


def encoding_of(file: Path, chosen: str, notes: list[str]) -> str:
    """The encoding of a text; empty where it is sound UTF-8, as it is to be.

    Where single characters of UTF-8 are damaged, they become U+FFFD, which validation finds.

    Args:
        chosen: the encoding that the user names; empty: it is found out.
        notes: takes in what was assumed.

    Raises:
        UserError: there is no such encoding, the file is no text, or its encoding cannot be told.
    """
    if chosen:
        try:
            return codecs.lookup(chosen).name
        except LookupError as error:
            raise UserError(
                f"--encoding {chosen}: there is no such encoding; for instance utf-8, utf-16, windows-1252, gb18030"
            ) from error
    with file.open("rb") as content:
        head = content.read(4096)
    if marked := _marked(head):
        notes.append(f"read as {marked.upper()}")
        return marked
    with suppress(UnicodeDecodeError), file.open(encoding="utf-8", newline="") as text:
        while text.read(_PIECE):
            pass
        return ""

    # The text around the first byte beyond ASCII of lines that have one
    sample = b""
    with file.open("rb") as content:
        while len(sample) <= _SAMPLE_BYTES and (line := content.readline()):
            if beyond := re.search(rb"[\x80-\xff]", line):
                sample += line[max(beyond.start() - 200, 0) : beyond.start() + 2000] + b"\n"
    # Where most of it is whole in UTF-8, the text is meant to be, and the rest is damaged
    n_beyond = sum(byte > 127 for byte in sample)
    n_whole = sum(byte > 127 for byte in sample.decode("utf-8", "ignore").encode())
    if n_whole * 2 >= n_beyond:
        return "utf-8"
    if b"\0" in head:
        raise UserError(f"{file}: this is not text: there are zero bytes in it; give CSV, JSON Lines or Parquet")
    likely = _likely_encodings(sample)
    names = [name.replace("cp125", "windows-125").replace("_", "-") for name in likely]
    if len(names) > 1:
        raise UserError(
            f"{file}: the text is not UTF-8, and its encoding is not certain ({names[0]}, or "
            f"{', '.join(names[1:4])}?); save it as UTF-8 or name it with --encoding; "
            f"--encoding utf-8 quarantines the rows that it cannot decode"
        )
    notes.append(f"read as {names[0]}, which was detected; if that is wrong, save it as UTF-8 or use --encoding")
    return likely[0]


def _likely_encodings(sample: bytes) -> list[str]:
    """Return the most likely encoding of a text, and those that are as likely and give another text."""
    from charset_normalizer import from_bytes

    # What the library takes for likely
    matches = from_bytes(
        sample, cp_isolation=_CODE_PAGES, threshold=0.3, preemptive_behaviour=False, language_threshold=0.0,
        enable_fallback=False,
    )  # fmt: skip
    clean_matches = [match for match in matches if match.chaos < 0.1]
    coherence = max((match.coherence for match in clean_matches), default=0.0)
    names = []
    for match in clean_matches:
        if match.coherence >= coherence / 2:
            names += [match.encoding, *(equal.encoding for equal in match.submatch)]

    # Of several that give one text, the first; of several texts, the one with the letters of one language
    texts: dict[str, str] = {}
    for name in sorted(names, key=_CODE_PAGES.index):
        texts.setdefault(sample.decode(name, "replace"), name)
    of_one_language = []
    for text, name in texts.items():
        letters = {char for char in text.lower() if char > "\x7f" and char.isalpha()}
        if any(letters <= set(alphabet) for alphabet in _LETTERS):
            of_one_language.append(name)
    names = of_one_language if len(of_one_language) == 1 else list(texts.values())
    return names or ["windows-1252", "windows-1251", "gb18030"]


def decoded(file: Path, encoding: str) -> Iterator[bytes]:
    """The content of a text in UTF-8, in pieces."""
    with file.open(encoding=encoding, errors="replace", newline="") as text:
        while piece := text.read(_PIECE):
            yield piece.encode("utf-8", "replace")


def with_ending(file: Path) -> Path:
    """Give a file without an ending that of its kind, as its first bytes tell it; returns its new path.

    Raises:
        UserError: there is nothing in it, or it is of no kind that can be read.
    """
    with file.open("rb") as content:
        head = content.read(_PIECE)
    if not head.strip():
        raise UserError(f"{file.name}: the file is empty; it needs at least one row")
    text = head.decode(_marked(head) or "utf-8", "replace").lstrip("\ufeff \r\n\t")
    text_ending = ".json" if text[:1] in ("[", "{") else ".csv"
    kind, remedy, endings = _of_start(_BINARY, head, ("", "", [text_ending]))
    if not endings:
        raise UserError(f"{file.name}: this is {kind}; {remedy}")
    ending = endings[0]
    if text[:1] == "{":
        with suppress(ValueError, RecursionError):
            if isinstance(json.loads(text.split("\n", 1)[0]), dict):
                ending = ".jsonl"
    # What is compressed tells its kind once it is unpacked
    if ending in COMPRESSED:
        unpacked = file.with_name(f"{file.name}-unpacked")
        packed = file.rename(file.with_name(f"{file.name}{ending}"))
        with unpacked.open("wb") as out:
            out.writelines(decompressed(packed))
        packed.unlink()
        return with_ending(unpacked.rename(file))
    return file.rename(file.with_name(f"{file.name}{ending}"))


def _marked(head: bytes) -> str:
    """Return the encoding that a byte order mark names, or that of UTF-16 without one; empty for any other text."""
    if encoding := _of_start(_MARKS, head, ""):
        return str(encoding)
    # In UTF-16, every other byte of what is ASCII is zero
    head = head[:4096]
    even = head[::2].count(0)
    odd = head[1::2].count(0)
    if max(even, odd) * 20 < len(head) or min(even, odd) * 20 > max(even, odd):
        return ""
    encoding = "utf-16-le" if odd > even else "utf-16-be"
    with suppress(UnicodeDecodeError):
        codecs.getincrementaldecoder(encoding)().decode(head)
        return encoding
    return ""


def _of_start(table: Mapping[bytes, Any], head: bytes, default: Any) -> Any:
    """Return what a table has for the first bytes of a file."""
    return next((entry for start, entry in table.items() if head.startswith(start)), default)


_STRING = r"""(?:'(?:\\.|[^'\\])*+'|"(?:\\.|[^"\\])*+")"""
_LIST_ITEM = re.compile(rf"({_STRING}|(?<![:\w.+-])[\w.+-]++|\])(\s+(?=[\['\"\w.+-]))?", re.DOTALL)
"""An item of a list, with the gap to the next one if there is no comma between them."""
_LIST_START = re.compile(r"""\s*(?:(?:np\.|numpy\.)?array\(\s*)?(?:\[|[({]\s*["'])""")
"""How a list begins, or a tuple or a set of texts."""


class ShortenedList(ValueError):
    """A list was printed without some of its items."""


class KeyTwice(ValueError):
    """An object names two values for one key."""


def _unique_keys(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        [(key, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise KeyTwice(f"an object has the key {str(key)[:80]!r} twice; keep one of them")
    return content


class Spelled(str):
    """A number with a fraction or an exponent, as a file spells it: an answer `1.10` is not `1.1`."""


JSON = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_float=Spelled)
"""Python would take the last of two values of a key, and drop the other without a word."""


def as_json(text: str) -> Any:
    """What a text says as JSON; where it is none, the text.

    Raises:
        KeyTwice: an object in it has a key twice.

    >>> as_json("[1, 2]"), as_json("[1] and [2]")
    ([1, 2], '[1] and [2]')
    """
    try:
        return JSON.decode(text)
    except KeyTwice:
        # A text that only begins like JSON is none.
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            return text
        raise
    except (ValueError, RecursionError):
        return text


def spells_list(text: str) -> bool:
    """Tell whether a text begins like a list, a tuple or set of texts, or an array as numpy prints it."""
    return _LIST_START.match(text) is not None


def spelled(text: str) -> Any:
    """The list or object that a text holds as JSON, or as Python or numpy prints it; where it is none, the text.

    Raises:
        KeyTwice: an object in it has a key twice.
        ShortenedList: numpy left items out when it printed the list.

    >>> spelled("['a', None]"), spelled("[sic]"), spelled("{1: 'a', '1': 'b'}"), spelled("('b', 'a')")
    (['a', None], '[sic]', {1: 'a', '1': 'b'}, ['b', 'a'])
    >>> spelled("['a' 'b']"), spelled("array(['a', 'b'], dtype=object)"), spelled("[1.50 2]")
    (['a', 'b'], ['a', 'b'], ['1.50', '2'])
    """
    parsed = as_json(text)
    if isinstance(parsed, list | dict):
        return parsed
    try:
        # pandas writes lists into CSV files the way Python prints them, and arrays as numpy does: without commas
        tree = ast.parse(_with_commas(text.strip()), mode="eval")
        if any(isinstance(node, ast.Constant) and node.value is ... for node in ast.walk(tree)):
            raise ShortenedList('is a list that numpy shortened ("..."); write all of it, for instance with .tolist()')
        tree = _Plain().visit(tree)
        parsed = ast.literal_eval(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Dict):
                _unique_keys([(ast.literal_eval(key), None) for key in node.keys if key])
    except (KeyTwice, ShortenedList):
        raise
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return text
    return parsed if isinstance(parsed, list | dict) else text


def _with_commas(text: str) -> str:
    """Separate the items of a list as Python does; numbers that numpy printed stay as they are spelled."""
    if not any(gap for _, gap in _LIST_ITEM.findall(text)):
        return text

    def separated(match: re.Match[str]) -> str:
        item, gap = match.groups()
        is_number = re.fullmatch(r"[+-]?\d[\w.+-]*", item)
        return (repr(item) if is_number else item) + ("," if gap else "")

    return _LIST_ITEM.sub(separated, text)


class _Plain(ast.NodeTransformer):
    """Takes what types are made of in their place: `array([...])`, `np.str_('a')`, `nan`, tuples and sets."""

    def visit_Tuple(self, node: ast.Tuple | ast.Set) -> Any:
        return self.visit(ast.List(node.elts, ast.Load()))

    visit_Set = visit_Tuple

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = ast.unparse(node.func).rpartition(".")[2]
        is_numpy = name in ("array", "list") or name.rstrip("_0123456789") in ("str", "int", "float", "bool")
        return self.visit(node.args[0]) if is_numpy and node.args else node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Constant(None) if node.id == "nan" else node
