"""What recordings that are compared are: who recorded them, on which GPUs, and what is missing in them."""

from collections.abc import Sequence

from ...analyze.store.database import Database
from ..answer.verdict_text import said_shift
from ..tables import units
from ..tables.sources import counting
from . import one_job
from .compared import letter


def recorder(database: Database) -> str:
    """The profiler that wrote it, of several all."""
    rows = database.rows(
        "select distinct kind, recorder from source join _recorder using (source_id) "
        f"where {counting(database)} order by all"
    )
    return " and ".join(name for _, name in rows) or "nothing read"


def gpus(database: Database) -> str:
    """The GPUs that worked, "" where no recording names one."""
    rows = database.rows(
        "select device_name, count(*) from steady_state where device_name is not null "
        f"and source_id in (select source_id from source where {counting(database)}) group by all order by all"
    )
    return " and ".join(f"{count} x {name}" if count > 1 else str(name) for name, count in rows)


def cautions(databases: Sequence[Database]) -> list[str]:
    """What makes recordings other than alike, each in a sentence: what is missing, other profilers, GPUs, one job."""
    found = [line for number, database in enumerate(databases) for line in _lacks(database, letter(number))]
    found += [line for number, database in enumerate(databases) for line in _graphs(database, letter(number))]
    if one_job.are_ranks([*databases]):
        found.append(one_job.WAITS)
    works = [bool(database.rows("select 1 from gpu_op limit 1")) for database in databases]
    if any(works) and not all(works):
        without = " and ".join(letter(number) for number, has_work in enumerate(works) if not has_work)
        found.append(f"No GPU work of {without} is recorded, which says nothing of how much there was.")
    if len({recorder(database) for database in databases}) > 1:
        found.append("The inputs were recorded by different profilers, whose overheads differ; compare like with like.")
    if len(worked := dict.fromkeys(filter(None, map(gpus, databases)))) > 1:
        found.append(f"The GPUs differ: {' and '.join(worked)}.")
    return found


def _lacks(database: Database, of: str) -> list[str]:
    """What is missing or wrong in a recording, so that its numbers are not those of its steps."""
    is_counted = f"source_id in (select source_id from source where {counting(database)})"
    found = [
        f"The last {missing:,} of {launches:,} launches of {of} have no GPU work, as the recording ended early: "
        f"what the GPU does in a step of {of} is too little."
        for missing, launches in database.rows(f"select missing_cnt, launch_cnt from _work_missing where {is_counted}")
    ]
    found += [
        f"{missing:,} of {launches:,} launches of {of} have no GPU work, though later ones have: it was dropped, and "
        f"what the GPU does in a step of {of} is too little."
        for missing, launches in database.rows(f"select dropped_cnt, launch_cnt from _work_dropped where {is_counted}")
    ]
    found += [
        f"What the GPU does is not recorded for {units.said_ns(missing)} of {of}: that is neither idle time nor a "
        "step's own."
        for (missing,) in database.rows(f"select missing_ns from _answer_replay where {is_counted} and missing_ns > 0")
    ]
    shifts = database.rows(f"select shift_ns from _clock_shift where {is_counted}")
    return [*found, *(f"In {of} {said_shift(shift)}." for (shift,) in shifts)]


def _graphs(database: Database, of: str) -> list[str]:
    """That kernels of CUDA graphs are missing where graphs are recorded whole."""
    rows = database.rows(
        "select count(*), sum(end_ns - start_ns)::bigint from gpu_op "
        f"where kind = 'graph' and source_id in (select source_id from source where {counting(database)})"
    )
    return [
        f"{of} runs {count:,} CUDA graph{'s' * (count > 1)} of {units.said_ns(time)} in all, whose kernels are not "
        "recorded (nsys profile --cuda-graph-trace=node): none of them counts."
        for count, time in rows
        if count
    ]
