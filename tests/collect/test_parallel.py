"""One model on several devices trains what one process trains: real processes, float32, five steps."""

import csv
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("peft")

from lorabench import rundir  # noqa: E402
from lorabench.collect.parallel import lorapp_order  # noqa: E402
from lorabench.collect.settings import parallelism  # noqa: E402
from lorabench.collect.settings.spec import from_dict  # noqa: E402
from lorabench.collect.workload.training import Trainer  # noqa: E402
from lorabench.errors import UsageError  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
from rank_program import STEPS, train, trained_weights  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
CPU = torch.device("cpu")
PROGRAM = Path(__file__).parent / "rank_program.py"
COMMON = {"model": "tiny", "seq_len": 12, "batch_size": 8, "device": "cpu", "rank": 4, "lengths": "uniform"}
KEYS = ("parallel", "devices", "pp_schedule", "micro_batches", "balance", "overlap", "cpu_offload")

CASES: dict[str, dict[str, Any]] = {
    "ddp": {"parallel": "ddp"},
    "ddp-4-adapters": {"parallel": "ddp", "lora_cnt": 4, "rank": "2,4,4,8"},
    "ddp-seq": {"parallel": "ddp", "lora_cnt": 2, "peft_mode": "seq", "gradient_checkpointing": "none"},
    "ddp-batch": {"parallel": "ddp", "lora_cnt": 4, "peft_mode": "batch", "batch_size": "8,4,4,8"},
    "ddp-loop": {"parallel": "ddp", "lora_cnt": 2, "peft_mode": "batch", "batch_operator": "loop"},
    "ddp-nf4": {"parallel": "ddp", "lora_cnt": 2, "quant": "nf4"},
    "ddp-int8": {"parallel": "ddp", "lora_cnt": 2, "quant": "int8"},
    "ddp-accumulates": {"parallel": "ddp", "lora_cnt": 2, "grad_accum": "2,1"},
    "ddp-reentrant": {"parallel": "ddp", "lora_cnt": 2, "reentrant": True},
    "ddp-attn-mlp": {"parallel": "ddp", "gradient_checkpointing": "attn-mlp"},
    "ddp-full": {"parallel": "ddp", "method": "full"},
    "ddp-classifier": {"parallel": "ddp", "lora_cnt": 2, "model": "classifier"},
    "fsdp": {"parallel": "fsdp"},
    "fsdp-4-adapters": {"parallel": "fsdp", "lora_cnt": 4, "rank": "2,4,4,8", "batch_size": "8,4,4,8"},
    "fsdp-seq": {"parallel": "fsdp", "lora_cnt": 2, "peft_mode": "seq", "gradient_checkpointing": "none"},
    "fsdp-accumulates": {"parallel": "fsdp", "lora_cnt": 2, "grad_accum": "2,1"},
    "fsdp-offloads": {"parallel": "fsdp", "lora_cnt": 2, "cpu_offload": True},
    "fsdp-full": {"parallel": "fsdp", "method": "full"},
    "fsdp-nf4": {"parallel": "fsdp", "lora_cnt": 2, "quant": "nf4"},
    "fsdp-bfloat16": {"parallel": "fsdp", "dtype": "bfloat16"},  # adapters stay float32: two types in a unit
    "tp": {"parallel": "tp", "model": "decoder"},
    "tp-4-adapters": {"parallel": "tp", "model": "decoder", "lora_cnt": 4, "rank": "2,4,4,8"},
    # AdamW's first steps make a step of each rounding error of a gradient that is nearly 0
    "tp-all-linear": {
        "parallel": "tp", "model": "decoder", "target_modules": "all-linear", "optimizer": "sgd", "learning_rate": 0.1,
    },
    "tp-seq": {
        "parallel": "tp", "model": "decoder", "lora_cnt": 2, "peft_mode": "seq", "gradient_checkpointing": "none",
    },
    "tp-accumulates": {"parallel": "tp", "model": "decoder", "lora_cnt": 2, "grad_accum": "2,1", "dropout": 0.3},
    "gpipe": {"parallel": "pp", "model": "decoder", "pp_schedule": "gpipe"},
    "1f1b": {"parallel": "pp", "model": "decoder", "micro_batches": 8},
    "1f1b-4-adapters": {"parallel": "pp", "model": "decoder", "lora_cnt": 4, "rank": "2,4,4,8", "dropout": 0.3},
    "1f1b-seq": {
        "parallel": "pp", "model": "decoder", "lora_cnt": 2, "peft_mode": "seq", "gradient_checkpointing": "none",
    },
    "1f1b-accumulates": {"parallel": "pp", "model": "decoder", "lora_cnt": 2, "grad_accum": "2,1"},
    "1f1b-nf4": {"parallel": "pp", "model": "decoder", "lora_cnt": 2, "quant": "nf4"},
    "1f1b-int8": {"parallel": "pp", "model": "decoder", "quant": "int8"},
    "1f1b-bfloat16": {"parallel": "pp", "model": "decoder", "dtype": "bfloat16"},
    "interleaved": {"parallel": "pp", "model": "decoder", "lora_cnt": 2, "pp_schedule": "interleaved"},
    "zbv": {"parallel": "pp", "model": "decoder", "lora_cnt": 2, "pp_schedule": "zbv"},
    "zbv-kept": {"parallel": "pp", "model": "decoder", "pp_schedule": "zbv", "gradient_checkpointing": "none"},
    "lorapp": {"parallel": "lorapp", "model": "decoder"},
    "lorapp-4-adapters": {
        "parallel": "lorapp", "model": "decoder", "lora_cnt": 4, "rank": "2,4,4,8", "dropout": 0.3, "micro_batches": 2,
        "batch_size": "8,4,4,8",
    },
    "lorapp-waits": {"parallel": "lorapp", "model": "decoder", "lora_cnt": 4, "overlap": False, "micro_batches": 4},
    "lorapp-accumulates": {"parallel": "lorapp", "model": "decoder", "lora_cnt": 3, "grad_accum": "3,1,2"},
    "lorapp-nf4": {"parallel": "lorapp", "model": "decoder", "lora_cnt": 2, "quant": "nf4"},
}  # fmt: skip


ROUGH = 2e-2  # of bfloat16, which keeps three digits

# What is always tried, in one launch; all else is slow.
QUICK = frozenset({
    "ddp-batch", "fsdp-4-adapters", "tp-4-adapters", "1f1b-4-adapters", "lorapp-4-adapters",
})  # fmt: skip


def cases(*names: str) -> list[Any]:
    return [pytest.param(name, id=name, marks=() if name in QUICK else pytest.mark.long) for name in names]


@cache
def model(name: str) -> str:
    """Saved models: a decoder with more layers and heads than the preset, a classifier without dropout of its own."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification

    folder = Path(tempfile.mkdtemp(prefix="lorabench-models-")) / name
    torch.manual_seed(3)
    if name == "classifier":
        shape = {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128, "vocab_size": 256, "num_labels": 3}
        config = AutoConfig.for_model(
            "distilbert", dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0, **shape
        )
        AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
    else:
        shape = {"hidden_size": 64, "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 4}
        more = {"intermediate_size": 128, "vocab_size": 256, "max_position_embeddings": 64}
        config = AutoConfig.for_model("llama", **shape, **more)
        AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return str(folder)


def settings_of(case: dict[str, Any], devices: int) -> dict[str, Any]:
    found = COMMON | {"devices": devices} | case
    if found["model"] in ("classifier", "decoder"):
        found["model"] = model(found["model"])
    return {n: v for n, v in found.items() if found.get("method") != "full" or n != "rank"}


def launch(folder: Path, devices: int, cases: dict[str, dict[str, Any]]) -> None:
    listed = [{"name": name, "settings": settings_of(case, devices)} for name, case in cases.items()]
    asked = folder / "cases.json"
    asked.write_text(json.dumps(listed), "utf-8")
    words = [sys.executable, str(PROGRAM), str(asked)]
    started = [
        subprocess.Popen([*words, str(n), str(devices), str(folder)], env=os.environ | {"OMP_NUM_THREADS": "1"})
        for n in range(devices)
    ]
    for process in started:
        process.wait()


@pytest.fixture(scope="session")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], list[dict[str, Any]]]:
    """What each rank of a case trained. The quick cases are one launch, all others on so many devices one of a kind."""

    @cache
    def launched(kind: str, devices: int) -> Path:
        def belongs(name: str) -> bool:
            is_quick = name in QUICK and devices == 2
            return kind == ("quick" if is_quick else CASES[name]["parallel"])

        folder = tmp_path_factory.mktemp(f"{kind}{devices}")
        launch(folder, devices, {name: case for name, case in CASES.items() if belongs(name)})
        return folder

    def get(name: str, devices: int) -> list[dict[str, Any]]:
        folder = launched("quick" if name in QUICK and devices == 2 else CASES[name]["parallel"], devices)
        found = [folder / f"{name}-{n}.pt" for n in range(devices)]
        assert all(path.exists() for path in found), "a case before this one failed"
        results = [torch.load(path, weights_only=False) for path in found]
        errors = [r["error"] for r in results if "error" in r]
        assert not errors, errors[0]
        return results

    return get


@cache
def alone(settings: str) -> dict[str, Any]:
    """The same in one process."""
    spec = from_dict(json.loads(settings))
    return train(Trainer(spec, CPU, with_ranges=False))


def distance(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Of all weights as one vector, relative to its length."""
    assert one.keys() == other.keys()
    a, b = (torch.cat([weights[name].flatten() for name in sorted(weights)]) for weights in (one, other))
    return float((a - b).norm() / a.norm())


@pytest.mark.parametrize("devices", [2, pytest.param(4, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", cases(*CASES))
@pytest.mark.slow
def test_several_devices_train_what_one_trains(name: str, devices: int, ranks: Any) -> None:
    own = {n: v for n, v in settings_of(CASES[name], devices).items() if n not in KEYS}
    expected = alone(json.dumps(own))
    results = ranks(name, devices)
    is_rough = "dtype" in CASES[name]
    assert shared(results) == pytest.approx(expected["losses"], rel=ROUGH if is_rough else 5e-7)
    assert distance(expected["weights"], gathered(results)) < (ROUGH if is_rough else 1e-6)


def shared(results: list[dict[str, Any]]) -> dict[Any, float]:
    """Losses, of which each rank has a share."""
    return {key: sum(r["losses"][key] for r in results) for key in results[0]["losses"]}


def gathered(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Weights of all ranks; where several have the same one it is the same."""
    weights: dict[str, Any] = {}
    for result in results:
        for key, value in result["weights"].items():
            assert key not in weights or torch.equal(weights[key], value)
            weights[key] = value
    return weights


@pytest.mark.parametrize("name", cases(*(n for n, case in CASES.items() if case["parallel"] == "lorapp")))
@pytest.mark.slow
def test_lorapp_is_its_micro_batches_one_after_another_bit_for_bit(name: str, ranks: Any) -> None:
    settings = settings_of(CASES[name], 2)
    expected = by_micro_batches(settings)
    results = ranks(name, 2)
    assert shared(results) == expected["losses"]
    weights = gathered(results)
    assert weights.keys() == expected["weights"].keys()
    assert all(torch.equal(weights[key], value) for key, value in expected["weights"].items())


def by_micro_batches(settings: dict[str, Any]) -> dict[str, Any]:
    """One process, one adapter after another: each micro-batch forward and backward, then its optimizer."""
    parts = settings.get("micro_batches", 1)
    trainer = Trainer(from_dict({n: v for n, v in settings.items() if n not in KEYS}), CPU, with_ranges=False)
    found = {}
    for step in range(STEPS):
        for a in trainer.adapters:
            trainer.model.set_adapter(a.name)
            total = torch.zeros(())
            batches = [trainer._streams[a.name].next() for _ in range(a.grad_accum)]
            loss_cnt = sum(batch.loss_cnt() for batch in batches)
            for accumulated, batch in enumerate(batches):
                trainer.clock.micro_steps[a.name] = step * a.grad_accum + accumulated
                rows = a.batch_size // parts
                for n in range(parts):
                    trainer.clock.first_rows[a.name] = n * rows
                    part = batch.part(n * rows, (n + 1) * rows)
                    weight = part.loss_cnt() / batch.loss_cnt() * (batch.loss_cnt() / loss_cnt)
                    logits = trainer.model(input_ids=part.input_ids, attention_mask=part.attention_mask).logits
                    loss = (trainer.loss(logits, part.labels, [rows]) * torch.tensor(weight)).sum()
                    loss.backward()
                    total += loss.detach()
            trainer.optimizers[a.name].step()
            trainer.optimizers[a.name].zero_grad(set_to_none=True)
            found[step, a.name] = total.item()
    return {"losses": found, "weights": trained_weights(trainer)}


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("ddp-batch", 1),
        ("fsdp-4-adapters", 1 / 2),
        pytest.param("fsdp-nf4", 1 / 2, marks=pytest.mark.long),
        ("tp-4-adapters", 0.51),
        ("1f1b-4-adapters", 1 / 2),
        pytest.param("zbv", 1 / 2, marks=pytest.mark.long),
    ],
)
@pytest.mark.first(2)
def test_a_rank_keeps_its_part_of_the_layers(name: str, part: float, ranks: Any) -> None:
    own = {n: v for n, v in settings_of(CASES[name], 2).items() if n not in KEYS}
    whole = alone(json.dumps(own))["held"]
    numbers = 4 if name == "fsdp-nf4" else 1  # four bytes of nf4 pass for a number
    for result in ranks(name, 2):
        assert result["held"] * numbers <= part * whole * 1.02


@pytest.mark.parametrize(("adapters", "bubble"), [(1, 0.75), (2, 0.5), (3, 0.25), (4, 0.0), (6, 0.0)])
def test_adapters_fill_the_bubbles_of_each_other(adapters: int, bubble: float) -> None:
    """The published formula for 4 devices and one micro-batch, max((D - L) / D, 0), on a clock of equal stages."""
    ranks = lorapp_order.order(4, [1] * adapters, 0, 200)
    end, busy = replayed(ranks)
    assert [1 - b / end for b in busy] == pytest.approx([bubble] * 4, abs=0.02)


def replayed(ranks: list[list[Any]]) -> tuple[int, list[int]]:
    """When all actions are done, each begun as soon as its rank and its message are there; busy time of each rank."""
    ended: dict[Any, int] = {}
    free, busy, at = [0] * len(ranks), [0] * len(ranks), [0] * len(ranks)
    while any(n < len(actions) for n, actions in zip(at, ranks, strict=True)):
        before = list(at)
        for rank, actions in enumerate(ranks):
            while at[rank] < len(actions):
                kind, item = actions[at[rank]].kind, actions[at[rank]].item
                forward, cost = kind == lorapp_order.FORWARD, {"forward": 1, "backward": 2, "update": 0}[kind]
                source = (kind, item, rank - 1 if forward else rank + 1)
                is_given = kind == lorapp_order.UPDATE or rank == (0 if forward else len(ranks) - 1)
                if not is_given and source not in ended:
                    break
                start = max(free[rank], 0 if is_given else ended[source])
                free[rank] = ended[kind, item, rank] = start + cost
                busy[rank] += cost
                at[rank] += 1
        assert at != before, "a dead lock"
    return max(free), busy


def test_an_adapter_is_locked_until_its_gradients_are_back() -> None:
    counts = [3, 1, 2]
    for actions in lorapp_order.order(3, counts, 5, 4):
        done: dict[tuple[int, int], list[str]] = {}
        for action in actions:
            seen = done.setdefault((action.item.adapter, action.item.step), [])
            earlier = done.get((action.item.adapter, action.item.step - 1))
            assert earlier is None or earlier[-1] == lorapp_order.UPDATE
            seen.append(action.kind)
        for (adapter, step), kinds in done.items():
            assert 5 <= step < 9 and len(kinds) == 2 * counts[adapter] + 1
            assert kinds.count(lorapp_order.FORWARD) == kinds.count(lorapp_order.BACKWARD) == counts[adapter]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"devices": 4}, "--devices applies to --parallel ddp|fsdp|tp|pp|lorapp"),
        ({"parallel": "ddp", "micro_batches": 2}, "--micro-batches applies to --parallel pp|lorapp"),
        ({"parallel": "pp", "overlap": False}, "--overlap applies to --parallel lorapp"),
        ({"parallel": "ddp", "cpu_offload": True}, "--cpu-offload applies to --parallel fsdp"),
        ({"parallel": "lorapp", "pp_schedule": "zbv"}, "--pp-schedule applies to --parallel pp"),
        ({"parallel": "ddp", "devices": 1}, "--parallel needs 2 to 128"),
        ({"parallel": "ddp", "peft_mode": "process"}, "has processes of its own"),
        ({"parallel": "fsdp", "peft_mode": "batch", "lora_cnt": 2}, "which FSDP gathers by module"),
        ({"parallel": "lorapp", "peft_mode": "seq", "lora_cnt": 2}, "what fills its pipeline"),
        ({"parallel": "tp", "quant": "nf4"}, "its blocks are others"),
        ({"parallel": "fsdp", "quant": "int8"}, "keeps the scales of int8 inside the weight"),
        ({"parallel": "pp", "method": "full"}, "not tried with --method full, which goes with ddp and fsdp"),
        ({"parallel": "tp", "model": "tiny-distilbert"}, "is a classifier, use ddp"),
        ({"parallel": "ddp", "compile": "inductor"}, "was not tried with --parallel"),
        ({"parallel": "fsdp", "reentrant": True}, "--reentrant does not go with --parallel fsdp"),
        ({"parallel": "ddp", "batch_size": 3}, "--batch-size 3 cannot be shared equally among --devices 2"),
        ({"parallel": "lorapp", "batch_size": 8, "micro_batches": 3}, "among 3 micro-batches"),
        ({"parallel": "tp", "devices": 4}, "4 attention heads and 2 of keys cannot .* use --devices 2"),
        ({"parallel": "pp", "balance": "4,2"}, "give 2 numbers that add up to 5"),
        ({"parallel": "pp", "balance": "1,4"}, "embedding and at least one layer"),
        ({"parallel": "pp", "devices": 8, "batch_size": 8}, "2 layers, too few for 8 stages"),
        ({"parallel": "pp", "micro_batches": 1}, "needs as many --micro-batches as devices"),
        ({"parallel": "pp", "devices": 9}, "2 layers, too few for 9 stages"),
        ({"parallel": "ddp", "task": "sst2"}, "^--task sst2 was not tried with --parallel"),
        ({"parallel": "ddp", "cuda_graph": True}, "^--cuda-graph was not tried with --parallel"),
        ({"parallel": "ddp", "device": "cuda:1"}, "takes the first 2 GPUs; write --device cuda"),
        ({"parallel": "fsdp", "optimizer": "adafactor"}, "rows and columns of a whole weight"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused_with_the_reason(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says.replace("|", "[|]")):
        from_dict(settings)


def test_a_setting_that_nobody_tried_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = from_dict({"parallel": "ddp"})
    monkeypatch.setattr(parallelism, "_TRIED", parallelism._TRIED - {"seed"})
    with pytest.raises(UsageError, match="--seed 0 was not tried with --parallel"):
        parallelism.check(spec, {"parallel", "seed"})
    every = {f.name for f in dataclasses.fields(spec)}
    assert every >= parallelism._TRIED


@pytest.mark.parametrize(
    ("settings", "layer_cnt", "expected"),
    [
        ({"parallel": "pp", "devices": 4, "model": "tinyllama-1.1b"}, 22, (7, 6, 5, 7)),
        ({"parallel": "pp", "devices": 4, "model": "llama-2-7b", "balance": "9,9,9,8"}, 32, (9, 9, 9, 8)),
        ({"parallel": "pp", "devices": 2, "pp_schedule": "zbv"}, 2, (2, 1, 1, 1)),
        ({"parallel": "lorapp"}, 2, (2, 3)),
    ],
)
def test_layers_are_shared_equally_among_stages(settings: Any, layer_cnt: int, expected: Any) -> None:
    assert parallelism.balance(from_dict(settings), layer_cnt) == expected


def collect(folder: Path, *words: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "lorabench", "collect", "--no-report", "-o", folder, "--device", "cpu", *words]
    return subprocess.Popen([*map(str, command)], env=os.environ | {"OMP_NUM_THREADS": "1"}, stderr=-1, text=True)


@pytest.mark.long
def test_a_rank_that_is_killed_ends_the_run_and_is_named(tmp_path: Path) -> None:
    small = ("--parallel", "ddp", "--seq-len", 8, "--batch-size", 2, "--steps", 100_000, "--warmup", 0)
    often = ("--profiler", "torch", "--profiling-frequency", 4, "--active-steps", 1, "--repeat", 0)
    run = collect(tmp_path / "run", *small, *often)
    until(lambda: list(tmp_path.glob(".run.*.partial/trace-rank1-2.json.gz")))
    (victim,) = processes(".request-torch-rank1.json")
    os.kill(victim, signal.SIGKILL)
    start = time.monotonic()
    said = run.communicate(timeout=60)[1]
    assert time.monotonic() - start < 30  # seconds, on a busy machine
    assert run.returncode == 7 and "the process of rank1 died by signal SIGKILL" in said, said
    until(lambda: not processes(str(tmp_path)))
    manifest = rundir.read_manifest(tmp_path / "run")
    assert manifest["status"] == "failed" and "rank1 died" in manifest["message"]
    assert {"trace-rank0-1.json.gz", "trace-rank1-1.json.gz", "logs/torch.log"} <= set(manifest["files"])
    assert not list((tmp_path / "run").glob(".*"))


@pytest.mark.long
def test_of_a_timing_pass_that_is_killed_the_steps_stay(tmp_path: Path) -> None:
    small = ("--parallel", "ddp", "--seq-len", 8, "--batch-size", 2, "--steps", 100_000, "--warmup", 0)
    run = collect(tmp_path / "run", *small, "--profiler", "timing")
    until(lambda: [file for file in tmp_path.glob(".run.*.partial/.steps-timing-rank1.jsonl") if file.stat().st_size])
    (victim,) = processes(".request-timing-rank1.json")
    os.kill(victim, signal.SIGKILL)
    assert "rank1 died by signal SIGKILL" in run.communicate(timeout=60)[1]
    rows = list(csv.DictReader((tmp_path / "run" / rundir.STEPS).read_text().splitlines()))
    assert {row["rank"] for row in rows} == {"0", "1"}
    assert all(int(row["wall_ns"]) > 0 for row in rows)
    assert not list((tmp_path / "run").glob(".*"))


def until(is_so: Callable[[], Any], patience_s: float = 120) -> None:
    end = time.monotonic() + patience_s
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.1)


def processes(word: str) -> list[int]:
    """Those with a word in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if word in (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"):
                    found.append(int(entry.name))
    return found


@pytest.mark.parametrize(
    ("kind", "more", "paths"),
    [
        ("ddp", ("--lora-cnt", 2), ("run/step/forward/model/layers.0/self_attn", "run/step/backward")),
        pytest.param(
            "lorapp",
            ("--lora-cnt", 2),
            ("run/step/forward/model/layers.1/mlp", "run/step/send", "run/step/recv"),
            marks=pytest.mark.long,
        ),
        pytest.param(
            "pp",
            (),
            ("run/step/forward/loss", "run/step/backward/recompute", "run/step/send", "run/step/recv"),
            marks=pytest.mark.long,
        ),
    ],
)
@pytest.mark.slow
def test_a_run_leaves_a_trace_for_each_rank_and_the_numbers_of_all(
    kind: str, more: Any, paths: Any, tmp_path: Path, run_command: Any
) -> None:
    from conftest import opened

    folder = tmp_path / "run"
    small = ("--seq-len", 16, "--batch-size", 4, "--steps", 2, "--warmup", 1, "--profiler", "timing,torch")
    run = collect(folder, "--parallel", kind, *small, *more)
    said = run.communicate(timeout=300)[1]
    assert run.returncode == 0, said
    summary = rundir.read_summary(folder)
    assert summary["is_same_in_all_passes"] and [r["rank"] for r in summary["ranks"]] == [0, 1]
    for rank in summary["ranks"]:
        assert ({"send", "recv"} <= set(rank["phase_ns"])) == (kind != "ddp")
    rows = list(csv.DictReader((folder / rundir.STEPS).read_text("utf-8").splitlines()))
    for row in rows:
        shares = [
            float(r["loss"]) for r in rows if r["rank"] and all(r[k] == row[k] for k in ("pass", "step", "adapter"))
        ]
        assert len(shares) == 2 and (row["rank"] or float(row["loss"]) == pytest.approx(sum(shares), rel=1e-12))
    spec = {"seq_len": 16, "batch_size": 4, "device": "cpu", "lora_cnt": len(summary["loss"])}
    expected = train(Trainer(from_dict(spec), CPU, with_ranges=False), 3)["losses"]
    assert {(2, a): v["last"] for a, v in summary["loss"].items()} == pytest.approx(
        {key: v for key, v in expected.items() if key[0] == 2}, rel=5e-7
    )
    made = {
        r["path"]: int(r["range_cnt"]) for r in csv.DictReader((folder / rundir.RANGES).read_text("utf-8").splitlines())
    }
    with opened(folder) as database:
        assert database.rows("select rank from source order by rank") == [(0,), (1,)]
        if kind == "ddp":  # gloo says bytes by shapes alone
            assert database.rows("select bool_and(bytes > 0) from collective_match where operation = 'all_reduce'") == [
                (True,)
            ]
        outside = database.rows(
            "select call.name from range_instance as call where call.name in ('c10d::send', 'c10d::recv_') "
            "and not exists (from range_instance as around where around.source_id = call.source_id "
            "and around.name in ('send', 'recv') and call.start_ns between around.start_ns and around.end_ns)"
        )
        assert outside == []
        rows = database.rows("select range_id, parent_id, kind, name from range_instance")
    assert paths_of(rows, {part for path in made for part in path.split("/")}) == made and set(paths) <= set(made)
    shown = run_command("summary", folder).out
    assert f"{kind} on 2 devices: " in shown and "  rank 1: " in shown
    assert ("  bubble" in shown) is (kind != "ddp") is ("bubble_frac" in summary) and "pipeline of" not in shown


def paths_of(rows: list[Any], names: set[str]) -> dict[str, int]:
    """How often there is a range at each path of our names: torch puts its operators and ranges of its own between."""
    by_id = {number: (parent, kind == "annotation" and name in names and name) for number, parent, kind, name in rows}

    def path(number: int | None) -> str:
        found = []
        while number is not None:
            number, name = by_id[number]
            found += [name] if name else []
        return "/".join(reversed(found))

    return Counter(path(number) for number, (_, name) in by_id.items() if name)
