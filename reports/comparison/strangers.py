"""Whether two recordings are of one program: by the kernels, the operators and the ranges that both have."""

from collections.abc import Collection, Sequence

from ...analyze.store.database import Database
from ..tables.sources import counting
from .compared import Asked, Row, letter

# Of what a program is made of. Steps have numbers, and findings may be others of one program.
_PARTS = (
    "range_summary", "operator_summary", "kernel_summary", "kernel_class", "lora_summary", "adapter_summary",
    "memory_peak",
)  # fmt: skip
_FEW = 0.1  # of the kernels of a step: those of a library are in many programs
_ALIKE = 0.3  # of the operators: other batches, devices or precisions leave most of them as they are


def said(rows: Sequence[Row], names: Sequence[str], asked: Asked, seeming: Collection[int]) -> list[str]:
    """What a person must know before reading who is faster: that nothing is in both, that these seem two programs.

    seeming: the numbers of the inputs that are_two_programs says so of.
    """
    lines = []
    if asked.view in _PARTS and _have_nothing_in_common(rows, names):
        others = " or ".join(letter(number) for number in range(1, len(names)))
        lines.append(f"nothing in common: not one {asked.by} of A is in {others}")
    return [*lines, *map(question, seeming)]


def question(number: int) -> str:
    """What is asked of an input that seems another program than the first."""
    return (
        f"is {letter(number)} the same program as A? Next to no kernel is in both, and neither operators nor ranges "
        "say otherwise: times are set side by side all the same"
    )


def of(databases: Sequence[Database]) -> list[int]:
    """The numbers of those that seem other programs than the first."""
    return [number for number in range(1, len(databases)) if are_two_programs(databases[0], databases[number])]


def _have_nothing_in_common(rows: Sequence[Row], names: Sequence[str]) -> bool:
    """Whether not one row of the first is in any other, though both have rows."""
    has = {name: [bool(row[name]) for row in rows[1:]] for name in names}
    return all(map(any, has.values())) and not any(
        has[names[0]][n] and any(has[name][n] for name in names[1:]) for n in range(len(rows) - 1)
    )


def are_two_programs(first: Database, other: Database) -> bool:
    """Whether neither kernels nor operators nor ranges below others are in both; False where too little says it.

    Without operators it is only said of no kernel in both, or of few on one kind of GPU: others have kernels of their
    own for the same products.
    """
    kernels = [_by_name(database, "kernel_summary", "short_name", "kernel_cnt") for database in (first, other)]
    operators = [_by_name(database, "operator_summary", "operator", "call_cnt") for database in (first, other)]
    if not all(kernels):
        return False
    both = sum(min(count, kernels[1].get(name, 0.0)) for name, count in kernels[0].items())
    if both >= _FEW * max(sum(counts.values()) for counts in kernels):
        return False
    if all(operators):
        alike = sum(operators[0][name] == operators[1].get(name) for name in operators[0])
        if alike >= _ALIKE * min(map(len, operators)):
            return False
    elif both and _gpus(first) != _gpus(other):
        return False
    return not set(_inner_paths(first)) & set(_inner_paths(other))


def _gpus(database: Database) -> set[str]:
    return {name for (name,) in database.rows("select name from device where name is not null")}


def _by_name(database: Database, view: str, name: str, value: str) -> dict[str, float]:
    """Counts of each name for each step."""
    steps = max(1, database.rows("select count(*) from step_summary")[0][0])
    rows = database.rows(
        f"select {name}, sum({value})::double from {view} where source_id in "
        f"(select source_id from source where {counting(database)}) group by 1"
    )
    return {key: round(number / steps, 3) for key, number in rows if number}


def _inner_paths(database: Database) -> Collection[str]:
    """The paths of ranges in others: of one alone, as profilers write it around a step, nothing is known."""
    return [path for (path,) in database.rows("select path from range_path where kind = 'annotation'") if "/" in path]
