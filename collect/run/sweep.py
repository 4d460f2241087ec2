"""A grid of runs: every combination of settings that have several values, each a run directory of its own.

A sweep is a folder: sweep.json says what was asked, and each cell is a run of `lorabench collect` in a folder named by
its values. A sweep that was interrupted goes on: cells that ended well or ran out of memory are not run again.
"""

import contextlib
import dataclasses
import difflib
import itertools
import json
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import rundir
from ...errors import InputError, OutputError, RunError, SettingError, UsageError
from ...progress import Prefixed, Progress, Silent
from ...vocabulary import ADAPTER_SETTINGS, PARALLEL_SETTINGS
from ..settings.methods import METHODS, Method
from ..settings.options import SWEEP_DEFAULTS
from ..settings.spec import RunSpec, from_dict
from . import session

# Settings that one run takes a list of, which therefore are no axis.
_WHOLE = ("profiler", "target_modules", "balance")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_MOST_VALUES = 1000
_LARGEST = 1 << 20  # where a search without an end gives up
_TOLD = ("model", "method", "quant", "dtype", "batch_size", "seq_len", "steps")  # of a sweep before it is run
_TRUTH = {"true": True, "false": False}
_UNSAFE = re.compile(r"[^A-Za-z0-9.=+-]+")

Grid = dict[str, str]
_SCALE = {
    "model": "tinyllama-1.1b", "dtype": "float32", "rank": "16", "batch_size": "8", "seq_len": "512", "steps": "10",
    "gradient_checkpointing": "layer", "devices": "4",
}  # fmt: skip
# Sweeps by name, the cells of one grid or of several: what to set unless the command line says otherwise.
PRESETS: dict[str, tuple[Grid, ...]] = {
    # the three figures of the BatchLoRA paper: a task-step against the number of adapters
    "paper": ({
        "model": "tinyllama-1.1b", "method": "qlora", "quant": "int8", "rank": "16", "batch_size": "8",
        "seq_len": "512", "gradient_checkpointing": "layer", "lora_cnt": "1,2,4,8,12", "peft_mode": "switch,batch",
        "profiler": "timing,torch",
    },),
    # peak memory of full fine-tuning and of LoRA by rank, with and without recomputation
    "memory": ({
        "model": "qwen2.5-1.5b", "batch_size": "1", "seq_len": "1024", "method": "full,lora", "rank": "4,8,16,32",
        "gradient_checkpointing": "none,attn-mlp,layer", "profiler": "timing", "steps": "3",
    },),
    # mLoRA's paper: tokens by kind of parallelism and number of adapters (figures 7, 11, 12), sending while computing
    # on or not (10), devices and ranks (13)
    "paper-scale": (
        _SCALE | {"parallel": "pp,tp,fsdp,lorapp", "lora_cnt": "1..4"},
        _SCALE | {"parallel": "lorapp", "lora_cnt": "4", "overlap": "true,false"},
        _SCALE | {"parallel": "lorapp", "lora_cnt": "4", "devices": "2,4,8"},
        _SCALE | {"parallel": "lorapp", "lora_cnt": "4", "rank": "4,16,64,128"},
    ),
}  # fmt: skip

Runner = Callable[[RunSpec, Path, bool, Progress], Any]


@dataclass(frozen=True)
class Cell:
    """One run of a sweep: the values of its axes, and the whole spec."""

    values: dict[str, str]
    spec: RunSpec
    is_told_apart: bool = False  # from another one of the same words

    @property
    def name(self) -> str:
        """The values in words that can name a folder."""
        said = "-".join(f"{name.replace('_', '-')}={value}" for name, value in self.values.items())
        words = _UNSAFE.sub("_", said) or "run"
        return f"{words}-{zlib.crc32(said.encode()):08x}" if self.is_told_apart else words


@dataclass(frozen=True)
class Plan:
    """What is swept: settings with one value, axes with several, and what cannot be."""

    settings: dict[str, Any]
    axes: dict[str, list[str]]
    cells: list[Cell]
    impossible: list[str]  # combinations that contradict themselves, and why
    searched: str | None = None  # the axis whose largest value that fits is looked for; the cells are its first ones


def plan(given: dict[str, Any], until_oom: str | None = None, preset: str | None = None) -> Plan:
    """All combinations of the values that were given; with `until_oom` a search along that setting for each.

    given: settings as for a run, which win over those of a preset; a text with commas or 1..12 is an axis, 8+16 is one
    value for each adapter. Raises UsageError for an unknown setting or preset, or when no combination is possible.
    """
    if preset is not None and preset not in PRESETS:
        raise UsageError(f"--preset {preset}: choose one of {', '.join(PRESETS)}")
    grids = [grid | given for grid in PRESETS[preset]] if preset else [given]
    if until_oom is None:
        return _together([_grid(grid) for grid in grids])
    if len(grids) > 1:
        raise UsageError(f"--until-oom searches one grid, and --preset {preset} has {len(grids)}")
    given = grids[0]
    what = _grid(given)
    what = _with_axis(what, until_oom)
    least = min(what.axes[until_oom], key=int)
    begun = _grid(given | {until_oom: least})
    return dataclasses.replace(what, cells=begun.cells, impossible=begun.impossible, searched=until_oom)


def _grid(given: dict[str, Any]) -> Plan:
    axes = {name: values for name, value in given.items() if len(values := _values(name, value)) > 1}
    settings = SWEEP_DEFAULTS | {n: _one(n, v) for n, v in given.items() if n not in axes}
    cells: dict[str, Cell] = {}
    impossible = []
    for combination in itertools.product(*axes.values()):
        chosen = dict(zip(axes, combination, strict=True))
        try:
            cell = _cell(settings, chosen)
        except SettingError:  # mistyped: nobody wants a night's sweep without it
            raise
        except UsageError as error:
            what = ", ".join(f"{n} {v}" for n, v in chosen.items())
            impossible.append(f"{what}: {error}" if what else str(error))
        else:
            _add(cells, cell)
    idle = [
        name for name in axes if name in ADAPTER_SETTINGS and not any(name in cell.values for cell in cells.values())
    ]
    if cells and idle:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in idle)
        raise UsageError(f"{named}: settings of adapters, and --method full has none; leave them out")
    if not cells:
        raise UsageError(f"no combination is possible; the first: {impossible[0]}" if axes else impossible[0])
    return Plan(settings, axes, list(cells.values()), impossible)


def _add(cells: dict[str, Cell], cell: Cell) -> None:
    """Add a cell by its name, unless its run is among them; of values that make the same name each has its own."""
    known = cells.setdefault(cell.name, cell)
    if known.spec != cell.spec:
        apart = dataclasses.replace(cell, is_told_apart=True)
        cells.setdefault(apart.name, apart)


def _together(plans: list[Plan]) -> Plan:
    """The cells of several grids, each once; axes are what differs among them."""
    if len(plans) == 1:
        return plans[0]
    specs = [cell.spec.as_dict() for plan in plans for cell in plan.cells]
    names = list(dict.fromkeys(name for plan in plans for name in plan.axes))
    axes = {name: list(dict.fromkeys(_said(spec[name]) for spec in specs)) for name in names}
    settings = {
        name: value for name, value in plans[0].settings.items()
        if all(plan.settings.get(name) == value for plan in plans) and name not in axes
    }  # fmt: skip
    cells: dict[str, Cell] = {}
    for plan in plans:
        for cell in plan.cells:
            known = cell.spec.as_dict()
            applied = [
                name for name in axes if cell.spec.parallel in PARALLEL_SETTINGS.get(name, (cell.spec.parallel,))
            ]
            told = {name: _said(known[name]) for name in applied}
            _add(cells, Cell(told, cell.spec))
    return Plan(settings, axes, list(cells.values()), [why for plan in plans for why in plan.impossible])


def said_of_all(what: Plan) -> str:
    """The settings that all runs have: those that were given, and what any run is told by."""
    specs = [cell.spec.as_dict() for cell in what.cells]
    names = [name for name in dict.fromkeys((*_TOLD, *what.settings)) if name not in what.axes]
    same = [name for name in names if all(spec[name] == specs[0][name] for spec in specs)]
    return ", ".join(f"{name.replace('_', '-')} {_said(specs[0][name]) or 'none'}" for name in same)


def _said(value: Any) -> str:
    """A value as the command line has it."""
    if isinstance(value, list | tuple):
        return "+".join(map(_said, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _values(name: str, value: Any) -> list[str]:
    if name in _WHOLE or not isinstance(value, str):
        return [value]
    parts: list[str] = []
    for part in value.split(","):
        if found := _RANGE.fullmatch(part.strip()):
            low, high = int(found[1]), int(found[2])
            if not 0 <= high - low < _MOST_VALUES:
                raise UsageError(
                    f"--{name.replace('_', '-')} {part}: write LOW..HIGH, no more than {_MOST_VALUES} values"
                )
            parts += map(str, range(low, high + 1))
        else:
            parts.append(part.strip())
    return parts


def _one(name: str, value: Any) -> Any:
    """A value as RunSpec takes it: + separates those of adapters."""
    if not isinstance(value, str) or name in _WHOLE:
        return value
    if _TRUTH.get(value) is not None and _has_default(name, bool):
        return _TRUTH[value]
    return value.replace("+", ",") if _is_each(name) else value


def _has_default(name: str, kind: type) -> bool:
    return any(f.name == name and isinstance(f.default, kind) for f in dataclasses.fields(RunSpec))


def _is_each(name: str) -> bool:
    return any(f.name == name and f.metadata["each"] for f in dataclasses.fields(RunSpec))


def _method(name: str | None) -> Method:
    """The method of that name; of a name that is none, which is refused elsewhere, one with adapters."""
    return METHODS.get(name or "", Method())


def _cell(settings: dict[str, Any], values: dict[str, str]) -> Cell:
    is_full = not _method((settings | values).get("method")).has_adapters
    if not _method(values.get("method")).has_adapters:  # beside other methods, whose settings they are
        settings = {name: value for name, value in settings.items() if name not in ADAPTER_SETTINGS}
    kept = {name: value for name, value in values.items() if not is_full or name not in ADAPTER_SETTINGS}
    return Cell(
        kept, from_dict(settings | {name: _one(name, value) for name, value in kept.items()}).with_whole_cycle()
    )


def run(what: Plan, folder: Path, listener: Progress | None = None, runner: Runner = session.collect) -> None:
    """Run every cell that is not there yet, or search the largest value of the plan's searched axis that fits.

    Raises UsageError when the folder holds another sweep, InputError when it cannot be read, RunError when cells failed
    for another reason than memory; the others are finished then.
    """
    state = _Sweep(folder, what, listener or Silent(), runner)
    if what.searched is None:
        for number, cell in enumerate(what.cells, start=1):
            state.run(cell, f"{number}/{len(what.cells)}")
    else:
        for start in _starts(what, what.searched):
            _search(what, start, what.searched, state)
    if state.failed:
        raise RunError(_said_of_failed(state))


def _said_of_failed(state: "_Sweep") -> str:
    """Which runs failed and why, each reason once."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in state.failed.items():
        by_reason.setdefault(reason, []).append(name)
    said = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in by_reason.items())
    others = f"the others are in {state.folder}, and " if len(state.failed) < len(state.names) else ""
    return f"{len(state.failed)} of {len(state.names)} runs failed: {said}; {others}the same command runs these again"


class _Sweep:
    """The folder being filled."""

    def __init__(self, folder: Path, what: Plan, listener: Progress, runner: Runner):
        self.folder, self.listener, self.runner = folder, listener, runner
        self.names: list[str] = []
        self.failed: dict[str, str] = {}  # by name, and why
        self.about = {"axes": what.axes, "settings": what.settings}
        self.searched = what.searched
        if (folder / rundir.MANIFEST).exists():
            raise UsageError(f"{folder} is the run directory of one run; choose another -o")
        if (folder / rundir.SWEEP).exists():
            known = rundir.read_sweep(folder)
            if {k: known.get(k) for k in self.about} != self.about:
                raise UsageError(f"{folder} holds another sweep; choose another -o, or replace it with --force")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"cannot make the folder {folder}: {error.strerror}") from error

    def run(self, cell: Cell, progress: str) -> str:
        """Run a cell unless it is there; how it ended."""
        path = self.folder / cell.name
        if cell.name not in self.names:
            self.names.append(cell.name)
            self._write()
        status = _finished(path, cell.spec)
        if status is None:
            with contextlib.suppress(RunError):  # the manifest says how it ended
                self.runner(cell.spec, path, path.exists(), Prefixed(self.listener, f"{progress} {cell.name}"))
            status = str(rundir.read_manifest(path)["status"])
        if status not in (rundir.OK, rundir.OOM):
            self.failed[cell.name] = str(rundir.read_manifest(path)["message"])
        return status

    def _write(self) -> None:
        searched = {"searched": self.searched} if self.searched else {}
        text = json.dumps({"format": rundir.FORMAT, **self.about, **searched, "cells": self.names}, indent=2)
        (self.folder / rundir.SWEEP).write_text(text + "\n", encoding="utf-8")


def _finished(path: Path, spec: RunSpec) -> str | None:
    """How a run of exactly this spec ended, None when it has to be run."""
    if not (path / rundir.MANIFEST).is_file():
        return None
    try:
        manifest = rundir.read_manifest(path)
    except InputError:
        return None
    is_done = spec.is_written_as(manifest.get("spec")) and manifest.get("status") in (rundir.OK, rundir.OOM)
    return str(manifest["status"]) if is_done else None


def _with_axis(what: Plan, field: str) -> Plan:
    """The plan with what is searched among its axes, from the default on where no value was given."""
    defaults = {f.name: f.default for f in dataclasses.fields(RunSpec)}
    if field not in defaults:
        close = difflib.get_close_matches(field, defaults, 3)
        raise UsageError(
            f"--until-oom {field}: no such setting"
            + (f"; did you mean {', '.join(close)}?" if close else "; `lorabench sweep --help` lists them")
        )
    default = defaults[field]
    first = default[0] if isinstance(default, tuple) else default
    values = what.axes.get(field) or [str(what.settings.get(field, first))]
    if not all(value.isdigit() for value in values):
        raise UsageError(f"--until-oom {field}: name a setting that is a whole number, like lora_cnt or seq_len")
    settings = {name: value for name, value in what.settings.items() if name != field}
    return dataclasses.replace(what, settings=settings, axes=what.axes | {field: values})


def said_of_search(what: Plan) -> str:
    """Where a search begins and ends, as a line; "" without one."""
    if what.searched is None:
        return ""
    values = [int(value) for value in what.axes[what.searched]]
    most = f", to {max(values)} at most" if len(values) > 1 else ""
    return f"{what.searched} grows from {min(values)} until memory runs out{most}; from each of these:"


def _starts(what: Plan, field: str) -> Iterator[dict[str, str]]:
    """The combinations of the other axes."""
    others = {name: values for name, values in what.axes.items() if name != field}
    for combination in itertools.product(*others.values()):
        yield dict(zip(others, combination, strict=True))


def _search(what: Plan, others: dict[str, str], field: str, state: _Sweep) -> None:
    """Double the value until memory runs out, then halve the distance to the largest that fits."""
    given = [int(value) for value in what.axes[field]]
    high = max(given) if len(given) > 1 else _LARGEST
    fits, too_large, value = None, None, min(given)
    while True:
        try:
            cell = _cell(what.settings, others | {field: str(value)})
        except UsageError:
            return  # told once, as impossible
        status = state.run(cell, f"{field} {value}")
        if status == rundir.OOM:
            too_large = value
        elif status == rundir.OK:
            fits = value
        else:
            return
        if too_large is None:
            if value >= high:
                return
            value = min(2 * value, high)
        elif fits is None or too_large - fits <= 1:
            return
        else:
            value = (fits + too_large) // 2
