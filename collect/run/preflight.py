"""What a run needs that only this machine can tell is there: packages, model, data, GPU; looked at before it starts.

Loads no torch unless a GPU is asked for by name, and downloads nothing.
"""

import os
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from ...errors import InputError, ToolError, UsageError, first_line
from ..processes import supervision
from ..settings import parallelism, tasks
from ..settings.presets import PRESETS
from ..settings.quants import GPTQ, QUANTS, missing
from ..settings.spec import RunSpec
from ..workload import records

_PATIENCE_S = 10


def require_packages() -> None:
    """Raise ToolError when the packages of [collect] are not installed."""
    missing = [name for name in ("torch", "transformers", "peft") if find_spec(name) is None]
    if missing:
        raise ToolError(f"collect needs {', '.join(missing)}; pip install 'lorabench[collect]'")


def check(specs: Iterable[RunSpec]) -> None:
    """Raise InputError for a model or data that cannot be had, UsageError for a GPU that torch does not see."""
    listed = list(specs)
    if any(spec.model not in PRESETS or spec.device.startswith("cuda") for spec in listed):
        require_packages()
    for quant in dict.fromkeys(spec.quantisation for spec in listed):
        if needed := missing(quant):
            own = f"`lorabench doctor --kind {quant}` prints how" if quant in GPTQ else f"pip install '{needed}'"
            raise ToolError(f"--quant {quant} is {QUANTS[quant].title}, which is not installed; {own}")
    for model in dict.fromkeys(spec.model for spec in listed):
        _check_model(model)
    for spec in {(spec.task, spec.data): spec for spec in listed}.values():
        _check_data(spec)
    for batch in dict.fromkeys(spec.batch for spec in listed if spec.batch):
        if not Path(batch).is_file():
            raise InputError(f"--batch {batch}: no such file; give a .pt or .safetensors")
    for spec in listed:
        _check_wanted_packages(spec)
    for spec in {spec.device: spec for spec in listed if spec.cuda_graph}.values():
        require_packages()
        from ..workload import models, step_graph

        step_graph.require_gpu(models.choose_device(spec))
    for spec in {spec.device: spec for spec in listed if not spec.pin_memory}.values():
        _require_copies(spec)
    devices = {(s.device, s.parallel != parallelism.NONE, s.devices): s for s in listed if s.device.startswith("cuda")}
    for spec in devices.values():
        if spec.parallel != parallelism.NONE:
            from ..parallel.ranks import choose_device as choose_first

            choose_first(spec, 0)
            continue
        from ..workload.models import choose_device

        choose_device(spec)


def check_command(command: list[str]) -> None:
    """Raise ToolError when a command of others cannot be started."""
    if why := supervision.why_not_started(command, os.environ.get("PATH")):
        raise ToolError(why)


def check_targets(spec: RunSpec) -> None:
    """Raise UsageError for --target-modules that the model has not, if its configuration is on this machine.

    Takes seconds, as it loads transformers: for who runs nothing after it.
    """
    named = [adapter for adapter in spec.adapters() if adapter.target_modules]
    if not named:
        return
    require_packages()
    from ..workload import adapters, models

    if (model := models.outline(spec)) is not None:
        for adapter in named:
            adapters.check_targets(model, adapter)


def _require_copies(spec: RunSpec) -> None:
    """Raise UsageError where no batch is copied to a GPU."""
    require_packages()
    from ..workload.models import choose_device

    if spec.parallel == parallelism.NONE and choose_device(spec).type != "cuda":
        raise UsageError("--no-pin-memory is about copies of batches to a GPU, and this run has none; leave it out")


def _check_data(spec: RunSpec) -> None:
    if spec.task == tasks.SST2:
        if spec.data == tasks.GLUE and find_spec("datasets") is None:
            raise ToolError(
                "--data glue is loaded by the package datasets; pip install datasets, or give a folder with GLUE's "
                "train.tsv and dev.tsv, or --data words"
            )
        if spec.data not in (tasks.GLUE, tasks.WORDS) and not Path(spec.data).exists():
            raise InputError(f"--data {spec.data}: no such file; give words, glue, a saved dataset, a .tsv or .jsonl")
    elif spec.data != "synthetic" and not Path(spec.data).exists():
        raise InputError(f"--data {spec.data}: no such file; give synthetic, a .jsonl or a saved dataset")
    elif spec.data != "synthetic":
        records.check(Path(spec.data))


def _check_wanted_packages(spec: RunSpec) -> None:
    """Raise ToolError when a setting needs a package that is not installed."""
    wanted = {
        "wandb": (spec.wandb, "--wandb"), "tensorboard": (spec.tensorboard, "--tensorboard"),
        "cut_cross_entropy": (spec.loss == "cut", "--loss cut"),
        "bitsandbytes": (spec.optimizer == "adamw-8bit", "--optimizer adamw-8bit"),
        "flash_attn": (spec.attention == "flash", "--attention flash"),
    }  # fmt: skip
    others = {"cut_cross_entropy": "; --loss chunked needs none", "bitsandbytes": "; or --optimizer adamw",
              "flash_attn": "; --attention sdpa has torch's own"}  # fmt: skip
    for package, (is_wanted, option) in wanted.items():
        if is_wanted and find_spec(package) is None:
            name = package.replace("_", "-")
            raise ToolError(f"{option} needs the package {name}; pip install {name}{others.get(package, '')}")


def _check_model(model: str) -> None:
    choices = f"give a folder, a hub id or one of {', '.join(PRESETS)}"
    if model in PRESETS:
        return
    if Path(model).is_dir():
        if not (Path(model) / "config.json").is_file():
            raise InputError(f"--model {model} is a folder without a config.json; {choices}")
        return
    import huggingface_hub as hub

    try:
        if isinstance(hub.try_to_load_from_cache(model, "config.json"), str):
            return
        where = hub.hf_hub_url(model, "config.json")
    except ValueError as error:  # not even an id
        raise InputError(f"no such --model: {model}; {choices}") from error
    if os.environ.get("HF_HUB_OFFLINE"):
        raise InputError(f"--model {model} is not in the hub's cache, and HF_HUB_OFFLINE is set; {choices}")
    try:
        hub.get_hf_file_metadata(where, timeout=_PATIENCE_S)
    except hub.errors.HfHubHTTPError as error:
        raise InputError(f"the hub does not give --model {model} ({first_line(error)}); {choices}") from error
    except Exception as error:  # whatever the library of its version raises without a network
        said = first_line(error)
        raise InputError(
            f"--model {model} is not in the hub's cache, and the hub cannot be reached ({said}); {choices}"
        ) from error
