"""Every way in which people start a training, and every kind of training of lorabench's own, under all passes.

With --long only: some 20 seconds a row. test_scripts.py and test_session.py try a few of them always.
"""

import csv
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import venv
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import opened
from lorabench import nsys as tools
from lorabench import rundir
from lorabench.collect.run.sweep import PRESETS as SWEEPS
from lorabench.collect.settings import parallelism
from lorabench.collect.settings.kinds import KINDS
from lorabench.collect.settings.presets import PRESETS
from processes import left_alive, mark
from training_scripts import (
    ACCELERATE,
    BACKGROUND,
    CHILDREN,
    DISTRIBUTED,
    ENDS,
    INSIDE,
    LIGHTNING,
    OWN_PROFILER,
    PLAIN,
    SFT,
    TRAINER,
)

pytest.importorskip("torch")
pytest.importorskip("peft")
pytestmark = pytest.mark.long

PHASES = ("forward", "backward", "optimizer")
RECORDINGS = {"torch": "trace*.json.gz", "memory": "memory*.json.gz", "nsys": "run.sqlite"}
ALL = ("timing", "torch", *(["nsys"] if tools.find() else []), "memory")


@dataclass(frozen=True)
class Row:
    """A command as somebody types it, what it trains, and how it ends.

    In words {python}, {script} and {folder} stand for themselves, {bin} for a folder of console scripts, {other} for
    the Python of an environment without lorabench.
    """

    text: str
    words: str = "{python} {script}"
    steps: int = 3  # optimizer steps of each process that trains
    ranks: tuple[int | None, ...] = (None,)
    lost: int = 0  # of the steps those that no trace has, while the script's own profiler warms up
    code: int = 0
    passes: tuple[str, ...] = ALL
    says: str = ""
    needs: str = ""
    unseen: str = ""  # why nsys sees nothing of it
    is_cut: bool = False  # a signal or os._exit takes the end of what was recorded along


TORCHRUN = "--nproc-per-node=2 --standalone {script} torchrun {folder}"
ROWS = {
    "plain": Row(PLAIN, "{python} {script} 4", 4),
    "options": Row(PLAIN, "{python} -u -W ignore {script} 4", 4),
    "shell": Row(PLAIN, 'sh -c "cd / && {python} {script} 4"', 4),
    "console-script": Row(PLAIN, "{bin}/train 4", 4),
    "another-environment": Row(PLAIN, "{other} {script} 4", 4),
    "own-torch.profiler": Row(OWN_PROFILER, "{python} {script} torch.profiler {folder}/own.json", 9, lost=1),
    "own-autograd.profiler": Row(OWN_PROFILER, "{python} {script} autograd.profiler", 9),
    "torch.distributed.run": Row(DISTRIBUTED, "{python} -m torch.distributed.run " + TORCHRUN, ranks=(0, 1)),
    "torchrun": Row(DISTRIBUTED, "{bin}/torchrun " + TORCHRUN, ranks=(0, 1)),
    "spawn": Row(DISTRIBUTED, "{python} {script} spawn {folder}", ranks=(0, 1)),
    "fork": Row(
        DISTRIBUTED, "{python} {script} fork {folder}", ranks=(0, 1), unseen="nsys does not follow processes that are",
    ),
    "children": Row(CHILDREN, "{python} {script} {folder}/plain.py", 4, ranks=(None, None)),
    # on a CPU it starts several processes by MPI alone
    "accelerate-launch": Row(ACCELERATE, "{bin}/accelerate launch --cpu --num_processes 1 {script}", 8),
    "hf-trainer": Row(TRAINER),
    "trl": Row(SFT, needs="trl"),
    "lightning": Row(LIGHTNING, steps=4, needs="lightning"),
    "background": Row(BACKGROUND, "{python} {script} 4", 4),
    "raises": Row(ENDS, "{python} {script} raise", code=7, passes=("torch",), says="ValueError: the reason"),
    "os._exit": Row(ENDS, "{python} {script} _exit", code=7, passes=("torch",), says="exit code 4: the last words"),
    "os._exit-nsys": Row(
        ENDS, "{python} {script} _exit", code=7, passes=("nsys",), is_cut=True, says="nsys loses what it has not"
    ),
    "SIGTERM": Row(ENDS, "{python} {script} SIGTERM", code=7, passes=("memory",), says="died of signal 15"),
    "SIGSEGV": Row(
        ENDS, "{python} {script} SIGSEGV", steps=2, code=7, passes=("timing",), is_cut=True, says="died of signal 11"
    ),
}  # fmt: skip


@pytest.fixture
def words_of(tmp_path: Path) -> Callable[[Row], list[str]]:
    """The command of a row, and what it needs in a folder."""

    def make(row: Row) -> list[str]:
        script = tmp_path / "train.py"
        script.write_text(row.text, "utf-8")
        (tmp_path / "plain.py").write_text(PLAIN, "utf-8")
        places = {"python": sys.executable, "script": script, "folder": tmp_path, "bin": tmp_path / "bin"}
        if "{bin}" in row.words:
            console_scripts(tmp_path / "bin", row.text)
        if "{other}" in row.words:
            places["other"] = other_python(tmp_path / "other")
        return shlex.split(row.words.format(**places))

    return make


def console_scripts(folder: Path, text: str) -> None:
    """As pip writes them."""
    folder.mkdir()
    texts = {
        "train": text,
        "torchrun": "from torch.distributed.run import main\nmain()\n",
        "accelerate": "from accelerate.commands.accelerate_cli import main\nmain()\n",
    }
    for name, own in texts.items():
        (folder / name).write_text(f"#!{sys.executable}\n{own}", "utf-8")
        (folder / name).chmod(0o755)


def other_python(folder: Path) -> Path:
    """The Python of an environment that has all packages of this one but lorabench."""
    import torch

    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    for path in Path(torch.__file__).parent.parent.iterdir():
        if "lorabench" not in path.name and not path.name.endswith(".pth"):
            (site / path.name).symlink_to(path)
    return folder / "bin" / "python"


def environment(folder: Path) -> dict[str, str]:
    usual = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}  # it cuts lines
    return usual | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"} | mark(folder)


def collect(folder: Path, *words: object, code: int = 0) -> str:
    """What is said of a run in FOLDER/run, which leaves no process."""
    done = subprocess.run(
        [sys.executable, "-m", "lorabench", "collect", "-o", "run", *map(str, words)],
        cwd=folder, env=environment(folder), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert left_alive(folder) == {}
    return done.stderr


def losses(said: str) -> list[str]:
    """What a script prints of its losses; another process, or torch's profiler, may have begun the line."""
    return sorted(re.findall(r"loss .*$", said, re.MULTILINE))


def losses_alone(words: list[str], folder: Path) -> list[str]:
    """The losses of a command that nobody watches."""
    with (folder / "alone").open("wb") as stream:  # a pipe would be held by what stays in the background
        subprocess.run(words, cwd=folder, env=environment(folder), stdout=stream, stderr=-3, check=False)
    for number in left_alive(folder):
        os.kill(number, signal.SIGKILL)
    found = losses((folder / "alone").read_text("utf-8"))
    assert found
    return found


@pytest.mark.parametrize("name", ROWS)
def test_any_script_is_profiled_by_all_passes_as_it_is(
    name: str, words_of: Callable[[Row], list[str]], run_command: Callable[..., Any], tmp_path: Path
) -> None:
    row, run = ROWS[name], tmp_path / "run"
    if row.needs:
        pytest.importorskip(row.needs)
    words = words_of(row)
    alone = losses_alone(words, tmp_path)
    said = collect(tmp_path, "--profiler", ",".join(row.passes), "--", *words, code=row.code)
    manifest = rundir.read_manifest(run)
    assert row.says in said and (row.code != 0) == (manifest["message"] is not None)
    states = dict.fromkeys(row.passes, rundir.FAILED if row.code else rundir.OK)
    if row.unseen and "nsys" in states:
        states["nsys"] = rundir.SKIPPED
    assert {n: s["status"] for n, s in manifest["passes"].items()} == states and row.unseen in said, said
    for pass_name in row.passes:
        assert losses((run / rundir.LOGS / f"{pass_name}.log").read_text("utf-8")) == alone, pass_name
    if "timing" in row.passes:
        processes = rundir.read_summary(run)["processes"]
        assert [(p["rank"], p["step_cnt"]) for p in processes] == [(rank, row.steps) for rank in row.ranks]
    for pass_name in [name for name in row.passes if name in RECORDINGS and states[name] != rundir.SKIPPED]:
        phases, steps, ranks = recorded(run, pass_name, tmp_path)
        wanted = (row.steps - (0 if pass_name == "nsys" else row.lost)) * len(row.ranks)
        if row.is_cut:
            continue
        assert phases["optimizer"] == wanted, (pass_name, phases)
        assert min(phases["forward"], phases["backward"]) >= wanted, (pass_name, phases)
        assert ranks == set(row.ranks) or pass_name == "nsys"  # all processes are in one file
        assert steps
    is_read(run, row.passes, run_command)


def recorded(run: Path, pass_name: str, folder: Path) -> tuple[Counter[str], list[Any], set[int | None]]:
    """What the recordings of a pass say: how often a phase ran, the steps with their phases, ranks."""
    files = sorted(run.glob(RECORDINGS[pass_name]))
    assert files, pass_name
    phases: Counter[str] = Counter()
    with opened(*files, db=folder / f"{pass_name}.duckdb") as database:
        for path, count in database.rows("select path, range_cnt from range_summary where kind = 'annotation'"):
            phases[path.split("/")[-1]] += count
        steps = database.rows(
            "select step from step_summary where forward_ns > 0 and backward_ns > 0 and optimizer_ns > 0"
        )
        ranks = {rank for (rank,) in database.rows("select rank from source")}
        assert database.rows("select count(*) > 0 from memory_event") == [(pass_name == "memory",)]
    return phases, steps, ranks


def is_read(run: Path, passes: tuple[str, ...], run_command: Callable[..., Any]) -> None:
    """A run is analyzed and compared."""
    if set(passes) & set(RECORDINGS):
        run_command("analyze", run, "-o", run.parent / "ranges.csv")
        rows = list(csv.DictReader((run.parent / "ranges.csv").read_text("utf-8").splitlines()))
        assert any(row["path"].split("/")[-1] == "backward" for row in rows)
    by = (
        () if "timing" in passes else ("--by", "range")
    )  # without it of lorabench's own runs memory alone is comparable
    assert ("backward" if by else "step, median") in run_command("compare", run, run, *by).out


OWN = {
    "default": "",
    "4 adapters in turn": "--lora-cnt 4 --peft-mode switch",
    "one after another": "--lora-cnt 2 --peft-mode seq",
    "BatchLoRA": "--lora-cnt 4 --peft-mode batch --rank 2,4,4,8 --lengths uniform",
    "BatchLoRA, loop": "--lora-cnt 2 --peft-mode batch --batch-operator loop",
    "processes": "--lora-cnt 2 --peft-mode process",
    "full": "--method full",
    "qlora": "--method qlora",
    "int8": "--quant int8",
    "checkpointing": "--gradient-checkpointing attn-mlp",
    "compiled": "--compile inductor",
    "--trainer sft": "--trainer sft",
    "--trainer sft qlora": "--trainer sft --method qlora",
    "saved batch": "--batch batch.pt",
    "--profile": "--profile --export-memory-timeline",
    "micro batches": "--grad-accum 2 --profiler-step micro",
    "chunked loss": "--loss chunked",
    "packing": "--lengths uniform --packing",
    **{f"--task sst2 {m}".strip(): f"--task sst2 --epochs 1 --method {m}" for m in ("full", "qlora")},
    "--task sst2": "--task sst2 --epochs 1",
    "--task sst2, a decoder": "--task sst2 --epochs 1 --model tiny",
    "--task sst2, compiled": "--task sst2 --epochs 1 --compile inductor",
    **{f"--adapter-kind {kind}": f"--adapter-kind {kind}" for kind in KINDS if kind != "lora"},
    **{f"--parallel {kind}": f"--parallel {kind} --lora-cnt 2" for kind in parallelism.KINDS},
    **{f"--model {name}": f"--model {name} --dtype bfloat16" for name in PRESETS if name != "tiny"},
}
# what memory of a usual machine holds; larger ones were tried on a GPU
_LARGE = ("llama-2-7b", "llama-2-13b", "qwen2.5-7b", "mistral-7b")


@pytest.mark.parametrize("name", OWN)
def test_each_training_is_measured_by_all_passes(name: str, run_command: Callable[..., Any], tmp_path: Path) -> None:
    if any(model in name for model in _LARGE):
        pytest.skip("7 and 13 billion parameters of a CPU: more memory than most machines have")
    run, words = tmp_path / "run", shlex.split(OWN[name])
    if "--profile" in words:
        passes, steps = ("torch", "memory"), 10
    else:
        passes, steps = ALL, 2
        words += ["--steps", str(steps), "--profiler", ",".join(passes)]
    if "--batch" in words:
        save_batch(tmp_path / "batch.pt")
    else:
        words += ["--seq-len", "16", "--batch-size", "2"]
    said = collect(tmp_path, *words, "--warmup", 1, "--device", "cpu")
    manifest, summary = rundir.read_manifest(run), rundir.read_summary(run)
    assert {n: s["status"] for n, s in manifest["passes"].items()} == dict.fromkeys(passes, rundir.OK), said
    assert summary["is_same_in_all_passes"] is True and ("step_wall_ns" in summary) == ("timing" in passes)
    rows = list(csv.DictReader((run / rundir.STEPS).read_text("utf-8").splitlines()))
    assert all(math.isfinite(float(row["loss"])) for row in rows)
    for pass_name in [name for name in passes if name in RECORDINGS]:
        assert len({row["step"] for row in rows if row["pass"] == pass_name}) == steps
        phases, found, ranks = recorded(run, pass_name, tmp_path)
        assert all(phases[phase] for phase in PHASES) and found, (pass_name, phases)
        assert ranks == ({0, 1} if "--parallel" in words and pass_name != "nsys" else {None})
    is_read(run, passes, run_command)


def save_batch(path: Path) -> None:
    import torch

    ids = torch.randint(256, (2, 16), generator=torch.Generator().manual_seed(0))
    torch.save({"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}, path)


@pytest.mark.parametrize(
    ("name", "smaller", "cells"),
    [
        ("paper", "--lora-cnt 1,2 --seq-len 16 --batch-size 2 --steps 1", 4),
        ("memory", "--rank 4,8 --seq-len 16 --steps 1", 9),
        ("paper-scale", "--seq-len 16 --batch-size 2 --lora-cnt 2 --devices 2 --rank 4 --steps 1", 5),
    ],
)
def test_each_sweep_with_a_name_is_measured(
    name: str, smaller: str, cells: int, run_command: Callable[..., Any], tmp_path: Path
) -> None:
    assert set(SWEEPS) == {"paper", "memory", "paper-scale"}
    words = ["sweep", "--preset", name, *shlex.split(smaller), "--model", "tiny", "--warmup", "1", "--device", "cpu"]
    subprocess.run(
        [sys.executable, "-m", "lorabench", *words, "-o", "sweep"], cwd=tmp_path, env=environment(tmp_path), check=True
    )
    assert left_alive(tmp_path) == {}
    rows = list(csv.DictReader((tmp_path / "sweep" / "results.csv").read_text("utf-8").splitlines()))
    assert len(rows) == cells and {row["status"] for row in rows} == {"ok"}
    assert (tmp_path / "sweep" / "sweep.html").stat().st_size > 10_000


@pytest.mark.parametrize("how", ["whole", "schedule", "error"])
def test_a_part_of_a_script_is_analysed_and_compared(how: str, run_command: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(INSIDE, "utf-8")
    words = [sys.executable, "train.py"]
    alone, own = (
        subprocess.run(
            [*words, kind, "run"], cwd=tmp_path, env=environment(tmp_path), stdout=-1, stderr=-3, text=True, check=False
        ).stdout
        for kind in ("alone", how)
    )  # fmt: skip
    assert losses(own) == losses(alone) != [] and left_alive(tmp_path) == {}
    assert rundir.read_manifest(tmp_path / "run")["status"] == ("failed" if how == "error" else "ok")
    phases, _, _ = recorded(tmp_path / "run", "torch", tmp_path)
    assert phases["backward"] == (2 if how == "schedule" else 6)
    run_command("analyze", tmp_path / "run", "-o", tmp_path / "ranges.csv")
    assert run_command("compare", tmp_path / "run", tmp_path / "run").out
