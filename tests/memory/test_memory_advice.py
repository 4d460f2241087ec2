"""What the rules of memory say where stacks tell more than sizes: quantized bases, attention, who asks for it."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, opened
from lorabench.analyze.pipeline import analyze

MIB = 2**20
LIBRARY = "/opt/venv/lib/python3.12/site-packages"
DEBIAN = "/usr/local/lib/python3.12/dist-packages"
BACKWARD = [{"filename": "", "line": 0, "name": "torch::autograd::Engine::evaluate_function(...)"}]


def stack(*frames: str) -> list[dict[str, Any]]:
    """Frames written as 'file:line function'."""
    return [
        {"filename": file, "line": int(line), "name": name}
        for file, _, rest in (frame.partition(":") for frame in frames)
        for line, name in [rest.split(" ")]
    ]


FORWARD = stack(f"{LIBRARY}/torch/nn/modules/module.py:9 _call_impl", "/me/train.py:3 main")


def findings(folder: Path, allocated_by: Any, freed_by: Any, others: Any = ()) -> dict[str, tuple[str, str]]:
    """Evidence and advice by rule, of 40 MiB that come and go beside 30 from before and 4 of each other."""
    history = [(allocated_by, freed_by, 40 * MIB), *((*other, 4 * MIB) for other in others)]
    events = [
        {"action": action, "addr": number << 40, "size": size, "stream": 0, "time_us": when + number, "frames": frames}
        for number, (allocated, freed, size) in enumerate(history, start=1)
        for when, action, frames in ((10, "alloc", allocated), (50, "free_requested", freed))
        if frames is not None
    ]
    kept = {"address": 0, "size": 30 * MIB, "requested_size": 30 * MIB, "state": "active_allocated", "frames": []}
    segment = {
        "device": 0, "address": 0, "total_size": 30 * MIB, "allocated_size": 30 * MIB, "stream": 0,
        "segment_type": "large", "blocks": [kept],
    }  # fmt: skip
    events.sort(key=lambda event: event["time_us"])
    path = folder / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"segments": [segment], "device_traces": [events]}))
    with analyze([path], folder / "x.duckdb") as database:
        rows = database.rows("select rule, evidence, advice from memory_finding")
    return {rule: (evidence, advice) for rule, evidence, advice in rows}


@pytest.mark.parametrize("packages", [LIBRARY, DEBIAN])
@pytest.mark.parametrize(
    ("frames", "place"),
    [
        (["{}/torch/functional.py:3 einsum", "/me/model.py:4 f"], "torch/functional.py:3 einsum in /me/model.py:4 f"),
        (["/me/model.py:4 attend", "/me/train.py:9 main"], "/me/model.py:4 attend"),
        (["{}/torch/nn/functional.py:1 silu", "{}/torch/nn/modules/module.py:9 c"], "torch/nn/functional.py:1 silu"),
        (
            ["{}/bitsandbytes/autograd/_functions.py:5 forward", "{}/accelerate/hooks.py:1 new_forward",
             "{}/transformers/models/llama/modeling_llama.py:7 forward", "/me/train.py:9 main"],
            "bitsandbytes/autograd/_functions.py:5 forward in transformers/models/llama/modeling_llama.py:7 forward",
        ),
        (["/lib/python3.12/contextlib.py:1 i", "model.py:4 f"], "/lib/python3.12/contextlib.py:1 i in model.py:4 f"),
    ],
)  # fmt: skip
@pytest.mark.first(4)
def test_the_line_of_the_program_is_named_where_a_library_asks_for_memory(
    frames: list[str], place: str, packages: str, tmp_path: Path
) -> None:
    found = findings(tmp_path, stack(*(frame.format(packages) for frame in frames)), BACKWARD)
    assert found["activations"][0].endswith(f"the largest: {place}")


@pytest.mark.parametrize(
    "layer", ["bitsandbytes/autograd/_functions.py:5 forward", "hqq/core/quantize.py:8 forward"]
)  # fmt: skip
def test_a_base_that_is_quantised_is_not_advised_to_be(layer: str, tmp_path: Path) -> None:
    evidence, advice = findings(tmp_path, stack(f"{LIBRARY}/{layer}"), BACKWARD)["before_recording"]
    assert "the largest alone 30" in evidence and "quantized already" in advice and "(QLoRA)" not in advice


def test_an_optimizer_in_8_bits_is_no_quantised_base(tmp_path: Path) -> None:
    step = stack(f"{LIBRARY}/bitsandbytes/optim/optimizer.py:5 step"), stack("/me/train.py:9 main")
    _, advice = findings(tmp_path, FORWARD, BACKWARD, [step])["before_recording"]
    assert "(QLoRA)" in advice


def test_where_nothing_learns_no_state_of_an_optimizer_is_suspected(tmp_path: Path) -> None:
    (tmp_path / "inference").mkdir()
    _, alone = findings(tmp_path / "inference", FORWARD, FORWARD)["before_recording"]
    _, learning = findings(tmp_path, FORWARD, BACKWARD)["before_recording"]
    assert "nothing is trained" in alone and "optimizer" not in alone and "optimizer" in learning


def test_a_program_that_shows_no_forward_may_learn_nothing_either(tmp_path: Path) -> None:
    """Stacks would show a backward. Without any stack nobody knows."""
    (tmp_path / "blind").mkdir()
    asked = stack("/me/serve.py:9 embed", "/me/serve.py:3 main")
    _, alone = findings(tmp_path, asked, asked)["before_recording"]
    _, blind = findings(tmp_path / "blind", [], [])["before_recording"]
    assert "nothing is trained" in alone and "optimizer" not in alone and "optimizer" in blind


@pytest.mark.parametrize("used", [0, 100])
def test_a_segment_of_which_nothing_is_used_is_a_cache_and_no_fragments(used: int, tmp_path: Path) -> None:
    segments = []
    for number, (size, taken) in enumerate([(600, 600), (500, used)]):
        begin = number << 40
        blocks = [
            {"address": begin, "size": taken * MIB, "requested_size": taken * MIB, "state": "active_allocated"},
            {"address": begin + taken * MIB, "size": (size - taken) * MIB, "state": "inactive"},
        ]
        segments.append({
            "device": 0, "address": begin, "total_size": size * MIB, "allocated_size": taken * MIB, "stream": 0,
            "segment_type": "large", "blocks": [{"frames": []} | block for block in blocks if block["size"]],
        })  # fmt: skip
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"segments": segments, "device_traces": [[]]}))
    with analyze([path], tmp_path / "x.duckdb") as database:
        found = database.rows("select cost_bytes from memory_finding where rule = 'fragmentation'")
    assert found == ([(400 * MIB,)] if used else [])


@pytest.mark.parametrize("device", [0, -1])
def test_workspaces_of_cublas_are_on_no_cpu(device: int, tmp_path: Path) -> None:
    events = [memory_event(1000.0 + number, (-1) ** number * 60 * MIB, 1, 60 * MIB * (1 - number)) for number in (0, 1)]
    for event in events:
        event["args"] |= {"Device Id": device, "Device Type": 1 if device == 0 else 0}
    operator = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 999.0, "dur": 9000.0}
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": [operator, *events]}))
    with analyze([tmp_path / "trace.json"], tmp_path / "x.duckdb") as database:
        ((advice,),) = database.rows("select advice from memory_finding where rule = 'temporaries'")
    assert ("CUBLAS_WORKSPACE_CONFIG" in advice) == (device == 0)


@pytest.mark.slow
def test_a_change_of_what_has_memory_alone_is_refused(tmp_path: Path, run_command: Callable[..., Any]) -> None:
    findings(tmp_path, FORWARD, BACKWARD)
    said = run_command("what-if", tmp_path / "snapshot.pickle").out
    assert said.startswith("nothing can be replayed") and "--change" not in said
    said = run_command("what-if", tmp_path / "snapshot.pickle", "--change", "cpu=*:0.5", code=2).err
    assert "cpu=*:0.5: nothing can be replayed: there is" in said


@pytest.mark.parametrize(("size", "is_said"), [(4, False), (60, True)])
@pytest.mark.slow
def test_peaks_at_different_moments_are_said_to_be(
    size: int, is_said: bool, tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    """Where the optimizer takes more than the forward has kept, its step is the highest."""
    step = stack("/me/train.py:9 main", f"{LIBRARY}/torch/optim/adamw.py:7 step")
    findings(tmp_path, FORWARD, BACKWARD)
    held = pickle.loads((tmp_path / "snapshot.pickle").read_bytes())
    for time, action in ((90, "alloc"), (91, "free_requested")):
        event = {"action": action, "addr": 9 << 40, "size": size * MIB, "stream": 0, "time_us": time, "frames": step}
        held["device_traces"][0].append(event)
    (tmp_path / "other.pickle").write_bytes(pickle.dumps(held))
    said = run_command("compare", tmp_path / "snapshot.pickle", tmp_path / "other.pickle").out
    told = "Peaks are at different moments, A in its forward, B in its optimizer"
    assert (told in " ".join(said.split())) is is_said


def test_the_node_of_the_backward_that_makes_memory_is_named(tmp_path: Path) -> None:
    node = [
        {"filename": "", "line": 0, "name": "torch::autograd::generated::BmmBackward0::apply(std::vector<at::Tensor>)"}
    ]
    found = findings(tmp_path, node + BACKWARD, BACKWARD)
    evidence, advice = found["temporaries"]
    assert evidence.endswith("the largest: BmmBackward0 (autograd engine)") and advice.startswith(
        "The backward makes them"
    )


@pytest.mark.slow
def test_what_was_there_beside_the_states_of_the_optimizer_are_the_weights(tmp_path: Path) -> None:
    """Adam has two for each weight."""
    step = stack("/me/train.py:9 main", f"{LIBRARY}/torch/optim/adamw.py:7 step")
    freed = {"action": "free_requested", "addr": 9 << 40, "size": 60 * MIB, "stream": 0, "time_us": 2, "frames": step}
    path = tmp_path / "snapshot.pickle"
    findings(tmp_path, FORWARD, BACKWARD)
    held = pickle.loads(path.read_bytes())
    held["device_traces"][0].append(freed | {"time_us": 90})
    path.write_bytes(pickle.dumps(held))
    with analyze([path], tmp_path / "y.duckdb") as database:
        found = {
            rule: (evidence, advice)
            for rule, evidence, advice in database.rows("select rule, evidence, advice from memory_finding")
        }
    evidence, advice = found["before_recording"]
    assert evidence.endswith("half as much as the states of the optimizer: the weights")
    assert advice.startswith("Weights, all of which are trained")


@pytest.mark.slow
def test_a_snapshot_is_compared_with_what_has_memory_alone(tmp_path: Path, run_command: Callable[..., Any]) -> None:
    findings(tmp_path, FORWARD, BACKWARD)
    fixtures = ROOT / "fixtures"
    said = run_command("compare", tmp_path / "snapshot.pickle", fixtures / "lora-run.sqlite", code=2).err
    assert "nothing in common" in said
    args = {"Device Type": 1, "Device Id": 0, "Bytes": MIB, "Addr": 7, "Total Allocated": MIB}
    event = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 5, "args": args}
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": [event]}), "utf-8")
    said = run_command("compare", tmp_path / "snapshot.pickle", tmp_path / "trace.json").out
    assert said.startswith("live memory of B: 70.00 -> 1.00 MiB")
    run_command("compare", tmp_path / "snapshot.pickle", tmp_path / "trace.json", "-o", tmp_path / "c.html")
    page = (tmp_path / "c.html").read_text("utf-8")
    assert "Live memory of B: 70.00 -&gt; 1.00 MiB" in page


def test_what_the_peak_does_not_hang_on_is_said(tmp_path: Path) -> None:
    """Gradients of 40 MiB at a peak beside which activations of 38 came as high before them."""

    def event(action: str, number: int, size: int, time: int, frames: Any) -> dict[str, Any]:
        return {
            "action": action,
            "addr": number << 40,
            "size": size * MIB,
            "stream": 0,
            "time_us": time,
            "frames": frames,
        }

    step = stack("/me/train.py:9 main", f"{LIBRARY}/torch/optim/adamw.py:7 step")
    zero = stack(f"{LIBRARY}/torch/optim/optimizer.py:9 zero_grad")
    history = [
        event("alloc", 1, 38, 1, FORWARD), event("free_requested", 1, 38, 2, BACKWARD),
        event("alloc", 2, 40, 3, BACKWARD), event("alloc", 3, 2, 4, step),
        event("free_requested", 3, 2, 5, step), event("free_requested", 2, 40, 6, zero),
    ]  # fmt: skip
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [history]}))
    with analyze([path], tmp_path / "x.duckdb") as database:
        found = database.rows("select rule, cost_bytes, fall_bytes, evidence from memory_finding")
    ((rule, cost, fall, evidence),) = found
    assert (rule, cost, fall) == ("gradients", 40 * MIB, 4 * MIB)
    assert evidence.endswith("; without them the peak falls by 4 MiB: then another moment is the highest")


@pytest.mark.parametrize("function", ["softmax", "scaled_dot_product_attention", "eager_attention_forward"])
@pytest.mark.slow
def test_scores_of_attention_need_not_be_there_at_all(function: str, tmp_path: Path) -> None:
    asked = stack(f"{LIBRARY}/torch/functional.py:373 einsum", f"/me/model.py:4 {function}")
    _, advice = findings(tmp_path, asked, FORWARD)["temporaries"]
    assert "scaled_dot_product_attention, flash" in advice


@pytest.mark.parametrize(
    ("asked", "left", "is_there"), [(50, 0, True), (70, 10, True), (90, 20, False), (70, None, False)]
)
@pytest.mark.first(2)
@pytest.mark.slow
def test_memory_that_was_there_in_pieces_is_not_said_to_be_too_little(
    asked: int, left: int | None, is_there: bool, tmp_path: Path
) -> None:
    """60 MiB of a segment of 100 are unused, and the device had some left."""
    kept = {"address": 0, "size": 40 * MIB, "requested_size": 40 * MIB, "state": "active_allocated", "frames": []}
    free = {"address": 40 * MIB, "size": 60 * MIB, "requested_size": 60 * MIB, "state": "inactive", "frames": []}
    segment = {
        "device": 0, "address": 0, "total_size": 100 * MIB, "allocated_size": 40 * MIB, "stream": 0,
        "segment_type": "large", "blocks": [kept, free],
    }  # fmt: skip
    failed = {"action": "oom", "addr": 0, "size": asked * MIB, "stream": 0, "time_us": 9, "frames": FORWARD}
    events = [failed | ({} if left is None else {"device_free": left * MIB})]
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"segments": [segment], "device_traces": [events]}))
    with analyze([path], tmp_path / "x.duckdb") as database:
        ((advice, fall),) = database.rows("select advice, fall_bytes from memory_finding where rule = 'out_of_memory'")
    assert ("It was there, in pieces" in advice) == is_there
    assert ("must use less memory" in advice) != is_there
    assert fall is None  # what was not allocated is in no peak


@pytest.mark.parametrize("says", [{}, {"allocator_settings": {"expandable_segments": True}}, {"is_expandable": True}])
@pytest.mark.first(2)
def test_segments_that_grow_already_are_not_advised_to(says: dict[str, Any], tmp_path: Path) -> None:
    kept = {"address": 0, "size": 40 * MIB, "requested_size": 40 * MIB, "state": "active_allocated", "frames": []}
    free = {"address": 40 * MIB, "size": 160 * MIB, "requested_size": 160 * MIB, "state": "inactive", "frames": []}
    segment = {
        "device": 0, "address": 0, "total_size": 200 * MIB, "allocated_size": 40 * MIB, "stream": 0,
        "segment_type": "large", "blocks": [kept, free], "is_expandable": says.get("is_expandable", False),
    }  # fmt: skip
    failed = {"action": "oom", "addr": 0, "size": 90 * MIB, "stream": 0, "time_us": 9, "frames": FORWARD}
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"segments": [segment], "device_traces": [[failed]], **says}))
    with analyze([path], tmp_path / "x.duckdb") as database:
        advice = dict(database.rows("select rule, advice from memory_finding"))
    for rule in ("fragmentation", "out_of_memory"):
        assert ("expandable_segments:True" in advice[rule]) == (not says)
        assert "sizes" in advice[rule] or "shapes" in advice[rule]


def test_the_largest_that_is_in_no_range_is_not_called_the_next_one(tmp_path: Path) -> None:
    both = [("backward", 4, (1000, 2000)), (None, 60, (3000, 4000)), (None, 4, (5000, 9000))]
    ranges = [{"ph": "X", "cat": "user_annotation", "name": "backward", "pid": 1, "tid": 1, "ts": 1000.0, "dur": 900.0}]
    live, events = 0, []
    for number, (_, size, (begin, _)) in enumerate(both, start=1):
        live += size * MIB
        events.append(memory_event(begin + 1.0, size * MIB, number, live))
    for number, (_, size, _) in enumerate(both, start=1):
        live -= size * MIB
        events.append(memory_event(9500.0 + number, -size * MIB, number, live))
    operator = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1000.0, "dur": 9000.0}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": [*ranges, operator, *events]}))
    with analyze([path], tmp_path / "x.duckdb") as database:
        largest = database.rows("select path from memory_peak order by live_bytes desc limit 1")[0][0]
        found = database.rows("select evidence from memory_finding where contains(evidence, 'the largest: ')")
    for (evidence,) in found:
        assert evidence.split("the largest: ")[1].startswith(largest or "outside all ranges")
    assert found


def memory_event(time_us: float, size: int, address: int, live: int) -> dict[str, Any]:
    said = {"Bytes": size, "Addr": address << 40, "Device Type": 0, "Device Id": -1, "Total Allocated": live}
    return {
        "ph": "i",
        "s": "t",
        "cat": "cpu_instant_event",
        "name": "[memory]",
        "pid": 1,
        "tid": 1,
        "ts": time_us,
        "args": said,
    }


FSDP = [f"{LIBRARY}/torch/distributed/fsdp/_fully_shard/_fsdp_param.py:560 alloc_all_gather_outputs",
        f"{LIBRARY}/torch/nn/modules/module.py:9 _call_impl", "/me/train.py:3 main"]  # fmt: skip
DDP = [f"{LIBRARY}/torch/nn/parallel/distributed.py:1210 _ddp_init_helper", "/me/train.py:3 main"]
LOSS = [f"{LIBRARY}/torch/nn/functional.py:3500 cross_entropy", "/me/model.py:9 forward", "/me/train.py:3 main"]
AGAIN = [f"{LIBRARY}/torch/nn/modules/linear.py:1 forward", f"{LIBRARY}/torch/utils/checkpoint.py:488 checkpoint",
         "/me/train.py:3 main"]  # fmt: skip


@pytest.mark.parametrize(
    ("allocated", "freed", "rule", "begins"),
    [
        (FSDP, BACKWARD, "weights", "40 MiB of them FSDP gathers"),
        (LOSS, BACKWARD, "activations", "40 MiB of it are logits"),
        (AGAIN, BACKWARD, "activations", "They are recomputed already"),
        ([FORWARD, "/me/train.py:8 evaluate"], None, "forward_results", "Find what holds it"),
        ([FORWARD, "/me/train.py:8 train"], None, "activations", "Recompute them"),
    ],
    ids=["FSDP", "loss", "checkpoint", "evaluation", "training"],
)
@pytest.mark.first(3)
@pytest.mark.slow
def test_advice_is_on_what_the_stacks_show(
    allocated: list[Any], freed: Any, rule: str, begins: str, tmp_path: Path
) -> None:
    """Beside a forward and a backward, in which something learns."""
    frames = [f for part in allocated for f in (stack(part) if isinstance(part, str) else part)]
    _, advice = findings(tmp_path, frames, freed or stack("/me/train.py:8 main"), [(FORWARD, BACKWARD)])[rule]
    assert advice.startswith(begins)


def test_what_the_engine_of_autograd_asks_for_is_the_backwards_beside_recomputing(tmp_path: Path) -> None:
    """Its thread has no Python but what recomputes; who has frees with stacks has all that Python asks for."""
    cleared = stack(f"{LIBRARY}/torch/optim/optimizer.py:9 zero_grad")
    again = stack(f"{LIBRARY}/torch/utils/checkpoint.py:9 recompute_fn")
    found = findings(tmp_path, [], cleared, [(FORWARD, stack("/me/train.py:3 main")), (again, [])])
    assert found["gradients"][0].startswith("40 MiB of gradients")


@pytest.mark.slow
def test_weights_whose_optimizer_keeps_as_much_are_no_frozen_base(tmp_path: Path) -> None:
    made = stack(
        f"{LIBRARY}/torch/nn/modules/module.py:9 convert",
        f"{LIBRARY}/torch/nn/modules/module.py:1 to",
        "/me/t.py:3 main",
    )
    state = stack(f"{LIBRARY}/torch/optim/adamw.py:205 _init_group")
    others = [(state, None)] * 10
    _, advice = findings(tmp_path, made, None, [*others, (FORWARD, BACKWARD)])["weights"]
    _, frozen = findings(tmp_path, made, None, [*others[:5], (FORWARD, BACKWARD)])["weights"]
    assert advice.startswith("All of them are trained") and frozen.startswith("Quantize the frozen base")


@pytest.mark.slow
def test_weights_that_peft_makes_are_an_adapters(tmp_path: Path) -> None:
    made = stack(
        f"{LIBRARY}/torch/nn/modules/linear.py:9 __init__", f"{LIBRARY}/peft/tuners/lora/layer.py:300 update_layer"
    )
    findings(tmp_path, made, None, [(FORWARD, BACKWARD)])
    with opened(tmp_path / "snapshot.pickle") as database:
        assert database.rows("select category from memory_peak where live_bytes >= 40 * 1048576") == [
            ("adapter_parameter",)
        ]


def test_fragments_are_what_is_not_in_use_when_most_is(tmp_path: Path) -> None:
    """Most is held for a moment in which a step has just begun to use it."""
    events = []
    for time, size, allocated, reserved in (
        (0, 300, 300, 1000),
        (10, 87, 387, 1400),
        (20, 632, 1019, 1394),
        (30, -632, 387, 1394),
    ):
        args = {"Device Type": 1, "Device Id": 0, "Bytes": size * MIB, "Addr": abs(size) << 30,
                "Total Allocated": allocated * MIB, "Total Reserved": reserved * MIB}  # fmt: skip
        events.append(
            {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": time, "args": args}
        )
    (tmp_path / "run.json").write_text(json.dumps({"traceEvents": events}), "utf-8")
    with opened(tmp_path / "run.json") as database:
        found = database.rows("select reserved_bytes >> 20, unused_bytes >> 20 from memory_fragmentation")
    assert found == [(1394, 375)]


@pytest.mark.parametrize("is_view", [True, False])
@pytest.mark.slow
def test_buckets_of_ddp_are_gradients_and_twice_where_they_are_copied(is_view: bool, tmp_path: Path) -> None:
    kept = [(FORWARD, BACKWARD), *([] if is_view else [(BACKWARD, None)] * 10)]
    evidence, advice = findings(tmp_path, stack(*DDP), None, kept)["gradients"]
    assert "40 of them are the buckets of DDP" in evidence
    assert ("gradient_as_bucket_view=True" in advice) is not is_view


def test_what_an_evaluation_of_transformers_gathers_is_named(tmp_path: Path) -> None:
    helpers = f"{LIBRARY}/transformers/trainer_pt_utils.py"
    gathered = stack(f"{helpers}:90 torch_pad_and_concatenate", f"{helpers}:120 nested_concat", "/me/train.py:3 main")
    _, advice = findings(tmp_path, gathered, gathered, [(FORWARD, BACKWARD)])["temporaries"]
    assert "eval_accumulation_steps=N" in advice


@pytest.mark.parametrize("stepped", [False, True])
def test_what_the_first_step_would_have_allocated_besides_is_said(stepped: bool, tmp_path: Path) -> None:
    train = stack(f"{LIBRARY}/torch/nn/modules/module.py:9 _call_impl", "/me/train.py:3 train")
    events = [
        {"action": action, "addr": number << 40, "size": 40 * MIB, "stream": 0, "time_us": number, "frames": frames}
        for number, (action, frames) in enumerate(
            [("alloc", train), ("alloc", BACKWARD)]
            + [("alloc", stack(f"{LIBRARY}/torch/optim/adamw.py:205 _init_group"))] * stepped
            + [("alloc", train)], start=1,
        )
    ]  # fmt: skip
    events.append(
        {"action": "oom", "addr": 0, "size": 90 * MIB, "stream": 0, "time_us": 9, "frames": train, "device_free": 0}
    )
    (tmp_path / "x.pickle").write_bytes(pickle.dumps({"segments": [], "device_traces": [events]}))
    with opened(tmp_path / "x.pickle") as database:
        ((advice,),) = database.rows("select advice from memory_finding where rule = 'out_of_memory'")
    assert ("No step has finished" in advice) is not stepped
