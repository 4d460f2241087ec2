"""What can be changed by hand in a script of others: the words for it in each framework, and what predicts it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .candidates import compiled

TRL, DPO, GRPO = "TRL", "TRL (DPO)", "TRL (GRPO)"
HF, LIGHTNING, ACCELERATE, TORCH = "HF Trainer", "Lightning", "Accelerate", "PyTorch"
# A framework is there when this module of it was loaded; the first that was.
MODULES = (
    ("trl.trainer.sft_trainer", TRL), ("trl.trainer.dpo_trainer", DPO), ("trl.trainer.grpo_trainer", GRPO),
    ("lightning.pytorch.trainer.trainer", LIGHTNING), ("pytorch_lightning.trainer.trainer", LIGHTNING),
    ("transformers.trainer", HF), ("accelerate.accelerator", ACCELERATE),
)  # fmt: skip

_MOST_KEPT_FRAC = 0.95  # of the tokens: an edit that leaves more is not worth it
USUAL_WORKERS = 4  # of a loader of which nobody knows how long it takes


@dataclass(frozen=True)
class Seen:
    """What the timing pass of a script saw of a step, as far as edits depend on it."""

    has_gpu: bool
    padding: Mapping[str, float]  # what its masks told of its tokens, by the names of rundir; empty where none was seen
    micro_step_cnt: int = 0  # backwards of one optimizer, 0 where nobody knows
    workers: int = USUAL_WORKERS  # of its loader, as many as keep up
    worker_cnt: int | None = None  # those that it has
    has_spare_core: bool = True  # for one more
    is_fused: bool = False  # the optimizer
    is_compiled: bool = False
    rank_cnt: int = 1
    is_recompiled: bool = False  # in several of the steps that count
    is_16bit: bool | None = None  # where it was seen
    has_16bit: bool = True  # the device multiplies faster in 16 bits
    adapter_cnt: int = 0  # adapters that train in turn


@dataclass(frozen=True)
class Edit:
    """An edit: what it does, what its saving is predicted by, how it is written, and by what it is known to be made."""

    name: str
    words: dict[str, str]  # by framework; others are written as in PyTorch
    predicted_by: Callable[[Seen], str] = lambda seen: ""
    bounded_by: Callable[[Seen], str] = lambda seen: ""
    alters: str = ""
    is_for: Callable[[Seen], bool] = lambda seen: True
    needs_range: bool = False  # that says where it is
    is_made: Callable[[Seen, Seen], bool | None] = lambda before, after: None  # None: only the trace can tell

    def written(self, framework: str, seen: Seen) -> str:
        """The edit in the words of a framework."""
        family = HF if framework in (TRL, DPO, GRPO) else framework
        words = self.words.get(framework) or self.words.get(family) or self.words[TORCH]
        counts = {"{workers}": seen.workers, "{micro}": seen.micro_step_cnt, "{adapters}": seen.adapter_cnt}
        for place, count in counts.items():
            words = words.replace(place, str(count))
        return words


def possible(seen: Seen) -> list[Edit]:
    """The edits that mean something for such steps."""
    return [edit for edit in EDITS if edit.is_for(seen)]


def _has_gpu(seen: Seen) -> bool:
    return seen.has_gpu


def _kept(seen: Seen, tokens: str) -> float:
    """The part of the computed tokens that is kept where only these are computed."""
    return seen.padding[tokens] / seen.padding["token_cnt"] if seen.padding else 1.0


def _fewer_tokens(seen: Seen, tokens: str) -> str:
    """All that works on tokens takes as much less; what works on weights takes as long as before."""
    return f"scale=(?i)^(?!.*(adam|foreach|multi_tensor|dequant)):{_kept(seen, tokens):.4f}"


def _merged(seen: Seen) -> str:
    """One micro step is launched in place of all; their kernels take as long together."""
    rest = f"{1 / seen.micro_step_cnt:.4f}"
    return f"cpu={{forward}}:{rest} cpu={{backward}}:{rest}" if seen.has_gpu else f"merge={seen.micro_step_cnt}"


def framework_of(loaded: Sequence[str]) -> str:
    """The framework that a script was written with, by the modules that it had loaded."""
    return next((name for module, name in MODULES if module in loaded), TORCH)


def _has_more_workers(before: Seen, after: Seen) -> bool | None:
    if before.worker_cnt is None or after.worker_cnt is None:
        return None
    return after.worker_cnt > before.worker_cnt


def _is_padded_less(before: Seen, after: Seen) -> bool | None:
    return _kept(after, "longest_token_cnt") > _MOST_KEPT_FRAC if after.padding else None


def _has_fewer_micro_steps(before: Seen, after: Seen) -> bool | None:
    return after.micro_step_cnt < before.micro_step_cnt if after.micro_step_cnt else None


# Names in a trace by which an edit is known to be made: of operators, of the kernels of torch and of its compiler.
FUSED = "^aten::_fused_(adam|sgd|adagrad)|FusedAdam|FusedSgd|fused_adam"
COMPILED = "^Torch-Compiled Region|^triton_(poi|red|per|tem)_fused"
PREFETCH = "prefetch={data}"
EDITS = (
    Edit(
        "all adapters in one pass",
        {TORCH: "one forward over all batches, as in collect --lora-cnt {adapters} --peft-mode batch (BatchLoRA)"},
        lambda seen: f"batch={seen.adapter_cnt}",
        is_for=lambda seen: seen.adapter_cnt > 1,
        is_made=lambda before, after: after.adapter_cnt < before.adapter_cnt,
    ),
    Edit(
        "load the input ahead",
        {
            TORCH: "DataLoader(…, num_workers={workers}, persistent_workers=True)",
            HF: "dataloader_num_workers={workers}, dataloader_persistent_workers=True",
        },
        lambda seen: PREFETCH,
        is_for=lambda seen: seen.has_spare_core,
        needs_range=True,
        is_made=_has_more_workers,
    ),
    Edit(
        "make batches before the training",
        {
            TORCH: "tokenize once and save it, collate less: each core has a worker already (more of them help where "
            "they wait for a disk or a network)"
        },
        bounded_by=lambda seen: PREFETCH,
        is_for=lambda seen: not seen.has_spare_core,
    ),
    Edit(
        "as much work for each rank",
        {TORCH: "`lorabench summary RUN` says which rank the others wait for, and where it is late"},
        bounded_by=lambda seen: "hide-communication=*",
        is_for=lambda seen: seen.rank_cnt > 1 and not seen.has_gpu,
    ),
    Edit(
        "copy from pinned memory",
        {
            TORCH: "DataLoader(…, pin_memory=True) and batch.to(device, non_blocking=True)",
            HF: "dataloader_pin_memory=True",
            ACCELERATE: "DataLoader(…, pin_memory=True), DataLoaderConfiguration(non_blocking=True)",
            LIGHTNING: "DataLoader(…, pin_memory=True)",
        },
        lambda seen: "pin=*",
        is_for=_has_gpu,
    ),
    Edit(
        "fuse the optimizer",
        {TORCH: "AdamW(…, fused=True)", HF: 'optim="adamw_torch_fused"'},
        lambda seen: "fuse={optimizer}",
        is_for=lambda seen: not seen.is_fused,
        is_made=lambda before, after: after.is_fused,
    ),
    Edit(
        "do not wait in each step",
        {
            TORCH: "loss.item() and prints in every 50th step alone",
            HF: "logging_steps=50, logging_nan_inf_filter=False",
            LIGHTNING: "Trainer(log_every_n_steps=50), self.log(…, prog_bar=False)",
        },
        lambda seen: "drop-sync=*",
        is_for=_has_gpu,
    ),
    Edit(
        "compile the model",
        {TORCH: "model = torch.compile(model)", HF: "torch_compile=True"},
        bounded_by=lambda seen: compiled(seen.has_gpu),
        is_for=lambda seen: not seen.is_compiled,
        is_made=lambda before, after: after.is_compiled,
    ),
    Edit(
        "compile once for all lengths",
        {TORCH: "torch.compile(…, dynamic=True), mark_dynamic, or few lengths; TORCH_LOGS=recompiles says why"},
        is_for=lambda seen: seen.is_recompiled,
        is_made=lambda before, after: not after.is_recompiled,
    ),
    Edit(
        "CUDA graphs",
        {
            TORCH: 'model = torch.compile(model, mode="reduce-overhead")',
            HF: 'torch_compile=True, torch_compile_mode="reduce-overhead"',
        },
        lambda seen: "graph={forward} graph={backward}",
        is_for=_has_gpu,
    ),
    Edit(
        "keep activations, for more memory",
        {TORCH: "no torch.utils.checkpoint; gradient_checkpointing_disable()", HF: "gradient_checkpointing=False"},
        lambda seen: "skip={recompute}",
        needs_range=True,
    ),
    Edit(
        "pad to the longest of each batch",
        {
            TORCH: 'tokenizer(…, padding="longest") in collate_fn, not padding="max_length"',
            HF: 'DataCollatorWithPadding(tokenizer), and no padding="max_length" before it',
        },
        lambda seen: _fewer_tokens(seen, "longest_token_cnt"),
        is_for=lambda seen: _kept(seen, "longest_token_cnt") <= _MOST_KEPT_FRAC,
        is_made=_is_padded_less,
    ),
    Edit(
        "sequences of one length together",
        {
            TORCH: "a batch sampler that sorts by length", TRL: "packing=True",
            DPO: "padding_free=True (with FlashAttention)", GRPO: "prompts of one length in a batch",
            HF: 'train_sampling_strategy="group_by_length" (before 5.0: group_by_length=True)',
        },
        bounded_by=lambda seen: _fewer_tokens(seen, "real_token_cnt"),
        alters="which sequences are in a step",
        is_for=lambda seen: _kept(seen, "real_token_cnt") <= _MOST_KEPT_FRAC,
    ),
    Edit(
        "no micro steps, for more memory",
        {
            TORCH: "a batch_size {micro} times as large, and no accumulation",
            HF: "per_device_train_batch_size {micro} times as large, gradient_accumulation_steps=1",
            LIGHTNING: "a batch_size {micro} times as large, Trainer(accumulate_grad_batches=1)",
            ACCELERATE: "a batch_size {micro} times as large, Accelerator(gradient_accumulation_steps=1)",
        },
        _merged,
        alters="dropout's masks, and in a mean over sequences the weights of tokens",
        is_for=lambda seen: seen.micro_step_cnt > 1,
        is_made=_has_fewer_micro_steps,
    ),
    Edit(
        "16-bit activations",
        {
            TORCH: "torch.autocast(device, torch.bfloat16)", HF: "bf16=True",
            ACCELERATE: 'Accelerator(mixed_precision="bf16")', LIGHTNING: 'Trainer(precision="bf16-mixed")',
        },
        alters="the type of activations",
        is_for=lambda seen: seen.has_16bit and not seen.is_16bit,
        is_made=lambda before, after: after.is_16bit,
    ),
)  # fmt: skip
