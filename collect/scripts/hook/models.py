"""Which models hold the parameters of an optimizer, and which of PEFT's layers.

Modules are noted as they are made, for looking among all objects takes long where libraries have made many. That is
left for models that were copied or loaded whole. One look serves every optimizer; there is another only for a parameter
that was not there, or when a model got a module around it. Nothing is kept alive.
"""

import gc
import itertools
import sys
import weakref
from contextlib import AbstractContextManager
from typing import Any, Callable, Dict, Iterable, List, Set, Tuple

import torch
from torch import nn
from torch.nn.modules import module as torch_module

_NOWHERE: "Tuple[List[weakref.ref[nn.Module]], Set[int]]" = ([], set())


class ByIdentity:
    """A value for each of many objects: of this very one, whatever it is equal to, as long as it lives."""

    def __init__(self) -> None:
        self._found: "Dict[int, Tuple[weakref.ref[Any], Any]]" = {}

    def get(self, one: Any) -> Any:
        """The object's value, None without one."""
        seen, value = self._found.get(id(one), (None, None))
        return value if seen is not None and seen() is one else None

    def put(self, one: Any, value: Any) -> None:
        """Give the object a value."""
        found, number = self._found, id(one)
        found[number] = weakref.ref(one, lambda _: found.pop(number, None)), value

    def living(self) -> List[Any]:
        """The objects that have one."""
        return [one for one in (seen() for seen, _ in list(self._found.values())) if one is not None]


class Models:
    """Knows the modules that are in no other one, and what is in them."""

    def __init__(self, surviving: "Callable[[str], AbstractContextManager[None]]") -> None:
        """`surviving(what)` lets the script go on whatever fails inside (Process.surviving)."""
        self._surviving = surviving
        self._tops = ByIdentity()
        self._layers = ByIdentity()  # a number for each, also behind another look
        self._numbers = itertools.count(1)
        self._places = ByIdentity()  # of a parameter: the models that it is in, and the layers
        self._is_stale = False  # whether a model is in another module since the last look
        self._made = ByIdentity()
        # torch before 2.1 tells nothing of what is made
        self._is_told = hasattr(torch_module, "register_module_module_registration_hook")
        self._knows_all = self._is_told  # whether each module there is was noted, but for those copied or loaded whole
        self._vain_cnt = self._left_out_cnt = 0
        if self._is_told:
            torch_module.register_module_module_registration_hook(self._registered)
            torch_module.register_module_parameter_registration_hook(self._registered)

    def of(self, optimizer: Any) -> List[nn.Module]:
        """The models that hold parameters of an optimizer and are in no other module."""
        weights = weights_of(optimizer)
        self._look_for(weights)
        models = [seen() for weight in weights for seen in self._place(weight)[0]]
        return list({id(model): model for model in models if model is not None}.values())

    def layers_of(self, weights: List[Any]) -> Set[int]:
        """Numbers of PEFT's layers that hold one of the weights."""
        self._look_for(weights)  # some were added to an optimizer behind its making
        return set().union(*(self._place(weight)[1] for weight in weights))

    def _place(self, weight: Any) -> "Tuple[List[weakref.ref[nn.Module]], Set[int]]":
        return self._places.get(weight) or _NOWHERE

    def _look_for(self, weights: List[Any]) -> None:
        """Look unless it is known where the weights are; what is no parameter is in no module."""
        wanted = [weight for weight in weights if isinstance(weight, nn.Parameter)]
        if not self._is_stale and self._knows(wanted):
            return
        if self._knows_all:
            self._look(self._made.living())
        if not self._knows_all or not self._knows(wanted):
            self._look_among_all(wanted)
        for weight in wanted:
            if self._places.get(weight) is None:
                self._places.put(weight, _NOWHERE)

    def _look_among_all(self, wanted: List[Any]) -> None:
        """Ever more seldom while that is in vain: of parameters in no module a script may make thousands in turn."""
        if self._left_out_cnt < self._vain_cnt:
            self._left_out_cnt += 1
            return
        self._look(self._all())
        self._left_out_cnt, self._vain_cnt = 0, 0 if self._knows(wanted) else 2 * self._vain_cnt + 1

    def _knows(self, weights: List[Any]) -> bool:
        return all(self._places.get(weight) is not None for weight in weights)

    def _all(self) -> List[nn.Module]:
        """All modules that there are."""
        modules = [found for found in gc.get_objects() if issubclass(type(found), nn.Module)]
        for module in modules if self._is_told else ():
            self._made.put(module, True)
        self._knows_all = self._is_told
        return modules

    def _look(self, modules: List[nn.Module]) -> None:
        self._tops, self._places, self._is_stale = ByIdentity(), ByIdentity(), False
        below = {id(child) for module in modules for child in (vars(module).get("_modules") or {}).values()}
        has_layers = "peft" in sys.modules
        for top in modules:
            if id(top) in below or "_parameters" not in vars(top):
                continue
            self._tops.put(top, True)
            self._put(top.parameters(), weakref.ref(top))
            for layer in top.modules() if has_layers else ():
                if hasattr(type(layer), "adapter_layer_names"):
                    self._put_layer(layer)

    def _put(self, weights: Iterable[nn.Parameter], top: "weakref.ref[nn.Module]") -> None:
        for weight in weights:
            place = self._places.get(weight)
            if place is None:
                self._places.put(weight, ([top], set()))
            else:
                place[0].append(top)

    def _put_layer(self, layer: nn.Module) -> None:
        number = self._layers.get(layer) or next(self._numbers)
        self._layers.put(layer, number)
        for weight in layer.parameters():
            self._places.get(weight)[1].add(number)

    def _registered(self, module: nn.Module, name: str, part: Any) -> None:
        """A module is about to get a parameter or a module."""
        if torch.compiler.is_compiling():
            return
        with self._surviving("modules are not noted"):
            self._note(module, part)
            return
        self._knows_all = False

    def _note(self, module: nn.Module, part: Any) -> None:
        if self._made.get(module) is None:
            self._made.put(module, True)
            # Of one that has something in it at first sight nobody saw what it is a part of.
            inside = (vars(module).get(kind) or {} for kind in ("_modules", "_parameters"))
            self._knows_all &= all(found is None for parts in inside for found in parts.values())
        if isinstance(part, nn.Module):
            if self._made.get(part) is None:
                self._made.put(part, True)
            self._is_stale |= self._tops.get(part) is not None


class Keys:
    """A number for each optimizer, from 1; the same for those that are no turn (turns.py).

    Those share parameters, or train adapters of the same layers: of adapters in turn each step is one adapter's.
    """

    def __init__(self, models: Models) -> None:
        self._models = models
        self._numbers = itertools.count(1)
        self._of_optimizers, self._of_weights = ByIdentity(), ByIdentity()
        self._of_layers: Dict[int, int] = {}

    def of(self, optimizer: Any) -> int:
        """The number of an optimizer."""
        key: int = self._of_optimizers.get(optimizer) or self._found(optimizer)
        return key

    def _found(self, optimizer: Any) -> int:
        weights = weights_of(optimizer)
        layers = self._models.layers_of(weights)
        known = [self._of_weights.get(weight) for weight in weights] + [self._of_layers.get(layer) for layer in layers]
        key = min(filter(None, known), default=0) or next(self._numbers)
        self._of_optimizers.put(optimizer, key)
        for weight in weights:
            self._of_weights.put(weight, self._of_weights.get(weight) or key)
        for layer in layers:
            self._of_layers.setdefault(layer, key)
        return key


def weights_of(optimizer: Any) -> List[Any]:
    """The parameters of an optimizer."""
    return [weight for group in optimizer.param_groups for weight in group["params"]]
