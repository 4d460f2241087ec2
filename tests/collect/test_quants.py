"""Bases quantized by torchao and quanto: they train in every mode, memory is counted; refused where not installed."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from lorabench.collect.instruments.ledger import Ledger  # noqa: E402
from lorabench.collect.run import preflight  # noqa: E402
from lorabench.collect.settings import quants  # noqa: E402
from lorabench.collect.settings.spec import from_dict  # noqa: E402
from lorabench.collect.workload.training import Trainer  # noqa: E402
from lorabench.errors import ToolError  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
CPU = torch.device("cpu")
WEIGHT_ONLY = ("int8wo", "float8wo", "qint8")


@pytest.fixture(params=WEIGHT_ONLY)
def quant(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if needed := quants.missing(name):
        pytest.skip(f"needs {needed}")
    return name


def spec(**more: Any) -> Any:
    return from_dict({"model": "tiny", "seq_len": 8, "batch_size": 2, "device": "cpu", "rank": 4, **more})


def losses(settings: Any, steps: int = 2) -> list[float]:
    trainer = Trainer(settings, CPU)
    return [v for tasks in trainer.iterations(0, steps) for t in tasks for v in trainer.run(t).losses.tolist()]


def test_every_mode_trains_the_same(quant: str) -> None:
    settings = {"lora_cnt": 2, "quant": quant, "lengths": "uniform"}
    found = losses(spec(**settings))
    assert losses(spec(**settings, peft_mode="batch")) == pytest.approx(found, rel=1e-6)
    assert losses(spec(**settings, peft_mode="batch", batch_operator="loop")) == pytest.approx(found, rel=1e-6)
    assert found == pytest.approx(losses(spec(lora_cnt=2, lengths="uniform")), rel=1e-2) and found != losses(
        spec(lora_cnt=2, lengths="uniform")
    )


def test_a_qlora_by_this_way_learns(quant: str) -> None:
    trainer = Trainer(spec(method="qlora", quant=quant, learning_rate=0.01, dropout=0), CPU)
    batch = trainer._streams["adapter_0"].next()
    trainer._streams["adapter_0"].next = lambda: batch
    seen = [trainer.run(task).losses.item() for tasks in trainer.iterations(0, 12) for task in tasks]
    assert seen[-1] < 0.9 * seen[0]


def test_a_checkpoint_and_a_classifier_are_quantised(quant: str, tmp_path: Path) -> None:
    saved = Trainer(from_dict({"method": "full", "device": "cpu", "seq_len": 8}), CPU).base
    saved.save_pretrained(tmp_path)
    assert losses(spec(model=str(tmp_path), quant=quant)) == pytest.approx(losses(spec(quant=quant)), rel=1e-6)
    trainer = Trainer(spec(model="tiny-distilbert", quant=quant), CPU)
    head = [m for n, m in trainer.base.named_modules() if n.endswith("classifier.original_module")]
    assert head and all(type(m) is torch.nn.Linear and type(m.weight) is torch.nn.Parameter for m in head)


def test_the_ledger_counts_the_bytes_of_quantised_weights(quant: str, tmp_path: Path) -> None:
    trainer = Trainer(spec(quant=quant), CPU)
    ledger = trainer.ledger()
    assert isinstance(ledger, Ledger)
    with ledger:
        for tasks in trainer.iterations(0, 1):
            trainer.run(tasks[0])
    ledger.write(tmp_path / "ledger.csv")
    rows = (tmp_path / "ledger.csv").read_text("utf-8").splitlines()
    weights = [row.split(",") for row in rows if "q_proj.base_layer.weight" in row]
    assert {int(row[3]) for row in weights if row[4] == "parameter"} >= {64 * 64}  # a byte each


@pytest.mark.parametrize("name", WEIGHT_ONLY)
def test_a_package_that_is_not_installed_is_named_with_the_command(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quants, "find_spec", lambda package: None)
    with pytest.raises(
        ToolError, match=rf"--quant {name} is .*not installed; pip install '{quants.QUANTS[name].install}'"
    ):
        preflight.check([spec(quant=name)])
