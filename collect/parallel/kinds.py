"""The trainer of each kind of parallelism, loaded when it is asked for."""

from ..settings.spec import RunSpec
from .ranks import Rank
from .sharing import RankTrainer


def trainer(spec: RunSpec, rank: Rank, with_ranges: bool = True) -> RankTrainer:
    """The trainer of this rank. All ranks call this together."""
    from .ddp import DataParallel
    from .fsdp import ShardedParallel
    from .lorapp import LoraPipeline
    from .pp import Pipeline
    from .tp import TensorParallel

    kinds = {"ddp": DataParallel, "fsdp": ShardedParallel, "tp": TensorParallel, "pp": Pipeline, "lorapp": LoraPipeline}
    return kinds[spec.parallel](spec, rank, with_ranges)
