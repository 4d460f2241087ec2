"""Cuts a chrome trace into pieces of whole events without parsing it, in bounded memory.

A piece begins where an event is known to begin and ends behind a `}` that is followed by `,` and `{`. Such a place
may also lie in a string or in an event's arguments, so a cut is only proven when the piece parses; the reader hands
back what it could not use, and the next piece begins with it.

    { "traceEvents": [ {event}, {event}, {event}, {event} ], "deviceProperties": … }
      header           |--- piece ----|  |--- piece ----|    members, all that may follow
"""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
from isal import isal_zlib

from ...errors import CorruptInputError, UnknownFormatError

BLOCK_BYTES = 4 << 20
PIECE_BYTES = 16 << 20
EVENT_LIMIT = 32 << 20  # no single event, and nothing before or behind the events, is larger
# What zlib can do at most is 1030:1; traces reach 20 to 50. A bomb is refused once it is large enough to hurt.
BOMB_BYTES, BOMB_RATIO = 1 << 30, 250

_GZIP_ERROR: Any = isal_zlib.error  # the stub says an exception, it is a class
_BOUNDARY = re.compile(rb"\}(?=\s{0,256},\s{0,256}\{)")
_BOUNDARY_BYTES = 1 + 256 + 1 + 256 + 1
_WINDOW_BYTES = 65_536
_ARRAY_END = re.compile(rb"\}\s{0,256}(?=\])")
_MOST_WAYS = 16  # to begin or end the array that are tried: texts may hold any number of what looks like one
_SEPARATOR = re.compile(rb"[\s,]*")
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')


class Pieces:
    """Iterates over the events of a trace as pieces of bytes; `metadata` is filled when the iteration ends.

    Attributes set while reading:
        read_bytes: compressed bytes consumed so far
        cut_off: why the file ends early, None when it does not
        ignored: what stands behind the events and was not read, None when nothing does
        metadata: the members of the trace besides its events
        at_end: True when the piece last yielded is the rest of the text and may end with the array's `]`
        rest: set by the consumer to the bytes of the last piece that must come back in the next one
        ended: set by the consumer when it met the end of the array inside a piece
    """

    def __init__(self, path: Path):
        self.path = path
        self.read_bytes = 0
        self.cut_off: str | None = None
        self.ignored: str | None = None
        self.metadata: dict[str, Any] = {}
        self.at_end = False
        self.rest = b""
        self.ended = False

    def __iter__(self) -> Iterator[bytes]:
        blocks = self._blocks()
        parts = [self._skip_header(blocks)]  # joined once: text that grows block by block would be copied each time
        for block in blocks:
            parts.append(block)
            if sum(map(len, parts)) < PIECE_BYTES:
                continue
            text = b"".join(parts)
            cut = _last_boundary(text)
            parts = [text]
            if cut is None:
                if len(text) > EVENT_LIMIT:
                    raise CorruptInputError(f"{self.path} holds no event boundary within {EVENT_LIMIT >> 20} MiB")
                continue
            piece, text = text[:cut], text[cut:]
            yield piece
            if len(self.rest) > EVENT_LIMIT:
                raise CorruptInputError(f"{self.path} holds no whole event within {EVENT_LIMIT >> 20} MiB")
            text = self.rest + text
            self.rest = b""
            parts = [text[_SEPARATOR.match(text).end() :]]  # type: ignore[union-attr]
            if self.ended:
                self._take_tail(parts[0], blocks)
                break
        else:
            self.at_end = True
            yield b"".join(parts)
            if self.ended:
                self._take_tail(self.rest, iter(()))
        self.metadata.pop("traceEvents", None)

    def _take_tail(self, text: bytes, blocks: Iterator[bytes]) -> None:
        """Take what follows the array, when the consumer found its end itself: members, or else it is ignored."""
        size = len(text)
        for block in blocks:
            size += len(block)
            if size <= EVENT_LIMIT:
                text += block
        members = self._members(text.lstrip()) if size <= EVENT_LIMIT else None
        if members is not None:
            self.metadata |= members
        elif text.strip(b"\0 \t\r\n]}"):
            self.ignored = f"{size - 1:,} bytes that are not the end of one JSON document"

    def _blocks(self) -> Iterator[bytes]:
        """The file in blocks, decompressed; a damaged gzip stream ends early and says so in cut_off."""
        with self.path.open("rb") as raw:
            gzipped = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            unpack = _Gunzip(self.path) if gzipped else None
            while block := raw.read(BLOCK_BYTES):
                self.read_bytes = raw.tell()
                if unpack is None:
                    yield block
                    continue
                yield from unpack.feed(block)
                if unpack.error:
                    break
            if unpack is not None:
                self.cut_off = unpack.why_unfinished()

    def _skip_header(self, blocks: Iterator[bytes]) -> bytes:
        """Read up to the first event; returns the text from there."""
        text = b""
        for block in blocks:
            text = (text + block).removeprefix(b"\xef\xbb\xbf").lstrip()
            start = self._array_start(text)
            if start is not None:
                return text[start:].lstrip()
            if len(text) > EVENT_LIMIT:
                break
        raise UnknownFormatError(
            f"{self.path} is JSON without a list of traceEvents: no torch.profiler trace"
            if not self.cut_off
            else f"{self.path} cannot be salvaged: {self.cut_off} before the first event"
        )

    def _array_start(self, text: bytes) -> int | None:
        """Where the events begin: behind `[` of a list, or behind a traceEvents key that is proven by parsing."""
        if text.startswith(b"["):
            return 1
        for match in islice(_EVENTS_KEY.finditer(text), _MOST_WAYS):
            try:
                header = orjson.loads(text[: match.start()] + b'"traceEvents":[]}')
            except orjson.JSONDecodeError:
                continue
            self.metadata |= header
            return match.end()
        return None

    def ends(self, text: bytes) -> Iterator[tuple[bytes, dict[str, Any]]]:
        """Ways to split the last piece into events and what follows the array, likeliest first; none is proven."""
        if text.startswith(b"]"):
            members = self._members(text)
            if members is not None:
                yield b"", members
        for end in islice(_backwards(_ARRAY_END, text), _MOST_WAYS):
            members = self._members(text[end:])
            if members is not None:
                yield text[:end], members

    def _members(self, tail: bytes) -> dict[str, Any] | None:
        """The members of the trace behind the array, None when the text is not the end of a trace."""
        if tail.strip() == b"]":
            return {}
        try:
            found = dict(orjson.loads(b'{"traceEvents":[' + tail))
        except orjson.JSONDecodeError:
            return None
        again = found.pop("traceEvents")
        if again:  # the last one of a name counts for a JSON parser
            what = f"{len(again):,} entries" if isinstance(again, list) else "something else"
            self.ignored = f"a second member traceEvents with {what}"
        return found


class _Gunzip:
    """Decompresses a gzip file of one or more members slice by slice, in bounded memory."""

    SLICE_BYTES = 65_536  # can become 64 MiB at most

    def __init__(self, path: Path):
        self.path = path
        self.error: str | None = None
        self._member = isal_zlib.decompressobj(wbits=31)
        self._is_inside = True
        self._taken = self._given = 0

    def feed(self, block: bytes) -> Iterator[bytes]:
        """What a block of the file decompresses to; stops and sets `error` where the stream is damaged."""
        for start in range(0, len(block), self.SLICE_BYTES):
            data = block[start : start + self.SLICE_BYTES]
            self._taken += len(data)
            while data:
                try:
                    text = self._member.decompress(data)
                except _GZIP_ERROR as error:
                    self.error = f"the gzip stream is damaged ({error})"
                    return
                self._given += len(text)
                self._refuse_bomb()
                yield text
                self._is_inside, data = not self._member.eof, self._member.unused_data.lstrip(b"\0")
                if self._member.eof:
                    self._member = isal_zlib.decompressobj(wbits=31)

    def _refuse_bomb(self) -> None:
        if self._given > BOMB_BYTES and self._given > BOMB_RATIO * self._taken:
            raise CorruptInputError(
                f"{self.path} expands more than {BOMB_RATIO}-fold, which no trace does; if it is genuine, decompress "
                "it with gunzip and give the .json"
            )

    def why_unfinished(self) -> str | None:
        """Why the stream ended early, None when it did not."""
        return self.error or ("the gzip stream is cut off" if self._is_inside else None)


def _last_boundary(text: bytes) -> int | None:
    """Index behind the last `}` that is followed by `,` and `{`; None without."""
    return next(_backwards(_BOUNDARY, text), None)


def _backwards(pattern: "re.Pattern[bytes]", text: bytes) -> Iterator[int]:
    """Where the matches of a pattern end, the last first; of one that looks no further than _BOUNDARY_BYTES."""
    for begin in range((max(len(text) - 1, 0)) // _WINDOW_BYTES * _WINDOW_BYTES, -1, -_WINDOW_BYTES):
        window = text[begin : begin + _WINDOW_BYTES + _BOUNDARY_BYTES]
        ends = [match.end() for match in pattern.finditer(window) if match.start() < _WINDOW_BYTES]
        yield from (begin + end for end in reversed(ends))
