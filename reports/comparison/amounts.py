"""Whether steps of two recordings compute as much: what operators' shapes say of it, and how many ranks there are."""

from collections.abc import Sequence

from ...analyze.store.database import Database
from ..tables import units
from ..tables.sources import counting
from .compared import letter
from .spread import Spread, centres

_UNLIKE = 0.05  # apart are steps that compute other amounts
_ALIKE = 0.01  # apart are calls of an operator in a step of the same program
_STEPS = """
    select count(distinct step), count(*)
    from _counted_step
    where source_id in (select source_id from source where {})"""
_FLOP = """
    select operator, sum(call_cnt)::double, sum(flop)::double
    from operator_summary
    where flop > 0 and source_id in (select source_id from source where {})
    group by operator"""
# Of the time of products what operators launched whose shapes say how much they compute: a graph's are of none.
_TOLD = """
    select sum(op.end_ns - op.start_ns) filter (operator.shape_id is not null) / sum(op.end_ns - op.start_ns)
    from _classed_op as op
    join gpu_op using (gpu_op_id)
    left join range as operator on operator.range_id = gpu_op.operator_id
    where op.class in ('matmul', 'attention', 'lora') and op.source_id in (select source_id from source where {})"""
_MOST, _NEARLY_ALL = 0.8, 0.95
_RANKS = "select count(distinct rank) from source where {}"


def said(pair: tuple[Database, Database], steps: tuple[Spread, Spread], number: int) -> str:
    """That a step of one computes more than one of the other, and who is faster for as much; "" where that is alike.

    Who is faster is said where both are the same program, which calls each operator as often, with other sizes or on
    other ranks. Where operators do not say how much is computed, other numbers of ranks are said.
    """
    of = letter(number)
    ranks = [max(1, database.rows(_RANKS.format(counting(database)))[0][0]) for database in pair]
    among = f"A has {_ranks(ranks[0])}, {of} {_ranks(ranks[1])}"
    found = _flop_a_step(pair, ranks)
    if found is None:
        if ranks[0] == ranks[1]:
            return ""
        return f"{among}: with a batch on each, a step of {of} is {ranks[1] / ranks[0]:.2f} x as much work"
    first_flop, other_flop, is_same_program = found
    more = other_flop / first_flop
    if abs(more - 1) < _UNLIKE:
        return ""
    before, after = centres(*steps)
    one, two = (units.significant(flop / 1e9) for flop in (first_flop, other_flop))
    text = f"a step of {of} computes {more:.2f} x as much ({one} -> {two} GFLOP by the shapes of operators"
    text += f"; {among})" if ranks[0] != ranks[1] else ")"
    if not before or not after or not is_same_program:
        return text
    factor = before / after * more
    speed = f"{factor:.2f} x as fast" if factor >= 1 else f"{1 / factor:.2f} x as slow"
    return f"{text}: for as much work {of} is {speed}"


def _ranks(count: int) -> str:
    return f"{count} rank{'s' * (count > 1)}"


def _flop_a_step(pair: Sequence[Database], ranks: list[int]) -> tuple[float, float, bool] | None:
    """What a step of all ranks computes in each, and whether both are the same program; None where that is not known.

    Of other programs (more layers, checkpointing) nearly all products must have shapes.
    """
    if not all(database.rows("select 1 from range where shape_id is not null limit 1") for database in pair):
        return None
    found, least = [], 1.0
    for database, rank_cnt in zip(pair, ranks, strict=True):
        ((step_cnt, counted_cnt),) = database.rows(_STEPS.format(counting(database)))
        rows = database.rows(_FLOP.format(counting(database)))
        ((told,),) = database.rows(_TOLD.format(counting(database)))
        least = least if told is None else min(least, told)
        if not step_cnt or not rows or least < _MOST:
            return None
        calls = {operator: call_cnt / counted_cnt for operator, call_cnt, _ in rows}
        found.append((calls, sum(flop for *_, flop in rows) / counted_cnt * rank_cnt))
    (first, before), (other, after) = found
    is_same = first.keys() == other.keys() and all(abs(other[name] / cnt - 1) <= _ALIKE for name, cnt in first.items())
    return (before, after, is_same) if is_same or least >= _NEARLY_ALL else None
