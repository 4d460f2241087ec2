"""What memory is for, as the ledger of a run says it: against sizes worked out by hand."""

import gc
import gzip
import itertools
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from brute_force import check_categories  # noqa: E402
from conftest import quick  # noqa: E402
from lorabench.analyze.pipeline import analyze  # noqa: E402
from lorabench.analyze.store.database import Database  # noqa: E402
from lorabench.collect.instruments.ledger import Ledger  # noqa: E402
from lorabench.collect.instruments.watchers import MemoryWatcher  # noqa: E402
from lorabench.collect.settings.spec import from_dict  # noqa: E402
from lorabench.collect.workload.training import Trainer  # noqa: E402
from torch import nn  # noqa: E402
from torch.profiler import ProfilerActivity, profile  # noqa: E402
from torch.profiler._memory_profiler import _CATEGORY_TO_INDEX, Category, MemoryProfileTimeline  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")
FLOAT = 4  # bytes
CPU = [ProfilerActivity.CPU]


def recorded(folder: Path, ledger: Ledger, work: Callable[[], None]) -> Database:
    """The database of a memory pass over some work."""
    gc.collect()  # torch counts what earlier recordings of this process left
    with profile(activities=CPU, profile_memory=True) as profiler, ledger:
        work()
    profiler.export_chrome_trace(str(folder / "memory.json"))
    ledger.write(folder / "ledger.csv")
    return analyze([folder / "memory.json"], folder / "x.duckdb")


@pytest.fixture
def small() -> Iterator[tuple[nn.Module, nn.Module, torch.optim.Optimizer, Callable[[], None]]]:
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))
    loss = nn.MSELoss()
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        x, y = torch.randn(16, 32), torch.randn(16, 8)
        loss(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    yield model, loss, optimizer, step


def test_a_step_of_a_small_model_is_accounted_for_to_the_byte(small: tuple, tmp_path: Path) -> None:
    model, loss, optimizer, step = small
    step()  # the optimizer has its state now

    def work() -> None:
        for _ in range(3):
            step()

    weights = (32 * 64 + 64 + 64 * 8 + 8) * FLOAT
    with recorded(tmp_path, Ledger([model, loss], [optimizer]), work) as database:
        most = check_categories(database)
        names = database.rows("select distinct name from _memory_block where category = 'gradient'")
    assert most["parameter"] == weights
    assert most["gradient"] == weights
    assert most["optimizer_state"] == 2 * weights + 4 * FLOAT  # two moments, and the number of the step for each tensor
    assert most["input"] == (16 * 32 + 16 * 8) * FLOAT
    assert most["activation"] == (16 * 64 + 16 * 8) * FLOAT  # what relu and the loss keep; x is an input
    assert most.get("unknown", 0) == 0
    assert {name for (name,) in names} == {"0.weight", "0.bias", "2.weight", "2.bias"}


def test_state_that_the_optimizer_makes_in_the_recording_is_its_own(small: tuple, tmp_path: Path) -> None:
    model, loss, optimizer, step = small
    with recorded(tmp_path, Ledger([model, loss], [optimizer]), step) as database:
        weights = (32 * 64 + 64 + 64 * 8 + 8) * FLOAT
        assert check_categories(database)["optimizer_state"] == 2 * weights + 4 * FLOAT


def test_where_torchs_own_timeline_is_right_the_ledger_agrees(small: tuple, tmp_path: Path) -> None:
    """It infers categories from the graph of operators: right for these three, not for activations (8192 bytes here,
    where 4608 are kept), nor for parameters over several steps."""
    model, loss, optimizer, step = small
    step()
    ledger = Ledger([model, loss], [optimizer])
    with profile(activities=CPU, profile_memory=True, record_shapes=True, with_stack=True) as profiler, ledger:
        step()
    profiler.export_chrome_trace(str(tmp_path / "memory.json"))
    ledger.write(tmp_path / "ledger.csv")
    _, sizes = MemoryProfileTimeline(profiler._memory_profile())._coalesce_timeline("cpu")
    with analyze([tmp_path / "memory.json"], tmp_path / "x.duckdb") as database:
        most = check_categories(database)
    for category in (Category.PARAMETER, Category.GRADIENT, Category.OPTIMIZER_STATE):
        peer = max(row[_CATEGORY_TO_INDEX[category] + 1] for row in sizes)
        assert most[category.name.lower()] == peer > 0


@pytest.mark.parametrize("damage", [None, b"[[1, 2], [3]]", b"{}", b'[["a", 2, 3, 4]]', b"not gzip"])
@pytest.mark.first(2)
def test_a_memory_timeline_of_torch_beside_a_trace_is_used(small: tuple, damage: bytes | None, tmp_path: Path) -> None:
    *_, step = small
    step()
    with profile(activities=CPU, profile_memory=True, record_shapes=True, with_stack=True) as profiler:
        step()
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    raw = tmp_path / "cpu.raw.json.gz"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch is to take this function out
        profiler.export_memory_timeline(str(raw), device="cpu")
    if damage is not None:
        raw.write_bytes(damage if damage == b"not gzip" else gzip.compress(damage))
    with analyze([tmp_path], tmp_path / "x.duckdb") as database:
        most = check_categories(database)
        lost = database.rows("select item from source_fact where section = 'lost'")
        bases = {basis for (basis,) in database.rows("select basis from _memory_block")}
    assert bases == {"heuristic"} and lost == ([] if damage is None else [("cpu.raw.json.gz",)])
    weights = (32 * 64 + 64 + 64 * 8 + 8) * FLOAT
    if damage is None:
        assert most["parameter"] == weights and most["optimizer_state"] >= 2 * weights
    else:
        assert "parameter" not in most


def test_the_ledger_changes_no_number_and_keeps_nothing_alive(small: tuple) -> None:
    model, loss, optimizer, _ = small
    x, y = torch.randn(16, 32), torch.randn(16, 8)
    loss(model(x), y).backward()
    plain = [p.grad.clone() for p in model.parameters()]
    optimizer.zero_grad()
    with Ledger([model, loss], [optimizer]):
        loss(model(x), y).backward()
        assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), plain, strict=True))
    optimizer.zero_grad()
    assert not any(hooks for m in (model, loss) for hooks in (m._forward_pre_hooks, m._forward_hooks))


def test_a_pass_that_runs_out_of_memory_leaves_what_it_saw(small: tuple, tmp_path: Path) -> None:
    model, loss, optimizer, step = small
    ledger = Ledger([model, loss], [optimizer])
    watcher = MemoryWatcher(from_dict({"steps": 3}), torch.device("cpu"), tmp_path, "", ledger)
    with pytest.raises(MemoryError), watcher.window():
        step()
        raise MemoryError
    with analyze([tmp_path], tmp_path / "x.duckdb") as database:
        assert check_categories(database)["parameter"] == (32 * 64 + 64 + 64 * 8 + 8) * FLOAT


KINDS = list(itertools.product(["lora", "qlora"], ["none", "layer"], ["switch", "batch"]))


# first each value beside each other value
@pytest.mark.parametrize(("method", "checkpointing", "mode"), quick(4, [KINDS[n] for n in (0, 3, 5, 6, 1, 2, 4, 7)]))
@pytest.mark.first(2)
def test_a_run_with_adapters_is_accounted_for(method: str, checkpointing: str, mode: str, tmp_path: Path) -> None:
    settings = {"model": "tiny", "lora_cnt": 2, "seq_len": 32, "batch_size": 2, "method": method, "peft_mode": mode}
    spec = from_dict({**settings, "gradient_checkpointing": checkpointing, "device": "cpu"})
    trainer = Trainer(spec, torch.device("cpu"))

    def step(number: int) -> None:
        for tasks in trainer.iterations(number, 1):
            for task in tasks:
                trainer.run(task)

    step(0)
    with recorded(tmp_path, trainer.ledger(), lambda: step(1)) as database:
        most = check_categories(database)
        owners = dict(
            database.rows(
                "select adapter, sum(bytes)::bigint from _memory_block where category = 'adapter_parameter' group by 1"
            )
        )
        unknown = database.rows("select bytes, phase, thread_id, path_id from _memory_block where category = 'unknown'")
    adapter = {a.name: sum(p.numel() for p in trainer.parameters(a)) * FLOAT for a in trainer.adapters}
    tensors = sum(len(trainer.parameters(a)) for a in trainer.adapters)
    assert owners == adapter
    assert most["optimizer_state"] == 2 * sum(adapter.values()) + tensors * FLOAT
    assert most["gradient"] == (sum(adapter.values()) if mode == "batch" else max(adapter.values()))
    linear = [m for m in trainer.base.modules() if isinstance(m, nn.Linear) and m.weight.dtype == torch.uint8]
    packed = sum(m.weight.numel() for m in linear)
    plain = {p.data_ptr(): p.numel() * FLOAT for n, p in trainer.base.named_parameters() if "lora_" not in n}
    if method == "qlora":
        assert packed < most["parameter"] < sum(plain.values())  # half a byte a weight, and the constants of blocks
        assert most["quantisation_workspace"] > 0
    else:
        buffers = {b.data_ptr(): b.nbytes for b in trainer.base.buffers()}
        assert most["parameter"] == sum((plain | buffers).values())
        assert "quantisation_workspace" not in most
    assert most["activation"] > most["input"] > 0
    # of blocks: torch's total may hold more, what other recordings of this process left counts in it
    assert sum(row[0] for row in unknown) < 1000, unknown
