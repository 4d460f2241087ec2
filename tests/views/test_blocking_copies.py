"""Which calls wait for their copy, where the clocks of CPU and GPU are some microseconds apart."""

import json
from pathlib import Path

import pytest
from conftest import opened
from lorabench.analyze.predict.predictions import what_if


def trace(path: Path, call_us: float, late_us: float, name: str = "hipMemcpyWithStream") -> Path:
    """Three steps: a kernel of 900 us and a copy behind it, whose call ends so much before the copy does."""
    events = []
    for step in range(3):
        begin = 10_000 + 2_000 * step
        link = 10 * step + 1
        both = {"ph": "X", "pid": 1, "tid": 1}
        end = begin + 100 + call_us + late_us
        events += [
            both | {"cat": "user_annotation", "name": f"step {step}", "ts": begin, "dur": 1_500},
            both | {"cat": "cuda_runtime", "name": "hipLaunchKernel", "ts": begin + 10, "dur": 5,
                    "args": {"correlation": link}},
            both | {"cat": "kernel", "name": "gemm", "tid": 7, "ts": begin + 20, "dur": end - 10 - begin - 20,
                    "args": {"correlation": link, "device": 0, "stream": 0}},
            both | {"cat": "cuda_runtime", "name": name, "ts": begin + 100, "dur": call_us,
                    "args": {"correlation": link + 1}},
            both | {"cat": "gpu_memcpy", "name": "Memcpy HtoD (Host -> Device)", "tid": 7, "ts": end - 8, "dur": 8,
                    "args": {"correlation": link + 1, "device": 0, "stream": 0, "bytes": 4}},
        ]  # fmt: skip
    path.write_text(json.dumps({"traceEvents": events}), "utf-8")
    return path


@pytest.mark.parametrize("late_us", [-5, 0, 2, 10])
def test_a_long_call_waits_for_a_copy_that_ends_at_its_end(late_us: float, tmp_path: Path) -> None:
    with opened(trace(tmp_path / "run.json", 900, late_us)) as database:
        ((kind, cnt, waited_ns),) = database.rows("select kind, call_cnt, call_ns from sync_summary")
        saved = what_if(database, ["scale=gemm:0.5"])["saving_frac"].item()
    assert (kind, cnt) == ("memcpy", 3) and waited_ns == pytest.approx(3 * 900_000, abs=3 * 10_000)
    assert saved > 0.2


@pytest.mark.parametrize(("call_us", "late_us"), [(4, 3), (100, 3), (300, 7), (900, 11), (900, 400)])
def test_a_call_waits_for_nothing_that_ends_later_than_clocks_are_apart(
    call_us: float, late_us: float, tmp_path: Path
) -> None:
    with opened(trace(tmp_path / "run.json", call_us, late_us, "cudaMemcpyAsync")) as database:
        assert database.rows("select count(*) from waiting_call where kind = 'memcpy'") == [(0,)]
