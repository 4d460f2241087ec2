"""What `lorabench.open` returns, in a shell and in a notebook."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import lorabench
import pytest
from caches import cache_in
from conftest import ROOT, absent
from lorabench.errors import InputError, UsageError
from lorabench.profiles import Profile
from simulated_ranks import Job, simulate

RUN = ROOT / "fixtures" / "lora-run.sqlite"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Profile]:
    """One that no test closes or damages."""
    with lorabench.open(RUN, db=tmp_path_factory.mktemp("shared") / "run.duckdb") as opened:
        yield opened


@pytest.fixture
def profile(tmp_path: Path) -> Iterator[Profile]:
    with lorabench.open(RUN, db=tmp_path / "run.duckdb") as opened:
        yield opened


@pytest.mark.slow
def test_a_shell_and_a_notebook_show_the_answer(shared: Any, run_command: Callable[..., Any]) -> None:
    printed = run_command("summary", RUN).out.splitlines()
    shown = repr(shared).splitlines()
    assert shown[:-1] == [line for line in printed if "lorabench " not in line and not line.startswith("next: ")]
    assert shared._repr_html_().startswith("<pre>lora-run.sqlite: 2 steps")


def test_names_of_a_trace_are_text_in_a_notebook(tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)>"
    event = {"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": 1, "ts": 1, "dur": 9}
    trace = tmp_path / "t.json"
    trace.write_text(json.dumps({"traceEvents": [event]}))
    with lorabench.open(trace, db=tmp_path / "t.duckdb") as opened:
        assert name in repr(opened)
        assert "<img" not in opened._repr_html_()


def test_it_lists_its_views_and_answers_sql(shared: Any) -> None:
    assert {"range_summary", "what_if"} <= set(shared.views)
    assert shared.sql("select count(*) as n from kernel_summary")["n"][0] == len(shared.view("kernel_summary"))
    with pytest.raises(UsageError, match="did you mean"):
        shared.view("kernel_sumary")


def test_it_predicts(shared: Any) -> None:
    (row,) = shared.what_if("scale=gemm:0.5").to_dicts()
    assert 0 < row["saving_ns"] < row["step_ns"]
    assert len(shared.what_if()) > 1
    with pytest.raises(UsageError, match="write one of"):
        shared.what_if("faster")
    with pytest.raises(UsageError, match="no such range"):
        shared.what_if("graph=nowhere")


@pytest.mark.slow
def test_errors_speak_of_what_was_called(shared: Any) -> None:
    with pytest.raises(UsageError, match=r"^\.what_if\(\) bad: write one of"):
        shared.what_if("bad")
    with lorabench.open(RUN, rank=7) as opened, pytest.raises(UsageError, match=r"^rank 7: no input says which"):
        opened.summary()


@pytest.mark.slow
def test_what_was_closed_says_so(profile: Any, tmp_path: Path) -> None:
    profile.close()
    assert repr(profile) == "<closed: lora-run.sqlite>"
    page = tmp_path / "page.html"
    for ask in (
        lambda: profile.view("finding"), lambda: profile.sql("select 1"), profile.what_if, profile.summary,
        lambda: profile.report(page),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=r"the profile of lora-run\.sqlite is closed"):
            ask()
    assert not page.exists()


@pytest.mark.parametrize("fails", ["KeyboardInterrupt", "InputError"])
@pytest.mark.slow
def test_rows_that_could_not_be_made_are_made_when_they_are_asked_for_again(fails: str, profile: Any) -> None:
    """As behind the stop button of a notebook."""
    error = KeyboardInterrupt if fails == "KeyboardInterrupt" else InputError
    real = dict(profile._database._fillers)

    def fail() -> Any:
        raise error("stopped")

    for name in real:
        profile._database._fillers[name] = fail
    for _ in range(2):
        with pytest.raises(error, match="stopped"):
            profile.view("finding")
    profile._database._fillers.update(real)
    with lorabench.open(RUN) as sound:
        assert profile.view("finding").equals(sound.view("finding"))
        assert profile.what_if().equals(sound.what_if())


@pytest.mark.slow
def test_what_the_database_makes_of_an_interrupt_is_one(profile: Any) -> None:
    for error in (
        RuntimeError("Query interrupted"), duckdb.InterruptException("INTERRUPT Error: Interrupted!"),
        duckdb.InvalidInputException("Invalid Input Error: counting rows failed: KeyboardInterrupt"),
    ):  # fmt: skip

        def act(error: BaseException = error) -> Any:
            raise error

        with pytest.raises(KeyboardInterrupt):
            profile._database._roomy(act)
    with pytest.raises(RuntimeError, match="something else"):
        profile._database._roomy(lambda: (_ for _ in ()).throw(RuntimeError("something else")))


def test_threads_that_share_a_profile_take_turns(shared: Any) -> None:
    def ask(number: int) -> Any:
        if number % 3:
            return shared.sql("select count(*) as n from finding")["n"][0]
        return shared.what_if("scale=gemm:0.5")["saving_frac"][0]

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(ask, range(18)))
    assert len(set(found)) == 2 and ask(1) == found[1]


@pytest.mark.slow
def test_of_several_inputs_it_says_what_to_call(tmp_path: Path) -> None:
    with lorabench.open(RUN, RUN.with_name("lora-run.json.gz"), db=tmp_path / "x.duckdb") as opened:
        assert 'what each is: .view("trace_info")' in repr(opened) and "--report" not in repr(opened)


@pytest.mark.slow
def test_what_was_lost_is_said_in_a_shell_and_on_the_page(tmp_path: Path) -> None:
    """On the command line stderr says it."""
    notes = tmp_path / "notes.txt"
    notes.write_text("no trace")
    with lorabench.open(RUN, notes) as opened:
        assert "notes.txt: lost: the whole file: " in repr(opened)
        assert [row["input"] for row in opened.summary()["lost"]] == ["notes.txt"]
        page = opened.report(tmp_path / "x.html").read_text("utf-8")
    assert "notes.txt: lost: " in page


@pytest.mark.parametrize("given", [(), ("",), (None,), ([RUN],), (3,)])
def test_what_is_no_path_is_refused(given: Any) -> None:
    with pytest.raises(UsageError, match="takes paths one after another"):
        lorabench.open(*given)


@pytest.mark.parametrize("method", ["view", "sql", "what_if"])
@pytest.mark.parametrize("given", [None, ["finding"], 3])
def test_what_is_no_text_is_refused(method: str, given: Any, shared: Profile) -> None:
    with pytest.raises(UsageError, match=rf"^\.{method}\(\) takes "):
        getattr(shared, method)(given)


@pytest.mark.slow
def test_a_rank_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", cache_in(tmp_path))  # where the second finds what the first computed
    simulate(Job(ranks=2, steps=2)).write(tmp_path / "ranks")
    for rank in (0, 1):
        with lorabench.open(tmp_path / "ranks", rank=rank) as opened:
            assert f"this is rank {rank} of 2" in repr(opened)
    opened = lorabench.open(tmp_path / "ranks", rank=7)
    with opened, pytest.raises(UsageError, match="rank 7: the ranks here are 0, 1"):
        opened.summary()


@pytest.mark.slow
def test_a_cell_is_profiled(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the magic records with torch.profiler")
    try:
        from IPython.core.error import UsageError as Shown
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
        # lines of the shell's own, without a traceback
        with pytest.raises(Shown, match="write %%lorabench"):
            shell.run_cell_magic("lorabench", "--wrong", "pass")
        with pytest.raises(Shown, match="the cell ended with ZeroDivisionError"):
            shell.run_cell_magic("lorabench", "", "1 / 0")
        with pytest.raises(Shown, match="cannot write"):
            shell.run_cell_magic("lorabench", f"-o {tmp_path}/nowhere/x.json", "ran = True")
        export = tmp_path / "run.sqlite"
        export.write_text("a capture")
        with pytest.raises(Shown, match="the trace is JSON"):
            shell.run_cell_magic("lorabench", f"-o {export}", "ran = True")
        assert "ran" not in shell.user_ns and export.read_text() == "a capture"
    finally:
        InteractiveShell.clear_instance()
