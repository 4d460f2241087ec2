"""Loss and accuracy of a classifier on its validation sentences, without a trace in the training."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from . import sst2


@dataclass(frozen=True)
class Evaluation:
    """The mean loss of all sentences, and the share of those whose class was found."""

    loss: float
    accuracy: float


def _keep_weights(model: Any) -> None:
    """bitsandbytes' 4-bit layers repack their weights on a CPU when they leave training, and cannot be trained then."""
    for module in model.modules():
        if type(module).__module__.startswith("bitsandbytes"):
            module.training = True


@torch.no_grad()
def evaluate(model: Any, examples: Sequence[sst2.Example], rows: int, padding: int, device: torch.device) -> Evaluation:
    """Run the model over the sentences in evaluation mode, so many at a time in their own order."""
    was_training = model.training
    model.eval()
    _keep_weights(model)
    loss = torch.zeros((), dtype=torch.float64, device=device)
    correct = torch.zeros((), dtype=torch.int64, device=device)
    try:
        for first in range(0, len(examples), rows):
            batch = sst2.padded(list(examples[first : first + rows]), padding).to(device)
            logits = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask).logits.float()
            loss += F.cross_entropy(logits, batch.labels, reduction="sum")
            correct += (logits.argmax(-1) == batch.labels).sum()
    finally:
        model.train(was_training)
    return Evaluation(loss.item() / len(examples), correct.item() / len(examples))
