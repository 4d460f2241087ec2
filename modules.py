"""Starts modules of this package in other processes: the same package, whatever lies where they are started."""

import sys
from pathlib import Path

_PARENT = Path(__file__).resolve().parent.parent


def command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of this package, as `python -m` does.

    `python -m` looks into the current folder first, where a checkout named lorabench would be taken for the package.
    """
    safe = [] if Path.cwd().resolve() == _PARENT else ["-P"]
    return [sys.executable, *safe, "-m", module, *arguments]
