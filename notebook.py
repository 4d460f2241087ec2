"""`%load_ext lorabench`: the magic `%%lorabench` runs a cell under torch.profiler and shows the answer."""

import shlex
import tempfile
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import RunError, UsageError

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
        return _profiled(shell, _parsed(line), cell)

    shell.register_magic_function(profiled, "cell", "lorabench")


def _profiled(shell: Any, options: Namespace, cell: str) -> "Profile":
    from . import open as open_inputs

    try:
        import torch
    except ImportError as error:
        raise RunError("%%lorabench records with torch.profiler, and torch is not installed") from error
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
    result.raise_error()
    return found
