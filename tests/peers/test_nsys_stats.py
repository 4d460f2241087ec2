"""Every number of NVIDIA's reports equals ours, or is a documented difference."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import capture
import pytest
from conftest import corpus_files, corpus_params
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.store.database import Database
from lorabench.errors import ToolError
from peers.nsys_reports import QUERIES, differences, of_lorabench, of_nsys

# nsys joins kernels with API rows without asking whether a row is the second copy that --cudabacktrace wrote, so its
# numbers for these files count each such call, and each kernel launched by one, twice. test_second_copies shows that
# nothing else differs.
TWICE = {"duplicate-api-rows": {"cudaapisum", "kernexecsum", "nvtxkernsum"}}


_SLOW = {("fsdp-2gpu-emit_nvtx", "nvtxgpuproj")}  # nsys alone takes 20 s
_PAIRS = [
    pytest.param(
        *trace.values, report, id=f"{trace.id}-{report}",
        marks=[*trace.marks, *([pytest.mark.long] if (trace.id, report) in _SLOW else [])],
    )
    for trace in corpus_params("nsys/*.sqlite")
    for report in QUERIES
    if report not in TWICE.get(str(trace.id), ())
]  # fmt: skip


@pytest.mark.parametrize(("trace", "report"), _PAIRS)
@pytest.mark.first(17)
def test_numbers_equal_nsys_stats(trace: Path, report: str, nsys: str, database_of: Callable[[Path], Database]) -> None:
    _compare(report, trace, trace, nsys, database_of)


def _compare(
    report: str, theirs_from: Path, ours_from: Path, nsys: str, database_of: Callable[[Path], Database]
) -> None:
    theirs, ours = of_nsys(nsys, report, theirs_from), of_lorabench(report, database_of(ours_from))
    if not theirs:
        ours = {}  # nsys prints nothing when a table is missing, for example kernels without any range
    assert set(theirs) == set(ours)
    different = {key: found for key in theirs if (found := differences(report, theirs[key], ours[key]))}
    assert _unexplained(report, theirs_from, different) == {}


def _unexplained(
    report: str, trace: Path, different: dict[tuple[str, ...], list[str]]
) -> dict[tuple[str, ...], list[str]]:
    """What is left after the documented differences."""
    if report == "nvtxgpuproj" and trace.name.startswith("fsdp-2gpu"):  # see test_levels_of_the_projection_…
        different = {key: [d for d in found if not d.startswith("Lvl")] for key, found in different.items()}
    return {key: found for key, found in different.items() if found}


@pytest.mark.long
def test_levels_of_the_projection_are_right_where_nsys_has_others(
    nsys: str, database_of: Callable[[Path], Database]
) -> None:
    """nsys 2022.4 finds parents in an R-tree of 32-bit floats and misses some: ours must be what a stack says."""
    for trace in corpus_files("nsys/fsdp-2gpu*.sqlite"):
        theirs = of_nsys(nsys, "nvtxgpuproj", trace)
        ours = of_lorabench("nvtxgpuproj", database_of(trace))
        by_stack = _levels_by_stack(trace)
        wrong = [key for key in theirs if int(str(theirs[key]["Lvl"])) != ours[key]["Lvl"]]
        assert len(wrong) == 215
        assert all(ours[key]["Lvl"] == by_stack[key[2], key[4]] for key in ours)


def _levels_by_stack(trace: Path) -> dict[tuple[str, str], int]:
    """Nesting level by (process, start) of balanced ranges, from the file alone."""
    with closing(sqlite3.connect(f"file:{trace}?mode=ro&immutable=1", uri=True)) as file:
        rows = file.execute("select globalTid, start, end from NVTX_EVENTS order by globalTid, start, end desc")
        levels, stack = {}, [(0, 0, 0)]
        for thread, start, end in rows:
            while stack and (stack[-1][0] != thread or stack[-1][2] < end):
                stack.pop()
            levels[str(thread >> 24 & 0xFFFFFF), str(start)] = len(stack)
            stack.append((thread, start, end))
    return levels


@pytest.mark.parametrize("report", QUERIES)
def test_second_copies_are_all_that_differs(
    report: str, nsys: str, database_of: Callable[[Path], Database], tmp_path: Path
) -> None:
    """Without the rows that --cudabacktrace added, nsys prints what we print for the whole file."""
    for trace in corpus_files("nsys/duplicate-api-rows*.sqlite"):
        once = tmp_path / "once.sqlite"
        once.write_bytes(trace.read_bytes())
        with closing(sqlite3.connect(once)) as file, file:
            file.execute(
                """delete from CUPTI_ACTIVITY_KIND_RUNTIME as copy where eventClass = 67 and exists (
                select 1 from CUPTI_ACTIVITY_KIND_RUNTIME as call where call.eventClass <> 67
                and call.correlationId = copy.correlationId and call.globalTid = copy.globalTid
                and copy.start <= call.start and call.end <= copy.end)"""
            )
        _compare(report, once, trace, nsys, database_of)


@pytest.mark.parametrize("report", QUERIES)
@pytest.mark.parametrize("operators", [True, False], ids=["emit_nvtx", "annotations"])
@pytest.mark.first(2)
def test_numbers_equal_nsys_stats_on_a_synthetic_run(
    report: str,
    operators: bool,
    nsys: str,
    database_of: Callable[[Path], Database],
    synthetic_trace: Callable[..., Path],
) -> None:
    trace = synthetic_trace("nsys", steps=3, layers=2, adapters=3, operators=operators)
    _compare(report, trace, trace, nsys, database_of)


def test_ranges_captured_by_a_real_nsys_equal_its_own_report(
    nsys: str, captured_trace: Path, database_of: Callable[[Path], Database]
) -> None:
    assert len(of_lorabench("nvtxsum", database_of(captured_trace))) >= 4
    _compare("nvtxsum", captured_trace, captured_trace, nsys, database_of)


def test_a_report_is_exported_by_the_installed_nsys(nsys: str, tmp_path: Path) -> None:
    report = capture.record(tmp_path)
    report.with_suffix(".sqlite").unlink()
    before = report.read_bytes()
    with analyze([report], tmp_path / "x.duckdb") as database:
        assert database.rows("select range_cnt from range_summary where path = 'lorabench-test:step'") == [(4,)]
        assert database.rows("select path from range_summary where name = 'lorabench-test:layer'") == [
            ("lorabench-test:step/lorabench-test:forward/lorabench-test:layer",)
        ]
    assert report.read_bytes() == before
    assert not list(tmp_path.glob("*.sqlite")), "the export was left beside the report"


def test_a_report_without_nsys_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run.nsys-rep").write_bytes(b"\x00nsys")
    monkeypatch.setenv("LORABENCH_NSYS", "")
    with pytest.raises(ToolError, match=r"nsys export --type sqlite run\.nsys-rep"):
        analyze([tmp_path / "run.nsys-rep"], tmp_path / "x.duckdb")


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("run.nsys-rep", b"NVIDIA Tegra Profiler Report 2099@4@1@54-0v0."),
        ("renamed", b"NVIDIA Tegra Profiler Report 2099@4@1@54-0v0."),
        ("run.qdstrm", b"U3w[END]NVIDIA Nsight Systems Stream 2099.4.1.54-0v0"),
    ],
)
def test_a_report_of_a_newer_nsys_says_so(nsys: str, name: str, title: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(title + b"\n" * 200)
    with pytest.raises(ToolError, match=rf"{name} was made by nsys 2099.4.1, the one here is 20[0-9.]+; export it"):
        analyze([tmp_path / name], tmp_path / "x.duckdb")


def test_a_damaged_report_gives_the_words_of_nsys(nsys: str, tmp_path: Path) -> None:
    (tmp_path / "run.nsys-rep").write_bytes(b"\x00nsys")
    said = r"cannot be exported: nsys .*; it is damaged, or newer than .* export it where it was made \(nsys export"
    with pytest.raises(ToolError, match=said):
        analyze([tmp_path / "run.nsys-rep"], tmp_path / "x.duckdb")
    assert [p.name for p in tmp_path.iterdir()] == ["run.nsys-rep"]
