"""Which column is the question, the answer, the reference: given by the user, or recognised by name."""

from __future__ import annotations

import difflib
import itertools
import math
import re
import shlex
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, get_args

from answerkey.metrics_core.errors import UserError, listed
from answerkey.metrics_core.frame import USUAL_NAMES, Key
from answerkey.metrics_core.text import is_blank, storable
from answerkey.tasks.load.cells import UnreadableCell
from answerkey.tasks.load.plain import Record, ShortenedList, as_json, spelled, spells_list

KEYS: tuple[Key, ...] = get_args(Key)

_MISSING = object()
_LISTS: tuple[Key, ...] = ("references", "incorrect_references")
"""The keys whose texts may spell lists."""
_WITH_SEVERAL_PATHS: tuple[Key, ...] = (*_LISTS, "scores")
"""The keys that may have several columns."""
_MOST_COLUMNS = 1_000
_REFERENCE_NAMES = re.compile("reference|expected|correct|target|gold|ideal|groundtruth|acceptable|alternative|alias")
"""What is in the names of columns that have right answers, or say which ones are right."""
_INPUT_NAMES = re.compile("input|output|prompt|question|answer|response|prediction|model|messages")
"""What is in the names of columns that have what a model was asked, or what it said."""
_WITH_UNIT = (
    "latency_s", "latency_ms", "cost_usd", "total_tokens", "prompt_tokens", "completion_tokens", "input_tokens",
    "output_tokens",
)  # fmt: skip
"""Names of columns that say what an answer took, and in which unit."""
NO_UNIT = ("latency", "duration", "execution_time", "completion_time")
"""Names of columns of times that do not say whether these are seconds. In exports of a tool, its format does."""
_LABELS = ("label", "labels", "humanlabel", "humanlabels")
"""Names, plainly, of columns that may say what people think of an answer."""
_BOOLEANS = {"true", "false", "yes", "no", "1", "0", "1.0", "0.0", "correct", "incorrect", "wrong"}
_SEPARATORS: Mapping[str, str] = {"|": "|", ";": ";", "lines": "\n"}
"""What may stand between the references in a text, by the name that `references-as` gives it."""
_AS = ("text", "list", *_SEPARATORS)
_LONGEST_PART = 60
"""Characters of a text between two separators that may be a reference of its own; longer ones are prose."""
_MODELS = re.compile(
    r"gpt|claude|gemini|gemma|llama|mi[sx]tral|qwen|deepseek|grok|opus|sonnet|haiku|command-?r|phi-?\d"
)
"""What is in the names of models, and so of columns that each have the answers of one."""
_ANSWERS = re.compile("answer|response|output|prediction|completion|reply|antwort")
_MEASURES = re.compile(
    "score|latency|cost|token|time|rating|label|correct|pass|duration|grade|rank|reason|comment|note"
)
"""What is in the names of columns that say something about an answer."""
WIDE: Mapping[Key, str] = {"answer": "answer of --wide", "release": "column of --wide"}
"""The paths of the rows that each row of a table with one column per release becomes."""
_MOST_UNUSED = 40
_HIDDEN = ("Cc", "Cf", "Zl", "Zp")
"""Categories of Unicode: controls, marks of format, ends of lines and of paragraphs."""
_MAX_SHOWN_CHARS = 60


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """Paths into a record by key, the slices to take along, and which paths were guessed."""

    paths: Mapping[Key, str]
    slices: tuple[str, ...]
    guessed: tuple[Key, ...]
    references_as: str = "text"
    """What a reference is that spells a list, as JSON or as Python prints it: one `text`, or a `list` of references;
    `quoted`: a list, if all that is in it are texts in quotes, or objects; `lists`: a list, for all of the first are;
    else what stands between references."""

    @property
    def description(self) -> str:
        """What was guessed, for people: `id, question=user_input, references=reference_1 + reference_2`."""
        columns = []
        for key in self.guessed:
            path = self.paths[key].replace("\n", " + ")
            columns.append(key if key == path else f"{key}={path}")
        return ", ".join(columns)

    def paths_of(self, *keys: Key) -> list[str]:
        """Return the paths of these keys; of all, if none is named."""
        paths = []
        for key in keys or self.paths:
            if key in self.paths:
                paths += self.paths[key].split("\n")
        return paths


def names_in(records: Iterable[Iterable[str]]) -> list[str]:
    """Return the names of the columns of records, in the order in which they come."""
    return list(dict.fromkeys(itertools.chain.from_iterable(records)))


def usual_names(*keys: Key) -> tuple[str, ...]:
    """The names by which columns of these keys are recognised."""
    return tuple(itertools.chain.from_iterable(USUAL_NAMES.get(key, ()) for key in keys))


def parse_map(pairs: Iterable[str]) -> dict[Key, str]:
    """`KEY=PATH` pairs as the user writes them. References can have several paths, one in each line of the text.

    >>> parse_map(["id=meta.n", "answer=a=b", "references=gold", "references=$.also[0]"])
    {'id': 'meta.n', 'answer': 'a=b', 'references': 'gold\\n$.also[0]'}

    Raises:
        UserError: a pair has no `=`, its key is not one of `KEYS`, or comes twice.
    """
    paths: dict[Key, str] = {}
    for pair in pairs:
        key, sign, path = pair.partition("=")
        if not sign or not path:
            raise UserError(f"--map {pair}: write KEY=PATH, for instance id=meta.question_id")
        if key not in KEYS:
            raise UserError(f"--map {pair}: {key!r} is not a key; choose from {', '.join(KEYS)}")
        if key == "references-as" and path not in _AS:
            raise UserError(f"--map {pair}: references are read as text, as list, or split at | or ; or lines")
        if key in paths and key not in _WITH_SEVERAL_PATHS:
            raise UserError(f"--map {pair}: {key} is mapped twice, also to {paths[key]}; keep one of them")
        paths[key] = f"{paths[key]}\n{path}" if key in paths else path
    return paths


def complete(
    mapped: Mapping[Key, str],
    slices: Sequence[str],
    records: Sequence[Record],
    source: str,
    reference_slices: Collection[str] = (),
    *,
    converted: bool = False,
) -> ColumnMap:
    """Fill in what the user did not map, from the columns of the first `records`.

    `reference_slices` are those that the references file has. Records that a format has `converted` have the names of
    the keys; what is needed (id, release, references, answer) counts as missing if none of the first has it, and
    anything else may come later.

    Raises:
        UserError: a mapped path or a slice is in none of the records, or a mapped score is a time without a unit.
    """
    # The columns that a format has made, and those that are mapped
    columns = names_in(records)
    by_format = [key for key in KEYS if converted and key in columns]
    filled = _filled_columns(records)
    if "missing_because" in filled:
        filled.append("answer")
    needed = ("id", "release", "references", "answer")
    paths = {key: key for key in by_format if key in filled or key not in needed} | dict(mapped)
    references_as = paths.pop("references-as", "text" if converted else "")

    # Each of them must be there
    paths_by_role = {str(key): key_lines.split("\n") for key, key_lines in paths.items()}
    paths_by_role["a slice or a metric"] = [path for path in slices if path not in reference_slices]
    for role, role_paths in paths_by_role.items():
        for path in role_paths:
            if records and not any(is_there(record, path) for record in records):
                matches = difflib.get_close_matches(path, columns, 1, 0.8)
                hint = f"did you mean {matches[0]!r}? " if matches else ""
                raise UserError(
                    f"{source}: no column {path!r} (for {role}); {hint}the columns are {', '.join(sorted(columns))}"
                )

    # The others are recognised by their names. A column of questions that is blank throughout is none, as `input` is
    # beside `instruction`
    questions = {_plain_name(name) for name in USUAL_NAMES["question"]}
    named = [name for name in columns if name in filled or _plain_name(name) not in questions]
    guessed = _recognised(paths, named, by_format)
    if not converted:
        check_units(paths.get("scores", "").split("\n"), source)
        with_unit = [name for name in _WITH_UNIT if name in columns]
        if with_unit and "scores" not in paths and "answer" in {**paths, **guessed}:
            guessed["scores"] = "\n".join(with_unit)
    column_map = ColumnMap({**paths, **guessed}, tuple(dict.fromkeys(slices)), tuple(guessed))

    # Whether texts that spell lists are lists; a format knows
    if not references_as:
        spellings = {_spelling(text) for _, text in _texts_of(records, column_map, *_LISTS) if not is_blank(text)}
        are_lists = "texts" in spellings and spellings <= {"texts", "list", "shortened"}
        references_as = "lists" if are_lists else "quoted"
    return replace(column_map, references_as=references_as)


def check_units(names: Iterable[str], source: str) -> None:
    """Check that times say their unit.

    Raises:
        UserError: one does not.
    """
    for name in names:
        if name.casefold() in NO_UNIT:
            raise UserError(f"{source}: in which unit is {name}? Call the column latency_s or latency_ms")


def _texts_of(records: Iterable[Record], columns: ColumnMap, *keys: Key) -> Iterator[tuple[int, str]]:
    """Yield the texts of these keys among the records, with the number of the record (from 1)."""
    paths = columns.paths_of(*keys)
    for number, record in enumerate(records, 1):
        for path in paths:
            # What cannot be read is refused with its row
            with suppress(ValueError):
                if isinstance(text := value(record, path), str):
                    yield number, text


def _spelling(text: str) -> Literal["", "list", "texts", "shortened", "object", "broken"]:
    """Tell whether a text spells a list, one of texts in quotes or objects, one that cannot be read, or an object."""
    if not spells_list(text):
        return ""
    try:
        items = spelled(text)
    except ShortenedList:
        # So that its row is refused, and not scored with a part of its references
        return "shortened"
    except ValueError:
        return ""
    if isinstance(items, list):
        return "texts" if _are_texts(text, items) else "list"
    if isinstance(items, Mapping):
        return "object"
    return "broken" if re.match(r"\s*\[(\s*['\"“]|.*,.*\]\s*$)", text, re.DOTALL) else ""


def _are_texts(text: str, items: Sequence[Any]) -> bool:
    """Whether the items of the list that a text spells are texts in quotes, or objects."""
    return bool(re.search("[\"']", text)) and all(item is None or isinstance(item, str | Mapping) for item in items)


def notes_on(
    columns: ColumnMap, records: Sequence[Record], option: str, *, more: Sequence[str] = (), converted: bool = False
) -> list[str]:
    """Say how columns are read, in one line, and what else users are to know, in a line each.

    Args:
        option: the one that maps columns.
        more: what else the first line says.
        converted: whether a format made the records, so that there is nothing to map.
    """
    notes: list[str] = []

    # The columns that nothing is read from, with their cells
    used = {*columns.paths_of(), *columns.slices}
    if converted:
        scores = [record.get("scores") for record in records]
        used.update(*(cell for cell in scores if isinstance(cell, Mapping)), ["release_order", "response_filter"])
    used.update(*(steps(path)[:1] for path in used))
    names = [name for name in _filled_columns(records) if name not in used]
    unused = {name: [record.get(name) for record in records] for name in names}

    # Some may be right answers, labels, or answers
    references = []
    if "references" in columns.paths and not converted:
        about_answers = re.compile("incorrect|wrong|correct$|correctness")
        for name, cells in unused.items():
            has_references = _REFERENCE_NAMES.search(_plain_name(name)) and not about_answers.search(_plain_name(name))
            if has_references and any(isinstance(cell, str | list) and cell for cell in cells):
                references.append(name)
    if references:
        all_references = [*columns.paths_of("references"), *references]
        options = " ".join(f"{option} {shlex.quote(f'references={name}')}" for name in all_references)
        notes.append(f"not used: {', '.join(references)}; if these are right answers too, give {options}")
    labels = []
    for name, cells in unused.items():
        texts = {str(cell).strip().lower() for cell in cells if cell is not None} - {""}
        if _plain_name(name) in _LABELS and texts and texts <= _BOOLEANS:
            labels.append(name)
    if option == "--map" and "label" not in columns.paths:
        notes += [f"column {name!r} looks like human labels; {option} label={name}" for name in labels]
    wide = []
    if "answer" in columns.guessed and not converted:
        wide = wide_columns(records, used - {columns.paths["answer"]})
    if wide:
        looks = f"{', '.join(wide)} look like the answers of one release each"
        notes.append(f"{looks}; if they are, give {wide_option(wide)}")

    # The rest is named
    times = [name for name in unused if name.casefold() in NO_UNIT and not converted]
    notes += [f"not used: {name}, a time without a unit; call the column latency_s or latency_ms" for name in times]
    unnamed = [name for name in unused if name not in (*references, *labels, *times)]
    if converted:
        # A format may give a column by its own name beside the one that it is read as
        unnamed = [name for name in unnamed if not all(_is_in_use(record, name, columns) for record in records)]
    phrases = [f"columns {columns.description}"] if columns.guessed else []
    if unnamed:
        phrases.append(f"not used: {listed(unnamed, _MOST_UNUSED)}")

    first = ["; ".join([*phrases, *more])] if phrases or more else []
    return [*first, *notes, *_notes_on_references(columns, records, option)]


def _is_in_use(record: Record, name: str, columns: ColumnMap) -> bool:
    """Tell whether a cell has nothing but what the record has at one of the paths."""
    used_cells = [record.get(path) for path in columns.paths_of()]
    members = itertools.chain(*(cell for cell in used_cells if isinstance(cell, list)))
    return record.get(name) in (None, *used_cells, *members)


def _notes_on_references(columns: ColumnMap, records: Sequence[Record], option: str) -> list[str]:
    """Say what users are to know of references that may be several."""
    notes = []
    # In a tenth of the records, there are brief texts between separators
    texts = list(_texts_of(records, columns, "references"))
    texts = [(row, text) for row, text in texts if not is_blank(text) and not spells_list(text)]
    for name, separator in _SEPARATORS.items() if columns.references_as in ("text", "quoted") else ():
        separated = [(row, text) for row, text in texts if separator in text.strip()]
        parts = itertools.chain.from_iterable(text.strip().split(separator) for _, text in separated)
        are_brief = all(len(part.strip()) <= _LONGEST_PART for part in parts)
        if separated and are_brief and len(separated) * 10 >= len(texts):
            row, text = separated[0]
            notes.append(
                f"references that may be several are read as one text (row {row}: {_short(text)!r}); {option} "
                f"{shlex.quote(f'references-as={name}')} makes each part a reference"
            )
            break
    if columns.references_as == "list":
        return notes

    # The first text of each spelling
    first_by_spelling: dict[str, tuple[int, str]] = {}
    for row, text in _texts_of(records, columns, *_LISTS):
        spelling = _spelling(text).replace("texts", "list" if columns.references_as == "text" else "texts")
        first_by_spelling.setdefault(spelling, (row, text))
    if "texts" in first_by_spelling:
        row, text = first_by_spelling["texts"]
        # What cannot be read is refused with its row
        with suppress(ValueError):
            read_as = " and ".join(map(repr, as_texts(text))) or "no reference"
            notes.append(
                f"references that spell a list of texts are read as that list (row {row}: {_short(text)} as "
                f"{_short(read_as)}); {option} references-as=text keeps them as they stand"
            )
    if columns.references_as == "lists":
        return notes
    remedies = {
        "list": f"{option} references-as=list makes each item a reference",
        "broken": "write it as JSON does",
    }
    if not any(_spelling(text) == "object" for _, text in _texts_of(records, columns, "answer")):
        remedies["object"] = f"{option} references=COLUMN.KEY reads what is in it"
    for kind, (row, text) in first_by_spelling.items():
        if kind in remedies:
            noun = "an object" if kind == "object" else "a list"
            notes.append(
                f"references that look like {noun} are read as one text (row {row}: {_short(text)}); {remedies[kind]}"
            )
    return notes


def wide_columns(records: Sequence[Record], used: Collection[str], *, by_texts: bool = False) -> list[str]:
    """Find columns that each seem to have the answers of one release: named after models, or each an "answer".

    With `by_texts`, if there are no such names, all columns that have texts and not only numbers.

    >>> wide_columns([{"question": "q", "gpt-4o": "a", "claude": "b", "gpt-4o score": 1}], ["question"])
    ['gpt-4o', 'claude']
    >>> wide_columns([{"answer_v1": "a", "answer_v2": "b", "answer_expected": "c"}], [])
    ['answer_v1', 'answer_v2']
    >>> wide_columns([{"#": "1", "question": "q", "v1 (prod)": "a", "v2": "7"}], ["question"], by_texts=True)
    []
    >>> wide_columns([{"#": "1", "question": "q", "v1 (prod)": "a", "v2": "b"}], ["question"], by_texts=True)
    ['v1 (prod)', 'v2']
    """
    # Columns with texts that are not about answers or references
    excluded = re.compile(f"{_REFERENCE_NAMES.pattern}|{_MEASURES.pattern}|incorrect|wrong|type$|id$")
    texts = {}
    for name in names_in(records):
        cells = [record.get(name) for record in records]
        has_text = any(isinstance(cell, str) for cell in cells)
        if has_text and name not in used and not excluded.search(_plain_name(name)):
            texts[name] = " ".join(str(cell or "") for cell in cells)

    # Several of the first kind that there is
    of_models = [name for name in texts if _MODELS.search(name.casefold())]
    answers = [name for name in texts if _ANSWERS.search(_plain_name(name))]
    in_words = [name for name, text in texts.items() if by_texts and re.search(r"[^\W\d]", text)]
    return next((names for names in (of_models, answers, in_words) if len(names) > 1), [])


def tells_questions_apart(name: str, columns: ColumnMap) -> bool:
    """Tell whether an unused column may be about the question: its name says nothing of an answer.

    >>> columns = ColumnMap({"answer": "answer"}, (), ())
    >>> [tells_questions_apart(name, columns) for name in ("review", "answer", "latency_ms")]
    [True, False, False]
    """
    about_answers = f"{_MEASURES.pattern}|{_ANSWERS.pattern}|{_MODELS.pattern}"
    return name not in columns.paths_of() and not re.search(about_answers, _plain_name(name))


def wide_option(names: Iterable[str]) -> str:
    """The option that reads each of these columns as the answers of a release.

    >>> wide_option(["gpt-4o", "claude 3"])
    "--wide 'gpt-4o,claude 3'"
    """
    return f"--wide {shlex.quote(','.join(names))}"


def _filled_columns(records: Iterable[Record]) -> list[str]:
    """Return the names of the columns that have a cell with anything in it."""
    return names_in([name for name, cell in record.items() if cell not in (None, "", [])] for record in records)


def _short(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]}..."


def _recognised(paths: Mapping[Key, str], columns: Collection[str], by_format: Collection[Key] = ()) -> dict[Key, str]:
    """Recognise the columns of keys that have no path yet, and that no format has given, by their usual names."""
    column_by_name = {_plain_name(name): name for name in reversed(list(columns))} | {name: name for name in columns}
    recognised: dict[Key, str] = {}
    for key, usual in USUAL_NAMES.items():
        used = {*"\n".join(paths.values()).split("\n"), *recognised.values()}
        for name in usual if key not in (*paths, *by_format) else ():
            candidates = [column_by_name.get(name, column_by_name.get(_plain_name(name)))]
            if key in _LISTS:
                # Also `reference_2` and the like, in the order of their numbers
                numbered = re.compile(rf"{_plain_name(name)}([0-9]{{1,2}})")
                column_by_number = {
                    int(match[1]): column_by_name[match[0]]
                    for match in map(numbered.fullmatch, column_by_name)
                    if match
                }
                candidates += [column_by_number[number] for number in sorted(column_by_number)]
            if unused := dict.fromkeys(column for column in candidates if column and column not in used):
                recognised[key] = "\n".join(unused)
                break
    return recognised


def columns_in(names: Collection[str], usual: ColumnMap) -> ColumnMap:
    """Return the columns of a record with these names.

    Where it lacks one that was guessed, or has one that none had before, they have its own names.

    >>> usual = ColumnMap({"answer": "response"}, (), ("answer",))
    >>> columns_in(["output", "reference"], usual).paths
    {'answer': 'output', 'references': 'reference'}
    """
    usual_paths = {}
    for key, path in usual.paths.items():
        if key not in usual.guessed or not {*names}.isdisjoint(path.split("\n")):
            usual_paths[key] = path
    recognised = _recognised(usual_paths, names)
    if not recognised:
        return usual
    return replace(
        usual, paths={**usual.paths, **recognised}, guessed=tuple(dict.fromkeys((*usual.guessed, *recognised)))
    )


def _plain_name(name: str) -> str:
    """Return the name of a column without regard to case, blanks, underscores, hyphens and marks at its end.

    >>> _plain_name("Ground Truth:"), _plain_name("expectedOutput"), _plain_name("expected_output")
    ('groundtruth', 'expectedoutput', 'expectedoutput')
    """
    return re.sub(r"[\s_-]+|[.:?*]+\s*$", "", name).casefold()


_USUAL = frozenset(map(_plain_name, itertools.chain(*USUAL_NAMES.values())))


def is_usual(name: str) -> bool:
    """Whether a column of this name is recognised."""
    return _plain_name(name) in _USUAL


def column_name(text: str) -> str:
    """Return the name of a column of a table: on one line, and without what cannot be seen.

    >>> column_name(" Expected\\nanswer "), column_name("\u200bid\xa0")
    ('Expected answer', 'id')
    """
    return " ".join(text.strip("\ufeff\u200b").split())


def is_row(cells: Sequence[Any], names: Sequence[str], file: object) -> bool:
    """Tell whether cells are a row below these names: not blank, not the names again, and not a line of dashes.

    >>> [is_row(cells, ["id", "answer"], "a.csv") for cells in (["1", "x"], ["id", "answer"], ["---", ":--:"])]
    [True, False, False]

    Raises:
        UserError: they are the names in another order, so that the rows below have other columns.
    """
    if column_name(str(cells[0])) in names:
        column_names = [column_name(str(cell)) for cell in cells]
        if column_names == names:
            return False
        if {*column_names} == {*names}:
            raise UserError(f"{file}: the columns are named again, in another order; make two files of it")
    return any(cell and not re.fullmatch(r"\s*:?-{2,}:?\s*", str(cell)) for cell in cells)


def header_at(rows: Iterable[Sequence[str]]) -> int:
    """Find the row with the names of columns: the first with two usual ones, if only shorter rows are above it.

    >>> header_at([["Results of March"], [], ["id", "answer"], ["1", "Paris"]])
    2
    """
    max_filled = 0
    for index, cells in enumerate(rows):
        filled = [cell for cell in cells if cell.strip()]
        if sum(map(is_usual, filled)) > 1:
            return index if len(filled) > max_filled else 0
        max_filled = max(max_filled, len(filled))
    return 0


def suggested(key: Key, records: Sequence[Record], used: Collection[str]) -> tuple[str, str]:
    """List the columns of the first `records`, and find the one that is most likely `key`: COLUMN where none is.

    >>> suggested("answer", [{"id": 1, "model_answer": "x", "note": ""}], ["id"])
    ('id, model_answer, note', 'model_answer')
    >>> suggested("answer", [{"Reference Answer": "x", "Model": "y", "Answer text": "x"}], [])[1]
    'Answer text'
    """
    # "Reference Outputs" are right answers, and not those of a release; "model_answer" is not a right one
    excluded = (_INPUT_NAMES if key == "references" else _REFERENCE_NAMES).pattern
    if key == "answer":
        excluded += "|input|messages"
    # With what is in the objects among the columns
    paths: dict[str, None] = {}
    for record in records:
        for name, cell in record.items():
            inner_paths = [f"{name}.{key}" for key in cell] if isinstance(cell, Mapping) else []
            paths |= dict.fromkeys(inner_paths or [name])
    names = list(paths)
    by_plain_name = {_plain_name(name): name for name in names if name not in used}
    candidates = [plain for plain in by_plain_name if not re.search(excluded, plain)]

    # Names with a usual one in them, then those that are spelled much like one, then the only one
    usual = list(map(_plain_name, usual_names(key)))
    likely = [plain for plain in candidates if any(name in plain for name in usual if len(name) > 4)]
    for name in usual:
        likely += difflib.get_close_matches(name, candidates, 1, 0.75)
    if len(candidates) == 1:
        likely += candidates
    return ", ".join(names), by_plain_name[likely[0]] if likely else "COLUMN"


def with_other_columns(records: Iterable[Record], paths: Collection[str]) -> Iterator[Record]:
    """Yield the records with a column, or something at one of these paths, that no record before them has.

    >>> list(with_other_columns([{"a": 1}, {"a": 2}, {"a": {"b": 1}}, {"c": 1}], ["a.b"]))
    [{'a': 1}, {'a': {'b': 1}}, {'c': 1}]
    """
    names = set[str]()
    missing_paths = set(paths)
    for record in records:
        if new_paths := {path for path in missing_paths if is_there(record, path, but_null=True)}:
            missing_paths -= new_paths
        elif record.keys() <= names:
            continue
        if len(names) > _MOST_COLUMNS:
            return
        names |= record.keys()
        yield record


def value(record: Record, path: str | None, default: Any = None) -> Any:
    """Return the value at a path: a column's literal name, or dots and indices (`meta.refs.0`, `$.meta.refs[-1]`).

    Texts on the way that hold JSON are read as JSON. Names may have dots in them, at any step; of several ways that a
    path may be read, the one counts whose last names are the shortest. A name in double quotes is one name.
    In a list of objects with `key` and `value`, as OTLP writes attributes, a name stands for the value of that key.
    Where nothing is there, or without a path, the `default` is returned.

    >>> span = {"attributes": [{"key": "llm.model_name", "value": {"stringValue": "tiny"}}]}
    >>> value(span, "attributes.llm.model_name")
    'tiny'
    >>> value({"info": {"mlflow.traceInputs": '{"question": "Why?"}'}}, "info.mlflow.traceInputs.question")
    'Why?'

    Raises:
        ValueError: such a text has an object that has a key twice.
    """
    if path is None:
        return default
    if path in record:
        return record[path]
    # What is there after so many steps
    path_steps = steps(path)
    values: dict[int, Any] = {0: record}
    for start in range(len(path_steps)):
        current = values.get(start)
        if isinstance(current, str):
            current = spelled(current)
        if isinstance(current, list):
            # -1 is the last element
            if re.fullmatch("-?[0-9]+", path_steps[start]) and -len(current) <= int(path_steps[start]) < len(current):
                values[start + 1] = current[int(path_steps[start])]
            attributes = [pair for pair in current if isinstance(pair, Mapping) and pair.keys() == {"key", "value"}]
            current = {pair["key"]: _plain(pair["value"]) for pair in attributes if isinstance(pair["key"], str)}
        # A name may be made of several steps
        if isinstance(current, Mapping):
            for end in range(start + 1, len(path_steps) + 1):
                if (name := ".".join(path_steps[start:end])) in current:
                    values[end] = current[name]
    return values.get(len(path_steps), default) if path_steps else default


def _plain(attribute: Any) -> Any:
    """Return the value of an attribute of OTLP, which says its type: `{"stringValue": "tiny"}`."""
    if not isinstance(attribute, Mapping) or len(attribute) != 1:
        return attribute
    [(name, content)] = attribute.items()
    if not name.endswith("Value"):
        return attribute
    if name == "arrayValue" and isinstance(content, Mapping):
        return list(map(_plain, content.get("values", [])))
    return content


def steps(path: str) -> list[str]:
    """Split a path into its names and indices: `$.meta.refs[0]` is meta, refs, 0; `"a.b".c` is a.b, c."""
    matches = re.findall(r'"([^"]+)"(?=[.\[\]]|$)|([^.\[\]]+)', path.removeprefix("$"))
    return [quoted or plain for quoted, plain in matches]


def path_of(names: Iterable[str]) -> str:
    """Join names to the path whose steps they are.

    >>> path_of(["attributes", "llm.model_name"])
    'attributes."llm.model_name"'
    """
    return ".".join(f'"{name}"' if "." in name and '"' not in name else name for name in names)


def is_there(record: Record, path: str, *, but_null: bool = False) -> bool:
    """Tell whether anything is at a path, also if it cannot be read."""
    try:
        cell = value(record, path, _MISSING)
    except ValueError:
        return True
    return cell is not _MISSING and not (but_null and cell is None)


def as_text(cell: Any) -> str | None:
    """Return a value as the text it stands for; None stays None.

    An object with a single text in it is that text (`{"content": "Paris"}`).

    >>> as_text(5.0), as_text(2.5), as_text(0.10000000149011612), as_text(0.1 + 0.2)
    ('5', '2.5', '0.1', '0.30000000000000004')

    Raises:
        ValueError: a list or an object that is not one text.
    """
    if isinstance(cell, str | None):
        return cell and str(cell)
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float):
        # NaN is how pandas writes "nothing"
        if math.isnan(cell):
            return None
        import numpy as np

        # People would not write 5.0 for 5, nor the digits that 32 bits add: a number with so many of them that fits
        # 32 bits has hardly ever been another one; longer ones have exponents
        short = np.float32(cell) if 15 < len(str(cell)) < 22 else cell
        return str(short if float(short) == cell else cell).removesuffix(".0")
    if isinstance(cell, Mapping):
        if len(cell) == 1 and isinstance(text := next(iter(cell.values())), str):
            return text
        raise ValueError(f"is an object with {', '.join(map(str, cell)) or 'nothing'}; map a path into it")
    if isinstance(cell, (list, tuple, set)):
        raise ValueError("is a list; map one item of it")
    if isinstance(cell, bytes):
        raise ValueError("is binary data; write it as text")
    if isinstance(cell, UnreadableCell):
        raise ValueError(f"is not known: {cell.reason}")
    # Tables have dates as times
    return str(cell).removesuffix(" 00:00:00")


def repeat_of(text: str | None) -> str:
    """Which of several answers to a question is meant: '1' where nothing is said; 2, 02 and 2.0 are the same.

    >>> repeat_of("2.0"), repeat_of(" "), repeat_of("run b")
    ('2', '1', 'run b')
    """
    if text is None:
        return "1"
    text = text.strip()
    number = re.fullmatch(r"0*([0-9]{1,9})(\.0*)?", text)
    return number[1] if number else text or "1"


def as_texts(cell: Any, spelled_as: str = "list") -> list[str]:
    """Return a list, a JSON or Python list in a text, or a single text, as texts. Nulls in it are dropped.

    Args:
        spelled_as: what a text is that spells a list, as `ColumnMap.references_as`.

    Raises:
        ValueError: an item is not a text, or an object in it has a key twice.
    """
    if isinstance(cell, str) and spelled_as in _SEPARATORS:
        return [part for part in map(str.strip, cell.split(_SEPARATORS[spelled_as])) if part]
    if isinstance(cell, str) and spells_list(cell) and spelled_as != "text":
        # A list that is not of texts stays one text, unless it is asked for
        texts = spelled(cell)
        if isinstance(texts, list) and (spelled_as in ("list", "lists") or _are_texts(cell, texts)):
            cell = texts
    texts = cell if isinstance(cell, (list, tuple, set)) else [cell]
    return [text for text in map(as_text, texts) if text is not None]


def text_at(record: Record, paths: Mapping[Key, str], key: Key) -> str | None:
    """Return the text of a key, without lone surrogates.

    Raises:
        ValueError: it is not a text.
    """
    if key not in paths:
        return None
    cell = None
    try:
        cell = value(record, paths[key])
        if key == "answer" and isinstance(cell, str) and '"role"' in cell:
            # The reply of an API as JSON text: a path leads into it too
            reply = as_json(cell)
            cell = reply if _OF_A_REPLY.match(path_to_text(reply)) else cell
        return clean(as_text(cell))
    except ValueError as error:
        path = path_to_text(cell)
        hint = f", such as {paths[key]}{path}" if path else ""
        raise ValueError(f"{key} ({paths[key]}) {error}{hint}") from error


def texts_of(records: Sequence[Record], paths: Mapping[Key, str], key: Key) -> list[str | None]:
    """Return the text of a key in each record, as `text_at` does.

    Raises:
        ValueError: one is not a text.
    """
    path = paths.get(key)
    if path is None:
        return [None] * len(records)
    texts = []
    for record in records:
        cell = record.get(path, _MISSING)
        # Nearly all cells are plain texts, and there may be millions
        is_plain = cell is None or (type(cell) is str and cell.isascii() and '"role"' not in cell)
        texts.append(cell if is_plain else text_at(record, paths, key))
    return texts


_TO_THE_TEXT = ("text", "content", "message", "choices", "output", "candidates", "parts")
"""Steps that lead to the text in a reply of an API, in the order in which they are tried."""
_OF_A_REPLY = re.compile(r"\.(?:choices|candidates|content|output)\[0\]\.")


def path_to_text(cell: object) -> str:
    """Return the path within a reply of an API to its text; empty where none is recognised.

    >>> path_to_text({"choices": [{"message": {"role": "assistant", "content": "Paris"}}]})
    '.choices[0].message.content'
    """
    if isinstance(cell, list):
        steps_into = [("[0]", part) for part in cell[:1]]
    elif isinstance(cell, Mapping):
        steps_into = [(f".{name}", cell[name]) for name in _TO_THE_TEXT if name in cell]
    else:
        return ""
    for step, part in steps_into:
        path = path_to_text(part)
        if path or isinstance(part, str):
            return step + path
    return ""


def lists_of(records: Sequence[Record], columns: ColumnMap, key: Key) -> list[tuple[str, ...]]:
    """Return the texts of a key in each record.

    Raises:
        ValueError: one is not a list of texts.
    """
    if key not in columns.paths:
        return [()] * len(records)
    spelled_as = columns.references_as if key in _LISTS else "list"
    paths = columns.paths_of(key)
    # Of several columns, most rows fill in only some, and a blank passage is none
    drops_blanks = len(paths) > 1 or key == "context"
    is_split = spelled_as in _SEPARATORS
    lists: list[tuple[str, ...]] = []
    for record in records:
        cell = record.get(paths[0], _MISSING)
        # Nearly all cells are plain texts, and there may be millions
        is_plain = type(cell) is str and cell.isascii() and not drops_blanks and not is_split
        if is_plain and not spells_list(cell):
            lists.append((cell,))
            continue
        texts = []
        for path in paths:
            try:
                texts += [clean(text) or "" for text in as_texts(value(record, path), spelled_as)]
            except ValueError as error:
                # Some data sets have another kind of "context" than a list of passages
                if key == "context" and key in columns.guessed:
                    texts = []
                    break
                raise ValueError(f"{key} ({path}) {error}") from error
        lists.append(tuple(text for text in texts if not (drops_blanks and is_blank(text))))
    return lists


@lru_cache(maxsize=1_000)
def release_name(text: str) -> str:
    r"""The name of a release, composed (NFC) and without blanks around it: names that look alike are one.

    Raises:
        ValueError: it has a character that cannot be seen: a line break, or a mark that turns the direction of text.

    >>> release_name(" gpt-4 "), len("e\u0301"), len(release_name("e\u0301"))
    ('gpt-4', 2, 1)
    """
    name = unicodedata.normalize("NFC", text.strip())
    for char in name:
        if unicodedata.category(char) in _HIDDEN:
            raise ValueError(f"the release {name!r} has a character that cannot be seen, U+{ord(char):04X}; remove it")
    return name


def clean(text: str | None) -> str | None:
    """Lone surrogates, which no file format can hold, become U+FFFD for validation to find."""
    # Most texts are printable, and no text with a surrogate is
    return text if text is None or text.isascii() or text.isprintable() else storable(text)
