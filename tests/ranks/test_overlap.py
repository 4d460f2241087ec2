"""Ranks whose collectives run beside what they compute: who holds others up, why, and what it costs."""

import csv
import io
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import dear, opened, quick
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.store.database import Database
from simulated_overlap import Job, Run

FAULTS = ("slow", "late", "saves", "between", "copies", "links", "moved")


def analyzed(job: Job, folder: Path) -> Database:
    return analyze([Run(job).write(folder / "job")], folder / "x.duckdb")


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The database of a job of NAMED, made once."""
    folder = tmp_path_factory.mktemp("named")

    def get(name: str) -> Path:
        path = folder / name / "x.duckdb"
        if not path.exists():
            analyzed(NAMED[name][0], path.parent).close()
        return path

    return get


def cost_us(job: Job) -> float:
    """What a job takes longer than without its faults; slow kernels are shared by all ranks, and none is slow."""
    ranks = range(job.ranks)
    shared = {
        (rank, step): statistics.fmean(job.slow.get((n, step), job.slow.get(n, 1.0)) for n in ranks)
        for step in range(job.steps) for rank in ranks
    }  # fmt: skip
    sound: dict[str, Any] = {name: {} for name in FAULTS} | ({"slow": shared} if job.slow else {})
    sound["between"] = dict.fromkeys(job.between, 0)  # the barrier stays
    return Run(job).length - Run(replace(job, **sound)).length


def told(database: Database) -> tuple[dict[int, str | None], float]:
    """The ranks that findings name with the cause of most of their lateness, and what they save together, in us."""
    causes = dict(database.rows("select rank, cause from _straggler_cause join source using (source_id)"))
    rows = database.rows(
        "select source.rank, saving_ns from finding join source using (source_id) where rule = 'straggler_rank'"
    )
    return {rank: causes[rank] for rank, _ in rows}, sum(saving for _, saving in rows) / 1000


NAMED = {
    "late": (Job(layers=12, buckets=6, late={3: 1500}), {3: "idle: late_input"}),
    "late in many buckets": (Job(layers=12, buckets=12, late={3: 3000}), {3: "idle: late_input"}),
    "late once": (Job(late={(1, 2): 6000, (1, 4): 6000}), {1: "idle: late_input"}),
    "late in turn": (
        Job(late={(step % 4, step): 5000 for step in range(8)}, steps=8), dict.fromkeys(range(4), "idle: late_input"),
    ),
    "saves": (
        Job(ranks=3, layers=6, buckets=3, saves={(2, 2): 12000, (2, 5): 12000}, steps=9), {2: "idle: long_idle_gap"},
    ),
    "copies": (Job(copies={1: 3000}), {1: "copies"}),
    "slow": (Job(slow={2: 1.3}), {2: "compute"}),
    "two slow": (Job(slow={1: 1.3, 2: 1.3}), {1: "compute", 2: "compute"}),
    "ahead": (Job(slow={2: 1.3}, syncs=False, steps=12), {2: "compute"}),
    # the CPU of the late rank ends a step before its device comes to most of the collectives of it
    "late, ahead": (Job(buckets=4, launch=300, late={2: 6000}, syncs=False, steps=36), {2: "idle: late_input"}),
    # whose backward goes on when its last all-reduce has ended, is never kept itself
    "slow, hides its own": (Job(slow={1: 1.5}, behind=600), {1: "compute"}),
    "slow in turn, hides its own": (
        Job(slow={(step % 4, step): 1.5 for step in range(8)}, behind=600, steps=8), dict.fromkeys(range(4), "compute"),
    ),
    "two slow, hide their own": (Job(slow={1: 1.5, 2: 1.5}, behind=600), {1: "compute", 2: "compute"}),
    "two ranks, slow in turn": (
        Job(ranks=2, slow={(step % 2, step): 1.5 for step in range(8)}, behind=600, steps=8),
        dict.fromkeys(range(2), "compute"),
    ),
    "tp": (Job(ranks=8, tp=2, layers=8, buckets=8, late={5: 3000}), {5: "idle: late_input"}),
    "links": (Job(tp=2, links={2: 10}), {2: "exposed communication", 3: "exposed communication"}),
    "sharded, late": (Job(is_sharded=True, late={1: 3000}), {1: "idle: late_input"}),
    "sharded, slow": (Job(is_sharded=True, slow={2: 1.25}, layers=6), {2: "compute"}),
    "between": (Job(between={(0, 2): 8000, (0, 4): 8000, 9: 0}, steps=8), {0: "idle: synchronisation"}),
    "clocks": (
        Job(slow={2: 1.3}, hosts={n: n for n in range(4)}, ahead={1: 5000, 2: -5000, 3: 12000}, steps=24),
        {2: "compute"},
    ),
}  # fmt: skip


# that differ in kind: a rank, one after another, before the optimizer, at the begin of a step, on the GPU, ahead of it
ALWAYS = ("late", "late in turn", "saves", "copies", "two slow", "late, ahead", "slow in turn, hides its own")


@pytest.mark.parametrize("name", quick(len(ALWAYS), sorted(NAMED, key=lambda name: name not in ALWAYS)))
@pytest.mark.slow
def test_who_is_late_is_named_with_its_cause_and_what_it_costs(name: str, named: Callable[[str], Path]) -> None:
    job, expected = NAMED[name]
    with opened(named(name)) as database:
        causes, saving_us = told(database)
        waited = database.rows("select sum(kept_waiting_ns) / 1000 from straggler where is_straggler")[0][0]
    assert causes == expected
    cost = cost_us(job)
    assert saving_us == pytest.approx(cost, rel=0.02 if name != "clocks" else 0.1)  # before they meet nobody knows
    assert 0 < waited <= 1.05 * job.ranks * (Run(job).length - Run(replace(job, **{f: {} for f in FAULTS})).length)


@pytest.mark.parametrize(
    "job",
    quick(1, [
        Job(),
        Job(buckets=1, behind=4000, moved={2: 2000}, transfer=200),  # nobody waits: all compute meanwhile
        Job(late={(3, 5): 30_000}, syncs=False, steps=12, kernel=2000, launch=10),  # the device has enough to do
    ]),
)  # fmt: skip
@pytest.mark.slow
def test_nobody_is_named_where_nothing_is_lost(job: Job, tmp_path: Path) -> None:
    with analyzed(job, tmp_path) as database:
        assert told(database) == ({}, 0)
        assert database.rows("select count(*) from straggler where is_straggler") == [(0,)]


@pytest.mark.slow
def test_a_network_that_is_slow_for_a_while_makes_no_rank_unlike_the_others(
    tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    job = Job(network={3: 20})
    with analyzed(job, tmp_path) as database:
        assert told(database) == ({}, 0)
        ((slower,),) = database.rows("select max(slower_frac) from without_stragglers")
    assert slower < 0.02
    assert Run(job).length > 1.2 * Run(replace(job, network={})).length
    assert "if ranks were alike" not in run_command("summary", tmp_path / "job").out


@dear(2, long=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.slow
def test_of_any_job_the_one_rank_that_is_late_is_named_and_no_other(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    layers = data.draw(st.integers(2, 8), "layers")
    job = Job(
        ranks=2 * data.draw(st.integers(1, 3), "pairs"), tp=data.draw(st.sampled_from([0, 2]), "tp"), layers=layers,
        buckets=data.draw(st.integers(1, layers)), transfer=data.draw(st.sampled_from([50, 300]), "transfer"),
        syncs=data.draw(st.booleans(), "syncs"), seed=data.draw(st.integers(0, 99), "seed"), steps=5, launch=10,
    )  # fmt: skip
    who = data.draw(st.integers(0, job.ranks - 1), "who")
    job = replace(job, copies={who: data.draw(st.integers(1000, 8000), "longer")})
    with analyzed(job, tmp_path_factory.mktemp("job")) as database:
        causes, saving_us = told(database)
    assert causes == {who: "copies"}
    assert saving_us == pytest.approx(cost_us(job), rel=0.05)


@pytest.mark.slow
def test_one_collective_that_is_not_matched_does_not_keep_the_others_from_being_compared(tmp_path: Path) -> None:
    job = Job(layers=12, buckets=12, slow={2: 1.05}, steps_of={3: 5})
    with analyzed(job, tmp_path) as database:
        _, saving_us = told(database)
        assert database.rows("select distinct reason from without_stragglers") == [(None,)]
    assert saving_us < 1.2 * cost_us(job)


@pytest.mark.slow
def test_of_ranks_that_are_replayed_one_by_one_the_one_is_named_that_sets_the_pace(
    tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    """Faster kernels shorten the waits of the other ranks, too, which a replay of one of these does not know."""
    job = Job(slow={1: 1.5})
    folder = Run(job).write(tmp_path / "job")
    asked = ["what-if", folder, "--change", "scale=matmul:0.5"]
    said = " ".join(run_command(*asked).out.split())
    assert "the others wait for rank 1, so the job saves at most about what rank 1 does" in said
    rows = list(csv.DictReader(io.StringIO(run_command(*asked, "--csv").out)))
    saved = {int(row["rank"]): float(row["saving_frac"]) for row in rows}
    truth = 1 - Run(replace(job, kernel=job.kernel / 2)).length / Run(job).length
    assert saved[1] == pytest.approx(truth, rel=0.02) and all(saved[rank] < 0.9 * truth for rank in (0, 2, 3))
    assert "ranks of one job" not in run_command("what-if", folder / "rank1.json").out
    Run(NAMED["late in turn"][0]).write(tmp_path / "turn")
    said = " ".join(run_command("what-if", tmp_path / "turn").out.split())
    assert "each replayed by itself" in said and "the job is as fast as its slowest rank" in said


@pytest.mark.slow
def test_a_job_folder_says_what_the_traces_say(tmp_path: Path, run_command: Callable[..., Any]) -> None:
    folder = Run(Job(ranks=4, tp=2, late={(1, 2): 6000})).write(tmp_path / "traces")
    run_command("analyze", folder, "-o", f"{tmp_path / 'job'}/", "--workers", 1, "--quiet")
    assert run_command("summary", tmp_path / "job", "--json").out == run_command("summary", folder, "--json").out


@pytest.mark.slow
def test_who_copies_more_than_the_others_is_not_told_that_its_links_are_slow(named: Callable[[str], Path]) -> None:
    with opened(named("copies")) as database:
        ((advice,),) = database.rows("select advice from finding where rule = 'straggler_rank'")
    assert "It copies 151 times as many bytes as the others" in advice


@pytest.mark.slow
def test_ranks_that_are_late_together_are_not_late_in_turn(
    named: Callable[[str], Path], run_command: Callable[..., Any]
) -> None:
    assert "rank 2 and 1 more   " in run_command("summary", named("two slow")).out
    assert "3 more, in turn" in run_command("summary", named("late in turn")).out


@pytest.mark.slow
def test_a_machine_is_late_where_each_of_its_ranks_is(tmp_path: Path) -> None:
    hosts = {rank: rank // 2 for rank in range(4)}
    for name, slow in (("both", {2: 1.3, 3: 1.3}), ("one", {2: 1.3})):
        with analyzed(Job(hosts=hosts, slow=slow), tmp_path / name) as database:
            assert database.rows("select late_host from _slowest_rank") == [("node1" if name == "both" else None,)]
