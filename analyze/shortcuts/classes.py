"""The class of GPU work by its name and its ranges: the rows of the view _op_class.

The view's patterns are rows of a table, and DuckDB prepares each of them for each name again; here once.
"""

import numpy as np
import pyarrow as pa

from ...vocabulary import OP_MEMCPY, OP_MEMSET
from ..attribute.intervals import Ints
from ..store import arrow_functions as arrow
from ..store.database import Database

_PAIRS = """
    select distinct found.name_id, own.path_id, found.kind
    from (select distinct name_id, attribution_id, kind from gpu_op) as found
    left join _owner as own using (attribution_id)"""
_NAMES = """
    select name_id as id, without_arguments(text) as text
    from name semi join (select name_id from gpu_op) as op using (name_id)
    order by id"""
_PATHS = "select path_id as id, path as text from range_path order by id"
_RULES = "select subject, pattern, class from kernel_class_rule order by priority"


def rows(database: Database) -> pa.Table:
    """The rows of the view."""
    pairs = database.table(_PAIRS)
    rules = [(subject == "kernel", pattern, class_) for subject, pattern, class_ in database.rows(_RULES)]
    by_name = _matched(database.table(_NAMES), [pattern if is_name else None for is_name, pattern, _ in rules])
    by_path = _matched(database.table(_PATHS), [None if is_name else pattern for is_name, pattern, _ in rules])
    first = np.minimum(
        _of(by_name, pairs["name_id"], len(rules)), _of(by_path, arrow.filled(pairs["path_id"], -1), len(rules))
    )
    class_ = arrow.take(pa.array([class_ for _, _, class_ in rules] + ["other"]), first)
    is_copy = arrow.is_in(pairs["kind"], (OP_MEMCPY, OP_MEMSET), pa.string())
    return pairs.append_column("class", arrow.either(is_copy, "copy", class_))


def _matched(texts: pa.Table, patterns: list[str | None]) -> tuple[Ints, Ints]:
    """The ids of texts, ascending, and the number of the first pattern that each has; how many there are for none."""
    column = texts["text"].combine_chunks()
    first = np.full(len(column), len(patterns), dtype=np.int64)
    left = np.arange(len(column))  # those that no pattern before has matched
    for number, pattern in enumerate(patterns):
        if pattern is None or not len(left):
            continue
        found = arrow.matches(arrow.take(column, left), pattern)
        is_match = arrow.filled(found, False).to_numpy(zero_copy_only=False)  # NULL: a name that is not there
        first[left[is_match]] = number
        left = left[~is_match]
    return texts["id"].to_numpy(), first


def _of(matched: tuple[Ints, Ints], ids: pa.ChunkedArray, missing: int) -> Ints:
    """The first pattern of each id; `missing` where there is no such id."""
    known, first = matched
    wanted = ids.to_numpy()
    place = np.searchsorted(known, wanted)
    return np.where(np.append(known, -1)[place] == wanted, np.append(first, missing)[place], missing)
