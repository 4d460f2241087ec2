"""Methods, modes, quantization and checkpointing, in one process on the CPU; data and dropout."""

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from lorabench.collect.batch_lora import dropout  # noqa: E402
from lorabench.collect.processes import provenance  # noqa: E402
from lorabench.collect.run import child, measure  # noqa: E402
from lorabench.collect.run.formulas import Arithmetic, statistics_of  # noqa: E402
from lorabench.collect.settings.spec import from_dict  # noqa: E402
from lorabench.collect.workload import models  # noqa: E402
from lorabench.collect.workload.data import IGNORED, Source, joined  # noqa: E402
from lorabench.collect.workload.training import Trainer  # noqa: E402
from lorabench.errors import InputError  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")
CPU = torch.device("cpu")


def spec(**more: Any) -> Any:
    settings = {"model": "tiny", "seq_len": 8, "batch_size": 2, "device": "cpu", "rank": 4, **more}
    if settings.get("method") == "full":  # has no adapters to set
        settings = {name: value for name, value in settings.items() if name not in ("rank", "dropout")}
    return from_dict(settings)


def losses(settings: Any, steps: int = 2) -> dict[tuple[int, str], float]:
    trainer = Trainer(settings, CPU)
    found = {}
    for tasks in trainer.iterations(0, steps):
        for task in tasks:
            done = trainer.run(task)
            found |= {(task.step, a.name): v for a, v in zip(task.adapters, done.losses.tolist(), strict=True)}
    return found


@pytest.mark.parametrize("checkpointing", ["none", "layer", "attn-mlp"])
@pytest.mark.parametrize("quant", ["none", "int8", "nf4"])
@pytest.mark.parametrize("mode", ["seq", "switch", "batch"])
@pytest.mark.first(5)
def test_every_mode_trains_the_same_adapters(mode: str, quant: str, checkpointing: str) -> None:
    settings = {"lora_cnt": 2, "quant": quant, "gradient_checkpointing": checkpointing, "lengths": "uniform"}
    found = losses(spec(**settings, peft_mode=mode))
    reference = losses(spec(**{**settings, "gradient_checkpointing": "none"}, peft_mode="seq"))
    assert found == pytest.approx(reference, rel=1e-6)


@pytest.mark.parametrize("model", ["tiny", "tiny-distilbert"])
@pytest.mark.parametrize("method", ["lora", "qlora", "full"])
def test_every_method_learns(method: str, model: str) -> None:
    settings = spec(method=method, model=model, learning_rate=0.01, dropout=0, gradient_checkpointing="none")
    trainer = Trainer(settings, CPU)
    batch = trainer._streams[trainer.adapters[0].name].next()
    trainer._streams[trainer.adapters[0].name].next = lambda: batch  # the same sequences again and again
    seen = [trainer.run(task).losses.item() for tasks in trainer.iterations(0, 12) for task in tasks]
    assert seen[-1] < 0.9 * seen[0]


@pytest.mark.parametrize("method", ["lora", "qlora"])
def test_the_base_stays_as_it_was(method: str) -> None:
    trainer = Trainer(spec(method=method, lora_cnt=2, peft_mode="batch"), CPU)
    base = {n: p.detach().clone() for n, p in trainer.model.named_parameters() if "lora_" not in n}
    adapters = {n: p.detach().clone() for n, p in trainer.model.named_parameters() if "lora_" in n}
    for tasks in trainer.iterations(0, 2):
        for task in tasks:
            trainer.run(task)
    after = dict(trainer.model.named_parameters())
    assert all(torch.equal(p, after[n]) for n, p in base.items())
    assert all(not torch.equal(p, after[n]) for n, p in adapters.items())


@pytest.mark.parametrize("quant", ["none", "int8", "nf4"])
def test_a_local_checkpoint_is_the_model_that_was_saved(quant: str, tmp_path: Path) -> None:
    saved = Trainer(spec(method="full", gradient_checkpointing="none"), CPU).base
    saved.save_pretrained(tmp_path)
    assert losses(spec(model=str(tmp_path), quant=quant)) == pytest.approx(losses(spec(quant=quant)), rel=1e-6)


@pytest.mark.parametrize("quant", ["none", "int8", "nf4"])
def test_a_configuration_alone_has_the_random_weights_of_a_preset(quant: str, tmp_path: Path) -> None:
    Trainer(spec(), CPU).base.config.save_pretrained(tmp_path)
    assert losses(spec(model=str(tmp_path), quant=quant)) == losses(spec(quant=quant))
    assert "configuration without weights" in Trainer(spec(model=str(tmp_path)), CPU).notes[-1]


@pytest.mark.parametrize("lengths", ["fixed", "lognormal"])
@pytest.mark.parametrize("mode", [{}, {"lora_cnt": 2, "peft_mode": "batch"}], ids=["alone", "batch"])
def test_a_step_is_the_mean_over_its_tokens_in_however_many_pieces(lengths: str, mode: dict[str, Any]) -> None:
    settings = {"seq_len": 32, "lengths": lengths, "dropout": 0, "optimizer": "sgd", "learning_rate": 1, **mode}
    weights, found = [], []
    for pieces in (1, 2, 4):
        trainer = Trainer(spec(batch_size=4 // pieces, grad_accum=pieces, **settings), CPU)
        (task,) = next(trainer.iterations(0, 1))
        found.append(trainer.run(task).losses)
        weights.append([p for a in trainer.adapters for p in trainer.parameters(a)])
    for losses_of_pieces, own in zip(found[1:], weights[1:], strict=True):
        assert torch.allclose(losses_of_pieces, found[0], rtol=1e-6)
        assert all(torch.allclose(p, q, rtol=1e-4, atol=1e-7) for p, q in zip(own, weights[0], strict=True))


def test_sequences_follow_from_the_adapter_alone() -> None:
    one = Source(spec(lengths="lognormal"), 256).stream("adapter_0", 3)
    again = Source(spec(lengths="lognormal", lora_cnt=4), 256).stream("adapter_0", 3)
    other = Source(spec(lengths="lognormal"), 256).stream("adapter_1", 3)
    a, b, c = one.next(), again.next(), other.next()
    assert torch.equal(a.input_ids, b.input_ids) and a.input_ids.tolist() != c.input_ids.tolist()
    assert (a.attention_mask.sum(1) >= 2).all() and a.input_ids.shape[1] <= 8
    assert ((a.labels == IGNORED) == (a.attention_mask == 0)).all()


def test_a_union_batch_pads_to_the_longest() -> None:
    streams = [Source(spec(lengths="uniform", seq_len=n), 256).stream("a", 2) for n in (4, 16)]
    batches = [s.next() for s in streams]
    union = joined(batches)
    assert union.input_ids.shape == (4, max(b.input_ids.shape[1] for b in batches))
    assert union.tokens()[1] == sum(b.tokens()[1] for b in batches)


def test_data_comes_from_jsonl_and_from_saved_datasets(tmp_path: Path) -> None:
    import pyarrow as pa

    records = [{"input_ids": [1, 2, 3], "labels": [-100, 2, 3]}, {"input_ids": [4, 5], "labels": [4, 5]}]
    path = tmp_path / "data.jsonl"
    path.write_text("\n".join(map(json.dumps, records)), "utf-8")
    folder = tmp_path / "saved"
    folder.mkdir()
    table = pa.Table.from_pylist(records)
    with pa.OSFile(str(folder / "data-00000-of-00001.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as w:
        w.write_table(table)
    seen = []
    for data in (path, folder):
        batch = Source(spec(data=str(data)), 256).stream("a", 2).next()
        seen.append(sorted((i[m == 1].tolist(), x[m == 1].tolist()) for i, x, m in zip(
            batch.input_ids, batch.labels, batch.attention_mask, strict=True)))  # fmt: skip
    assert seen[0] == seen[1] == [([1, 2, 3], [-100, 2, 3]), ([4, 5], [4, 5])]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "line 1 is not JSON"),
        ("[1]", "record 1 is not an object"),
        ('{"a": 1}', "none of what can be trained: text, messages"),
        ('{"input_ids": [1, 999]}', "below the vocabulary of 256"),
        ('{"input_ids": [1, 2], "labels": [1]}', "differ in length"),
        ("", "no sequences"),
        (b"\xff\xfe", "cannot read"),
    ],
)
def test_bad_data_is_named(tmp_path: Path, content: str | bytes, says: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=says):
        Source(spec(data=str(path)), 256).stream("a", 1)


def test_dropout_masks_are_even_and_independent() -> None:
    keys = dropout.row_keys([12345, 12346], [32, 32], CPU)
    kept = dropout.keep(keys, 7, torch.Size((64, 50, 40)), dropout.Rates.of([0.3], CPU)).double()
    n = 50 * 40
    assert kept.mean().item() == pytest.approx(0.7, abs=4 * (0.21 / kept.numel()) ** 0.5)
    assert (kept.mean((1, 2)) - 0.7).abs().max() < 5 * (0.21 / n) ** 0.5
    flat = (kept - 0.7).flatten(1)
    correlation = (flat @ flat.T) / n / 0.21
    assert (correlation - torch.eye(64)).abs().max() < 5.5 * n**-0.5
    for axis in (1, 2):  # neighbours in position and in feature
        pairs = (kept - 0.7).narrow(axis, 0, kept.shape[axis] - 1) * (kept - 0.7).narrow(axis, 1, kept.shape[axis] - 1)
        assert abs(pairs.mean().item()) < 5 * 0.21 * pairs.numel() ** -0.5


def test_dropout_does_not_depend_on_padding_or_company() -> None:
    clock = dropout.Clock(3)
    clock.advance("a")
    rows = dropout.row_keys([clock.key("a")], [2], CPU)
    alone = dropout.keep(rows, 9, torch.Size((2, 5, 6)), dropout.Rates.of([0.5], CPU))
    union = dropout.row_keys([clock.key("b"), clock.key("a")], [3, 2], CPU)
    rates = dropout.Rates.of([0.1, 0.1, 0.1, 0.5, 0.5], CPU)
    together = dropout.keep(union, 9, torch.Size((5, 8, 6)), rates)
    assert torch.equal(alone, together[3:, :5])
    clock.advance("a")
    assert clock.key("a") != clock.key("b")


def test_quantiles_are_those_of_numpy() -> None:
    import numpy as np

    values = [5.0, 1.0, 9.0, 2.0, 2.5]
    found = statistics_of(values)
    for name, q in (("p50", 50), ("p95", 95), ("p99", 99)):
        assert found[name] == pytest.approx(np.percentile(values, q))
    assert (found["mean"], found["min"], found["max"]) == (pytest.approx(3.9), 1.0, 9.0)
    assert set(statistics_of([]).values()) == {None}


@pytest.mark.parametrize("method", ["lora", "full"])
def test_arithmetic_is_what_torch_counts(method: str) -> None:
    """torch's flop counter sees the products that run; ours must be the same for a model without attention masks."""
    from torch.utils.flop_counter import FlopCounterMode

    trainer = Trainer(spec(method=method, dropout=0, gradient_checkpointing="none", optimizer="sgd"), CPU)
    counted = measure.arithmetic(trainer.model, "none", trainer.adapter_flop())
    (task,) = next(trainer.iterations(0, 1))
    with FlopCounterMode(display=False) as counter:
        done = trainer.run(task)
    tokens = done.computed_cnt
    products = sum(
        flop for op, flop in counter.get_flop_counts()["Global"].items() if str(op).split(".")[1] in ("mm", "addmm")
    )
    ours = counted.of(tokens, 0, task.adapters[0].name)
    # the first layer's inputs need no gradient when only adapters are trained: its q, k and v save one product each
    saved = 0
    if method == "lora":
        layer = trainer.base.model.layers[0].self_attn
        saved = sum(2 * m.in_features * m.out_features * tokens for m in (layer.q_proj, layer.k_proj, layer.v_proj))
        saved += sum(2 * 4 * m.in_features * tokens for m in (layer.q_proj, layer.k_proj, layer.v_proj))
    assert products == ours - saved


def test_the_padding_of_the_union_batch_is_that_of_the_shorter_ones() -> None:
    """All of one pass are as long as its longest sequence, so the tokens of adapters add up to those of the batch."""
    settings = spec(lora_cnt=3, peft_mode="batch", lengths="lognormal", batch_size=[1, 2, 3], seq_len=32)
    trainer = Trainer(settings, CPU)
    for tasks in islice(trainer.iterations(0, 3), 3):
        for task in tasks:
            done = trainer.run(task)
            assert sum(computed for computed, _, _ in done.tokens.values()) == done.computed_cnt
            assert all(real <= computed for computed, real, _ in done.tokens.values())


def test_memory_of_phases_is_read() -> None:
    memory = measure.Memory(CPU)
    with memory.phase("big"):
        held = bytearray(64 << 20)
    assert memory.phases["big"]["peak_resident_bytes"] >= 64 << 20 and held
    assert memory.phases["big"]["allocated_bytes"] is None


def test_the_models_arithmetic_leaves_recomputation_out() -> None:
    counted = Arithmetic(10, 0, {"a": 2}, {}, 3, head=4, layers_again=True)
    once = (12 + 3 * 5) + (10 + 2 * 2 + 2 * 3 * 5)
    assert counted.of(1, 5, "a", with_recomputed=False) == once
    assert counted.of(1, 5, "a") == once + 12 + 3 * 5 - 4  # adapters and attention lie in the layers, the head does not
    assert replace(counted, layers_again=False, head_again=True).of(1, 5, "a") == once + 4


def test_processes_count_each_adapters_arithmetic_and_the_device_once() -> None:
    def result(name: str, used: int) -> dict[str, Any]:
        arithmetic = {"frozen": 1, "adapter": {name: 5}, "adapter_frozen": {name: 7}}
        memory = {"steps": {"allocated_bytes": used, "device_used_bytes": 90, "nvml_used_bytes": None}}
        return {"arithmetic": arithmetic, "memory": memory, "counts": None, "ranges": {}, "diverged": None, "steps": []}

    merged = child._merged([result("a", 10), result("b", 20)])
    assert merged["arithmetic"] == {"frozen": 1, "adapter": {"a": 5, "b": 5}, "adapter_frozen": {"a": 7, "b": 7}}
    assert merged["memory"]["steps"] == {"allocated_bytes": 30, "device_used_bytes": 90, "nvml_used_bytes": None}


def test_a_gpu_has_its_number_as_tensors_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    found = [models.choose_device(from_dict({"device": name})) for name in ("auto", "cuda", "cuda:1")]
    assert found == [torch.device("cuda", 0), torch.device("cuda", 0), torch.device("cuda", 1)]


def test_what_is_recorded_has_no_secrets_and_all_that_programs_need(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = {"HF_TOKEN": "a", "WANDB_API_KEY": "b", "DB_PASSWORD": "c", "HTTPS_PROXY": "http://me:secret@proxy:1"}
    needed = {"MAX_TOKENS": "9", "TOKENIZERS_PARALLELISM": "false", "KEYED": "1", "HIP_VISIBLE_DEVICES": "1",
              "GLOO_SOCKET_IFNAME": "eth7", "NO_PROXY": "localhost"}  # fmt: skip
    for name, value in (secret | needed).items():
        monkeypatch.setenv(name, value)
    recorded = provenance.environment_of_command(is_recorded=True)
    assert recorded.items() >= needed.items() and not secret.keys() & recorded.keys()
    ours = provenance.environment(is_recorded=True)
    assert not secret.keys() & ours.keys()
    assert ours.keys() >= needed.keys() - {"MAX_TOKENS", "KEYED"}
    assert provenance.environment(is_recorded=False)["HTTPS_PROXY"] == secret["HTTPS_PROXY"]
