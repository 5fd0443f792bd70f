"""Which column is the question, the answer, the reference: given by the user, or recognised by name."""

from __future__ import annotations

import difflib
import math
import re
import shlex
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, get_args

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.frame import USUAL_NAMES, Key
from answerkey.metrics_core.text import is_blank
from answerkey.tasks.load.cells import UnreadableCell
from answerkey.tasks.load.plain import ShortenedList, as_list, spelled, spells_list
from answerkey.tasks.load.rows import Record

KEYS: tuple[Key, ...] = get_args(Key)

_MISSING = object()
_LISTS: tuple[Key, ...] = ("references", "incorrect_references")
"""The keys whose texts may spell lists."""
_SEVERAL: tuple[Key, ...] = (*_LISTS, "scores")
"""The keys that may have several columns."""
_MOST_COLUMNS = 1_000
_RIGHT = re.compile("reference|expected|correct|target|gold|ideal|groundtruth|acceptable|alternative|alias")
"""What is in the names of columns that have right answers, or say which ones are right."""
_GIVEN = re.compile("input|output|prompt|question|answer|response|prediction|model|messages")
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
_SHOWN = 60


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
        shown = {key: self.paths[key].replace("\n", " + ") for key in self.guessed}
        return ", ".join(key if key == path else f"{key}={path}" for key, path in shown.items())


def usual_names(*keys: Key) -> tuple[str, ...]:
    """The names by which columns of these keys are recognised."""
    return tuple(name for key in keys for name in USUAL_NAMES.get(key, ()))


def parse_map(pairs: Iterable[str]) -> dict[Key, str]:
    """`KEY=PATH` pairs as the user writes them. References can have several paths, one in each line of the text.

    >>> parse_map(["id=n", "references=gold", "references=also"])
    {'id': 'n', 'references': 'gold\\nalso'}

    Raises:
        UserError: a pair has no `=`, its key is not one of `KEYS`, or comes twice.
    """
    paths: dict[Key, str] = {}
    for pair in pairs:
        key, found, path = pair.partition("=")
        if not found or not path:
            raise UserError(f"--map {pair}: write KEY=PATH, for instance id=meta.question_id")
        if key not in KEYS:
            raise UserError(f"--map {pair}: {key!r} is not a key; choose from {', '.join(KEYS)}")
        if key == "references-as" and path not in _AS:
            raise UserError(f"--map {pair}: references are read as text, as list, or split at | or ; or lines")
        if key in paths and key not in _SEVERAL:
            raise UserError(f"--map {pair}: {key} is mapped twice, also to {paths[key]}; keep one of them")
        paths[key] = f"{paths[key]}\n{path}" if key in paths else path
    return paths


def complete(
    given: Mapping[Key, str],
    slices: Sequence[str],
    records: Sequence[Record],
    source: str,
    elsewhere: Collection[str] = (),
    *,
    made: bool = False,
) -> ColumnMap:
    """Fill in what the user did not map, from the columns of the first `records`.

    `elsewhere` names slices that the references file has. The records that a format `made` have the names of the keys;
    what is asked for where it is missing (id, release, references, answer) counts as missing if none of the first has
    it, and anything else may come later.

    Raises:
        UserError: a mapped path or a slice is in none of the records, or a mapped score is a time without a unit.
    """
    columns = dict.fromkeys(name for record in records for name in record)
    settled = [key for key in KEYS if made and key in columns]
    filled = {name for record in records for name, cell in record.items() if cell not in (None, "", [])}
    if "missing_because" in filled:
        filled.add("answer")
    needed = ("id", "release", "references", "answer")
    paths = {key: key for key in settled if key in filled or key not in needed} | dict(given)
    references_as = paths.pop("references-as", "")
    asked = [(key, path) for key, several in paths.items() for path in several.split("\n")]
    for key, path in [*asked, *(("slice", path) for path in slices if path not in elsewhere)]:
        if records and not any(is_there(record, path) for record in records):
            near = difflib.get_close_matches(path, columns, 1, 0.8)
            meant = f"did you mean {near[0]!r}? " if near else ""
            raise UserError(
                f"{source}: no column {path!r} (for {key}); {meant}the columns are {', '.join(sorted(columns))}"
            )
    guessed = _recognised(paths, columns, settled)
    if not made:
        check_units(paths.get("scores", "").split("\n"), source)
        took = [name for name in _WITH_UNIT if name in columns]
        if took and "scores" not in paths and "answer" in {**paths, **guessed}:
            guessed["scores"] = "\n".join(took)
    found = ColumnMap({**paths, **guessed}, tuple(dict.fromkeys(slices)), tuple(guessed))
    if not references_as:
        # A format knows what is a list, and what a text that spells one.
        spellings = {_spelling(text) for _, text in _texts_of(records, found, *_LISTS) if not is_blank(text)}
        are_lists = "texts" in spellings and spellings <= {"texts", "list", "shortened"}
        references_as = "text" if made else "lists" if are_lists else "quoted"
    return replace(found, references_as=references_as)


def check_units(names: Iterable[str], source: str) -> None:
    """Check that times say their unit.

    Raises:
        UserError: one does not.
    """
    for name in names:
        if name.casefold() in NO_UNIT:
            raise UserError(f"{source}: in which unit is {name}? Call the column latency_s or latency_ms")


def _texts_of(records: Iterable[Record], columns: ColumnMap, *keys: Key) -> Iterator[tuple[int, str]]:
    """The texts of these keys among the records, with the number of the record (from 1)."""
    for number, record in enumerate(records, 1):
        for key in keys:
            for path in columns.paths[key].split("\n") if key in columns.paths else ():
                # What cannot be read is refused with its row.
                with suppress(ValueError):
                    if isinstance(text := value(record, path), str):
                        yield number, text


def _spelling(text: str) -> Literal["", "list", "texts", "shortened", "object", "broken"]:
    """Whether a text spells a list, one of texts in quotes or objects, one that cannot be read, or an object."""
    if not spells_list(text):
        return ""
    try:
        found = spelled(text)
    except ShortenedList:
        # So that its row is refused, and not scored with a part of its references
        return "shortened"
    except ValueError:
        return ""
    if isinstance(found, list):
        return "texts" if _are_texts(text, found) else "list"
    if isinstance(found, Mapping):
        return "object"
    return "broken" if re.match(r"\s*\[(\s*['\"“]|.*,.*\]\s*$)", text, re.DOTALL) else ""


def _are_texts(text: str, items: Sequence[Any]) -> bool:
    """Whether the items of the list that a text spells are texts in quotes, or objects."""
    return bool(re.search("[\"']", text)) and all(item is None or isinstance(item, str | Mapping) for item in items)


def notes_on(columns: ColumnMap, records: Sequence[Record], option: str, made: bool = False) -> list[str]:
    """What users are to know of how columns are read.

    Args:
        option: the one that maps columns.
        made: whether a format made the records, so that there is nothing to map.
    """
    notes = [f"columns recognised by name: {columns.description}"] if columns.guessed else []
    taken = {path for paths in columns.paths.values() for path in paths.split("\n")} | set(columns.slices)
    if made:
        given = [record.get("scores") for record in records]
        taken |= {str(name) for one in given if isinstance(one, Mapping) for name in one}
        taken |= {"release_order", "response_filter"}
    taken |= {way[0] for path in taken if (way := steps(path))}
    names = dict.fromkeys(name for record in records for name, cell in record.items() if cell not in (None, "", []))
    free = {name: [record.get(name) for record in records] for name in names if name not in taken}

    # Columns that may be right answers, labels, or answers
    unused = []
    if "references" in columns.paths and not made:
        right = [name for name in free if _RIGHT.search(_plainly(name))]
        wrong = re.compile("incorrect|wrong|correct$|correctness")
        unused = [
            name
            for name in right
            if not wrong.search(_plainly(name)) and any(isinstance(cell, str | list) and cell for cell in free[name])
        ]
    if unused:
        listed = [*columns.paths["references"].split("\n"), *unused]
        several = " ".join(f"{option} {shlex.quote(f'references={name}')}" for name in listed)
        notes.append(f"not used: {', '.join(unused)}; if these are right answers too, give {several}")
    labels = [
        name
        for name, cells in free.items()
        if _plainly(name) in _LABELS
        and (texts := {str(cell).strip().lower() for cell in cells if cell is not None} - {""})
        and texts <= _BOOLEANS
    ]
    if option == "--map" and "label" not in columns.paths:
        notes += [f"column {name!r} looks like human labels; {option} label={name}" for name in labels]
    if "answer" in columns.guessed and not made:
        wide = wide_columns(records, taken - {columns.paths.get("answer", "")})
        if wide:
            notes.append(
                f"{', '.join(wide)} look like the answers of one release each; if they are, give {wide_option(wide)}"
            )

    # Columns that nothing is read from
    times = [name for name in free if name.casefold() in NO_UNIT and not made]
    notes += [f"not used: {name}, a time without a unit; call the column latency_s or latency_ms" for name in times]
    others = [name for name in free if name not in (*unused, *labels, *times)]
    if made:
        # A format may give a column by its own name beside the one that it is read as.
        others = [name for name in others if not all(_is_in_use(record, name, columns) for record in records)]
    if others:
        more = f" and {len(others) - _MOST_UNUSED} more" if len(others) > _MOST_UNUSED else ""
        notes.append(f"not used: {', '.join(others[:_MOST_UNUSED])}{more}")

    return [*notes, *_notes_on_references(columns, records, option)]


def _notes_on_references(columns: ColumnMap, records: Sequence[Record], option: str) -> list[str]:
    """What users are to know of references that may be several."""
    notes = []
    # In a tenth of the records, there are brief texts between separators
    single = [
        (row, text)
        for row, text in _texts_of(records, columns, "references")
        if not spells_list(text) and not is_blank(text)
    ]
    for name, separator in _SEPARATORS.items() if columns.references_as in ("text", "quoted") else ():
        with_it = [(row, text) for row, text in single if separator in text.strip()]
        parts = [part.strip() for _, text in with_it for part in text.strip().split(separator)]
        if with_it and len(with_it) * 10 >= len(single) and all(len(part) <= _LONGEST_PART for part in parts):
            row, text = with_it[0]
            notes.append(
                f"references that may be several are read as one text (row {row}: {_short(text)!r}); {option} "
                f"{shlex.quote(f'references-as={name}')} makes each part a reference"
            )
            break
    if columns.references_as == "list":
        return notes

    # The first text of each spelling
    first: dict[str, tuple[int, str]] = {}
    for row, text in _texts_of(records, columns, *_LISTS):
        spelling = _spelling(text).replace("texts", "list" if columns.references_as == "text" else "texts")
        first.setdefault(spelling, (row, text))
    if "texts" in first:
        row, text = first["texts"]
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
    for kind, (row, text) in first.items():
        if kind in remedies:
            noun = "an object" if kind == "object" else "a list"
            notes.append(
                f"references that look like {noun} are read as one text (row {row}: {_short(text)}); {remedies[kind]}"
            )
    return notes


def _is_in_use(record: Record, name: str, columns: ColumnMap) -> bool:
    """Whether a cell has nothing but what the record has at one of the paths."""
    found = [record.get(path) for paths in columns.paths.values() for path in paths.split("\n")]
    return record.get(name) in (None, *found, *(item for one in found if isinstance(one, list) for item in one))


def wide_columns(records: Sequence[Record], taken: Collection[str], *, by_texts: bool = False) -> list[str]:
    """Columns that each seem to have the answers of one release: named after models, or each an "answer".

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
    names = dict.fromkeys(name for record in records for name in record if name not in taken)
    free = [
        name
        for name in names
        if not re.search(f"{_RIGHT.pattern}|{_MEASURES.pattern}|incorrect|wrong|type$|id$", _plainly(name))
        and any(isinstance(record.get(name), str) for record in records)
    ]
    of_models = [name for name in free if _MODELS.search(name.casefold())]
    answers = [name for name in free if _ANSWERS.search(_plainly(name))]
    texts = [
        name
        for name in (free if by_texts else ())
        if any(re.search(r"[^\W\d]", str(record.get(name) or "")) for record in records)
    ]
    return next((found for found in (of_models, answers, texts) if len(found) > 1), [])


def tells_questions_apart(name: str, columns: ColumnMap) -> bool:
    """Tell whether an unused column may be about the question: its name says nothing of an answer.

    >>> columns = ColumnMap({"answer": "answer"}, (), ())
    >>> [tells_questions_apart(name, columns) for name in ("review", "answer", "latency_ms")]
    [True, False, False]
    """
    used = {path for paths in columns.paths.values() for path in paths.split("\n")}
    plain = _plainly(name)
    return name not in used and not (_MEASURES.search(plain) or _ANSWERS.search(plain) or _MODELS.search(plain))


def wide_option(names: Iterable[str]) -> str:
    """The option that reads each of these columns as the answers of a release.

    >>> wide_option(["gpt-4o", "claude 3"])
    "--wide 'gpt-4o,claude 3'"
    """
    return f"--wide {shlex.quote(','.join(names))}"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _recognised(paths: Mapping[Key, str], columns: Collection[str], settled: Collection[Key] = ()) -> dict[Key, str]:
    """The keys that have no path yet and are not `settled`, as far as columns have a usual name of theirs."""
    alike = {_plainly(name): name for name in reversed(list(columns))} | {name: name for name in columns}
    found: dict[Key, str] = {}
    for key, names in USUAL_NAMES.items():
        taken = {*(path for several in paths.values() for path in several.split("\n")), *found.values()}
        like = (_named(name, alike, taken, key in _LISTS) for name in names)
        path = next(filter(None, like), None)
        if key not in paths and key not in settled and path is not None:
            found[key] = path
    return found


def _named(name: str, alike: Mapping[str, str], taken: Collection[str], several: bool) -> str:
    """The column of a usual name; where there may be several, also `reference_2` and the like, one in each line."""
    plain = _plainly(name)
    found = [alike.get(name, alike.get(plain, ""))]
    if several:
        numbered = {int(one[len(plain) :]): one for one in alike if re.fullmatch(rf"{plain}[0-9]{{1,2}}", one)}
        found += [alike[numbered[n]] for n in sorted(numbered)]
    return "\n".join(dict.fromkeys(one for one in found if one and one not in taken))


def columns_in(record: Record, usual: ColumnMap) -> ColumnMap:
    """The columns of one record: where it lacks one that was guessed, or has one that none had before, its own names.

    >>> usual = ColumnMap({"answer": "response"}, (), ("answer",))
    >>> columns_in({"output": "Paris", "reference": "Paris"}, usual).paths
    {'answer': 'output', 'references': 'reference'}
    """
    kept = {
        key: path
        for key, path in usual.paths.items()
        if key not in usual.guessed or any(name in record for name in path.split("\n"))
    }
    own = _recognised(kept, record)
    if not own:
        return usual
    return replace(usual, paths={**usual.paths, **own}, guessed=tuple(dict.fromkeys((*usual.guessed, *own))))


def _plainly(name: str) -> str:
    """The name of a column without regard to case, blanks, underscores, hyphens and marks at its end.

    >>> _plainly("Ground Truth:"), _plainly("expectedOutput"), _plainly("expected_output")
    ('groundtruth', 'expectedoutput', 'expectedoutput')
    """
    return re.sub(r"[\s_-]+|[.:?*]+\s*$", "", name).casefold()


_USUAL = frozenset(_plainly(name) for names in USUAL_NAMES.values() for name in names)


def is_usual(name: str) -> bool:
    """Whether a column of this name is recognised."""
    return _plainly(name) in _USUAL


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
        again = [column_name(str(cell)) for cell in cells]
        if again == names:
            return False
        if {*again} == {*names}:
            raise UserError(f"{file}: the columns are named again, in another order; make two files of it")
    return not all(re.fullmatch(r"\s*:?-{2,}:?\s*", str(cell)) for cell in cells if cell)


def header_at(rows: Iterable[Sequence[str]]) -> int:
    """The index of the row with the names of columns: the first with two usual ones, if only shorter rows are above it.

    >>> header_at([["Results of March"], [], ["id", "answer"], ["1", "Paris"]])
    2
    """
    most = 0
    for index, cells in enumerate(rows):
        filled = [cell for cell in cells if cell.strip()]
        if sum(map(is_usual, filled)) > 1:
            return index if len(filled) > most else 0
        most = max(most, len(filled))
    return 0


def suggested(key: Key, records: Sequence[Record], taken: Collection[str]) -> tuple[str, str]:
    """The columns of the first `records`, and the one that is most likely meant by `key`: COLUMN where none is.

    >>> suggested("answer", [{"id": 1, "model_answer": "x", "note": ""}], ["id"])
    ('id, model_answer, note', 'model_answer')
    >>> suggested("answer", [{"Reference Answer": "x", "Model": "y", "Answer text": "x"}], [])[1]
    'Answer text'
    """
    names = list(dict.fromkeys(path for record in records for path in _paths(record)))
    free = {_plainly(name): name for name in names if name not in taken}
    usual = [_plainly(name) for name in usual_names(key)]
    # "Reference Outputs" are right answers, and not those of a release; "model_answer" is not a right one.
    other = _GIVEN if key == "references" else _RIGHT
    free = {one: name for one, name in free.items() if not other.search(one)}
    if key == "answer":
        free = {one: name for one, name in free.items() if not re.search("input|messages", one)}
    near = [one for one in free if any(name in one for name in usual if len(name) > 4)]
    near += [match for name in usual for match in difflib.get_close_matches(name, free, 1, 0.75)]
    best = free[near[0]] if near else next(iter(free.values())) if len(free) == 1 else "COLUMN"
    return ", ".join(names), best


def _paths(record: Record) -> Iterator[str]:
    """The columns of a record, and what is in the objects among them."""
    for name, cell in record.items():
        yield from (f"{name}.{key}" for key in cell) if isinstance(cell, Mapping) and cell else (name,)


def with_other_columns(records: Iterable[Record], paths: Collection[str]) -> Iterator[Record]:
    """The records with a column, or something at one of these paths, that no record before them has.

    >>> list(with_other_columns([{"a": 1}, {"a": 2}, {"a": {"b": 1}}, {"c": 1}], ["a.b"]))
    [{'a': 1}, {'a': {'b': 1}}, {'c': 1}]
    """
    names, wanted = set[str](), set(paths)
    for record in records:
        if found := {path for path in wanted if is_there(record, path, but_null=True)}:
            wanted -= found
        elif record.keys() <= names:
            continue
        if len(names) > _MOST_COLUMNS:
            return
        names |= record.keys()
        yield record


def lookup(record: Record, path: str) -> Any:
    """The value at a path: a column's literal name, or dots and indices (`meta.refs.0`, `$.meta.refs[0]`).

    Texts on the way that hold JSON are read as JSON. Names may have dots in them, at any step; of several ways that a
    path may be read, the one counts whose last names are the shortest. A name in double quotes is one name.
    In a list of objects with `key` and `value`, as OTLP writes attributes, a name stands for the value of that key.
    Returns a private marker where nothing is there; use `value` for None instead.

    >>> span = {"attributes": [{"key": "llm.model_name", "value": {"stringValue": "tiny"}}]}
    >>> lookup(span, "attributes.llm.model_name")
    'tiny'
    >>> lookup({"info": {"mlflow.traceInputs": '{"question": "Why?"}'}}, "info.mlflow.traceInputs.question")
    'Why?'

    Raises:
        ValueError: such a text has an object that has a key twice.
    """
    if path in record:
        return record[path]
    way = steps(path)
    reached: dict[int, Any] = {0: record}
    for start in range(len(way)):
        here = reached.get(start)
        if isinstance(here, str):
            here = spelled(here)
        if isinstance(here, list):
            if way[start].isdecimal() and int(way[start]) < len(here):
                reached[start + 1] = here[int(way[start])]
            attributes = [one for one in here if isinstance(one, Mapping) and one.keys() == {"key", "value"}]
            here = {one["key"]: _plain(one["value"]) for one in attributes if isinstance(one["key"], str)}
        if isinstance(here, Mapping):
            for end in range(start + 1, len(way) + 1):
                if (name := ".".join(way[start:end])) in here:
                    reached[end] = here[name]
    return reached.get(len(way), _MISSING) if way else _MISSING


def _plain(found: Any) -> Any:
    """The value of an attribute of OTLP, which says its type: `{"stringValue": "tiny"}`."""
    if not isinstance(found, Mapping) or len(found) != 1 or not (name := next(iter(found))).endswith("Value"):
        return found
    if name == "arrayValue" and isinstance(found[name], Mapping):
        return list(map(_plain, found[name].get("values", [])))
    return found[name]


def steps(path: str) -> list[str]:
    """The names and indices of a path, in order: `$.meta.refs[0]` is meta, refs, 0; `"a.b".c` is a.b, c."""
    found = re.findall(r'"([^"]+)"(?=[.\[\]]|$)|([^.\[\]]+)', path.removeprefix("$"))
    return [quoted or plain for quoted, plain in found]


def path_of(names: Iterable[str]) -> str:
    """The path whose steps are these names.

    >>> path_of(["attributes", "llm.model_name"])
    'attributes."llm.model_name"'
    """
    return ".".join(f'"{name}"' if "." in name and '"' not in name else name for name in names)


def is_there(record: Record, path: str, *, but_null: bool = False) -> bool:
    """Whether anything is at a path, also if it cannot be read."""
    try:
        found = lookup(record, path)
    except ValueError:
        return True
    return found is not _MISSING and not (but_null and found is None)


def value(record: Record, path: str | None) -> Any:
    """The value at a path, None where there is none.

    Raises:
        ValueError: as `lookup`.
    """
    found = _MISSING if path is None else lookup(record, path)
    return None if found is _MISSING else found


def as_text(found: Any) -> str | None:
    """A value as the text it stands for; None stays None.

    An object with a single text in it is that text (`{"content": "Paris"}`).

    Raises:
        ValueError: a list or an object that is not one text.
    """
    if isinstance(found, str | None):
        return found and str(found)
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, float):
        # NaN is how pandas writes "nothing"
        return None if math.isnan(found) else _number_text(found)
    if isinstance(found, Mapping):
        if len(found) == 1 and isinstance(text := next(iter(found.values())), str):
            return text
        raise ValueError(f"is an object with {', '.join(map(str, found)) or 'nothing'}; map a path into it")
    if isinstance(found, (list, tuple, set)):
        raise ValueError("is a list; map one item of it")
    if isinstance(found, bytes):
        raise ValueError("is binary data; write it as text")
    if isinstance(found, UnreadableCell):
        raise ValueError(f"is not known: {found.reason}")
    # Tables have dates as times
    return str(found).removesuffix(" 00:00:00")


def _number_text(number: float) -> str:
    """A number of a table as people write it, who would not have 5.0 for 5, nor the digits that 32 bits add.

    >>> _number_text(5.0), _number_text(2.5), _number_text(0.10000000149011612), _number_text(0.1 + 0.2)
    ('5', '2.5', '0.1', '0.30000000000000004')
    """
    import numpy as np

    # A number of so many digits that fits 32 bits has hardly ever been another one; longer ones have exponents
    short = np.float32(number) if 15 < len(str(number)) < 22 else number
    return str(short if float(short) == number else number).removesuffix(".0")


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


def as_texts(found: Any, spelled_as: str = "list") -> list[str]:
    """A list, a JSON or Python list in a text, or a single text, as texts. Nulls in it are dropped.

    Args:
        spelled_as: what a text is that spells a list, as `ColumnMap.references_as`.

    Raises:
        ValueError: an item is not a text, or an object in it has a key twice.
    """
    if isinstance(found, str) and spelled_as in _SEPARATORS:
        return [part.strip() for part in found.split(_SEPARATORS[spelled_as]) if part.strip()]
    if isinstance(found, str) and spells_list(found) and spelled_as != "text":
        # A list that is not of texts stays one text, unless it is asked for
        items = as_list(found)
        found = items if spelled_as in ("list", "lists") or _are_texts(found, items) else found
    items = found if isinstance(found, (list, tuple, set)) else [found]
    return [text for item in items if (text := as_text(item)) is not None]


def context_of(record: Record, columns: ColumnMap) -> tuple[str, ...]:
    """The passages that an answer was to rest on, without blank ones.

    Raises:
        ValueError: as `texts_at`, where the user named the column.
    """
    if "context" not in columns.paths:
        return ()
    try:
        return tuple(text for text in texts_at(record, columns, "context") if not is_blank(text))
    except ValueError:
        # A guessed column that is no list of passages: some data sets have another kind of "context".
        if "context" in columns.guessed:
            return ()
        raise


def text_at(record: Record, paths: Mapping[Key, str], key: Key) -> str | None:
    """The text of a key, without lone surrogates.

    Raises:
        ValueError: it is not a text.
    """
    if key not in paths:
        return None
    try:
        return clean(as_text(value(record, paths[key])))
    except ValueError as error:
        raise ValueError(f"{key} ({paths[key]}) {error}") from error


def texts_at(record: Record, columns: ColumnMap, key: Key) -> tuple[str, ...]:
    """The texts of a key.

    Raises:
        ValueError: it is not a list of texts.
    """
    spelled_as = columns.references_as if key in _LISTS else "list"
    texts: list[str] = []
    paths = columns.paths[key].split("\n") if key in columns.paths else []
    for path in paths:
        try:
            texts += [clean(text) or "" for text in as_texts(value(record, path), spelled_as)]
        except ValueError as error:
            raise ValueError(f"{key} ({path}) {error}") from error
    # Of several columns, most rows fill in only some.
    return tuple(texts if len(paths) < 2 else (text for text in texts if not is_blank(text)))


@lru_cache(maxsize=1_000)
def release_name(text: str) -> str:
    r"""The name of a release, composed (NFC) and without blanks around it: names that look alike are one.

    Raises:
        ValueError: it has a character that cannot be seen: a line break, or a mark that turns the direction of text.

    >>> release_name(" gpt-4 "), len("e\u0301"), len(release_name("e\u0301"))
    ('gpt-4', 2, 1)
    """
    name = unicodedata.normalize("NFC", text.strip())
    if hidden := next((one for one in name if unicodedata.category(one) in _HIDDEN), ""):
        raise ValueError(f"the release {name!r} has a character that cannot be seen, U+{ord(hidden):04X}; remove it")
    return name


def clean(text: str | None) -> str | None:
    """Lone surrogates, which no file format can hold, become U+FFFD for validation to find."""
    if text is None or text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
