"""The figures of a page as PNG files, drawn by kaleido in a browser that is installed."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from ...errors import OutputError, ToolError
from .section import Section

_WIDTH = 1100
_SCALE = 2  # pixels of the file for each of the picture


def write(sections: Sequence[Section], folder: Path) -> list[Path]:
    """Write NAME.png for each section that has a figure; returns the paths.

    Raises ToolError without kaleido or a browser, OutputError when the folder cannot be written.
    """
    if find_spec("kaleido") is None:
        raise ToolError("--png needs kaleido: pip install 'lorabench[png]'")
    import plotly.io

    drawn = [section for section in sections if section.figure is not None]
    paths = [folder / f"{section.name}.png" for section in drawn]
    for section in drawn:
        section.figure.update_layout(paper_bgcolor="white", plot_bgcolor="white")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        plotly.io.write_images([s.figure for s in drawn], paths, width=_WIDTH, scale=_SCALE)
    except OSError as error:
        raise OutputError(f"cannot write pictures to {folder}: {error.strerror}") from error
    except (RuntimeError, ValueError) as error:
        raise ToolError(
            f"--png could not draw ({str(error).splitlines()[0]}); install Chromium, or name one in BROWSER_PATH"
        ) from error
    return paths
