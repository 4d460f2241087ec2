"""Models that torch.compile made graphs of: their phases are opened outside of the graphs, and no hook is left inside.

torch.compile(model) makes a wrapper, before or behind the optimizer, and the script may call the wrapper or go on with
the model in it. So both are watched. While the wrapper runs, no module in it has a hook of this package: dynamo would
trace or compile them. model.compile() makes no wrapper: then what the model runs when it is called is wrapped here.
"""

import functools
import weakref
from typing import Any, Callable, Dict, Iterable, List

import torch
from torch import nn

from . import hooked

_graphs: "List[Graphs]" = []  # the one of this process; hooks on modules are copied with them and keep no state


class Graphs:
    """Watches wrappers and models that are compiled in place."""

    def __init__(self, enter: Any, leave: Any):
        """enter, leave: the hooks of a phase."""
        self._enter, self._leave = enter, leave
        self.models: "List[weakref.ref[nn.Module]]" = []  # that are watched by themselves: these hooks are put back
        # Of what was called, the models in it.
        self._inner: "weakref.WeakKeyDictionary[nn.Module, List[weakref.ref[nn.Module]]]" = weakref.WeakKeyDictionary()

    def begin(self, made: Callable[[nn.Module], None]) -> None:
        """Patch torch: `made` is called with each wrapper, and with each model that is compiled in place."""
        _graphs[:] = [self]
        if hasattr(torch, "compile"):
            compile_function = torch.compile

            @functools.wraps(compile_function)
            def compiled(*arguments: Any, **named: Any) -> Any:
                result = compile_function(*arguments, **named)
                wrapper: Any = result
                if wrapped_in(wrapper) is not None:
                    made(wrapper)
                return result

            torch.compile = compiled
        module: Any = nn.Module
        if hasattr(module, "compile"):
            compile_method = module.compile

            @functools.wraps(compile_method)
            def compiled_in_place(own: Any, *arguments: Any, **named: Any) -> Any:
                result = compile_method(own, *arguments, **named)
                made(own)
                return result

            module.compile = compiled_in_place

    def watch(self, model: nn.Module) -> None:
        """Watch calls of a wrapper, or of a model that is compiled in place."""
        if wrapped_in(model) is not None:
            model.register_forward_pre_hook(_EnterGraphs(), with_kwargs=True)
            model.register_forward_hook(_LeaveGraphs(), always_call=True)
        elif is_compiled_in_place(model) and not isinstance(model._compiled_call_impl, functools.partial):
            vars(model)["_compiled_call_impl"] = functools.partial(_call, model._compiled_call_impl, model)

    def enter(self, model: nn.Module, arguments: Any, named: Any) -> None:
        """Graphs are called, and are not to hold hooks. At the first call all modules in them lose theirs."""
        if model not in self._inner:
            inside = set(model.modules()) - ({model} if wrapped_in(model) is not None else set())
            for module in inside:
                hooked.take_off(vars(module))
            self._inner[model] = [seen for seen in self.models if seen() in inside]
        for inner in _living(self._inner[model]):
            hooked.take_off(vars(inner))
        self._enter(model, arguments, named)

    def leave(self, model: nn.Module, arguments: Any, result: Any) -> None:
        """The call is over, and the script may call a model in the wrapper by itself."""
        self._leave(model, arguments, result)
        for inner in _living(self._inner.get(model, ())):
            hooked.take_off(vars(inner))  # another thread may have put them back
            inner.register_forward_pre_hook(self._enter, with_kwargs=True)
            inner.register_forward_hook(self._leave, always_call=True)


class _EnterGraphs:
    """The hook before the forward of a wrapper."""

    def __call__(self, module: nn.Module, arguments: Any, named: Any) -> None:
        if not torch.compiler.is_compiling() and _graphs:
            _graphs[0].enter(module, arguments, named)


class _LeaveGraphs:
    """The hook behind it, also when it ended by an exception."""

    def __call__(self, module: nn.Module, arguments: Any, result: Any) -> None:
        if not torch.compiler.is_compiling() and _graphs:
            _graphs[0].leave(module, arguments, result)


def _call(function: Any, model: nn.Module, *arguments: Any, **named: Any) -> Any:
    """What a model that is compiled in place runs when it is called."""
    if torch.compiler.is_compiling() or not _graphs:
        return function(*arguments, **named)
    _graphs[0].enter(model, arguments, named)
    try:
        return function(*arguments, **named)
    finally:
        _graphs[0].leave(model, arguments, None)


def _living(seen: "Iterable[weakref.ref[nn.Module]]") -> List[nn.Module]:
    """Those that are still there. Not by whether they are true: a module may have a length, or fail to tell it."""
    return [model for model in (one() for one in seen) if model is not None]


def wrapped_in(found: Any) -> Any:
    """The model in a wrapper of torch.compile; None for anything else."""
    names: Dict[str, Any] = getattr(found, "__dict__", {}) if type(found).__name__ == "OptimizedModule" else {}
    return (names.get("_modules") or {}).get("_orig_mod")


def is_compiled_in_place(model: nn.Module) -> bool:
    """Whether calls of a model run graphs, after model.compile()."""
    return getattr(model, "_compiled_call_impl", None) is not None


def is_compiled(model: nn.Module) -> bool:
    """Whether calls of a model, or of a module in it, run compiled graphs."""
    return any(
        is_compiled_in_place(module) or hasattr(module, "_torchdynamo_orig_callable") or wrapped_in(module) is not None
        for module in model.modules()
    )
