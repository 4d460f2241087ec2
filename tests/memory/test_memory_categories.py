"""What memory is for where no backward comes, where a model goes early, and whatever wrote the stacks."""

from pathlib import Path
from typing import Any

import pytest
from lorabench.analyze.pipeline import analyze
from test_snapshot import BACKWARD, FORWARD, LOOP, MIB, SEGMENT, STEP, block, entry, kept, written


def in_files(*frames: str) -> list[dict[str, Any]]:
    """Frames written as 'file function', innermost first."""
    return [{"filename": file, "line": 1, "name": name} for file, _, name in (frame.partition(" ") for frame in frames)]


AUTOCAST = [{"filename": "??", "line": 0, "name": "at::autocast::cached_cast(c10::ScalarType, at::Tensor const&)"}]
CACHE = in_files("/me/cache_utils.py update")


@pytest.mark.parametrize(
    ("above", "says", "advises"),
    [
        ([], "the largest", "torch.inference_mode()"),
        (AUTOCAST, "40 of it are copies by autocast", "load the weights in bfloat16"),
        (CACHE, "40 of it are a cache of keys and values", "grows with the batch and the length of the context"),
    ],
    ids=["results", "autocast", "cache"],
)
@pytest.mark.parametrize("freed_by", [None, in_files("/me/serve.py <module>")], ids=["never", "loop"])
@pytest.mark.first(3)
def test_where_nothing_learns_nothing_is_kept_for_a_backward(
    above: Any, says: str, advises: str, freed_by: Any, tmp_path: Path
) -> None:
    held = kept(freed_by)
    for event in held["device_traces"][0][2:]:
        event["frames"] = [*(above if event["action"] == "alloc" else []), *event["frames"]]
    with analyze([written(tmp_path, held)], tmp_path / "x.duckdb") as database:
        categories = database.rows("select category, sum(live_bytes)::bigint from memory_peak group by 1")
        ((rule, evidence, advice),) = database.rows(
            "select rule, evidence, advice from memory_finding where rule <> 'fragmentation'"
        )
    assert (categories, rule) == ([("forward_result", 40 * MIB)], "forward_results")
    assert "40 MiB that a forward made are kept, and nothing is trained in this recording" in evidence
    assert says in evidence and advises in advice and "checkpoint" not in advice


def test_what_a_generation_keeps_is_for_no_backward_where_others_learn(tmp_path: Path) -> None:
    held = kept(None)
    for event in held["device_traces"][0][2:]:
        event["frames"] = [*event["frames"], *in_files("/x/site-packages/transformers/generation/utils.py _sample")]
    held["device_traces"][0].append(entry("alloc", 90 * MIB, 1000, 99, STEP))
    with analyze([written(tmp_path, held)], tmp_path / "x.duckdb") as database:
        found = database.rows("select category, sum(live_bytes)::bigint from memory_peak group by 1 order by 2 desc")
    assert found == [("forward_result", 40 * MIB), ("optimizer_state", 1000)]


def in_turn(model_cnt: int) -> dict[str, Any]:
    """Models that are made, trained for a step and let go, with an optimizer of their own."""
    made = {
        "w": (20 * MIB, in_files("/me/linear.py __init__", "/me/model.py __init__")),
        "s": (40 * MIB, in_files("/me/my_optimizer.py __init__", "/me/main.py main")),
    }
    history, time = [], 0

    def say(action: str, address: int, size: int, frames: Any) -> None:
        nonlocal time
        time += 1
        history.append(entry(action, address, size, time, frames))

    for number in range(model_cnt):
        base = number * 200 * MIB
        for place, (size, frames) in zip((0, 20 * MIB), made.values(), strict=True):
            say("alloc", base + place, size, frames)
        say("alloc", base + 60 * MIB, 30 * MIB, FORWARD)
        say("free_requested", base + 60 * MIB, 30 * MIB, BACKWARD)
        say("alloc", base + 60 * MIB, MIB, STEP)
        say("free_requested", base + 60 * MIB, MIB, STEP)
        for place, (size, _) in zip((0, 20 * MIB), made.values(), strict=True):
            say("free_requested", base + place, size, LOOP)
    total = model_cnt * 200 * MIB
    return {
        "segments": [{**SEGMENT, "total_size": total, "blocks": [block(0, total, 0, "inactive")]}],
        "device_traces": [history],
    }


@pytest.mark.parametrize("model_cnt", [1, 2])
def test_weights_and_states_that_go_before_the_recording_ends_are_no_temporaries(
    model_cnt: int, tmp_path: Path
) -> None:
    with analyze([written(tmp_path, in_turn(model_cnt))], tmp_path / "x.duckdb") as database:
        found = dict(database.rows("select category, sum(live_bytes)::bigint from memory_peak group by 1"))
    assert found == {"parameter": 20 * MIB, "optimizer_state": 40 * MIB, "activation": 30 * MIB}


WINDOWS = r"C:\Users\me\venv\Lib\site-packages\torch"


def test_frames_of_windows_say_what_others_say(tmp_path: Path) -> None:
    step = in_files(rf"{WINDOWS}\optim\adamw.py step", r"D:\me\run.py <module>")
    forward = in_files(
        rf"{WINDOWS}\functional.py einsum", r"C:\Python311\Lib\contextlib.py inner", r"D:\me\model.py forward",
        rf"{WINDOWS}\nn\modules\module.py _call_impl",
    )  # fmt: skip
    backward = in_files(rf"{WINDOWS}\_tensor.py backward", r"D:\me\run.py <module>")
    history = [
        entry("alloc", 0, 40 * MIB, 1, forward), entry("free_requested", 0, 40 * MIB, 2, backward),
        entry("alloc", 50 * MIB, MIB, 3, step),
    ]  # fmt: skip
    with analyze([written(tmp_path, {"segments": [], "device_traces": [history]})], tmp_path / "x.duckdb") as database:
        phases = database.rows("select phase from _memory_event_phase order by time_ns")
        ((evidence,),) = database.rows("select evidence from memory_finding where rule = 'activations'")
        is_library = database.rows(
            rf"select is_library_frame('{WINDOWS}\nn\a.py:1 f'), is_library_frame('D:\a\b.py:1 f')"
        )
    assert phases == [("forward",), ("backward",), ("optimizer",)]
    assert evidence.endswith("the largest: torch/functional.py:1 einsum in D:/me/model.py:1 forward")
    assert is_library == [(True, False)]


def of_torch_2_0(size: int, *frames: str) -> dict[str, Any]:
    """A block as torch 2.0 wrote it: who asked for it is in its history, the latest first."""
    latest = {"addr": 0, "real_size": size - 8, "frames": in_files(*frames)}
    earlier = {"addr": 0, "real_size": 8, "frames": in_files("/me/earlier.py f")}
    return {"size": size, "state": "active_allocated", "history": [latest, earlier]}


def test_who_asked_for_a_block_is_read_as_torch_2_0_wrote_it(tmp_path: Path) -> None:
    blocks = [
        of_torch_2_0(40 * MIB, "/me/backend.py allocate", "/me/opt.py init_weight_list", "/me/run.py main"),
        of_torch_2_0(8 * MIB, "/me/opt.py forward"),
        of_torch_2_0(20 * MIB, "/me/pool.py reserve"),
        {"size": MIB, "state": "inactive", "history": []},
    ]
    segment = {**SEGMENT, "total_size": 69 * MIB, "blocks": blocks}
    with analyze([written(tmp_path, {"segments": [segment]})], tmp_path / "x.duckdb") as database:
        found = dict(database.rows("select category, live_bytes from memory_peak"))
        said = dict(database.rows("select rule, evidence || ' ' || advice from memory_finding"))
    assert found == {"parameter": 40 * MIB - 8, "forward_result": 8 * MIB - 8, "unknown": 20 * MIB - 8}
    assert said["before_recording"].startswith(
        "20 MiB were there before the recording began; most of it: /me/pool.py:1 reserve Look at what keeps it"
    )
    assert "Nothing is trained in this recording" in said["weights"] and "QLoRA" not in said["weights"]


@pytest.mark.parametrize("is_listed", [False, True])
def test_what_a_forward_leaves_over_steps_is_for_no_backward(is_listed: bool, tmp_path: Path) -> None:
    """Outputs in a list: only what the last steps left may still be wanted."""
    history = []
    for number in range(6):
        place, time = 100 * number * MIB, 100 * number
        history.append(entry("alloc", place, 10 * MIB, time, FORWARD))
        if not is_listed:
            history.append(entry("free_requested", place, 10 * MIB, time + 10, BACKWARD))
        history += [
            entry("alloc", place + 20 * MIB, 1, time + 20, STEP),
            entry("free_requested", place + 20 * MIB, 1, time + 30, STEP),
        ]
    with analyze([written(tmp_path, {"segments": [], "device_traces": [history]})], tmp_path / "x.duckdb") as database:
        found = dict(database.rows("select category, sum(live_bytes)::bigint // 1048576 from memory_peak group by 1"))
        said = [row[0] for row in database.rows("select evidence from memory_finding where rule = 'forward_results'")]
    assert found.get("forward_result", 0) == (40 if is_listed else 0)
    assert any("for longer than a backward needs them" in evidence for evidence in said) is is_listed
