"""Loads pickles that hold nothing but dicts, lists, tuples, texts and numbers; others are refused unread.

A pickle is a program. The walk over its operations here knows those that make plain data, so that nothing is imported
or called, and looks at the numbers that make the loader allocate memory: nine bytes can ask it for four gigabytes.

    80 04 95 ……………… 7d 94 28 8c 08 s e g m e n t s 94 5d …
    |----- fixed size, in one go -----|  text    |-- fixed --
"""

import io
import pickle
import re
from typing import Any

# By the bytes that follow an operation. Source: https://docs.python.org/3/library/pickletools.html and pickletools.py,
# which documents each operation.
_ALONE = b".()]}tlduaseN0123\x85\x86\x87\x88\x89\x8f\x90\x91\x94"
_ONE, _TWO, _FOUR, _EIGHT = b"\x80hKq", b"M", b"Jj", b"G\x95"
_FIXED = re.compile(
    b"(?:[%b]|[%b].|[%b].{2}|[%b].{4}|[%b].{8})*+" % tuple(map(re.escape, (_ALONE, _ONE, _TWO, _FOUR, _EIGHT))),
    re.DOTALL,
)
# The others: how many bytes say how long what follows is.
_LENGTH_BYTES = {0x8C: 1, 0x58: 4, 0x8D: 8, 0x8A: 1, 0x8B: 4, 0x43: 1, 0x42: 4, 0x8E: 8}
_LONG_PUT = 0x72  # names a place of the memo, which is made that long
_LONGEST_NUMBER = 64  # bytes
_NUMBERS = (0x8A, 0x8B)


class NotPlainError(Exception):
    """The pickle does more than make plain data, or is damaged."""


def load(data: bytes) -> Any:
    """The object that a pickle of plain data makes.

    Memory is some 20 times the pickle's length at most. Raises NotPlainError.
    """
    _walk(data)
    try:
        return _Nameless(io.BytesIO(data)).load()
    except RecursionError as error:
        raise NotPlainError("its data is nested too deeply") from error
    except Exception as error:  # what the loader raises for damaged ones is documented as "any exception"
        raise NotPlainError(f"it is damaged ({type(error).__name__}: {error})") from error


class _Nameless(pickle.Unpickler):
    """Knows no names either, should the walk have missed one."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def _walk(data: bytes) -> None:
    """Raise NotPlainError for operations that are not known, and for lengths beyond the data."""
    at = 0
    while True:
        at = _FIXED.match(data, at).end()  # type: ignore[union-attr]
        if at >= len(data):
            return
        operation = data[at]
        if operation == _LONG_PUT:
            if int.from_bytes(data[at + 1 : at + 5], "little") > len(data):
                raise NotPlainError("it asks for more memory than it can fill")
            at += 5
            continue
        width = _LENGTH_BYTES.get(operation)
        if width is None:
            raise NotPlainError(f"operation {operation:#04x} is nothing that plain data needs; nothing of it was run")
        length = int.from_bytes(data[at + 1 : at + 1 + width], "little")
        if at + 1 + width + length > len(data):
            raise NotPlainError("it is cut off")
        if operation in _NUMBERS and length > _LONGEST_NUMBER:
            raise NotPlainError(f"it holds a number of {length} bytes")
        at += 1 + width + length
