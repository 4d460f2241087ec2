"""Published numbers of a sweep's models, and each beside what was measured here."""

import csv
from importlib.resources import files
from typing import Any

Row = dict[str, Any]

_VARIES = ("peft_mode", "lora_cnt", "method", "rank", "gradient_checkpointing", "parallel", "overlap")
# Of a published peak it is not said who counted it; these are ours.
PEAK, RATE = "peak_bytes", "token_per_s"
_OUR_PEAKS = ("peak_allocated_bytes", "peak_reserved_bytes", "nvml_used_bytes")


def of(settings: dict[str, str], rows: list[Row], axes: list[str]) -> list[Row]:
    """Published numbers of the sweep's models that vary along its axes alone; an empty value is out of memory."""
    models = {str(row["model"]) for row in rows} if "model" in axes else {settings.get("model")}
    text = files(__package__).joinpath("published.csv").read_text("utf-8")
    found = []
    for row in csv.DictReader(text.splitlines()):
        varies = [name for name in _VARIES if row[name]]
        is_same = "devices" in axes or not row["devices"] or row["devices"] == settings.get("devices")
        if row["model"] in models and varies and set(varies) <= set(axes) and is_same:
            numbers = {name: int(row[name]) if row[name] else None for name in ("lora_cnt", "rank", "devices", "value")}
            found.append({**row, **numbers})
    return found


def beside(published: list[Row], rows: list[Row], axes: list[str]) -> dict[str, list[Row]]:
    """Tables of published numbers with ours beside: "peaks", "times" and "rates". A run may be beside several.

    A number that is published without a rank, say, stands beside our runs of every rank.
    """
    tables: dict[str, list[Row]] = {"peaks": [], "times": [], "rates": []}
    for known in published:
        given = [axis for axis in axes if axis in known and known[axis] not in (None, "")]
        same = [row for row in rows if all(str(row[axis]).lower() == str(known[axis]) for axis in given)]
        for ours in same:
            place = {axis: ours[axis] for axis in axes}
            if known["measure"] == PEAK:
                peaks = {f"our_{name}": ours[name] for name in _OUR_PEAKS}
                told = {"published": "ok" if known["value"] else "oom", "published_bytes": known["value"]}
                tables["peaks"].append(place | told | {"ours": ours["status"]} | peaks)
            elif known["measure"] == RATE and ours.get(RATE) is not None:
                told = {"published": "ok" if known["value"] else "oom", "published_per_s": known["value"]}
                tables["rates"].append(place | told | {"our_per_s": ours[RATE]})
            elif ours.get(known["measure"]) is not None:
                told = {"measure": known["measure"].removesuffix("_ns"), "published_ns": known["value"]}
                tables["times"].append(place | told | {"our_ns": ours[known["measure"]]})
    return tables
