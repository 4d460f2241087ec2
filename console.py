"""All that lorabench prints: data on stdout, narration on stderr.

Names of kernels, ranges, files and columns are chosen by whoever made a trace. Printed as they are they could move the
cursor, change colours or titles, ring, forge lines or turn the direction of writing; here they are made visible first.
"""

import os
import re
import shutil
import sys
import textwrap
from typing import TextIO

# Control characters, marks and overrides of direction, separators of lines.
HIDDEN_IN_TEXT = r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
_HIDDEN = re.compile(f"{HIDDEN_IN_TEXT}|[\ud800-\udfff]")  # and the bytes of a file name that are no text


_unended: dict[bool, bool] = {}  # by whether it is stderr: whether what was passed on ended in the middle of a line


def visible(text: str) -> str:
    r"""The text with what a terminal would obey written out, as \x1b."""
    return _HIDDEN.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


def terminal_width() -> int:
    """How many characters a line of the terminal holds."""
    return shutil.get_terminal_size((80, 24)).columns


def tell(text: object) -> None:
    """A line for a person, on stderr. Where nobody reads on (`… -o run.csv 2>&1 | head`) the work goes on unheard."""
    try:
        _end_line(is_error=True)
        print(visible(str(text)), file=sys.stderr)
    except BrokenPipeError:
        _let_go(sys.stderr)


def tell_sentence(text: object) -> None:
    """A longer line for a person, on stderr: in a terminal in lines that fit, else as it is."""
    if not sys.stderr.isatty():
        tell(text)
        return
    for line in textwrap.wrap(visible(str(text)), terminal_width(), subsequent_indent="  ", break_on_hyphens=False):
        tell(line)


def put(text: str) -> None:
    """A line of data, on stdout."""
    _end_line(is_error=False)
    print(visible(text))


def put_lines(text: str) -> None:
    """Lines of data, on stdout."""
    print("\n".join(map(visible, text.split("\n"))))


def put_json(text: str) -> None:
    """JSON on one line, on stdout; what a terminal would obey as JSON's own escapes."""
    print(_HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def pass_on(is_error: bool, data: bytes) -> None:
    """What a program of the user's own writes, as it is: it would do that without lorabench, too."""
    stream = sys.stderr if is_error else sys.stdout
    stream.flush()
    if hasattr(stream, "buffer"):
        stream.buffer.write(data)
    else:  # somebody collects text
        stream.write(data.decode("utf-8", errors="replace"))
    stream.flush()
    if data:
        _unended[is_error] = not data.endswith(b"\n")


def _end_line(*, is_error: bool) -> None:
    """End the line in which another program left off, so that what follows stands on its own."""
    if _unended.pop(is_error, False):
        print(file=sys.stderr if is_error else sys.stdout)


def flush() -> None:
    """Write what is still held back. Raises OSError where stdout takes no more."""
    if sys.stdout is not None:  # somebody closed it before the program began
        sys.stdout.flush()


def discard() -> None:
    """Let what is still held back for stdout go nowhere, so that ending the interpreter does not fail by it."""
    _let_go(sys.stdout)


def _let_go(stream: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def prepare() -> None:
    """Let characters that the terminal's encoding lacks be printed as escapes instead of failing.

    What is printed where stdout is closed (`>&-`) goes nowhere.
    """
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
