"""One nsys report of several processes: each with GPUs of its own is an input, and of one job they are its ranks."""

import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import nccl_payloads
import pytest
import simulated_node
import synthetic
from caches import cache_in
from conftest import ROOT, quick
from lorabench.analyze import parts
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.read import inputs
from lorabench.analyze.read.exports import Exports
from lorabench.analyze.store.database import Database
from lorabench.progress import Silent
from lorabench.reports.comparison import changes, comparisons

ALONE = ROOT / "fixtures" / "lora-run.sqlite"
VIEWS = (
    "kernel_summary",
    "api_summary",
    "lora_summary",
    "idle_summary",
    "step_summary",
    "phase_summary",
)


@contextmanager
def changed(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as file:
        yield file
        file.commit()


def repeat_kernels(file: sqlite3.Connection) -> None:
    """So many that one is less than a thousandth of a process's work."""
    numbers = "with recursive n(i) as (select 1 union all select i + 1 from n limit 40)"
    rows = "select kernel.* from CUPTI_ACTIVITY_KIND_KERNEL as kernel, n"
    file.execute(f"insert into CUPTI_ACTIVITY_KIND_KERNEL {numbers} {rows}")


def named(node: Path) -> list[str]:
    with Exports(Silent()) as exports:
        return [item.whose for item in inputs.find([node], exports)]


def rows(database: Database, view: str, source_id: int) -> list[str]:
    """What a view says of an input, without keys and times of the file, but for what a GPU is called."""
    keys = {"source_id", "rank", "range_id", "start_ns", "device_id"}
    columns = [name for name, *_ in database.connection.execute(f"describe {view}").fetchall() if name not in keys]
    return sorted(map(repr, database.rows(f"select {', '.join(columns)} from {view} where source_id = {source_id}")))


@pytest.mark.parametrize(
    ("are_visible", "by_workers"), quick(2, [(True, True), (False, False), (True, False), (False, True)])
)
@pytest.mark.slow
def test_each_process_reads_as_if_it_had_been_alone(
    are_visible: bool, by_workers: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether each calls its GPU 0 or by the machine's number."""
    if by_workers:
        monkeypatch.setattr(parts, "WORTH_A_WORKER", 0)
    node = simulated_node.write(ALONE, tmp_path / "node.sqlite", 3, are_visible=are_visible)
    with analyze([ALONE], tmp_path / "alone.duckdb") as alone, analyze([node], tmp_path / "x.duckdb") as database:
        assert database.rows("select name, rank from source order by source_id") == [
            (f"node-rank{rank}.sqlite", rank) for rank in range(3)
        ]
        devices = database.rows("select distinct source_id, device_id from gpu_op order by all")
        assert devices == [(rank + 1, rank if are_visible else 0) for rank in range(3)]
        named = database.rows(
            "select source_id, count(*) from gpu_timeline_summary where device_name is not null group by 1"
        )
        assert sorted(named) == [(rank + 1, 1) for rank in range(3)]
        for view in VIEWS:
            for source_id in (1, 2, 3):
                assert rows(database, view, source_id) == rows(alone, view, 1), view


def fake_nsys(folder: Path, export: Path) -> tuple[Path, Path]:
    """A program that exports any report as this file, and where it writes a line for each."""
    program, log = folder / "nsys", folder / "exports.txt"
    program.write_text(
        '#!/bin/sh\nif [ "$2" = --help ] || [ "$1" = --version ]; then exit; fi\n'
        'while [ "$1" != --output ]; do shift; done\n'
        f"echo >> '{log}'\ncp '{export}' \"$2\"\n"
    )
    program.chmod(0o755)
    return program, log


@pytest.mark.own_cache
@pytest.mark.parametrize("by_workers", [False, True])
@pytest.mark.slow
def test_a_report_is_exported_once_and_read_by_its_processes(
    by_workers: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: Callable[..., Any]
) -> None:
    if by_workers:
        monkeypatch.setattr(parts, "WORTH_A_WORKER", 0)
    program, log = fake_nsys(tmp_path, simulated_node.write(ALONE, tmp_path / "made.sqlite", 3))
    monkeypatch.setenv("LORABENCH_NSYS", str(program))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "node.nsys-rep").write_bytes(b"NVIDIA Tegra Profiler Report 2024@2@3")
    words = ("analyze", tmp_path / "node.nsys-rep", "--report", "rank_summary", "--columns", "rank,name")
    expected = "rank,name\n" + "".join(f"{rank},node-rank{rank}.nsys-rep\n" for rank in range(3))
    assert run_command(*words).out == expected
    assert run_command(*words).out == expected
    assert run_command(*words, "--threshold", "long_gap_ns=1").out == expected
    assert len(log.read_text().splitlines()) == 2, "what was noted is enough to find the inputs; readers export again"
    job = tmp_path / "job"
    run_command("analyze", tmp_path / "node.nsys-rep", "-o", f"{job}/", "--workers", "2")
    assert len(log.read_text().splitlines()) == 3
    assert run_command("query", job, "select rank, name from rank_summary order by rank", "--csv").out == expected
    assert not list(tmp_path.glob("lorabench-export-*"))


@pytest.mark.own_cache
def test_a_report_that_is_not_exported_says_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: Callable[..., Any]
) -> None:
    program, log = fake_nsys(tmp_path, tmp_path / "not there")
    program.write_text(program.read_text() + "exit 1\n")
    monkeypatch.setenv("LORABENCH_NSYS", str(program))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "run.nsys-rep").write_bytes(b"NVIDIA Tegra Profiler Report 2024@2@3")
    assert "run.nsys-rep was made by nsys 2024.2.3" in run_command("analyze", tmp_path / "run.nsys-rep", code=4).err
    assert len(log.read_text().splitlines()) == 1
    run_command("analyze", tmp_path / "run.nsys-rep", tmp_path / "missing.json", code=3)
    assert not list(tmp_path.glob("lorabench-export-*"))


@pytest.mark.own_cache
@pytest.mark.slow
def test_a_file_in_the_place_of_another_is_looked_at_anew_whatever_its_time(tmp_path: Path) -> None:
    """As `cp -p` and `rsync -t` leave it."""
    node = simulated_node.write(ALONE, tmp_path / "node.sqlite", 2)
    before = node.stat()
    kernels = "select name, kernel_cnt from rank_summary order by rank"
    with analyze([node], tmp_path / "x.duckdb") as database:
        expected = database.rows(kernels)
    with changed(node) as file:
        for table in ("KERNEL", "MEMCPY", "MEMSET"):
            file.execute(f"update CUPTI_ACTIVITY_KIND_{table} set globalPid = globalPid + (1 << 40)")
        for table in ("CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"):
            file.execute(f"update {table} set globalTid = globalTid + (1 << 40)")
    os.utime(node, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert node.stat().st_size == before.st_size
    with analyze([node], tmp_path / "x.duckdb", force=True) as database:
        assert database.rows(kernels) == expected


@pytest.mark.own_cache
@pytest.mark.slow
def test_a_report_of_one_process_is_exported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: Callable[..., Any]
) -> None:
    program, log = fake_nsys(tmp_path, ALONE)
    monkeypatch.setenv("LORABENCH_NSYS", str(program))
    (tmp_path / "run.nsys-rep").write_bytes(b"NVIDIA Tegra Profiler Report 2024@2@3")
    assert "run.nsys-rep: " in run_command("analyze", tmp_path / "run.nsys-rep").out
    assert len(log.read_text().splitlines()) == 1


@pytest.mark.slow
def test_an_unchanged_report_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = simulated_node.write(ALONE, tmp_path / "node.sqlite")
    monkeypatch.setenv("XDG_CACHE_HOME", cache_in(tmp_path))
    analyze([node]).close()
    monkeypatch.setattr(parts, "make_part", lambda *_: pytest.fail("read again"))
    with analyze([node]) as database:
        assert database.rows("select count(*) from source") == [(2,)]


@pytest.mark.slow
def test_a_job_has_an_input_for_each_process_and_reads_it_once(tmp_path: Path, run_command: Callable[..., Any]) -> None:
    node, job = simulated_node.write(ALONE, tmp_path / "node.sqlite"), tmp_path / "job"
    asked = ("--report", "rank_summary", "--columns", "rank,name,busy,idle", "--csv")
    for _ in range(2):
        said = run_command("analyze", node, "-o", f"{job}/", "--workers", "1").err
    assert "2 inputs: 0 read, 2 found finished, 0 lost" in said
    assert run_command("analyze", job, *asked).out == run_command("analyze", node, *asked).out


@pytest.mark.slow
def test_the_answer_is_of_a_rank_and_says_so(tmp_path: Path, run_command: Callable[..., Any]) -> None:
    node = simulated_node.write(ALONE, tmp_path / "node.sqlite")
    said = run_command("summary", node).out
    assert (
        said.startswith("node-rank0.sqlite: 2 steps of 421.5 us") and "this is rank 0 of 2; another: --rank N" in said
    )
    assert run_command("summary", node, "--rank", "1").out.startswith("node-rank1.sqlite: 2 steps of 421.5 us")
    assert "split" not in said


@pytest.mark.slow
def test_ranks_are_those_that_nccl_was_told(tmp_path: Path) -> None:
    """Rank 1 is on the first GPU. Of one communicator the calls are matched."""
    calls = [nccl_payloads.Call("ncclAllReduce", 20_000, 120_000, 1 << 20)]
    paths = [nccl_payloads.write(tmp_path / f"{rank}.sqlite", rank, 2, calls) for rank in (1, 0)]
    node = joined(paths, tmp_path / "node.sqlite")
    assert named(node) == ["rank0", "rank1"]
    with analyze([node], tmp_path / "x.duckdb") as database:
        devices = database.rows("select distinct rank, device_id from gpu_op join source using (source_id)")
        assert sorted(devices) == [(0, 1), (1, 0)]
        assert database.rows("select operation, member_cnt, reason from collective_match") == [("all_reduce", 2, None)]


def two_nodes(folder: Path) -> list[Path]:
    """Reports of two machines of two ranks each: three steps of a job of four, the second one's clock far ahead."""
    folder.mkdir(exist_ok=True)
    nodes = []
    for machine in range(2):
        paths = []
        for rank in (2 * machine, 2 * machine + 1):
            begin = [machine * 25_000_000 + 50_000 + 500_000 * step for step in range(3)]
            calls = [nccl_payloads.Call("ncclAllReduce", at + 900 * rank, at + 100_000, 1 << 20) for at in begin]
            paths.append(nccl_payloads.write(folder / f"{rank}.part", rank, 4, calls))
        nodes.append(joined(paths, folder / f"node{machine}.sqlite"))
        for path in paths:
            path.unlink()
        with changed(nodes[-1]) as file:
            file.execute("create table TARGET_INFO_SYSTEM_ENV (name text, value text)")
            file.execute("insert into TARGET_INFO_SYSTEM_ENV values ('Hostname', ?)", [f"host{machine}"])
    return nodes


@pytest.mark.slow
def test_processes_of_a_report_share_a_clock_and_machines_have_their_own(tmp_path: Path) -> None:
    with analyze(two_nodes(tmp_path), tmp_path / "x.duckdb") as database:
        found = database.rows("select rank, world_size, host from source order by rank")
        assert found == [(0, 4, "host0"), (1, 4, "host0"), (2, 4, "host1"), (3, 4, "host1")]
        clocks = database.rows("select rank, clock_id, offset_ns, error_ns from clock_offset order by rank")
        assert clocks[0][1:] == clocks[1][1:] and clocks[2][1:] == clocks[3][1:] and clocks[0][1] != clocks[2][1]
        assert abs(clocks[2][2] - clocks[0][2] - 25_000_000) <= clocks[0][3] + clocks[2][3]
        assert database.rows("select count(*) from matched_collective where match_id is null") == [(0,)]


@pytest.mark.slow
def test_a_copy_of_a_report_is_left_out(tmp_path: Path, run_command: Callable[..., Any]) -> None:
    nodes = two_nodes(tmp_path / "job")
    told = run_command("summary", *nodes).out.splitlines()[:7]
    (tmp_path / "job" / "zcopy.sqlite").write_bytes(nodes[1].read_bytes())
    assert run_command("summary", tmp_path / "job").out.splitlines()[:7] == told
    said = run_command("validate", tmp_path / "job", code=9).out
    assert "rank 2 again: zcopy-process1002.sqlite is the same as node1-process1002.sqlite" in said


@pytest.mark.slow
def test_of_a_job_it_is_said_which_ranks_are_not_here(tmp_path: Path, run_command: Callable[..., Any]) -> None:
    """NCCL says how many ranks a communicator has."""
    _, other = two_nodes(tmp_path)
    assert "this is rank 2 of 4 (2 here); another: --rank N" in run_command("summary", other).out
    assert "rank 0, 1 of 4" in run_command("validate", other).out
    run_command("split", other, "-o", tmp_path / "alone")
    told = run_command("summary", tmp_path / "alone" / "rank3.sqlite").out
    assert "this is rank 3 of 4, alone: how long it waits for others is not known" in " ".join(told.split())


def test_a_name_says_more_of_a_rank_than_a_communicator_of_some(tmp_path: Path) -> None:
    """The rank in a group of four is none in a job of eight."""
    calls = [nccl_payloads.Call("ncclAllReduce", 20_000, 120_000, 1 << 20)]
    path = nccl_payloads.write(tmp_path / "rank5.sqlite", 1, 4, calls)
    with analyze([path], tmp_path / "x.duckdb") as database:
        assert database.rows("select rank, world_size from source") == [(5, None)]


@pytest.mark.slow
def test_communicators_of_some_ranks_say_no_rank_of_the_job(tmp_path: Path) -> None:
    """Two machines that share out their layers among two GPUs each: both have a rank 0 of 2."""
    nodes = []
    for machine in range(2):
        paths = []
        for rank in range(2):
            calls = [nccl_payloads.Call("ncclAllReduce", 20_000, 120_000, 1 << 20)]
            path = tmp_path / f"{machine}-{rank}.part"
            paths.append(nccl_payloads.write(path, rank, 2, calls, communicator=machine + 1))
        nodes.append(joined(paths, tmp_path / f"node{machine}.sqlite"))
    with analyze(nodes, tmp_path / "x.duckdb") as database:
        assert database.rows("select rank, world_size from source") == [(None, None)] * 4
        assert database.rows("select rule from validation where severity = 'error'") == []


@pytest.mark.slow
def test_two_nodes_of_a_job_are_no_two_runs(tmp_path: Path, run_command: Callable[..., Any]) -> None:
    one, other = two_nodes(tmp_path / "job")
    said = " ".join(run_command("compare", one, other).out.split())
    assert said.startswith("A and B are ranks 0-1 and 2-3 of one job, which wait for each other: steps of ")
    assert "holds the others up" not in said
    refused = run_command("compare", tmp_path / "job", tmp_path / "job", "--rank", 3, code=2).err
    assert f"`lorabench split {other} -o DIR` writes a file for each" in " ".join(refused.split())


def joined(paths: list[Path], node: Path) -> Path:
    """The reports of processes as one, each on the next GPU."""
    node.write_bytes(paths[0].read_bytes())
    with changed(node) as file:
        file.execute("create table TARGET_INFO_CUDA_DEVICE (gpuId integer, cudaId integer, pid integer)")
        for gpu, path in enumerate(paths):
            file.execute("attach ? as other", [str(path)])
            tables = [name for (name,) in file.execute("select name from other.sqlite_master where type = 'table'")]
            for table in tables if gpu else []:
                columns = [row[1] for row in file.execute(f"pragma other.table_info({table})")]
                if {"globalPid", "globalTid"} & set(columns):
                    moved = ["deviceId + 1" if name == "deviceId" else name for name in columns]
                    file.execute(f"insert into {table} select {', '.join(moved)} from other.{table}")
            process = "select distinct globalPid >> 24 & 16777215 from other.CUPTI_ACTIVITY_KIND_KERNEL"
            file.execute(f"insert into TARGET_INFO_CUDA_DEVICE select {gpu}, {gpu}, ({process})")
            file.commit()
            file.execute("detach other")
    return node


@pytest.mark.slow
def test_reports_of_several_nodes_have_ranks_only_if_nccl_says_them(tmp_path: Path) -> None:
    """In the order of their GPUs both nodes would have a rank 0."""
    (tmp_path / "nodes").mkdir()
    for number in range(2):
        simulated_node.write(ALONE, tmp_path / "nodes" / f"node{number}.sqlite")
    with analyze([tmp_path / "nodes"], tmp_path / "x.duckdb") as database:
        rows = database.rows("select name, rank from source order by source_id")
        assert database.rows("from validation where rule = 'rank_twice'") == []
    assert [rank for _, rank in rows] == [None] * 4
    assert [name.partition("-process")[0] for name, _ in rows] == ["node0", "node0", "node1", "node1"]


def test_a_process_without_collectives_is_no_rank_of_those_that_have_some(tmp_path: Path) -> None:
    node = simulated_node.write(ALONE, tmp_path / "node.sqlite", 3)
    with changed(node) as file:
        file.execute(
            "delete from CUPTI_ACTIVITY_KIND_KERNEL where deviceId = 1 and demangledName in "
            "(select id from StringIds where value like '%nccl%')"
        )
    ranks = named(node)
    assert ranks[:2] == ["rank0", "rank1"] and ranks[2].startswith("process") and len(ranks) == 3


@pytest.mark.slow
def test_a_job_forgets_what_a_file_was_before(tmp_path: Path, run_command: Callable[..., Any]) -> None:
    node, job = simulated_node.write(ALONE, tmp_path / "node.sqlite", names_gpus=False), tmp_path / "job"
    run_command("analyze", node, "-o", f"{job}/", "--workers", "1")
    node.unlink()
    simulated_node.write(ALONE, node)
    run_command("analyze", node, "-o", f"{job}/", "--workers", "1")
    said = run_command("analyze", job, "--report", "trace_info", "--csv")
    assert "node-rank0.sqlite" in said.out and "node.sqlite," not in said.out.replace("node-rank0.sqlite", "")
    assert "another version" not in said.out + said.err


@pytest.mark.slow
def test_processes_that_never_meet_are_no_ranks(tmp_path: Path) -> None:
    node = simulated_node.write(ALONE, tmp_path / "node.sqlite")
    with changed(node) as file:
        file.execute("update StringIds set value = 'some_kernel' where value like '%nccl%'")
        pids = [pid for (pid,) in file.execute("select distinct pid from TARGET_INFO_CUDA_DEVICE order by gpuId")]
    assert sorted(named(node)) == sorted(f"process{pid}" for pid in pids)
    with analyze([node], tmp_path / "x.duckdb") as database:
        assert database.rows("select rank from source") == [(None,), (None,)]


def test_a_process_with_hardly_any_work_is_no_rank_and_takes_nobodys_gpu(tmp_path: Path) -> None:
    node = simulated_node.write(ALONE, tmp_path / "node.sqlite")
    with changed(node) as file:
        repeat_kernels(file)
        columns = [row[1] for row in file.execute("pragma table_info(CUPTI_ACTIVITY_KIND_KERNEL)")]
        moved = ["globalPid + (7 << 24)" if name == "globalPid" else name for name in columns]
        file.execute(
            f"insert into CUPTI_ACTIVITY_KIND_KERNEL select {', '.join(moved)} from CUPTI_ACTIVITY_KIND_KERNEL limit 1"
        )
    ranks = named(node)
    assert ranks[:2] == ["rank0", "rank1"] and len(ranks) == 3 and ranks[2].startswith("process")


def test_a_process_of_many_devices_has_the_one_that_it_works_most_on(tmp_path: Path) -> None:
    node = simulated_node.write(ALONE, tmp_path / "node.sqlite")
    with changed(node) as file:
        file.execute(
            "insert into CUPTI_ACTIVITY_KIND_KERNEL "
            "(start, end, deviceId, streamId, correlationId, globalPid, demangledName) "
            "with recursive n(i) as (select 2 union all select i + 1 from n limit 3000) "
            "select i, i + 1, i, 7, -i, (select max(globalPid) from CUPTI_ACTIVITY_KIND_KERNEL), 1 from n"
        )
    assert named(node) == ["rank0", "rank1"]


@pytest.mark.parametrize(
    "spoiled",
    [
        "update TARGET_INFO_CUDA_DEVICE set gpuId = 0",  # they share it
        "drop table TARGET_INFO_CUDA_DEVICE",
        "alter table TARGET_INFO_CUDA_DEVICE drop column pid",
        "update TARGET_INFO_CUDA_DEVICE set pid = 1",
        "update CUPTI_ACTIVITY_KIND_KERNEL set deviceId = 0",
        "delete from TARGET_INFO_CUDA_DEVICE",
        "update TARGET_INFO_CUDA_DEVICE set gpuId = 'a'",
        "alter table TARGET_INFO_CUDA_DEVICE rename to x; create view TARGET_INFO_CUDA_DEVICE as "
        "with recursive n(i) as (select 1 union all select i + 1 from n) "
        "select i as gpuId, i as cudaId, i as pid from n",
    ],
)
def test_where_gpus_are_shared_or_not_told_apart_the_file_is_one_input(spoiled: str, tmp_path: Path) -> None:
    node = simulated_node.write(ALONE, tmp_path / "node.sqlite")
    with changed(node) as file:
        file.executescript(spoiled)
        if "deviceId" in spoiled:
            file.execute("update CUPTI_ACTIVITY_KIND_MEMCPY set deviceId = 0")
            file.execute("update CUPTI_ACTIVITY_KIND_MEMSET set deviceId = 0")
    assert named(node) == [""]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two processes that take eight steps on one GPU, with ranges."""
    folder = tmp_path_factory.mktemp("shared")
    command = [sys.executable, synthetic.__file__, "nsys", folder / "run.sqlite", "--steps", "8"]
    subprocess.run([*map(str, command)], check=True)
    node = simulated_node.write(folder / "run.sqlite", folder / "node.sqlite", names_gpus=False, are_visible=False)
    return node


@pytest.mark.parametrize("has_ranges", [True, False])
@pytest.mark.slow
def test_steps_of_processes_that_share_a_gpu_are_each_ones_own(has_ranges: bool, shared: Path, tmp_path: Path) -> None:
    node = tmp_path / "node.sqlite"
    node.write_bytes(shared.read_bytes())
    with changed(node) as file:
        file.execute("delete from NVTX_EVENTS" if not has_ranges else "select 1")
    with analyze([node], tmp_path / "x.duckdb") as database:
        ((steps, length),) = database.rows("select step_cnt, p50_ns from _answer_step")
        own = database.rows("select median(length_ns) from step_summary")[0][0]
        assert database.rows("select distinct found_by from step_summary") == [
            ("annotation" if has_ranges else "period",)
        ]
    assert (steps, length) == (8 if has_ranges else pytest.approx(8, abs=1), pytest.approx(own, rel=0.05))


@pytest.mark.slow
def test_steps_of_processes_side_by_side_are_compared_on_the_scale_of_one(shared: Path, tmp_path: Path) -> None:
    with analyze([shared], tmp_path / "x.duckdb") as database:
        rows, _ = changes.compare({"a": database, "b": database}, comparisons.COMPARISONS["step"])
    (median, *steps) = [row["a"] for row in rows]
    assert len(steps) == 8 and all(0.5 * median < step < 1.5 * median for step in steps)


def test_a_critical_path_has_the_time_of_its_own_process(shared: Path, tmp_path: Path) -> None:
    """Rows of both processes stand beside each other: those of a step number add up to the steps of both."""
    with analyze([shared], tmp_path / "x.duckdb") as database:
        assert database.rows("from critical_path where critical_ns < 0") == []
        rows = database.rows("select sum(critical_frac) from critical_path group by step")
    assert len(rows) == 8 and all(whole == pytest.approx(2) for (whole,) in rows)


@pytest.mark.slow
def test_memory_of_processes_that_share_a_gpu_is_of_one(
    shared: Path, tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    node = tmp_path / "node.sqlite"
    node.write_bytes(shared.read_bytes())
    with changed(node) as file:
        file.execute(
            "create table CUDA_GPU_MEMORY_USAGE_EVENTS (start integer, globalPid integer, deviceId integer, "
            "address integer, bytes integer, memoryOperationType integer)"
        )
        processes = file.execute("select distinct globalPid from CUPTI_ACTIVITY_KIND_KERNEL order by 1").fetchall()
        for number, (process,) in enumerate(processes, start=1):
            file.execute(
                "insert into CUDA_GPU_MEMORY_USAGE_EVENTS values (?, ?, 0, ?, ?, 0)",
                [number, process, number << 40, number << 30],
            )
    said = " ".join(run_command("summary", node).out.split())
    assert "memory of cuda:0: peak 2,048 MiB since the recording began in one of 2 processes" in said


def test_a_gpu_that_a_rank_hardly_touches_is_still_another_ones(tmp_path: Path) -> None:
    """Each rank that sets a device too late makes a context on GPU 0, and perhaps a copy."""
    node = simulated_node.write(ALONE, tmp_path / "node.sqlite")
    with changed(node) as file:
        repeat_kernels(file)
        file.execute(
            "update CUPTI_ACTIVITY_KIND_KERNEL set deviceId = 0 where rowid in "
            "(select max(rowid) from CUPTI_ACTIVITY_KIND_KERNEL where deviceId = 1)"
        )
    assert named(node) == ["rank0", "rank1"]
