"""The scripts that a page carries: its own modules as one text, and the charts' library.

The modules are written and tested as modules of JavaScript. A page is one file that loads nothing, so in it each is a
function that is called once and gives what it exports.
"""

import re
from functools import cache
from importlib.resources import files

# Each behind those that it needs.
ORDER = (
    "units", "packed", "density", "stacking", "flame_tree", "selection", "state", "tables", "charts", "receipt",
    "flame", "zoomed", "timeline", "blocks", "drawer", "link", "main",
)  # fmt: skip
_IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.mjs";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:function|class|const) (\w+))", re.MULTILINE)


@cache
def own() -> str:
    """All modules of the page as one script."""
    return "\n".join(['"use strict";', *map(_called, ORDER)])


def _called(name: str) -> str:
    """A module as a constant with what it exports."""
    text = files(__package__).joinpath("scripts", f"{name}.mjs").read_text("utf-8")
    exported = [found[1] for found in _EXPORT.findall(text)]
    body = _IMPORT.sub(r"const \1 = of_\2;", _EXPORT.sub(r"\1", text))
    return f"const of_{name} = (() => {{\n{body}return {{{', '.join(exported)}}};\n}})();"


@cache
def plotly() -> str:
    """The charts' library, see vendor/README.md."""
    return files(__package__).joinpath("vendor", "plotly-basic.min.js").read_text("utf-8")
