"""When devices are idle between their work, and why by its launches: see the views _idle_gap and _gap.

busy      [a   ]      [b  ]          a gap lies between two busy stretches, and b ended it
gap             |----|
launch            [b]                begins within it: the CPU was late
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..attribute.intervals import Bools, Ints, distinct, place_of
from .activity import NO_DEVICE, Stretches

CAUSES = ("host", "dependency", "kernel_wait")
HOST, DEPENDENCY, KERNEL_WAIT = range(len(CAUSES))
NEVER = -(1 << 62)  # of work whose launch is not known
_LEAST_DISTANCES = 20  # so many gaps of a device say what the distance between its kernels is

Columns = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Gaps:
    """Gaps of one source: the operation that ended each, its row among the source's and process, begin and end.

    Behind those between busy stretches, `lead_cnt` from the start of the first step to the first work of a device.
    """

    device_id: Ints
    gpu_op_id: Ints
    row: Ints
    process: Ints
    start: Ints
    end: Ints
    lead_cnt: int

    @property
    def is_lead(self) -> Bools:
        """Which are before any work of their device."""
        return np.arange(len(self.row)) >= len(self.row) - self.lead_cnt

    @cached_property
    def idle(self) -> Ints:
        """Their lengths."""
        return self.end - self.start

    @cached_property
    def of_devices(self) -> list[tuple[int, "Ints | slice"]]:
        """The devices, and the rows of each."""
        known = distinct(self.device_id)[0].tolist()
        if len(known) == 1:
            return [(known[0], slice(None))]
        return [(device, np.flatnonzero(self.device_id == device)) for device in known]


def gaps_of(busy: list[Stretches], work: Columns, lead: int | None) -> Gaps:
    """What lies between the busy stretches of each device, and before the first where a step begins long before it."""
    found = [
        (np.full(len(of.gpu_op_id) - 1, of.device_id), of.gpu_op_id[1:], of.union.end[:-1], of.union.start[1:])
        for of in busy
    ]
    leads = [] if lead is None else busy
    found += [(np.array([of.device_id]), of.gpu_op_id[:1], np.array([lead]), of.union.start[:1]) for of in leads]
    device, ended_by, start, end = (np.concatenate(columns).astype(np.int64) for columns in zip(*found, strict=True))
    row = place_of(work["gpu_op_id"], ended_by)
    return Gaps(device, ended_by, row, work["process"][row], start, end, len(leads))


def causes_of(gaps: Gaps, work: Columns, is_managed: Bools, limits: dict[str, float]) -> Ints:
    """Why each gap is: see the views _gap and idle_gap."""
    launched, returned = work["launch_start"][gaps.row], work["launch_end"][gaps.row]
    waited = (gaps.end - returned > np.maximum(limits["late_launch_ns"], gaps.idle / 2)) & (returned != NEVER)
    is_kernel = work["is_kernel"][gaps.row].astype(bool)
    # the call of a copy may wait for it, unless it had returned before
    is_launched = is_kernel | (work["is_move"][gaps.row].astype(bool) & (returned <= gaps.end))
    is_slow = is_launched & (returned != NEVER) & (2 * (returned - gaps.start) > gaps.idle)
    is_slow &= gaps.idle > limits["kernel_wait_ns"]
    is_loading = is_launched & (returned > gaps.start) & (returned - launched > limits["long_gap_ns"])
    is_loading &= (gaps.idle > limits["kernel_wait_ns"]) & (gaps.end - returned <= 2 * (returned - launched))
    is_late = np.where(launched >= gaps.start, ~waited, is_slow) | is_loading
    underway = gaps.end - launched
    is_launched_in = is_kernel & (launched >= gaps.start)
    is_distant = is_kernel & (gaps.idle > limits["near_kernel_ns"])
    for _, mine in gaps.of_devices:
        came = underway[mine][is_launched_in[mine]]
        if len(came) >= _LEAST_DISTANCES:
            soon = 1.1 * np.quantile(came, 0.1, method="inverted_cdf")
            is_late[mine] |= is_distant[mine] & (underway[mine] <= soon)
    distance = np.full(len(gaps.row), limits["kernel_wait_ns"])
    is_near = is_kernel & ~is_late & ~gaps.is_lead
    for device, mine in gaps.of_devices:
        own = gaps.idle[mine][is_near[mine]]
        if len(own) >= _LEAST_DISTANCES and device != NO_DEVICE:
            distance[mine] = min(limits["kernel_wait_ns"], 2 * np.median(own))
    is_touched = is_managed & (launched == NEVER)
    return np.select([is_late, gaps.idle <= distance, is_touched], [HOST, KERNEL_WAIT, HOST], DEPENDENCY)
