"""What a finding advises is of the copies, the communication and the ranges of its own place."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import writers
from lorabench.analyze.pipeline import analyze
from simulated_gpu import COMMUNICATION, COMPUTE, Gpu
from synthetic import Call, Op, Range

COPIES = "CUPTI_ACTIVITY_KIND_MEMCPY"


def advice_of(gpu: Gpu, rule: str, folder: Path, change: str = "", *, torch: bool = True) -> list[tuple[Any, ...]]:
    """Place, evidence and advice of a rule. change: a statement on the file that nsys would have written."""
    run = gpu.finished()
    if torch:
        launch = run.timeline.calls[0]
        run.timeline.ranges.append(Range(launch.tid, launch.start, launch.end, "aten::mm"))
    (folder / "run.sqlite").unlink(missing_ok=True)
    writers.write_nsys(folder / "run.sqlite", [run.timeline])
    with closing(sqlite3.connect(folder / "run.sqlite")) as file:
        if change:
            file.execute(change)
        file.commit()
    with analyze([folder / "run.sqlite"], folder / "run.duckdb") as database:
        return database.rows(
            f"select place, evidence, advice from finding where rule = '{rule}' order by saving_ns desc"
        )


def copied(gpu: Gpu, ns: int, **told: Any) -> None:
    """A copy that is told so about itself."""
    gpu.copy(ns)
    gpu.timeline.ops[-1] = replace(gpu.timeline.ops[-1], **told)


@contextmanager
def steps(gpu: Gpu, count: int) -> Iterator[Iterator[int]]:
    def each() -> Iterator[int]:
        for number in range(count):
            with gpu.range(f"step {number}"):
                yield number

    yield each()


@pytest.mark.parametrize(
    ("kind", "said"), [(10, "GPUs hand data to each other here"), (8, "Copy less on the device"), (1, "Copy ahead")]
)
@pytest.mark.first(1)
def test_copies_between_gpus_need_no_pinned_memory(kind: int, said: str, tmp_path: Path) -> None:
    gpu = Gpu(is_pinned=True)
    with steps(gpu, 6) as numbers:
        for _ in numbers:
            for _ in range(4):
                gpu.copy(3_000_000)
                gpu.launch("gemm", 6_000_000)
    source = 1 if kind == 1 else 2
    change = f"update {COPIES} set copyKind = {kind}, srcKind = {source}, dstKind = 2"
    ((_, _, advice), *_) = advice_of(gpu, "exposed_copy", tmp_path, change)
    assert advice.startswith(said)


def test_only_places_whose_copies_are_pageable_are_told_to_pin(tmp_path: Path) -> None:
    gpu = Gpu(is_pinned=True)
    with steps(gpu, 8) as numbers:
        for _ in numbers:
            with gpu.range("batch"):
                copied(gpu, 3_000_000, bytes=9_000_000, is_pageable=True)
            with gpu.range("weights"):
                copied(gpu, 2_500_000, bytes=60_000_000)
            for _ in range(4):
                gpu.launch("gemm", 8_000_000)
            gpu.synchronise()
    found = {place: (evidence, advice) for place, evidence, advice in advice_of(gpu, "exposed_copy", tmp_path)}
    for place, is_told in (("step/batch", True), ("step/weights", False)):
        evidence, advice = found[place]
        assert advice.startswith("Pin host memory") == ("pageable memory at" in evidence) == is_told


@pytest.mark.parametrize("returns", [True, False])
@pytest.mark.slow
def test_what_comes_back_in_each_step_is_no_checkpoint(returns: bool, tmp_path: Path) -> None:
    """Gradients go to an optimizer on the CPU, which sends weights."""
    gpu = Gpu(is_pinned=True)
    with steps(gpu, 8) as numbers:
        for _ in numbers:
            for _ in range(20):
                gpu.launch("gemm", 3_000_000)
            with gpu.range("out"):
                copied(gpu, 12_000_000, to_host=True, bytes=300_000_000)
            gpu.synchronise()
            if returns:
                copied(gpu, 10_000_000, bytes=250_000_000)
    advice = {place: advice for place, _, advice in advice_of(gpu, "exposed_copy", tmp_path)}["step/out"]
    assert ("written to disk" in advice) != returns
    assert ("About as much comes back" in advice) == returns


@pytest.mark.parametrize("has_optimizer", [True, False])
@pytest.mark.parametrize(("kind", "rule"), [("memset", "exposed_copy"), ("kernel", "tiny_kernels")])
@pytest.mark.first(1)
@pytest.mark.slow
def test_memsets_are_no_tiny_kernels(kind: str, rule: str, has_optimizer: bool, tmp_path: Path) -> None:
    """Advice on an optimizer is for programs that have one."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for asked in ("exposed_copy", "tiny_kernels"):
        gpu = Gpu(is_pinned=True)
        with steps(gpu, 20) as numbers:
            for _ in numbers:
                for _ in range(60):
                    with gpu._call("cudaMemsetAsync" if kind == "memset" else "cudaLaunchKernel"):
                        name = "[memset]" if kind == "memset" else "reduce"
                        gpu._run(kind, name, 5_500, COMPUTE, gpu._room(COMPUTE))
                gpu.launch("adam_kernel" if has_optimizer else "gemm", 100_000)
        found[asked] = advice_of(gpu, asked, tmp_path)
    assert [asked for asked, rows in found.items() if rows] == [rule]
    ((_, _, advice), *_) = found[rule]
    assert ("fused=True" in advice or "zero_grad" in advice) == has_optimizer


@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [("cudaMemset", "memset", "Setting memory blocks here"), ("cudaMemcpy", "memcpy", "A copy within the GPU blocks")],
)
@pytest.mark.first(1)
@pytest.mark.slow
def test_what_blocks_within_the_gpu_is_not_told_of_pinned_memory(
    call: str, kind: str, said: str, tmp_path: Path
) -> None:
    gpu = Gpu(is_pinned=True)
    with steps(gpu, 12) as numbers:
        for _ in numbers:
            for _ in range(10):
                gpu.launch("gemm", 200_000)
            start, begin = gpu.now, gpu.ends[COMPUTE][-1] + 1_200
            gpu.now = begin + 32_000
            gpu.correlation += 1
            gpu.timeline.calls.append(Call(gpu.tid, start, gpu.now, call, gpu.correlation))
            work = Op(kind, f"[{kind}]", COMPUTE, begin, begin + 30_000, gpu.correlation, 1 << 20)
            gpu.timeline.ops.append(work)
            gpu.ends[COMPUTE].append(work.end)
            gpu.work(400_000)
    change = f"update {COPIES} set copyKind = 8, srcKind = 2, dstKind = 2" if kind == "memcpy" else ""
    ((_, _, advice),) = advice_of(gpu, "blocking_copy", tmp_path, change)
    assert advice.startswith(said) and f"{call}Async" in advice


def communicates(gpu: Gpu, kernel: str, computes: str = "gemm") -> Gpu:
    for _ in range(12):
        for _ in range(10):
            gpu.launch(computes, 200_000)
        gpu.launch(kernel, 3_000_000)
    return gpu


@pytest.mark.parametrize(
    ("computes", "torch", "is_without"), [("gemm", True, True), ("gemm", False, False), ("add_backward", True, False)]
)
@pytest.mark.first(1)
def test_names_show_that_there_is_no_backward_only_where_torch_makes_them(
    computes: str, torch: bool, is_without: bool, tmp_path: Path
) -> None:
    gpu = communicates(Gpu(is_pinned=True), "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", computes)
    ((_, _, advice),) = advice_of(gpu, "exposed_communication", tmp_path, torch=torch)
    assert advice.startswith("Without a backward") == is_without


@pytest.mark.parametrize("name", [None, "send activations"])
@pytest.mark.first(1)
def test_exchange_outside_of_all_ranges_is_no_reduction_of_gradients(name: str | None, tmp_path: Path) -> None:
    gpu = Gpu(is_pinned=True)
    if name:
        with gpu.range(name):
            communicates(gpu, "ncclDevKernel_SendRecv", "add_backward")
    else:
        communicates(gpu, "ncclDevKernel_SendRecv", "add_backward")
    ((_, _, advice),) = advice_of(gpu, "exposed_communication", tmp_path)
    assert advice.startswith("All-to-all") == (name is None)


def flattens(gpu: Gpu) -> None:
    """As DDP does with the buffers that it sends."""
    for name, kernel in (("aten::flatten_dense_tensors", "CatArrayBatchedCopy"), ("nccl:broadcast", "ncclBroadcast")):
        with gpu.range(name):
            gpu.work(2_000_000)
            gpu.launch(kernel, 20_000)


def concatenates(gpu: Gpu) -> None:
    """As a model may do, which broadcasts shapes as well."""
    for name, kernel in (("aten::cat", "CatArrayBatchedCopy"), ("aten::broadcast_tensors", "gemm")):
        with gpu.range(name):
            gpu.work(2_000_000)
            gpu.launch(kernel, 20_000)


@pytest.mark.parametrize(("act", "is_ddp"), [(flattens, True), (concatenates, False)])
@pytest.mark.first(1)
def test_a_models_own_operators_are_not_what_ddp_sends(
    act: Callable[[Gpu], None], is_ddp: bool, tmp_path: Path
) -> None:
    gpu = Gpu(is_pinned=True)
    with steps(gpu, 8) as numbers:
        for _ in numbers:
            gpu.work(1_000)  # a step begins before its forward
            with gpu.range("DistributedDataParallel.forward"):
                gpu.launch("gemm", 20_000)
                act(gpu)
    found = advice_of(gpu, "long_idle_gap", tmp_path)
    assert found and all(advice.startswith("DDP sends its buffers") == is_ddp for _, _, advice in found)


@pytest.mark.parametrize(("host", "is_worth"), [(400_000, False), (5_000, True)])
@pytest.mark.slow
def test_hiding_communication_saves_nothing_where_the_cpu_is_late_anyway(
    host: int, is_worth: bool, tmp_path: Path
) -> None:
    """An all-reduce that nothing runs beside; where the CPU launches late, the next kernel would begin no sooner."""
    gpu = Gpu(is_pinned=True)
    with steps(gpu, 8) as numbers:
        for _ in numbers:
            for _ in range(10):
                gpu.work(host)
                gpu.launch("gemm", 50_000)
                gpu.stream_waits(COMMUNICATION, COMPUTE)
                gpu.launch("ncclDevKernel_AllReduce_Sum_bf16", 200_000, COMMUNICATION)
                gpu.stream_waits(COMPUTE, COMMUNICATION)
    writers.write_nsys(tmp_path / "run.sqlite", [gpu.finished().timeline])
    with analyze([tmp_path / "run.sqlite"], tmp_path / "run.duckdb") as database:
        ((saving_frac,),) = database.rows("select sum(saving_frac) from finding where rule = 'exposed_communication'")
        assert (saving_frac > 0.5) if is_worth else (saving_frac < 0.1)
        assert database.rows("select distinct is_predicted from finding where rule = 'exposed_communication'") == [
            (False,)
        ]
