"""Run directories side by side: what each measured, and how the others differ from the first."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ... import rundir
from ...errors import InputError, RegressionError
from . import baselines, verdict
from .compared import ALIKE, NOT_MEASURED, OTHER_WORK, SAME, TAKEN, Compared, Input, changes_of, letter
from .run_steps import Work, of_summary
from .spread import Spread, are_alike, rate_frac

ABOUT = "what the runs measured"
STEP, TOKENS, REAL_TOKENS = "step, median", "tokens computed, mean", "tokens not padding, mean"

# What people compare, in the order in which they ask: name, path into summary.json, unit as names of columns have it.
_MEASURES = (
    (STEP, rundir.STEP_MEDIAN, "ns"),
    ("step, p95", ("step_wall_ns", "p95"), "ns"),
    ("step of one adapter, median", ("task_step_wall_ns", "p50"), "ns"),
    (TOKENS, ("tokens_per_s", "computed"), "1/s"),
    (REAL_TOKENS, ("tokens_per_s", "non_padding"), "1/s"),
    ("arithmetic", ("flop_per_s",), "flop/s"),
    ("MFU", ("mfu_frac",), "frac"),
    ("matrix products a step", ("matrix_products_per_step",), "cnt"),
    ("kernel launches a step", ("kernel_launches_per_step",), "cnt"),
    ("peak allocated", ("memory", "steps", "peak_allocated_bytes"), "bytes"),
    ("peak reserved", ("memory", "steps", "peak_reserved_bytes"), "bytes"),
    ("peak resident", ("memory", "steps", "peak_resident_bytes"), "bytes"),
    ("cost of ranges", ("overhead_frac", "ranges"), "frac"),
)
# Those that spread as the steps do.
_OF_STEPS = (STEP, "step of one adapter, median", TOKENS, REAL_TOKENS, "arithmetic")
_RATES = (TOKENS, REAL_TOKENS, "arithmetic")
# Those that say nothing where steps have other numbers of tokens.
_OF_A_STEP = (STEP, "step, p95", "step of one adapter, median", "matrix products a step", "kernel launches a step")
_NO_SETTINGS = ("run_id", "profiler", "timeout_s", "tensorboard", "wandb", "wandb_project", "wandb_mode")
_MOST_SETTINGS = 4
# What --fail-above looks at: of these more is worse, of the others less.
_WORSE_WHEN_MORE = (STEP, "kernel launches a step", "peak allocated", "peak resident")
_WORSE_WHEN_LESS = (REAL_TOKENS, TOKENS)  # the first that both runs say


def compare(directories: list[Path]) -> Compared:
    """A row for each measure that any run has, with raw numbers, and the verdict on the timing passes.

    Behind each run but the first stands its change against the first. Raises InputError for a folder that is not a run
    directory, and when there is nothing to compare.
    """
    summaries = [rundir.read_summary(d) for d in directories]
    steps = [of_summary(d, s) for d, s in zip(directories, summaries, strict=True)]
    columns = names(directories)
    work = Work.of_all(summaries)
    other_work = [number for number, own in enumerate(work) if work[0].is_unlike(own)]
    knows_padding = all(rundir.number_at(s, "tokens_per_s", "non_padding") for s in summaries)
    # steps are then of tokens without padding, which says nothing of how others spread
    spreading = [title for title in _OF_STEPS if not (knows_padding and title == TOKENS)]
    rows = []
    for title, path, unit in _MEASURES:
        values = [rundir.number_at(s, *path) for s in summaries]
        if title == STEP:  # of a run that was interrupted its steps alone say it
            values = [own.median if value is None and own else value for value, own in zip(values, steps, strict=True)]
        if not any(values):
            continue
        fractions = [
            (rate_frac(found) if title in _RATES else found.frac) if found and title in spreading else None
            for found in steps
        ]
        widths = [None if f is None or v is None else f * v for f, v in zip(fractions, values, strict=True)]
        alike = [
            SAME if title in spreading and steps[0] and own and are_alike(steps[0], own) else "" for own in steps[1:]
        ]
        changes = changes_of(columns, values, widths, alike=alike, is_measure=True)
        if title in _OF_A_STEP:
            kinds = [f"{columns[n]} is" for n in other_work]
            changes |= {kind: OTHER_WORK for kind in kinds if changes[kind] != NOT_MEASURED}
        rows.append({"measure": title, "unit": unit} | {k: v for k, v in changes.items() if not k.endswith(" share")})
    if not rows:
        raise InputError(
            "the runs measured nothing that can be compared; name what to compare of their traces with --by"
        )
    first, *others = steps
    said = [verdict.of_runs((first, other), n, work) for n, other in enumerate(others, 1) if first and other]
    about = [
        ", ".join([f"{found.step_cnt} steps" if found else "no timing pass", *unlike])
        for found, unlike in zip(steps, _unlike_settings(directories), strict=True)
    ]
    inputs = [Input(name, text) for name, text in zip(columns, about, strict=True)]
    return Compared(
        inputs, ["measure", "unit"], rows, said or [_UNTIMED], ABOUT, None, list(_doubts(directories, steps))
    )


def _doubts(directories: list[Path], steps: Sequence[Spread | None]) -> Iterator[str]:
    """What a person must know before believing a verdict: runs that did not end well, and scripts that are not one."""
    manifests = [rundir.read_manifest(directory) for directory in directories]
    for number, (manifest, found) in enumerate(zip(manifests, steps, strict=True)):
        if manifest.get("status", rundir.OK) != rundir.OK:
            until = "what it had measured until then is compared" if found else "it has no steps without a profiler"
            yield f"{letter(number)} did not end well ({manifest['status']}: {manifest['message']}): {until}."
    scripts = [_script(manifest["command"]) if manifest.get("command") else "" for manifest in manifests]
    if len(set(scripts)) > 1 and all(scripts):
        named = ", ".join(f"{letter(number)} {script}" for number, script in enumerate(scripts))
        yield f"These ran different scripts ({named}): the comparison is right if they are one program."


def _script(command: list[str]) -> str:
    """The script that a command runs, else its program."""
    return Path(next((word for word in command[1:] if word.endswith(".py")), command[0])).name


def have_measures(directories: list[Path]) -> bool:
    """Whether any of the runs measured something, so that there is more to compare than their traces."""
    return any(rundir.number_at(rundir.read_summary(d), *path) for d in directories for _, path, _ in _MEASURES)


def _unlike_settings(directories: list[Path]) -> list[list[str]]:
    """For each run the settings in which it is not like all others, as `name value`; of many none."""
    specs = [rundir.read_manifest(directory).get("spec") or {} for directory in directories]
    unlike = [name for name in specs[0] if any(spec.get(name) != specs[0][name] for spec in specs[1:])]
    unlike = [name for name in unlike if name not in _NO_SETTINGS]
    if len(unlike) > _MOST_SETTINGS:
        return [[] for _ in specs]
    return [[f"{name} {_said(spec.get(name))}" for name in unlike] for spec in specs]


def _said(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value) or "none"


_UNTIMED = (
    "no verdict on speed: not every run has a timing pass (--profiler timing), and profiled times are not compared"
)


def check(compared: Compared, limit: float) -> list[str]:
    """Raise RegressionError when a run is slower, launches more or needs more memory than the first by the limit.

    Returns what got worse by more and is not counted, because steps differ among themselves as much.
    """
    base, notes = compared.names[0], []
    rows = {row["measure"]: row for row in compared.rows}
    for title, row in rows.items():
        first = row[base]
        for name in compared.names[1:]:
            value = row[name]
            less = next((t for t in _WORSE_WHEN_LESS if t in rows and rows[t][base] and rows[t][name]), TOKENS)
            if title not in (*_WORSE_WHEN_MORE, less):
                continue
            if row[f"{name} is"] == NOT_MEASURED:
                notes.append(f"{title} was not measured in {name if value is None else base}: not judged")
            if not first or not value:
                continue
            worse = value / first - 1 if title in _WORSE_WHEN_MORE else 1 - value / first
            if worse <= limit:
                continue
            if row[f"{name} is"] == OTHER_WORK:
                notes.append(f"{title} of {name} is {worse:.1%} worse, of other numbers of tokens: not counted")
                continue
            if row[f"{name} is"] not in ALIKE:
                raise RegressionError(f"{title} of {name} is {worse:.1%} worse; {limit:.1%} is allowed")
            notes.append(f"{title} of {name} is {worse:.1%} worse, within the noise of the steps: not counted")
    return notes


def names(directories: list[Path]) -> list[str]:
    """The inputs' names, or their paths where two have the same; of an input given twice, with a number."""
    short = [baselines.title(d) or d.resolve().name for d in directories]
    short = [f"./{name}" if name in TAKEN else name for name in short]
    unique = short
    if len(set(short)) < len(short):
        unique = [baselines.title(d) or str(d) for d in directories]
    return [name if name not in unique[:n] else f"{name} ({n + 1})" for n, name in enumerate(unique)]
