"""A cache folder for each test, with a blank database in it that all tests share: making one takes a second."""

import atexit
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
    if not own.parent.exists():
        own.mkdir(parents=True)
        shutil.copyfile(_blank(), own / _blank().name)
    return str(own.parent)
