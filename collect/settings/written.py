"""A RunSpec as a person writes it: the settings that say something, as options of the command line and as TOML.

Both read back as the same spec (a test); settings at their default are left out.
"""

import dataclasses
import json
import shlex
from typing import Any

from .checks import dashed
from .spec import RunSpec, from_dict

_FIELDS = {f.name: f for f in dataclasses.fields(RunSpec)}


def given(spec: RunSpec) -> dict[str, Any]:
    """The settings that have to be given for this spec: JSON values, in the order of RunSpec."""
    every = spec.as_dict()
    wanted = {name for name, f in _FIELDS.items() if getattr(spec, name) != f.default}
    # what a task or a trainer sets of its own has to be said where it is the default after all
    usual = from_dict({name: every[name] for name in ("task", "trainer") if name in wanted} | _needed(spec))
    wanted |= {name for name in _FIELDS if getattr(usual, name) != getattr(spec, name)}
    return {name: every[name] for name in _FIELDS if name in wanted}


def _needed(spec: RunSpec) -> dict[str, Any]:
    """What a task in epochs does not do without."""
    return {"batch": spec.batch} if spec.batch else {}


def toml(spec: RunSpec) -> str:
    """The settings as a file for --config."""
    return "".join(f"{name} = {_toml_value(value)}\n" for name, value in given(spec).items())


def command(spec: RunSpec) -> str:
    """The settings as a command line that collects the run."""
    words = ["lorabench", "collect"]
    for name, value in given(spec).items():
        words += _words(name, value)
    return shlex.join(words)


def options(settings: dict[str, Any]) -> str:
    """Some settings as options, in one line."""
    return " ".join(shlex.join(_words(name, value)) for name, value in settings.items())


def _words(name: str, value: Any) -> list[str]:
    option = f"--{dashed(name)}"
    if isinstance(value, bool):
        return [option if value else f"--no-{dashed(name)}"]
    if isinstance(value, list | tuple):
        return [option, ",".join(_number(item) for item in value)]
    return [option, _number(value)]


def _number(value: Any) -> str:
    return f"{value:.17g}" if isinstance(value, float) and float(f"{value:g}") != value else (
        f"{value:g}" if isinstance(value, float) else str(value)
    )  # fmt: skip


def _toml_value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    return json.dumps(value, ensure_ascii=False)  # TOML writes numbers, texts and booleans as JSON does
