"""How a base can be quantized, and the package that each way needs. Loads none of them."""

from dataclasses import dataclass
from importlib.util import find_spec


@dataclass(frozen=True)
class Quant:
    """One way: the package that does it, what to install for it, and what it is in a word."""

    package: str
    install: str
    title: str


GPTQ = {"gptq": "auto_trainable", "gptq-triton": "gptq_triton"}  # gptqmodel's names of the layers that are trained
QUANTS = {
    "int8": Quant("bitsandbytes", "bitsandbytes>=0.50", "LLM.int8() by bitsandbytes, without outliers"),
    "nf4": Quant("bitsandbytes", "bitsandbytes>=0.50", "4-bit NormalFloat by bitsandbytes, twice quantized"),
    "int8wo": Quant("torchao", "torchao>=0.18", "int8 weights by torchao"),
    "float8wo": Quant("torchao", "torchao>=0.18", "float8 weights by torchao"),
    "gptq": Quant("gptqmodel", "gptqmodel==7.7.0", "a checkpoint that GPTQ has quantized, by gptqmodel"),
    "gptq-triton": Quant("gptqmodel", "gptqmodel==7.7.0", "the same with layers written in Triton"),
    "qint8": Quant("optimum.quanto", "optimum-quanto>=0.2.7", "int8 weights by quanto"),
}


def missing(quant: str) -> str | None:
    """What to install for a way of quantizing, None when it is there."""
    if quant not in QUANTS:
        return None
    known = QUANTS[quant]
    try:
        found = find_spec(known.package)
    except ModuleNotFoundError:  # the package around it
        found = None
    return None if found else known.install
