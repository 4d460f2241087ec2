"""Several inputs in one database: ranks side by side, a bad one among them, workers, an interrupted analysis."""

import gzip
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from caches import cache_in
from conftest import ROOT, corpus_params, quick
from lorabench import sql
from lorabench.analyze import parts
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.read import inputs
from lorabench.analyze.store.settings import Settings
from lorabench.errors import InputError, OutputError, left_by
from simulated_allocator import MIB, Allocator

COMPUTE, COLLECTIVE = "gemm", "ncclDevKernel_AllReduce"


def trace(path: Path, rank: int | None, *steps: tuple[int, int, int]) -> Path:
    """A trace of steps (wall, compute, communication) in µs: a kernel, then a collective up to the step's end."""
    events: list[dict[str, Any]] = []
    time = 1000
    for number, (wall, compute, communication) in enumerate(steps):
        common = {"ph": "X", "pid": 1, "tid": 1}
        events.append(common | {"cat": "user_annotation", "name": f"step {number}", "ts": time, "dur": wall})
        for offset, (name, start, duration) in enumerate(
            [(COMPUTE, time + 10, compute), (COLLECTIVE, time + wall - communication, communication)]
        ):
            link = {"correlation": 10 * number + offset + 1}
            events.append(
                common
                | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": time + offset, "dur": 1, "args": link}
            )
            gpu = {"ph": "X", "pid": 0, "tid": 7, "cat": "kernel", "name": name, "ts": start, "dur": duration}
            events.append(gpu | {"args": link | {"device": 0, "stream": 7}})
        time += wall + 100
    info = {} if rank is None else {"distributedInfo": {"rank": rank, "world_size": 3}}
    path.write_text(json.dumps(info | {"schemaVersion": 1, "traceEvents": events}), "utf-8")
    return path


@pytest.fixture
def ranks(tmp_path: Path) -> list[Path]:
    """Rank 1 has most of its own: the others wait 300 and 200 µs in step 0. In step 1 all are alike."""
    folder = tmp_path / "ranks"
    folder.mkdir()
    work = {0: (400, 500), 1: (700, 200), 2: (500, 400)}
    return [
        trace(folder / f"trace.{rank}.json", rank, (1000, *work[rank]), (1000, 300, 600)) for rank in (0, 1, 2)
    ]  # fmt: skip


# numbers of the system, the file or the GPU, which mean the same wherever their row stands
RECORDED = {"clock_id", "comms_id", "context_id", "correlation_id", "device_id", "end_thread_id", "graph_node_id",
            "piece_id", "process_id", "profiled_id", "sample_id", "stream_id", "thread_id",
            "waits_for_correlation_id"}  # fmt: skip
# of what is filled when all inputs stand together
FILLED_LATER = {"match_id", "reference_source_id"}


def test_each_key_of_a_part_is_known_to_be_one() -> None:
    """One that is not gets the name of another input: a new column has to be put into one of these lists."""
    keys = {key for keys in parts._KEYS.values() for key in keys} | {*parts._NAMES, "source_id"}
    columns = {c.name for table in sql.in_folder(sql.TABLES) for c in table.columns if c.name.endswith("_id")}
    assert columns == keys | RECORDED | FILLED_LATER and not keys & (RECORDED | FILLED_LATER)


@pytest.mark.slow
def test_stacks_are_the_same_beside_other_inputs(tmp_path: Path) -> None:
    """Who asked for a block is the name of its own input, in whatever order inputs stand."""
    paths = [tmp_path / f"snapshot{number}.pickle" for number in range(3)]
    for number, path in enumerate(paths):
        allocator = Allocator(1000 * MIB)
        for _ in range(number + 1):
            allocator.alloc(100 * MIB)
        allocator.alloc(2000 * MIB)  # fails
        frames = [{"filename": f"/x/{'zyx'[number]}.py", "line": 1, "name": f"made_by_{number}"}]
        for event in allocator.history:
            event["frames"] = frames
        path.write_bytes(pickle.dumps(allocator.snapshot()))
    asked = [
        "select source_id, array_agg(distinct name.text) from memory_event join name on name_id = stack_id "
        "group by all order by all",
        "select source_id, stack from out_of_memory order by all",
    ]
    with analyze([ROOT / "fixtures" / "torch-cpu.json.gz", *paths], tmp_path / "x.duckdb") as database:
        events, failed = map(database.rows, asked)
    told = [f"/x/{'zyx'[number]}.py:1 made_by_{number}" for number in range(3)]
    assert [stacks for source_id, stacks in events if source_id > 1] == [[stack] for stack in told]
    assert failed == [(number + 2, stack) for number, stack in enumerate(told)]


@pytest.mark.parametrize("parts", [0, 1, 5])
@pytest.mark.first(1)
def test_what_computes_while_a_rank_waits_is_all_that_is_no_waiting(parts: int, tmp_path: Path) -> None:
    """A small kernel on another stream does not undo what was waited before it."""
    folder = tmp_path / "ranks"
    folder.mkdir()
    paths = [
        trace(folder / f"{rank}.json", rank, (1000, *work))
        for rank, work in enumerate([(100, 800), (850, 50), (850, 50)])
    ]
    held = json.loads(paths[0].read_text("utf-8"))
    for number in range(parts):  # of the 750 us
        link = {"correlation": 100 + number}
        call = {"ph": "X", "pid": 1, "tid": 1, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "dur": 1}
        kernel = {"ph": "X", "pid": 0, "tid": 9, "cat": "kernel", "name": COMPUTE, "dur": 10}
        held["traceEvents"] += [
            call | {"ts": 1210 + 100 * number, "args": link},
            kernel | {"ts": 1300 + 100 * number, "args": link | {"device": 0, "stream": 9}},
        ]
    paths[0].write_text(json.dumps(held), "utf-8")
    with analyze(paths, tmp_path / "x.duckdb") as database:
        waits = database.rows("select rank_wait_ns from steady_state order by rank")
    assert waits == [(750_000 - 10_000 * parts,), (None,), (None,)]


def test_waiting_for_a_rank_with_more_of_its_own_is_no_communication(tmp_path: Path) -> None:
    """No file says which collectives belong together: what one rank has more of its own the other one waits for."""
    folder = tmp_path / "ranks"
    folder.mkdir()
    work = {0: (4_000, 5_000), 1: (8_500, 500)}
    paths = [trace(folder / f"{rank}.json", rank, *[(10_000, *parts)] * 4) for rank, parts in work.items()]
    with analyze(paths, tmp_path / "x.duckdb") as database:
        rows = database.rows(
            "select source_id, saving_ns, evidence from _finding where rule = 'exposed_communication' order by all"
        )
    assert rows[0][1] == pytest.approx(4 * 500_000, rel=0.05), "as much as the rank has that nobody waits for"
    assert "18.0 ms of it waiting for later ranks" in rows[0][2] and "waiting" not in rows[1][2]


@pytest.mark.slow
def test_the_straggler_is_the_rank_that_waits_least(ranks: list[Path], tmp_path: Path) -> None:
    with analyze(ranks, tmp_path / "x.duckdb") as database:
        rows = database.rows(
            "select step, rank, own_ns, lag_ns, kept_waiting_ns, is_straggler from straggler order by step, rank"
        )
        assert rows[:3] == [
            (0, 0, 500_000, -100_000, 0, False),
            (0, 1, 800_000, 200_000, 450_000, True),  # rank 2 has a part of what rank 0 waits
            (0, 2, 600_000, 0, 0, False),
        ]
        assert [row[-1] for row in rows[3:]] == [False] * 3 and {row[2] for row in rows[3:]} == {400_000}
        assert database.rows("select rank, straggler_cnt, kept_waiting_ns, step_cnt from rank_summary") == [
            (0, 0, 0, 2), (1, 1, 450_000, 2), (2, 0, 0, 2),
        ]  # fmt: skip
        assert database.rows("select place, saving_ns from finding where rule = 'straggler_rank'") == [
            ("rank 1", 166_667)  # work that all share: 800 us become 633
        ]


@pytest.mark.slow
def test_a_rank_of_several_can_be_chosen(ranks: list[Path], tmp_path: Path, run_command: Callable[..., Any]) -> None:
    folder = ranks[0].parent
    assert "  this is rank 0 of 3; another: --rank N" in run_command("summary", folder).out
    for command in ("summary", "analyze"):
        assert run_command(command, folder, "--rank", 2).out.startswith("trace.2.json: 2 steps")
    run_command("report", folder, "--rank", 1, "-o", tmp_path / "x.html")
    assert "This is rank 1 of 3;" in (tmp_path / "x.html").read_text("utf-8")
    assert (
        run_command("query", folder, "rank_summary", "--rank", 2, "--csv").out.splitlines()[1].startswith("2,trace.2")
    )
    assert "the ranks here are 0, 1, 2" in run_command("summary", folder, "--rank", 9, code=2).err
    assert "in a statement write" in run_command("query", folder, "select 1", "--rank", 2, code=2).err


@pytest.mark.slow
def test_ranks_that_are_not_here_are_counted(ranks: list[Path], run_command: Callable[..., Any]) -> None:
    ranks[2].unlink()
    said = run_command("summary", ranks[0].parent).out
    assert "  this is rank 0 of 3 (2 here); another: --rank N" in said and "rank 1 of 2" not in said
    run_command("report", ranks[0].parent, "-o", ranks[0].parent / "x.html")
    assert "This is rank 0 of 3 (2 here);" in (ranks[0].parent / "x.html").read_text("utf-8")
    alone = run_command("summary", ranks[1]).out
    assert "  this is rank 1 of 3, alone: how long it waits for others is not known" in alone


def test_two_recordings_of_one_process_are_no_ranks(tmp_path: Path) -> None:
    both = [trace(tmp_path / f"{n}.json", None, (1000, n * 300, 100)) for n in (1, 2)]
    with analyze(both, tmp_path / "x.duckdb") as database:
        assert database.rows("from straggler") == []
        assert [row[0] for row in database.rows("select rank from rank_summary")] == [None, None]


def test_a_rank_is_read_from_the_name_where_the_file_does_not_say(tmp_path: Path) -> None:
    files = [trace(tmp_path / f"run_rank{n}.json", None, (1000, 300, 100)) for n in (3, 12)]
    with analyze(files, tmp_path / "x.duckdb") as database:
        assert database.rows("select rank from source order by source_id") == [(3,), (12,)]
        assert {row[0] for row in database.rows("select distinct rank from range_summary")} == {3, 12}


def rows_of_views(paths: list[Path], place: Path, source: int) -> dict[str, list[tuple[Any, ...]]]:
    """Every view's rows of one source, without keys; not those that compare ranks."""
    of_all = {"straggler", "rank_summary", "launch_cost", "collective_match", "collective_skew", "collective_summary",
              "clock_offset", "kernel_over_ranks", "without_stragglers"}  # fmt: skip
    found = {}
    with analyze(paths, place) as database:
        for view in sql.load():
            if not view.is_public or view.name in of_all:
                continue
            columns = [
                c.name for c in view.columns if not c.name.endswith("_id") or c.name in ("device_id", "stream_id")
            ]
            chosen = ", ".join(f'"{c}"' for c in columns)
            of_several = {"finding": "rule <> 'straggler_rank'", "what_if": "change <> 'hide-communication=*'"}
            where = f"source_id = {source} and {of_several.get(view.name, 'true')}"
            found[view.name] = sorted(database.rows(f"select {chosen} from {view.name} where {where}"), key=repr)
    return found


@pytest.mark.parametrize("workers", quick(1, [2, 0]))
@pytest.mark.slow
def test_a_rank_has_the_rows_that_it_has_alone(
    ranks: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setattr(parts, "worker_cnt", lambda found: workers)
    alone = rows_of_views([ranks[1]], tmp_path / "alone.duckdb", 1)
    assert alone["range_summary"] and alone["launch_trace"]
    assert rows_of_views(ranks, tmp_path / "together.duckdb", 2) == alone
    assert not (tmp_path / "together.duckdb.parts").exists()


@pytest.mark.parametrize("workers", quick(1, [2, 0]))
@pytest.mark.parametrize("content", quick(1, [b"[{'ph'", b"", b"no trace at all", b"\x1f\x8b\x08cut"]), ids=repr)
@pytest.mark.slow
def test_a_bad_file_is_named_and_stops_no_other(
    ranks: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: Callable[..., Any],
    workers: int, content: bytes,
) -> None:  # fmt: skip
    monkeypatch.setattr(parts, "worker_cnt", lambda found: workers)
    ranks[1].write_bytes(content)
    out = tmp_path / "report.csv"
    said = run_command("analyze", ranks[0].parent, "-o", out, code=3).err
    assert "1 of 3 inputs cannot be read (trace.1.json); the reports hold the rest" in said
    assert "trace.1.json: lost: the whole file: " in said
    assert {line.rsplit(",", 1)[1] for line in out.read_text("utf-8").splitlines()[1:]} == {"0", "2"}
    checked = run_command("validate", ranks[0].parent, code=3).err
    assert "1 of 3 inputs cannot be read (trace.1.json); the rest was checked" in checked
    monkeypatch.setattr(parts, "make_part", None)  # the second time nothing is read
    run_command("analyze", ranks[0].parent, "-o", out, code=3)


def test_of_inputs_that_are_all_bad_the_first_is_explained(tmp_path: Path) -> None:
    bad = [tmp_path / "a.json", tmp_path / "b.json"]
    for path in bad:
        path.write_text('{"traceEvents": 7}', "utf-8")
    with pytest.raises(InputError, match=r"none of the 2 inputs can be read; the first: .*a\.json"):
        analyze(bad, tmp_path / "x.duckdb")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.json", "b.json"]


def full_queue(path: Path) -> Path:
    """A trace of ten quick launches in a row and a slow one behind them, when none of their kernels is done."""
    events: list[dict[str, Any]] = []
    for number in range(11):
        link = {"correlation": number + 1}
        length = 2000 if number == 10 else 2
        call = {"ph": "X", "pid": 1, "tid": 1, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "args": link}
        events.append(call | {"ts": 1000 + 5 * number, "dur": length})
        gpu = {
            "ph": "X",
            "pid": 0,
            "tid": 7,
            "cat": "kernel",
            "name": COMPUTE,
            "args": link | {"device": 0, "stream": 7},
        }
        events.append(gpu | {"ts": 4000 + 100 * number, "dur": 100})
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), "utf-8")
    return path


@pytest.mark.parametrize("workers", quick(1, [0, 2]))
def test_thresholds_hold_for_each_of_several_inputs(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "worker_cnt", lambda found: workers)
    inputs = [full_queue(tmp_path / f"trace.{rank}.json") for rank in range(2)]
    asked = "select kind, start_ns, end_ns from waiting_call order by all"
    with analyze(inputs, tmp_path / "usual.duckdb") as database:
        assert database.rows(asked) == []
    settings = Settings((("full_queue_cnt", 5.0), ("slow_api_ns", 1000.0)))
    with analyze(inputs, tmp_path / "all.duckdb", settings=settings) as database:
        found = database.rows(asked)
    with analyze(inputs[:1], tmp_path / "one.duckdb", settings=settings) as database:
        assert found == sorted(2 * database.rows(asked))
    assert [kind for kind, *_ in found] == ["queue", "queue"]


@pytest.mark.slow
def test_what_an_interrupted_analysis_had_read_is_not_read_again(
    ranks: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "worker_cnt", lambda found: 0)
    make, read = parts.make_part, []

    def until_the_third(item: Any, part: Path, settings: Settings) -> Any:
        read.append(item.path.name)
        if len(read) == 3:
            raise KeyboardInterrupt
        return make(item, part, settings)

    monkeypatch.setattr(parts, "make_part", until_the_third)
    with pytest.raises(KeyboardInterrupt) as caught:
        analyze(ranks, tmp_path / "x.duckdb")
    said = "what was read of 2 of the inputs is kept, and the same command resumes with the others"
    assert left_by(caught.value) == said
    assert not (tmp_path / "x.duckdb").exists()
    trace(ranks[0], 0, (2000, 100, 100))  # changed meanwhile
    analyze(ranks, tmp_path / "x.duckdb").close()
    assert read == ["trace.0.json", "trace.1.json", "trace.2.json", "trace.0.json", "trace.2.json"]
    assert not (tmp_path / "x.duckdb.parts").exists()


@pytest.mark.parametrize("workers", quick(1, [2, 0]))
def test_a_disk_that_cannot_be_written_is_no_bad_file(
    ranks: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setattr(parts, "worker_cnt", lambda found: workers)
    (tmp_path / "x.duckdb.parts").write_text("in the way", "utf-8")
    with pytest.raises(OutputError):
        analyze(ranks, tmp_path / "x.duckdb")
    assert not (tmp_path / "x.duckdb").exists()


def test_a_worker_that_dies_is_a_bad_file(ranks: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "worker_cnt", lambda found: 2)
    monkeypatch.setattr(parts.sys, "executable", "/bin/false")
    with pytest.raises(InputError, match="ended with exit code 1"):
        analyze(ranks, tmp_path / "x.duckdb")


def deadly(tmp_path: Path, times: int) -> str:
    """A Python that kills itself with -9 the first so many times that it is to read trace.1.json."""
    count = tmp_path / "count"
    script = tmp_path / "python"
    script.write_text(
        f"""#!/bin/sh
case "$*" in *trace.1.json*)
    echo x >> {count}
    if [ "$(wc -l < {count})" -le {times} ]; then kill -9 $$; fi;;
esac
exec {sys.executable} "$@"
""",
        "utf-8",
    )
    script.chmod(0o755)
    return str(script)


@pytest.mark.slow
def test_a_worker_that_is_killed_is_tried_again(
    ranks: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "worker_cnt", lambda found: 2)
    monkeypatch.setattr(parts.sys, "executable", deadly(tmp_path, 1))
    with analyze(ranks, tmp_path / "x.duckdb") as database:
        assert database.rows("select count(distinct source_id) from gpu_op") == [(3,)]
        assert database.rows("select * from source_fact where section = 'lost'") == []
    assert not (tmp_path / "x.duckdb.parts").exists()


@pytest.mark.parametrize("force", quick(1, [False, True]))
@pytest.mark.slow
def test_what_a_killed_worker_lost_is_read_by_the_next_analysis(
    ranks: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: bool
) -> None:
    """And nothing else is, --force or not: the parts of the others were made for the same unfinished analysis."""
    monkeypatch.setattr(parts, "worker_cnt", lambda found: 2)
    with monkeypatch.context() as patch:
        patch.setattr(parts.sys, "executable", deadly(tmp_path, 99))
        with analyze(ranks, tmp_path / "x.duckdb") as database:
            ((said,),) = database.rows("select value from source_fact where section = 'lost'")
            assert "SIGKILL" in said
            assert database.rows("select count(distinct source_id) from gpu_op") == [(2,)]
    monkeypatch.setattr(parts, "worker_cnt", lambda found: 0)
    make, read = parts.make_part, []
    monkeypatch.setattr(
        parts, "make_part", lambda item, part, settings: (read.append(item.path.name), make(item, part, settings))[1]
    )
    with analyze(ranks, tmp_path / "x.duckdb", force=force) as database:
        assert database.rows("select count(distinct source_id) from gpu_op") == [(3,)]
        assert database.rows("select * from source_fact where section = 'lost'") == []
    assert read == ["trace.1.json"]
    assert not (tmp_path / "x.duckdb.parts").exists()


def test_whether_a_file_is_worth_a_worker_goes_by_what_it_expands_to(tmp_path: Path) -> None:
    text = b'{"traceEvents": [' + b" " * (20 << 20) + b"]}"
    (tmp_path / "packed.json.gz").write_bytes(gzip.compress(text))
    (tmp_path / "plain.json").write_bytes(text[:1000])
    packed, plain = (inputs.recognise(path) for path in sorted(tmp_path.iterdir()))
    assert packed.size_bytes < 100_000 and packed.content_bytes == len(text)
    assert plain.content_bytes == plain.size_bytes == 1000


@pytest.mark.long
@pytest.mark.parametrize("packed", corpus_params("kineto/eight-ranks*.tar.gz"))
def test_eight_real_ranks_add_up_to_their_files(packed: Path, tmp_path: Path) -> None:
    import tarfile

    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path, filter="data")
    files = sorted(tmp_path.rglob("*.json"))
    with analyze([files[0].parent], tmp_path / "x.duckdb") as database:
        found = dict(database.rows("select rank, kernel_ns from rank_summary"))
        stragglers = database.rows("select rank, own_ns from straggler where is_straggler")
        own = dict(database.rows("select rank, own_ns from straggler"))
        waits = database.rows("select rank, sum(wait_ns) from collective_skew group by 1 order by 2 limit 1")
        matched = database.rows(
            "select operation, count(match_id), count(*) from collective_match group by 1 order by 1"
        )
        clocks = database.rows("select count(*), max(abs(offset_ns)), max(error_ns) from clock_offset")
    expected = {}
    for file in files:
        content = json.loads(file.read_text("utf-8"))
        kernels = [e["dur"] for e in content["traceEvents"] if e.get("cat") == "kernel"]
        expected[content["distributedInfo"]["rank"]] = 1000 * sum(kernels)
    assert found == expected and len(found) == 8
    # others had waited 33 ms for rank 7 before its share of the step's own time was less than that of rank 5
    assert stragglers == [(7, own[7])] and waits[0][0] == 7
    assert matched == [("all_reduce", 3, 3), ("all_to_all", 5, 5)]
    ((clock_cnt, offset, error),) = clocks
    assert clock_cnt == 8 and offset <= error < 70_000  # one machine: 0 lies in every interval


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["RANK 0 - CPU", "RANK 0 - GPU", "RANK 1 - CPU"], "2 in one file"),
        (["rank 3", "python"], None),
        (["python", "GPU 0", "GPU 1"], None),
    ],
)
@pytest.mark.first(2)
def test_a_trace_that_was_merged_of_ranks_says_so(names: list[str], said: str | None, tmp_path: Path) -> None:
    named = {"ph": "M", "name": "process_name", "tid": 0}
    events: list[dict[str, Any]] = [named | {"pid": pid, "args": {"name": name}} for pid, name in enumerate(names)]
    events.append({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 0, "tid": 1, "ts": 1, "dur": 5})
    (tmp_path / "t.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    with analyze([tmp_path / "t.json"], tmp_path / "t.duckdb") as database:
        rows = database.rows("select value from source_fact where section = 'missing' and item = 'ranks'")
    assert rows == ([(said,)] if said else [])


@pytest.mark.slow
def test_processes_that_read_the_same_ranks_at_once_all_end_well(ranks: list[Path], tmp_path: Path) -> None:
    environment = os.environ | {"XDG_CACHE_HOME": cache_in(tmp_path)}
    words = [sys.executable, "-m", "lorabench", "analyze", str(ranks[0].parent), "--quiet", "-o"]
    outputs = [tmp_path / f"{number}.csv" for number in range(4)]
    running = [
        subprocess.Popen([*words, str(output)], env=environment, stderr=subprocess.PIPE, text=True)
        for output in outputs
    ]
    said = [process.communicate(timeout=120)[1] for process in running]
    assert [process.returncode for process in running] == [0] * len(running), said
    assert len({output.read_text("utf-8") for output in outputs}) == 1
