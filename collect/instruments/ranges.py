"""Ranges of a model's modules, in forward and in backward, without changing the model's code or its numbers.

Forward: hooks open a range around each module. Backward: autograd numbers its nodes in the order in which the forward
made them and runs them in the reverse order. So the numbers at the start and end of each module tell which nodes are
its own, and a hook where the module changes from one node to the next opens and closes ranges on the thread that runs
the backward. (register_full_backward_hook fails on models that take keywords or return dataclasses.)
"""

import threading
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from ...vocabulary import RANGE_DEPTHS
from . import spans
from .adapter_parts import Visit, has_inner_parts, is_adapted, is_part, named_bases, parts_of

_sequence_number: Any = torch.autograd._get_sequence_nr
_LEAF_NUMBER = 2**63  # AccumulateGrad nodes carry the largest number: they belong to no module
BACKWARD = "backward"
RECOMPUTE = "recompute"
_DROPOUTS = ("lora_dropout", "vera_dropout", "oft_dropout", "boft_dropout")

Path = tuple[str, ...]


class _State(threading.local):
    """What a thread is doing: the modules it is inside of, and the ranges that its backward has open."""

    def __init__(self) -> None:
        self.modules: list[str] = []
        self.numbers: list[int] = []  # autograd's number at each change of module, and the modules from there on
        self.paths: list[Path] = []
        self.pushed: list[int] = []  # ranges that each module being run has opened
        self.visits: list[Visit | None] = []  # of the PEFT layers being run whose parts are no plain modules
        self.backward: Path = ()
        self.is_marked = False  # whether the backward has a range of that name around it that was opened here
        self.backward_depth = 0  # of the thread's ranges when the backward opened its last one
        self.outer: Path | None = None  # what the backward had open when a recomputation began
        self.is_whole = False  # the recomputation is known from begin to end: recomputing()


_state = _State()


class Annotation:
    """The hooks on one model. Remove them with remove(), or leave the `with` block."""

    def __init__(self, model: nn.Module, depth: str, root: str):
        self._handles: list[RemovableHandle] = []
        chosen = named_ranges(model, depth, root)
        layers = {m for m in chosen if depth == "lora" and is_adapted(m) and has_inner_parts(m)}
        chosen |= {base: ((*chosen[layer][0], "base"), 1) for layer, base in named_bases(layers)}
        parts = {part for layer in layers for part in parts_of(layer) if part in chosen}
        for module, (path, own) in chosen.items():
            if module in parts:
                self._hook(module, _EnterPart(path[len(path) - own :]), _leave_part)
                continue
            self._hook(module, _Enter(path, own), _leave_layer if module in layers else _leave)
            if module in layers:
                self._handles.append(module.register_forward_pre_hook(_enter_layer))

    def _hook(self, module: nn.Module, before: Any, behind: Any) -> None:
        self._handles.append(module.register_forward_pre_hook(before))
        # always: a recomputation that has what it needs leaves the module by an exception
        self._handles.append(module.register_forward_hook(behind, always_call=True))

    def __enter__(self) -> "Annotation":
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Take the hooks off the model."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()


def annotate(model: nn.Module, depth: str = "lora", root: str | None = None) -> Annotation:
    """Show the modules of a model as ranges in nsys (NVTX) and torch.profiler (record_function), forward and backward.

    depth: "layer" for the layers of lists and what stands beside them, "module" for every module, "lora" also for the
    parts of adapted layers, of PEFT or with lora_A and lora_B of their own (base, lora_A, ia3_l, … and the adapter's
    name), "phase" for none; else ValueError. root: the name of the range around the model, by default its class. Works
    with checkpointing and quantized layers, changes no result, costs 3 µs for each call of a module without a profiler.
    """
    if depth not in RANGE_DEPTHS:
        raise ValueError(f"depth is {depth!r}; it must be one of {', '.join(RANGE_DEPTHS)}")
    return Annotation(model, depth, type(model).__name__ if root is None else root)


def named_ranges(model: nn.Module, depth: str, root: str) -> dict[nn.Module, tuple[Path, int]]:
    """The modules that get a range: the whole path of each, and how many names of it are the module's own."""
    if depth in ("step", "phase"):
        return {}
    top: Path = (root,) if root else ()
    chosen: dict[nn.Module, tuple[Path, int]] = {model: (top, len(top))} if root else {}
    paths: dict[str, Path] = {"": top}
    for name, module in model.named_modules():
        if not name or module in chosen or not _has_range(name, module, depth):
            continue
        parts = name.split(".")
        above = max(n for n in range(len(parts)) if ".".join(parts[:n]) in paths)
        own = _spoken(parts[above:])
        paths[name] = paths[".".join(parts[:above])] + own
        if own:
            chosen[module] = (paths[name], len(own))
    return chosen


def _has_range(name: str, module: nn.Module, depth: str) -> bool:
    parts = name.split(".")
    if type(module) in (nn.ModuleList, nn.ModuleDict, nn.Sequential, nn.ParameterDict, nn.Dropout):
        return False
    if isinstance(module, nn.Identity):  # also what stands for a part that another device has
        return False
    if any(part in _DROPOUTS for part in parts) or hasattr(module, "peft_config"):  # PEFT's are no part of the model
        return False
    if depth == "lora":
        return True
    inside_lora = any(part == "base_layer" or is_part(part) for part in parts)
    if depth == "module":
        return not inside_lora
    numbered = [n for n, part in enumerate(parts) if part.isdigit()]
    return not inside_lora and (numbered[0] == len(parts) - 1 if numbered else len(parts) <= 2)


def _spoken(parts: list[str]) -> Path:
    """The names that a person reads: layers.3 in one, base instead of base_layer, PEFT's own wrappers left out."""
    names: list[str] = []
    for part in parts:
        if part.isdigit() and names:
            names[-1] = f"{names[-1]}.{part}"
        else:
            names.append("base" if part == "base_layer" else part)
    if names[:2] == ["base_model", "model"]:
        names = names[2:] or ["model"]
    return tuple(names)


class _Enter:
    """The hook before a module's forward; a class, so that a copied or pickled model keeps working."""

    def __init__(self, path: Path, own: int):
        self.path, self.own = path, path[len(path) - own :]

    def __call__(self, module: nn.Module, args: Any) -> None:
        if torch.compiler.is_compiling():
            return
        state = _state
        if not spans.listening():
            state.pushed.append(0)
            return
        names = self.own if state.modules else self.path
        if not state.modules:
            _begin_forward(state)
        state.pushed.append(len(names))
        _open(names)


def _leave(module: nn.Module, args: Any, result: Any) -> None:
    """The hook behind a module's forward, also when it ended by an exception."""
    state = _state
    if torch.compiler.is_compiling() or not state.pushed:
        return
    count = state.pushed.pop()
    if not count:
        return
    _close(count)
    if not state.modules:
        _end_forward(result, state)


def _enter_layer(module: nn.Module, args: Any) -> None:
    """The hook before the forward of a PEFT layer with inner parts, behind the one that opens its own range."""
    if not torch.compiler.is_compiling():
        _state.visits.append(Visit(module, _open, _close) if _state.pushed[-1] else None)


def _leave_layer(module: nn.Module, args: Any, result: Any) -> None:
    """The hook behind it."""
    if torch.compiler.is_compiling() or not _state.visits:
        return
    if visit := _state.visits.pop():
        visit.leave()
    _leave(module, args, result)


class _EnterPart:
    """The hook before a part of such a layer that is a module."""

    def __init__(self, names: Path):
        self.names = names

    def __call__(self, module: nn.Module, args: Any) -> None:
        if not torch.compiler.is_compiling() and _state.visits and (visit := _state.visits[-1]):
            visit.enter_module(self.names)


def _leave_part(module: nn.Module, args: Any, result: Any) -> None:
    """The hook behind it."""
    if not torch.compiler.is_compiling() and _state.visits and (visit := _state.visits[-1]):
        visit.leave_module()


def _open(names: Path) -> None:
    for name in names:
        spans.push(name)
    _state.modules.extend(names)
    _note_change(_state)


def _close(count: int) -> None:
    for _ in range(count):
        spans.pop()
    del _state.modules[-count:]
    _note_change(_state)


@contextmanager
def part(*names: str) -> Iterator[None]:
    """Name a part of an annotated module's forward that is no module: its backward has these names, too.

    Where no annotated module is open the forward alone has them; where no profiler listens nothing has.
    """
    if torch.compiler.is_compiling() or not spans.listening():
        yield
        return
    is_inside = bool(_state.modules)
    if is_inside:
        _open(names)
    else:
        for name in names:
            spans.push(name)
    level = spans.depth()
    try:
        yield
    finally:
        while spans.depth() > level:  # what an exception left open inside is closed, too
            spans.pop()
        if is_inside:
            _close(len(names))
        else:
            for _ in names:
                spans.pop()


def _note_change(state: _State) -> None:
    state.numbers.append(_sequence_number())
    state.paths.append(tuple(state.modules))


def _begin_forward(state: _State) -> None:
    """A forward inside a backward is a recomputation, unless it is known as one already."""
    if state.is_whole:
        return
    if torch._C._current_graph_task_id() != -1:
        _begin_recomputing(state)
    elif state.backward or state.is_marked:  # a backward on this thread failed half-way
        if spans.depth() >= state.backward_depth:
            _move_to((), state)
        state.backward, state.is_marked = (), False


def _end_forward(result: Any, state: _State) -> None:
    if torch.is_grad_enabled():
        _mark_backward(result, state)
    state.numbers.clear()
    state.paths.clear()
    if state.outer is not None and not state.is_whole:
        _end_recomputing(state)


def _begin_recomputing(state: _State) -> None:
    """Put the ranges of the backward aside."""
    state.outer = state.backward
    _move_to((), state, ends=False)
    spans.push(RECOMPUTE)


def _end_recomputing(state: _State) -> None:
    spans.pop()
    _move_to(state.outer or (), state)
    state.outer = None


@contextmanager
def recomputing() -> Iterator[None]:
    """Around a whole recomputation, where checkpointing offers a place for it (context_fn).

    Elsewhere it shows piece by piece, from the outermost annotated modules in it.
    """
    state = _state
    if not spans.listening() or torch._C._current_graph_task_id() == -1:
        yield
        return
    _begin_recomputing(state)
    state.is_whole = True
    try:
        yield
    finally:
        state.is_whole = False
        _end_recomputing(state)


def checkpoint_contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """For context_fn of torch.utils.checkpoint: nothing around the forward, a range around its recomputation."""
    return nullcontext(), _Recomputations()


class _Recomputations(AbstractContextManager[None]):
    """recomputing() as often as it is entered: a backward in two parts (zero bubble) recomputes twice."""

    def __enter__(self) -> None:
        self._open = ExitStack()
        self._open.enter_context(recomputing())

    def __exit__(self, *_: object) -> None:
        self._open.close()


def _mark_backward(result: Any, state: _State) -> None:
    """Put a hook on every node before which the backward moves to another module, and one behind the last."""
    nodes = _nodes(_tensors(result), state.numbers[0])
    last: Path | None = None
    for node in nodes:
        path = state.paths[bisect_right(state.numbers, node._sequence_nr()) - 1]
        if path != last:
            node.register_prehook(_MoveTo(path))
            last = path
    if nodes:  # reentrant checkpointing runs a backward inside the backward: go on where that was
        nodes[-1].register_hook(_MoveTo(state.outer or ()))


class _MoveTo:
    """Opens and closes ranges until the thread's backward is inside the modules of a path."""

    def __init__(self, path: Path):
        self.path = path

    def __call__(self, *_: Any) -> None:
        _move_to(self.path, _state)


def _move_to(path: Path, state: _State, ends: bool = True) -> None:
    """Close and open ranges; at the empty path the backward ends, or makes way for a recomputation."""
    now = state.backward
    if not spans.listening() and not now and not state.is_marked:
        return
    common = 0
    while common < len(now) and common < len(path) and now[common] == path[common]:
        common += 1
    for _ in now[common:]:
        spans.pop()
    if not now and (path or not ends) and not state.is_marked and BACKWARD not in spans.names():
        spans.push(BACKWARD)  # on a GPU the backward has a thread of its own, where nothing else says what it is
        state.is_marked = True
    for name in path[common:]:
        spans.push(name)
    if not path and ends and state.is_marked:
        spans.pop()
        state.is_marked = False
    state.backward, state.backward_depth = path, spans.depth()


def _nodes(tensors: list[torch.Tensor], first: int) -> list[Any]:
    """The nodes of the graph that are no older than `first`, in the order in which a backward runs them."""
    waiting = [t.grad_fn for t in tensors if t.grad_fn is not None]
    seen = set(waiting)
    found = []
    while waiting:
        node = waiting.pop()
        number = node._sequence_nr()
        if first <= number < _LEAF_NUMBER:
            found.append(node)
            for below, _ in node.next_functions:
                if below is not None and below not in seen:
                    seen.add(below)
                    waiting.append(below)
    return sorted(found, key=lambda n: -n._sequence_nr())


def _tensors(value: Any) -> list[torch.Tensor]:
    """The tensors in what a module returned: a tensor, a sequence, a mapping or a dataclass of them."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for v in value.values() for t in _tensors(v)]
    if isinstance(value, list | tuple):
        return [t for v in value for t in _tensors(v)]
    if hasattr(value, "__dict__"):
        return [t for v in vars(value).values() for t in _tensors(v)]
    return []
