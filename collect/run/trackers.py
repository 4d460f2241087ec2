"""TensorBoard and Weights & Biases: told when a run is measured, so that nothing of theirs is in its times.

Both get the same: the loss of each measured step, and what each epoch came to, at the number of its last step.
"""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ... import rundir
from ...errors import OutputError, first_line
from ..settings.spec import RunSpec

_TAGS = {
    "train_loss": "train/loss", "train_acc": "train/accuracy", "val_loss": "validation/loss",
    "val_acc": "validation/accuracy", "throughput_tok_s": "train/tokens_per_s", "epoch_time_s": "train/epoch_time_s",
    "peak_vram_gb": "train/peak_vram_gb",
}  # fmt: skip


def scalars(run: Path) -> Iterator[tuple[int, dict[str, float]]]:
    """Steps with what is known at each, by tag, in the order of steps."""
    found: dict[int, dict[str, float]] = {}
    for row in csv.DictReader((run / rundir.STEPS).read_text("utf-8").splitlines()):
        if row["pass"] == "timing":
            values = found.setdefault(int(row["step"]), {})
            values |= {"step/loss": float(row["loss"]), "step/time_ms": int(row["wall_ns"]) / 1e6}
    summary = rundir.read_summary(run)
    for entry in summary["epochs"]:
        values = found.setdefault(int(entry["epoch"]) * int(summary["sentences"]["steps_per_epoch"]) - 1, {})
        values |= {tag: entry[name] for name, tag in _TAGS.items() if entry[name] is not None} | {
            "epoch": entry["epoch"]
        }
    yield from sorted(found.items())


def tell(run: Path, folder: Path, spec: RunSpec) -> None:
    """Write what the settings ask for. Raises OutputError when a tracker does not take it; the run is whole anyway."""
    if spec.tensorboard:
        _tensorboard(run, folder)
    if spec.wandb:
        try:
            _wandb(run, folder, spec)
        except Exception as error:  # whatever the package raises: no network, no login, no room
            said = first_line(error).rstrip(".")
            raise OutputError(
                f"the run is in {run}, but Weights & Biases did not take it: {said}; --wandb-mode offline needs no "
                "network"
            ) from error


def _tensorboard(run: Path, folder: Path) -> None:
    """An event file, as torch.utils.tensorboard writes one, without loading torch."""
    from tensorboard.compat.proto import event_pb2, summary_pb2
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(folder))
    for step, values in scalars(run):
        told = summary_pb2.Summary(
            value=[summary_pb2.Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        )
        writer.add_event(event_pb2.Event(step=step, summary=told))
    writer.close()


def _wandb(run: Path, folder: Path, spec: RunSpec) -> None:
    import wandb

    config = json.loads((folder / "config.json").read_text("utf-8"))
    logged = wandb.init(
        project=spec.wandb_project, name=folder.name, mode=spec.wandb_mode, dir=str(folder), config=config,
        settings=wandb.Settings(silent=True, console="off"),
    )  # fmt: skip
    for step, values in scalars(run):
        logged.log(values, step=step)
    summary: dict[str, Any] = json.loads((folder / rundir.SUMMARY).read_text("utf-8"))
    logged.summary.update({name: summary[name] for name in ("step_latency_ms", "train_time_s", "peak_vram_gb")})
    logged.finish()
