"""Of a folder of several ranks the recording of one: compare --rank."""

import shlex
from pathlib import Path

from ...analyze.pipeline import analyze
from ...errors import UsageError
from ...progress import Progress
from ..tables import sources


def recording(path: Path, rank: int, progress: Progress) -> Path:
    """The file of a rank, or what was given where it is of that rank alone.

    Raises UsageError for a rank that is not there, and for one file of several ranks.
    """
    with analyze([path], progress=progress) as database:
        source_id = sources.shown(database, rank)
        ((name,),) = database.rows(f"select name from source where source_id = {source_id}")
        others = database.rows(
            f"select 1 from source where rank is distinct from {rank} and kind_has_work(kind) limit 1"
        )
    if not others:
        return path
    if not (path / name).is_file():
        report = _report_of(path, str(name))
        raise UsageError(
            f"--rank {rank}: {report} holds several ranks; `lorabench split {shlex.quote(str(report))} -o DIR` writes "
            "a file for each, to compare that of the rank"
        )
    return path / str(name)


def _report_of(path: Path, name: str) -> Path:
    """The file of which one process is the input of this name; what was given where that is not known."""
    if not path.is_dir():
        return path
    files = [one for one in path.iterdir() if one.is_file() and name.startswith(f"{one.stem}-")]
    return max(files, key=lambda one: len(one.stem), default=path)
