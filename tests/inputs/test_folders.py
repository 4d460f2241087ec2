"""What lies behind the paths of a command: folders of several kinds, files that are no traces among those that are."""

import bz2
import gzip
import json
import lzma
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from conftest import ROOT
from lorabench.analyze.read import inputs
from lorabench.analyze.read.exports import Exports
from lorabench.analyze.read.inputs import Input, Kind
from lorabench.cli_progress import Lines
from lorabench.errors import InputError, UsageError
from lorabench.progress import Silent

TRACE = ROOT / "fixtures" / "torch-cpu.json.gz"


def find(paths: list[Path]) -> list[Input]:
    with Exports(Silent()) as exports:
        return inputs.find(paths, exports)


def put(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(TRACE, path))


@pytest.mark.parametrize("folder", [".", "plugins/profile/2024_01_01_10_00_00", "a/b/c/d/e"])
def test_the_traces_of_the_one_folder_that_holds_some_are_read(folder: str, tmp_path: Path) -> None:
    trace = put(tmp_path / folder / "host.pt.trace.json.gz")
    put(tmp_path / ".hidden" / "other.json.gz")
    (tmp_path / "empty").mkdir()
    assert [item.path for item in find([tmp_path])] == [trace]
    with pytest.raises(UsageError, match="would replace the input"):
        inputs.spare([tmp_path], trace)


@pytest.mark.parametrize(
    "names",
    [
        ["rank0_trace.json.gz", "rank1_trace.json.gz"],  # torchtitan: profile_traces/iteration_10
        ["profile_0.json", "profile_1.json"],  # Accelerate: output_trace_dir
        ["rank0.5.pt.trace.json.gz", "rank1.5.pt.trace.json.gz"],  # Composer, torchtune
    ],
)
@pytest.mark.first(2)
def test_ranks_are_known_by_the_names_that_programs_give_their_traces(
    names: list[str], tmp_path: Path, run_command: Callable
) -> None:
    for name in names:
        trace = put(tmp_path / "x" / name)
        if trace.suffix != ".gz":
            trace.write_bytes(gzip.decompress(TRACE.read_bytes()))
    said = run_command("query", tmp_path / "x", "select name, rank from source order by name", "--csv").out
    assert said.splitlines() == ["name,rank", f"{names[0]},0", f"{names[1]},1"]


def test_an_output_folder_of_axolotl_is_its_trace_and_its_snapshot(tmp_path: Path) -> None:
    put(tmp_path / "profiler_trace.json")
    with gzip.open(ROOT / "fixtures" / "h200-batch" / "snapshot.pickle.gz") as snapshot:
        (tmp_path / "snapshot.pickle").write_bytes(snapshot.read())
    for name in ("config.json", "adapter_config.json", "checkpoint-3/trainer_state.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    assert {item.path.name: item.kind for item in find([tmp_path])} == {
        "profiler_trace.json": Kind.KINETO,
        "snapshot.pickle": Kind.SNAPSHOT,
    }


def test_traces_in_several_folders_are_not_mixed(tmp_path: Path) -> None:
    for name in ("a", "b", "c", "d"):
        put(tmp_path / name / "run" / "trace.json.gz")
    with pytest.raises(InputError, match=r"in 4 folders: .*a/run, .*b/run, .*c/run and 1 more; give one of them"):
        find([tmp_path])
    assert len(find([tmp_path / "a", tmp_path / "b"])) == 2


def test_json_that_is_no_trace_is_left_out_of_a_folder(tmp_path: Path) -> None:
    trace = put(tmp_path / "run.json.gz")
    (tmp_path / "config.json").write_text(json.dumps({"hidden_size": 64}))
    (tmp_path / "tokenizer.json").write_text(json.dumps({"vocab": {str(n): n for n in range(20_000)}}))
    (tmp_path / "state.json.gz").write_bytes(gzip.compress(b'{"step": 1}'))
    (tmp_path / "my_trace.json").write_text("{}")  # called so, it is worth a word
    found = {item.path.name: item.kind for item in find([tmp_path])}
    assert found == {"run.json.gz": Kind.KINETO, "my_trace.json": Kind.KINETO}
    assert trace.name in found


def test_what_is_packed_in_a_folder_is_read_or_is_told_what_unpacks_it(tmp_path: Path) -> None:
    nsys = ROOT / "fixtures" / "h200-batch" / "run.sqlite.gz"
    shutil.copy(ROOT / "fixtures" / "h200-batch" / "snapshot.pickle.gz", tmp_path / "x.pickle.gz")
    shutil.copy(nsys, tmp_path / "packed.sqlite.gz")
    (tmp_path / "rank0.json.zst").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(40))
    shutil.copy(tmp_path / "x.pickle.gz", tmp_path / "MEMORY_snapshot.pkl.gz")
    (tmp_path / "dataset.pkl").write_bytes(b"\x80\x04N.")
    (tmp_path / "unpacked.sqlite").write_bytes(gzip.decompress(nsys.read_bytes()))
    shutil.copy(nsys, tmp_path / "unpacked.sqlite.gz")
    found = {item.path.name: item for item in find([tmp_path])}
    assert {name: item.kind for name, item in found.items()} == {
        "x.pickle.gz": Kind.SNAPSHOT,
        "MEMORY_snapshot.pkl.gz": Kind.SNAPSHOT,
        "packed.sqlite.gz": Kind.UNREADABLE,
        "rank0.json.zst": Kind.UNREADABLE,
        "unpacked.sqlite": Kind.NSYS_SQLITE,
    }
    assert "unpack it first: `gunzip -k`" in found["packed.sqlite.gz"].problem
    assert "unpack it first: `zstd -d`" in found["rank0.json.zst"].problem


def test_a_header_of_thousands_of_ranks_stands_before_the_events(tmp_path: Path) -> None:
    groups = [{"pg_name": str(n), "ranks": list(range(1000))} for n in range(100)]
    (tmp_path / "x.json").write_text(json.dumps({"distributedInfo": {"pg_config": groups}, "traceEvents": []}))
    assert [item.kind for item in find([tmp_path])] == [Kind.KINETO]


def test_a_file_that_is_no_trace_stops_no_other(tmp_path: Path, run_command: Callable) -> None:
    (tmp_path / "README.md").write_text("hello")
    (tmp_path / "void").mkdir()
    words = [put(tmp_path / "run.json.gz"), tmp_path / "README.md", tmp_path / "void", "-o", tmp_path / "r.csv"]
    said = run_command("analyze", *words, code=3)
    assert "README.md: lost: the whole file: " in said.err and "void: lost: the whole file: " in said.err
    assert "2 of 3 inputs cannot be read (README.md, void)" in said.err
    assert (tmp_path / "r.csv").stat().st_size > 1000


def test_a_path_where_nothing_is_stops_all(tmp_path: Path, run_command: Callable) -> None:
    said = run_command("analyze", put(tmp_path / "run.json.gz"), tmp_path / "misspelt.json", code=3)
    assert "no such file" in said.err and not said.out


def test_what_is_missing_from_many_is_one_line(tmp_path: Path, run_command: Callable) -> None:
    for number in range(5):
        shutil.copy(ROOT / "fixtures" / "nvtx-ranges.sqlite", tmp_path / f"r{number}.sqlite")
    said = run_command("analyze", tmp_path, "-o", tmp_path / "r.csv", "--quiet")
    (line,) = said.err.splitlines()
    assert line.startswith("5 inputs (r0.sqlite, r1.sqlite, r2.sqlite, …): missing: CUPTI_ACTIVITY_KIND_KERNEL, ")
    assert line.count("no such table") == 1


def test_in_a_pipe_long_work_says_how_far_it_is_and_short_work_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for listener in (Lines(), Lines(pause_s=0)):
        listener.step("reading 200 files", 200)
        listener.advance(50)
        listener.step("checks")
    assert capsys.readouterr().err.splitlines() == ["reading 200 files: 0%", "reading 200 files: 25%", "checks"]


ENDINGS = {"zstd": "zst"}


@pytest.mark.parametrize("packer", ["zstd", "lz4", "bz2", "xz"])
def test_a_packed_trace_in_a_folder_is_named_whatever_it_is_called(packer: str, tmp_path: Path) -> None:
    """What else is packed there, as words of a tokenizer, is nobody's business."""
    trace = json.dumps({"schemaVersion": 1, "traceEvents": [{"ph": "X", "name": "step", "ts": 1, "dur": 2}]})

    def put(name: str, content: str) -> None:
        path = tmp_path / f"{name}.{ENDINGS.get(packer, packer)}"
        if packer == "xz":
            path.write_bytes(lzma.compress(content.encode()))
        elif packer == "bz2":
            path.write_bytes(bz2.compress(content.encode()))
        else:
            with pa.output_stream(str(path), compression=packer) as file:
                file.write(content.encode())

    (tmp_path / "before.json").write_text(trace, "utf-8")
    put("after.json", trace)
    put("words.json", json.dumps({"vocab": {"a": 1}}))
    found = {item.path.name: item for item in find([tmp_path])}
    assert found.keys() == {"before.json", f"after.json.{ENDINGS.get(packer, packer)}"}
    assert "unpack it first" in found[f"after.json.{ENDINGS.get(packer, packer)}"].problem
