"""What a child imports: bitsandbytes only where something can ask for it, since it takes more than a second."""

import subprocess
import sys
from typing import Any

import pytest
from lorabench.collect.run import packages
from lorabench.collect.settings.spec import from_dict

CHILD = """
import gc, sys
from lorabench.collect.run import packages
from lorabench.collect.settings.spec import from_dict
packages.load(from_dict({}))
assert gc.isenabled() and sys.modules["bitsandbytes"] is None and "peft.tuners.lora" in sys.modules
"""


@pytest.mark.parametrize(
    ("settings", "is_needed"),
    [
        ({}, False),
        ({"method": "full"}, False),
        ({"quant": "int8wo"}, False),
        ({"task": "sst2"}, False),
        ({"method": "qlora"}, True),
        ({"quant": "int8"}, True),
        ({"optimizer": "adamw-8bit"}, True),
        ({"model": "./saved"}, True),
    ],
    ids=str,
)
def test_bitsandbytes_is_imported_where_the_base_or_the_optimizer_may_be_of_it(
    settings: dict[str, Any], is_needed: bool
) -> None:
    assert packages._may_need_bitsandbytes(from_dict(settings)) is is_needed


@pytest.mark.long
def test_a_child_without_a_use_for_it_goes_without() -> None:
    pytest.importorskip("peft")
    subprocess.run([sys.executable, "-c", CHILD], check=True)
