"""The answer in one sentence: what the largest part of the time means, what it is about, and what makes it doubtful."""

from ..tables.units import said_ns
from .answer import BUSY, LEAST_FRAC, Row, is_hardly_used
from .step_text import number_of

_MUCH_FRAC = 0.15  # of the kernels' time: what a kernel takes at least to be named
_PACED_FRAC = 0.05  # of the time that the GPU waits for a CPU that sets the pace, at least
_NEARLY_ALL = 0.9  # of the time: a GPU that computes so much may be waited for where no call shows it
_HARDLY = 0.2  # of all: where less hangs on the GPU the CPU sets the pace, however little it waits for it
_PACING_FRAC = 0.5  # of the compute: where less hangs on it, and less than half of all, the CPU sets the pace
_MOST_OF_STEP = 0.5
_MOST_LOST = 4  # lines
NOTHING = "nothing is timed in this file: no ranges, CUDA calls or GPU work; record it again"
CPU_ALONE = "no ranges or GPU work here: see os_summary, sample_summary, or record it again"
SNAPSHOT = "allocator snapshot"  # of _recorder
SNAPSHOT_SAYS = "memory alone: a snapshot has no GPU work"
# Of steady_state: what is the largest part of the window, and what that means.
_MEANINGS = {
    "compute": "GPU-bound: it computes {:.0%} of the time",
    "communication": "communication-bound: {:.0%} of the time it does nothing else",
    "rank_wait": "ranks wait for one another: this one {:.0%} of the time for later ones",
    "copies": "copy-bound: {:.0%} of the time copies run with nothing beside them",
    "host": "the CPU is late: {:.0%} of the time the GPU waits for it",
    "dependency": "waiting: {:.0%} of the time the GPU is idle though the next work was not late",
    "in_turn": "GPUs work in turn: {:.0%} of the time one is idle while another one works",
    "kernel_wait": "many tiny kernels: {:.0%} of the time is the distance between them",
    "idle": "idle {:.0%} of the time: why is not known",
}
_LATE_INPUT = "the input is late: {:.0%} of the time the GPU waits for it"
_MOSTLY = 0.8  # of the time that the GPU waits for the CPU: what has as much of it is what it waits for
_WORDS = {"unrecorded": "not recorded"}
_MISSING = {
    "unrecorded_graph": "kernels of CUDA graphs are missing in {:.0%} of the time",
    "unrecorded_work": "in {:.0%} of the time the CPU waits for missing GPU work",
}
_MOST_MISSING = {
    "unrecorded_graph": "in CUDA graphs",
    "unrecorded_work": "that the CPU waits for",
}


def verdict(found: Row) -> str:
    """What the largest part of the time means, in one sentence."""
    parts = found["parts"]
    if not parts:
        return _without_work(found)
    if is_hardly_used(found["steady"], found["whole_ns"]):
        used = sum(parts.get(name, 0.0) for name in BUSY) * (found["window_ns"] or 0)
        return f"the GPU is hardly used: {said_ns(used)} of the {said_ns(found['whole_ns'])} that are recorded"
    if found["classes"] and all(row["class"] == "copy" for row in found["classes"]):
        return f"no kernels in this file: copies and memsets alone, {parts['copies']:.0%} of the time"
    missing = found["unrecorded"]
    if missing and found["window_ns"] and 2 * missing["ns"] > max(parts.values()) * found["window_ns"]:
        one, whole = missing["ns"] / found["window_ns"], parts.get("unrecorded", 0.0)
        of_several = f"work is missing in {whole:.0%} of the time, {one:.0%} {_MOST_MISSING[missing['rule']]}"
        return f"not all is recorded: {of_several if whole > one + 0.01 else _MISSING[missing['rule']].format(one)}"
    if max(parts, key=lambda name: parts[name]) == "rank_wait":
        return _MEANINGS["rank_wait"].format(parts["rank_wait"])
    late = _late_input(found)
    paced = _goes_on(found) or _paced(found, "input" if late else "CPU")
    return paced or _meaning(parts, found["kernel"], late)


def tail_frac(found: Row) -> float:
    """The share of the window and what follows it that the last step lasts after the GPU's last work; 0 for none."""
    return found["tail"]["tail_ns"] / (found["tail"]["tail_ns"] + found["window_ns"]) if found["tail"] else 0.0


def tail_text(found: Row) -> str:
    """How long the last step goes on without GPU work, and how much of that something is compiled or made."""
    tail = found["tail"]
    said = f"{said_ns(tail['tail_ns'])} ({tail_frac(found):.0%}) without GPU work"
    if not tail["making_ns"]:
        return said
    return f"{said} ({said_ns(tail['making_ns'])} of it compiling, loading or capturing a graph)"


def _goes_on(found: Row) -> str:
    """That the GPU is idle at the end of a step for most of it; else ""."""
    one = "the step" if found["steps"] and found["steps"]["step_cnt"] == 1 else "the steps"
    idle = f"the CPU is late: after its last work the GPU is idle for {tail_frac(found):.0%} of {one}"
    return idle if tail_frac(found) > _MOST_OF_STEP else ""


def _without_work(found: Row) -> str:
    if found["recorder"] == SNAPSHOT:
        return SNAPSHOT_SAYS + ("; times are of ranges on the CPU" if found["ranges"] else "")
    if found["has_times"]:
        if found["uncollected_cnt"]:
            calls = f"{found['uncollected_cnt']:,} call{'s' * (found['uncollected_cnt'] > 1)}"
            return f"the GPU's work is missing, which {calls} launched: times are the CPU's"
        if found["is_accelerator_unread"]:
            return "the accelerator's work is not read: times are the CPU's, which may wait for it"
        of = "what is left of this file" if found["is_cut_off"] else "this file"
        return f"no GPU work in {of}: times are the CPU's"
    return CPU_ALONE if found["whole_ns"] else NOTHING


def _paced(found: Row, who: str) -> str:
    """That the CPU, or the input, sets the pace, where a GPU that computes much has little hang on it; else "".

    Little hangs on it on the critical path, or by replay: of kernels that take a tenth less, and none.
    """
    parts, critical_gpu_frac = found["parts"], found["critical_gpu_frac"]
    largest = max(parts, key=lambda name: parts[name])
    if critical_gpu_frac is None or 2 * parts["compute"] < parts[largest] or largest not in ("compute", "host"):
        return ""
    others = max(parts.get(name, 0) for name in ("copies", "communication", "rank_wait", "in_turn"))
    if parts.get("host", 0) < _PACED_FRAC and (critical_gpu_frac >= _HARDLY or others > _PACED_FRAC):
        return ""
    if 2 * parts.get("rank_wait", 0) > parts["compute"]:  # it is the others that set it
        return ""
    paces, most = (
        critical_gpu_frac if by_replay is None else min(critical_gpu_frac, by_replay)
        for by_replay in (found["paced_frac"], found["kernels_frac"])
    )
    if paces >= min(_PACING_FRAC * parts["compute"], 0.5):
        return ""
    if parts.get("host", 0) < _PACED_FRAC and parts["compute"] >= _NEARLY_ALL:
        # where nothing is late it may be waited for in a way that no call shows
        return f"compute is {parts['compute']:.0%}, but no call waits for it: what faster kernels save is not known"
    saved = f"at most {most:.0%}" if most >= LEAST_FRAC / 2 else "nothing"
    return f"the {who} sets the pace: compute is {parts['compute']:.0%}, but faster kernels save {saved}"


def _late_input(found: Row) -> float:
    """How much of the time the GPU waits for input, where that is nearly all that it waits for on the CPU; else 0."""
    window, host = found["window_ns"], found["parts"].get("host", 0)
    waits = sum(row["saving_ns"] or 0 for row in found["findings"] if row["rule"] == "late_input")
    return min(waits / window, host) if window and waits >= _MOSTLY * host * window > 0 else 0.0


def _meaning(parts: dict[str, float], kernel: Row | None, late: float) -> str:
    """What the largest part of the window means; of two that are both large that there are two.

    late: how much of it the input is late.
    """
    first, *others = sorted(parts, key=lambda name: -parts[name])
    if 2 * parts.get("in_turn", 0) > parts[first]:  # what they compute is limited by it as well
        return _MEANINGS["in_turn"].format(parts["in_turn"])
    dominant = ""  # the kernel that takes much of a GPU that computes most of the time
    if first == "compute" and kernel is not None and kernel["kernel_frac"] >= _MUCH_FRAC:
        dominant = f"{kernel['kernel_frac']:.0%} of it in {kernel['short_name']}"
    if others and parts[others[0]] > parts[first] / 2:
        words, shares = (_WORDS | {"host": "late input"}, parts | {"host": late}) if late else (_WORDS, parts)
        named = [f"{words.get(name, name.replace('_', ' '))} {shares[name]:.0%}" for name in (first, others[0])]
        dominant = dominant.replace("of it", "of the compute")
        return f"no single limit: {named[0]} of the time, {named[1]}{f'; {dominant}' if dominant else ''}"
    if first == "host" and late:
        return _LATE_INPUT.format(late)
    return _MEANINGS[first].format(parts[first]) + (f", {dominant}" if dominant else "")


def counted(found: Row) -> str | None:
    """What the answer is about where that is not all that was recorded, else None."""
    steady = found["steady"]
    if steady is None or not steady["is_steady"]:
        return None
    cold, outside = found["steps"]["cold_cnt"], steady["recorded_ns"] - steady["window_ns"] - steady["cold_ns"]
    left = []
    if cold:
        left.append(f"the first{'' if cold == 1 else f' {cold}'} ({said_ns(steady['cold_ns'])})")
    if outside > LEAST_FRAC * steady["recorded_ns"]:
        left.append(f"{said_ns(outside)} around")
    steps = number_of(found["steps"])
    if steady["has_rest"]:
        steps += " and what follows"
    return f"{steps}, {said_ns(steady['window_ns'])}; left out: {', '.join(left)}"


def rank_of(found: Row) -> str | None:
    """Which rank the input is of how many, and how many of these are here; None where it is not one of several here."""
    if found["rank"] is None or found["rank_cnt"] == 1:
        return None
    here, whole = found["rank_cnt"], max(found["rank_cnt"], found["world_size"] or 0)
    return f"rank {found['rank']} of {whole}" + (f" ({here} here)" if here < whole else "")


def alone(found: Row) -> str | None:
    """That the input is of one rank of several whose inputs are not here, else None."""
    if found["rank"] is None or found["rank_cnt"] > 1 or (found["world_size"] or 1) == 1:
        return None
    return f"this is rank {found['rank']} of {found['world_size']}, alone: how long it waits for others is not known"


def losses(found: Row) -> list[str]:
    """What was lost while the inputs were read, and which could not be, for who is not told while they are read."""
    said = [f"{row['input']}: lost: {row['item']}: {row['value']}" for row in found["lost"]]
    return said if len(said) <= _MOST_LOST else [*said[: _MOST_LOST - 1], f"and {len(said) - _MOST_LOST + 1} more lost"]


def doubts(found: Row) -> list[str]:
    """What in the recording makes numbers of the answer wrong, wherever they are shown: with what to do about it."""
    said = []
    if shift := found["clock_shift_ns"]:
        said.append(
            f"clocks: {said_shift(shift)}; why it is idle, waits and savings are not to be trusted: "
            "record again, after warm-up steps"
        )
    if lost := found["cut_off"]:
        missing = f"the last {lost['missing_cnt']:,} of {lost['launch_cnt']:,} kernel launches have no GPU work"
        said.append(f"{missing}: the recording ended early")
    if lost := found["dropped"]:
        missing = f"{lost['dropped_cnt']:,} of {lost['launch_cnt']:,} kernel launches have no GPU work"
        said.append(f"{missing}, though later ones have: it was dropped, and idle time may be its")
    if found["has_launches"] is False and found["unlaunched"]:
        said.append(
            "no GPU work says which call launched it (correlation ids): why it is idle is not known, and nothing can "
            "be replayed"
        )
    elif found["has_launches"] is False:
        said.append(
            "the calls that launched the GPU's work are not recorded, so why it is idle is not known, and nothing can "
            "be replayed: "
            + ("nsys profile --trace=cuda,nvtx" if found["recorder"] == "nsys" else "ProfilerActivity.CPU is missing")
        )
    elif lost := found["unlaunched"]:
        said.append(
            f"the launches of {lost['missing_cnt']:,} of {lost['op_cnt']:,} operations "
            f"({lost['missing_frac']:.0%} of GPU time) are not recorded"
            + (", as the recording began later" if lost["are_before"] else "")
        )
    return said


def said_shift(ns: int) -> str:
    """What clocks that were not matched mean."""
    return f"GPU times are {said_ns(abs(ns))} too {'late' if ns > 0 else 'early'} beside the CPU's"
