"""The profiler's command line of fsdp_qlora: its words, its cycles, and what each leaves."""

import csv
import re
from pathlib import Path
from typing import Any

import pytest
from lorabench.collect.settings import profiling
from lorabench.collect.settings.spec import from_dict
from lorabench.errors import UsageError


@pytest.mark.parametrize(
    ("values", "schedule", "passes"),
    [
        ({"profile": True}, (7, 2, 1, 0), ("torch",)),
        ({"profile": True, "export-memory-timeline": True}, (7, 2, 1, 0), ("torch", "memory")),
        ({"profile": True, "export_trace": True, "profiling_frequency": "20"}, (17, 2, 1, 0), ("torch",)),
        ({"profile": True, "profiling-frequency": 20}, (17, 2, 1, 0), ("torch",)),
        ({"profile": True, "active_steps": 3}, (5, 2, 3, 0), ("torch",)),
        ({"profile": True, "wait_steps": 1, "repeat": 2}, (1, 2, 1, 2), ("torch",)),
        ({"profile": True, "repeat": 3}, (0, 2, 1, 3), ("torch",)),
        ({"profile": True, "wait_steps": 4}, (4, 2, 1, 0), ("torch",)),
    ],
    ids=str,
)
def test_profile_is_a_cycle_of_ten_steps_unless_more_is_said(
    values: dict[str, Any], schedule: tuple[int, ...], passes: tuple[str, ...]
) -> None:
    asked = profiling.of(values)
    spec = from_dict(asked.settings)
    assert spec.schedule() == schedule and spec.profiler == passes
    assert asked.has_memory_timeline == ("memory" in passes)


def test_the_other_words_are_lorabenchs_own() -> None:
    asked = profiling.of({"max-steps": 30, "profiling_outputs": "there", "rank": 4})
    assert asked.settings == {"steps": 30, "rank": 4}
    assert (asked.outputs, asked.has_memory_timeline) == (Path("there"), False)
    assert profiling.of({"profile": False, "steps": 3}).settings == {"steps": 3}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"export_trace": True}, "--export-trace says what --profile leaves"),
        ({"export_memory_timeline": True}, "--export-memory-timeline says what --profile leaves"),
        ({"profile": True, "profiler": "nsys"}, "give --profiler or --profile, not both"),
        ({"max_steps": 3, "steps": 3}, "two words for one setting"),
        ({"profile": 3}, "profile must be true or false, not 3"),
        ({"profile": True, "profiling_frequency": 2}, "shorter than its 2 warm-up and 1 active"),
    ],
)
def test_words_that_contradict_each_other_are_refused(values: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        from_dict(profiling.of(values).settings)


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({"profiling_frequency": 10, "repeat": 0}, 10),
        ({"profiling_frequency": 10, "profiler_step": "micro", "grad_accum": 4}, 5),
        ({"profiling_frequency": 30, "profiler_step": "micro", "grad_accum": 4}, 8),
        ({"profiling_frequency": 30, "profiler_step": "micro", "grad_accum": 2, "lora_cnt": 3}, 5),
    ],
    ids=str,
)
def test_a_run_has_one_cycle_at_least(settings: dict[str, Any], steps: int) -> None:
    spec = from_dict(settings)
    assert spec.with_whole_cycle().steps == steps
    counts = "micro batches" if "profiler_step" in settings else "optimizer steps"
    assert any(f"torch.profiler counts {counts}: it skips" in note for note in spec.notes())


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (3, "keeps 2, 4 times, of which the run's 3 hold 1 and the start of one more"),
        (4, "keeps 2, 4 times, of which the run's 4 hold 2"),
        (8, "keeps 2, 4 times"),
    ],
)
def test_a_run_too_short_for_all_cycles_says_how_many_it_holds(steps: int, said: str) -> None:
    notes = from_dict({"steps": steps, "active_steps": 2, "repeat": 4}).notes()
    assert any(note.endswith(said) for note in notes)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"profiler_step": "micro"}, "a step has one micro batch here"),
        ({"profiler_step": "micro", "grad_accum": [2, 4], "lora_cnt": 2}, "give one --grad-accum"),
        ({"profiler_step": "micro", "grad_accum": 2, "profiler": "timing"}, "is a setting of torch.profiler"),
    ],
)
def test_micro_batches_that_cannot_be_counted_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        from_dict(settings)


@pytest.mark.slow
def test_each_cycle_leaves_a_trace_averages_stacks_and_a_page_of_memory(run_command: Any, tmp_path: Path) -> None:
    """Counted in micro batches: two cycles of 4 in 4 optimizer steps of 2."""
    pytest.importorskip("torch")
    pytest.importorskip("peft")
    folder = tmp_path / "run"
    done = run_command(
        "collect", "--profile", "--export-trace", "--export-memory-timeline", "--with-stack", "--max-steps", 3,
        "--profiling-frequency", 4, "--profiler-step", "micro", "--grad-accum", 2, "--warmup-steps", 1,
        "--seq-len", 8, "--batch-size", 1, "--device", "cpu", "--warmup", 0, "--profiling-outputs", folder,
        "--no-report",
    )  # fmt: skip
    assert "torch.profiler counts micro batches: it skips 2, warms up in 1, keeps 1" in done.err
    names = {path.name for path in folder.iterdir()}
    one = {"trace-1.json.gz", "key_averages-1.csv", "key_averages-1.txt", "stacks-1.txt", "memory-1.json.gz",
           "memory_timeline-1.html"}  # fmt: skip
    assert one <= names and "trace-2.json.gz" not in names
    rows = list(csv.DictReader((folder / "key_averages-1.csv").read_text("utf-8").splitlines()))
    times = [float(row["self_cpu_us"]) for row in rows]
    assert times == sorted(times, reverse=True)
    optimizers = [row for row in rows if re.match("Optimizer.step", row["name"])]
    assert len(optimizers) <= 1 and {row["count"] for row in optimizers} <= {"1"}
    page = (folder / "memory_timeline-1.html").read_text("utf-8")
    assert "activation" in page and "adapter" in page
