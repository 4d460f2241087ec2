"""Sees a training loop from outside: data, forward, backward and optimizer, whoever wrote it; names modules.

data        the next batch of a torch.utils.data.DataLoader
forward     a call of the model whose parameters an optimizer got, with gradients; its modules are annotated. Without
            gradients (a reference, a teacher, an evaluation) it is `forward without gradient`
backward    torch.autograd.backward, which Tensor.backward calls
optimizer   step() of a torch.optim.Optimizer

Phases are ranges where a profiler listens; in every pass they tell the clock of steps where it is. A script that
imports lorabench.annotate or lorabench.span has ranges of its own, and then none are opened here.
"""

import functools
import os
import threading
import time
import weakref
from typing import Any, Callable, Iterator, List

import torch
from torch import nn

from . import hooked
from .batches import Called, masks
from .graphs import Graphs, is_compiled, is_compiled_in_place, wrapped_in
from .models import Keys, Models
from .process import Process
from .steps import Steps

_IN_16 = (torch.bfloat16, torch.float16)
_LEVELS = 2  # of modules below the top that may be what a script calls
_watching: "list[Phases]" = []  # the one of this process; hooks on modules are copied with them and keep no state


def instruments(process: Process) -> Any:
    """The modules ranges and spans of collect/instruments, None where they cannot be loaded."""
    try:
        from ...instruments import ranges, spans
    except Exception:  # the script goes on whatever fails here; it is said
        process.failed("no ranges of phases and modules, which need Python 3.10")
        return None
    if os.environ.get("NVTX_INJECTION64_PATH") and spans.nvtx() is None:
        process.note(
            "no ranges under nsys: its Python has neither the package nvtx nor a torch for CUDA; pip install nvtx"
        )
    return ranges


class Phases:
    """Patches torch so that the phases of training loops show."""

    def __init__(self, process: Process, clock: Steps, ranges: Any, depth: str, counts_padding: bool = False):
        """counts_padding: count what masks hold, by operators that a profiler would record."""
        self.clock = clock
        self._counts_padding = counts_padding
        self._has_masks = False  # those of loaders' batches are counted where they are made: on the CPU
        self._process, self._ranges, self._depth = process, ranges, depth
        self._spans: Any = ranges.spans if ranges else None
        self._is_stepping = False
        self._learns_in_eval = self._was_in_eval = False
        self.is_16bit = False  # whether a model was seen to compute so
        self._annotations: List[Any] = []
        self._seen: "List[weakref.ref[nn.Module]]" = []  # a script that lets a model go frees its memory
        # Let go behind destroy_process_group(), torch's reducer may wait for gloo's thread, which waits for the GIL.
        self._kept: List[nn.Module] = []
        self._models = Models(process.surviving)
        self._keys = Keys(self._models)
        self._called = Called()
        clock.on_step.append(self._called.begin_step)
        self._eval_cnt = 0  # forwards in eval mode with gradients that nothing was learned from
        process.at_end(self._tell_of_evaluation)
        self._graphs = Graphs(_Enter(), _Leave())
        self.on_model: "List[Callable[[nn.Module, Any], None]]" = []  # called with an optimizer's models, and it

    def begin(self) -> None:
        """Patch torch."""
        _watching[:] = [self]
        self._patch_optimizer()
        torch.autograd.backward = self._around(
            "backward", torch.autograd.backward, _is_in_backward, self._count_backward
        )
        loader: Any = torch.utils.data.dataloader._BaseDataLoaderIter
        loader.__next__ = self._fetch(loader.__next__)
        # whoever loads a saved model has no lorabench, and what is scripted or traced keeps what its hooks do
        torch.save = self._without_hooks(torch.save)
        for name in ("script", "trace", "trace_module"):
            setattr(torch.jit, name, self._without_hooks(getattr(torch.jit, name)))
        self._patch_scaler()
        self._graphs.begin(self._compiled)
        if torch.distributed.is_available():
            self._patch_distributed()

    def note_16bit(self) -> None:
        """The model computes in 16 bits."""
        self.is_16bit = self._process.record["is_16bit"] = True

    def learns(self, model: nn.Module) -> bool:
        """Whether a call with gradients is of the training: in eval mode, as transformers loads models, not before a
        backward followed such a call.
        """
        self._was_in_eval = not model.training
        return model.training or self._learns_in_eval

    def add_unlearned(self, has_gradients: bool) -> None:
        """Count a forward that nothing is learned from."""
        self.clock.add_unlearned()
        self._eval_cnt += has_gradients

    def _tell_of_evaluation(self) -> None:
        if self._eval_cnt and not self._learns_in_eval:
            self._process.note(
                f"{self._eval_cnt} forwards in eval mode kept what a backward needs, and none was seen: an evaluation "
                "is faster and takes less memory under torch.no_grad()"
            )

    def _count_backward(self) -> None:
        self._learns_in_eval |= self._was_in_eval
        self.clock.add_backward()

    def leave_to_script(self) -> None:
        """The script uses lorabench itself: its ranges are enough."""
        self._ranges = None
        for annotation in self._annotations:
            annotation.remove()

    @property
    def has_ranges(self) -> bool:
        """Whether ranges are opened where a profiler listens: not for a script that opens its own."""
        return self._ranges is not None

    def open(self, name: str) -> bool:
        """Open a range where a profiler listens; whether one was opened, and close() is due."""
        if self._ranges is None or not self._spans.listening():
            return False
        self._spans.push(name)
        return True

    def close(self) -> None:
        """Close the innermost range."""
        self._spans.pop()

    def _around(self, name: str, function: Any, is_inner: Any, count: Any = None) -> Any:
        """The function with a range around its outermost call, and the clock told of it; `count` is told, too."""

        @functools.wraps(function)
        def around(*arguments: Any, **named: Any) -> Any:
            if torch.compiler.is_compiling() or is_inner():
                return function(*arguments, **named)
            self.clock.activity()
            if count is not None:
                count()
            is_open = self.open(name)
            try:
                return function(*arguments, **named)
            finally:
                if is_open:
                    self.close()

        return around

    def _fetch(self, function: Any) -> Any:
        """The loader's function with a range around it; the clock is told how long it took."""
        ranged = self._around("data", function, _never)

        @functools.wraps(function)
        def fetch(loader: Any) -> Any:
            begin = time.perf_counter_ns()
            batch = ranged(loader)
            if not torch.compiler.is_compiling():
                self.clock.add_batch(time.perf_counter_ns() - begin, getattr(loader, "_num_workers", 0))
                self._has_masks |= self.add_masks(batch)
            return batch

        return fetch

    def add_called(self, arguments: Any, named: Any) -> None:
        """Count the tokens that a model is called with, and their padding where no loader's batches told it."""
        with self._process.surviving("tokens are not counted"):
            self.clock.add_tokens(self._called.token_cnt(arguments, named, self.clock.single_cnt))
        if not self._has_masks:
            self.add_masks(named, *arguments)

    def add_masks(self, *batches: Any) -> bool:
        """Count the padding of batches that have masks of their tokens on the CPU; whether any has."""
        has_any = False
        with self._process.surviving("padding is not counted"):
            for mask in masks(*batches) if self._counts_padding else ():
                by_row, has_any = (mask != 0).sum(1), True
                self.clock.add_mask(mask.numel(), int(by_row.sum()), len(mask) * int(by_row.max()))
        return has_any

    def _without_hooks(self, function: Any) -> Any:
        """The function with no hook of this process on the models."""

        @functools.wraps(function)
        def without(*arguments: Any, **named: Any) -> Any:
            models = [model for model in (seen() for seen in self._seen) if model is not None]
            kept = [(vars(module), hooked.hooks_of(vars(module))) for model in models for module in model.modules()]
            for names, hooks in kept:
                names.update(hooked.foreign(hooks))
            try:
                return function(*arguments, **named)
            finally:
                for names, hooks in kept:
                    names.update(hooks)

        return without

    def _patch_optimizer(self) -> None:
        optimizer: Any = torch.optim.Optimizer
        hook, make = optimizer.profile_hook_step, optimizer.__init__

        @functools.wraps(make)
        def made(own: Any, *arguments: Any, **named: Any) -> None:
            make(own, *arguments, **named)
            self._found(own)

        def profile_hook_step(function: Any) -> Any:
            return self._step(hook(function))

        optimizer.__init__ = made
        optimizer.profile_hook_step = staticmethod(profile_hook_step)

    def _step(self, function: Any) -> Any:
        @functools.wraps(function)
        def step(*arguments: Any, **named: Any) -> Any:
            if torch.compiler.is_compiling() or self._is_stepping:
                return function(*arguments, **named)
            self._is_stepping = True
            self.clock.begin_optimizer(self._key_of(arguments))
            is_open = self.open("optimizer")
            try:
                return function(*arguments, **named)
            finally:
                self._is_stepping = False
                if is_open:
                    self.close()
                self.clock.end_optimizer()

        return step

    def _key_of(self, arguments: Any) -> int:
        """The number of the optimizer that a step is called with."""
        key = 1
        with self._process.surviving("optimizers are not told apart"):
            key = self._keys.of(arguments[0]) if arguments else key
        return key

    def _patch_scaler(self) -> None:
        """A step ends with the scaler's update, too: of losses that overflow it leaves out the optimizer's step."""
        scaler: Any = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler
        renew = scaler.update

        @functools.wraps(renew)
        def update(*arguments: Any, **named: Any) -> Any:
            result = renew(*arguments, **named)
            self.clock.end_optimizer()
            return result

        scaler.update = update

    def _patch_distributed(self) -> None:
        begin = torch.distributed.init_process_group

        @functools.wraps(begin)
        def init_process_group(*arguments: Any, **named: Any) -> Any:
            result = begin(*arguments, **named)
            self._note_rank()
            return result

        self.clock.on_fork.append(self._note_rank)

        torch.distributed.init_process_group = init_process_group
        torch.distributed.distributed_c10d.init_process_group = init_process_group

    def _note_rank(self) -> None:
        if torch.distributed.is_initialized():
            self._process.record["rank"] = torch.distributed.get_rank()
            self._process.record["world_size"] = torch.distributed.get_world_size()

    def _found(self, optimizer: Any) -> None:
        """Watch the models that an optimizer trains."""
        begin = time.perf_counter_ns()
        with self._process.surviving("the model was not found"):
            for model in self._models.of(optimizer):
                if not self._is_seen(model):
                    self._watch(model)
                for function in self.on_model:
                    function(model, optimizer)
        self.clock.leave_out(time.perf_counter_ns() - begin)

    def _is_seen(self, model: nn.Module) -> bool:
        return any(model is seen() for seen in self._seen)

    def _compiled(self, model: nn.Module) -> None:
        """torch.compile wrapped a model, or it was compiled in place; before its optimizer is made nothing is known."""
        with self._process.surviving("the compiled model is not watched"):
            inside = set(model.modules())
            seen = [found for found in (seen() for seen in self._seen) if found is not None]
            if any(found in inside for found in seen) or any(inside & set(found.modules()) for found in seen):
                self._watch_graphs(model)

    def _watch_graphs(self, model: nn.Module) -> None:
        if not self._is_seen(model):
            self._seen.append(weakref.ref(model))
        self._graphs.watch(model)

    def _watch(self, model: nn.Module) -> None:
        self._seen = [seen for seen in self._seen if seen() is not None]
        if any(weight.dtype in _IN_16 for weight in model.parameters()):
            self.note_16bit()
        inner = wrapped_in(model)
        if inner is not None:  # the script may call either
            self._watch_graphs(model)
            if not self._is_seen(inner):
                self._watch(inner)
            return
        if is_compiled_in_place(model):
            self._watch_graphs(model)
            return
        self._seen.append(weakref.ref(model))
        self._graphs.models.append(self._seen[-1])
        if isinstance(model, nn.parallel.DistributedDataParallel):
            self._kept.append(model)
        called = list(_upper(model, _LEVELS))
        for module in called:
            module.register_forward_pre_hook(_Enter(), with_kwargs=True)
        if self._ranges is not None and not is_compiled(model):
            self._annotations.append(self._ranges.annotate(model, self._depth))
        for module in called:
            module.register_forward_hook(_Leave(), always_call=True)


class _Enter:
    """The hook before the forward of a model, or of a part of it that may be what the script calls."""

    def __call__(self, module: nn.Module, arguments: Any, named: Any) -> None:
        if torch.compiler.is_compiling() or not _watching or _is_in_backward():
            return
        _calls.open.append(False)
        phases = _watching[0]
        if not phases.is_16bit and _is_autocast():  # Accelerate's begins below the model
            phases.note_16bit()
        if len(_calls.open) > 1:
            return
        if not torch.is_grad_enabled():
            phases.add_unlearned(has_gradients=False)
            _calls.open[-1] = phases.open("forward without gradient")
        elif not phases.learns(module):
            phases.add_unlearned(has_gradients=True)
        else:
            phases.clock.activity()
            phases.add_called(arguments, named)
            _calls.open[-1] = phases.open("forward")


class _Leave:
    """The hook behind it, also when it ended by an exception."""

    def __call__(self, module: nn.Module, arguments: Any, result: Any) -> None:
        if torch.compiler.is_compiling() or not _calls.open or _is_in_backward():
            return
        if _calls.open.pop():
            _watching[0].close()


class _Calls(threading.local):
    """The watched modules that a thread is in, and whether each has opened a range."""

    def __init__(self) -> None:
        self.open: List[bool] = []


_calls = _Calls()


def _never() -> bool:
    return False


def _is_autocast() -> bool:
    """Whether operators compute in 16 bits here whatever their inputs are."""
    try:
        return bool(torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu"))
    except TypeError:  # torch before 2.4 asks of a CPU by another function, which later ones warn of
        return bool(torch.is_autocast_enabled() or torch.is_autocast_cpu_enabled())


def _is_in_backward() -> bool:
    return bool(torch._C._current_graph_task_id() != -1)


def _upper(module: nn.Module, levels: int) -> Iterator[nn.Module]:
    """A module and those up to so many levels below it; of a compiled one only itself."""
    yield module
    if levels and not is_compiled(module):
        for child in module.children():
            yield from _upper(child, levels - 1)
