"""Measures lorabench beside its peers on the same files, in one run: `make bench`, or benchmarks/run.py [options].

The inputs are two runs tiled: the one on an H200 that fixtures/h200-batch holds (two CUDA calls and a quarter of a
range for each kernel, autograd on a thread of its own), and that of fixtures/synthetic.py (ranges of modules in forward
and backward, three kernels for each operator: one call and half a range for each kernel, six deep). Each command is a
cold process; the numbers are medians over the repetitions, of which each tries everything once. Ratios travel between
machines, seconds do not: a bar is a share of what a peer, or lorabench's own reading, takes in the same run.

The projection of nsys 2022 is quadratic in the ranges and is left out. `--nsys PATH` takes another nsys, which need not
be installed: Debian 13 has 2023.4.4 (`dpkg-deb -x` of nsight-systems and nsight-systems-target; its reports want
target-linux-x64/python/lib/*.py copied to host-linux-x64/python/lib, and a link to that folder beside the other).
`--hta PYTHON` is an interpreter that has traceinsight, which wants Jupyter.
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
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "fixtures"))

import synthetic  # noqa: E402
import tile_nsys  # noqa: E402
import writers  # noqa: E402

# The reports that lorabench's numbers are held against, by the names that they have since 2023 and had before.
SUMMARIES = {
    "cuda_gpu_kern_sum": "gpukernsum", "cuda_api_sum": "cudaapisum", "cuda_kern_exec_sum": "kernexecsum",
    "nvtx_kern_sum": "nvtxkernsum", "cuda_gpu_mem_time_sum": "gpumemtimesum",
    "cuda_gpu_mem_size_sum": "gpumemsizesum", "nvtx_sum": "nvtxsum", "nvtx_gpu_proj_sum": None,
}  # fmt: skip
# Those with a row for each event.
TRACES = {
    "cuda_gpu_trace": "gputrace", "cuda_api_trace": "cudaapitrace", "nvtx_pushpop_trace": "nvtxpptrace",
    "cuda_kern_exec_trace": "kernexectrace",
}  # fmt: skip
CAPTURE = ROOT / "fixtures" / "h200-batch" / "run.sqlite.gz"
LORABENCH = [sys.executable, "-m", "lorabench"]
# The views that are named as `-o DIR/` writes them, else every view whose size does not grow with the trace.
VIEWS = """
import sys
from pathlib import Path
from lorabench.analyze.job.handed import ROW_LEVEL
from lorabench.analyze.pipeline import analyze
from lorabench.reports.tables import files
from lorabench import sql
wanted = sys.argv[3:] or [view.name for view in sql.public() if view.name not in ROW_LEVEL]
folder = Path(sys.argv[2])
folder.mkdir(exist_ok=True)
with analyze([Path(sys.argv[1])], force=True, writes_into=folder) as database, database.computing_once(wanted):
    for view in wanted:
        files.write(database, view, folder / f"{view}.csv", "csv")
"""
JSON_LOAD = "import sys, orjson; orjson.loads(open(sys.argv[1], 'rb').read())"


@dataclass(frozen=True)
class Cost:
    """What processes took."""

    cpu_s: float
    wall_s: float
    peak_mb: float


@dataclass(frozen=True)
class Work:
    """Commands, one after another; what they are held against, and at most which share of it they may take."""

    name: str
    commands: Sequence[list[str]]
    against: str = ""
    cpu_bar: float | None = None
    wall_bar: float | None = None
    mb_bar: float | None = None
    beyond: str = ""  # work that is in this one and does not count


def measure(words: list[str]) -> Cost:
    """Run a command to its end. Raises CalledProcessError when it fails."""
    start = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    if status:
        raise subprocess.CalledProcessError(os.waitstatus_to_exitcode(status), words)
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1000)


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


def show(what: str, works: list[Work], repeat: int) -> None:
    """Measure all, everything once in each repetition, and print a table."""
    costs: dict[str, list[Cost]] = defaultdict(list)
    for _ in range(repeat):
        for work in works:
            costs[work.name].append(together([measure(words) for words in work.commands]))
    found = {
        name: Cost(*(statistics.median(getattr(c, column) for c in taken) for column in ("cpu_s", "wall_s", "peak_mb")))
        for name, taken in costs.items()
    }
    print(
        f"\n{what}\n\n| work | CPU s | wall s | peak MB | of | CPU | wall | bars |\n|---|---|---|---|---|---|---|---|"
    )
    for work in works:
        cost, peer = found[work.name], found.get(work.against)
        cells = [f"{cost.cpu_s:.2f}", f"{cost.wall_s:.2f}", f"{cost.peak_mb:.0f}"]
        if peer is None:
            cells += ["", "", ""]
            shares = (None, None)
        else:
            less = found.get(work.beyond, Cost(0, 0, 0))
            shares = ((cost.cpu_s - less.cpu_s) / peer.cpu_s, (cost.wall_s - less.wall_s) / peer.wall_s)
            cells += [work.against, *(_share(share) for share in shares)]
        said = [
            f"{name} {_share(bar)} {'met' if share <= bar else '**missed**'}"
            for name, share, bar in (("CPU", shares[0], work.cpu_bar), ("wall", shares[1], work.wall_bar))
            if bar is not None and share is not None
        ]
        if work.mb_bar is not None:
            said.append(f"{work.mb_bar:.0f} MB {'met' if cost.peak_mb <= work.mb_bar else '**missed**'}")
        print(f"| {' | '.join([work.name, *cells, ', '.join(said)])} |", flush=True)


def _share(value: float) -> str:
    return f"1/{1 / value:.1f}" if 0 < value < 0.4 else f"{value:.2f}"


def _of_nsys(trace: Path, folder: Path, nsys: str | None) -> list[Work]:
    """What is measured on an nsys file."""
    report = [*LORABENCH, "analyze", str(trace), "-o", str(folder / "report.csv"), "--force"]
    every = [*LORABENCH, "analyze", str(trace), "-o", str(folder / "all"), "--force", "--quiet"]
    works = [
        Work("report.csv", [[*report, "--quiet"]], "summaries of nsys", 1 / 16, 1 / 24, 700),
        Work("report.csv and the answer", [report], "summaries of nsys", 1 / 11, 1 / 16),
        Work("the answer alone", [report], "report.csv", 0.4, beyond="report.csv"),
        Work(
            "the replay alone",
            [_views(trace, folder, "range_summary", "replay")],
            "report.csv",
            0.25,
            beyond="report.csv",
        ),
        Work("every summary view", [_views(trace, folder)], "summaries of nsys", 1 / 10),
        Work("every view, large ones as Parquet", [every], "summaries of nsys", 1 / 5),
        Work("every view, all as CSV", [[*every, "--format", "csv"]], "traces of nsys", 1 / 8),
        Work("the page", [_page(trace, folder)], "report.csv", 0.5, beyond="report.csv"),
        Work("unchanged input", [[*report[:-1], "--quiet"]], "report.csv"),
    ]
    if nsys is None:
        print("nsys is not installed: no peer")
        return works
    stats = [nsys, "stats", "--force-export", "false", "--force-overwrite", "true", "--format", "csv"]
    for name, reports in (("summaries of nsys", SUMMARIES), ("traces of nsys", TRACES)):
        works.append(
            Work(
                name,
                [
                    [*stats, "--report", chosen, "--output", str(folder / "nsys"), str(trace)]
                    for chosen in _known(nsys, reports)
                ],
            )
        )
    return works


def _known(nsys: str, reports: dict[str, str | None]) -> list[str]:
    """The names of reports in this nsys."""
    said = subprocess.run([nsys, "--version"], capture_output=True, text=True, check=True).stdout
    year = int(said.rsplit("version ", 1)[-1].split(".")[0])
    return list(reports) if year > 2022 else [name for name in reports.values() if name]


def _views(trace: Path, folder: Path, *names: str) -> list[str]:
    return [sys.executable, "-c", VIEWS, str(trace), str(folder / "summaries"), *names]


def _page(trace: Path, folder: Path) -> list[str]:
    return [*LORABENCH, "report", str(trace), "-o", str(folder / "page.html"), "--force"]


def main() -> None:
    """Build the inputs, measure, print Markdown tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=int, default=1_000_000, help="kernels of the nsys files [1,000,000]")
    parser.add_argument("--large-kernels", type=int, help="kernels of a third nsys file, beside the second one [none]")
    parser.add_argument(
        "--kineto-kernels", type=int, default=660_000, help="kernels of the Kineto file [660,000: 1 GB]"
    )
    parser.add_argument(
        "--hta-kernels", type=int, default=220_000, help="kernels of the Kineto file beside HTA [220,000: 0.33 GB]"
    )
    parser.add_argument("--repeat", type=int, default=3, help="repetitions [3]")
    parser.add_argument("--folder", type=Path, default=ROOT / ".bench", help="where the inputs are kept [.bench]")
    parser.add_argument("--nsys", default=shutil.which("nsys"), help="the nsys to compare with [the one on PATH]")
    parser.add_argument("--hta", metavar="PYTHON", help="a Python that has traceinsight [none: no HTA]")
    a = parser.parse_args()
    a.folder.mkdir(exist_ok=True)
    os.environ["XDG_CACHE_HOME"] = str(a.folder / "cache")
    small = tile("nsys", a.folder / "nsys-small.sqlite", 1000, 3)
    subprocess.run(  # the first analysis of a version makes a blank database, once for all
        [*LORABENCH, "analyze", str(small), "-o", str(a.folder / "report.csv"), "--quiet"], check=True
    )
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {time.strftime('%Y-%m-%d')}"
    )

    def size(trace: Path, kernels: int) -> str:
        return f"{kernels:,} kernels, {trace.stat().st_size / 1e6:.0f} MB"

    trace = tile_capture(a.folder / f"h200-{a.kernels}.sqlite", a.kernels)
    show(f"**nsys, a run on an H200 tiled: {size(trace, a.kernels)}**", _of_nsys(trace, a.folder, a.nsys), a.repeat)
    trace = tile("nsys", a.folder / f"nsys-{a.kernels}.sqlite", a.kernels, 3)
    show(f"**nsys, synthetic: {size(trace, a.kernels)}**", _of_nsys(trace, a.folder, a.nsys), a.repeat)
    if a.large_kernels:
        large = tile("nsys", a.folder / f"nsys-{a.large_kernels}.sqlite", a.large_kernels, 3)
        words = [*LORABENCH, "analyze", "-o", str(a.folder / "report.csv"), "--force", "--quiet"]
        works = [
            Work("report.csv of the file above", [[*words, str(trace)]]),
            Work("report.csv", [[*words, str(large)]], "report.csv of the file above",
                 1.1 * a.large_kernels / a.kernels, mb_bar=1800),
            Work("every summary view", [_views(large, a.folder)], mb_bar=2000),
        ]  # fmt: skip
        show(f"**nsys, synthetic: {size(large, a.large_kernels)}**", works, 1)
    trace = tile("kineto", a.folder / f"kineto-{a.kineto_kernels}.json", a.kineto_kernels, 1)
    words = [*LORABENCH, "analyze", str(trace), "-o", str(a.folder / "report.csv"), "--force", "--quiet"]
    works = [
        Work("report.csv", [words], "orjson.loads, nothing kept", mb_bar=600),
        Work("orjson.loads, nothing kept", [[sys.executable, "-c", JSON_LOAD, str(trace)]]),
    ]
    show(f"**Kineto: {size(trace, a.kineto_kernels)}**", works, a.repeat)
    trace = tile("kineto", a.folder / f"kineto-{a.hta_kernels}.json", a.hta_kernels, 1)
    words = [*LORABENCH, "analyze", str(trace), "-o", str(a.folder / "report.csv"), "--force", "--quiet"]
    works = [
        Work("report.csv", [words], "HTA"),
        Work("every summary view", [_views(trace, a.folder)], "HTA", 1 / 7, 1 / 10),
        Work("the page", [_page(trace, a.folder)], "report.csv", 0.5, beyond="report.csv"),
    ]
    if a.hta:
        works.append(Work("HTA", [[a.hta, str(ROOT / "benchmarks" / "peer_hta.py"), str(trace)]]))
    show(f"**Kineto: {size(trace, a.hta_kernels)}**", works, a.repeat)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
