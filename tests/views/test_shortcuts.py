"""Views that numpy computes in the place of their statements: the statements' rows, on every trace."""

from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
import writers
from conftest import ROOT, corpus_params, opened, quick
from lorabench.analyze.shortcuts import views as shortcuts
from lorabench.analyze.store.database import Database
from simulated_gpu import Gpu, Training

FILES = [
    *corpus_params("nsys/*.sqlite"), *corpus_params("kineto/*.json.gz"),
    ROOT / "fixtures" / "lora-run.sqlite", ROOT / "fixtures" / "h200-batch",
]  # fmt: skip
VIEWS = ("_blamed_gap", "_judged_gap", "_device_activity", "_exposed", "_critical_range", "_fusible_run",
         "_op_class", "_steady_spent")  # fmt: skip


def rows(database: Database, relation: str) -> list[tuple[object, ...]]:
    columns = [name for (name,) in database.rows(f"select column_name from (describe {relation})")]
    texts = ", ".join(f"{name}::varchar" if name in ("activity", "cause", "rule") else name for name in sorted(columns))
    return sorted(database.rows(f"select {texts} from {relation}"), key=repr)


def check(database: Database) -> None:
    for name in VIEWS:
        taken = rows(database, name)
        database.connection.unregister(name)
        assert taken == rows(database, f"main.{name}")


@pytest.mark.parametrize("path", quick(10, FILES), ids=lambda path: path.name)
@pytest.mark.first(2)
def test_a_shortcut_gives_the_rows_of_the_statement(path: Path, database_of: Callable[[Path], Database]) -> None:
    database = database_of(path)
    database.filling(shortcuts.tables(database))
    check(database)


@pytest.mark.slow
def test_several_inputs_and_work_without_a_device(synthetic_trace: Callable[..., Path], tmp_path: Path) -> None:
    traces = [synthetic_trace("nsys"), synthetic_trace("kineto", steps=3)]
    opened(*traces, db=tmp_path / "both.duckdb").close()
    with duckdb.connect(str(tmp_path / "both.duckdb")) as connection:
        connection.execute("update gpu_op set device_id = null where source_id = 2 and stream_id = 21")
    with opened(tmp_path / "both.duckdb") as database:
        assert (2, None) in database.rows("select distinct source_id, device_id from _device_activity")
        check(database)


@pytest.mark.parametrize("what", ["synchronisation", "late_input"])
@pytest.mark.first(1)
def test_what_another_process_does_explains_no_gap(what: str, tmp_path: Path) -> None:
    run = Training(kernel=40_000, syncs=what == "synchronisation", load=9_000_000).run(Gpu(is_pinned=True))
    writers.write_nsys(tmp_path / "run.sqlite", [run.timeline])
    opened(tmp_path / "run.sqlite", db=tmp_path / "run.duckdb").close()
    count = "select count(*) from _blamed_gap where rule = ?"
    with opened(tmp_path / "run.duckdb") as database:
        assert database.rows(count, what) > [(0,)]
    with duckdb.connect(str(tmp_path / "run.duckdb")) as connection:
        connection.execute("update thread set process_id = 77")
    with opened(tmp_path / "run.duckdb") as database:
        assert database.rows(count, what) == [(0,)]
        check(database)
