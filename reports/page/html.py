"""Sections into one self-contained HTML file that works offline."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import markupsafe

from ...version import installed
from ..tables.files import replacing
from . import assets, kinds, said
from .first import First
from .packing import NUL, as_json
from .receipt import Receipt
from .section import Section


def write(
    path: Path, title: str, subtitle: str, sections: Sequence[Section], cards: Sequence[dict[str, str]] = (),
    first: First | None = None, verdict: Sequence[str] = (), receipt: Receipt | None = None,
    kernels: dict[str, dict[str, Any]] | None = None, cautions: Sequence[str] = (), names: Sequence[str] = (),
) -> None:  # fmt: skip
    """Write a page: the verdict and cards above all, what to do first (left out when None), then the sections.

    kernels: what the drawer shows of each, by its short name. cautions: sentences below the verdict.
    names: those of inputs, and of ranges and kernels whose names look like a number with a unit: they stay as they are.
    Every text is escaped. Raises OutputError when the file cannot be written.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters |= {"plain_json": _json, **said.filters(names)}
    has_charts = any(section.figure is not None and section.kind == "chart" for section in sections)
    text = environment.get_template("page.html.jinja").render(
        title=title, subtitle=subtitle, cards=cards, first=first, verdict=verdict, cautions=cautions,
        receipt=receipt and receipt.worded(lambda words: said.plain(words, names)), sections=sections,
        sentences=said.SENTENCES,
        kernels=kernels or {},
        kinds=kinds.KINDS, version=installed(),
        plotly_js=_script(assets.plotly()) if has_charts else "", own_js=_script(assets.own()),
    )  # fmt: skip
    with replacing(path) as partial:
        partial.write_text(text.replace("\0", NUL), "utf-8")


def _script(text: str) -> Any:
    """Text for a <script>, which nothing in it can end."""
    return markupsafe.Markup(text.replace("</", "<\\/"))


def _json(value: Any) -> Any:
    """A value as JSON for a <script>: no character of it can begin a tag, and NUL is what a browser makes of it."""
    text = as_json(value, is_ascii=False)
    return markupsafe.Markup(text.replace("<", "\\u003c").replace("&", "\\u0026"))
