"""Calls functions when a module has been imported, without importing it."""

import sys
from typing import Any, Callable, Dict, List


class AfterImport:
    """A finder that finds nothing itself: it has the loaders of the others call back."""

    def __init__(self) -> None:
        self._waiting: Dict[str, List[Callable[[Any], None]]] = {}
        sys.meta_path.insert(0, self)

    def call(self, name: str, function: Callable[[Any], None]) -> None:
        """Call the function with the module once it is imported."""
        self._waiting.setdefault(name, []).append(function)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The spec that the other finders have for a module that is waited for; None for all others.

        Who asks may only want to know whether the module is there, as transformers does of torch: what is waited for is
        its execution.
        """
        if name not in self._waiting:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None and finder is not self else None
            if spec is not None:
                self._call_after(spec.loader, name)
                return spec
        return None  # it may be found later, when sys.path has changed

    def _call_after(self, loader: Any, name: str) -> None:
        """Have this loader, which is the module's own, call back; its type stays what tools expect."""
        load = loader.exec_module

        def exec_module(module: Any) -> None:
            del loader.exec_module
            load(module)
            for function in self._waiting.pop(name, []):
                function(module)

        loader.exec_module = exec_module
