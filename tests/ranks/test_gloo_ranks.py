"""Ranks on CPUs: who is late, why, and what is exposed, of simulated jobs whose truth is known."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import simulated_gloo
from conftest import quick
from lorabench.analyze.pipeline import analyze
from simulated_gloo import BACKWARD, FORWARD, OPTIMIZER, TRANSFER, Job


@pytest.mark.parametrize(
    "job",
    quick(
        2,
        [
            Job("fsdp", ranks=2, slow=1),
            Job("ddp", ranks=4, slow=3),
            Job("fsdp", ranks=3, slow=0),
            Job("fsdp", ranks=4, slow=2),
            Job("ddp", ranks=2, slow=0),
            Job("ddp", ranks=3, slow=0, noted_after=1_000),
            Job("fsdp", ranks=2, slow=1, noted_after=150),
        ],
    ),
    ids=str,
)
@pytest.mark.slow
def test_who_sleeps_in_a_hook_of_the_backward_is_named_and_not_who_waits_in_one(job: Job, tmp_path: Path) -> None:
    paths = simulated_gloo.write(job, tmp_path / "traces")
    with analyze(paths, tmp_path / "x.duckdb") as database:
        late = database.rows(
            "select step, rank, late_ns, kept_waiting_ns, cause, cause_ns, cause_place "
            "from straggler where is_straggler"
        )
        findings = database.rows("select place, saving_ns from finding where rule = 'straggler_rank'")
    assert [(step, rank, cause) for step, rank, *_, cause, _, _ in late] == [(s, job.slow, "idle") for s in job.late]
    for _, _, late_ns, kept_ns, _, cause_ns, place in late:
        assert late_ns == pytest.approx(1000 * job.nap, rel=0.01) == cause_ns
        assert kept_ns == pytest.approx((job.ranks - 1) * 1000 * job.nap, rel=0.05)
        assert place.endswith("the nap")
    ((place, saving_ns),) = findings
    assert (place, saving_ns) == (f"rank {job.slow}", pytest.approx(1000 * job.nap * len(job.late), rel=0.05))


@pytest.mark.parametrize("kind", ["fsdp", "ddp"])
@pytest.mark.first(1)
def test_ranks_on_cpus_have_their_compute_and_exposed_communication(kind: str, tmp_path: Path) -> None:
    job = Job(kind)
    paths = simulated_gloo.write(job, tmp_path / "traces")
    with analyze(paths, tmp_path / "x.duckdb") as database:
        ranks = database.rows(
            "select rank, compute_ns, communication_ns, exposed_communication_ns, window_ns - busy_ns - idle_ns "
            "from rank_summary order by rank"
        )
        exposed = database.rows(
            "select rank, device_id, kernel_cnt, communication_ns, exposed_communication_ns from exposed_communication"
        )
    waited = job.nap * len(job.late)
    computed = FORWARD + BACKWARD + OPTIMIZER
    for rank, compute_ns, communication_ns, exposed_ns, rest_ns in ranks:
        assert communication_ns == 1000 * (job.steps * TRANSFER + (waited if rank == 0 else 0))
        assert compute_ns == pytest.approx(1000 * job.steps * computed, rel=0.01) and rest_ns == 0
        assert exposed_ns == pytest.approx(communication_ns, rel=0.02)
        assert exposed[rank] == (rank, None, job.steps, communication_ns, exposed_ns)


@pytest.mark.slow
def test_a_job_of_cpus_says_what_its_traces_say(tmp_path: Path, run_command: Callable[..., Any]) -> None:
    simulated_gloo.write(Job(ranks=3), tmp_path / "traces")
    run_command("analyze", tmp_path / "traces", "-o", f"{tmp_path / 'job'}/", "--workers", 1, "--quiet")
    for asked in ("rank_summary", "exposed_communication", "straggler"):
        said = [run_command("query", tmp_path / of, asked, "--csv").out for of in ("traces", "job")]
        assert said[0] == said[1] and len(said[0].splitlines()) > 3


@pytest.mark.slow
def test_the_stage_of_lorapp_that_has_most_layers_is_named(tmp_path: Path, run_command: Callable[..., Any]) -> None:
    run = simulated_gloo.write_lorapp(tmp_path / "run", (8_000, 2_000, 2_000))
    said = run_command(
        "query", run, "select step, rank, found_by, cause, cause_ns from straggler where is_straggler", "--csv"
    )
    assert said.out.splitlines()[1:] == [f"{step},0,own time,compute,6000000" for step in (1, 2, 3)]
    answer = run_command("summary", run, "--rank", 1).out
    assert "pipeline of 3 stages, 3 micro-batches: bubble 50.0% of a step, ideal 0.0%" in answer
    assert "exposed communication: step/recv" in answer and "--balance" in answer
    assert "straggler rank: rank 0" in answer and "python time" not in answer


@pytest.mark.slow
def test_a_job_of_a_run_has_what_the_run_says(tmp_path: Path, run_command: Callable[..., Any]) -> None:
    run = simulated_gloo.write_lorapp(tmp_path / "run", (4_000, 2_000))
    traces = sorted(run.glob("trace-*.json"))
    run_command("analyze", *traces, "-o", f"{tmp_path / 'job'}/", "--workers", 1, "--quiet")
    for asked in ("launch_cost", "rank_summary", "straggler", "pipeline_bubble"):
        said = [sorted(run_command("query", of, asked, "--csv").out.splitlines()) for of in (run, tmp_path / "job")]
        assert said[0] == said[1] and len(said[0]) > 2


def test_of_lorapp_with_equal_stages_none_is_named(tmp_path: Path, run_command: Callable[..., Any]) -> None:
    run = simulated_gloo.write_lorapp(tmp_path / "run", (4_000, 4_000))
    assert (
        run_command("query", run, "select rank from straggler where is_straggler", "--csv").out.splitlines()[1:] == []
    )
