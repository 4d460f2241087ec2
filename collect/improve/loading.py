"""How many workers a loader needs, and what a step takes with them; what it cannot take less than with those it has.

    step 0  |---made---|==own==|---made---|==own==|             no workers: made + own
    step 2  |==own==|..|==own==|..|                             made / 2 if that is more than own: it waits
    step 4  |==own==|==own==|==own==|                           own, made / 4 is less

A quarter more make it than keep up on average: batches come in bursts, and the next change makes the step shorter.
Workers are thought to have cores of their own: what reads from a disk or a network does not need them, and where what
they compute is in the training's way a measurement says so.
"""

import math
from dataclasses import dataclass

MOST = 8
_SPARE = 1.25
TAKEN_NS = 700_000  # to take a batch from a worker: medians of 0.6 to 1.2 ms on two cores, for 1 to 400 KB


@dataclass(frozen=True)
class Input:
    """What input has to do with a run's step: of its length what it would take with the input there, and making it."""

    own: float
    made: float
    workers: int

    @property
    def least(self) -> float:
        """What the step cannot be shorter than, whatever else changes: the workers make no more."""
        return self.made / self.workers if self.workers else 0.0

    def needed(self, taken: float) -> int:
        """As many workers as keep up, more than there are and at most MOST; `taken` is for taking a batch."""
        return max(self.workers + 1, min(MOST, math.ceil(_SPARE * self.made / (self.own + taken))))

    def advised(self, taken: float, core_cnt: int) -> int:
        """The same with no more workers than cores, of which torch warns; as many as there are where no core is left.

        `core_cnt` is 0 where nobody knows.
        """
        needed = self.needed(taken)
        return min(needed, max(core_cnt, self.workers)) if core_cnt else needed

    def left(self, workers: int, taken: float) -> float:
        """What is left of the step with so many."""
        return max(self.own + taken, self.made / workers)


def measured(summary: dict[str, object], workers: int, step_ns: float, replayed: float | None) -> Input | None:
    """By the timing pass of a run; of one with a GPU `replayed` says what is left when the input is there.

    `step_ns` is the run's step where least disturbed: others on the machine slow training, and not what reads. Of runs
    of earlier versions, which measured no input, all is by `replayed`. None where nobody knows.
    """
    found = summary.get("input")
    device = summary.get("device")
    is_on_gpu = isinstance(device, dict) and device.get("type") == "cuda"  # which works while the CPU waits
    if isinstance(found, dict):
        own = replayed if is_on_gpu else 1 - found["waited_frac"]
        return None if own is None else Input(own, found["made_ns"] / step_ns, workers)
    return None if replayed is None or workers else Input(replayed, max(0.0, 1 - replayed), 0)


def of_script(loader: dict[str, float]) -> Input:
    """By how long a script's steps wait for the loaders' batches: what is more than taking them is what making lacks.

    With workers nobody has seen how long making takes. They are thought to do nothing else, which is so where the
    training waits for them, and where it does not they lack nothing.
    """
    step, workers = loader["step_ns"], int(loader["worker_cnt"])
    waited, taken = loader["waited_ns"] / step, loader["batch_cnt"] * TAKEN_NS / step
    if not workers:
        return Input(max(0.0, 1 - waited), waited, 0)
    return Input(max(0.0, 1 - max(waited, taken)), float(workers), workers)
