"""What `analyze` writes for the project's own traces, to the byte. `make golden` writes the expected files again."""

import subprocess
import sys
from pathlib import Path

import pytest

GOLDEN = Path(__file__).resolve().parent
ROOT = GOLDEN.parent.parent
CASES = [
    ("lora-run.sqlite", "range_summary", "csv"),
    ("lora-run.sqlite", "range_kernel_summary", "csv"),
    ("lora-run.sqlite", "launch_trace", "csv"),
    ("lora-run.sqlite", "kernel_summary", "csv"),
    ("lora-run.sqlite", "unattributed", "csv"),
    ("lora-run.sqlite", "range_summary", "mlora"),
    ("lora-run.sqlite", "launch_trace", "mlora"),
    ("lora-run.json.gz", "range_summary", "csv"),
    ("lora-run.json.gz", "memory_operation_summary", "csv"),
    ("nvtx-ranges.sqlite", "range_summary", "csv"),
    ("nvtx-ranges.sqlite", "trace_info", "csv"),
    ("torch-cpu.json.gz", "range_summary", "csv"),
    ("torch-cpu.json.gz", "trace_info", "csv"),
]


def write(trace: str, view: str, format: str, out: Path) -> None:
    words = ["analyze", ROOT / "fixtures" / trace, "--report", view, "--format", format, "-o", out]
    subprocess.run([sys.executable, "-m", "lorabench", *map(str, words)], check=True, capture_output=True)


def name(trace: str, view: str, format: str) -> str:
    return f"{trace.split('.', maxsplit=1)[0]}{'-kineto' if '.json' in trace else ''}.{view}.{format}.csv"


@pytest.mark.parametrize(("trace", "view", "format"), CASES)
def test_output_is_what_it_was(trace: str, view: str, format: str, tmp_path: Path) -> None:
    out = tmp_path / name(trace, view, format)
    write(trace, view, format, out)
    assert out.read_text("utf-8") == (GOLDEN / out.name).read_text("utf-8")


@pytest.mark.parametrize("path", sorted((ROOT / "fixtures").iterdir()), ids=lambda p: p.name)
def test_fixtures_stay_small(path: Path) -> None:
    assert path.is_dir() or path.stat().st_size <= 300_000


if __name__ == "__main__":
    for case in CASES:
        write(*case, GOLDEN / name(*case))
    for database in GOLDEN.glob("*.duckdb"):
        database.unlink()
