"""BatchLoRA against the definition: each adapter trained alone, by PEFT's own layers."""

import csv
import functools
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import quick

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from lorabench.collect.batch_lora import operators  # noqa: E402
from lorabench.collect.batch_lora import wrapping as batch_lora  # noqa: E402
from lorabench.collect.batch_lora.layers import lora_layers  # noqa: E402
from lorabench.collect.batch_lora.plan import Plan, Slice  # noqa: E402
from lorabench.collect.settings.spec import from_dict  # noqa: E402
from lorabench.collect.workload.training import Trainer  # noqa: E402
from lorabench.errors import UsageError  # noqa: E402

STEPS = 5
UNEQUAL = {
    "model": "tiny",
    "lora_cnt": 3,
    "rank": [4, 8, 2],
    "alpha": [8, 4, 2],
    "dropout": [0.0, 0.1, 0.4],
    "target_modules": "q_proj,v_proj;all-linear;k_proj,o_proj,down_proj",
    "learning_rate": [2e-4, 3e-4, 1e-4],
    "batch_size": [2, 3, 1],
    "grad_accum": [1, 2, 1],
    "seq_len": 24,
    "lengths": "uniform",
    "device": "cpu",
}

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")
OPERATORS = [
    pytest.param({"batch_operator": "fused"}, id="fused"),
    pytest.param({"batch_operator": "loop"}, id="pruned"),
    pytest.param({"batch_operator": "loop", "graph_pruning": False}, id="loop"),
]


def train(trainer: Trainer, steps: int = STEPS) -> dict[str, dict[str, Any]]:
    """Losses by step, gradients of the last step and weights behind it, for each adapter."""
    found: dict[str, dict[str, Any]] = {a.name: {"losses": [], "gradients": {}} for a in trainer.adapters}

    def note(adapter: Any) -> Any:
        own = trainer.named_parameters(adapter)

        def keep(optimizer: Any, *_: Any) -> None:
            found[adapter.name]["gradients"] = {n: p.grad.clone() for n, p in own.items() if p.grad is not None}

        return keep

    for adapter in trainer.adapters:
        trainer.optimizers[adapter.name].register_step_pre_hook(note(adapter))
    for tasks in trainer.iterations(0, steps):
        for task in tasks:
            done = trainer.run(task)
            for adapter, loss in zip(task.adapters, done.losses.tolist(), strict=True):
                found[adapter.name]["losses"].append(loss)
    for adapter in trainer.adapters:
        parameters = {id(p) for p in trainer.parameters(adapter)}
        found[adapter.name]["weights"] = {
            n: p.detach().clone() for n, p in trainer.model.named_parameters() if id(p) in parameters
        }
    return found


def alone(settings: dict[str, Any], number: int) -> dict[str, Any]:
    """Trained once for all tests with these settings."""
    return _alone(json.dumps(settings), number)


@functools.cache
def _alone(settings: str, number: int) -> dict[str, Any]:
    spec = from_dict({**json.loads(settings), "peft_mode": "switch"})
    ((_, found),) = train(Trainer(spec, torch.device("cpu"), only=number)).items()
    return found


def together(settings: dict[str, Any], **more: Any) -> dict[str, dict[str, Any]]:
    return train(Trainer(from_dict({**settings, "peft_mode": "batch", **more}), torch.device("cpu")))


# Of float32 sums in another order, through all layers: 1.8e-6 on a CPU without AVX-512, less on others.
ROUNDING = 4e-6


def distance(a: Any, b: Any) -> float:
    """Relative error by the norm."""
    return float((a - b).detach().double().norm() / b.detach().double().norm().clamp(min=1e-30))


def _vector(tensors: dict[str, Any]) -> Any:
    return torch.cat([t.flatten() for t in tensors.values()])


def assert_same(ours: dict[str, Any], theirs: dict[str, Any], tolerance: float) -> None:
    assert len(ours["losses"]) == STEPS
    for mine, other in zip(ours["losses"], theirs["losses"], strict=True):
        assert mine == pytest.approx(other, rel=tolerance)
    for kind in ("gradients", "weights"):
        assert ours[kind].keys() == theirs[kind].keys()
        assert ours[kind]
        # of the adapter as one vector: a tensor of small gradients holds little but the rounding of the others
        assert distance(_vector(ours[kind]), _vector({n: theirs[kind][n] for n in ours[kind]})) < tolerance, kind


@pytest.mark.parametrize("quant", ["none", "nf4", "int8"])
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.first(1)
def test_each_adapter_trains_as_if_it_were_alone(operator: dict[str, Any], quant: str) -> None:
    settings = {**UNEQUAL, "quant": quant}
    found = together(settings, **operator)
    for number in range(3):
        assert_same(found[f"adapter_{number}"], alone(settings, number), ROUNDING)


def test_adapters_with_as_many_rows_are_multiplied_in_batches() -> None:
    settings = {**UNEQUAL, "batch_size": 2, "lengths": "fixed", "grad_accum": 1}
    found = together(settings)
    for number in range(3):
        assert_same(found[f"adapter_{number}"], alone(settings, number), ROUNDING)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.first(1)
def test_in_bfloat16_within_its_precision(operator: dict[str, Any]) -> None:
    settings = {**UNEQUAL, "dtype": "bfloat16", "optimizer": "sgd"}
    found = together(settings, **operator)
    for number in range(3):
        assert_same(found[f"adapter_{number}"], alone(settings, number), 2e-2)


ALIKE = {**UNEQUAL, "target_modules": "q_proj,v_proj,down_proj", "rank": [8, 4, 8]}
STACKED = {"adapter_storage": "stacked"}


@pytest.mark.parametrize(
    "shape",
    [{}, {"batch_size": 2, "lengths": "fixed", "grad_accum": 1}, {"quant": "nf4"}, {"gradient_checkpointing": "none"}],
    ids=str,
)
@pytest.mark.first(1)
def test_stacked_adapters_train_as_if_each_were_alone(shape: dict[str, Any]) -> None:
    settings = {**ALIKE, **shape}
    found = together(settings, **STACKED)
    for number in range(3):
        assert_same(found[f"adapter_{number}"], alone(settings, number), ROUNDING)


def test_stacked_adapters_follow_a_schedule_and_learn_at_rates_of_their_own() -> None:
    settings = {**ALIKE, "lr_schedule": "cosine", "lr_warmup_steps": 2, "learning_rate": [1e-3, 3e-3, 1e-3]}
    apart, stacked = together(settings), together(settings, **STACKED)
    for name in apart:
        assert_same(stacked[name], apart[name], ROUNDING)


@pytest.mark.parametrize("operator", [*OPERATORS, pytest.param(STACKED, id="stacked"), None])
@pytest.mark.parametrize("shape", [{}, {"batch_size": 2, "lengths": "fixed", "grad_accum": 1}], ids=["uneven", "even"])
@pytest.mark.first(1)
def test_under_autocast_adapters_are_multiplied_in_bfloat16_and_their_weights_stay(
    operator: dict[str, Any] | None, shape: dict[str, Any]
) -> None:
    settings = {**ALIKE, **shape, "dtype": "bfloat16", "autocast": "bfloat16", "optimizer": "adamw"}
    exact = {**settings, "autocast": "none"}
    # without an operator: PEFT's own layers, one adapter after another
    found = together(settings, **operator) if operator is not None else {}
    for number in range(3):
        mine = found.get(f"adapter_{number}") or alone(settings, number)
        theirs = alone(exact, number)
        assert mine["losses"] == pytest.approx(theirs["losses"], rel=2e-2)
        assert distance(_vector(mine["gradients"]), _vector(theirs["gradients"])) < 2e-2
        assert mine["losses"] != theirs["losses"]
        assert {t.dtype for t in (*mine["weights"].values(), *mine["gradients"].values())} == {torch.float32}


def test_what_a_lower_rank_leaves_free_of_a_stack_stays_zero() -> None:
    trainer = Trainer(from_dict({**ALIKE, **STACKED, "peft_mode": "batch"}), torch.device("cpu"))
    assert trainer.stack is not None
    for tasks in trainer.iterations(0, STEPS):
        for task in tasks:
            trainer.run(task)
    used = sum(p.numel() for a in trainer.adapters for p in trainer.parameters(a))
    assert used < trainer.stack.flat.numel()
    assert int((trainer.stack.flat != 0).sum()) == used
    for a in trainer.adapters:  # PEFT's parameters are views of it
        for p in trainer.parameters(a):
            assert p.untyped_storage().data_ptr() == trainer.stack.flat.untyped_storage().data_ptr()


@pytest.mark.parametrize("storage", ["apart", "stacked"])
def test_all_adapters_have_the_type_that_was_asked_for(storage: str) -> None:
    settings = {**ALIKE, "dtype": "bfloat16", "adapter_dtype": "base", "adapter_storage": storage}
    trainer = Trainer(from_dict({**settings, "peft_mode": "batch"}), torch.device("cpu"))
    assert {p.dtype for a in trainer.adapters for p in trainer.parameters(a)} == {torch.bfloat16}


@pytest.mark.parametrize("autocast", ["none", "bfloat16"])
def test_the_ledger_has_what_a_stack_is_once_and_of_nobody(autocast: str, tmp_path: Path) -> None:
    settings = {**ALIKE, **STACKED, "peft_mode": "batch", "autocast": autocast, "dtype": "bfloat16"}
    trainer = Trainer(from_dict(settings), torch.device("cpu"))
    assert trainer.stack is not None
    ledger = trainer.ledger()
    with ledger:
        for tasks in trainer.iterations(0, 2):
            for task in tasks:
                trainer.run(task)
    ledger.write(tmp_path / "ledger.csv")
    rows = list(csv.DictReader((tmp_path / "ledger.csv").read_text("utf-8").splitlines()))
    size = trainer.stack.flat.numel()
    copies = [4 * size] if autocast == "none" else [4 * size, 2 * size]
    assert [int(r["bytes"]) for r in rows if r["category"] == "adapter_parameter"] == copies
    assert [int(r["bytes"]) for r in rows if r["category"] == "gradient"] == [4 * size]
    assert {(r["name"], r["adapter"]) for r in rows if r["category"] in ("adapter_parameter", "gradient")} == {
        ("all adapters", "")
    }


def test_adapters_of_different_layers_are_not_stacked() -> None:
    model = _wrapped()
    with pytest.raises(UsageError, match="has no LoRA on"):
        model.stack(torch.float32)


@pytest.mark.parametrize("checkpointing", [{"gradient_checkpointing": "none"}, {"gradient_checkpointing": "attn-mlp"},
                                           {"reentrant": True}], ids=str)  # fmt: skip
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.first(2)
def test_whatever_is_recomputed(operator: dict[str, Any], checkpointing: dict[str, Any]) -> None:
    found = together({**UNEQUAL, **checkpointing}, **operator)
    assert_same(found["adapter_1"], alone(UNEQUAL, 1), ROUNDING)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.first(1)
def test_another_adapter_changes_nothing(operator: dict[str, Any]) -> None:
    one = {k: v for k, v in UNEQUAL.items() if k != "lora_cnt"}
    fewer = {k: v[:2] if isinstance(v, list) else v for k, v in one.items()}
    fewer["target_modules"] = ";".join(UNEQUAL["target_modules"].split(";")[:2])
    three, two = together(UNEQUAL, **operator), together({**fewer, "lora_cnt": 2}, **operator)
    for name in ("adapter_0", "adapter_1"):
        assert_same(two[name], three[name], ROUNDING)


def _wrapped(operator: str = "fused", **settings: Any) -> batch_lora.BatchLora:
    spec = from_dict({**UNEQUAL, "peft_mode": "batch", "batch_operator": operator, **settings})
    trainer = Trainer(spec, torch.device("cpu"))
    assert trainer.batch_lora is not None
    return trainer.batch_lora


@pytest.mark.parametrize("operator", ["fused", "loop"])
def test_an_adapter_without_rows_gets_no_gradient_and_no_step(operator: str) -> None:
    spec = from_dict({**UNEQUAL, "peft_mode": "batch", "batch_operator": operator, "grad_accum": [2, 1, 1]})
    trainer = Trainer(spec, torch.device("cpu"))
    seen: dict[int, set[str]] = {}
    names = ["adapter_0", "adapter_1", "adapter_2"]
    model = trainer.batch_lora
    assert model is not None
    ids = torch.randint(256, (3, 7))
    with model.union(names, [2, 0, 1], torch.device("cpu")):
        logits = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
        batch_lora.losses(logits, ids, [2, 0, 1]).sum().backward()
    for number, adapter in enumerate(trainer.adapters):
        seen[number] = {n for n, p in model.named_parameters() if p.grad is not None and f".{adapter.name}." in n}
    assert seen[0] and seen[2] and not seen[1]
    before = [p.detach().clone() for p in trainer.parameters(trainer.adapters[1])]
    trainer.optimizers["adapter_1"].step()
    after = trainer.parameters(trainer.adapters[1])
    assert all(torch.equal(x, y) for x, y in zip(before, after, strict=True))
    assert not trainer.optimizers["adapter_1"].state
    assert trainer.clock.micro_steps == {"adapter_0": 0, "adapter_2": 0}


@pytest.mark.parametrize("settings", [{}, {**ALIKE, **STACKED}], ids=["apart", "stacked"])
def test_adapters_are_saved_and_loaded_by_peft(settings: dict[str, Any], tmp_path: Path) -> None:
    from peft import PeftModel
    from safetensors.torch import load_file

    model = _wrapped(**settings)
    model.save_pretrained(str(tmp_path))
    saved = load_file(tmp_path / "adapter_1" / "adapter_model.safetensors")
    assert saved and all(".adapter_1." not in name for name in saved)
    fresh = Trainer(from_dict({"method": "full", "model": "tiny", "device": "cpu"}), torch.device("cpu")).base
    loaded = PeftModel.from_pretrained(fresh, tmp_path / "adapter_1", adapter_name="adapter_1")
    ours = dict(model.peft_model.named_parameters())
    for name, value in loaded.named_parameters():
        if ".adapter_1." in name:
            assert torch.equal(value, ours[name]), name


def _peft_model() -> Any:
    """A model of PEFT's own with three adapters whose deltas are not 0."""
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    tiny = LlamaConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16, vocab_size=256)
    options = {"target_modules": ["q_proj", "down_proj"], "init_lora_weights": False}
    model = get_peft_model(LlamaForCausalLM(tiny), LoraConfig(r=4, **options), adapter_name="adapter_0")
    for number in (1, 2):
        model.add_adapter(f"adapter_{number}", LoraConfig(r=4 * number, **options))
    return model.eval()


@pytest.mark.parametrize("active", [["adapter_1"], ["adapter_0", "adapter_2"]], ids=str)
@pytest.mark.parametrize("is_stacked", [False, True], ids=["apart", "stacked"])
def test_outside_of_a_union_batch_the_layers_are_those_of_peft(is_stacked: bool, active: list[str]) -> None:
    """Wrapping changes neither which adapters are active nor what they compute."""
    model = _peft_model()
    for layer in lora_layers(model).values():
        layer.set_adapter(active)
    ids = torch.randint(256, (2, 5))
    with torch.no_grad():
        before = model(input_ids=ids).logits
        wrapped = batch_lora.BatchLora(model)
        if is_stacked:
            wrapped.stack(torch.float32)
        after = wrapped(input_ids=ids).logits
        with wrapped.union(active[:1], [2], torch.device("cpu")):
            batched = wrapped(input_ids=ids).logits
    assert torch.equal(before, after)
    assert (distance(batched, before) < 1e-6) is (len(active) == 1)


def test_a_union_batch_in_another_is_refused_and_leaves_it_whole() -> None:
    model = _wrapped()
    model.eval()
    ids = torch.randint(256, (2, 5))
    with model.union(["adapter_1"], [2], torch.device("cpu")):
        expected = model(input_ids=ids).logits
        with (
            pytest.raises(UsageError, match="one batch at a time"),
            model.union(["adapter_0"], [2], torch.device("cpu")),
        ):
            pass
        assert torch.equal(model(input_ids=ids).logits, expected)


@pytest.mark.parametrize("when", ["before the forward", "before the backward"])
def test_gradients_of_stacked_adapters_begin_anew_after_zero_grad(when: str) -> None:
    """zero_grad() takes tensors away, and what the backward adds to must be what an optimizer reads."""
    model = _wrapped(**ALIKE)
    model.eval()
    names, rows, ids = ["adapter_0", "adapter_1", "adapter_2"], [1, 1, 1], torch.randint(256, (3, 5))
    stack = model.stack(torch.float32)
    parameters = [p for n, p in model.named_parameters() if ".lora_" in n and ".adapter_2." not in n]

    def step() -> list[torch.Tensor]:
        if when == "before the forward":
            torch.optim.SGD(parameters).zero_grad()
        with model.union(names, rows, torch.device("cpu")):
            loss = batch_lora.losses(model(input_ids=ids).logits, ids, rows).sum()
            if when == "before the backward":
                torch.optim.SGD(parameters).zero_grad()
            loss.backward()
        assert all(p.grad is not None and p.grad.untyped_storage()._cdata == stack.gradients.untyped_storage()._cdata
                   for p in parameters)  # fmt: skip
        return [p.grad.clone() for p in parameters if p.grad is not None]

    first, added = step(), stack.gradients[2].clone()
    assert all(map(torch.equal, step(), first))
    assert distance(stack.gradients[2], 2 * added) < 1e-6  # of which nobody cleared any


def test_what_drops_everything_drops_everything() -> None:
    model = _wrapped()
    for layer in lora_layers(model.peft_model).values():
        for adapter in layer.lora_dropout:
            layer.lora_dropout[adapter] = torch.nn.Dropout(1.0)
    model.train()
    ids = torch.randint(256, (2, 5))
    with model.union(["adapter_1"], [2], torch.device("cpu")), torch.no_grad():
        dropped = model(input_ids=ids).logits
    with model.peft_model.disable_adapter(), torch.no_grad():
        assert torch.equal(dropped, model(input_ids=ids).logits)


def test_what_is_more_than_lora_is_refused() -> None:
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    tiny = LlamaConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vocab_size=32)
    for options in ({"use_dora": True}, {"lora_bias": True}, {"target_modules": ["embed_tokens"]}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            config = LoraConfig(**{"target_modules": ["q_proj"], **options})
            model = get_peft_model(LlamaForCausalLM(tiny), config)
        with pytest.raises(UsageError, match="BatchLoRA trains"):
            batch_lora.BatchLora(model)


def test_a_model_that_is_refused_is_as_it_was() -> None:
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    tiny = LlamaConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vocab_size=32)
    model = get_peft_model(LlamaForCausalLM(tiny), LoraConfig(target_modules=["q_proj", "embed_tokens"]))
    kinds = [type(module) for module in model.modules()]
    for _ in range(2):
        with pytest.raises(UsageError, match="BatchLoRA trains"):
            batch_lora.BatchLora(model)
        assert [type(module) for module in model.modules()] == kinds


def test_losses_leave_padding_and_other_rows_out() -> None:
    logits = torch.randn(5, 6, 11)
    labels = torch.randint(11, (5, 6))
    labels[1, 3:] = -100
    labels[4] = -100
    found = batch_lora.losses(logits, labels, [2, 2, 1])
    for number, rows in enumerate(([0, 1], [2, 3])):
        parts = [(logits[r, :-1], labels[r, 1:]) for r in rows]
        one = torch.nn.functional.cross_entropy(torch.cat([p for p, _ in parts]), torch.cat([q for _, q in parts]))
        assert found[number].item() == pytest.approx(one.item(), rel=1e-6)
    assert found[2] == 0


def _products(operator: str, count: int) -> int:
    settings = {"model": "tiny", "lora_cnt": count, "peft_mode": "batch", "batch_operator": operator, "seq_len": 8,
                "gradient_checkpointing": "none", "batch_size": 2, "device": "cpu"}  # fmt: skip
    trainer = Trainer(from_dict(settings), torch.device("cpu"))
    (task,) = next(trainer.iterations(0, 1))
    with torch.profiler.profile() as profiler:
        trainer.run(task)
    return sum(e.count for e in profiler.key_averages() if e.key in ("aten::mm", "aten::bmm", "aten::addmm"))


@pytest.mark.slow
def test_the_fused_operator_needs_as_many_products_for_eight_adapters_as_for_one() -> None:
    assert _products("fused", 8) == _products("fused", 1)
    assert _products("loop", 4) > 2 * _products("fused", 4)


def _random(slices: tuple[Slice, ...], rows: int, seed: int, dtype: Any) -> tuple[Any, list[Any]]:
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 3, 16, generator=random, dtype=dtype).requires_grad_()
    shapes = [shape for s in slices for shape in ((s.rank, 16), (8, s.rank))]
    return x, [torch.randn(shape, generator=random, dtype=dtype).requires_grad_() for shape in shapes]


def _forced_grouped(*arguments: Any) -> bool:
    return True


@pytest.fixture(params=["concatenated", "grouped"])
def fused_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The grouped product is chosen on GPUs that have it; torch's CPU one shows that the way is right."""
    if request.param == "grouped":
        monkeypatch.setattr(operators, "can_group", _forced_grouped)
    yield request.param


@pytest.mark.parametrize("x_needs_gradient", [True, False])
@pytest.mark.parametrize(
    "slices",
    [
        (Slice("a", 0, 2, 4, 2.0, 0.0), Slice("b", 3, 4, 8, 0.5, 0.3)),
        (Slice("a", 0, 1, 4, 1.0, 0.5), Slice("b", 1, 4, 4, 3.0, 0.0)),
        (Slice("a", 1, 2, 4, 1.0, 0.0),),
        (Slice("a", 0, 2, 4, 2.0, 0.2), Slice("b", 2, 4, 8, 0.5, 0.0)),
        (Slice("a", 0, 4, 4, 2.0, 0.2),),
        (Slice("a", 0, 2, 12, 4 / 3, 0.0), Slice("b", 2, 4, 24, 10 / 24, 0.0)),
    ],
    ids=[
        "a gap, unequal ranks", "unequal rows", "one of five rows", "equal rows, unequal ranks", "one adapter",
        "scalings that few bits round",
    ],
)  # fmt: skip
def test_all_operators_are_one_function(slices: tuple[Slice, ...], x_needs_gradient: bool, fused_way: str) -> None:
    keys = torch.arange(5, dtype=torch.int32) * 7919
    results = []
    rows = 5 if slices[-1].stop < 4 or slices[0].stop == 1 else 4
    dtype = torch.float32 if fused_way == "grouped" else torch.float64
    for operator in (operators.looped, operators.pruned, operators.fused):
        x, weights = _random(slices, rows, 1, dtype)
        x.requires_grad_(x_needs_gradient)
        delta = operator(x, Plan(slices, rows, 8, keys[:rows], 11, {}), weights)
        (delta**2).sum().backward()
        gradients = [w.grad for w in weights] + ([x.grad] if x_needs_gradient else [])
        results.append([delta, *gradients])
    for other in results[1:]:
        for mine, reference in zip(other, results[0], strict=True):
            assert distance(mine, reference) < (1e-6 if fused_way == "grouped" else 1e-12)


@pytest.mark.parametrize("rows", [(2, 2), (1, 3)])
def test_a_scaling_is_not_rounded_to_the_type_of_activations(rows: tuple[int, int]) -> None:
    # 4/3 in bfloat16 is 1.3359: each delta would be 0.2 % too large, which no mean takes out
    first = Slice("a", 0, rows[0], 12, 4 / 3, 0.0)
    slices = (first, Slice("b", rows[0], 4, 12, 4 / 3, 0.0))
    results = {}
    for dtype in (torch.float64, torch.bfloat16):
        x, weights = _random(slices, 4, 3, torch.bfloat16)
        x, weights = x.detach().to(dtype), [w.detach().to(dtype) for w in weights]
        results[dtype] = operators.fused(x, Plan(slices, 4, 8, None, 11, {}), weights).double()
    exact, rounded = results.values()
    assert abs((rounded * exact).sum() / (exact * exact).sum() - 1) < 1e-3


def _adapted(config: Any) -> Any:
    from peft import get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    tiny = LlamaConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vocab_size=32)
    return get_peft_model(LlamaForCausalLM(tiny), config)


@pytest.mark.parametrize(
    ("kind", "options", "says"),
    [
        ("LoraConfig", {"modules_to_save": ["lm_head"]}, "adapter default has modules_to_save \\(lm_head\\)"),
        ("LoraConfig", {"bias": "all"}, "adapter default has bias='all', which all would share"),
        ("LoraConfig", {"trainable_token_indices": [1, 2]}, "trainable_token_indices"),
        ("IA3Config", {"feedforward_modules": []}, "BatchLoRA trains LoRA; adapter default is IA3"),
        ("VeraConfig", {"r": 4}, "BatchLoRA trains LoRA; adapter default is VERA"),
        ("OFTConfig", {"oft_block_size": 4}, "BatchLoRA trains LoRA; adapter default is OFT"),
        ("LoHaConfig", {"r": 4}, "BatchLoRA trains LoRA; adapter default is LOHA"),
    ],
)
def test_adapters_with_more_than_lora_on_layers_are_refused(kind: str, options: dict[str, Any], says: str) -> None:
    import peft

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = _adapted(
            getattr(peft, kind)(target_modules=["q_proj", "v_proj"][: 1 + (kind == "VeraConfig")], **options)
        )
    with pytest.raises(UsageError, match=says):
        batch_lora.BatchLora(model)


@pytest.mark.parametrize(
    ("names", "rows", "says"),
    [
        (["default", "other"], [1, 1], "no adapter 'other'; the model has default"),
        (["default"], [3], "the batch has 2 rows, and union\\(\\) was given 3"),
        (["default", "default"], [1, 1], "takes each adapter once"),
        (["default"], [1, 1], "1 names, 2 numbers"),
    ],
)
def test_a_union_that_is_not_the_batchs_is_refused(names: list[str], rows: list[int], says: str) -> None:
    from peft import LoraConfig

    model = batch_lora.BatchLora(_adapted(LoraConfig(target_modules=["q_proj"])))
    with pytest.raises(UsageError, match=says), model.union(names, rows, torch.device("cpu")):
        model(input_ids=torch.ones(2, 4, dtype=torch.int64))


def test_disabled_adapters_are_not_trained_in_silence() -> None:
    from peft import LoraConfig

    model = batch_lora.BatchLora(_adapted(LoraConfig(target_modules=["q_proj"])))
    with (
        pytest.raises(UsageError, match="leave disable_adapter"),
        model.peft_model.disable_adapter(),
        model.union(["default"], [2], torch.device("cpu")),
    ):
        model(input_ids=torch.ones(2, 4, dtype=torch.int64))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize(("operator", "batch_size"), quick(1, [("fused", [1, 2]), ("loop", [2, 2])]))
@pytest.mark.slow
def test_a_compiled_batch_has_the_same_losses(
    operator: str, batch_size: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Traced as for inductor, with layers recomputed, and run without its compiler, which takes a minute."""
    settings = {
        "model": "tiny", "lora_cnt": 2, "seq_len": 8, "batch_size": batch_size, "target_modules": "q_proj",
        "rank": [4, 8], "peft_mode": "batch", "batch_operator": operator, "device": "cpu",
    }  # fmt: skip
    plain = train(Trainer(from_dict(settings), torch.device("cpu")), 2)
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="aot_eager"))
    compiled = train(Trainer(from_dict({**settings, "compile": "inductor"}), torch.device("cpu")), 2)
    for name, values in plain.items():
        assert compiled[name]["losses"] == pytest.approx(values["losses"], rel=1e-6)
