"""What is said of a Kineto trace beside its rows: what was counted and lost, its metadata, what is missing."""

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from . import not_collected
from .json_pieces import Pieces
from .json_salvage import Salvaged
from .staging import Staging

# How many ranks the processes are called after, as where their traces were merged.
_RANKS = """
    select count(distinct regexp_extract(label, '(?i)^rank[ _:]*([0-9]+)', 1))
    from kineto_label
    where what = 'process_name' and regexp_matches(label, '(?i)^rank[ _:]*[0-9]+')"""
_OPERATORS = {"cpu_op", "Operator"}  # categories of PyTorch's own ranges
_PROFILED = "cuda_profiler_range"  # the category of kernels that CUPTI's range profiler ran again for its counters
_MANY_UNREAD = 100  # events of a category: it is about the work that is missing

_Kind = tuple[str | None, str, str | None]  # phase, category, what such events become


@dataclass
class Tally:
    """What was counted while a trace was read."""

    lost: Salvaged  # of pieces that are not valid JSON
    events: Counter[_Kind] = field(default_factory=Counter)
    unusable: Counter[_Kind] = field(default_factory=Counter)  # of them, without a usable time or duration
    misfit_cnt: int = 0  # arguments of another type than they should have
    memory_cnt: int = 0  # allocations
    memory_lost_cnt: int = 0  # of them, without a usable time or number of bytes


def note(tally: Tally, pieces: Pieces, staging: Staging) -> None:
    """Stage the facts of a trace whose events are all loaded, and its source's columns and devices."""
    for kind in sorted(tally.events, key=str):
        phase, category, becomes = kind
        if phase is None:
            continue
        is_read = becomes or (phase == "X" and category == _PROFILED)
        staging.fact(
            "holds", f"events {phase} {category}".rstrip(), tally.events[kind], None if is_read else "not read"
        )
        if tally.unusable[kind]:
            staging.fact("lost", f"events {category}", tally.unusable[kind], "without a usable time or duration")
    _note_losses(tally, pieces, staging)
    _note_metadata(tally, pieces.metadata, staging)
    _note_missing(tally, pieces, staging)


def why_no_event(tally: Tally, pieces: Pieces) -> str:
    """Why a file holds no event that can be read, as the end of a sentence."""
    if pieces.cut_off:
        return f": {pieces.cut_off}"
    if tally.lost.lost_cnt:
        held = "what it holds is not valid JSON"
    else:
        held = f"its {tally.events.total():,} entries have no phase (ph)" if tally.events.total() else "it is empty"
    return f": {held}; a trace of torch.profiler is what export_chrome_trace() writes"


def of_another_program(tally: Tally, pieces: Pieces) -> str:
    """Why a trace that nothing is read of is none of torch.profiler's; "" where something is, or it says so itself."""
    is_read = tally.memory_cnt or any(becomes for _, _, becomes in tally.events)
    if is_read or pieces.cut_off or "schemaVersion" in pieces.metadata:
        return ""
    (phase, category, _), count = tally.events.most_common(1)[0]
    kind = f"{phase} {category}".rstrip()
    return _foreign(tally) or f"{count} of its {tally.events.total()} are of the kind {kind}"


def _note_losses(tally: Tally, pieces: Pieces, staging: Staging) -> None:
    lost = partial(staging.fact, "lost")
    if pieces.cut_off:
        held = f"the {tally.events.total()} events before it were read"
        held += f", {tally.lost.cut_bytes} bytes of one more were not" if tally.lost.cut_bytes else ""
        lost("end of the file", pieces.cut_off, held)
    if pieces.ignored:
        lost("text behind the events", pieces.ignored, "it was not read")
    if tally.lost.lost_cnt:
        lost(
            "events that are not valid JSON",
            tally.lost.lost_cnt,
            f"{tally.lost.lost_bytes} bytes; the others were read",
        )
    if misplaced := sum(count for (phase, *_), count in tally.events.items() if phase is None):
        lost("entries that are not events", misplaced, "without a phase (ph)")
    if tally.misfit_cnt:
        lost("arguments", tally.misfit_cnt, "of another type than they should have; their events were read without")
    if tally.memory_lost_cnt:
        lost("events [memory]", tally.memory_lost_cnt, "without a usable time or number of bytes")
    if tally.lost.replaced_cnt:
        lost("characters that are not UTF-8", tally.lost.replaced_cnt, "decoded as U+FFFD")


def _note_metadata(tally: Tally, about: dict[str, Any], staging: Staging) -> None:
    staging.set_source("format_version", about.get("schemaVersion"))
    if "schemaVersion" not in about and not any(category in _OPERATORS for _, category, _ in tally.events):
        staging.fact(
            "about", "recorder", "chrome trace",
            "without a schema version and operators, which torch.profiler writes: it may be of any program",
        )  # fmt: skip
    staging.set_source("origin_ns", about.get("baseTimeNanoseconds"))
    distributed = about.get("distributedInfo")
    if isinstance(distributed, dict):
        staging.set_source("rank", distributed.get("rank"))
        staging.set_source("world_size", distributed.get("world_size"))
        staging.note_group(_only_group(distributed.get("pg_config")))
    staging.set_source("host", about.get("host_name"))
    devices = about.get("deviceProperties")
    for gpu in devices if isinstance(devices, list) else []:
        if isinstance(gpu, dict):
            staging.add_device(gpu.get("id"), gpu.get("name"), gpu.get("totalGlobalMem"), gpu.get("numSms"))


def _note_missing(tally: Tally, pieces: Pieces, staging: Staging) -> None:
    counts: Counter[str | None] = Counter()
    for (_, _, becomes), count in tally.events.items():
        counts[becomes] += count
    if not counts["gpu_op"]:
        staging.fact(
            "missing", "GPU work", "no kernels, copies or memsets",
            _why_no_work(tally, pieces, counts["api_call"], staging),
        )  # fmt: skip
    if (ranks := staging.scalar(_RANKS)) > 1:
        staging.fact(
            "missing", "ranks", f"{ranks} in one file",
            "their traces were merged and are read as one process: give each rank's own, in one command",
        )  # fmt: skip
    if not counts["api_call"]:
        staging.fact("missing", "CUDA calls", "none", "no GPU work can be attributed to ranges")


def _why_no_work(tally: Tally, pieces: Pieces, call_cnt: int, staging: Staging) -> str:
    if pieces.cut_off:
        return "it may be in the part of the file that is lost"
    # those of other accelerators, as mtia_ccp_events
    unread = {kind[1]: count for kind, count in tally.events.items() if kind[0] == "X" and kind[1] and not kind[2]}
    if counted := unread.get(_PROFILED):
        return (
            f"{counted} kernels were recorded with hardware counters alone (category {_PROFILED}), for which each runs "
            "again and again: no times in this file are the program's own; kernel_counter_summary has the counters"
        )
    most = max(unread, key=lambda category: unread[category], default=None)
    if most is not None and unread[most] >= _MANY_UNREAD:
        return f"{unread[most]} events of the category {most} are not read: work of another accelerator?"
    if giving_cnt := not_collected.giving_cnt(staging):
        return not_collected.why(giving_cnt, "torch.cuda.synchronize() before the profiler ends")
    if call_cnt:
        return f"nothing ran on a GPU: of {call_cnt:,} CUDA call{'s' * (call_cnt > 1)} none gives it work"
    return _foreign(tally) or "nothing ran on a GPU, or ProfilerActivity.CUDA was not among the activities"


def _foreign(tally: Tally) -> str:
    """What in a trace without calls of CUDA another program than torch.profiler wrote, "" for nothing."""
    many = _MANY_UNREAD if any(becomes for _, _, becomes in tally.events) else 1  # where nothing else is read, any
    begun = sum(count for (phase, *_), count in tally.events.items() if phase == "B")
    if begun >= many:
        pairs = f"{begun:,} event{'s' * (begun > 1)} with separate begin and end (B, E)"
        return f"{pairs} not read: of another program, or of torch.compile"
    nameless = sum(count for (phase, category, _), count in tally.events.items() if phase == "X" and not category)
    if nameless >= many:
        return (
            f"{nameless:,} timed event{'s' * (nameless > 1)} without a category not read: of another program, or of "
            "torch.autograd.profiler before torch.profiler"
        )
    return ""


def _only_group(groups: object) -> list[int]:
    """The ranks of the process group where a trace names a single one, or several of the same ranks; else none.

    gloo's ranges do not say their group.
    """
    listed = (
        [group.get("ranks") if isinstance(group, dict) else None for group in groups]
        if isinstance(groups, list)
        else []
    )
    ranks = listed[0] if listed else None
    if not isinstance(ranks, list) or any(other != ranks for other in listed):
        return []
    return ranks if all(type(rank) is int for rank in ranks) else []
