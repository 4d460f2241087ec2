"""Reads events one by one from a piece of a trace that does not parse as a whole.

torch writes invalid JSON when a name holds a quote, files get cut off, and a piece may end inside an event. Slower
than the parser for whole pieces by a factor of twenty, and only used where that one refused.
"""

import json
import re
from dataclasses import dataclass, field

_RESYNC = re.compile(r"\}\s*,\s*(?=\{\s*\")")
_SPACE = re.compile(r"[\s,]*")
# Numbers stay texts, so that no digit is lost on the way through Python.
_DECODER = json.JSONDecoder(strict=False, parse_float=str, parse_constant=lambda _: None)


@dataclass
class Salvaged:
    """What a piece held: whole events as JSON texts, lost ones counted, and what belongs to the next piece."""

    events: list[str] = field(default_factory=list)
    lost_cnt: int = 0
    lost_bytes: int = 0
    replaced_cnt: int = 0
    rest: str = ""
    ended: bool = False


def salvage(piece: bytes, at_end: bool) -> Salvaged:
    """Decode a piece event by event; `at_end` says that no text follows it.

    An event that is cut off at the end of the piece goes to `rest`, unless nothing follows. Behind an invalid event
    reading goes on at the next place that looks like the begin of one.
    """
    text = piece.decode("utf-8", "replace")
    result = Salvaged(replaced_cnt=text.count("\ufffd"))
    position = _skip(text, 0)
    while position < len(text):
        if text[position] == "]":
            result.ended, result.rest = True, text[position:]
            return result
        try:
            event, end = _DECODER.raw_decode(text, position)
        except (json.JSONDecodeError, RecursionError) as error:
            if _runs_out(error, text) and not at_end:
                result.rest = text[position:]
                return result
            end = _resync(text, position)
            result.lost_cnt += 1
            result.lost_bytes += len(text[position:end].encode())
        else:
            if isinstance(event, dict):
                result.events.append(json.dumps(event))
            else:
                result.lost_cnt += 1
        position = _skip(text, end)
    return result


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _runs_out(error: Exception, text: str) -> bool:
    """True when the text ended inside an event, rather than the event being invalid."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    return error.msg.startswith("Unterminated string") or not text[error.pos :].strip()


def _resync(text: str, position: int) -> int:
    """Where the next event seems to begin behind an invalid one."""
    match = _RESYNC.search(text, position)
    return match.end() if match else len(text)
