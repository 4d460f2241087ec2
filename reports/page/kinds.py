"""Kinds of work and of ranges, and their colours: the same in every picture, by light and in the dark."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A kind with its colours."""

    name: str
    light: str
    dark: str


# Hues that differ for colour-blind eyes (Okabe and Ito's, and Tol's), neighbours in lightness, too.
KINDS = (
    Kind("lora", "#D55E00", "#E8743B"),
    Kind("matmul", "#0072B2", "#3E93CC"),
    Kind("attention", "#56B4E9", "#7CC6F0"),
    Kind("norm", "#009E73", "#2BB58C"),
    Kind("elementwise", "#F0E442", "#F0E442"),
    Kind("reduction", "#B9A500", "#CBB92B"),
    Kind("optimizer", "#CC79A7", "#D891B8"),
    Kind("communication", "#332288", "#7E6FD0"),
    Kind("copy", "#882255", "#B9557F"),
    Kind("data_movement", "#117733", "#4C9A63"),
    Kind("layout", "#999933", "#B3B34D"),
    Kind("quantise", "#44AA99", "#62BFAF"),
    Kind("other", "#7F7F7F", "#9A9A9A"),
    Kind("range", "#8FA8C8", "#4E6785"),
    Kind("forward", "#A9C4E6", "#3F5F8A"),
    Kind("backward", "#E6C3A9", "#8A5F3F"),
)
NAMES = tuple(kind.name for kind in KINDS)
_SAME = {"dequantise": "quantise"}
IDLE = "idle"  # hatched, as the receipt has it; of no kind of work
# Categories of memory, by light and in the dark; those of a kind of work that is named alike have its colour.
_MEMORY = {
    "parameter": "#0072B2", "adapter_parameter": "#D55E00", "gradient": "#E69F00", "optimizer_state": "#CC79A7",
    "input": "#882255", "activation": "#009E73", "forward_result": "#56B4E9", "temporary": "#F0E442",
    "autograd_detail": "#999933", "quantisation_workspace": "#44AA99", "unknown": "#7F7F7F",
}  # fmt: skip
# What steps have besides phases that are a kind: in every picture of them.
_OF_STEPS = {"data": "#E69F00", "recompute": "#56B4E9", "between": "#F0E442", "gpu": "#009E73"}


def of_class(name: str) -> str:
    """The kind that a class of kernel_class is drawn as."""
    known = _SAME.get(name, name)
    return known if known in NAMES else "other"


def of_range(path: str) -> str:
    """The kind that a range is drawn as: an adapter's part, a phase, or any range."""
    names = path.lower().split("/")
    if any(name.startswith("lora_") for name in names):
        return "lora"
    for name in reversed(names):
        for phase in ("backward", "forward", "optimizer"):
            if phase in name:
                return phase
    return "range"


def of_memory(category: str) -> tuple[str, int]:
    """The colour of a category of memory, and its place among them, for its hatch: the same on every page."""
    known = category if category in _MEMORY else "unknown"
    return _MEMORY[known], list(_MEMORY).index(known)


def of_step(part: str) -> str | None:
    """The colour of a part of a step that is of no kind."""
    return _OF_STEPS.get(part)
