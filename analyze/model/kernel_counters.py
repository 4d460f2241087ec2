"""What launched the kernels that were run again for their hardware counters: the table kernel_counter.

CUPTI's range profiler notes kernels in the order of their launches, with neither times nor correlation ids: the n-th
kernel is the n-th launch's where there are as many of both.
"""

import numpy as np
import pyarrow as pa

from ..attribute.attribution import Attribution
from ..attribute.intervals import NONE, Ints
from ..attribute.ranges import Ranges
from ..read.staging import Staging
from .places import innermost

_PROFILED = "select distinct profiled_id from staged_kernel_counter order by profiled_id"
# sql/2_macros/launches_kernels.sql says which calls launch a kernel
_LAUNCHES = """
    select thread_id, start_ns
    from api_call
    semi join reading using (source_id)
    semi join (select name_id from staged_name where launches_kernels(text)) as launching using (name_id)
    order by start_ns, api_call_id"""
_COUNTED = """
    insert into kernel_counter by name
    from staged_kernel_counter
    join launched using (profiled_id)
    where counter_id is not null and value is not null"""


def write(staging: Staging, ranges: Ranges, found: Attribution, threads: Ints, first_range: int) -> None:
    """Append the staged counters with the innermost range open at each kernel's launch.

    `threads` are the threads of the tracks, `first_range` the id of the first of the ranges.
    """
    profiled = staging.database.columns(_PROFILED)["profiled_id"]
    if len(profiled):
        launch = staging.database.columns(_LAUNCHES)
        at = np.full(len(profiled), NONE)
        if len(launch["start_ns"]) == len(profiled):
            at = innermost(ranges, found, threads, launch["thread_id"], launch["start_ns"])
        else:
            staging.fact(
                "missing", "launches of profiled kernels",
                f"{len(profiled)} kernels, {len(launch['start_ns'])} launches",
                "which kernel belongs to which launch is not known: their counters are of no range",
            )  # fmt: skip
        launched = pa.table({"profiled_id": profiled, "range_id": pa.array(at + first_range, mask=at < 0)})
        staging.database.connection.register("launched", launched)
        staging.database.connection.execute(_COUNTED)
        staging.database.connection.unregister("launched")
    staging.drop("staged_kernel_counter")
