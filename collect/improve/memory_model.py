"""What becomes of the peak of memory when settings change: arithmetic on what it is made of.

A rule takes the categories of the peak (`memory_peak`) and says how many bytes more there will be. It knows what lies
at the peak now; where another moment becomes the highest, the true peak is above what it says.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ... import vocabulary as words
from ..settings.presets import PRESETS
from ..settings.spec import CHUNK_TOKENS, RunSpec

_LEAST_8BIT_BYTES = 4 * 4096  # bitsandbytes keeps the state of smaller tensors in 32 bits
_OF_ROWS = (words.MEMORY_ACTIVATION, "temporary", "autograd_detail", words.MEMORY_INPUT)
_OF_ADAPTERS = (words.MEMORY_ADAPTER, words.MEMORY_GRADIENT, words.MEMORY_OPTIMIZER)


@dataclass(frozen=True)
class Peak:
    """What is live at the peak, in bytes."""

    total: float
    categories: dict[str, float]
    layers: float = 0  # activations and the like in decoder layers
    layer_cnt: int = 0  # of which so many have some
    recomputed: float = 0  # of them what is being recomputed
    loss: float = 0  # of logits and their loss
    largest_state: float = 0  # the largest tensor of optimizer state

    def of(self, *categories: str) -> float:
        """Bytes of some categories."""
        return sum(self.categories.get(name, 0.0) for name in categories)

    @property
    def of_rows(self) -> float:
        """What grows with the rows of a batch and their length."""
        return self.of(*_OF_ROWS)

    @property
    def of_adapters(self) -> float:
        """What all adapters have."""
        return self.of(*_OF_ADAPTERS)


def more_bytes(rule: str, peak: Peak, spec: RunSpec) -> float | None:
    """By how much the peak grows under a rule; None for a rule that does not know."""
    return _RULES[rule](peak, spec) if rule else None


def with_adapters(peak: Peak, spec: RunSpec, count: int) -> float:
    """The peak with so many adapters."""
    each = peak.of_adapters / spec.lora_cnt
    if spec.peft_mode == "batch":
        each += peak.of_rows / spec.lora_cnt
    return peak.total + (count - spec.lora_cnt) * each


def with_longer(peak: Peak, factor: int) -> float:
    """The peak with sequences so many times as long, where attention keeps no scores."""
    return peak.total + (factor - 1) * peak.of_rows


def _keep_all(peak: Peak, spec: RunSpec) -> float | None:
    """Without recomputation all layers keep what one layer has while it is recomputed."""
    layers = _layer_cnt(peak, spec)
    return peak.recomputed * (layers - 1) if peak.recomputed and layers else None


def _keep_inputs(peak: Peak, spec: RunSpec) -> float | None:
    """With recomputation one layer has its activations at a time, the others their inputs."""
    layers = _layer_cnt(peak, spec)
    if not layers or not peak.layers:
        return None
    return -peak.layers * (layers - 1) / layers + layers * _input_bytes(spec)


def _layer_cnt(peak: Peak, spec: RunSpec) -> int:
    preset = PRESETS.get(spec.model)
    return int(preset.settings.get("num_hidden_layers", 0)) if preset else peak.layer_cnt


def _input_bytes(spec: RunSpec) -> float:
    preset = PRESETS.get(spec.model)
    rows = sum(a.batch_size for a in spec.adapters()) if spec.peft_mode == "batch" else max(spec.batch_size)
    width = int(preset.settings.get("hidden_size", 0)) if preset else 0
    return rows * spec.seq_len * width * (2 if "16" in spec.dtype else 4)


def _half_base(peak: Peak, spec: RunSpec) -> float:
    """Packed weights stay as they are; adapters in 32 bits keep what they get in 32 bits."""
    weights = peak.of(words.MEMORY_PARAMETER) / 2 if spec.quantisation == "none" else 0.0
    keeps_32 = spec.has_adapters and spec.adapter_dtype == "float32"
    return -weights - peak.of_rows / (4 if keeps_32 else 2)


def _chunked_loss(peak: Peak, spec: RunSpec) -> float:
    """Logits of as many tokens remain as are computed at a time."""
    rows = sum(a.batch_size for a in spec.adapters()) if spec.peft_mode == "batch" else max(spec.batch_size)
    return -peak.loss * (1 - min(1.0, CHUNK_TOKENS / (rows * spec.seq_len)))


def _quarter_state(peak: Peak, spec: RunSpec) -> float:
    return -0.75 * peak.of(words.MEMORY_OPTIMIZER) if peak.largest_state >= _LEAST_8BIT_BYTES else 0.0


_RULES: dict[str, Callable[[Peak, RunSpec], float | None]] = {
    "keep_all": _keep_all,
    "keep_inputs": _keep_inputs,
    "more_rows": lambda peak, spec: peak.of_rows * (spec.grad_accum[0] - 1),
    "fewer_rows": lambda peak, spec: -peak.of_rows / 2,
    "half_base": _half_base,
    "half_adapters": lambda peak, spec: -peak.of_adapters / 2,
    "quarter_state": _quarter_state,
    "nf4_base": lambda peak, spec: None,
    "chunked_loss": _chunked_loss,
}
