"""What is to be seen of the tokens in a batch: their ids in what a model is called with, and masks of their padding."""

from typing import Any, Iterator, List

import torch

from .models import ByIdentity


class Called:
    """What models are called with: the ids of a batch count once in a turn of optimizers, each of which computes them.

    Within the step of one optimizer each call counts: of micro steps that repeat a batch, too.
    """

    def __init__(self) -> None:
        self._counted = ByIdentity()

    def begin_step(self, _: int) -> None:
        """The next step may have the same batch."""
        self._counted = ByIdentity()

    def token_cnt(self, arguments: Any, named: Any, part: int) -> int:
        """Token ids that were not counted in an earlier part of the turn; 0 where none are to be seen."""
        return sum(ids.numel() for ids in _ids(arguments, named) if self._counts(ids, part))

    def _counts(self, ids: torch.Tensor, part: int) -> bool:
        version = 0 if ids.is_inference() else ids._version  # a buffer may be filled with another batch
        counted = self._counted.get(ids)
        if counted is not None and counted[0] == version:
            return bool(counted[1] == part)
        self._counted.put(ids, (version, part))
        return True


def _ids(arguments: Any, named: Any) -> List[torch.Tensor]:
    """Ids by name, or the first ones that are called with; of a list of batches those of each."""
    for value in (named, *arguments):
        found = [part.get("input_ids") for part in _mappings(value)] or [value]
        ids = [one for one in found if isinstance(one, torch.Tensor) and one.dim() == 2]
        ids = [one for one in ids if one.dtype in (torch.int64, torch.int32)]
        if ids:
            return ids
    return []


def masks(*batches: Any) -> Iterator[torch.Tensor]:
    """The attention masks of batches, a row for each of their sequences, where they are to be seen without waiting."""
    for batch in batches:
        for part in _mappings(batch):
            mask: Any = part.get("attention_mask")
            is_plain = type(mask) is torch.Tensor and mask.dim() == 2 and mask.numel() and mask.device.type == "cpu"
            if is_plain and not mask.is_floating_point():
                yield mask


def _mappings(value: Any) -> List[Any]:
    """A batch that has names, or those of a list of them."""
    parts = value if isinstance(value, (list, tuple)) else [value]
    return [part for part in parts if hasattr(part, "get") and hasattr(part, "keys")]  # a queue has get() alone
