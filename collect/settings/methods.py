"""The methods of training, and what each decides."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Method:
    """has_adapters: they are trained and the base is frozen; else the base is trained and there are none.

    needs_quant: the base is quantised, and as `quant` where nobody says. parallel: the kinds that it was tried with.
    """

    has_adapters: bool = True
    needs_quant: bool = False
    quant: str = "none"
    parallel: tuple[str, ...] = ()


_EVERY = ("ddp", "fsdp", "tp", "pp", "lorapp")
METHODS = {
    "lora": Method(parallel=_EVERY),
    "qlora": Method(needs_quant=True, quant="nf4", parallel=_EVERY),
    "full": Method(has_adapters=False, parallel=("ddp", "fsdp")),
}


def has_adapters(method: object) -> bool:
    """Whether a method of this name trains adapters; of a name that is none, which is refused elsewhere."""
    return not (isinstance(method, str) and method in METHODS) or METHODS[method].has_adapters
