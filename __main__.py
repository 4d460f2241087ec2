"""The one place where errors become lines on stderr and exit codes."""

import signal
import sys
from types import FrameType

from .errors import LorabenchError


def main() -> None:
    """Run the command line; never returns."""
    signal.signal(signal.SIGTERM, _terminate)
    from .cli import app

    try:
        app()
    except LorabenchError as error:
        print(f"lorabench: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("lorabench: interrupted; nothing was changed", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()  # `lorabench query … | head` is no error
        sys.exit(0)


def _terminate(number: int, frame: FrameType | None) -> None:
    """Unwind on SIGTERM, so that half-written files are removed."""
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
