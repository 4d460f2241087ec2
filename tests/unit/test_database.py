"""How much memory a database takes from its machine, and that it computes nothing twice."""

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from caches import cache_in
from conftest import ROOT
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.store import opening
from lorabench.analyze.store.database import Database
from lorabench.errors import OutputError, UsageError

WANTS_MEMORY = "select median(n) as middle from range(3_000_000) as numbers(n)"  # a median does not spill


def test_a_statement_that_needs_more_memory_than_usual_gets_it(
    synthetic_trace: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "QUERY_MEMORY", "16MB")
    with analyze([synthetic_trace("nsys")], tmp_path / "x.duckdb", writes_into=tmp_path) as database:
        database.copy(WANTS_MEMORY, tmp_path / "x.csv", "format csv")
        assert database.query(WANTS_MEMORY)["middle"].item() == 1_499_999.5
    assert "1499999.5" in (tmp_path / "x.csv").read_text()


def test_a_limit_that_somebody_asked_for_holds(
    synthetic_trace: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "QUERY_MEMORY", "16MB")
    monkeypatch.setattr(opening, "QUERY_MEMORY_ASKED", "16MB")
    with analyze([synthetic_trace("nsys")], tmp_path / "x.duckdb", writes_into=tmp_path) as database:
        with pytest.raises(UsageError, match="Out of Memory"):
            database.query(WANTS_MEMORY)
        with pytest.raises(OutputError, match="LORABENCH_QUERY_MEMORY"):
            database.copy(WANTS_MEMORY, tmp_path / "x.csv", "format csv")
    assert sorted(tmp_path.iterdir()) == [tmp_path / "x.duckdb"]


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("LORABENCH_QUERY_MEMORY", "much", "LORABENCH_QUERY_MEMORY=much: write a size, like 4GB"),
        ("LORABENCH_INGEST_MEMORY", "5", "LORABENCH_INGEST_MEMORY=5: write a size, like 2GB"),
        ("LORABENCH_THREADS", "0", "LORABENCH_THREADS=0: write how many, like 4"),
        ("LORABENCH_THREADS", "2", None),
    ],
)
@pytest.mark.first(1)
def test_a_variable_that_cannot_be_is_one_line(variable: str, value: str, says: str | None, tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "lorabench",
        "query",
        str(ROOT / "fixtures" / "lora-run.json.gz"),
        "select current_setting('threads') as n",
    ]
    done = subprocess.run(
        words,
        env=os.environ | {variable: value, "XDG_CACHE_HOME": cache_in(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    if says is None:
        assert done.stdout.split() == ["n", value]
    else:
        assert (done.returncode, done.stderr) == (2, f"lorabench: {says}\n")


@pytest.mark.own_cache
@pytest.mark.parametrize("asked", ["summary", "query", "compare"])
@pytest.mark.first(1)
def test_nothing_is_computed_twice_for_an_answer(
    asked: str, synthetic_trace: Callable[..., Path], run_command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Each view that others read becomes rows once; from then on nobody looks behind them.

    But for _call_wait: it has a row for each call that waits, which takes more memory to keep than time to compute.
    """
    made: list[str] = []
    rows, rows_of = Database.rows, Database.rows_of

    def counting(self: Database, statement: str, *parameters: object) -> Any:
        made.extend(re.findall(r'^create temp table "(\w+)"', statement))
        return rows(self, statement, *parameters)

    monkeypatch.setattr(Database, "rows", counting)
    monkeypatch.setattr(Database, "rows_of", lambda self, view: (made.append(view), rows_of(self, view))[1])
    of_rules = Database.rows_of_rules
    monkeypatch.setattr(Database, "rows_of_rules", lambda self, view: (made.append(view), of_rules(self, view))[1])
    trace = synthetic_trace("nsys", steps=5)
    run_command("analyze", trace, "--quiet")
    made.clear()
    words = {"summary": (trace,), "query": (trace, "finding"), "compare": (trace, synthetic_trace("nsys", steps=6))}
    run_command(asked, *words[asked])
    inputs = 2 if asked == "compare" else 1
    assert len(made) > 5
    assert [name for name, times in Counter(made).items() if times > inputs and name != "_call_wait"] == []
