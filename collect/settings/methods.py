"""The methods of training, and what each decides."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Method:
    """has_adapters: they are trained and the base is frozen; else the base is trained and there are none.

    needs_quant: the base is quantized, and as `quant` where nobody says.
    """

    has_adapters: bool = True
    needs_quant: bool = False
    quant: str = "none"


METHODS = {
    "lora": Method(),
    "qlora": Method(needs_quant=True, quant="nf4"),
    "full": Method(has_adapters=False),
}
