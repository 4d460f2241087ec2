"""A cache folder for each test, with a blank database in it that all tests share: making one takes a second."""

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from lorabench.analyze.store import blank


@cache
def _blank() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="lorabench-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return blank.cached(folder)


def cache_in(folder: Path) -> str:
    """What XDG_CACHE_HOME is to be for a test that works in a folder."""
    own = folder / "cache" / "lorabench"
    blank_one = own / _blank().name
    if not blank_one.exists():
        own.mkdir(parents=True, exist_ok=True)
        new = own / f"{os.getpid()}.new"  # another worker may do the same
        shutil.copyfile(_blank(), new)
        new.replace(blank_one)
    return str(own.parent)
