"""The run directory: where `collect` leaves traces and `analyze` finds them.

So far only the reading side exists: any folder with traces in it will do.
"""

from pathlib import Path

_SUFFIXES = (".sqlite", ".nsys-rep", ".qdstrm", ".json", ".json.gz")
_NOT_TRACES = ("manifest.json", "summary.json")


def traces(directory: Path) -> list[Path]:
    """Files of a folder that may be traces, by name, in name order; hidden files and subfolders are left out."""
    return sorted(
        path
        for path in directory.iterdir()
        if path.is_file()
        and path.name.endswith(_SUFFIXES)
        and path.name not in _NOT_TRACES
        and not path.name.startswith(".")
    )
