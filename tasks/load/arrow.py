"""Arrow and Feather files, and data sets of Hugging Face `datasets` that were saved to disk."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from answerkey.metrics_core.errors import UserError


def arrow_records(file: Path) -> Iterator[Mapping[str, Any]]:
    """The rows of an Arrow file, or of a stream of Arrow data in a file, which `datasets` writes.

    Raises:
        UserError: it is neither, it is cut off, or two columns have one name.
    """
    import pyarrow as pa

    with file.open("rb") as content:
        framed = content.read(6) == b"ARROW1"
    try:
        with pa.memory_map(str(file)) as source:
            if framed:
                reader = pa.ipc.open_file(source)
                batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
            else:
                reader = pa.ipc.open_stream(source)
                batches = iter(reader)
            names = reader.schema.names
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise UserError(f"{file}: several columns are called {', '.join(twice)}; rename all but one")
            for batch in batches:
                # Places in a damaged file may lead out of it, and out of the memory of this process.
                batch.validate(full=True)
                yield from batch.to_pylist()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        why = str(error).strip().split("\n", 1)[0]
        raise UserError(f"{file}: no Arrow file, or one that is cut off or damaged ({why}); write it again") from error


def dataset_files(folder: Path) -> list[str] | None:
    """The files with the rows of a data set that `save_to_disk` of `datasets` wrote; None of any other folder.

    Raises:
        UserError: it has several splits, of which one is to be chosen, or a file of it is missing.
    """
    if (splits := _json(folder / "dataset_dict.json").get("splits")) is not None:
        if len(splits) != 1:
            names = ", ".join(map(str, splits)) or "none"
            raise UserError(f"{folder}: a data set with the splits {names}; name one, {folder}/SPLIT")
        folder /= str(splits[0])
    files = _json(folder / "state.json").get("_data_files")
    if files is None:
        return None
    found = [str(folder / file["filename"]) for file in files]
    if missing := [file for file in found if not Path(file).is_file()]:
        raise UserError(
            f"{folder}: the file {Path(missing[0]).name} of this data set is missing; copy all of the folder"
        )
    return found


def _json(file: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
