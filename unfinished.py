"""Names of files that are not finished: hidden, beside what they will become, with the process that writes them.

    report.csv  <-  .report.csv.7f3a9c-4242-1b2c3d4e.partial
                                 |      |      at random
                                 |      the process
                                 the machine, since it was started, and its namespace of processes

A process that is killed leaves such a file behind, with what DuckDB puts beside it (.wal, .tmp). Whoever writes a file
of that name next removes it; a file of a process that lives, or of another machine that shares the disk, is left alone.
"""

import hashlib
import os
import re
import shutil
import uuid
from contextlib import suppress
from pathlib import Path

_NAME = re.compile(r"\.(?P<name>.+)\.(?P<home>[0-9a-f]{6})-(?P<pid>[0-9]+)-[0-9a-f]{8}\.(partial|open)(\.wal|\.tmp)?")


def beside(path: Path, suffix: str = "partial") -> Path:
    """A name for what will become `path`, in the same folder; what dead processes left there under that name goes."""
    remove_left(path.parent, path.name)
    return path.with_name(f".{path.name}.{_home()}-{os.getpid()}-{uuid.uuid4().hex[:8]}.{suffix}")


def end_of_links(path: Path) -> Path:
    """What is replaced when a file is written: behind a link the file that it leads to, and the link stays."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def becomes(path: Path) -> str | None:
    """The name that an unfinished file will have, None for any other file."""
    found = _NAME.fullmatch(path.name)
    return found["name"] if found else None


def remove_left(folder: Path, name: str | None = None) -> None:
    """Remove what processes that are dead left in a folder: what would have become `name`, or everything."""
    with suppress(OSError):  # a folder that is not there yet or cannot be read
        for path in list(folder.iterdir()):
            found = _NAME.fullmatch(path.name)
            if (
                found
                and name in (None, found["name"])
                and found["home"] == _home()
                and _is_dead(int(found["pid"]), path)
            ):
                with suppress(OSError):
                    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _home() -> str:
    """What a process number means something in: this machine since its start, and its namespace of processes."""
    parts = [os.uname().nodename]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text("ascii"))
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:6]


def _is_dead(pid: int, path: Path) -> bool:
    """Whether the process is gone, or another one has its number since."""
    import psutil

    try:
        return psutil.Process(pid).create_time() > path.lstat().st_mtime + 1
    except psutil.NoSuchProcess:
        return True
    except (psutil.Error, OSError):
        return False
