"""The rules of `nsys analyze` against our reports: the same operations, row by row."""

import csv
import io
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import corpus_params

CORPUS = corpus_params("nsys/*.sqlite")

# For each rule of nsys the same rows from a lorabench database, by nsys' columns. Its cuda-sync-api leaves out the
# calls of the driver's interface (cuCtxSynchronize), which wait as long, and those that free memory.
RULES = {
    "cuda-async-memcpy": (
        ("Duration (ns)", "Start (ns)", "Src Kind", "Dst Kind", "Device ID", "Stream ID", "API Name"),
        """select gpu_op_ns, start_ns, src_kind, dst_kind, device_id, stream_id, api_name
        from memory_copy where is_pageable_async""",
    ),
    "cuda-sync-memcpy": (
        ("Duration (ns)", "Start (ns)", "Src Kind", "Dst Kind", "Device ID", "Stream ID", "API Name"),
        """select gpu_op_ns, start_ns, src_kind, dst_kind, device_id, stream_id, api_name
        from memory_copy where is_blocking and name like '%memcpy%'""",
    ),
    "cuda-sync-memset": (
        ("Duration (ns)", "Start (ns)", "Memory Kind", "Device ID", "Stream ID", "API Name"),
        """select gpu_op_ns, start_ns, dst_kind, device_id, stream_id, api_name
        from memory_copy where is_blocking and name like '%memset%'""",
    ),
    "cuda-sync-api": (
        ("Duration (ns)", "Start (ns)", "API Name"),
        """select call.end_ns - call.start_ns, call.start_ns, call.api_name
        from _sync_call as call where kind in ('device', 'stream')
            and api_name like 'cuda%Synchronize%'""",
    ),
}


def of_nsys(nsys: str, rule: str, trace: Path, columns: tuple[str, ...]) -> Counter[tuple[str, ...]]:
    """The rows of a rule; nsys names calls with the version of their interface, _v3020."""
    done = subprocess.run(
        [nsys, "analyze", "--rule", f"{rule}:rows=-1", "--format", "csv", "--output", "-", str(trace)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    header = next((n for n, line in enumerate(done.stdout.splitlines()) if line.startswith(columns[0])), None)
    if header is None:
        return Counter()
    table = csv.DictReader(io.StringIO("\n".join(done.stdout.splitlines()[header:])))
    found = [tuple(row[c] for c in columns) for row in table if row[columns[1]]]
    return Counter(tuple(v.rsplit("_v", 1)[0] if c == "API Name" else v for c, v in zip(columns, row, strict=True))
                   for row in found)  # fmt: skip


@pytest.mark.parametrize("trace", CORPUS)
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_finds_the_same_rows(rule: str, trace: Path, nsys: str, database_of: Callable, tmp_path: Path) -> None:
    columns, statement = RULES[rule]
    copy = tmp_path / "trace.sqlite"  # nsys analyze may write beside its input
    shutil.copyfile(trace, copy)
    copy.chmod(0o644)
    theirs = of_nsys(nsys, rule, copy, columns)
    ours = Counter(tuple(str(value) for value in row) for row in database_of(trace).rows(statement))
    if "duplicate-api-rows" in trace.name:  # --cudabacktrace: nsys joins a copy with both rows of its call
        theirs = Counter(set(theirs))
    assert ours == theirs
