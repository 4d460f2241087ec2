"""What a run may be: values, contradictions, the TOML file, the options of the command line."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from lorabench.collect.settings.spec import from_dict, read_config
from lorabench.errors import UsageError

LORABENCH = [sys.executable, "-m", "lorabench"]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"method": "full", "quant": "nf4"}, "full trains the base, which --quant nf4 freezes"),
        ({"method": "full", "lora_cnt": 2}, "full has no adapters; leave --lora-cnt 2 out"),
        ({"method": "full", "peft_mode": "batch"}, "no adapters for --peft-mode batch"),
        ({"method": "qlora", "quant": "none"}, "qlora means a quantized base"),
        ({"method": "qloar"}, "one of lora, qlora, full"),
        ({"rank": "8,16", "lora_cnt": 3}, "2 values for 3 adapters"),
        ({"rank": 0}, "--rank must be at least 1"),
        ({"rank": "eight"}, "--rank must be a whole number, not 'eight'"),
        ({"rank": 1.5}, "--rank must be a whole number"),
        ({"steps": True}, "--steps must be a whole number"),
        ({"reentrant": "yes"}, "--reentrant must be true or false"),
        ({"dropout": 1}, "at least 0 and below 1"),
        ({"learning_rate": 0}, "must be above 0"),
        ({"peft_mode": "batch", "model": "distilbert"}, "is a classifier"),
        ({"model": "distilbert", "gradient_checkpointing": "attn-mlp"}, "needs a decoder"),
        ({"reentrant": True, "gradient_checkpointing": "none"}, "is a kind of --gradient-checkpointing layer"),
        ({"graph_pruning": False}, "applies to --peft-mode batch --batch-operator loop"),
        ({"profiling_frequency": 2, "active_steps": 3}, "shorter than its 0 warm-up and 3 active"),
        ({"profiling_frequency": 9, "wait_steps": 3}, "leave --wait-steps out"),
        ({"warmup_steps": 5, "steps": 5}, "leaves none of 5 steps active"),
        ({"device": "gpu"}, "must be auto, cpu, cuda or cuda:N"),
        ({"profiler": "vtune"}, "one of timing, torch, nsys, memory"),
        ({"nope": 1}, "no such setting: 'nope'"),
        ({"method": "full", "rank": 64}, "--rank is a setting of adapters, and --method full has none"),
        ({"method": "full", "target_modules": "q_proj"}, "--target-modules is a setting of adapters"),
        ({"batch_operator": "loop"}, "applies to --peft-mode batch, not switch"),
        ({"force_compile": True}, "applies to --compile inductor"),
        ({"data": "x.jsonl", "lengths": "uniform"}, "is for synthetic data"),
        ({"profiler": "timing", "with_stack": True}, "is a setting of torch.profiler; --profiler timing does not run"),
        ({"profiler": "timing,timing"}, "names a pass twice"),
        ({"dtype": "float16", "adapter_dtype": "base"}, "AdamW's epsilon is 0 in float16, losses are NaN; use"),
        ({"dtype": "float16", "method": "full"}, "--method full with --dtype float16"),
        ({"compile": "inductor", "gradient_checkpointing": "attn-mlp"}, "attn-mlp cannot be compiled"),
        ({"cuda_graph": True, "device": "cpu"}, "--cuda-graph is about launching work on a GPU; with --device cpu"),
        ({"cuda_graph": True, "grad_accum": 2}, "--cuda-graph replays one forward and backward for a step"),
        ({"cuda_graph": True, "reentrant": True}, "cannot be recorded by --cuda-graph"),
        ({"cuda_graph": True, "compile": "inductor"}, "use --compile parts"),
        ({"cuda_graph": True, "attention": "eager"}, "--cuda-graph records attention by sdpa"),
        ({"cuda_graph": True, "packing": True, "lengths": "uniform"}, "--packing makes every batch's borders its own"),
        ({"cuda_graph": True, "loss": "cut"}, "--loss cut waits for the GPU"),
        ({"cuda_graph": True, "model": "tiny-distilbert"}, "leave it out for classifiers"),
        ({"cuda_graph": True, "task": "sst2", "data": "words", "epochs": 1}, "leave it out for classifiers"),
        ({"adapter_storage": "stacked"}, "applies to --peft-mode batch --batch-operator fused"),
        ({"adapter_storage": "stacked", "peft_mode": "batch", "optimizer": "sgd"}, "leave --optimizer sgd out"),
        (
            {"adapter_storage": "stacked", "peft_mode": "batch", "lora_cnt": 2, "target_modules": "q_proj;v_proj"},
            "needs the same --target-modules",
        ),
        ({"adapter_storage": "stacked", "peft_mode": "batch", "compile": "inductor"}, "adds to gradients itself"),
        ({"seed": 2**70}, "--seed must be at least 0 and below 4294967296"),
        ({"seed": -1}, "--seed must be at least 0"),
        ({"learning_rate": float("inf")}, "must be above 0, and finite"),
        ({"device": "cuda:999999999999"}, "must be auto, cpu, cuda or cuda:N"),
        ({"lora_cnt": 10**20}, "--lora-cnt must be at most 4096"),
        ({"seq_len": 10**20}, "--seq-len must be at most 2147483648"),
        ({"target_modules": "q_proj,"}, "has an empty name"),
        ({"loader_workers": 65}, "--loader-workers must be at most 64"),
        ({"batch": "b.pt", "loader_workers": 2}, "--loader-workers is about making batches; --batch is made once"),
        ({"device": "cpu", "pin_memory": False}, "--no-pin-memory only affects copies to a GPU; leave it out"),
        ({"parallel": "ddp", "loader_workers": 2}, "--loader-workers 2 was not tried with --parallel"),
    ],
)
@pytest.mark.first(50)
def test_contradictions_are_refused_with_a_sentence(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        from_dict(settings)


def test_values_are_one_for_all_adapters_or_one_for_each() -> None:
    spec = from_dict({"lora_cnt": 2, "rank": "8,16", "alpha": 4, "target_modules": "q_proj,v_proj;all-linear"})
    first, second = spec.adapters()
    assert (first.rank, second.rank, first.alpha, second.alpha) == (8, 16, 4.0, 4.0)
    assert (first.target_modules, second.target_modules) == (("q_proj", "v_proj"), ("all-linear",))


def test_a_spec_survives_the_manifest() -> None:
    spec = from_dict({"lora_cnt": 2, "rank": [8, 16], "target_modules": [["q_proj", "v_proj"], ["k_proj"]]})
    assert from_dict(json.loads(json.dumps(spec.as_dict()))) == spec


@pytest.mark.parametrize(
    ("settings", "schedule", "steps"),
    [
        ({}, (0, 0, 5, 1), 5),
        ({"warmup_steps": 1}, (0, 1, 4, 1), 5),
        ({"profiling_frequency": 10, "warmup_steps": 2, "active_steps": 1, "repeat": 0}, (7, 2, 1, 0), 10),
        ({"wait_steps": 3, "warmup_steps": 2, "active_steps": 2}, (3, 2, 2, 1), 7),
    ],
)
def test_the_profilers_schedule(settings: dict[str, Any], schedule: tuple[int, ...], steps: int) -> None:
    spec = from_dict(settings)
    assert spec.schedule() == schedule
    assert spec.with_whole_cycle().steps == steps


@pytest.mark.slow
def test_a_config_file_is_overruled_by_options(tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    config.write_text('[collect]\nlora-cnt = 3\nrank = [4, 8, 16]\ntarget-modules = ["q_proj", "v_proj"]\n', "utf-8")
    done = subprocess.run(
        [*LORABENCH, "collect", "--config", config, "--steps", "9", "--rank", "2", "--dry-run"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    shown = json.loads(done.stdout)
    assert (shown["lora_cnt"], shown["rank"], shown["steps"]) == (3, [2], 9)
    assert shown["target_modules"] == "q_proj,v_proj"


@pytest.mark.parametrize(("content", "says"), [("a = ", "is not TOML"), ("collect = 3", "must be a table")])
def test_a_bad_config_file_is_named(tmp_path: Path, content: str, says: str) -> None:
    config = tmp_path / "run.toml"
    config.write_text(content, "utf-8")
    with pytest.raises(UsageError, match=says):
        read_config(config)


def test_every_setting_is_in_one_group_of_the_help() -> None:
    import dataclasses

    from lorabench.collect.settings.options import GROUPS
    from lorabench.collect.settings.spec import RunSpec

    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(field.name for field in dataclasses.fields(RunSpec))


def test_every_setting_is_an_option() -> None:
    import dataclasses

    from lorabench.collect.settings.spec import RunSpec

    done = subprocess.run(
        [*LORABENCH, "collect", "--help"], capture_output=True, text=True, check=True, env={"COLUMNS": "200"}
    )
    for field in dataclasses.fields(RunSpec):
        assert f"--{field.name.replace('_', '-')}" in done.stdout


def test_dry_run_and_help_load_no_torch() -> None:
    code = (
        "import sys; sys.argv = ['lorabench', 'collect', '--dry-run']\n"
        "from lorabench.cli import run\ntry: run()\nexcept SystemExit: pass\n"
        "assert 'torch' not in sys.modules and 'duckdb' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_a_loss_that_is_no_number_does_not_spoil_the_summary() -> None:
    from lorabench.collect.run import summary

    spec = from_dict({"profiler": "torch,nsys"})
    step = {"step": 0, "adapters": ["a"], "losses": {"a": float("nan")}, "tokens": {"a": (1, 1, 1)}, "wall_ns": 5}
    result = {"steps": [step], "counts": None, "memory": {}, "device": {"type": "cpu"}, "compiled": False}
    found = summary.summarise(spec, {"torch": result, "nsys": result}, {})
    assert found["loss"] == {"a": {"first": None, "last": None}} and found["is_same_in_all_passes"]
    json.dumps(found, allow_nan=False)


def test_settings_written_before_one_was_added_are_the_same() -> None:
    spec = from_dict({"lora_cnt": 4, "rank": "8,16,8,16"})
    written = json.loads(json.dumps(spec.as_dict()))
    assert spec.is_written_as(written)
    del written["attention"]
    assert spec.is_written_as(written) and not from_dict({"lora_cnt": 4, "attention": "eager"}).is_written_as(written)
    assert not spec.is_written_as(written | {"lora_cnt": 3}) and not spec.is_written_as(None)
