"""Reads an `nsys export --type sqlite` file into the staged tables."""

import re
from pathlib import Path

import pyarrow as pa

from ...errors import CorruptInputError, UnknownFormatError
from . import not_collected, nsys_metrics, nsys_stacks, nvtx_payloads
from .nsys_devices import devices
from .nsys_loading import Load, load_table
from .nsys_processes import PROCESS_MASK, pid_of
from .nsys_tables import WHAT_TO_DO, Export, Table
from .staging import Staging

_KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
_MOVES = {"CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"}
_WARNING, _LONGEST_WARNING, _MOST_WARNINGS = 2, 400, 20  # of ENUM_DIAGNOSTIC_SEVERITY_LEVEL; characters; rows
_LONGEST_NAME = 255  # of a machine or a system


_WORK = ("start", "end", "deviceId", "streamId", "correlationId")
_SHAPE = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
_NVTX = Load(
    Table(
        "NVTX_EVENTS",
        ("start", "eventType", "globalTid"), ("end", "endGlobalTid", "textId", "domainId"),
        texts=("text",), only=("eventType", (59, 60, 70, 71)),
    ),
    "nsys_nvtx_text", "nvtx",
    "no ranges: all GPU work is unattributed (open NVTX ranges in the program, trace with --trace=cuda,nvtx)",
)  # fmt: skip
LOADS = (
    Load(
        Table(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            ("start", "end", "globalTid", "correlationId", "nameId"), ("eventClass",),
        ),
        "nsys_runtime", "staged_api_call",
        "no CUDA API calls: launch and queue times are unknown and no GPU work can be attributed to ranges",
    ),
    Load(
        Table(
            _KERNELS,
            (*_WORK, "demangledName"), ("contextId", "globalPid", "graphNodeId", *_SHAPE),
        ),
        "nsys_kernel", "staged_gpu_op",
    ),
    Load(
        Table(
            "CUPTI_ACTIVITY_KIND_MEMCPY",
            (*_WORK, "bytes", "copyKind"), ("contextId", "globalPid", "graphNodeId", "srcKind", "dstKind"),
        ),
        "nsys_memcpy", "staged_gpu_op",
    ),
    Load(
        Table(
            "CUPTI_ACTIVITY_KIND_MEMSET",
            (*_WORK, "bytes"), ("contextId", "globalPid", "graphNodeId", "memKind"),
        ),
        "nsys_memset", "staged_gpu_op",
    ),
    Load(
        Table("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", (*_WORK, "graphId"), ("contextId", "globalPid")),
        "nsys_graph", "staged_gpu_op",
    ),
    Load(
        Table("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", (*_WORK, "syncType"), ("globalPid",)),
        "nsys_synchronization", "sync",
    ),
    _NVTX,
    Load(
        Table(
            "CUDA_GPU_MEMORY_USAGE_EVENTS",
            ("start", "globalPid", "bytes"), ("deviceId", "address", "memoryOperationType", "memKind"),
        ),
        "nsys_memory_usage", "staged_memory_event", of_host=("memKind", (0, 1)),  # pageable, pinned
    ),
    Load(Table("OSRT_API", ("start", "end", "nameId"), ("globalTid",)), "nsys_named_time", "os_call"),
    Load(Table("PROFILER_OVERHEAD", ("start", "end", "nameId"), ("globalTid",)), "nsys_named_time", "overhead"),
)  # fmt: skip
_STRINGS = Load(Table("StringIds", ("id",), texts=("value",)), "nsys_string", "string", is_noted=False)
_MARKERS = {"StringIds", "ANALYSIS_DETAILS", "TARGET_INFO_SESSION_START_TIME"} | {load.table.name for load in LOADS}


def read(path: Path, staging: Staging, process: int | None = None) -> None:
    """Load one export into the staged tables, or of it what one process (nsys' number for it) left.

    Raises UnknownFormatError for a SQLite database that nsys did not write, CorruptInputError for a file that is cut
    off, damaged or has values of the wrong type.
    """
    export = checked(path, process)
    _read_strings(export, staging)
    _read_metadata(export, staging)
    with staging.in_order():
        for load in LOADS:
            _read_table(export, load, staging)
        nsys_stacks.read(export, staging)
        nsys_metrics.read(export, staging, devices(export))
    staging.columns("staged_range")
    _add_calls_of_syncs(staging)
    staging.columns("staged_api_call")
    staging.load("nsys_thread", "thread")
    _note_no_kernels(export, staging)


def _add_calls_of_syncs(staging: Staging) -> None:
    """Calls that wait long for the GPU and are in no table of calls: meanwhile the CPU would seem to work."""
    if not staging.scalar("select exists (from sync semi join reading using (source_id))"):
        return
    staging.intern("values ('cudaDeviceSynchronize'), ('cudaStreamSynchronize'), ('cudaEventSynchronize')")
    staging.columns("staged_api_call")
    if added := staging.load("nsys_call_of_sync", "staged_api_call"):
        staging.fact(
            "holds",
            "long synchronisations without a call",
            added,
            "the table of calls lacks them; they count as such calls",
        )


def _note_no_kernels(export: Export, staging: Staging) -> None:
    """Why there are no kernels, where there is no table of them."""
    if _KERNELS in export.columns:
        return
    calls = not_collected.giving_cnt(staging)
    if "CUPTI_ACTIVITY_KIND_GRAPH_TRACE" in export.columns:
        said = "CUDA graphs are recorded whole (nsys profile --cuda-graph-trace=node shows their kernels)"
    elif calls and not (_MOVES & export.columns.keys()):
        until = "wait for the GPU at the end, let the program end by itself"
        said = not_collected.why(calls, until, _first_failure(export, staging))
    else:
        said = "nothing ran on a GPU, or CUDA tracing was off (nsys profile --trace=cuda,nvtx)"
    staging.fact("missing", _KERNELS, "no such table", f"no kernels: {said}")


def _first_failure(export: Export, staging: Staging) -> tuple[str, int] | None:
    """The first call that returned an error after which nothing runs, and the error; None without."""
    has = export.columns.get("CUPTI_ACTIVITY_KIND_RUNTIME", {})
    if "StringIds" not in export.columns or not {"returnvalue", "nameid", "start", "globaltid"} <= has.keys():
        return None
    codes = ", ".join(map(str, not_collected.LOST_CONTEXT))
    of_process = "" if export.process is None else f" and call.globalTid & {PROCESS_MASK} = {export.process}"
    statement = (
        "select string.value, call.returnValue from CUPTI_ACTIVITY_KIND_RUNTIME call "
        "join StringIds string on string.id = call.nameId "
        f"where call.returnValue in ({codes}) and typeof(string.value) = 'text'{of_process} "
        "order by call.start limit 1"
    )
    try:
        return next(((re.sub(r"_v\d+$", "", name), code) for name, code in export.select(statement)), None)
    except CorruptInputError as error:
        staging.fact("lost", "what calls returned", str(error))
        return None


def checked(path: Path, process: int | None = None) -> Export:
    """An export to read. Raises as read() does."""
    _refuse_cut_off(path)
    export = Export(path, process)
    _check_is_nsys(export)
    return export


def _refuse_cut_off(path: Path) -> None:
    """Compare the size that the header promises with the file's; a sqlite3 query may not notice what is missing."""
    with path.open("rb") as file:
        head = file.read(100)
    size = path.stat().st_size
    page = int.from_bytes(head[16:18], "big") or 0
    page = 65536 if page == 1 else page
    promised = page * int.from_bytes(head[28:32], "big")
    counters_agree = head[24:28] == head[92:96]
    if size >= 512 and page < 512:
        raise CorruptInputError(f"{path} begins as an nsys export and has no pages of SQLite; copy or {WHAT_TO_DO}")
    if size < 512 or (counters_agree and size < promised):
        raise CorruptInputError(f"{path} is cut off: it has {size} of {promised} bytes; copy or {WHAT_TO_DO}")
    target = path.resolve()  # where SQLite looks for them, too
    for suffix in ("-journal", "-wal"):
        left = target.with_name(target.name + suffix)
        if left.exists() and left.stat().st_size:
            place = "it" if target.name == path.name else str(target)
            raise CorruptInputError(
                f"{path} was not finished: {left.name} lies beside {place}, so a program still writes it or died; "
                f"wait, or {WHAT_TO_DO}"
            )


def _check_is_nsys(export: Export) -> None:
    """Raise UnknownFormatError unless some table is one that nsys writes."""
    if not export.columns:
        raise CorruptInputError(f"{export.path} is an SQLite database without tables; {WHAT_TO_DO}")
    if not _MARKERS & export.columns.keys():
        raise UnknownFormatError(f"{export.path} is an SQLite database, but not one that `nsys export` writes")


def _read_strings(export: Export, staging: Staging) -> None:
    """StringIds become names; `string_ref` maps an id to its name, with and without an API version suffix."""
    staging.create_from("memcpy_kind", "nsys_memcpy_kind")
    staging.create_from("memory_kind", "nsys_memory_kind")
    staging.define("api_name", "value", "nsys_api_name")
    staging.create_table("string", "id bigint, value varchar")
    if "StringIds" in export.columns:
        load_table(export, _STRINGS, staging)
    staging.intern(
        "select value from string union all select api_name(value) from string "
        "union all select name from memcpy_kind union all values ('[CUDA memset]'), ('[CUDA graph]')"
    )
    staging.create_from("string_ref", "nsys_string_ref")


def _read_table(export: Export, load: Load, staging: Staging) -> None:
    """One table of events, if the file has it; NVTX texts are interned on the way."""
    if load.table.name not in export.columns:
        if load.missing_means:
            staging.fact("missing", load.table.name, "no such table", load.missing_means)
        return
    if load is not _NVTX:
        load_table(export, load, staging)
        return
    _read_domains(export, staging)
    times = dict.fromkeys(("position", "start_ns", "end_ns", "thread_id", "end_thread_id"), "bigint")
    staging.wait_as_columns("nvtx", times | dict.fromkeys(("style", "kind", "text"), "varchar"))
    load_table(export, load, staging)
    staging.columns("nvtx")
    staging.name_ranges("select text from nvtx")
    staging.load("nsys_nvtx", "staged_range")
    nvtx_payloads.read(export, staging)
    staging.drop("nvtx", "string")


def _read_domains(export: Export, staging: Staging) -> None:
    """NVTX domains by process: nsys writes them as rows of the events table."""
    staging.create_table("nvtx_domain", "process_id bigint, domain_id bigint, text varchar")
    has = export.columns["NVTX_EVENTS"]
    if not {"domainid", "text"} <= has.keys():
        return
    text_id = has.get("textid", "null")
    rows = export.select(
        f"select globaltid & {PROCESS_MASK}, domainid, {text_id}, text from NVTX_EVENTS "
        "where eventtype = 75 and typeof(globaltid) = 'integer' and typeof(domainid) = 'integer' order by start"
    )
    values = staging.database.connection
    for process_id, domain_id, string_id, text in rows:
        values.execute(
            "insert into nvtx_domain select ?, ?, coalesce((select value from string where id = ?), ?) "
            "where not exists (from nvtx_domain where process_id = ? and domain_id = ?)",
            [process_id, domain_id, string_id, text, process_id, domain_id],
        )


def _read_metadata(export: Export, staging: Staging) -> None:
    """Schema version, wall-clock origin, device names, thread names."""
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        if table in export.columns:
            facts = dict(export.select(f'select name, value from "{table}"'))
            staging.set_source("format_version", facts.get("EXPORT_SCHEMA_VERSION"))
            staging.fact("about", "nsys version", facts.get("EXPORT_PRODUCT_VERSION"))
    start = export.columns.get("TARGET_INFO_SESSION_START_TIME", {})
    if "utcepochns" in start:
        for (origin,) in export.select("select utcEpochNs from TARGET_INFO_SESSION_START_TIME limit 1"):
            staging.set_source("origin_ns", origin)
    if {"name", "value"} <= export.columns.get("TARGET_INFO_SYSTEM_ENV", {}).keys():
        told = dict(export.select(
            f"select name, min(substr(value, 1, {_LONGEST_NAME})) from TARGET_INFO_SYSTEM_ENV "
            "where name in ('Hostname', 'OsDescription') and typeof(value) = 'text' and value <> '' group by name"
        ))  # fmt: skip
        staging.set_source("host", told.get("Hostname"))
        staging.fact("about", "operating system", told.get("OsDescription"))
    _read_diagnostics(export, staging)
    for gpu in devices(export):
        staging.add_device(gpu.ordinal, gpu.name, gpu.memory_bytes, gpu.sm_cnt)
    if export.process is not None:
        staging.fact("about", "process", pid_of(export.process))
    staging.create_table("thread_name", "thread_id bigint, name varchar")
    if {"nameid", "globaltid"} <= export.columns.get("ThreadNames", {}).keys():
        names = export.select(
            "select t.globalTid, s.value from ThreadNames t join StringIds s on s.id = t.nameId "
            "where typeof(t.globalTid) = 'integer'"
        )
        threads = {thread: name for thread, name in names if export.process in (None, thread & PROCESS_MASK)}
        batch = pa.table(
            {"thread_id": pa.array(threads.keys(), pa.int64()), "name": pa.array(threads.values(), pa.string())}
        )
        staging.load("nsys_thread_name", "thread_name", batch)


def _read_diagnostics(export: Export, staging: Staging) -> None:
    """What nsys warned of while it recorded: why CUDA's events are missing stands here and nowhere else."""
    if not {"severity", "text"} <= export.columns.get("DIAGNOSTIC_EVENT", {}).keys():
        return
    statement = (
        f"select severity, substr(text, 1, {_LONGEST_WARNING}) from DIAGNOSTIC_EVENT where severity >= {_WARNING} "
        f"and typeof(text) = 'text' group by 1, 2 order by 1 desc, 2 limit {_MOST_WARNINGS}"
    )
    try:
        said = export.select(statement)
    except CorruptInputError as error:
        staging.fact("lost", "DIAGNOSTIC_EVENT", str(error))
        return
    for severity, text in said:
        staging.fact("about", "nsys warning" if severity == _WARNING else "nsys error", " ".join(text.split()))
