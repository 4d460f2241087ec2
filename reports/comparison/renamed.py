"""Kernels that have another name in the second trace: another tile, other template arguments, another library.

And graphs that torch.compile names by a hash of what they are: here they have the number of their first call. And
ranges whose outermost one is called otherwise, or whose modules have what a wrapper puts before their names
(`base_model.model.`).

A kernel has its place where most of its time is: the path of the ranges and the operator that launch it, and its class.
Where as many kernels of the first trace alone as of the second alone have one place, they are one another's, in the
order of their time, unless a call of one takes many times as long as of the other: that is another computation. Kernels
without a range around them have no place. Those that are called the same for short, as no other of their trace, are one
whatever their place: profilers write one name in several ways (`<(int)8>` and `<8>`).
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from ...analyze.store.database import Database
from ...sql import literal
from ..tables.sources import counting

_T = TypeVar("_T")
Place = tuple[str, str]
_MOST_FASTER = 32  # of one computation: 16 times by tensor cores in place of float32, and twice for all else
_FEW_ALIKE = 0.1  # of the paths of the trace that has fewer
_WRAPPER = re.compile(r"^((base_model|model|module|_orig_mod|_fsdp_wrapped_module)\.)+")
_COMPILED = re.compile(r"(?<=CompiledFxGraph )f[a-z0-9]{20,}")


def pairs(first: Database, other: Database, gone: Collection[str], new: Collection[str]) -> dict[str, str]:
    """The names in the second trace of kernels that the first alone has, by their name there."""
    if not gone or not new:
        return {}
    short = _by_short_name(first, gone), _by_short_name(other, new)
    alike = {short[0][name]: short[1][name] for name in short[0].keys() & short[1].keys()}
    gone, new = set(gone) - alike.keys(), set(new) - set(alike.values())
    if not gone or not new:
        return alike
    before, after = _by_place(first, gone), _by_place(other, new)
    return alike | {
        old: young
        for place, kernels in before.items()
        if len(kernels) == len(after.get(place, ()))
        for (old, old_ns), (young, young_ns) in zip(kernels, after[place], strict=True)
        if max(old_ns, young_ns) <= _MOST_FASTER * min(old_ns, young_ns)
    }


def of_compiled(database: Database) -> dict[str, str]:
    """The paths of ranges of compiled graphs, with numbers in the place of hashes: 1 for the graph called first."""
    rows = database.rows(
        f"""select path, min(start_ns) as start_ns
        from _compiled_range
        where source_id in (select source_id from source where {counting(database)})
        group by path
        order by start_ns, path"""
    )
    number: dict[str, int] = {}
    for path, _ in rows:
        for name in _COMPILED.findall(path):
            number.setdefault(name, len(number) + 1)
    return {path: _COMPILED.sub(lambda match: str(number[match[0]]), path) for path, _ in rows}


def of_wrapped(first: Collection[str], other: Collection[str]) -> dict[str, str]:
    """The paths of ranges of the second trace that the first calls otherwise, and what it calls them.

    Without what wrappers put before names; where next to none are alike then, without the outermost range, too: of
    both, or of one, around whose steps a profiler has a range of its own.
    """
    found = _alike(first, other, _unwrapped, _unwrapped)
    if len({*first} & {*other}) + len(found) >= _FEW_ALIKE * min(len(first), len(other)):
        return found
    gone, new = {*first} - {*found.values()}, {*other} - found.keys()
    ways = ((_inside, _inside), (_unwrapped, _inside), (_inside, _unwrapped))
    return found | max((_alike(gone, new, *way) for way in ways), key=_inner_cnt)


def _inner_cnt(alike: dict[str, str]) -> int:
    """How many are not outermost in both: these are called alike by nothing."""
    return sum("/" in own + other for own, other in alike.items())


def _alike(
    first: Collection[str], other: Collection[str], of_first: Callable[[str], str], of_other: Callable[[str], str]
) -> dict[str, str]:
    """Of the paths that are not in both those of the second that are called as one of the first, by these names."""
    gone, new = {*first} - {*other}, {*other} - {*first}
    mine, theirs = _by_one_name(gone, of_first), _by_one_name(new, of_other)
    alike = {theirs[short]: mine[short] for short in mine.keys() & theirs.keys()}
    return alike if of_first is of_other is _unwrapped or _inner_cnt(alike) else {}


def _unwrapped(path: str) -> str:
    return "/".join(_WRAPPER.sub("", part) for part in path.split("/"))


def _inside(path: str) -> str:
    return _unwrapped(path).partition("/")[2]


def _by_one_name(paths: Collection[str], name: Callable[[str], str]) -> dict[str, str]:
    """Paths by another name, without those of which several have one."""
    count = Counter(map(name, paths))
    return {name(path): path for path in paths if count[name(path)] == 1}


def with_names(rows: dict[tuple[Any, ...], _T], names: dict[str, str]) -> dict[tuple[Any, ...], _T]:
    """Rows by keys in which these names stand in the place of others."""
    return {tuple(names.get(part, part) for part in key): row for key, row in rows.items()}


def _by_short_name(database: Database, names: Collection[str]) -> dict[str, str]:
    """Kernels by their short names, those of these that no other kernel of the trace shares."""
    rows = database.rows(
        f"""select short_name, any_value(kernel_name)
        from kernel_summary
        where source_id in (select source_id from source where {counting(database)})
        group by short_name
        having count(distinct kernel_name) = 1"""
    )
    return {short: name for short, name in rows if name in names}


def _by_place(database: Database, names: Collection[str]) -> dict[Place, list[tuple[str, float]]]:
    """The kernels of each place with the mean of a call in ns, what takes longest in all first."""
    rows = database.rows(
        f"""select kernel_name, path, class, sum(kernel_ns)::bigint, sum(kernel_cnt)::bigint
        from _kernel_place
        where kernel_name in ({", ".join(map(literal, sorted(names)))})
            and source_id in (select source_id from source where {counting(database)})
        group by all"""
    )
    times: dict[str, dict[Place, int]] = defaultdict(dict)
    calls: dict[str, int] = defaultdict(int)
    for name, path, kind, kernel_ns, kernel_cnt in rows:
        times[name][path, kind] = kernel_ns
        calls[name] += kernel_cnt
    found: dict[Place, list[tuple[str, float]]] = defaultdict(list)
    whole = {name: sum(places.values()) for name, places in times.items()}
    for name in sorted(times, key=lambda name: (-whole[name], name)):
        place = max(times[name], key=lambda place: (times[name][place], place))
        found[place].append((name, whole[name] / calls[name]))
    return found
