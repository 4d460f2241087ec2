"""stats.json of `--trainer sft`: the metrics that trainers of fine-tuning scripts print at their end."""

from typing import Any

from ..settings.spec import RunSpec
from .summary import step_walls

_GB = 1e9


def of(spec: RunSpec, timing: dict[str, Any]) -> dict[str, Any]:
    """The metrics of the timing pass' measured steps; None is not measured. GB are 1e9 bytes.

    Runtime is the sum of the steps of all adapters (data, training and synchronization, nothing of what is measured
    behind them), the loss a mean over steps. Memory for training is what loading the model had not reserved already.
    """
    steps = timing["steps"]
    seconds = sum(step_walls(spec, timing)) / 1e9
    counts = {kind: sum(row["tokens"][a][n] for row in steps for a in row["adapters"])
              for n, kind in enumerate(("computed", "non_padding", "trained"))}  # fmt: skip
    each = [loss for row in steps for loss in row["losses"].values()]
    sequences = sum(row["rows"] for row in steps)
    found = {
        "train_runtime": seconds,
        "train_samples_per_second": sequences / seconds,
        "train_steps_per_second": spec.steps / seconds,
        "train_loss": sum(each) / len(each),
        "steps": spec.steps,
        "samples": sequences,
        "tokens": counts["non_padding"],
        "trained_tokens": counts["trained"],
        "tokens_per_second": counts["non_padding"] / seconds,
    }
    return found | _memory(timing)


def _memory(timing: dict[str, Any]) -> dict[str, float | None]:
    """Reserved by torch's allocator on a GPU: at the start, at most, for training, and as parts of the device."""
    start = timing["memory"]["load"]["reserved_bytes"]
    peak = timing["memory"]["steps"]["peak_reserved_bytes"]
    total = timing["device"].get("memory_bytes")
    if start is None or peak is None or not total:
        names = ("start_reserved_gb", "peak_reserved_gb", "peak_reserved_for_training_gb", "peak_reserved_percent",
                 "peak_reserved_for_training_percent")  # fmt: skip
        return dict.fromkeys(names)
    return {
        "start_reserved_gb": start / _GB,
        "peak_reserved_gb": peak / _GB,
        "peak_reserved_for_training_gb": (peak - start) / _GB,
        "peak_reserved_percent": 100 * peak / total,
        "peak_reserved_for_training_percent": 100 * (peak - start) / total,
    }
