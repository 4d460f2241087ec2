"""What the operators of a CPU cost, held against torch itself."""

from collections import Counter
from collections.abc import Callable

import pytest
from lorabench.analyze.predict.operators import _NO_WORK

torch = pytest.importorskip("torch")


def calls(x: "torch.Tensor") -> dict[str, Callable[[], object]]:
    """Calls whose operators are said to compute nothing themselves, of a square tensor."""
    size, count = len(x), x.numel()
    weight = x.clone().requires_grad_()
    return {
        "views": lambda: (
            x.view(-1).unsqueeze(0).expand(2, -1).squeeze().t().transpose(0, 1).detach()[0].narrow(0, 0, 2)
        ),
        "parts": lambda: (x.split(size // 2), x.chunk(2), x[:2].unbind(0), x.split([1, size - 1])),
        "copies": lambda: (x.clone(), x.t().contiguous(), x.t().reshape(-1), x.t().flatten(), x.to(torch.bfloat16)),
        "new": lambda: (torch.empty(count), torch.zeros(count), torch.ones(count), torch.full((count,), 2.0)),
        "alike": lambda: (torch.zeros_like(x), torch.ones_like(x), torch.full_like(x, 2), x.new_zeros(count)),
        "several": lambda: (torch.stack([x, x]), torch.nn.functional.pad(x, (1, 1)), torch.nn.functional.dropout(x)),
        "numbers": lambda: (x[0, 0].item(), bool(x[0, 0]), torch.scalar_tensor(1.0), torch.tensor([1.0])),
        "products": lambda: (torch.matmul(x, x), torch.nn.functional.linear(x, x)),
        "backward": lambda: (torch.nn.functional.dropout((weight * x).exp()).reshape(-1)[2:].sum()).backward(),
    }


def own_us(call: Callable[[], object]) -> Counter[str]:
    """What each operator of a call takes of itself, the least of some calls."""
    found: list[Counter[str]] = []
    for _ in range(6):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            call()
        one: Counter[str] = Counter()
        for event in profiler.events():
            one[event.name] += event.self_cpu_time_total
        found.append(one)
    return Counter({name: min(one[name] for one in found) for name in found[0]})


@pytest.mark.parametrize("what", list(calls(torch.zeros(4, 4))))
def test_what_is_said_to_compute_nothing_takes_no_longer_for_more(what: str) -> None:
    """16,384 times as many numbers: work would grow by thousands, calling does not."""
    few, many = (own_us(calls(torch.rand(size, size))[what]) for size in (8, 1024))
    named = [name for name in many if _NO_WORK.match(name)]
    assert named
    assert {name: (few[name], many[name]) for name in named if many[name] > 100 * max(few[name], 1)} == {}


@pytest.mark.parametrize("call", [lambda x: torch.cat([x, x]), lambda x: torch.arange(x.numel()), torch.exp])
def test_what_computes_is_not_said_to_compute_nothing(call: Callable[["torch.Tensor"], object]) -> None:
    working = own_us(lambda: call(torch.rand(1024, 1024))).most_common(1)[0][0]
    assert not _NO_WORK.match(working)
