"""Databases and run directories of earlier versions are read step by step; those of later ones say what to do."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import opened, quick
from earlier import of_version
from lorabench import rundir
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.store.checks import definitions
from lorabench.analyze.store.settings import Settings
from lorabench.analyze.store.upgrades import DEFINED_SINCE, SCHEMA_VERSION
from lorabench.errors import InputError, UsageError
from simulated_ranks import Job, simulate

VIEWS = ("range_summary", "memory_peak", "finding", "idle_gap", "kernel_class", "steady_state", "what_if")


@pytest.mark.parametrize("version", quick(2, [6, SCHEMA_VERSION, 7, 8, 9, 10, 11, 12, 13]))
@pytest.mark.slow
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


@pytest.mark.parametrize(
    ("version", "said"),
    [(6, ["operating system", "collectives"]), (9, ["operating system", "collectives"]), (10, ["operating system"])],
)
@pytest.mark.slow
def test_what_an_earlier_version_did_not_read_is_said(
    version: int, said: list[str], synthetic_trace: Callable[..., Path], tmp_path: Path
) -> None:
    """Of two ranks, whose collectives are matched when they are read; else their views would be empty in silence."""
    simulate(Job(ranks=2, ranks_per_host=2, steps=3)).write(tmp_path / "ranks")
    analyze([tmp_path / "ranks", synthetic_trace("nsys")], tmp_path / "new.duckdb").close()
    with opened(of_version(version, tmp_path / "new.duckdb", tmp_path / "old.duckdb")) as database:
        found = database.rows("select distinct item, value, note from trace_info where section = 'lost' order by item")
        assert len(found) == len(said) and all(word in item for word, (item, _, _) in zip(said, found, strict=True))
        assert all("analyze its inputs again" in note for _, _, note in found)
        if version < DEFINED_SINCE:
            with pytest.raises(UsageError, match=f"schema {version}"):
                definitions(database)
        else:
            assert not any(count for count, _ in definitions(database).values())


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
