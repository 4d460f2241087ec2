"""Bubbles of pipelines: simulated ones whose truth is a formula, uneven ones by loops, and a run of our own."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import simulated_pipeline
from conftest import quick
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.store.building import building
from lorabench.collect.settings import parallelism
from simulated_pipeline import Pipeline

ASKED = (
    "select rank, step, stage, stage_cnt, micro_batch_cnt, step_ns, active_ns, bubble_frac, ideal_frac "
    "from pipeline_bubble order by rank, step"
)


def bubbles(pipeline: Pipeline, folder: Path) -> list[tuple[Any, ...]]:
    paths = simulated_pipeline.write(pipeline, folder / "traces")
    with analyze(paths, folder / "x.duckdb") as database:
        return database.rows(ASKED)


@pytest.mark.parametrize(
    "pipeline",
    quick(
        2,
        [
            Pipeline(2, 4, "gpipe", on_cpu=True),
            Pipeline(3, 5, "1f1b"),
            Pipeline(4, 8, "gpipe", batched=True),
            Pipeline(4, 2, "1f1b"),
            Pipeline(4, 1, "gpipe"),
            Pipeline(2, 6, "1f1b", on_cpu=True),
        ],
    ),
    ids=str,
)
@pytest.mark.first(1)
@pytest.mark.slow
def test_the_bubble_of_equal_stages_is_the_ideal_one(pipeline: Pipeline, tmp_path: Path) -> None:
    p, m = pipeline.stages, pipeline.micro_batches
    rows = bubbles(pipeline, tmp_path)
    assert [row[:2] for row in rows] == [(stage, step) for stage in range(p) for step in range(pipeline.steps)]
    for rank, _, stage, stage_cnt, micro_batch_cnt, step_ns, active_ns, bubble, ideal in rows:
        assert (stage, stage_cnt, micro_batch_cnt) == (rank, p, m)
        assert (step_ns, active_ns) == ((m + p - 1) * 300_000, m * 300_000)
        assert (bubble, ideal) == (pytest.approx((p - 1) / (m + p - 1)),) * 2


@pytest.mark.parametrize("on_cpu", quick(1, [False, True]))
@pytest.mark.slow
def test_the_bubble_of_uneven_stages_is_what_loops_say(on_cpu: bool, tmp_path: Path) -> None:
    pipeline = Pipeline(3, 4, "1f1b", uneven=70_000, on_cpu=on_cpu)
    rows = bubbles(pipeline, tmp_path)
    assert len(rows) == 6
    traces = simulated_pipeline.simulate(pipeline)
    for rank, step, *_, micro_batch_cnt, step_ns, active_ns, bubble, ideal in rows:
        events = traces[rank]["traceEvents"]
        (whole,) = [e for e in events if e["name"] == f"step {step}"]
        begin, end = whole["ts"], whole["ts"] + whole["dur"]
        active = sum(
            e["dur"] for e in events if e["name"] in ("ampere_sgemm_128x64_tn", "aten::mm") and begin <= e["ts"] < end
        )
        assert (step_ns, active_ns) == (round(1000 * whole["dur"]), round(1000 * active))
        assert bubble == pytest.approx(1 - active / whole["dur"])
        # gloo does not say to whom a rank in the middle sends
        assert (micro_batch_cnt, ideal) == ((None, None) if on_cpu else (4, pytest.approx(2 / 6)))


@pytest.mark.parametrize("pipeline", [Pipeline(4, 8), Pipeline(3, 6, on_cpu=True)], ids=str)
@pytest.mark.slow
def test_equal_stages_keep_nobody_waiting_and_the_bubble_is_said(
    pipeline: Pipeline, tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    simulated_pipeline.write(pipeline, tmp_path / "traces")
    said = run_command("summary", tmp_path / "traces").out
    p, m = pipeline.stages, pipeline.micro_batches
    count = "" if pipeline.on_cpu else f", {m} micro-batches"
    ideal = "" if pipeline.on_cpu else f", ideal {(p - 1) / (m + p - 1):.1%}"
    assert f"pipeline of {p} stages{count}: bubble {(p - 1) / (m + p - 1):.1%} of a step{ideal}\n" in said
    assert "straggler" not in said and "holds the others up" not in said
    assert "more micro-batches" in " ".join(said.split()) and "All-to-all" not in said
    run_command("report", tmp_path / "traces", "-o", tmp_path / "x.html")
    assert "pipeline_bubble" in (tmp_path / "x.html").read_text("utf-8")


@pytest.mark.slow
def test_a_stage_that_computes_more_is_late_for_its_work(tmp_path: Path, run_command: Callable[..., Any]) -> None:
    simulated_pipeline.write(Pipeline(4, 8, heavy=(1, 45_000)), tmp_path)
    said = run_command(
        "query", tmp_path, "select rank, cause, cause_ns from straggler where is_straggler and step = 0", "--csv"
    ).out
    assert said.splitlines()[1:] == ["1,compute,720000"]  # 8 micro-batches, forward and backward
    advice = run_command("query", tmp_path, "select advice from finding where rule = 'straggler_rank'", "--csv").out
    assert "give it fewer layers" in advice and "nvidia-smi" in advice


def test_a_run_of_ours_says_its_pipeline_where_the_trace_does_not(tmp_path: Path) -> None:
    """LoRAPP's messages are in no trace of a CPU: stage, micro-batches and ideal are the run's, work is its phases."""
    spec = {"parallel": "lorapp", "devices": 4, "micro_batches": 0, "grad_accum": [1], "lora_cnt": 3}
    (tmp_path / "run").mkdir()
    manifest = {"format": 1, "status": "ok", "spec": spec, "passes": {}, "files": {}}
    (tmp_path / "run" / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    paths = []
    for rank in range(2):
        ranges = [("step 1", 1000, 100), ("data", 1000, 5), ("forward", 1005, 20), ("recv", 1025, 30),
                  ("backward", 1055, 25), ("send", 1080, 10), ("optimizer", 1090, 10)]  # fmt: skip
        events = [
            {"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": 1, "ts": start, "dur": length}
            for name, start, length in ranges
        ]
        paths.append(tmp_path / "run" / f"trace-rank{rank}.json")
        info = {"rank": rank, "world_size": 4}
        whole = {"schemaVersion": 1, "distributedInfo": info, "traceEvents": events}
        paths[-1].write_text(json.dumps(whole), "utf-8")
    with analyze(paths, tmp_path / "x.duckdb") as database:
        rows = database.rows(ASKED)
    assert rows == [
        (rank, 1, rank, 4, 3, 100_000, 60_000, pytest.approx(0.4), pytest.approx(0.25)) for rank in range(2)
    ]


@pytest.mark.parametrize(
    ("spec", "count", "ideal"),
    [
        ({"pp_schedule": "1f1b", "micro_batches": 8}, 8, 3 / 11),
        ({"pp_schedule": "interleaved", "micro_batches": 0}, 8, 1.5 / 9.5),
        ({"pp_schedule": "zbv", "micro_batches": 8}, 8, None),
        ({"parallel": "lorapp", "lora_cnt": 2, "grad_accum": [1, 2]}, 3, 0.25),
        ({"parallel": "lorapp", "lora_cnt": 6}, 6, 0.0),
        ({"parallel": "ddp"}, None, None),
    ],
)
def test_the_ideal_is_that_of_collect(
    spec: dict[str, Any], count: int | None, ideal: float | None, tmp_path: Path
) -> None:
    said = {
        "parallel": "pp",
        "devices": 4,
        "micro_batches": 0,
        "grad_accum": [1],
        "lora_cnt": 1,
        "pp_schedule": "",
    } | spec
    if count is not None:
        assert parallelism.ideal_bubble(SimpleNamespace(**said)) == (None if ideal is None else pytest.approx(ideal))
    with building(tmp_path / "x.duckdb") as database:
        database.connection.execute("insert into source (source_id, kind, name, rank) values (1, 'kineto', 'a', 2)")
        for name, value in said.items():
            database.connection.execute(
                "insert into source_fact (source_id, section, item, value) values (1, 'about', ?, ?)",
                [f"run: {name}", str(value)],
            )
        rows = database.rows("select stage, stage_cnt, micro_batch_cnt, ideal_frac from _pipeline_run")
    assert rows == ([] if count is None else [(2, 4, count, None if ideal is None else pytest.approx(ideal))])
