"""Job folders of earlier versions are upgraded from what is kept; those of later ones say what to do."""

import os
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
import simulated_node
from caches import cache_in
from conftest import ROOT, quick
from earlier import job_of_version
from lorabench import modules, sql
from lorabench.analyze.job import folder, handed, named, result, unit
from lorabench.analyze.job import job as jobs
from lorabench.analyze.job.executors import Executor
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.read import identity
from lorabench.analyze.read.exports import Exports
from lorabench.analyze.read.inputs import Kind
from lorabench.analyze.store.upgrades import SCHEMA_VERSION
from lorabench.errors import InputError
from lorabench.progress import Silent
from simulated_ranks import Job, simulate

pytestmark = pytest.mark.own_cache
KEYS = ("range_id", "path_id", "parent_path_id", "stack")
OF_ALL = [view for view in sql.public() if view.name not in handed.ROW_LEVEL]
OF_ONE = [view for view in sql.public() if view.name in handed.ROW_LEVEL]
STRAGGLERS = ("select rank, straggler_cnt from rank_summary order by rank", "--csv")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ranks, of which rank 1 loads a batch late."""
    place = tmp_path_factory.mktemp("job") / "ranks"
    simulate(Job(ranks=2, steps=2, idle={(1, 1): 9_000_000})).write(place)
    return place


@pytest.fixture(scope="module")
def job(ranks: Path) -> Path:
    """The job of these ranks, made by this version."""
    place = ranks.parent / "job"
    jobs.read([str(ranks)], place, Executor())
    jobs.merge(place)
    return place


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder, an own one for each test."""
    monkeypatch.setenv("XDG_CACHE_HOME", cache_in(tmp_path))
    return Path(cache_in(tmp_path)) / "lorabench"


def rows(place: Path, rank: int | None = None, views: Sequence[str] = ()) -> dict[str, list[str]]:
    """The rows of these views, else of all of all ranks, or of all with a row for each event of one."""
    shown = [*map(sql.public_view, views)] or (OF_ALL if rank is None else OF_ONE)
    with analyze([place], wanted=folder.Wanted(rank)) as opened:
        return {view.name: _rows(opened, view) for view in shown}


def few(place: Path) -> dict[str, list[str]]:
    """Rows of views that tell one job from another."""
    return rows(place, views=("rank_summary", "straggler", "kernel_summary", "collective_match", "trace_info"))


def _rows(database: Any, view: sql.SqlFile) -> list[str]:
    columns = ", ".join(f'"{column.name}"' for column in view.columns if column.name not in KEYS)
    return sorted(map(repr, database.rows(f"select {columns} from {view.name}")))


def content(place: Path) -> dict[Path, tuple[int, bytes]]:
    """Every file of a folder, and when it was changed."""
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in place.rglob("*") if path.is_file()}


@pytest.mark.parametrize("version", quick(1, [10, 11, 12, 13, SCHEMA_VERSION]))
@pytest.mark.slow
def test_an_earlier_job_is_read_with_the_same_numbers_and_stays_as_it_is(
    version: int, job: Path, tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    old = job_of_version(version, job, tmp_path / "old")
    before = content(old)
    assert run_command("query", old, *STRAGGLERS).out == "rank,straggler_cnt\n0,0\n1,1\n"
    assert f"for good: lorabench merge {old}" in run_command("analyze", old, "--report", "rank_summary").err
    assert rows(old) == rows(job)
    assert rows(old, 1) == rows(job, 1)
    assert content(old) == before


@pytest.mark.slow
def test_it_is_upgraded_once_in_the_cache(
    job: Path, tmp_path: Path, run_command: Callable[..., Any], kept: Path
) -> None:
    old = job_of_version(12, job, tmp_path / "old")
    run_command("query", old, *STRAGGLERS)
    (place,) = kept.glob("*.job")
    before = content(place)
    assert "1 straggler rank: rank 1" in run_command("summary", old).out
    assert content(place) == before
    assert "rank0.json, rank1.json" in run_command("cache").out
    before = content(old)
    run_command("cache", "clear")
    assert not place.exists() and content(old) == before


@pytest.mark.parametrize("version", quick(1, [11, SCHEMA_VERSION]))
@pytest.mark.slow
def test_merge_upgrades_the_folder_itself(
    version: int, job: Path, tmp_path: Path, kept: Path, run_command: Callable[..., Any]
) -> None:
    old = job_of_version(version, job, tmp_path / "old")
    parts = {path: content(path.parent)[path] for path in old.glob("inputs/*/part.duckdb")}
    run_command("merge", old)
    assert few(old) == few(job)
    assert not list(old.glob("inputs/*/*.zst")) and not list(kept.glob("*.job"))
    assert parts == {path: content(path.parent)[path] for path in parts}
    before = content(old)
    run_command("merge", old)
    assert content(old) == before
    assert "merge" not in run_command("analyze", old, "--report", "rank_summary").err


@pytest.mark.slow
def test_what_an_earlier_reader_read_is_read_again_by_analyze_alone(
    job: Path, ranks: Path, tmp_path: Path, run_command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A result, merged or made anew of its part, is what the reader of that time made of the input."""
    place = tmp_path / "job"
    shutil.copytree(job, place)
    cnt = len(list(ranks.glob("rank*.json")))

    def analyzed() -> str:
        return run_command("analyze", ranks, "-o", place).err

    monkeypatch.setitem(identity.READER_VERSIONS, Kind.KINETO, identity.READER_VERSIONS[Kind.KINETO] + 1)
    before = content(place)
    run_command("merge", place)
    assert content(place) == before
    assert f"{cnt} inputs: {cnt} read, 0 found finished" in analyzed()
    assert f"{cnt} inputs: 0 read, {cnt} found finished" in analyzed()
    monkeypatch.setattr(handed, "VERSION", handed.VERSION + 1)
    monkeypatch.setitem(identity.READER_VERSIONS, Kind.KINETO, identity.READER_VERSIONS[Kind.KINETO] + 1)
    run_command("merge", place)
    assert "another version" not in run_command("analyze", place, "--report", "rank_summary").err
    assert f"{cnt} inputs: {cnt} read, 0 found finished" in analyzed()


@pytest.mark.slow
def test_what_an_earlier_reader_could_not_read_is_tried_again(
    tmp_path: Path, run_command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate(Job(ranks=2, steps=2)).write(tmp_path / "ranks")
    (tmp_path / "ranks" / "rank1.json").write_text('{"traceEvents": [{"ph": ', "utf-8")
    run_command("analyze", tmp_path / "ranks", "-o", tmp_path / "job", "--workers", 1, code=3)
    (noted,) = (tmp_path / "job").glob("inputs/*/problem.json")
    before = noted.stat().st_mtime_ns
    run_command("analyze", tmp_path / "ranks", "-o", tmp_path / "job", code=3)
    assert noted.stat().st_mtime_ns == before
    monkeypatch.setitem(identity.READER_VERSIONS, Kind.KINETO, identity.READER_VERSIONS[Kind.KINETO] + 1)
    run_command("analyze", tmp_path / "ranks", "-o", tmp_path / "job", code=3)
    assert noted.stat().st_mtime_ns != before


@pytest.mark.slow
def test_the_first_job_folder_is_upgraded(tmp_path: Path) -> None:
    """Made by the first version that had any, of schema 10."""
    with tarfile.open(ROOT / "fixtures" / "first-job.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    old, new = tmp_path / "first-job", tmp_path / "new"
    jobs.read([str(old / "ranks")], new, Executor())
    jobs.merge(new)
    assert jobs.merge(old) == jobs.merge(new)
    assert rows(old) == rows(new)
    assert rows(old, 1) == rows(new, 1)


def started(*words: object) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        modules.command("lorabench", *map(str, words)), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


@pytest.mark.parametrize("command", quick(1, ["merge", "validate"]))
@pytest.mark.slow
def test_a_killed_upgrade_goes_on_where_it_was(command: str, job: Path, tmp_path: Path, kept: Path) -> None:
    old = job_of_version(12, job, tmp_path / "old")
    before = content(old)

    def done() -> dict[Path, tuple[int, bytes]]:
        found = content(old if command == "merge" else kept)
        results = {path: what for path, what in found.items() if path.name == folder.RESULT and not path.is_symlink()}
        return {path: what for path, what in results.items() if (result.header(path) or {})["versions"] == now}

    now = folder.versions()
    process = started(command, old)
    while not done() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    half = done()
    assert len(half) == 1
    if command == "merge":
        jobs.merge(old)
    assert few(old) == few(job)
    assert half.items() <= done().items() and len(done()) == 2
    assert command == "merge" or content(old) == before


@pytest.mark.parametrize("command", quick(1, ["merge", "validate"]))
@pytest.mark.slow
def test_two_upgrades_at_once_do_no_harm(command: str, job: Path, tmp_path: Path) -> None:
    old = job_of_version(12, job, tmp_path / "old")
    both = [started(command, old) for _ in range(2)]
    said = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert few(old) == few(job)


@pytest.mark.slow
def test_without_parts_inputs_are_read_again(job: Path, ranks: Path, tmp_path: Path) -> None:
    old, before = job_of_version(12, job, tmp_path / "old"), content(ranks)
    first, second = sorted(old.glob("inputs/*/part.duckdb"))
    first.unlink()
    second.write_bytes(second.read_bytes()[:5000])  # damaged
    assert few(old) == few(job)  # in the cache
    assert not first.exists()
    jobs.merge(old)
    assert few(old) == few(job) and rows(old, 0, ["launch_trace"]) == rows(job, 0, ["launch_trace"]) and first.exists()
    assert content(ranks) == before


@pytest.mark.slow
def test_a_part_of_another_content_is_not_taken_for_the_result_s(ranks: Path, tmp_path: Path) -> None:
    """As of a file that changed, and whose reading was killed behind its part."""
    shutil.copytree(ranks, tmp_path / "ranks")
    jobs.read([str(tmp_path / "ranks")], tmp_path / "job", Executor())
    jobs.merge(tmp_path / "job")
    old = job_of_version(12, tmp_path / "job", tmp_path / "old")
    (part,) = old.glob("inputs/rank1*/part.duckdb")
    with duckdb.connect(str(part)) as connection:
        connection.execute("update source set mtime_ns = mtime_ns + 1")
    (tmp_path / "ranks" / "rank1.json").unlink()
    ((name, said),) = jobs.merge(old).lost
    assert name == "rank1.json" and f"; {part} is of other contents of the file, and " in said


@pytest.mark.long
def test_processes_of_a_report_are_read_again(tmp_path: Path) -> None:
    node, new = simulated_node.write(ROOT / "fixtures" / "lora-run.sqlite", tmp_path / "node.sqlite"), tmp_path / "new"
    assert jobs.read([str(node)], new, Executor()).count("read") == 2
    jobs.merge(new)
    old = job_of_version(12, new, tmp_path / "old")
    for part in old.glob("inputs/*/part.duckdb"):
        part.unlink()
    assert jobs.merge(old).read_cnt == 2
    assert few(old) == few(new)


@pytest.mark.long
def test_traces_elsewhere_are_read_again(ranks: Path, tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe_file("/old/rank0.json", (ranks / "rank0.json").read_bytes())
    jobs.read(["memory://old/rank0.json"], tmp_path / "new", Executor())
    jobs.merge(tmp_path / "new")
    old = job_of_version(12, tmp_path / "new", tmp_path / "old")
    next(old.glob("inputs/*/part.duckdb")).unlink()
    with pytest.raises(InputError, match=rf"not there: lorabench merge {old} reads memory:///old/rank0\.json again"):
        few(old)  # who reads a folder does not reach for what it names
    jobs.merge(old)
    assert few(old) == few(tmp_path / "new")
    older = job_of_version(12, tmp_path / "new", tmp_path / "older")
    next(older.glob("inputs/*/part.duckdb")).unlink()
    fsspec.filesystem("memory").rm("/old/rank0.json")
    with pytest.raises(InputError, match=r"part\.duckdb is not there, and no such file: memory:"):
        jobs.merge(older)


@pytest.mark.parametrize("fault", quick(1, ["moved", "changed"]))
@pytest.mark.slow
def test_what_is_left_of_nothing_is_named(
    fault: str, ranks: Path, tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    shutil.copytree(ranks, tmp_path / "ranks")
    jobs.read([str(tmp_path / "ranks")], tmp_path / "job", Executor())
    jobs.merge(tmp_path / "job")
    old, trace = job_of_version(12, tmp_path / "job", tmp_path / "old"), tmp_path / "ranks" / "rank1.json"
    (part,) = old.glob("inputs/rank1*/part.duckdb")
    part.unlink()
    changed_ns = trace.stat().st_mtime_ns
    if fault == "moved":
        trace.rename(tmp_path / "elsewhere.json")
        why = (
            f"{trace} is not there: put it back and merge again, or remove inputs/{part.parent.name} and analyze the "
            f"file where it is now, with -o {old}"
        )
    else:
        os.utime(trace, ns=(0, 10**18))
        why = f"{trace} changed since: lorabench analyze {trace} -o {old}"
    kept = content(part.parent)
    said = run_command("merge", old, code=3).err
    assert f"rank1.json: it was read by another version of lorabench; its part.duckdb is not there, and {why}\n" in said
    assert "1 of 2 inputs could not be read" in said
    assert content(part.parent) == kept
    before = content(old)
    assert run_command("merge", old, code=3).err == said
    assert content(old) == before
    assert "0,0\n" in run_command("query", old, *STRAGGLERS).out
    assert "newer results" not in run_command("analyze", old, "--report", "rank_summary", code=3).err
    if fault == "moved":
        (tmp_path / "elsewhere.json").rename(trace)
    os.utime(trace, ns=(changed_ns, changed_ns))
    run_command("merge", old)
    assert few(old) == few(tmp_path / "job")


@pytest.mark.slow
def test_a_folder_of_which_nothing_is_left_is_one_line(
    ranks: Path, tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    trace = shutil.copy(ranks / "rank0.json", tmp_path)
    jobs.read([str(trace)], tmp_path / "job", Executor())
    jobs.merge(tmp_path / "job")
    old = job_of_version(12, tmp_path / "job", tmp_path / "old")
    next(old.glob("inputs/*/part.duckdb")).unlink()
    Path(trace).unlink()
    before = content(old)
    for command in ("merge", "summary"):
        said = run_command(command, old, code=3).err
        assert said.count("\n") == 1 and f"no result of an input in {old} can be used; the first, rank0.json: " in said
        assert said.endswith(f" is now, with -o {old}\n")
    assert content(old) == before
    shutil.rmtree(old / "inputs")
    assert f"no result of an input in {old} can be used\n" in run_command("merge", old, code=3).err
    assert f"lorabench analyze TRACE... -o {old}\n" in run_command("summary", old, code=3).err


@pytest.mark.slow
def test_a_newer_job_is_refused(job: Path, ranks: Path, tmp_path: Path, run_command: Callable[..., Any]) -> None:
    newer = job_of_version(SCHEMA_VERSION + 1, job, tmp_path / "newer")
    before = content(newer)
    for words in (("merge", newer), ("summary", newer), ("analyze", ranks, "-o", newer)):
        said = run_command(*words, code=3).err
        assert said.count("\n") == 1 and said.endswith("; update lorabench\n") and str(newer) in said
    assert content(newer) == before
    (newer / folder.MARK).write_text('{"lorabench_job": 2}')
    assert "has format 2; this lorabench reads format 1; update lorabench" in run_command("merge", newer, code=3).err


@pytest.mark.parametrize(
    ("made_by", "is_newer"),
    [
        (folder.versions(), False),
        (f"{SCHEMA_VERSION - 1}/0123/{handed.VERSION}", False),
        (f"{SCHEMA_VERSION}/0123/{handed.VERSION}", False),
        (f"{SCHEMA_VERSION}/0123/{handed.VERSION + 1}", True),
        (f"{SCHEMA_VERSION + 1}/0123/1", True),
        ("", False),
        ("None", False),
    ],
)
def test_versions_say_which_is_newer(made_by: str, is_newer: bool) -> None:
    assert folder.is_newer(made_by) == is_newer


@pytest.mark.slow
def test_a_reading_that_fails_leaves_the_result_of_an_earlier_version(
    job: Path, ranks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = job_of_version(12, job, tmp_path / "old")
    monkeypatch.setattr(unit, "make", lambda task, path: None if task.is_upgrade else "it is odd")
    with Exports(Silent()) as exports:
        task = named.tasks([str(ranks / "rank0.json")], old, "", exports)[0]
    assert unit.complete(task).what == "lost"
    assert task.path(folder.RESULT).exists()
    assert unit.complete(replace(task, stamp="another")).what == "lost"
    assert not task.path(folder.RESULT).exists()
