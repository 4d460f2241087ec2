"""Fully sharded data parallel (FSDP2): each rank keeps a part of every weight, and gathers a layer when it needs it.

A decoder layer is a unit. Its adapters, of a type of their own or not, are in it: FSDP asks for one type among what is
trained, not among all. Quantized weights are gathered as the bytes that they are, seen as float32.
"""

from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, OffloadPolicy, fully_shard

from ...errors import UsageError
from ..workload.step import MicroStep
from .sharing import SharedRows


class ShardedParallel(SharedRows):
    """See the module."""

    def _spread(self) -> None:
        super()._spread()
        mesh = init_device_mesh(self.device.type, (self.rank.cnt,))
        offload = CPUOffloadPolicy(pin_memory=self.device.type == "cuda") if self.spec.cpu_offload else OffloadPolicy()
        if self.spec.quantisation == "nf4":
            _as_floats(self.base)
        for layer in decoder_layers(self.base):
            fully_shard(layer, mesh=mesh, offload_policy=offload)
        root: Any = fully_shard(self.base, mesh=mesh, offload_policy=offload)
        self._root: FSDPModule = root

    def _micro_step(self, micro: MicroStep) -> torch.Tensor:
        self._root.set_requires_gradient_sync(micro.is_last)
        return super()._micro_step(micro)


def decoder_layers(base: nn.Module) -> nn.ModuleList:
    """The layers of a decoder. Raises UsageError for a model that has none where decoders have them."""
    layers = getattr(getattr(base, "model", None), "layers", None)
    if not isinstance(layers, nn.ModuleList):
        raise UsageError(f"--parallel cuts decoders with model.layers; {type(base).__name__} has none, use ddp")
    return layers


def _as_floats(base: nn.Module) -> None:
    """Let nf4 weights pass for float32: FSDP cuts by rows, and bytes of one column would leave ranks without a group.

    Only the type changes, no bit: bitsandbytes reads them by the address. Its layer finds the state again (quant_state)
    when FSDP has put a plain parameter in the place of its own.
    """
    import bitsandbytes

    bnb: Any = bitsandbytes
    for module in base.modules():
        if isinstance(module, bnb.nn.Linear4bit):
            weight = module.weight
            floats = weight.data.reshape(-1).view(torch.float32).reshape(-1, 1)
            module.quant_state, module.quant_storage = weight.quant_state, torch.float32
            module.weight = bnb.nn.Params4bit(
                floats, requires_grad=False, quant_state=weight.quant_state, quant_type="nf4", bnb_quantized=True,
                quant_storage=torch.float32, module=module,
            )  # fmt: skip
