"""Kinds of base models that need more packages than the others, what of that is missing here, and how to get it.

Pins are those of the packages' own metadata (gptqmodel 7.7.0, unsloth 2026.10.9, torchao 0.18.0, optimum-quanto 0.2.7).
GPTQ was run on a CPU, its Triton layers and Unsloth, which need a GPU, were not: where they fail, the run's message is
theirs.
"""

import json
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution, version
from typing import Any

from ...errors import ToolError
from ..processes import provenance
from .doctor import MISSING, OK, Finding


@dataclass(frozen=True)
class ModelKind:
    """One kind: the packages that it needs, what goes with them, and the settings of a run that it stands for."""

    packages: tuple[str, ...]  # requirements as pip has them
    pins: tuple[str, ...] = ()  # of packages that are here already, and that those need in other versions
    needs_gpu: bool = False
    is_own: bool = False  # an environment of its own, since it changes the versions here
    settings: dict[str, Any] = field(default_factory=dict)
    is_loaded: bool = True  # by lorabench itself
    never: str = ""  # why no environment can have it


_GPTQ = ("gptqmodel==7.7.0", "optimum>=2.3.0")
_GPTQ_PINS = ("torch>=2.14.1,<3", "transformers>=5.20.2,<6")
_UNSLOTH = ("unsloth==2026.10.9", "unsloth_zoo==2026.10.9")
KINDS = {
    "torchao": ModelKind(("torchao>=0.18",), settings={"method": "qlora", "quant": "int8wo"}),
    "quanto": ModelKind(("optimum-quanto>=0.2.7",), settings={"method": "qlora", "quant": "qint8"}),
    "gptq": ModelKind(_GPTQ, _GPTQ_PINS, is_own=True, settings={"method": "qlora", "quant": "gptq"}),
    "gptq-triton": ModelKind(
        (*_GPTQ, "triton>=3.8.0"), _GPTQ_PINS, needs_gpu=True, is_own=True,
        settings={"method": "qlora", "quant": "gptq-triton"},
    ),
    "unsloth-bnb": ModelKind(
        _UNSLOTH, ("torch>=2.11,<2.15", "transformers==5.17.0", "bitsandbytes>=0.50"), needs_gpu=True, is_own=True,
        is_loaded=False,
    ),
    "unsloth-gptq-triton": ModelKind(
        (*_UNSLOTH, *_GPTQ, "triton>=3.8.0"), needs_gpu=True, is_own=True, is_loaded=False,
        never="unsloth 2026.10.9 needs transformers<=5.17.0 and datasets<5, gptqmodel 7.7.0 transformers>=5.20.2 and "
        "datasets>=5.1: no environment has both",
    ),
}  # fmt: skip
_SCRIPT = "lorabench collect -- python train.py"


def examine(kind: str) -> list[Finding]:
    """What a kind needs and whether it is here, a row each; then the commands, one a row."""
    wanted = KINDS[kind]
    found = [_package(requirement) for requirement in (*wanted.packages, *wanted.pins)]
    if wanted.needs_gpu:
        driver = provenance.driver()
        advice = "" if driver else "it runs on an NVIDIA GPU only"
        found.append(Finding("NVIDIA GPU", OK if driver else MISSING, driver or "no driver", advice))
    if wanted.never:
        return [*found, Finding("environment", MISSING, wanted.never, "wait for versions that agree")]
    if all(f.state == OK for f in found):
        said = _use(kind) if wanted.is_loaded else f"{_SCRIPT}, of a script that loads its model by Unsloth"
        return [*found, Finding("use", OK, said)]
    return [*found, *(Finding(f"command {n}", MISSING, "to run", line) for n, line in enumerate(commands(kind), 1))]


def commands(kind: str) -> list[str]:
    """What makes an environment for a kind: in this one where nothing in it has to change, else in a new one."""
    wanted = KINDS[kind]
    packages = " ".join(f"'{p}'" for p in (_own(), *wanted.packages, *wanted.pins))
    if not wanted.is_own:
        return ["pip install " + " ".join(f"'{p}'" for p in wanted.packages), _use(kind)]
    folder = f"{kind}-env"
    made = [f"python -m venv {folder}", f"{folder}/bin/pip install {packages}"]
    return [*made, f"{folder}/bin/{_use(kind) if wanted.is_loaded else _SCRIPT}"]


def _own() -> str:
    """lorabench as pip gets it where it is not there yet: from where this one came, unless that was an index."""
    origin = json.loads(distribution("lorabench").read_text("direct_url.json") or "{}")
    vcs = origin.get("vcs_info")
    url = f"{vcs['vcs']}+{origin['url']}@{vcs['commit_id']}" if vcs else origin.get("url")
    return f"lorabench[collect] @ {url}" if url else "lorabench[collect]"


def settings_of(kind: str) -> dict[str, Any]:
    """The settings that a kind stands for. Raises ToolError, with the way out, when something is missing here."""
    wanted = KINDS[kind]
    if wanted.never:
        raise ToolError(f"--kind {kind}: {wanted.never}")
    missing = [f.what for f in examine(kind) if f.state != OK and not f.what.startswith("command ")]
    if missing:
        raise ToolError(f"--kind {kind} lacks {', '.join(missing)}; `lorabench doctor --kind {kind}` prints what to do")
    if not wanted.is_loaded:
        raise ToolError(f"--kind {kind} is not loaded by lorabench; profile a script of yours here: {_SCRIPT}")
    return wanted.settings


def _use(kind: str) -> str:
    model = " --model FOLDER_OR_ID" if "gptq" in kind else ""
    return f"lorabench collect --kind {kind}{model}"


def _package(requirement: str) -> Finding:
    """Whether an installed package fits a requirement."""
    from packaging.requirements import Requirement

    wanted = Requirement(requirement)
    try:
        here = version(wanted.name)
    except PackageNotFoundError:
        return Finding(requirement, MISSING, "not installed")
    fits = wanted.specifier.contains(here, prereleases=True)
    return Finding(requirement, OK if fits else MISSING, here if fits else f"{here} is here")
