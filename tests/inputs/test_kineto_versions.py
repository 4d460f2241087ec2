"""Traces of other versions of Kineto, which say the same in another way, give the same rows."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, opened

TRACE = ROOT / "fixtures" / "lora-run.json.gz"
Event = dict[str, Any]


def rewritten(change: Callable[[Event], None], folder: Path) -> Path:
    """The trace with what `change` makes of the arguments of calls and GPU work."""
    document = json.loads(gzip.decompress(TRACE.read_bytes()))
    for event in document["traceEvents"]:
        if "correlation" in event.get("args", {}):
            change(event["args"])
    path = folder / "trace.json"
    path.write_text(json.dumps(document), "utf-8")
    return path


def by_external_id(arguments: Event) -> None:
    """As Kineto with roctracer wrote it: the number is called as that of operators is elsewhere."""
    arguments["External id"] = arguments.pop("correlation")


def rows_of(path: Path, folder: Path, statement: str) -> list[tuple[Any, ...]]:
    with opened(path, db=folder / f"{path.stem}.duckdb") as database:
        return database.rows(statement)


def test_work_finds_its_launch_where_correlations_are_called_external_ids(tmp_path: Path) -> None:
    launched = "select kernel_start_time, call_api_start_time, range_id from launch_trace order by all"
    expected = rows_of(TRACE, tmp_path, launched)
    assert expected and expected == rows_of(rewritten(by_external_id, tmp_path), tmp_path, launched)


def test_external_ids_of_operators_are_no_correlations(tmp_path: Path) -> None:
    """Where any event has a correlation, what has none is linked to nothing."""
    seen = []

    def all_but_the_first(arguments: Event) -> None:
        seen.append(arguments)
        if len(seen) > 1:
            by_external_id(arguments)

    path = rewritten(all_but_the_first, tmp_path)
    assert rows_of(path, tmp_path, "select count(*) from launch_trace where call_api_start_time is not null")[0][0] <= 1


@pytest.mark.parametrize("grid", [[0, 0, 0], [0, 1, 1]])
def test_a_grid_of_no_blocks_is_not_known(grid: list[int], tmp_path: Path) -> None:
    path = rewritten(lambda arguments: arguments.update(grid=grid, block=grid), tmp_path)
    ((blocks,),) = rows_of(path, tmp_path, "select count(grid_x * grid_y * grid_z) from gpu_op where kind = 'kernel'")
    assert blocks == 0
