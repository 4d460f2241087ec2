"""AMD's TraceLens on where a device's time goes. Needs `pip install git+https://github.com/AMD-AGI/TraceLens`.

It is given whole nanoseconds, because it adds up what it is given, and one device at a time, because it takes all of a
file as one. Two differences are evened out here: it counts memsets as computation, and takes for communication only
what has 'nccl' in its name, so not the all-reduce of PyTorch's symmetric memory.
"""

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from conftest import corpus_params
from lorabench.analyze.pipeline import analyze

tracelens = pytest.importorskip("TraceLens.TreePerf.gpu_event_analyser", reason="TraceLens is not installed")

AS_TRACELENS = {
    "kernel": "kernel", "Kernel": "kernel", "gpu_memcpy": "gpu_memcpy", "Memcpy": "gpu_memcpy",
    "gpu_memset": "gpu_memcpy", "Memset": "gpu_memcpy",
}  # fmt: skip


def work_by_device(path: Path) -> dict[int, list[dict[str, Any]]]:
    with gzip.open(path) as file:
        trace = json.load(file, parse_float=Decimal)
    events: list[dict[str, Any]] = trace if isinstance(trace, list) else trace["traceEvents"]
    found: dict[int, list[dict[str, Any]]] = {}
    for event in events:
        if event.get("ph") == "X" and event.get("cat") in AS_TRACELENS:
            times = {name: int(Decimal(event[name]) * 1000) for name in ("ts", "dur")}
            device = found.setdefault(int(event["args"].get("device", event["pid"])), [])
            name = event["name"].replace("multimem_all_reduce_kernel", "nccl")
            device.append({"name": name, "cat": AS_TRACELENS[event["cat"]]} | times)
    return found


@pytest.mark.parametrize("path", corpus_params("kineto/*.json.gz"))
def test_the_timeline_of_every_device_is_that_of_tracelens(path: Path, tmp_path: Path) -> None:
    devices = work_by_device(path)
    with analyze([path], tmp_path / "x.duckdb") as database:
        rows = database.rows(
            "select device_id, compute_ns, exposed_communication_ns, exposed_memory_ns, busy_ns, idle_ns, window_ns, "
            "communication_ns, memory_ns from gpu_timeline_summary"
        )
    assert {row[0] for row in rows} == devices.keys()
    for device, *ours in rows:
        expected = tracelens.GPUEventAnalyser(devices[device]).compute_metrics()
        assert ours == list(expected.values()), device
