"""Tensor parallel by DTensor: each rank has a slice of every linear layer of the decoder, and computes all sequences.

q, k, v, gate and up are cut by columns (outputs), o and down by rows (inputs), so that only the ends of attention and
of the MLP are added up over ranks. An adapter follows its layer: beside a layer cut by columns A is whole and B cut,
beside one cut by rows A is cut and B whole. Embedding, norms and head are whole everywhere.
"""

from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module

from ...errors import UsageError
from ..batch_lora.dropout import ReplayedDropout
from ..settings.spec import AdapterSpec
from ..workload.step import MicroStep
from .fsdp import decoder_layers
from .sharing import RankTrainer

_COLUMNS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj")
_ROWS = ("self_attn.o_proj", "mlp.down_proj")


class TensorParallel(RankTrainer):
    """See the module."""

    def _spread(self) -> None:
        super()._spread()
        mesh = init_device_mesh(self.device.type, (self.rank.cnt,))
        for layer in decoder_layers(self.base):
            plan = {n: s for name in (*_COLUMNS, *_ROWS) for n, s in _plan(layer, name).items()}
            self._count_features(layer)
            # every rank has drawn the same weights: nothing has to be sent
            parallelize_module(layer, mesh, plan, src_data_rank=None)

    def _count_features(self, layer: nn.Module) -> None:
        """Let dropout before a layer that is cut by rows know which of the features its own are."""
        for name in _ROWS:
            linear: Any = layer.get_submodule(name)
            for dropout in getattr(linear, "lora_dropout", {}).values():
                if isinstance(dropout, ReplayedDropout):
                    dropout.first_feature = self.rank.number * (linear.in_features // self.rank.cnt)

    def _groups(self, adapter: AdapterSpec) -> list[Any]:
        """Parameters that are cut and such that are not: an optimizer cannot mix them in one launch."""
        both: tuple[list[nn.Parameter], list[nn.Parameter]] = ([], [])
        for parameter in self.parameters(adapter):
            both[isinstance(parameter, DTensor)].append(parameter)
        return [{"params": group} for group in both if group]

    def _micro_step(self, micro: MicroStep) -> torch.Tensor:
        found = super()._micro_step(micro)
        return found if self.rank.is_first else torch.zeros_like(found)


def _plan(layer: nn.Module, name: str) -> dict[str, ParallelStyle]:
    """How the parts of one linear layer are cut. Raises UsageError for a layer that the decoder does not have."""
    try:
        linear: Any = layer.get_submodule(name)
    except AttributeError as error:
        raise UsageError(f"--parallel tp cuts decoders as Llama; this one has no {name}, use fsdp or ddp") from error
    is_column = name in _COLUMNS
    style: ParallelStyle = ColwiseParallel() if is_column else RowwiseParallel()
    if not hasattr(linear, "base_layer"):
        return {name: style}
    cut = "lora_B" if is_column else "lora_A"
    return {f"{name}.base_layer": style} | {f"{name}.{cut}.{adapter}": style for adapter in linear.lora_A}
