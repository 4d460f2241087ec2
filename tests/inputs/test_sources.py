"""Many inputs in one database: each source's rows are what it has alone, whatever stands beside it."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import ROOT, opened
from lorabench import rundir, sql
from lorabench.analyze.store.database import Database
from lorabench.reports import losses
from lorabench.reports.tables import sources

# Kineto before nsys and after it: what one reader leaves behind must not reach the next.
FILES = ["lora-run.json.gz", "lora-run.sqlite", "nvtx-ranges.sqlite", "torch-cpu.json.gz"]
IDS = ("source_id", "path_id", "parent_path_id", "range_id", "parent_id", "gpu_op_id", "api_call_id")
ACROSS = (
    "straggler",
    "rank_summary",
    "launch_cost",
    "collective_match",
    "collective_summary",
    "kernel_over_ranks",
)  # these set sources side by side
VIEWS = [view for view in sql.load() if view.is_public and view.name not in ACROSS]


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    folder = tmp_path_factory.mktemp("sources")
    (folder / "run").mkdir()
    for number, name in enumerate(FILES):
        shutil.copy(ROOT / "fixtures" / name, folder / "run" / f"{number}-{name}")
    with opened(folder / "run", db=folder / "all.duckdb") as database:
        yield database


@pytest.mark.parametrize("view", VIEWS, ids=lambda v: v.name)
@pytest.mark.parametrize("number", range(len(FILES)), ids=FILES)
def test_a_source_has_the_same_rows_in_company(
    view: sql.SqlFile, number: int, together: Database, database_of: Callable[[Path], Database]
) -> None:
    columns = ", ".join(c.name for c in view.columns if c.name not in IDS)
    mine = together.rows(f"select {columns} from {view.name} where source_id = {number + 1}")
    alone = database_of(ROOT / "fixtures" / FILES[number]).rows(f"select {columns} from {view.name}")
    if view.name == "trace_info":  # the copies have other names
        mine, alone = ([row for row in rows if row[1] != "file"] for rows in (mine, alone))
    assert sorted(map(repr, mine)) == sorted(map(repr, alone))


def test_ids_are_distinct_across_sources(together: Database) -> None:
    for table, key in (
        ("range", "range_id"),
        ("range_path", "path_id"),
        ("gpu_op", "gpu_op_id"),
        ("api_call", "api_call_id"),
    ):
        assert together.rows(f"select count(*) - count(distinct {key}) from {table}") == [(0,)]
    assert together.rows("select count(*) from name group by text having count(*) > 1") == []


def test_a_database_made_anew_is_read_anew_although_the_old_one_is_open(
    synthetic_trace: Callable[..., Path], tmp_path: Path
) -> None:
    traces = [synthetic_trace("nsys", steps=steps) for steps in (1, 3)]
    both = [opened(trace, db=tmp_path / "x.duckdb") for trace in traces]
    counts = [len(database.view("step_summary")) for database in both]
    for database in both:
        database.close()
    assert counts == [1, 3]


@pytest.mark.parametrize(
    ("sqlite", "name"), [("nvtx-ranges.sqlite", "trace.json.gz"), ("lora-run.sqlite", "run.sqlite")]
)
def test_the_recording_that_is_shown_of_a_run_is_torchs_where_there_is_no_gpu(
    sqlite: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without GPU work nsys has ranges alone; with it its times are the least disturbed. Nobody misses a CPU's GPU."""
    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(ROOT / "fixtures" / sqlite, run / "run.sqlite")
    shutil.copy(ROOT / "fixtures" / "torch-cpu.json.gz", run / "trace.json.gz")
    device = "cpu" if name == "trace.json.gz" else "cuda"
    (run / rundir.MANIFEST).write_text(json.dumps({"format": rundir.FORMAT, "status": "ok"}), "utf-8")
    (run / rundir.SUMMARY).write_text(json.dumps({"format": rundir.FORMAT, "device": {"type": device}}), "utf-8")
    with opened(run, db=tmp_path / "x.duckdb") as database:
        shown = sources.shown(database)
        assert database.rows(f"select name from source where source_id = {shown}") == [(name,)]
        losses.tell_losses(database)
        rules = {rule for (rule,) in database.rows("select rule from validation")}
    assert ("missing" in capsys.readouterr().err) is ("missing" in rules) is (device == "cuda")
