"""One nsys report of several processes as an input of each: nothing lost, nothing twice, each reads as if alone."""

import hashlib
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import simulated_node
from conftest import CORPUS, ROOT, absent
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.read import nsys_split
from lorabench.errors import CorruptInputError, InputError, OutputError
from lorabench.progress import Silent

ALONE = ROOT / "fixtures" / "lora-run.sqlite"
FSDP = CORPUS / "nsys" / "fsdp-2gpu-emit_nvtx.schema-3.25.sqlite"
VIEWS = ("range_summary", "kernel_summary", "api_summary", "unattributed", "lora_summary")


def as_node(path: Path, ranks: int) -> Path:
    return simulated_node.write(ALONE, path, ranks)


def rows(database: Any, view: str) -> list[tuple[Any, ...]]:
    """What a view says of a process, without keys."""
    found = database.connection.execute(
        f"select * exclude (source_id, rank) from {view}" if view != "range_summary"
        else "select * exclude (source_id, rank, path_id, parent_path_id) from range_summary"
    ).fetchall()  # fmt: skip
    return sorted(map(repr, found))


@pytest.mark.slow
def test_each_process_reads_as_if_it_had_been_alone(tmp_path: Path) -> None:
    node = as_node(tmp_path / "node.sqlite", 3)
    before = hashlib.sha256(node.read_bytes()).hexdigest()
    made = nsys_split.split(node, tmp_path / "ranks", Silent())
    assert [path.name for path, _ in made] == ["rank0.sqlite", "rank1.sqlite", "rank2.sqlite"]
    assert [process.first_device for _, process in made] == [0, 1, 2]
    assert [process.pid for _, process in made] == sorted((process.pid for _, process in made), reverse=True)
    with analyze([ALONE], tmp_path / "alone.duckdb") as alone:
        for path, process in made:
            with analyze([path], tmp_path / f"{path.stem}.duckdb") as one:
                assert one.rows("select rank from source") == [(process.first_device,)]
                assert one.rows("select count(*) from gpu_op") == [(process.gpu_op_cnt,)]
                for view in VIEWS:
                    assert rows(one, view) == rows(alone, view), (path.name, view)
    assert hashlib.sha256(node.read_bytes()).hexdigest() == before


@pytest.mark.slow
def test_ranks_of_a_split_report_stand_beside_each_other(tmp_path: Path, run_command: Callable[..., Any]) -> None:
    node = simulated_node.write(ALONE, tmp_path / "node.sqlite", names_gpus=False)
    assert (
        "2 processes in one file; `lorabench split` makes each an input of its own" in run_command("summary", node).out
    )
    done = run_command("split", node, "-o", tmp_path / "ranks")
    assert done.out.count("wrote ") == 2 and "GPU 1, " in done.out
    assert f"next: lorabench analyze {tmp_path / 'ranks'}" in done.err
    said = run_command("analyze", tmp_path / "ranks", "--report", "rank_summary", "--columns", "rank,name", "--csv").out
    assert said.splitlines()[1:] == ["0,rank0.sqlite", "1,rank1.sqlite"]
    assert "processes in one file" not in run_command("summary", tmp_path / "ranks" / "rank1.sqlite").out


def test_a_real_report_of_two_gpus_is_split_without_loss(tmp_path: Path) -> None:
    if not FSDP.exists():
        absent("corpus", f"there is no {FSDP}")
    asked = """select count(*), sum(end_ns - start_ns), (select count(*) from range), (select sum(end_ns - start_ns)
        from range), (select count(*) from api_call), (select count(*) from sync) from gpu_op"""
    made = nsys_split.split(FSDP, tmp_path, Silent())
    sums = []
    for path in (FSDP, *(path for path, _ in made)):
        with analyze([path], tmp_path / f"{path.stem}.duckdb") as database:
            sums.append(database.rows(asked)[0])
    assert len(made) == 2 and min(sums[1]) > 0
    assert sums[0] == tuple(one + other for one, other in zip(sums[1], sums[2], strict=True))


@pytest.mark.parametrize("is_shared", [False, True])
def test_counters_of_a_gpu_that_several_processes_use_are_of_none_of_them(is_shared: bool, tmp_path: Path) -> None:
    node = as_node(tmp_path / "node.sqlite", 2)
    with closing(sqlite3.connect(node)) as file, file:
        if is_shared:
            file.execute("update TARGET_INFO_CUDA_DEVICE set gpuId = 0")
        file.execute("create table TARGET_INFO_GPU_METRICS (typeId integer, metricId integer, metricName text)")
        file.execute("create table GPU_METRICS (timestamp integer, typeId integer, metricId integer, value integer)")
        for gpu in (0, 1):
            file.execute("insert into TARGET_INFO_GPU_METRICS values (?, 1, 'SMs Active [Throughput %]')", [256 + gpu])
            file.execute("insert into GPU_METRICS values (1000, ?, 1, 50)", [256 + gpu])
    counts = []
    for path, _ in nsys_split.split(node, tmp_path / "ranks", Silent()):
        with closing(sqlite3.connect(path)) as file:
            counts.append(file.execute("select count(*) from GPU_METRICS where typeId = 256").fetchone()[0])
    assert counts == ([0, 0] if is_shared else [1, 1])


def test_what_cannot_be_split_is_said_and_leaves_nothing(tmp_path: Path, run_command: Callable[..., Any]) -> None:
    target = tmp_path / "ranks"
    with pytest.raises(InputError, match="one process has GPU work"):
        nsys_split.split(ALONE, target, Silent())
    trace = ALONE.with_name("torch-cpu.json.gz")
    assert (
        "is not an nsys report but a kineto json: it is of one process already"
        in run_command("split", trace, "-o", target, code=3).err
    )
    assert f"{tmp_path} is a folder; name one nsys report" in run_command("split", tmp_path, "-o", target, code=3).err
    node = as_node(tmp_path / "node.sqlite", 2)
    cut = tmp_path / "cut.sqlite"
    cut.write_bytes(node.read_bytes()[:-4096])
    with pytest.raises(CorruptInputError, match="is cut off"):
        nsys_split.split(cut, target, Silent())
    assert not target.exists()
    target.write_text("a file")
    with pytest.raises(OutputError, match="cannot write"):
        nsys_split.split(node, target, Silent())


def test_files_that_are_there_are_replaced_when_asked(tmp_path: Path) -> None:
    node = as_node(tmp_path / "node.sqlite", 2)
    (tmp_path / "ranks").mkdir()
    (tmp_path / "ranks" / "rank1.sqlite").write_text("mine")
    with pytest.raises(OutputError, match=r"has rank1\.sqlite already"):
        nsys_split.split(node, tmp_path / "ranks", Silent())
    assert [path.name for path in (tmp_path / "ranks").iterdir()] == ["rank1.sqlite"]
    nsys_split.split(node, tmp_path / "ranks", Silent(), force=True)
    assert sorted(path.name for path in (tmp_path / "ranks").iterdir()) == ["rank0.sqlite", "rank1.sqlite"]


def test_an_input_is_never_replaced_by_its_ranks(tmp_path: Path, run_command: Callable[..., Any]) -> None:
    node = as_node(tmp_path / "rank0.sqlite", 2)
    said = run_command("split", node, "-o", tmp_path, "--force", code=2).err
    assert "would replace the input" in said


@pytest.mark.parametrize("name", ['a"b', "x] y", "'; drop table StringIds; --", "ünï", "main.t"])
def test_names_of_tables_and_columns_are_names(name: str, tmp_path: Path) -> None:
    node = as_node(tmp_path / "node.sqlite", 2)
    quoted = '"' + name.replace('"', '""') + '"'
    with closing(sqlite3.connect(node)) as file:
        file.execute(f"create table {quoted} (globalPid integer, {quoted} text)")
        file.execute(f"insert into {quoted} values (null, 'of all'), (1, 'of nobody')")
        file.commit()
    for path, _ in nsys_split.split(node, tmp_path / "ranks", Silent()):
        with closing(sqlite3.connect(path)) as file:
            assert file.execute(f"select * from {quoted}").fetchall() == [(None, "of all")]
            assert file.execute("select count(*) from StringIds").fetchone()[0] > 0
