"""What `lorabench.open` returns, in a shell and in a notebook."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lorabench
import pytest
from conftest import ROOT, absent
from lorabench.errors import LorabenchError, UsageError
from lorabench.profiles import Profile

RUN = ROOT / "fixtures" / "lora-run.sqlite"


@pytest.fixture
def profile(tmp_path: Path) -> Iterator[Profile]:
    with lorabench.open(RUN, db=tmp_path / "run.duckdb") as opened:
        yield opened


def test_a_shell_and_a_notebook_show_the_answer(profile: Any, run_command: Callable[..., Any]) -> None:
    printed = run_command("summary", RUN).out.splitlines()
    shown = repr(profile).splitlines()
    assert shown[:-1] == [line for line in printed if "lorabench " not in line and not line.startswith("next: ")]
    assert profile._repr_html_().startswith("<pre>lora-run.sqlite: 2 steps")


def test_names_of_a_trace_are_text_in_a_notebook(tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)>"
    event = {"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": 1, "ts": 1, "dur": 9}
    trace = tmp_path / "t.json"
    trace.write_text(json.dumps({"traceEvents": [event]}))
    with lorabench.open(trace, db=tmp_path / "t.duckdb") as opened:
        assert name in repr(opened)
        assert "<img" not in opened._repr_html_()


def test_it_lists_its_views_and_answers_sql(profile: Any) -> None:
    assert {"range_summary", "what_if"} <= set(profile.views)
    assert profile.sql("select count(*) as n from kernel_summary")["n"][0] == len(profile.view("kernel_summary"))
    with pytest.raises(UsageError, match="did you mean"):
        profile.view("kernel_sumary")


def test_it_predicts(profile: Any) -> None:
    (row,) = profile.what_if("scale=gemm:0.5").to_dicts()
    assert 0 < row["saving_ns"] < row["step_ns"]
    assert len(profile.what_if()) > 1
    with pytest.raises(UsageError, match="write one of"):
        profile.what_if("faster")
    with pytest.raises(UsageError, match="no range"):
        profile.what_if("graph=nowhere")


def test_what_was_closed_says_so(profile: Any) -> None:
    profile.close()
    assert repr(profile) == "<closed: lora-run.sqlite>"


def test_a_cell_is_profiled(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the magic records with torch.profiler")
    try:
        from IPython.core.interactiveshell import InteractiveShell
    except ImportError:
        absent("ipython", "IPython is not installed")
    shell = InteractiveShell.instance()
    try:
        shell.run_line_magic("load_ext", "lorabench")
        kept = tmp_path / "cell.json"
        found = shell.run_cell_magic(
            "lorabench", f"-o {kept}", "import torch\nx = torch.ones(64, 64)\nfor _ in range(5):\n    x = x @ x\n"
        )
        assert kept.is_file()
        assert found.sql("select sum(range_cnt) as n from range_summary where name = 'aten::mm'")["n"][0] == 5
        assert shell.user_ns["x"].shape == (64, 64)
        found.close()
        with pytest.raises(LorabenchError, match="write %%lorabench"):
            shell.run_cell_magic("lorabench", "--wrong", "pass")
        with pytest.raises(ZeroDivisionError):
            shell.run_cell_magic("lorabench", "", "1 / 0")
    finally:
        InteractiveShell.clear_instance()
