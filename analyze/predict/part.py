"""Which steps of a long trace are replayed for its findings in the place of all.

    cold | warm warm warm warm warm warm warm warm …     as many as have some 100,000 operations, whose mean length is
                         [queue][ judged ]               nearest to that of all; two before them fill the queue

A step of training is like the next one, so a part of them says what each rule saves of what it is blamed for. Where a
rule is blamed for much more or less in the part than elsewhere, the part does not stand for the whole (advice.py), and
all is replayed.
"""

from dataclasses import dataclass

import numpy as np

from ..store.database import Database

MOST_OPERATIONS = 100_000
_FEWEST_STEPS = 12
_BEFORE = 2

STEPS = """
    select thread_id as thread, step, start_ns as begin, end_ns as "end", is_judged
    from _judged_step
    where source_id = {id}"""


@dataclass(frozen=True)
class Part:
    """Steps of one thread that follow one another; times are the file's."""

    start_ns: int  # begin of those that fill the queue
    first_ns: int  # begin of the first that is judged
    end_ns: int  # end of the last
    share: float  # how much of the time of all judged steps it is
    judged_ns: int  # the time of all judged steps


def part_of(database: Database, source_id: int) -> Part | None:
    """The steps to replay; None where all of them are to be: they are few, or of several threads."""
    ((operations,),) = database.rows(f"select count(*) from gpu_op where source_id = {source_id}")
    if operations <= 2 * MOST_OPERATIONS:
        return None
    steps = database.columns(STEPS.replace("{id}", str(source_id)), "begin")
    judged = np.flatnonzero(steps["is_judged"].astype(bool))
    count = max(_FEWEST_STEPS, len(judged) * MOST_OPERATIONS // operations)
    if len(np.unique(steps["thread"])) != 1 or 2 * (count + _BEFORE) > len(judged):
        return None
    begin, end = steps["begin"], steps["end"]
    until = np.append(0, np.cumsum((end - begin)[judged]))
    length = until[count:] - until[:-count]
    length = length[_BEFORE:]  # the first ones have none before them
    chosen = _BEFORE + int(np.argmin(np.abs(length - until[-1] * count / len(judged))))
    first, last = judged[chosen], judged[chosen + count - 1]
    return Part(
        int(begin[judged[chosen - _BEFORE]]), int(begin[first]), int(end[last]),
        float(length[chosen - _BEFORE] / until[-1]), int(until[-1]),
    )  # fmt: skip
