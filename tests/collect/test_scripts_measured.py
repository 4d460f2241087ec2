"""What is made of the steps of a script: which are usual, what they wait for, how they differ."""

import json
from pathlib import Path
from typing import Any

import pytest
from lorabench import rundir
from lorabench.collect.scripts import measured
from lorabench.collect.scripts.gathered import Step
from lorabench.reports.run import outcome_text

MS = 1_000_000


def step(batch_cnt: int, wall_ms: float, unlearned_cnt: int = 0, waited_ms: float | None = None) -> Step:
    waited = round((30 * batch_cnt if waited_ms is None else waited_ms) * MS)
    return Step(
        0, round(wall_ms * MS), 0, waited, batch_cnt, backward_cnt=1, optimizer_cnt=1, unlearned_cnt=unlearned_cnt
    )


def summary(steps: list[Step]) -> dict[str, Any]:
    """What a timing pass with these steps, behind a first one, leaves."""

    class Passed:
        turn = 1

        def trained(self) -> Any:
            return [({"rank": None}, [step(1, 1), *steps])]

    found = measured.of_pass(Passed())  # type: ignore[arg-type]
    assert found
    return measured.summarise(["train"], {"timing": found}, {})


AHEAD = [step(3, 100), step(2, 68), step(1, 36)] * 6  # of epochs of three steps, by a loader that is one batch ahead
EVALUATED = [*[step(1, 40)] * 5, step(13, 500, unlearned_cnt=12)] * 3
WITH_REFERENCE = [*[step(1, 40, unlearned_cnt=2)] * 5, step(2, 70, unlearned_cnt=2)] * 3


@pytest.mark.parametrize(
    ("steps", "usual_ms", "batch_cnt"),
    [(AHEAD, 68, 2), (EVALUATED, 40, 1), (WITH_REFERENCE, 45, 7 / 6)],
    ids=["ahead", "evaluated", "with a reference"],
)
def test_steps_that_take_more_batches_evaluate_where_forwards_were_seen_that_nothing_learns_from(
    steps: list[Step], usual_ms: float, batch_cnt: float
) -> None:
    loader = summary(steps)["loader"]
    assert (loader["step_ns"], loader["batch_cnt"]) == (pytest.approx(usual_ms * MS), pytest.approx(batch_cnt))


UNLIKE = (
    "steps take unlike numbers of batches: those of 1 take 36.0 ms, those of 2 take 68.0 ms, those of 3 take 100.0 ms; "
    "their median says little"
)


WALLS = {3: (70, 100, 130), 2: (50, 68, 86), 1: (28, 36, 44)}  # of a machine that is busy, too
NOISY = [step(count, walls[number % 3]) for number in range(6) for count, walls in WALLS.items()]
BUSY = [step(2, wall) for wall in (36, 68, 100) * 6]
BUSIER = [step(1 + number % 2, wall) for number in range(6) for wall in (36, 68, 100)]


@pytest.mark.parametrize(
    ("steps", "says"),
    [(AHEAD, UNLIKE), (NOISY, UNLIKE), (BUSY, "Collect again"), (BUSIER, "Collect again")],
    ids=["ahead", "noisy", "busy", "busier"],
)
def test_steps_that_differ_by_the_batches_they_take_are_not_advised_to_be_collected_again(
    steps: list[Step], says: str, tmp_path: Path
) -> None:
    rows = [f"timing,{number},,0,{one.wall_ns},,,," for number, one in enumerate(steps, 2)]
    (tmp_path / rundir.STEPS).write_text("\n".join([",".join(measured._COLUMNS), *rows]), "utf-8")
    (tmp_path / rundir.MANIFEST).write_text(json.dumps({"format": 1, "status": "ok", "passes": {}}), "utf-8")
    said = [*outcome_text.costs(tmp_path, json.loads(json.dumps(summary(steps))))]
    assert len(said) == 1 and said[0].endswith(says)
