"""`lorabench collect -- COMMAND` on what strangers tried: it works, or the line says what is true and what to type."""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import opened
from lorabench import rundir
from training_scripts import INSIDE, OWN_FOLDER, STEPS, THREAD, TRAINER

pytest.importorskip("torch")

ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
Write = Callable[[str], Path]


def collect(
    folder: Path, *words: object, code: int = 0, stdin: Any = subprocess.DEVNULL, **more: Any
) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        [sys.executable, "-m", "lorabench", "collect", "-o", folder / "run", "--no-report", *map(str, words)],
        env=ENVIRONMENT, capture_output=True, text=True, check=False, cwd=folder, stdin=stdin, **more,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done


def message(folder: Path, name: str) -> str:
    return str(rundir.read_manifest(folder / "run")["passes"][name]["message"])


@pytest.mark.slow
def test_a_script_that_records_a_part_of_itself_is_recorded_whole_in_each_pass(script: Write, tmp_path: Path) -> None:
    words = [sys.executable, script(INSIDE), "schedule", tmp_path / "part"]
    done = collect(tmp_path, "--profiler", "timing,torch", "--", *words)
    assert f"lorabench.profile('{tmp_path / 'part'}') records nothing and writes no folder here" in done.stderr
    assert not (tmp_path / "part").exists()
    with opened(tmp_path / "run", db=tmp_path / "x.duckdb") as database:
        assert database.rows("select range_cnt from range_summary where path = 'forward/Sequential/0'") == [(6,)]


@pytest.mark.slow
def test_ranges_of_a_script_that_names_its_own_go_on_where_its_profile_steps_aside(
    script: Write, tmp_path: Path
) -> None:
    text = INSIDE.replace("    for n in range(6):\n", "    for n in range(6):\n     with lorabench.span('mine'):\n")
    collect(tmp_path, "--profiler", "torch", "--", sys.executable, script(text), "whole", tmp_path / "part")
    with opened(tmp_path / "run", db=tmp_path / "x.duckdb") as database:
        paths = [path for (path,) in database.rows("select path from range_summary where range_cnt = 6")]
    assert "mine" in paths and "mine/Sequential/0" in paths


@pytest.mark.slow
def test_a_callback_of_a_trainer_steps_aside_in_each_pass(script: Write, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    callback = "callbacks=[lorabench.integrations.TrainerCallback('run')], train_dataset="
    text = "import lorabench.integrations\n" + TRAINER.replace("train_dataset=", callback)
    collect(tmp_path, "--profiler", "timing,torch", "--", sys.executable, script(text))
    with opened(tmp_path / "run", db=tmp_path / "x.duckdb") as database:
        assert database.rows("select count(*) from range_summary where path = 'forward/PeftModel'") == [(1,)]


@pytest.mark.slow
def test_python_is_told_its_own_arguments_when_a_run_exists(script: Write, tmp_path: Path) -> None:
    words = [sys.executable, script(INSIDE), "whole", tmp_path / "part"]
    subprocess.run(words, env=ENVIRONMENT, check=True, capture_output=True)
    done = subprocess.run(words, env=ENVIRONMENT, check=False, capture_output=True, text=True)
    assert "part exists; choose another path, or replace it with force=True" in done.stderr
    forced = script(INSIDE.replace("model=model)", "model=model, force=True)"))
    subprocess.run([sys.executable, forced, *words[2:]], env=ENVIRONMENT, check=True, capture_output=True)
    (tmp_path / "part" / rundir.MANIFEST).unlink()
    done = subprocess.run(
        [sys.executable, forced, *words[2:]], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert "is not a run directory, so force=True does not replace it; choose another path" in done.stderr


@pytest.mark.parametrize(
    ("options", "count", "kept"),
    [
        (["--profile"], 24, [10, 20]),
        (["--wait-steps", 1, "--active-steps", 2, "--repeat", 2], 7, [2, 3, 5, 6]),
        (["--active-steps", 2], 3, [1, 2]),
    ],
)
@pytest.mark.slow
def test_each_step_that_a_schedule_keeps_is_a_step_with_its_number(
    options: list[object], count: int, kept: list[int], script: Write, tmp_path: Path
) -> None:
    passes = [] if "--profile" in options else ["--profiler", "torch"]
    collect(tmp_path, *passes, *options, "--", sys.executable, script(STEPS), count)
    with opened(tmp_path / "run", db=tmp_path / "x.duckdb") as database:
        rows = database.rows(
            "select step, forward_ns > 0, backward_ns > 0, optimizer_ns > 0 from step_summary order by 1"
        )
    assert rows == [(number, True, True, True) for number in kept]
    timed = csv.DictReader((tmp_path / "run" / rundir.STEPS).read_text("utf-8").splitlines())
    assert {int(row["step"]) for row in timed} >= set(kept) - {1}


@pytest.mark.slow
def test_what_follows_the_training_is_in_none_of_its_steps(script: Write, tmp_path: Path) -> None:
    text = STEPS + "import time\ntime.sleep(0.7)\n"
    options = ["--profiler", "torch", "--wait-steps", 2, "--active-steps", 2]
    collect(tmp_path, *options, "--", sys.executable, script(text), 4)
    with opened(tmp_path / "run", db=tmp_path / "x.duckdb") as database:
        rows = database.rows("select step, wall_ns < 500e6 from step_summary order by 1")
    assert rows == [(3, True), (4, True)]


@pytest.mark.slow
def test_ranges_of_steps_are_none_of_a_script_with_ranges_of_its_own(script: Write, tmp_path: Path) -> None:
    text = STEPS.replace("import", "import lorabench,", 1).replace(
        "    model(", "    with lorabench.span('step', 100 + n): model("
    )
    collect(tmp_path, "--profiler", "torch", "--active-steps", 3, "--", sys.executable, script(text), 4)
    with opened(tmp_path / "run", db=tmp_path / "x.duckdb") as database:
        steps = [step for (step,) in database.rows("select step from step_summary order by 1")]
    assert steps[:3] == [100, 101, 102]


def test_a_script_without_an_optimizer_is_told_that_it_ran_and_how_to_name_its_steps(
    script: Write, tmp_path: Path
) -> None:
    done = collect(tmp_path, "--profiler", "timing", "--", sys.executable, script(STEPS), 0, code=7)
    assert "pass timing: the command ran, but no step of a torch.optim optimizer was seen" in done.stderr
    assert 'put `with lorabench.span("step", number):` around each' in done.stderr


@pytest.mark.parametrize(
    ("about", "says"),
    [
        ({"status": "failed", "message": "cannot start x", "passes": {"torch": {}}}, "collect it again when that is"),
        ({"status": "cancelled", "message": None, "passes": {"timing": {}}}, "was cancelled; collect it again"),
        (
            {"status": "failed", "message": "it ended", "passes": {"timing": {"exit_code": 3}}},
            "torch` alone records up",
        ),
    ],
)
def test_a_run_without_traces_is_told_what_helps(
    about: dict[str, Any], says: str, tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    (tmp_path / rundir.MANIFEST).write_text(json.dumps({"format": 1} | about), "utf-8")
    said = run_command("summary", tmp_path, code=3).err
    assert says in said and ("records up to there" in said) == ("exit_code" in str(about))


@pytest.mark.parametrize(
    ("repeat", "count", "says"),
    [
        (2, 6, "keeps 2 steps, 2 times, so it needs 8 optimizer steps; the command made 6: 2 of 4 are recorded"),
        (2, 7, "keeps 2 steps, 2 times, so it needs 8 optimizer steps; the command made 7: 3 of 4 are recorded"),
        (1, 3, "keeps 2 steps, so it needs 4 optimizer steps; the command made 3: 1 of 2 are recorded"),
        (2, 8, ""),
        (0, 7, ""),
    ],
)
@pytest.mark.first(1)
@pytest.mark.slow
def test_a_training_too_short_for_all_cycles_of_its_schedule_is_told_so(
    repeat: int, count: int, says: str, script: Write, tmp_path: Path
) -> None:
    options = ["--profiler", "torch", "--wait-steps", 1, "--warmup-steps", 1, "--active-steps", 2, "--repeat", repeat]
    done = collect(tmp_path, *options, "--", sys.executable, script(STEPS), count)
    assert (f"pass torch: the schedule skips 1, warms up in 1 and {says}\n" if says else "") in done.stderr
    assert ("the schedule skips" in done.stderr) == bool(says)


@pytest.mark.slow
def test_a_script_whose_own_profilers_have_all_steps_is_told_that_lorabench_has_none(
    script: Write, tmp_path: Path
) -> None:
    loop = STEPS.replace("for n in range(int(sys.argv[1]))", "for n in range(8)").replace("\n    ", "\n            ")
    begin, body = loop.split("for n in range(8):")
    text = f"{begin}for epoch in range(3):\n    with torch.profiler.profile():\n        for n in range(8):{body}"
    done = collect(tmp_path, "--profiler", "torch", "--", sys.executable, script(text))
    says = "its own torch.profiler recorded 24 optimizer steps (3 traces, copies are kept); lorabench recorded no step"
    assert says in done.stderr and "first 20" not in done.stderr
    text = f"{loop.replace('            ', '    ')}with torch.profiler.profile():\n    model(torch.ones(2, 8))\n"
    done = collect(tmp_path, "--force", "--profiler", "torch", "--", sys.executable, script(text))
    assert "recorded no optimizer step (1 trace); lorabench recorded 8 optimizer steps beside that" in done.stderr


@pytest.mark.slow
def test_a_thread_that_the_memory_pass_does_not_record_is_said(script: Write, tmp_path: Path) -> None:
    collect(tmp_path, "--profiler", "torch,memory", "--", sys.executable, script(THREAD))
    assert message(tmp_path, "memory").startswith("it trained in a thread other than the one that imported torch")


@pytest.mark.parametrize(
    ("count", "says"), [(5, "the command made 5: train for longer"), (0, "the command made none: train for longer")]
)
@pytest.mark.first(1)
@pytest.mark.slow
def test_a_training_shorter_than_the_wait_of_its_schedule_is_told_both(
    count: int, says: str, script: Write, tmp_path: Path
) -> None:
    done = collect(tmp_path, "--profile", "--", sys.executable, script(STEPS), count, code=7)
    assert "skips 7 optimizer steps, warms up in 2 and keeps 1, so it needs 10 optimizer steps; " + says in done.stderr
    assert "ran no operator" not in done.stderr


def test_a_script_that_comes_through_a_pipe_is_told_to_be_a_file(tmp_path: Path) -> None:
    done = collect(tmp_path, "--profiler", "timing,torch", "--", sys.executable, "-", stdin=subprocess.PIPE, code=7)
    assert done.stderr.count("no Python process of the command imported torch; a pipe is not handed on") == 2


@pytest.mark.slow
def test_a_script_that_refuses_its_own_folder_in_the_second_pass_is_told_how_to_run_once(
    script: Write, tmp_path: Path
) -> None:
    words = ["--", sys.executable, script(OWN_FOLDER)]
    done = collect(tmp_path, "--profiler", "timing,torch", *words, code=7)
    assert "ckpt exists" in done.stderr and "pass timing went well" in done.stderr
    assert "--profiler torch alone runs it once" in message(tmp_path, "torch")
    done = collect(tmp_path, "--force", "--profiler", "timing,torch", *words, code=7)
    assert "runs it once" not in done.stderr


@pytest.mark.parametrize("more", [[], ["--dry-run"]], ids=["run", "dry"])
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nosuchcmd", "train.py"], "cannot start nosuchcmd: no such program"),
        (["./train.py"], "./train.py: it is not executable; run it by Python: -- python ./train.py"),
        (["train.py"], "train.py: it is not executable; run it by Python: -- python train.py"),
        (["python ./train.py --epochs 1"], "leave out the quotes: -- python ./train.py --epochs 1"),
        (["./train"], "./train: it is not executable; `chmod +x ./train` makes it so"),
        (["train"], "no program of this name is in PATH; the one in this folder is -- ./train"),
        (["./folder"], "it is a folder, not a program"),
    ],
)
def test_a_command_that_cannot_be_started_is_told_how_to_be(
    words: list[str], says: str, more: list[str], script: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    run_command: Callable[..., Any],
) -> None:  # fmt: skip
    script(STEPS)
    (tmp_path / "folder").mkdir()
    (tmp_path / "train").write_text("exit", "utf-8")
    monkeypatch.chdir(tmp_path)
    done = run_command("collect", "-o", "run", *more, "--profiler", "timing", "--", *words, code=4 if more else 7)
    assert says in done.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ["--profile", "--export-memory-timeline"],
            "--export-memory-timeline writes pages of lorabench's own training",
        ),
        (["--profiler", "timing", "--range-depth", "phase"], "--range-depth: the timing pass opens no ranges"),
        (["--profiler", "timing", "--with-stack"], "--with-stack is a setting of torch.profiler"),
    ],
)
def test_an_option_that_would_do_nothing_for_a_command_is_refused(
    options: list[str], says: str, tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    assert says in run_command("collect", "-o", tmp_path / "run", *options, "--", "true", code=2).stderr
    assert not list(tmp_path.glob("*run*"))
