"""The records of --data as they lie in files, and a look at the first of them before anything is loaded."""

import itertools
import json
from pathlib import Path
from typing import Any

from ...errors import InputError
from . import conversations

LOOKED_AT = 100


def read_jsonl(path: Path, most: int | None = None) -> list[Any]:
    """The records of a file, or the first so many. Raises InputError for a line that is not JSON."""
    records = []
    try:
        with path.open(encoding="utf-8") as file:
            filled = ((number, line) for number, line in enumerate(file, 1) if line.strip())
            for number, line in itertools.islice(filled, most):
                try:
                    records.append(json.loads(line))
                except json.JSONDecodeError as error:
                    raise InputError(f"--data {path}, line {number} is not JSON: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read --data {path}: {error}") from error
    return records


def dataset_files(path: Path) -> list[Path]:
    """The Arrow files of a folder that datasets' save_to_disk wrote. Raises InputError for another one."""
    files = sorted(path.glob("train/data-*.arrow")) or sorted(path.glob("data-*.arrow"))
    if not files:
        raise InputError(f"--data {path} is neither a .jsonl nor a folder that datasets' save_to_disk wrote")
    return files


def check_object(record: Any, where: str) -> None:
    """Raise InputError for a record that is none."""
    if not isinstance(record, dict):
        raise InputError(f"{where} is not an object; write {{'text': …}} or {{'input_ids': […]}}")


def unknown(where: str) -> InputError:
    """What is said of a record without any of the keys that can be trained."""
    return InputError(f"{where} is none of what can be trained: {conversations.FORMATS}")


def check(path: Path) -> None:
    """Raise InputError for data whose first records cannot be trained with any model: no model is asked."""
    if path.is_dir():
        dataset_files(path)
        return
    records = read_jsonl(path, LOOKED_AT)
    if not records:
        raise InputError(f"{path} holds no records")
    for number, record in enumerate(records, 1):
        where = f"{path}, record {number}"
        check_object(record, where)
        ids = record.get("input_ids")
        if ids is None:
            if conversations.text_of(record, None, where) is None:
                raise unknown(where)
        elif not isinstance(ids, list) or not all(type(word) is int and word >= 0 for word in ids):
            raise InputError(f"{where}: input_ids must be a list of whole numbers, none below 0")
