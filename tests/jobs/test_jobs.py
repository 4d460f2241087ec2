"""Jobs in a folder: an input is read once, whoever reads it, and ranks are compared as in one database of all."""

import json
import lzma
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from caches import cache_in
from conftest import ROOT, corpus_params, quick
from lorabench import modules, sql, unfinished
from lorabench.analyze.job import executors, folder, handed, result, unit
from lorabench.analyze.job import job as jobs
from lorabench.analyze.job.executors import Executor
from lorabench.analyze.pipeline import analyze
from lorabench.errors import InputError, OutputError, UsageError
from simulated_ranks import Job, simulate

# Keys of rows that stay with their rank: in a database of all they are counted on. Of stacks that allocated as much
# memory_peak shows any.
KEYS = ("range_id", "path_id", "parent_path_id", "stack")
COMPARED = [view for view in sql.public() if view.name not in handed.ROW_LEVEL]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight ranks on two machines, of which rank 5 loads two batches late."""
    place = tmp_path_factory.mktemp("job") / "ranks"
    sleep = {(5, 2): 9_000_000, (5, 4): 9_000_000}
    simulate(Job(idle=sleep, offsets=(0, 25_000_000))).write(place)
    return place


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three ranks of four, for what needs no more."""
    place = tmp_path_factory.mktemp("job") / "three"
    simulate(Job(ranks=4, steps=2)).write(place, [0, 1, 2])
    return place


@pytest.fixture(scope="module")
def job(ranks: Path) -> Path:
    """The job of these ranks."""
    place = ranks.parent / "job"
    done = jobs.read([str(ranks)], place, Executor(worker_cnt=2))
    assert done.count("read") == 8
    jobs.merge(place)
    return place


def rows(database: Any, view: sql.SqlFile) -> list[str]:
    columns = ", ".join(f'"{column.name}"' for column in view.columns if column.name not in KEYS)
    return sorted(map(repr, database.rows(f"select {columns} from {view.name}")))


def test_every_view_is_handed_on_compared_or_stays_with_its_rank() -> None:
    live = {"clock_offset", "collective_match", "collective_skew", "collective_summary", "finding", "kernel_over_ranks",
            "launch_cost", "rank_summary", "validation", "without_stragglers"}  # fmt: skip
    public = {name for name in (*handed.LARGE, *handed.VIEWS, *handed.MERGED) if not name.startswith("_")}
    assert {view.name for view in sql.public()} == live | public | set(handed.ROW_LEVEL)
    assert not live & public and not public & set(handed.ROW_LEVEL)


def test_a_job_has_the_rows_of_a_database_of_all_its_inputs(ranks: Path, job: Path, tmp_path: Path) -> None:
    with analyze([ranks], tmp_path / "all.duckdb") as direct, analyze([job]) as merged:
        late = merged.rows(
            "select step, rank, cause, cause_place from straggler where is_straggler and late_ns > 1e6 order by step"
        )
        assert late == [(2, 5, "idle: late_input", "step/load batch"), (4, 5, "idle: late_input", "step/load batch")]
        for view in COMPARED:
            assert rows(merged, view) == rows(direct, view), view.name


@pytest.mark.long
@pytest.mark.parametrize("pattern", corpus_params("kineto/eight-ranks*.tar.gz"))
def test_a_real_job_has_the_rows_of_a_database_of_all_its_inputs(pattern: Path, tmp_path: Path) -> None:
    shutil.unpack_archive(pattern, tmp_path / "ranks", filter="data")
    traces = sorted(path for path in (tmp_path / "ranks").rglob("*.json") if path.stat().st_size > 100_000)[:3]
    jobs.read([str(path) for path in traces], tmp_path / "job", Executor(worker_cnt=2))
    assert jobs.merge(tmp_path / "job").read_cnt == len(traces) > 1
    with analyze(traces, tmp_path / "all.duckdb") as direct, analyze([tmp_path / "job"]) as merged:
        for view in COMPARED:
            assert rows(merged, view) == rows(direct, view), view.name


@pytest.mark.slow
def test_rows_for_each_event_are_those_of_the_rank_that_is_asked_for(
    ranks: Path, job: Path, tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    with analyze([ranks / "rank3.json"], tmp_path / "one.duckdb") as alone:
        for view in (view for view in sql.public() if view.name in handed.ROW_LEVEL):
            columns = [column.name for column in view.columns if column.name != "source_id"]
            statement = f"select {', '.join(columns)} from {view.name}"
            with analyze([job], wanted=folder.Wanted(3)) as opened:
                assert sorted(map(repr, opened.rows(statement))) == sorted(map(repr, alone.rows(statement))), view.name
    said = run_command("analyze", job, "--report", "launch_trace", "--rank", 3, "--csv", "--columns", "rank").out
    assert said.splitlines() == ["rank", *["3"] * 24]
    said = run_command("query", job, "from launch_trace", code=2).err
    where = "add --rank N (in Python open(…, rank=N))"
    assert said == f"lorabench: launch_trace has a row for each event, which stays with its rank: {where}\n"
    said = run_command("query", job, "from launch_trace", "--rank", 9, code=2).err
    assert said == f"lorabench: {job} has no rank 9; it has 0 to 7\n"


def test_the_page_of_a_rank_has_the_numbers_of_its_trace(ranks: Path, job: Path, tmp_path: Path) -> None:
    """Numbers of steps, ranges and operations are given anew in each part: what shares one is not the same."""
    shown = [view for view in sql.in_folder(sql.SHOWN) if re.match("_(page|trace)_", view.name)]
    with (
        analyze([ranks / "rank3.json"], tmp_path / "one.duckdb") as alone,
        analyze([job], wanted=folder.Wanted(3)) as opened,
    ):
        ((source_id,),) = opened.rows("select source_id from source where rank = 3")
        for view in shown:
            columns = ", ".join(f'"{column.name}"' for column in view.columns if not column.name.endswith("_id"))
            is_of_source = any(column.name == "source_id" for column in view.columns)
            where = f" where source_id = {source_id}" if is_of_source else ""
            own = sorted(map(repr, alone.rows(f"select {columns} from {view.name}")))
            assert sorted(map(repr, opened.rows(f"select {columns} from {view.name}{where}"))) == own, view.name


@pytest.mark.slow
def test_a_part_that_is_gone_is_named_and_the_rest_is_answered(
    job: Path, tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    copy = tmp_path / "job"
    shutil.copytree(job, copy)
    for part in copy.glob("inputs/*/part.duckdb"):
        part.unlink()
    said = run_command("query", copy, "from launch_trace", "--rank", 3, code=3).err
    assert "part.duckdb is not there any more; read " in said and said.count("\n") == 1
    assert run_command("query", copy, "from rank_summary", "--csv").out.count("\n") == 9
    run_command("merge", copy, "--force")
    late = run_command("query", copy, "select rank, cause, cause_place from straggler where late_ns > 1e6", "--csv").out
    assert late.splitlines()[1:] == ["5,idle: late_input,"] * 2
    run_command("report", copy, "-o", tmp_path / "page.html")
    assert "Rank 5 holds the others up most" in (tmp_path / "page.html").read_text("utf-8")


@pytest.mark.parametrize("command", ["summary", "validate", "report"])
@pytest.mark.first(1)
def test_commands_read_a_job_as_they_read_a_trace(
    command: str, job: Path, tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    more = ("-o", tmp_path / "page.html") if command == "report" else ()
    done = run_command(command, job, *more)
    if command == "summary":
        assert "1 straggler rank: rank 5" in done.out and "cause: idle: late input" in " ".join(done.out.split())
    if command == "validate":
        assert done.err.startswith("no problem: backward_seq_id_uniqueness, clock_drift, ")
    if command == "report":
        assert "step/load batch" in (tmp_path / "page.html").read_text("utf-8")


@pytest.mark.parametrize("words", [("what-if", "JOB", "--change", "batch=4"), ("validate", "JOB", "--definitions")])
@pytest.mark.first(1)
def test_what_needs_every_event_names_the_part(
    words: tuple[str, ...], job: Path, run_command: Callable[..., Any]
) -> None:
    said = run_command(*(str(job) if word == "JOB" else word for word in words), code=2)
    assert "part.duckdb" in said.err and said.err.count("\n") == 1
    part = next((job / "inputs").glob("*/part.duckdb"))
    run_command(*(str(part) if word == "JOB" else word for word in words if word not in ("--change", "batch=4")))


@pytest.mark.slow
def test_every_view_of_a_job_is_written(job: Path, tmp_path: Path, run_command: Callable[..., Any]) -> None:
    said = run_command("analyze", job, "-o", tmp_path / "views").err
    assert {path.stem for path in (tmp_path / "views").iterdir()} == {view.name for view in COMPARED}
    assert "13 views have a row for each event" in said


@pytest.mark.slow
def test_medians_over_ranks_are_right_within_one_percent(ranks: Path, job: Path, tmp_path: Path) -> None:
    with analyze([ranks], tmp_path / "all.duckdb") as direct, analyze([job]) as merged:
        found = merged.dicts("from kernel_over_ranks")
        assert len(found) == 3
        for row in found:
            times = [ns for (ns,) in direct.rows(
                "select end_ns - start_ns from gpu_op join name using (name_id) where text = ?", row["kernel_name"]
            )]  # fmt: skip
            assert (row["kernel_cnt"], row["kernel_ns"]) == (len(times), sum(times))
            assert (row["min_ns"], row["max_ns"]) == (min(times), max(times))
            assert row["stddev_ns"] == pytest.approx(np.std(times, ddof=1), rel=1e-9)
            for name, share in (("median_ns", 0.5), ("p99_ns", 0.99)):
                exact = np.quantile(times, share, method="inverted_cdf")
                assert abs(row[name] / exact - 1) <= 0.01, (row["kernel_name"], name)


def test_a_second_run_finds_all_parts(ranks: Path, job: Path, run_command: Callable[..., Any]) -> None:
    before = {path: path.stat().st_mtime_ns for path in job.rglob("*") if path.is_file()}
    said = run_command("analyze", ranks, "-o", job).err
    assert "8 inputs: 0 read, 8 found finished, 0 lost" in said
    assert {path: path.stat().st_mtime_ns for path in job.rglob("*") if path.is_file()} == before


@pytest.mark.long
def test_an_input_that_changed_is_read_again(three: Path, tmp_path: Path, run_command: Callable[..., Any]) -> None:
    shutil.copytree(three, tmp_path / "ranks")
    run_command("analyze", tmp_path / "ranks" / "rank*.json", "-o", tmp_path / "job", "--workers", 2)
    os.utime(tmp_path / "ranks" / "rank1.json", ns=(0, 10**18))
    said = run_command("analyze", tmp_path / "ranks", "-o", tmp_path / "job").err
    assert "3 inputs: 1 read, 2 found finished, 0 lost" in said


@pytest.mark.slow
def test_a_job_that_is_not_merged_says_so(ranks: Path, tmp_path: Path, run_command: Callable[..., Any]) -> None:
    place = tmp_path / "job"
    said = run_command("analyze", ranks, "-o", place, "--shard", "1/8").err
    assert "1 of 8 inputs: 1 read, 0 found finished, 0 lost" in said
    assert f"when all shards are done: lorabench merge {place}" in said
    said = run_command("summary", place, code=3).err
    assert said == f"lorabench: {place} is not merged yet: lorabench merge {place}\n"
    run_command("merge", place)
    run_command("analyze", ranks, "-o", place, "--shard", "2/8")
    said = run_command("summary", place).err
    assert f"{place} holds newer results than it was merged from: lorabench merge {place}" in said
    newer = f"holds newer results than it was merged from: lorabench merge {place}"
    done = run_command("validate", place, code=0)
    assert "rank_missing" not in done.out  # one rank cannot know
    assert newer in done.err and newer in run_command("query", place, "select rank from rank_summary").err
    said = run_command("query", place, "select 1 from launch_trace", "--rank", 1, code=2).err
    assert f"{place} has no rank 1; it has 0; {newer}" in said


@pytest.mark.slow
def test_inputs_of_earlier_commands_are_named(three: Path, tmp_path: Path, run_command: Callable[..., Any]) -> None:
    """They count: a folder that was renamed would be there twice."""
    place, moved = tmp_path / "job", tmp_path / "moved"
    shutil.copytree(three, tmp_path / "ranks")
    assert "earlier commands" not in run_command("analyze", tmp_path / "ranks", "-o", place, "--workers", 1).err
    (tmp_path / "ranks").rename(moved)
    said = run_command("analyze", moved / "rank0.json", "-o", place, "--workers", 1).err
    assert f"{place} holds 3 more from earlier commands, which count, too: {tmp_path / 'ranks' / 'rank0.json'}" in said
    for path in (place / "inputs").iterdir():
        if str(path) in said or "rank0" not in path.name:
            shutil.rmtree(path)
    assert "earlier commands" not in run_command("analyze", moved / "rank0.json", "-o", place, "--workers", 1).err


@pytest.mark.parametrize(
    ("content", "named"),
    quick(
        2,
        [
            (b"", "is empty"),
            (b"no trace at all", "is neither an nsys export"),
            (b"\x1f\x8b\x08cut", "begins like gzip"),
            ("a rank is cut off", None),
        ],
    ),
    ids=["empty", "no trace", "damaged", "cut off"],
)
@pytest.mark.slow
def test_a_bad_file_is_named_tried_once_and_stops_no_other(
    content: Any, named: str | None, three: Path, tmp_path: Path, run_command: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    shutil.copytree(three, tmp_path / "ranks")
    bad, place = tmp_path / "ranks" / "rank1.json", tmp_path / "job"
    if named is None:
        bad.write_bytes(bad.read_bytes()[:9_000])
    else:
        bad.write_bytes(content)
    done = run_command("analyze", tmp_path / "ranks", "-o", place, "--workers", 1, code=3 if named else 0)
    if named is None:  # what is there of it counts
        said = run_command(
            "query", place, "select count(*) as cnt from collective_match where reason is not null", "--csv"
        )
        assert int(said.out.split()[1]) > 0
        return
    assert f"rank1.json: {bad} {named}" in done.err and "3 inputs: 2 read, 0 found finished, 1 lost" in done.err
    assert done.err.endswith(f"1 of 3 inputs cannot be read (rank1.json); {place} holds the rest\n")
    monkeypatch.setattr(unit, "_tried", None)  # nothing is read the second time
    done = run_command("analyze", tmp_path / "ranks", "-o", place, code=3)
    assert "3 inputs: 0 read, 2 found finished, 1 lost" in done.err and f"{bad} {named}" in done.err
    said = run_command("query", place, "select rule, example from validation where rule = 'lost'", "--csv").out
    assert "the whole file: " in said
    summary = run_command("summary", place, code=3)
    assert "rank1.json: lost: the whole file" in summary.err


@pytest.mark.long
def test_an_input_on_which_processes_die_is_given_up(
    three: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: Callable[..., Any]
) -> None:
    poison = tmp_path / "poison.py"
    poison.write_text(
        "import os, sys\n"
        "from lorabench.analyze.job import unit\n"
        "make = unit.make\n"
        "unit.make = lambda task, path: os.kill(os.getpid(), 9) if task.name == 'rank1.json' else make(task, path)\n"
        "unit.main()\n"
    )
    monkeypatch.setattr(modules, "command", lambda *_: [sys.executable, str(poison)])
    some = sorted(three.iterdir())
    place = tmp_path / "job"
    for expected in ("try it alone\n", "try it alone (3 times; --force tries again)\n"):
        done = run_command("analyze", *some, "-o", place, "--workers", 2, code=3)
        assert f"rank1.json: its reader was stopped by SIGKILL, as when memory runs out; {expected}" in done.err
    noted = json.loads(next(place.glob("inputs/rank1.json-*/problem.json")).read_text())
    assert noted["is_final"]
    monkeypatch.setattr(unit.Worker, "make", None)  # nothing is tried any more
    assert "(3 times" in run_command("analyze", *some, "-o", place, "--workers", 2, code=3).err
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", cache_in(tmp_path))
    done = jobs.read([str(path) for path in some], place, Executor(), force=True)
    assert done.count("read") == 3 and not list(place.glob("inputs/*/problem.json"))


def started(*words: object, cache: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        modules.command("lorabench", *map(str, words)), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=os.environ | {"XDG_CACHE_HOME": str(cache)},
    )  # fmt: skip


@pytest.mark.slow
def test_two_shards_at_once_in_one_folder(three: Path, tmp_path: Path, run_command: Callable[..., Any]) -> None:
    place = tmp_path / "job"
    both = [started("analyze", three, "-o", place, "--shard", f"{i}/2", cache=tmp_path) for i in (1, 2)]
    said = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert all(
        f"{cnt} of 3 inputs: {cnt} read, 0 found finished, 0 lost" in text
        for cnt, text in zip((2, 1), said, strict=True)
    )
    run_command("merge", place)
    with analyze([three], tmp_path / "all.duckdb") as direct, analyze([place]) as merged:
        for view in COMPARED:
            if view.name in ("rank_summary", "straggler", "collective_summary", "kernel_summary"):
                assert rows(merged, view) == rows(direct, view), view.name


@pytest.mark.parametrize("done", range(5))
def test_a_folder_that_another_process_is_making_is_a_job(done: int, tmp_path: Path) -> None:
    """Whatever of its steps the other has done when this one looks, or when it was killed."""
    place = tmp_path / "job"
    mark = json.dumps({"lorabench_job": folder.FORMAT, "settings": ""})
    steps: list[Callable[[], Any]] = [
        place.mkdir,
        lambda: unfinished.beside(place / folder.MARK).write_text(mark[:9], "utf-8"),
        lambda: (place / folder.MARK).write_text(mark, "utf-8"),
        (place / folder.INPUTS).mkdir,
    ]
    for step in steps[:done]:
        step()
    folder.make(place, "")
    assert folder.is_job(place) and (place / folder.INPUTS).is_dir()


@pytest.mark.long
def test_the_same_command_twice_at_once_leaves_one_job(three: Path, tmp_path: Path) -> None:
    place = tmp_path / "job"
    some = sorted(three.iterdir())
    both = [started("analyze", *some, "-o", place, "--workers", 2, cache=tmp_path) for _ in range(2)]
    said = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert len(list(place.glob("inputs/*/result.arrows.xz"))) == 3
    assert not [path for path in place.rglob(".*") if path.is_file()]
    with analyze([place]) as opened:
        assert opened.rows("select count(*) from rank_summary") == [(3,)]


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_was(three: Path, tmp_path: Path, run_command: Callable[..., Any]) -> None:
    place = tmp_path / "job"
    process = started("analyze", three, "-o", place, "--workers", 1, cache=tmp_path)
    while not list(place.glob("inputs/*/result.arrows.xz")) and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    finished = len(list(place.glob("inputs/*/result.arrows.xz")))
    assert 1 <= finished < 3
    time.sleep(3)  # the worker ends behind the input that it has
    finished = len(list(place.glob("inputs/*/result.arrows.xz")))
    said = run_command("analyze", three, "-o", place, "--workers", 1).err
    assert f"3 inputs: {3 - finished} read, {finished} found finished, 0 lost" in said
    assert not [path for path in place.rglob(".*") if path.is_file()]


@pytest.mark.slow
def test_a_result_that_is_damaged_is_made_again(three: Path, tmp_path: Path) -> None:
    some = [str(three / "rank0.json"), str(three / "rank1.json")]
    jobs.read(some, tmp_path / "job", Executor())
    found = next((tmp_path / "job").glob("inputs/rank1*/result.arrows.xz"))
    found.write_bytes(found.read_bytes()[:40])
    assert result.header(found) is None
    assert jobs.read(some, tmp_path / "job", Executor()).count("read") == 1


@pytest.mark.parametrize("kept", quick(2, [0.5, 0.0, 0.01, 0.99]))
@pytest.mark.slow
def test_a_result_that_is_damaged_is_reported_and_the_rest_is_merged(
    kept: float, three: Path, tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    place = tmp_path / "job"
    run_command("analyze", three, "-o", place, "--workers", 1)
    (whole,) = run_command("query", place, "select count(*) as cnt from rank_summary", "--csv").out.split()[1:]
    found = next(place.glob("inputs/rank1*/result.arrows.xz"))
    content = found.read_bytes()
    found.write_bytes(content[: int(kept * len(content))])
    said = run_command("merge", place, code=3).err
    assert "its result is damaged" in said and "1 of 3 inputs could not be read" in said
    (left,) = run_command("query", place, "select count(*) as cnt from rank_summary", "--csv").out.split()[1:]
    assert int(left) == int(whole) - 1
    said = run_command("query", place, "select value from trace_info where section = 'lost'", "--csv").out
    assert f"its result is damaged: remove inputs/{found.parent.name} and analyze it again" in said
    shutil.rmtree(found.parent)
    run_command("analyze", three, "-o", place, "--workers", 1)
    (again,) = run_command("query", place, "select count(*) as cnt from rank_summary", "--csv").out.split()[1:]
    assert again == whole


@pytest.mark.slow
def test_results_of_other_settings_are_not_mixed(three: Path, tmp_path: Path, run_command: Callable[..., Any]) -> None:
    place = tmp_path / "job"
    run_command("analyze", three / "rank0.json", three / "rank1.json", "-o", place, "--workers", 1,
                "--threshold", "long_gap_ns=1000")  # fmt: skip
    said = run_command("analyze", three / "rank2.json", "-o", place, "--workers", 1, code=5).err
    assert "was begun with other thresholds or kernel classes" in said
    said = run_command("query", place, "select value from threshold where name = 'long_gap_ns'", "--csv").out
    assert said.split() == ["value", "1000.0"]


@pytest.mark.long
def test_ranks_that_do_not_fit_are_reported(tmp_path: Path, run_command: Callable[..., Any]) -> None:
    run = simulate(Job(ranks=4, steps=2))
    traces = run.write(tmp_path / "ranks", [0, 1, 2])
    twice = run.trace(1)
    twice["traceEvents"] = twice["traceEvents"][:-3]
    (tmp_path / "ranks" / "again.json").write_text(json.dumps(twice))
    strange = run.trace(2)
    strange["distributedInfo"] = strange["distributedInfo"] | {"world_size": 2, "rank": 1}
    (tmp_path / "ranks" / "strange.json").write_text(json.dumps(strange))
    run_command("analyze", tmp_path / "ranks", "-o", tmp_path / "job", "--workers", 1)
    assert len(traces) == 3
    said = run_command("query", tmp_path / "job", "select rule, example from validation order by rule", "--csv").out
    assert "rank_missing," in said and "rank_twice," in said and "other_job," in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--workers", "2", "--shard", "1/2", "-o", "job"], "choose one of --workers and --shard"),
        (["--shard", "0/2", "-o", "job"], "--shard 0/2: write I/N, from 1/2 to 2/2"),
        (["--shard", "3/2", "-o", "job"], "--shard 3/2: write I/N, from 1/2 to 2/2"),
        (["--shard", "a/b", "-o", "job"], "--shard a/b: write I/N, like 1/8, the first of eight"),
        (["--workers", "2"], "the output is then a job folder; name one, like -o job/"),
        (["--workers", "2", "-o", "report.csv"], "the output is then a job folder; name one, like -o job/"),
        (["--workers", "2", "-o", "job", "--format", "csv"], "read it first"),
        (["--workers", "2", "-o", "s3://bucket/job"], "a job folder must be local or shared"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    words: list[str], said: str, ranks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    run_command: Callable[..., Any],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    done = run_command("analyze", ranks, *words, code=2)
    assert said in done.err and done.err.count("\n") == 1
    assert not list(tmp_path.glob("job*"))


@pytest.mark.slow
def test_a_folder_without_an_executor_gets_views_as_ever(
    ranks: Path, tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    run_command("analyze", ranks / "rank0.json", "-o", tmp_path / "views")
    assert (tmp_path / "views" / "kernel_summary.csv").is_file() and not folder.is_job(tmp_path / "views")
    said = run_command("analyze", ranks, "-o", tmp_path / "views", "--workers", 2, code=5).err
    assert "is not empty and not a job folder" in said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("local:4", Executor(worker_cnt=4)),
        ("shard:2/8", Executor("shard", shard=(2, 8))),
        ("dask:tcp://host:8786", Executor("dask", address="tcp://host:8786")),
        ("", None),
        ("ray", UsageError),
        ("local:none", UsageError),
        ("dask:nonsense", UsageError),
    ],
)
def test_the_environment_names_an_executor(text: str, expected: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(executors.VARIABLE, text)
    if expected is UsageError:
        with pytest.raises(UsageError, match="LORABENCH_EXECUTOR="):
            executors.chosen(None, None, None)
        return
    assert executors.chosen(None, None, None) == expected
    assert executors.chosen(3, None, None) == Executor(worker_cnt=3)
    assert executors.chosen(None, None, None, environ=False) is None


def test_shards_are_all_inputs_once() -> None:
    tasks: list[Any] = list(range(11))
    shares = [Executor("shard", shard=(number, 4)).share(tasks) for number in range(1, 5)]
    assert sorted(one for share in shares for one in share) == tasks


@pytest.mark.slow
def test_a_database_and_a_folder_without_traces_are_no_inputs(
    ranks: Path, tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    run_command("analyze", ranks / "rank0.json", "-o", tmp_path / "one.duckdb")
    done = run_command("analyze", tmp_path / "one.duckdb", ranks / "rank1.json", "-o", tmp_path / "j", "--workers", 1,
                       code=3)  # fmt: skip
    assert "is a lorabench database; a job is made of traces" in done.err
    (tmp_path / "empty").mkdir()
    assert (
        "is a folder without traces"
        in run_command("analyze", tmp_path / "empty", "-o", tmp_path / "j", "--workers", 1, code=3).err
    )
    assert (
        "no file matches"
        in run_command("analyze", tmp_path / "none*.json", "-o", tmp_path / "j", "--workers", 1, code=3).err
    )
    with pytest.raises(InputError, match="is not a job folder"):
        jobs.merge(tmp_path / "empty")


def test_a_folder_that_cannot_be_written_is_one_line(ranks: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write the job folder"):
        jobs.read([str(ranks)], tmp_path / "file" / "job", Executor())


@pytest.mark.long
@pytest.mark.parametrize("name", ["lorabench", "job_input", "source", "range_summary"])
def test_a_view_in_the_place_of_a_jobs_rows_is_not_asked(
    name: str, job: Path, tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    """Somebody else made the folder: what a view of it reads is nobody's business."""
    theirs, secret = tmp_path / "theirs", tmp_path / "secret.txt"
    shutil.copytree(job, theirs)
    secret.write_text("secret", "utf-8")
    with duckdb.connect(str(theirs / "job.duckdb")) as connection:
        connection.execute(f"alter table {name} rename to hidden")
        connection.execute(f"create view {name} as select hidden.* from hidden, read_text('{secret}')")
        secret.unlink()  # who asked the view would meet that
    ended = run_command("query", theirs, "from source", code=3)
    assert "lorabench" in ended.err and "secret" not in ended.err


@pytest.mark.slow
def test_inputs_of_two_profilers_stand_beside_each_other(tmp_path: Path) -> None:
    names = ("lora-run.json.gz", "lora-run.sqlite")
    inputs = [Path(shutil.copy(ROOT / "fixtures" / name, tmp_path)) for name in names]
    assert jobs.read([str(path) for path in inputs], tmp_path / "job", Executor()).count("read") == 2
    jobs.merge(tmp_path / "job")
    with analyze([tmp_path / "job"]) as merged, analyze(inputs, tmp_path / "all.duckdb") as direct:
        for view in COMPARED:
            assert rows(merged, view) == rows(direct, view), view.name


def test_texts_that_repeat_are_listed_once_and_read_as_they_were(tmp_path: Path) -> None:
    names = [f"aten::operator_{number * 7919 % 1000003}" for number in range(40)]
    texts = [None if row % 11 == 0 else names[row * row % 40] for row in range(600)]
    few = pa.table({"text": pa.array(texts).dictionary_encode(), "one": [f"only {row}" for row in range(600)]})
    result.write(tmp_path / "a", {"x": 1}, {"few": few, "empty": few[:0]}, ["few", "empty"])
    ((name, found),) = [(name, table) for name, table in result.read(tmp_path / "a") if name != "header"]
    assert (name, found["text"].to_pylist(), found["one"].to_pylist()) == ("few", texts, few["one"].to_pylist())
    assert found.schema.types == [pa.string(), pa.string()]
    content = lzma.decompress((tmp_path / "a").read_bytes())
    assert [content.count(name.encode()) for name in set(texts) - {None}] == [1] * len(set(texts) - {None})
    assert result.header(tmp_path / "a") == {"x": 1}


@pytest.mark.slow
def test_an_interrupted_job_says_what_it_holds_and_that_it_goes_on(
    ranks: Path, tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    place = tmp_path / "job"
    process = started("analyze", ranks, "-o", place, "--workers", 1, cache=tmp_path)
    while not list(place.glob("inputs/*/" + folder.RESULT)):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    found = re.search(rf"lorabench: interrupted; {place} holds (\d) finished of its inputs, and the same command", said)
    assert process.returncode == 130 and found is not None, said
    said = run_command("analyze", ranks, "-o", place, "--workers", 1).err
    assert f"8 inputs: {8 - int(found[1])} read, {found[1]} found finished, 0 lost" in said
