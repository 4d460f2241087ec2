"""The loss of a run: from all logits at once, or by the model's head itself (head_loss.py)."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from ...errors import UsageError
from ..batch_lora.wrapping import losses
from ..settings.spec import RunSpec
from .head_loss import HeadLoss
from .models import is_classifier


class FullLoss(nn.Module):
    """The loss from all logits, as a module, so that its backward has a range, too."""

    def forward(self, logits: torch.Tensor, labels: torch.Tensor, rows: Sequence[int]) -> torch.Tensor:
        """The loss of each adapter; of classifiers, which have one, that of all rows."""
        if labels.ndim == 1:
            return F.cross_entropy(logits.float(), labels)[None]
        return losses(logits, labels, rows)


def make(spec: RunSpec, base: Any, device: torch.device) -> nn.Module:
    """What a run asks for. Raises UsageError where it is not possible with the model or the device."""
    if spec.loss == "full":
        return FullLoss()
    if is_classifier(base):
        raise UsageError(f"--loss {spec.loss} is for next tokens; {spec.model} is a classifier: use full")
    if spec.loss == "cut" and device.type != "cuda":
        raise UsageError("--loss cut needs a GPU: its kernels are Triton's; --loss chunked runs anywhere")
    return HeadLoss(base, spec.loss)
