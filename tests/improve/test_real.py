"""improve with real runs of a tiny model on the CPU: minutes."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Ended

pytest.importorskip("torch")
pytest.importorskip("peft")
pytestmark = pytest.mark.slow
Run = Callable[..., Ended]
RUN = ("--lora-cnt", 4, "--steps", 10, "--no-report")


def row_of(folder: Path, change: str) -> dict[str, str]:
    rows = csv.DictReader((folder / "improve.csv").read_text("utf-8").splitlines())
    return next(row for row in rows if row["change"] == change)


def test_batch_is_found_and_predicted_within_a_fifth(tmp_path: Path, run_command: Run) -> None:
    small = ("--batch-size", 1, "--seq-len", 32, "--gradient-checkpointing", "none")
    run_command("collect", *RUN, *small, "--profiler", "timing,torch", "-o", tmp_path / "run")
    run_command("improve", tmp_path / "run", "--rounds", 1, "-o", tmp_path / "better")
    batch = row_of(tmp_path / "better", "batch")
    assert batch["verdict"] == "kept" and abs(float(batch["error_frac"])) < 0.2
    assert float(batch["loss_apart_frac"]) < 1e-5


def test_checkpointing_that_is_not_needed_is_left_out(tmp_path: Path, run_command: Run) -> None:
    run_command("collect", *RUN, "--peft-mode", "batch", "--profiler", "timing,torch", "-o", tmp_path / "run")
    rows = json.loads(run_command("improve", tmp_path / "run", "--dry-run", "--json").out)
    assert rows[1]["change"] == "checkpointing none" and 0.5 < rows[1]["predicted_step_ns"] / rows[0]["step_ns"] < 0.95
    run_command("improve", tmp_path / "run", "--rounds", 1, "-o", tmp_path / "better")
    row = row_of(tmp_path / "better", "checkpointing none")
    assert row["verdict"] == "kept" and abs(float(row["error_frac"])) < 0.2


def test_more_adapters_fit_as_predicted(tmp_path: Path, run_command: Run) -> None:
    most = ("--peft-mode", "batch", "--gradient-checkpointing", "none", "--profiler", "timing,torch,memory")
    run_command("collect", *RUN, *most, "-o", tmp_path / "run")
    said = run_command("improve", tmp_path / "run", "--goal", "adapters", "--rounds", 2, "-o", tmp_path / "more").out
    line = next(line for line in said.splitlines() if "adapters: peak predicted" in line)
    assert abs(float(line.rpartition("(")[2].removesuffix("%)"))) < 5
