"""What only a GPU can show, in one process: benchmarks/gpu.py [--out FOLDER] [SECTION…]; each prints a Markdown table.

    limit      BatchLoRA: tokens a second, launches and memory as one setting after another is added
    many       the fastest of them, as adapters are added
    pairs      the two sides of each change that `lorabench what-if` predicts, and a trace of the first side
    overhead   what ranges and profilers cost on a step that launching limits and on one that the GPU limits
    operator   the LoRA of one layer alone: a loop of PEFT's way, mLoRA's pruned loop, grouped and fused products
    peers      one adapter as people train it: PEFT alone, bfloat16 with torch.compile

A cell is the median of its steps, each between two synchronizations. Every row says when it failed, and why.
"""

import argparse
import gc
import json
import statistics
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from lorabench.collect.batch_lora import operators
from lorabench.collect.batch_lora.plan import Plan, Slice
from lorabench.collect.batch_lora.stacked import Stack, StackedLayer
from lorabench.collect.instruments import spans, watchers
from lorabench.collect.run import extra_steps, measure
from lorabench.collect.settings.spec import RunSpec, from_dict
from lorabench.collect.workload.training import Trainer

DEVICE = torch.device("cuda")
SHAPE: dict[str, Any] = {"model": "tinyllama-1.1b", "seq_len": 512, "batch_size": 4, "steps": 8, "warmup": 3}
BATCH: dict[str, Any] = SHAPE | {"peft_mode": "batch"}
LADDER: list[tuple[str, dict[str, Any]]] = [
    ("fused", {}),
    ("+ autocast", {"autocast": "bfloat16"}),
    ("+ stacked, fused AdamW", {"adapter_storage": "stacked", "optimizer": "adamw-fused"}),
    ("+ CUDA graph", {"cuda_graph": True}),
    ("+ compiled parts", {"compile": "parts"}),
    ("+ nothing recomputed", {"gradient_checkpointing": "none"}),
]
BEST: dict[str, Any] = {name: value for _, more in LADDER for name, value in more.items()}
LINES: list[str] = []


def tell(*cells: Any) -> None:
    """A row of a Markdown table, printed at once."""
    LINES.append(f"| {' | '.join(str(c) for c in cells)} |")
    print(LINES[-1], flush=True)


@contextmanager
def trained(settings: dict[str, Any], with_ranges: bool = False) -> Iterator[tuple[RunSpec, Trainer]]:
    """A trainer behind its warm-up; the GPU is emptied afterwards."""
    torch.cuda.reset_peak_memory_stats()
    spec = from_dict(settings)
    spans.pause(True)
    trainer = Trainer(spec, DEVICE, with_ranges=with_ranges)
    try:
        steps(trainer, 0, spec.warmup)
        yield spec, trainer
    finally:
        trainer.close()
        del trainer
        gc.collect()
        torch.cuda.empty_cache()


def steps(trainer: Trainer, first: int, count: int, behind: Callable[[], None] | None = None) -> list[float]:
    """Milliseconds of so many steps of all adapters."""
    walls = []
    for tasks in trainer.iterations(first, count):
        measure.synchronize(DEVICE)
        start = time.perf_counter_ns()
        for task in tasks:
            trainer.run(task)
            if behind is not None:
                behind()
        measure.synchronize(DEVICE)
        walls.append((time.perf_counter_ns() - start) / 1e6)
    return walls


def launches(trainer: Trainer, first: int) -> int:
    """Kernels of a step, those of CUDA graphs each counted."""
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds) as profiler:
        steps(trainer, first, 1)
    events = profiler.profiler.kineto_results.events()
    return sum(e.device_type() == torch.autograd.DeviceType.CUDA and "Mem" not in e.name() for e in events)


def cell(name: str, settings: dict[str, Any]) -> None:
    """Measure a run and tell its row."""
    try:
        with trained(settings) as (spec, trainer):
            walls = steps(trainer, spec.warmup, spec.steps)
            step = statistics.median(walls)
            tokens = spec.seq_len * sum(a.batch_size for a in trainer.adapters)
            rate = tokens / step * 1e3
            model = getattr(trainer.model, "_orig_mod", trainer.model)
            parts = measure.arithmetic(model, spec.gradient_checkpointing, trainer.adapter_flop(), spec.loss)
            flop = parts.of(1, spec.seq_len, trainer.adapters[0].name) * rate
            peak = measure.peak_flop_s(DEVICE, torch.bfloat16) or float("inf")
            memory = torch.cuda.max_memory_allocated() / 2**20
            kernels = launches(trainer, spec.warmup + spec.steps)
            notes = "; ".join(n for n in trainer.notes if "cuda-graph" in n)
            tell(name, spec.lora_cnt, f"{step:.1f}", f"{min(walls):.1f}", f"{rate:,.0f}", f"{flop / peak:.0%}", kernels,
                 f"{memory:,.0f}", notes)  # fmt: skip
    except Exception as error:
        traceback.print_exc()
        first = next(iter(str(error).splitlines()), "")
        tell(name, settings.get("lora_cnt", 1), f"{type(error).__name__}: {first[:150]}", *[""] * 6)


HEAD = ("way", "adapters", "step ms", "fastest", "tokens/s", "of the peak", "kernels", "peak MiB", "notes")


def head(*names: str) -> None:
    """A table's first two lines."""
    print()
    LINES.append("")
    tell(*names)
    tell(*["---"] * len(names))


def limit(out: Path) -> None:
    """One setting after another."""
    head(*HEAD)
    for adapters in (8, 1):
        settings = BATCH | {"lora_cnt": adapters}
        for name, more in LADDER:
            settings = settings | more
            cell(name, settings)


def many(out: Path) -> None:
    """The fastest and the smallest, by adapters."""
    head(*HEAD)
    smallest = BATCH | BEST | {"gradient_checkpointing": "layer", "loss": "chunked"}
    for adapters in (2, 4, 16):
        cell("fastest", BATCH | BEST | {"lora_cnt": adapters})
    for adapters in (8, 32):
        cell("smallest", smallest | {"lora_cnt": adapters})
    cell("apart, for launches", BATCH | {"lora_cnt": 2})


def peers(out: Path) -> None:
    """One adapter as people train it."""
    one = SHAPE | {"lora_cnt": 1}
    head(*HEAD)
    cell("PEFT", one)
    cell("PEFT, bf16=True", one | {"autocast": "bfloat16"})
    cell("PEFT, bf16=True, nothing recomputed", one | {"autocast": "bfloat16", "gradient_checkpointing": "none"})
    compiled = one | {"adapter_dtype": "base", "gradient_checkpointing": "none", "compile": "inductor"}
    cell("bfloat16, torch.compile", compiled)


def pairs(out: Path) -> None:
    """Steps before and after a change, and a trace of before."""
    head("change", "before ms", "after ms", "trace")
    one, four = BATCH | {"lora_cnt": 1}, SHAPE | {"lora_cnt": 4}
    changes: list[tuple[str, dict[str, Any], dict[str, Any], Any]] = [
        ("batch=2", SHAPE | {"lora_cnt": 2}, BATCH | {"lora_cnt": 2}, None),
        ("batch=4", four, four | {"peft_mode": "batch"}, None),
        ("batch=8", SHAPE | {"lora_cnt": 8}, BATCH | {"lora_cnt": 8}, None),
        ("drop-sync", four, four, torch.cuda.synchronize),
        ("pin", one | {"pin_memory": False}, one, None),
        ("graph", one, one | {"cuda_graph": True}, None),
        ("autocast", four, four | {"autocast": "bfloat16"}, None),
        ("batch doubled", one, one | {"batch_size": 8}, None),
    ]
    for name, before, after, behind in changes:
        try:
            ran = []
            for number, settings in enumerate((before, after)):
                with trained(settings) as (spec, trainer):
                    ran.append(statistics.median(steps(trainer, spec.warmup, 8, None if number else behind)))
            folder = out / f"pair-{name.replace('=', '')}"
            if name not in ("batch doubled", "autocast"):  # whose traces are among the others
                trace(folder, before, behind)
            tell(name, *(f"{ms:.2f}" for ms in ran), folder.name)
        except Exception as error:
            traceback.print_exc()
            tell(name, type(error).__name__, str(error)[:100], "")


def trace(folder: Path, settings: dict[str, Any], behind: Callable[[], None] | None = None) -> None:
    """A torch trace of two steps, one where there are many adapters, with phases as ranges."""
    folder.mkdir(parents=True, exist_ok=True)
    count = 1 if settings["lora_cnt"] > 2 else 2
    with trained(settings | {"profiler": "torch", "steps": count, "range_depth": "phase"}, True) as (spec, trainer):
        watcher = watchers.TorchProfiler(spec, DEVICE, folder, "")
        with watcher.window():
            spans.pause(False)
            with spans.span("run"):
                for tasks in trainer.iterations(spec.warmup, count):
                    for task in tasks:
                        trainer.run(task)
                        if behind is not None:
                            behind()
                    measure.synchronize(DEVICE)
                    watcher.step()
            spans.pause(True)


def overhead(out: Path) -> None:
    """Ranges, torch.profiler and the memory pass on top of a step."""
    head("step", "ms", "ranges", "torch.profiler", "memory")
    rows: list[tuple[str, dict[str, Any]]] = [
        ("launching limits: 2,048 tokens", BATCH | {"lora_cnt": 1}),
        ("the GPU limits: 32,768 tokens", BATCH | {"lora_cnt": 4, "batch_size": 16}),
    ]
    for name, settings in rows:
        with trained(settings) as (spec, trainer):
            plain = statistics.median(steps(trainer, spec.warmup, 8))
            ranges = extra_steps.range_overhead(trainer, DEVICE, 20)
            found = []
            with trainer.annotate():
                for watcher in (
                    watchers.TorchProfiler(spec, DEVICE, out, "-overhead"),
                    watchers.MemoryWatcher(spec, DEVICE, out, "-overhead", trainer.ledger()),
                ):
                    watcher._keep = lambda *_: None  # type: ignore[method-assign]
                    watcher._profiler.on_trace_ready = None
                    with watcher.window():
                        spans.pause(False)
                        found.append(statistics.median(steps(trainer, 40, 4)))
                        spans.pause(True)
            tell(name, f"{plain:.1f}", f"{ranges:+.1%}", *(f"{ms / plain - 1:+.1%}" for ms in found))


def operator(out: Path) -> None:
    """One layer's LoRA onto what its base gives, forward and backward, Llama-2-7B's shape, 2,048 tokens an adapter."""
    head(
        "adapters",
        *("PEFT's loop us", "mLoRA's pruned loop", "grouped", "fused", "stacked"),
        "pruned : best",
        "of the copy",
    )
    copied = torch.randn(2**28, device=DEVICE, dtype=torch.bfloat16)
    rate = 2 * copied.nbytes / timed(copied.clone) * 1e6
    del copied
    for count in (1, 4, 8, 16):
        ways, size = operator_ways(count, 4096, 4, 512)
        found = [timed(way) for way in ways]
        best = min(found[2:])
        least = 6 * size / rate * 1e6  # x, base, sum; their gradient, x, gradient of x
        tell(count, *(f"{us:,.0f}" for us in found), f"{found[1] / best:.2f}", f"{least / best:.0%}")
    tell("copy", f"{rate / 1e12:.2f} TB/s", *[""] * 6)


def operator_ways(count: int, width: int, rows: int, length: int) -> tuple[list[Callable[[], Any]], int]:
    """Forward and backward in each way, and the bytes of x."""
    ranks = [(8, 16, 32, 64)[n % 4] for n in range(count)]
    slices = tuple(Slice(f"a{n}", n * rows, (n + 1) * rows, r, 2.0, 0.0) for n, r in enumerate(ranks))
    x = torch.randn(count * rows, length, width, device=DEVICE, dtype=torch.bfloat16).requires_grad_()
    base, grad = torch.randn_like(x), torch.randn_like(x)
    shapes = [shape for r in ranks for shape in ((r, width), (width, r))]
    weights = [(torch.randn(shape, device=DEVICE) / 64).requires_grad_() for shape in shapes]
    plan = Plan(slices, len(x), width, None, 3, {})
    uneven = _Uneven(slices, len(x), width, None, 3, {})
    layer = stacked_layer(ranks, weights)
    forwards: list[Callable[[], torch.Tensor]] = [
        lambda: base + peft_loop(x, slices, weights),
        lambda: base + operators.pruned(x, plan, weights),
        lambda: base + operators.fused(x, uneven, weights),
        lambda: base + operators.fused(x, plan, weights),
        lambda: operators.fused_onto(torch.empty_like(base), x, plan, layer),
    ]
    if count == 1:  # which needs nothing put together, and casts by autograd
        forwards[2:4] = [lambda: base + operators.fused(x, plan, [w.to(x.dtype) for w in weights])] * 2
    return [lambda forward=forward: forward().backward(grad) for forward in forwards], x.nbytes  # type: ignore[misc]


def stacked_layer(ranks: Sequence[int], weights: Sequence[torch.Tensor]) -> StackedLayer:
    """The same weights in one tensor."""
    names = [f"a{n}" for n in range(len(ranks))]

    def kept(half: Sequence[torch.Tensor]) -> dict[str, Any]:
        own = [SimpleNamespace(weight=torch.nn.Parameter(w.detach().clone())) for w in half]
        return dict(zip(names, own, strict=True))

    layer = SimpleNamespace(
        r=dict(zip(names, ranks, strict=True)), lora_A=kept(weights[::2]), lora_B=kept(weights[1::2])
    )
    stack = Stack({"layer": layer}, names, torch.bfloat16)
    stack.begin()
    return stack.layer("layer")


class _Uneven(Plan):
    is_even = False  # type: ignore[assignment]


def peft_loop(x: torch.Tensor, slices: Sequence[Slice], weights: Sequence[torch.Tensor]) -> torch.Tensor:
    """As PEFT computes one adapter after another: x in the type of the weights."""
    parts = []
    for n, s in enumerate(slices):
        own = x[s.start : s.stop].to(weights[2 * n].dtype)
        parts.append(torch.nn.functional.linear(torch.nn.functional.linear(own, weights[2 * n]), weights[2 * n + 1]))
    return torch.cat([(part * s.scaling).to(x.dtype) for part, s in zip(parts, slices, strict=True)])


def timed(work: Callable[[], Any]) -> float:
    """Median microseconds of some work, launched ahead of the GPU."""
    for _ in range(5):
        work()
    found = []
    for _ in range(20):
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        torch.cuda._sleep(2_000_000)  # so that launching is not what is measured
        events[0].record()
        work()
        events[1].record()
        torch.cuda.synchronize()
        found.append(events[0].elapsed_time(events[1]) * 1e3)
    return statistics.median(found)


SECTIONS = {f.__name__: f for f in (limit, many, pairs, overhead, operator, peers)}


def main() -> None:
    """Run the sections and leave their tables in a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--out", type=Path, default=Path(".bench/gpu"))
    parser.add_argument("--model", default=SHAPE["model"])
    a = parser.parse_args()
    for shape in (SHAPE, BATCH):
        shape["model"] = a.model
    a.out.mkdir(parents=True, exist_ok=True)
    name, torch_version = torch.cuda.get_device_name(), torch.__version__
    LINES.append(f"{name}, torch {torch_version}, {time.strftime('%Y-%m-%d')}, {json.dumps(SHAPE)}")
    for section in a.sections:
        start = time.perf_counter()
        try:
            SECTIONS[section](a.out)
        except Exception as error:
            traceback.print_exc()
            tell(section, type(error).__name__, str(error)[:200])
        print(f"{section}: {time.perf_counter() - start:.0f} s", flush=True)
        (a.out / "tables.md").write_text("\n".join(LINES) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
