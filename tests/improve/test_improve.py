"""`lorabench improve` from a run directory to the settings that won, on a CPU whose rules are written down."""

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Ended
from lorabench import rundir
from lorabench.collect.improve.loading import TAKEN_NS
from lorabench.collect.run import session
from lorabench.collect.settings.spec import RunSpec, from_dict, read_config
from lorabench.errors import Interrupted, RunError
from simulated_cpu import Program, with_zero_calls

ADAPTERS = 4
LAYER = (400, 90, 700)
FORWARD = (400, 0, 90, 1500, 30, 700, 300, 0, 60)
WIDTH = 0.02  # of steps, in which they differ

BATCH = RunSpec(lora_cnt=ADAPTERS, peft_mode="batch", steps=6)

Run = Callable[..., Ended]


@dataclass
class Machine:
    """Leaves run directories as collect does, of a program on the CPU of simulated_cpu."""

    ran: list[str] = field(default_factory=list)
    fails: dict[str, str] = field(default_factory=dict)  # name of a run, and how it ends
    interrupted: str = ""

    def __call__(self, spec: RunSpec, path: Path, force: bool, listener: Any) -> None:
        if self.interrupted and self.interrupted in path.name:
            self.interrupted = ""
            raise Interrupted("interrupted")
        self.ran.append(path.name)
        directory = rundir.RunDirectory(path, force)
        failure = next((message for name, message in self.fails.items() if name in path.name), None)
        if failure:
            directory.write_json(rundir.SUMMARY, {"pass_wall_s": {"timing": 60.0}})
            directory.finish({"status": rundir.OOM, "message": failure, "spec": spec.as_dict()})
            raise RunError(failure)
        self._fill(spec, directory)
        directory.finish({"status": rundir.OK, "message": None, "spec": spec.as_dict()})

    def _fill(self, spec: RunSpec, directory: rundir.RunDirectory) -> None:
        program = program_of(spec)
        tasks = 1 if spec.peft_mode == "batch" else ADAPTERS
        step = program.step_ns()
        if spec.compile == "inductor":
            step = round(step * 1.4)
        rows, names = [], [f"adapter_{n}" for n in range(ADAPTERS)]
        for number in range(spec.steps):
            wall = round(step * (1 + WIDTH * (number % 3 - 1) / 2))
            for task in range(tasks):
                for name in names if tasks == 1 else names[task : task + 1]:
                    rows.append(
                        ("timing", number, name, number * 10**9 + task, wall, 5.5 - number / 10, 32, 32, 32, "")
                    )
        header = ("pass", "step", "adapter", "start_ns", "wall_ns", "loss", "computed_token_cnt", "token_cnt",
                  "trained_token_cnt", "rank")  # fmt: skip
        with (directory.partial / rundir.STEPS).open("w", newline="") as file:
            csv.writer(file).writerows([header, *rows])
        directory.write_json(
            rundir.SUMMARY,
            {
                "step_wall_ns": {"p50": step * tasks}, "tokens_per_s": {"non_padding": 32e9 / step * ADAPTERS / tasks},
                "peft_mode": spec.peft_mode, "device": {"type": "cpu"}, "pass_wall_s": {"timing": 60.0},
                "memory": {"steps": {"peak_resident_bytes": 400 * 2**20}},
                "input": {
                    "waited_frac": program.data_ns * program.rows // 10 / step,
                    "made_ns": ADAPTERS * (5_000 + spec.batch_delay_ms * 10**6),
                },
            },
        )  # fmt: skip
        if "torch" in spec.profiler:
            program.write(directory.partial / "trace.json.gz")


def program_of(spec: RunSpec) -> Program:
    """What the CPU does in a task with these settings."""
    program = with_zero_calls(Program(FORWARD, recomputed=LAYER if spec.gradient_checkpointing == "layer" else ()))
    program = replace(program, steps=spec.steps, data_ns=5_000 + spec.batch_delay_ms * 10**6)
    if spec.loader_workers:  # that keep up
        program = replace(program, data_ns=TAKEN_NS * 10 // program.rows)
    if spec.peft_mode != "batch":
        return program
    return replace(program, rows=program.rows * ADAPTERS, optimizers=ADAPTERS)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine()
    monkeypatch.setattr(session, "collect", found)
    return found


@pytest.fixture
def run(tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    spec = from_dict({"lora_cnt": ADAPTERS, "profiler": "timing,torch", "steps": 6})
    machine(spec, Path("run"), False, None)
    machine.ran.clear()
    return Path("run")


def rows_of(folder: str = "run-improved") -> dict[str, dict[str, str]]:
    return {row["change"]: row for row in csv.DictReader(Path(folder, "improve.csv").read_text("utf-8").splitlines())}


def test_it_finds_batch_by_itself_predicts_it_and_drops_a_compile_that_does_not_pay(
    run: Path, machine: Machine, run_command: Run
) -> None:
    said = run_command("improve", run, "--price-per-hour", 1.8).out
    rows = rows_of()
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "(start)": "", "batch": "kept", "checkpointing none": "kept", "compile": "dropped",
        "fused optimizer": "dropped", "1 loader worker": "not tried", "loop over adapters": "dropped",
        "bfloat16": "not tried",
    }  # fmt: skip
    assert abs(float(rows["batch"]["error_frac"])) < 0.05
    assert abs(float(rows["checkpointing none"]["error_frac"])) < 0.05
    assert rows["compile"]["why"] == "the step is 40.0% longer"
    assert machine.ran == [
        "00-start", "01-batch", "01-batch-against", "01-batch-again", "01-batch-passes", "02-checkpointing-none",
        "02-checkpointing-none-against", "02-checkpointing-none-again", "02-checkpointing-none-passes", "03-compile",
        "04-fused-optimizer", "05-loop-over-adapters",
    ]  # fmt: skip
    assert max(map(len, said.splitlines())) <= 80
    said = " ".join(said.split())
    assert "2 of 5 changes kept: batch, checkpointing none; nothing is left that promises a gain" in said
    assert "cost of a million tokens " in said and "losses: the same in every step" in said
    assert "lorabench collect --peft-mode batch --lora-cnt 4 --gradient-checkpointing none" in said
    spec = from_dict(read_config(Path("run-improved/run.toml")))
    assert (spec.peft_mode, spec.gradient_checkpointing, spec.steps) == ("batch", "none", 6)
    page = Path("run-improved/improve.html").read_text("utf-8")
    assert "Loss of each adapter" in page and "2 of 5 changes kept" in page


@pytest.mark.slow
def test_a_slow_loader_gets_as_many_workers_as_keep_up(machine: Machine, tmp_path: Path, run_command: Run) -> None:
    spec = from_dict({"lora_cnt": ADAPTERS, "profiler": "timing,torch", "steps": 6, "batch_delay_ms": 3})
    machine(spec, tmp_path / "slow", False, None)
    run_command("improve", tmp_path / "slow", "--rounds", 1)
    row = rows_of(str(tmp_path / "slow-improved"))["5 loader workers"]
    # 3 ms for a batch, and 1 ms for a step that is given one
    assert (row["round"], row["options"], row["verdict"]) == ("1", "--loader-workers 5", "kept")
    assert abs(float(row["error_frac"])) < 0.05
    assert rows_of(str(tmp_path / "slow-improved"))["6 loader workers"]["why"] == "no gain is predicted"
    assert "loader_workers = 5" in (tmp_path / "slow-improved/run.toml").read_text("utf-8")
    machine(replace(spec, loader_workers=2, profiler=("timing",)), tmp_path / "by-hand", False, None)
    said = run_command("improve", tmp_path / "slow", "--after", tmp_path / "by-hand", "--json").out
    _, held = json.loads(said)
    assert held["options"] == "--loader-workers 2"
    assert held["predicted_step_ns"] == pytest.approx(ADAPTERS * 3e6 / 2, rel=0.05)


def test_a_dry_run_lists_the_changes_and_runs_nothing(run: Path, machine: Machine, run_command: Run) -> None:
    lines = run_command("improve", run, "--dry-run").out.splitlines()
    assert machine.ran == [] and not Path("run-improved").exists()
    assert [line.split("  ")[2].strip() for line in lines if line[4:5].strip()] == [
        "change", "(start)", "batch", "checkpointing none", "1 loader worker", "compile", "fused optimizer", "bfloat16"
    ]  # fmt: skip


@pytest.mark.slow
def test_an_interrupted_one_goes_on_where_it_was_and_arrives_where_it_would_have(
    run: Path, machine: Machine, run_command: Run
) -> None:
    machine.interrupted = "01-batch-against"
    run_command("improve", run, "--rounds", 1, code=130)
    assert machine.ran == ["00-start", "01-batch"]
    said = run_command("improve", run, "--rounds", 1, "--json").out
    assert machine.ran == ["00-start", "01-batch", "01-batch-against", "01-batch-again", "01-batch-passes"]
    (row,) = [row for row in json.loads(said) if row["change"] == "batch"]
    assert row["verdict"] == "kept" and row["step_ns"] == pytest.approx(program_of(BATCH).step_ns(), rel=0.02)


@pytest.mark.slow
def test_a_round_that_runs_out_of_memory_is_a_row(run: Path, machine: Machine, run_command: Run) -> None:
    machine.fails["01-batch"] = "pass timing: out of memory (tried to allocate 9 GiB)"
    machine.fails["02-"] = "pass timing: it was killed"
    run_command("improve", run, "--rounds", 2)
    rows = rows_of()
    assert (rows["batch"]["verdict"], rows["checkpointing none"]["verdict"]) == ("failed", "failed")
    assert rows["batch"]["why"].startswith("pass timing: out of memory")
    machine.ran.clear()
    run_command("improve", run, "--rounds", 2)
    assert machine.ran == []  # nor is it tried again


def test_it_ends_when_the_budget_is_spent(run: Path, machine: Machine, run_command: Run) -> None:
    said = run_command("improve", run, "--budget", 3).out
    assert "--budget is spent" in said and machine.ran == [
        "00-start",
        "01-batch",
        "01-batch-against",
        "01-batch-again",
        "01-batch-passes",
    ]


def test_another_improvement_in_the_folder_is_refused(run: Path, run_command: Run) -> None:
    Path("run-improved").mkdir()
    Path("run-improved/improve.json").write_text('{"format": 1, "goal": "memory"}')
    assert "holds another improvement" in run_command("improve", run, code=2).err
    spec = from_dict({"lora_cnt": ADAPTERS, "profiler": "timing,torch", "steps": 6}).as_dict()
    begun = {"format": 1, "goal": "time", "allow_numerics": True, "spec": spec}
    Path("run-improved/improve.json").write_text(json.dumps(begun))
    assert "another improvement (--goal time --allow-numerics)" in run_command("improve", run, code=2).err
    Path("other").mkdir()
    Path("other/thesis.tex").write_text("mine")
    assert "is not an improvement" in run_command("improve", run, "-o", "other", code=2).err


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"steps": 2}, "measured 2 steps, of which no spread is known"),
        ({"task": "sst2"}, "runs in epochs"),
        ({"parallel": "ddp"}, "was not tried with runs on several devices"),
    ],
)
def test_runs_that_cannot_be_improved_are_refused(
    settings: dict[str, Any], why: str, machine: Machine, tmp_path: Path, run_command: Run
) -> None:
    directory = rundir.RunDirectory(tmp_path / "other", False)
    directory.write_json(rundir.SUMMARY, {})
    directory.finish({"status": rundir.OK, "message": None, "spec": from_dict(settings).as_dict()})
    assert why in run_command("improve", tmp_path / "other", code=2).err
    assert "must be one of time, memory, adapters" in run_command("improve", tmp_path, "--goal", "speed", code=2).err


def test_what_is_no_finished_run_is_said_to_be_none(tmp_path: Path, run_command: Run) -> None:
    (tmp_path / "run.sqlite").write_bytes(b"")
    assert "run.sqlite is a file; improve takes a run" in run_command("improve", tmp_path / "run.sqlite", code=3).err
    assert "is not there; improve takes a run" in run_command("improve", tmp_path / "nowhere", code=3).err
    directory = rundir.RunDirectory(tmp_path / "failed", False)
    directory.write_json(rundir.SUMMARY, {})
    failed = {"status": rundir.FAILED, "message": "no GPU is here"}
    passes = {"timing": failed}
    directory.finish(failed | {"spec": from_dict({"steps": 2}).as_dict(), "passes": passes})
    said = run_command("improve", tmp_path / "failed", code=3).err
    assert "has no whole timing pass to start from: it is failed (no GPU is here); collect it again" in said


def test_after_a_change_was_made_by_hand_the_prediction_is_held_against_it(
    run: Path, machine: Machine, run_command: Run
) -> None:
    spec = from_dict({"lora_cnt": ADAPTERS, "profiler": "timing", "steps": 6, "peft_mode": "batch"})
    machine(spec, Path("by-hand"), False, None)
    rows = json.loads(run_command("improve", run, "--after", "by-hand", "--json").out)
    assert [row["change"] for row in rows] == ["(start)", "batch"] and abs(rows[1]["error_frac"]) < 0.05
    machine(replace(spec, rank=(4,)), Path("other"), False, None)
    assert "differs from run by peft-mode, rank" in run_command("improve", run, "--after", "other", code=2).err


@pytest.mark.slow
def test_forced_it_measures_all_again_and_replaces_another_improvement(
    run: Path, machine: Machine, run_command: Run
) -> None:
    run_command("improve", run, "--rounds", 1)
    Path("run-improved/notes.txt").write_text("mine")
    ran = list(machine.ran)
    machine.ran.clear()
    run_command("improve", run, "--rounds", 1)
    assert machine.ran == []
    run_command("improve", run, "--rounds", 1, "--force")
    assert machine.ran == ran and Path("run-improved/notes.txt").read_text() == "mine"
    assert "another improvement" in run_command("improve", run, "--allow-numerics", code=2).err
    run_command("improve", run, "--rounds", 1, "--allow-numerics", "--force")
    Path("other").mkdir()
    Path("other/thesis.tex").write_text("mine")
    assert "is not an improvement" in run_command("improve", run, "-o", "other", "--force", code=2).err
    inside = Path("run-improved/01-batch-passes")
    said = run_command("improve", inside, "-o", "run-improved", "--force", code=2).err
    assert "which would be removed" in " ".join(said.split()) and inside.is_dir()


def test_options_that_do_nothing_are_refused(run: Path, machine: Machine, run_command: Run) -> None:
    assert "add --goal adapters" in run_command("improve", run, "--memory", 3, code=2).err
    assert "--after reads two runs" in run_command("improve", run, "--after", run, "--rounds", 2, code=2).err
    assert machine.ran == []
