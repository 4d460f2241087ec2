"""Pictures: rows in, figures out, checked by plotly. Nothing here asks a database or knows a page.

Its script reads a small markup in texts, so every name from a trace is escaped (shown()). Colours of text, grid and
hatches belong to who draws: they differ in the dark and on paper.
"""

import html
from collections.abc import Callable, Sequence
from typing import Any

Row = dict[str, Any]
Figure = dict[str, Any]
_LABEL_LENGTH, _TICK_LENGTH = 60, 44
# Distinct in hue and in lightness (Okabe and Ito's palette), so that they differ without colour, too.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#7F7F7F", "#332288", "#999933")
PATTERNS = ("", "/", ".", "x", "-", "\\", "+", "|", "", "/")
MS = 1e-6
MIB = 2**-20
_BELOW = {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "traceorder": "normal"}


def shown(text: Any, length: int = _LABEL_LENGTH) -> str:
    """A name as plotly shows it literally, its middle left out when it is long."""
    words = str(text) if text is not None else "(no range)"
    if len(words) > length:
        half = (length - 1) // 2
        words = f"{words[:half]}…{words[-half:]}"
    return html.escape(words, quote=False).replace("$", "&#36;")  # between two of them it looks for a formula


def _figure(traces: Sequence[Row], height: int, x: Row, y: Row, **layout: Any) -> Figure:
    from plotly.graph_objects import Figure as Checked  # it refuses what its script would leave out in silence

    shape = {
        "height": height, "margin": {"l": 10, "r": 16, "t": 10, "b": 40}, "font": {"size": 12}, "legend": _BELOW,
        "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", "template": "none",
        "xaxis": {"automargin": True, "gridcolor": "rgba(128,128,128,0.25)", **x},
        "yaxis": {"automargin": True, "gridcolor": "rgba(128,128,128,0.25)", **y},
        "showlegend": len(traces) > 1, **layout,
    }  # fmt: skip
    figure: Figure = Checked(list(traces), shape).to_plotly_json()
    figure["layout"].pop("template")
    return figure


def _number(value: float) -> float:
    """A value as exact as a picture shows it: six digits."""
    return float(f"{value:.6g}")


def _bar(rows: Sequence[Row], label: str, column: str, title: str, unit: str, scale: float, number: int) -> Row:
    return {
        "type": "bar", "orientation": "h", "name": title, "y": [f"{place}" for place in range(len(rows))],
        "x": [_number((row[column] or 0) * scale) for row in rows], "customdata": [shown(row[label]) for row in rows],
        "hovertemplate": f"%{{customdata}}<br>{title}: %{{x:{',d' if scale == 1 else ',.3f'}}} {unit}<extra></extra>",
        "marker": {"color": COLOURS[number % len(COLOURS)],
                   "pattern": {"shape": PATTERNS[number % len(PATTERNS)], "fillmode": "overlay", "size": 6}},
    }  # fmt: skip


def _bars(rows: Sequence[Row], label: str, traces: Sequence[Row], unit: str, height: int, mode: str) -> Figure:
    names = {"type": "category", "autorange": "reversed", "tickvals": [f"{n}" for n in range(len(rows))],
             "ticktext": told_apart([shown(row[label], _TICK_LENGTH) for row in rows])}  # fmt: skip
    return _figure(traces, height, {"title": {"text": unit}}, names, barmode=mode)


def told_apart(labels: Sequence[str]) -> list[str]:
    """Labels of which no two are the same: those that would be have a number."""
    seen: dict[str, int] = {}
    made = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        made.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return made


def stacked_bars(
    rows: Sequence[Row], label: str, series: Sequence[tuple[str, str]], unit: str = "ms", scale: float = MS
) -> Figure:
    """Horizontal bars, a row each, first on top; series are (column in ns, its title) and lie end to end.

    unit, scale: of other columns, and what they are divided by.
    """
    traces = [_bar(rows, label, column, title, unit, scale, n) for n, (column, title) in enumerate(series)]
    return _bars(rows, label, traces, unit, 100 + 26 * max(len(rows), 1), "stack")


def coloured(trace: Row, kind: str | None, colour: str | None = None) -> None:
    """Gives a series the colour that the timeline has for a kind (page/kinds.py), by light and in the dark.

    colour: that of what is of no kind.
    """
    if kind is not None:
        trace["meta"] = {"kind": kind}
    elif colour is not None:
        trace["marker"]["color"] = colour


def bullets(rows: Sequence[Row], label: str, parts: Row) -> Figure:
    """A row each: an outline as long as a whole, filled as far as one part of it goes, hatched for the rest.

    parts: (column in ns, its title) of 'whole', 'rest' (which ends where the whole does), 'beside' (a thin bar, which
    may be longer than the whole) and 'tick'.
    """
    bars = {
        name: _bar(rows, label, column, title, "ms", MS, n) for n, (name, (column, title)) in enumerate(parts.items())
    }
    whole, rest, beside, tick = (bars[name] for name in ("whole", "rest", "beside", "tick"))
    plain = {"shape": "", "fillmode": "overlay", "size": 6}
    whole["marker"] = {"color": "rgba(86,180,233,0.35)", "line": {"color": "#0072B2", "width": 1.5}, "pattern": plain}
    rest["base"] = [_number(end - length) for end, length in zip(whole["x"], rest["x"], strict=True)]
    rest["marker"] = {"color": COLOURS[1], "pattern": plain | {"shape": "/"}}
    beside |= {"width": 0.26, "marker": {"color": COLOURS[0], "pattern": plain}}
    del tick["orientation"]
    tick |= {
        "type": "scatter",
        "mode": "markers",
        "marker": {"symbol": "line-ns", "size": 18, "color": COLOURS[7], "line": {"width": 3, "color": COLOURS[7]}},
    }
    return _bars(rows, label, [whole, rest, beside, tick], "ms", 180 + 26 * max(len(rows), 1), "overlay")


def roofline(rows: Sequence[Row], roofs: Sequence[Row], bytes_s: float) -> Figure:
    """Points of rows (intensity in FLOP a byte, flop_s, bound, told) below roofs (flop_s, name), both axes logarithmic.

    The slope is what memory delivers: bytes_s times the intensity; each roof begins where the slope meets it.
    """
    most_ns = max(row["self_gpu_ns"] for row in rows)
    least, most = min(row["intensity"] for row in rows), max(row["intensity"] for row in rows)
    ends = [least / 2, max(most, *(roof["flop_s"] / bytes_s for roof in roofs)) * 2]
    traces: list[Row] = []
    for n, (bound, symbol) in enumerate((("memory", "circle"), ("compute", "diamond"))):
        mine = [row for row in rows if row["bound"] == bound]
        traces.append({
            "type": "scatter", "mode": "markers", "name": f"bound by {bound}",
            "x": [_number(row["intensity"]) for row in mine], "y": [_number(row["flop_s"] * 1e-12) for row in mine],
            "customdata": [shown(row["told"], 160) for row in mine],
            "hovertemplate": "%{customdata}<br>%{y:,.3f} TFLOP/s at %{x:,.3g} FLOP/byte<extra></extra>",
            "marker": {"color": COLOURS[n], "symbol": symbol, "opacity": 0.75, "line": {"width": 1, "color": "#ffffff"},
                       "size": [6 + 22 * (row["self_gpu_ns"] / most_ns) ** 0.5 for row in mine]},
        })  # fmt: skip
    for n, roof in enumerate(roofs):
        knee = roof["flop_s"] / bytes_s
        traces.append({
            "type": "scatter", "mode": "lines", "name": shown(roof["name"]),
            "x": [ends[0], knee, ends[1]], "y": [ends[0] * bytes_s * 1e-12, *[roof["flop_s"] * 1e-12] * 2],
            "line": {"color": COLOURS[7], "dash": ("solid", "dash", "dot")[n % 3], "width": 2}, "hoverinfo": "name",
        })  # fmt: skip
    powers = {"type": "log", "dtick": 1, "exponentformat": "power"}
    across = {"title": {"text": "FLOP for each byte that must be moved"}, **powers}
    up = {"title": {"text": "TFLOP/s"}, **powers}
    return _figure([trace for trace in traces if trace["x"]], 460, across, up, showlegend=True)


def chosen_from(figure: Figure, most: int, row_cnt: int = 0, **keys: Sequence[Any]) -> Figure:
    """Bars of which a page draws the first `most`, or the first of those that are chosen by these values of each.

    row_cnt: how many rows there are, where the bars are the first of them.
    """
    cnt = len(figure["layout"]["yaxis"]["tickvals"])
    figure["layout"]["height"] -= 26 * (max(cnt, 1) - max(min(most, cnt), 1))
    return figure | {"most": most, "keys": keys, "row_cnt": max(row_cnt, cnt)}


def side_by_side(rows: Sequence[Row], label: str, columns: Sequence[str], unit: str, scale: float) -> Figure:
    """Horizontal bars, a group for each row and a bar for each column."""
    traces = [_bar(rows, label, column, shown(column), unit, scale, n) for n, column in enumerate(columns)]
    return _bars(rows, label, traces, unit, 130 + (14 * len(columns) + 12) * max(len(rows), 1), "group")


def waterfall(start: Row, parts: Sequence[Row], end: Row) -> Figure:
    """From one value to another by what differs: rows have a name and ns, of a part the difference.

    Each part begins where the one before it ends, so the last one ends at the other value. All from 0 on: a difference
    is as wide as its share of the values.
    """
    rows = [start, *parts, end]
    at, bases = start["ns"], [0.0]
    for part in parts:
        bases.append(at)
        at += part["ns"]
    bases.append(0.0)
    kinds = ["whole", *["more" if part["ns"] > 0 else "less" for part in parts], "whole"]
    looks = {"whole": ("#7F7F7F", "", ""), "more": ("#D55E00", "/", "+"), "less": ("#0072B2", "\\", "+")}
    traces = []
    for kind, (colour, pattern, sign) in looks.items():
        mine = [n for n, of in enumerate(kinds) if of == kind]
        traces.append({
            "type": "bar", "orientation": "h", "name": kind, "y": [f"{n}" for n in mine],
            "base": [bases[n] * MS for n in mine], "x": [rows[n]["ns"] * MS for n in mine],
            "customdata": [shown(rows[n]["name"]) for n in mine],
            "text": [f"{rows[n]['ns'] * MS:{sign},.3f}" for n in mine],
            "textposition": "outside", "cliponaxis": False, "hovertemplate": "%{customdata}: %{text} ms<extra></extra>",
            "marker": {"color": colour, "pattern": {"shape": pattern, "fillmode": "overlay", "size": 6}},
        })  # fmt: skip
    figure = _bars(rows, "name", [trace for trace in traces if trace["y"]], "ms", 130 + 30 * len(rows), "overlay")
    ends = [base + row["ns"] for base, row in zip(bases, rows, strict=True)]
    figure["layout"]["xaxis"]["range"] = [min(0.0, *ends) * MS * 1.1, max(*bases, *ends) * MS * 1.15]
    figure["layout"]["yaxis"] |= {"categoryorder": "array", "categoryarray": [f"{n}" for n in range(len(rows))]}
    return figure


def heat_map(
    rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[int | None]], title: str, least: float = 0
) -> Figure:
    """Cells coloured by times in ns around 0, orange above and blue below; values[column][row], None is no cell. The
    deepest colour is for the largest, or for `least` where all are smaller.

    Cells are bars of length 1: the smallest bundle of the script has no heat maps of its own.
    """
    most = max((abs(value) for column in values for value in column if value is not None), default=0)
    cells = [
        (row, place, f"{title} {name}: {value * MS:+,.3f} ms", _between(value / (max(most, least) or 1)))
        for place, (name, column) in enumerate(zip(columns, values, strict=True))
        for row, value in zip(rows, column, strict=True)
        if value is not None
    ]
    trace = {
        "type": "bar", "orientation": "h", "y": [shown(row) for row, *_ in cells], "x": [1] * len(cells),
        "base": [place for _, place, *_ in cells], "customdata": [shown(told) for _, _, told, _ in cells],
        "marker": {"color": [colour for *_, colour in cells]},
        "hovertemplate": "%{y}, %{customdata}<extra></extra>",
    }  # fmt: skip
    each = -(-len(columns) // 20)
    places = [place for place in range(len(columns)) if place % each == 0]
    scale = f"the deepest color is {max(most, least) * MS:,.3f} ms" if most else "all alike"
    across = {"title": {"text": f"{title} ({scale})"}, "showgrid": False,
              "tickvals": [place + 0.5 for place in places], "ticktext": [shown(columns[place]) for place in places],
              "range": [0, len(columns)]}  # fmt: skip
    down = {"type": "category", "autorange": "reversed", "categoryorder": "array",
            "categoryarray": [shown(row) for row in rows]}  # fmt: skip
    return _figure([trace], 110 + 22 * len(rows), across, down, barmode="overlay", bargap=0.06, showlegend=False)


def _between(share: float) -> str:
    """A colour from blue (-1) over grey (0) to orange (1)."""
    middle, end = (221, 221, 221), (213, 94, 0) if share > 0 else (0, 114, 178)
    parts = (round(m + (e - m) * min(abs(share), 1)) for m, e in zip(middle, end, strict=True))
    return f"#{''.join(f'{part:02x}' for part in parts)}"


def lines(
    rows: Sequence[Row], x: str, series: Sequence[tuple[str, str]], y_title: str, percent: bool = False
) -> Figure:
    """Columns over time (ns from the start)."""
    dashes = ("solid", "dash", "dot", "dashdot")
    traces = [
        {
            "type": "scatter", "mode": "lines", "name": title, "x": [_number(row[x] * MS) for row in rows],
            "y": [None if row[column] is None else _number(row[column] * (100 if percent else 1)) for row in rows],
            "line": {"color": COLOURS[n % len(COLOURS)], "dash": dashes[n % 4], "shape": "hv"},
        }
        for n, (column, title) in enumerate(series)
    ]  # fmt: skip
    y: Row = {"title": {"text": y_title}} | (
        {"ticksuffix": " %", "hoverformat": ".1f", "range": [0, 100]} if percent else {}
    )
    return _figure(traces, 300, {"title": {"text": "ms"}}, y)


def stacked_areas(
    rows: Sequence[Row], group: str, value: str, look: Callable[[str], tuple[str, int]], held: Sequence[Row] = ()
) -> Figure:
    """Bytes of each group, one on the other; rows are in order, with time_ns, or event_number where that is NULL.

    look: the colour of a group, and which hatch it has. held is a line above (reserved_bytes at such places).
    All groups have the same places.
    """
    is_timed = all(row["time_ns"] is not None for row in rows)
    first = [row for row in rows if row[group] == rows[0][group]]
    places = [_place(row, is_timed) for row in first]  # of each trace that has none of its own
    traces: list[Row] = []
    for name in dict.fromkeys(row[group] for row in rows):
        mine = [row for row in rows if row[group] == name]
        colour, number = look(name)
        title = shown(name).replace("_", " ")
        traces.append({
            "type": "scatter", "mode": "lines", "name": title, "stackgroup": "all",
            "y": [_number(row[value] * MIB) for row in mine],
            "line": {"color": colour, "shape": "hv", "width": 0.5}, "fillcolor": colour,
            "fillpattern": {"shape": PATTERNS[number % len(PATTERNS)], "fillmode": "overlay", "size": 6},
            "hovertemplate": f"{title}: %{{y:,.2f}} MiB<extra></extra>",
        })  # fmt: skip
    if held:
        traces.append({
            "type": "scatter", "mode": "lines", "name": "held by the allocator",
            "x": [_place(row, is_timed) for row in held], "y": [_number(row["reserved_bytes"] * MIB) for row in held],
            "line": {"color": COLOURS[7], "shape": "hv", "width": 1.5, "dash": "dash"},
            "hovertemplate": "held: %{y:,.2f} MiB<extra></extra>",
        })  # fmt: skip
    axis = "ms" if is_timed else "number of the event (the snapshot has no times)"
    return _figure(traces, 420, {"title": {"text": axis}}, {"title": {"text": "MiB"}, "rangemode": "tozero"},
                   hovermode="x unified", showlegend=True) | {"x": places}  # fmt: skip


def _place(row: Row, is_timed: bool) -> float:
    return float(row["time_ns"] * MS if is_timed else row["event_number"])


def grouped(rows: Sequence[Row], label: str, group: str, value: str) -> Figure:
    """Stacked bars: a bar for each label, a colour for each group, times in ns."""
    labels = list(dict.fromkeys(row[label] for row in rows))
    groups = list(dict.fromkeys(row[group] for row in rows))
    found = {(row[label], row[group]): row[value] for row in rows}
    wide = [{"label": name, **{str(g): found.get((name, g), 0) for g in groups}} for name in labels]
    return stacked_bars(wide, "label", [(str(g), shown(g)) for g in groups])


def curves(rows: Sequence[Row], x: str, y: str, group: str, titles: tuple[str, str], scale: float = 1.0) -> Figure:
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
            {
                "type": "scatter", "mode": "lines+markers", "name": shown(name),
                "x": [point[0] for point in mine], "y": [point[1] for point in mine],
                "line": {"color": COLOURS[n % len(COLOURS)], "dash": dash},
                "marker": {"symbol": symbols[n % len(symbols)], "size": 8},
            }
        )  # fmt: skip
    places = sorted({row[x] for row in rows})
    across: Row = {"title": {"text": titles[0]}} | ({"tickvals": places} if len(places) <= 12 else {})
    return _figure(traces, 380, across, {"title": {"text": titles[1]}, "rangemode": "tozero"}, showlegend=True)
