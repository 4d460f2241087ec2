"""Memory that grows from step to step, and memory that nobody explains, of loops whose truth is known."""

import itertools
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import dear
from hypothesis import example, given
from hypothesis import strategies as st
from lorabench.analyze.pipeline import analyze

MIB = 2**20
LIBRARY = "/x/site-packages"
LOOP = ("/me/train.py", 3, "main")
FORWARD = ((f"{LIBRARY}/torch/nn/modules/module.py", 1, "_call_impl"), LOOP)
BACKWARD = ((f"{LIBRARY}/torch/autograd/graph.py", 8, "_engine_run_backward"), LOOP)
STEP = ((f"{LIBRARY}/torch/optim/adamw.py", 7, "step"), LOOP)
KEEPER = (("/me/metrics.py", 40, "remember"), LOOP)
LOADER = ((f"{LIBRARY}/torch/nn/modules/module.py", 1300, "to"), LOOP)


class History:
    """What torch's allocator saw on one device: each allocation at an address of its own."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.live: dict[int, int] = {}
        self._addresses = itertools.count(1)

    def _say(self, action: str, address: int, size: int, frames: tuple[tuple[str, int, str], ...]) -> None:
        named = [{"filename": file, "line": line, "name": name} for file, line, name in frames]
        when = 10 * len(self.events)
        self.events.append(
            {"action": action, "addr": address, "size": size, "stream": 0, "time_us": when, "frames": named}
        )

    def keep(self, size: int, frames: tuple[tuple[str, int, str], ...]) -> int:
        address = next(self._addresses) << 40
        self._say("alloc", address, size, frames)
        self.live[address] = size
        return address

    def drop(self, address: int, frames: tuple[tuple[str, int, str], ...]) -> None:
        self._say("free_requested", address, self.live.pop(address), frames)

    def written(self, folder: Path) -> Path:
        path = folder / "snapshot.pickle"
        segments = [
            {"device": 0, "address": address, "total_size": size, "allocated_size": size, "stream": 0,
             "segment_type": "large", "frames": [],
             "blocks": [{"address": address, "size": size, "requested_size": size, "state": "active_allocated",
                         "frames": []}]}
            for address, size in self.live.items()
        ]  # fmt: skip
        path.write_bytes(pickle.dumps({"segments": segments, "device_traces": [self.events]}))
        return path


def trained(kept: list[int], activations: list[int], frames: Any, micro_cnt: int = 1) -> History:
    """A loop: weights, then steps that each make activations of their own, and keep `kept` MiB for good."""
    history = History()
    history.keep(100 * MIB, LOADER)
    state = None
    for left, activation in zip(kept, activations, strict=True):
        for _ in range(micro_cnt):
            made = history.keep(activation * MIB, FORWARD)
            history.drop(made, BACKWARD)
        if left:
            history.keep(left * MIB, frames)
        if state is None:
            state = history.keep(50 * MIB, STEP)
        history.drop(history.keep(MIB, STEP), STEP)
    return history


def growth(history: History, folder: Path) -> list[tuple[int, str]]:
    with analyze([history.written(folder)], folder / "x.duckdb", force=True) as database:
        return database.rows("select cost_bytes, evidence from memory_finding where rule = 'growth'")


@dear(6, long=100)
@given(
    left=st.integers(1, 40), activations=st.lists(st.integers(1, 60), min_size=6, max_size=12),
    frames=st.sampled_from([FORWARD, BACKWARD, KEEPER]), micro_cnt=st.integers(1, 3), more=st.data(),
)  # fmt: skip
@pytest.mark.slow
def test_what_each_step_leaves_behind_is_found_to_the_byte(
    left: int, activations: list[int], frames: Any, micro_cnt: int, more: Any, tmp_path_factory: Any
) -> None:
    kept = [left + more.draw(st.integers(0, left), "more") for _ in activations]
    history = trained(kept, activations, frames, micro_cnt)
    ((cost, evidence),) = growth(history, tmp_path_factory.mktemp("growth"))
    # steps begin behind an optimizer's: what the third to the last but one leave lies between two begins
    assert cost == sum(kept[2:-1]) * MIB
    assert evidence.startswith(f"each of {len(kept) - 3} steps leaves ")
    assert evidence.endswith({FORWARD: "main", BACKWARD: "main", KEEPER: "/me/metrics.py:40 remember"}[frames])


@pytest.mark.parametrize(
    "kept",
    [
        lambda n: [0] * n,
        lambda n: [30, 30, *[0] * (n - 2)],  # caches that are filled once
        lambda n: [30 * (number == n // 2) for number in range(n)],  # a checkpoint's copy
        lambda n: [30 * (number % 2) for number in range(n)],  # every other step
    ],
    ids=["nothing", "caches", "a checkpoint", "every other step"],
)
@dear(1, long=25)
@given(activations=st.lists(st.integers(1, 60), min_size=6, max_size=12))
@example(activations=[7, 60, 7, 1, 20, 3, 40, 5, 9])  # of an odd number the median lies between
@example(activations=[5] * 12)
@pytest.mark.first(1)
def test_what_is_kept_once_or_not_at_all_is_no_growth(
    kept: Callable[[int], list[int]], activations: list[int], tmp_path_factory: Any
) -> None:
    history = trained(kept(len(activations)), activations, KEEPER)
    assert growth(history, tmp_path_factory.mktemp("none")) == []


ZERO = ((f"{LIBRARY}/torch/optim/optimizer.py", 9, "zero_grad"), LOOP)


@pytest.mark.parametrize("left", [0, 20])
def test_a_forward_behind_the_step_of_an_optimizer_begins_no_other_step(left: int, tmp_path: Path) -> None:
    """As a teacher's or a metric's, before zero_grad() lets the gradients go."""
    history = History()
    history.keep(100 * MIB, LOADER)
    for _ in range(8):
        activation = history.keep(30 * MIB, FORWARD)
        gradient = history.keep(50 * MIB, BACKWARD)
        history.drop(activation, BACKWARD)
        history.drop(history.keep(MIB, STEP), STEP)
        history.drop(history.keep(7 * MIB, FORWARD), FORWARD)
        history.drop(gradient, ZERO)
        if left:
            history.keep(left * MIB, KEEPER)
    found = growth(history, tmp_path)
    assert [evidence.split(",")[0] for _, evidence in found] == ["each of 6 steps leaves 20.0 MiB behind"] * bool(left)


@pytest.mark.parametrize("of", [2, 3])
def test_one_of_the_steps_of_a_round_may_be_what_leaves_something_behind(of: int, tmp_path: Path) -> None:
    """A generator and a discriminator take turns."""
    kept = [20 * (number % of == 0) for number in range(8 * of)]
    ((_, evidence),) = growth(trained(kept, [9] * len(kept), KEEPER), tmp_path)
    assert f"rounds of {of} steps leaves 20.0 MiB behind" in evidence


def test_a_window_of_the_last_results_does_not_grow(tmp_path: Path) -> None:
    history = History()
    window = []
    for _ in range(12):
        history.drop(history.keep(5 * MIB, FORWARD), BACKWARD)
        window.append(history.keep(10 * MIB, KEEPER))
        if len(window) > 3:
            history.drop(window.pop(0), KEEPER)
        history.drop(history.keep(MIB, STEP), STEP)
    assert growth(history, tmp_path) == []


def test_growth_is_said_first(tmp_path: Path, run_command: Callable[..., Any]) -> None:
    path = trained([2] * 8, [300] * 8, KEEPER).written(tmp_path)
    said = run_command("summary", path).out
    assert "\n1 growth: cuda:0 " in said
    assert "each of 5 steps leaves 2.0 MiB behind, 10 in all" in said


def test_what_a_model_asked_for_as_it_was_moved_is_weights(tmp_path: Path) -> None:
    path = trained([0] * 4, [10] * 4, KEEPER).written(tmp_path)
    with analyze([path], tmp_path / "x.duckdb") as database:
        found = database.rows(
            "select category, basis, live_bytes from memory_peak where stack like '%module.py:1300 to%'"
        )
    assert found == [("parameter", "heuristic", 100 * MIB)]


@pytest.mark.parametrize("frames", [KEEPER, ()])
def test_what_nobody_explains_is_said_to_be_there(frames: Any, tmp_path: Path) -> None:
    history = trained([0] * 4, [10] * 4, KEEPER)
    history.keep(200 * MIB, frames)
    with analyze([history.written(tmp_path)], tmp_path / "x.duckdb") as database:
        ((cost, evidence),) = database.rows(
            "select cost_bytes, evidence from memory_finding where rule = 'unexplained'"
        )
    assert cost == 200 * MIB
    assert evidence.endswith("/me/metrics.py:40 remember" if frames else "outside all ranges")
