"""`lorabench collect` as a user runs it: real processes, a real nsys where there is one, what it leaves behind."""

import csv
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import Ended, absent, opened
from lorabench import nsys as tools
from lorabench import rundir
from lorabench.collect.run import session
from lorabench.collect.settings.spec import from_dict
from lorabench.errors import RunError

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

SMALL = ["--model", "tiny", "--seq-len", "16", "--batch-size", "2", "--steps", "3", "--warmup", "1", "--device", "cpu"]
ENVIRONMENT = os.environ | {
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "SECRET_TOKEN": "hunter2",
    "HF_TOKEN": "hunter3",
}


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "lorabench", *map(str, words)]


def collect(folder: Path, *words: object, code: int = 0, report: bool = False) -> "subprocess.CompletedProcess[str]":
    own = ["-o", folder, *([] if report else ["--no-report"])]
    done = subprocess.run(
        command("collect", *own, *words), env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    return done


def _rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text("utf-8").splitlines()))


def remains(folder: Path) -> list[str]:
    """Living processes of the runs in a folder, and agents of nsys that nobody waits for any more.

    Other tests run meanwhile: what mentions another folder is theirs, and so is an agent with their session.
    """
    for _ in range(50):
        lines = [line for line in _command_lines() if "lorabench" in line]
        others = {found[0] for line in lines if str(folder) not in line and (found := re.search(_SESSION, line))
                  and " profile " in line}  # fmt: skip
        left = [
            line for line in lines
            if str(folder) in line or ((found := re.search(_SESSION, line)) and found[0] not in others)
        ]  # fmt: skip
        if not left:
            break
        time.sleep(0.1)  # an agent whose nsys has just ended
    return left


_SESSION = r"lorabench-[0-9a-f]{12}"


def _command_lines() -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BatchLoRA run with a loop, so that ranges of adapters show, recomputation, and batches from workers."""
    folder = tmp_path_factory.mktemp("runs") / "batch"
    words = ("--lora-cnt", 2, "--peft-mode", "batch", "--batch-operator", "loop", "--lengths", "uniform",
             "--loader-workers", 2)  # fmt: skip
    said = collect(folder, *SMALL, *words, report=True)
    assert f"the page of this run: {folder / rundir.PAGE}" in said.stderr and said.stdout == f"wrote {folder}\n"
    return folder


def needs_nsys() -> None:
    if tools.find() is None:
        absent("nsys", "nsys is not installed")


def test_a_run_says_what_it_did_and_measured(run: Path) -> None:
    manifest, summary = rundir.read_manifest(run), rundir.read_summary(run)
    assert manifest["status"] == "ok" and manifest["spec"]["lora_cnt"] == 2
    assert manifest["provenance"]["versions"]["torch"]
    assert summary["is_same_in_all_passes"] is True
    assert summary["matrix_products_per_step"] > 0 and summary["kernel_launches_per_step"] is None
    assert set(summary["memory"]) == {"load", "steps", "data", "h2d", "forward", "backward", "optimizer"}
    assert summary["input"]["made_ns"] > 0 and 0 < summary["input"]["waited_frac"] < 1
    assert set(summary["overhead_frac"]) >= {"ranges", "torch"}
    assert not list(run.glob(".*"))


def test_the_manifest_describes_every_file(run: Path) -> None:
    import hashlib

    files = rundir.read_manifest(run)["files"]
    there = {p.relative_to(run).as_posix() for p in run.rglob("*") if p.is_file()}
    assert set(files) == there - {rundir.MANIFEST, rundir.PAGE}
    for name, described in files.items():
        content = (run / name).read_bytes()
        assert described == {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def test_a_run_has_its_page(run: Path, tmp_path: Path, run_command: Callable[..., Ended]) -> None:
    text = (run / rundir.PAGE).read_text("utf-8")
    said = re.search(
        r'step, (median|mean)</span><b>([\d.,]+) ms</b><span class="faint">3 steps, [^<]*no profiler attached<', text
    )
    which = {"median": "p50", "mean": "mean"}  # the mean where steps are uneven, which three of a few ms may be
    assert said
    step_ms = rundir.read_summary(run)["step_wall_ns"][which[said[1]]] / 1e6
    assert float(said[2].replace(",", "")) == pytest.approx(step_ms, rel=1e-3)  # in four digits
    told = run_command("analyze", run, "-o", tmp_path / "report.csv", "--quiet")
    assert f"the page of this run: {run / rundir.PAGE}" in told.stderr


def test_the_steps_add_up_to_the_summary(run: Path) -> None:
    rows = [r for r in _rows(run / rundir.STEPS) if r["pass"] == "timing"]
    walls = {r["step"]: int(r["wall_ns"]) for r in rows}
    summary = rundir.read_summary(run)
    assert len(walls) == 3 and len(rows) == 6
    assert summary["step_wall_ns"]["mean"] == pytest.approx(sum(walls.values()) / 3)
    tokens = sum(int(r["token_cnt"]) for r in rows)
    assert summary["tokens_per_s"]["non_padding"] == pytest.approx(tokens / sum(walls.values()) * 1e9)
    assert summary["tokens_per_s"]["non_padding"] < summary["tokens_per_s"]["computed"]


def _opened(run: Path, name: str) -> dict[str, int]:
    return {r["path"]: int(r["range_cnt"]) for r in _rows(run / rundir.RANGES) if r["pass"] == name}


def test_the_ranges_that_nsys_saw_are_those_that_the_run_opened(run: Path, tmp_path: Path) -> None:
    needs_nsys()
    wanted = _opened(run, "nsys")
    assert "run/step/backward/model/layers.1/self_attn/q_proj/lora_A/adapter_1" in wanted
    assert "run/step/backward/recompute/model/layers.0/mlp" in wanted
    with opened(run / "run.sqlite", db=tmp_path / "x.duckdb") as database:
        seen = dict(database.rows("select path, range_cnt from range_summary where kind = 'annotation'"))
    assert seen == wanted


_TORCHS = ("Optimizer.", "enumerate(DataLoader)")  # annotations of torch's own


def test_the_ranges_in_the_torch_trace_are_those_that_the_run_opened(run: Path, tmp_path: Path) -> None:
    """torch puts its operators between ours, so the chains of ours are compared without them."""
    with opened(run / "trace.json.gz", db=tmp_path / "x.duckdb") as database:
        rows = database.rows("select range_id, parent_id, kind, name from range_instance")
    by_id = {i: (parent, kind, name) for i, parent, kind, name in rows}

    def path(number: int | None) -> str:
        names = []
        while number is not None:
            number, kind, name = by_id[number]
            if kind == "annotation":
                names.append(name)
        return "/".join(reversed(names))

    seen = Counter(path(i) for i, _, kind, name in rows if kind == "annotation" and not name.startswith(_TORCHS))
    assert seen == _opened(run, "torch")


def test_the_environment_is_not_in_what_can_be_shared(run: Path) -> None:
    needs_nsys()
    for path in run.rglob("*"):
        if path.is_file() and path.suffix != ".nsys-rep":  # nsys puts every process' environment there
            content = path.read_bytes()
            assert b"hunter" not in content, path
    with closing(sqlite3.connect(run / "run.sqlite")) as file:
        tables = {r[0] for r in file.execute("select name from sqlite_master")}
        names = [r[0] for r in file.execute("select value from ThreadNames join StringIds on id = nameId")]
    assert not tables & {"TARGET_INFO_SYSTEM_ENV", "PROCESSES", "ProcessStreams"}
    assert all(name.startswith(("py", "[NSys")) for name in names), names


def test_analyze_reads_the_run(run: Path, tmp_path: Path, run_command: Callable[..., Ended]) -> None:
    done = run_command("analyze", run, "-o", tmp_path / "report.csv")
    assert done.stdout == f"wrote {tmp_path / 'report.csv'}\n"
    rows = _rows(tmp_path / "report.csv")
    assert any(r["path"] == "run/step/forward/model/layers.0/self_attn/q_proj/lora_B/adapter_0" for r in rows)


def test_an_existing_run_is_replaced_only_when_asked(run: Path, tmp_path: Path) -> None:
    before = (run / rundir.MANIFEST).read_bytes()
    done = collect(run, *SMALL, code=2)
    assert "choose another -o" in done.stderr
    assert (run / rundir.MANIFEST).read_bytes() == before
    foreign = tmp_path / "mine"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("years", "utf-8")
    done = collect(foreign, *SMALL, "--force", code=2)
    assert "is not a run directory" in done.stderr and (foreign / "thesis.txt").exists()


@pytest.mark.long
def test_each_process_trains_its_adapter(tmp_path: Path) -> None:
    folder = tmp_path / "process"
    collect(folder, *SMALL, "--lora-cnt", 2, "--peft-mode", "process", "--profiler", "torch")
    rows = _rows(folder / rundir.STEPS)
    assert Counter(r["adapter"] for r in rows) == {"adapter_0": 3, "adapter_1": 3}
    assert not (folder / rundir.PAGE).exists()  # --no-report
    assert {p.name for p in folder.glob("*.json.gz")} == {"trace-adapter_0.json.gz", "trace-adapter_1.json.gz"}


def test_steps_are_raised_to_a_whole_cycle_which_is_said(tmp_path: Path, run_command: Callable[..., Ended]) -> None:
    schedule = ("--profiler", "torch", "--profiling-frequency", 4, "--warmup-steps", 1, "--repeat", 0)
    done = run_command("collect", "-o", tmp_path, *SMALL, *schedule, code=2)  # the folder is there: nothing is run
    assert "--steps raised from 3 to 4" in done.err


@pytest.mark.long
def test_each_cycle_has_a_trace_averages_and_stacks_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "cycles"
    schedule = ("--steps", 4, "--active-steps", 2, "--repeat", 0, "--with-stack")
    collect(folder, *SMALL, "--profiler", "torch", *schedule)
    assert all((folder / f"stacks-{number}.txt").stat().st_size for number in (1, 2))
    first, second = (
        {r["name"]: r["count"] for r in _rows(folder / f"key_averages-{n}.csv")} for n in (1, 2)
    )  # fmt: skip
    assert first["aten::mm"] == second["aten::mm"]
    assert len(list(folder.glob("trace-*"))) == 2
    products = int(first["aten::mm"]) + int(first.get("aten::bmm", 0)) + int(first.get("aten::addmm", 0))
    assert rundir.read_summary(folder)["matrix_products_per_step"] == products / 2


@pytest.mark.long
def test_the_memory_pass_of_the_default_run_keeps_to_its_budget(tmp_path: Path) -> None:
    words = command("collect", "-o", tmp_path / "run", "--no-report", "--lora-cnt", 4, "--profiler", "memory")
    # what begins as a copy of this process counts its memory as its own
    small = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=2); "
    small += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    done = subprocess.run(
        [sys.executable, "-c", small, *words, "--device", "cpu"],
        env=ENVIRONMENT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert int(done.stdout) * 1024 < 1.5e9  # of the largest of its processes
    assert (tmp_path / "run" / "memory.json.gz").stat().st_size < 8e6, (
        "what takes minutes to write is no longer recorded"
    )
    assert rundir.read_summary(tmp_path / "run")["matrix_products_per_step"] > 0


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
@pytest.mark.slow
def test_an_interrupted_run_says_so_and_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    passes = "timing,nsys" if tools.find() else "timing"
    folder = tmp_path / "run"
    words = command("collect", "-o", folder, *SMALL, "--steps", "1000", "--profiler", passes, "--loader-workers", 2)
    process = subprocess.Popen(words, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True, start_new_session=True)
    log = None
    for _ in range(600):
        log = log or next(tmp_path.glob(".run.*.partial/logs/timing.log"), None)
        if log and "lorabench: step" in log.read_text("utf-8"):
            break
        time.sleep(0.1)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == (130 if number == signal.SIGINT else 143)
    manifest = rundir.read_manifest(folder)
    assert manifest["status"] == "cancelled" and manifest["passes"]["timing"]["status"] == "cancelled"
    assert number == signal.SIGTERM or f"interrupted; what was measured is in {folder}" in errors
    assert (folder / rundir.STEPS).read_text("utf-8").count("timing") >= 1
    assert remains(tmp_path) == []


@pytest.mark.long
def test_a_run_that_takes_too_long_is_stopped_with_its_agent(tmp_path: Path) -> None:
    needs_nsys()
    done = collect(
        tmp_path / "run", *SMALL, "--steps", 100_000, "--profiler", "nsys", "--timeout-s", 12, code=7
    )  # fmt: skip
    assert "stopped after the time limit" in done.stderr
    assert rundir.read_manifest(tmp_path / "run")["status"] == "failed"
    assert remains(tmp_path) == []


@pytest.mark.slow
def test_running_out_of_memory_is_a_result(tmp_path: Path) -> None:
    import resource

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))

    words = command("collect", "-o", tmp_path / "run", "--model", "tinyllama-1.1b", "--profiler", "timing")
    done = subprocess.run(
        words, env=ENVIRONMENT, capture_output=True, text=True, check=False, preexec_fn=limit
    )  # fmt: skip
    assert done.returncode == 7 and "out of memory" in done.stderr
    assert rundir.read_manifest(tmp_path / "run")["status"] == "oom"


@pytest.mark.parametrize(("status", "ran"), [("oom", ["timing", "memory"]), ("failed", ["timing"])])
def test_when_memory_runs_out_the_memory_pass_still_says_where_it_went(
    status: str, ran: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def run_pass(request: Any, listener: Any) -> tuple[dict[str, Any], None]:
        seen.append(request.pass_name)
        return {"status": status, "message": "why"}, None

    monkeypatch.setattr(session, "_run_pass", run_pass)
    with pytest.raises(RunError, match="pass timing: why"):
        session.collect(from_dict({"profiler": "timing,torch,nsys,memory"}), tmp_path / "run")
    assert seen == ran and rundir.read_manifest(tmp_path / "run")["status"] == status


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--model", "no/such"], 3, "--model no/such is not in the hub's cache"),
        (["--model", "./none"], 3, "no such --model: ./none"),
        (["--model", "{folder}"], 3, "a folder without a config.json"),
        (["--data", "none.jsonl"], 3, "no such file"),
        (["--data", "{chat}"], 3, "chat.jsonl, record 2, turn 1: content is missing"),
        (["--data", "{text}"], 3, "text.jsonl, line 1 is not JSON"),
        (["--data", "{nothing}"], 3, "nothing.jsonl holds no records"),
        (["--data", "{folder}"], 3, "neither a .jsonl nor a folder that datasets' save_to_disk wrote"),
        (["--device", "cuda:99"], 2, "lorabench doctor"),
        pytest.param(
            ["--no-pin-memory", "--device", "auto"],
            2,
            "copies of batches to a GPU, and this run has none; leave it out",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"),
        ),
        pytest.param(
            ["--cuda-graph", "--device", "auto"],
            2,
            "this run has none; leave it out",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"),
        ),
    ],
)
@pytest.mark.parametrize("more", [[], ["--dry-run"]], ids=["run", "dry"])
def test_what_is_not_there_is_said_before_a_run_begins(
    tmp_path: Path, words: list[str], code: int, says: str, more: list[str], run_command: Callable[..., Ended],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "empty").mkdir()
    texts = {"chat": '{"text": "to be"}\n\n{"messages": [{"role": "user"}]}\n', "text": "to be\n", "nothing": "\n"}
    for name, text in texts.items():
        (tmp_path / f"{name}.jsonl").write_text(text, "utf-8")
    files = {name: tmp_path / f"{name}.jsonl" for name in texts}
    words = [word.format(folder=tmp_path / "empty", **files) for word in words]
    done = run_command("collect", "-o", tmp_path / "empty" / "run", *SMALL, *words, *more, code=code)
    assert says in done.stderr and not list((tmp_path / "empty").iterdir()) and not done.stdout


def test_a_dry_run_knows_the_layers_of_a_configuration_that_is_here(
    tmp_path: Path, run_command: Callable[..., Ended]
) -> None:
    shape = {"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
             "num_attention_heads": 2, "vocab_size": 64}  # fmt: skip
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(shape), "utf-8")
    for model in ("tiny", tmp_path / "model"):
        dry = ["collect", "--dry-run", "--model", model, "--target-modules"]
        assert "no layer is named foo; closest are q_proj" in run_command(*dry, "foo", code=2).stderr
        assert json.loads(run_command(*dry, "q_proj").stdout)["target_modules"] == "q_proj"
    (tmp_path / "model" / "config.json").write_text("{}", "utf-8")
    assert "cannot load --model" in run_command(*dry, "q_proj", code=3).stderr


@pytest.mark.long
def test_a_pass_that_cannot_begin_is_explained(tmp_path: Path, run_command: Callable[..., Ended]) -> None:
    asked = ("--target-modules", "nosuch", "--profiler", "timing")
    done = run_command("collect", "-o", tmp_path / "run", *SMALL, *asked, code=7)
    assert "no layer is named nosuch" in done.stderr and "the run is kept in" in done.stderr


def test_without_nsys_the_run_is_complete_and_says_so(
    tmp_path: Path, run_command: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LORABENCH_NSYS", "")
    done = run_command("collect", "-o", tmp_path / "run", *SMALL, "--profiler", "nsys")
    assert "pass nsys: skipped: nsys is not installed" in done.stderr
    assert rundir.read_manifest(tmp_path / "run")["status"] == "ok"


SCRIPT = """
import sys, torch, lorabench
from torch import nn
model = nn.Sequential(nn.Linear(8, 4), nn.ReLU())
lorabench.annotate(model, root="model")
for step in range(int(sys.argv[1])):
    with lorabench.span("step", step):
        model(torch.ones(2, 8)).sum().backward()
"""


@pytest.mark.long
def test_any_python_command_is_profiled(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT, "utf-8")
    collect(tmp_path / "run", "--profiler", "torch,nsys,memory", "--", sys.executable, tmp_path / "train.py", 4)
    manifest = rundir.read_manifest(tmp_path / "run")
    assert manifest["command"][-1] == "4"
    sources = {"trace.json.gz", "memory.json.gz"} | ({"run.sqlite"} if tools.find() else set())
    assert sources <= set(manifest["files"])
    for name in sources:
        with opened(tmp_path / "run" / name, db=tmp_path / f"{name}.duckdb") as database:
            seen = dict(database.rows("select path, range_cnt from range_summary where kind = 'annotation'"))
            ((allocations,),) = database.rows("select count(*) from memory_event")
        assert bool(allocations) == name.startswith("memory")
        modules = ("model", "model/0", "model/1")
        ranges = ("step", "step/backward", *(f"step{phase}/{m}" for phase in ("", "/backward") for m in modules))
        assert seen == dict.fromkeys(ranges, 4)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([sys.executable, "-c", "1/0"], "exit code 1: ZeroDivisionError"),
        (["nosuchprogram"], "cannot start nosuchprogram"),
    ],
)
def test_a_command_that_fails_is_kept_with_its_output(tmp_path: Path, words: list[str], says: str) -> None:
    done = collect(tmp_path / "run", "--", *words, code=7)
    assert says in done.stderr
    assert rundir.read_manifest(tmp_path / "run")["status"] == "failed"


def test_runs_stand_side_by_side(run: Path, tmp_path: Path, run_command: Callable[..., Ended]) -> None:
    done = run_command("compare", run, run, "--json")
    rows = {r["measure"]: r for r in json.loads(done.stdout)}
    assert rows["matrix products a step"][f"{run} (2) Δ"] == 0
    for bad, says in ((tmp_path / "empty", "a folder without traces"), (tmp_path / "nowhere", "no such file")):
        (tmp_path / "empty").mkdir(exist_ok=True)
        assert says in run_command("compare", run, bad, code=3).err


@pytest.mark.slow
def test_several_runs_are_one_page(run: Path, tmp_path: Path, run_command: Callable[..., Ended]) -> None:
    shutil.copytree(run, tmp_path / "other")
    run_command("report", run, tmp_path / "other", "-o", tmp_path / "p.html")
    text = (tmp_path / "p.html").read_text("utf-8")
    assert "What the runs measured" in text and f"other against {run.name}" in text


def test_the_doctor_says_which_passes_will_run(run_command: Callable[..., Ended]) -> None:
    done = run_command("doctor", "--json")
    found: dict[str, Any] = {r["what"]: r for r in json.loads(done.stdout)}
    assert found["torch"]["state"] == "ok"
    assert found["pass timing"]["state"] == "ok"
    assert found["pass nsys"]["state"] == ("missing" if tools.find() is None else found["nsys"]["state"])
    assert all(r["advice"] for r in found.values() if r["state"] == "missing")
