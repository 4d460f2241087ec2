"""Of a folder of several ranks the recording of one: compare --rank."""

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
        raise UsageError(f"--rank {rank}: {path} holds several ranks in one file; give the file of one")
    return path / str(name)
