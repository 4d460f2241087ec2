"""What a run measures of itself: step times, tokens, arithmetic and memory. Knows nothing of training."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ... import sql
from ..instruments.adapter_parts import is_part
from ..settings.presets import HEADS
from . import nvml
from .formulas import Arithmetic


def arithmetic(
    model: nn.Module, checkpointing: str, adapters: dict[str, tuple[int, int]], loss: str = "full"
) -> Arithmetic:
    """Count a model's products: 2 · in · out for every linear layer, and attention's from its configuration.

    Embeddings are look-ups and cost nothing. adapters: the products of each, with frozen and with trained weights.
    Losses that keep no logits compute the head again in the backward.
    """
    frozen = trained = 0
    for name, module in model.named_modules():
        shape: tuple[Any, Any] = (getattr(module, "in_features", None), getattr(module, "out_features", None))
        is_linear = isinstance(module, nn.Linear) or hasattr(module, "qweight")  # GPTQ's
        if not is_linear or None in shape or any(map(is_part, name.split("."))):
            continue
        flop = 2 * shape[0] * shape[1]
        if any(p.requires_grad for p in module.parameters(recurse=False)):
            trained += flop
        else:
            frozen += flop
    config: Any = getattr(model, "config", None)
    layers = getattr(config, "num_hidden_layers", 0)
    heads = getattr(config, "num_attention_heads", 0)
    width = heads * (getattr(config, "head_dim", None) or getattr(config, "hidden_size", 0) // max(heads, 1))
    head = sum(2 * m.in_features * m.out_features for n, m in model.named_modules()
               if isinstance(m, nn.Linear) and n.rsplit(".", 1)[-1] in HEADS)  # fmt: skip
    own = {name: part for name, (_, part) in adapters.items()}
    own_frozen = {name: part for name, (part, _) in adapters.items() if part}
    sees_all = any(getattr(m, "is_causal", None) is False for m in model.modules())
    return Arithmetic(
        frozen, trained, own, own_frozen, 4 * width * layers, head, checkpointing != "none", loss != "full",
        1.0 if sees_all else 0.5,
    )  # fmt: skip


def peak_flop_s(device: torch.device, dtype: torch.dtype) -> float | None:
    """The device's dense 16-bit peak in FLOP/s; None where it is not known or the type is another."""
    if device.type != "cuda" or dtype not in (torch.bfloat16, torch.float16):
        return None
    return peak_16bit(torch.cuda.get_device_name(device))


def peak_16bit(name: str) -> float | None:
    """The dense peak of a GPU of this name in FLOP/s, for 16-bit types with 32-bit sums; None if not known."""
    kinds = sorted(sql.csv_rows("device_peak"), key=lambda kind: int(kind["priority"]))
    found = (float(kind["matrix16_flops"]) for kind in kinds if re.search(kind["pattern"], name, re.IGNORECASE))
    return next(found, None)


def synchronize(device: torch.device) -> None:
    """Wait until the device has done what was launched."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


_RECORDED = "steps"  # the phase in which steps are replayed


class Memory:
    """Memory at the end of a phase and its peak within: of torch's allocator on a GPU, of the process on a CPU."""

    def __init__(self, device: torch.device, has_graphs: bool = False):
        """`has_graphs`: work is launched as CUDA graphs, whose pools are in use although no tensor says so."""
        self.device, self._has_graphs = device, has_graphs
        self.phases: dict[str, dict[str, int | None]] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure what happens inside; a phase that comes again keeps its highest values."""
        synchronize(self.device)
        self._reset()
        yield
        synchronize(self.device)
        before = self.phases.get(name)
        now = self._now()
        if self._has_graphs and name == _RECORDED and now["peak_allocated_bytes"] is not None:
            now["peak_allocated_bytes"] += graph_bytes(self.device)
        self.phases[name] = {k: v if before is None else _higher(v, before[k]) for k, v in now.items()}

    def _reset(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
            return
        try:
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the kernel's peak starts again
        except OSError:
            return  # a kernel that does not allow it: the peak is that of the process so far

    def _now(self) -> dict[str, int | None]:
        """allocated, reserved and their peaks by torch, what CUDA and NVML count as used, resident memory: bytes."""
        found: dict[str, int | None] = dict.fromkeys(
            ("allocated_bytes", "peak_allocated_bytes", "reserved_bytes", "peak_reserved_bytes", "device_used_bytes",
             "nvml_used_bytes")
        )  # fmt: skip
        if self.device.type == "cuda":
            found["allocated_bytes"] = torch.cuda.memory_allocated(self.device)
            found["peak_allocated_bytes"] = torch.cuda.max_memory_allocated(self.device)
            found["reserved_bytes"] = torch.cuda.memory_reserved(self.device)
            found["peak_reserved_bytes"] = torch.cuda.max_memory_reserved(self.device)
            free, total = torch.cuda.mem_get_info(self.device)  # of all processes, the CUDA context included
            found["device_used_bytes"] = total - free
            found["nvml_used_bytes"] = nvml.used_bytes(str(torch.cuda.get_device_properties(self.device).uuid))
        resident, peak = resident_bytes()
        return {**found, "resident_bytes": resident, "peak_resident_bytes": peak}


def graph_bytes(device: torch.device) -> int:
    """What pools of CUDA graphs hold of a device besides blocks of tensors: replays use it and allocate nothing."""
    held = 0
    for segment in torch.cuda.memory_snapshot():
        if segment["device"] == (device.index or 0) and any(segment.get("segment_pool_id", (0, 0))):
            held += segment["total_size"] - segment["allocated_size"]
    return held


def resident_bytes() -> tuple[int | None, int | None]:
    """Resident memory of this process and its peak, from Linux' /proc; None elsewhere."""
    try:
        lines = Path("/proc/self/status").read_text("ascii", errors="replace").splitlines()
    except OSError:
        return None, None
    values = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.startswith("Vm")}
    return values.get("VmRSS"), values.get("VmHWM")


def _higher(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else max(a, b)
