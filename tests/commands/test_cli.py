"""The commands as their users type them."""

import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lorabench
import polars
import pytest
from caches import cache_in
from conftest import ROOT, Ended, opened, quick
from lorabench import sql
from lorabench.errors import UsageError
from lorabench.reports.terminal.table import show

RUN = ROOT / "fixtures" / "lora-run.sqlite"
PUBLIC = [view.name for view in sql.load() if view.is_public]


@pytest.fixture
def trace(synthetic_trace: Callable[..., Path], tmp_path: Path) -> Path:
    return Path(shutil.copy(synthetic_trace("nsys"), tmp_path / "run.sqlite"))


@pytest.fixture
def run(tmp_path: Path, run_command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.chdir(tmp_path)
    return run_command


@pytest.fixture
def run_process(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """As `run`, in a process of its own."""

    def call(*words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "lorabench", *map(str, words)],
            capture_output=True, text=True, check=True, cwd=tmp_path,
            env=os.environ | {"XDG_CACHE_HOME": cache_in(tmp_path)},
        )  # fmt: skip

    return call


@pytest.mark.slow
def test_a_report_is_written_and_named_last(trace: Path, run_process: Callable, tmp_path: Path) -> None:
    assert run_process("analyze", trace, "-o", "report.csv").stdout == "wrote report.csv\n"
    assert {p.name for p in tmp_path.iterdir()} == {"cache", "report.csv", trace.name}
    with (tmp_path / "report.csv").open() as file:
        rows = list(csv.DictReader(file))
    with opened(trace, db=tmp_path / "x.duckdb") as database:
        frame = database.view("range_summary")
    assert [r["path"] for r in rows] == frame["path"].to_list()
    assert [int(r["kernel_ns"]) for r in rows] == frame["kernel_ns"].to_list()
    assert rows[0]["rank"] == "", "NULL is an empty cell"


@pytest.mark.slow
def test_progress_is_shown_on_a_terminal_and_not_in_a_pipe(trace: Path, run_process: Callable, tmp_path: Path) -> None:
    reader, writer = os.openpty()
    command = [sys.executable, "-m", "lorabench", "analyze", str(trace), "-o", str(tmp_path / "report.csv")]
    with os.fdopen(reader, "rb", buffering=0) as shown:
        with os.fdopen(writer, "wb") as terminal:
            subprocess.run(command, check=True, stderr=terminal, env=os.environ | {"TERM": "xterm"})
        assert b"launches and ranges" in shown.read(1 << 16)
    assert run_process("analyze", trace, "-o", "again.csv", "--quiet").stderr == ""


def test_a_name_with_a_slash_at_its_end_is_a_folders(trace: Path, run: Callable, tmp_path: Path) -> None:
    """Names of models and versions have dots in them."""
    run("analyze", trace, "-o", f"{tmp_path}/Qwen1.5-0.5B/", "--quiet")
    assert (tmp_path / "Qwen1.5-0.5B" / "range_summary.csv").exists()
    ended = run("analyze", trace, "-o", tmp_path / "Qwen1.5-1.8B", code=2)
    assert "Qwen1.5-1.8B/" in " ".join(ended.stderr.split())


@pytest.mark.slow
def test_every_view_goes_to_a_folder(trace: Path, run: Callable, tmp_path: Path) -> None:
    run("analyze", trace, "-o", "out/")
    assert {p.name for p in (tmp_path / "out").iterdir()} == {f"{v}.csv" for v in PUBLIC}


@pytest.mark.slow
def test_parquet_and_json_hold_the_same_rows(trace: Path, run: Callable, tmp_path: Path) -> None:
    for name in ("k.parquet", "k.json", "k.csv"):
        run("analyze", trace, "--report", "kernel_summary", "-o", name, "--db", "x.duckdb")
    parquet = polars.read_parquet(tmp_path / "k.parquet").to_dicts()
    assert parquet == json.loads((tmp_path / "k.json").read_text())
    assert len(parquet) == len(polars.read_csv(tmp_path / "k.csv"))


def databases(tmp_path: Path) -> set[tuple[str, int]]:
    """Name and file of each database in the cache."""
    found = (tmp_path / "cache" / "lorabench").glob("*.duckdb")
    return {(p.name, p.stat().st_ino) for p in found if not p.name.startswith("blank-")}


@pytest.mark.own_cache
@pytest.mark.slow
def test_an_unchanged_input_is_not_read_again(trace: Path, run: Callable, tmp_path: Path) -> None:
    run("analyze", trace, "-o", "r.csv")
    first = databases(tmp_path)
    run("analyze", trace, "--report", "kernel_summary", "-o", "other.json")
    run("query", trace, "select 1")
    (tmp_path / "link").symlink_to(tmp_path)
    run("report", f"link/{trace.name}", "-o", "r.html")
    assert databases(tmp_path) == first and len(first) == 1, "one database for all outputs"
    run("analyze", trace, "-o", "r.csv", "--force")
    second = databases(tmp_path)
    assert len(second) == 1 and second != first
    os.utime(trace, ns=(1, 1))
    run("analyze", trace, "-o", "r.csv")
    assert len(databases(tmp_path)) == 1 and databases(tmp_path) != second


@pytest.mark.own_cache
@pytest.mark.slow
def test_the_cache_can_be_listed_cleared_and_has_a_limit(
    trace: Path, run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("query", trace, "select 1")
    (row,) = json.loads(run("cache", "--json").stdout)
    assert row["inputs"] == trace.name and row["size_bytes"] > 100_000
    run("analyze", trace, "--threshold", "long_gap_ns=5", "-o", "r.csv")
    assert len(databases(tmp_path)) == 2, "other settings"
    os.utime(Path(row["database"]), (1, 1))
    run("analyze", trace, "--threshold", "long_gap_ns=6", "-o", "r.csv")
    assert row["database"] not in {r["database"] for r in json.loads(run("cache", "--json").stdout)}, "unused for long"
    monkeypatch.setenv("LORABENCH_CACHE_GB", "0.000001")
    run("analyze", trace, "--threshold", "long_gap_ns=7", "-o", "r.csv")
    assert len(databases(tmp_path)) == 1, "the one that was just made stays"
    assert "removed 1 databases" in run("cache", "clear").stdout
    assert databases(tmp_path) == set()
    assert "choose list or clear" in run("cache", "empty", code=2).stderr


@pytest.mark.slow
def test_a_database_with_other_views_is_made_anew(trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(trace, db=tmp_path / "r.duckdb").close()
    first = (tmp_path / "r.duckdb").stat().st_mtime_ns
    monkeypatch.setattr(sql, "fingerprint", lambda: "of tomorrow")
    opened(trace, db=tmp_path / "r.duckdb").close()
    assert (tmp_path / "r.duckdb").stat().st_mtime_ns > first


@pytest.mark.slow
def test_a_database_made_earlier_is_an_input(trace: Path, run: Callable, tmp_path: Path) -> None:
    run("analyze", trace, "-o", "r.duckdb")
    trace.unlink()
    run("analyze", "r.duckdb", "-o", "k.csv", "--report", "kernel_summary")
    assert "ampere_sgemm" in (tmp_path / "k.csv").read_text()


@pytest.mark.slow
def test_a_folder_gives_its_traces_side_by_side(
    synthetic_trace: Callable[..., Path], run: Callable, tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    shutil.copy(synthetic_trace("nsys"), tmp_path / "run" / "a.sqlite")
    shutil.copy(synthetic_trace("kineto"), tmp_path / "run" / "b.json")
    (tmp_path / "run" / "manifest.json").write_text("{}")
    run("analyze", "run", "-o", "r.csv")
    found = run("query", "run", "select source_id, sum(kernel_ns) as n from kernel_summary group by 1", "--json")
    rows = json.loads(found.stdout)
    assert [r["source_id"] for r in sorted(rows, key=lambda r: r["source_id"])] == [1, 2]
    assert rows[0]["n"] == rows[1]["n"], "one run in two formats"


def test_query_prints_a_table_csv_or_json(trace: Path, run: Callable) -> None:
    words = ("query", trace, "select kernel_name, kernel_cnt from kernel_summary order by 1 limit 1")
    assert run(*words, "--csv").stdout.splitlines()[0] == "kernel_name,kernel_cnt"
    assert json.loads(run(*words, "--json").stdout)[0].keys() == {"kernel_name", "kernel_cnt"}
    assert run(*words).stdout.split()[:2] == ["kernel_name", "kernel_cnt"]


@pytest.mark.slow
def test_query_takes_a_views_name_alone(trace: Path, run: Callable) -> None:
    assert run("query", trace, "api_summary", "--csv").stdout == run("query", trace, "from api_summary", "--csv").stdout


@pytest.mark.parametrize("command", [("views",), ("--help",), ("query", "run.sqlite", "kernel_summary")])
@pytest.mark.first(1)
def test_a_reader_that_leaves_is_no_error(command: tuple[str, ...], trace: Path) -> None:
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    words = [sys.executable, "-m", "lorabench", *command]
    for environment in (buffered, {**buffered, "PYTHONUNBUFFERED": "1"}):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(
            words, check=False, stdout=writer, stderr=subprocess.PIPE, cwd=trace.parent, env=environment
        )
        os.close(writer)
        assert done.stderr == b""


@pytest.mark.parametrize("command", ["views", "query run.sqlite launch_trace --csv"])
@pytest.mark.parametrize(("target", "says"), [("/dev/full", "lorabench: cannot write the output: "), ("&-", "")])
@pytest.mark.first(1)
def test_output_that_nobody_takes_is_a_line(command: str, target: str, says: str, trace: Path) -> None:
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    line = f"{sys.executable} -m lorabench {command} >{target}"
    done = subprocess.run(line, shell=True, check=False, stderr=subprocess.PIPE, cwd=trace.parent, env=buffered)
    assert "Traceback" not in done.stderr.decode() and "ignored" not in done.stderr.decode()
    assert done.stderr.decode().startswith(says)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("query", "run.sqlite", "select nonsense"), "the query failed"),
        (("query", "run.sqlite", "kernel_sumary"), "there is no view 'kernel_sumary': did you mean kernel_summary or "),
        (("query", "run.sqlite", "drop table gpu_op"), "a query is one select"),
        (("query", "run.sqlite", "from kernel_sumary"), 'Did you mean "kernel_summary"?'),
        (("analyze", "run.sqlite", "--report", "nothing", "-o", "x.csv"), "`lorabench views` lists them"),
        (("analyze", "run.sqlite", "-o", "x.docx"), "write .csv, .parquet"),
        (("analyze", "run.sqlite", "--report", "api_summary", "--format", "mlora", "-o", "x.csv"), "knows the reports"),
        (("analyze", "run.sqlite", "--format", "parquet"), "goes to a file"),
        (("views", "nothing"), "there is no view"),
        (("analyze", "run.sqlite", "--escape-formulas"), "--escape-formulas is for report files"),
        (("analyze", "run.sqlite", "-o", "x.html", "--escape-formulas"), "--escape-formulas is for report files"),
        (("what-if",), ""),
        (("what-if", "--limit", "3"), "give an INPUT, or --list"),
    ],
)
@pytest.mark.first(2)
def test_a_wrong_command_says_what_to_do(words: tuple[str, ...], says: str, trace: Path, run: Callable) -> None:
    done = run(*words, code=2)
    assert says in done.stderr and "Traceback" not in done.stderr


def test_views_documents_every_column(run: Callable) -> None:
    listed = run("views").stdout
    for view in sql.load():
        if view.is_public:
            assert view.row in listed
            assert all(c.doc in listed for c in view.columns)


def test_one_view_is_printed_as_markdown_where_one_is_named(run: Callable) -> None:
    said = run("views", "finding", "--markdown").stdout
    assert said.startswith("### finding\n") and said.count("\n### ") == 0 and "| `rule` | varchar |" in said
    assert run("views", "--markdown").stdout == (ROOT / "sql" / "SCHEMA.md").read_text("utf-8")
    assert said in run("views", "--markdown").stdout


def test_the_kinds_of_changes_are_listed_without_a_trace(run: Callable) -> None:
    assert "prefetch=PATH" in run("what-if", "--list").stdout


def test_a_rank_of_two_runs_that_are_compared_is_refused(tmp_path: Path, run: Callable) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "summary.json").write_text("{}")
    assert "--rank is for one run or job" in run("report", "a", "b", "--rank", 0, code=2).stderr


@pytest.mark.parametrize("are_both", [False, True])
@pytest.mark.slow
def test_what_is_written_does_not_depend_on_who_listens(are_both: bool, trace: Path, tmp_path: Path) -> None:
    """`lorabench analyze run.sqlite -o report.csv 2>&1 | head -1`: the answer has gone to a pipe that is closed."""
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, "-m", "lorabench", "analyze", str(trace), "-o"]
    with os.fdopen(writer, "wb") as closed:
        heard = closed if are_both else subprocess.PIPE
        done = subprocess.run([*words, str(tmp_path / "unheard.csv")], stdout=heard, stderr=closed, check=False)
    assert done.returncode == 0
    subprocess.run([*words, str(tmp_path / "heard.csv")], capture_output=True, check=True)
    assert (tmp_path / "unheard.csv").read_bytes() == (tmp_path / "heard.csv").read_bytes()


@pytest.mark.slow
def test_a_pipe_sees_neither_bar_nor_colour(trace: Path, run_process: Callable) -> None:
    done = run_process("analyze", trace, "--report", "range_summary")
    assert done.stdout.startswith("path,name,kind")
    assert done.stderr == ""


def test_tables_print_texts_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    show([{"name": "[bold]x[/bold]", "n": 1234567, "f": 0.5, "none": None}], ["name", "n", "f", "none"])
    assert capsys.readouterr().out.splitlines()[1].split() == ["[bold]x[/bold]", "1,234,567", "0.5"]


@pytest.mark.slow
def test_python_is_as_short(trace: Path, tmp_path: Path) -> None:
    with lorabench.open(trace, db=tmp_path / "x.duckdb") as database:
        frame = database.view("range_summary")
        assert isinstance(frame, polars.DataFrame)
        assert frame["self_kernel_ns"].sum() + database.view("unattributed")["kernel_ns"].sum() == (
            database.view("kernel_summary")["kernel_ns"].sum()
        )
        with pytest.raises(UsageError, match="there is no view"):
            database.view("nonsense; drop table x")


@pytest.mark.parametrize(
    "words", [("views",), ("query", RUN, "range_summary"), ("analyze", RUN, "--report", "finding")]
)
@pytest.mark.first(1)
def test_a_reader_that_has_seen_enough_is_no_error(words: tuple[object, ...]) -> None:
    process = subprocess.Popen([sys.executable, "-m", "lorabench", *map(str, words)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(60) == 0


WRITING = (
    ("analyze", RUN, "-o"), ("report", RUN, "-o"), ("compare", RUN, RUN, "-o"), ("report", RUN, "--perfetto"),
    ("sweep", "--lora-cnt", "1,2", "-o"), ("improve", RUN, "-o"),
)  # fmt: skip
PLACES = ("file/x", "file/x.html", "file/x.json", "folder/x" + "y" * 300 + ".csv")


# first each command with two of the places, and each place with three commands
@pytest.mark.parametrize(
    ("words", "place"),
    quick(12, [(words, PLACES[(number + turn) % 4]) for turn in (0, 2, 1, 3) for number, words in enumerate(WRITING)]),
)
@pytest.mark.slow
def test_a_place_that_cannot_be_written_is_a_line(
    words: tuple[object, ...], place: str, run_here: Callable[..., Ended], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    said = run_here(*words, tmp_path / place)
    assert said.returncode in (2, 3, 5) and said.err.splitlines()[-1].startswith("lorabench: "), said.err
    assert (tmp_path / "file").read_text() == "mine"


def test_stdout_is_no_folder(run: Callable[..., Ended], tmp_path: Path) -> None:
    for command in ("analyze", "report"):
        assert "-o -: " in run(command, RUN, "-o", "-", code=2).err
    assert not list(tmp_path.glob("-*"))
