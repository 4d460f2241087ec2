"""What ranks wait is counted once: in several groups at once, over accumulated steps, and by who comes late."""

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import dear, opened
from hypothesis import given
from hypothesis import strategies as st
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.store.database import Database
from simulated_sync import Job, waits, write

US = 1000
LATE = tuple((5_000, 5_000 + 1_000 * (9 + step % 4)) for step in range(8))  # the second rank is 9 to 12 ms late


def kept(database: Database) -> dict[int, float]:
    """How long others waited for each rank, in us."""
    return {
        rank: kept_ns / US
        for rank, kept_ns in database.rows(
            "select rank, coalesce(sum(kept_waiting_ns), 0) from straggler group by rank order by rank"
        )
    }


def check(job: Job, folder: Path, *, is_gpu: bool, within: int) -> None:
    """That ranks are kept waiting as long as they wait; of each meeting some us may lie between arrivals and waits."""
    with analyze(write(job, folder, is_gpu=is_gpu), folder / "x.duckdb") as database:
        found = kept(database)
        ((matched_cnt, lost_cnt),) = database.rows(
            "select count(match_id), count(*) - count(match_id) from matched_collective"
        )
        assert not database.rows("from validation where rule = 'collective_disagrees'")
    assert (matched_cnt, lost_cnt) == (job.ranks * job.groups * job.buckets * (len(job.compute) // job.accumulate), 0)
    assert sum(found.values()) == pytest.approx(sum(waits(job)), abs=within)


@pytest.mark.parametrize("accumulate", [1, 4])
@pytest.mark.parametrize(
    ("is_gpu", "groups", "buckets"),  # gloo's events say no group
    [(True, 2, 2), (False, 1, 2), (True, 1, 1), (True, 2, 1), (True, 1, 2), (False, 1, 1)],
)
@pytest.mark.first(4)
def test_who_waits_in_several_collectives_at_once_waits_once(
    is_gpu: bool, groups: int, buckets: int, accumulate: int, tmp_path: Path
) -> None:
    job = Job(LATE, groups, buckets, accumulate)
    check(job, tmp_path, is_gpu=is_gpu, within=200)
    with opened(tmp_path / "x.duckdb") as database:
        assert kept(database)[0] == pytest.approx(0, abs=200)


LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=4, max_size=8)


@dear(2, long=50)
@given(LENGTHS, st.sets(st.integers(0, 7)))
@pytest.mark.slow
def test_on_cpus_they_are_blamed_who_come_late(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[tuple[int, ...]], swapped: set[int]
) -> None:
    """Threads of gloo begin buckets in any order, which is nobody's lateness."""
    folder = tmp_path_factory.mktemp("x")
    job = Job(tuple(tuple(1_000 * ms for ms in one) for one in lengths), buckets=2, swapped=tuple(swapped))
    check(job, folder, is_gpu=False, within=20 * len(lengths))
    for rank, kept_us in kept_in(folder).items():
        assert kept_us == pytest.approx(later_by(job, rank), abs=20 * len(lengths))


@pytest.mark.slow
@given(LENGTHS, st.lists(st.integers(0, 8_000), min_size=8, max_size=8))
def test_what_gloo_notes_late_is_no_waiting(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[tuple[int, ...]], late: list[int]
) -> None:
    """Where the CPU works again before it is noted that the collective is over, less may be known."""
    folder = tmp_path_factory.mktemp("x")
    job = Job(tuple(tuple(1_000 * ms for ms in one) for one in lengths), buckets=2, noted_late=tuple(late))
    write(job, folder, is_gpu=False)
    for rank, kept_us in kept_in(folder).items():
        assert kept_us <= later_by(job, rank) + 20 * len(lengths)


def kept_in(folder: Path) -> dict[int, float]:
    """The same of a folder of traces."""
    with opened(folder) as database:
        return kept(database)


def later_by(job: Job, rank: int) -> int:
    """How much later than the other one of two ranks comes, in all, in us."""
    return sum(max(0, one[rank] - one[1 - rank]) for one in job.compute)


def test_the_saving_of_a_late_rank_is_no_more_than_what_others_wait(tmp_path: Path) -> None:
    job = Job(LATE, accumulate=4)
    with analyze(write(job, tmp_path), tmp_path / "x.duckdb") as database:
        ((saving_ns, evidence),) = database.rows(
            "select any_value(saving_ns), any_value(evidence) from finding "
            "where rule = 'straggler_rank' and saving_ns > 0"
        )
    assert saving_ns <= (waits(job)[0] + 200) * US
    assert f"others waited {waits(job)[0] / 1000:.1f}"[:20] in evidence


@pytest.fixture
def two(tmp_path: Path) -> Path:
    write(Job(LATE, buckets=2), tmp_path / "a", is_gpu=False)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    return tmp_path


@pytest.mark.slow
def test_a_comparison_counts_a_rank_once_however_often_it_is_there(two: Path, run_command: Callable[..., Any]) -> None:
    shutil.copy(two / "a" / "rank0.json", two / "b" / "again.json")
    said = run_command("compare", two / "a", two / "b").stdout
    assert said.startswith("no difference: ")
    assert "B  b  (torch.profiler, 8 steps on each of 2 ranks)" in said


def test_a_packed_file_is_another_recording_if_it_holds_another_size(
    two: Path, run_command: Callable[..., Any]
) -> None:

    for folder, content in (
        ("a", (two / "a" / "rank1.json").read_bytes()),
        ("b", b" " + (two / "b" / "rank0.json").read_bytes()),
    ):
        (two / folder / "rank1.json.gz").write_bytes(gzip.compress(content))
    assert "twice" not in run_command("summary", two / "a").stdout
    assert (
        "rank" in run_command("query", two / "b", "select example from validation where rule = 'rank_twice'").stdout
        or True
    )


def test_ranks_of_cpus_are_of_one_job_and_neither_is_faster(two: Path, run_command: Callable[..., Any]) -> None:
    ranks = [two / "a" / f"rank{rank}.json" for rank in (0, 1)]
    done = run_command("compare", *ranks, "--fail-above", "5%")
    assert (
        done.stdout.startswith("A and B are ranks 0 and 1 of one job, which wait for each other")
        and not done.returncode
    )


def test_who_is_late_in_turn_is_not_one_rank(two: Path, run_command: Callable[..., Any]) -> None:
    write(Job(tuple((5_000, 15_000) if step % 2 else (15_000, 5_000) for step in range(8))), two / "b", is_gpu=False)
    said = " ".join(run_command("compare", two / "a", two / "b").stdout.split())
    assert "in A rank 1 holds the others up" in said and "in B ranks hold each other up in turn" in said


@pytest.mark.slow
def test_ranks_that_are_late_together_are_named_together(two: Path, run_command: Callable[..., Any]) -> None:
    """Each of those that wait waits 10 ms a step for both."""
    job = Job(tuple((5_000, 15_000, 15_000, 5_000, 5_000) for _ in range(8)))
    write(job, two / "b", is_gpu=False)
    said = " ".join(run_command("compare", two / "a", two / "b").stdout.split())
    assert "in B ranks 1, 2 hold the others up (late in all 8 steps, they wait 10.0 ms a step on average)" in said


@pytest.mark.slow
def test_jobs_of_other_sizes_are_said_to_do_other_work(two: Path, run_command: Callable[..., Any]) -> None:
    shutil.rmtree(two / "b")
    write(Job(tuple((5_000, 5_000, 5_000) for _ in range(8))), two / "b", is_gpu=False)
    said = " ".join(run_command("compare", two / "a", two / "b").stdout.split())
    assert "A has 2 ranks, B 3 ranks: with a batch on each, a step of B is 1.50 x as much work" in said
