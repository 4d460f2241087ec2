"""fsdp_qlora's spelling of what is profiled, in the settings of RunSpec.

    --profile                  torch.profiler in cycles of 10 steps, 7 skipped, 2 warming up, 1 kept, until the run ends
    --export-trace             a trace for each cycle, which is written in any case
    --export-memory-timeline   memory over time for each cycle: a trace of the memory pass, and a page of it
    --max-steps N              --steps N
    --profiling-outputs DIR    --output DIR

The other words (--with-stack, --with-shapes, --wait-steps, --warmup-steps, --active-steps, --repeat,
--profiling-frequency) are settings themselves. They say more than --profile does.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import UsageError

FREQUENCY, WARMUP, ACTIVE = 10, 2, 1
WORDS = ("profile", "export_trace", "export_memory_timeline", "max_steps", "profiling_outputs")


@dataclass(frozen=True)
class Asked:
    """Settings of RunSpec, and what of this spelling is none."""

    settings: dict[str, Any]
    outputs: Path | None
    has_memory_timeline: bool


def of(values: dict[str, Any]) -> Asked:
    """What was given, on the command line or in a file, with this spelling put into settings of RunSpec.

    Raises UsageError where the words contradict each other.
    """
    settings = {name.replace("-", "_"): value for name, value in values.items()}
    said = {word: settings.pop(word) for word in WORDS if word in settings}
    if "max_steps" in said:
        if "steps" in settings:
            raise UsageError("--max-steps and --steps are two words for one setting; give one")
        settings["steps"] = said["max_steps"]
    outputs = Path(str(said["profiling_outputs"])) if "profiling_outputs" in said else None
    switches = [word for word in ("profile", "export_trace", "export_memory_timeline") if _is_on(said, word)]
    if switches and switches[0] != "profile":
        raise UsageError(f"--{switches[0].replace('_', '-')} says what --profile leaves; give that, too")
    has_memory_timeline = "export_memory_timeline" in switches
    if switches:
        settings = _cycled(settings, has_memory_timeline)
    return Asked(settings, outputs, has_memory_timeline)


def _is_on(said: dict[str, Any], word: str) -> bool:
    value = said.get(word, False)
    if not isinstance(value, bool):
        raise UsageError(f"{word} must be true or false, not {value!r}")
    return value


def _cycled(settings: dict[str, Any], has_memory: bool) -> dict[str, Any]:
    """--profile: the cycle of 10 steps, for ever, where nothing else is said."""
    if "profiler" in settings:
        raise UsageError("--profile chooses the passes; give --profiler or --profile, not both")
    chosen = {"profiler": "torch,memory" if has_memory else "torch"}
    cycle = {"warmup_steps": WARMUP, "active_steps": ACTIVE, "repeat": 0} | settings | chosen
    if str(cycle["repeat"]) == "0" and "wait_steps" not in cycle:
        cycle.setdefault("profiling_frequency", FREQUENCY)
    return cycle
