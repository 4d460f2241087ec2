"""Several sequences in one row: positions start again with each, and attention stays within it.

A row says where its sequences are by its positions alone; transformers makes a block-diagonal mask of them where no
other mask is given. Whether a model does is tried before it is trained.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ...errors import UsageError

Sequence = tuple[list[int], list[int]]  # token ids and labels
_TRIED = 8  # tokens of each of the two sequences that a model is tried with


def fill(draw: Callable[[], Sequence], rows: int, length: int, held: list[Sequence]) -> list[list[Sequence]]:
    """So many rows of sequences with at most `length` tokens in a row, in the order in which they are drawn.

    held has the one that did not fit into the last row, for the next call.
    """
    found = []
    for _ in range(rows):
        row: list[Sequence] = []
        free = length
        while True:
            sequence = held.pop() if held else draw()
            if len(sequence[0]) > free:
                held.append(sequence)
                break
            row.append(sequence)
            free -= len(sequence[0])
        found.append(row)
    return found


def tensors(rows: list[list[Sequence]], ignored: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(ids, mask, labels, positions) of packed rows: [rows, longest]. Padding is a sequence of its own.

    The first token of a sequence is nobody's next one: its label is ignored.
    """
    longest = max(sum(len(ids) for ids, _ in row) for row in rows)
    ids = torch.zeros(len(rows), longest, dtype=torch.int64)
    mask, labels, positions = torch.zeros_like(ids), torch.full_like(ids, ignored), torch.zeros_like(ids)
    for number, row in enumerate(rows):
        start = 0
        for words, targets in row:
            end = start + len(words)
            ids[number, start:end] = torch.tensor(words)
            mask[number, start:end] = 1
            labels[number, start:end] = torch.tensor([ignored, *targets[1:]])
            positions[number, start:end] = torch.arange(len(words))
            start = end
        positions[number, start:] = torch.arange(longest - start)
    return ids, mask, labels, positions


def borders_of(positions: torch.Tensor) -> torch.Tensor:
    """For each token of rows the number of its sequence."""
    return (positions == 0).cumsum(1) - 1


def check(model: Any, device: torch.device) -> None:
    """Raise UsageError when what a sequence gives depends on the one that is in front of it in the row."""
    words = torch.arange(1, 2 * _TRIED + 1, device=device)[None] % model.config.vocab_size
    positions = torch.arange(2 * _TRIED, device=device)[None] % _TRIED
    other = words.clone()
    other[:, :_TRIED] = words[:, :_TRIED].flip(1)
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            seen = [_behind(model, row, positions) for row in (words, other)]
    except TypeError as error:  # of a model that takes no positions
        raise UsageError(f"--packing: {type(model).__name__} takes no positions; leave it out") from error
    finally:
        model.train(was_training)
    if not torch.equal(*seen):
        raise UsageError(
            f"--packing would change what is trained: in {type(model).__name__} a sequence attends to the one before "
            "it in its row; leave it out"
        )


def _behind(model: nn.Module, words: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    logits: torch.Tensor = model(input_ids=words, position_ids=positions).logits[:, _TRIED:]
    return logits
