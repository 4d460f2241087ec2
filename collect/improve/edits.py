"""What can be changed by hand in a script of others: the words for it in each framework, and what predicts it."""

from collections.abc import Sequence
from dataclasses import dataclass

from .candidates import compiled

TRL, HF, LIGHTNING, ACCELERATE, TORCH = "TRL", "HF Trainer", "Lightning", "Accelerate", "PyTorch"
# A framework is there when this module of it was loaded; the first that was.
MODULES = (
    ("trl.trainer.sft_trainer", TRL), ("trl.trainer.dpo_trainer", TRL), ("trl.trainer.grpo_trainer", TRL),
    ("lightning.pytorch.trainer.trainer", LIGHTNING), ("pytorch_lightning.trainer.trainer", LIGHTNING),
    ("transformers.trainer", HF), ("accelerate.accelerator", ACCELERATE),
)  # fmt: skip

USUAL_WORKERS = 4  # of a loader of which nobody knows how long it takes


@dataclass(frozen=True)
class Edit:
    """An edit: what it does, what its saving is predicted by, and how it is written."""

    name: str
    words: dict[str, str]  # by framework; others are written as in PyTorch
    predicted_by: str = ""
    is_compiling: bool = False  # its saving is bounded as that of compiling
    alters: str = ""
    needs_gpu: bool = False
    needs_range: bool = False  # that says where it is
    needs_lengths: bool = False  # where steps differ in their tokens alone

    def written(self, framework: str, workers: int = USUAL_WORKERS) -> str:
        """The edit in the words of a framework; `workers` are those of a loader."""
        family = HF if framework == TRL else framework
        words = self.words.get(framework) or self.words.get(family) or self.words[TORCH]
        return words.replace("{workers}", str(workers))


def bound_of(edit: Edit, has_gpu: bool) -> str:
    """What bounds the saving of an edit, empty where nothing does."""
    return compiled(has_gpu) if edit.is_compiling else ""


def possible(has_gpu: bool) -> list[Edit]:
    """The edits that mean something with a GPU, or without one."""
    return [edit for edit in EDITS if has_gpu or not edit.needs_gpu]


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
        PREFETCH,
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
        "pin=*",
        needs_gpu=True,
    ),
    Edit(
        "fuse the optimizer",
        {TORCH: "AdamW(…, fused=True)", HF: 'optim="adamw_torch_fused"'},
        "fuse={optimizer}",
    ),
    Edit(
        "do not wait in each step",
        {
            TORCH: "loss.item() and prints in every 50th step alone",
            HF: "logging_steps=50, logging_nan_inf_filter=False",
            LIGHTNING: "Trainer(log_every_n_steps=50), self.log(…, prog_bar=False)",
        },
        "drop-sync=*",
        needs_gpu=True,
    ),
    Edit(
        "compile the model",
        {TORCH: "model = torch.compile(model)", HF: "torch_compile=True"},
        is_compiling=True,
    ),
    Edit(
        "CUDA graphs",
        {
            TORCH: 'model = torch.compile(model, mode="reduce-overhead")',
            HF: 'torch_compile=True, torch_compile_mode="reduce-overhead"',
        },
        "graph={forward} graph={backward}",
        needs_gpu=True,
    ),
    Edit(
        "keep activations, for more memory",
        {TORCH: "no torch.utils.checkpoint; gradient_checkpointing_disable()", HF: "gradient_checkpointing=False"},
        "skip={recompute}",
        needs_range=True,
    ),
    Edit(
        "sequences of one length together",
        {
            TORCH: "a batch sampler that sorts by length", TRL: "packing=True",
            HF: 'train_sampling_strategy="group_by_length" (before 5.0: group_by_length=True)',
        },
        alters="which sequences are in a step",
        needs_lengths=True,
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
