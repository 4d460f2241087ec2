"""Which rows and columns of a comparison are asked for: --columns, --sort, --step, --device and --rank of compare."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from simulated_ranks import Job, simulate
from test_compare import trace

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("two")
    made = [trace(folder / "a.json", 4, gemm=300, relu=40, norm=100)]
    made.append(trace(folder / "b.json", [1000, 1000, 2000, 1000], gemm=310, relu=90, norm=20))
    return list(map(str, made))


def rows(found: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(found.stdout)))


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("B", ["gemm", "relu", "norm"]),
        ("+B", ["norm", "relu", "gemm"]),
        ("delta", ["gemm", "relu", "norm"]),
        ("+Δ %", ["norm", "gemm", "relu"]),
        ("kernel_name", ["gemm", "norm", "relu"]),
        ("-kernel_name", ["relu", "norm", "gemm"]),
    ],
)
@pytest.mark.first(1)
def test_rows_are_sorted_below_the_total(sort: str, order: list[str], two: list[str], run_command: Run) -> None:
    found = rows(run_command("compare", *two, "--by", "kernel", "--sort", sort, "--csv"))
    assert [row["kernel_name"] for row in found] == ["(total)", *order]


@pytest.mark.slow
def test_columns_are_named_as_the_table_or_as_csv_does_and_come_as_asked(two: list[str], run_command: Run) -> None:
    asked = ["--by", "kernel", "--columns", "delta %,kernel_name,b.json spread"]
    (first, *_) = rows(run_command("compare", *two, *asked, "--csv"))
    assert list(first) == ["b.json Δ frac", "kernel_name", "b.json spread"]
    lines = run_command("compare", *two, *asked).stdout.splitlines()
    head = next(number for number, line in enumerate(lines) if "kernel_name" in line and "Δ %" in line)
    assert lines[head].split() == ["Δ", "%", "kernel_name", "spread", "B"]
    assert lines[head + 1].split()[1] == "(total)"


@pytest.mark.slow
def test_one_step_or_device_is_compared(two: list[str], run_command: Run) -> None:
    found = rows(run_command("compare", *two, "--step", "2", "--csv"))
    assert [(row["step"], row["a.json"], row["b.json"]) for row in found[1:]] == [("2", "1000000.0", "2000000.0")]
    found = rows(run_command("compare", *two, "--device", "0", "--csv"))
    assert [row["device_id"] for row in found] == ["(total)", "0"]


@pytest.mark.slow
def test_all_of_one_device_is_of_it_alone(tmp_path: Path, run_command: Run) -> None:
    """Its total, the verdict and the gate: what the others need is no growth of its own."""
    paths = []
    for name, beside in (("a", 0), ("b", 2200)):
        events = [
            {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 5 + device,
             "args": {"Device Type": 1, "Device Id": device, "Addr": 7, "Bytes": size, "Total Allocated": size}}
            for device, size in ((0, 1250 << 20), (1, (100 + beside) << 20))
        ]  # fmt: skip
        paths.append(tmp_path / f"{name}.json")
        paths[-1].write_text(json.dumps({"traceEvents": events}), "utf-8")
    asked = ["compare", *paths, "--by", "memory", "--device"]
    total, *_ = rows(run_command(*asked, "0", "--csv"))
    assert [float(total[f"{name}.json"]) for name in "ab"] == [1250 << 20] * 2
    found = run_command(*asked, "0", "--fail-above", "5%")
    assert found.stdout.startswith("live memory of B: the same, 1,250.0 MiB") and "cuda:1" not in found.stdout
    assert "2200.0% above" in run_command(*asked, "1", "--fail-above", "5%", code=8).stderr


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--step", "7"], "--step 7: there are 0, 1, 2, 3"),
        (["--device", "1"], "--device 1: there are 0"),
        (["--by", "kernel", "--step", "1"], "--step: rows by kernel are of all steps; --by step has them one by one"),
        (
            ["--sort", "nothing"],
            "--sort nothing: the comparison (path, A, B, Δ, Δ %, share %, is, spread A, spread B; Δ is also delta) has",
        ),
        (["--columns", "A,B,A"], "--columns names a.json twice"),
        (["--rank", "1"], "--rank 1: no input says which rank it is"),
    ],
)
@pytest.mark.first(1)
def test_what_is_not_there_is_said(asked: list[str], said: str, two: list[str], run_command: Run) -> None:
    assert said in " ".join(run_command("compare", *two, *asked, code=2).stderr.split())


@pytest.mark.slow
def test_one_rank_of_two_folders_is_compared(tmp_path: Path, run_command: Run) -> None:
    folders = [str(tmp_path / name) for name in ("one", "other")]
    for folder, late in zip(folders, ({}, {(2, 1): 9_000_000}), strict=True):
        simulate(Job(ranks=4, idle=late)).write(Path(folder))
    found = run_command("compare", *folders, "--rank", "1", "--by", "step", "--csv")
    alone = run_command("compare", *(f"{folder}/rank1.json" for folder in folders), "--by", "step", "--csv")
    assert [list(row.values()) for row in rows(found)] == [list(row.values()) for row in rows(alone)]
