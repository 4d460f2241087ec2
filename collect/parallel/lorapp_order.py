"""The order in which the stages of mLoRA's pipeline compute: worked out once, the same on every rank.

Micro-batches of different adapters follow each other without a flush. An adapter is locked from its last micro-batch of
a step until the gradients of that step are back at the first stage; a stage that can go backward does so before it goes
forward. https://arxiv.org/abs/2312.02515, section 4.2.

 4 stages, 2 adapters, one micro-batch each, F forward, B backward, time to the right:
   stage 0  F0 F1 .. .. .. .. .. B0 F0 B1 F1
   stage 1     F0 F1 .. .. .. B0 .. B1 F0 ..
   stage 2        F0 F1 .. B0 .. B1
   stage 3           F0 B0 F1 B1
"""

from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush

FORWARD, BACKWARD, UPDATE = "forward", "backward", "update"
_COST = {FORWARD: 1, BACKWARD: 2}  # a backward through a frozen base is a forward; with recomputation two


@dataclass(frozen=True, order=True)
class Item:
    """A micro-batch: which adapter's, of which of its steps, and which one in that step."""

    adapter: int
    step: int
    micro: int


@dataclass(frozen=True)
class Action:
    """What a stage does next. An update is of the adapter's whole step, its item the last micro-batch."""

    kind: str
    item: Item


@dataclass
class _Stage:
    forwards: deque[Item] = field(default_factory=deque)
    backwards: deque[Item] = field(default_factory=deque)
    is_busy: bool = False
    back: dict[tuple[int, int], int] = field(default_factory=dict)  # micro-batches that went backward, by adapter, step
    done: list[Action] = field(default_factory=list)


def order(stage_cnt: int, micro_cnts: list[int], first_step: int, step_cnt: int) -> list[list[Action]]:
    """The actions of each stage, for so many micro-batches of each adapter in each of so many steps."""
    stop = first_step + step_cnt
    stages = [_Stage() for _ in range(stage_cnt)]
    for adapter, count in enumerate(micro_cnts):
        stages[0].forwards.extend(Item(adapter, first_step, micro) for micro in range(count))
    events: list[tuple[int, int, str, Item]] = []
    now = 0
    while True:
        for number, stage in enumerate(stages):
            if not stage.is_busy and (action := _next(stage)):
                stage.is_busy = True
                stage.done.append(action)
                heappush(events, (now + _COST[action.kind], number, action.kind, action.item))
        if not events:
            return [stage.done for stage in stages]
        now = events[0][0]
        while events and events[0][0] == now:
            _, number, kind, item = heappop(events)
            stages[number].is_busy = False
            _finish(stages, number, kind, item, micro_cnts[item.adapter], stop)


def _next(stage: _Stage) -> Action | None:
    if stage.backwards:
        return Action(BACKWARD, stage.backwards.popleft())
    return Action(FORWARD, stage.forwards.popleft()) if stage.forwards else None


def _finish(stages: list[_Stage], number: int, kind: str, item: Item, micro_cnt: int, stop: int) -> None:
    """Hand what was computed to a neighbour; the first stage unlocks an adapter whose gradients are all back."""
    stage = stages[number]
    if kind == FORWARD:
        is_last = number == len(stages) - 1
        (stage.backwards if is_last else stages[number + 1].forwards).append(item)
        return
    if number > 0:
        stages[number - 1].backwards.append(item)
    key = item.adapter, item.step
    stage.back[key] = stage.back.get(key, 0) + 1
    if stage.back[key] == micro_cnt:
        stage.done.append(Action(UPDATE, item))
        if number == 0 and item.step + 1 < stop:
            stage.forwards.extend(Item(item.adapter, item.step + 1, micro) for micro in range(micro_cnt))


def sent(actions: list[Action], kind: str) -> list[Item]:
    """What a stage sends, in order: of its forwards to the next one, of its backwards to the one before."""
    return [action.item for action in actions if action.kind == kind]
