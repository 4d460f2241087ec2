"""The file of what one input hands on: a compressed row of Arrow streams, each the rows of one table or view.

One file and not one for each view, because a thousand ranks would leave thirty thousand, of which most bytes are the
descriptions of columns; compressed together those take next to nothing. Texts that repeat are numbers of a list in the
file: of 1,000 ranks that spares 4 of 52 MB. LZMA spares another 9 % beside zstd's level 19 and takes as long.
"""

import json
import lzma
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from ... import unfinished
from ...errors import CorruptInputError, OutputError

_NAME = b"lorabench.name"
_HEADER = "header"
_FORMER_SUFFIX = ".zst"
_LEVEL = 9 | lzma.PRESET_EXTREME
_INDICES = ((pa.int8(), 1 << 7), (pa.int16(), 1 << 15), (pa.int32(), 1 << 31))
_MANY, _REPEATED = 64, 0.7  # rows from which, and distinct texts up to which part of them, texts are listed once


def write(path: Path, header: dict[str, Any], tables: Mapping[str, pa.Table], names: Iterable[str]) -> None:
    """Write some tables; those without rows are left out. Raises OutputError when the disk refuses."""
    partial = unfinished.beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        out = pa.BufferOutputStream()
        _put(out, _HEADER, pa.table({"header": [json.dumps(header)]}))
        for name in names:
            if name in tables and tables[name].num_rows:
                _put(out, name, _listed(_plain(tables[name])))
        partial.write_bytes(lzma.compress(out.getvalue(), preset=_LEVEL))
        partial.replace(path)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)


def _put(out: Any, name: str, table: pa.Table) -> None:
    schema = table.schema.with_metadata({_NAME: name.encode()})
    with pa.ipc.new_stream(out, schema) as stream:
        stream.write_table(table.replace_schema_metadata({_NAME: name.encode()}))


def _plain(table: pa.Table) -> pa.Table:
    """The table with texts in the place of enums, whose numbers may differ from file to file; of one piece."""
    if not any(pa.types.is_dictionary(field.type) for field in table.schema):
        return table.combine_chunks()
    fields = [field.with_type(pa.string()) if pa.types.is_dictionary(field.type) else field for field in table.schema]
    return table.cast(pa.schema(fields)).combine_chunks()


def _listed(table: pa.Table) -> pa.Table:
    """The table with texts that repeat as numbers of a list."""
    for place, field in enumerate(table.schema):
        if table.num_rows >= _MANY and pa.types.is_string(field.type):
            column = table.column(place).combine_chunks().dictionary_encode()
            if len(column.dictionary) <= _REPEATED * table.num_rows:
                kind = next(kind for kind, most in _INDICES if len(column.dictionary) <= most)
                few = pa.DictionaryArray.from_arrays(column.indices.cast(kind), column.dictionary)
                table = table.set_column(place, field.name, few)
    return table


def header(path: Path) -> dict[str, Any] | None:
    """What a result was made of, by whichever version; None where there is no readable one."""
    try:
        with pa.CompressedInputStream(str(path), "zstd") if path.suffix == _FORMER_SUFFIX else lzma.open(path) as file:
            found: dict[str, Any] = json.loads(pa.ipc.open_stream(file).read_all()["header"][0].as_py())
            return found
    except (OSError, EOFError, lzma.LZMAError, ValueError, KeyError, IndexError):
        return None


def read_one(path: Path, name: str) -> pa.Table | None:
    """One table of a result, None where it has no rows. Raises CorruptInputError for a file that is damaged."""
    return next((table for found, table in read(path) if found == name), None)


def read(path: Path) -> Iterator[tuple[str, pa.Table]]:
    """The tables of a result by name. Raises CorruptInputError for a file that is damaged."""
    try:
        with lzma.open(path) as file:
            buffer = pa.py_buffer(file.read())
        left = pa.BufferReader(buffer)
        while left.tell() < buffer.size:
            stream = pa.ipc.open_stream(left)
            yield stream.schema.metadata[_NAME].decode(), _plain(stream.read_all())
    except (OSError, EOFError, lzma.LZMAError, ValueError, KeyError, TypeError) as error:
        raise CorruptInputError(
            f"{path} is damaged: {str(error).splitlines()[0]}; remove it and analyze again"
        ) from error
