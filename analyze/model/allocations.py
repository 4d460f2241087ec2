"""Where on its thread each allocation was asked for: the table memory_event from what is staged."""

import numpy as np
import pyarrow as pa

from ..attribute.attribution import Attribution
from ..attribute.intervals import NONE, Bools, Ints
from ..attribute.ranges import Ranges
from ..read.staging import Staging
from ..read.waiting import integers
from .places import innermost

# Operators that quantize or dequantize: bitsandbytes::dequantize_4bit, aten::int8_vectorwise_quant …
_QUANTISES = "(?i)quanti[sz]|(^|_)quant(_|$)"


def write(staging: Staging, ranges: Ranges, found: Attribution, threads: Ints, first_range: int) -> None:
    """Append the staged events with the innermost annotation and the outermost operator that were open around each.

    `threads` are the threads of the tracks, `first_range` the id of the first of the ranges.
    """
    event = staging.columns("staged_memory_event")
    if not len(event):
        staging.drop("staged_memory_event")
        return
    names = staging.database.columns(f"select name_id from staged_name where regexp_matches(text, '{_QUANTISES}')")
    quantises = ranges.is_operator & np.isin(ranges.name, names["name_id"])
    at = innermost(ranges, found, threads, integers(event["thread_id"], NONE), integers(event["time_ns"], NONE))
    annotation, operator, is_quantisation = _around(ranges, found.reach.tree.parent, at, quantises)
    computed = {
        "range_id": pa.array(annotation + first_range, mask=annotation < 0),
        "operator_id": pa.array(operator + first_range, mask=operator < 0),
        "is_quantisation": is_quantisation,
    }
    staging.append("memory_event", [computed])


def _around(ranges: Ranges, parent: Ints, at: Ints, quantises: Bools) -> tuple[Ints, Ints, Bools]:
    """Innermost annotation and outermost operator at or above each range, and whether an operator there quantizes."""
    annotation, operator = np.full(len(at), NONE, dtype=np.int64), np.full(len(at), NONE, dtype=np.int64)
    is_quantisation = np.zeros(len(at), dtype=bool)
    at, open_ = at.copy(), np.flatnonzero(at >= 0)
    while open_.size:
        here = at[open_]
        first = open_[ranges.is_annotation[here] & (annotation[open_] < 0)]
        annotation[first] = at[first]
        outer = open_[ranges.is_operator[here]]
        operator[outer] = at[outer]
        is_quantisation[open_] |= quantises[here]
        at[open_] = parent[here]
        open_ = open_[at[open_] >= 0]
    return annotation, operator, is_quantisation
