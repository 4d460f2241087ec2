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

from ...errors import SettingError, UsageError
from ...small_files import read_text
from ...vocabulary import PASSES, RANGE_DEPTHS
from . import checks, kinds, parallelism, tasks
from .checks import DEFAULT_TARGETS, dashed, targets
from .methods import METHODS
from .presets import PRESETS
from .quants import QUANTS

OPTIMIZERS = ("adamw", "adamw-fused", "adamw-foreach", "adamw-8bit", "adafactor", "sgd")
CHUNK_TOKENS = 1024  # whose logits --loss chunked has at a time
_STEPS_TO_RECORD = 2  # one that is launched call by call, one in which a graph is made
PEFT_MODES = ("seq", "switch", "batch", "process")


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

    method: str = _option("lora", "What is trained.", tuple(METHODS))
    peft_mode: str = _option(
        "switch",
        "How several adapters share the base. seq: one after another, each all its steps; switch: each step every "
        "adapter in turn; batch: all adapters in one pass (BatchLoRA); process: a process for each.",
        PEFT_MODES,
    )
    adapter_kind: str = _option("lora", "Kind of adapter, each trained as PEFT does.", tuple(kinds.KINDS))
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
    task: str = _option(
        "auto",
        "What is learned. auto: what the model was made for, next tokens or classes; sst2: the sentiment of sentences, "
        "in epochs with a validation split and accuracy.",
        ("auto", "sst2"),
    )
    model: str = _option(
        "tiny",
        f"Preset with random weights ({', '.join(PRESETS)}), hub id, or folder; one with only config.json has "
        "random weights, too.",
    )
    quant: str = _option(
        "",
        "Quantization of the base: int8, nf4 by bitsandbytes, int8wo, float8wo by torchao, qint8 by quanto; gptq where "
        "the checkpoint is quantized that way [default: none; nf4 for qlora].",
        ("none", *QUANTS),
    )  # fmt: skip
    dtype: str = _option(
        "auto", "Type of the base and its activations [default: auto, which is bfloat16 on a GPU, else float32].",
        ("auto", "float32", "bfloat16", "float16"),
    )  # fmt: skip
    adapter_dtype: str = _option(
        "float32", "Type of the adapters' weights, as PEFT's autocast_adapter_dtype.", ("float32", "base")
    )
    autocast: str = _option(
        "none",
        "bfloat16: compute in it under torch.autocast, adapters too, while weights keep their type; transformers' "
        "Trainer calls it bf16=True.",
        ("none", "bfloat16"),
    )
    seq_len: int = _option(128, "Longest sequence, in tokens.")
    batch_size: tuple[int, ...] = _option((8,), "Sequences per adapter in a micro step.", each=True)
    grad_accum: tuple[int, ...] = _option((1,), "Micro steps for each optimizer step.", each=True)
    trainer: str = _option(
        "plain",
        "sft: common defaults of fine-tuning scripts for settings not given (20 steps, batch 2 x 4, adamw-8bit, linear "
        "schedule with warm-up, weight decay), and their metrics in stats.json.",
        ("plain", "sft"),
    )
    optimizer: str = _option(
        "adamw",
        "Optimizer; every adapter has its own, unless they are stacked. adamw is torch's choice for the device; fused "
        "updates all weights in one kernel, foreach in one for each operation.",
        OPTIMIZERS,
    )
    weight_decay: float = _option(0.01, "Weight decay of the adamw optimizers.")
    lr_schedule: str = _option(
        "constant", "Learning rate over the steps, warm-up steps included: constant, or falling to 0.",
        ("constant", "linear", "cosine"),
    )  # fmt: skip
    lr_warmup_steps: int = _option(0, "Steps in which the learning rate rises from 0 at the start.")
    loss: str = _option(
        "full",
        "Loss of next tokens. full: from all logits at once; chunked: exact, from a few tokens' logits at a time, "
        "recomputed in the backward; cut: by the package cut-cross-entropy, on a GPU.",
        ("full", "chunked", "cut"),
    )
    attention: str = _option(
        "auto",
        "Attention, as transformers' attn_implementation. auto: what it chooses, sdpa where the model has it; eager: "
        "products and a softmax of their own; flash: the package flash-attn, on a GPU.",
        ("auto", "eager", "sdpa", "flash"),
    )
    gradient_checkpointing: str = _option(
        "layer", "What is recomputed in the backward: whole layers, attention and MLP separately, or nothing.",
        ("none", "layer", "attn-mlp"),
    )  # fmt: skip
    reentrant: bool = _option(False, "Use the older, reentrant kind of checkpointing (with layer only).")
    compile: str = _option(
        "eager",
        "eager; inductor: the whole model by torch.compile; parts: norms and blocks that hold no adapter, each by "
        "itself, which takes seconds and keeps the ranges of the others.",
        ("eager", "inductor", "parts"),
    )
    cuda_graph: bool = _option(
        False,
        "On a GPU: record forward and backward of each batch shape once, as a CUDA graph, and launch it as one; "
        "batches are padded to multiples of 128 tokens.",
    )
    force_compile: bool = _option(False, "Compile even if the base is quantized.")
    batch_operator: str = _option(
        "fused", "batch mode: a constant number of matrix products, or a loop over the adapters.", ("fused", "loop")
    )
    adapter_storage: str = _option(
        "apart",
        "batch mode, fused: each adapter's weights apart, as PEFT keeps them, or stacked in one tensor with one AdamW "
        "for all, so that launches do not grow with their number.",
        ("apart", "stacked"),
    )
    graph_pruning: bool = _option(
        True, "batch mode, loop: one autograd node for all adapters of a layer, with one gradient buffer."
    )
    data: str = _option(
        "synthetic",
        "synthetic, a .jsonl or a saved HF dataset. Records have messages, instruction and output, prompt and "
        "completion, text, or input_ids with labels. With --task sst2: words (made of words that ship with lorabench), "
        "glue (by the package datasets), a saved dataset, a folder with train.tsv and dev.tsv, or a .tsv or .jsonl of "
        "sentence and label.",
    )
    loader_workers: int = _option(
        0, "Processes that make batches ahead of the step, as DataLoader's num_workers; 0: the step makes its own."
    )
    pin_memory: bool = _option(True, "On a GPU: copy batches from pinned memory, with non_blocking=True.")
    batch_delay_ms: int = _option(0, "Extra milliseconds for making each batch: a slow loader to try things on.")
    train_on: str = _option("answer", "Which part of messages, instructions and prompts has labels.", ("answer", "all"))
    packing: bool = _option(False, "Put several sequences into a row of seq-len tokens; none attends to another.")
    batch: str = _option(
        "", "A saved batch (.pt, .safetensors) of input_ids, attention_mask and labels for every step."
    )
    lengths: str = _option("fixed", "Lengths of synthetic sequences up to seq-len.", ("fixed", "uniform", "lognormal"))
    epochs: int = _option(0, "--task sst2: epochs of the timing pass [default: 3].")
    steps: int = _option(5, "Measured steps: optimizer steps of each adapter; with epochs those of the other passes.")
    warmup: int = _option(2, "Steps before the measured ones, trained but not measured.")
    seed: int = _option(0, "Seed of weights, data and dropout.")
    device: str = _option("auto", "auto, cpu, cuda or cuda:N.")
    parallel: str = _option(
        parallelism.NONE,
        "Spread one model over several devices. ddp, fsdp: each has some sequences of a batch; tp: a slice of each "
        "layer; pp: some layers; lorapp: some layers, adapters filling each other's pipeline bubbles.",
        (parallelism.NONE, *parallelism.KINDS),
    )
    devices: int = _option(2, "parallel: number of GPUs, or of processes on the CPU.")
    pp_schedule: str = _option("1f1b", "pp: the order of forwards and backwards.", parallelism.SCHEDULES)
    micro_batches: int = _option(
        0, "pp, lorapp: parts that a batch is cut into for the pipeline [default: as many as stages; 1 with lorapp]."
    )
    balance: tuple[int, ...] = _option(
        (),
        "pp, lorapp: parts of embedding + layers + norm + head by stage (7,6,6,6) [default: layers shared equally].",
    )
    overlap: bool = _option(True, "lorapp: send while compute goes on, instead of waiting for each message.")
    cpu_offload: bool = _option(False, "fsdp: keep shards, gradients and optimizer state in CPU memory.")
    profiler: tuple[str, ...] = _option(("timing", "torch", "nsys"), "Passes, each in its own process.", PASSES)
    range_depth: str = _option("lora", "The finest ranges to open.", RANGE_DEPTHS)
    wait_steps: int = _option(0, "torch.profiler: steps skipped at the start of a cycle.")
    warmup_steps: int = _option(0, "torch.profiler: steps it runs without keeping them.")
    active_steps: int = _option(0, "torch.profiler: steps it keeps in a cycle [default: all measured steps].")
    repeat: int = _option(1, "torch.profiler: number of cycles, a trace each; 0: until the run ends.")
    profiling_frequency: int = _option(
        0,
        "torch.profiler: a cycle of this many steps; with --repeat 0 the wait is what warm-up and active leave of it "
        "[default: wait, warm-up and active together].",
    )
    profiler_step: str = _option(
        "optimizer", "torch.profiler: what counts as a step of its schedule: optimizer steps or micro batches.",
        ("optimizer", "micro"),
    )  # fmt: skip
    with_stack: bool = _option(False, "torch.profiler: record Python stacks.")
    with_shapes: bool = _option(
        False, "torch.profiler: record the shapes of operators' inputs [default: off; on with --parallel on CPUs]."
    )
    timeout_s: int = _option(3600, "Seconds after which a pass is stopped.")
    run_id: str = _option("", "--task sst2: name of the folder in reports/ [default: that of the run directory].")
    tensorboard: bool = _option(False, "--task sst2: write losses and accuracy as TensorBoard scalars, too.")
    wandb: bool = _option(False, "--task sst2: log losses and accuracy to Weights & Biases, once the run is measured.")
    wandb_project: str = _option("lorabench", "Project of --wandb.")
    wandb_mode: str = _option("online", "offline keeps what --wandb logs on this machine.", ("online", "offline"))

    def __post_init__(self) -> None:
        checks.check(self)

    @property
    def has_adapters(self) -> bool:
        """Whether adapters are trained, and not the base itself."""
        return METHODS[self.method].has_adapters

    @property
    def quantisation(self) -> str:
        """How the base is quantized, with the default of the method."""
        return self.quant or METHODS[self.method].quant

    @property
    def is_compiled(self) -> bool:
        """Whether the model goes through torch.compile."""
        return self.compile == "inductor" and (self.quantisation == "none" or self.force_compile)

    def adapters(self) -> list[AdapterSpec]:
        """The adapters, with the values of each; none in a full fine-tuning."""
        if not self.has_adapters:
            return []

        def value(name: str, number: int) -> Any:
            values = getattr(self, name)
            return values[number if len(values) > 1 else 0]

        return [
            AdapterSpec(
                f"adapter_{n}", value("rank", n), value("alpha", n), value("dropout", n),
                targets(value("target_modules", n)), value("learning_rate", n), value("batch_size", n),
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
        if self.task != "auto":
            return f"{self.task}-{name}"
        if self.parallel != parallelism.NONE:
            name += f"-{self.parallel}-{self.devices}"
        return name if not self.has_adapters else f"{name}-{self.peft_mode}-{self.lora_cnt}"

    def notes(self) -> list[str]:
        """What will be done differently from what was asked, and why."""
        found = []
        if self.schedule() != (0, 0, self.steps * self.profiled_per_step, 1):
            wait, warmup, active, repeat = self.schedule()
            often = f"{repeat} times" if repeat else "until the run ends"
            all_cnt, cycle = self.steps * self.profiled_per_step, wait + warmup + active
            if all_cnt < repeat * cycle and all_cnt > cycle:  # a run shorter than one is extended
                begun = " and the start of one more" if all_cnt % cycle > wait + warmup else ""
                often += f", of which the run's {all_cnt} hold {all_cnt // cycle}{begun}"
            found.append(
                f"torch.profiler counts {'micro batches' if self.profiler_step == 'micro' else 'optimizer steps'}: "
                f"it skips {wait}, warms up in {warmup}, keeps {active}, {often}"
            )
        if self.compile == "inductor" and not self.is_compiled:
            found.append("--compile inductor is left out for a quantized base; --force-compile keeps it")
        if self.is_compiled and self.compile == "inductor" and self.range_depth not in ("step", "phase"):
            found.append("compiled graphs have no ranges of modules, only of phases")
        if self.cuda_graph and self.warmup < _STEPS_TO_RECORD:
            found.append(
                f"--cuda-graph records in the second step: with --warmup {self.warmup} measured steps are slower for it"
            )
        return found + tasks.notes(self)

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON values; from_dict() makes the same spec of them."""
        values = {
            f.name: list(v) if isinstance(v := getattr(self, f.name), tuple) else v for f in dataclasses.fields(self)
        }
        return values | {"target_modules": ";".join(self.target_modules)}

    def is_written_as(self, written: Any) -> bool:
        """Whether a run directory's settings are these; one made by an earlier version lacks what is newer."""
        return isinstance(written, dict) and RunSpec().as_dict() | written == self.as_dict()


def from_dict(values: dict[str, Any]) -> RunSpec:
    """A spec from values as TOML, JSON or the command line have them: lists may be texts like '8,16'.

    Raises UsageError for an unknown key or a value of the wrong type.
    """
    known = {f.name: f for f in dataclasses.fields(RunSpec)}
    hints = typing.get_type_hints(RunSpec)
    arguments = {}
    given = {key.replace("-", "_"): value for key, value in values.items()}
    if unknown := next((key for key in values if key.replace("-", "_") not in known), None):
        raise UsageError(f"no such setting: {unknown!r}; `lorabench collect --help` lists them")
    for name, value in (tasks.usual_values(given) | given).items():
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
        raise SettingError(f"--{dashed(name)} must be {_KIND_WORDS[hint]}, not {value!r}")
    if hint is int and isinstance(value, float) and not value.is_integer():
        raise SettingError(f"--{dashed(name)} must be a whole number, not {value}")
    try:
        return hint(value)
    except (TypeError, ValueError) as error:
        raise SettingError(f"--{dashed(name)} must be {_KIND_WORDS[hint]}, not {value!r}") from error


_KIND_WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
