"""RunSpec's fields as options of the command line, so that each is written down once.

Knows typer's parameter objects only by what the caller passes in: the command line decides how they look.
"""

import dataclasses
import inspect
import typing
from collections.abc import Callable
from typing import Any

from .spec import RunSpec

_METAVARS = {int: "N", float: "X", str: "TEXT"}


def parameters(option: Callable[..., Any]) -> list[inspect.Parameter]:
    """One keyword parameter for each field, annotated as `option(*names, help=…)` wants; None means not given."""
    hints = typing.get_type_hints(RunSpec)
    return [_parameter(f, hints[f.name], option) for f in dataclasses.fields(RunSpec)]


def _parameter(field: "dataclasses.Field[Any]", hint: Any, option: Callable[..., Any]) -> inspect.Parameter:
    name = "--" + field.name.replace("_", "-")
    choices = field.metadata["choices"]
    if hint is bool:
        names: tuple[str, ...] = (f"{name}/--no-{name[2:]}",)
        kind: Any = bool | None
        shape: dict[str, Any] = {}
    else:
        names = (name,)
        kind = str | None
        many = typing.get_origin(hint) is tuple
        item = typing.get_args(hint)[0] if many else hint
        metavar = "|".join(choices) if choices else _METAVARS[item]
        shape = {"metavar": f"{metavar},…" if many and not choices else metavar}
    annotated = typing.Annotated[kind, option(*names, help=_help(field), **shape)]
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotated)


def _help(field: "dataclasses.Field[Any]") -> str:
    text: str = field.metadata["help"]
    default = field.default
    if "[" in text or default in ("", 0, False) or (isinstance(default, bool) and default):
        return text
    shown = ",".join(f"{v:g}" if isinstance(v, float) else str(v) for v in default) if isinstance(default, tuple) else (
        default
    )  # fmt: skip
    return f"{text} [{shown}]"


def given(arguments: dict[str, Any]) -> dict[str, Any]:
    """The settings that were given on the command line."""
    names = {f.name for f in dataclasses.fields(RunSpec)}
    return {name: value for name, value in arguments.items() if name in names and value is not None}
