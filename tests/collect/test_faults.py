"""What went wrong on people's machines: each ends in one line that says what and where, in seconds."""

import errno
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("peft")

from lorabench import rundir  # noqa: E402
from lorabench.collect.processes import nsys_profile  # noqa: E402
from lorabench.collect.processes.supervision import last_words  # noqa: E402
from lorabench.collect.run import child, workers  # noqa: E402
from lorabench.collect.settings.spec import from_dict  # noqa: E402
from lorabench.collect.workload.data import Source  # noqa: E402
from lorabench.collect.workload.training import Trainer  # noqa: E402
from lorabench.errors import InputError, LorabenchError, ToolError, UsageError  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
SMALL = {"model": "tiny", "seq_len": 16, "batch_size": 2, "steps": 2, "warmup": 1, "device": "cpu"}
CPU = torch.device("cpu")


def trainer(**settings: Any) -> Trainer:
    return Trainer(from_dict({**SMALL, **settings}), CPU)


def losses(of: Trainer) -> list[float]:
    return [loss for tasks in of.iterations(0, 2) for task in tasks for loss in of.run(task).losses.tolist()]


def collect(folder: Path, *words: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    settings = [w for name, value in SMALL.items() for w in (f"--{name.replace('_', '-')}", str(value))]
    return subprocess.run(
        [sys.executable, "-m", "lorabench", "collect", "--no-report", "-o", str(folder), *settings, *words],
        env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False, **options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Saved models with random weights: a DistilBERT and a BERT with three classes, a DistilBERT without, a GPT-2."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSequenceClassification

    folder = tmp_path_factory.mktemp("models")
    bert = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 128}
    distilbert = {"dim": 64, "n_layers": 1, "n_heads": 4, "hidden_dim": 128}
    for name, settings in (("bert", bert), ("distilbert", distilbert)):
        config = AutoConfig.for_model(name, vocab_size=256, num_labels=3, **settings)
        AutoModelForSequenceClassification.from_config(config).save_pretrained(folder / name)
    config = AutoConfig.for_model("distilbert", vocab_size=256, **distilbert)
    AutoModelForMaskedLM.from_config(config).save_pretrained(folder / "masked")
    config = AutoConfig.for_model("gpt2", n_embd=64, n_layer=1, n_head=4, vocab_size=256, n_positions=64)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder / "gpt2")
    return folder


@pytest.mark.parametrize(
    ("targets", "says"),
    [
        ("q_porj,v_proj", "no layer is named q_porj; closest are q_proj"),
        ("mlp", "mlp is a LlamaMLP, not a layer with weights; it holds gate_proj, up_proj, down_proj"),
        ("q_proj,all-linear", "no layer is named all-linear"),
    ],
)
def test_a_target_that_is_no_layer_is_refused_though_another_is_one(targets: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        trainer(target_modules=targets)


@pytest.mark.parametrize("settings", [{}, {"method": "qlora"}, {"quant": "int8"}, {"target_modules": "all-linear"}])
@pytest.mark.parametrize("model", ["bert", "distilbert", "masked"])
def test_a_classifier_from_a_folder_is_trained_head_and_all(
    model: str, settings: dict[str, Any], folders: Path
) -> None:
    made = trainer(**settings, model=str(folders / model), lora_cnt=2)
    assert all(0.5 < loss < 2 for loss in losses(made))
    names = {id(p): n for n, p in made.model.named_parameters()}
    for adapter in made.adapters:
        trained = {names[id(p)] for p in made.parameters(adapter) if p.is_floating_point()}
        assert any(f"classifier.modules_to_save.{adapter.name}.weight" in n for n in trained)
        assert any("lora_A" in n for n in trained)


def test_all_linear_fits_the_classifier_presets() -> None:
    assert len(losses(trainer(model="tiny-distilbert", target_modules="all-linear", lora_cnt=2))) == 4


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"seq_len": 65}, "--seq-len 65 is above the 64 positions of"),
        ({"gradient_checkpointing": "attn-mlp"}, "has not both self_attn and mlp"),
        ({"target_modules": "q_proj"}, "no layer is named q_proj; closest are c_proj"),
    ],
)
def test_what_a_model_cannot_do_is_refused(settings: dict[str, Any], says: str, folders: Path) -> None:
    with pytest.raises(UsageError, match=says):
        trainer(**settings, model=str(folders / "gpt2"))


def test_the_attention_of_gpt2_has_names_of_its_own(folders: Path) -> None:
    names = dict(trainer(model=str(folders / "gpt2")).model.named_modules())
    assert any(n.endswith("attn.c_proj.lora_A") for n in names)
    assert not any(n.endswith("mlp.c_proj.lora_A") for n in names)


@pytest.mark.parametrize(
    ("record", "classes", "says"),
    [
        ({"input_ids": [1, 2, 3], "labels": [7, -100, -100]}, None, "record 2 has nothing to train: all its labels"),
        ({"input_ids": [1] * 20, "labels": [-100] * 16 + [1] * 4}, None, "within --seq-len 16 are -100"),
        ({"input_ids": [1, 2, 3], "labels": [1, 2, 999]}, None, "labels must be a list of whole numbers below"),
        ({"input_ids": [1, 2, 3], "labels": "abc"}, None, "labels must be a list"),
        ({"input_ids": [1, 2, 3], "labels": [1]}, None, "differ in length"),
        ({"input_ids": 5}, None, "input_ids must be a list"),
        ({"input_ids": [1, 2.5]}, None, "input_ids must be a list"),
        ({"text": "x"}, 2, "label must be a class below 2, not None"),
        ({"text": "x", "label": 7}, 2, "label must be a class below 2, not 7"),
        ({"text": "x", "label": "good"}, 2, "label must be a class below 2, not 'good'"),
    ],
)
def test_data_that_cannot_be_trained_is_refused_with_its_row(
    record: dict[str, Any], classes: int | None, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "data.jsonl"
    good = {"input_ids": [1, 2, 3], "label": 1}
    path.write_text(f"{json.dumps(good)}\n{json.dumps(record)}\n", "utf-8")
    with pytest.raises(InputError, match="record 2.*" + says.removeprefix("record 2")):
        Source(from_dict({**SMALL, "data": str(path)}), 256, classes).stream("adapter_0", 2)


@pytest.mark.slow
def test_a_run_whose_loss_is_no_number_failed_and_says_which(tmp_path: Path) -> None:
    done = collect(tmp_path / "run", "--profiler", "timing,torch", "--lora-cnt", "2", "--learning-rate", "1e-4,1e30")
    assert done.returncode == 7 and "training diverged: the loss of adapter_1 is nan at step 1" in done.stderr
    manifest = rundir.read_manifest(tmp_path / "run")
    assert manifest["status"] == "failed" and list(manifest["passes"]) == ["timing"]
    assert rundir.read_summary(tmp_path / "run")["loss"]["adapter_1"] == {"first": None, "last": None}


@pytest.mark.parametrize(
    ("dtype", "advice"),
    [
        ("torch.float32", "try a lower --learning-rate"),
        ("torch.bfloat16", "try a lower --learning-rate, or --dtype float32"),
        ("torch.float16", "try a lower --learning-rate, or --dtype bfloat16 or float32"),
    ],
)
def test_losses_that_are_no_numbers_are_not_advised_the_type_that_the_run_has(dtype: str, advice: str) -> None:
    said = child._diverged([{"losses": {"adapter_0": float("nan")}, "step": 3}], dtype)
    assert said is not None and said.endswith(f"at step 3; {advice}")


@pytest.mark.slow
def test_a_full_disk_is_said_in_one_line(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

    done = collect(tmp_path / "run", "--profiler", "torch", preexec_fn=limit)
    assert done.returncode in (5, 7) and "cannot write" in done.stderr and "make room" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Traceback" not in (tmp_path / "run" / "logs" / "torch.log").read_text("utf-8")


def test_a_disk_that_has_no_room_for_the_result_is_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(request: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    request = child.Request(from_dict(SMALL), "timing", tmp_path, None)
    request.result_path.mkdir()  # cannot be written either
    monkeypatch.setattr(child, "_measure", measure)
    monkeypatch.setattr("sys.argv", ["child", str(request.save())])
    with pytest.raises(SystemExit) as ended:
        child.main()
    said = str(ended.value)
    assert "Is a directory" in said and last_words(["lorabench: step 1", said]) == said


READY = "print('ready', flush=True); input(); "
GOOD = READY + "import json, sys; open(sys.argv[1], 'w').write(json.dumps({'status': 'ok', 'steps': []}))"
WAITS = READY + "import time; time.sleep(60)"
SAYS = READY + "import json, sys; json.dump({'status': 'STATUS', 'message': 'no luck'}, open(sys.argv[1], 'w'))"


def crew(folder: Path, *programs: str) -> list[workers.Worker]:
    return [
        workers.Worker(f"adapter_{n}", [sys.executable, "-c", text, str(folder / f"{n}.json")], folder / f"{n}.json")
        for n, text in enumerate(programs)
    ]


@pytest.mark.parametrize(
    ("bad", "kind", "says"),
    [
        ("raise SystemExit(3)", LorabenchError, "the process of adapter_1 died with exit code 3"),
        ("import os; os.kill(os.getpid(), 9)", LorabenchError, "the process of adapter_1 died by signal SIGKILL"),
        (READY + "raise SystemExit(4)", LorabenchError, "the process of adapter_1 died with exit code 4"),
        (SAYS.replace("STATUS", "failed"), LorabenchError, "adapter_1: no luck"),
        (SAYS.replace("STATUS", "oom"), MemoryError, "adapter_1: no luck"),
    ],
)
def test_when_a_worker_dies_all_end_and_it_is_named(bad: str, kind: type, says: str, tmp_path: Path) -> None:
    start = time.monotonic()
    with pytest.raises(kind, match=says):
        workers.run(crew(tmp_path, WAITS, bad, WAITS), "ready", "go")
    assert time.monotonic() - start < 20  # the others would take a minute


@pytest.mark.slow
def test_of_ranks_the_one_is_named_that_the_others_lost(tmp_path: Path) -> None:
    lost = SAYS.replace("STATUS", "failed").replace("no luck", "RuntimeError: Connection closed by peer [127.0.0.1]:1")
    dies = READY + "import os, time; time.sleep(2); os.kill(os.getpid(), 9)"
    with pytest.raises(LorabenchError, match="the process of adapter_1 died by signal SIGKILL"):
        workers.run(crew(tmp_path, lost, dies, WAITS), "ready", "go", patience_s=8)


def test_workers_that_end_well_are_waited_for(tmp_path: Path) -> None:
    workers.run(crew(tmp_path, GOOD, GOOD), "ready", "go")
    assert len(list(tmp_path.iterdir())) == 2


def fake_nsys(path: Path, version: str, does: str) -> None:
    """A program that says which nsys it is and does something else when it is to record."""
    says = f'[ "$1" = --version ] && {{ echo "NVIDIA Nsight Systems version {version}"; exit; }}'
    path.write_text(f"#!/bin/sh\n{says}\n{does}", encoding="utf-8")
    path.chmod(0o755)


@pytest.mark.parametrize(("version", "tells"), [("2022.4.2.1", True), ("2021.3.1", False)])
def test_kernels_of_cuda_graphs_are_recorded_where_nsys_can(
    version: str, tells: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_nsys(tmp_path / "nsys", version, f'echo "$@" > {tmp_path}/words\nexit 7\n')
    monkeypatch.setattr(nsys_profile, "usable", lambda: str(tmp_path / "nsys"))
    log = tmp_path / "log"
    nsys_profile.profile(["true"], dict(os.environ), tmp_path / "run", log, 30.0, lambda line: None, False)
    assert ("--cuda-graph-trace=node" in (tmp_path / "words").read_text("utf-8").split()) is tells


@pytest.mark.parametrize(
    ("says", "attempts"),
    [
        ("Connection reset by peer", 3),
        ("End of file", 3),
        ("ConnectionResetError: [Errno 104] Connection reset by peer", 1),
        ("EOFError: End of file while reading rows.json", 1),
    ],
)
def test_nsys_that_loses_its_agent_is_tried_again_and_a_command_that_fails_is_not(
    says: str, attempts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool, log = tmp_path / "nsys", tmp_path / "log"
    fake_nsys(tool, "2024.2.3", f"echo begun >> {tmp_path}/calls\necho '{says}'\nexit 1\n")
    monkeypatch.setattr(nsys_profile, "usable", lambda: str(tool))
    arguments = (["true"], dict(os.environ), tmp_path / "run", log, 30.0, lambda line: None, False)
    if attempts == 1:
        assert nsys_profile.profile(*arguments).ended.last_words == says
    else:
        with pytest.raises(ToolError, match="nsys lost its own agent"):
            nsys_profile.profile(*arguments)
    assert (tmp_path / "calls").read_text("utf-8").split() == ["begun"] * attempts
