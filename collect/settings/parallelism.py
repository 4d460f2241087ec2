"""Which settings go with which kind of --parallel: what was tried and equals one process, and why the rest is refused.

Needs no torch: everything is known before anything heavy is loaded. What depends on a model's shape is checked for
presets here and for checkpoints when they are opened.
"""

from math import gcd
from typing import Any

from ...errors import UsageError
from ...vocabulary import PARALLEL_SETTINGS
from .presets import PRESETS

NONE = "none"
KINDS = ("ddp", "fsdp", "tp", "pp", "lorapp")
SCHEDULES = ("gpipe", "1f1b", "interleaved", "zbv")
PIPELINES = ("pp", "lorapp")
SHARE_ROWS = ("ddp", "fsdp")  # each device has some sequences of every batch
BUSY = ("data", "h2d", "forward", "backward", "optimizer")  # phases in which a stage of a pipeline does not wait
_CHUNKS = {"interleaved": 2, "zbv": 2}  # stages on each device
_MOST_DEVICES = 128

_MODES = {
    "ddp": ("seq", "switch", "batch"), "fsdp": ("seq", "switch"), "tp": ("seq", "switch"), "pp": ("seq", "switch"),
    "lorapp": ("switch",),
}  # fmt: skip
_WHY_NO_MODE = {
    ("fsdp", "batch"): "its fused operator reads weights of several adapters at once, which FSDP gathers by module",
    ("tp", "batch"): "its operators take whole weights, and tensor parallelism has slices",
    ("pp", "batch"): "a micro-batch of a pipeline belongs to one adapter",
    ("lorapp", "batch"): "a micro-batch of a pipeline belongs to one adapter",
    ("lorapp", "seq"): "adapters that follow each other are what fills its pipeline; use switch",
}
_QUANTS = {
    "ddp": ("none", "int8", "nf4"), "fsdp": ("none", "nf4"), "tp": ("none",), "pp": ("none", "int8", "nf4"),
    "lorapp": ("none", "int8", "nf4"),
}  # fmt: skip
_WHY_NO_QUANT = {
    ("fsdp", "int8"): "bitsandbytes keeps the scales of int8 inside the weight, which FSDP replaces by its shard",
    ("tp", "int8"): "a slice of a quantized weight is not the quantized slice",
    ("tp", "nf4"): "a slice of a quantized weight is not the quantized slice: its blocks are others",
}
# Settings that were held against one process; what is not among them is refused, whoever adds it.
_TRIED = frozenset({
    "method", "peft_mode", "lora_cnt", "rank", "alpha", "dropout", "target_modules", "learning_rate", "model", "quant",
    "dtype", "adapter_dtype", "seq_len", "batch_size", "grad_accum", "optimizer", "gradient_checkpointing", "reentrant",
    "compile", "force_compile", "batch_operator", "graph_pruning", "data", "lengths", "steps", "warmup", "seed",
    "device", "parallel", "devices", *PARALLEL_SETTINGS, "profiler", "range_depth", "wait_steps", "warmup_steps",
    "active_steps", "repeat", "profiling_frequency", "with_stack", "with_shapes", "timeout_s",
})  # fmt: skip
_METHODS = {"lora": KINDS, "qlora": KINDS, "full": SHARE_ROWS}  # and the kinds that each was tried with
_TRIED_VALUES = {"optimizer": ("adamw", "sgd", "adafactor")}


def stage_cnt(spec: Any) -> int:
    """How many stages the pipeline has: one a device, or two."""
    return int(spec.devices) * (_CHUNKS.get(spec.pp_schedule, 1) if spec.parallel == "pp" else 1)


def micro_batch_cnt(spec: Any) -> int:
    """Into how many micro-batches a pipeline cuts a batch: by default one for each stage of pp, one with lorapp."""
    return int(spec.micro_batches) or (stage_cnt(spec) if spec.parallel == "pp" else 1)


def ideal_bubble(spec: Any) -> float | None:
    """The part of a step that a device waits in a pipeline of equal stages; None where no formula is published.

    Of mLoRA's paper: (D - 1) / (N + D - 1) with N micro-batches on D devices; micro-batches of different adapters that
    follow each other without a flush leave (D - N) / D. Two stages on a device halve the fill (Narayanan et al. 2021).
    """
    devices, count = int(spec.devices), micro_batch_cnt(spec)
    if spec.parallel == "lorapp":
        filling: int = sum(count * spec.grad_accum[n if len(spec.grad_accum) > 1 else 0] for n in range(spec.lora_cnt))
        return max(0.0, (devices - filling) / devices)
    if spec.pp_schedule == "zbv":
        return None
    fill = (devices - 1) / _CHUNKS.get(spec.pp_schedule, 1)
    ideal: float = fill / (count + fill)
    return ideal


def check(spec: Any, given: set[str]) -> None:
    """Raise UsageError for settings that the kind of parallelism cannot do, or that would change nothing."""
    for name, kinds in ({"devices": KINDS} | PARALLEL_SETTINGS).items():
        if name in given and spec.parallel not in kinds:
            raise UsageError(f"--{name.replace('_', '-')} applies to --parallel {'|'.join(kinds)}")
    if spec.parallel == NONE:
        return
    _check_tried(spec, given)
    if not 2 <= spec.devices <= _MOST_DEVICES:
        raise UsageError(f"--devices is {spec.devices}; --parallel needs 2 to {_MOST_DEVICES}")
    _check_mode(spec)
    _check_base(spec)
    preset = PRESETS.get(spec.model)
    if preset is not None:
        check_shape(spec, preset.task == "classification", preset.settings)
    _check_rows(spec)
    if spec.parallel in PIPELINES:
        _check_pipeline(spec)


def _check_tried(spec: Any, given: set[str]) -> None:
    untried = [name for name in sorted(given, key=lambda name: (name != "task", name)) if name not in _TRIED]
    untried += [name for name, values in _TRIED_VALUES.items() if getattr(spec, name) not in values]
    if untried:
        option, value = f"--{untried[0].replace('_', '-')}", getattr(spec, untried[0])
        said = option if value is True else f"{option} {value}"
        raise UsageError(f"{said} was not tried with --parallel; leave one of them out")


def _check_mode(spec: Any) -> None:
    kind, mode = spec.parallel, spec.peft_mode
    if mode == "process":
        raise UsageError(f"--parallel {kind} has processes of its own; leave --peft-mode process out")
    if mode not in _MODES[kind]:
        raise UsageError(f"--parallel {kind} does not go with --peft-mode {mode}: {_WHY_NO_MODE[kind, mode]}")
    if spec.device.startswith("cuda:"):
        raise UsageError(f"--parallel takes the first {spec.devices} GPUs; write --device cuda, not {spec.device}")
    if mode == "batch" and len(set(spec.grad_accum)) > 1:
        raise UsageError("--peft-mode batch with --parallel ddp: adapters must have the same --grad-accum")


def _check_base(spec: Any) -> None:
    kind = spec.parallel
    if spec.quantisation not in _QUANTS[kind]:
        why = _WHY_NO_QUANT.get((kind, spec.quantisation), "it was not tried")
        raise UsageError(f"--parallel {kind} does not go with --quant {spec.quantisation}: {why}")
    if kind not in _METHODS.get(spec.method, ()):
        tried = " and ".join(_METHODS.get(spec.method, ("none",)))
        raise UsageError(f"--parallel {kind} was not tried with --method {spec.method}, which goes with {tried}")
    if spec.compile != "eager":
        raise UsageError(f"--compile {spec.compile} was not tried with --parallel; leave one of them out")
    if spec.reentrant and kind != "ddp":
        raise UsageError(
            f"--reentrant does not go with --parallel {kind}: its backward runs outside of the hooks there"
        )
    if spec.gradient_checkpointing == "attn-mlp" and kind != "ddp":
        raise UsageError(f"--gradient-checkpointing attn-mlp was not tried with --parallel {kind}; use layer or none")
    if spec.optimizer == "adafactor" and kind in ("fsdp", "tp"):
        raise UsageError(
            f"--optimizer adafactor does not go with --parallel {kind}: it needs rows and columns of a whole weight"
        )


def _check_rows(spec: Any) -> None:
    parts, word = (
        (spec.devices, f"--devices {spec.devices}")
        if spec.parallel in SHARE_ROWS
        else (micro_batch_cnt(spec), f"{micro_batch_cnt(spec)} micro-batches")
        if spec.parallel in PIPELINES
        else (1, "")
    )
    for rows in spec.batch_size:
        if rows % parts:
            raise UsageError(
                f"--batch-size {rows} cannot be shared equally among {word}; it counts the sequences of all devices, "
                f"so give a multiple of {parts}"
            )


def check_shape(spec: Any, is_classifier: bool, config: dict[str, Any]) -> None:
    """Raise UsageError for a model that cannot be cut as asked. `config` has the sizes of its config.json."""
    kind = spec.parallel
    if is_classifier:
        if kind != "ddp":
            raise UsageError(f"--parallel {kind} cuts decoders; {spec.model} is a classifier, use ddp")
        return
    if kind == "tp":
        _check_slices(spec, config)
    if kind in PIPELINES:
        balance(spec, config["num_hidden_layers"])


def _check_slices(spec: Any, config: dict[str, Any]) -> None:
    heads = config["num_attention_heads"]
    key_heads = config.get("num_key_value_heads") or heads
    common = gcd(gcd(heads, key_heads), config["intermediate_size"])
    if common % spec.devices:
        fitting = [n for n in range(2, common + 1) if common % n == 0]
        remedy = f"use --devices {' or '.join(map(str, fitting))}" if fitting else "use fsdp or pp"
        raise UsageError(
            f"--parallel tp: {heads} attention heads and {key_heads} of keys cannot be shared equally among "
            f"{spec.devices} devices; {remedy}"
        )


def balance(spec: Any, layer_cnt: int) -> tuple[int, ...]:
    """How many parts of embedding + layers + norm + head each stage has.

    By default layers are shared equally, the first stage has the embedding and the last one norm and head; where there
    are fewer layers than stages all parts are shared equally. Raises UsageError for a balance that does not fit.
    """
    stages, parts = stage_cnt(spec), layer_cnt + 3
    if spec.balance:
        if len(spec.balance) != stages or sum(spec.balance) != parts or min(spec.balance) < 1:
            raise UsageError(
                f"--balance {','.join(map(str, spec.balance))}: {spec.model} has {parts} parts (embedding, {layer_cnt} "
                f"layers, norm, head) for {stages} stages; give {stages} numbers that add up to {parts}"
            )
        if spec.balance[0] < 2:
            raise UsageError("--balance: the first stage has the embedding and at least one layer, so at least 2")
        return tuple(spec.balance)
    if parts - 1 < stages:
        raise UsageError(f"{spec.model} has {layer_cnt} layers, too few for {stages} stages of a pipeline")
    if layer_cnt < stages:
        shared = _equally(parts, stages)
        return shared if shared[0] > 1 else (2, *_equally(parts - 2, stages - 1))
    shared = _equally(layer_cnt, stages)
    return (shared[0] + 1, *shared[1:-1], shared[-1] + 2)


def _equally(parts: int, among: int) -> tuple[int, ...]:
    return tuple(parts // among + (n < parts % among) for n in range(among))


def _check_pipeline(spec: Any) -> None:
    count, stages = micro_batch_cnt(spec), stage_cnt(spec)
    if spec.micro_batches < 0:
        raise UsageError("--micro-batches must be at least 1")
    if spec.parallel != "pp":
        return
    if spec.pp_schedule == "1f1b" and count < stages:
        raise UsageError(f"--pp-schedule 1f1b needs as many --micro-batches as devices; {count} is below {stages}")
    rounds = max(1, count // spec.devices)
    if spec.pp_schedule == "interleaved" and count % rounds:
        raise UsageError(
            f"--pp-schedule interleaved: {count} --micro-batches cannot be shared equally among {rounds} rounds of "
            f"{spec.devices} devices; give a multiple of {spec.devices}"
        )
