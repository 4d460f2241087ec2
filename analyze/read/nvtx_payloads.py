"""What the payloads of NCCL's NVTX ranges say: communicator, bytes, peer, root.

A newer nsys (2026.3 was seen to) decodes them itself and writes NVTX_EVENTS.jsonText, an object by the names of the
entries. Others write the layout into tables and the values into NVTX_EVENTS.binaryData, if they export with
--include-blobs=true. A value begins with four little-endian integers of eight bytes (domain, schema, bytes of the
payload, and where it begins or all ends); behind them the payload lies as its schema says:

    |  domain  |  schema  |   24   | 32 or 56 | communicator | message size | peer | ---- |
    0          8          16       24         32             40             48     52     56

Nothing of NVIDIA's documents this; two readers by others agree on it, and no real file with such values was at hand
here. So a value is decoded only where all of its parts agree with the schema, and counted as lost otherwise.
"""

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from ...errors import CorruptInputError
from .nsys_processes import PROCESS_MASK
from .nsys_tables import Export
from .staging import Staging

DOMAIN = "NCCL"
_HEADER = struct.Struct("<4Q")
_LOW = 0xFFFFFFFF
_LONGEST = 4096
_AT_ONCE = 65_536
_MOST_RANKS = 1_000_000
# NVTX_PAYLOAD_ENTRY_TYPE_* of nvToolsExtPayload.h, on 64-bit Linux
_FORMATS = {5: "i", 6: "I", 7: "q", 8: "Q", 9: "q", 10: "Q", 15: "i", 16: "I", 17: "q", 18: "Q", 22: "Q"}
# entries of NCCL's nvtx_payload_schemas.h
_NAMES = {
    "NCCL communicator ID": "communicator", "Message size [bytes]": "bytes", "Peer rank": "peer", "Root": "root",
    "Rank": "rank", "No. of ranks": "rank_cnt",
}  # fmt: skip

_UNSIGNED = {"communicator", "bytes"}
_ENCLOSING = (59, 60, 70, 71)  # events of NVTX that are ranges

Values = dict[str, int]
_Row = tuple[int, int, int, bytes | None, str | None]  # start, thread, domain, and the value in one of two forms


@dataclass(frozen=True)
class Schema:
    """The layout of a payload: its bytes, and of the values that are of interest the format and the place."""

    size: int
    fields: tuple[tuple[str, struct.Struct, int], ...]

    def has(self, *names: str) -> bool:
        """Whether it has all of these values."""
        return set(names) <= {name for name, *_ in self.fields}

    def decode(self, domain: int, number: int, value: bytes) -> Values | None:
        """The values, None where the bytes do not agree with this layout."""
        if len(value) < _HEADER.size + self.size:
            return None
        said_domain, said_number, size, place = _HEADER.unpack_from(value)
        if (said_domain & _LOW, said_number & _LOW, size) != (domain, number, self.size):
            return None
        if place not in (_HEADER.size, _HEADER.size + size):
            return None
        return {name: form.unpack_from(value, _HEADER.size + at)[0] for name, form, at in self.fields}


@dataclass
class _Found:
    """Calls with what their payloads say, and the communicators that were made."""

    calls: list[tuple[int, int, Values]] = field(default_factory=list)
    made: dict[tuple[int, int], tuple[int | None, int | None]] = field(default_factory=dict)
    unknown_cnt: int = 0


def read(export: Export, staging: Staging) -> None:
    """Stage the payloads of an export; facts say what is missing and what cannot be read. Raises nothing for either."""
    domains = set(staging.database.rows(f"select process_id, domain_id from nvtx_domain where text = '{DOMAIN}'"))
    if not domains or not _forms(export):
        return
    try:
        schemas = _schemas(export)
        found = _decoded(export, schemas, domains)
    except CorruptInputError as error:
        staging.fact("lost", "payloads of NCCL", str(error))
        return
    if found.unknown_cnt:
        staging.fact("lost", "payloads of NCCL", found.unknown_cnt, "of an unknown layout")
    if schemas and not found.calls and not found.unknown_cnt:
        why = "bytes and communicators of NCCL are not in the file: nsys export --include-blobs=true"
        staging.fact("missing", "payloads of NCCL", "no values", why)
    _note_rank(staging, found)
    _stage(staging, found)


def ranks(export: Export) -> dict[int, int]:
    """The rank of each process in the largest communicator that it made; empty where none is recorded."""
    events = export.columns.get("NVTX_EVENTS", {})
    if not {"domainid", "eventtype", "globaltid"} <= events.keys() or "StringIds" not in export.columns:
        return {}
    text = f"select value from StringIds where id = {events['textid']}" if "textid" in events else "null"
    try:
        schemas = {key: schema for key, schema in _schemas(export).items() if schema.has("rank", "rank_cnt")}
        domains = export.select(
            f"select distinct globalTid & {PROCESS_MASK}, domainId from NVTX_EVENTS "
            f"where eventType = 75 and coalesce(text, ({text})) = '{DOMAIN}' and typeof(globalTid) = 'integer'"
        )
        made = _decoded(export, schemas, set(domains)).made if domains else {}
    except CorruptInputError:
        return {}  # whoever reads its payloads says so
    return {process: rank for process, (_, rank, _) in _places(made).items()}


def _places(made: dict[tuple[int, int], tuple[int | None, int | None]]) -> dict[int, tuple[int, int, int]]:
    """By process of the communicators that it made the size of the largest one, the rank in it, and which it is."""
    largest: dict[int, tuple[int, int, int]] = {}
    for (process, communicator), (count, rank) in made.items():
        if count is not None and rank is not None and 0 <= rank < count <= _MOST_RANKS:
            largest[process] = max(largest.get(process, (0, 0, 0)), (count, rank, communicator))
    return largest


def _note_rank(staging: Staging, found: _Found) -> None:
    """Which rank of how many an export of one process is: in the largest communicator that the process made."""
    if len(places := _places(found.made)) == 1:
        ((count, rank, communicator),) = places.values()
        staging.set_source("rank", rank)
        staging.set_source("world_size", count)
        said = f"rank {rank} of {count}"
        staging.fact("about", "rank in NCCL's largest communicator", said, f"communicator 0x{communicator:016x}")


def _forms(export: Export) -> dict[str, str]:
    """The forms of values that a file may have, and the SQL of each: at most _LONGEST of it, NULL for what is none."""
    events = export.columns.get("NVTX_EVENTS", {})
    forms = {}
    if "binarydata" in events:
        forms["blob"] = f"iif(typeof(binaryData) = 'blob', substr(binaryData, 1, {_LONGEST}), null)"
    if "jsontext" in events:
        elsewhere = "jsontextid" in events and "StringIds" in export.columns
        text = "coalesce(jsonText, (select value from StringIds where id = jsonTextId))" if elsewhere else "jsonText"
        forms["json"] = f"iif(typeof({text}) = 'text', substr({text}, 1, {_LONGEST}), null)"
    return forms


def _schemas(export: Export) -> dict[tuple[int, int], Schema]:
    """Layouts by domain and number; those that are not the same in all processes are left out."""
    if not {"NVTX_PAYLOAD_SCHEMAS", "NVTX_PAYLOAD_SCHEMA_ENTRIES"} <= export.columns.keys():
        return {}
    sizes: dict[tuple[int, int], set[int]] = {}
    for domain, number, size in export.select("select domainId, schemaId, payloadSize from NVTX_PAYLOAD_SCHEMAS"):
        sizes.setdefault((domain, number), set()).add(size)
    entries: dict[tuple[int, int], dict[int, set[tuple[Any, ...]]]] = {}
    statement = 'select domainId, schemaId, idx, name, type, flags, "offset" from NVTX_PAYLOAD_SCHEMA_ENTRIES'
    for domain, number, place, *entry in export.select(statement):
        entries.setdefault((domain, number), {}).setdefault(place, set()).add(tuple(entry))
    known = {}
    for key, listed in entries.items():
        size = sizes.get(key, set())
        if len(size) == 1 and isinstance(least := min(size), int) and all(len(same) == 1 for same in listed.values()):
            fields = tuple(_fields(least, {place: min(same) for place, same in listed.items()}))
            known[key] = Schema(least, fields)
    return known


def _fields(size: int, listed: dict[int, tuple[Any, ...]]) -> Iterator[tuple[str, struct.Struct, int]]:
    """Of the entries those that are of interest and lie inside; nsys leaves the place of the first one out."""
    for place, (name, kind, flags, offset) in listed.items():
        at = 0 if offset is None and place == 0 else offset
        if name in _NAMES and kind in _FORMATS and not flags and isinstance(at, int):
            form = struct.Struct("<" + _FORMATS[kind])
            if 0 <= at <= size - form.size:
                yield _NAMES[name], form, at


def _decoded(export: Export, schemas: dict[tuple[int, int], Schema], domains: set[tuple[int, int]]) -> _Found:
    found, after, forms = _Found(), -(1 << 62), _forms(export)
    blob = forms.get("blob", "null") if schemas else "null"
    text = forms.get("json", "null")
    while rows := export.select(
        f"select rowid, start, globalTid, domainId, {blob} as value, {text} as said from NVTX_EVENTS "
        f"where rowid > {after} and coalesce(value, said) is not null and eventType in {_ENCLOSING} "
        "and typeof(start) = 'integer' and typeof(globalTid) = 'integer' and typeof(domainId) = 'integer' "
        f"order by rowid limit {_AT_ONCE}"
    ):
        after = rows[-1][0]
        for _, start, thread, domain, value, said in rows:
            process = thread & PROCESS_MASK
            if (process, domain) in domains and export.process in (None, process):
                _note(found, schemas, process, (start, thread, domain, value, said))
    return found


def _note(found: _Found, schemas: dict[tuple[int, int], Schema], process: int, row: _Row) -> None:
    start, thread, domain, value, said = row
    values = _of_json(said) if value is None else _of_blob(schemas, domain, value)
    if values is None:
        found.unknown_cnt += 1
        return
    if "communicator" in values and "rank_cnt" in values:
        found.made[process, values["communicator"]] = values["rank_cnt"], values.get("rank")
    found.calls.append((start, thread, values))


def _of_blob(schemas: dict[tuple[int, int], Schema], domain: int, value: bytes) -> Values | None:
    """The values of a payload, None where no schema fits."""
    number = _HEADER.unpack_from(value)[1] & _LOW if len(value) >= _HEADER.size else -1
    schema = schemas.get((domain, number))
    return schema.decode(domain, number, value) if schema else None


def _of_json(said: str | None) -> Values | None:
    """The values that nsys has decoded, None where it is no object or a value is out of range."""
    try:
        entries = json.loads(said or "")
    except (ValueError, RecursionError):
        return None
    if not isinstance(entries, dict):
        return None
    values = {ours: entries[name] for name, ours in _NAMES.items() if name in entries}
    return values if all(_fits(name, value) for name, value in values.items()) else None


def _fits(name: str, value: object) -> bool:
    """Whether it is an integer of 64 bits, with a sign or without one."""
    least, end = (0, 1 << 64) if name in _UNSIGNED else (-(1 << 63), 1 << 63)
    return type(value) is int and least <= value < end


def _stage(staging: Staging, found: _Found) -> None:
    rows = []
    for start, thread, values in found.calls:
        communicator = values.get("communicator")
        rank_cnt, rank = found.made.get((thread & PROCESS_MASK, communicator or 0), (None, None))
        said = values.get("bytes")
        rows.append({
            "thread_id": thread, "start_ns": start, "bytes": said if said is not None and said < 1 << 63 else None,
            "communicator": f"0x{communicator:016x}" if communicator else None,
            "rank_cnt": rank_cnt, "rank": rank, "peer": values.get("peer"), "root": values.get("root"),
        })  # fmt: skip
    if rows:
        numbers = ("thread_id", "start_ns", "bytes", "rank_cnt", "rank", "peer", "root")
        schema = pa.schema([*((name, pa.int64()) for name in numbers), ("communicator", pa.string())])
        connection = staging.database.connection
        connection.register("decoded", pa.Table.from_pylist(rows, schema))
        connection.execute("insert into nccl_payload by name from decoded")
        connection.unregister("decoded")
