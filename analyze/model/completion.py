"""Completes the model: staged rows in, launches linked and ranges attributed, the tables of sql/0_tables out.

One source at a time. Arrays keep the order of the staged tables, so that what is computed is joined back by position;
ids are dense, in order of thread and time. Arrays are as long as the trace: each goes as soon as nothing needs it.
"""

import numpy as np

from ...errors import CorruptInputError
from ..attribute.attribution import Attribution, attribute, path_sets
from ..attribute.intervals import NONE, Ints, distinct, take
from ..attribute.launches import Calls, Launched, Operations, link
from ..attribute.ranges import Ranges
from ..read.staging import Staging
from ..store.limits import COMPLETE_MEMORY
from . import allocations, collectives, critical_segments, kernel_counters, repeating, tables, waits
from .staged import StagedRanges, Threads, fetch_calls, fetch_operations, fetch_ranges, fetch_threads, launches

_MOST_NS = 1 << 61


def complete(staging: Staging) -> None:
    """Fill the model's tables from what is staged: those of ranges, calls, GPU work, allocations and counters.

    Raises CorruptInputError when the source's times add up to more than 63 bits hold.
    """
    staging.progress.step("launches and ranges")
    first = tables.FirstKeys.behind_what_is_there(staging)
    threads = fetch_threads(staging)
    launched, owners, staged = _linked(staging, first, threads)
    found = attribute(staged.ranges, launches(threads, staged.threads, launched.calls, owners))
    _tell_given_up(staging, found)
    tables.write_reach(staging, first, found, owners)
    del owners
    tables.write_ranges(staging, first, staged, found)
    allocations.write(staging, staged.ranges, found, staged.threads, first.range_id)
    kernel_counters.write(staging, staged.ranges, found, staged.threads, first.range_id)
    extent = staged.ranges.start, staged.ranges.end
    del staged
    sets = path_sets(found)
    tables.write_sets(staging, first, found, sets)
    is_first_op = tables.first_of_each_call(launched.call, launched.by_start)
    tables.write_operations(staging, first, launched, found, sets.of_launch, is_first_op)
    staging.database.limit_memory(COMPLETE_MEMORY)  # the widest table is written
    work, launch, devices = tables.work_of(launched, is_first_op)
    tables.write_devices(staging, devices)
    set_of, reach = take(sets.of_launch, launch), found.reach
    del launched, found, is_first_op
    tables.write_measures(staging, first, work, launch, reach, extent)
    del launch, reach, extent
    tables.write_work_of_sets(staging, first, work, set_of, sets, devices)
    del set_of, sets
    tables.write_names(staging)  # the definition of waiting_call reads them
    waits.write(staging)
    critical_segments.write(staging, work, first.gpu_op_id)
    del work
    repeating.write(staging)
    collectives.write(staging)


def _linked(staging: Staging, first: tables.FirstKeys, threads: Threads) -> tuple[Launched, Ints, StagedRanges]:
    """Operations with their calls; the places of the calls that own operations; the ranges. Calls are written."""
    calls, operations = fetch_calls(staging, threads), fetch_operations(staging)
    staged = fetch_ranges(staging, threads, calls)
    call, is_duplicate = link(calls, operations)
    _require_sums(staging, staged.ranges, calls, operations, call)
    tables.write_calls(staging, first, is_duplicate)
    owners, launch = distinct(call)
    if owners.size and owners[0] == NONE:
        owners, launch = owners[1:], launch - 1
    return Launched(calls.without_keys(), operations.without_keys(), call, launch), owners, staged


def _require_sums(staging: Staging, ranges: Ranges, calls: Calls, operations: Operations, call: Ints) -> None:
    """Raise CorruptInputError when times add up to more than 63 bits hold: an event years away from the others."""
    latency = operations.start - take(calls.start, call)
    lengths = (
        ranges.end - ranges.start, calls.end - calls.start, operations.end - operations.start, latency[call >= 0]
    )  # fmt: skip
    for length in lengths:
        if not length.size:
            continue
        longest = max(int(length.max()), -int(length.min()))  # most traces are far from the limit: no copy is needed
        if longest * length.size > _MOST_NS and np.abs(length).sum(dtype=np.float64) > _MOST_NS:
            name = staging.scalar("select name from source semi join reading using (source_id)")
            raise CorruptInputError(
                f"{name}: its times add up to over 70 years: some are wrong, or on another clock than the others"
            )


def _tell_given_up(staging: Staging, found: Attribution) -> None:
    if found.given_up_cnt:
        staging.fact(
            "lost", "ranges that overlap partially", found.given_up_cnt,
            "launches lie in so many that only the innermost of them and those around it count them",
        )  # fmt: skip
