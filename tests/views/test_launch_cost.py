"""The launch-cost model, fitted over runs whose launches are known."""

import json
from pathlib import Path
from typing import Any

import pytest
from lorabench import rundir
from lorabench.analyze.pipeline import analyze


def run(folder: Path, mode: str, adapters: int, launches: int, ranges: int = 1) -> Path:
    """A run directory of two steps; each step is so many ranges, with so many launches in all of them."""
    folder.mkdir(parents=True)
    events: list[dict[str, Any]] = []
    link, time = 0, 1000
    for step in range(2):
        for part in range(ranges):
            events.append({"ph": "X", "cat": "user_annotation", "name": f"step {step}", "pid": 1, "tid": 1, "ts": time,
                           "dur": 900})  # fmt: skip
            for n in range(part, launches, ranges):
                link += 1
                call = {
                    "ph": "X",
                    "cat": "cuda_runtime",
                    "name": "cudaLaunchKernel",
                    "pid": 1,
                    "tid": 1,
                    "ts": time + n,
                }
                events.append(call | {"dur": 1, "args": {"correlation": link}})
                kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": time + n + 1, "dur": 1}
                events.append(kernel | {"args": {"correlation": link, "device": 0, "stream": 7}})
            time += 1000
    (folder / "trace.json").write_text(json.dumps({"traceEvents": events}), "utf-8")
    spec = {"method": "lora", "model": "tiny", "peft_mode": mode, "batch_operator": "fused", "lora_cnt": adapters}
    (folder / rundir.MANIFEST).write_text(json.dumps({"format": rundir.FORMAT, "spec": spec}), "utf-8")
    return folder


@pytest.mark.slow
def test_batch_costs_once_and_a_little_for_each_adapter_and_switch_all_of_it_each_time(tmp_path: Path) -> None:
    runs = [run(tmp_path / f"batch{k}", "batch", k, 20 + 3 * k) for k in (1, 2, 4)]
    runs += [run(tmp_path / f"switch{k}", "switch", k, 22 * k, ranges=k) for k in (1, 2, 4)]
    with analyze(runs, tmp_path / "x.duckdb") as database:
        rows = database.rows(
            """select way, fixed, per_adapter, fit_frac, run_cnt, adapter_cnt, measured, apart, saved_frac
            from launch_cost where measure = 'launch_cnt'"""
        )
        times = dict(database.rows("select way, measured from launch_cost where measure = 'launch_ns'"))
    batch, switch = rows
    assert batch == ("batch, fused", *map(pytest.approx, (20, 3, 1)), 3, 4, 32, *map(pytest.approx, (92, 1 - 32 / 92)))
    assert switch[0] == "switch" and switch[1:4] == tuple(pytest.approx(v, abs=1e-9) for v in (0, 22, 1))
    assert switch[-1] == pytest.approx(0, abs=1e-9)
    assert times == {"batch, fused": 32_000, "switch": 88_000}


def test_one_number_of_adapters_gives_no_line(tmp_path: Path) -> None:
    with analyze([run(tmp_path / "a", "batch", 2, 10)], tmp_path / "x.duckdb") as database:
        found = database.rows("select fixed, apart, measured from launch_cost where measure = 'launch_cnt'")
    assert found == [(None, None, 10)]


def test_a_wait_is_no_launch_cost(tmp_path: Path) -> None:
    """A copy that returns when it is done: 200 us of each step, of which 100 are over before the copy ends."""
    folder = run(tmp_path / "a", "batch", 2, 10)
    content = json.loads((folder / "trace.json").read_text("utf-8"))
    for step, start in enumerate((1500, 2500)):
        link = {"correlation": 1000 + step}
        call = {
            "ph": "X",
            "cat": "cuda_runtime",
            "name": "cudaMemcpyAsync",
            "pid": 1,
            "tid": 1,
            "ts": start,
            "dur": 200,
        }
        copy = {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "pid": 0, "tid": 7}
        content["traceEvents"].append(call | {"args": link})
        copy |= {"ts": start + 50, "dur": 100, "args": link | {"device": 0, "stream": 7}}
        content["traceEvents"].append(copy)
    (folder / "trace.json").write_text(json.dumps(content), "utf-8")
    with analyze([folder], tmp_path / "x.duckdb") as database:
        cost = dict(database.rows("select measure, measured from launch_cost"))
        path = "select launch_api_ns, launch_wait_ns from range_summary where path = 'step'"
        assert database.rows(path) == [(2 * (10_000 + 200_000), 2 * 150_000)]
        slow = "select launch_api_ns, launch_wait_ns, cost_ns from launch_outlier where outlier = 'slow call'"
        assert database.rows(slow) == [], "50 us of launching are not slow, however long the call waited"
    assert (cost["launch_ns"], cost["launch_wait_ns"]) == (10_000 + 50_000, 150_000)


def test_a_damaged_manifest_is_a_loss_and_no_more(tmp_path: Path) -> None:
    folder = run(tmp_path / "a", "batch", 2, 10)
    (folder / rundir.MANIFEST).write_text("{", "utf-8")
    with analyze([folder], tmp_path / "x.duckdb") as database:
        assert database.rows("from launch_cost") == []
        assert database.rows("select item from source_fact where section = 'lost'") == [("manifest.json",)]
        assert database.rows("select count(*) from step_summary") == [(2,)]


def test_tokens_of_steps_come_from_the_run(tmp_path: Path) -> None:
    folder = run(tmp_path / "a", "switch", 2, 4, ranges=2)
    lines = ["pass,step,adapter,computed_token_cnt", "timing,0,a,10", "timing,0,b,20", "timing,1,a,5", "torch,0,a,99"]
    (folder / rundir.STEPS).write_text("\n".join(lines), "utf-8")
    with analyze([folder], tmp_path / "x.duckdb") as database:
        assert database.rows("select distinct step, token_cnt from step_summary order by 1") == [(0, 30), (1, 5)]
        found = database.rows(
            "select step_cnt, p50_ns, stddev_ns, token_cnt, token_per_s, uneven_cnt from step_statistics"
        )
    # each of two adapters, with what lies behind its range, but behind the last
    assert found == [(2, 1_950_000, pytest.approx(50_000 * 2**0.5), 35, pytest.approx(35 / 3.9e-3), 0)]


@pytest.mark.parametrize("content", ["", "pass,step\ntiming,x", "\x00", "a,b\n1,2"])
@pytest.mark.first(1)
def test_a_damaged_list_of_steps_is_a_loss_or_nothing(tmp_path: Path, content: str) -> None:
    folder = run(tmp_path / "a", "batch", 2, 4)
    (folder / rundir.STEPS).write_text(content, "utf-8")
    with analyze([folder], tmp_path / "x.duckdb") as database:
        assert database.rows("select distinct token_cnt from step_summary") == [(None,)]
        lost = database.rows("select item from source_fact where section = 'lost'")
    assert lost == ([("steps.csv",)] if content.startswith(("pass", "a")) else [])


@pytest.mark.slow
def test_compiling_inside_steps_is_a_finding(tmp_path: Path) -> None:
    folder = run(tmp_path / "a", "batch", 2, 4)
    content = json.loads((folder / "trace.json").read_text("utf-8"))
    common = {"ph": "X", "pid": 1, "tid": 1}
    name = "_compile.compile_inner (dynamo_timed)"
    content["traceEvents"] += [
        common | {"cat": "user_annotation", "name": name, "ts": 1100, "dur": 300},
        common | {"cat": "user_annotation", "name": "backend_compile (dynamo_timed)", "ts": 1150, "dur": 100},
        common | {"cat": "user_annotation", "name": name, "ts": 900, "dur": 50},  # before the steps
        common | {"cat": "cuda_runtime", "name": "cuModuleLoadData", "ts": 2100, "dur": 70},
    ]
    quiet = run(tmp_path / "b", "batch", 2, 4)
    (folder / "trace.json").write_text(json.dumps(content), "utf-8")
    with analyze([folder], tmp_path / "x.duckdb") as database:
        assert database.rows(
            "select place, saving_ns, occurrence_cnt from finding where rule = 'compiling_or_loading'"
        ) == [(f"step/{name}", 300_000, 1)], "the kernel was loaded while the GPU was busy: that costs nothing"
    with analyze([quiet], tmp_path / "y.duckdb") as database:
        assert database.rows("select count(*) from finding where rule = 'compiling_or_loading'") == [(0,)]
