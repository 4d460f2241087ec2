"""Ranges of modules: where they open and close, and that they change nothing."""

import copy
import pickle
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

import lorabench  # noqa: E402
from lorabench.collect.instruments import spans  # noqa: E402
from lorabench.collect.settings.spec import from_dict  # noqa: E402
from lorabench.collect.workload.training import Trainer  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


class Recorder:
    """Takes the place of the profilers: notes what opens and closes, by thread of the calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.events: list[str] = []
        self.open: list[str] = []
        monkeypatch.setattr(spans, "listening", lambda: True)
        monkeypatch.setattr(spans, "push", self._push)
        monkeypatch.setattr(spans, "pop", self._pop)
        monkeypatch.setattr(spans, "depth", lambda: len(self.open))
        monkeypatch.setattr(spans, "names", lambda: list(self.open))

    def _push(self, name: str, number: int | None = None) -> None:
        self.open.append(name)
        self.events.append("/".join(self.open))

    def _pop(self) -> None:
        self.open.pop()


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    return Recorder(monkeypatch)


class Square(nn.Module):
    def forward(self, x: Any) -> Any:
        return x * x


class Seen(torch.autograd.Function):
    """Notes which ranges are open when its own backward runs."""

    @staticmethod
    def forward(ctx: Any, x: Any, name: str, recorder: Recorder, found: dict[str, str]) -> Any:
        ctx.note = (name, recorder, found)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        name, recorder, found = ctx.note
        found[name] = "/".join(recorder.open)
        return grads[0], None, None, None


class Probe(nn.Module):
    """A module whose backward says where it ran."""

    def __init__(self, name: str, recorder: Recorder, found: dict[str, str]):
        super().__init__()
        self.note = (name, recorder, found)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Any) -> Any:
        return Seen.apply(x * self.scale, *self.note)


class Block(nn.Module):
    def __init__(self, recorder: Recorder, found: dict[str, str], number: int, checkpointing: bool | None):
        super().__init__()
        self.a = Probe(f"{number}.a", recorder, found)
        self.b = Probe(f"{number}.b", recorder, found)
        self.checkpointing = checkpointing

    def inner(self, x: Any) -> Any:
        return self.b(self.a(x)) + x

    def forward(self, x: Any) -> Any:
        if self.checkpointing is None:
            return self.inner(x)
        return checkpoint(self.inner, x, use_reentrant=self.checkpointing)


class Net(nn.Module):
    def __init__(self, recorder: Recorder, found: dict[str, str], checkpointing: bool | None):
        super().__init__()
        self.layers = nn.ModuleList(Block(recorder, found, n, checkpointing) for n in range(2))

    def forward(self, x: Any) -> dict[str, Any]:
        for layer in self.layers:
            x = layer(x)
        return {"out": [x]}


@pytest.mark.parametrize("checkpointing", [None, False, True], ids=["plain", "non-reentrant", "reentrant"])
def test_a_backward_node_runs_inside_the_range_of_its_module(recorder: Recorder, checkpointing: bool | None) -> None:
    found: dict[str, str] = {}
    net = Net(recorder, found, checkpointing)
    lorabench.annotate(net)
    for _ in range(2):
        out = net(torch.ones(3, requires_grad=True))["out"][0]
        spans.push("backward")
        out.sum().backward()
        spans.pop()
        assert recorder.open == []
        assert found == {
            f"{n}.{part}": f"backward/Net/layers.{n}/{part}" for n in range(2) for part in ("a", "b")
        }  # fmt: skip
        found.clear()


def test_a_recomputation_is_named_as_one(recorder: Recorder) -> None:
    net = Net(recorder, {}, False)
    lorabench.annotate(net)
    out = net(torch.ones(3, requires_grad=True))["out"][0]
    recorder.events.clear()
    out.sum().backward()
    assert recorder.events[0] == "backward" and not any(e.startswith("recompute") for e in recorder.events)
    assert {"backward/recompute/Net/layers.1/a", "backward/recompute/Net/layers.0/b"} <= set(recorder.events)
    assert recorder.open == []


def test_a_backward_that_nobody_named_is_named(recorder: Recorder) -> None:
    """On a GPU it runs on a thread of autograd's own, where no range of the script is open."""
    found: dict[str, str] = {}
    net = Net(recorder, found, None)
    lorabench.annotate(net)
    net(torch.ones(3, requires_grad=True))["out"][0].sum().backward()
    assert found["0.a"] == "backward/Net/layers.0/a" and recorder.open == []


def test_a_failed_backward_leaves_no_range_open_in_the_next_step(recorder: Recorder) -> None:
    net = nn.Sequential(nn.Linear(2, 2), Square())
    lorabench.annotate(net, root="net")
    out = net(torch.ones(1, 2, requires_grad=True))

    def fail(_: Any) -> None:
        raise RuntimeError("out of memory, say")

    net[0].weight.register_hook(fail)
    with pytest.raises(RuntimeError, match="say"):
        out.sum().backward()
    net(torch.ones(1, 2))
    assert recorder.open == []
    assert recorder.events[-3:] == ["net", "net/0", "net/1"]


def test_a_copied_and_a_pickled_model_annotate_themselves(recorder: Recorder) -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    lorabench.annotate(net, root="net")
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        recorder.events.clear()
        with torch.no_grad():
            other[0].weight.zero_()
            other[0].bias.fill_(3.0)
        assert other(torch.ones(1, 2)).tolist() == [[3.0, 3.0]]
        assert recorder.events == ["net", "net/0", "net/1"]


def test_removed_annotations_leave_nothing_behind(recorder: Recorder) -> None:
    net = nn.Linear(2, 2)
    with lorabench.annotate(net):
        net(torch.ones(1, 2))
    before = len(recorder.events)
    net(torch.ones(1, 2))
    assert len(recorder.events) == before and not net._forward_hooks and not net._forward_pre_hooks


def test_an_unknown_depth_is_refused() -> None:
    with pytest.raises(ValueError, match="one of step, phase, layer, module, lora"):
        lorabench.annotate(nn.Linear(1, 1), depth="deep")


@pytest.mark.parametrize(
    ("depth", "has", "has_not"),
    [
        ("phase", "step/forward", "step/forward/model"),
        ("layer", "step/forward/model/layers.1", "step/forward/model/layers.1/self_attn"),
        ("module", "step/forward/model/layers.1/self_attn/q_proj", "step/forward/model/layers.1/self_attn/q_proj/base"),
        ("lora", "step/backward/model/layers.0/self_attn/q_proj/lora_A/adapter_0", "nothing"),
    ],
)
def test_the_depth_decides_how_fine_ranges_are(recorder: Recorder, depth: str, has: str, has_not: str) -> None:
    trainer = Trainer(_spec(range_depth=depth, gradient_checkpointing="none"), torch.device("cpu"))
    _train(trainer)
    assert has in recorder.events
    assert has_not not in recorder.events


def test_the_backward_of_a_layer_that_one_adapter_of_a_union_batch_trains_has_its_parts(recorder: Recorder) -> None:
    settings = {"lora_cnt": 2, "peft_mode": "batch", "target_modules": "q_proj;q_proj,v_proj"}
    _train(Trainer(_spec(gradient_checkpointing="none", **settings), torch.device("cpu")))
    for phase in ("forward", "backward"):
        layer = f"step/{phase}/model/layers.0/self_attn"
        assert {f"{layer}/v_proj/lora_{part}/adapter_1" for part in "AB"} <= set(recorder.events)
        assert f"{layer}/v_proj/lora_A/adapter_0" not in recorder.events


def _spec(**more: Any) -> Any:
    settings = {"model": "tiny", "seq_len": 8, "batch_size": 2, "device": "cpu", "rank": 4, **more}
    if settings.get("method") == "full":  # has no adapters to set
        settings = {name: value for name, value in settings.items() if name not in ("rank", "dropout")}
    return from_dict(settings)


def _train(trainer: Trainer, steps: int = 1) -> list[float]:
    return [
        loss for tasks in trainer.iterations(0, steps) for task in tasks for loss in trainer.run(task).losses.tolist()
    ]


CASES = [
    {"lora_cnt": 2},
    {"lora_cnt": 2, "peft_mode": "batch"},
    {"lora_cnt": 2, "peft_mode": "batch", "batch_operator": "loop"},
    {"reentrant": True},
    {"gradient_checkpointing": "attn-mlp", "quant": "nf4"},
    {"gradient_checkpointing": "none", "quant": "int8"},
    {"method": "full"},
    {"model": "tiny-distilbert"},
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.first(4)
def test_losses_and_weights_are_the_same_bits_with_ranges(case: dict[str, Any]) -> None:
    plain = Trainer(_spec(**case, range_depth="step"), torch.device("cpu"))
    losses = _train(plain, 3)
    ranged = Trainer(_spec(**case, range_depth="lora"), torch.device("cpu"))
    with torch.profiler.profile():
        assert _train(ranged, 3) == losses
    both = zip(plain.model.named_parameters(), ranged.model.named_parameters(), strict=True)
    assert all(torch.equal(p, q) for (_, p), (_, q) in both)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_forward_and_backward_open_the_same_modules(recorder: Recorder, case: dict[str, Any]) -> None:
    trainer = Trainer(_spec(**case), torch.device("cpu"))
    _train(trainer)
    assert recorder.open == []
    both = [{e.removeprefix(f"step/{p}/") for e in recorder.events if e.startswith(f"step/{p}/")} for p in
            ("forward", "backward")]  # fmt: skip
    forward = {e for e in both[0] if any(word in e for word in ("/base", "/lora_A", "/lora_B"))}
    backward = {e for e in both[1] if "recompute" not in e}
    assert forward - backward <= {e for e in forward if "layers.0" in e}  # nothing below the first layer needs them
    assert case.get("method") == "full" or forward & backward


def test_nothing_is_counted_where_nobody_listens() -> None:
    before = spans.opened()
    with lorabench.span("unheard"):
        pass
    assert spans.opened() == before


def test_a_span_closes_what_an_exception_left_open(recorder: Recorder) -> None:
    with pytest.raises(KeyError), lorabench.span("outer"):
        spans.push("inner")
        raise KeyError
    assert recorder.open == []


def test_compiled_graphs_have_no_ranges_and_do_not_break(recorder: Recorder) -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    lorabench.annotate(net)
    compiled = torch.compile(net, backend="eager", fullgraph=True)
    compiled(torch.ones(1, 2)).sum().backward()
    assert recorder.events == []


class Inside(nn.Module):
    """A layer as litgpt has it: a module for the base, and LoRA's weights its own."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.dropout = nn.Linear(4, 4), nn.Dropout(0.0)
        self.lora_A, self.lora_B = nn.Parameter(torch.ones(2, 4)), nn.Parameter(torch.ones(4, 2))

    def forward(self, x: Any) -> Any:
        return self.linear(x) + self.dropout(x) @ self.lora_A.transpose(0, 1) @ self.lora_B.transpose(0, 1)


class Derived(nn.Linear):
    """A layer as loralib has it: all weights its own."""

    def __init__(self) -> None:
        super().__init__(4, 4)
        self.lora_A, self.lora_B = nn.Parameter(torch.ones(2, 4)), nn.Parameter(torch.ones(4, 2))

    def forward(self, x: Any) -> Any:
        return nn.functional.linear(x, self.weight, self.bias) + x @ self.lora_A.T @ self.lora_B.T


@pytest.mark.parametrize("kind", [Inside, Derived])
def test_layers_that_hold_loras_weights_themselves_have_its_parts(kind: "type[nn.Module]", recorder: Recorder) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(kind(), nn.ReLU(), kind())
    plain = copy.deepcopy(net)
    lorabench.annotate(net)
    x = torch.ones(3, 4, requires_grad=True)
    results = []
    for one in (net, plain):
        one(x).sum().backward()
        results.append([x.grad, *(weight.grad for weight in one.parameters())])
        x.grad = None
    assert all(map(torch.equal, *results)) and recorder.open == []
    parts = [f"Sequential/{layer}/{part}" for layer in (0, 2) for part in ("base", "lora_A", "lora_B")]
    assert [event for event in recorder.events if event in parts] == parts  # each once
    assert {f"backward/{part}" for part in parts} <= set(recorder.events)
    assert not [event for event in recorder.events if "linear" in event]
