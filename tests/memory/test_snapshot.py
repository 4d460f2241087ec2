"""Snapshots of torch's allocator: read without running anything, and equal to what they say themselves."""

import gzip
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from brute_force import check_categories
from conftest import ROOT, corpus_params
from lorabench import sql
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.read import memory_snapshot

CAPTURE = ROOT / "fixtures" / "h200-batch" / "snapshot.pickle.gz"
KIB = 1024
FORWARD = [{"filename": "/x/site-packages/torch/nn/modules/module.py", "line": 1, "name": "_call_impl"}]
BACKWARD = [{"filename": "", "line": 0, "name": "torch::autograd::Engine::evaluate_function(...)"}]
STEP = [{"filename": "/x/site-packages/torch/optim/adamw.py", "line": 7, "name": "step"}]
ZERO = [{"filename": "/x/site-packages/torch/optim/optimizer.py", "line": 9, "name": "zero_grad"}]


class Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise AssertionError(f"{module}.{name}")


def plain(path: Path) -> Any:
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        return Plain(file).load()


def entry(action: str, address: int, size: int, time: int, frames: Any = ()) -> dict[str, Any]:
    return {"action": action, "addr": address, "size": size, "stream": 0, "time_us": time, "frames": list(frames or ())}


def block(address: int, size: int, requested: int, state: str = "active_allocated") -> dict[str, Any]:
    return {"address": address, "size": size, "requested_size": requested, "state": state, "frames": []}


# A weight (0), a gradient from before (8192) and an activation; at the end the weight and the optimizer's state.
HISTORY = [
    entry("segment_alloc", 65536, 8192, 10),
    entry("alloc", 65536, 1000, 11, FORWARD),
    entry("free_requested", 8192, 700, 12, ZERO),
    entry("free_completed", 8192, 700, 12, ZERO),
    entry("alloc", 66560, 300, 13, BACKWARD),
    entry("free_requested", 65536, 1000, 14, BACKWARD),
    entry("free_completed", 65536, 1000, 15, BACKWARD),
    entry("oom", 0, 9 * KIB, 16, FORWARD) | {"device_free": 4 * KIB},
    entry("free_requested", 66560, 300, 17, BACKWARD),
    entry("free_completed", 66560, 300, 17, BACKWARD),
    entry("segment_free", 65536, 8192, 18),
    entry("alloc", 9216, 600, 19, STEP),
]
SEGMENT = {
    "device": 0, "address": 0, "total_size": 16 * KIB, "allocated_size": 5 * KIB, "stream": 0, "segment_type": "small",
    "blocks": [
        block(0, 4096, 4000), block(4096, 5120, 5120, "inactive"),
        block(9216, 1024, 600), block(10240, 6144, 0, "inactive"),
    ],
}  # fmt: skip
SNAPSHOT = {"segments": [SEGMENT], "device_traces": [HISTORY], "external_annotations": [], "allocator_settings": {}}


def written(folder: Path, value: Any) -> Path:
    path = folder / "snapshot.pickle"
    path.write_bytes(pickle.dumps(value))
    return path


def test_the_history_is_told_from_its_end(tmp_path: Path) -> None:
    with analyze([written(tmp_path, SNAPSHOT)], tmp_path / "x.duckdb") as database:
        levels = database.rows("select bytes, live_bytes, reserved_bytes from memory_timeline order by time_ns")
        categories = check_categories(database)
        blocks = database.rows("select category, bytes, start_ns is null, basis from _memory_block")
        pools = database.rows("select * exclude (source_id, rank, unused_frac) from memory_fragmentation")
    before = {(700, True), (4000, True)}
    assert {(size, is_before) for _, size, is_before, _ in blocks if is_before} == before
    assert [level for level in levels if level[0] in (1000, -700, 300, -1000, -300, 600)] == [
        (1000, 5700, 24 * KIB), (-700, 5000, 24 * KIB), (300, 5300, 24 * KIB), (-1000, 4300, 24 * KIB),
        (-300, 4000, 24 * KIB), (600, 4600, 16 * KIB),
    ]  # fmt: skip
    assert categories == {
        "unknown": 4000, "gradient": 700, "activation": 1000, "autograd_detail": 300, "optimizer_state": 600
    }  # fmt: skip
    assert {basis for *_, basis in blocks} == {"heuristic"}
    assert pools == [
        ("cuda:0", "peak", None, 24 * KIB, None, 5700, 24 * KIB - 5700, None, None, None),
        ("cuda:0", "end", "small", 16 * KIB, 5 * KIB, 4600, 11 * KIB, 6 * KIB, 2, 1),
    ]  # fmt: skip


@pytest.mark.slow
def test_what_cuda_graphs_hold_in_pools_of_their_own_is_not_unused(
    tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    mib = 2**20
    pool = {
        "device": 0, "address": 1 << 30, "total_size": 500 * mib, "allocated_size": 20 * mib, "stream": 0,
        "segment_type": "large", "segment_pool_id": (1, 0),
        "blocks": [{"address": 1 << 30, "size": 20 * mib, "requested_size": 20 * mib, "state": "active_allocated"},
                   {"address": (1 << 30) + 20 * mib, "size": 480 * mib, "requested_size": 0, "state": "inactive"}],
    }  # fmt: skip
    usual = SEGMENT | {"segment_pool_id": (0, 0)}
    path = written(tmp_path, SNAPSHOT | {"segments": [usual, pool]})
    with analyze([path], tmp_path / "x.duckdb") as database:
        held = database.rows("select moment, pool, reserved_bytes, unused_bytes from memory_fragmentation order by all")
        rules = {rule for (rule,) in database.rows("select rule from memory_finding")}
        ((unused,),) = database.rows("select unused_bytes from out_of_memory")
    assert held[:2] == [("end", "graph", 500 * mib, 0), ("end", "small", 16 * KIB, 11 * KIB)]
    assert held[2][3] == 24 * KIB - 5700 and unused == 24 * KIB - 4300
    assert "fragmentation" not in rules
    assert "besides 480 of CUDA graphs" in " ".join(run_command("summary", path).out.split())


@pytest.mark.slow
def test_steps_of_cuda_graphs_on_a_real_gpu_have_their_memory_in_the_answer(
    tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    path = CAPTURE.parent.parent / "h200-graph" / "snapshot.pickle.gz"
    said = " ".join(run_command("summary", path).out.split())
    assert "besides 5,140 of CUDA graphs" in said and "fragmentation" not in said
    with analyze([path], tmp_path / "x.duckdb") as database:
        held = dict(
            database.rows("select pool, sum(reserved_bytes) from memory_fragmentation where pool = 'graph' group by 1")
        )
    assert held == {"graph": 5268 * 2**20}


@pytest.mark.slow
def test_the_ledger_of_the_run_says_what_the_blocks_are_for(tmp_path: Path) -> None:
    rows = [
        "time_ns,device,address,bytes,category,name,adapter,is_before",
        "1000,cuda:0,0,4000,parameter,w,,1",
        "1000,cuda:0,8192,700,adapter_parameter,a,adapter_0,1",
        "11500,cuda:0,65536,1000,input,,,0",
        "20500,cuda:0,9216,600,gradient,w,,0",
    ]
    (tmp_path / "ledger.csv").write_text("\n".join(rows), "utf-8")
    with analyze([written(tmp_path, SNAPSHOT)], tmp_path / "x.duckdb") as database:
        categories = check_categories(database)
        bases = set(database.rows("select category, basis from _memory_block"))
        peak = database.rows("select sum(live_bytes)::bigint, any_value(peak_bytes) from memory_peak")
    assert categories == {
        "parameter": 4000, "adapter_parameter": 700, "input": 1000, "autograd_detail": 300, "gradient": 600
    }  # fmt: skip
    assert {basis for _, basis in bases} == {"exact"} and peak == [(5700, 5700)]


def test_an_allocation_that_failed_is_explained(tmp_path: Path) -> None:
    with analyze([written(tmp_path, SNAPSHOT)], tmp_path / "x.duckdb") as database:
        ((requested, live, unused, free, category, size, stack),) = database.rows(
            "select requested_bytes, live_bytes, unused_bytes, free_bytes, largest_category, largest_bytes, stack "
            "from out_of_memory"
        )
    assert (requested, live, unused, free) == (9 * KIB, 4300, 24 * KIB - 4300, 4 * KIB)
    assert (category, size, stack) == ("unknown", 4000, "torch/nn/modules/module.py:1 _call_impl")


@pytest.mark.parametrize("path", [CAPTURE, *corpus_params("memory_snapshots/*.pickle")], ids=lambda p: p and p.name)
@pytest.mark.first(1)
@pytest.mark.slow
def test_real_snapshots_end_with_what_their_segments_hold(path: Path, tmp_path: Path) -> None:
    snapshot = plain(path)
    blocks = [b for s in snapshot["segments"] for b in s["blocks"] if b["state"] == "active_allocated"]
    with analyze([path], tmp_path / "x.duckdb") as database:
        check_categories(database)
        ((level, reserved),) = database.rows(
            "select arg_max(live_bytes, time_ns), arg_max(reserved_bytes, time_ns) from memory_timeline"
        )
        ((allocated, requested),) = database.rows(
            "select sum(allocated_bytes), sum(requested_bytes) from memory_fragmentation where moment = 'end'"
        )
        ((lowest, most),) = database.rows("select min(live_bytes), max(live_bytes) from memory_timeline")
        ((live,),) = database.rows("select sum(bytes)::bigint from _memory_block where free_ns is null")
        peak = database.rows("select sum(live_bytes)::bigint, any_value(peak_bytes) from memory_peak")
    assert level == requested == live == sum(b["requested_size"] for b in blocks)
    assert allocated == sum(b["size"] for b in blocks)
    assert reserved == sum(s["total_size"] for s in snapshot["segments"])
    assert lowest > 0 and peak == [(most, most)]


@pytest.mark.parametrize("path", corpus_params("memory_snapshots/llm-training-step.pickle"))
@pytest.mark.slow
def test_full_fine_tuning_has_twice_as_much_state_as_gradients(path: Path, tmp_path: Path) -> None:
    with analyze([path], tmp_path / "x.duckdb") as database:
        most = check_categories(database)
        ((tensors,),) = database.rows(
            "select count(*) from _memory_block where category = 'gradient' and free_ns is null"
        )
        ((one,),) = database.rows("select max(bytes) from _memory_block where category = 'optimizer_state'")
    assert most["gradient"] == 423_183_360 * 4 and tensors == 219  # float32 weights of the model
    # its AdamW makes both moments of a tensor anew before it lets the old ones go
    assert 0 <= most["optimizer_state"] - 2 * most["gradient"] <= 2 * one


@pytest.mark.parametrize("path", corpus_params("memory_snapshots/llm-training-step.pickle"))
@pytest.mark.slow
def test_phases_that_stacks_alone_tell_have_their_memory(path: Path, tmp_path: Path) -> None:
    """The file has one range, the optimizer's: its forward and backward are told by where memory was asked for."""
    with analyze([path], tmp_path / "x.duckdb") as database:
        phases = database.rows("select phase, begin_bytes, peak_bytes, end_bytes from memory_phase")
        ((highest,),) = database.rows("select max(live_bytes) from _memory_level")
    names, begins, peaks, ends = zip(*phases, strict=True)
    assert names == ("load", "forward", "backward", "optimizer")
    assert max(peaks) == highest and begins[1] == ends[0]
    assert all(map(int.__le__, begins, peaks)) and all(map(int.__le__, ends, peaks))


@pytest.mark.slow
def test_ranges_that_were_open_are_those_of_the_trace(tmp_path: Path) -> None:
    with analyze([CAPTURE], tmp_path / "x.duckdb") as database:
        phases = database.rows("select phase, phase_cnt from memory_phase")
        paths = {path for (path,) in database.rows("select path from memory_peak")}
    assert phases == [("load", None), *((phase, 2) for phase in ("data", "h2d", "forward", "backward", "optimizer"))]
    assert "run/step/backward/recompute/model/layers.1/mlp/up_proj" in paths


def test_old_forms_are_read(tmp_path: Path) -> None:
    old = [
        {
            **SEGMENT,
            "blocks": [{"size": 4096, "state": "active_allocated", "history": [{"real_size": 4000, "frames": []}]}],
        }
    ]
    with analyze([written(tmp_path, old)], tmp_path / "x.duckdb") as database:
        assert database.rows("select allocated_bytes, requested_bytes from memory_fragmentation") == [(4096, None)]
        assert database.rows("select bytes from memory_event") == [(4000,)]


@pytest.mark.parametrize("history", [[], [entry("alloc", 1 << 30, 700, 20, FORWARD)]], ids=["without", "with"])
@pytest.mark.slow
def test_what_was_there_before_is_counted_once(history: list[dict[str, Any]], tmp_path: Path) -> None:
    """Blocks of very different sizes: the largest come last in the order of the events."""
    sizes = [512, 1024, 2048, 1 << 20, 3 << 20, 1 << 26]
    places = [sum(sizes[:number]) for number in range(len(sizes))]
    blocks = [block(place, size, size - 8) for place, size in zip(places, sizes, strict=True)]
    segment = SEGMENT | {"total_size": sum(sizes), "allocated_size": sum(sizes), "blocks": blocks}
    later = SEGMENT | {"address": 1 << 30, "blocks": [block(1 << 30, 1024, 700)] if history else []}
    made = SNAPSHOT | {"segments": [segment, later], "device_traces": [history]}
    with analyze([written(tmp_path, made)], tmp_path / "x.duckdb") as database:
        rows = database.rows("select sum(live_bytes), any_value(peak_bytes), max(largest_bytes) from memory_peak")
    there = sum(sizes) - 8 * len(sizes) + sum(event["size"] for event in history)
    assert rows == [(there, there, (1 << 26) - 8)]


@pytest.mark.slow
def test_events_without_times_have_numbers(tmp_path: Path, run_command: Callable) -> None:
    """torch 2.0 recorded the history without times: no view and no picture may invent some."""
    history = [{k: v for k, v in event.items() if k != "time_us"} for event in HISTORY]
    path = written(tmp_path, {**SNAPSHOT, "device_traces": [history]})
    with analyze([path], tmp_path / "x.duckdb") as database:
        check_categories(database)
        assert database.rows("select count(*) from memory_timeline where time_ns is not null") == [(0,)]
        numbers = [n for (n,) in database.rows("select distinct event_number from memory_timeline order by 1")]
        assert numbers == sorted(numbers) and numbers[-1] <= len(HISTORY)
        assert database.rows("select distinct time_ns is null, event_number is null from memory_by_category") == [
            (True, False)
        ]
        assert database.rows("select peak_ns from memory_peak limit 1") == [(None,)]
    run_command("report", path, "-o", tmp_path / "page.html")
    assert "number of the event" in (tmp_path / "page.html").read_text("utf-8")


@pytest.mark.slow
def test_fragments_are_judged_when_most_was_held(tmp_path: Path) -> None:
    """At the end everything is cached and nothing used: that is no fragmentation."""
    mib = 1 << 20

    def event(action: str, address: int, size: int, time: int) -> dict[str, Any]:
        return {"action": action, "addr": address, "size": size, "stream": 0, "time_us": time, "frames": []}

    history = [
        event("segment_alloc", 0, 1000 * mib, 1),
        event("alloc", 0, 900 * mib, 2),
        event("free_requested", 0, 900 * mib, 3),
    ]
    empty = SEGMENT | {"total_size": 1000 * mib, "blocks": [block(0, 1000 * mib, 0, "inactive")]}
    for held, expected in ((900, []), (300, [("fragmentation", 700 * mib)])):
        history[1]["size"] = history[2]["size"] = held * mib
        path = written(tmp_path, {"segments": [empty], "device_traces": [history]})
        with analyze([path], tmp_path / "x.duckdb", force=True) as database:
            found = database.rows("select rule, cost_bytes from memory_finding where rule = 'fragmentation'")
            assert found == expected


def test_what_a_warm_up_left_cached_is_no_fragmentation(tmp_path: Path) -> None:
    """A recording that begins with empty_cache() has most held before it, and nobody saw what for."""
    mib = 1 << 20

    def event(action: str, address: int, size: int, time: int) -> dict[str, Any]:
        return {"action": action, "addr": address, "size": size * mib, "stream": 0, "time_us": time, "frames": []}

    history = [event("segment_free", 5000 * mib * number, 5000, number) for number in range(1, 4)]
    history += [event("segment_alloc", 0, 1000, 4), event("alloc", 0, 900, 5), event("free_requested", 0, 900, 6)]
    empty = SEGMENT | {"total_size": 1000 * mib, "blocks": [block(0, 1000 * mib, 0, "inactive")]}
    path = written(tmp_path, {"segments": [empty], "device_traces": [history]})
    with analyze([path], tmp_path / "x.duckdb") as database:
        peak = database.rows("select reserved_bytes, unused_bytes from memory_fragmentation where moment = 'peak'")
        assert peak == [(1000 * mib, 100 * mib)]
        assert not database.rows("select 1 from memory_finding where rule = 'fragmentation'")


@pytest.mark.parametrize(("times", "says"), [(1, "the weights"), (3, "two states of each (Adam)"), (5, "began")])
@pytest.mark.slow
def test_what_was_there_before_is_held_against_the_gradients(times: int, says: str, tmp_path: Path) -> None:
    kept = {**SEGMENT, "total_size": 10 * times * MIB, "blocks": [block(0, 10 * times * MIB, 10 * times * MIB)]}
    gradient = entry("alloc", 1 << 40, 10 * MIB, 1, BACKWARD), entry("free_requested", 1 << 40, 10 * MIB, 2, ZERO)
    path = written(tmp_path, {"segments": [kept], "device_traces": [[*gradient]]})
    with analyze([path], tmp_path / "x.duckdb") as database:
        ((evidence, advice),) = database.rows(
            "select evidence, advice from memory_finding where rule = 'before_recording'"
        )
    assert evidence.startswith(f"{10 * times:,} MiB were there") and evidence.endswith(says)
    assert ("optimizer" in advice) is (times > 1), "what are the weights alone is no state of an optimizer"


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.slow
def test_weights_that_are_all_trained_are_no_frozen_base(is_whole: bool, tmp_path: Path) -> None:
    """Their gradients show it, though the peak is in the forward, where there are none."""
    load = [{"filename": "/x/site-packages/torch/nn/modules/linear.py", "line": 1, "name": "__init__"}]
    weight, gradient = 100 * MIB, (100 if is_whole else 2) * MIB
    history = [entry("alloc", 1 << 40, weight, 1, load)]
    for step in range(3):
        time, out, down = 100 * step + 10, (2 + step) << 40, (20 + step) << 40
        history += [
            entry("alloc", out, 120 * MIB, time, FORWARD), entry("free_requested", out, 120 * MIB, time + 2, BACKWARD),
            entry("alloc", down, gradient, time + 3, BACKWARD), entry("alloc", 1 << 50, MIB, time + 4, STEP),
            entry("free_requested", 1 << 50, MIB, time + 5, STEP),
            entry("free_requested", down, gradient, time + 6, ZERO),
        ]  # fmt: skip
    path = written(tmp_path, {"segments": [], "device_traces": [history]})
    with analyze([path], tmp_path / "x.duckdb") as database:
        assert not database.rows("select 1 from memory_peak where category = 'gradient'")
        ((advice,),) = database.rows("select advice from memory_finding where rule = 'weights'")
    assert ("All of them are trained" in advice) is is_whole and ("frozen base (QLoRA" in advice) is not is_whole


def test_half_a_character_in_a_name_spoils_nothing(tmp_path: Path) -> None:
    odd = [HISTORY[1] | {"frames": [{"filename": "\ud800.py", "line": 3, "name": "f"}]}]
    with analyze([written(tmp_path, SNAPSHOT | {"device_traces": [odd]})], tmp_path / "x.duckdb") as database:
        assert ("?.py:3 f",) in database.rows("select stack from memory_peak")


class Runs:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch pwned",)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda _: pickle.dumps({"segments": [Runs()]}), "nothing of it was run"),
        (lambda _: pickle.dumps([1, 2, 3]), "no snapshot of torch.cuda.memory"),
        (lambda _: pickle.dumps({"segments": [{"device": 0}]}), "damaged: KeyError"),
        (lambda _: pickle.dumps({"segments": [7], "device_traces": [[]]}), "damaged: TypeError"),
        (lambda _: pickle.dumps({"segments": [SEGMENT | {"address": 2**70}]}), "damaged: OverflowError"),
        (lambda whole: whole[: len(whole) // 2], "not an allocator snapshot"),
        (lambda _: b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f", "not an "),
        (lambda whole: gzip.compress(whole)[:200], "not a whole allocator snapshot"),
    ],
)
@pytest.mark.first(7)
def test_a_file_that_is_no_snapshot_is_refused_and_nothing_of_it_runs(
    damage: Callable[[bytes], bytes], says: str, tmp_path: Path, run_command: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(damage(pickle.dumps(SNAPSHOT)))
    said = run_command("analyze", path, "-o", tmp_path / "x.csv", code=3)
    assert says in said.err and said.err.count("\n") == 1
    assert not (tmp_path / "pwned").exists() and not (tmp_path / "x.csv").exists()


def test_a_decompression_bomb_is_bounded(
    tmp_path: Path, run_command: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_snapshot, "_LEAST_BOMB", 100_000)
    path = tmp_path / "snapshot.pickle.gz"
    path.write_bytes(gzip.compress(pickle.dumps({"segments": [], "filler": b"x" * 1_000_000})))
    assert "expands more than" in run_command("analyze", path, "-o", tmp_path / "x.csv", code=3).err


@pytest.mark.slow
def test_what_memory_is_for_is_compared(tmp_path: Path, run_command: Callable) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    less = {**SNAPSHOT, "device_traces": [[e for e in HISTORY if e["addr"] != 66560]]}
    first, second = written(tmp_path / "a", SNAPSHOT), written(tmp_path / "b", less)
    said = run_command("compare", first, second, "--by", "memory", "--json").out
    found = {
        (row["device"], row["category"]): tuple(value for name, value in row.items() if "spread" not in name)[2:]
        for row in json.loads(said)
    }
    assert found["cuda:0", "gradient"][:3] == (700.0, 700.0, 0.0)
    assert found["cuda:0", "activation"][:3] == (1000.0, 1000.0, 0.0)
    assert next(iter(found.values()))[:2] == (5700.0, 5700.0)


MIB = 2**20


def lived(size: int, frames_of_alloc: Any, frames_of_free: Any) -> dict[str, Any]:
    """A snapshot of a block of so many bytes that came and went beside one of 30 MiB of which nothing is known."""
    history = [entry("alloc", 1, size, 1, frames_of_alloc), entry("free_requested", 1, size, 2, frames_of_free)]
    kept = {**SEGMENT, "total_size": 30 * MIB, "blocks": [block(0, 30 * MIB, 30 * MIB)]}
    return {"segments": [kept], "device_traces": [history if frames_of_alloc else history[1:]]}


LOOP = [{"filename": "/x/train.py", "line": 3, "name": "<module>"}]


def kept(freed_by: Any, has_stacks: bool = True) -> dict[str, Any]:
    """Four blocks of 10 MiB of a forward that `freed_by` frees, and one that the forward gives back itself."""
    forward = FORWARD if has_stacks else []
    history = [entry("alloc", 100 * MIB, 2 * MIB, 1, forward), entry("free_requested", 100 * MIB, 2 * MIB, 2, forward)]
    history += [entry("alloc", number * 10 * MIB, 10 * MIB, 3 + number, forward) for number in range(4)]
    if freed_by is not None:
        history += [entry("free_requested", n * 10 * MIB, 10 * MIB, 90_000 + n, freed_by) for n in reversed(range(4))]
    blocks = [] if freed_by is not None else [block(n * 10 * MIB, 10 * MIB, 10 * MIB) for n in range(4)]
    rest = [block(40 * MIB, 70 * MIB, 0, "inactive")] if freed_by is None else [block(0, 110 * MIB, 0, "inactive")]
    return {"segments": [{**SEGMENT, "total_size": 110 * MIB, "blocks": blocks + rest}], "device_traces": [history]}


@pytest.mark.parametrize("freed_by", [BACKWARD, [], LOOP], ids=["backward", "engine", "loop"])
@pytest.mark.first(1)
@pytest.mark.slow
def test_what_the_forward_keeps_is_activation_whoever_frees_it(
    freed_by: Any, tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    """The engine's thread has no Python; what trains without a backward is dropped by the loop."""
    path = written(tmp_path, kept(freed_by))
    with analyze([path], tmp_path / "x.duckdb") as database:
        held_at_peak = database.rows("select category, sum(live_bytes)::bigint from memory_peak group by 1")
    assert held_at_peak == [("activation", 40 * MIB)]
    said = run_command("summary", path).out
    assert "activations: cuda:0" in said and "40 MiB" in said and "lorabench what-if" not in said
    assert "90.0 ms recorded" in said
    assert ("which the recording does not reach" in " ".join(said.split())) is (freed_by is LOOP)


@pytest.mark.parametrize("share", [0.9, 0.3, 0.05])
@pytest.mark.first(1)
def test_what_autocast_copies_is_said_to_be_copied(share: float, tmp_path: Path) -> None:
    casting = [{"filename": "??", "line": 0, "name": "at::autocast::cached_cast(c10::ScalarType, at::Tensor const&)"}]
    sizes = round(share * 100) * MIB, round((1 - share) * 100) * MIB
    history = [entry("alloc", 0, sizes[0], 1, casting + FORWARD), entry("alloc", sizes[0], sizes[1], 2, FORWARD)]
    history += [
        entry("free_requested", place, size, 3, BACKWARD) for place, size in zip((0, sizes[0]), sizes, strict=True)
    ]
    segment = {**SEGMENT, "total_size": 100 * MIB, "blocks": [block(0, 100 * MIB, 0, "inactive")]}
    path = written(tmp_path, {"segments": [segment], "device_traces": [history]})
    with analyze([path], tmp_path / "x.duckdb") as database:
        stacks = {row[0] for row in database.rows("select stack from memory_peak where contains(stack, '(autocast)')")}
        ((evidence, advice),) = database.rows("select evidence, advice from memory_finding where rule = 'activations'")
    assert stacks == {"torch/nn/modules/module.py:1 _call_impl (autocast)"}
    assert (f"{sizes[0] >> 20} of it are copies by autocast" in evidence) is (share > 0.1)
    assert ("Autocast copies" in advice) is (share > 0.5)


def test_without_stacks_nobody_is_the_engine(tmp_path: Path) -> None:
    with analyze([written(tmp_path, kept([], has_stacks=False))], tmp_path / "x.duckdb") as database:
        assert database.rows("select distinct category from memory_peak") == [("temporary",)]


def held(unused: int) -> dict[str, Any]:
    blocks = [block(0, 30 * MIB, 30 * MIB), block(30 * MIB, unused, 0, "inactive")]
    return {"segments": [{**SEGMENT, "total_size": 30 * MIB + unused, "blocks": blocks}]}


def weights(size: int) -> tuple[dict[str, Any], str]:
    """A trace of one allocation of 30 MiB, and a ledger that knows of weights from before."""
    args = {"Device Type": 1, "Device Id": 0, "Bytes": 30 * MIB, "Addr": 7, "Total Allocated": 90 * MIB}
    event = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 5, "args": args}
    ledger = "time_ns,device,address,bytes,category,name,adapter,is_before"
    return {"traceEvents": [event]}, f"{ledger}\n1,cuda:0,99,{size},parameter,w,,1\n"


def never_freed(size: int) -> dict[str, Any]:
    """A block that the loop keeps beside one of 30 MiB from before."""
    kept = {**SEGMENT, "total_size": 90 * MIB, "blocks": [block(0, 30 * MIB, 30 * MIB), block(60 * MIB, size, size)]}
    return {"segments": [kept], "device_traces": [[entry("alloc", 60 * MIB, size, 1, LOOP)]]}


def grown(is_kept: bool) -> dict[str, Any]:
    """Steps of a forward and an optimizer, each of which keeps 5 MiB or lets them go."""
    history = []
    for number in range(8):
        place, time = number << 30, 100 * number
        history += [
            entry("alloc", place, 5 * MIB, time, FORWARD),
            entry("free_requested", place, 5 * MIB, time + 1, BACKWARD),
        ]
        history.append(entry("alloc", place + 10 * MIB, 5 * MIB, time + 2, FORWARD))
        if not is_kept:
            history.append(entry("free_requested", place + 10 * MIB, 5 * MIB, time + 3, BACKWARD))
        history += [entry("alloc", place, MIB, time + 4, STEP), entry("free_requested", place, MIB, time + 5, STEP)]
    return {"segments": [], "device_traces": [history]}


FAULTS: dict[str, Callable[[bool], Any]] = {
    "activations": lambda bad: lived((20 if bad else 2) * MIB, FORWARD, BACKWARD),
    "forward_results": lambda bad: kept(None) if bad else kept(BACKWARD),
    "gradients": lambda bad: lived((20 if bad else 2) * MIB, None, ZERO),
    "optimizer_state": lambda bad: lived((20 if bad else 2) * MIB, None, STEP),
    "temporaries": lambda bad: lived((20 if bad else 2) * MIB, FORWARD, FORWARD),
    "growth": grown,
    "unexplained": lambda bad: never_freed((20 if bad else 2) * MIB),
    "weights": lambda bad: weights((50 if bad else 5) * MIB),
    "before_recording": lambda bad: lived(2 * MIB, FORWARD, BACKWARD) if bad else kept(BACKWARD),
    "fragmentation": lambda bad: held((100 if bad else 40) * MIB),
    "out_of_memory": lambda bad: SNAPSHOT if bad else {**SNAPSHOT, "device_traces": [HISTORY[:7]]},
}


# Most of them are made beside a block of which nothing is known.
BESIDE = {rule: {"before_recording"} for rule in FAULTS} | {
    "before_recording": {"activations", "fragmentation"}, "growth": {"activations", "forward_results"},
    "forward_results": {"fragmentation", "activations"},
    "weights": {"before_recording", "unexplained"}, "unexplained": {"before_recording", "fragmentation"},
}  # fmt: skip


@pytest.mark.parametrize("rule", [rule.name for rule in sql.in_folder(sql.MEMORY_FINDINGS)])
@pytest.mark.first(1)
def test_each_rule_finds_its_fault_and_nothing_without_it(rule: str, tmp_path: Path) -> None:
    for bad in (True, False):
        made = FAULTS[rule](bad)
        if isinstance(made, tuple):
            path = tmp_path / "memory.json"
            path.write_text(json.dumps(made[0]), "utf-8")
            (tmp_path / "ledger.csv").write_text(made[1], "utf-8")
        else:
            path = written(tmp_path, made)
        with analyze([path], tmp_path / f"{bad}.duckdb") as database:
            found = database.rows("select rule, severity, device, cost_bytes, evidence from memory_finding")
        mine, others = [row for row in found if row[0] == rule], {row[0] for row in found} - {rule}
        assert bool(mine) is bad and others <= BESIDE[rule], found
        for _, _, device, cost, evidence in mine:
            assert device == "cuda:0" and cost > 0 and "MiB" in evidence
