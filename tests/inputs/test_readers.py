"""A reader of another format that follows the recipe in ARCHITECTURE.md gets the numbers of those that are there."""

from pathlib import Path

import pytest
from conftest import ROOT, opened
from lorabench import sql
from lorabench.analyze import ingest
from lorabench.analyze.read.inputs import Kind

PUBLIC = [view.name for view in sql.load() if view.is_public]


@pytest.mark.parametrize("trace", ["lora-run.json.gz", "lora-run.sqlite"])
@pytest.mark.slow
def test_a_reader_of_another_format_gives_the_same_rows(
    trace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What reads the format is one of ours under the name that another one would have."""
    path = ROOT / "fixtures" / trace
    kind = Kind.KINETO if trace.endswith(".gz") else Kind.NSYS_SQLITE
    with opened(path, db=tmp_path / "ours.duckdb") as database:
        expected = {view: repr(database.rows(f"from {view}")) for view in PUBLIC}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # the functions of a shared blank database are others
    ours, read = ingest._READERS[kind]
    monkeypatch.setitem(ingest._READERS, kind, (f"other_{ours}", read))
    for macro in sql.in_folder(sql.MACROS):
        if macro.name.startswith("kind_"):
            told = macro.statement.replace(f"'{ours}'", f"'other_{ours}'")
            monkeypatch.setitem(vars(macro), "statement", told)
    with opened(path, db=tmp_path / "other.duckdb", force=True) as database:
        for view in PUBLIC:
            assert repr(database.rows(f"from {view}")).replace("other_", "") == expected[view], view
