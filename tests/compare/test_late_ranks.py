"""Of jobs of several ranks a comparison says which rank holds the others up in each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from simulated_ranks import Job, simulate

MS = 1_000_000
RANKS, STEPS = 4, 4


def written(folder: Path, late_rank: int | None = None, late_ns: int = 0) -> Path:
    """A job in which a rank, if one, sleeps before each step."""
    idle = {} if late_rank is None else {(late_rank, step): late_ns for step in range(1, STEPS + 1)}
    simulate(Job(ranks=RANKS, ranks_per_host=RANKS, steps=STEPS, idle=idle)).write(folder)
    return folder


def of_ranks(said: str) -> str:
    """The sentence about ranks, "" where none is there."""
    _, found, text = " ".join(said.split()).partition(" ranks: ")
    return f"{found.strip()} {text}" if found else ""


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("jobs")
    return {
        "even": written(folder / "even"),
        "late": written(folder / "late", 2, 9 * MS),
        "other": written(folder / "other", 1, 3 * MS),
    }


@pytest.mark.parametrize(
    ("first", "second", "starts", "then"),
    [
        ("late", "even", "ranks: in A rank 2 holds the others up (late in", "), in B no rank does"),
        ("even", "late", "ranks: in B rank 2 holds the others up (late in", "), in A no rank does"),
        ("late", "other", "ranks: in A rank 2 holds the others up (late in", "in B rank 1 holds the others up"),
    ],
)
@pytest.mark.slow
def test_who_is_late_in_each_of_two_jobs_is_said(
    first: str, second: str, starts: str, then: str, jobs: dict[str, Path], run_here: Callable[..., Any]
) -> None:
    said = of_ranks(run_here("compare", jobs[first], jobs[second]).out)
    assert said.startswith(starts), said
    assert then in said


@pytest.mark.slow
def test_nothing_is_said_of_ranks_where_none_is_late(jobs: dict[str, Path], run_here: Callable[..., Any]) -> None:
    assert of_ranks(run_here("compare", jobs["even"], jobs["even"]).out) == ""


@pytest.mark.slow
def test_how_long_the_others_wait_is_of_a_step(jobs: dict[str, Path], run_here: Callable[..., Any]) -> None:
    """Ranks wait for one that sleeps for 9 ms before each step but the first one of four."""
    said = of_ranks(run_here("compare", jobs["late"], jobs["even"]).out)
    waited = float(said.partition("they wait ")[2].partition(" ms a step on average")[0])
    assert 9 * (STEPS - 1) / STEPS - 0.5 < waited < 9.2, said
    assert "; cause: idle: late input)" in said


@pytest.mark.slow
def test_one_rank_of_each_is_not_asked(jobs: dict[str, Path], run_here: Callable[..., Any]) -> None:
    single = [jobs[name] / "rank2.json" for name in ("late", "even")]
    assert of_ranks(run_here("compare", *single).out) == ""


@pytest.mark.slow
def test_the_page_of_a_comparison_says_it_too(
    jobs: dict[str, Path], run_here: Callable[..., Any], tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    run_here("compare", jobs["late"], jobs["even"], "-o", page)
    assert "Ranks: in A rank 2 holds the others up" in page.read_text("utf-8")
