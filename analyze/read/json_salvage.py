"""Reads events one by one from a piece of a trace that does not parse as a whole.

torch writes invalid JSON when a name holds a quote, files get cut off, and a piece may end inside an event. Slower
than the parser for whole pieces by a factor of twenty, and only used where that one refused.

An event is decoded from a slice that grows until it suffices, so that what is wrong with one costs no walk over all the
text behind it, and the slices of a piece together are limited:

    {"a": 1}, {"b": [1, }, {"c": 3}, {"d
    |------------------| slice: {"a": 1} is whole
              |------------------| slice: invalid, go on behind `}, ` where {"c" seems to begin
                                     |-| the text ends first: the next piece begins with it
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_RESYNC = re.compile(r"\}\s*,\s*(?=\{\s*\")")
_SPACE = re.compile(r"[\s,]*")
_FIRST_SLICE = 4096
_AT_ONCE = 8192  # events
_SLICES_LIMIT = 16  # times the piece that is decoded, where events are begun again and again inside others
_LONGEST_INTEGER = 40  # digits; Python takes quadratic time for long ones and refuses more than 4,300


def _integer(text: str) -> Any:
    return int(text) if len(text) < _LONGEST_INTEGER else text


# Fractions stay texts, so that no digit is lost on the way through Python.
_DECODER = json.JSONDecoder(strict=False, parse_int=_integer, parse_float=str, parse_constant=lambda _: None)


@dataclass
class Salvaged:
    """What pieces held besides whole events: lost ones counted in all of them, and what the last one left."""

    lost_cnt: int = 0
    lost_bytes: int = 0
    cut_bytes: int = 0  # of an event in which the file ends
    replaced_cnt: int = 0
    rest: str = ""  # of the last piece, which the next one begins with
    ended: bool = False  # the last piece held the end of the array


def salvage(piece: bytes, at_end: bool, result: Salvaged) -> Iterator[list[str]]:
    """Decode a piece event by event; `at_end` says that no text follows it. What else is there goes to `result`.

    Whole events are yielded as JSON texts, some thousand at a time. An event that is cut off at the end of the
    piece goes to `rest`; its length alone is told when nothing follows. Behind an invalid event reading goes on at the
    next place that looks like the start of one.
    """
    text = piece.decode("utf-8", "replace")
    result.rest, result.ended = "", False
    result.replaced_cnt += text.count("\ufffd")
    left = _SLICES_LIMIT * max(len(text), _FIRST_SLICE)
    position = _skip(text, 0)
    events: list[str] = []
    while position < len(text):
        if text[position] == "]":
            result.ended, result.rest = True, text[position:]
            break
        decoded = _decode(text, position)
        left -= decoded.tried
        if decoded.runs_out and not at_end:
            result.rest = text[position:]
            break
        if decoded.event is not None:
            events.append(decoded.event)
            end = decoded.end
        else:
            end = _resync(text, position) if left > 0 else len(text)
            size = len(text[position:end].encode())
            if decoded.runs_out and end == len(text):
                result.cut_bytes = size
            else:
                result.lost_cnt += 1
                result.lost_bytes += size
        if len(events) == _AT_ONCE:
            yield events
            events = []
        position = _skip(text, end)
    if events:
        yield events


@dataclass(frozen=True)
class _Decoded:
    """An event as JSON text, None when it is invalid; where it ends; how much text was looked at to know."""

    tried: int
    event: str | None = None
    end: int = 0
    runs_out: bool = False  # the text ended inside it


def _decode(text: str, position: int) -> _Decoded:
    size = _FIRST_SLICE
    tried = 0
    while True:
        some = text[position : position + size]
        is_whole = position + size >= len(text)
        try:
            event, end = _DECODER.raw_decode(some)
        except (json.JSONDecodeError, RecursionError) as error:
            tried += error.pos if isinstance(error, json.JSONDecodeError) else _FIRST_SLICE
            if not _runs_out(error, some):
                return _Decoded(tried)
            if is_whole:
                return _Decoded(tried, runs_out=True)
            size *= 4
            continue
        tried += end
        if end == len(some) and not is_whole:  # a number or a name may go on
            size *= 4
            continue
        # as one text and not as \\u escapes: halves of characters, which no UTF-8 has, are replaced with `?`
        whole = json.dumps(event, ensure_ascii=False).encode("utf-8", "replace").decode("utf-8")
        return _Decoded(tried, whole if isinstance(event, dict) else "null", position + end)


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _runs_out(error: Exception, text: str) -> bool:
    """True when the text ended inside an event, rather than the event being invalid."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    # a literal or an escape that the end cuts through is an error where it begins
    return error.msg.startswith("Unterminated string") or len(text) - error.pos < 8 or not text[error.pos :].strip()


def _resync(text: str, position: int) -> int:
    """Where the next event seems to begin behind an invalid one."""
    match = _RESYNC.search(text, position)
    return match.end() if match else len(text)
