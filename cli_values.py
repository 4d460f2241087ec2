"""Values of the command line as the types that commands ask for, without a schema for each parameter.

typer makes one of pydantic for every parameter of a command, given or not: with loading pydantic an eighth of what a
small trace takes. Paths, texts, whole numbers and what was not given need none; all else, and all that is wrong, is
typer's.
"""

import os
from pathlib import Path
from typing import Any, get_args, get_origin

from typer import core

OTHER = object()
_MOST_DIGITS = 18


def without_schemas() -> None:
    """Let parameters take plain values as they are; of a typer that is made otherwise nothing changes."""
    parameter = getattr(core, "_TyperParameter", None)
    make = getattr(parameter, "get_runtime_param", None)
    if parameter is not None and make is not None and not hasattr(make, "is_plain"):
        parameter.get_runtime_param = _maker(make)


def _maker(make: Any) -> Any:
    def get_runtime_param(self: Any) -> Any:
        return _Plain(self, make)

    get_runtime_param.is_plain = True  # type: ignore[attr-defined]
    return get_runtime_param


class _Plain:
    """In the place of what typer makes for a parameter, which is made when it is needed."""

    def __init__(self, parameter: Any, make: Any):
        self._parameter, self._make = parameter, make

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value as the command gets it. Raises what typer raises."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        described = param.type_descriptor
        taken = plain(value, described.annotation, described.parameter_info)
        return self._make(self._parameter).coerce(value, param=param, ctx=ctx) if taken is OTHER else taken


def plain(value: Any, kind: Any, about: Any) -> Any:
    """A value that needs no schema as this type, else OTHER; `about` is what is said of the parameter."""
    if get_origin(kind) is list and isinstance(value, list | tuple):
        taken = [plain(one, get_args(kind)[0], about) for one in value]
        return OTHER if OTHER in taken else taken
    make = _PLAIN.get(kind)
    return OTHER if make is None or not isinstance(value, str) or about.parser is not None else make(value, about)


def _number(value: str, about: Any) -> Any:
    is_plain = value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS
    number = int(value) if is_plain else 0
    is_within = (about.min is None or number >= about.min) and (about.max is None or number <= about.max)
    return number if is_plain and is_within else OTHER


def _path(value: str, about: Any) -> Any:
    """A path as it is: typer looks whether one that exists can be read."""
    is_plain = not (about.exists or about.resolve_path or about.path_type)
    return Path(value) if is_plain and (not os.path.lexists(value) or os.access(value, os.R_OK)) else OTHER


_PLAIN = {str: lambda value, about: value, int: _number, Path: _path}
