"""What a task and a trainer set where nothing else is given, and which settings are theirs alone."""

import re
from typing import TYPE_CHECKING, Any

from ...errors import UsageError
from .presets import PRESETS

if TYPE_CHECKING:
    from .spec import RunSpec

SST2, SFT = "sst2", "sft"
WORDS, GLUE = "words", "glue"  # data of a task by name
_USUAL: dict[tuple[str, str], dict[str, Any]] = {
    ("task", SST2): {"model": "tiny-distilbert", "data": WORDS, "epochs": 3, "gradient_checkpointing": "none"},
    ("trainer", SFT): {
        "steps": 20, "warmup": 0, "batch_size": 2, "grad_accum": 4, "optimizer": "adamw-8bit",
        "lr_schedule": "linear", "lr_warmup_steps": 5, "weight_decay": 0.01,
    },
}  # fmt: skip
_OF_SST2 = ("epochs", "run_id", "tensorboard", "wandb")
_OF_WANDB = ("wandb_project", "wandb_mode")
_OF_THE_BATCH = ("batch_size", "seq_len", "data", "lengths")
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=-]*")


def usual_values(given: dict[str, Any]) -> dict[str, Any]:
    """The settings of the task and the trainer that are asked for; what is given takes precedence over them."""
    found = [values for (setting, name), values in _USUAL.items() if given.get(setting) == name]
    has_batch = bool(given.get("batch"))  # of which the rows are what they are
    return {n: v for values in found for n, v in values.items() if not (has_batch and n in _OF_THE_BATCH)}


def notes(spec: "RunSpec") -> list[str]:
    """What will be done differently from what one may expect, and why."""
    if spec.task == SST2 and spec.data == WORDS:
        return [
            "--data words: sentences of words that ship with lorabench, no real ones; --data glue loads GLUE's SST-2"
        ]
    return []


def is_classifier(spec: "RunSpec") -> bool:
    """Whether the settings alone say that the model gives a class to a sequence; a checkpoint may do so, too."""
    preset = PRESETS.get(spec.model)
    return spec.task == SST2 or (preset is not None and preset.task == "classification")


def check(spec: "RunSpec", given: set[str]) -> None:
    """Raise UsageError for settings of a task, a trainer or a loss that do not fit the others.

    `given` are the settings that differ from their defaults.
    """
    _check_sst2(spec, given)
    _check_schedule(spec, given)
    if spec.packing and (spec.batch or spec.task == SST2):
        other = "--batch has its rows" if spec.batch else "--task sst2 gives a class to a row"
        raise UsageError(f"--packing puts several sequences into a row, and {other}; leave one of them out")
    if spec.batch:
        _refuse(given, _OF_THE_BATCH, "is that of --batch, the same in every step; leave it out")
    if spec.loss != "full" and is_classifier(spec):
        raise UsageError(
            f"--loss {spec.loss} is for next tokens, whose logits are many; a classifier has few: use full"
        )


def _refuse(given: set[str], names: tuple[str, ...], why: str) -> None:
    for name in names:
        if name in given:
            raise UsageError(f"--{name.replace('_', '-')} {why}")


def _check_sst2(spec: "RunSpec", given: set[str]) -> None:
    if not spec.wandb:
        _refuse(given, _OF_WANDB, "applies to --wandb")
    if spec.task != SST2:
        _refuse(given, _OF_SST2, "applies to --task sst2")
        return
    if spec.trainer == SFT:
        raise UsageError("--trainer sft counts steps, --task sst2 epochs; leave one of them out")
    if spec.batch:
        raise UsageError("--batch is one batch, --task sst2 needs sentences for epochs; leave one of them out")
    if spec.data == "synthetic":
        raise UsageError("--data synthetic has no sentences for --task sst2; use words, glue, a file or a folder")
    if spec.epochs < 1:
        raise UsageError("--epochs must be at least 1 with --task sst2")
    if spec.lora_cnt > 1 or spec.peft_mode != "switch":
        raise UsageError("--task sst2 trains one classifier at a time; leave --lora-cnt and --peft-mode out")
    if set(spec.profiler) == {"timing"}:
        _refuse(given, ("steps",), "is for passes with a profiler; the timing pass trains whole --epochs")
    if "timing" not in spec.profiler:
        raise UsageError("--task sst2 measures its epochs in the timing pass; add it to --profiler")
    if spec.run_id and not _RUN_ID.fullmatch(spec.run_id):
        raise UsageError(
            f"--run-id {spec.run_id!r} names a folder: letters, digits and ._+=- with a letter or digit first"
        )


def _check_schedule(spec: "RunSpec", given: set[str]) -> None:
    if spec.weight_decay < 0 or spec.weight_decay == float("inf") or spec.weight_decay != spec.weight_decay:
        raise UsageError("--weight-decay must be at least 0, and finite")
    if not spec.optimizer.startswith("adamw"):
        _refuse(given, ("weight_decay",), f"applies to the kinds of adamw, not to {spec.optimizer}")
