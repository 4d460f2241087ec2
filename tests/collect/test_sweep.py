"""Sweeps: which runs a grid means, that they go on where they were, and how the largest that fits is found."""

import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from caches import cache_in
from conftest import ROOT, opened
from lorabench import rundir
from lorabench.collect.run import sweep
from lorabench.collect.settings.spec import RunSpec
from lorabench.errors import InputError, RunError, UsageError
from lorabench.reports.sweeps import published, sweep_page, sweep_text
from lorabench.reports.sweeps import results as sweeps

CAPTURE = ROOT / "fixtures" / "h200-batch" / "trace.json.gz"
CAPACITY = 11  # adapters that fit into the memory of the runner below


class Runner:
    """Leaves a run directory as collect does, without running anything."""

    def __init__(self, fails: str = "") -> None:
        self.ran: list[str] = []
        self.fails = fails

    def __call__(self, spec: RunSpec, path: Path, force: bool, listener: Any) -> None:
        self.ran.append(path.name)
        status = rundir.OK if spec.lora_cnt <= CAPACITY else rundir.OOM
        status = rundir.FAILED if self.fails and self.fails in path.name else status
        directory = rundir.RunDirectory(path, force)
        wall = 1e6 * (2 + spec.lora_cnt)
        directory.write_json(
            rundir.SUMMARY,
            {} if status != rundir.OK else {
                "step_wall_ns": {"p50": wall, "p95": 2 * wall}, "task_step_wall_ns": {"p50": wall / spec.lora_cnt},
                "tokens_per_s": {"computed": 1e9 / wall}, "lora_cnt": spec.lora_cnt, "device": {"type": "cpu"},
                "memory": {"load": {"peak_resident_bytes": 5}, "steps": {"peak_resident_bytes": 7 * spec.lora_cnt}},
            },
        )  # fmt: skip
        directory.finish({"status": status, "message": None if status == rundir.OK else "why", "spec": spec.as_dict()})
        if status != rundir.OK:
            raise RunError("why")


def names(**given: Any) -> list[str]:
    return [cell.name for cell in sweep.plan(given).cells]


def test_values_with_commas_and_ranges_are_axes() -> None:
    assert names(lora_cnt="1..3", peft_mode="switch,batch", steps="4") == [
        f"lora-cnt={n}-peft-mode={mode}" for n in (1, 2, 3) for mode in ("switch", "batch")
    ]
    assert names(lora_cnt="2") == ["run"]


def test_values_that_make_the_same_name_have_runs_of_their_own(tmp_path: Path) -> None:
    for folder in ("a/b", "a_b", "a b"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "config.json").write_text("{}")
    paths = [str(tmp_path / folder) for folder in ("a/b", "a_b", "a b")]
    cells = sweep.plan({"model": ",".join(paths)}).cells
    assert [cell.spec.model for cell in cells] == paths and len({cell.name for cell in cells}) == 3
    assert cells == sweep.plan({"model": ",".join(paths)}).cells


def test_a_value_may_be_a_list_for_the_adapters() -> None:
    cells = sweep.plan({"lora_cnt": "2", "rank": "8,4+16"}).cells
    assert [cell.spec.rank for cell in cells] == [(8,), (4, 16)]


def test_passes_and_layers_are_no_axes() -> None:
    (cell,) = sweep.plan({"profiler": "timing,memory", "target_modules": "q_proj,v_proj"}).cells
    assert cell.spec.profiler == ("timing", "memory") and cell.spec.target_modules == ("q_proj,v_proj",)


def test_full_fine_tuning_has_no_rank_of_the_other_methods() -> None:
    plan = sweep.plan({"method": "full,lora", "rank": "64"})
    assert [(cell.spec.method, cell.spec.rank) for cell in plan.cells] == [("full", (16,)), ("lora", (64,))]
    assert not plan.impossible


def test_full_fine_tuning_has_one_run_however_many_ranks() -> None:
    assert names(method="full,lora", rank="4,8", gradient_checkpointing="none,layer") == [
        "method=full-gradient-checkpointing=none",
        "method=full-gradient-checkpointing=layer",
        "method=lora-rank=4-gradient-checkpointing=none",
        "method=lora-rank=4-gradient-checkpointing=layer",
        "method=lora-rank=8-gradient-checkpointing=none",
        "method=lora-rank=8-gradient-checkpointing=layer",
    ]


def test_an_axis_that_no_run_has_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--rank: settings of adapters, and --method full has none"):
        names(method="full", rank="4,8")


def test_combinations_that_contradict_themselves_are_left_out_and_said() -> None:
    found = sweep.plan({"peft_mode": "switch,batch", "batch_operator": "loop,fused", "graph_pruning": False})
    assert [cell.name for cell in found.cells] == ["peft-mode=batch-batch-operator=loop"]
    assert len(found.impossible) == 3 and all(" applies to --peft-mode batch" in r for r in found.impossible)
    with pytest.raises(UsageError, match="no combination is possible"):
        sweep.plan({"method": "qlora", "quant": "none", "rank": "4,8"})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"lora_cnt": "1,x"}, "--lora-cnt must be a whole number, not 'x'"),
        ({"method": "lora,loar"}, "--method is 'loar'; it must be one of"),
        ({"rank": "8,0", "lora_cnt": "1,2"}, "--rank must be at least 1"),
    ],
)
def test_a_mistyped_value_stops_a_sweep(given: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)):
        sweep.plan(given)


@pytest.mark.parametrize("values", ["9..3", "1..100000000000"])
def test_a_range_that_is_none_is_refused(values: str) -> None:
    with pytest.raises(UsageError, match="write LOW"):
        sweep.plan({"lora_cnt": values})


@pytest.mark.parametrize("preset", sweep.PRESETS)
def test_every_preset_is_possible_as_a_whole(preset: str) -> None:
    found = sweep.plan({}, preset=preset)
    assert len(found.cells) >= 10 and not found.impossible


def test_a_sweep_goes_on_where_it_was(tmp_path: Path) -> None:
    what = sweep.plan({"lora_cnt": "1..4"})
    first = Runner(fails="=3")
    with pytest.raises(RunError, match="1 of 4 runs failed: lora-cnt=3: why"):
        sweep.run(what, tmp_path, runner=first)
    again = Runner()
    sweep.run(what, tmp_path, runner=again)
    assert len(first.ran) == 4 and again.ran == ["lora-cnt=3"]
    changed = Runner()
    with pytest.raises(UsageError, match="holds another sweep"):
        sweep.run(sweep.plan({"lora_cnt": "1..5"}), tmp_path, runner=changed)
    assert not changed.ran


def test_a_run_of_other_settings_is_run_again(tmp_path: Path) -> None:
    sweep.run(sweep.plan({"lora_cnt": "1,2"}), tmp_path, runner=Runner())
    (tmp_path / rundir.SWEEP).unlink()  # as --force does
    again = Runner()
    sweep.run(sweep.plan({"lora_cnt": "1,2", "seed": "7"}), tmp_path, runner=again)
    assert again.ran == ["lora-cnt=1", "lora-cnt=2"]


@pytest.mark.parametrize(
    ("values", "expected"), [("1", [1, 2, 4, 8, 16, 12, 10, 11]), ("3,100", [3, 6, 12, 9, 10, 11])]
)
def test_the_largest_that_fits_is_found(values: str, expected: list[int], tmp_path: Path) -> None:
    runner = Runner()
    sweep.run(sweep.plan({"lora_cnt": values, "peft_mode": "switch,batch"}, "lora_cnt"), tmp_path, runner=runner)
    assert runner.ran == [f"peft-mode={m}-lora-cnt={n}" for m in ("switch", "batch") for n in expected]
    rows = [row for row in sweeps.rows(tmp_path) if row["status"] == "ok" and row["peft_mode"] == "batch"]
    assert max(row["lora_cnt"] for row in rows) == CAPACITY


@pytest.mark.parametrize("field", ["nosuch", "profiler", "method"])
def test_only_a_number_is_searched(field: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--until-oom"):
        sweep.plan({"lora_cnt": "1"}, field)


def test_results_are_those_of_the_runs(tmp_path: Path) -> None:
    sweep.run(sweep.plan({"lora_cnt": f"2,{CAPACITY + 1}"}), tmp_path, runner=Runner())
    first, second = sweeps.rows(tmp_path)
    assert (first["lora_cnt"], first["step_ns"], first["task_step_ns"]) == (2, 4e6, 2e6)
    assert first["peak_resident_bytes"] == 14 and first["execution_ns"] is None and first["status"] == "ok"
    assert (second["status"], second["message"], second["step_ns"]) == ("oom", "why", None)
    (tmp_path / "lora-cnt=2" / rundir.MANIFEST).unlink()
    assert sweeps.rows(tmp_path)[0]["status"] == "not run"


def test_runs_are_no_faster_than_their_steps_tell(capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[dict[str, Any]] = [
        {"lora_cnt": count}
        | dict.fromkeys(sweeps.COLUMNS)
        | {"status": "ok", "token_per_s": rate, "step_spread_frac": 0.02, "step_error_frac": error, "step_cnt": 20}
        for count, rate, error in (
            (1, 990.0, 0.004),
            (2, 1000.0, 0.004),
            (3, 980.0, 0.004),
            (4, 960.0, None),
            (5, None, None),
        )
    ]
    rows.insert(0, rows[0] | {"lora_cnt": 6, "status": "failed", "token_per_s": 2000.0, "step_error_frac": 0.001})
    first, alike = sweeps.fastest(rows) or ({}, [])
    assert (first["lora_cnt"], [row["lora_cnt"] for row in alike]) == (2, [1])
    sweep_text.show(rows)
    told = " ".join(capsys.readouterr().out.split())
    assert "most tokens: lora-cnt 2, 1,000 /s" in told and "the steps tell: lora-cnt 1 (" in told
    assert sweeps.fastest(rows[5:]) is None


def test_a_sweep_of_memory_ends_in_the_lowest_peak(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep.run(sweep.plan({"lora_cnt": "1,2,3"}), tmp_path, runner=Runner())
    rows = sweeps.rows(tmp_path)
    for row, peak in zip(rows, (300, 200, 201), strict=True):
        row["peak_resident_bytes"] = peak * 2**20
    sweep_text.show(rows, is_of_memory=True)
    told = " ".join(capsys.readouterr().out.split())
    assert (
        "most tokens" not in told and "lowest peak: lora-cnt 2, 200.0 MiB; the highest: lora-cnt 1, 300.0 MiB" in told
    )
    assert "as low, within a hundredth: lora-cnt 3" in told


def test_a_dry_run_says_what_all_runs_have_in_common(run_command: Any) -> None:
    done = run_command("sweep", "--lora-cnt", "1,2", "--steps", 7, "--dry-run")
    assert done.err.startswith("every run: model tiny, method lora, quant none, ") and "steps 7" in done.err
    assert "lora-cnt" not in done.err
    help_ = " ".join(run_command("sweep", "--help").out.split())
    for name in sweep.PRESETS:
        assert f"{name} ({sweep.PRESETS[name][0]['model']}): " in help_


def test_the_folder_of_one_run_holds_no_sweep_and_a_run_replaces_none(tmp_path: Path) -> None:
    plan = sweep.plan({"lora_cnt": "1,2"})
    one = rundir.RunDirectory(tmp_path / "one", False)
    one.finish({"status": rundir.OK, "message": None})
    with pytest.raises(UsageError, match="is the run directory of one run"):
        sweep.run(plan, tmp_path / "one", runner=Runner())
    sweep.run(plan, tmp_path / "all", runner=Runner())
    (tmp_path / "all" / rundir.MANIFEST).write_text("{}")  # as a version before this one left it
    with pytest.raises(UsageError, match="holds the runs of a sweep, so --force does not replace it"):
        rundir.RunDirectory(tmp_path / "all", True)
    assert (tmp_path / "all" / "lora-cnt=2" / rundir.SUMMARY).is_file()


@pytest.mark.parametrize(("values", "said"), [
    ("1..30", "most that fits: lora_cnt 11; memory ran out at 12"),
    ("1..8", "most that fits: lora_cnt 8; memory did not run out, so more may fit"),
    ("20", "most that fits: lora_cnt 11; memory ran out at 12"),
])  # fmt: skip
def test_what_fits_is_said_first(values: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep.run(sweep.plan({"lora_cnt": values}, "lora_cnt"), tmp_path, runner=Runner())
    sweep_text.show(sweeps.rows(tmp_path), searched=rundir.read_sweep(tmp_path)["searched"])
    lines = capsys.readouterr().out.splitlines()
    assert next(line for line in lines if line.startswith(("most", "nothing"))) == (
        said if values != "20" else "nothing fits; memory ran out at 20"
    )


@pytest.mark.parametrize(("other", "is_alike"), [(1.0, True), (1.02, True), (1.3, False)])
def test_runs_are_told_apart_by_the_times_of_their_steps(other: float, is_alike: bool, tmp_path: Path) -> None:
    """Tokens vary from step to step, and the time with them: only what a token takes counts."""
    sweep.run(sweep.plan({"lora_cnt": "1,2"}), tmp_path, runner=Runner())
    for number, factor in ((1, 1.0), (2, other)):
        folder = tmp_path / f"lora-cnt={number}"
        steps = [
            (tokens, tokens * 1000 * factor * (1 + 0.03 * (-1) ** at)) for at, tokens in enumerate([40, 60, 80] * 5)
        ]
        lines = ["pass,step,adapter,start_ns,wall_ns,computed_token_cnt"]
        lines += [f"timing,{at},a,{at},{wall:.0f},{tokens}" for at, (tokens, wall) in enumerate(steps)]
        (folder / rundir.STEPS).write_text("\n".join(lines))
        rate = sum(tokens for tokens, _ in steps) / sum(wall for _, wall in steps) * 1e9
        summary = rundir.read_summary(folder) | {"tokens_per_s": {"computed": rate}}
        (folder / rundir.SUMMARY).write_text(json.dumps(summary))
    found = sweeps.fastest(sweeps.rows(tmp_path))
    assert found and found[0]["step_cnt"] == 15 and 0.004 < found[0]["step_error_frac"] < 0.02
    assert bool(found[1]) == is_alike


@pytest.mark.slow
def test_execution_is_the_gpus_part_of_a_step_and_launching_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", cache_in(tmp_path))

    def leave(spec: RunSpec, path: Path, force: bool, listener: Any) -> None:
        directory = rundir.RunDirectory(path, force)
        shutil.copy(CAPTURE, directory.partial / "trace.json.gz")
        directory.write_json(
            rundir.SUMMARY,
            {"device": {"type": "cuda"}, "lora_cnt": spec.lora_cnt, "task_step_wall_ns": {"p50": 40e6}},
        )  # fmt: skip
        directory.finish({"status": rundir.OK, "message": None, "spec": spec.as_dict()})

    sweep.run(sweep.plan({"lora_cnt": "1,2"}), tmp_path / "s", runner=leave)
    with opened(CAPTURE, db=tmp_path / "x.duckdb") as database:
        steps = [busy for (busy,) in database.rows("select gpu_busy_ns from step_summary")]
    for row in sweeps.rows(tmp_path / "s"):
        assert row["execution_ns"] == sum(steps) / len(steps) / row["lora_cnt"] > 0
        assert row["launch_ns"] == 40e6 - row["execution_ns"]


def test_published_numbers_stand_beside_ours() -> None:
    axes = ["method", "rank", "gradient_checkpointing"]
    none: dict[str, Any] = dict.fromkeys(sweeps.COLUMNS)
    ours = {"status": "ok", "peak_allocated_bytes": 1, "peak_reserved_bytes": 2, "nvml_used_bytes": 3}
    rows = [
        {"method": "full", "rank": None, "gradient_checkpointing": "none", **none, "status": "oom"},
        {"method": "lora", "rank": 4, "gradient_checkpointing": "none", **none, **ours},
        {"method": "lora", "rank": 8, "gradient_checkpointing": "layer", **none, **ours},
        {"method": "lora", "rank": 4, "gradient_checkpointing": "attn-mlp", **none, **ours},
    ]
    known = published.of({"model": "qwen2.5-7b"}, rows, axes)
    tables = published.beside(known, rows, axes)
    found = {(r["method"], r["rank"], r["gradient_checkpointing"]): r for r in tables["peaks"]}
    assert list(found) == [("full", None, "none"), ("lora", 4, "none"), ("lora", 8, "layer")]
    full, lora, layer = found.values()
    assert (full["published"], full["published_bytes"], full["ours"]) == ("oom", None, "oom")
    assert (lora["published_bytes"], lora["our_peak_allocated_bytes"]) == (24_770_000_000, 1)
    assert (lora["our_peak_reserved_bytes"], lora["our_nvml_used_bytes"]) == (2, 3)
    assert layer["published_bytes"] == 19_900_000_000  # published for no rank in particular
    assert not tables["times"] and not published.of({"model": "tiny"}, rows, axes)


def test_a_sweep_of_several_grids_has_each_run_once_and_draws_every_axis(tmp_path: Path) -> None:
    what = sweep.plan({}, preset="paper-scale")
    assert list(what.axes) == ["parallel", "lora_cnt", "overlap", "devices", "rank"]
    assert what.settings["model"] == "tinyllama-1.1b" and "devices" not in what.settings
    assert len({cell.name for cell in what.cells}) == len(what.cells) == 22
    assert {cell.spec.overlap for cell in what.cells if cell.spec.parallel == "lorapp"} == {True, False}
    assert not any("overlap" in cell.name for cell in what.cells if cell.spec.parallel == "tp")
    sweep.run(what, tmp_path / "s", runner=Runner())
    rows = sweeps.rows(tmp_path / "s")
    assert {row["overlap"] for row in rows if row["parallel"] == "tp"} == {None}
    sweep_page.write(tmp_path / "s", rows, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "Tokens by devices" in page and "Tokens by rank" in page
    axes = list(what.axes)
    known = published.of({name: str(value) for name, value in what.settings.items()}, rows, axes)
    rates = published.beside(known, rows, axes)["rates"]
    pairs = {(row["parallel"], row["lora_cnt"], row["overlap"], row["published_per_s"]) for row in rates}
    assert {("tp", 1, None, 5754), ("lorapp", 3, True, 10118), ("lorapp", 4, False, 7063)} <= pairs


def test_settings_that_are_on_or_off_can_be_swept() -> None:
    cells = sweep.plan({"parallel": "lorapp", "lora_cnt": "2", "overlap": "true,false"}).cells
    assert [(cell.name, cell.spec.overlap) for cell in cells] == [("overlap=true", True), ("overlap=false", False)]


def test_a_search_takes_one_grid() -> None:
    with pytest.raises(UsageError, match="searches one grid"):
        sweep.plan({}, "lora_cnt", "paper-scale")


def test_published_numbers_are_those_of_the_model_of_a_row() -> None:
    axes = ["model", "lora_cnt", "peft_mode"]
    none: dict[str, Any] = dict.fromkeys(sweeps.COLUMNS)
    rows = [{"model": m, "lora_cnt": 2, "peft_mode": "batch", **none, "task_step_ns": 7}
            for m in ("llama-2-7b", "llama-2-13b")]  # fmt: skip
    tables = published.beside(published.of({}, rows, axes), rows, axes)
    assert [(r["model"], r["measure"], r["published_ns"], r["our_ns"]) for r in tables["times"]] == [
        ("llama-2-7b", "task_step", 5_715_000_000, 7), ("llama-2-13b", "task_step", 10_149_000_000, 7)
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 1, "cells": 3}', '{"format": 2, "cells": [], "axes": {}}'])
def test_a_damaged_sweep_is_said(text: str, tmp_path: Path) -> None:
    (tmp_path / rundir.SWEEP).write_text(text, "utf-8")
    with pytest.raises(InputError, match=r"sweep\.json"):
        sweeps.rows(tmp_path)


@pytest.mark.slow
def test_a_sweep_of_real_runs_ends_with_a_table_and_a_page(tmp_path: Path, run_command: Any) -> None:
    pytest.importorskip("peft")
    words = ("sweep", "--lora-cnt", "1,2", "--steps", 2, "--warmup", 1, "--seq-len", 16, "--batch-size", 2)
    said = run_command(*words, "--device", "cpu", "-o", tmp_path / "s")
    assert "results.csv and" in said.out and "token_per_s" in said.out and "most tokens: lora-cnt" in said.out
    rows = list(csv.DictReader((tmp_path / "s" / "results.csv").read_text("utf-8").splitlines()))
    assert [(row["lora_cnt"], row["status"]) for row in rows] == [("1", "ok"), ("2", "ok")]
    for row in rows:
        summary = json.loads((tmp_path / "s" / f"lora-cnt={row['lora_cnt']}" / "summary.json").read_text())
        assert float(row["step_ns"]) == summary["step_wall_ns"]["p50"] > 0
    assert "Training time of a step" in (tmp_path / "s" / "sweep.html").read_text("utf-8")
    before = (tmp_path / "s" / "results.csv").stat().st_mtime_ns
    said = run_command("sweep", "--lora-cnt", "1,3", "-o", tmp_path / "s", code=2)
    assert "another sweep" in said.err and (tmp_path / "s" / "results.csv").stat().st_mtime_ns == before
    assert run_command(*words, "--dry-run").out.split() == ["lora-cnt=1", "lora-cnt=2"]
