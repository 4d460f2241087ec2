"""Attacks on every reader: a file is mutated by a seed, analyzed in a child process, and held against plain Python.

A child may end in two ways: all reports are written and agree with what plain Python reads in the same file, or one
line says why the file cannot be read. It keeps a budget of memory and time. Other attacks kill a run or fill its disk
while an earlier output is in place. As a program it goes on for as long as it is told, prints a table, and keeps the
files that broke something:

    python tests/hostile/attack.py --minutes 60         all attacks
    python tests/hostile/attack.py kineto-values 17     one again
"""

import argparse
import dataclasses
import gzip
import json
import os
import pickle
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "fixtures"))

import killed_runs  # noqa: E402
import mutations  # noqa: E402
import oracles  # noqa: E402
import synthetic  # noqa: E402
import writers  # noqa: E402

MEMORY_MB = 900
_TRAINING_MB = 4000  # torch, and what a profiler of it keeps
TIME_S = 60
_SEVERAL_TIMES_S = 240  # where a run is begun four times
_MOST_EVENTS = 1500  # of a real trace, so that an attack takes about a second
CORPUS = ROOT.parent / "shared" / "corpus"
READ, REFUSED = "read", "refused"


# What is attacked: fixtures, synthetic runs, and real profiles where they are at hand.


def a_trace(draw: random.Random) -> Any:
    """A Kineto trace as a JSON value."""
    files = [ROOT / "fixtures" / "lora-run.json.gz", ROOT / "fixtures" / "torch-cpu.json.gz"]
    return _trace(draw.choice([*files, *sorted(CORPUS.glob("kineto/*.json.gz"))]))


@cache
def _trace(path: Path) -> Any:
    read = json.loads(gzip.decompress(path.read_bytes()))
    events = read if isinstance(read, list) else read["traceEvents"]
    kept = events[:: max(1, len(events) // _MOST_EVENTS)]
    return kept if isinstance(read, list) else read | {"traceEvents": kept}


@cache
def exports() -> list[bytes]:
    """nsys exports."""
    files = [*(ROOT / "fixtures").glob("*.sqlite"), *CORPUS.glob("nsys/*.sqlite")]
    found = [path.read_bytes() for path in sorted(files) if path.stat().st_size < 2 << 20]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.sqlite"
        writers.write_nsys(path, [synthetic.simulate(steps=2, layers=2, adapters=2)])
        return [*found, path.read_bytes()]


@cache
def snapshots() -> list[Any]:
    """Snapshots of the allocator, their histories shortened at the end."""
    snapshot = pickle.loads(gzip.decompress((ROOT / "fixtures/h200-batch/snapshot.pickle.gz").read_bytes()))  # ours
    snapshot["device_traces"] = [history[-300:] for history in snapshot["device_traces"]]
    snapshot["segments"] = snapshot["segments"][:20]
    return [snapshot]


# Attacks: each leaves an input in a folder and gives its path.

Attack = Callable[[random.Random, Path], Path]


def kineto_values(draw: random.Random, folder: Path) -> Path:
    """Valid JSON with odd values."""
    path = folder / "trace.json"
    path.write_bytes(mutations.as_json(draw, mutations.of_tree(draw, a_trace(draw))))
    return path


def kineto_events(draw: random.Random, folder: Path) -> Path:
    """Valid JSON: every event may have an odd value, and they stand in another order."""
    trace = a_trace(draw)
    events = trace if isinstance(trace, list) else trace["traceEvents"]
    share = draw.choice([0.01, 0.1, 0.7])
    changed = [mutations.of_tree(draw, event) if draw.random() < share else event for event in events]
    draw.shuffle(changed)
    path = folder / "trace.json"
    path.write_bytes(mutations.as_json(draw, changed if isinstance(trace, list) else trace | {"traceEvents": changed}))
    return path


def kineto_bytes(draw: random.Random, folder: Path) -> Path:
    """JSON with damage."""
    path = folder / "trace.json"
    path.write_bytes(b"{" + mutations.of_bytes(draw, mutations.as_json(draw, a_trace(draw)), begin=4)[1:])
    return path


def kineto_gzip(draw: random.Random, folder: Path) -> Path:
    """A damaged gzip stream, or damage inside of one, or several."""
    content = mutations.as_json(draw, a_trace(draw))
    how = draw.randrange(3)
    if how == 0:
        packed = mutations.of_bytes(draw, gzip.compress(content, 1), begin=10)
    elif how == 1:
        packed = gzip.compress(mutations.of_bytes(draw, content, begin=4), 1)
    else:
        cut = draw.randrange(len(content))
        packed = gzip.compress(content[:cut], 1) + gzip.compress(content[cut:], 1)
        packed = packed[: draw.choice([len(packed), draw.randrange(18, len(packed))])]
    path = folder / "trace.json.gz"
    path.write_bytes(packed)
    return path


def sqlite_cells(draw: random.Random, folder: Path) -> Path:
    """An export whose rows, columns and tables were changed by SQL."""
    path = folder / "run.sqlite"
    path.write_bytes(draw.choice(exports()))
    mutations.of_sqlite(draw, path)
    return path


def sqlite_pages(draw: random.Random, folder: Path) -> Path:
    """An export with damaged pages."""
    path = folder / "run.sqlite"
    path.write_bytes(mutations.of_pages(draw, draw.choice(exports())))
    return path


def snapshot_values(draw: random.Random, folder: Path) -> Path:
    """A snapshot with odd values."""
    path = folder / "snapshot.pickle"
    path.write_bytes(pickle.dumps(mutations.of_tree(draw, draw.choice(snapshots())), draw.choice([2, 4, 5])))
    return path


def snapshot_bytes(draw: random.Random, folder: Path) -> Path:
    """A damaged pickle."""
    path = folder / "snapshot.pickle"
    path.write_bytes(b"\x80\x04" + mutations.of_bytes(draw, pickle.dumps(draw.choice(snapshots()), 4)[2:]))
    return path


def companions(draw: random.Random, folder: Path) -> Path:
    """A whole trace beside damaged files of a run."""
    writers.write_kineto(folder / "memory.json", [synthetic.simulate(steps=1, layers=1)])
    files = {
        "manifest.json": b'{"format": 1, "status": "ok", "spec": {"lora_cnt": 4, "model": "tiny"}, "passes": {}}',
        "steps.csv": b"pass,step,adapter,computed_token_cnt\ntorch,0,adapter_0,128\ntorch,1,adapter_0,128\n",
        "ledger.csv": b"time_ns,device,address,bytes,category,name,adapter,is_before\n9,cuda:0,1,40,parameter,w,,1\n",
        "summary.json": b'{"format": 1, "step_wall_ns": {"p50": 1}}',
        "cpu.raw.json.gz": gzip.compress(b"[[1, 1, 8, 0], [2, 2, 8, 0]]"),
    }
    for name in draw.sample(sorted(files), draw.choice([1, 2, 5])):
        content = files[name]
        (folder / name).write_bytes(mutations.of_bytes(draw, content) if draw.random() < 0.9 else b"")
    return folder


def databases(draw: random.Random, folder: Path) -> Path:
    """A damaged database of our own."""
    path = folder / "made.duckdb"
    path.write_bytes(mutations.of_bytes(draw, _database(), begin=draw.choice([0, 12, 4096])))
    return path


@cache
def _database() -> bytes:
    with tempfile.TemporaryDirectory() as folder:  # in a process of its own: none of DuckDB's threads may be here
        path = Path(folder) / "made.duckdb"
        words = ["analyze", str(ROOT / "fixtures" / "lora-run.sqlite"), "--db", str(path), "-o", f"{folder}/r.csv"]
        subprocess.run([sys.executable, "-m", "lorabench", *words], check=True, capture_output=True)
        return path.read_bytes()


def mixtures(draw: random.Random, folder: Path) -> Path:
    """A folder of whole and of damaged files of all kinds."""
    kinds: list[Attack] = [kineto_bytes, kineto_gzip, sqlite_pages, snapshot_bytes]
    for number in range(draw.choice([2, 3, 5])):
        below = folder / f"rank{number}"
        below.mkdir()
        path = draw.choice(kinds)(draw, below)
        path.rename(folder / f"rank{number}{''.join(path.suffixes)}")
        below.rmdir()
    writers.write_kineto(folder / "whole.json", [synthetic.simulate(steps=1, layers=1)])
    return folder


def whole(draw: random.Random, folder: Path) -> Path:
    """A file with nothing wrong: what happens while it is read is the attack."""
    path = folder / draw.choice(["run.sqlite", "trace.json"])
    write = writers.write_nsys if path.suffix == ".sqlite" else writers.write_kineto
    write(path, [synthetic.simulate(steps=draw.choice([2, 8]), layers=6, adapters=2)])
    return path


# What must be true of a database that was made of the input.


def agrees_with_json(path: Path, database: Any) -> None:
    """All events of a valid trace are there, and of a damaged one all before the damage."""
    events, is_all = oracles.kineto(path)
    expected, found = oracles.work_of(events), oracles.work_read(database)
    assert not expected - found, f"lacks {list((expected - found).items())[:3]}"
    assert not is_all or expected == found, f"invents {list((found - expected).items())[:3]}"


def agrees_with_sqlite(path: Path, database: Any) -> None:
    """As many kernels as SQLite gives, or the rest is told."""
    table = "CUPTI_ACTIVITY_KIND_KERNEL"
    rows = oracles.sqlite_rows(path, table)
    if rows is None:
        return
    found = Counter(database.rows("select start_ns, end_ns from gpu_op where kind = 'kernel'"))
    lost = dict(database.rows("select item, value from source_fact where section = 'lost'"))
    assert not found - oracles.measured(rows), "invents kernels"
    told = sum(int(lost.get(item, 0)) for item in (table, f"{table} rows"))
    assert found.total() + told == len(rows), f"{found.total()} read, {told} lost, {len(rows)} there"


def agrees_with_history(path: Path, database: Any) -> None:
    """Memory is what the events say, at every moment."""
    ((wrong,),) = database.rows(
        """select count(*) from (
            select requested_bytes - bytes - lag(requested_bytes) over (partition by device order by time_ns) as step
            from memory_event where not is_before
        ) where step <> 0"""
    )
    assert wrong == 0, f"{wrong} totals"


def keeps_the_trace(path: Path, database: Any) -> None:
    """What lies beside a trace changes none of its numbers."""
    agrees_with_json(path / "memory.json", database)


def keeps_the_whole(path: Path, database: Any) -> None:
    """Of several inputs the whole one is read."""
    events, _ = oracles.kineto(path / "whole.json")
    rows = database.rows("select end_ns - start_ns from gpu_op join source using (source_id) where name = 'whole.json'")
    expected = [
        end - start for (is_range, (start, end)), n in oracles.work_of(events).items() if not is_range for _ in range(n)
    ]
    assert sorted(n for (n,) in rows) == sorted(expected)


def nothing(path: Path, database: Any) -> None:
    """Nothing is known besides what lorabench checks itself."""


@dataclass
class Outcome:
    """How an attack ended: read, refused, or what is wrong."""

    name: str
    seed: int
    verdict: str
    peak_mb: float
    took_s: float

    @property
    def is_fine(self) -> bool:
        return self.verdict in (READ, REFUSED)


def attack(name: str, seed: int, keep: Path | None = None) -> Outcome:
    """Make one attack in a child process; what broke something is copied into the folder `keep`."""
    make, judge = ATTACKS[name]
    draw = random.Random(f"{name} {seed}")
    with tempfile.TemporaryDirectory(prefix="lorabench-attack-") as place:
        folder = Path(place) / "input"
        folder.mkdir()
        path = make(draw, folder)
        before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        limit_s = _SEVERAL_TIMES_S if make in (whole, killed_runs.script) else TIME_S
        limit_mb = _TRAINING_MB if make is killed_runs.script else MEMORY_MB
        verdict, peak_mb, took_s = _in_child(lambda: judge(draw, path, Path(place)), limit_s, limit_mb)
        after = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        if before != after:
            verdict = "the input was changed"
        outcome = Outcome(name, seed, verdict, peak_mb, took_s)
        if keep is not None and not outcome.is_fine:
            shutil.copytree(folder, keep / f"{name}-{seed}", dirs_exist_ok=True)
        return outcome


def _in_child(work: Callable[[], str], limit_s: int, limit_mb: float) -> tuple[str, float, float]:
    """(what the work returns or how it failed, most memory in MB, seconds) of a forked process."""
    receiver, sender = os.pipe()
    begin = time.monotonic()
    child = os.fork()
    if child == 0:
        os.close(receiver)
        signal.alarm(limit_s)
        try:
            said = work()
        except BaseException:
            said = traceback.format_exc()
        with os.fdopen(sender, "wb") as stream:
            stream.write(said.encode("utf-8", "backslashreplace"))
        os._exit(0)
    os.close(sender)
    with os.fdopen(receiver, "rb") as stream:
        said = stream.read().decode()
    _, status, used = os.wait4(child, 0)
    took_s, peak_mb = time.monotonic() - begin, used.ru_maxrss / 1e3
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        said = f"took over {limit_s} s" if number == signal.SIGALRM else f"killed by {signal.Signals(number).name}"
    elif peak_mb > limit_mb:
        said = f"took {peak_mb:.0f} MB"
    return said, peak_mb, took_s


# What happens in the child: (numbers drawn, the input, a folder to write to) -> verdict.

Judge = Callable[[random.Random, Path, Path], str]


def analysed(agrees: Callable[[Path, Any], None]) -> Judge:
    """Write one report or all, then hold the database against what the file holds."""

    def judge(draw: random.Random, path: Path, place: Path) -> str:
        from lorabench.__main__ import main
        from lorabench.analyze.pipeline import analyze

        os.environ["XDG_CACHE_HOME"] = str(place / "cache")
        out = place / draw.choice(["all", "report.csv", "report.csv"])  # all views take longer than reading
        is_database = path.suffix == ".duckdb"
        kept = [] if is_database else ["--db", str(place / "x.duckdb")]
        sys.argv = ["lorabench", "analyze", str(path), "-o", str(out), *kept]
        said = place / "stderr"
        with said.open("w", encoding="utf-8") as stream:
            sys.stdout = sys.stderr = stream
            try:
                main()
            except SystemExit as ended:
                code = ended.code or 0
        text = said.read_text("utf-8")
        lines = [line for line in text.splitlines() if line.startswith("lorabench: ")]
        is_broken = "cannot be computed" in text and not is_database  # of a damaged one some views may be lost
        if code not in (0, 3) or "Traceback" in text or is_broken or len(lines) != (code == 3):
            return f"exit code {code}: {text[-2000:]}"
        if code == 3 and not out.exists():
            return REFUSED
        with analyze([path if is_database else place / "x.duckdb"]) as database:
            try:
                agrees(path, database)
            except AssertionError as error:
                return f"{agrees.__name__}: {error}"
        return READ

    return judge


def killed(draw: random.Random, path: Path, place: Path) -> str:
    """A signal at any moment: each output is the earlier one or the later one, and the next run works."""
    out = draw.choice(["r.csv", "all", "r.html"])
    earlier, later, took_s = _outputs(path, out, place)
    number = draw.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
    process = _lorabench(path, place / "out" / out, place)
    time.sleep(draw.uniform(0.02, 1.0) * took_s)
    process.send_signal(number)
    said = process.communicate()[0]
    if process.returncode not in (0, -number, 128 + number) or "Traceback" in said:
        return f"{number.name}: exit code {process.returncode}: {said[-2000:]}"
    return _kept(earlier, later, place) or _works_again(path, out, later, place)


def full_disk(draw: random.Random, path: Path, place: Path) -> str:
    """No file grows beyond a limit: all is as it was, or the run had no need of more; the next run works."""
    out = draw.choice(["r.csv", "all", "r.html"])
    earlier, later, _ = _outputs(path, out, place)
    limit = int(10 ** draw.uniform(2, 7))
    process = _lorabench(path, place / "out" / out, place, limit)
    said = process.communicate()[0]
    if process.returncode not in (0, 5) or "Traceback" in said:
        return f"{limit} bytes: exit code {process.returncode}: {said[-2000:]}"
    if process.returncode and _contents(place / "out") != earlier:
        return f"{limit} bytes: outputs were changed"
    return _kept(earlier, later, place) or _works_again(path, out, later, place)


def _outputs(path: Path, out: str, place: Path) -> tuple[dict[str, bytes], dict[str, bytes], float]:
    """(an earlier output, left in place; what the run that is attacked would leave; seconds that it takes)."""
    folder = place / "out"
    folder.mkdir()
    begin = time.monotonic()
    _succeeds(_lorabench(path, folder / out, place))
    took_s, later = time.monotonic() - begin, _contents(folder)
    shutil.rmtree(place / "cache")
    _succeeds(_lorabench(ROOT / "fixtures" / "lora-run.sqlite", folder / out, place))
    return _contents(folder), later, took_s


def _succeeds(process: "subprocess.Popen[str]") -> None:
    said = process.communicate()[0]
    assert process.returncode == 0, said


def _lorabench(path: Path, out: Path, place: Path, limit: int | None = None) -> "subprocess.Popen[str]":
    """Start `analyze`; of no file it may write more than so many bytes."""
    words = [sys.executable, "-m", "lorabench", "analyze", str(path), "-o", str(out), "--force"]
    environment = os.environ | {"XDG_CACHE_HOME": str(place / "cache")}
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (before[1] if limit is None else limit, before[1]))
    try:  # what is started inherits the limit
        return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def _kept(earlier: dict[str, bytes], later: dict[str, bytes], place: Path) -> str:
    """What is wrong with the outputs, nothing if each is the earlier one or the later one."""
    found = {n: content for n, content in _contents(place / "out").items() if not Path(n).name.startswith(".")}
    mixed = [name for name, content in found.items() if content not in (earlier.get(name), later.get(name))]
    gone = sorted(earlier.keys() - found.keys())
    return f"half written: {mixed}, gone: {gone}" if mixed or gone else ""


def _works_again(path: Path, out: str, later: dict[str, bytes], place: Path) -> str:
    process = _lorabench(path, place / "out" / out, place)
    said = process.communicate()[0]
    if process.returncode or _contents(place / "out") != later:
        return f"the next run: exit code {process.returncode}: {said[-2000:]}"
    left = [path.name for path in (place / "cache").rglob("*") if "partial" in path.name]
    return f"left behind: {left}" if left else READ


ATTACKS: dict[str, tuple[Attack, Judge]] = {
    "kineto-values": (kineto_values, analysed(agrees_with_json)),
    "kineto-events": (kineto_events, analysed(agrees_with_json)),
    "kineto-bytes": (kineto_bytes, analysed(agrees_with_json)),
    "kineto-gzip": (kineto_gzip, analysed(agrees_with_json)),
    "sqlite-cells": (sqlite_cells, analysed(agrees_with_sqlite)),
    "sqlite-pages": (sqlite_pages, analysed(agrees_with_sqlite)),
    "snapshot-values": (snapshot_values, analysed(agrees_with_history)),
    "snapshot-bytes": (snapshot_bytes, analysed(agrees_with_history)),
    "companions": (companions, analysed(keeps_the_trace)),
    "databases": (databases, analysed(nothing)),
    "mixtures": (mixtures, analysed(keeps_the_whole)),
    "kills": (whole, killed),
    "full-disks": (whole, full_disk),
    "killed-runs": (killed_runs.script, killed_runs.killed_run),
}


def prepare() -> None:
    """Load what every child needs, but nothing that starts threads: a fork does not take them along."""
    from lorabench.allocators import tune

    tune()
    import lorabench.analyze.pipeline  # noqa: F401

    assert "polars" not in sys.modules


def work(names: list[str], first: int, step: int, stop: int, until_s: float, keep: Path) -> None:
    """Attack with every `step`th seed below `stop`, until the time has come; a line of JSON for each."""
    prepare()
    for seed in range(first, stop, step):
        for name in names:
            if time.time() > until_s:
                return
            print(json.dumps(dataclasses.asdict(attack(name, seed, keep))), flush=True)


def campaign(
    names: list[str], minutes: float, keep: Path, first: int = 0, stop: int = sys.maxsize, cores: int = 1
) -> list[Outcome]:
    """All these attacks with the seeds from `first` to before `stop`, for so long, in a process for each core."""
    until_s = time.time() + 60 * minutes
    given = [[",".join(names), str(first + n), str(cores), str(stop), str(until_s), str(keep)] for n in range(cores)]
    workers = [
        subprocess.Popen([sys.executable, __file__, "--work", *words], stdout=subprocess.PIPE, text=True)
        for words in given
    ]
    said = [worker.communicate()[0] for worker in workers]
    if any(worker.returncode for worker in workers):
        raise RuntimeError("a worker of the campaign failed")
    return [Outcome(**json.loads(line)) for text in said for line in text.splitlines()]


def table(outcomes: list[Outcome]) -> str:
    """How the attacks ended, in Markdown."""
    by_name: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_name[outcome.name].append(outcome)
    lines = ["| attack | times | read | refused | wrong | most MB | longest s |", "|---|---|---|---|---|---|---|"]
    for name, found in [*by_name.items(), ("all", outcomes)]:
        verdicts = Counter(outcome.verdict for outcome in found)
        wrong = sum(not outcome.is_fine for outcome in found)
        peak, longest = max(o.peak_mb for o in found), max(o.took_s for o in found)
        lines.append(
            f"| {name} | {len(found)} | {verdicts[READ]} | {verdicts[REFUSED]} | {wrong} | {peak:.0f} | {longest:.1f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", metavar="ATTACK [SEED]", help=f"of {', '.join(ATTACKS)}")
    parser.add_argument("--minutes", type=float, default=5, help="how long to go on [5]")
    parser.add_argument("--first", type=int, default=0, help="the first seed [0]")
    parser.add_argument("--keep", type=Path, default=Path("attack-out"), help="where what broke something goes")
    given = parser.parse_args()
    if len(given.what) == 2 and given.what[1].isdigit():
        prepare()
        outcome = attack(given.what[0], int(given.what[1]), given.keep)
        print(outcome.verdict)
        sys.exit(not outcome.is_fine)
    cores = len(os.sched_getaffinity(0))
    outcomes = campaign(given.what or list(ATTACKS), given.minutes, given.keep, given.first, cores=cores)
    wrong = [outcome for outcome in outcomes if not outcome.is_fine]
    for outcome in wrong:
        print(f"{outcome.name} {outcome.seed}: {outcome.verdict}\n")
    print(table(outcomes))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        names, first, step, stop, until_s, keep = sys.argv[2:]
        work(names.split(","), int(first), int(step), int(stop), float(until_s), Path(keep))
    else:
        main()
