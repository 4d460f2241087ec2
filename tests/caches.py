"""A cache folder for each test, with the blank databases in it that all tests share: making one takes seconds."""

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from lorabench.analyze.store import blank


@cache
def _blanks() -> tuple[Path, ...]:
    folder = Path(tempfile.mkdtemp(prefix="lorabench-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return tuple(blank.cached(folder, shape) for shape in blank.Shape)


def cache_in(folder: Path) -> str:
    """What XDG_CACHE_HOME is to be for a test that works in a folder."""
    own = folder / "cache" / "lorabench"
    own.mkdir(parents=True, exist_ok=True)
    for shared in _blanks():
        if not (own / shared.name).exists():
            new = own / f"{os.getpid()}.new"  # another worker may do the same
            try:
                new.hardlink_to(shared)  # nobody writes into a blank database: it is copied, or replaced
            except OSError:  # another file system
                shutil.copyfile(shared, new)
            new.replace(own / shared.name)
    return str(own.parent)
