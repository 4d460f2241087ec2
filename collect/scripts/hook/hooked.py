"""The hooks of a module in torch's own dicts, and which of them are of this package."""

from typing import Any, Dict, List

_OWN = "_lorabench."  # the name of the package here
# Hooks of a module by number, and what torch notes of them by the same numbers: whether they take keywords, run always.
_HOOKS = {
    "_forward_pre_hooks": ("_forward_pre_hooks_with_kwargs",),
    "_forward_hooks": ("_forward_hooks_with_kwargs", "_forward_hooks_always_called"),
}


def hooks_of(names: Dict[str, Any]) -> Dict[str, Any]:
    """The dicts of hooks, and of what is noted of them, among the attributes of a module."""
    return {name: names[name] for kind, noted in _HOOKS.items() for name in (kind, *noted) if name in names}


def foreign(hooks: Dict[str, Any]) -> Dict[str, Any]:
    """The same without what is of this package, in dicts of the same types."""
    found = {}
    for kind, noted in _HOOKS.items():
        own = _own(hooks[kind])
        for name in (kind, *noted):
            if name in hooks:
                kept = hooks[name]
                found[name] = type(kept)((number, value) for number, value in kept.items() if number not in own)
    return found


def take_off(names: Dict[str, Any]) -> None:
    """Take what is of this package off a module, in its own dicts: whoever has a handle of another hook keeps it."""
    for kind, noted in _HOOKS.items():
        for number in _own(names[kind]):
            for name in (kind, *noted):
                names.get(name, {}).pop(number, None)


def _own(hooks: Dict[int, Any]) -> List[int]:
    return [number for number, hook in hooks.items() if str(getattr(hook, "__module__", "")).startswith(_OWN)]
