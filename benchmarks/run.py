"""Measures lorabench beside its peers on the same files, in one run: `make bench`, or benchmarks/run.py [options].

The inputs are two runs tiled: the one on an H200 that fixtures/h200-batch holds (two CUDA calls and a quarter of a
range for each kernel, autograd on a thread of its own), and that of fixtures/synthetic.py (ranges of modules in forward
and backward, three kernels for each operator: one call and half a range for each kernel, six deep). Each command is a
cold process; the numbers are medians over the repetitions. Ratios travel between machines, seconds do not.

The projection of nsys 2022 is quadratic in the ranges and is left out. `--nsys PATH` takes another nsys, which need not
be installed: Debian 13 has 2023.4.4 (`dpkg-deb -x` of nsight-systems and nsight-systems-target; its reports want
target-linux-x64/python/lib/*.py copied to host-linux-x64/python/lib, and a link to that folder beside the other).
"""

import argparse
import gzip
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HTA = ROOT / "benchmarks" / "peer_hta.py"
sys.path.insert(0, str(ROOT / "fixtures"))

import synthetic  # noqa: E402
import tile_nsys  # noqa: E402
import writers  # noqa: E402

# The reports that lorabench's numbers are held against, by the names that they have since 2023 and had before.
NSYS_REPORTS = {
    "cuda_gpu_kern_sum": "gpukernsum", "cuda_api_sum": "cudaapisum", "cuda_kern_exec_sum": "kernexecsum",
    "nvtx_kern_sum": "nvtxkernsum", "cuda_gpu_mem_time_sum": "gpumemtimesum",
    "cuda_gpu_mem_size_sum": "gpumemsizesum", "nvtx_sum": "nvtxsum", "nvtx_gpu_proj_sum": None,
}  # fmt: skip
CAPTURE = ROOT / "fixtures" / "h200-batch" / "run.sqlite.gz"


@dataclass(frozen=True)
class Cost:
    """What a process took."""

    cpu_s: float
    wall_s: float
    peak_mb: float


def measure(words: list[str]) -> Cost:
    """Run a command to its end. Raises CalledProcessError when it fails."""
    start = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    if status:
        raise subprocess.CalledProcessError(os.waitstatus_to_exitcode(status), words)
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1000)


def median(costs: list[Cost]) -> Cost:
    """The median of each number."""
    return Cost(*(statistics.median(getattr(c, name) for c in costs) for name in ("cpu_s", "wall_s", "peak_mb")))


def together(costs: list[Cost]) -> Cost:
    """Several commands one after another."""
    return Cost(sum(c.cpu_s for c in costs), sum(c.wall_s for c in costs), max(c.peak_mb for c in costs))


def tile(format: str, path: Path, kernels: int, kernels_per_operator: int) -> Path:
    """A trace of about so many kernels."""
    if not path.exists():
        one = synthetic.simulate(
            *(2, 16, 4), operators=format == "kineto", module_backward=True, kernels_per_operator=kernels_per_operator
        )
        repeat = max(1, kernels // sum(o.kind == "kernel" for o in one.ops))
        write: Callable[..., None] = {"nsys": writers.write_nsys, "kineto": writers.write_kineto}[format]
        partial = path.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        write(partial, synthetic.tiled(one, repeat))
        partial.rename(path)
    return path


def tile_capture(path: Path, kernels: int) -> Path:
    """The run on an H200 over and over."""
    if not path.exists():
        partial = path.with_suffix(".partial")
        with gzip.open(CAPTURE) as packed, partial.open("wb") as file:
            shutil.copyfileobj(packed, file)
        tile_nsys.tile(partial, kernels)
        partial.rename(path)
    return path


def lorabench(trace: Path, folder: Path, *options: str) -> list[str]:
    """The whole command: read, check, write the report."""
    words = [sys.executable, "-m", "lorabench", "analyze", str(trace), "-o", str(folder / "report.csv")]
    return [*words, *(option for option in options if option)]


def row(what: str, cost: Cost, against: Cost | None = None) -> str:
    """A line of the table; the ratio is of CPU time and of wall time."""
    ratio = "" if against is None else f"{against.cpu_s / cost.cpu_s:.1f} / {against.wall_s / cost.wall_s:.1f}"
    return f"| {what} | {cost.cpu_s:.2f} | {cost.wall_s:.2f} | {cost.peak_mb:.0f} | {ratio} |"


def main() -> None:
    """Build the inputs, measure, print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=int, default=1_000_000, help="kernels of the nsys file [1,000,000]")
    parser.add_argument(
        "--kineto-kernels", type=int, default=660_000, help="kernels of the Kineto file [660,000: 1 GB]"
    )
    parser.add_argument(
        "--hta-kernels", type=int, default=220_000, help="kernels of the Kineto file beside HTA [220,000: 0.33 GB]"
    )
    parser.add_argument("--kernels-per-operator", type=int, default=3, help="of the nsys file [3]")
    parser.add_argument("--repeat", type=int, default=3, help="repetitions [3]")
    parser.add_argument("--folder", type=Path, default=ROOT / ".bench", help="where the inputs are kept [.bench]")
    parser.add_argument("--nsys", default=shutil.which("nsys"), help="the nsys to compare with [the one on PATH]")
    a = parser.parse_args()
    a.folder.mkdir(exist_ok=True)
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {time.strftime('%Y-%m-%d')}"
    )
    print("\n| work | CPU s | wall s | peak MB | peer : lorabench, CPU / wall |\n|---|---|---|---|---|")

    _against_nsys("a run on an H200", tile_capture(a.folder / f"h200-{a.kernels}.sqlite", a.kernels), a)
    name = f"nsys-{a.kernels}-{a.kernels_per_operator}.sqlite"
    _against_nsys("synthetic", tile("nsys", a.folder / name, a.kernels, a.kernels_per_operator), a)

    trace = tile("kineto", a.folder / f"kineto-{a.kineto_kernels}.json", a.kineto_kernels, 1)
    size = f"{a.kineto_kernels:,} kernels, {trace.stat().st_size / 1e9:.2f} GB"
    ours = median([measure(lorabench(trace, a.folder, "--force")) for _ in range(a.repeat)])
    print(row(f"lorabench analyze, Kineto ({size})", ours))
    load = median([measure([sys.executable, "-c", _JSON_LOAD, str(trace)]) for _ in range(a.repeat)])
    print(row("orjson.loads of the same file, nothing kept", load, None))

    trace = tile("kineto", a.folder / f"kineto-{a.hta_kernels}.json", a.hta_kernels, 1)
    size = f"{a.hta_kernels:,} kernels, {trace.stat().st_size / 1e9:.2f} GB"
    every = [sys.executable, "-m", "lorabench", "analyze", str(trace), "-o", str(a.folder / "all"), "--force"]
    ours = median([measure(every) for _ in range(a.repeat)])
    peer = None
    if find_spec("hta"):
        peer = median([measure([sys.executable, str(HTA), str(trace)]) for _ in range(a.repeat)])
    print(row(f"lorabench analyze, every view written, Kineto ({size})", ours, peer))
    print(row("HTA: load and nine analyses", peer) if peer else "| traceinsight is not installed: no peer | | | | |")


_JSON_LOAD = "import sys, orjson; orjson.loads(open(sys.argv[1], 'rb').read())"


def _against_nsys(what: str, trace: Path, a: argparse.Namespace) -> None:
    """The rows of one nsys file."""
    size = f"{what}: {a.kernels:,} kernels, {trace.stat().st_size / 1e6:.0f} MB"
    ours = median([measure(lorabench(trace, a.folder, "--force")) for _ in range(a.repeat)])
    again = median([measure(lorabench(trace, a.folder)) for _ in range(a.repeat)])
    every = [sys.executable, "-m", "lorabench", "analyze", str(trace), "-o", str(a.folder / "all"), "--force"]
    whole = median([measure(every) for _ in range(a.repeat)])
    peer = _nsys(trace, a)
    print(row(f"lorabench analyze, nsys ({size})", ours, peer))
    print(row("the same, every view written", whole, peer))
    print(row("the same, unchanged input", again, peer))
    if peer:
        print(row(f"nsys stats, {len(_reports(a.nsys))} reports", peer))


def _reports(nsys: str) -> list[str]:
    """The names of the reports in this nsys."""
    said = subprocess.run([nsys, "--version"], capture_output=True, text=True, check=True).stdout
    year = int(said.rsplit("version ", 1)[-1].split(".")[0])
    return list(NSYS_REPORTS) if year > 2022 else [name for name in NSYS_REPORTS.values() if name]


def _nsys(trace: Path, a: argparse.Namespace) -> Cost | None:
    """The reports of nsys, one after another; None where nsys is not installed."""
    if a.nsys is None:
        print("| nsys is not installed: no peer | | | | |")
        return None
    words = [a.nsys, "stats", "--force-export", "false", "--force-overwrite", "true", "--format", "csv"]

    def report(name: str) -> Cost:
        return measure([*words, "--report", name, "--output", str(a.folder / "nsys"), str(trace)])

    return together([median([report(name) for _ in range(a.repeat)]) for name in _reports(a.nsys)])


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
