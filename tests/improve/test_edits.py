"""Scripts of others: edits by hand with what each would save, and what came of those that were made."""

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import writers
from conftest import Ended
from lorabench import rundir
from simulated_cpu import Program, with_zero_calls
from simulated_gpu import Gpu, Training

SLOW = with_zero_calls(Program(data_ns=150_000))
Run = Callable[..., Ended]


def script(
    path: Path, program: Program, frameworks: tuple[str, ...] = ("transformers.trainer",), **measured: object
) -> Path:
    """What `collect -- python train.py` leaves of a program."""
    directory = rundir.RunDirectory(path, False)
    step = program.step_ns()
    directory.write_json(
        rundir.SUMMARY,
        {"step_wall_ns": {"p50": step, "min": step}, "device": {"type": "cpu"}, "frameworks": list(frameworks)}
        | measured,
    )
    program.write(directory.partial / "trace.json.gz")
    directory.finish({"status": rundir.OK, "message": None, "command": ["python", "train.py"]})
    return path


def test_a_slow_loader_is_the_first_edit_in_the_words_of_the_framework(tmp_path: Path, run_command: Run) -> None:
    run = script(tmp_path / "slow", SLOW)
    lines = run_command("improve", run).out.splitlines()
    assert lines[0].startswith("edits by hand (HF Trainer), and what each saves of a step of 314.")
    # 150 of 314 us, less what recording the range itself took
    lines = lines[1:]  # the first is as long as two
    assert lines[1].split("  ")[1] == "load the input ahead" and lines[1].endswith(" 46.9%")
    assert lines[2].strip() == "dataloader_num_workers=4, dataloader_persistent_workers=True"
    assert max(map(len, lines)) <= 80
    plain = script(tmp_path / "plain", SLOW, ())
    assert "DataLoader(…, num_workers=4, persistent_workers=True)" in run_command("improve", plain).out


def test_what_the_timing_pass_waited_for_a_loader_counts_and_not_what_a_profiled_one_did(
    tmp_path: Path, run_command: Run
) -> None:
    """Beside a slower training two workers keep up."""
    step = SLOW.step_ns()
    loader = {"waited_ns": 0.8 * step, "step_ns": step, "batch_cnt": 0.0001, "worker_cnt": 2}
    run = script(tmp_path / "slow", replace(SLOW, data_ns=2_000), (), loader=loader)
    (row,) = [r for r in json.loads(run_command("improve", run, "--json").out) if r["edit"] == "load the input ahead"]
    assert "num_workers=8" in row["write"] and row["saving_frac"] == pytest.approx(0.75, abs=0.01)


@pytest.mark.parametrize("waited", [0.0, 0.5, 0.9])
@pytest.mark.first(1)
@pytest.mark.slow
def test_what_waits_for_input_is_no_faster_for_another_model(waited: float, tmp_path: Path, run_command: Run) -> None:
    """The fastest step waits for nothing, as with workers; of a usual one the model has but what is not waited."""
    step = SLOW.step_ns()
    alone = script(tmp_path / "alone", SLOW, ())
    loader = loader_of(step / (1 - waited), waited, 1) | {"own_ns": step}
    waits = script(tmp_path / "waits", SLOW, (), loader=loader)
    bounds = []
    for run in (alone, waits):
        rows = {row["edit"]: row for row in json.loads(run_command("improve", run, "--json").out)}
        bounds.append(rows["compile the model"]["at_most_frac"])
    assert bounds[1] == pytest.approx(bounds[0] * (1 - waited), abs=0.002)


def masks(token_cnt: int, real: int, longest: int) -> dict[str, int]:
    return {"token_cnt": token_cnt, "real_token_cnt": real, "longest_token_cnt": longest}


@pytest.mark.parametrize(
    ("padding", "expected"),
    [
        ({}, set()),
        (masks(1000, 990, 1000), set()),
        (masks(1000, 600, 1000), {"sequences of one length together"}),
        (masks(1000, 400, 500), {"sequences of one length together", "pad to the longest of each batch"}),
        (masks(1000, 500, 500), {"sequences of one length together", "pad to the longest of each batch"}),
    ],
)
@pytest.mark.first(2)
@pytest.mark.slow
def test_padding_is_among_the_edits_where_masks_tell_of_it(
    padding: dict[str, int], expected: set[str], tmp_path: Path, run_command: Run
) -> None:
    run = script(tmp_path / "run", SLOW, padding=padding)
    rows = {row["edit"]: row for row in json.loads(run_command("improve", run, "--json").out)}
    assert expected == {"sequences of one length together", "pad to the longest of each batch"} & set(rows)
    if padding.get("longest_token_cnt", 1000) < 1000:  # what operators do becomes less, and calling them does not
        saved, most = rows["pad to the longest of each batch"], rows["sequences of one length together"]
        assert 0.01 < saved["saving_frac"] < 0.5 and saved["at_most_frac"] is None and most["saving_frac"] is None
        kept = padding["real_token_cnt"] / 1000
        assert saved["saving_frac"] / 0.5 == pytest.approx(most["at_most_frac"] / (1 - kept), rel=1e-3)


def test_fewer_tokens_save_no_more_than_their_part_of_a_step_that_was_slower_when_recorded(
    tmp_path: Path, run_command: Run
) -> None:
    short = {"p50": SLOW.step_ns() / 50, "min": SLOW.step_ns() / 50}
    run = script(tmp_path / "run", SLOW, padding=masks(1000, 400, 500), step_wall_ns=short)
    rows = {row["edit"]: row for row in json.loads(run_command("improve", run, "--json").out)}
    assert rows["pad to the longest of each batch"]["saving_frac"] == pytest.approx(0.5)
    assert rows["sequences of one length together"]["at_most_frac"] == pytest.approx(0.6)


@pytest.mark.parametrize("micro_step_cnt", [0, 1, 4])
@pytest.mark.slow
def test_micro_steps_are_one_batch_where_there_are_several(
    micro_step_cnt: int, tmp_path: Path, run_command: Run
) -> None:
    run = script(tmp_path / "run", replace(SLOW, micro=max(1, micro_step_cnt)), micro_step_cnt=micro_step_cnt)
    rows = {row["edit"]: row for row in json.loads(run_command("improve", run, "--json").out)}
    merged = rows.get("no micro steps, for more memory")
    assert (merged is None) == (micro_step_cnt < 2)
    if merged:
        assert "per_device_train_batch_size 4 times as large" in merged["write"] and 0 < merged["saving_frac"] < 0.75


@pytest.mark.slow
def test_after_an_edit_it_is_said_which_was_made_and_whether_the_prediction_held(
    tmp_path: Path, run_command: Run
) -> None:
    run, after = script(tmp_path / "slow", SLOW), script(tmp_path / "ahead", replace(SLOW, data_ns=2_000))
    rows = {r["edit"]: r for r in json.loads(run_command("improve", run, "--after", after, "--json").out)}
    assert (rows["load the input ahead"]["is_made"], rows["load the input ahead"]["is_changed"]) == (None, True)
    assert rows["fuse the optimizer"]["is_made"] is False
    assert rows["compile the model"]["is_made"] is False
    assert rows["16-bit activations"]["is_made"] is None  # of which nobody knows
    assert 0 < rows["compile the model"]["at_most_frac"] < 1
    assert not {"CUDA graphs", "copy from pinned memory", "do not wait in each step"} & set(rows), "there is no GPU"
    said = run_command("improve", run, "--after", after).out
    assert "with what was made, or changed in the trace, measured 166.1 us (+0.4%)" in " ".join(said.split())
    assert "trace changed: " in said and max(map(len, said.splitlines())) <= 80
    assert "none of the edits shows" in run_command("improve", run, "--after", run).out


def loader_of(step: float, waited: float, workers: int, **more: int) -> dict[str, float]:
    return {"waited_ns": waited * step, "step_ns": step, "batch_cnt": 0.0001, "worker_cnt": workers, **more}


def rows_after(before: Path, after: Path, run_command: Run) -> dict[str, dict[str, Any]]:
    return {row["edit"]: row for row in json.loads(run_command("improve", before, "--after", after, "--json").out)}


@pytest.mark.slow
def test_an_edit_is_made_where_the_run_says_so_however_the_times_changed(tmp_path: Path, run_command: Run) -> None:
    step, faster = SLOW.step_ns(), replace(SLOW, data_ns=2_000)
    before = script(tmp_path / "before", SLOW, loader=loader_of(step, 0.5, 1), padding=masks(1000, 400, 500))
    padded = script(tmp_path / "padded", faster, loader=loader_of(step / 2, 0.01, 1), padding=masks(500, 400, 500))
    found = rows_after(before, padded, run_command)
    assert found["load the input ahead"]["is_made"] is False  # with one worker in both
    assert found["pad to the longest of each batch"]["is_made"] is True
    more = script(tmp_path / "more", SLOW, loader=loader_of(step, 0.5, 3), padding=masks(1000, 400, 500))
    found = rows_after(before, more, run_command)
    assert found["load the input ahead"]["is_made"] is True
    assert found["pad to the longest of each batch"]["is_made"] is False
    assert "num_workers=3" in found["load the input ahead"]["write"].replace("dataloader_", "")  # and not those advised
    assert "not made: " in run_command("improve", before, "--after", more).out


def test_a_fused_optimizer_and_a_compiled_model_are_known_by_the_trace_and_not_advised_again(
    tmp_path: Path, run_command: Run
) -> None:
    before, after = script(tmp_path / "before", SLOW), script(tmp_path / "after", SLOW)
    with gzip.open(after / "trace.json.gz", "rt") as file:
        trace = json.load(file)
    operator = next(event for event in trace["traceEvents"] if event.get("cat") == "cpu_op")
    trace["traceEvents"] += [
        operator | {"name": name, "dur": 0} for name in ("aten::_fused_adamw_", "Torch-Compiled Region: 0/0")
    ]
    with gzip.open(after / "trace.json.gz", "wt") as file:
        json.dump(trace, file)
    made = {"fuse the optimizer", "compile the model"}
    assert {edit for edit, row in rows_after(before, after, run_command).items() if row["is_made"]} == made
    assert made & {row["edit"] for row in json.loads(run_command("improve", before, "--json").out)} == made
    assert not made & {row["edit"] for row in json.loads(run_command("improve", after, "--json").out)}


@pytest.mark.parametrize(
    ("measured", "is_listed"),
    [({}, True), ({"is_16bit": True}, False), ({"cpu_has_bfloat16": False}, False), ({"cpu_has_bfloat16": True}, True)],
)
@pytest.mark.first(3)
@pytest.mark.slow
def test_16_bits_are_advised_where_they_are_not_used_and_help(
    measured: dict[str, bool], is_listed: bool, tmp_path: Path, run_command: Run
) -> None:
    run = script(tmp_path / "run", SLOW, **measured)
    names = {row["edit"] for row in json.loads(run_command("improve", run, "--json").out)}
    assert "as much work for each rank" not in names
    assert ("16-bit activations" in names) is is_listed


@pytest.mark.parametrize("times", [1, 3])
def test_a_program_that_compiles_again_and_again_is_told_so(times: int, tmp_path: Path, run_command: Run) -> None:
    """In one step alone something ran for the first time."""
    run = script(tmp_path / "run", SLOW)
    with gzip.open(run / "trace.json.gz", "rt") as file:
        trace = json.load(file)
    steps = [event for event in trace["traceEvents"] if str(event.get("name")).startswith("step")]
    operator = next(event for event in trace["traceEvents"] if event.get("cat") == "cpu_op")
    compiled = operator | {"name": "_compile.compile_inner (dynamo_timed)", "dur": 1}
    trace["traceEvents"] += [compiled | {"ts": step["ts"] + 1} for step in steps[-times:]]
    with gzip.open(run / "trace.json.gz", "wt") as file:
        json.dump(trace, file)
    rows = {row["edit"]: row for row in json.loads(run_command("improve", run, "--json").out)}
    told = rows.get("compile once for all lengths")
    assert (told is not None) == (times > 1)
    assert told is None or ("dynamic=True" in told["write"] and told["saving_frac"] is None)


def test_what_is_left_of_a_shorter_step_is_a_share_of_the_step_before(tmp_path: Path, run_command: Run) -> None:
    step = SLOW.step_ns()
    before = script(tmp_path / "before", SLOW, loader=loader_of(step, 0.8, 0))
    short = {"p50": step / 4, "min": step / 4}
    after = script(tmp_path / "after", SLOW, loader=loader_of(step / 4, 0.4, 4), step_wall_ns=short)
    row = rows_after(before, after, run_command)["load the input ahead"]
    assert row["saving_frac"] == pytest.approx(0.8, abs=0.01)
    assert row["left_frac"] == pytest.approx(0.4 / 4, abs=0.01)


def test_what_workers_are_too_few_for_is_left(tmp_path: Path, run_command: Run) -> None:
    """Two workers on two cores: the edit is made, no core is left for a third, and steps wait all the same.

    Batches come two at a time, so that half of the steps wait for none: their mean is what a step takes.
    """
    step = SLOW.step_ns()
    before = script(tmp_path / "before", SLOW, loader=loader_of(step, 0.9, 0, core_cnt=2))
    uneven = {"p50": step / 8, "min": step / 8, "mean": step / 2}
    after = script(tmp_path / "after", SLOW, loader=loader_of(step / 2, 0.8, 2, core_cnt=2), step_wall_ns=uneven)
    row = rows_after(before, after, run_command)["load the input ahead"]
    assert row["is_made"] and row["saving_frac"] == pytest.approx(0.55, abs=0.01)  # 0.9 made by two takes 0.45
    assert row["left_frac"] == pytest.approx(0.8 / 2, abs=0.01)
    said = " ".join(run_command("improve", before, "--after", after).out.split())
    assert "(-10.0%)" in said and "40.0% left" in said


def test_runs_of_two_scripts_are_said_to_be_two(tmp_path: Path, run_command: Run) -> None:
    before, after = script(tmp_path / "before", SLOW), script(tmp_path / "after", replace(SLOW, data_ns=2_000))
    manifest = json.loads((after / rundir.MANIFEST).read_text("utf-8"))
    (after / rundir.MANIFEST).write_text(json.dumps(manifest | {"command": ["python", "other.py", "--fast"]}))
    done = run_command("improve", before, "--after", after)
    assert "before ran train" in done.err and "after ran other" in done.err
    assert "if train and other are one program: predicted " in " ".join(done.out.split())
    (after / rundir.MANIFEST).write_text(json.dumps(manifest | {"command": ["python", "train.py", "--fast"]}))
    done = run_command("improve", before, "--after", after)
    assert "one program" not in done.err + done.out and "same program" not in done.err


def test_no_more_workers_are_advised_than_there_are_cores(tmp_path: Path, run_command: Run) -> None:
    step = SLOW.step_ns()
    few = script(tmp_path / "few", SLOW, (), loader=loader_of(step, 0.8, 0, core_cnt=2))
    assert "num_workers=2" in run_command("improve", few).out
    full = script(tmp_path / "full", SLOW, (), loader=loader_of(step, 0.3, 2, core_cnt=2))
    rows = {row["edit"]: row for row in json.loads(run_command("improve", full, "--json").out)}
    assert "load the input ahead" not in rows
    assert rows["make batches before the training"]["at_most_frac"] == pytest.approx(0.3, abs=0.01)


def test_edits_come_by_what_is_known_of_them_and_those_that_save_next_to_nothing_not_at_all(
    tmp_path: Path, run_command: Run
) -> None:
    step = SLOW.step_ns()
    run = script(tmp_path / "run", SLOW, loader=loader_of(step, 0.003, 0), padding=masks(1000, 400, 500))
    rows = json.loads(run_command("improve", run, "--json").out)
    kinds = [2 * (row["saving_frac"] is None) - (row["at_most_frac"] is not None) for row in rows]
    assert kinds == sorted(kinds) and {0, 1, 2} == set(kinds)
    assert "load the input ahead" not in {row["edit"] for row in rows}


@pytest.mark.parametrize(
    "option",
    [("-o", "foo"), ("--rounds", 3), ("--allow-numerics",), ("--price-per-hour", 3), ("--budget", 1), ("--force",)],
)
def test_options_that_do_nothing_for_a_script_are_refused(
    option: tuple[object, ...], tmp_path: Path, run_command: Run
) -> None:
    said = " ".join(run_command("improve", script(tmp_path / "run", SLOW), *option, code=2).err.split())
    assert f"{option[0]}: " in said and "is a run of a script, for which improve lists edits" in said


def test_with_a_gpu_graphs_and_waits_are_among_the_edits(tmp_path: Path, run_command: Run) -> None:
    directory = rundir.RunDirectory(tmp_path / "run", False)
    late = Training(kernel=5_000, syncs=True).run(Gpu()).timeline
    writers.write_nsys(directory.partial / "run.sqlite", [late])
    directory.write_json(
        rundir.SUMMARY, {"step_wall_ns": {"p50": 4e6, "min": 4e6}, "device": {"type": "cuda"}, "frameworks": []}
    )
    directory.finish({"status": rundir.OK, "message": None, "command": ["python", "train.py"]})
    rows = {row["edit"]: row for row in json.loads(run_command("improve", tmp_path / "run", "--json").out)}
    assert rows["CUDA graphs"]["saving_frac"] > 0.2 and 0 <= rows["do not wait in each step"]["saving_frac"] < 1
    assert rows["compile the model"]["at_most_frac"] >= rows["CUDA graphs"]["saving_frac"] - 0.05


def test_a_run_without_a_recording_or_a_timing_pass_is_refused(tmp_path: Path, run_command: Run) -> None:
    run = script(tmp_path / "run", SLOW)
    (run / "trace.json.gz").unlink()
    assert "collect it with --profiler timing,torch" in run_command("improve", run, code=3).err


TRAIN = """
import sys, time, torch
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 200
    def __getitem__(self, number):
        time.sleep(0.01)
        return torch.randn(64)

torch.manual_seed(0)
model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(8)))
optimizer = torch.optim.AdamW(model.parameters())
loader = DataLoader(Slow(), batch_size=4, num_workers=int(sys.argv[1]))
for number, batch in enumerate(loader):
    if number == 20:
        break
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.long
def test_a_loader_that_is_slow_on_purpose_is_found_and_gone_after_the_edit(tmp_path: Path, run_command: Run) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(TRAIN)
    for name, workers in (("slow", "0"), ("ahead", "4")):
        words = ("--profiler", "timing,torch", "--no-report", "-o", tmp_path / name)
        run_command("collect", *words, "--", "python", tmp_path / "train.py", workers)
    rows = {
        r["edit"]: r
        for r in json.loads(run_command("improve", tmp_path / "slow", "--after", tmp_path / "ahead", "--json").out)
    }
    loader = rows["load the input ahead"]
    assert loader["write"].startswith("DataLoader(") and loader["saving_frac"] > 0.7
    assert loader["is_made"] is True


def test_a_goal_that_edits_are_not_about_is_refused(tmp_path: Path, run_command: Run) -> None:
    said = run_command("improve", script(tmp_path / "slow", SLOW), "--goal", "memory", code=2).err
    assert "--goal memory is for runs that collect trained" in " ".join(said.split())


def test_a_part_of_a_script_recorded_without_a_schedule_is_told_to_have_one(tmp_path: Path, run_command: Run) -> None:
    run = script(tmp_path / "part", SLOW)
    (run / rundir.SUMMARY).write_text(json.dumps({"command": []}), "utf-8")
    said = run_command("improve", run, code=3).stderr
    assert "give lorabench.profile() a schedule whose wait leaves some alone" in said and "--profiler" not in said
