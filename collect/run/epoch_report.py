"""reports/RUN_ID/ beside a run directory: the folder that scripts of epochs leave, and that trackers read.

    config.json         settings, sentences, versions
    epoch_results.csv   a row for each epoch
    summary.json        the last and the best epoch, step latency, the operators that take most time
    profiler_traces/    the traces of the torch pass under names that TensorBoard's profiler plugin knows

All of it is made from the finished run directory, so it says nothing that is not there.
"""

import csv
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

from ... import rundir
from ...errors import UsageError
from ..settings.spec import RunSpec

FOLDER = "reports"
CONFIG, TRACES = "config.json", "profiler_traces"
_TOP_CNT = 20
_TRACE = re.compile(r"trace(.*)\.json\.gz")
_OPERATOR = re.compile(r"\w+::\w+(\.\w+)?")
_AVERAGES = re.compile(r"key_averages.*\.csv")


def folder_of(spec: RunSpec, run: Path) -> Path:
    """Where the reports of a run go."""
    return run.parent / FOLDER / (spec.run_id or run.name)


def place(spec: RunSpec, run: Path, force: bool) -> Path:
    """The same. Raises UsageError when something is there that may not be replaced."""
    folder = folder_of(spec, run)
    if run.name == FOLDER:
        raise UsageError(f"-o {run} is where reports of runs go; choose another name for the run")
    is_ours = not folder.exists() or (folder / CONFIG).is_file()
    if folder.exists() and not (force and is_ours):
        remedy = "replace it with --force" if is_ours else "it is not one of a run"
        raise UsageError(f"{folder} exists; choose another --run-id, or {remedy}")
    return folder


def write(run: Path, folder: Path) -> None:
    """Write the folder from a finished run; whole or not at all."""
    manifest, summary = rundir.read_manifest(run), rundir.read_summary(run)
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    (partial / TRACES).mkdir(parents=True)
    about = {"run_id": folder.name, "run": os.path.relpath(run, folder)}
    provenance = manifest["provenance"]
    config = about | {"spec": manifest["spec"], "sentences": summary.get("sentences"), "provenance": provenance}
    _write_json(partial / CONFIG, config)
    shutil.copy(run / rundir.EPOCHS, partial / rundir.EPOCHS)
    _write_json(partial / rundir.SUMMARY, about | _summary(run, manifest, summary))
    for trace in sorted(run.iterdir()):
        if found := _TRACE.fullmatch(trace.name):
            _link(trace, partial / TRACES / f"{folder.name}{found[1]}.pt.trace.json.gz")
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _link(source: Path, target: Path) -> None:
    """The same file under another name; a copy where the file system knows no links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)


def _summary(run: Path, manifest: dict[str, Any], summary: dict[str, Any]) -> dict[str, Any]:
    epochs = summary["epochs"]
    step = summary["step_wall_ns"]
    peaks = [epoch["peak_vram_gb"] for epoch in epochs if epoch["peak_vram_gb"] is not None]
    return {
        "status": manifest["status"],
        "method": summary["method"], "model": summary["model"], "is_compiled": summary["is_compiled"],
        "last_epoch": epochs[-1],
        "best_epoch": max(epochs, key=lambda epoch: epoch["val_acc"]),
        "train_time_s": sum(epoch["epoch_time_s"] for epoch in epochs),
        "throughput_tok_s": summary["tokens_per_s"]["non_padding"],
        "peak_vram_gb": max(peaks, default=None),
        "step_latency_ms": {name: step[name] / 1e6 for name in ("mean", "p50", "p95", "p99", "min", "max")},
        "profiled_step_cnt": summary["step_cnt"] if "torch" in manifest["passes"] else None,
        "top_operators": _top_operators(run),
    }  # fmt: skip


def _top_operators(run: Path) -> list[dict[str, Any]]:
    """Operators of the torch pass with the most own time: on the device where it has worked, else on the CPU."""
    totals: dict[str, dict[str, Any]] = {}
    times = ("self_device_us", "device_us", "self_cpu_us", "cpu_us")
    for file in sorted(run.iterdir()):
        if not _AVERAGES.fullmatch(file.name):
            continue
        for row in csv.DictReader(file.read_text("utf-8").splitlines()):
            if not _OPERATOR.fullmatch(
                row["name"]
            ):  # ranges, kernels and nodes of the backward hold the same time again
                continue
            known = totals.setdefault(row["name"], {"name": row["name"], "count": 0, **dict.fromkeys(times, 0.0)})
            known["count"] += int(row["count"])
            for time in times:
                known[time] += float(row[time])
    rows = list(totals.values())
    own = "self_device_us" if any(row["self_device_us"] for row in rows) else "self_cpu_us"
    return sorted(rows, key=lambda row: (-row[own], row["name"]))[:_TOP_CNT]
