"""Paths as a user wrote them: a slash at the end says that a folder is meant, whatever its name looks like."""

from pathlib import Path


class Folder(type(Path())):  # type: ignore[misc]
    """A path that was written with a slash at its end, as of a folder: `out/Qwen1.5-0.5B/` has no suffix `.5B`."""


def written(text: str) -> Path:
    """The path that a user wrote."""
    return Folder(text) if text.endswith(("/", "\\")) else Path(text)


def names_folder(path: Path) -> bool:
    """Whether what is to be written there is a folder: one that is there, or by its name."""
    return isinstance(path, Folder) or path.is_dir() or not path.suffix
