"""What tells whether a database holds an input as it is now, read as lorabench reads it now."""

from .inputs import Input, Kind

# Raised when a reader reads anything differently, or what is computed of it changes: it is read again.
READER_VERSIONS = {
    Kind.UNREADABLE: 0,
    Kind.NSYS_SQLITE: 20,
    Kind.NSYS_REPORT: 20,  # exported, and read as that
    Kind.KINETO: 20,
    Kind.SNAPSHOT: 4,
}
RANK_IN_NAME = r"(?i)rank[-_. ]?(\d{1,6})"  # for Python and for SQL


def identity(item: Input) -> tuple[str, int, int, int]:
    """(name, size, mtime, reader version) of an input."""
    return name_of(item), item.size_bytes, item.mtime_ns, READER_VERSIONS[item.kind]


def name_of(item: Input) -> str:
    """The file's name as text, with the process that is read of several; bytes that are no text are written out."""
    path = item.path.with_name(f"{item.path.stem}-{item.whose}{item.path.suffix}") if item.whose else item.path
    return path.name.encode("utf-8", "backslashreplace").decode("utf-8")
