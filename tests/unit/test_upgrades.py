"""Databases and run directories of earlier versions are read step by step; those of later ones say what to do."""

import json
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from conftest import opened, quick
from lorabench import rundir
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.store.settings import Settings
from lorabench.analyze.store.upgrades import SCHEMA_VERSION
from lorabench.errors import InputError

# What makes a database of this version one of an earlier one.
NEW_OF_COLLECTIVES = (
    *(
        "collective_id",
        "process_id",
        "found_by",
        "operation",
        "in_bytes",
        "out_bytes",
        "group_name",
        "group_description",
    ),
    *(
        "group_ranks",
        "comms_id",
        "seq",
        "src_rank",
        "dst_rank",
        "device_id",
        "stream_id",
        "work_start_ns",
        "work_end_ns",
    ),
    "work_cnt",
)
BACKWARDS = {
    12: ["drop table os_call"],
    11: ["drop table waiting_call"],
    10: ["alter table run_step drop column real_token_cnt"],
    9: ["drop table matched_collective", "drop table clock", "alter table source drop column host",
        *(f"alter table collective drop column {name}" for name in NEW_OF_COLLECTIVES)],
    8: [f"drop table {name}" for name in ("found_step", "replayed_step", "predicted_change", "followed_rule")],
    7: ["drop table reach"],
    6: ["drop table memory_category", "alter table memory_event drop column requested_bytes",
        "alter table set_work drop column rule_cnt", "alter table source drop column is_timed"],
}  # fmt: skip


def of_version(version: int, made: Path, path: Path) -> Path:
    """A copy of a database's tables as an earlier version had them."""
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"attach '{made}' as new (read_only)")
        names = connection.execute("select table_name from duckdb_tables() where database_name = 'new'").fetchall()
        for (name,) in names:
            connection.execute(f'create table "{name}" as from new.main."{name}"')
        for step in range(SCHEMA_VERSION - 1, version - 1, -1):
            for statement in BACKWARDS.get(step, []):
                connection.execute(statement)
        # thresholds, rules and devices that came later are not in it
        connection.execute("delete from threshold where name not in ('long_gap_ns', 'kernel_wait_ns')")
        connection.execute("update threshold set value = 1000.0 where name = 'kernel_wait_ns'")  # the default then
        connection.execute("delete from kernel_class_rule where priority > 300")
        connection.execute("delete from device_peak")
        connection.execute(f"update lorabench set schema_version = {version}")
    return path


VIEWS = ("range_summary", "memory_peak", "finding", "idle_gap", "kernel_class", "steady_state", "what_if")


@pytest.mark.parametrize("version", quick(2, [6, SCHEMA_VERSION, 7, 8, 9, 10, 11, 12]))
def test_an_earlier_database_gives_the_same_numbers(
    version: int, synthetic_trace: Callable[..., Path], tmp_path: Path
) -> None:
    with opened(synthetic_trace("kineto"), db=tmp_path / "new.duckdb") as database:
        expected = [database.view(name).rows() for name in VIEWS]
    old = of_version(version, tmp_path / "new.duckdb", tmp_path / "old.duckdb")
    before = old.read_bytes()
    with opened(old) as database:
        assert [database.view(name).rows() for name in VIEWS] == expected
    assert old.read_bytes() == before


def test_what_was_set_stays_set(synthetic_trace: Callable[..., Path], tmp_path: Path) -> None:
    settings = Settings((("long_gap_ns", 1234.0),), (("kernel", "axpy", "mine"),))
    analyze([synthetic_trace("kineto")], tmp_path / "new.duckdb", settings=settings).close()
    with opened(of_version(12, tmp_path / "new.duckdb", tmp_path / "old.duckdb")) as database:
        assert database.rows("select value from threshold where name = 'long_gap_ns'") == [(1234.0,)]
        assert database.rows("select class from kernel_class_rule where pattern = 'axpy'") == [("mine",)]
        ((count,),) = database.rows("select count(*) from device_peak")
        assert count


@pytest.mark.parametrize(("version", "advice"), [(1, "analyze"), (SCHEMA_VERSION + 1, "update lorabench")])
def test_other_databases_say_what_to_do(
    version: int, advice: str, synthetic_trace: Callable[..., Path], tmp_path: Path
) -> None:
    opened(synthetic_trace("nsys"), db=tmp_path / "new.duckdb").close()
    with pytest.raises(InputError, match=advice):
        opened(of_version(version, tmp_path / "new.duckdb", tmp_path / "old.duckdb"))


def test_an_earlier_run_directory_is_read_through_each_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / rundir.MANIFEST).write_text(json.dumps({"format": 1, "state": "ok"}))
    monkeypatch.setattr(rundir, "FORMAT", 3)
    steps = {1: lambda old: {"status": old["state"]}, 2: lambda old: old | {"passes": {}}}
    monkeypatch.setattr(rundir, "_UPGRADES", steps)
    assert rundir.read_manifest(tmp_path) == {"format": 3, "status": "ok", "passes": {}}
    (tmp_path / rundir.MANIFEST).write_text('{"format": 4}')
    with pytest.raises(InputError, match="format 4; this lorabench reads format 3; update lorabench"):
        rundir.read_manifest(tmp_path)
