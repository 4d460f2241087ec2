"""How long steps would take if ranks were alike: jobs whose truth is known, and where nothing can be said."""

import csv
import io
from collections.abc import Callable
from itertools import pairwise, repeat
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
import simulated_pipeline
from conftest import dear
from hypothesis import given
from hypothesis import strategies as st
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.ranks.plans import BLOCK, BORDER, LAUNCH, Milestone, replay
from simulated_ranks import Job, Run, simulate

ASKED = (
    "select rank, avg(measured_ns), avg(replayed_ns), avg(ideal_ns), 1 + avg(slower_frac), 1 + avg(alone_slower_frac), "
    "any_value(reason) from without_stragglers where step > 0 group by rank order by rank"
)


def answer(run: Run, folder: Path, ranks: Any = None) -> list[tuple[Any, ...]]:
    with analyze(run.write(folder / "traces", ranks), folder / "x.duckdb") as database:
        return database.rows(ASKED)


def true_step(job: Job) -> float:
    """The mean step of a job that was simulated, from the end of the first step on."""
    events = simulate(job).events[0]
    ends = [e["ts"] + e["dur"] for e in events if e["name"].startswith("step ")]
    return 1000 * mean(later - sooner for sooner, later in pairwise(ends))


def true_length(job: Job) -> float:
    """How long all steps of a job that was simulated take, the mean of the ranks."""
    steps = [[e for e in events if e["name"].startswith("step ")] for events in simulate(job).events]
    return mean(of[-1]["ts"] + of[-1]["dur"] - of[0]["ts"] for of in steps)


@pytest.mark.slow
def test_a_rank_that_was_slowed_on_purpose_costs_what_it_costs(tmp_path: Path) -> None:
    """Rank 5 sleeps 3 ms in each step: if ranks were alike each would sleep an eighth of that. Clocks are wrong."""
    common = {"ranks": 8, "steps": 4, "compute": 500_000, "offsets": (0, 70_000_000)}
    run = simulate(Job(idle={(5, step): 3_000_000 for step in range(4)}, **common))
    base = true_step(Job(**common))
    rows = answer(run, tmp_path)
    assert [row[0] for row in rows] == list(range(8))
    for rank, measured, replayed, ideal, slowdown, alone, reason in rows:
        assert reason is None
        assert replayed == pytest.approx(measured, rel=0.002) == pytest.approx(base + 3_000_000, rel=0.02)
        assert ideal == pytest.approx(base + 3_000_000 / 8, rel=0.02)
        assert slowdown == pytest.approx((base + 3e6) / (base + 3e6 / 8), rel=0.02)
        assert alone == pytest.approx(slowdown if rank == 5 else 1, rel=0.02)


@pytest.mark.slow
def test_of_a_step_whose_collectives_are_not_matched_its_length_alone_is_known(tmp_path: Path) -> None:
    """What ranks wait in it would count as their own work, with no transfer to take away."""
    paths = simulate(Job(ranks=4, steps=6, uneven=(2, 3))).write(tmp_path / "traces")
    with analyze(paths, tmp_path / "x.duckdb") as database:
        rows = database.rows(
            "select step, any_value(reason), count(replayed_ns), count(ideal_ns), avg(without_transfer_ns) "
            "from without_stragglers where step > 0 group by step order by step"
        )
        ((saving, note),) = database.rows("select distinct saving_frac, note from _hidden_communication")
    assert rows.pop(2) == (3, "collectives are not matched", 4, 0, None)
    assert all(row[1:4] == (None, 4, 4) for row in rows)
    assert max(row[4] for row in rows) < 1.02 * min(row[4] for row in rows)
    assert 0 < saving < 0.2 and note.startswith("collectives take no time")


@pytest.mark.slow
def test_the_rank_that_saves_most_is_shown_and_can_be_asked_for(
    tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    job = tmp_path / "job"
    simulate(Job(ranks=8, steps=4, idle={(5, 2): 9_000_000, (5, 3): 9_000_000})).write(job)
    said = run_command("what-if", job).out
    assert said.index("rank 0:") < said.index("rank 5:") and "choose one with --rank" in said.splitlines()[-1]
    rows = list(csv.DictReader(io.StringIO(run_command("what-if", job, "--rank", 5, "--csv").out)))
    assert len(rows) > 1 and {row["rank"] for row in rows} == {"5"}
    assert "--rank 9: the ranks here are 0, 1, 2" in run_command("what-if", job, "--rank", 9, code=2).err


@pytest.mark.slow
def test_equal_ranks_are_not_slowed(tmp_path: Path) -> None:
    for _, measured, replayed, _, slowdown, alone, _ in answer(simulate(Job(ranks=4, steps=3)), tmp_path):
        assert replayed == pytest.approx(measured, rel=0.002)
        assert 1 <= slowdown < 1.02 and 0.99 < alone < 1.02


@pytest.mark.slow
def test_communication_that_takes_no_time_saves_its_transfers_and_no_waiting(
    tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    """Links a thousand times as fast are next to that; who sleeps is still waited for. One rank alone does not know."""
    common = {"ranks": 4, "ranks_per_host": 2, "steps": 6, "compute": 200_000, "idle": {(3, 2): 5_000_000}}
    run = simulate(Job(**common))
    paths = run.write(tmp_path / "traces")
    ask = "select saving_frac, step_ns, saving_ns from what_if where change = 'hide-communication=*' order by source_id"
    with analyze(paths, tmp_path / "x.duckdb") as database:
        rows = database.rows(ask)
    length = {speed: true_length(Job(speed=speed, **common)) for speed in (50.0, 50_000.0)}
    assert [row[0] for row in rows] == [pytest.approx(1 - length[50_000.0] / length[50.0], rel=0.02)] * 4
    with analyze(paths[:1], tmp_path / "one.duckdb") as database:
        assert database.rows(ask) == [(None, None, None)]
    run_command("analyze", *paths, "-o", f"{tmp_path / 'job'}/", "--workers", 1, "--quiet")
    found = run_command("query", tmp_path / "job", ask, "--csv").out.splitlines()[1:]
    assert [tuple(map(float, line.split(","))) for line in found] == [pytest.approx(row) for row in rows]


@pytest.mark.slow
def test_a_slow_link_is_what_its_ranks_cost(tmp_path: Path) -> None:
    """The gathers of ranks 2 and 3 take five times as long as those of the others: 84 us more in each step."""
    common = {"ranks": 8, "ranks_per_host": 2, "steps": 4, "compute": 50_000}
    rows = answer(simulate(Job(slow_link=1, **common)), tmp_path)
    more = 4 * (1 << 20) / 50
    for rank, _, replayed, ideal, _, alone, _ in rows:
        assert replayed - ideal == pytest.approx(more, rel=0.08)
        assert (alone - 1) * ideal == pytest.approx(more if rank in (2, 3) else 0, abs=0.08 * more)


@pytest.mark.slow
def test_nothing_is_said_where_it_cannot_be_known(tmp_path: Path) -> None:
    rows = answer(simulate(Job(ranks=4, steps=2)), tmp_path / "missing", [0, 1, 3])
    assert {row[3:] for row in rows} == {(None, None, None, "collectives are not matched")}
    paths = simulated_pipeline.write(simulated_pipeline.Pipeline(2, 2), tmp_path / "stages")
    with analyze(paths, tmp_path / "x.duckdb") as database:
        assert database.rows(ASKED) == []  # sends are no collectives
    with analyze(paths[:1], tmp_path / "y.duckdb") as database:
        assert database.rows(ASKED) == []


def test_a_replay_by_hand() -> None:
    """Rank 1 comes at 30, the collective takes 5: rank 0, which needs it at 20, goes on at 35 and has 10 to do."""
    first = [Milestone(10, LAUNCH, 0), Milestone(20, BLOCK, 0), Milestone(30, BORDER, 0)]
    second = [Milestone(30, LAUNCH, 0), Milestone(50, BLOCK, 0), Milestone(50, BORDER, 0)]
    assert replay([first, second], [[7], [7]], {7: 2}, {7: 5}) == [[45], [50]]
    assert replay([first, first], [[7], [8]], {7: 2, 8: 2}, {7: 5, 8: 5}) is None


@dear(2, long=10)
@given(data=st.data())
@pytest.mark.slow
def test_steps_are_as_long_as_without_the_ranks_that_are_late(data: Any, tmp_path_factory: Any) -> None:
    """In each step up to two of four ranks sleep about as long: all are named, and share what others wait."""
    steps = range(1, 4)
    late = {step: data.draw(st.sets(st.integers(0, 3), max_size=2)) for step in steps}
    sleeps = {(rank, step): 3_000_000 + 20_000 * rank for step in steps for rank in late[step]}
    common = {"ranks": 4, "ranks_per_host": 4, "steps": 4, "compute": 500_000}
    run = simulate(Job(idle=sleeps, **common))
    with analyze(run.write(tmp_path_factory.mktemp("job")), tmp_path_factory.mktemp("database") / "x") as database:
        named = database.rows("select rank, step from straggler where is_straggler and late_ns > 1e6")
        steps_ns = database.rows("select distinct step, replayed_ns, without_ns from without_stragglers where step > 0")
        ((asked, saved, shared, waited),) = database.rows(
            "select count(*), coalesce(sum(saving_ns), 0), "
            "(select sum(kept_waiting_ns) from straggler where late_ns > 1e6), "
            "(select sum(wait_ns) from collective_skew where wait_ns > 1e6) from _finding where rule = 'straggler_rank'"
        )
        sending = database.rows(
            "select sum(saving_ns) from _finding where rule = 'exposed_communication' group by source_id"
        )
    assert set(named) == set(sleeps)
    for step, replayed, without in steps_ns:
        longest = max((sleeps[rank, step] for rank in late[step]), default=0)
        assert replayed - without == pytest.approx(longest, abs=60_000)
    if sleeps:
        assert saved == pytest.approx(
            sum(max(map(sleeps.get, zip(late[s], repeat(s)))) for s in steps if late[s]), rel=0.05
        )
        assert shared == pytest.approx(waited, rel=0.05) and asked
    transfers = 4 * ((1 << 20) + (1 << 24)) / 50
    assert all(transfers < saving < 1.1 * transfers for (saving,) in sending)


@pytest.mark.parametrize("late", [True, False])
@pytest.mark.slow
def test_the_answer_names_what_stragglers_cost(late: bool, tmp_path: Path, run_command: Callable[..., Any]) -> None:
    idle = {(2, step): 4_000_000 for step in range(3)} if late else {}
    simulate(Job(ranks=4, steps=3, idle=idle)).write(tmp_path / "job")
    said = run_command("summary", tmp_path / "job").out
    assert ("1 straggler rank: rank 2" in said) is late
    assert "late input: step/load batch" not in said
    assert "if ranks were alike" not in said


@pytest.mark.slow
def test_the_answer_of_the_straggler_says_once_what_makes_it_late(
    tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    simulate(Job(ranks=4, steps=3, idle={(0, step): 4_000_000 for step in range(3)})).write(tmp_path / "job")
    said = run_command("summary", tmp_path / "job").out
    assert "1 late input: step/load batch" in said
    assert "straggler rank" not in said
    assert "rank 0 holds the others up: late in all 3 steps" in said
