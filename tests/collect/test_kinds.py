"""Kinds of adapters: each trains, the same with ranges, its parts have names, and what it cannot do is refused."""

import re
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from lorabench import vocabulary  # noqa: E402
from lorabench.collect.instruments import spans  # noqa: E402
from lorabench.collect.instruments.adapter_parts import is_part  # noqa: E402
from lorabench.collect.run import measure  # noqa: E402
from lorabench.collect.settings import quants  # noqa: E402
from lorabench.collect.settings.kinds import KINDS  # noqa: E402
from lorabench.collect.settings.spec import from_dict  # noqa: E402
from lorabench.collect.workload.training import Trainer  # noqa: E402
from lorabench.errors import UsageError  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
CPU = torch.device("cpu")
PARTS = {
    "lora": {"lora_A", "lora_B"},
    "rslora": {"lora_A", "lora_B"},
    "lora-plus": {"lora_A", "lora_B"},
    "lora-fa": {"lora_A", "lora_B"},
    "pissa": {"lora_A", "lora_B"},
    "olora": {"lora_A", "lora_B"},
    "dora": {"lora_A", "lora_B", "lora_magnitude_vector"},
    "adalora": {"lora_A", "lora_B", "lora_E"},
    "vera": {"vera_A", "vera_B", "vera_lambda_b", "vera_lambda_d"},
    "ia3": {"ia3_l"},
    "oft": {"oft_R"},
    "loha": {"hada_w1", "hada_w2", "hada"},
    "lokr": {"lokr_w2", "lokr"},
}
BITS = [(kind, quant) for kind, k in KINDS.items() for quant in ("none", *k.quants)]


def spec(kind: str, **more: Any) -> Any:
    settings = {
        "model": "tiny", "seq_len": 8, "batch_size": 2, "device": "cpu", "rank": 4, "steps": 3, "warmup": 0, **more
    }  # fmt: skip
    own = {name: value for name, value in settings.items() if name not in KINDS[kind].unused}
    return from_dict({**own, "adapter_kind": kind})


def whole(weight: Any) -> Any:
    """A weight as a plain tensor: those of torchao and quanto are tensors of their own kind."""
    plain = type(weight) in (torch.Tensor, torch.nn.Parameter) or type(weight).__module__.startswith("bitsandbytes")
    return weight.detach() if plain else weight.dequantize()


def train(trainer: Trainer, steps: int = 3) -> list[float]:
    return [
        loss for tasks in trainer.iterations(0, steps) for task in tasks for loss in trainer.run(task).losses.tolist()
    ]


def adapter_weights(trainer: Trainer) -> dict[str, Any]:
    return {name: p.detach().clone() for name, p in trainer.named_parameters(trainer.adapters[0]).items()}


def test_there_are_thirteen_kinds() -> None:
    assert len(KINDS) == 13 and KINDS.keys() == PARTS.keys()


@pytest.mark.parametrize(("kind", "quant"), BITS, ids=str)
@pytest.mark.first(10)
def test_a_kind_trains_and_ranges_change_no_bit(kind: str, quant: str) -> None:
    if needed := quants.missing(quant):
        pytest.skip(f"needs {needed}")
    plain = Trainer(spec(kind, quant=quant, range_depth="step"), CPU)
    before = adapter_weights(plain)
    base = {
        n: whole(p).clone() for n, p in plain.model.named_parameters() if n.endswith("base_layer.weight")
    }  # fmt: skip
    losses = train(plain)
    after = adapter_weights(plain)
    changed = {name for name, weight in before.items() if not torch.equal(weight, after[name])}
    still = {name for name in before if kind == "lora-fa" and "lora_A" in name}
    assert changed == before.keys() - still and changed
    assert all(torch.equal(p, whole(dict(plain.model.named_parameters())[n])) for n, p in base.items()) and base
    ranged = Trainer(spec(kind, quant=quant), CPU)
    with torch.profiler.profile():
        assert train(ranged) == losses
    both = zip(plain.model.parameters(), ranged.model.parameters(), strict=True)
    assert all(torch.equal(whole(p), whole(q)) for p, q in both)


@pytest.mark.parametrize("kind", KINDS)
def test_the_parts_of_a_kind_are_ranges_of_their_own(kind: str) -> None:
    before = spans.opened()
    trainer = Trainer(spec(kind, range_depth="lora", target_modules="q_proj,down_proj"), CPU)
    with spans.rehearsed():
        train(trainer, 1)
    paths = {path for path, count in spans.opened().items() if count > before.get(path, 0)}
    found = [path.split("/") for path in paths if "q_proj" in path or "down_proj" in path]
    for direction in ("forward", "backward"):
        names = {part for path in found if direction in path for part in path if is_part(part)}
        # of AdaLoRA's and VeRA's vectors the backward is within the products around them
        assert PARTS[kind] - {"lora_E", "vera_lambda_d"} <= names <= PARTS[kind], direction
    assert all(sum(map(is_part, path)) + ("base" in path) <= 1 for path in found), "a part is inside another"
    assert all(path[-1] == "adapter_0" for path in found if any(map(is_part, path[:-1])))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.first(6)
def test_an_adapter_follows_from_the_seed_and_its_name(kind: str) -> None:
    alone = Trainer(spec(kind), CPU)
    if KINDS[kind].shares_base:
        both = Trainer(spec(kind, lora_cnt=2), CPU)
        assert train(both, 2)[::2] == train(alone, 2)
    else:
        again = Trainer(spec(kind), CPU)
        assert train(again, 2) == train(alone, 2)
    other = Trainer(spec(kind, seed=1), CPU)
    ours, theirs = adapter_weights(Trainer(spec(kind), CPU)), adapter_weights(other)
    # the vectors of IA3 start at one
    assert kind == "ia3" or any(not torch.equal(weight, theirs[name]) for name, weight in ours.items())


@pytest.mark.parametrize("dropout", [0.0, 0.05])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.first(16)
def test_the_products_of_a_token_are_what_torch_counts(kind: str, dropout: float) -> None:
    if dropout and "dropout" in KINDS[kind].unused:
        pytest.skip("has no dropout")
    trainer = Trainer(spec(kind, **({"dropout": dropout} if "dropout" not in KINDS[kind].unused else {})), CPU)
    (own,) = trainer.adapter_flop().values()
    counted = measure.arithmetic(trainer.model, "none", trainer.adapter_flop())

    def products(length: int) -> int:
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            trainer.model(input_ids=torch.ones(1, length, dtype=torch.int64))
        found = counter.get_flop_counts()["Global"].items()
        return sum(flop for op, flop in found if str(op).split(".")[1] in ("mm", "addmm", "bmm"))

    # what a step needs once, whatever its tokens, falls out: the delta that LoHa makes, DoRA's norm
    assert products(48) - products(16) == 32 * (counted.frozen + counted.trained + sum(own))
    assert (own[0] > 0) == (kind in ("vera", "lora-fa") or (kind == "dora" and dropout > 0))


def test_lora_plus_groups_weights_as_peft_does() -> None:
    from peft.optimizers import create_loraplus_optimizer

    trainer = Trainer(spec("lora-plus", lora_plus_ratio=8, learning_rate=0.001), CPU)
    theirs = create_loraplus_optimizer(trainer.model, torch.optim.AdamW, lr=0.001, loraplus_lr_ratio=8)

    def rates(optimizer: Any) -> dict[int, float]:
        return {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}

    assert rates(trainer.optimizers["adapter_0"]) == rates(theirs)


def test_lora_fa_steps_as_pefts_optimizer_does() -> None:
    from peft.optimizers import create_lorafa_optimizer

    ours = Trainer(spec("lora-fa", learning_rate=0.01, dropout=0), CPU)
    theirs = Trainer(spec("lora-fa", learning_rate=0.01, dropout=0), CPU)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs.optimizers["adapter_0"] = create_lorafa_optimizer(theirs.model, r=4, lora_alpha=16, lr=0.01)
    assert train(ours) == train(theirs)


def test_adalora_trains_what_peft_adds_to_the_loss() -> None:
    trainer = Trainer(spec("adalora"), CPU)
    batch = trainer._streams["adapter_0"].next()
    peft = trainer.model
    with torch.no_grad():
        outputs = [
            peft(input_ids=batch.input_ids, attention_mask=batch.attention_mask, labels=batch.labels).loss,
            peft.get_base_model()(
                input_ids=batch.input_ids, attention_mask=batch.attention_mask, labels=batch.labels
            ).loss,
        ]
        penalty = trainer.kind.penalty(peft, trainer.adapters[0])
    assert float(penalty) == pytest.approx(float(outputs[0] - outputs[1]), rel=1e-4)


def test_the_budget_of_adalora_spans_all_epochs() -> None:
    trainer = Trainer(spec("adalora", task="sst2", epochs=1, steps=2, warmup=1), CPU)
    (config,) = trainer.model.peft_config.values()
    assert config.total_step == trainer.total_steps > 100
    assert trainer.model.base_model.rankallocator.peft_config is config


def test_adalora_takes_rank_away_until_the_budget_is_met() -> None:
    trainer = Trainer(spec("adalora", steps=6), CPU)
    train(trainer, 6)
    vectors = [m.lora_E["adapter_0"] for m in trainer.model.modules() if hasattr(m, "lora_E")]
    left = sum(int((vector != 0).sum()) for vector in vectors)
    assert sum(len(vector) for vector in vectors) == 6 * len(vectors) and left < 5 * len(vectors)


@pytest.mark.parametrize("kind", ["dora", "vera", "ia3", "oft", "loha"])
def test_a_classifier_takes_a_kind(kind: str) -> None:
    trainer = Trainer(spec(kind, model="tiny-distilbert", gradient_checkpointing="none"), CPU)
    train(trainer, 1)
    assert any("classifier" in name for name in trainer.named_parameters(trainer.adapters[0]))


@pytest.mark.parametrize(
    ("kind", "settings", "says"),
    [
        ("dora", {"peft_mode": "batch"}, "batch cannot train --adapter-kind dora"),
        ("lora-fa", {"peft_mode": "batch"}, "cannot train --adapter-kind lora-fa"),
        ("ia3", {"peft_mode": "batch"}, "cannot train --adapter-kind ia3"),
        ("pissa", {"lora_cnt": 2}, "takes out of the base's weights: one adapter for each base"),
        ("adalora", {"lora_cnt": 2, "peft_mode": "seq"}, "PEFT trains one"),
        ("pissa", {"quant": "nf4"}, "cannot be put on a base of --quant nf4; it goes with none"),
        ("loha", {"method": "qlora"}, "a base of --quant nf4"),
        ("dora", {"quant": "int8"}, "of --quant int8; it goes with none, nf4"),
        ("vera", {"alpha": 8}, "--alpha would change nothing: --adapter-kind vera has none"),
        ("ia3", {"rank": 8}, "--rank would change nothing"),
        ("oft", {"dropout": 0.1}, "--dropout would change nothing"),
        ("vera", {"lora_cnt": 2, "rank": [4, 8]}, "share its random A and B"),
        ("lora", {"lora_plus_ratio": 4}, "--lora-plus-ratio is a setting of --adapter-kind lora-plus"),
        ("lora-plus", {"lora_plus_ratio": 0.5}, "at least 1"),
        ("lora-fa", {"optimizer": "sgd"}, "an AdamW of its own"),
        ("dora", {"method": "full"}, "--adapter-kind is a setting of adapters"),
    ],
)
def test_what_a_kind_cannot_do_is_refused_in_one_line(kind: str, settings: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)):
        from_dict({"adapter_kind": kind, **settings})


def test_oft_refuses_blocks_that_do_not_fit() -> None:
    with pytest.raises(UsageError, match="blocks of --rank values: 64 is not a multiple"):
        Trainer(spec("oft", rank=7), CPU)


def test_sql_has_the_same_names_of_parts() -> None:
    from lorabench import sql

    (view,) = [f for f in sql.load() if f.name == "_lora_path"]
    joined = re.sub(r"'\s*\|\|\s*'", "", view.statement.replace("-- PEFT's names, vocabulary.ADAPTER_PARTS", ""))
    assert f"|{vocabulary.ADAPTER_PARTS})" in joined
