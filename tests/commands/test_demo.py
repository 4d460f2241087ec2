"""`make demo` as its recipe says: settings that collect takes, and where there is no GPU the answer of a capture."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def recipe(gpu: str) -> list[str]:
    """What `make demo` would run on a machine with this GPU, lorabench's commands only."""
    done = subprocess.run(
        ["make", "-n", "-C", str(ROOT), "demo", f"GPU={gpu}"], capture_output=True, text=True, check=True
    )  # fmt: skip
    return [line for line in done.stdout.splitlines() if "lorabench " in line or line.startswith("gunzip")]


def run(folder: Path, line: str) -> str:
    words = [sys.executable, "-m", "lorabench", *shlex.split(line)[1:]]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("gpu", ["", "GPU 0: NVIDIA H200"])
def test_its_runs_are_settings_that_collect_takes(gpu: str, tmp_path: Path) -> None:
    runs = [line for line in recipe(gpu) if " collect " in line]
    assert len(runs) == 2
    for line in runs:
        assert '"lora_cnt": 4' in run(tmp_path, f"{line} --dry-run")


def test_without_a_gpu_it_ends_with_the_answer_and_page_of_a_capture(tmp_path: Path) -> None:
    lines = recipe("")
    unpack, summary, report = lines[-3:]
    (tmp_path / "demo-out").mkdir()
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    subprocess.run(unpack, shell=True, cwd=tmp_path, check=True)
    assert "NVIDIA H200" in (said := run(tmp_path, summary)) and "what to do first" in said
    assert "wrote demo-out/page.html" in run(tmp_path, report)
    assert "NVIDIA H200" in (tmp_path / "demo-out" / "page.html").read_text("utf-8")
