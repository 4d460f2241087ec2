"""RunSpec: everything that defines a run, checked before anything heavy is loaded.

A field's metadata is its help text and its choices: the options of the command line, the keys of a --config file and
the manifest all come from here. A field marked `each` takes one value for all adapters or one for each.
"""

import dataclasses
import tomllib
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ...small_files import read_text
from ...vocabulary import PASSES, RANGE_DEPTHS
from . import kinds
from .presets import PRESETS
from .quants import GPTQ, QUANTS

METHODS = ("lora", "qlora", "full")
PEFT_MODES = ("seq", "switch", "batch", "process")
DEFAULT_TARGETS = "attention"
_SEEDS = 2**32
_DEVICES = 128
_ADAPTERS = 4096
_LARGEST = 2**31


def _option(default: Any, help: str, choices: tuple[str, ...] = (), each: bool = False) -> Any:
    return field(default=default, metadata={"help": help, "choices": choices, "each": each})


@dataclass(frozen=True)
class AdapterSpec:
    """One LoRA adapter and how it is trained."""

    name: str
    rank: int
    alpha: float
    dropout: float
    target_modules: tuple[str, ...]  # empty: the attention projections
    learning_rate: float
    batch_size: int
    grad_accum: int


@dataclass(frozen=True)
class RunSpec:
    """What to train, how, for how long, and who watches. Raises UsageError for values that contradict each other."""

    method: str = _option("lora", "What is trained.", METHODS)
    peft_mode: str = _option(
        "switch",
        "How several adapters share the base. seq: one after another, each all its steps; switch: each step every "
        "adapter in turn; batch: all adapters in one pass (BatchLoRA); process: a process for each.",
        PEFT_MODES,
    )
    adapter_kind: str = _option("lora", "What an adapter is, each as PEFT trains it.", tuple(kinds.KINDS))
    lora_cnt: int = _option(1, "Number of adapters.")
    rank: tuple[int, ...] = _option(
        (16,), "Rank r (oft: size of the blocks); one value, or one per adapter (8,16).", each=True
    )
    alpha: tuple[float, ...] = _option((16.0,), "Alpha; the delta is scaled by alpha / rank.", each=True)
    dropout: tuple[float, ...] = _option((0.05,), "Dropout before lora_A.", each=True)
    target_modules: tuple[str, ...] = _option(
        (DEFAULT_TARGETS,),
        "Layers that get LoRA: names (q_proj,v_proj), 'attention' or 'all-linear'; with ; between adapters.",
        each=True,
    )
    learning_rate: tuple[float, ...] = _option((2e-4,), "Learning rate.", each=True)
    lora_plus_ratio: float = _option(16.0, "lora-plus: how many times faster B learns than A.")
    model: str = _option("tiny", f"Preset with random weights ({', '.join(PRESETS)}), local path or hub id.")
    quant: str = _option(
        "",
        "Quantisation of the base: int8, nf4 by bitsandbytes, int8wo, float8wo by torchao, qint8 by quanto, gptq of a "
        "checkpoint that is [none; nf4 for qlora].",
        ("none", *QUANTS),
    )  # fmt: skip
    dtype: str = _option(
        "auto", "Type of the base and its activations [auto: bfloat16 on a GPU, else float32].",
        ("auto", "float32", "bfloat16", "float16"),
    )  # fmt: skip
    adapter_dtype: str = _option(
        "float32", "Type of the adapters' weights, as PEFT's autocast_adapter_dtype.", ("float32", "base")
    )
    seq_len: int = _option(128, "Longest sequence, in tokens.")
    batch_size: tuple[int, ...] = _option((8,), "Sequences of an adapter in a micro step.", each=True)
    grad_accum: tuple[int, ...] = _option((1,), "Micro steps for each optimizer step.", each=True)
    optimizer: str = _option("adamw", "Optimizer; every adapter has its own.", ("adamw", "adafactor", "sgd"))
    gradient_checkpointing: str = _option(
        "layer", "What is recomputed in the backward: whole layers, attention and MLP apart, or nothing.",
        ("none", "layer", "attn-mlp"),
    )  # fmt: skip
    reentrant: bool = _option(False, "Use the older, reentrant kind of checkpointing (with layer only).")
    compile: str = _option("eager", "eager, or torch.compile with inductor.", ("eager", "inductor"))
    force_compile: bool = _option(False, "Compile although the base is quantised.")
    batch_operator: str = _option(
        "fused", "batch mode: a constant number of matrix products, or a loop over the adapters.", ("fused", "loop")
    )
    graph_pruning: bool = _option(
        True, "batch mode, loop: one autograd node for all adapters of a layer, with one gradient buffer."
    )
    data: str = _option(
        "synthetic",
        "synthetic, a .jsonl or a saved HF dataset. Records have messages, instruction and output, prompt and "
        "completion, text, or input_ids with labels.",
    )
    train_on: str = _option("answer", "What of messages, instructions and prompts has labels.", ("answer", "all"))
    packing: bool = _option(False, "Put several sequences into a row of seq-len tokens; none sees another.")
    lengths: str = _option("fixed", "Lengths of synthetic sequences up to seq-len.", ("fixed", "uniform", "lognormal"))
    steps: int = _option(5, "Measured steps: optimizer steps of each adapter.")
    warmup: int = _option(2, "Steps before them that are trained but not measured.")
    seed: int = _option(0, "Seed of weights, data and dropout.")
    device: str = _option("auto", "auto, cpu, cuda or cuda:N.")
    profiler: tuple[str, ...] = _option(("timing", "torch", "nsys"), "Passes, each in a process of its own.", PASSES)
    range_depth: str = _option("lora", "The finest ranges.", RANGE_DEPTHS)
    wait_steps: int = _option(0, "torch.profiler: steps skipped at the start of a cycle.")
    warmup_steps: int = _option(0, "torch.profiler: steps it runs without keeping them.")
    active_steps: int = _option(0, "torch.profiler: steps it keeps in a cycle [all measured steps].")
    repeat: int = _option(1, "torch.profiler: number of cycles, a trace each; 0: until the run ends.")
    profiling_frequency: int = _option(
        0, "torch.profiler: a cycle of so many steps; with --repeat 0 the wait is what warm-up and active leave of it."
    )
    profiler_step: str = _option(
        "optimizer", "torch.profiler: what counts as a step of its schedule: optimizer steps or micro batches.",
        ("optimizer", "micro"),
    )  # fmt: skip
    with_stack: bool = _option(False, "torch.profiler: record Python stacks.")
    with_shapes: bool = _option(False, "torch.profiler: record the shapes of operators' inputs.")
    timeout_s: int = _option(3600, "Seconds after which a pass is stopped.")

    def __post_init__(self) -> None:
        _check_each(self)
        _check_values(self)
        _check_contradictions(self)
        kinds.check(self)
        _check_schedule(self)

    @property
    def quantisation(self) -> str:
        """How the base is quantised, with the default of the method."""
        return self.quant or ("nf4" if self.method == "qlora" else "none")

    @property
    def is_compiled(self) -> bool:
        """Whether the model goes through torch.compile."""
        return self.compile == "inductor" and (self.quantisation == "none" or self.force_compile)

    def adapters(self) -> list[AdapterSpec]:
        """The adapters, with the values of each; none in a full fine-tuning."""
        if self.method == "full":
            return []

        def value(name: str, number: int) -> Any:
            values = getattr(self, name)
            return values[number if len(values) > 1 else 0]

        return [
            AdapterSpec(
                f"adapter_{n}", value("rank", n), value("alpha", n), value("dropout", n),
                _targets(value("target_modules", n)), value("learning_rate", n), value("batch_size", n),
                value("grad_accum", n),
            )
            for n in range(self.lora_cnt)
        ]  # fmt: skip

    @property
    def profiled_per_step(self) -> int:
        """How many steps of torch.profiler are in one of the run: 1, or its micro batches."""
        if self.profiler_step == "optimizer":
            return 1
        return self.grad_accum[0] * (self.lora_cnt if self.peft_mode == "switch" else 1)

    def schedule(self) -> tuple[int, int, int, int]:
        """torch.profiler's wait, warmup, active and repeat, in measured steps or their micro batches."""
        wait, every = self.wait_steps, self.steps * self.profiled_per_step
        active = self.active_steps or (1 if self.profiling_frequency else every - self.warmup_steps)
        if self.profiling_frequency:
            wait = self.profiling_frequency - self.warmup_steps - active
        return wait, self.warmup_steps, active, self.repeat

    def with_whole_cycle(self) -> "RunSpec":
        """The same with enough steps for one cycle of the profiler."""
        cycle = sum(self.schedule()[:3])
        return dataclasses.replace(self, steps=max(self.steps, -(-cycle // self.profiled_per_step)))

    @property
    def title(self) -> str:
        """What runs, in a word that can name a folder."""
        kind = f"-{self.adapter_kind}" if self.adapter_kind not in ("lora", self.method) else ""
        name = f"{Path(self.model).name}-{self.method}{kind}"
        return name if self.method == "full" else f"{name}-{self.peft_mode}-{self.lora_cnt}"

    def notes(self) -> list[str]:
        """What will be done differently from what was asked, and why."""
        found = []
        if self.schedule() != (0, 0, self.steps * self.profiled_per_step, 1):
            wait, warmup, active, repeat = self.schedule()
            often = f"{repeat} times" if repeat else "until the run ends"
            found.append(
                f"torch.profiler counts {'micro batches' if self.profiler_step == 'micro' else 'optimizer steps'}: "
                f"it skips {wait}, warms up in {warmup}, keeps {active}, {often}"
            )
        if self.compile == "inductor" and not self.is_compiled:
            found.append("--compile inductor is left out for a quantised base; --force-compile keeps it")
        if self.compile == "inductor" and self.range_depth not in ("step", "phase"):
            found.append("compiled graphs have no ranges of modules, only of phases")
        return found

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON values; from_dict() makes the same spec of them."""
        values = {
            f.name: list(v) if isinstance(v := getattr(self, f.name), tuple) else v for f in dataclasses.fields(self)
        }
        return values | {"target_modules": ";".join(self.target_modules)}


def from_dict(values: dict[str, Any]) -> RunSpec:
    """A spec from values as TOML, JSON or the command line have them: lists may be texts like '8,16'.

    Raises UsageError for an unknown key or a value of the wrong type.
    """
    known = {f.name: f for f in dataclasses.fields(RunSpec)}
    hints = typing.get_type_hints(RunSpec)
    arguments = {}
    for key, value in values.items():
        name = key.replace("-", "_")
        if name not in known:
            raise UsageError(f"there is no setting {key!r}; `lorabench collect --help` lists them")
        arguments[name] = _converted(name, _each_target(value) if name == "target_modules" else value, hints[name])
    return RunSpec(**arguments)


def read_config(path: Path) -> dict[str, Any]:
    """The settings of a TOML file, at its top or in a table [collect]. Raises UsageError when it cannot be read."""
    try:
        values = tomllib.loads(read_text(path))
    except OSError as error:
        raise UsageError(f"cannot read --config {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--config {path} is not TOML: {str(error)[:200]}") from error
    inner = values.get("collect", values)
    if not isinstance(inner, dict):
        raise UsageError(f"--config {path}: collect must be a table")
    return inner


def _each_target(value: Any) -> Any:
    """Layers of each adapter: 'q_proj,v_proj;all-linear', or in TOML a list of names, or a list for each adapter."""
    if isinstance(value, str):
        return value.split(";")
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        return [",".join(value)]
    if isinstance(value, list) and all(isinstance(v, list) for v in value):
        return [",".join(map(str, v)) for v in value]
    return value


def _converted(name: str, value: Any, hint: Any) -> Any:
    if typing.get_origin(hint) is tuple:
        (kind, *_) = typing.get_args(hint)
        parts = value.split(",") if isinstance(value, str) else value if isinstance(value, list | tuple) else [value]
        return tuple(_converted(name, part.strip() if isinstance(part, str) else part, kind) for part in parts)
    if isinstance(value, bool) is not (hint is bool) or isinstance(value, types.NoneType | dict | list):
        raise UsageError(f"--{_dashed(name)} must be {_KIND_WORDS[hint]}, not {value!r}")
    if hint is int and isinstance(value, float) and not value.is_integer():
        raise UsageError(f"--{_dashed(name)} must be a whole number, not {value}")
    try:
        return hint(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"--{_dashed(name)} must be {_KIND_WORDS[hint]}, not {value!r}") from error


_KIND_WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _targets(text: str) -> tuple[str, ...]:
    return () if text == DEFAULT_TARGETS else tuple(part.strip() for part in text.split(","))


def _check_each(spec: RunSpec) -> None:
    for f in dataclasses.fields(spec):
        value = getattr(spec, f.name)
        if f.metadata["each"] and len(value) not in (1, spec.lora_cnt):
            raise UsageError(
                f"--{_dashed(f.name)} has {len(value)} values for {spec.lora_cnt} adapters; give one, or one for each"
            )
        choices = f.metadata["choices"]
        for item in value if isinstance(value, tuple) else (value,):
            if choices and item not in choices and not (f.name == "quant" and item == ""):
                raise UsageError(f"--{_dashed(f.name)} is {item!r}; it must be one of {', '.join(choices)}")


def _check_values(spec: RunSpec) -> None:
    at_least = {
        "lora_cnt": 1, "rank": 1, "seq_len": 2, "batch_size": 1, "grad_accum": 1, "steps": 1, "warmup": 0,
        "wait_steps": 0, "warmup_steps": 0, "active_steps": 0, "repeat": 0, "profiling_frequency": 0, "timeout_s": 1,
    }  # fmt: skip
    for name, least in at_least.items():
        value = getattr(spec, name)
        if min(value if isinstance(value, tuple) else (value,)) < least:
            raise UsageError(f"--{_dashed(name)} must be at least {least}")
        most = _ADAPTERS if name == "lora_cnt" else _LARGEST
        if max(value if isinstance(value, tuple) else (value,)) > most:
            raise UsageError(f"--{_dashed(name)} must be at most {most}")
    if not all(0 <= rate < 1 for rate in spec.dropout):
        raise UsageError("--dropout is a probability: at least 0 and below 1")
    if not all(0 < rate < float("inf") for rate in (*spec.learning_rate, *spec.alpha)):
        raise UsageError("--learning-rate and --alpha must be above 0, and finite")
    if not 0 <= spec.seed < _SEEDS:
        raise UsageError(f"--seed must be at least 0 and below {_SEEDS}")
    if len(set(spec.profiler)) < len(spec.profiler):
        raise UsageError(f"--profiler names a pass twice: {', '.join(spec.profiler)}")
    for number, names in enumerate(spec.target_modules):
        if not all(_targets(names)) and names != DEFAULT_TARGETS:
            raise UsageError(f"--target-modules has an empty name for adapter_{number}: {names!r}")
    if not spec.profiler:
        raise UsageError(f"--profiler names no pass; choose from {', '.join(PASSES)}")
    if spec.device not in ("auto", "cpu", "cuda") and not (
        spec.device.startswith("cuda:") and spec.device[5:] in map(str, range(_DEVICES))
    ):
        raise UsageError(f"--device is {spec.device!r}; it must be auto, cpu, cuda or cuda:N")


def _check_contradictions(spec: RunSpec) -> None:
    if spec.method == "full" and spec.quantisation != "none":
        raise UsageError(f"--method full trains the base, which --quant {spec.quant} freezes; use --method qlora")
    if spec.method == "full" and spec.lora_cnt > 1:
        raise UsageError(f"--method full has no adapters; leave --lora-cnt {spec.lora_cnt} out")
    if spec.method == "full" and spec.peft_mode != "switch":
        raise UsageError(f"--method full has no adapters for --peft-mode {spec.peft_mode} to share the base among")
    if spec.method == "qlora" and spec.quantisation == "none":
        raise UsageError("--method qlora means a quantised base, and --quant is none; use --method lora")
    if spec.quantisation in GPTQ and spec.model in PRESETS:
        raise UsageError(
            f"--quant {spec.quantisation} is of a checkpoint that GPTQ has quantised; {spec.model} has none"
        )
    _check_unused(spec)
    _check_float16(spec)
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


_ONLY_ADAPTERS = (
    "rank", "alpha", "dropout", "target_modules", "adapter_dtype", "adapter_kind", "lora_plus_ratio"
)  # fmt: skip
_ONLY_TORCH = (
    "wait_steps", "warmup_steps", "active_steps", "repeat", "profiling_frequency", "profiler_step", "with_stack",
    "with_shapes",
)  # fmt: skip


def _check_unused(spec: RunSpec) -> None:
    """A setting that says something and would change nothing is a mistake."""
    given = {f.name for f in dataclasses.fields(spec) if getattr(spec, f.name) != f.default}

    def refuse(names: tuple[str, ...], why: str) -> None:
        for name in names:
            if name in given:
                raise UsageError(f"--{_dashed(name)} {why}")

    if spec.method == "full":
        refuse(_ONLY_ADAPTERS, "is a setting of adapters, and --method full has none; leave it out")
    if spec.peft_mode != "batch":
        refuse(("batch_operator",), f"applies to --peft-mode batch, not {spec.peft_mode}")
    if spec.compile != "inductor":
        refuse(("force_compile",), "applies to --compile inductor")
    if spec.data != "synthetic":
        refuse(("lengths",), "is for synthetic data; those of --data are as they are")
    else:
        refuse(("train_on",), "is for --data; synthetic sequences have no answers")
        if spec.lengths == "fixed":
            refuse(("packing",), "with sequences of fixed length: each fills a row; use --lengths or --data")
    if not {"torch", "memory"} & set(spec.profiler):
        refuse(_ONLY_TORCH, f"is a setting of torch.profiler; --profiler {','.join(spec.profiler)} does not run it")


def _check_float16(spec: RunSpec) -> None:
    """Weights in float16 that AdamW updates: its epsilon of 1e-8 is 0 there, and 0 / 0 is the second step's loss."""
    if spec.dtype != "float16" or spec.optimizer != "adamw":
        return
    remedy = "use --dtype bfloat16, or --optimizer sgd"
    if spec.method == "full":
        raise UsageError(f"--method full with --dtype float16: AdamW's epsilon is 0 there, losses are NaN; {remedy}")
    if spec.adapter_dtype == "base":
        raise UsageError(
            f"--adapter-dtype base with --dtype float16: AdamW's epsilon is 0 in float16, losses are NaN; {remedy}, or "
            "--adapter-dtype float32"
        )


def _check_schedule(spec: RunSpec) -> None:
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
