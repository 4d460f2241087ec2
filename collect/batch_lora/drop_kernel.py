"""Dropout of dropout.py as one Triton kernel: the same hash, bit for bit. Imported where there is a GPU."""

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from .dropout import ODD, signed

if TYPE_CHECKING:
    from .dropout import Rates

_BLOCK = 1024
_ODD0, _ODD1 = tl.constexpr(signed(ODD[0])), tl.constexpr(signed(ODD[1]))


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _mix(value):  # type: ignore[no-untyped-def] # Triton reads annotations as types of its own
    value ^= value >> 15
    value *= _ODD0
    value ^= value >> 16
    value *= _ODD1
    return value


@triton.jit(do_not_specialize=["first", "second"])  # type: ignore[untyped-decorator, unused-ignore]
def _lora_dropout(  # type: ignore[no-untyped-def]
    x, out, keys, limits, gains, positions, features, first, second, stride, block: tl.constexpr
):
    token = tl.program_id(0)
    row = token // positions
    where = _mix(tl.load(keys + row) ^ ((token % positions) * _ODD1 + first))
    feature = tl.program_id(1) * block + tl.arange(0, block)
    value = _mix(where ^ _mix(feature * _ODD0 + second))
    kept = value >= tl.load(limits + row * stride)
    gain = tl.load(gains + row * stride).to(tl.float32)
    at = token.to(tl.int64) * features + feature
    is_inside = feature < features
    values = tl.load(x + at, mask=is_inside).to(tl.float32)
    tl.store(out + at, tl.where(kept, values * gain, 0.0).to(out.dtype.element_ty), mask=is_inside)


def drop(x: torch.Tensor, row_key: torch.Tensor, first: int, second: int, rates: "Rates") -> torch.Tensor:
    """A [rows, …, features] tensor after dropout; first and second are the layer's two numbers."""
    x = x.contiguous()
    out = torch.empty_like(x)
    features, positions = x.shape[-1], x.shape[1:-1].numel()
    block = min(_BLOCK, triton.next_power_of_2(features))
    grid = (len(x) * positions, triton.cdiv(features, block))
    stride = int(len(rates.limit) > 1)
    with torch.cuda.device(x.device):
        _lora_dropout[grid](
            x, out, row_key, rates.limit, rates.gain, positions, features, first, second, stride, block, num_warps=4
        )
    return out
