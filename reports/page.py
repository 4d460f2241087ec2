"""One self-contained page about one recording: its sections put into the template."""

from pathlib import Path
from typing import Any

import jinja2
import markupsafe
import plotly.io
import plotly.offline

from .. import __version__
from ..analyze.database import Database
from ..errors import InputError
from . import changes
from .sections import Source, sections
from .tables import replacing


def write(database: Database, path: Path) -> None:
    """Write the page of a database to a file. Raises OutputError when it cannot be written."""
    text = render(database)
    with replacing(path) as partial:
        partial.write_text(text, "utf-8")


def render(database: Database) -> str:
    """The page as HTML. Of several inputs one is shown, and the others are listed beside it by rank.

    Raises InputError for a database without inputs that could be read.
    """
    source = Source(database, _shown(database))
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters["figure_json"] = _json
    return environment.get_template("page.html.jinja").render(
        title=source.name, subtitle=source.subtitle(), cards=_cards(source), findings=_findings(source),
        sections=sections(source), version=__version__, plotly_js=_script(plotly.offline.get_plotlyjs()),
    )  # fmt: skip


def _script(text: str) -> Any:
    """Text for a <script>, which nothing in it can end."""
    return markupsafe.Markup(text.replace("</", "<\\/"))


def _json(figure: Any) -> Any:
    """A figure as JSON for a <script>: no character of it can begin a tag."""
    text = plotly.io.to_json(figure, validate=False).replace("<", "\\u003c").replace("&", "\\u0026")
    return markupsafe.Markup(text)


def _shown(database: Database) -> int:
    """The input to show: of those that count the first with GPU work."""
    rows = database.rows(
        f"""select source_id from source where {changes.chosen(database)}
        order by source_id not in (select source_id from gpu_op), source_id limit 1"""
    )
    if not rows:
        raise InputError("none of the inputs could be read, so there is nothing to show")
    return int(rows[0][0])


def _cards(source: Source) -> list[dict[str, str]]:
    cards: list[dict[str, str]] = []

    def add(what: str, value: str, note: str = "") -> None:
        cards.append({"what": what, "value": value, "note": note})

    for row in source.rows("from step_statistics where source_id = {id}"):
        add(
            "step, median", f"{row['p50_ns'] / 1e6:,.2f} ms", f"{row['step_cnt']} steps, p95 {row['p95_ns'] / 1e6:,.2f}"
        )
        if row["token_per_s"]:
            add("tokens", f"{row['token_per_s']:,.0f} /s", "with the profiler's cost")
    for row in source.rows("from gpu_timeline_summary where source_id = {id} limit 2"):
        add(f"device {row['device_id']} busy", f"{row['busy_frac']:.1%}", f"of {row['window_ns'] / 1e6:,.1f} ms")
    ((kernels, time),) = source.database.rows(
        f"select coalesce(sum(kernel_cnt), 0), coalesce(sum(kernel_ns), 0) from kernel_summary "
        f"where source_id = {source.source_id}"
    )
    add("kernels", f"{kernels:,}", f"{time / 1e6:,.1f} ms")
    ((calls, api),) = source.database.rows(
        f"select count(*), coalesce(sum(launch_end_ns - launch_start_ns), 0) from gpu_op "
        f"where source_id = {source.source_id} and is_first_op"
    )
    add("launches", f"{calls:,}", f"{api / 1e6:,.1f} ms of CPU")
    return cards


def _findings(source: Source) -> list[dict[str, str]]:
    rows = source.rows("from finding where source_id = {id} limit 3")
    return [
        {"rule": row["rule"].replace("_", " "), "severity": row["severity"], "cost": f"{row['cost_ns'] / 1e6:,.2f} ms",
         "place": row["place"] or "", "evidence": row["evidence"], "advice": row["advice"].rstrip(".") + "."}
        for row in rows
    ]  # fmt: skip
