"""Numbers for a page: columns of integers as few bytes, deflated, as text that a browser unpacks without a library."""

import base64
import json
import re
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
NUL = (
    "\ufffd"  # what stands for it: a browser leaves it out of texts and not of scripts, and a name must be one in both
)
_NUL_IN_JSON = re.compile(r"((?<!\\)(?:\\\\)*)\\u0000")  # not of a backslash that is text


def packed(columns: Sequence[Numbers]) -> str:
    """Columns of numbers from 0 on, one behind the other: seven bits a byte, the lowest first; deflated; base64."""
    return _deflated(b"".join(map(varints, columns)))


def packed_json(value: Any) -> str:
    """Texts that repeat each other, as JSON: deflated; base64."""
    return _deflated(as_json(value, is_ascii=True).encode("ascii"))


def as_json(value: Any, *, is_ascii: bool) -> str:
    """A value as JSON without spaces and without NUL."""
    return _NUL_IN_JSON.sub(r"\1\\ufffd", json.dumps(value, separators=(",", ":"), ensure_ascii=is_ascii))


def packed_steps(places: Numbers, values: Numbers) -> dict[str, Any]:
    """A line of steps: places that rise from 0 on, and the value from each on, as differences."""
    changes = np.diff(values, prepend=0)
    signed = np.where(changes < 0, -2 * changes - 1, 2 * changes)  # 0, -1, 1, -2 … as 0, 1, 2, 3 …
    return {"cnt": len(places), "data": packed([np.diff(places, prepend=0), signed])}


def _deflated(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 6)).decode("ascii")


def varints(numbers: Numbers) -> bytes:
    """Each number as bytes of seven bits, the lowest first; the eighth bit says that more follow.

    [5, 300]  ->  05 | AC 02
    """
    rest = numbers.astype(np.uint64)
    lengths = np.ones(len(rest), np.int64)
    for shift in range(7, 63, 7):
        more = rest >> np.uint64(shift) != 0
        if not more.any():
            break
        lengths += more
    ends = np.cumsum(lengths)
    made = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    starts = ends - lengths
    for place in range(int(lengths.max(initial=0))):
        has = lengths > place
        low = (rest[has] >> np.uint64(7 * place)) & np.uint64(127)
        more = np.where(lengths[has] > place + 1, 128, 0).astype(np.uint8)
        made[starts[has] + place] = low.astype(np.uint8) | more
    return made.tobytes()
