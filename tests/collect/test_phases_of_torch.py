"""Phases that no range names, of what torch.profiler records of loops whose phases are known."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import opened

torch = pytest.importorskip("torch")
checkpoint = pytest.importorskip("torch.utils.checkpoint").checkpoint

from lorabench.analyze.store.database import Database  # noqa: E402

Tensor = "torch.Tensor"


def recorded(path: Path, loss_of: Callable[[Tensor], Tensor], parameters: list[Tensor], steps: int = 5) -> Database:
    """A loop of training that nobody names anything in, as torch.profiler sees it."""
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for _ in range(steps):
            loss_of(torch.randn(32, 64, requires_grad=True)).backward()
            optimizer.step()
            profiler.step()
    profiler.export_chrome_trace(str(path))
    return opened(path)


def blocks(cnt: int = 4) -> torch.nn.ModuleList:
    return torch.nn.ModuleList(
        torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.LayerNorm(64)) for _ in range(cnt)
    )


def penalized(x: Tensor, loss: Tensor) -> Tensor:
    """The loss and the norm of its gradient, as of WGAN-GP: the backward is differentiated."""
    (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
    return loss + gradient.square().sum()


@pytest.mark.parametrize(
    ("way", "is_again"), [("reentrant", True), ("not reentrant", True), ("kept", False), ("penalized", False)]
)
def test_what_checkpointing_computes_again_is_told_by_operators(way: str, is_again: bool, tmp_path: Path) -> None:
    model = blocks()

    def loss_of(x: Tensor) -> Tensor:
        hidden = x
        for block in model:
            hidden = checkpoint(block, hidden, use_reentrant=way == "reentrant") if is_again else block(hidden)
        loss = hidden.square().mean()
        return penalized(x, loss) if way == "penalized" else loss

    with recorded(tmp_path / "x.json", loss_of, list(model.parameters())) as database:
        found = dict(database.rows("select phase, cpu_ns from phase_summary"))
        ((products,),) = database.rows(
            "select count(*) from range join name using (name_id) join _recomputing_stretch as again "
            "on range.start_ns between again.start_ns and again.end_ns where text = 'aten::addmm' "
            "and range.thread_id = again.thread_id"
        )
    assert products == (5 * 4 if is_again else 0)
    assert ("recompute" in found) is is_again and found["backward"] > 0 and found["forward"] > 0


def test_the_forward_is_what_lies_between_its_operators_and_in_the_models_own_range(tmp_path: Path) -> None:
    """Python between operators is the forward's; frozen layers have no nodes, but the model's range is around them."""
    frozen, trained = blocks(1)[0].requires_grad_(False), blocks(1)[0]
    pause_s = 0.01

    def loss_of(x: Tensor) -> Tensor:
        time.sleep(pause_s)  # before the model: in no phase
        with torch.profiler.record_function("Model"):
            hidden = frozen(x.detach())
            time.sleep(pause_s)
            hidden = trained(hidden)
            time.sleep(pause_s)
            hidden = trained(hidden)
        return hidden.square().mean()

    with recorded(tmp_path / "x.json", loss_of, list(trained.parameters())) as database:
        steps = database.rows("select found_by, forward_ns, wall_ns from step_summary")
        ranges = database.rows("select end_ns - start_ns from range join name using (name_id) where text = 'Model'")
    assert len(steps) == len(ranges) - 1 == 4  # the first ends where the optimizer does
    for (found_by, forward, wall), (model,) in zip(steps, ranges[1:], strict=True):
        assert found_by == "optimizer"  # a range that repeats beside the backward is no step
        assert 2 * pause_s * 1e9 < model <= forward < wall - 0.9 * pause_s * 1e9


def test_an_optimizer_within_the_backward_is_the_optimizers(tmp_path: Path) -> None:
    """As where each parameter has its own, which steps as soon as the gradient is there."""
    model = blocks(2)
    for parameter in model.parameters():
        optimizer = torch.optim.SGD([parameter], lr=0.1)
        parameter.register_post_accumulate_grad_hook(lambda _, own=optimizer: own.step())
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for step in range(5):
            with torch.profiler.record_function(f"step {step}"):
                with torch.profiler.record_function("forward"):
                    hidden = torch.randn(32, 64)
                    for block in model:
                        hidden = block(hidden)
                with torch.profiler.record_function("backward"):
                    hidden.square().mean().backward()
    profiler.export_chrome_trace(str(tmp_path / "x.json"))
    with opened(tmp_path / "x.json") as database:
        steps = database.rows("select backward_ns, optimizer_ns from step_summary")
        ranges = database.rows("select end_ns - start_ns from range join name using (name_id) where text = 'backward'")
    assert len(steps) == 5 and all(optimizer > 0 for _, optimizer in steps)
    assert [backward + optimizer for backward, optimizer in steps] == [length for (length,) in ranges]
