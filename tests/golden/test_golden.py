"""What `analyze` writes for the project's own traces, to the byte. `make golden` writes the expected files again."""

import gzip
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import synthetic
import writers

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
    source = trace.split(".", maxsplit=1)[0] + ("-kineto" if ".json" in trace else "")
    return f"{source}.{view}{'' if format == 'csv' else '.' + format}.csv"


@pytest.mark.parametrize(("trace", "view", "format"), CASES)
def test_output_is_what_it_was(trace: str, view: str, format: str, tmp_path: Path) -> None:
    out = tmp_path / name(trace, view, format)
    write(trace, view, format, out)
    assert out.read_text("utf-8") == (GOLDEN / out.name).read_text("utf-8")


@pytest.mark.parametrize("path", sorted((ROOT / "fixtures").iterdir()), ids=lambda p: p.name)
def test_fixtures_stay_small(path: Path) -> None:
    assert path.is_dir() or path.stat().st_size <= 300_000


def test_synthetic_fixtures_are_what_their_recipe_makes(tmp_path: Path) -> None:
    writers.write_kineto(tmp_path / "x.json", [synthetic.simulate()])
    assert gzip.decompress((ROOT / "fixtures/lora-run.json.gz").read_bytes()) == (tmp_path / "x.json").read_bytes()
    writers.write_nsys(tmp_path / "x.sqlite", [synthetic.simulate()])
    dumps = []
    for path in (tmp_path / "x.sqlite", ROOT / "fixtures/lora-run.sqlite"):
        with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as file:
            dumps.append(list(file.iterdump()))
    assert dumps[0] == dumps[1]


if __name__ == "__main__":  # make golden
    for case in CASES:
        write(*case, GOLDEN / name(*case))
    for database in GOLDEN.glob("*.duckdb"):
        database.unlink()
