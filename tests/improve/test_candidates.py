"""Which changes apply to a run, what they are predicted by, and that each is one that RunSpec takes."""

import dataclasses
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lorabench import improving
from lorabench.analyze.predict import changes
from lorabench.collect.improve import candidates, edits, loading, measured, rounds
from lorabench.collect.improve.candidates import GOALS, Setting, possible
from lorabench.collect.settings import written
from lorabench.collect.settings.spec import RunSpec, from_dict
from lorabench.errors import UsageError


def names(goal: str = "time", dtype: str = "float32", has_gpu: bool = False, **settings: object) -> list[str]:
    return [c.name for c in possible(Setting(from_dict(settings), dtype, has_gpu), goal)]


def test_the_default_run_of_several_adapters_has_these() -> None:
    assert names(lora_cnt=4) == [
        "batch", "checkpointing none", "compile", "fused optimizer", "loader workers", "bfloat16"
    ]  # fmt: skip


def test_what_is_there_already_or_cannot_be_is_no_change() -> None:
    assert "batch" not in names(lora_cnt=1) and "batch" not in names(lora_cnt=4, peft_mode="batch")
    assert "batch" not in names(lora_cnt=4, adapter_kind="ia3")
    assert "checkpointing none" not in names(gradient_checkpointing="none")
    assert "compile" not in names(compile="inductor") and "compile" not in names(method="qlora")
    assert "bfloat16" not in names(dtype="bfloat16")
    assert "fused optimizer" not in names(optimizer="adamw-fused") and "fused optimizer" not in names(optimizer="sgd")
    assert "fused optimizer" not in names(adapter_kind="lora-fa")  # it has an AdamW of its own
    assert "loader workers" not in names(batch="saved.pt") and "loader workers" not in names(loader_workers=8)
    assert "pinned memory" not in names(has_gpu=True) and "pinned memory" in names(has_gpu=True, pin_memory=False)
    assert "sdpa attention" not in names() and "sdpa attention" in names(attention="eager")


def test_under_autocast_losses_are_held_to_its_precision() -> None:
    cpu: dict[str, object] = {"device": {"type": "cpu"}}
    assert measured.dtype_of({"dtype": "auto"}, cpu) == "float32"  # a run of an earlier version
    assert measured.dtype_of({"dtype": "float32", "autocast": "bfloat16"}, cpu) == "bfloat16"


def test_a_gpu_has_changes_of_its_own() -> None:
    own = {"CUDA graph", "compiled parts", "stacked adapters"}
    assert own <= set(names(has_gpu=True, lora_cnt=4, peft_mode="batch")) and not own & set(names(lora_cnt=4))
    assert "stacked adapters" not in names(has_gpu=True, lora_cnt=4)  # in turn
    assert "CUDA graph" not in names(has_gpu=True, cuda_graph=True)
    assert "CUDA graph" not in names(has_gpu=True, grad_accum=2)
    assert "CUDA graph" not in names(has_gpu=True, model="tiny-distilbert")
    assert "autocast" in names(dtype="bfloat16") and "autocast" not in names(dtype="bfloat16", adapter_dtype="base")


def test_other_micro_batches_alter_masks_alone() -> None:
    def alters(**settings: object) -> str:
        run = Setting(from_dict({"grad_accum": 4} | settings), "float32", False)
        return next(c.alters for c in possible(run, "time") if c.name == "one micro step")

    assert alters() == "dropout's masks"
    assert alters(dropout=0) == ""
    assert alters(dropout=0, lengths="uniform") == ""


@pytest.mark.parametrize(
    ("own", "made", "workers", "needed", "left"),
    [
        (0.5, 0.4, 0, 1, 0.51),  # what takes less than the rest of the step, one makes beside it
        (0.5, 0.5, 0, 2, 0.51),  # with little to spare
        (0.2, 0.8, 0, 5, 0.21),
        (0.05, 0.95, 0, 8, 0.119),  # the most that are tried do not keep up: an eighth of what one takes
        (0.995, 0.005, 0, 1, 1.005),  # taking a batch from a worker takes more than making it
        (0.5, 2.0, 2, 5, 0.51),
        (0.99, 1.0, 2, 3, 1.0),  # two that keep up
    ],
)
def test_workers_are_as_many_as_keep_up(own: float, made: float, workers: int, needed: int, left: float) -> None:
    found = loading.Input(own, made, workers)
    assert found.needed(0.01) == needed
    assert found.left(needed, 0.01) == pytest.approx(left, abs=0.001)


def test_nothing_makes_a_step_shorter_than_its_input_takes_the_workers() -> None:
    slow = loading.Input(0.4, 2.0, 2)
    held = improving._fed(rounds.Prediction(0.5, 0.3), slow)
    assert (held.step_frac, held.bound_frac) == (1.0, 1.0)
    alone = improving._fed(rounds.Prediction(0.5), loading.Input(0.4, 0.6, 0))  # input is made in each step again
    assert (alone.step_frac, alone.bound_frac) == (0.5, None)


def test_the_optimizers_part_bounds_what_fusing_it_saves() -> None:
    (fused,) = [c for c in possible(Setting(RunSpec(), "float32", False), "time") if c.name == "fused optimizer"]
    by_trace = rounds.Prediction(bound_frac=0.97)
    assert improving._bounded(by_trace, fused, {"optimizer_frac": 0.25}).bound_frac == 0.75
    assert improving._bounded(by_trace, fused, {"optimizer_frac": None}) == by_trace
    assert improving._bounded(by_trace, fused, {"optimizer_frac": 0.1, "device": {"type": "cuda"}}) == by_trace


def test_what_input_takes_is_by_the_timing_pass_and_beside_a_gpu_by_a_replay() -> None:
    summary: dict[str, object] = {"input": {"waited_frac": 0.6, "made_ns": 60}, "device": {"type": "cpu"}}
    assert loading.measured(summary, 2, 40, 0.9) == loading.Input(0.4, 1.5, 2)
    assert loading.measured(summary | {"device": {"type": "cuda"}}, 2, 40, 0.9) == loading.Input(0.9, 1.5, 2)
    assert loading.measured({}, 0, 40, 0.75) == loading.Input(0.75, 0.25, 0)  # of a run of an earlier version
    assert loading.measured({}, 2, 40, 0.9) is None


def test_behind_workers_a_step_is_the_mean_of_those_that_one_wait_is_for() -> None:
    assert measured.means([9, 1, 1, 9, 1, 1], 3) == pytest.approx([11 / 3] * 4)
    assert measured.means([9, 1, 1], 0) == [9, 1, 1]


@pytest.mark.parametrize("workers", [1, 2, 4, 6])
def test_more_workers_make_no_smaller_difference_a_gain(workers: int) -> None:
    """What a gain has to exceed is the spread of single steps, of however many in a row means are compared."""
    random = np.random.default_rng(0)
    widths = []
    for _ in range(200):
        low, _, high = statistics.quantiles(measured.means(random.normal(100, 5, 24).tolist(), workers), n=4)
        widths.append(measured.Measured(low, 100, high, 24, mean_of=workers).width_ns)
    assert statistics.fmean(widths) == pytest.approx(1.35 * 5, rel=0.25)


def test_one_micro_step_has_the_rows_of_all() -> None:
    run = Setting(from_dict({"grad_accum": 4, "batch_size": "2,8", "lora_cnt": 2}), "float32", False)
    (found,) = [c for c in possible(run, "time") if c.name == "one micro step"]
    assert found.settings == {"batch_size": (8, 32), "grad_accum": (1,)} and found.predicted_by == "merge=4"


RUNS = st.builds(
    dict,
    lora_cnt=st.integers(1, 3), peft_mode=st.sampled_from(["seq", "switch", "batch", "process"]),
    gradient_checkpointing=st.sampled_from(["none", "layer", "attn-mlp"]), grad_accum=st.integers(1, 4),
    batch_size=st.integers(1, 8), lengths=st.sampled_from(["fixed", "uniform"]), reentrant=st.booleans(),
    method=st.sampled_from(["lora", "qlora", "full"]), compile=st.sampled_from(["eager", "inductor", "parts"]),
    cuda_graph=st.booleans(), adapter_storage=st.sampled_from(["apart", "stacked"]),
    dtype=st.sampled_from(["auto", "bfloat16"]), optimizer=st.sampled_from(["adamw", "sgd"]),
    model=st.sampled_from(["tiny", "tiny-distilbert"]),
)  # fmt: skip


@given(RUNS, st.sampled_from(GOALS), st.booleans())
def test_every_change_changes_something_and_is_asked_for_in_words_that_what_if_knows(
    settings: dict[str, object], goal: str, has_gpu: bool
) -> None:
    try:
        spec = from_dict(settings)
    except UsageError:
        return
    for candidate in possible(Setting(spec, "float32" if spec.dtype == "auto" else spec.dtype, has_gpu), goal):
        assert any(getattr(spec, name) != value for name, value in candidate.settings.items()), candidate
        for text in f"{candidate.predicted_by} {candidate.bounded_by}".split():
            assert str(changes.parse(text)) == text
        try:
            changed = dataclasses.replace(spec, **candidate.settings)
        except UsageError as error:  # a row with this reason
            assert str(error).startswith("--")
        else:
            assert from_dict(changed.as_dict()) == changed


@given(RUNS)
def test_a_run_as_it_is_written_reads_back_as_the_same(settings: dict[str, object]) -> None:
    import shlex
    import tomllib

    try:
        spec = from_dict(settings)
    except UsageError:
        return
    assert from_dict(tomllib.loads(written.toml(spec))) == spec
    words = shlex.split(written.command(spec))[2:]
    assert all(word.startswith("--") for word in words if word.lower() == word and "-" in word[:2])


@pytest.mark.parametrize(
    "settings",
    [
        {"trainer": "sft", "steps": 5},
        {"trainer": "sft"},
        {"task": "sst2", "model": "tiny"},
        {"task": "sst2"},
        {"target_modules": "q_proj,v_proj;all-linear", "lora_cnt": 2},
        {"learning_rate": 1e-5, "alpha": "8,16.5", "lora_cnt": 2},
        {"data": 'a "b" \\c.jsonl', "train_on": "all", "packing": True},
        {"profiler": "timing,memory", "graph_pruning": True},
    ],
)
def test_settings_with_texts_lists_and_usual_values_read_back_from_toml(settings: dict[str, object]) -> None:
    import tomllib

    spec = from_dict(settings)
    assert from_dict(tomllib.loads(written.toml(spec))) == spec


def test_a_command_line_says_what_differs_from_the_defaults() -> None:
    spec = from_dict({"lora_cnt": 4, "rank": "8,16,8,16", "packing": True, "lengths": "uniform", "learning_rate": 3e-5})
    assert written.command(spec) == (
        "lorabench collect --lora-cnt 4 --rank 8,16,8,16 --learning-rate 3e-05 --packing --lengths uniform"
    )
    assert written.command(RunSpec()) == "lorabench collect"


def test_edits_are_written_in_the_words_of_the_framework_that_was_loaded() -> None:
    hf = edits.framework_of(["transformers.trainer", "accelerate.accelerator"])
    (fused,) = [edit for edit in edits.EDITS if edit.name == "fuse the optimizer"]
    seen = edits.Seen(False, {})
    assert hf == "HF Trainer" and fused.written(hf, seen) == 'optim="adamw_torch_fused"'
    of_trl = edits.framework_of(["trl.trainer.sft_trainer", "transformers.trainer"])
    assert fused.written(of_trl, seen) == fused.written(hf, seen)
    assert fused.written(edits.framework_of([]), seen) == "AdamW(…, fused=True)"
    assert {edits.framework_of([name]) for name, _ in edits.MODULES} | {"PyTorch"} >= {
        framework for edit in edits.EDITS for framework in edit.words
    }


def test_all_goals_have_changes() -> None:
    assert all(names(goal, lora_cnt=2, gradient_checkpointing="none") for goal in candidates.GOALS)


@pytest.mark.parametrize(
    ("waited", "workers", "needed", "left"),
    [
        (66, 0, 3, 0.34 + 0.014),  # 66 of 100 ms to make two batches, here
        (15, 2, 3, 0.85 + 0.014),  # two workers that make no more than these
        (3, 2, 3, 0.97 + 0.014),  # twice what taking two batches takes
        (1, 2, 3, 1.0),  # less than that
        (0, 8, 9, 1.0),
    ],
)
def test_what_a_script_waits_for_says_how_many_workers_keep_up(
    waited: float, workers: int, needed: int, left: float
) -> None:
    loader = {"waited_ns": waited * 1e6, "step_ns": 100e6, "batch_cnt": 2, "worker_cnt": workers}
    taken = 2 * loading.TAKEN_NS / 100e6
    found = loading.of_script(loader)
    assert found.needed(taken) == needed
    assert found.left(max(needed, 3), taken) == pytest.approx(left)


@given(st.floats(0, 100), st.floats(0, 1), st.sampled_from([0, 1, 2, 4, 7]), st.sampled_from([0, 2, 16]))
def test_what_more_workers_save_of_a_script_grows_with_the_waiting_without_a_cliff_and_is_never_more_than_it(
    waited: float, more: float, workers: int, core_cnt: int
) -> None:
    taken = 2 * loading.TAKEN_NS / 100e6

    def saved(waited_ms: float) -> float:
        loader = {"waited_ns": waited_ms * 1e6, "step_ns": 100e6, "batch_cnt": 2, "worker_cnt": workers}
        found = loading.of_script(loader)
        advised = found.advised(taken, core_cnt)
        assert advised <= max(core_cnt or loading.MOST, workers + (not core_cnt))
        return 1 - min(1.0, found.left(advised, taken)) if advised else 0.0

    least, most = saved(waited), saved(min(100.0, waited + more))
    assert -1e-9 <= least <= waited / 100 + 1e-9
    if not workers or not core_cnt or core_cnt > workers:
        assert abs(most - least) <= more / 100 + 1e-9
