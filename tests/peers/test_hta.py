"""Meta's HolisticTraceAnalysis on a complete set of ranks. Needs `pip install traceinsight`; skipped without it.

HTA rounds to whole microseconds, which this recording has anyway, and drops the last of several steps; here it has one.
"""

import tarfile
import warnings
from pathlib import Path
from typing import Any

import pytest
from conftest import corpus_params
from lorabench.analyze.pipeline import analyze

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    hta = pytest.importorskip("hta.trace_analysis", reason="traceinsight is not installed")

pytestmark = pytest.mark.filterwarnings("ignore")
RANKS = corpus_params("kineto/eight-ranks*.tar.gz")


@pytest.mark.parametrize("packed", RANKS)
def test_breakdown_and_overlap_of_every_rank_are_those_of_hta(packed: Path, tmp_path: Path) -> None:
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path, filter="data")
    folder = next(tmp_path.rglob("*.json")).parent
    peer = hta.TraceAnalysis(trace_dir=str(folder))
    breakdown: Any = peer.get_temporal_breakdown(visualize=False).set_index("rank")
    overlap: Any = peer.get_comm_comp_overlap(visualize=False).set_index("rank")
    with analyze([folder], tmp_path / "x.duckdb") as database:
        rows = database.rows(
            "select rank, window_ns, idle_ns, compute_ns, busy_ns - compute_ns, overlap_frac from gpu_timeline_summary"
        )
    assert len(rows) == 8
    for rank, window, idle, compute, rest, hidden in rows:
        expected = breakdown.loc[rank]
        columns = ("kernel_time(us)", "idle_time(us)", "compute_time(us)", "non_compute_time(us)")
        assert [window, idle, compute, rest] == [int(expected[c]) * 1000 for c in columns]
        assert round(hidden * 100, 2) == overlap.loc[rank, "comp_comm_overlap_pctg"]
