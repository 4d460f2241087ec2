"""The one place where errors become lines on stderr and exit codes."""

import errno
import gc
import signal
import sys
from types import FrameType
from typing import Any, NoReturn

from . import console
from .errors import Interrupted, LorabenchError, OutputError, left_by

_AGAIN_S = 0.01
_NEW_OBJECTS = 100_000  # before garbage is looked for: importing makes fewer, and what they are made of stays
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
# What a file system refuses, wherever it is asked: no mistake of the program's.
_REFUSED = (
    *_DISK_FULL, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG,
    errno.ELOOP, errno.EFBIG, errno.EIO, errno.ESTALE,
)  # fmt: skip
_HEEDED = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
_NOTHING = "nothing was changed"
_received: list[int] = []


class _Stopped(KeyboardInterrupt):
    """A type of its own: after a plain KeyboardInterrupt in exec() Python ends itself with SIGINT, though caught."""


def main() -> None:
    """Run the command line; never returns."""
    for number in _HEEDED:
        signal.signal(number, _stop)
    sys.unraisablehook = _stop_later
    gc.set_threshold(_NEW_OBJECTS)
    console.prepare()
    try:
        from .cli import run  # takes long enough to be interrupted

        try:
            run()
        finally:
            console.flush()  # while what fails can still be caught
    except Interrupted as error:
        left = left_by(error)
        console.tell(f"lorabench: {f'interrupted; {left}' if left else error}")
    except BrokenPipeError:
        _end_unheard()
    except OSError as error:
        console.tell(f"lorabench: {_refused(error)}")
        sys.exit(OutputError.exit_code)
    except LorabenchError as error:
        if not _received:
            console.tell(f"lorabench: {error}")
            sys.exit(error.exit_code)
        console.tell(f"lorabench: interrupted; {left_by(error) or _NOTHING}")
    except BaseException as error:  # also what a library makes of the exception that _stop raised inside it
        if isinstance(error.__context__, BrokenPipeError):  # typer makes an exit of it
            _end_unheard()
        if not _received:
            raise
        console.tell(f"lorabench: interrupted; {left_by(error) or _NOTHING}")
    finally:
        for number in _HEEDED:  # all is done: what ends now is only the interpreter
            signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + (_received or [signal.SIGINT])[0])


def _end_unheard() -> NoReturn:
    """End where nobody reads on: `lorabench query … | head` is no error."""
    console.discard()
    sys.exit(0)


def _refused(error: OSError) -> str:
    """What a file system refused, in one line. Raises the error where that is not what it says."""
    if error.errno not in (_DISK_FULL if error.filename is None else _REFUSED):
        raise error
    if error.filename is not None:
        return f"cannot use {error.filename}: {error.strerror}"
    console.discard()
    return f"cannot write the output: {error.strerror}"


def _stop(number: int, frame: FrameType | None) -> None:
    """Unwind on SIGINT and SIGTERM, so that half-written files are removed."""
    if number != signal.SIGALRM:
        _received.append(number)
    raise _Stopped


def _stop_later(about: Any) -> None:
    """An exception where nobody can catch it, as in a destructor: one of _stop is raised again a little later."""
    if _received and isinstance(about.exc_value, KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
    else:
        sys.__unraisablehook__(about)


if __name__ == "__main__":
    main()
