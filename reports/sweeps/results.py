"""A sweep as a table: a row for each run, its settings and what it measured."""

import math
from pathlib import Path
from typing import Any

from ... import rundir
from ...analyze.pipeline import analyze
from ...vocabulary import ADAPTER_SETTINGS, PARALLEL_SETTINGS
from ..comparison import noise, run_steps, spread
from ..tables.sources import counting

RESULTS, PAGE = "results.csv", "sweep.html"
# Column, and where summary.json has it.
_MEASURED = (
    ("step_ns", rundir.STEP_MEDIAN),
    ("step_p95_ns", ("step_wall_ns", "p95")),
    ("task_step_ns", ("task_step_wall_ns", "p50")),
    ("token_per_s", ("tokens_per_s", "non_padding")),
    ("computed_token_per_s", ("tokens_per_s", "computed")),
    ("mfu_frac", ("mfu_frac",)),
    ("validation_accuracy_frac", ("validation", "accuracy_frac")),
    ("matrix_product_cnt", ("matrix_products_per_step",)),
    ("kernel_launch_cnt", ("kernel_launches_per_step",)),
)
_PEAKS = ("peak_allocated_bytes", "peak_reserved_bytes", "device_used_bytes", "nvml_used_bytes", "peak_resident_bytes")
_SPREAD, _ERROR, _COUNT = "step_spread_frac", "step_error_frac", "step_cnt"
COLUMNS = (
    "status", *(name for name, _ in _MEASURED), _SPREAD, _ERROR, _COUNT, "execution_ns", "launch_ns", *_PEAKS,
    "message",
)  # fmt: skip


def rows(folder: Path) -> list[dict[str, Any]]:
    """A row for each run of a sweep: the values of its axes, then COLUMNS; None is not measured.

    `execution_ns` is the time in which the GPU was busy in a step of one adapter, from the run's trace; `launch_ns` the
    rest of `task_step_ns` (the BatchLoRA paper's kernel launch time: training time less kernel execution time);
    `token_per_s` leaves padding out, `computed_token_per_s` does not;
    `step_spread_frac` is the distance between the quartiles of a run's steps (of fewer than five between the extremes)
    as a fraction of their median, `step_error_frac` how far off a token's time may be, the standard error of its middle
    over `step_cnt` steps as a fraction of it. Raises InputError for a folder that is no sweep.
    """
    sweep = rundir.read_sweep(folder)
    return [_row(folder / str(name), list(sweep["axes"])) for name in sweep["cells"]]


def _row(run: Path, axes: list[str]) -> dict[str, Any]:
    if not (run / rundir.MANIFEST).is_file():
        return dict.fromkeys((*axes, *COLUMNS)) | {"status": "not run"}
    manifest, summary = rundir.read_manifest(run), rundir.read_summary(run)
    spec = manifest["spec"]
    row: dict[str, Any] = {name: _shown(spec, name) for name in axes}
    row["status"] = manifest["status"]
    row |= {name: rundir.number_at(summary, *path) for name, path in _MEASURED}
    row["token_per_s"] = row["token_per_s"] or row["computed_token_per_s"]  # of a script whose padding nobody knows
    steps = run_steps.of_summary(run, summary)
    row[_SPREAD] = None if steps is None else steps.frac
    row[_COUNT] = len(steps.samples) or None if steps else None
    row[_ERROR] = _error(steps) if steps else None
    row["execution_ns"] = _execution(run, summary)
    known = row["execution_ns"] is not None and row["task_step_ns"] is not None
    row["launch_ns"] = max(0, row["task_step_ns"] - row["execution_ns"]) if known else None
    phases = [phase for phase in (summary.get("memory") or {}).values() if isinstance(phase, dict)]
    for name in _PEAKS:
        row[name] = max((phase[name] for phase in phases if phase.get(name) is not None), default=None)
    row["message"] = manifest["message"]
    return row


def ended_well(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The runs whose measurements can be held against each other: one that failed may have measured some steps."""
    return [row for row in rows if row["status"] == rundir.OK]


def fastest(rows: list[dict[str, Any]]) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
    """The run that computes most tokens in a second, and the others that its steps do not tell it from; None of none.

    Two are told apart where a token takes longer by more than noise explains in one of a hundred pairs (see noise); of
    fewer than three steps nobody knows, and they are told apart by what was measured.
    """
    measured = [row for row in ended_well(rows) if row["token_per_s"]]
    if not measured:
        return None
    first = max(measured, key=lambda row: float(row["token_per_s"]))
    least = _centre(first)
    others = [(row, _centre(row)) for row in measured if row is not first]
    return first, [row for row, centre in others if least and centre and noise.may_be_noise(least, centre)]


def _centre(row: dict[str, Any]) -> noise.Centre | None:
    """How long a token of a run takes and how far off that may be; None where too few steps say it."""
    if row[_ERROR] is None or not row[_COUNT]:
        return None
    ns = 1e9 / float(row["token_per_s"])
    return noise.Centre(ns, (row[_ERROR] * ns) ** 2, row[_COUNT] - 1)


def _error(steps: spread.Spread) -> float | None:
    """The standard error of a token's time, as a fraction of it: of steps with other numbers of tokens each by its own.

    None of too few steps.
    """
    tokens = [kind for kind, _ in steps.samples if isinstance(kind, int) and kind > 0]
    mean = sum(tokens) / len(tokens) if len(tokens) == len(steps.samples) and tokens else 1.0
    values = [value for _, value in spread.by_amount(steps, mean).samples]
    if len(values) < noise.LEAST_STEPS:
        return None
    middle = noise.trimmed(values)
    return math.sqrt(middle.variance) / middle.value


def axes_of(row: dict[str, Any]) -> list[str]:
    """The axes of a sweep, which stand before the status of a run."""
    return list(row)[: list(row).index("status")]


def words(row: dict[str, Any]) -> str:
    """A run by its axes."""
    return ", ".join(f"{axis.replace('_', '-')} {row[axis]}" for axis in axes_of(row) if row[axis] is not None) or "all"


def _shown(spec: dict[str, Any], name: str) -> Any:
    """A setting as a number or a word; + joins those of adapters. What says nothing about the run is None."""
    value = spec.get(name)
    if spec.get("method") == "full" and name in ADAPTER_SETTINGS:
        return None
    if name in PARALLEL_SETTINGS and spec.get("parallel") not in PARALLEL_SETTINGS[name]:
        return None
    if not isinstance(value, list):
        return value
    return value[0] if len(value) == 1 else "+".join(map(str, value))


def _execution(run: Path, summary: dict[str, Any]) -> float | None:
    """How long the GPU was busy in a step of one adapter; None without a GPU or a trace."""
    has_trace = any((run / name).is_file() for name in rundir.RECORDINGS)
    if (summary.get("device") or {}).get("type") != "cuda" or not has_trace:
        return None
    with analyze([run]) as database:
        ((busy, steps),) = database.rows(
            "select sum(gpu_busy_ns), count(distinct step) from step_summary join source using (source_id) "
            f"where {counting(database)}"
        )
    return float(busy) / steps / max(1, int(summary.get("lora_cnt") or 1)) if steps and busy else None
