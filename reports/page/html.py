"""Sections into one self-contained HTML file that works offline."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import markupsafe
import plotly.io
import plotly.offline

from ...version import installed
from ..tables import replacing
from .section import Section


def write(
    path: Path, title: str, subtitle: str, sections: Sequence[Section], cards: Sequence[dict[str, str]] = (),
    findings: Sequence[dict[str, str]] | None = None,
) -> None:  # fmt: skip
    """Write a page: cards above all, what to do first (left out when None), then the sections.

    Every text is escaped. Raises OutputError when the file cannot be written.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters["figure_json"] = _json
    environment.filters["plain_json"] = lambda value: markupsafe.Markup(json.dumps(value).replace("<", "\\u003c"))
    text = environment.get_template("page.html.jinja").render(
        title=title, subtitle=subtitle, cards=cards, findings=findings, sections=sections, version=installed(),
        plotly_js=_script(plotly.offline.get_plotlyjs()),
    )  # fmt: skip
    with replacing(path) as partial:
        partial.write_text(text, "utf-8")


def _script(text: str) -> Any:
    """Text for a <script>, which nothing in it can end."""
    return markupsafe.Markup(text.replace("</", "<\\/"))


def _json(figure: Any) -> Any:
    """A figure as JSON for a <script>: no character of it can begin a tag."""
    text = plotly.io.to_json(figure, validate=False).replace("<", "\\u003c").replace("&", "\\u0026")
    return markupsafe.Markup(text)
