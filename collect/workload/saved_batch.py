"""A batch from a file, the same in every step: what a profile of one known batch needs. Nothing in the file is run."""

import pickle
from pathlib import Path
from typing import Any

import torch

from ...errors import InputError, first_line
from .data import IGNORED, Batch

_KEYS = ("input_ids", "attention_mask", "labels")


class SavedBatch:
    """A stream that gives one batch for ever."""

    def __init__(self, batch: Batch):
        self._batch = batch

    def next(self) -> Batch:
        """The batch, on the CPU."""
        return self._batch

    def skip(self) -> None:
        """Go on to the next one, which is the same."""


def load(path: Path, vocabulary: int, classes: int | None, longest: int | None) -> Batch:
    """The batch of a .pt or .safetensors file. A mask that is missing is all ones, labels are the input_ids.

    `classes` is None for a model of next tokens, `longest` where it has no table of positions. Raises InputError for a
    file that holds another thing than plain tensors that fit the model.
    """
    found = _read(path)
    if not isinstance(found, dict) and hasattr(found, "keys"):
        found = dict(found)
    wrong = not isinstance(found, dict) or "input_ids" not in found
    if wrong or not all(isinstance(found[key], torch.Tensor) for key in _KEYS if key in found):
        raise InputError(
            f"--batch {path} is not a batch: write a dict of tensors, input_ids, attention_mask and labels"
        )
    ids = found["input_ids"]
    mask = found.get("attention_mask", torch.ones_like(ids))
    if "labels" not in found and classes is not None:
        raise InputError(f"--batch {path} has no labels, and a classifier needs one for each row")
    if any(found[key].is_floating_point() or found[key].is_complex() for key in _KEYS if key in found):
        raise InputError(f"--batch {path}: input_ids, attention_mask and labels are whole numbers")
    if ids.ndim != 2 or not ids.numel() or mask.shape != ids.shape:
        raise InputError(f"--batch {path}: input_ids and attention_mask are [rows, length], of the same shape")
    labels = found["labels"] if "labels" in found else ids.masked_fill(mask == 0, IGNORED)
    if labels.shape != (ids.shape if classes is None else ids.shape[:1]):
        wanted = "[rows, length]" if classes is None else "[rows]"
        raise InputError(f"--batch {path}: labels must be {wanted}, not {list(labels.shape)}")
    if longest is not None and ids.shape[1] > longest:
        raise InputError(f"--batch {path} is {ids.shape[1]} tokens long, above the {longest} positions of the model")
    limit = vocabulary if classes is None else classes
    if not _are_within(ids, vocabulary) or not _are_within(labels[labels != IGNORED], limit):
        raise InputError(
            f"--batch {path}: input_ids must be below the vocabulary of {vocabulary}, labels below {limit}"
        )
    if classes is None and bool((labels[:, 1:] == IGNORED).all(1).any()):  # the first is nobody's next token
        raise InputError(f"--batch {path} has a row with nothing to train: all its labels are {IGNORED}")
    return Batch(ids.long(), mask.long(), labels.long())


def _read(path: Path) -> Any:
    try:
        if path.suffix == ".safetensors":
            import safetensors.torch

            return safetensors.torch.load_file(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise InputError(
            f"--batch {path} holds more than tensors, and nothing else is loaded; save a plain dict: "
            "torch.save({k: v.cpu() for k, v in batch.items()}, FILE)"
        ) from error
    except Exception as error:  # of torch, of zip files, of safetensors
        said = first_line(error)
        raise InputError(f"cannot read --batch {path}: {said}") from error


def _are_within(numbers: torch.Tensor, limit: int) -> bool:
    return not numbers.numel() or (int(numbers.min()) >= 0 and int(numbers.max()) < limit)
