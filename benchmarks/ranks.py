"""Measures jobs of many ranks: `benchmarks/ranks.py TRACE... [--ranks 1000]`, the traces of a few ranks of one job.

First these few are read: by the pool that fills one database of all, as a job by a pool and by a Dask cluster of two
workers on this machine, and by HTA, each where it is installed. Then the results of a thousand ranks are made of
theirs, every time of them within 2 % of what it was, and put together by `lorabench merge`. CPU seconds count all
processes; ratios travel between machines, seconds do not.
"""

import argparse
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lorabench.analyze.job import folder, result
from lorabench.analyze.job import job as jobs
from lorabench.analyze.job.executors import Executor
from lorabench.analyze.pipeline import analyze

_HTA = """
import logging, sys, warnings
warnings.simplefilter("ignore"); logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
trace = TraceAnalysis(trace_files=dict(enumerate(sys.argv[1:])), trace_dir="")
trace.get_temporal_breakdown(visualize=False); trace.get_comm_comp_overlap(visualize=False)
trace.get_gpu_kernel_breakdown(visualize=False); trace.get_idle_time_breakdown(ranks=None, visualize=False)
"""
_DASK = """
import sys
from distributed import LocalCluster
from pathlib import Path
from lorabench.analyze.job import job as jobs
from lorabench.analyze.job.executors import Executor
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        jobs.read(sys.argv[2:], Path(sys.argv[1]), Executor("dask", address=cluster.scheduler_address))
    jobs.merge(Path(sys.argv[1]))
"""
_QUERIES = {
    "straggler": "select step, rank, cause from straggler where is_straggler",
    "rank_summary": "from rank_summary",
    "kernel_over_ranks": "from kernel_over_ranks",
    "collective_summary": "from collective_summary",
}
_MOVED = (
    "_step",
    "_rank_part",
    "_rank_stretch",
    "_rank_wait",
    "collective",
    "_extent",
)  # times on the trace's own clock
_EXACT = 1 << 53  # larger ones are no numbers of floats


def measured(what: str, words: list[str]) -> None:
    """Run a command to its end and print what it and its children took."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    complaints = (process.stderr.read() if process.stderr else "").strip().splitlines()
    _, status, usage = os.wait4(process.pid, 0)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - start
    if status:
        print(f"| {what} | failed: {complaints[-1] if complaints else status} | | |")
        return
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"| {what} | {cpu:.1f} | {wall:.1f} | {usage.ru_maxrss / 1000:.0f} |", flush=True)


def lorabench(*words: object) -> list[str]:
    return [sys.executable, "-m", "lorabench", *map(str, words)]


def jittered(table: pa.Table, name: str, rank: int, world: int, chance: np.random.Generator) -> pa.Table:
    """The rows of another rank: durations within 2 %, times on the clock moved by less than 0.2 ms."""
    shift = int(chance.integers(0, 200_000))
    factors = 1 + chance.uniform(-0.02, 0.02, table.num_rows)
    for place, field in enumerate(table.schema):
        column = table.column(place)
        if field.name in ("rank", "world_size", "group_size"):
            value = rank if field.name == "rank" else world
            new = pa.array([value] * table.num_rows, field.type)
        elif field.name == "group_ranks":
            new = pa.nulls(table.num_rows, field.type)
        elif name in _MOVED and (field.name.endswith(("start_ns", "end_ns")) or _are_moments(column)):
            new = pc.add(column, pa.scalar(shift, field.type))
        elif pa.types.is_decimal(field.type):
            continue
        elif (
            field.name.endswith("_ns")
            and field.name not in ("start_ns", "end_ns", "mtime_ns", "origin_ns")
            and not _are_moments(column)
        ):
            new = pa.compute.multiply(column.cast(pa.float64()), pa.array(factors))
            new = (pa.compute.round(new) if pa.types.is_integer(field.type) else new).cast(field.type)
        else:
            continue
        table = table.set_column(place, field, new)
    return table


def _are_moments(column: pa.ChunkedArray) -> bool:
    """Whether integers are so large that they count from 1970, and are no durations."""
    largest = pc.max(column).as_py() if pa.types.is_integer(column.type) else None
    return largest is not None and largest > _EXACT


def multiply(few: Path, job: Path, ranks: int) -> None:
    """A job of so many ranks out of a job of few."""
    paths = sorted(few.glob(f"{folder.INPUTS}/*/{folder.RESULT}"))
    shutil.rmtree(job, ignore_errors=True)
    folder.make(job, "")
    kept = [
        (result.header(path) or {}, [dict(result.read(path.with_name(name))) for name in (folder.RESULT, folder.LARGE)])
        for path in paths
    ]
    for rank in range(ranks):
        chance = np.random.default_rng(rank)
        header, (small, large) = kept[rank % len(kept)]
        location = f"/job/rank{rank}.json"
        place = Path(folder.folder_of(job, location))
        for name, tables in ((folder.LARGE, large), (folder.RESULT, small)):
            moved = {
                table: jittered(rows, table, rank, ranks, chance)
                for table, rows in tables.items()
                if "source_id" in rows.column_names
            }
            result.write(place / name, header | {"location": location}, moved, moved)


def size(path: Path, pattern: str = "*") -> float:
    return sum(found.stat().st_size for found in path.rglob(pattern) if found.is_file()) / 1e6


def queries(job: Path) -> None:
    with analyze([job]) as database:
        for name, statement in _QUERIES.items():
            taken = []
            for _ in range(5):
                start = time.process_time()
                row_cnt = len(database.query(statement))
                taken.append(time.process_time() - start)
            print(f"| {name} of the job, {row_cnt:,} rows | {statistics.median(taken):.3f} | | |")


def main() -> None:
    """Measure, print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--ranks", type=int, default=1000)
    parser.add_argument("--folder", type=Path, default=Path(".bench-ranks"))
    a = parser.parse_args()
    random.seed(0)
    shutil.rmtree(a.folder, ignore_errors=True)
    a.folder.mkdir()
    megabytes = sum(path.stat().st_size for path in a.traces) / 1e6
    print(f"{len(a.traces)} traces, {megabytes:.0f} MB\n\n| work | CPU s | wall s | peak MB |\n|---|---|---|---|")
    measured("one database of all", lorabench("analyze", *a.traces, "-o", a.folder / "all.duckdb", "-q"))
    few = a.folder / "few"
    measured("a job, two processes", lorabench("analyze", *a.traces, "-o", few, "--workers", 2, "-q"))
    measured("the same again", lorabench("analyze", *a.traces, "-o", few, "--workers", 2, "-q"))
    if find_spec("distributed"):
        program = a.folder / "on_dask.py"
        program.write_text(_DASK)
        measured(
            "a job, Dask of two workers", [sys.executable, str(program), str(a.folder / "dask"), *map(str, a.traces)]
        )
    if find_spec("hta"):
        measured("HTA, all ranks in memory, four analyses", [sys.executable, "-c", _HTA, *map(str, a.traces)])
    if not list(few.glob(f"{folder.INPUTS}/*/{folder.RESULT}")):
        jobs.read([str(path) for path in a.traces], few, Executor())
    job = a.folder / "many"
    multiply(few, job, a.ranks)
    measured(f"merge of {a.ranks:,} ranks", lorabench("merge", job, "-q"))
    measured("a query of the job, the whole command", lorabench("query", job, _QUERIES["straggler"]))
    queries(job)
    parts = size(job, "*.xz"), size(job, folder.DATABASE)
    print(
        json.dumps(
            {"folder_mb": round(size(job), 1), "results_mb": round(parts[0], 1), "database_mb": round(parts[1], 1)}
        )
    )


if __name__ == "__main__":
    main()
