"""How input gets to the step: workers change neither data nor order, and end with the run."""

import itertools
import multiprocessing
import time
from typing import Any

import psutil
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from lorabench.collect.settings.spec import from_dict  # noqa: E402
from lorabench.collect.workload.data import Batch  # noqa: E402
from lorabench.collect.workload.loader import Ahead, Slow  # noqa: E402
from lorabench.collect.workload.training import Trainer  # noqa: E402
from lorabench.errors import UsageError  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")
CPU = torch.device("cpu")
SMALL = {"model": "tiny", "seq_len": 8, "batch_size": 2, "device": "cpu", "rank": 4, "gradient_checkpointing": "none",
         "warmup": 1, "steps": 3}  # fmt: skip


def trained(**more: Any) -> list[tuple[str, list[float], Any]]:
    """Who took each step of a run, with which losses and tokens, in the order that a timing pass asks in."""
    trainer = Trainer(from_dict(SMALL | more), CPU, with_ranges=False)
    asked = [(0, 1), (1, 3), (4, 1), (5, 1)]
    tasks = [task for first, count in asked for group in trainer.iterations(first, count) for task in group]
    done = []
    for number, task in enumerate(tasks):
        if number == 1:
            trainer.load_ahead()
        done.append(trainer.run(task))
    trainer.close()
    return [(d.task.name, d.losses.tolist(), d.tokens) for d in done]


@pytest.mark.parametrize(
    "settings",
    [
        {"lora_cnt": 2, "peft_mode": "seq", "grad_accum": "1,3"},
        {"lora_cnt": 2, "peft_mode": "switch", "lengths": "uniform"},
        {"lora_cnt": 2, "peft_mode": "batch", "lengths": "uniform", "packing": True, "grad_accum": "2,1"},
        {"model": "tiny-distilbert", "task": "sst2", "data": "words", "epochs": 1},
    ],
    ids=["seq", "switch", "packed batch", "epochs"],
)
@pytest.mark.first(2)
def test_batches_and_losses_are_the_same_with_any_number_of_workers(settings: dict[str, Any]) -> None:
    alone = trained(**settings)
    assert trained(**settings, loader_workers=1) == alone == trained(**settings, loader_workers=3)


def _serve(pids: Any) -> None:
    streams = {"a": Batch5()}
    ahead = Ahead(streams, itertools.repeat(("a",)), 2, False)
    ahead.next(["a"])
    pids.send([child.pid for child in psutil.Process().children()])
    time.sleep(60)


class Batch5:
    """The same batch again and again."""

    def next(self) -> Batch:
        return Batch(*(torch.full((1, 2), 5) for _ in range(3)))

    def skip(self) -> None:
        pass


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_workers_end_with_the_process_that_trains_even_when_it_is_killed() -> None:
    """Under a run's guard, which would end them as well, nothing would show this."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there,))
    process.start()
    workers = [psutil.Process(pid) for pid in here.recv()]
    assert len(workers) == 2
    process.kill()
    for _ in range(100):
        alive = [worker for worker in workers if _is_alive(worker)]
        if not alive:
            break
        time.sleep(0.02)
    for worker in alive:
        worker.kill()
    assert alive == []


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE  # who reaps orphans here takes its time
    except psutil.NoSuchProcess:
        return False


def test_nothing_is_made_ahead_of_the_measured_steps_by_the_warm_up() -> None:
    """What lay ready would feed a short run, however slow the loader."""
    slow = Slow(Batch5(), 60)
    ahead = Ahead({"a": slow}, itertools.repeat(("a",)), 2, False)
    times = []
    for number in range(4):
        if number == 2:
            ahead.go()
        time.sleep(0.2)
        start = time.perf_counter()
        ahead.next(["a"])
        times.append(time.perf_counter() - start)
    ahead.close()
    assert min(times[:2]) > 0.05 > max(times[2:])


def test_batches_that_come_in_another_order_than_they_are_asked_for_are_an_error() -> None:
    ahead = Ahead({"a": Batch5(), "b": Batch5()}, itertools.cycle([("a",), ("b",)]), 1, False)
    ahead.next(["a"])
    with pytest.raises(RuntimeError, match=r"made batches of \('b',\) where \('a',\) are trained"):
        ahead.next(["a"])
    ahead.close()


def test_a_loader_that_is_slow_on_purpose_is_as_slow_as_it_was_told() -> None:
    trainer = Trainer(from_dict(SMALL | {"batch_delay_ms": 30}), CPU, with_ranges=False)
    start = time.perf_counter()
    loaded = trainer._load(trainer.adapters)
    assert time.perf_counter() - start >= 0.03 and loaded.row_cnt == 2


def test_without_a_gpu_there_is_nothing_to_pin() -> None:
    with pytest.raises(UsageError, match="--no-pin-memory is about copies to a GPU, and this run has none"):
        Trainer(from_dict({name: value for name, value in SMALL.items() if name != "device"} | {"pin_memory": False}),
                CPU)  # fmt: skip
