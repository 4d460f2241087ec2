"""What the hardware counters of the GPUs said: nsys profile --gpu-metrics-devices.

A row of GPU_METRICS is one metric of one GPU at one sample:

    timestamp | typeId | metricId | value        TARGET_INFO_GPU_METRICS: typeId | metricId | metricName
      1000000 | ...0   |       11 |    83                                 ...0   |       11 | SMs Active [Throughput %]
      1100000 | ...0   |       11 |    85        the lowest byte of typeId is nsys' number of the GPU

Before nsys 2023.4 or so a row of GENERIC_EVENTS is one sample with all its metrics: {"SM Active": 83, ...}.

NVIDIA's recipe gpu_metric_util_map reads a value as that of the time until the next one. Values are whole numbers:
percentages of what the device can do at most, and clocks in Hz whatever their name says. The other units that nsys
writes (cycles, warps, requests, bytes) say the same again or nothing of a kernel, and are left out.

NVIDIA documents the tables, not the values; what is read here agrees with what many readers by others take for given.
No real file with counters was at hand.
"""

import json
import re
from collections.abc import Iterable
from itertools import islice

from ...errors import CorruptInputError
from .nsys_devices import Device
from .nsys_loading import Load, load_table
from .nsys_tables import Export, Table
from .staging import Staging

TABLE = "GPU_METRICS"
_TABLE = Table(TABLE, ("metricId", "value"), ("timestamp", "rawTimestamp", "typeId"))
_NAMES = "TARGET_INFO_GPU_METRICS"
_EVENTS = Table("GENERIC_EVENTS", ("typeId",), ("timestamp", "rawTimestamp"), ("data",))
_SOURCE = "GpuMetrics"  # of GENERIC_EVENT_SOURCES
GPU_MASK = 0xFF  # of a type: nsys' number of the GPU
_MOST_NAMES = 10_000  # a GPU has some hundred
_FIRST = 100  # samples, of which one may lack a metric
_NAME = re.compile(r"\s*(?P<name>[^\[]*[^\[\s])\s*(\[(?P<unit>[^\]]*)\])?\s*")
_COUNTS = re.compile(r"(?i)\bstarted$|\brequests to\b")  # of names without a unit those that are no percentages

Ordinals = dict[object, object]
Named = tuple[int, int | None, str, object, str, bool]  # type, metric, text, device, name, whether it is a clock


def read(export: Export, staging: Staging, listed: Iterable[Device]) -> None:
    """Load the samples of the devices that the input uses; notes how many, and what is lost."""
    # where no devices are listed both call them alike
    ordinals = {device.gpu_id: device.ordinal for device in listed} or {
        number: number for number in range(GPU_MASK + 1)
    }
    try:
        if _TABLE.name in export.columns:
            kept = _load(export, staging, _TABLE, "nsys_metric_sample", _of_table(export, ordinals))
        elif names := _of_events(export, ordinals):
            kept = _load(export, staging, _EVENTS, "nsys_metric_event", names)
        else:
            return
    except CorruptInputError as error:  # nothing else hangs on them
        staging.fact("lost", "GPU counters", str(error))
        return
    if not kept and not export.size(_TABLE.name if _TABLE.name in export.columns else _EVENTS.name):
        return
    said = "metric_summary" if kept else "not read: none is a percentage or a clock of a GPU that the program uses"
    staging.fact("holds", "samples of GPU counters", kept, said)


def _load(export: Export, staging: Staging, table: Table, file: str, names: list[Named]) -> int:
    """Stream a table; returns how many values were kept."""
    if not names:
        return 0
    staging.create_table(
        "metric",
        "type_id bigint, metric_id bigint, text varchar, device_id integer, name varchar, is_clock boolean",
    )
    staging.database.connection.executemany("insert into metric values (?, ?, ?, ?, ?, ?)", names)
    staging.intern("select name from metric")
    staging.define("metric_value", "number, is_clock", "nsys_metric_value")
    kept = load_table(export, Load(table, file, "gpu_metric_sample", is_chosen=True, is_noted=False), staging)
    staging.drop("metric")
    return kept


def _of_table(export: Export, ordinals: Ordinals) -> list[Named]:
    """The metrics that are read of GPU_METRICS."""
    has = export.columns.get(_NAMES, {})
    if not {"metricid", "metricname"} <= has.keys():
        raise CorruptInputError(f"there is no {_NAMES} to say what the numbers of metrics mean")
    type_id = has.get("typeid", "0")
    return _read_ones(
        export.select(
            f"select distinct {type_id}, metricId, metricName from {_NAMES} where typeof({type_id}) = 'integer' "
            f"and typeof(metricId) = 'integer' and typeof(metricName) = 'text' limit {_MOST_NAMES}"
        ),
        ordinals,
    )


def _of_events(export: Export, ordinals: Ordinals) -> list[Named]:
    """The metrics that are read of GENERIC_EVENTS: those of the first samples of each type."""
    has = export.columns
    if (
        not {"typeid", "data"} <= has.get(_EVENTS.name, {}).keys()
        or not {"sourceid", "data"} <= has.get("GENERIC_EVENT_SOURCES", {}).keys()
        or not {"sourceid", "typeid"} <= has.get("GENERIC_EVENT_TYPES", {}).keys()
    ):
        return []
    sources = [
        number
        for number, told in export.select(
            "select sourceId, data from GENERIC_EVENT_SOURCES where typeof(sourceId) = 'integer'"
        )
        if _parsed(told).get("Name") == _SOURCE
    ]
    found = []
    for (kind,) in export.select(
        "select distinct typeId from GENERIC_EVENT_TYPES where typeof(typeId) = 'integer' "
        f"and sourceId in ({', '.join(map(str, sources)) or 'null'}) limit {_MOST_NAMES}"
    ):
        for (told,) in export.select(f"select data from {_EVENTS.name} where typeId = {kind} limit {_FIRST}"):
            found += [(kind, None, text) for text in islice(_parsed(told), _MOST_NAMES)]
    return _read_ones(found, ordinals)


def _parsed(told: object) -> dict[str, object]:
    """An object of JSON; an empty one for anything else."""
    try:
        value = json.loads(told) if isinstance(told, str) else None
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _read_ones(rows: Iterable[tuple[int, int | None, str]], ordinals: Ordinals) -> list[Named]:
    """Of (type, metric, text) those that are fractions or clocks of devices that are in use."""
    found = {}
    for kind, metric, text in rows:
        parts = _NAME.fullmatch(text)
        if parts is None or (kind & GPU_MASK) not in ordinals:
            continue
        unit = parts["unit"] or ("" if _COUNTS.search(parts["name"]) else "%")
        is_clock = "clock" in text.lower()
        if is_clock or "%" in unit:
            found[kind, metric, text] = (kind, metric, text, ordinals[kind & GPU_MASK], parts["name"], is_clock)
    return list(found.values())
