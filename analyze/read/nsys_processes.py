"""Which processes of an nsys export are inputs of their own: those whose GPUs no other one works on.

    node.sqlite   process 4711   GPU 0   52,100 operations   ──►   rank 0
                  process 4712   GPU 1   52,100 operations   ──►   rank 1
                  process 4713   GPU 0        1 operation    ──►   an input without a rank
                  process 4700   no GPU                            (left out: the launcher, workers that load data)

nsys around torchrun records all processes of a node in one file. Read as one input, a step of one process would take
work of another, and a GPU that works would hide one that waits. GPUs are told apart as the machine counts them,
whatever CUDA_VISIBLE_DEVICES makes of their numbers. Where two processes share a GPU the file stays one input: only
together they say how busy it is. This runs before anything is read, also for inputs that were read before, so it takes
sqlite3 and nothing else.
"""

import os
import sqlite3
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from ...errors import CorruptInputError

PROCESS_MASK = ~0xFFFFFF
WORK = (
    "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
)  # fmt: skip
_HARDLY = 1000  # times as much work as that makes a process another process's bystander, and a GPU not its own
_MEET = ("%nccl%kernel%", "%cross_device_reduce%", "%allreduce%", "%all_reduce%", "%nvshmem%kernel%")  # of kernels
_MOST_PROCESSES = 256  # of a node; more are no ranks
_LONGEST_TEXT = 32 << 20
Counts = Sequence[tuple[int, int, int]]  # process, its number for a device, operations on it


@dataclass(frozen=True)
class Process:
    """A process with GPU work: nsys' number for it, its first device, and how many operations ran for it.

    gpus: those that it works on, as the machine counts them. rank: in the job that it is of, None for no job.
    """

    global_id: int
    first_device: int
    gpu_op_cnt: int
    gpus: frozenset[int] = frozenset()
    rank: int | None = None

    @property
    def pid(self) -> int:
        """What the system called it."""
        return pid_of(self.global_id)

    @property
    def called(self) -> str:
        """Its part of the name of a file or an input: of a job its rank, else its number."""
        return f"process{self.pid}" if self.rank is None else f"rank{self.rank}"


def pid_of(global_id: int) -> int:
    """The system's number of a process by nsys' number for it."""
    return (global_id >> 24) & 0xFFFFFF


def apart(path: Path) -> list[Process]:
    """The processes that are inputs of their own, ranks in their order first; none where the file is one input.

    So it is for files that do not say which GPU a process's devices are, and for what cannot be read: whoever reads it
    says why.
    """
    uri = f"file:{quote(os.fsencode(path.resolve()))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            connection.execute("pragma trusted_schema = off")
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_TEXT)
            known = gpus(connection)
            if len({pid for pid, _ in known}) < 2:
                return []
            found = with_work(_counts(connection), known)
            workers = [process for process in found if process.gpu_op_cnt * _HARDLY >= _most(found)]
            if not 2 <= len(workers) <= len(found) <= _MOST_PROCESSES or _share(workers):
                return []
            return in_ranks(path, found, meeting(connection) & {process.global_id for process in workers})
    except (sqlite3.Error, CorruptInputError):
        return []


def with_work(counts: Counts, gpus: dict[tuple[int, int], int]) -> list[Process]:
    """The processes with GPU work, in the order of their GPUs.

    gpus: of a process (the system's number) and a device as it calls it the GPU. A GPU on which it does next to nothing
    is not its own.
    """
    found: dict[int, list[tuple[int, int]]] = {}
    for process, device, count in counts:
        found.setdefault(process, []).append((device, count))
    made = []
    for process, devices in found.items():
        whole = sum(count for _, count in devices)
        one = Process(process, min(device for device, _ in devices), whole)
        most = max(count for _, count in devices)
        own = [device for device, count in devices if count * _HARDLY >= whole or count == most]
        made.append(replace(one, gpus=frozenset(gpus.get((one.pid, device), device) for device in own)))
    return sorted(made, key=lambda one: (min(one.gpus), one.global_id))


def in_ranks(path: Path, found: Sequence[Process], met: Collection[int]) -> list[Process]:
    """The processes, first those of a job in the order of their ranks: as NCCL was told, else in that of their devices
    as CUDA numbers them, which may be another than the machine's, or of their GPUs where each sees one of its own.

    met: nsys' numbers of those that run collectives. One alone meets nobody here.
    """
    from . import nsys_tables, nvtx_payloads

    of_job = [process for process in found if process.global_id in met]
    if len(of_job) < 2:
        return list(found)
    told = nvtx_payloads.ranks(nsys_tables.Export(path))
    known = [told.get(process.global_id) for process in of_job]
    if None in known or len(set(known)) < len(known):
        known = list(range(len(of_job)))
        if len({process.first_device for process in of_job}) == len(of_job):
            of_job.sort(key=lambda process: process.first_device)
    ranked = [replace(process, rank=rank) for process, rank in zip(of_job, known, strict=True)]
    ranked.sort(key=lambda process: process.rank or 0)
    return [*ranked, *(process for process in found if process.global_id not in met)]


def meeting(connection: sqlite3.Connection) -> set[int]:
    """nsys' numbers of the processes that run kernels of collectives."""
    has = _columns(connection, "CUPTI_ACTIVITY_KIND_KERNEL")
    if not {"globalpid", "demangledname"} <= has or "value" not in _columns(connection, "StringIds"):
        return set()
    which = " or ".join("value like ?" for _ in _MEET)
    rows = connection.execute(
        f"select distinct globalPid & {PROCESS_MASK} from CUPTI_ACTIVITY_KIND_KERNEL "
        f"where typeof(globalPid) = 'integer' and demangledName in (select id from StringIds where {which})",
        _MEET,
    )
    return {process for (process,) in rows}


def statement_of_counts(tables: Collection[str]) -> str:
    """A statement for Counts of the tables of work."""
    parts = [
        "select globalPid as process, iif(typeof(deviceId) = 'integer', deviceId, 0) as device "
        f"from {name} where typeof(globalPid) = 'integer'"
        for name in tables
    ]
    of_all = " union all ".join(parts)
    return f"select process & {PROCESS_MASK}, device, count(*) from ({of_all}) group by 1, 2 order by 1, 2"


def gpus(connection: sqlite3.Connection) -> dict[tuple[int, int], int]:
    """Of each process and device as it calls it the GPU; empty where the file does not say."""
    if {"gpuid", "cudaid", "pid"} <= _columns(connection, "TARGET_INFO_CUDA_DEVICE"):
        rows = connection.execute(
            "select distinct pid, cudaId, gpuId from TARGET_INFO_CUDA_DEVICE "
            "where typeof(pid) = 'integer' and typeof(cudaId) = 'integer' and typeof(gpuId) = 'integer'"
        ).fetchall()
        return {(pid, device): gpu for pid, device, gpu in rows}
    if {"processid", "deviceid"} <= _columns(connection, "TARGET_INFO_CUDA_CONTEXT_INFO"):
        rows = connection.execute(
            "select distinct processId, deviceId from TARGET_INFO_CUDA_CONTEXT_INFO "
            "where typeof(processId) = 'integer' and typeof(deviceId) = 'integer'"
        ).fetchall()
        return {(pid, device): device for pid, device in rows}
    return {}


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    """Those of a table, in lower case; of a view none, as it may compute for ever."""
    rows = connection.execute(
        "select c.name from sqlite_master as t join pragma_table_info(t.name) as c "
        "where t.type = 'table' and t.name = ?",
        [table],
    )
    return {str(name).lower() for (name,) in rows}


def _counts(connection: sqlite3.Connection) -> Counts:
    tables = [name for name in WORK if {"globalpid", "deviceid"} <= _columns(connection, name)]
    return connection.execute(statement_of_counts(tables)).fetchall() if tables else []


def _most(found: Sequence[Process]) -> int:
    return max((process.gpu_op_cnt for process in found), default=0)


def _share(found: Sequence[Process]) -> bool:
    """Whether two work on the same GPU."""
    return sum(len(process.gpus) for process in found) > len(frozenset[int]().union(*(one.gpus for one in found)))
