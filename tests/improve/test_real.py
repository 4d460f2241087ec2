"""improve with real runs of a tiny model on the CPU: minutes."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("peft")
pytestmark = pytest.mark.long
TRIES = 3  # on a machine that others use at the same time
RUN = ("--lora-cnt", 4, "--steps", 10, "--no-report")


def lorabench(*words: object) -> str:
    """What a command prints; however long it takes."""
    done = subprocess.run(
        [sys.executable, "-m", "lorabench", *map(str, words)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def row_of(folder: Path, change: str) -> dict[str, str]:
    rows = csv.DictReader((folder / "improve.csv").read_text("utf-8").splitlines())
    return next(row for row in rows if row["change"] == change)


def test_batch_is_found_and_predicted_within_a_fifth(tmp_path: Path) -> None:
    small = ("--batch-size", 1, "--seq-len", 32, "--gradient-checkpointing", "none")
    errors = []
    for number in range(TRIES):
        run, better = tmp_path / f"run-{number}", tmp_path / f"better-{number}"
        lorabench("collect", *RUN, *small, "--profiler", "timing,torch", "-o", run)
        lorabench("improve", run, "--rounds", 1, "-o", better)
        batch = row_of(better, "batch")
        assert batch["verdict"] == "kept" and float(batch["loss_apart_frac"]) < 1e-5
        errors.append(float(batch["error_frac"]))
        if abs(errors[-1]) < 0.2:
            return
    raise AssertionError(f"predictions were off by {errors}")


def test_checkpointing_that_is_not_needed_is_left_out(tmp_path: Path) -> None:
    lorabench("collect", *RUN, "--peft-mode", "batch", "--profiler", "timing,torch", "-o", tmp_path / "run")
    rows = json.loads(lorabench("improve", tmp_path / "run", "--dry-run", "--json"))
    assert rows[1]["change"] == "checkpointing none" and 0.5 < rows[1]["predicted_step_ns"] / rows[0]["step_ns"] < 0.95
    lorabench("improve", tmp_path / "run", "--rounds", 1, "-o", tmp_path / "better")
    assert row_of(tmp_path / "better", "checkpointing none")["verdict"] == "kept"


def test_a_loader_that_is_slow_on_purpose_gets_workers(tmp_path: Path) -> None:
    fast = ("--peft-mode", "batch", "--batch-size", 1, "--seq-len", 32, "--gradient-checkpointing", "none")
    slow = ("--batch-delay-ms", 20, "--profiler", "timing,torch")
    lorabench("collect", *RUN, *fast, *slow, "-o", tmp_path / "run")
    lorabench("improve", tmp_path / "run", "--rounds", 1, "-o", tmp_path / "better")
    rows = csv.DictReader((tmp_path / "better" / "improve.csv").read_text("utf-8").splitlines())
    (first,) = [row for row in rows if row["round"] == "1"]
    assert first["options"].startswith("--loader-workers ") and first["verdict"] == "kept"
    assert float(first["loss_apart_frac"]) == 0


def test_more_adapters_fit_as_predicted(tmp_path: Path) -> None:
    most = ("--peft-mode", "batch", "--gradient-checkpointing", "none", "--profiler", "timing,torch,memory")
    lorabench("collect", *RUN, *most, "-o", tmp_path / "run")
    said = lorabench("improve", tmp_path / "run", "--goal", "adapters", "--rounds", 2, "-o", tmp_path / "more")
    line = next(line for line in said.splitlines() if "adapters: peak predicted" in line)
    assert abs(float(line.rpartition("(")[2].removesuffix("%)"))) < 5
