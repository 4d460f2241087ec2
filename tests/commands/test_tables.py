"""Tables for people: units, widths, which columns and rows, and why there are none."""

import csv
import fcntl
import io
import json
import os
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars
import pytest
from conftest import ROOT, corpus_params, quick
from hypothesis import given
from hypothesis import strategies as st
from lorabench import sql
from lorabench.analyze.pipeline import analyze
from lorabench.errors import UsageError
from lorabench.reports.tables import column_order, units, why_empty
from lorabench.reports.tables.narrowing import Narrowing
from lorabench.reports.terminal import table
from simulated_ranks import Job, simulate

_RATE = re.compile(r"\b(a|per) second\b|^[\w ]+ / (time|transfer)")


@pytest.fixture
def trace(synthetic_trace: Callable[..., Path]) -> Path:
    return synthetic_trace("nsys")


def on_terminal(width: int, *words: Any) -> list[str]:
    """The lines that a command prints on a terminal of this width, without what a terminal obeys."""
    reader, writer = os.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    command = [sys.executable, "-m", "lorabench", *map(str, words)]
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    shown = b""
    with os.fdopen(reader, "rb", buffering=0) as screen:
        with (
            os.fdopen(writer, "wb") as end,
            subprocess.Popen(
                command, stdout=end, stderr=subprocess.DEVNULL, env=environment | {"TERM": "dumb"}
            ) as process,
        ):
            end.close()
            while True:
                try:
                    piece = screen.read(1 << 16)
                except OSError:  # the other end is closed
                    break
                if not piece:
                    break
                shown += piece
        assert process.returncode == 0
    return shown.decode().replace("\r\n", "\n").splitlines()


def test_nanoseconds_bytes_and_fractions_have_a_unit_in_the_title() -> None:
    assert units.of_values("wall_ns", [1_500_000, 20, None, 0]) == units.Column(
        "wall ms", ["1.500", "0.000", "", "0"], True
    )
    assert units.of_values("mean_ns", [1500.0]).cells == ["1.500"] and units.of_values("x_ns", [999]).title == "x us"
    assert units.of_values("wall_ns", [250e9]).title == "wall s"
    moment = units.of_values("mtime_ns", [1_700_000_000_123_456_789, None, 10**30])
    assert moment.title == "mtime UTC"
    assert moment.cells[:2] == ["2023-11-14 22:13:20", ""]
    assert moment.cells[2].startswith("1,")
    fine = units.of_values("start_ns", [1_700_000_000_123_456_789, 1_700_000_000_130_000_000, None])
    assert fine.cells == ["2023-11-14 22:13:20.123456", "2023-11-14 22:13:20.130000", ""]
    assert units.of_values("wall_ns", [10**18 - 1]).title == "wall s"
    assert units.of_values("bytes", [3 << 20]) == units.Column("MiB", ["3.000"], True)
    assert units.of_values("size_bytes", [512, None]) == units.Column("size B", ["512", ""], True)
    assert units.of_values("idle_frac", [0.1234, 1.0]) == units.Column("idle %", ["12.3", "100.0"], True)
    assert units.of_values("kernel_cnt", [12345]) == units.Column("kernel_cnt", ["12,345"], True)
    assert units.of_values("kernel_ns", ["no number"]) == units.Column("kernel_ns", ["no number"])


@given(st.floats(1e-3, 1e15), st.integers(1, 6))
def test_a_number_in_a_sentence_has_its_digits_and_no_exponent(value: float, digits: int) -> None:
    said = units.significant(value, digits)
    assert "e" not in said
    assert abs(float(said.replace(",", "")) - value) <= max(value * 0.5 * 10 ** (1 - digits), 1e-9) * 1.000001


@given(st.integers(0, 1 << 50))
def test_bytes_in_a_sentence_are_in_the_largest_unit_of_which_there_is_one(count: int) -> None:
    number, unit = units.said_bytes(count).split()
    size = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]
    assert abs(float(number.replace(",", "")) * size - count) <= 0.005 * count
    assert count >= size or unit == "B"
    assert count < 1024 * size or unit == "GiB"


def test_a_path_loses_its_begin_and_another_text_its_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "width", lambda: 40)
    show = [{"path": "step/" * 20 + "q_proj", "text": "begin" + "." * 90, "wall_ns": 10**6}]
    table.show(show, ["path", "text", "wall_ns"], "--csv")
    said = capsys.readouterr()
    assert said.out.splitlines()[1].startswith("…") and said.out.splitlines()[1].endswith("/q_proj")
    assert "2 more columns (text, wall_ns): --csv" in said.err
    table.show(show, ["text", "wall_ns"], "--csv")
    line = capsys.readouterr().out.splitlines()[1]
    assert line.startswith("begin.") and line.endswith("…    1.000") and len(line) == 40


def test_wide_characters_and_markup_keep_their_places(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "width", lambda: 30)
    table.show([{"name": "[b]核心" * 9, "n": 1}, {"name": "x", "n": 2}], ["name", "n"], "--csv")
    first, second = capsys.readouterr().out.splitlines()[1:]
    assert table.cell_len(first) == table.cell_len(second) == 30 and first.startswith("[b]核心")


@pytest.mark.parametrize("width", quick(1, [80, 60, 132]))
@pytest.mark.parametrize("view", ["range_summary", "finding", "launch_trace", "trace_info", "kernel_summary"])
@pytest.mark.first(3)
@pytest.mark.slow
def test_no_line_is_longer_than_the_terminal(trace: Path, view: str, width: int) -> None:
    lines = on_terminal(width, "analyze", trace, "--report", view)
    assert len(lines) > 1 and max(map(table.cell_len, lines)) <= width


def test_a_query_of_a_view_is_narrowed_as_a_report_is(trace: Path, run_command: Callable[..., Any]) -> None:
    for options, where in (
        (("--step", 1), "step = 1"),
        (("--device", 0), "device_id = 0"),
        (
            ("--range", "forward$", "--sort", "wall_ns", "--limit", 2),
            "regexp_matches(path, 'forward$') order by wall_ns desc limit 2",
        ),
    ):
        view = {"--step": "step_summary", "--device": "idle_gap", "--range": "range_instance"}[str(options[0])]
        asked = run_command("query", trace, view, *options, "--csv").out
        assert asked == run_command("query", trace, f"select * from {view} where {where}", "--csv").out
        assert asked.count("\n") > 1
    assert "kernel_summary has no column step" in run_command("query", trace, "kernel_summary", "--step", 1, code=2).err
    said = run_command("query", trace, "select * from step_summary", "--step", 1, code=2).err
    assert "--step 1 chooses rows of a view; in a statement write `where" in said
    assert "no row" in run_command("query", trace, "step_summary", "--step", 99).err


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ranks of which one loads a batch late, in a database."""
    place = tmp_path_factory.mktemp("ranks")
    simulate(Job(ranks=4, steps=3, idle={(1, 2): 9_000_000})).write(place / "job")
    with analyze([place / "job"], place / "job.duckdb"):
        return place / "job.duckdb"


@pytest.mark.parametrize(
    ("view", "answers"),
    quick(
        3,
        [
            ("straggler", "step rank kept_waiting late cause"),
            ("collective_summary", "operation group_name busbw work wait"),
            ("rank_summary", "rank step compute idle straggler_cnt kept_waiting"),
            ("collective_skew", "step rank late wait skew error"),
            ("collective_match", "step operation skew last_rank transfer busbw"),
            ("exposed_communication", "rank group_name communication exposed_communication exposed"),
            ("kernel_over_ranks", "short_name kernel mean slowest_rank"),
            ("without_stragglers", "step rank measured without"),
        ],
    ),
)
@pytest.mark.first(1)
@pytest.mark.slow
def test_of_ranks_a_narrow_terminal_has_what_answers(view: str, answers: str, job: Path) -> None:
    header = on_terminal(80, "query", job, view)[0].split()
    assert set(answers.split()) <= set(header) and header[0] in ("rank", "operation", "short_name")


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("bandwidth_bytes", "bandwidth GB/s"),
        ("max_bandwidth_bytes", "max_bandwidth GB/s"),
        ("busbw_bytes_s", "busbw GB/s"),
        ("bytes_s", "GB/s"),
        ("flop_s", "Gflop/s"),
        ("moved_bytes", "moved MiB"),
        ("token_per_s", "token_per_s"),
    ],
)
def test_what_is_so_much_a_second_says_so(name: str, title: str) -> None:
    assert units.of_values(name, [2_000_000_000]).title.replace("GiB", "MiB") == title


def test_every_column_that_is_so_much_a_second_says_so() -> None:
    columns = {column.name for view in sql.public() for column in view.columns if _RATE.search(column.doc)}
    assert {"bandwidth_bytes", "algbw_bytes_s", "flop_s", "token_per_s"} <= columns
    assert [name for name in columns if not units.of_values(name, [1.0]).title.endswith(("/s", "per_s"))] == []


def test_a_report_shows_the_columns_that_answer(trace: Path) -> None:
    header = on_terminal(80, "analyze", trace, "--report", "range_summary", "--limit", 3)[0]
    assert header.split()[:2] == ["path", "range_cnt"] and "wall us" in header and "kernel us" in header


@pytest.mark.parametrize("path", quick(2, corpus_params("nsys/*.sqlite")[:5]))
@pytest.mark.first(1)
@pytest.mark.slow
def test_real_profiles_fit_a_terminal(path: Path, run_command: Callable[..., Any]) -> None:
    for words in (("validate", path), ("query", path, "from range_summary"), ("query", path, "from finding")):
        assert max(map(table.cell_len, run_command(*words).out.splitlines()), default=0) <= 120


def test_advice_stands_below_its_row(run_command: Callable[..., Any], trace: Path) -> None:
    lines = run_command("query", trace, "from finding").out.splitlines()
    assert "advice" not in lines[0] and max(map(len, lines)) <= 120
    assert lines[2].startswith("    ") and lines[3].startswith("    ")


def test_columns_order_and_number_of_rows_can_be_chosen(run_command: Callable[..., Any], trace: Path) -> None:
    words = ("--report", "kernel_summary", "--columns", "kernel_name,max_ns", "--sort", "max", "--limit", "2", "--csv")
    rows = list(csv.DictReader(io.StringIO(run_command("analyze", trace, *words).out)))
    every = json.loads(run_command("query", trace, "from kernel_summary", "--json").out)
    wanted = sorted((row["max_ns"] for row in every), reverse=True)[:2]
    assert [list(row) for row in rows] == [["kernel_name", "max_ns"]] * 2
    assert [int(row["max_ns"]) for row in rows] == wanted
    asked = run_command("query", trace, "from kernel_summary", *words[2:6], "--limit", "2", "--json").out
    assert [row["max_ns"] for row in json.loads(asked)] == wanted
    least = run_command("query", trace, "from kernel_summary", "--sort", "+max_ns", "--limit", "1", "--json").out
    assert json.loads(least)[0]["max_ns"] == min(row["max_ns"] for row in every)


@pytest.mark.parametrize("words", [("query", "from kernel_summary"), ("analyze", "--report", "kernel_summary")])
def test_a_column_is_wanted_once(words: tuple[str, ...], run_command: Callable[..., Any], trace: Path) -> None:
    asked = (words[0], trace, *words[1:], "--columns", "kernel_name,max,max_ns")
    assert "--columns names max_ns twice" in run_command(*asked, code=2).err


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_files_have_all_columns_of_the_rows_that_are_wanted(
    run_command: Callable[..., Any], trace: Path, tmp_path: Path, suffix: str
) -> None:
    out = tmp_path / f"x.{suffix}"
    run_command("analyze", trace, "--report", "range_summary", "--range", "forward$", "-o", out)
    frame = {"csv": polars.read_csv, "json": polars.read_json, "parquet": polars.read_parquet}[suffix](out)
    assert frame["path"].to_list() == ["step/forward"] and len(frame.columns) > 30


@pytest.mark.slow
def test_in_a_folder_a_row_for_each_of_many_events_is_parquet(
    run_command: Callable[..., Any], trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lorabench.reports.tables.files.MOST_CSV_ROWS", 20)
    said = run_command("analyze", trace, "-o", tmp_path / "views", "--quiet").err
    large = {path.stem for path in (tmp_path / "views").glob("*.parquet")}
    assert {"launch_trace", "range_instance"} <= large and "range_summary" not in large
    assert said == f"{', '.join(sorted(large))}: over 20 rows, so as Parquet; --format csv writes text\n"
    run_command("analyze", trace, "-o", tmp_path / "text", "--format", "csv")
    assert not [path for path in (tmp_path / "text").iterdir() if path.suffix != ".csv"]
    rows = polars.read_csv(tmp_path / "text" / "launch_trace.csv")["kernel_start_time"].to_list()
    assert polars.read_parquet(tmp_path / "views" / "launch_trace.parquet")["kernel_start_time"].to_list() == rows


def test_filters_keep_rows_of_a_step_rank_and_device(run_command: Callable[..., Any], trace: Path) -> None:
    def steps(*words: str) -> set[str]:
        said = run_command("analyze", trace, "--report", "critical_path", *words, "--csv").out
        return {row["step"] for row in csv.DictReader(io.StringIO(said))}

    assert steps() == {"0", "1"} and steps("--step", "1") == {"1"}
    devices = run_command("analyze", trace, "--report", "idle_summary", "--device", "0", "--csv").out
    assert len(devices.splitlines()) > 1
    none = run_command("analyze", trace, "--report", "idle_summary", "--device", "7", "--csv")
    assert "no row of idle_summary matches --device 7" in none.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["--report", "kernel_summary", "--step", "1"],
            "kernel_summary has no column step; views that have: collective_match, ",
        ),
        (["--report", "kernel_summary", "--columns", "weight"], "kernel_summary has the columns kernel_name, "),
        (["--report", "kernel_summary", "--sort", "weight"], "kernel_summary has the columns kernel_name, "),
        (["--range", "("], "not a regular expression"),
        (["--limit", "2", "-o", "all/"], "go with one report"),
        (["--format", "csv", "--json"], "choose one of --format csv and --json"),
    ],
)
def test_what_a_report_lacks_is_refused(
    run_command: Callable[..., Any], trace: Path, words: list[str], says: str
) -> None:
    assert says in run_command("analyze", trace, *words, code=2).err


def test_a_device_may_be_a_name() -> None:
    (view,) = (view for view in sql.public() if view.name == "memory_peak")
    assert "(^|[^0-9])1$" in Narrowing(device=1).statement(view)
    with pytest.raises(UsageError, match="no column step"):
        Narrowing(step=1).statement(view)


def test_an_empty_report_says_why(run_command: Callable[..., Any], trace: Path) -> None:
    for view, why in (
        ("launch_cost", "several runs of `lorabench collect`"),
        ("memory_peak", "no allocator events were recorded"),
        ("out_of_memory", "no allocation failed"),
    ):
        assert why in run_command("analyze", trace, "--report", view).err
        said = run_command("query", trace, f"from {view}")
        assert why in said.err and said.out == ""
    assert run_command("query", trace, "select 1 where false").err.strip() == "no rows"


def test_reasons_and_first_columns_name_views_that_exist() -> None:
    views = {view.name: {column.name for column in view.columns} for view in sql.public()}
    assert set(why_empty._OTHERWISE) | {v for made in why_empty._MADE_OF.values() for v in made} <= set(views)
    assert all(set(columns) <= views[view] for view, columns in column_order._FIRST.items())
    assert set(why_empty._MADE_OF) == set(why_empty._NEEDS)


@pytest.mark.slow
def test_commands_that_print_rows_have_csv_and_json(run_command: Callable[..., Any], trace: Path) -> None:
    for words in (("doctor",), ("query", trace, "from kernel_summary"), ("cache",)):
        rows = json.loads(run_command(*words, "--json").out)
        table = list(csv.DictReader(io.StringIO(run_command(*words, "--csv").out)))
        assert len(rows) == len(table) > 0 and list(rows[0]) == list(table[0])


def test_paths_that_would_be_cut_to_the_same_keep_what_tells_them_apart() -> None:
    paths = [f"step/forward (encoder.block.{n}.layer)/aten::to/aten::_to_copy/aten::copy_" for n in range(12)]
    column = units.Column("path", [*paths, "step/other/aten::copy_"], False, is_path=True)
    for size in range(30, 75):
        cut = table._cut(column, size)
        assert len(set(cut)) == 13 and max(map(len, cut)) <= size
        assert all(cell.endswith("/aten::copy_") for cell in cut)


def test_what_the_row_above_says_is_not_said_again(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"place": place, "evidence": f"at {place}", "advice": "Load ahead."} for place in ("a", "b")]
    table.show(rows, ["place", "evidence", "advice"])
    assert [line.strip() for line in capsys.readouterr().out.splitlines()] == [
        "place", "a", "at a", "Load ahead.", "b", "at b"
    ]  # fmt: skip


@pytest.mark.parametrize("command", [("query", "{}", "kernel_summary"), ("what-if", "{}"), ("validate", "{}")])
@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
@pytest.mark.first(2)
def test_what_is_printed_as_rows_can_be_written_to_a_file(
    command: tuple[str, ...], suffix: str, tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    said = [part.format(ROOT / "fixtures" / "lora-run.sqlite") for part in command]
    printed = json.loads(run_command(*said, "--json").out)
    file = tmp_path / f"rows.{suffix}"
    assert run_command(*said, "-o", file, "--quiet").out == f"wrote {file}\n"
    read = {"csv": polars.read_csv, "json": polars.read_json, "parquet": polars.read_parquet}[suffix]
    assert len(printed) == len(read(file)) and (not printed or list(printed[0]) == read(file).columns)


@pytest.mark.parametrize(
    ("more", "message"),
    [(("-o", "x.txt"), "write to a .csv, .json or .parquet file"), (("-o", "x.csv", "--json"), "choose one of -o"),
     (("-o", "-"), "without -o"), (("--step", "1"), "views that have: ")],
)  # fmt: skip
def test_where_rows_cannot_go_is_said(more: tuple[str, ...], message: str, run_command: Callable[..., Any]) -> None:
    ended = run_command("query", ROOT / "fixtures" / "lora-run.sqlite", "kernel_summary", *more, code=2)
    assert message in ended.err


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["query", "T", "range_summary"], "rows.csv"),
        (["query", "T", "range_summary"], "rows.parquet"),
        (["analyze", "T"], "report.csv"),
        (["analyze", "T"], "report.json"),
        (["report", "T"], "page.html"),
        (["compare", "T", "T", "--by", "kernel"], "rows.json"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
@pytest.mark.parametrize("is_there", [True, False], ids=["replaced", "new"])
@pytest.mark.first(2)
def test_behind_a_link_the_file_is_written_that_it_leads_to(
    words: list[str],
    name: str,
    is_there: bool,
    synthetic_trace: Callable[..., Path],
    tmp_path: Path,
    run_command: Callable[..., Any],
) -> None:
    target = tmp_path / "kept" / name
    target.parent.mkdir()
    if is_there:
        target.write_text("before")
    (tmp_path / name).symlink_to(target)
    trace = synthetic_trace("nsys")
    run_command(*(trace if word == "T" else word for word in words), "-o", tmp_path / name)
    assert (tmp_path / name).is_symlink() and target.stat().st_size > 100
    assert [path.name for path in target.parent.iterdir()] == [name]
