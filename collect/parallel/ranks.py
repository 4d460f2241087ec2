"""The processes that train one model together: which of them this is, on which device, and how they find each other.

They meet by a file in the run's folder, so no port is opened that another run might have. On CPUs they talk over the
loopback interface (gloo), on GPUs by NCCL.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from ...errors import UsageError
from ..settings.spec import RunSpec


@dataclass(frozen=True)
class Rank:
    """One of the processes: its number, how many there are, and its device."""

    number: int
    cnt: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        """Whether it speaks for all where all know the same."""
        return self.number == 0


def choose_device(spec: RunSpec, number: int) -> torch.device:
    """The device of a rank. Raises UsageError when torch sees fewer GPUs than the run needs."""
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if spec.device == "cpu" or (spec.device == "auto" and there == 0):
        return torch.device("cpu")
    if there < spec.devices:
        raise UsageError(
            f"--devices {spec.devices}: torch sees {there} GPUs; use --device cpu for processes on the CPU"
        )
    return torch.device("cuda", number)


@contextmanager
def joined(spec: RunSpec, number: int, meeting: Path) -> Iterator[Rank]:
    """Inside, this process is a rank of the run. `meeting` is a file that does not exist before the first one comes."""
    device = choose_device(spec, number)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(
        "gloo" if device.type == "cpu" else "nccl",
        init_method=f"file://{meeting.resolve()}",
        rank=number,
        world_size=spec.devices,
        timeout=timedelta(seconds=spec.timeout_s),
        device_id=device if device.type == "cuda" else None,
    )
    yield Rank(number, spec.devices, device)
    dist.barrier()  # not in a finally: when this process failed, the others find out as it ends
    dist.destroy_process_group()
