"""Quantises a base that is built or loaded: bitsandbytes, torchao, quanto, each imported only where it is asked for."""

import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from ..settings.presets import HEADS

BITSANDBYTES = ("int8", "nf4")  # what transformers quantizes while it loads, too


def quantise(model: nn.Module, to: str, dtype: torch.dtype, device: torch.device) -> None:
    """Quantise the weights of every linear layer but the heads, in place.

    nf4 is doubly quantized. int8 has no outlier columns (threshold 0): which columns are outliers depends on every row
    of a batch, and an adapter's results must not depend on the others'. The other ways quantize weights alone.
    """
    if to in BITSANDBYTES:
        _by_bitsandbytes(model, to, dtype, device)
    elif to == "qint8":
        _by_quanto(model)
    else:
        _by_torchao(model, to)


def _by_bitsandbytes(model: nn.Module, to: str, dtype: torch.dtype, device: torch.device) -> None:
    import bitsandbytes

    bnb: Any = bitsandbytes
    for parent, name, linear in list(_linears(model)):
        shape: dict[str, Any] = {"bias": linear.bias is not None, "device": "meta"}
        new: Any
        if to == "nf4":
            new = bnb.nn.Linear4bit(
                linear.in_features, linear.out_features, compute_dtype=dtype, compress_statistics=True,
                quant_type="nf4", **shape,
            )  # fmt: skip
            new.weight = bnb.nn.Params4bit(
                linear.weight.data, requires_grad=False, quant_type="nf4", compress_statistics=True, module=new
            )
        else:
            new = bnb.nn.Linear8bitLt(
                linear.in_features, linear.out_features, has_fp16_weights=False, threshold=0.0, **shape
            )
            new.weight = bnb.nn.Int8Params(linear.weight.data, requires_grad=False, has_fp16_weights=False)
        if linear.bias is not None:
            new.bias = nn.Parameter(linear.bias.data, requires_grad=False)
        setattr(parent, name, new.to(device))
    flags: Any = model
    flags.is_loaded_in_4bit, flags.is_loaded_in_8bit = to == "nf4", to == "int8"  # what PEFT asks


def _by_torchao(model: nn.Module, to: str) -> None:
    """Weights alone: int8 by column, or float8."""
    from torchao.quantization import Float8WeightOnlyConfig, Int8WeightOnlyConfig, quantize_

    chosen = {id(linear) for _, _, linear in _linears(model)}
    config = Int8WeightOnlyConfig() if to == "int8wo" else Float8WeightOnlyConfig()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        quantize_(model, config, filter_fn=lambda module, _: id(module) in chosen)
    for _, _, linear in _linears(model):
        linear.weight.requires_grad_(False)
    # PEFT asks for what would quantize a layer again after merging, which a run never does
    warnings.filterwarnings("ignore", message=".*get_apply_tensor_subclass")


def _by_quanto(model: nn.Module) -> None:
    """int8 weights; activations stay as they are."""
    from optimum.quanto import freeze, qint8, quantize

    quantize(model, weights=qint8, exclude=[f"*{head}" for head in HEADS])
    freeze(model)
    model.requires_grad_(False)


def _linears(model: nn.Module) -> Iterator[tuple[nn.Module, str, nn.Linear]]:
    for parent in model.modules():
        for name, child in parent.named_children():
            if type(child) is nn.Linear and name not in HEADS:
                yield parent, name, child
