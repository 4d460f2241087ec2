"""Holds lorabench beside nsys-ai on the same nsys files, and both against plain loops: benchmarks/nsys_ai.py [FILES].

nsys-ai is no dependency; give it an environment of its own, and name its command with --peer:

    python -m venv PEER
    PEER/bin/pip install nsys-ai==0.3.0 duckdb==1.5.5 duckdb-extensions duckdb-extension-sqlite-scanner==1.5.5
    PEER/bin/python -c "from duckdb_extensions import import_extension; import_extension('sqlite_scanner')"

It reads through DuckDB's extension for SQLite and downloads it; offline, without the last line, it reads with sqlite3.
The files are copied first: it writes its cache beside them.

The third value of each number is a loop over the rows of the file. "right" is whose number is the loop's, up to the
digits that are printed; of iterations it judges the count alone. "both, other window": the peer is right from the first
kernel to the last, where the others take all work of the GPU.
"""

import argparse
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import run

CORPUS = run.ROOT.parent / "shared" / "corpus" / "nsys"
ROUNDED = 0.0051  # of a percent or a millisecond: the peer prints two digits
SKILLS = (
    "profile_health_manifest", "pipeline_bubble_metrics", "iteration_timing", "top_kernels", "critical_path",
    "root_cause_matcher",
)  # fmt: skip
ACTIVITIES = ("KERNEL", "GRAPH_TRACE", "MEMCPY", "MEMSET")
# What happens once in an iteration, found by reading these files: ranges, or the executions of a kernel.
ONCE = {
    "nested-ranges-domains": ("range", "Step %"),
    "lora-run": ("range", "step %"),
    "llm-attention-nvtx": ("kernel", "%vectorized_gather_kernel%"),
    "llm-training-autograd": ("kernel", "%indexSelectLargeIndex%"),
    "duplicate-api-rows": ("kernel", "saxpy%"),
}
CLASSES = {"cpu-bound": "idle", "gpu-compute-bound": "compute", "comm-bound": "communication"}
Interval = tuple[int, int]


@dataclass(frozen=True)
class Said:
    """What one of the three says of a file; None for what it does not say."""

    busy_percent: float | None = None
    idle_ms: float | None = None
    screen_idle_percent: float | None = None
    exposed_copies_ms: float | None = None
    iterations: tuple[int, float | None] | None = None
    kernel: tuple[str, float] | None = None
    bound: str | None = None
    first: str | None = None
    own_window: tuple[float, float] | None = None  # busy percent, idle ms from the first kernel to the last


def covered(intervals: list[Interval], within: Interval | None = None) -> int:
    """The length of the union, or of what of it lies within an interval."""
    total, reached = 0, within[0] if within else None
    limit = within[1] if within else None
    for start, stop in sorted(intervals):
        end = stop if limit is None else min(stop, limit)
        total += max(0, end - (start if reached is None else max(start, reached)))
        reached = end if reached is None else max(reached, end)
    return total


def extent(intervals: list[Interval]) -> Interval:
    return min(start for start, _ in intervals), max(end for _, end in intervals)


def by_loops(path: Path) -> Said:
    """The third value: rows of SQLite, sorted and walked over."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as file:
        file.text_factory = lambda text: text.decode("utf-8", "replace")
        tables = {row[0] for row in file.execute("select name from sqlite_master")}
        of: dict[str, list[tuple[int, int, int]]] = {
            kind: file.execute(f"select deviceId, start, end from CUPTI_ACTIVITY_KIND_{kind}").fetchall()
            for kind in ACTIVITIES
            if f"CUPTI_ACTIVITY_KIND_{kind}" in tables
        }
        if not any(of.values()):
            return Said()
        names = file.execute(
            "select s.value, k.deviceId, k.start, k.end from CUPTI_ACTIVITY_KIND_KERNEL as k "
            "join StringIds as s on s.id = k.demangledName"
        ).fetchall()
        once = _once(file, path, names)
    first = min(row[0] for rows in of.values() for row in rows)

    def on(*kinds: str) -> list[Interval]:
        return [(start, end) for kind in kinds for device, start, end in of.get(kind, []) if device == first]

    whole, computing = on(*ACTIVITIES), [(s, e) for name, d, s, e in names if d == first and "nccl" not in name.lower()]
    window, busy = extent(whole), covered(whole)
    length, active, compute = window[1] - window[0], covered(on("KERNEL", "GRAPH_TRACE")), computing + on("GRAPH_TRACE")
    parts = {
        "compute": covered(compute), "communication": active - covered(compute), "copies": busy - active,
        "idle": length - busy,
    }  # fmt: skip
    kernels = extent(on("KERNEL"))
    between = covered(whole, kernels)
    sums: dict[str, int] = {}
    for name, _, start, end in names:
        sums[name] = sums.get(name, 0) + end - start
    largest = max(sums, key=lambda name: sums[name])
    return Said(
        busy_percent=100 * busy / length,
        idle_ms=(length - busy) / 1e6,
        screen_idle_percent=100 * (length - busy) / length,
        exposed_copies_ms=(busy - active) / 1e6,
        iterations=once,
        kernel=(largest, sums[largest] / 1e6),
        bound=_largest(parts, length),
        own_window=(100 * between / (kernels[1] - kernels[0]), (kernels[1] - kernels[0] - between) / 1e6),
    )


def _once(file: sqlite3.Connection, path: Path, names: list[tuple[str, int, int, int]]) -> tuple[int, float] | None:
    kind, like = next((rule for start, rule in ONCE.items() if path.name.startswith(start)), ("", ""))
    if kind == "range":
        found = file.execute(
            "select n.start, n.end from NVTX_EVENTS as n left join StringIds as s on s.id = n.textId "
            "where n.end is not null and coalesce(n.text, s.value) like ?",
            [like],
        ).fetchall()
        return len(found), median(end - start for start, end in found) / 1e6
    if kind == "kernel":
        begins = sorted(start for name, _, start, _ in names if like.strip("%") in name)
        return len(begins), median(b - a for a, b in pairwise(begins)) / 1e6
    return None


def _largest(parts: dict[str, float], length: float) -> str:
    name = max(parts, key=lambda part: parts[part])
    return f"{name} {parts[name] / length:.0%}"


def ours(path: Path) -> Said:
    """What lorabench says: of the views, and the summary's largest part and first advice."""
    command = [sys.executable, "-m", "lorabench"]

    def rows(statement: str) -> list[dict[str, Any]]:
        return _json([*command, "query", str(path), statement, "--json"])

    devices = rows("from gpu_timeline_summary order by device_id limit 1")
    if not devices:
        return Said()
    summary = _json([*command, "summary", str(path), "--json"])
    ((step),) = rows("select count(*) as cnt, median(wall_ns) / 1e6 as ms from step_summary")
    kernel = rows(
        "select kernel_name, sum(kernel_ns)::bigint as ns from kernel_summary group by 1 order by 2 desc limit 1"
    )
    parts = dict(summary["parts"])
    idle = sum(parts.pop(cause, 0) for cause in ("host", "dependency", "kernel_wait"))
    first = next(iter(summary["findings"]), None)
    return Said(
        busy_percent=100 * devices[0]["busy_frac"],
        idle_ms=devices[0]["idle_ns"] / 1e6,
        screen_idle_percent=100 * idle,
        exposed_copies_ms=devices[0]["exposed_memory_ns"] / 1e6,
        iterations=(step["cnt"], step["ms"]),
        kernel=(kernel[0]["kernel_name"], kernel[0]["ns"] / 1e6) if kernel else None,
        bound=_largest({**parts, "idle": idle}, 1),
        first=first and f"{first['rule'].replace('_', ' ')}, saves {first['saving_ns'] / summary['window_ns']:.1%}",
    )


def theirs(peer: str, path: Path) -> Said:
    """What nsys-ai says, each skill asked for JSON; nothing where it says that it cannot."""
    found: dict[str, list[dict[str, Any]]] = {}
    for skill in SKILLS:
        rows = _json([peer, "skill", "run", skill, str(path), "--format", "json"])
        found[skill] = [row for row in rows if not row.get("_abstained")] if isinstance(rows, list) else []
    bubble, manifest = _first(found["pipeline_bubble_metrics"]), _first(found["profile_health_manifest"])
    if not bubble:
        return Said()
    iterations = [row["duration_ms"] for row in found["iteration_timing"] if row.get("is_real_iteration")]
    kernel, path_bound = _first(found["top_kernels"]), _first(found["critical_path"])
    causes = [row["pattern"] for row in found["root_cause_matcher"] if "pattern" in row]
    share = max(value for name, value in path_bound["breakdown"].items() if name.endswith("share"))
    return Said(
        busy_percent=100 - bubble["bubble_pct"],
        idle_ms=bubble["bubble_ms"],
        screen_idle_percent=manifest["idle"]["idle_pct"],
        iterations=(len(iterations), median(iterations) if iterations else None),
        kernel=(kernel["kernel_name"], kernel["total_ms"]),
        bound=f"{CLASSES.get(path_bound['bound_class'], path_bound['bound_class'])} {share:.0%}",
        first=f"{causes[0]} (1 of {len(causes)})" if causes else None,
    )


def _first(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return rows[0] if rows else {}


def _json(words: list[str]) -> Any:
    """A command's JSON; an empty list where it fails, as both do for a file without what was asked for."""
    said = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    try:
        return json.loads(said)
    except ValueError:
        return []


def table(name: str, peer: Said, own: Said, truth: Said) -> list[str]:
    """The lines of one file."""
    windows = truth.own_window or (None, None)
    numbers = (
        ("GPU busy %", peer.busy_percent, own.busy_percent, truth.busy_percent, windows[0]),
        ("GPU idle ms", peer.idle_ms, own.idle_ms, truth.idle_ms, windows[1]),
        ("exposed copies ms", peer.exposed_copies_ms, own.exposed_copies_ms, truth.exposed_copies_ms, None),
    )  # fmt: skip
    lines = [_row(name, what, _number(p), _number(o), _number(t), _right(p, o, t, w)) for what, p, o, t, w in numbers]
    screens = [said.screen_idle_percent for said in (peer, own, truth)]
    lines.append(_row(name, "idle % on its first screen", *map(_number, screens), _screen(*screens)))
    counts = [said.iterations and said.iterations[0] for said in (peer, own, truth)]
    lines.append(_row(name, "iterations, median ms", *map(_iterations, (peer, own, truth)), _right(*counts)))
    kernels = [said.kernel and said.kernel[1] for said in (peer, own, truth)]
    lines.append(_row(name, "the longest kernel, ms", *map(_kernel, (peer, own, truth)), _right(*kernels)))
    bounds = [said.bound and said.bound.split()[0] for said in (peer, own, truth)]
    right = [who for who, bound in (("nsys-ai", bounds[0]), ("lorabench", bounds[1])) if bound == bounds[2]]
    both = "both" if len(right) == 2 else "".join(right) or "neither"
    lines.append(_row(name, "largest part", peer.bound or "-", own.bound or "-", truth.bound or "-", both))
    lines.append(_row(name, "first cause", peer.first or "-", own.first or "-", "", ""))
    return lines


def _screen(peer: float | None, own: float | None, truth: float | None) -> str:
    """As `_right`, for percentages that people see with one digit."""
    return _right(*(None if value is None else round(value, 1) for value in (peer, own, truth)))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}"


def _iterations(said: Said) -> str:
    if not said.iterations:
        return "-"
    count, middle = said.iterations
    return f"{count} of {middle:,.2f}" if middle is not None else str(count)


def _kernel(said: Said) -> str:
    return f"{said.kernel[0][:24]}… {said.kernel[1]:,.2f}".replace("|", "/") if said.kernel else "-"


def _right(peer: float | None, own: float | None, truth: float | None, other: float | None = None) -> str:
    """Whose number is the loop's."""
    if truth is None:
        return "nobody says"
    mine = own is not None and abs(own - truth) < ROUNDED
    if peer is None:
        return "lorabench" if mine else "neither"
    if abs(peer - truth) < ROUNDED:
        return "both" if mine else "nsys-ai"
    if mine and other is not None and abs(peer - other) < ROUNDED:
        return "both, other window"
    return "lorabench" if mine else "neither"


def costs(peer: str, copy: Path, cache: Path, repeat: int) -> tuple[run.Cost, run.Cost]:
    """The medians for a file that neither has seen; the empty database that lorabench makes once stays."""
    screens: tuple[list[run.Cost], list[run.Cost]] = ([], [])
    for _ in range(repeat):
        shutil.rmtree(copy.with_suffix(".nsys-cache"), ignore_errors=True)
        for left in cache.rglob("*.duckdb"):
            if not left.name.startswith("blank"):
                left.unlink()
        screens[0].append(run.measure([peer, "skill", "run", "profile_health_manifest", str(copy)]))
        screens[1].append(run.measure([sys.executable, "-m", "lorabench", "summary", str(copy)]))
    return run.median(screens[0]), run.median(screens[1])


def main() -> None:
    """Compare, print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="nsys exports [the corpus beside the repository]")
    parser.add_argument("--peer", default=shutil.which("nsys-ai"), help="the command nsys-ai [the one on PATH]")
    parser.add_argument("--repeat", type=int, default=3, help="repetitions of the timings [3]")
    a = parser.parse_args()
    files = a.files or [*sorted(CORPUS.glob("*.sqlite")), run.ROOT / "fixtures" / "lora-run.sqlite"]
    if not a.files and not CORPUS.is_dir():
        print(f"no real profiles at {CORPUS}: the fixture alone", file=sys.stderr)
    if a.peer is None:
        sys.exit("nsys-ai is not installed: no peer (its environment: --help)")
    print("| file | quantity | nsys-ai | lorabench | loop | right |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = str(Path(folder) / "cache")
        for file in files:
            copy = Path(shutil.copyfile(file, Path(folder) / file.name))
            name = file.name.split(".")[0]
            truth = by_loops(copy)
            if truth.idle_ms is None:
                print(_row(name, "no GPU work", "refuses", "says so, exit 0", "", "both"), flush=True)
                continue
            print("\n".join(table(name, theirs(a.peer, copy), ours(copy), truth)), flush=True)
            peer, own = costs(a.peer, copy, Path(folder) / "cache", a.repeat)
            print(_row(name, "CPU s of its first screen", f"{peer.cpu_s:.2f}", f"{own.cpu_s:.2f}", "", ""), flush=True)


if __name__ == "__main__":
    main()
