"""`%load_ext lorabench`: the magic `%%lorabench` runs a cell under torch.profiler and shows the answer."""

import os
import shlex
import tempfile
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import LorabenchError, OutputError, RunError, UsageError

if TYPE_CHECKING:
    from .profiles import Profile


class _Arguments(ArgumentParser):
    def error(self, message: str) -> Any:
        raise UsageError(f"%%lorabench: {message}; write %%lorabench [-o TRACE.json] [--memory] [--stacks]")


def _parsed(line: str) -> Namespace:
    parser = _Arguments(prog="%%lorabench", add_help=False)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--stacks", action="store_true")
    return parser.parse_args(shlex.split(line))


def register(shell: Any) -> None:
    """Give an IPython shell the magic."""

    def profiled(line: str, cell: str) -> "Profile":
        """Run the cell under torch.profiler and show where its time goes.

        %%lorabench [-o TRACE.json] [--memory] [--stacks]: keep the trace, record memory, record Python's stacks.
        """
        from IPython.core.error import UsageError as Shown  # as a line, without a traceback

        try:
            return _profiled(shell, _parsed(line), cell)
        except LorabenchError as error:
            raise Shown(str(error)) from None

    shell.register_magic_function(profiled, "cell", "lorabench")


def _profiled(shell: Any, options: Namespace, cell: str) -> "Profile":
    from . import open as open_inputs

    try:
        import torch
    except ImportError as error:
        raise RunError("%%lorabench records with torch.profiler, and torch is not installed") from error
    if options.output is not None and not options.output.name.endswith((".json", ".json.gz")):
        raise UsageError(f"%%lorabench: -o {options.output}: the trace is JSON; name it .json or .json.gz")
    if options.output is not None and not os.access(options.output.parent, os.W_OK):
        raise OutputError(
            f"%%lorabench: cannot write {options.output}: no such folder, or no permission to write there"
        )
    with torch.profiler.profile(
        record_shapes=True, profile_memory=options.memory, with_stack=options.stacks
    ) as recorder:
        with torch.profiler.record_function("cell"):
            result = shell.run_cell(cell)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    if options.output is not None:
        recorder.export_chrome_trace(str(options.output))
        found = open_inputs(options.output, force=True)
    else:
        with tempfile.TemporaryDirectory(prefix="lorabench-") as folder:
            trace = Path(folder) / "cell.json"
            recorder.export_chrome_trace(str(trace))
            found = open_inputs(trace, force=True)
    if not result.success:  # the shell has shown it
        found.close()
        raised = result.error_before_exec or result.error_in_exec
        raise RunError(f"the cell ended with {type(raised).__name__}, so there is no profile of it")
    return found
