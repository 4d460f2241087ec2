"""Callbacks that profile a training of a framework and leave a run directory, as lorabench.profile() does.

TrainerCallback     transformers.Trainer and what is made of it: TRL's trainers, Unsloth
LightningCallback   Lightning (lightning or pytorch_lightning)

The classes are made when they are asked for: importing this module loads no framework.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    TrainerCallback: Any
    LightningCallback: Any

__all__ = ["LightningCallback", "TrainerCallback"]

_made: dict[str, Any] = {}


def __getattr__(name: str) -> Any:
    """The classes, whose bases take time to load."""
    makers = {"TrainerCallback": _trainer_callback, "LightningCallback": _lightning_callback}
    if name not in makers:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name not in _made:
        _made[name] = makers[name]()
    return _made[name]


class _Recording:
    """What both callbacks share: a profile that is open while a training runs, and a range for each step."""

    def __init__(self, path: Any = "run", **settings: Any):
        self._path, self._settings = path, settings
        self._profile: Any = None
        self._step: Any = None

    def _begin(self, model: Any) -> None:
        from .collect.scripts.inside import Profiling

        self._profile = Profiling(Path(self._path), model=model, **self._settings).__enter__()

    def _begin_step(self, number: int) -> None:
        if self._profile.is_aside:  # the hook of `lorabench collect` names steps, and ranges of modules with them
            return
        from .collect.instruments.spans import span

        self._step = span("step", number)
        self._step.__enter__()

    def _end_step(self) -> None:
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None
            self._profile.step()

    def _end(self, error: str | None = None) -> None:
        if self._profile is not None:
            self._profile.close(error)


def _trainer_callback() -> Any:
    from transformers import TrainerCallback as Base

    class TrainerCallback(_Recording, Base):
        """Trainer(…, callbacks=[lorabench.integrations.TrainerCallback("run", schedule=…)])."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **known: Any) -> None:
            """Open the profile."""
            self._begin(known.get("model"))

        def on_step_begin(self, args: Any, state: Any, control: Any, **known: Any) -> None:
            """Open the range of a step."""
            self._begin_step(state.global_step)

        def on_step_end(self, args: Any, state: Any, control: Any, **known: Any) -> None:
            """Close it."""
            self._end_step()

        def on_train_end(self, args: Any, state: Any, control: Any, **known: Any) -> None:
            """Write the run directory."""
            self._end()

    return TrainerCallback


def _lightning_callback() -> Any:
    try:
        from lightning.pytorch.callbacks import Callback as Base
    except ImportError:
        from pytorch_lightning.callbacks import Callback as Base

    class LightningCallback(_Recording, Base):  # type: ignore[misc]
        """Trainer(…, callbacks=[lorabench.integrations.LightningCallback("run", schedule=…)])."""

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            """Open the profile."""
            self._begin(pl_module)

        def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
            """Open the range of a step."""
            self._begin_step(batch_idx)

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            """Close it."""
            self._end_step()

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            """Write the run directory."""
            self._end()

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            """Write it as failed."""
            self._end(f"{type(exception).__name__}: {exception}")

    return LightningCallback
