"""The errors a user can meet. Raised where they are known, caught once in the CLI.

    LorabenchError              1   anything below, when nothing more precise fits
    ├── UsageError              2   the command line contradicts itself
    ├── InputError              3   an input cannot be read at all
    │   ├── UnknownFormatError  3   readable, but neither a trace nor a lorabench database
    │   └── CorruptInputError   3   the right format, broken or cut off inside
    ├── ToolError               4   another program (nsys, a command) or a package is missing or failed
    ├── OutputError             5   the result could not be written (disk full, no permission)
    ├── CheckError              6   an arithmetic identity does not hold: a lorabench bug or an impossible trace
    ├── RunError                7   a collected run failed, ran out of memory, was stopped or recorded nothing
    ├── RegressionError         8   compare found more than --fail-above allows
    ├── ValidationError         9   a trace breaks rules of validate
    └── Interrupted           130   Ctrl-C during a run, whose directory is kept

The number is the exit code of the command. Every message says what, where and what to do next, in one line.
Anything that is not a LorabenchError is a bug and shows its traceback.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


def first_line(error: BaseException) -> str:
    """The first line of what an error of another package says, or its name where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


@contextmanager
def leaving(what: Callable[[], str]) -> Iterator[None]:
    """Of work that leaves something when it is interrupted: what to say of it then, "" for nothing, is a note of the
    exception, whatever a library makes of that.
    """
    try:
        yield
    except BaseException as error:
        error.add_note(what())
        raise


def left_by(error: BaseException) -> str:
    """What the work that an exception ended has left; "" for nothing."""
    seen: BaseException | None = error
    while seen is not None:
        if said := next(filter(None, getattr(seen, "__notes__", ())), ""):
            return str(said)
        seen = seen.__cause__ or seen.__context__
    return ""


class LorabenchError(Exception):
    """Base of all errors that are reported in one line."""

    exit_code = 1


class UsageError(LorabenchError):
    """The command line contradicts itself or names something that does not exist."""

    exit_code = 2


class SettingError(UsageError):
    """A value that its setting cannot have, whatever the others are."""


class InputError(LorabenchError):
    """An input file cannot be read."""

    exit_code = 3


class UnknownFormatError(InputError):
    """The file is readable but is no trace that lorabench knows."""


class CorruptInputError(InputError):
    """The file has a known format but is broken or cut off."""


class ToolError(LorabenchError):
    """An external program or a package is missing, too old or failed."""

    exit_code = 4


class OutputError(LorabenchError):
    """A result could not be written."""

    exit_code = 5


class CheckError(LorabenchError):
    """A check view found rows that must not exist."""

    exit_code = 6


class RunError(LorabenchError):
    """A collected run did not end well; its directory is kept and says how."""

    exit_code = 7


class RegressionError(LorabenchError):
    """What was compared got worse by more than is allowed."""

    exit_code = 8


class ValidationError(LorabenchError):
    """A trace holds times or links that are wrong."""

    exit_code = 9


class Interrupted(LorabenchError):
    """Ctrl-C during a collected run; what was measured is kept."""

    exit_code = 130
