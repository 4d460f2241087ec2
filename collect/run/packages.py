"""What the process of a pass imports before it trains: what takes seconds, but nothing that the run has no use for."""

import gc
import sys
from typing import Any

from ..settings.presets import PRESETS
from ..settings.quants import QUANTS
from ..settings.spec import RunSpec

_BITSANDBYTES = "bitsandbytes"


def load(spec: RunSpec) -> None:
    """Import torch, transformers and PEFT: nearly all that a child does before its first step."""
    if not _may_need_bitsandbytes(spec):
        # PEFT and transformers import it wherever it is installed, which takes more than a second
        absent: Any = None  # "not installed", in Python's own words
        sys.modules.setdefault(_BITSANDBYTES, absent)
    gc.disable()  # what imports make stays, and looking through it for garbage takes another half
    try:
        import torch  # noqa: F401
        import transformers.modeling_utils  # noqa: F401

        if spec.has_adapters:
            import peft  # noqa: F401
    finally:
        gc.enable()


def _may_need_bitsandbytes(spec: RunSpec) -> bool:
    quant = QUANTS.get(spec.quantisation)
    is_asked_for = quant is not None and quant.package == _BITSANDBYTES
    return is_asked_for or spec.optimizer == "adamw-8bit" or spec.model not in PRESETS  # a checkpoint may be quantized
