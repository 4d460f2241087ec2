"""Measures ways of training many adapters, and what watching costs: `make bench`, or benchmarks/collect.py [options].

Every cell is a `lorabench collect` of its own. The ways take turns, and a cell's time is the best of its turns, each
the median over the steps of an unprofiled pass: what else the machine does falls on all ways alike. With a GPU:
benchmarks/collect.py --model tinyllama-1.1b --seq-len 512 --steps 20
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WAYS = {
    "switch": ["--peft-mode", "switch"],
    "process": ["--peft-mode", "process"],
    "batch, loop": ["--peft-mode", "batch", "--batch-operator", "loop", "--no-graph-pruning"],
    "batch, loop, pruned": ["--peft-mode", "batch", "--batch-operator", "loop"],
    "batch, fused": ["--peft-mode", "batch", "--batch-operator", "fused"],
}


def collect(folder: Path, *words: object) -> dict[str, Any]:
    """Run once; a run out of memory gives an empty summary."""
    command = [sys.executable, "-m", "lorabench", "collect", "--force", "-o", str(folder), *map(str, words)]
    environment = os.environ | {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    done = subprocess.run(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
    )
    manifest = json.loads((folder / "manifest.json").read_text("utf-8")) if folder.exists() else {}
    if done.returncode and manifest.get("status") != "oom":
        raise RuntimeError(done.stderr)
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text("utf-8"))
    return summary


def best(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """The turn with the shortest median step."""
    return min(turns, key=lambda t: t["step_wall_ns"]["p50"] if "step_wall_ns" in t else float("inf"))


def row(way: str, count: int, turns: list[dict[str, Any]], reference: float | None) -> tuple[str, float | None]:
    """A line of the table, and the step's time."""
    fastest, summary = best(turns), turns[0]
    if "step_wall_ns" not in fastest:
        return f"| {way} | {count} | out of memory | | | | | |", None
    step = fastest["step_wall_ns"]["p50"] / 1e6
    memory = summary["memory"]["steps"]
    peak = memory["peak_allocated_bytes"] or memory["peak_resident_bytes"]
    products, launches = summary["matrix_products_per_step"], summary["kernel_launches_per_step"]
    ratio = f"{reference / step:.2f}" if reference else ""
    cells = (
        *(way, count, f"{step:.1f}", ratio, f"{fastest['tokens_per_s']['computed']:,.0f}"),
        *("" if counted is None else f"{counted:,.0f}" for counted in (products, launches)),
        f"{peak / 2**20:,.0f}",
    )
    return f"| {' | '.join(map(str, cells))} |", step


def main() -> None:
    """Measure and print two Markdown tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--method", default="lora")
    parser.add_argument("--seq-len", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--adapters", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=ROOT / ".bench" / "runs")
    a = parser.parse_args()
    a.folder.mkdir(parents=True, exist_ok=True)
    shape = ["--model", a.model, "--method", a.method, "--seq-len", a.seq_len, "--batch-size", a.batch_size]
    shape += ["--steps", a.steps]
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print(f"{machine}, {time.strftime('%Y-%m-%d')}; {' '.join(map(str, shape))}\n")
    print("| way | adapters | step ms | switch : it | tokens/s | matrix products | launches | peak MiB |")
    print("|---|---|---|---|---|---|---|---|")
    for count in a.adapters:
        reference = None
        turns: dict[str, list[dict[str, Any]]] = {way: [] for way in a.ways}
        for turn in range(a.turns):
            for way in a.ways:
                passes = "timing" if turn else "timing,torch"
                turns[way].append(
                    collect(a.folder / "cell", *shape, "--lora-cnt", count, *WAYS[way], "--profiler", passes)
                )
        for way in a.ways:
            line, step = row(way, count, turns[way], reference)
            reference = reference or step
            print(line, flush=True)
    print("\n| what | on top of a step |\n|---|---|")
    summary = collect(a.folder / "cell", *shape, "--lora-cnt", 4, "--profiler", "timing,torch,nsys,memory")
    for name, cost in summary["overhead_frac"].items():
        print(f"| {name} | {cost:+.1%} |" if cost is not None else f"| {name} | not measured |")


if __name__ == "__main__":
    main()
