"""What stands beside a trace, or in the place of one: pipes, deep and long JSON, names that are no text."""

import dataclasses
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from caches import cache_in
from conftest import quick
from lorabench import sql
from lorabench.analyze.store import checks, views

Run = Callable[..., Any]  # of a command in this process


def run(tmp_path: Path, *words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"XDG_CACHE_HOME": cache_in(tmp_path)}
    line = [sys.executable, "-m", "lorabench", *map(os.fsdecode, map(os.fsencode, map(str, words)))]
    return subprocess.run(
        line,
        env=environment,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        check=False,
        timeout=60,
        **options,
    )


def one_line(done: Any, code: int) -> str:
    assert done.returncode == code, done.stderr
    assert done.stderr.count("\n") == 1 and "Traceback" not in done.stderr
    return done.stderr


@pytest.fixture
def trace(synthetic_trace: Callable[..., Path], tmp_path: Path) -> Path:
    path = tmp_path / "run" / "trace.json"
    path.parent.mkdir()
    path.write_bytes(synthetic_trace("kineto").read_bytes())
    return path


@pytest.mark.parametrize("words", [["analyze", "FIFO"], ["analyze", "FIFO", "trace.json"], ["compare", "FIFO", "FIFO"]])
@pytest.mark.slow
def test_a_pipe_as_input_does_not_hang(words: list[str], trace: Path, tmp_path: Path, run_here: Run) -> None:
    os.mkfifo(tmp_path / "FIFO.json")
    places = {"FIFO": str(tmp_path / "FIFO.json"), "trace.json": str(trace)}
    done = run_here(*(places.get(word, word) for word in words), "-o", tmp_path / "r.csv")
    assert done.returncode == 3 and "not a regular file" in done.stderr


@pytest.mark.parametrize(
    "name", quick(1, ["manifest.json", "y.sqlite", "steps.csv", "ledger.csv", "x.raw.json.gz", "summary.json"])
)
@pytest.mark.slow
def test_a_pipe_beside_a_trace_does_not_hang(name: str, trace: Path, tmp_path: Path, run_here: Run) -> None:
    os.mkfifo(trace.with_name(name))
    for place in (trace, trace.parent):
        done = run_here("analyze", place, "-o", tmp_path / "r.csv")
        assert done.returncode in (0, 3) and "Traceback" not in done.stderr
    done = run_here("compare", trace.parent, trace.parent)
    assert "Traceback" not in done.stderr


BAD_JSON = {
    "deep": b"[" * 100_000,
    "long number": b'{"format": ' + b"9" * 6000 + b"}",
    "list": b"[]",
    "not UTF-8": b'{"format": "\xff"}',
    "cut": b'{"format": 1, "a":',
    "huge format": b'{"format": 1e999}',
}


@pytest.mark.parametrize(
    ("name", "damage"),
    quick(2, [
        ("summary.json", "cut"), *(("manifest.json", damage) for damage in ("deep", "list", "huge format")),
        *(("summary.json", damage) for damage in BAD_JSON if damage not in ("huge format", "cut")),
        ("sweep.json", "deep"),
    ]),
)  # fmt: skip
@pytest.mark.first(1)
def test_a_damaged_file_of_a_run_ends_in_a_line(
    name: str, damage: str, trace: Path, tmp_path: Path, run_here: Run
) -> None:
    for other in ("manifest.json", "summary.json"):
        trace.with_name(other).write_text('{"format": 1, "status": "ok", "passes": {}}')
    trace.with_name(name).write_bytes(BAD_JSON[damage])
    done = run_here("analyze", trace.parent, "-o", tmp_path / "r.csv")
    assert done.returncode == 0 and "Traceback" not in done.stderr
    if name != "sweep.json":
        one_line(run_here("compare", trace.parent, trace.parent), 3)
    done = run_here("report", trace.parent, "-o", tmp_path / "r.html")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("content", [b"a = " + b"[" * 100_000, b"a = " + b"9" * 6000, b"\xff", b"a = {"])
def test_a_damaged_configuration_ends_in_a_line(content: bytes, tmp_path: Path, run_here: Run) -> None:
    (tmp_path / "run.toml").write_bytes(content)
    one_line(run_here("collect", "--config", tmp_path / "run.toml", "--dry-run"), 2)


@pytest.mark.parametrize(
    "name", quick(2, [b"caf\xe9.json", b"a\x1b[31mb.json", b"a\nb.json", b"--help.json", b"md:x.json"])
)
@pytest.mark.slow
def test_names_of_files_are_printed_as_they_are_and_obeyed_by_nobody(name: bytes, trace: Path, tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(trace.parent) + b"/" + name))
    trace.rename(odd)
    out = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).with_suffix(".csv")
    done = run(tmp_path, "analyze", odd, "-o", out)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1 and "\x1b" not in done.stdout and out.is_file()
    odd.write_bytes(b"hello")
    said = one_line(run(tmp_path, "analyze", odd, "-o", out), 3)
    assert "\x1b" not in said


def test_gzip_in_gzip_is_refused(tmp_path: Path, run_here: Run) -> None:
    content = b"{}"
    for _ in range(500):
        content = gzip.compress(content)
    (tmp_path / "x.json.gz").write_bytes(content)
    assert "gzip in gzip" in one_line(run_here("analyze", tmp_path / "x.json.gz"), 3)


@pytest.mark.parametrize("where", ["stdout", "csv", "json", "compare", "query", "column"])
@pytest.mark.first(2)
@pytest.mark.slow
def test_escape_sequences_in_names_reach_no_terminal(where: str, tmp_path: Path, run_here: Run) -> None:
    evil = "step\x1b]0;owned\x07\u202e\x9b31m 3\nlorabench: forged"
    events = [
        {"ph": "X", "cat": "user_annotation", "name": evil, "pid": 1, "tid": 1, "ts": 1, "dur": 9},
        {"ph": "X", "cat": "kernel", "name": evil, "pid": 0, "tid": 7, "ts": 5, "dur": 2, "args": {"device": 0}},
    ]
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": events}))
    words: dict[str, list[object]] = {
        "stdout": ["analyze", path],
        "csv": ["query", path, "from kernel_summary", "--csv"],
        "json": ["query", path, "from kernel_summary", "--json"],
        "compare": ["compare", path, path, "--by", "kernel"],
        "query": ["query", path, "from kernel_summary"],
        "column": ["query", path, 'select 1 as "a\x1b[31m\nb"'],
    }
    done = run_here(*words[where])
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    assert not set(said) & set("\x1b\x07\x9b\u202e\x00")
    assert not any(line.startswith("lorabench: forged") for line in said.splitlines())
    if where == "json":
        assert json.loads(done.stdout)[0]["kernel_name"] == evil


@pytest.mark.parametrize("report", ["operator_summary", "all"])
@pytest.mark.slow
def test_shapes_without_inputs_stop_no_report(report: str, tmp_path: Path, run_here: Run) -> None:
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::cudnn_convolution", "pid": 1, "tid": 1, "ts": 1, "dur": 9}
    shapes = ["", "[", "[[4,3,8,8],[4,3,3,3]]", [[0, 3, 8, 8], [4, 0, 3, 3]], [[10**18] * 6], [["a"]], "null", {"a": 1}]
    events = [event | {"args": {"Input Dims": s, "Input type": t}} for s in shapes for t in ("x", ["float"], [1], None)]
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": events}))
    options = ["-o", tmp_path / "all"] if report == "all" else ["--report", report]
    done = run_here("analyze", tmp_path / "t.json", *options)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_view_that_cannot_be_computed_takes_no_other_with_it(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: Callable[..., Any]
) -> None:
    """The view is broken on purpose: none is known to fail on any input."""

    def broken(file: sql.SqlFile) -> sql.SqlFile:
        statement = f"select * replace (('x' || kernel_cnt)::bigint as kernel_cnt) from ({file.statement})"
        text = file.text.replace(file.statement, statement)
        return dataclasses.replace(file, text=text) if file.name == "kernel_summary" else file

    files = tuple(map(broken, sql.load()))
    monkeypatch.setattr(sql, "load", lambda: files)
    monkeypatch.setattr(sql, "fingerprint", lambda: "broken")
    views.known.cache_clear()
    monkeypatch.setattr(checks, "run", lambda database: None)
    try:
        said = run_command("analyze", trace, "-o", tmp_path / "all", code=3).err
    finally:
        views.known.cache_clear()
    assert "views cannot be computed (" in said and "kernel_summary" in said
    written = {path.stem for path in (tmp_path / "all").iterdir()}
    assert {"range_summary", "launch_trace", "trace_info"} <= written and "kernel_summary" not in written


@pytest.mark.parametrize("how", ["same", "dot", "symlink", "hardlink", "folder"])
@pytest.mark.parametrize("command", ["analyze", "report", "compare"])
def test_an_output_never_replaces_an_input(how: str, command: str, trace: Path, tmp_path: Path, run_here: Run) -> None:
    for name in ("manifest.json", "summary.json", "steps.csv"):
        trace.with_name(name).write_text('{"format": 1}')
    if command == "report":  # writes .html
        trace = trace.rename(trace.with_suffix(".html"))
    if command == "compare" or how == "folder":
        trace = trace.rename(trace.with_suffix(".json"))
    given: Path = trace
    out = {
        "same": trace, "dot": Path(f"{trace.parent}/./{trace.name}"), "symlink": tmp_path / f"link{trace.suffix}",
        "hardlink": tmp_path / f"hard{trace.suffix}", "folder": trace.with_name("summary.json"),
    }[how]  # fmt: skip
    if how == "symlink":
        out.symlink_to(trace)
    if how == "hardlink":
        out.hardlink_to(trace)
    if how == "folder":
        given = trace.parent
    before = {p.name: p.read_bytes() for p in trace.parent.iterdir()}
    inputs = [given, given] if command == "compare" else [given]
    said = one_line(run_here(command, *inputs, "-o", out), 2)
    assert "would replace the input" in said
    assert {p.name: p.read_bytes() for p in trace.parent.iterdir()} == before


@pytest.mark.slow
def test_bad_files_among_many_are_counted_and_named(tmp_path: Path, run_here: Run) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    event = {"ph": "X", "cat": "cpu_op", "ts": 1, "dur": 1, "pid": 1, "tid": 1, "name": "a"}
    (folder / "rank0.json").write_text(json.dumps({"traceEvents": [event]}))
    for number in range(1, 25):
        (folder / f"rank{number}.json").write_text("{}")
    done = run_here("analyze", folder, "-o", tmp_path / "r.csv")
    assert done.returncode == 3 and "24 of 25 inputs cannot be read" in done.stderr
