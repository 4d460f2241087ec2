"""--trainer sft and what it sets, --loss, --batch, memory as NVML counts it."""

import csv
import ctypes
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

import torch.nn.functional as F  # noqa: E402
from lorabench import rundir  # noqa: E402
from lorabench.collect.batch_lora.wrapping import losses as losses_of  # noqa: E402
from lorabench.collect.run import measure, nvml, preflight, stats  # noqa: E402
from lorabench.collect.settings.spec import from_dict  # noqa: E402
from lorabench.collect.workload import head_loss, optimizers  # noqa: E402
from lorabench.collect.workload.data import IGNORED  # noqa: E402
from lorabench.collect.workload.training import Trainer  # noqa: E402
from lorabench.errors import InputError, ToolError, UsageError  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
CPU = torch.device("cpu")
SMALL = {"model": "tiny", "seq_len": 16, "batch_size": 2, "device": "cpu"}


def train(steps: int = 3, **settings: Any) -> list[float]:
    trainer = Trainer(from_dict({**SMALL, **settings}), CPU)
    return [v for tasks in trainer.iterations(0, steps) for t in tasks for v in trainer.run(t).losses.tolist()]


def test_sft_is_a_set_of_values_that_options_overrule() -> None:
    spec = from_dict({"trainer": "sft", "lr-schedule": "cosine", "batch_size": 3})
    assert (spec.steps, spec.warmup, spec.batch_size, spec.grad_accum) == (20, 0, (3,), (4,))
    assert (spec.optimizer, spec.lr_schedule, spec.lr_warmup_steps) == ("adamw-8bit", "cosine", 5)
    assert from_dict(spec.as_dict()) == spec


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
@pytest.mark.parametrize("warmup", [0, 3])
def test_schedules_are_those_of_transformers(schedule: str, warmup: int) -> None:
    from transformers import get_scheduler

    name = "constant_with_warmup" if schedule == "constant" else schedule
    given = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1)
    theirs = get_scheduler(name, given, num_warmup_steps=warmup, num_training_steps=10)
    for step in range(11):
        assert optimizers.rate_factor(schedule, warmup, 10, step) == pytest.approx(theirs.get_last_lr()[0], abs=1e-12)
        given.step()
        theirs.step()


def test_a_step_is_taken_with_its_learning_rate() -> None:
    trainer = Trainer(from_dict({**SMALL, "steps": 8, "lr_schedule": "linear", "lr_warmup_steps": 2}), CPU)
    seen = []
    for tasks in trainer.iterations(0, 10):
        trainer.run(tasks[0])
        seen.append(trainer.optimizers["adapter_0"].param_groups[0]["lr"] / 2e-4)
    assert seen == pytest.approx([0, 0.5, *(1 - n / 8 for n in range(8))])


def test_weight_decay_is_the_optimizers() -> None:
    made = {rate: Trainer(from_dict({**SMALL, "weight_decay": rate}), CPU).optimizers["adapter_0"] for rate in (0, 0.1)}
    assert {rate: o.param_groups[0]["weight_decay"] for rate, o in made.items()} == {0: 0, 0.1: 0.1}


def test_8bit_adamw_trains_here_as_adamw_does() -> None:
    settings = {"learning_rate": 1e-3, "dropout": 0, "target_modules": "all-linear", "rank": 64}
    found, expected = train(**settings, optimizer="adamw-8bit"), train(**settings)
    assert found == pytest.approx(expected, rel=1e-3) and found[0] == expected[0]
    trainer = Trainer(from_dict({**SMALL, **settings, "optimizer": "adamw-8bit"}), CPU)
    trainer.run(next(trainer.iterations(0, 1))[0])
    states = trainer.optimizers["adapter_0"].state.values()
    assert any(state["state1"].dtype == torch.uint8 for state in states)


@pytest.mark.parametrize("optimizer", ["adamw-fused", "adamw-foreach"])
def test_the_kinds_of_adamw_make_the_same_steps(optimizer: str) -> None:
    settings: dict[str, Any] = {"learning_rate": 1e-2, "lora_cnt": 2, "dropout": 0}
    assert train(5, **settings, optimizer=optimizer) == pytest.approx(train(5, **settings), rel=1e-5)
    made = Trainer(from_dict({**SMALL, "optimizer": optimizer}), CPU).optimizers["adapter_0"]
    assert made.defaults[optimizer.removeprefix("adamw-")] is True


def test_attention_computes_the_same_however_it_is_implemented() -> None:
    losses = {name: train(3, dropout=0, lengths="uniform", attention=name) for name in ("auto", "eager", "sdpa")}
    assert losses["eager"] == pytest.approx(losses["sdpa"], rel=1e-5) and losses["auto"] == losses["sdpa"]
    model = Trainer(from_dict({**SMALL, "attention": "eager"}), CPU).model
    assert model.config._attn_implementation == "eager"


@pytest.mark.parametrize(
    "settings", [{"packing": True, "lengths": "uniform"}, {"dtype": "float32"}, {"device": "cpu"}], ids=str
)
def test_flash_attention_is_refused_where_it_cannot_compute(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"--attention flash .*use sdpa"):
        from_dict({"attention": "flash"} | settings)


def test_packed_sequences_are_kept_apart_by_every_attention() -> None:
    losses = [train(3, dropout=0, packing=True, lengths="uniform", attention=name) for name in ("sdpa", "eager")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_flash_attention_without_its_package_is_one_line() -> None:
    with pytest.raises(ToolError, match="--attention flash needs the package flash-attn"):
        preflight._check_wanted_packages(from_dict({"attention": "flash"}))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_the_chunked_loss_and_its_gradients_are_those_of_cross_entropy(chunk: int, bias: bool) -> None:
    torch.manual_seed(0)
    targets = torch.randint(0, 50, (23,))
    targets[::5] = IGNORED
    scale = torch.rand(23)
    found = []
    for kind in ("full", "chunked"):
        torch.manual_seed(1)
        hidden = torch.randn(23, 8, requires_grad=True)
        weight = torch.randn(50, 8, requires_grad=True)
        offset = torch.randn(50, requires_grad=True) if bias else None
        if kind == "full":
            each = F.cross_entropy(F.linear(hidden, weight, offset), targets, ignore_index=IGNORED, reduction="none")
        else:
            each = head_loss.ChunkedCrossEntropy.apply(hidden, weight, offset, targets, chunk)
        (each * scale).sum().backward()
        found.append([each.detach(), hidden.grad, weight.grad, *([offset.grad] if offset is not None else [])])
    for full, chunked in zip(*found, strict=True):
        torch.testing.assert_close(chunked, full, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("settings", [{}, {"method": "full"}, {"lora_cnt": 2, "peft_mode": "batch"}, {"quant": "nf4"}])
def test_training_with_the_chunked_loss_is_training_with_the_full_one(settings: dict[str, Any]) -> None:
    assert train(**settings, loss="chunked") == pytest.approx(train(**settings), rel=2e-6)


def test_the_chunked_loss_never_has_all_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    """With every tensor of a step counted: the largest is a chunk's logits, not the batch's."""
    from torch.utils._python_dispatch import TorchDispatchMode

    monkeypatch.setattr(head_loss, "CHUNK_TOKENS", 8)

    class Largest(TorchDispatchMode):
        most = 0

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = function(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor) and out.shape[-1:] == (256,) and out.shape != (64, 256):  # the head's
                self.most = max(self.most, out.numel())
            return out

    most = {}
    for loss in ("full", "chunked"):
        trainer = Trainer(from_dict({**SMALL, "loss": loss}), CPU)
        with Largest() as seen:
            trainer.run(next(trainer.iterations(0, 1))[0])
        most[loss] = seen.most
    assert most["full"] >= 2 * 15 * 256 and most["chunked"] == 8 * 256


def test_the_head_that_is_computed_again_is_counted() -> None:
    counted = {}
    for loss in ("full", "chunked"):
        trainer = Trainer(from_dict({**SMALL, "loss": loss, "gradient_checkpointing": "none"}), CPU)
        counted[loss] = measure.arithmetic(trainer.model, "none", trainer.adapter_flop(), loss).of(1, 0, None)
    assert counted["chunked"] - counted["full"] == 2 * 64 * 256


def test_cut_cross_entropy_needs_its_package_and_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "find_spec", lambda name: None)
    with pytest.raises(ToolError, match="pip install cut-cross-entropy; --loss chunked needs none"):
        preflight._check_wanted_packages(from_dict({"loss": "cut"}))
    with pytest.raises(UsageError, match="--loss cut needs a GPU"):
        train(loss="cut")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_under_autocast_the_chunked_loss_computes_the_same_products_again(dtype: str) -> None:
    settings = {
        "model": "tiny",
        "device": "cpu",
        "seq_len": 16,
        "dtype": dtype,
        "autocast": "bfloat16",
        "optimizer": "sgd",
    }
    found = []
    for loss in ("full", "chunked"):
        trainer = Trainer(from_dict(settings | {"loss": loss}), torch.device("cpu"), with_ranges=False)
        done = [trainer.run(task) for tasks in trainer.iterations(0, 3) for task in tasks]
        found.append([value for d in done for value in d.losses.tolist()])
    assert found[0] == pytest.approx(found[1], rel=1e-2)


def test_a_model_that_scales_its_logits_is_refused() -> None:
    trainer = Trainer(from_dict(SMALL), CPU)
    trainer.base.config.final_logit_softcapping = 30.0
    with pytest.raises(UsageError, match="logits are changed by final_logit_softcapping"):
        head_loss.HeadLoss(trainer.base, "chunked")


def batch_file(folder: Path, name: str = "batch.pt", **tensors: Any) -> Path:
    path = folder / name
    batch = {"input_ids": torch.arange(3 * 9).view(3, 9), "attention_mask": torch.ones(3, 9, dtype=torch.int64)}
    batch = {key: value for key, value in (batch | tensors).items() if value is not None}
    if path.suffix == ".safetensors":
        import safetensors.torch

        safetensors.torch.save_file(batch, path)
    else:
        torch.save(batch, path)
    return path


@pytest.mark.parametrize("name", ["batch.pt", "batch.safetensors"])
@pytest.mark.parametrize("mode", ["switch", "batch"])
def test_a_saved_batch_is_that_of_every_step(name: str, mode: str, tmp_path: Path) -> None:
    labels = torch.arange(3 * 9).view(3, 9).masked_fill(torch.arange(9) > 6, IGNORED)
    path = batch_file(tmp_path, name, labels=labels)
    settings = {"model": "tiny", "device": "cpu", "dropout": 0, "lora_cnt": 2, "peft_mode": mode, "batch": str(path)}
    trainer = Trainer(from_dict(settings), CPU)
    done = [trainer.run(task) for tasks in trainer.iterations(0, 2) for task in tasks]
    assert all(d.tokens[a.name] == (27, 27, 18) for d in done for a in d.task.adapters)
    with torch.no_grad():
        before = Trainer(from_dict(settings), CPU)
        (expected,) = losses_of(before.base(torch.arange(27).view(3, 9)).logits, labels, [3])
    if mode == "switch":
        assert done[0].losses.item() == pytest.approx(expected.item(), rel=1e-6)
    assert done[-1].losses[-1] < done[0].losses[0]


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("was-here",)


@pytest.mark.parametrize(
    ("tensors", "says"),
    [
        ({"input_ids": None}, "is not a batch"),
        ({"input_ids": torch.full((3, 9), 256)}, "must be below the vocabulary of 256"),
        ({"input_ids": torch.rand(3, 9)}, "are whole numbers"),
        ({"input_ids": torch.zeros(3, 4000, dtype=torch.int64), "attention_mask": None}, "above the 2048 positions"),
        ({"attention_mask": torch.ones(3, 8)}, "are whole numbers"),
        ({"attention_mask": torch.ones(3, 8, dtype=torch.int64)}, "of the same shape"),
        ({"labels": torch.zeros(3, dtype=torch.int64)}, "labels must be"),
        ({"labels": torch.full((3, 9), IGNORED)}, "nothing to train"),
        ({"labels": "abc"}, "is not a batch"),
        ({"input_ids": Evil()}, "holds more than tensors"),
    ],
)
def test_a_file_that_is_no_batch_of_this_model_is_refused(
    tensors: Any, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = batch_file(tmp_path, **tensors)
    with pytest.raises(InputError, match=says):
        Trainer(from_dict({"model": "tiny", "device": "cpu", "batch": str(path)}), CPU)
    assert not Path("was-here").exists()


def test_a_batch_file_that_is_not_one_at_all(tmp_path: Path) -> None:
    for name, content in (("x.pt", b"hello"), ("x.safetensors", b"hello"), ("y.pt", pickle.dumps([1]))):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match="--batch"):
            Trainer(from_dict({"model": "tiny", "device": "cpu", "batch": str(tmp_path / name)}), CPU)
    with pytest.raises(InputError, match="no such file"):
        preflight.check([from_dict({"batch": "none.pt"})])


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"batch": "x.pt", "seq_len": 7}, "--seq-len is that of --batch"),
        ({"batch": "x.pt", "batch_size": 7}, "--batch-size is that of --batch"),
        ({"weight_decay": 0.1, "optimizer": "sgd"}, "applies to the kinds of adamw, not to sgd"),
        ({"weight_decay": -1}, "--weight-decay must be at least 0"),
        ({"loss": "chunked", "model": "distilbert"}, "a classifier has few"),
        ({"lr_schedule": "step"}, "one of constant, linear, cosine"),
        ({"trainer": "trl"}, "one of plain, sft"),
    ],
)
def test_settings_that_contradict_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        from_dict(settings)


@pytest.mark.long
def test_sft_leaves_the_metrics_that_its_scripts_print(tmp_path: Path) -> None:
    words = ("--trainer", "sft", "--steps", "4", "--seq-len", "16", "--profiler", "timing", "--device", "cpu")
    done = subprocess.run(
        [sys.executable, "-m", "lorabench", "collect", "-o", tmp_path / "run", *words],
        env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = rundir.read_stats(tmp_path / "run")
    rows = list(csv.DictReader((tmp_path / "run" / rundir.STEPS).read_text("utf-8").splitlines()))
    seconds = sum(int(r["wall_ns"]) for r in rows) / 1e9
    assert found["train_runtime"] == pytest.approx(seconds) and found["steps"] == len(rows) == 4
    assert found["train_samples_per_second"] == pytest.approx(4 * 2 * 4 / seconds)
    assert found["train_steps_per_second"] == pytest.approx(4 / seconds)
    assert found["train_loss"] == pytest.approx(sum(float(r["loss"]) for r in rows) / 4)
    assert found["tokens"] == 4 * 2 * 4 * 16 and found["peak_reserved_gb"] is None
    assert "train_runtime " in done.stderr and "peak_reserved" not in done.stderr


def test_reserved_memory_is_shown_as_parts_of_the_device() -> None:
    step = {"wall_ns": 1_000_000_000, "tokens": {"a": [8, 6, 5]}, "adapters": ["a"], "losses": {"a": 2.0}, "rows": 2}
    steps = [{"step": number, **step} for number in range(2)]
    memory = {"load": {"reserved_bytes": 2_000_000_000}, "steps": {"peak_reserved_bytes": 5_000_000_000}}
    timing = {"steps": steps, "memory": memory, "device": {"memory_bytes": 20_000_000_000}}
    found = stats.of(from_dict({"steps": 2}), timing)
    assert (found["start_reserved_gb"], found["peak_reserved_gb"]) == (2, 5)
    assert (found["peak_reserved_for_training_gb"], found["peak_reserved_percent"]) == (3, 25)
    assert found["peak_reserved_for_training_percent"] == 15
    assert (found["train_runtime"], found["samples"], found["tokens"], found["trained_tokens"]) == (2, 4, 12, 10)


class Driver:
    """libnvidia-ml as far as it is asked."""

    def nvmlDeviceGetHandleByUUID(self, name: bytes, handle: Any) -> int:
        return 0 if name == b"GPU-12-ab" else 6

    def nvmlDeviceGetMemoryInfo(self, handle: Any, memory: Any) -> int:
        ctypes.cast(memory, ctypes.POINTER(ctypes.c_ulonglong))[2] = 123
        return 0


def test_nvml_is_asked_for_the_gpu_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "_library", Driver)
    assert nvml.used_bytes("12-ab") == nvml.used_bytes("GPU-12-ab") == 123
    assert nvml.used_bytes("other") is None
    monkeypatch.setattr(nvml, "_library", lambda: None)
    assert nvml.used_bytes("12-ab") is None


def test_without_a_gpu_nvml_is_not_measured() -> None:
    memory = measure.Memory(CPU)
    with memory.phase("x"):
        pass
    assert memory.phases["x"]["nvml_used_bytes"] is None
