"""Inputs that lie elsewhere: a real S3 server on the loopback (moto), which is cut off, and fsspec's own."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from conftest import absent
from lorabench.analyze.job import job as jobs
from lorabench.analyze.job import remote
from lorabench.analyze.job.executors import Executor
from lorabench.errors import InputError
from simulated_ranks import Job, simulate

# what aiobotocore and its friends leave open is not ours
pytestmark = pytest.mark.filterwarnings("default")
CUT_BYTES = 150_000


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("remote") / "ranks"
    simulate(Job(ranks=2, steps=2)).write(place)
    return place


@pytest.fixture(scope="module")
def s3() -> Iterator[int]:
    """The port of an S3 server that holds nothing."""
    for package in ("moto", "flask", "s3fs"):
        if find_spec(package) is None:
            absent("cloud", f"{package} is not installed: pip install 'lorabench[cloud]' 'moto[server]'")
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    for _ in range(600):
        with closing(socket.socket()) as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    else:
        pytest.fail("moto does not answer")
    yield port
    server.kill()
    server.wait()


@pytest.fixture
def bucket(s3: int, ranks: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Fills s3://traces with the ranks; the function changes the port at which it is looked for."""
    import s3fs

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setattr("lorabench.analyze.job.remote._PAUSE_S", 0.01)
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)

    def at(port: int) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        s3fs.S3FileSystem.clear_instance_cache()

    at(s3)
    system = s3fs.S3FileSystem()
    if not system.exists("traces"):
        system.mkdir("traces")
        for path in ranks.iterdir():
            system.put(str(path), f"traces/job/{path.name}")
    return at


class Cutting:
    """A proxy that closes a connection when it has answered with so many bytes."""

    def __init__(self, port: int, most_bytes: int):
        self._to, self._most = port, most_bytes
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            upstream = socket.create_connection(("127.0.0.1", self._to))
            threading.Thread(target=self._pass_on, args=(client, upstream, None), daemon=True).start()
            threading.Thread(target=self._pass_on, args=(upstream, client, self._most), daemon=True).start()

    def _pass_on(self, source: socket.socket, to: socket.socket, most: int | None) -> None:
        passed = 0
        try:
            while data := source.recv(16_384):
                if most is not None and passed + len(data) > most:
                    to.sendall(data[: most - passed])
                    break
                to.sendall(data)
                passed += len(data)
        except OSError:
            pass
        for one in (source, to):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        source.close()

    def close(self) -> None:
        self._server.close()


def scratch() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("lorabench-input-*"))


@pytest.mark.slow
def test_traces_of_a_bucket_are_read_and_leave_no_copies(
    bucket: Any, ranks: Path, tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    before = scratch()
    place = tmp_path / "job"
    said = run_command("analyze", "s3://traces/job/rank*.json", "-o", place).err
    assert "2 inputs: 2 read, 0 found finished, 0 lost" in said
    assert scratch() == before
    said = run_command("query", place, "select rank, name, step_cnt from rank_summary", "--csv").out
    assert said.splitlines()[1:] == [f"{rank},rank{rank}.json,2" for rank in range(2)]
    said = run_command("analyze", "s3://traces/job/", "-o", place).err
    assert "2 inputs: 0 read, 2 found finished, 0 lost" in said


@pytest.mark.slow
def test_a_connection_that_is_cut_costs_that_input_until_the_next_run(
    s3: int, bucket: Callable[[int], None], ranks: Path, tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    import s3fs

    large = tmp_path / "large.json"
    large.write_bytes((ranks / "rank1.json").read_bytes() + b" " * CUT_BYTES)
    s3fs.S3FileSystem().put(str(large), "traces/cut/rank1.json")
    s3fs.S3FileSystem().put(str(ranks / "rank0.json"), "traces/cut/rank0.json")
    proxy, place, before = Cutting(s3, CUT_BYTES), tmp_path / "job", scratch()
    bucket(proxy.port)
    done = run_command("analyze", "s3://traces/cut/*", "-o", place, code=3)
    proxy.close()
    lines = [line for line in done.err.splitlines() if line.startswith("rank1.json: ")]
    assert len(lines) == 1 and lines[0].startswith("rank1.json: cannot read s3://traces/cut/rank1.json: ")
    assert "2 inputs: 1 read, 0 found finished, 1 lost" in done.err and scratch() == before
    assert run_command("query", place, "select count(*) as cnt from rank_summary", "--csv").out.split() == ["cnt", "1"]
    bucket(s3)
    assert "2 inputs: 1 read, 1 found finished, 0 lost" in run_command("analyze", "s3://traces/cut/*", "-o", place).err


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://nobody/rank*.json", "no such file: s3://nobody/rank*.json"),
        ("s3://traces/none*.json", "no file matches s3://traces/none"),
        ("s3://traces/none.json", "no such file: s3://traces/none.json"),
    ],
)
def test_what_is_not_in_a_bucket_is_one_line(
    url: str, said: str, bucket: Any, tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    done = run_command("analyze", url, "-o", tmp_path / "job", code=3)
    assert said in done.err and done.err.count("\n") == 1
    assert not (tmp_path / "job").exists()


@pytest.mark.slow
def test_a_server_that_nobody_reaches_is_one_line(
    bucket: Callable[[int], None], tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    bucket(9)
    done = run_command("analyze", "s3://traces/job/rank*.json", "-o", tmp_path / "job", code=3)
    assert done.err.startswith("lorabench: cannot list s3://traces/job/rank*.json: ") and done.err.count("\n") == 1


def test_a_package_that_is_missing_is_named(
    tmp_path: Path, run_command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    done = run_command("analyze", "s3://bucket/rank0.json", "-o", tmp_path / "job", code=4)
    assert done.err == "lorabench: s3://bucket/rank0.json needs fsspec: pip install 'lorabench[cloud]'\n"
    monkeypatch.setitem(sys.modules, "distributed", None)
    (tmp_path / "x.json").write_text("{}")
    done = run_command("analyze", tmp_path / "x.json", "-o", tmp_path / "job", "--dask", "tcp://host:1", code=4)
    assert done.err.splitlines()[-1] == "lorabench: --dask needs Dask: pip install 'lorabench[dask]'"


@pytest.mark.long
def test_other_file_systems_are_fsspec_s(ranks: Path, tmp_path: Path, run_command: Callable[..., Any]) -> None:
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed: pip install 'lorabench[cloud]'")
    memory = fsspec.filesystem("memory")
    for path in ranks.iterdir():
        memory.pipe(f"/job/{path.name}", path.read_bytes())
    done = jobs.read(["memory://job/rank[01].json"], tmp_path / "job", Executor())
    assert [task.location for task in done.outcomes] == ["memory:///job/rank0.json", "memory:///job/rank1.json"]
    assert done.count("read") == 2
    memory.pipe("/job/rank0.json", (ranks / "rank0.json").read_bytes() + b" ")
    assert jobs.read(["memory://job/rank[01].json"], tmp_path / "job", Executor()).count("read") == 1
    with pytest.raises(InputError, match="cannot open nothing://x"):
        remote.find("nothing://x")


@pytest.mark.slow
def test_a_file_url_is_a_path(ranks: Path, tmp_path: Path, run_command: Callable[..., Any]) -> None:
    said = run_command("analyze", f"file://{ranks}/rank*.json", "-o", tmp_path / "job").err
    assert "2 inputs: 2 read" in said
    assert "2 found finished" in run_command("analyze", ranks, "-o", tmp_path / "job").err


def test_a_disk_that_is_too_small_is_named(ranks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed: pip install 'lorabench[cloud]'")
    fsspec.filesystem("memory").pipe("/small/rank0.json", (ranks / "rank0.json").read_bytes())
    full = shutil._ntuple_diskusage(1, 1, 0)  # type: ignore[attr-defined]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    done = jobs.read(["memory://small/rank0.json"], tmp_path / "job", Executor())
    assert "and " in done.lost[0][1] and done.lost[0][1].endswith("name another place in TMPDIR")


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_one_line(ranks: Path, tmp_path: Path) -> None:
    shutil.copytree(ranks, tmp_path / "ranks")
    (tmp_path / "ranks" / "rank1.json").chmod(0)
    done = jobs.read([str(tmp_path / "ranks")], tmp_path / "job", Executor())
    assert done.count("read") == 1 and "Permission denied" in done.lost[0][1]
