"""The legacy form equals what mLoRA's report script does: every launch in every range around its start, by loops."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from conftest import corpus_params
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.store.database import Database
from lorabench.reports.tables import files


def rows_by_loops(trace: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(f"file:{trace}?mode=ro&immutable=1", uri=True)) as file:
        ranges = file.execute(
            "select coalesce(s.value, n.text), n.start, n.end "
            "from NVTX_EVENTS n left join StringIds s on s.id = n.textId "
            "where eventType in (59, 60, 70, 71) order by n.rowid"
        ).fetchall()
        launches = file.execute(
            "select r.start, r.end, k.start, k.end "
            "from CUPTI_ACTIVITY_KIND_KERNEL k join CUPTI_ACTIVITY_KIND_RUNTIME r "
            "on k.correlationId = r.correlationId and k.globalPid = r.globalTid & ~16777215"
        ).fetchall()
    sums: dict[str, list[int]] = {}
    for text, start, end in ranges:
        row = sums.setdefault(text, [0, 0, 0, 0, 0])
        row[0] += end - start
        row[4] += 1
        for call_start, call_end, kernel_start, kernel_end in launches:
            if start <= call_start <= end:
                row[1] += call_end - call_start
                row[2] += max(0, kernel_start - call_end)
                row[3] += kernel_end - kernel_start
    return [(text, *row) for text, row in sums.items() if row[0]]


@pytest.mark.parametrize("trace", corpus_params("nsys/llm-attention*.sqlite"))
def test_the_six_columns_equal_the_script(trace: Path, database_of: Callable[[Path], Database]) -> None:
    _compare(trace, database_of(trace))


def test_the_six_columns_equal_the_script_on_a_synthetic_run(
    synthetic_trace: Callable[..., Path], database_of: Callable[[Path], Database]
) -> None:
    trace = synthetic_trace("nsys", steps=2, layers=2, adapters=2)
    _compare(trace, database_of(trace))


def _compare(trace: Path, database: Database) -> None:
    found = database.rows(
        "select name, total_range_ns, api_ns, queue_ns, kernel_ns, range_cnt from _mlora_range_summary"
    )
    assert found == rows_by_loops(trace)


def test_the_file_has_no_header_and_six_columns(synthetic_trace: Callable[..., Path], tmp_path: Path) -> None:
    trace = synthetic_trace("nsys", steps=2, layers=2, adapters=2)
    with analyze([trace], tmp_path / "x.duckdb", writes_into=tmp_path) as database:
        files.write(database, "range_summary", tmp_path / "report.csv", "mlora")
        lines = (tmp_path / "report.csv").read_text().splitlines()
        assert len(lines) == len(database.rows("from _mlora_range_summary"))
    assert all(cell.isdigit() for cell in lines[0].rsplit(",", 5)[1:])
