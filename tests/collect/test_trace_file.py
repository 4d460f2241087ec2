"""Traces of torch.profiler as files: checked in pieces, with the same verdict as a parser over the whole."""

import gzip
from pathlib import Path

import orjson
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from lorabench.collect.instruments import trace_file  # noqa: E402
from torch.profiler import ProfilerActivity, profile, record_function  # noqa: E402


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, record_shapes=True) as profiler:
        for number in range(20):
            with record_function(f"step {number}"):
                torch.ones(4, 4) @ torch.ones(4, 4)
    path = tmp_path_factory.mktemp("traces") / "trace.json.gz"
    trace_file.export(profiler, path)
    return path


@pytest.mark.parametrize("block", [100, 5000, 8 << 20])
def test_a_whole_trace_is_fine_wherever_it_is_cut(trace: Path, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_file, "_BLOCK", max(block, 600))  # the opening is in the first
    assert orjson.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    assert trace_file.problem(trace) is None


@pytest.mark.parametrize("place", [0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("block", [600, 8 << 20])
def test_what_is_broken_anywhere_is_found(
    trace: Path, place: float, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_file, "_BLOCK", block)
    text = gzip.decompress(trace.read_bytes())
    at = text.rindex(b'"name": "', 0, int(len(text) * place)) + len(b'"name": "')
    for broken in (text[:at] + b'a "quoted" name' + text[at:], text[:at]):
        path = tmp_path / "broken.json.gz"
        path.write_bytes(gzip.compress(broken))
        assert trace_file.problem(path)


def test_json_that_is_no_trace_of_torch_is_checked_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.json.gz"
    path.write_bytes(gzip.compress(b'[{"ph": "X"}]'))
    assert trace_file.problem(path) is None
    path.write_bytes(gzip.compress(b'[{"ph": "X"}'))
    assert trace_file.problem(path)
    path.write_bytes(b"not gzip")
    assert trace_file.problem(path)
