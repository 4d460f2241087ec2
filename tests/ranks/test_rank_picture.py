"""The picture of ranks and steps in the answer: for whom the others waited, and when."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lorabench.reports.answer import rank_picture
from rich.cells import cell_len
from simulated_ranks import Job, simulate


@pytest.mark.slow
def test_a_picture_of_ranks_and_steps_shows_for_whom_others_waited(
    tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    simulate(Job(ranks=10, steps=8, idle={(3, 2): 10_000_000, (6, 7): 50_000_000})).write(tmp_path / "job")
    said = run_command("summary", tmp_path / "job").out.splitlines()
    (heading,) = (number for number, line in enumerate(said) if line.startswith("others waited for 8 of 10 ranks"))
    shown = dict(line.removeprefix("  rank ").split("  ") for line in said[heading + 1 : heading + 9])
    assert said[heading].endswith(" less)") and ", steps 0 to 7 (█ from " in said[heading]
    # before all have met, clocks of two machines do not say who was late by little
    assert (shown["3"], shown["6"]) == (" ·░·····", " ······█")
    assert {row for rank, row in shown.items() if rank not in ("3", "6")} == {" ·······"}
    found = json.loads(run_command("summary", tmp_path / "job", "--json").out)["rank_steps"]
    waited = dict(zip(found["ranks"], found["kept_waiting_ns"], strict=True))
    assert waited[6][7] == max(ns or 0 for row in waited.values() for ns in row) > 100_000_000
    assert all(row[0] is None for row in waited.values())
    assert (found["rank_cnt"], found["step_cnt"], found["steps"]) == (10, 8, [*range(8)])


@pytest.mark.parametrize("job", [Job(ranks=4), Job(ranks=4, steps=1, idle={(1, 0): 10_000_000})])
@pytest.mark.slow
def test_there_is_no_picture_where_nobody_is_late_or_of_a_single_step(
    job: Job, tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    simulate(job).write(tmp_path / "job")
    assert "others waited for" not in run_command("summary", tmp_path / "job").out


@given(
    known=st.dictionaries(
        st.tuples(st.integers(0, 12), st.integers(0, 90)), st.none() | st.integers(0, 10**12), min_size=1, max_size=200
    )
)
def test_the_picture_keeps_to_the_screen_and_has_the_largest(known: dict[tuple[int, int], int | None]) -> None:
    rows = [
        {"rank": rank, "step": step, "kept_waiting_ns": ns, "is_straggler": rank == 3}
        for (rank, step), ns in known.items()
    ]
    found = rank_picture.picture(rows)
    if found is None:
        assert len({step for _, step in known}) < 2 or not any(known.values())
        return
    lines = list(rank_picture.lines(found))
    is_complete = all(known.get((rank, step)) is not None for rank in found["ranks"] for step in found["steps"])
    assert (lines[-1] == "  (blank: not known, or no such step)") == (not is_complete)
    assert len(lines) <= (9 if is_complete else 10) and all(cell_len(line) <= 80 for line in lines)
    assert sum(line.count("█") for line in lines[1:]) >= 1
    assert max(ns or 0 for row in found["kept_waiting_ns"] for ns in row) == max(ns or 0 for ns in known.values())


def test_a_straggler_is_seen_beside_a_much_later_one_and_steps_that_are_not_there_are_none() -> None:
    waited = {(0, 1): 0, (1, 1): 400, (0, 2): 100_000, (1, 2): 400, (0, 5): 0, (1, 5): 400}
    found = rank_picture.picture(
        [{"rank": r, "step": s, "kept_waiting_ns": ns, "is_straggler": ns > 0} for (r, s), ns in waited.items()]
    )
    assert found is not None
    heading, first, second = rank_picture.lines(found)
    assert heading.startswith("others waited for ranks 0 to 1, 3 steps (1 to 5) (█ from ")
    assert (first, second) == ("  rank 0  ·█·", "  rank 1  ░░░")


@pytest.mark.slow
def test_the_answer_has_collectives_by_bus_bandwidth(tmp_path: Path, run_command: Callable[..., Any]) -> None:
    """Links carry 50 GB/s: an all-reduce of 4 ranks moves 3/2 of its bytes, a gather of 2 half of what it puts out."""
    simulate(Job(ranks=4, ranks_per_host=2, steps=3)).write(tmp_path / "job")
    said = run_command("summary", tmp_path / "job").out.splitlines()
    found = json.loads(run_command("summary", tmp_path / "job", "--json").out)["collectives"]
    assert [(row["operation"], row["member_cnt"], row["collective_cnt"], row["mean_bytes"]) for row in found] == [
        ("all_gather", 2, 6, 2 << 20), ("all_reduce", 4, 3, 16 << 20),
    ]  # fmt: skip
    assert [row["busbw_bytes_s"] for row in found] == pytest.approx([50e9, 75e9], rel=0.06)
    heading = said.index("collectives, the slowest first" + " " * 24 + "bus bandwidth (nccl-tests)")
    assert said[heading + 1].startswith("  all_gather (tp) of 2 ranks, 6 of 2 MiB  ") and said[heading + 1].endswith(
        " GB/s"
    )
    assert said[heading + 2].startswith("  all_reduce (dp) of 4 ranks, 3 of 16 MiB  ")
    assert all(len(line) == 80 for line in said[heading : heading + 3])


@pytest.mark.slow
def test_a_slow_link_is_that_of_the_ranks_that_have_it(tmp_path: Path, run_command: Callable[..., Any]) -> None:
    """The pairs of one machine gather five times as slowly as those of the other: their mean is the speed of none."""
    simulate(Job(ranks=4, ranks_per_host=2, steps=3, slow_link=1)).write(tmp_path / "job")
    said = run_command("summary", tmp_path / "job").out.splitlines()
    (found, _) = json.loads(run_command("summary", tmp_path / "job", "--json").out)["collectives"]
    assert (found["group_cnt"], found["slowest_ranks"]) == (2, "[2, 3]")
    assert [found["slowest_bytes_s"], found["fastest_bytes_s"]] == pytest.approx([10e9, 50e9], rel=0.06)
    place = next(number for number, line in enumerate(said) if line.startswith("  all_gather (tp)"))
    assert " to " in said[place] and said[place + 1] == "    the slowest of 2 groups: ranks 2, 3"
