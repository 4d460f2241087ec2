"""What differs between the kinds of adapters: PEFT's configuration, the first weights, the optimizer, the step.

Every kind has the same methods, so that the loop has no `if kind`. Weights follow from the seed and the adapter's name.
"""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import nn

from ...errors import UsageError
from ..batch_lora.layers import lora_layers
from ..instruments.adapter_parts import is_adapted, is_part
from ..instruments.spans import span
from ..settings.presets import HEADS
from ..settings.spec import AdapterSpec, RunSpec

_SMALL = 0.02  # standard deviation of what would start at zero


class LoraKind:
    """LoRA itself, and the base of all others.

    B is not left at zero but drawn small: a first step then has gradients everywhere and no shortcuts.
    """

    options: ClassVar[dict[str, Any]] = {}

    def __init__(self, spec: RunSpec):
        self.spec = spec

    def config(self, adapter: AdapterSpec, targets: Any, task: str, model: nn.Module) -> Any:
        """PEFT's configuration of an adapter."""
        from peft import LoraConfig

        return LoraConfig(**self._of_lora(adapter), target_modules=targets, task_type=task, **self.options)

    def _of_lora(self, adapter: AdapterSpec) -> dict[str, Any]:
        # PEFT says that alpha is an int and divides it
        return {"r": adapter.rank, "lora_alpha": adapter.alpha, "lora_dropout": adapter.dropout}

    @contextmanager
    def seeded(self, adapter: AdapterSpec) -> Iterator[None]:
        """Around PEFT's adding the adapter."""
        yield

    def initialise(self, model: nn.Module, adapter: AdapterSpec) -> None:
        """Draw the weights that PEFT has just made."""
        random = self._random(adapter)
        for layer in lora_layers(model).values():
            if adapter.name not in layer.lora_A:
                continue
            for factor in (layer.lora_A[adapter.name].weight, layer.lora_B[adapter.name].weight):
                _draw(factor, random)

    def _random(self, adapter: AdapterSpec) -> torch.Generator:
        return torch.Generator().manual_seed(self.spec.seed * 1_000_003 + zlib.crc32(adapter.name.encode()) + 1)

    def activated(self, model: nn.Module, adapter: AdapterSpec) -> None:
        """Called when the adapter became the active one: PEFT then lets all of it be trained."""

    def groups(self, named: dict[str, nn.Parameter], learning_rate: float) -> list[dict[str, Any]]:
        """What the optimizer gets of an adapter's parameters."""
        return [{"params": list(named.values())}]

    def optimizer(self, model: nn.Module, adapter: AdapterSpec) -> torch.optim.Optimizer | None:
        """An optimizer of the kind's own; None for that of the run."""
        return None

    def penalty(self, model: nn.Module, adapter: AdapterSpec) -> torch.Tensor | None:
        """What is added to the loss that is trained, not to the one that is reported."""
        return None

    def counted(self, model: Any, total_steps: int) -> None:
        """Called when it is known how many steps a task in epochs has."""

    def stepped(self, model: Any, adapter: AdapterSpec, step: int) -> None:
        """Called behind the optimizer's step, while gradients are there."""

    def flop(self, model: nn.Module, adapter: AdapterSpec) -> tuple[int, int]:
        """FLOP of a token's forward through the adapter: in products with frozen and with trained weights."""
        layers: list[Any] = [m for m in model.modules() if is_adapted(m) and _has(m, adapter.name)]
        counted = [self._flop(layer, layer.in_features, layer.out_features, adapter) for layer in layers]
        return sum(frozen for frozen, _ in counted), sum(trained for _, trained in counted)

    def _flop(self, layer: Any, inputs: int, outputs: int, adapter: AdapterSpec) -> tuple[int, int]:
        """The same of one layer."""
        return 0, 2 * layer.r[adapter.name] * (inputs + outputs)


class _Rslora(LoraKind):
    options: ClassVar[dict[str, Any]] = {"use_rslora": True}


class _Dora(LoraKind):
    options: ClassVar[dict[str, Any]] = {"use_dora": True}

    def _flop(self, layer: Any, inputs: int, outputs: int, adapter: AdapterSpec) -> tuple[int, int]:
        # with dropout the base is multiplied once more, with what was left
        again = 2 * inputs * outputs if adapter.dropout else 0
        return again, 2 * adapter.rank * (inputs + outputs)


class _LoraPlus(LoraKind):
    """B learns faster than A by a ratio."""

    def groups(self, named: dict[str, nn.Parameter], learning_rate: float) -> list[dict[str, Any]]:
        """A and the heads at the learning rate, B and vectors at a multiple, as PEFT's create_loraplus_optimizer."""
        fast = {name for name, parameter in named.items() if "lora_B" in name or parameter.ndim == 1}
        return [
            {"params": [p for name, p in named.items() if name not in fast]},
            {"params": [p for name, p in named.items() if name in fast],
             "lr": learning_rate * self.spec.lora_plus_ratio},
        ]  # fmt: skip


class _LoraFa(LoraKind):
    """A stays as it was drawn, B is trained by PEFT's optimizer for this."""

    def activated(self, model: nn.Module, adapter: AdapterSpec) -> None:
        """Freeze A again."""
        for layer in lora_layers(model).values():
            if adapter.name in layer.lora_A:
                layer.lora_A[adapter.name].requires_grad_(False)

    def optimizer(self, model: nn.Module, adapter: AdapterSpec) -> torch.optim.Optimizer | None:
        """PEFT's own, for this adapter's pairs: its helper takes all parameters of a model and pairs them by place."""
        from peft.optimizers.lorafa import LoraFAOptimizer

        self.activated(model, adapter)
        rows: list[tuple[str, nn.Parameter, float | None]] = []  # names as the optimizer tells pairs by
        for number, layer in enumerate(lora_layers(model).values()):
            if adapter.name in layer.lora_A:
                scaling = float(layer.scaling[adapter.name])
                rows.append((f"{number}.lora_A", layer.lora_A[adapter.name].weight, scaling))
                rows.append((f"{number}.lora_B", layer.lora_B[adapter.name].weight, scaling))
        heads = [p for n, p in model.named_parameters() if f".{adapter.name}." in n and ".lora_" not in n]
        rows += [(f"{number}.head", parameter, None) for number, parameter in enumerate(heads)]
        names, parameters, scalings = (list(column) for column in zip(*rows, strict=True))
        groups: Any = [{"params": parameters, "names": names, "scaling_factors": scalings}]
        made: torch.optim.Optimizer = LoraFAOptimizer(groups, lr=adapter.learning_rate)
        return made

    def _flop(self, layer: Any, inputs: int, outputs: int, adapter: AdapterSpec) -> tuple[int, int]:
        return 2 * adapter.rank * inputs, 2 * adapter.rank * outputs


class _OwnWeights(LoraKind):
    """A kind whose first weights are PEFT's own; what it would leave at zero is drawn small, as B of LoRA."""

    @contextmanager
    def seeded(self, adapter: AdapterSpec) -> Iterator[None]:
        """PEFT draws from torch's random numbers: from here they follow from the adapter alone."""
        with torch.random.fork_rng():
            torch.manual_seed(self._random(adapter).initial_seed())
            yield

    def initialise(self, model: nn.Module, adapter: AdapterSpec) -> None:
        """Draw the parameters that are zero."""
        random = self._random(adapter)
        for name, parameter in model.named_parameters():
            parts = name.split(".")
            if adapter.name in parts and any(map(is_part, parts)) and not parameter.any():
                _draw(parameter, random)


class _Pissa(_OwnWeights):
    """A and B are the largest singular vectors of the base's weight, which keeps the rest."""

    options: ClassVar[dict[str, Any]] = {
        "init_lora_weights": "pissa_niter_16"
    }  # the exact one takes minutes for large layers


class _Olora(_OwnWeights):
    """A and B are from the QR decomposition of the base's weight, which keeps the rest."""

    options: ClassVar[dict[str, Any]] = {"init_lora_weights": "olora"}


class _AdaLora(_OwnWeights):
    """Starts with half as much rank again, and takes it from layers that need it least until --rank is left."""

    def config(self, adapter: AdapterSpec, targets: Any, task: str, model: nn.Module) -> Any:
        """See the base class."""
        from peft import AdaLoraConfig

        spec = self.spec
        return AdaLoraConfig(
            **self._of_lora(adapter), target_r=adapter.rank, target_modules=targets, task_type=task,
            total_step=spec.warmup + spec.steps,  # of epochs nobody knows yet: counted() has them
        )  # fmt: skip

    def _of_lora(self, adapter: AdapterSpec) -> dict[str, Any]:
        first = adapter.rank + (adapter.rank + 1) // 2
        return {"init_r": first, "lora_alpha": adapter.alpha, "lora_dropout": adapter.dropout}

    def penalty(self, model: Any, adapter: AdapterSpec) -> torch.Tensor | None:
        """How far A and B are from orthogonal, as PEFT adds it where the model computes the loss."""
        with span("orthogonality"):
            found = []
            for layer in lora_layers(model).values():
                for factor in (layer.lora_A[adapter.name], layer.lora_B[adapter.name].T):
                    products = factor @ factor.T
                    found.append(torch.norm(products - torch.eye(len(products), device=products.device)))
            penalty: torch.Tensor = model.peft_config[adapter.name].orth_reg_weight * torch.stack(found).mean()
        return penalty

    def counted(self, model: Any, total_steps: int) -> None:
        """Span the schedule of the budget over all steps."""
        for config in model.peft_config.values():
            config.total_step = total_steps

    def stepped(self, model: Any, adapter: AdapterSpec, step: int) -> None:
        """Rank the layers and mask what is over the budget."""
        model.base_model.update_and_allocate(step)


class _Vera(_OwnWeights):
    """One random A and B for all layers and adapters; vectors are trained."""

    def config(self, adapter: AdapterSpec, targets: Any, task: str, model: nn.Module) -> Any:
        """See the base class."""
        from peft import VeraConfig

        return VeraConfig(
            r=adapter.rank, vera_dropout=adapter.dropout, target_modules=targets, task_type=task,
            projection_prng_key=self.spec.seed,
        )  # fmt: skip

    def _flop(self, layer: Any, inputs: int, outputs: int, adapter: AdapterSpec) -> tuple[int, int]:
        return 2 * adapter.rank * (inputs + outputs), 0


class _Ia3(_OwnWeights):
    """A vector scales the outputs of attention's layers and the inputs of the MLP's last."""

    def config(self, adapter: AdapterSpec, targets: Any, task: str, model: nn.Module) -> Any:
        """See the base class."""
        from peft import IA3Config
        from peft.utils.constants import TRANSFORMERS_MODELS_TO_IA3_FEEDFORWARD_MODULES_MAPPING as MLP

        names = targets if isinstance(targets, list) else _linears(model)
        mlp = MLP.get(getattr(getattr(model, "config", None), "model_type", ""), ["down_proj", "lin2"])
        inputs = [name for name in names if any(name == m or name.endswith(f".{m}") for m in mlp)]
        return IA3Config(target_modules=names, feedforward_modules=inputs, task_type=task)

    def _flop(self, layer: Any, inputs: int, outputs: int, adapter: AdapterSpec) -> tuple[int, int]:
        return 0, 0


class _Oft(_OwnWeights):
    """Inputs are rotated in blocks of --rank values."""

    def config(self, adapter: AdapterSpec, targets: Any, task: str, model: nn.Module) -> Any:
        """See the base class."""
        from peft import OFTConfig

        widths = {m.in_features for m in _targeted(model, targets)}
        if uneven := sorted(width for width in widths if width % adapter.rank):
            raise UsageError(f"--adapter-kind oft rotates blocks of --rank values: {uneven[0]} is not a multiple of it")
        return OFTConfig(oft_block_size=adapter.rank, target_modules=targets, task_type=task)

    def _flop(self, layer: Any, inputs: int, outputs: int, adapter: AdapterSpec) -> tuple[int, int]:
        return 0, 2 * inputs * adapter.rank


class _Whole(_OwnWeights):
    """A kind that makes the whole delta, as large as the base's weight, and multiplies with it."""

    def _of_lora(self, adapter: AdapterSpec) -> dict[str, Any]:
        return {"r": adapter.rank, "alpha": adapter.alpha}

    def _flop(self, layer: Any, inputs: int, outputs: int, adapter: AdapterSpec) -> tuple[int, int]:
        return 0, 2 * inputs * outputs


class _Loha(_Whole):
    """The delta is the elementwise product of two low-rank matrices."""

    def config(self, adapter: AdapterSpec, targets: Any, task: str, model: nn.Module) -> Any:
        """See the base class."""
        from peft import LoHaConfig

        return LoHaConfig(**self._of_lora(adapter), target_modules=targets, task_type=task)


class _Lokr(_Whole):
    """The delta is a Kronecker product."""

    def config(self, adapter: AdapterSpec, targets: Any, task: str, model: nn.Module) -> Any:
        """See the base class."""
        from peft import LoKrConfig

        return LoKrConfig(**self._of_lora(adapter), target_modules=targets, task_type=task)


_KINDS: dict[str, type[LoraKind]] = {
    "lora": LoraKind, "rslora": _Rslora, "dora": _Dora, "lora-plus": _LoraPlus, "lora-fa": _LoraFa, "pissa": _Pissa,
    "olora": _Olora, "adalora": _AdaLora, "vera": _Vera, "ia3": _Ia3, "oft": _Oft, "loha": _Loha, "lokr": _Lokr,
}  # fmt: skip


def kind_of(spec: RunSpec) -> LoraKind:
    """What a run's adapters are."""
    return _KINDS[spec.adapter_kind](spec)


def _has(layer: Any, adapter: str) -> bool:
    return any(adapter in getattr(layer, name, ()) for name in layer.adapter_layer_names)


def _draw(parameter: torch.Tensor, random: torch.Generator) -> None:
    drawn = torch.randn(parameter.shape, generator=random) * _SMALL
    with torch.no_grad():
        parameter.copy_(drawn)


def _linears(model: nn.Module) -> list[str]:
    """Layers by their last name, heads left out, as PEFT's all-linear."""
    names = (n.rsplit(".", 1)[-1] for n, m in model.named_modules() if hasattr(m, "in_features"))
    return list(dict.fromkeys(name for name in names if name not in HEADS))


def _targeted(model: nn.Module, targets: Any) -> list[Any]:
    names = targets if isinstance(targets, list) else _linears(model)
    return [
        module
        for path, module in model.named_modules()
        if hasattr(module, "in_features") and any(path == name or path.endswith(f".{name}") for name in names)
    ]
