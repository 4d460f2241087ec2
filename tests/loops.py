"""A trace of a training loop that grows as it is written, in torch.profiler's format: its truth is known."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

MAIN, LOADER = 1, 300
GEMM, REDUCE, ADAM = "gemm_kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "multi_tensor_adam_kernel"


class Loop:
    """A trace that grows: times in us, one thread that launches, streams whose work follows one another."""

    def __init__(self, world_size: int | None = None, rank: int = 0):
        self.events: list[dict[str, Any]] = []
        self.now = 0.0
        self.done: dict[tuple[int, int], float] = {}
        self.held = 0
        self._links = 0
        self._about = {} if world_size is None else {"distributedInfo": {"rank": rank, "world_size": world_size}}

    def kernel(self, name: str, duration: float, stream: int = 7, behind: float = 0.0, device: int = 0) -> float:
        """Launch a kernel, which begins behind its stream and `behind`; when it ends."""
        self._links += 1
        args = {"correlation": self._links}
        self.event("cuda_runtime", "cudaLaunchKernel", self.now, 3, args=args)
        start = max(self.now + 6, self.done.get((device, stream), 0.0) + 1, behind + 1)
        work = {"ph": "X", "pid": device, "tid": stream, "cat": "kernel", "name": name, "ts": start, "dur": duration}
        self.events.append(work | {"args": args | {"device": device, "stream": stream}})
        self.done[device, stream] = start + duration
        self.now += 10
        return start + duration

    def synchronise(self) -> None:
        """Wait for all work."""
        end = max(self.now + 5, max(self.done.values()) + 5)
        self.event("cuda_runtime", "cudaDeviceSynchronize", self.now, end - self.now)
        self.now = end

    def inside(self, name: str, work: Callable[[], None], thread: int = MAIN) -> None:
        """Open a range around some work."""
        start = self.now
        work()
        self.event("user_annotation", name, start, self.now - start, thread)

    def step(self, name: str, kernels: int = 4, duration: float = 200) -> None:
        """A step of so many kernels, and a wait for them."""

        def work() -> None:
            for _ in range(kernels):
                self.kernel(GEMM, duration)
            self.synchronise()

        self.inside(name, work)

    def pause(self, name: str, length: float, thread: int = MAIN) -> None:
        """A range in which nothing is launched; of another thread it takes the main one no time."""
        self.event("user_annotation", name, self.now, length, thread)
        if thread == MAIN:
            self.now += length

    def allocate(self, size: int, address: int) -> None:
        """A block of memory on the device from now on; of a size below 0 no longer."""
        self.held += size
        told = {"Total Reserved": 1 << 30, "Total Allocated": self.held, "Bytes": size, "Addr": address}
        event = {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": MAIN}
        self.events.append(event | {"ts": self.now, "args": told | {"Device Type": 1, "Device Id": 0}})
        self.now += 1

    def write(self, path: Path) -> Path:
        path.write_text(json.dumps(self._about | {"schemaVersion": 1, "traceEvents": self.events}), "utf-8")
        return path

    def event(self, kind: str, name: str, start: float, length: float, thread: int = MAIN, **more: Any) -> None:
        event = {"ph": "X", "pid": 1, "tid": thread, "cat": kind, "name": name, "ts": start, "dur": length}
        self.events.append(event | more)
