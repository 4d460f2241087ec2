"""Steps recorded as CUDA graphs, with a stand-in for the graph: it notes what was computed and computes it again.

That a real one gives the same losses is for a GPU to show (tests/gpu).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from lorabench.collect.batch_lora.dropout import Clock  # noqa: E402
from lorabench.collect.settings.spec import from_dict  # noqa: E402
from lorabench.collect.workload import models, step_graph  # noqa: E402
from lorabench.collect.workload.data import Batch  # noqa: E402
from lorabench.collect.workload.training import Trainer  # noqa: E402
from lorabench.errors import UsageError  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")
CPU = torch.device("cpu")
TINY = {"model": "tiny", "seq_len": 24, "batch_size": 2, "lora_cnt": 2, "device": "cpu", "learning_rate": 1e-3}


class Graph:
    """Replays into the tensors of the recording, as a CUDA graph does: nobody gets new ones."""

    recording: "Graph | None" = None
    replay_cnt = 0

    def __init__(self) -> None:
        self.work: Callable[[], list[Any]] = list
        self.places: list[Any] = []

    def replay(self) -> None:
        Graph.replay_cnt += 1
        for place, value in zip(self.places, self.work(), strict=True):
            place.copy_(value)

    def pool(self) -> int:
        return 1


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def record(graph: Graph, **_: Any) -> Iterator[None]:
        Graph.recording = graph
        yield
        Graph.recording = None

    Graph.replay_cnt = 0
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", record)
    for name in ("synchronize", "current_stream", "set_stream", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, lambda *_: None)


def with_graphs(trainer: Trainer) -> Trainer:
    """A trainer on the CPU whose steps are recorded by the stand-in."""
    trained = trainer._recorded_parameters()
    trainer.graphs = step_graph.StepGraphs(trained, trainer.clock, CPU, trainer.notes)
    compute = trainer._compute

    def recorded(micro: Any, batch: Batch) -> Any:
        losses = compute(micro, batch)
        if graph := Graph.recording:
            mine = [p for p in trained if p.grad is not None]
            graph.places = [losses, *(p.grad for p in mine)]
            if trainer.stack is not None:
                trainer.stack.forget_gradients()  # recording computes nothing

            def again() -> list[Any]:
                for p in mine:
                    p.grad = None
                found = compute(micro, batch)
                return [found.detach(), *(p.grad for p in mine)]

            graph.work = again
        return losses

    trainer._compute = recorded  # type: ignore[method-assign]
    return trainer


def losses(trainer: Trainer, steps: int = 6) -> list[float]:
    done = [trainer.run(task) for tasks in trainer.iterations(0, steps) for task in tasks]
    return [loss for d in done for loss in d.losses.tolist()]


@pytest.mark.usefixtures("graphs")
@pytest.mark.parametrize("lengths", ["fixed", "uniform"])
@pytest.mark.parametrize(
    "settings",
    [{"peft_mode": "switch"}, {"peft_mode": "batch"}, {"peft_mode": "batch", "adapter_storage": "stacked"}],
    ids=lambda s: "-".join(s.values()),
)
@pytest.mark.first(2)
def test_recorded_steps_train_as_others(settings: dict[str, Any], lengths: str) -> None:
    spec = from_dict(TINY | settings | {"lengths": lengths})
    expected = losses(Trainer(spec, CPU, with_ranges=False))
    trainer = with_graphs(Trainer(spec, CPU, with_ranges=False))
    assert losses(trainer) == pytest.approx(expected, rel=1e-6)
    assert not trainer.notes
    if lengths == "fixed":  # each adapter's first step is computed, its others are replayed
        assert Graph.replay_cnt == (10 if settings["peft_mode"] == "switch" else 5)


@pytest.mark.usefixtures("graphs")
def test_a_step_that_cannot_be_recorded_is_computed_and_the_run_says_why() -> None:
    spec = from_dict(TINY)
    expected = losses(Trainer(spec, CPU, with_ranges=False))
    trainer = with_graphs(Trainer(spec, CPU, with_ranges=False))
    inner = trainer._compute

    def fails(micro: Any, batch: Batch) -> Any:
        if Graph.recording:
            Graph.recording = None
            raise RuntimeError("operation not permitted when stream is capturing\nand more")
        return inner(micro, batch)

    trainer._compute = fails  # type: ignore[method-assign]
    assert losses(trainer) == pytest.approx(expected, rel=1e-6)
    assert trainer.notes == [
        "--cuda-graph: the step cannot be recorded (operation not permitted when stream is capturing); launched call "
        "by call"
    ]
    assert Graph.replay_cnt == 0


@pytest.mark.usefixtures("graphs")
def test_there_are_no_more_graphs_than_memory_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_graph, "MOST_GRAPHS", 2)
    weight = torch.nn.Parameter(torch.ones(3))
    notes: list[str] = []
    found = step_graph.StepGraphs([weight], Clock(), CPU, notes)

    def compute(batch: Batch) -> Any:
        weight.grad = None
        loss = (weight * batch.input_ids.sum()).sum()[None]
        loss.sum().backward()
        if Graph.recording:
            Graph.recording.places = [loss, weight.grad]
            Graph.recording.work = lambda: [loss.detach(), weight.grad.clone()]
        return loss

    for _ in range(3):
        for length in (1, 2, 3, 4):
            ids = torch.ones(1, length, dtype=torch.int64)
            found.run(["a"], [1], Batch(ids, ids, ids), compute)
    assert len(found._recorded) == 2 and Graph.replay_cnt == 4
    assert notes == ["--cuda-graph: 2 shapes of batches are recorded; others are launched call by call"]


def test_a_batch_is_padded_to_a_multiple_with_what_nobody_learns() -> None:
    ids = torch.randint(1, 9, (2, 130))
    batch = Batch(ids, torch.ones_like(ids), ids)
    longer = batch.padded(128)
    assert longer.input_ids.shape == (2, 256) and torch.equal(longer.input_ids[:, :130], ids)
    assert not longer.attention_mask[:, 130:].any() and (longer.labels[:, 130:] == -100).all()
    assert batch.padded(130) is batch and longer.loss_cnt() == batch.loss_cnt()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"sliding_window": 8}, "window"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "window"),
        ({"attention_dropout": 0.1}, "dropout of its own"),
    ],
    ids=str,
)
def test_models_whose_steps_differ_are_not_recorded(change: dict[str, Any], says: str) -> None:
    base: Any = models.build(from_dict(TINY), CPU)
    assert step_graph.why_not(base) == ""
    for name, value in change.items():
        setattr(base.config, name, value)
    assert says in step_graph.why_not(base)


def test_causal_attention_without_a_mask_gives_what_is_before_the_padding() -> None:
    base: Any = models.build(from_dict(TINY | {"dtype": "float32"}), CPU).eval()
    ids = torch.randint(256, (2, 12))
    mask = torch.ones_like(ids)
    mask[1, 7:] = 0
    with torch.no_grad():
        expected = base(input_ids=ids, attention_mask=mask).logits
        step_graph.attend_causally(base)
        found = base(input_ids=ids, attention_mask=mask).logits
    for row, length in enumerate((12, 7)):
        assert torch.allclose(found[row, :length], expected[row, :length], atol=1e-5)


def test_a_batch_with_padding_before_a_token_is_refused() -> None:
    ids = torch.randint(1, 9, (2, 6))
    mask = torch.ones_like(ids)
    mask[0, :2] = 0
    base: Any = models.build(from_dict(TINY), CPU)
    gpu = torch.device("cuda")  # of which nothing but the name is asked
    with pytest.raises(UsageError, match="padding before a token"):
        step_graph.check(base, from_dict(TINY), gpu, Batch(ids, mask, ids))
    step_graph.check(base, from_dict(TINY), gpu, Batch(ids, mask.flip(1), ids))


@pytest.mark.parametrize("workers", [0, 1])
def test_batches_for_graphs_are_padded_whoever_makes_them(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_graph, "check", lambda *_: None)  # that there is a GPU
    settings = {"device": "auto", "cuda_graph": True, "lengths": "uniform", "seq_len": 200, "loader_workers": workers}
    trainer = Trainer(from_dict(TINY | settings | {"lora_cnt": 1}), CPU, with_ranges=False)
    lengths = {trainer._load(trainer.adapters).batch.input_ids.shape[1] for _ in range(8)}
    trainer.close()
    assert lengths <= {128, 256} and lengths


def test_a_run_without_a_gpu_records_nothing() -> None:
    with pytest.raises(UsageError, match="this run has none"):
        Trainer(from_dict({**TINY, "device": "auto", "cuda_graph": True}), CPU)


def test_classifiers_are_not_recorded() -> None:
    base = models.build(from_dict({"model": "tiny-distilbert", "device": "cpu", "seq_len": 8}), CPU)
    assert "next tokens" in step_graph.why_not(base)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.slow
def test_modules_without_adapters_are_compiled_and_the_losses_stay() -> None:
    settings = TINY | {"peft_mode": "batch", "target_modules": "q_proj,v_proj"}
    expected = losses(Trainer(from_dict(settings), CPU, with_ranges=False), 2)
    trainer = Trainer(from_dict(settings | {"compile": "parts"}), CPU, with_ranges=False)
    compiled = {n.rsplit(".", 1)[-1] for n, m in trainer.model.named_modules() if m._compiled_call_impl is not None}
    assert compiled == {"input_layernorm", "post_attention_layernorm", "mlp"}
    assert losses(trainer, 2) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("targets", "quant"), [("all-linear", "none"), ("q_proj", "int8")])
def test_what_holds_adapters_or_is_quantised_is_not_compiled(targets: str, quant: str) -> None:
    trainer = Trainer(from_dict(TINY | {"target_modules": targets, "quant": quant}), CPU, with_ranges=False)
    parts = {type(m).__name__ for m in models.without_adapters(trainer._peft())}
    assert parts == {"LlamaRMSNorm"}
