"""What changes look up in a source: ranges by path, kernels by name and class, waits by place, peaks of devices."""

import re
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ...errors import UsageError
from ...sql import literal
from ..attribute.cover import Cover
from ..attribute.intervals import Bools, Ints, take, union_length
from ..attribute.replay import Weights
from ..attribute.replay_graph import Operations
from ..attribute.replay_threads import Points
from ..store.database import Database
from .operators import Operators
from .trace import Trace

_CLASSES = """
    select gpu_op_id, list_position({known}, class) - 1 as place
    from _classed_op
    where source_id = {id}"""
EVERYWHERE, RECOMPUTE = "*", "recompute"
LAUNCH_NS = 5_000  # what one launch of a kernel takes the CPU


@dataclass
class Scene:
    """A trace and the database that it comes from. What is looked up is kept."""

    database: Database
    trace: Trace
    _covers: dict[str, Cover] = field(default_factory=dict)

    @property
    def points(self) -> Points:
        """The points of CPU threads."""
        return self.trace.points

    @property
    def work(self) -> Operations:
        """The GPU operations."""
        return self.trace.work

    @cached_property
    def window_ns(self) -> int:
        """The measured length that savings are taken from."""
        return int(self._lengths.max())

    @cached_property
    def _lengths(self) -> Ints:
        return self.trace.lengths(self.trace.graph.measured)

    def saved_ns(self, weights: Weights, since: Weights | None = None) -> int:
        """By how much all steps, or the whole of a trace without, are shorter with these weights than as measured.

        Of several processes without steps the mean; `since` are other weights to compare with.
        """
        lengths = self._lengths if since is None else self.trace.lengths(since)
        return round(float((lengths - self.trace.lengths(weights)).mean()))

    @cached_property
    def is_queue(self) -> Bools:
        """The points that wait because a queue is full."""
        found = np.zeros(len(self.points), dtype=bool)
        found[self.trace.graph.strands.waiting] = [kind == "queue" for kind in self.trace.kind]
        return found

    def ranges(self, path: str) -> Cover:
        """Where ranges of a path are open: the whole path, or its end. Raises UsageError when there are none."""
        if path not in self._covers:
            if path == EVERYWHERE:
                low, high = -(1 << 62), 1 << 62
                self._covers[path] = Cover.of(np.array([low]), np.array([high]))
                return self._covers[path]
            text = literal(path)
            found = self._intervals(f"range_path.path = {text} or ends_with(range_path.path, '/' || {text})")
            if not len(found.start) and path == RECOMPUTE:  # that nobody named
                found = self._cover("select start_ns, end_ns, source_id from _recomputing_stretch")
            if not len(found.start):
                raise UsageError(
                    f"no such range: {path!r}; `lorabench analyze INPUT --report range_summary` lists them"
                )
            self._covers[path] = found
        return self._covers[path]

    def input(self, path: str) -> Cover:
        """Where input is read: in ranges of a path, with * in all named so. Raises UsageError when there are none."""
        if path != EVERYWHERE:
            return self.ranges(path)
        found = self.phase("data")
        if not len(found.start):
            raise UsageError("prefetch=*: the trace has no range that means reading input; name it: prefetch=PATH")
        return found

    def phase(self, name: str) -> Cover:
        """Where a phase of training is open; nowhere when nobody named it."""
        paths = self.phase_paths(name)
        return self._intervals(" or ".join(f"range_path.path = {literal(path)}" for path in paths) or "false")

    def phases(self, *names: str) -> Cover:
        """Where any of some phases is open."""
        found = [self.phase(name) for name in names]
        return Cover.of(np.concatenate([c.start for c in found]), np.concatenate([c.end for c in found]))

    def phase_paths(self, name: str) -> list[str]:
        """The paths of annotations that mean a phase (phase_of), of those in one another the outermost."""
        found = [path for (path,) in self.database.rows(
            "select distinct path from _phase_path "
            f"where source_id = {self.trace.source_id} and phase = {literal(name)} order by path"
        )]  # fmt: skip
        return [path for path in found if not any(path.startswith(f"{other}/") for other in found)]

    @cached_property
    def adapter_cnt(self) -> int:
        """How many adapters train in turn, each in steps of its own; 0 where they do not."""
        ((count,),) = self.database.rows(
            f"select count(distinct adapter) from _adapter_step where source_id = {self.trace.source_id}"
        )
        return int(count)

    def step_paths(self) -> list[str]:
        """The paths of steps."""
        return [path for (path,) in self.database.rows(
            f"""select distinct path from _step join range_path using (path_id)
            where _step.source_id = {self.trace.source_id} order by path"""
        )]  # fmt: skip

    def largest_classes(self, count: int) -> list[str]:
        """The classes of kernels that take the GPU's time, the largest first."""
        names, number = self._classes
        time = np.bincount(number, weights=self.trace.graph.measured.length, minlength=len(names))
        order = [names[place] for place in np.argsort(-time, kind="stable") if time[place]]
        return [name for name in order if name not in ("copy", "communication", "other")][:count]

    def _intervals(self, condition: str) -> Cover:
        return self._cover(
            f"""select start_ns, end_ns, range.source_id from range
            join range_path using (path_id) where range.kind <> 'python' and ({condition})"""
        )

    def _cover(self, statement: str) -> Cover:
        found = self.database.columns(f"from ({statement}) where source_id = {self.trace.source_id}")
        return Cover.apart(found["start_ns"], found["end_ns"])

    def instances(self, path: str) -> tuple[Ints, Ints]:
        """Of each point the number of the range of a path that it lies in, and of the last that began; NONE without.

        With * those of the step, of a trace without steps all are one. Raises UsageError when there are no such ranges.
        """
        if path == EVERYWHERE:
            step = self.trace.steps.of_points(len(self.points))
            return step, step
        cover = self.ranges(path)
        return cover.number(self.points.begin), cover.begun(self.points.begin)

    def host_within(self, weights: Weights, cover: Cover) -> Ints:
        """Of each point how much of the CPU's time since the one it follows lies in a cover, by what was measured.

        What a CPU waits for other ranks is no time of its own.
        """
        measured = self.trace.graph.measured.host
        begin = self.points.begin
        found = cover.within(begin - measured, begin)
        if len(self.waiting.start):
            found = found - cover.common(self.waiting).within(begin - measured, begin)
        if weights.host is not measured:  # changed before: the rest of it, in proportion
            return np.minimum(found, np.maximum(weights.host, 0))
        return found

    @cached_property
    def waiting(self) -> Cover:
        """Where nothing but messages between ranks on CPUs is under way; nowhere in a trace of a GPU.

        messages  [=====]   [====]
        compute      [===]
        waiting   [==]      [====]
        """
        nothing = np.zeros(0, dtype=np.int64)
        if len(self.work):
            return Cover.of(nothing, nothing)
        found = self.database.columns(
            "select start_ns, end_ns, activity = 'compute' as is_compute from _cpu_activity "
            f"where source_id = {self.trace.source_id}"
        )
        computes = found["is_compute"].astype(bool)
        times = [found[name].astype(np.int64) for name in ("start_ns", "end_ns")]
        compute, messages = (Cover.of(*(time[chosen] for time in times)) for chosen in (computes, ~computes))
        borders = np.unique(np.concatenate([compute.start, compute.end, messages.start, messages.end]))
        begin, end = borders[:-1], borders[1:]
        alone = messages.holds(begin) & ~compute.holds(begin)
        return Cover.of(begin[alone], end[alone])

    @cached_property
    def operators(self) -> Operators:
        """What the CPU's operators cost."""
        return Operators.of(self.database, self.trace.source_id)

    def called_within(self, weights: Weights, cover: Cover) -> Ints:
        """The same without what operators work: what calling them takes, and what is between them."""
        begin = self.points.begin
        work = self.operators.work_within(cover, begin - self.trace.graph.measured.host, begin)
        found: Ints = np.maximum(self.host_within(weights, cover) - work, 0)
        return found

    def worked_within(self, weights: Weights, pattern: str) -> Ints:
        """Of each point how much of the CPU's time since the one it follows is work of operators by name.

        Raises UsageError when no name matches the regular expression.
        """
        begin, measured = self.points.begin, self.trace.graph.measured.host
        found: Ints = np.minimum(
            self.operators.named(pattern).work_in(begin - measured, begin), np.maximum(weights.host, 0)
        )
        return found

    def launching_within(self, weights: Weights, cover: Cover) -> Ints:
        """The same of stretches so short that they are launching; nothing of those above the threshold long_gap_ns."""
        return np.where(self.trace.graph.measured.host <= self.long_gap_ns, self.host_within(weights, cover), 0)

    @cached_property
    def long_gap_ns(self) -> float:
        """Longer gaps are not those of launching one kernel after another."""
        ((longest,),) = self.database.rows("select value from threshold where name = 'long_gap_ns'")
        return float(longest)

    def with_calls(self, weights: Weights, own: Ints) -> Weights:
        """The weights with calls that take so long. What a long call launches begins so much sooner behind its start.

        call        |-- loads its kernel: 347 ms --|
        kernel                                    |--|      without the loading 5 us behind the call's begin
        """
        longest = self.trace.graph.measured.own - LAUNCH_NS
        spared = np.maximum(longest - own, 0) - np.maximum(longest - weights.own, 0)
        latency = weights.latency - take(spared, self.work.point, 0)
        return replace(weights, own=own, latency=np.maximum(latency, np.minimum(weights.latency, LAUNCH_NS)))

    def waits_in(self, path: str) -> Bools:
        """The points that wait in ranges of a path."""
        if path == EVERYWHERE:
            return self.points.waits
        return self.points.waits & self.ranges(path).holds(self.points.begin)

    def named(self, pattern: str) -> Bools:
        """The operations of a class of kernels, or those whose name a regular expression matches.

        Raises UsageError when there are none.
        """
        found = self.of_class(pattern)
        if not found.any():
            ids = np.unique(self.trace.name_id)
            names = dict(self.database.rows("select name_id, text from name semi join gpu_op using (name_id)"))
            expression = re.compile(pattern, re.IGNORECASE)
            is_match = np.array(
                [bool(expression.search(names.get(number) or "")) for number in ids.tolist()], dtype=bool
            )
            found = is_match[np.searchsorted(ids, self.trace.name_id)] if len(ids) else found
        if not found.any():
            raise UsageError(f"no kernel's name or class matches {pattern!r}; `--report kernel_class` lists them")
        return found

    def of_class(self, *names: str) -> Bools:
        """The operations of some classes of kernels."""
        known, number = self._classes
        return np.isin(number, [place for place, name in enumerate(known) if name in names])

    @cached_property
    def is_fusible(self) -> Bools:
        """The operations that one kernel could take together, in one pass over memory (the macro is_fusible)."""
        known, number = self._classes
        found = self.database.columns(
            f"select name_id, list_position({known}, class) - 1 as place "
            f"from _fusible_name where source_id = {self.trace.source_id}"
        )
        chosen: Bools = np.isin(
            self.trace.name_id * len(known) + number, found["name_id"].astype(np.int64) * len(known) + found["place"]
        )
        return chosen

    @cached_property
    def _classes(self) -> tuple[list[str], Ints]:
        """The classes of kernels, and the place of each operation's among them."""
        known = [name for (name,) in self.database.rows(
            "select class from (values ('copy'), ('other')) as always(class) "
            "union select class from kernel_class_rule order by class"
        )]  # fmt: skip
        statement = _CLASSES.format(id=self.trace.source_id, known=known)
        found = self.database.columns(statement, "gpu_op_id")
        place = self.trace.place_of(found["gpu_op_id"])
        return known, found["place"][place >= 0].astype(np.int64)

    @cached_property
    def is_full_precision(self) -> Bools:
        """The operations that multiply in 32 bits without tensor cores, as their names say."""
        found = self.database.columns("select name_id from _full_precision_name")
        chosen: Bools = np.isin(self.trace.name_id, found["name_id"])
        return chosen

    def peaks_relative_to(self, device: str) -> tuple[float, float, float]:
        """How many times faster than this trace's a device multiplies in 16 bits and in 32, and moves bytes.

        By device_peak. Raises UsageError.
        """
        own = self.database.rows(f"select name from device where source_id = {self.trace.source_id} order by device_id")
        before = self._peak(next((name for (name,) in own if name), ""))
        after = self._peak(device)
        if before is None or after is None:
            unknown = device if after is None else "this trace's device"
            raise UsageError(
                f'the peaks of {unknown} are not known; `lorabench query DB "from device_peak"` lists devices'
            )
        in16, in32, moved = (new / old for new, old in zip(after, before, strict=True))
        return in16, in32, moved

    def _peak(self, name: str) -> tuple[float, float, float] | None:
        rows = self.database.rows(
            "select matrix16_flops, matrix32_flops, memory_bytes_s from device_peak "
            "where regexp_matches(?, pattern, 'i') order by priority limit 1",
            name,
        )
        return rows[0] if rows else None

    def link_ns(self, weights: Weights) -> int:
        """How long the busiest direction of the link to a device copies in the window, where copies take so long each.

        Beside whatever else they run, no step is shorter. Copies from and to the host alone have a link. Without steps
        none runs before the first work does.
        """
        found = self.database.columns(
            f"""select gpu_op_id, copy_kind = 'HtoD' as is_to_device
            from memory_operation
            semi join (select gpu_op_id from gpu_op where source_id = {self.trace.source_id}) as own using (gpu_op_id)
            where copy_kind in ('HtoD', 'DtoH')"""
        )
        place, direction = self.trace.place_of(found["gpu_op_id"]), found["is_to_device"].astype(np.int64)
        counts = (place >= 0) & self._is_in_window[place]
        place, direction = place[counts], direction[counts]
        key, start = 2 * self.work.device[place] + direction, self.work.start[place]
        order = np.lexsort((start, key))
        _, busy = union_length(key[order], start[order], (start + weights.length[place])[order])
        lead = 0
        if len(place) and not self.trace.steps.is_judged.any():
            graph = self.trace.graph
            lead = int(graph.begin_of_operations(weights, graph.replay(weights)).min())
        return lead + int(busy.max(initial=0))

    @cached_property
    def loading(self) -> Cover:
        """Where kernels are compiled or loaded, or CUDA graphs made (_compiling)."""
        found = self.database.columns(
            f"select start_ns, end_ns from _compiling where source_id = {self.trace.source_id}", "start_ns"
        )
        return Cover.of(found["start_ns"], found["end_ns"])

    def pinned_copies(self) -> tuple[Ints, Ints]:
        """The copies of pageable memory, and how long each takes where the link is as fast as it is known to be."""
        found = self.database.columns(
            f"select gpu_op_id, length_ns from _pinned_copy where source_id = {self.trace.source_id}"
        )
        place = self.trace.place_of(found["gpu_op_id"])
        return place[place >= 0], found["length_ns"][place >= 0]

    @cached_property
    def is_mostly_pages(self) -> bool:
        """Whether most of the work are pages of managed memory, which move when the CPU or the GPU touches them."""
        return bool(np.count_nonzero(self.work.is_page) > len(self.work) / 2)

    @cached_property
    def is_within_device(self) -> Bools:
        """The copies and memsets that no link takes part in."""
        found = self.database.columns(
            f"""select gpu_op_id from gpu_op join memory_operation using (gpu_op_id)
            where source_id = {self.trace.source_id} and (kind = 'memset' or copy_kind = 'DtoD')"""
        )
        place = self.trace.place_of(found["gpu_op_id"])
        inside = np.zeros(len(self.work), dtype=bool)
        inside[place[place >= 0]] = True
        return inside

    @cached_property
    def _is_in_window(self) -> Bools:
        """The operations that were launched in the judged steps, or began in them; all of a trace without steps."""
        steps, begin = self.trace.steps, self.points.begin
        if not steps.is_judged.any():
            return np.ones(len(self.work), dtype=bool)
        since = begin[steps.first[steps.is_judged]].min()
        until = begin[steps.last[steps.is_judged]].max()
        launched = np.where(self.work.point >= 0, begin[self.work.point], self.work.start)
        found: Bools = (launched >= since) & (launched < until)
        return found

    def launched_in(self, cover: Cover) -> Bools:
        """The operations whose launching call lies in a cover."""
        return self.of_points(cover.holds(self.points.begin))

    def of_points(self, chosen: Bools) -> Bools:
        """The operations that chosen points launch."""
        return np.append(chosen, False)[self.work.point]
