"""One model on several devices trains what one process trains: real processes, float32, five steps."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("peft")

from lorabench.collect.settings.spec import from_dict  # noqa: E402
from lorabench.collect.workload.training import Trainer  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
from rank_program import train  # noqa: E402

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
    """What each rank of a case trained; all cases of a kind on so many devices are one launch."""

    @cache
    def launched(kind: str, devices: int) -> Path:
        folder = tmp_path_factory.mktemp(f"{kind}{devices}")
        launch(folder, devices, {name: case for name, case in CASES.items() if case["parallel"] == kind})
        return folder

    def get(name: str, devices: int) -> list[dict[str, Any]]:
        folder = launched(CASES[name]["parallel"], devices)
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


@pytest.mark.parametrize("devices", [2, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CASES)
def test_several_devices_train_what_one_trains(name: str, devices: int, ranks: Any) -> None:
    own = {n: v for n, v in settings_of(CASES[name], devices).items() if n not in KEYS}
    expected = alone(json.dumps(own))
    results = ranks(name, devices)
    losses = {key: sum(r["losses"][key] for r in results) for key in results[0]["losses"]}
    assert losses == pytest.approx(expected["losses"], rel=5e-7)
    weights: dict[str, Any] = {}
    for result in results:
        for key, value in result["weights"].items():
            assert key not in weights or torch.equal(weights[key], value)
            weights[key] = value
    assert distance(expected["weights"], weights) < 1e-6
