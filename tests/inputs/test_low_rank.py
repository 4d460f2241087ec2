"""LoRA layers are found by their shapes where a trace does not name them, and nothing else is taken for one."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import opened

torch = pytest.importorskip("torch")
nn = torch.nn
BATCH, LENGTH, WIDTH, WIDE, RANK, STEPS = 2, 8, 64, 96, 4, 2
PARTS = ("base", "lora_A", "lora_B")
COUNTED = "select module, part, direction, range_cnt from lora_summary where range_cnt > 0 order by all"
FACT = "select value, note from source_fact where item = 'LoRA by shapes'"


def recorded(step: Callable[[], Any], path: Path, **options: Any) -> Path:
    """Some steps as torch.profiler writes them, with shapes unless said otherwise."""
    options = {"record_shapes": True, **options}
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **options) as profiler:
        for _ in range(STEPS):
            step()
    profiler.export_chrome_trace(str(path))
    return path


class Lora(nn.Module):
    """A frozen projection with adapters of the ranks given."""

    def __init__(self, width: int, out: int, *ranks: int, dropout: float = 0.0, dtype: torch.dtype | None = None):
        super().__init__()
        self.base = nn.Linear(width, out).requires_grad_(False).to(dtype or torch.float32)
        self.narrow = nn.ModuleList(nn.Linear(width, rank, bias=False) for rank in ranks)
        self.wide = nn.ModuleList(nn.Linear(rank, out, bias=False) for rank in ranks)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.base(x.to(self.base.weight.dtype)).to(x.dtype)
        for narrow, wide in zip(self.narrow, self.wide, strict=True):
            y = y + wide(narrow(self.dropout(x))) * 2.0
        return y


def trained(model: nn.Module, path: Path, **options: Any) -> Path:
    """Forward and backward of a model; its input has a gradient, as behind an embedding that is trained."""

    def step() -> None:
        model(torch.randn(BATCH, LENGTH, WIDTH, requires_grad=True)).sum().backward()

    return recorded(step, path, **options)


def counted(path: Path) -> dict[tuple[str, str, str], int]:
    with opened(path, db=path.with_suffix(".duckdb")) as database:
        return {(module, part, direction): n for module, part, direction, n in database.rows(COUNTED)}


def both_ways(module: str, cnt: int, **parts: int) -> dict[tuple[str, str, str], int]:
    parts = {"base": cnt, "lora_A": cnt, "lora_B": cnt, **parts}
    return {(module, part, way): n for part, n in parts.items() for way in ("forward", "backward")}


def test_each_layer_is_found_in_both_directions(tmp_path: Path) -> None:
    model = nn.Sequential(Lora(WIDTH, WIDTH, RANK), nn.GELU(), Lora(WIDTH, WIDE, RANK), nn.ReLU(), nn.Linear(WIDE, 7))
    path = trained(model, tmp_path / "trace.json")
    assert counted(path) == both_ways(f"linear {WIDTH}x{WIDTH}", STEPS) | both_ways(f"linear {WIDTH}x{WIDE}", STEPS)
    with opened(path, db=tmp_path / "x.duckdb") as database:
        ((rank, note),) = database.rows(FACT)
        classes = dict(database.rows("select part, sum(wall_ns) from lora_summary group by part"))
    assert rank == f"rank {RANK}" and note.startswith(f"{2 * STEPS} products") and all(classes.values())


def test_adapters_side_by_side_are_of_one_layer(tmp_path: Path) -> None:
    path = trained(Lora(WIDTH, WIDE, 2, 4, 8), tmp_path / "trace.json")
    assert counted(path) == both_ways(f"linear {WIDTH}x{WIDE}", STEPS, lora_A=3 * STEPS, lora_B=3 * STEPS)
    with opened(path, db=tmp_path / "x.duckdb") as database:
        assert database.rows(FACT)[0][0] == "rank 2, 4, 8"


@pytest.mark.parametrize("more", [{"dropout": 0.1}, {"dtype": torch.bfloat16}])
def test_dropout_and_casts_are_part_of_a_layer(more: dict[str, Any], tmp_path: Path) -> None:
    assert counted(trained(Lora(WIDTH, WIDE, RANK, **more), tmp_path / "trace.json")) == both_ways(
        f"linear {WIDTH}x{WIDE}", STEPS
    )


@pytest.mark.parametrize("is_reentrant", [False, True])
def test_what_checkpointing_computes_again_is_named_so(is_reentrant: bool, tmp_path: Path) -> None:
    from torch.utils.checkpoint import checkpoint

    model = Lora(WIDTH, WIDE, RANK)

    def step() -> None:
        x = torch.randn(BATCH, LENGTH, WIDTH, requires_grad=True)
        checkpoint(model, x, use_reentrant=is_reentrant).sum().backward()

    found = counted(recorded(step, tmp_path / "trace.json"))
    module = f"linear {WIDTH}x{WIDE}"
    assert {key: n for key, n in found.items() if key[2] != "recompute"} == both_ways(module, STEPS)
    assert {key[1]: n for key, n in found.items() if key[2] == "recompute"} == dict.fromkeys(PARTS, STEPS)


@pytest.mark.parametrize("kind", ["nf4", "int8"])
@pytest.mark.slow
def test_a_quantised_base_is_a_base(kind: str, tmp_path: Path) -> None:
    bitsandbytes = pytest.importorskip("bitsandbytes")
    model = Lora(WIDTH, WIDE, RANK)
    if kind == "nf4":
        model.base = bitsandbytes.nn.Linear4bit(WIDTH, WIDE, compute_dtype=torch.float32, quant_type="nf4")
    else:
        model.base = bitsandbytes.nn.Linear8bitLt(WIDTH, WIDE, has_fp16_weights=False)
    model.base.to("cpu")  # quantises it

    def step() -> None:
        x = torch.randn(BATCH, LENGTH, WIDTH, requires_grad=True)
        y = model.base(x) + model.wide[0](model.narrow[0](x)) * 2.0
        y.sum().backward()

    assert counted(recorded(step, tmp_path / "trace.json")) == both_ways(f"linear {WIDTH}x{WIDE}", STEPS)


def test_products_without_modules_are_found_too(tmp_path: Path) -> None:
    """As kernels for training write them: no linear, the sum in the last product."""
    weight, narrow, wide = torch.randn(WIDTH, WIDE), torch.randn(WIDTH, RANK), torch.randn(RANK, WIDE)

    def step() -> None:
        x = torch.randn(BATCH * LENGTH, WIDTH)
        y = x @ weight
        y.addmm_(x @ narrow, wide)

    found = counted(recorded(step, tmp_path / "trace.json"))
    assert found == {(f"linear {WIDTH}x{WIDE}", part, "forward"): STEPS for part in PARTS}


def bottleneck() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, RANK), nn.ReLU(), nn.Linear(RANK, WIDTH))


def autoencoder() -> nn.Module:
    widths = (WIDTH, WIDTH, 16, WIDTH, WIDTH)
    layers = [(nn.Linear(a, b), nn.Tanh()) for a, b in itertools.pairwise(widths)]
    return nn.Sequential(*(part for pair in layers for part in pair))


class Gated(nn.Module):
    """A gated unit between projections, and a latent: products that follow one another on the same input."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(WIDTH, WIDE), nn.Linear(WIDTH, WIDE), nn.Linear(WIDE, WIDTH)
        self.key, self.value = nn.Linear(WIDTH, 16), nn.Linear(WIDTH, 16)
        self.low, self.high = nn.Linear(WIDTH, 16), nn.Linear(16, WIDE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.down(self.gate(x).sigmoid() * self.up(x))
        return self.high(self.low(x)) + (self.key(x) * self.value(x)).sum()


@pytest.mark.parametrize("model", [bottleneck, autoencoder, Gated])
@pytest.mark.slow
def test_other_narrow_layers_are_no_lora(model: Callable[[], nn.Module], tmp_path: Path) -> None:
    path = trained(model(), tmp_path / "trace.json")
    with opened(path, db=tmp_path / "x.duckdb") as database:
        assert not database.rows(FACT) and not database.rows("from lora_summary")


def test_a_trace_that_names_its_layers_keeps_its_own_names(tmp_path: Path) -> None:
    layer = Lora(WIDTH, WIDE, RANK)

    def step() -> None:
        with torch.profiler.record_function("q_proj"), torch.profiler.record_function("lora_A"):
            layer(torch.randn(BATCH, LENGTH, WIDTH))

    assert {module for module, _, _ in counted(recorded(step, tmp_path / "trace.json"))} == {"q_proj"}


@pytest.mark.slow
def test_without_shapes_nothing_is_guessed(tmp_path: Path) -> None:
    assert not counted(trained(Lora(WIDTH, WIDE, RANK), tmp_path / "trace.json", record_shapes=False))


def test_widths_beyond_all_numbers_cost_no_more_than_themselves(tmp_path: Path) -> None:
    shapes = [[[8, 1e300], [1e300, 1e300]], [[8, 1e300], [4, 1e300]], [[8, 4], [1e300, 4]]]
    shapes += [[[8, 64], [96, 64]], [[8, 64], [4, 64]], [[8, 4], [96, 4]]]
    path = tmp_path / "trace.json"
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 1, "tid": 1, "ts": 10.0 * i, "dur": 5.0,
         "args": {"Input Dims": dims, "Input type": ["float", "float"]}}
        for i, dims in enumerate(shapes)
    ]  # fmt: skip
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), "utf-8")
    assert counted(path) == {("linear 64x96", part, "forward"): 1 for part in PARTS}


@pytest.mark.parametrize(
    "dims",
    [
        "[[2, 8], [-1, 8], []]",
        "[[], [], []]",
        "[[0, 0], [0, 0]]",
        '[["x"], [[8]]]',
        "7",
        "[[1e308, 1e308], [1e308, 1e308]]",
    ],
)
@pytest.mark.first(2)
def test_shapes_may_hold_anything(dims: str, tmp_path: Path) -> None:
    events = [
        {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": 10.0 * i, "dur": 5.0,
         "args": {"Input Dims": json.loads(dims), "Input type": ["float"]}}
        for i, name in enumerate(["aten::linear", "aten::mm", "aten::addmm", "aten::matmul"] * 3)
    ]  # fmt: skip
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), "utf-8")
    assert not counted(path)
