"""What can be changed by hand in a script of others: the words for it in each framework, and what predicts it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .candidates import compiled

TRL, HF, LIGHTNING, ACCELERATE, TORCH = "TRL", "HF Trainer", "Lightning", "Accelerate", "PyTorch"
# A framework is there when this module of it was loaded; the first that was.
MODULES = (
    ("trl.trainer.sft_trainer", TRL), ("trl.trainer.dpo_trainer", TRL), ("trl.trainer.grpo_trainer", TRL),
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


@dataclass(frozen=True)
class Edit:
    """An edit: what it does, what its saving is predicted by, and how it is written."""

    name: str
    words: dict[str, str]  # by framework; others are written as in PyTorch
    predicted_by: Callable[[Seen], str] = lambda seen: ""
    bounded_by: Callable[[Seen], str] = lambda seen: ""
    alters: str = ""
    is_for: Callable[[Seen], bool] = lambda seen: True
    needs_range: bool = False  # that says where it is

    def written(self, framework: str, seen: Seen) -> str:
        """The edit in the words of a framework."""
        family = HF if framework == TRL else framework
        words = self.words.get(framework) or self.words.get(family) or self.words[TORCH]
        return words.replace("{workers}", str(seen.workers)).replace("{micro}", str(seen.micro_step_cnt))


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


PREFETCH = "prefetch={data}"
EDITS = (
    Edit(
        "load the input ahead",
        {
            TORCH: "DataLoader(…, num_workers={workers}, persistent_workers=True)",
            HF: "dataloader_num_workers={workers}, dataloader_persistent_workers=True",
        },
        lambda seen: PREFETCH,
        needs_range=True,
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
    ),
    Edit(
        "sequences of one length together",
        {
            TORCH: "a batch sampler that sorts by length", TRL: "packing=True",
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
    ),
    Edit(
        "16-bit activations",
        {
            TORCH: "torch.autocast(device, torch.bfloat16)", HF: "bf16=True",
            ACCELERATE: 'Accelerator(mixed_precision="bf16")', LIGHTNING: 'Trainer(precision="bf16-mixed")',
        },
        alters="the type of activations",
    ),
)  # fmt: skip
