"""What a RunSpec may be: its values, contradictions, settings that would change nothing. All is refused in one line."""

import dataclasses
from typing import TYPE_CHECKING

from ...errors import SettingError, UsageError
from ...vocabulary import PASSES
from . import kinds, parallelism, tasks
from .methods import METHODS
from .presets import PRESETS
from .quants import GPTQ

if TYPE_CHECKING:
    from .spec import RunSpec

DEFAULT_TARGETS = "attention"
_SEEDS = 2**32
_DEVICES = 128
_ADAPTERS = 4096
_LARGEST = 2**31
_WORKERS = 64
_DELAY_MS = 60_000


def check(spec: "RunSpec") -> None:
    """Raise UsageError for values that are not possible, or contradict each other."""
    _check_each(spec)
    _check_values(spec)
    _check_contradictions(spec)
    kinds.check(spec)
    _check_schedule(spec)
    parallelism.check(spec, {f.name for f in dataclasses.fields(spec) if getattr(spec, f.name) != f.default})


def dashed(name: str) -> str:
    """A setting as its option has it, without the dashes in front."""
    return name.replace("_", "-")


def targets(text: str) -> tuple[str, ...]:
    """The layers that a text names; none for the attention projections."""
    return () if text == DEFAULT_TARGETS else tuple(part.strip() for part in text.split(","))


def _check_each(spec: "RunSpec") -> None:
    for f in dataclasses.fields(spec):
        value = getattr(spec, f.name)
        if f.metadata["each"] and len(value) not in (1, spec.lora_cnt):
            raise UsageError(
                f"--{dashed(f.name)} has {len(value)} values for {spec.lora_cnt} adapters; give one, or one for each"
            )
        choices = f.metadata["choices"]
        for item in value if isinstance(value, tuple) else (value,):
            if choices and item not in choices and not (f.name == "quant" and item == ""):
                raise SettingError(f"--{dashed(f.name)} is {item!r}; it must be one of {', '.join(choices)}")


def _check_values(spec: "RunSpec") -> None:
    at_least = {
        "lora_cnt": 1, "rank": 1, "seq_len": 2, "batch_size": 1, "grad_accum": 1, "steps": 1, "warmup": 0,
        "wait_steps": 0, "warmup_steps": 0, "active_steps": 0, "repeat": 0, "profiling_frequency": 0, "timeout_s": 1,
        "epochs": 0, "lr_warmup_steps": 0, "loader_workers": 0, "batch_delay_ms": 0,
    }  # fmt: skip
    at_most = {"lora_cnt": _ADAPTERS, "loader_workers": _WORKERS, "batch_delay_ms": _DELAY_MS}
    for name, least in at_least.items():
        value = getattr(spec, name)
        if min(value if isinstance(value, tuple) else (value,)) < least:
            raise SettingError(f"--{dashed(name)} must be at least {least}")
        most = at_most.get(name, _LARGEST)
        if max(value if isinstance(value, tuple) else (value,)) > most:
            raise SettingError(f"--{dashed(name)} must be at most {most}")
    if not all(0 <= rate < 1 for rate in spec.dropout):
        raise SettingError("--dropout is a probability: at least 0 and below 1")
    if not all(0 < rate < float("inf") for rate in (*spec.learning_rate, *spec.alpha)):
        raise SettingError("--learning-rate and --alpha must be above 0, and finite")
    if not 0 <= spec.seed < _SEEDS:
        raise SettingError(f"--seed must be at least 0 and below {_SEEDS}")
    if len(set(spec.profiler)) < len(spec.profiler):
        raise SettingError(f"--profiler names a pass twice: {', '.join(spec.profiler)}")
    for number, names in enumerate(spec.target_modules):
        if not all(targets(names)) and names != DEFAULT_TARGETS:
            raise SettingError(f"--target-modules has an empty name for adapter_{number}: {names!r}")
    if not spec.profiler:
        raise SettingError(f"--profiler names no pass; choose from {', '.join(PASSES)}")
    if spec.device not in ("auto", "cpu", "cuda") and not (
        spec.device.startswith("cuda:") and spec.device[5:] in map(str, range(_DEVICES))
    ):
        raise SettingError(f"--device is {spec.device!r}; it must be auto, cpu, cuda or cuda:N")


def _check_contradictions(spec: "RunSpec") -> None:
    method = f"--method {spec.method}"
    if not spec.has_adapters and spec.quantisation != "none":
        raise UsageError(f"{method} trains the base, which --quant {spec.quant} freezes; use --method qlora")
    if not spec.has_adapters and spec.lora_cnt > 1:
        raise UsageError(f"{method} has no adapters; leave --lora-cnt {spec.lora_cnt} out")
    if not spec.has_adapters and spec.peft_mode != "switch":
        raise UsageError(f"{method} has no adapters for --peft-mode {spec.peft_mode} to share the base among")
    if METHODS[spec.method].needs_quant and spec.quantisation == "none":
        raise UsageError(f"{method} means a quantized base, and --quant is none; use --method lora")
    if spec.quantisation in GPTQ and spec.model in PRESETS:
        raise UsageError(
            f"--quant {spec.quantisation} is of a checkpoint that GPTQ has quantized; {spec.model} has none"
        )
    _check_unused(spec)
    _check_float16(spec)
    _check_flash(spec)
    preset = PRESETS.get(spec.model)
    if preset and preset.task == "classification":
        if spec.packing:
            raise UsageError(f"--packing is for language models; {spec.model} is a classifier")
        if spec.peft_mode == "batch":
            raise UsageError(
                f"--peft-mode batch trains causal language models; {spec.model} is a classifier, use switch or process"
            )
        if spec.gradient_checkpointing == "attn-mlp":
            raise UsageError(f"--gradient-checkpointing attn-mlp needs a decoder; use layer or none with {spec.model}")
    if spec.is_compiled and spec.gradient_checkpointing == "attn-mlp":
        raise UsageError(
            "--gradient-checkpointing attn-mlp cannot be compiled: its recomputation keeps other tensors than the "
            "compiled forward did; use layer or none with --compile inductor"
        )
    if spec.reentrant and spec.gradient_checkpointing != "layer":
        raise UsageError("--reentrant is a kind of --gradient-checkpointing layer")
    if not spec.graph_pruning and (spec.peft_mode, spec.batch_operator) != ("batch", "loop"):
        raise UsageError("--no-graph-pruning applies to --peft-mode batch --batch-operator loop")
    _check_graph(spec)
    _check_stacked(spec)


_ONLY_ADAPTERS = (
    "rank", "alpha", "dropout", "target_modules", "adapter_dtype", "adapter_kind", "lora_plus_ratio"
)  # fmt: skip
_ONLY_TORCH = (
    "wait_steps", "warmup_steps", "active_steps", "repeat", "profiling_frequency", "profiler_step", "with_stack",
    "with_shapes",
)  # fmt: skip


def _check_unused(spec: "RunSpec") -> None:
    """A setting that says something and would change nothing is a mistake."""
    given = {f.name for f in dataclasses.fields(spec) if getattr(spec, f.name) != f.default}

    def refuse(names: tuple[str, ...], why: str) -> None:
        for name in names:
            if name in given:
                raise UsageError(f"--{dashed(name)} {why}")

    if not spec.has_adapters:
        refuse(_ONLY_ADAPTERS, f"is a setting of adapters, and --method {spec.method} has none; leave it out")
    if spec.peft_mode != "batch":
        refuse(("batch_operator",), f"applies to --peft-mode batch, not {spec.peft_mode}")
    if spec.compile != "inductor":
        refuse(("force_compile",), "applies to --compile inductor")
    if spec.data != "synthetic" and not spec.batch:
        refuse(("lengths",), "is for synthetic data; those of --data are as they are")
    else:
        refuse(("train_on",), "is for --data; synthetic sequences have no answers")
        if spec.lengths == "fixed" and not spec.batch:
            refuse(("packing",), "with sequences of fixed length: each fills a row; use --lengths or --data")
    if not {"torch", "memory"} & set(spec.profiler):
        refuse(_ONLY_TORCH, f"is a setting of torch.profiler; --profiler {','.join(spec.profiler)} does not run it")
    if spec.batch:
        refuse(("loader_workers", "batch_delay_ms"), "is about making batches; --batch is made once")
    if spec.device == "cpu" and not spec.pin_memory:
        raise UsageError("--no-pin-memory only affects copies to a GPU; leave it out with --device cpu")
    tasks.check(spec, given)


def _check_stacked(spec: "RunSpec") -> None:
    if spec.adapter_storage != "stacked":
        return
    if (spec.peft_mode, spec.batch_operator) != ("batch", "fused"):
        raise UsageError("--adapter-storage stacked applies to --peft-mode batch --batch-operator fused")
    if spec.optimizer not in ("adamw", "adamw-fused", "adamw-foreach"):
        raise UsageError(
            f"--adapter-storage stacked has one AdamW for all adapters; leave --optimizer {spec.optimizer} out"
        )
    if len(set(spec.target_modules)) > 1:
        raise UsageError("--adapter-storage stacked needs the same --target-modules for all adapters")
    if spec.compile == "inductor":
        raise UsageError("--adapter-storage stacked adds to gradients itself, which --compile inductor leaves out")
    if spec.adapter_kind not in ("lora", "rslora"):
        raise UsageError(f"--adapter-storage stacked goes with --adapter-kind lora and rslora, not {spec.adapter_kind}")


def _check_graph(spec: "RunSpec") -> None:
    if not spec.cuda_graph:
        return
    if spec.device == "cpu":
        raise UsageError("--cuda-graph is about launching work on a GPU; with --device cpu there is none")
    if max(spec.grad_accum) > 1:
        raise UsageError("--cuda-graph replays one forward and backward for a step; use --grad-accum 1")
    if spec.compile == "inductor":
        raise UsageError("--cuda-graph with --compile inductor was not tried; use --compile parts")
    if spec.reentrant:
        raise UsageError("--reentrant checkpointing cannot be recorded by --cuda-graph; leave one of them out")
    if spec.attention not in ("auto", "sdpa"):
        raise UsageError(f"--cuda-graph records attention by sdpa; leave --attention {spec.attention} out")
    if spec.loss == "cut":
        raise UsageError("--loss cut waits for the GPU, which --cuda-graph cannot record; use chunked or full")
    preset = PRESETS.get(spec.model)
    if spec.task != "auto" or (preset and preset.task == "classification"):
        raise UsageError("--cuda-graph is for decoders that learn next tokens; leave it out for classifiers")
    if spec.packing:
        raise UsageError("--packing makes every batch's borders its own, and --cuda-graph replays the same work")


def _check_flash(spec: "RunSpec") -> None:
    if spec.attention != "flash":
        return
    if spec.packing:
        raise UsageError("--attention flash takes no mask, which keeps packed sequences apart; use sdpa with --packing")
    if spec.dtype == "float32" or spec.device == "cpu":
        raise UsageError("--attention flash computes in 16 bits on a GPU; use sdpa")


def _check_float16(spec: "RunSpec") -> None:
    """Weights in float16 that AdamW updates: its epsilon of 1e-8 is 0 there, and 0 / 0 is the second step's loss."""
    if spec.dtype != "float16" or spec.optimizer not in kinds.ADAMW:
        return
    remedy = "use --dtype bfloat16, or --optimizer sgd"
    if not spec.has_adapters:
        raise UsageError(
            f"--method {spec.method} with --dtype float16: AdamW's epsilon is 0 there, losses are NaN; {remedy}"
        )
    if spec.adapter_dtype == "base":
        raise UsageError(
            f"--adapter-dtype base with --dtype float16: AdamW's epsilon is 0 in float16, losses are NaN; {remedy}, or "
            "--adapter-dtype float32"
        )


def _check_schedule(spec: "RunSpec") -> None:
    if spec.profiler_step == "micro":
        if len(set(spec.grad_accum)) > 1:
            raise UsageError("--profiler-step micro counts alike for all adapters; give one --grad-accum")
        if spec.profiled_per_step == 1:
            raise UsageError("--profiler-step micro: a step has one micro batch here; leave it out")
    wait, warmup, active, _ = spec.schedule()
    if spec.profiling_frequency and spec.wait_steps:
        raise UsageError("--profiling-frequency sets the wait; leave --wait-steps out")
    if wait < 0:
        raise UsageError(
            f"--profiling-frequency {spec.profiling_frequency} is shorter than its {warmup} warm-up and {active} "
            "active steps"
        )
    if active < 1:
        raise UsageError(f"--warmup-steps {warmup} leaves none of {spec.steps} steps active; raise --steps")
