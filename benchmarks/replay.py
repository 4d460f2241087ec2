"""Predictions beside what was measured: `make bench`, or benchmarks/replay.py.

Each pair is a program before and after a change. The trace of the one before alone predicts the one after. A simulated
GPU with written rules runs most (fixtures/simulated_gpu.py); where torch is installed, a training loop on this CPU
whose input comes late is measured before and after, too, each with the profiler on.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "fixtures"))

import lorabench  # noqa: E402
import writers  # noqa: E402
from simulated_gpu import pairs  # noqa: E402

_ORIGIN_NS = 1_000_000  # when a simulated run begins


def simulated(folder: Path) -> Iterator[tuple[str, str, float, float, float]]:
    """(name, change, before, predicted, measured) of each pair, in milliseconds of the whole run."""
    for number, pair in enumerate(pairs()):
        before, after = pair.runs()
        trace = folder / f"{number}.sqlite"
        writers.write_nsys(trace, [before.timeline])
        with lorabench.open(trace, db=folder / f"{number}.duckdb") as profile:
            (row,) = profile.what_if(pair.change).to_dicts()
        ends = [(run.timeline.end - _ORIGIN_NS) / 1e6 for run in (before, after)]
        yield pair.name, pair.change, ends[0], row["step_ns"] * pair.before.steps / 1e6, ends[1]


def late_input(folder: Path, seconds: float) -> tuple[Path, float]:
    """A training loop on the CPU whose input takes so long: its trace, and its mean step in milliseconds."""
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(8)))
    optimizer = torch.optim.AdamW(model.parameters())
    steps = []
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as recorder:
        for step in range(12):
            start = time.perf_counter()
            with torch.profiler.record_function(f"step {step}"):
                with torch.profiler.record_function("data"):
                    time.sleep(seconds)
                    batch = torch.randn(64, 512)
                loss = model(batch).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            steps.append((time.perf_counter() - start) * 1e3)
    trace = folder / f"late-{seconds}.json"
    recorder.export_chrome_trace(str(trace))
    return trace, statistics.mean(steps)


def measured(folder: Path) -> Iterator[tuple[str, str, float, float, float]]:
    """The same of a loop on this CPU, in milliseconds of a step."""
    late_input(folder, 0)  # the first loop of a process is slower
    for seconds in (0.005, 0.05):
        trace, before = late_input(folder, seconds)
        _, after = late_input(folder, 0)
        with lorabench.open(trace, db=folder / f"{seconds}.duckdb") as profile:
            (row,) = profile.what_if("prefetch=data").to_dicts()
        yield f"input {seconds * 1e3:.0f} ms late, CPU", "prefetch=data", before, row["step_ns"] / 1e6, after


def main() -> None:
    """Print a Markdown table, and the mean error."""
    errors = []
    print("| pair | change | before ms | predicted ms | measured ms | error |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="lorabench-pairs-") as place:
        folder = Path(place)
        found = [*simulated(folder), *(measured(folder) if find_spec("torch") else ())]
    for name, change, before, predicted, after in found:
        errors.append(abs(predicted / after - 1))
        print(f"| {name} | `{change}` | {before:.2f} | {predicted:.2f} | {after:.2f} | {predicted / after - 1:+.1%} |")
    print(f"\nmean error {statistics.mean(errors):.1%}, largest {max(errors):.1%}, of {len(errors)} pairs")


if __name__ == "__main__":
    main()
