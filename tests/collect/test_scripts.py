"""`lorabench collect -- COMMAND`: scripts as people have them, unedited, and every way in which they start and end."""

import contextlib
import csv
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from conftest import absent, opened, quick
from lorabench import nsys as tools
from lorabench import rundir
from lorabench.collect.scripts import command
from lorabench.collect.scripts.hook import process as hook
from training_scripts import (
    DISTRIBUTED,
    ENDS,
    EVALUATING,
    INSIDE,
    INTERRUPTED,
    KNOWN,
    LAWFUL,
    LIGHTNING,
    OWN_PROFILER,
    PLAIN,
    SFT,
    TRAINER,
    WORKERS,
)  # fmt: skip

pytest.importorskip("torch")

ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def collect(
    folder: Path, *words: object, code: int = 0, report: bool = False, stdin: Any = subprocess.DEVNULL, **more: str
) -> "subprocess.CompletedProcess[str]":
    own = ["-o", folder, *([] if report else ["--no-report"])]
    done = subprocess.run(
        [sys.executable, "-m", "lorabench", "collect", *own, *map(str, words)],
        env=ENVIRONMENT | more, capture_output=True, text=True, check=False, stdin=stdin,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done


def traces(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*.json.gz")}


def ranges(trace: Path, database: Path) -> dict[str, int]:
    statement = "select path, range_cnt from range_summary where kind = 'annotation' and path not like '%Optimizer%'"
    with opened(trace, db=database) as found:
        return dict(found.rows(statement))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Any, str]]:
    """A plain loop in three passes: its run directory, what was said, and its output without lorabench."""
    folder = tmp_path_factory.mktemp("plain")
    (folder / "train.py").write_text(PLAIN, "utf-8")
    words = [sys.executable, str(folder / "train.py"), "4"]
    alone = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, check=True).stdout
    yield folder / "run", collect(folder / "run", "--profiler", "timing,torch,nsys", "--", *words, report=True), alone


@pytest.mark.slow
def test_a_plain_loop_computes_the_same_to_the_bit(plain: tuple[Path, Any, str]) -> None:
    run, done, alone = plain
    assert alone in done.stdout
    for log in (run / "logs").iterdir():
        assert set(alone.splitlines()) <= set(log.read_text("utf-8").splitlines()), log


@pytest.mark.slow
def test_phases_and_modules_of_a_plain_loop_show_under_both_profilers(
    plain: tuple[Path, Any, str], tmp_path: Path
) -> None:
    run, _, _ = plain
    modules = ("", "/Net", "/Net/layers.0", "/Net/layers.1", "/Net/head")
    wanted = {f"{phase}{module}" for phase in ("forward", "backward") for module in modules} | {"data", "optimizer"}
    names = ["trace.json.gz", *(["run.sqlite"] if tools.find() else [])]
    for name in names:
        seen = ranges(run / name, tmp_path / f"{name}.duckdb")
        assert {path: count for path, count in seen.items() if "DataLoader" not in path} == dict.fromkeys(wanted, 4)


def test_steps_tokens_and_what_to_do_next_are_said(plain: tuple[Path, Any, str], tmp_path: Path) -> None:
    run, done, _ = plain
    summary = rundir.read_summary(run)
    assert summary["step_cnt"] == 3 and summary["warmup_step_cnt"] == 1 and summary["step_wall_ns"]["p50"] > 0
    assert summary["tokens_per_s"]["computed"] > 0
    assert "step " in done.stderr and "tokens/s" in done.stderr and f"next: lorabench summary {run}" in done.stderr
    assert "pass torch: runs again under torch.profiler; its output is in logs/torch.log" in done.stderr
    with opened(run / "trace.json.gz", db=tmp_path / "x.duckdb") as database:
        rows = database.rows("select found_by, forward_ns > 0, backward_ns > 0, optimizer_ns > 0 from step_summary")
        assert rows == [("optimizer", True, True, True)] * 3
        assert database.rows("select distinct token_cnt from step_summary") == [(12,)]


def test_a_run_has_its_page(plain: tuple[Path, Any, str]) -> None:
    run, done, _ = plain
    assert f"the page of this run: {run / rundir.PAGE}\n" in done.stderr
    assert "forward" in (run / rundir.PAGE).read_text("utf-8")


@pytest.mark.slow
def test_two_runs_of_commands_are_compared(plain: tuple[Path, Any, str], run_command: Callable[..., Any]) -> None:
    run, _, _ = plain
    said = run_command("compare", run, run)
    assert "step, median" in said.out and "tokens computed" in said.out
    assert f"lorabench compare {run} {run} --by range" in said.err
    assert "forward/Net" in run_command("compare", run, run, "--by", "range").out


@pytest.mark.long
def test_runs_without_a_timing_pass_are_compared_by_their_traces(
    script: Callable[[str], Path], run_command: Callable[..., Any], tmp_path: Path
) -> None:
    for name in ("a", "b"):
        collect(tmp_path / name, "--profiler", "torch", "--", sys.executable, script(PLAIN), 3)
    assert "forward/Net" in run_command("compare", tmp_path / "a", tmp_path / "b").out


SLOW = pytest.mark.long


@pytest.mark.parametrize("kind", ["torch.profiler", pytest.param("autograd.profiler", marks=SLOW)])
@pytest.mark.slow
def test_a_script_with_its_own_profiler_keeps_it(kind: str, script: Callable[[str], Path], tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.json"
    done = collect(tmp_path / "run", "--profiler", "torch", "--", sys.executable, script(OWN_PROFILER), kind, theirs)
    assert "the script profiles itself" in done.stderr
    assert theirs.exists() == (kind == "torch.profiler")
    assert traces(tmp_path / "run") == {"trace-1.json.gz", "trace-2.json.gz", "trace-3.json.gz"}
    steps = []
    for number in (1, 2, 3):  # also within ranges of the script's own profiler
        seen = ranges(tmp_path / "run" / f"trace-{number}.json.gz", tmp_path / f"{number}.duckdb")
        steps.append(sum(count for path, count in seen.items() if path.split("/")[-1] == "optimizer"))
    # theirs warms up for a step that nobody records
    assert steps == ([2, 2, 4] if kind == "torch.profiler" else [1, 6, 2])


# torchrun has a row of test_matrix.py
@pytest.mark.parametrize("how", [pytest.param("torchrun", marks=SLOW), pytest.param("spawn", marks=SLOW), "fork"])
@pytest.mark.slow
def test_each_process_that_trains_has_a_trace_with_its_rank(
    how: str, script: Callable[[str], Path], tmp_path: Path
) -> None:
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"] if how == "torchrun" else []
    words = [sys.executable, *launcher, script(DISTRIBUTED), how, tmp_path]
    collect(tmp_path / "run", "--profiler", "torch", "--", *words)
    assert traces(tmp_path / "run") == {"trace-rank0.json.gz", "trace-rank1.json.gz"}
    with opened(tmp_path / "run", db=tmp_path / "x.duckdb") as database:
        assert sorted(database.rows("select rank, world_size from source")) == [(0, 2), (1, 2)]
        # of the optimizer's three, or of another range that repeats, if a busy machine makes that most of the time
        counts = dict(database.rows("select rank, count(*) from step_summary group by 1"))
        assert counts.keys() == {0, 1} and set(counts.values()) <= {2, 3}


@pytest.mark.parametrize("how", ["options", *(pytest.param(how, marks=SLOW) for how in ("console script", "shell"))])
@pytest.mark.slow
def test_every_python_process_is_profiled_however_it_is_started(
    how: str, script: Callable[[str], Path], tmp_path: Path
) -> None:
    path = script(PLAIN)
    if how == "options":
        words = [sys.executable, "-u", "-W", "ignore", path, 3]
    elif how == "shell":
        words = ["sh", "-c", f"cd /; {sys.executable} {path} 3"]
    else:
        words = [tmp_path / "train", 3]
        words[0].write_text(f"#!{sys.executable}\n{PLAIN}", "utf-8")
        words[0].chmod(0o755)
    collect(tmp_path / "run", "--profiler", "torch", "--", *words)
    assert ranges(tmp_path / "run" / "trace.json.gz", tmp_path / "x.duckdb")["forward/Net/head"] == 3


@pytest.mark.long
def test_an_environment_without_lorabench_and_with_a_sitecustomize_of_its_own(
    script: Callable[[str], Path], tmp_path: Path
) -> None:
    own = tmp_path / "site"
    own.mkdir()
    (own / "sitecustomize.py").write_text(
        "import os, sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'lorabench': raise ModuleNotFoundError(name=name)\n"
        "if 'LORABENCH_HOOK' in os.environ: sys.meta_path.insert(0, Missing())\n"
        "sys.own_was_loaded = True\n",
        "utf-8",
    )
    path = script(
        PLAIN + "assert sys.own_was_loaded\ntry:\n    import lorabench\nexcept ImportError:\n    print('none')"
    )
    done = collect(tmp_path / "run", "--profiler", "torch", "--", sys.executable, path, 3, PYTHONPATH=str(own))
    assert "none\n" in done.stdout
    assert ranges(tmp_path / "run" / "trace.json.gz", tmp_path / "x.duckdb")["forward/Net/head"] == 3


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["echo", "hello"], "no Python process of the command loaded lorabench's hook"),
        ([sys.executable, "-I", "-c", "import torch; torch.ones(3).sum()"], "Python was started with -I, -E or -S"),
        ([sys.executable, "-c", "print()"], "no Python process of the command imported torch"),
        ([sys.executable, "-c", "import torch"], "torch was imported, but it ran no operator"),
    ],
)
@pytest.mark.first(1)
def test_a_pass_without_work_is_not_ok_and_says_why(words: list[str], says: str, tmp_path: Path) -> None:
    done = collect(tmp_path / "run", "--profiler", "torch", "--", *words, code=7)
    state = rundir.read_manifest(tmp_path / "run")["passes"]["torch"]
    assert state["status"] == "skipped" and says in state["message"] and says in done.stderr
    assert not traces(tmp_path / "run")


@pytest.mark.slow
def test_a_run_without_traces_says_so_and_how_it_ended(tmp_path: Path, run_command: Callable[..., Any]) -> None:
    done = collect(tmp_path / "echo", "--profiler", "timing,torch", "--", "echo", "hello", code=7)
    assert "nothing was recorded" in done.stderr and "next:" not in done.stderr
    assert "has no trace: no Python process" in run_command("summary", tmp_path / "echo", code=3).err
    words = [sys.executable, "-c", "import torch; print('Loading: 100%|###| 2/2'); raise SystemExit(3)"]
    collect(tmp_path / "failed", "--profiler", "timing", "--", *words, code=7)
    said = run_command("summary", tmp_path / "failed", code=3).err
    assert "the run failed (pass timing: it ended with exit code 3); `--profiler torch` alone" in said


@pytest.mark.slow
def test_each_pass_reads_a_file_in_the_place_of_the_keyboard(tmp_path: Path) -> None:
    (tmp_path / "answers.txt").write_text("5\n", "utf-8")
    words = [sys.executable, "-c", "import torch; print('read', input()); torch.ones(3).sum()"]
    with (tmp_path / "answers.txt").open("rb") as answers:
        collect(tmp_path / "run", "--profiler", "timing,torch", "--", *words, stdin=answers)
    for name in ("timing", "torch"):
        assert "read 5" in (tmp_path / "run" / "logs" / f"{name}.log").read_text("utf-8")
    done = collect(tmp_path / "pipe", "--profiler", "timing", "--", *words, code=7, stdin=subprocess.PIPE)
    assert "EOFError" in done.stderr and "< FILE" in done.stderr


def test_a_warning_is_not_said_to_be_why_a_script_ended(script: Callable[[str], Path], tmp_path: Path) -> None:
    text = "import sys, torch\nprint('no module named kernels', file=sys.stderr)\ntorch.ones(3).sum()\nsys.exit(3)"
    done = collect(tmp_path / "run", "--profiler", "timing", "--", sys.executable, script(text), code=7)
    assert "exit code 3; its last words on stderr: no module named kernels" in done.stderr


@pytest.mark.parametrize(
    ("how", "says", "has_trace"),
    [
        ("raise", "exit code 1: ValueError: the reason", True),
        pytest.param("_exit", "exit code 4; its last words on stderr: the last words", True, marks=SLOW),
        pytest.param("SIGTERM", "died of signal 15: the last words", True, marks=SLOW),
        ("SIGSEGV", "died of signal 11: the last words", False),
    ],
)
@pytest.mark.slow
def test_what_was_recorded_is_kept_however_a_script_ends(
    how: str, says: str, has_trace: bool, script: Callable[[str], Path], tmp_path: Path
) -> None:
    words = [sys.executable, script(ENDS), how]
    done = collect(tmp_path / "run", "--profiler", "torch", "--", *words, code=7)
    manifest = rundir.read_manifest(tmp_path / "run")
    assert says in manifest["message"] and says in done.stderr
    assert traces(tmp_path / "run") == ({"trace.json.gz"} if has_trace else set())
    assert ("is lost; --active-steps 1" in done.stderr) != has_trace
    if has_trace:
        assert ranges(tmp_path / "run" / "trace.json.gz", tmp_path / "x.duckdb")["optimizer"] == 3


@pytest.mark.long
def test_the_schedule_counts_optimizer_steps(script: Callable[[str], Path], tmp_path: Path) -> None:
    options = ["--wait-steps", 1, "--warmup-steps", 1, "--active-steps", 1, "--repeat", 2, "--with-stack"]
    collect(tmp_path / "run", "--profiler", "torch", *options, "--", sys.executable, script(PLAIN), 8)
    assert traces(tmp_path / "run") == {"trace-1.json.gz", "trace-2.json.gz"}
    for name in traces(tmp_path / "run"):
        assert ranges(tmp_path / "run" / name, tmp_path / f"{name}.duckdb")["step/optimizer"] == 1
        with opened(tmp_path / "run" / name, db=tmp_path / f"{name}.duckdb") as database:
            assert database.rows("select count(*) > 0 from range where kind = 'python'") == [(True,)]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--steps", 3, "--", "true"], "--steps: lorabench does not train in `collect -- COMMAND`"),
        (["--lora-cnt", 3, "--rank", 4, "--", "true"], "--lora-cnt, --rank: "),
        (["--"], "collect --: the command is missing"),
        (["--wait-steps", -1, "--", "true"], "wait"),
    ],
)
@pytest.mark.slow
def test_a_setting_that_means_nothing_is_refused(
    words: list[object], says: str, run_command: Callable[..., Any], tmp_path: Path
) -> None:
    assert says in run_command("collect", "-o", tmp_path / "run", *words, code=2).err
    assert not list(tmp_path.glob("*run*"))


@pytest.mark.parametrize("width", [1, 3, 7, 100])
def test_lines_of_the_profiler_itself_are_not_shown_and_all_others_are_at_once(width: int) -> None:
    text = b"USDT:1 a.cpp] start\nloss 1\n 10%\r 20%\rU\nUSDT:2 a.cpp] stop\nUS"
    shown: list[bytes] = []
    quiet = command._Quiet(lambda is_error, data: shown.append(data))
    for start in range(0, len(text), width):
        quiet(False, text[start : start + width])
    quiet(False, b"")
    assert b"".join(shown) == b"loss 1\n 10%\r 20%\rU\nUS"
    assert width > 1 or shown[0] == b"l"


@pytest.mark.slow
def test_lines_are_seen_as_they_come_and_are_whole(tmp_path: Path) -> None:
    """Also where two processes write at once, and the hook is all that says that this is no file."""
    text = (
        "import os, sys, time; [(print('one', 'line', sys.argv[1]), time.sleep(0.01)) for _ in range(60)]; print('end')"
    )
    program = tmp_path / "talk.py"
    program.write_text(text + "; time.sleep(30)", "utf-8")
    words = [
        sys.executable,
        "-m",
        "lorabench",
        "collect",
        "-o",
        tmp_path / "run",
        "--profiler",
        "timing",
        "--no-report",
    ]
    both = f"{sys.executable} {program} a & {sys.executable} {program} b"
    usual = {name: value for name, value in ENVIRONMENT.items() if name != "PYTHONUNBUFFERED"}
    process = subprocess.Popen([*map(str, words), "--", "sh", "-c", both], env=usual, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    seen = [process.stdout.readline().strip() for _ in range(122)]
    process.terminate()
    process.communicate(timeout=60)
    assert sorted(seen) == ["end"] * 2 + ["one line a"] * 60 + ["one line b"] * 60


def test_a_background_process_ends_with_its_command(tmp_path: Path) -> None:
    start = time.monotonic()
    done = collect(tmp_path / "run", "--profiler", "timing", "--", "sh", "-c", "setsid sleep 301 & echo done", code=7)
    assert done.stdout.startswith("done\n") and time.monotonic() - start < 30
    assert _of(tmp_path) == []


def _of(folder: Path) -> list[str]:
    """Living processes of a run in a folder, by what their environment says of its hook."""
    found = []
    for _ in range(30):
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if str(folder) in process.environ().get("LORABENCH_HOOK", "") and process.status() != "zombie":
                    found.append(" ".join(process.cmdline()))
        if not found:
            break
        time.sleep(0.1)
    return found


STUBBORN = 'trap "" TERM; echo ready; while :; do sleep 1; done'


@pytest.mark.parametrize(
    ("pass_name", "how"),
    [
        ("timing", "Ctrl-C twice"),
        ("timing", "kill -9 lorabench"),
        ("timing", "kill -9 guard"),
        ("nsys", "kill -9 lorabench"),
        pytest.param("nsys", "Ctrl-C twice", marks=SLOW),
        pytest.param("nsys", "kill -9 guard", marks=SLOW),
    ],
)
def test_nothing_is_left_alive(pass_name: str, how: str, tmp_path: Path) -> None:
    if pass_name == "nsys" and tools.find() is None:
        absent("nsys", "nsys is not installed")
    words = [
        sys.executable,
        "-m",
        "lorabench",
        "collect",
        "-o",
        tmp_path / "run",
        "--profiler",
        pass_name,
        "--",
        "sh",
        "-c",
    ]
    process = subprocess.Popen(
        [*map(str, words), STUBBORN], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert any("ready" in line for line in process.stdout)
    start = time.monotonic()
    if how == "Ctrl-C twice":
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
    elif how == "kill -9 lorabench":
        process.kill()
    else:
        (guard,) = (
            p for p in psutil.Process(process.pid).children() if any("guard.py" in word for word in p.cmdline())
        )
        guard.kill()
    process.communicate(timeout=60)
    assert time.monotonic() - start < 9  # less than what a command gets that was only asked to end
    assert _of(tmp_path) == []
    if how != "kill -9 lorabench":
        assert rundir.read_manifest(tmp_path / "run")["status"] == ("failed" if "guard" in how else "cancelled")


@pytest.mark.parametrize(("package", "text"), [("transformers", TRAINER), ("trl", SFT)])
@pytest.mark.slow
def test_a_trainer_shows_its_phases_and_lora_parts_without_an_edit(
    package: str, text: str, script: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("peft", package):
        pytest.importorskip(name)
    monkeypatch.chdir(tmp_path)
    words = [sys.executable, str(script(text))]
    alone = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, check=True).stdout
    done = collect(tmp_path / "run", "--profiler", "torch", "--", *words)
    (loss,) = (line for line in alone.splitlines() if line.startswith("loss"))
    assert loss in done.stdout
    seen = ranges(tmp_path / "run" / "trace.json.gz", tmp_path / "x.duckdb")
    layer = "PeftModel/model/layers.0/self_attn/q_proj"
    assert seen["optimizer"] == 3 and seen["data"] >= 6
    for path in (f"forward/{layer}/base", f"forward/{layer}/lora_A/default", f"backward/{layer}/lora_B/default"):
        assert seen[path] == 6
    with opened(tmp_path / "run" / "trace.json.gz", db=tmp_path / "y.duckdb") as database:
        rows = database.rows("select data_ns > 0, forward_ns > 0, backward_ns > 0, optimizer_ns > 0 from step_summary")
    assert rows == [(True, True, True, True)] * 2


def test_lightning_shows_its_phases_without_an_edit(script: Callable[[str], Path], tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    words = [sys.executable, str(script(LIGHTNING))]
    alone = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, check=True).stdout
    done = collect(tmp_path / "run", "--profiler", "torch", "--", *words)
    losses = [line for line in alone.splitlines() if line.startswith("loss")]
    assert losses and [line for line in done.stdout.splitlines() if line.startswith("loss")] == losses
    with opened(tmp_path / "run", db=tmp_path / "y.duckdb") as database:
        rows = database.rows("select forward_ns > 0, backward_ns > 0, optimizer_ns > 0 from step_summary")
    assert rows == [(True, True, True)] * 3


@pytest.mark.parametrize("pass_name", ["torch", pytest.param("memory", marks=SLOW), pytest.param("timing", marks=SLOW)])
@pytest.mark.slow
def test_what_a_script_may_do_it_may_do_while_it_is_watched(
    pass_name: str, script: Callable[[str], Path], tmp_path: Path
) -> None:
    words = [sys.executable, str(script(LAWFUL)), str(tmp_path / "model.pt")]
    alone = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert alone.returncode == 3 and "alive [False, False]" in alone.stdout, alone.stderr
    done = collect(tmp_path / "run", "--profiler", pass_name, "--", *words, code=7)
    assert alone.stdout in done.stdout
    if pass_name == "torch":  # the thread's steps, too
        with opened(tmp_path / "run" / "trace.json.gz", db=tmp_path / "x.duckdb") as database:
            assert database.rows("select count(*) from step_summary") >= [(19,)]


@pytest.mark.slow
def test_a_step_whose_gradients_overflow_is_one(script: Callable[[str], Path], tmp_path: Path) -> None:
    loop = LAWFUL[LAWFUL.index("scaler =") : LAWFUL.index('print("scale')]
    text = f"import torch\nmodel = torch.nn.Linear(4, 4)\n{loop}"
    collect(tmp_path / "run", "--profiler", "timing", "--", sys.executable, script(text))
    assert rundir.read_summary(tmp_path / "run")["step_cnt"] == 3  # and one to warm up


@pytest.mark.slow
def test_the_timing_pass_knows_what_steps_wait_for_their_loader(script: Callable[[str], Path], tmp_path: Path) -> None:
    """Batches of the training, which takes two a step: those of an evaluation now and then are none of them."""
    collect(tmp_path / "run", "--profiler", "timing", "--", sys.executable, script(EVALUATING))
    loader = rundir.read_summary(tmp_path / "run")["loader"]
    assert (loader["batch_cnt"], loader["worker_cnt"]) == (2, 0)
    assert loader["core_cnt"] == len(os.sched_getaffinity(0))
    assert 60e6 < loader["waited_ns"] < loader["step_ns"]
    assert 0 < loader["own_ns"] < loader["step_ns"] - 0.9 * loader["waited_ns"]


IN_16 = """
import torch
class Inner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)
    def forward(self, x):
        return self.inner(x)
class Outer(Inner):
    def forward(self, x):  # as Accelerate does it: nothing is set around the call of the model
        with torch.autocast("cpu", torch.bfloat16):
            return self.inner(x)
model = Outer()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    model(torch.ones(2, 4)).float().sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize("weights", ["float32", "bfloat16"])
@pytest.mark.slow
def test_the_timing_pass_knows_of_16_bits(weights: str, script: Callable[[str], Path], tmp_path: Path) -> None:
    text = IN_16
    if weights == "bfloat16":
        text = text.replace("Outer()", "Inner().bfloat16()").replace("(2, 4)", "(2, 4).bfloat16()")
    collect(tmp_path / "run", "--profiler", "timing", "--", sys.executable, script(text))
    summary = rundir.read_summary(tmp_path / "run")
    assert summary["is_16bit"] is True and summary["cpu_has_bfloat16"] in (True, False)


@pytest.mark.parametrize("slow", [0, 1])
@pytest.mark.slow
def test_of_ranks_the_loader_counts_that_all_wait_for(slow: int, script: Callable[[str], Path], tmp_path: Path) -> None:
    loads = f"for n, _ in enumerate(torch.utils.data.DataLoader(Slow() if rank == {slow} else range(9))):"
    asleep = "import time\nclass Slow(list):\n    def __init__(self): super().__init__(range(9))\n"
    asleep += "    def __getitem__(self, n): time.sleep(0.05); return n\n"
    text = DISTRIBUTED.replace("    for n in range(3):", f"    {loads}").replace("def main(", f"{asleep}def main(")
    collect(tmp_path / "run", "--profiler", "timing", "--", sys.executable, script(text), "fork", tmp_path)
    loader = rundir.read_summary(tmp_path / "run")["loader"]
    assert loader["rank"] == slow and loader["waited_ns"] > 45e6


PADDED = """
import sys, torch
from torch.utils.data import DataLoader
model, where = torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Linear(4, 1)), sys.argv[1]

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = model
    def forward(self, input_ids, attention_mask):
        return (self.inner(input_ids)[..., 0] * attention_mask).square().mean()

def collated(lengths):
    ids = torch.ones(len(lengths), 10, dtype=torch.long)
    mask = (torch.arange(10) < torch.tensor(lengths)[:, None]).to(torch.bool if where == "bool" else torch.long)
    return dict(input_ids=ids, attention_mask=mask)

outer = Model()
optimizer = torch.optim.SGD(outer.parameters(), lr=0.1)
batches = [collated([2, 3, 5]) for _ in range(8)]
if where == "loader":
    batches = DataLoader([2, 3, 5] * 8, batch_size=3, collate_fn=collated)
for number, batch in enumerate(batches):
    (outer(**batch) / 2).backward()
    if number % 2:
        optimizer.step()
        optimizer.zero_grad()
    if number % 4 == 3:
        outer.eval()
        with torch.no_grad():
            outer(**collated([10, 10, 10]))
        outer.train()
"""


@pytest.mark.parametrize("where", quick(2, ["loader", "bool", "forward"]))
@pytest.mark.slow
def test_the_timing_pass_counts_padding_and_micro_steps(
    where: str, script: Callable[[str], Path], tmp_path: Path
) -> None:
    """Of batches as loaders deliver them, else as the model gets them; what an evaluation gets does not count."""
    done = collect(tmp_path / "run", "--profiler", "timing,torch", "--", sys.executable, script(PADDED), where)
    summary = rundir.read_summary(tmp_path / "run")
    assert summary["padding"] == {"token_cnt": 60, "real_token_cnt": 20, "longest_token_cnt": 30}
    assert summary["micro_step_cnt"] == 2
    assert summary["tokens_per_s"]["non_padding"] == pytest.approx(summary["tokens_per_s"]["computed"] / 3)
    assert "(67% padding)" in done.stderr
    with opened(tmp_path / "run" / "trace.json.gz", db=tmp_path / "x.duckdb") as database:
        ((place, evidence, saving, length),) = database.rows(
            "select place, evidence, saving_ns, end_ns - start_ns from finding join _steady_time using (source_id) "
            "where rule = 'padding'"
        )
        assert not database.rows("from name where text = 'aten::ne'"), "what counts is not recorded"
        ((evaluated,),) = database.rows("select cpu_ns from phase_summary where phase = 'no_grad'")
    assert evaluated > 0 and summary["is_16bit"] is False
    assert place == "all batches" and 0 < saving < length
    assert evidence == "67 % of 60 tokens a step are padding; it would be 33 % if each batch were padded to its longest"


@pytest.mark.slow
def test_what_a_scripts_memory_is_for_is_known_of_weights_gradients_and_optimizers(
    script: Callable[[str], Path], tmp_path: Path
) -> None:
    collect(tmp_path / "run", "--profiler", "memory", "--", sys.executable, script(KNOWN))
    with opened(tmp_path / "run" / "memory.json.gz", db=tmp_path / "x.duckdb") as database:
        found = {
            (category, adapter): (count, size, is_exact)
            for category, adapter, count, size, is_exact in database.rows(
                """select category, adapter, count(*), sum(bytes)::bigint, bool_and(basis = 'exact') from _memory_block
                where category in ('parameter', 'adapter_parameter', 'gradient', 'optimizer_state') group by all"""
            )
        }
    adapter = 4 * 256 * 32
    assert found == {
        ("parameter", None): (4, 4 * (256 * 128 + 128 + 128 * 64 + 64), True),
        ("adapter_parameter", "mine"): (1, adapter, True),
        ("gradient", "mine"): (6, 6 * adapter, True),
        ("optimizer_state", "mine"): (1, adapter, True),
    }


@pytest.mark.parametrize(
    ("how", "pass_name"), quick(2, [("fork", "torch"), ("spawn", "memory"), ("spawn", "torch"), ("fork", "memory")])
)
@pytest.mark.slow
def test_loaders_do_not_fill_their_memory_with_what_they_do(
    how: str, pass_name: str, script: Callable[[str], Path], tmp_path: Path
) -> None:
    done = collect(tmp_path / "run", "--profiler", pass_name, "--", sys.executable, script(WORKERS), how)
    (grown,) = (float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("grew"))
    assert grown < 50  # 500 and more if each of their operators is kept
    assert "was ended by a signal" not in done.stderr


def test_a_rank_that_was_killed_is_named_by_what_started_it() -> None:
    """The exception of torchrun says nothing in its first line."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

    failure = ProcessFailure(local_rank=1, pid=7, exitcode=-9, error_file="<NA>")
    error = ChildFailedError("train.py", {1: failure})
    said = hook.said_of(type(error), error)
    assert said.endswith("ChildFailedError: rank 1: Signal 9 (SIGKILL) received by PID 7")
    assert hook.said_of(ValueError, ValueError("a\nb")) == "ValueError: a"


@pytest.mark.parametrize(
    "options", [["--profiler", "timing"], ["--profiler", "torch", "--active-steps", 1, "--repeat", 0]], ids=len
)
@pytest.mark.slow
def test_a_crash_is_told_what_helps_and_not_what_was_done(
    options: list[Any], script: Callable[[str], Path], tmp_path: Path
) -> None:
    text = ENDS.split("how =", maxsplit=1)[0] + "os.kill(os.getpid(), signal.SIGKILL)\n"
    done = collect(tmp_path / "run", *options, "--", sys.executable, script(text), code=7)
    said = "--profiler torch --active-steps 1 --repeat 0 writes a trace after each step"
    assert "was ended by a signal" in done.stderr
    assert (said in done.stderr) is ("timing" in options) and ("--active-steps" in done.stderr) is ("timing" in options)


@pytest.mark.parametrize("profiler", ["torch", "timing"])
@pytest.mark.slow
def test_ctrl_c_reaches_a_script_as_at_a_terminal(profiler: str, script: Callable[[str], Path], tmp_path: Path) -> None:
    """And what was measured until then is kept."""
    words = [sys.executable, "-m", "lorabench", "collect", "-o", tmp_path / "run", "--profiler", profiler, "--"]
    process = subprocess.Popen(
        [*map(str, words), sys.executable, str(script(INTERRUPTED))], env=ENVIRONMENT, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert any("training" in line for line in process.stdout)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[0] == "saved\n"
    assert process.returncode == 130 and rundir.read_manifest(tmp_path / "run")["status"] == "cancelled"
    assert traces(tmp_path / "run") == ({"trace.json.gz"} if profiler == "torch" else set())
    assert profiler == "torch" or rundir.read_summary(tmp_path / "run")["step_cnt"] >= 4
    assert len((tmp_path / "run" / rundir.STEPS).read_text("utf-8").splitlines()) >= 5


@pytest.mark.long
def test_a_model_that_a_script_saves_is_loaded_without_lorabench(script: Callable[[str], Path], tmp_path: Path) -> None:
    text = ENDS.split("how =", maxsplit=1)[0] + "torch.save(torch.nn.Sequential(model), sys.argv[1])\n"
    collect(tmp_path / "run", "--profiler", "torch", "--", sys.executable, script(text), tmp_path / "model.pt")
    assert ranges(tmp_path / "run" / "trace.json.gz", tmp_path / "x.duckdb")["forward/Linear"] == 3
    load = "import sys, torch; print(torch.load(sys.argv[1], weights_only=False))"
    subprocess.run([sys.executable, "-c", load, tmp_path / "model.pt"], env=ENVIRONMENT, check=True)


@pytest.mark.slow
def test_loaders_that_fork_are_no_processes_of_their_own(script: Callable[[str], Path], tmp_path: Path) -> None:
    path = script(PLAIN.replace("batch_size=4", "batch_size=4, num_workers=2"))
    collect(tmp_path / "run", "--profiler", "torch", "--", sys.executable, path, 3)
    assert traces(tmp_path / "run") == {"trace.json.gz"}


@pytest.mark.long
def test_a_part_of_a_script_is_recorded_by_a_context_manager(script: Callable[[str], Path], tmp_path: Path) -> None:
    def run(how: str) -> str:
        words = [sys.executable, script(INSIDE), how, tmp_path / how]
        return subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, check=False).stdout

    assert run("alone") == run("whole") == run("schedule") == run("error") != ""
    assert traces(tmp_path / "whole") == {"trace.json.gz"}
    assert ranges(tmp_path / "whole" / "trace.json.gz", tmp_path / "x.duckdb")["Sequential/0"] == 6
    assert traces(tmp_path / "schedule") == {"trace-1.json.gz", "trace-2.json.gz"}
    assert rundir.read_summary(tmp_path / "schedule")["step_wall_ns"]["p50"] > 0  # of the two that were left alone
    manifest = rundir.read_manifest(tmp_path / "error")
    assert (manifest["status"], manifest["message"]) == ("failed", "ValueError: the reason")
    assert traces(tmp_path / "error") == {"trace.json.gz"}


IN_PARTS = """
import sys, torch, lorabench, lorabench.errors
model = torch.nn.Linear(8, 8)
folder = sys.argv[1]
with lorabench.profile(f"{folder}/run", schedule=dict(wait=3, warmup=1, active=2)) as run:
    for _ in range(6):
        model(torch.ones(2, 8)).sum().backward()
        run.step()
    try:
        with lorabench.profile(f"{folder}/inner"):
            pass
    except lorabench.errors.LorabenchError as error:
        print("refused:", error)
with lorabench.profile(f"{folder}/short", schedule=dict(wait=3, warmup=1, active=2)) as run:
    run.step()
try:
    lorabench.profile(f"{folder}/wrong", schedule=dict(wat=1))
except lorabench.errors.LorabenchError as error:
    print("refused:", error)
"""


@pytest.mark.slow
def test_a_part_of_a_script_that_is_recorded_by_a_schedule(
    script: Callable[[str], Path], tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    words = [sys.executable, script(IN_PARTS), tmp_path]
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert "refused: a lorabench.profile() to " in done.stdout and "one profiler at a time" in done.stdout
    assert "refused: schedule {'wat': 1}: " in done.stdout
    assert "short: the schedule recorded no step; call .step() at the end of each" in done.stderr
    assert "has no trace: the schedule recorded no step" in run_command("summary", tmp_path / "short", code=3).err
    rows = list(csv.DictReader((tmp_path / "run" / "steps.csv").open(encoding="utf-8")))
    with opened(tmp_path / "run", db=tmp_path / "x.duckdb") as database:
        recorded = database.rows("select step from step_summary order by step")
    assert [(row["pass"], row["step"]) for row in rows] == [("timing", "1"), ("timing", "2"), ("torch", "5")]
    assert {(5,)} <= set(recorded)


@pytest.mark.long
def test_ranks_that_record_a_part_of_themselves_share_a_run_directory(
    script: Callable[[str], Path], tmp_path: Path
) -> None:
    text = DISTRIBUTED.replace(
        "    for n", "    with lorabench.profile(f'{folder}/run', model=model) as run:\n     for n"
    )
    path = script("import lorabench\n" + text)
    words = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone", path, "torchrun"]
    subprocess.run([*words, tmp_path], env=ENVIRONMENT, check=True, capture_output=True)
    assert traces(tmp_path / "run") == {"trace-rank0.json.gz", "trace-rank1.json.gz"}
    assert not list(tmp_path.glob(".run*"))


@pytest.mark.long
@pytest.mark.parametrize(("package", "text"), [("transformers", TRAINER), ("trl", SFT), ("lightning", LIGHTNING)])
def test_callbacks_leave_a_run_directory_and_the_losses_as_they_are(
    package: str, text: str, script: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    name = "LightningCallback" if package == "lightning" else "TrainerCallback"
    callback = f"callbacks=[lorabench.integrations.{name}('run')], "
    edited = text.replace("max_steps=4, acc", f"max_steps=4, {callback}acc").replace(
        "train_dataset=", f"{callback}train_dataset="
    )

    def losses(text: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, script(text)], env=ENVIRONMENT, capture_output=True, text=True, check=True
        )
        return [line for line in done.stdout.splitlines() if line.startswith("loss")]

    assert losses(text) == losses("import lorabench.integrations\n" + edited) != []
    with opened(tmp_path / "run", db=tmp_path / "x.duckdb") as database:
        rows = database.rows("select found_by, forward_ns > 0, backward_ns > 0, optimizer_ns > 0 from step_summary")
    assert rows == [("annotation", True, True, True)] * (4 if package == "lightning" else 3)


@pytest.mark.long
def test_a_training_that_fails_under_a_callback_leaves_a_run_that_says_so(
    script: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    text = TRAINER.replace("trainer = ", "for item in data:\n    item['input_ids'][0] = 999\ntrainer = ").replace(
        "train_dataset=", "callbacks=[lorabench.integrations.TrainerCallback('run')], train_dataset="
    )
    words = [sys.executable, script("import lorabench.integrations\n" + text)]
    assert subprocess.run(words, env=ENVIRONMENT, capture_output=True, check=False).returncode == 1
    manifest = rundir.read_manifest(tmp_path / "run")
    assert manifest["status"] == "failed" and manifest["message"].startswith("IndexError: ")
