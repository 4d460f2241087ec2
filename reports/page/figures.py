"""Pictures: rows in, plotly figures out. Nothing here asks a database or knows a page.

Plotly reads a small markup in texts, so every name from a trace is escaped (shown()).
"""

import base64
import html
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

Row = dict[str, Any]
_LABEL_LENGTH = 60
# Distinct in hue and in lightness (Okabe and Ito's palette), so that they differ without colour, too.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#7F7F7F", "#332288", "#999933")
PATTERNS = ("", "/", ".", "x", "-", "\\", "+", "|", "", "/")
MS = 1e-6
MIB = 2**-20


def shown(text: Any, length: int = _LABEL_LENGTH) -> str:
    """A name as plotly shows it literally, its middle left out when it is long."""
    words = str(text) if text is not None else "(no range)"
    if len(words) > length:
        half = (length - 1) // 2
        words = f"{words[:half]}…{words[-half:]}"
    return html.escape(words, quote=False)


def _figure(traces: Sequence[Any], height: int, **layout: Any) -> go.Figure:
    figure = go.Figure(list(traces))
    figure.update_layout(
        height=height, margin={"l": 10, "r": 10, "t": 30, "b": 40}, paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)", template="none", font={"size": 12},
        legend={"orientation": "h", "y": 1.12}, **layout,
    )  # fmt: skip
    figure.update_xaxes(automargin=True, gridcolor="rgba(128,128,128,0.25)")
    figure.update_yaxes(automargin=True, gridcolor="rgba(128,128,128,0.25)")
    return figure


def stacked_bars(rows: Sequence[Row], label: str, series: Sequence[tuple[str, str]], unit: str = "ms") -> go.Figure:
    """Horizontal bars, a row each, first on top; series are (column in ns, its title) and lie end to end."""
    labels = [shown(row[label]) for row in rows]
    places = [f"{number}" for number in range(len(rows))]
    traces = [
        go.Bar(
            y=places, x=[(row[column] or 0) * MS for row in rows], name=title, orientation="h", customdata=labels,
            hovertemplate=f"%{{customdata}}<br>{title}: %{{x:,.3f}} {unit}<extra></extra>",
            marker={"color": COLOURS[n], "pattern": {"shape": PATTERNS[n], "fgopacity": 0.4}},
        )
        for n, (column, title) in enumerate(series)
    ]  # fmt: skip
    figure = _figure(traces, 90 + 26 * max(len(rows), 1), barmode="stack", xaxis_title=unit)
    figure.update_yaxes(autorange="reversed", tickvals=places, ticktext=[shown(row[label], 36) for row in rows])
    return figure


def icicle(rows: Sequence[Row]) -> go.Figure:
    """A tree of ranges: rows have id, parent, name, own_ns, kernel_ns, launch_ns and launch_frac, the colour."""
    known = {row["id"] for row in rows}
    trace = go.Icicle(
        ids=[str(row["id"]) for row in rows],
        parents=[str(row["parent"]) if row["parent"] in known else "" for row in rows],
        labels=[shown(row["name"], 40) for row in rows],
        values=[row["own_ns"] * MS for row in rows],
        customdata=[[row["kernel_ns"] * MS, row["launch_ns"] * MS] for row in rows],
        hovertemplate="%{label}<br>kernels %{customdata[0]:,.3f} ms, launching %{customdata[1]:,.3f} ms<extra></extra>",
        marker={
            "colors": [row["launch_frac"] for row in rows], "colorscale": "Cividis", "cmin": 0, "cmax": 1,
            "colorbar": {"title": {"text": "launching /<br>(launching + kernels)"}, "tickformat": ".0%"},
        },
        tiling={"orientation": "v"}, maxdepth=6,
    )  # fmt: skip
    return _figure([trace], 460)


def timeline(streams: Sequence[Row], longest: Sequence[Row], shown_cnt: int) -> go.Figure:
    """Streams over time: how busy each was in equal bins, and the longest operations by themselves.

    Streams have a name, the width bin_ns of their bins and a byte for each, 0 to 255; shown_cnt bins are drawn.
    """
    together = len(streams[0]["levels"]) // shown_cnt
    width = streams[0]["bin_ns"] * together * MS
    grid = [
        [sum(row["levels"][n : n + together]) / (255 * together) for n in range(0, shown_cnt * together, together)]
        for row in streams
    ]
    names = [row["name"] for row in streams]
    heat = go.Heatmap(
        x=[(n + 0.5) * width for n in range(shown_cnt)], y=names, z=grid, zmin=0, zmax=1,
        colorscale=[[0, "rgba(0,114,178,0)"], [1, "rgba(0,114,178,1)"]],
        hovertemplate="%{y}<br>%{x:,.3f} ms: busy %{z:.0%}<extra></extra>",
        colorbar={"title": {"text": "busy"}, "tickformat": ".0%"},
    )  # fmt: skip
    drawn = [row for row in longest if stream_name(row) in names]
    bars = go.Bar(
        base=[row["start_ns"] * MS for row in drawn], x=[row["duration_ns"] * MS for row in drawn],
        y=[stream_name(row) for row in drawn], orientation="h", width=0.35,
        customdata=[[shown(row["name"], 90), shown(row["path"], 90)] for row in drawn], marker={"color": COLOURS[1]},
        hovertemplate="%{customdata[0]}<br>%{customdata[1]}<br>%{x:,.4f} ms<extra></extra>", name="longest operations",
    )  # fmt: skip
    return _figure([heat, bars], 130 + 50 * max(len(streams), 1), xaxis_title="ms", barmode="overlay")


def zoom(streams: Sequence[Row], shown_cnt: int) -> Row:
    """What the page needs to draw a part of timeline() as finely as the streams' bins are."""
    return {
        "bin": streams[0]["bin_ns"] * MS, "shown": shown_cnt,
        "levels": [base64.b64encode(row["levels"]).decode("ascii") for row in streams],
    }  # fmt: skip


def stream_name(row: Row) -> str:
    """A stream as the timeline names it."""
    return f"device {row['device_id']}, stream {row['stream_id']}"


def lines(
    rows: Sequence[Row], x: str, series: Sequence[tuple[str, str]], y_title: str, percent: bool = False
) -> go.Figure:
    """Columns over time (ns from the begin)."""
    dashes = ("solid", "dash", "dot", "dashdot")
    traces = [
        go.Scatter(
            x=[row[x] * MS for row in rows], y=[row[column] for row in rows], name=title, mode="lines",
            line={"color": COLOURS[n], "dash": dashes[n % 4], "shape": "hv"},
        )
        for n, (column, title) in enumerate(series)
    ]  # fmt: skip
    figure = _figure(traces, 280, xaxis_title="ms", yaxis_title=y_title)
    if percent:
        figure.update_yaxes(tickformat=".0%", range=[0, 1])
    return figure


def stacked_areas(rows: Sequence[Row], group: str, value: str) -> go.Figure:
    """Bytes of each group, one on the other; rows are in order, with time_ns, or event_number where that is NULL."""
    is_timed = all(row["time_ns"] is not None for row in rows)
    groups = list(dict.fromkeys(row[group] for row in rows))
    traces = []
    for n, name in enumerate(groups):
        mine = [row for row in rows if row[group] == name]
        title = shown(name).replace("_", " ")
        traces.append(
            go.Scatter(
                x=[row["time_ns"] * MS if is_timed else row["event_number"] for row in mine],
                y=[row[value] * MIB for row in mine], name=title,
                mode="lines", stackgroup="all", line={"color": COLOURS[n % len(COLOURS)], "shape": "hv", "width": 0.5},
                fillcolor=COLOURS[n % len(COLOURS)],
                fillpattern={"shape": PATTERNS[n % len(PATTERNS)], "fillmode": "overlay", "fgcolor": "#FFFFFF"},
                hovertemplate=f"{title}: %{{y:,.2f}} MiB<extra></extra>",
            )
        )  # fmt: skip
    axis = "ms" if is_timed else "number of the event (the snapshot has no times)"
    figure = _figure(traces, 400, xaxis_title=axis, yaxis_title="MiB", hovermode="x unified")
    return figure.update_layout(legend={"y": -0.28, "yanchor": "top"})


def grouped(rows: Sequence[Row], label: str, group: str, value: str) -> go.Figure:
    """Stacked bars: a bar for each label, a colour for each group, times in ns."""
    labels = list(dict.fromkeys(row[label] for row in rows))
    groups = list(dict.fromkeys(row[group] for row in rows))
    found = {(row[label], row[group]): row[value] for row in rows}
    wide = [{"label": name, **{str(g): found.get((name, g), 0) for g in groups}} for name in labels]
    return stacked_bars(wide, "label", [(str(g), shown(g)) for g in groups])


def curves(rows: Sequence[Row], x: str, y: str, group: str, titles: tuple[str, str], scale: float = 1.0) -> go.Figure:
    """A line with markers for each group, numbers on both axes; rows have a `group`, `x` and `y` (NULL: no point).

    A group whose name begins with 'published' is drawn dotted.
    """
    symbols = ("circle", "square", "diamond", "cross", "x", "triangle-up", "star", "hexagon")
    groups = list(dict.fromkeys(str(row[group]) for row in rows))
    traces = []
    for n, name in enumerate(groups):
        mine = sorted(
            ((row[x], row[y] * scale) for row in rows if str(row[group]) == name and row[y] is not None),
            key=lambda point: point[0],
        )
        dash = "dot" if name.startswith("published") else "solid"
        traces.append(
            go.Scatter(
                x=[point[0] for point in mine], y=[point[1] for point in mine], name=shown(name), mode="lines+markers",
                line={"color": COLOURS[n % len(COLOURS)], "dash": dash},
                marker={"symbol": symbols[n % len(symbols)], "size": 8},
            )
        )  # fmt: skip
    figure = _figure(traces, 360, xaxis_title=titles[0], yaxis_title=titles[1])
    figure.update_yaxes(rangemode="tozero")
    if len(places := sorted({row[x] for row in rows})) <= 12:
        figure.update_xaxes(tickvals=places)
    return figure.update_layout(legend={"y": -0.28, "yanchor": "top"})


def side_by_side(rows: Sequence[Row], label: str, columns: Sequence[str], unit: str, scale: float) -> go.Figure:
    """Horizontal bars, a group for each row and a bar for each column."""
    places = [f"{number}" for number in range(len(rows))]
    traces = [
        go.Bar(
            y=places, x=[(row[column] or 0) * scale for row in rows], name=shown(column), orientation="h",
            customdata=[shown(row[label]) for row in rows],
            hovertemplate=f"%{{customdata}}<br>{shown(column)}: %{{x:,.3f}} {unit}<extra></extra>",
            marker={"color": COLOURS[n % len(COLOURS)], "pattern": {"shape": PATTERNS[n % len(PATTERNS)]}},
        )
        for n, column in enumerate(columns)
    ]  # fmt: skip
    figure = _figure(traces, 130 + (14 * len(columns) + 12) * max(len(rows), 1), barmode="group", xaxis_title=unit)
    figure.update_layout(legend={"y": 1, "yanchor": "bottom"}, margin={"t": 50})
    figure.update_yaxes(autorange="reversed", tickvals=places, ticktext=[shown(row[label], 36) for row in rows])
    return figure
