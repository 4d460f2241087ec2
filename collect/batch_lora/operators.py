"""The LoRA deltas of a union batch: loop over adapters, the same as one autograd node, and fused.

All take x [rows, …, in], a Plan, and the weights A0, B0, A1, B1, … in the order of the plan's slices, and give
delta [rows, …, out]: scaling · B·A·dropout(x) in each adapter's rows, 0 in rows of none. All give the same numbers
up to rounding, gradients included.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F

from ..instruments import ranges
from ..instruments.spans import span
from . import dropout
from .plan import Plan, exact
from .stacked import StackedLayer

_GROUPED_ALIGNMENT = 8  # values: torch's grouped product wants strides of 16 bytes


def looped(x: torch.Tensor, plan: Plan, weights: Sequence[torch.Tensor]) -> torch.Tensor:
    """One adapter after another, left to autograd: it splits x and joins the deltas."""
    bounds = [0, *(s.stop for s in plan.slices)]
    parts = []
    for (before, _), part, a, b in zip(pairwise(bounds), plan.slices, weights[::2], weights[1::2], strict=True):
        if part.start > before:
            parts.append(x.new_zeros(part.start - before, *x.shape[1:-1], plan.out_features))
        own = plan.dropped(x, part)
        with ranges.part("lora_A", part.name):
            h = F.linear(own, a)
        with ranges.part("lora_B", part.name):
            parts.append(F.linear(h, b) * part.scaling)
    if plan.rows > bounds[-1]:
        parts.append(x.new_zeros(plan.rows - bounds[-1], *x.shape[1:-1], plan.out_features))
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def pruned(x: torch.Tensor, plan: Plan, weights: Sequence[torch.Tensor]) -> torch.Tensor:
    """One adapter after another as one autograd node: mLoRA's graph pruning."""
    result: torch.Tensor = _Pruned.apply(x, plan, *(w.to(x.dtype) for w in weights))  # type: ignore[no-untyped-call]
    return result


class _Pruned(torch.autograd.Function):
    """See pruned()."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, plan: Plan, *weights: torch.Tensor) -> torch.Tensor:
        delta = x.new_empty(*x.shape[:-1], plan.out_features)
        hidden, done = [], 0
        for part, a, b in zip(plan.slices, weights[::2], weights[1::2], strict=True):
            delta[done : part.start] = 0
            with span("lora_A"), span(part.name):
                h = F.linear(plan.dropped(x, part), a)
            with span("lora_B"), span(part.name):
                torch.mul(F.linear(h, b), part.scaling, out=delta[part.start : part.stop])
            hidden.append(h)
            done = part.stop
        delta[done:] = 0
        ctx.save_for_backward(x, *weights, *hidden)
        ctx.plan = plan
        return delta

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (grad,) = grads
        plan: Plan = ctx.plan
        x, *saved = ctx.saved_tensors
        weights, hidden = saved[: 2 * len(plan.slices)], saved[2 * len(plan.slices) :]
        grad_x = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        found: list[torch.Tensor | None] = []
        done = 0
        for part, a, b, h in zip(plan.slices, weights[::2], weights[1::2], hidden, strict=True):
            scaled = grad[part.start : part.stop] * part.scaling
            with span("lora_B"), span(part.name):
                grad_b = _flat(scaled).T @ _flat(h)
                grad_h = scaled @ b
            own = x[part.start : part.stop]
            with span("lora_A"), span(part.name):
                if grad_x is not None:
                    into = grad_x[part.start : part.stop]
                    torch.matmul(grad_h, a, out=into)
                    own, passed = plan.drop((own, into), part)
                    if passed is not into:
                        into.copy_(passed)
                    grad_x[done : part.start] = 0
                else:
                    (own,) = plan.drop((own,), part)
                found += [_flat(grad_h).T @ _flat(own), grad_b]
            done = part.stop
        if grad_x is not None:
            grad_x[done:] = 0
        return (grad_x, None, *found)


def fused(x: torch.Tensor, plan: Plan, weights: Sequence[torch.Tensor]) -> torch.Tensor:
    """All adapters at once: 2 matrix products forward and 4 backward, whatever the number of adapters.

    Where all adapters have as many rows these are batched products. Elsewhere grouped ones, where the device has them
    (compute capability 9, bfloat16). Else the A stand side by side, a mask leaves each row its own, and the B stand
    side by side: every row then meets every A, (adapters - 1) · rank · (in + out) multiplications a token more than
    needed, little beside the base's in · out.
    """
    if len(plan.slices) == 1:
        # nothing to put together, and autograd's own nodes cost less than one in Python
        return looped(x, plan, weights)
    result: torch.Tensor = _Fused.apply(x, plan, None, None, *weights)  # type: ignore[no-untyped-call]
    return result


def fused_onto(base: torch.Tensor, x: torch.Tensor, plan: Plan, stacked: StackedLayer) -> torch.Tensor:
    """base plus the deltas of weights that lie in one tensor, to whose gradients the backward adds.

    Where all adapters have as many rows the last product adds to base in its place, which saves a pass over memory.
    """
    x = x.to(stacked.all_a.dtype)
    can_add = plan.is_even and base.dtype == x.dtype and base.is_contiguous() and not base._is_view()
    result: torch.Tensor = _Fused.apply(x, plan, stacked, base if can_add else None, stacked.stack.anchor)  # type: ignore[no-untyped-call]
    return result if can_add else (base + result).to(base.dtype)


def can_group(x: torch.Tensor, plan: Plan) -> bool:
    """Whether torch's grouped matrix product runs as one kernel for this layer."""
    width = max(s.rank for s in plan.slices)
    return (
        x.is_cuda
        and x.dtype == torch.bfloat16
        and torch.cuda.get_device_capability(x.device) >= (9, 0)
        and all(n % _GROUPED_ALIGNMENT == 0 for n in (x.shape[-1], plan.out_features, width))
    )


class _Fused(torch.autograd.Function):
    """See fused()."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        plan: Plan,
        stacked: StackedLayer | None,
        base: torch.Tensor | None,
        *weights: torch.Tensor,
    ) -> torch.Tensor:
        ctx.is_apart = plan.is_even or can_group(x, plan)
        own, _ = _drop_rows(plan, x)
        if stacked is not None:
            a, b = stacked.weights(plan.names)  # [adapters, width, in], [adapters, out, width]
        else:
            width = max(s.rank for s in plan.slices)
            a, b = _stacked(weights[::2], 0, width).to(x.dtype), _stacked(weights[1::2], 1, width).to(x.dtype)
        with span("lora_A"):
            h = _by_group(own, a, plan) if ctx.is_apart else own @ a.flatten(0, 1).T
            h = (h * (_row_scale(plan, h) if ctx.is_apart else _per_row(plan.mask(a.shape[1], h), h))).to(h.dtype)
        with span("lora_B"):
            if base is not None:
                count = len(plan.slices)
                base.view(count, -1, base.shape[-1]).baddbmm_(h.reshape(count, -1, h.shape[-1]), b.transpose(1, 2))
                ctx.mark_dirty(base)
                delta = base
            else:
                delta = _by_group(h, b, plan) if ctx.is_apart else h @ b.transpose(1, 2).flatten(0, 1)
        ctx.save_for_backward(x, a, b, h)
        ctx.plan, ctx.stacked, ctx.dtype, ctx.is_onto = plan, stacked, weights[0].dtype, base is not None
        return delta

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (grad,) = grads
        plan: Plan = ctx.plan
        x, a, b, h = ctx.saved_tensors
        if ctx.is_apart:
            grad_x, grad_a, grad_b = _backward_apart(grad, plan, x, a, b, h, ctx.needs_input_grad[0])
        else:
            grad_x, grad_a, grad_b = _backward_masked(grad, plan, x, a, b, h, ctx.needs_input_grad[0])
        if ctx.stacked is not None:
            ctx.stacked.add(plan.names, grad_a, grad_b)
            return grad_x, None, None, grad if ctx.is_onto else None, None
        return (grad_x, None, None, None, *_unstacked(plan, grad_a.to(ctx.dtype), grad_b.to(ctx.dtype)))


def _backward_masked(
    grad: torch.Tensor, plan: Plan, x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, h: torch.Tensor, wants_x: bool
) -> tuple[torch.Tensor | None, torch.Tensor, torch.Tensor]:
    width = a.shape[1]
    with span("lora_B"):
        grad_b = _flat(grad).T @ _flat(h)  # [out, adapters · width]: h is scaled already
        grad_b = grad_b.view(-1, len(plan.slices), width).transpose(0, 1)
        grad_h = grad @ b.transpose(1, 2).flatten(0, 1).T
        grad_h = (grad_h * _per_row(plan.mask(width, grad_h), grad_h)).to(grad_h.dtype)
    with span("lora_A"):
        grad_x = grad_h @ a.flatten(0, 1) if wants_x else None
        own, grad_x = _drop_rows(plan, x, grad_x)
        grad_a = (_flat(grad_h).T @ _flat(own)).view(len(plan.slices), width, -1)
    return grad_x, grad_a, grad_b.contiguous()


def _backward_apart(
    grad: torch.Tensor, plan: Plan, x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, h: torch.Tensor, wants_x: bool
) -> tuple[torch.Tensor | None, torch.Tensor, torch.Tensor]:
    with span("lora_B"):
        grad_b = _outer(grad, h, plan)  # h is scaled already
        grad_h = _by_group(grad, b.transpose(1, 2), plan)
        grad_h = (grad_h * _row_scale(plan, grad_h)).to(grad_h.dtype)
    with span("lora_A"):
        grad_x = _by_group(grad_h, a.transpose(1, 2), plan) if wants_x else None
        own, grad_x = _drop_rows(plan, x, grad_x)
        grad_a = _outer(grad_h, own, plan)
    return grad_x, grad_a, grad_b


def _stacked(weights: Sequence[torch.Tensor], ranks: int, width: int) -> torch.Tensor:
    """Weights of the adapters side by side, zeros where a rank is below the width; `ranks` is the axis of ranks."""
    if all(w.shape[ranks] == width for w in weights):
        return torch.stack(list(weights))
    missing = [width - w.shape[ranks] for w in weights]
    padding = [(0, n) if ranks else (0, 0, 0, n) for n in missing]
    return torch.stack([F.pad(w, sides) for w, sides in zip(weights, padding, strict=True)])


def _unstacked(plan: Plan, grad_a: torch.Tensor, grad_b: torch.Tensor) -> list[torch.Tensor]:
    """Gradients of A0, B0, A1, … from [adapters, width, in] and [adapters, out, width]: views where ranks are equal."""
    both = zip(plan.slices, grad_a.unbind(0), grad_b.unbind(0), strict=True)
    return [g for s, a, b in both for g in (a[: s.rank], b[:, : s.rank])]


def _per_row(column: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """[rows, n] (or [rows]) so that it broadcasts against [rows, …, n]."""
    if column.ndim == 1:
        return column.view(-1, *[1] * (like.ndim - 1))
    return column.view(len(column), *[1] * (like.ndim - 2), column.shape[1])


def _drop_rows(
    plan: Plan, x: torch.Tensor, grad_x: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The rows of all adapters after dropout, and the gradient of x after the same; as they are where none drops."""
    if not plan.has_dropout:
        return x, grad_x
    both = (x,) if grad_x is None else (x, grad_x)
    own, *rest = dropout.drop(both, *plan.dropout_of(0, plan.rows, x.device))
    return own, rest[0] if rest else None


def _flat(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(-1, x.shape[-1])


def _ends(plan: Plan, x: torch.Tensor) -> torch.Tensor:
    """Where each adapter's tokens end among those of all adapters' slices."""
    tokens = x.shape[1:-1].numel()

    def make() -> torch.Tensor:
        counts = torch.tensor([(s.stop - s.start) * tokens for s in plan.slices])
        return dropout.on(x.device, counts.cumsum(0).to(torch.int32))

    return plan.known(("ends", tokens, plan.slices), make)


def _row_scale(plan: Plan, like: torch.Tensor) -> torch.Tensor:
    """Each row's scaling, 0 in rows of none, to multiply [rows, …, n] with."""

    def make() -> torch.Tensor:
        values = torch.zeros(plan.rows, dtype=torch.float64)
        for s in plan.slices:
            values[s.start : s.stop] = s.scaling
        return dropout.on(like.device, exact(values, like.dtype))

    return _per_row(plan.known(("scale", plan.slices, plan.rows, like.dtype), make), like)


def _of_slices(x: torch.Tensor, plan: Plan) -> torch.Tensor:
    """[tokens, features] of the rows that belong to an adapter; a view where all do."""
    if all(s.stop == t.start for s, t in pairwise(plan.slices)):
        return _flat(x[plan.slices[0].start : plan.slices[-1].stop])
    return _flat(torch.cat([x[s.start : s.stop] for s in plan.slices]))


def _outer(left: torch.Tensor, right: torch.Tensor, plan: Plan) -> torch.Tensor:
    """[adapters, m, n]: for each adapter the sum over its tokens of left [rows, …, m] times right [rows, …, n]."""
    if plan.is_even:
        count = len(plan.slices)
        of_adapters = left.reshape(count, -1, left.shape[-1]), right.reshape(count, -1, right.shape[-1])
        return torch.bmm(of_adapters[0].transpose(1, 2), of_adapters[1])
    return F.grouped_mm(_of_slices(left, plan).T, _of_slices(right, plan), offs=_ends(plan, left))


def _by_group(x: torch.Tensor, weights: torch.Tensor, plan: Plan) -> torch.Tensor:
    """x [rows, …, n] times each adapter's own [m, n] of weights [adapters, m, n]; 0 in rows of none."""
    if plan.is_even:
        even = torch.bmm(x.reshape(len(plan.slices), -1, x.shape[-1]), weights.transpose(1, 2))
        return even.view(*x.shape[:-1], weights.shape[1])
    product = F.grouped_mm(_of_slices(x, plan).contiguous(), weights.contiguous().transpose(1, 2), offs=_ends(plan, x))
    shape = (-1, *x.shape[1:-1], weights.shape[1])
    if len(product) == x.shape[:-1].numel():
        return product.view(shape)
    result = x.new_zeros(len(x), *shape[1:])
    done = 0
    product = product.view(shape)
    for s in plan.slices:
        result[s.start : s.stop] = product[done : done + s.stop - s.start]
        done += s.stop - s.start
    return result
