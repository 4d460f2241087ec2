"""What is predicted of a run against the run with the change made: a GPU whose rules are written down runs both."""

from collections.abc import Callable
from pathlib import Path

import pytest
import writers
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.predict.predictions import what_if
from simulated_gpu import Pair, pairs

WRITE: dict[str, Callable[..., None]] = {"sqlite": writers.write_nsys, "json": writers.write_kineto}


PAIRS = [(pair, "sqlite") for pair in pairs()] + [(pair, "json") for pair in pairs() if "launch-bound" in pair.name]


@pytest.mark.parametrize(("pair", "suffix"), PAIRS, ids=[f"{p.name.replace(' ', '-')}-{suffix}" for p, suffix in PAIRS])
def test_a_change_saves_what_is_predicted(pair: Pair, suffix: str, tmp_path: Path) -> None:
    before, after = pair.runs()
    trace = tmp_path / f"before.{suffix}"
    WRITE[suffix](trace, [before.timeline])
    with analyze([trace], tmp_path / "before.duckdb") as database:
        (row,) = what_if(database, [pair.change]).to_dicts()
    steps = pair.before.steps
    predicted = row["step_ns"] * steps
    assert predicted == pytest.approx(after.timeline.end - 1_000_000, rel=0.02)
    assert (row["step_ns"] + row["saving_ns"]) * steps == pytest.approx(before.timeline.end - 1_000_000, rel=0.001)
    assert row["replay_error_frac"] == 0
