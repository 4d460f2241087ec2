"""Checkpoints that GPTQ has quantized, trained by gptqmodel: held against the same weights as plain numbers.

The checkpoint is written here, by the format alone; nothing of gptqmodel is in what is expected.
"""

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("peft")
pytest.importorskip("gptqmodel", reason="gptqmodel is not installed; `lorabench doctor --kind gptq` says how")

from lorabench.collect.settings.spec import from_dict  # noqa: E402
from lorabench.collect.workload import models  # noqa: E402
from lorabench.collect.workload.training import Trainer  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
CPU = torch.device("cpu")
GROUP, LEVELS, IN_A_WORD = 32, 15, 8


def packed(values: Any) -> Any:
    """Numbers of 4 bits, eight rows in one row of 32-bit words, the first in the lowest bits."""
    words = values.to(torch.int64).view(-1, IN_A_WORD, values.shape[1])
    whole = (words << (4 * torch.arange(IN_A_WORD))[None, :, None]).sum(1)
    return torch.where(whole >= 1 << 31, whole - (1 << 32), whole).to(torch.int32)


def quantised(weight: Any) -> tuple[dict[str, Any], Any]:
    """Tensors of a layer as checkpoints have them, and the weight that they stand for."""
    groups = weight.detach().t().reshape(-1, GROUP, weight.shape[0])
    low, high = groups.amin(1).clamp(max=0), groups.amax(1).clamp(min=0)
    scales = ((high - low) / LEVELS).to(torch.float16)
    zeros = (-low / scales.float()).round().clamp(1, LEVELS)
    levels = (groups / scales.float()[:, None] + zeros[:, None]).round().clamp(0, LEVELS)
    plain = ((levels - zeros[:, None]) * scales.float()[:, None]).reshape(-1, weight.shape[0]).t()
    tensors = {
        "qweight": packed(levels.reshape(-1, weight.shape[0])),
        "qzeros": packed((zeros - 1).t()).t().contiguous(),  # the format stores one less
        "scales": scales,
        "g_idx": torch.arange(weight.shape[1], dtype=torch.int32) // GROUP,
    }
    return tensors, plain.contiguous()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A small model quantized, and the same as plain numbers."""
    from safetensors.torch import load_file, save_file

    folder = tmp_path_factory.mktemp("gptq")
    base = models.build(from_dict({"model": "tiny", "device": "cpu", "seq_len": 8}), CPU)
    base.save_pretrained(folder / "plain")
    base.save_pretrained(folder / "quantised")
    weights = load_file(folder / "plain" / "model.safetensors")
    small = {}
    for name, weight in dict(weights).items():
        if name.endswith("_proj.weight"):
            tensors, weights[name] = quantised(weight)
            small |= {f"{name.removesuffix('weight')}{key}": value for key, value in tensors.items()}
        else:
            small[name] = weight
    save_file(weights, folder / "plain" / "model.safetensors", {"format": "pt"})
    save_file(small, folder / "quantised" / "model.safetensors", {"format": "pt"})
    path = folder / "quantised" / "config.json"
    about = {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": False, "sym": False,
             "lm_head": False, "checkpoint_format": "gptq", "pack_dtype": "int32"}  # fmt: skip
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {"quantization_config": about}), "utf-8")
    return folder / "quantised", folder / "plain"


def trained(folder: Path, steps: int = 3, **more: Any) -> list[float]:
    settings = {"model": str(folder), "seq_len": 8, "batch_size": 2, "device": "cpu", "rank": 4, "dropout": 0, **more}
    trainer = Trainer(from_dict(settings), CPU)
    return [v for tasks in trainer.iterations(0, steps) for t in tasks for v in trainer.run(t).losses.tolist()]


def test_a_checkpoint_trains_as_the_weights_that_it_stands_for(folders: tuple[Path, Path]) -> None:
    small, plain = folders
    assert trained(small, quant="gptq") == pytest.approx(trained(plain), rel=2e-3)


def test_adapters_train_in_one_pass_as_in_turn(folders: tuple[Path, Path]) -> None:
    small, _ = folders
    settings = {"quant": "gptq", "lora_cnt": 2, "lengths": "uniform"}
    in_turn = trained(small, **settings)
    for operator in ("fused", "loop"):
        assert trained(small, **settings, peft_mode="batch", batch_operator=operator) == pytest.approx(
            in_turn, rel=1e-4
        )
