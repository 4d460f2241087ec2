"""The passes of a run, one after another into a run directory, whatever happens to them: of a spec and of a command."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ... import rundir
from ...errors import Interrupted, OutputError, RunError
from ...progress import Progress, Silent
from ...vocabulary import PASSES
from ..processes import provenance

NSYS_STEM = "run"
State = dict[str, Any]  # status and message


@dataclass
class Passes:
    """How the passes of a run went, and what those that went well measured."""

    started: str
    states: dict[str, State] = field(default_factory=dict)
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    walls: dict[str, float] = field(default_factory=dict)

    @property
    def status(self) -> str:
        """The worst of them."""
        found = [s["status"] for s in self.states.values()]
        return next((s for s in (rundir.CANCELLED, rundir.OOM, rundir.FAILED) if s in found), rundir.OK)

    @property
    def message(self) -> str | None:
        """The words of the first pass that did not go well."""
        fine = (rundir.OK, rundir.SKIPPED)
        return next((f"pass {n}: {s['message']}" for n, s in self.states.items() if s["status"] not in fine), None)

    def run(
        self, names: tuple[str, ...], run_pass: Callable[[str], tuple[State, dict[str, Any] | None]],
        listener: Progress, iteration_cnt: int | None,
    ) -> None:  # fmt: skip
        """Each pass in turn until one fails; where memory ran out the memory pass still runs, to say what it went into.

        `run_pass` says how the pass of a name ended, and what it measured.
        """
        for name in sorted(names, key=PASSES.index):
            if self.status != rundir.OK and (self.status, name) != (rundir.OOM, "memory"):
                continue
            listener.step(f"pass {name}", iteration_cnt)
            start = time.monotonic()
            self.states[name] = {"status": rundir.CANCELLED, "message": "interrupted"}  # unless it comes to an end
            self.states[name], result = run_pass(name)
            self.walls[name] = round(time.monotonic() - start, 3)
            if result is not None:
                self.results[name] = result


def into_directory(
    path: Path, force: bool, names: tuple[str, ...], listener: Progress | None, iteration_cnt: int | None,
    run_pass: Callable[[str, Path], tuple[State, dict[str, Any] | None]],
    describe: Callable[[rundir.RunDirectory, Passes], dict[str, Any]],
) -> dict[str, Any]:  # fmt: skip
    """Run passes and leave the run directory `path`; returns its manifest.

    `run_pass` gets a pass's name and the folder to write to; `describe` writes what is known of the run and returns the
    manifest's own entries. Raises UsageError when the directory exists, RunError when a pass failed or ran out of
    memory, and Interrupted: the directory is finished in all of these cases but the first, and says how it ended.
    """
    directory = rundir.RunDirectory(path, force)
    passes = Passes(started=provenance.now())
    interrupt: KeyboardInterrupt | None = None
    try:
        passes.run(names, lambda name: run_pass(name, directory.partial), listener or Silent(), iteration_cnt)
    except KeyboardInterrupt as error:
        interrupt = error
    finally:
        about = {"status": passes.status, "message": passes.message, "passes": passes.states}
        try:
            manifest = about | describe(directory, passes)
        except OSError as error:  # a full disk, most of all
            raise OutputError(
                f"cannot write the run {path}: {error.strerror or error}; make room, or another -o; what there is of "
                f"it lies in {directory.partial}"
            ) from error
        directory.finish(manifest)
    if interrupt is not None:
        is_measured = bool(rundir.traces(path)) or (path / rundir.STEPS).is_file()
        kept = f"what was measured is in {path}" if is_measured else f"nothing was measured; see {path / rundir.LOGS}"
        raise Interrupted(f"interrupted; {kept}") from interrupt
    if passes.status != rundir.OK:
        raise RunError(f"{passes.message}; the run is kept in {path}, its output in {path / rundir.LOGS}")
    return manifest
