"""Facts that several rooms use come from one place: what GPUs can do, what memory is for, which passes there are."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT
from lorabench import vocabulary
from lorabench.analyze.store.database import Database

NAMES = {
    "NVIDIA H100 80GB HBM3": (989e12, 3.35e12), "NVIDIA H100 NVL": (835e12, 3.9e12), "NVIDIA H100 PCIe": (756e12, 2e12),
    "NVIDIA H200": (989e12, 4.8e12), "NVIDIA GH200 480GB": (989e12, 4.0e12), "NVIDIA A10G": (70e12, 0.6e12),
    "NVIDIA A10": (125e12, 0.6e12), "NVIDIA A100-SXM4-80GB": (312e12, 2.039e12), "NVIDIA L40S": (362e12, 0.864e12),
    "NVIDIA A100-SXM4-40GB": (312e12, 1.555e12), "NVIDIA L4": (121e12, 0.3e12),
    "Tesla V100-SXM2-16GB": (125e12, 0.9e12), "Tesla T4": (65e12, 0.32e12),
    "AMD Instinct MI300X": (1307e12, 5.3e12), "NVIDIA RTX A6000": (154.8e12, 0.768e12),
    "NVIDIA RTX A4000": (None, None), "NVIDIA T400": (None, None), "Quadro P4000": (None, None),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_mfu_and_roofline_stand_on_the_same_peaks(
    name: str, database_of: Callable[[Path], Database], synthetic_trace: Callable[..., Path]
) -> None:
    measure = pytest.importorskip("lorabench.collect.run.measure")
    assert measure.peak_16bit(name) == NAMES[name][0]
    found = database_of(synthetic_trace("nsys")).rows(
        "select arg_min(matrix16_flops, priority), arg_min(memory_bytes_s, priority) from device_peak "
        "where regexp_matches(?, pattern, 'i')",
        name,
    )
    assert found == [NAMES[name]]


def test_categories_of_memory_are_those_of_the_vocabulary(
    database_of: Callable[[Path], Database], synthetic_trace: Callable[..., Path]
) -> None:
    database = database_of(synthetic_trace("nsys"))
    assert [c for (c,) in database.rows("select category from memory_category order by number")] == list(
        vocabulary.MEMORY_CATEGORIES
    )


def test_passes_are_listed_once() -> None:
    lists = re.compile(r'\(\s*"timing",\s*"torch",\s*"nsys",\s*"memory"')
    files = [ROOT / "vocabulary.py", *ROOT.glob("*/*.py")]
    found = [
        p.name for p in files if p.parent.name not in ("tests", "benchmarks") and lists.search(p.read_text("utf-8"))
    ]
    assert found == ["vocabulary.py"]
