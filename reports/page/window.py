"""A stretch of time that a page's timeline is about: what a user types, and where that is in a recording."""

import re
from dataclasses import dataclass

from ...errors import UsageError

_UNITS = {"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9}
_TIME = re.compile(r"\s*(-?(?:\d+\.?\d*|\.\d+))\s*(ns|us|µs|ms|s|min)?\s*")
_HOW = "write two times as 1200..1400 (ms), 1.2s..1.4s, ..20 or 1.2s.."


@dataclass(frozen=True)
class Window:
    """Times in ns as the axis of the timeline has them; None is an open end."""

    first: int | None
    last: int | None
    text: str

    def within(self, zero: int, begin: int, end: int) -> tuple[int, int]:
        """The window of a recording on its own clock, where the axis has its zero there.

        Raises UsageError where it has nothing of the recording.
        """
        first = begin if self.first is None else max(begin, zero + self.first)
        last = end if self.last is None else min(end, zero + self.last)
        if first >= last:
            span = f"{(begin - zero) / 1e6:,.3f} ms to {(end - zero) / 1e6:,.3f} ms"
            raise UsageError(f"--window {self.text}: the recording goes from {span}")
        return first, last


def parse(text: str) -> Window:
    """A..B as a window: numbers in ms, or with a unit; one of both may be missing. Raises UsageError."""
    parts = text.split("..")
    if len(parts) != 2 or not any(part.strip() for part in parts):
        raise UsageError(f"--window {text}: {_HOW}")
    first, last = (_ns(part, text) if part.strip() else None for part in parts)
    if first is not None and last is not None and first >= last:
        raise UsageError(f"--window {text}: the first time must be before the second")
    return Window(first, last, text)


def _ns(part: str, text: str) -> int:
    found = _TIME.fullmatch(part)
    if found is None:
        raise UsageError(f"--window {text}: {part.strip()} is not a time; {_HOW}")
    return round(float(found[1]) * _UNITS[found[2] or "ms"])
