"""Collectives of several ranks: what belongs together, clocks, who is late and why; jobs whose truth is known."""

import gzip
import itertools
import json
import shutil
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import simulated_ranks
from conftest import ROOT, dear, quick
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.ranks import matching
from lorabench.analyze.store.building import building
from lorabench.analyze.store.database import Database
from simulated_ranks import Job, Member, Run, simulate

FIXTURES = ROOT / "fixtures"


def database_of(run: Run, folder: Path, ranks: Any = None) -> Database:
    return analyze(run.write(folder / "traces", ranks), folder / "x.duckdb")


def filled(run: Run, database: Database) -> None:
    """The rows that reading the traces of a run would give, without its kernels and steps."""
    for rank in range(run.job.ranks):
        database.connection.execute(
            "insert into source (source_id, kind, name, rank, world_size, host, origin_ns) "
            "values (?, ?, ?, ?, ?, ?, ?)",
            [rank + 1, "kineto", f"rank{rank}.json", rank, run.job.ranks,
             f"node{run.host_of(rank)}" if run.job.hosts_named else None, simulated_ranks.ORIGIN_NS],
        )  # fmt: skip
    for number, m in enumerate(run.members):
        row = {
            "collective_id": number, "source_id": m.rank + 1, "found_by": "record_param_comms", "name": m.operation,
            "operation": m.operation, "dtype": "Float", "in_bytes": m.bytes, "group_name": m.group[0],
            "group_ranks": str(list(m.group[1])), "group_size": len(m.group[1]), "seq": m.seq, "work_cnt": 1,
            "start_ns": m.local[0], "end_ns": m.local[0], "work_start_ns": m.local[0], "work_end_ns": m.local[1],
        }  # fmt: skip
        database.connection.execute(
            f"insert into collective ({', '.join(row)}) values ({', '.join('?' * len(row))})", list(row.values())
        )
    matching.complete(database)


def by_collective(run: Run) -> dict[tuple[str, int], list[Member]]:
    found = defaultdict(list)
    for member in run.members:
        found[member.group[0], member.seq].append(member)
    return dict(found)


JOBS = st.builds(
    Job,
    ranks=st.sampled_from([2, 4, 6, 8]),
    ranks_per_host=st.sampled_from([1, 2, 3]),
    steps=st.integers(1, 6),
    seed=st.integers(0, 1000),
    compute=st.sampled_from([50_000, 500_000]),
    offsets=st.lists(st.integers(-(10**8), 10**8), max_size=8).map(tuple),
    drifts=st.just(()),
    hosts_named=st.booleans(),
    slow_link=st.none() | st.integers(0, 2),
)


def limits(run: Run) -> dict[tuple[int, int], int]:
    """How far the clock of each rank can be ahead of each other's, over all ways: by loops over everything."""
    ranks, named = range(run.job.ranks), run.job.hosts_named
    same = {(a, b) for a in ranks for b in ranks if a == b or (named and run.host_of(a) == run.host_of(b))}
    most = {(a, b): 0 if (a, b) in same else 10**30 for a in ranks for b in ranks}
    for members in by_collective(run).values():
        for a, b in itertools.permutations(members, 2):
            key = a.rank, b.rank
            if key not in same:
                most[key] = min(most[key], b.local[1] - a.local[0])
    for over, a, b in itertools.product(ranks, ranks, ranks):
        most[a, b] = min(most[a, b], most[a, over] + most[over, b])
    return most


@dear(6, long=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(job=JOBS)
@pytest.mark.slow
def test_clocks_are_what_loops_over_all_pairs_say(job: Job, tmp_path: Path) -> None:
    run = simulate(job)
    most = limits(run)
    with building(tmp_path / "x.duckdb") as database:
        filled(run, database)
        rows = database.rows(
            "select rank, offset_ns, error_ns, reference_rank, piece_id from clock_offset order by rank"
        )
        skews = database.rows(
            "select match_id, rank, arrival_ns, late_ns, wait_ns, is_last, skew_ns, error_ns from collective_skew"
        )
    assert [row[0] for row in rows] == list(range(job.ranks))
    zero = run.local(0, 0)
    for rank, offset, error, reference, piece in rows:
        low, high = -most[rank, reference], most[reference, rank]
        assert (abs(offset - (low + high) / 2), piece) <= (0.5, 0)
        assert error == (high - low + 1) // 2
        truth = run.local(rank, 0) - run.local(reference, 0)
        assert abs(truth - offset) <= error + 1
    assert zero == run.local(0, 0)
    _check_skews(run, rows, skews)


def _check_skews(run: Run, clocks: list[Any], skews: list[Any]) -> None:
    """Arrivals, who is last and who waits how long: by loops over pairs of ranks, and against what happened."""
    offset = {rank: (offset, error) for rank, offset, error, *_ in clocks}
    found = {(match, rank): rest for match, rank, *rest in skews}
    first_row = {id(member): number for number, member in enumerate(run.members)}

    def apart(a: int, b: int) -> int:
        is_shared = a == b or (run.job.hosts_named and run.host_of(a) == run.host_of(b))
        return 0 if is_shared else offset[a][1] + offset[b][1]

    for members in by_collective(run).values():
        match = min(first_row[id(member)] for member in members)
        at = {m.rank: simulated_ranks.ORIGIN_NS + m.local[0] - offset[m.rank][0] for m in members}
        true = {m.rank: m.arrival for m in members}
        skew = max(at.values()) - min(at.values())
        pairs = list(itertools.product(at, at))
        most = max(at[a] - at[b] + apart(a, b) for a, b in pairs)
        least = max(at[a] - at[b] - apart(a, b) for a, b in pairs)
        error = max(most - skew, skew - least)
        for rank, arrived in at.items():
            said_at, late, wait, is_last, said_skew, said_error = found[match, rank]
            assert said_at == arrived
            if skew <= error:
                assert (late, wait, is_last, said_skew, said_error) == (None, None, None, None, most)
                assert _spread(true) <= said_error + 2
                continue
            assert (said_skew, said_error >= error) == (skew, True)
            assert abs(_spread(true) - said_skew) <= error + 2
            assert is_last == _is_last(rank, at, apart)
            assert is_last is None or true[rank] == max(true.values()) or not is_last
            if wait is not None:
                assert abs(max(true.values()) - true[rank] - wait) <= said_error + 2
            if late is not None:
                assert abs(true[rank] - statistics.median(true.values()) - late) <= said_error + 3
            if len({apart(a, b) for a, b in pairs}) == 1:  # one clock: nothing is uncertain
                assert wait == max(true.values()) - true[rank] and said_error == 0


def _spread(values: dict[int, int]) -> int:
    return max(values.values()) - min(values.values())


def _is_last(rank: int, at: dict[int, int], apart: Callable[[int, int], int]) -> bool | None:
    """Whether a rank came last of all: None where it may have, as others may."""
    if any(at[other] - at[rank] > apart(rank, other) for other in at):
        return False
    if all(at[rank] - at[other] > apart(rank, other) for other in at if other != rank and apart(rank, other)):
        return True
    return None


@pytest.mark.slow
def test_ranks_on_other_clocks_that_may_have_come_last_are_not_left_out(tmp_path: Path) -> None:
    """A machine that is late by the same in all steps looks like one whose clock is ahead: it lies between the others.

    In step 3, in which the all-reduce is long, ranks 0 and 1 are late, too: nobody can say who comes last.
    """
    idle = {(rank, step): 600_000 for rank in range(4, 8) for step in range(5)}
    idle |= {(rank, 3): 760_000 for rank in range(4, 8)} | {(0, 3): 700_000, (1, 3): 700_000}
    run = simulate(Job(ranks=8, steps=5, compute=100_000, idle=idle, large_step=3))
    with database_of(run, tmp_path) as database:
        rows = database.rows(
            "select rank, is_last, skew_ns, wait_ns, error_ns from collective_skew "
            "where step = 3 and group_name = '0' order by rank"
        )
        ((step_skew, step_error, last, transfer, bandwidth),) = database.rows(
            "select skew_ns, error_ns, last_rank, transfer_ns, algbw_bytes_s from collective_match "
            "where step = 3 and group_name = '0'"
        )
    members = by_collective(run)["0", 4]
    true = {m.rank: m.arrival for m in members}
    assert max(true, key=lambda rank: true[rank]) >= 4
    assert [row[1] for row in rows].count(None) == 2 and not any(row[1] for row in rows)
    assert last is None and 0 < abs(step_skew - _spread(true)) <= step_error < step_skew
    assert all(abs(max(true.values()) - true[r] - wait) <= bound for r, _, _, wait, bound in rows if wait is not None)
    assert transfer == pytest.approx(min(m.end for m in members) - max(true.values()), abs=2_100)
    assert bandwidth == pytest.approx(50e9, rel=0.01)


@pytest.mark.slow
def test_the_median_skew_is_not_that_of_the_few_that_are_known(tmp_path: Path) -> None:
    """Of six skews one is 7 ms, the others are smaller than what the clocks say; on one clock all are known."""
    run = simulate(Job(ranks=8, steps=6, idle={(6, 3): 7_000_000}, offsets=(0, -3_700_000_000)))
    with database_of(run, tmp_path) as database:
        rows = database.rows(
            "select group_name, collective_cnt, known_skew_cnt, median_skew_ns, skew_error_ns, wait_ns "
            "from collective_summary order by group_name"
        )
    assert [row[:3] for row in rows] == [("0", 6, 1), *((str(group), 6, 6) for group in range(1, 5))]
    for group, _, _, median, error, _ in rows:
        true = [
            _spread({m.rank: m.arrival for m in members})
            for (name, _), members in by_collective(run).items()
            if name == group
        ]
        assert median is None if group == "0" else (median, error) == (statistics.median(true), 0)
        assert abs(statistics.median(true) - (median or 0)) <= error < 1_000_000


@pytest.mark.parametrize("torch", quick(1, ["2.13", "2.4", "names"]))
@pytest.mark.slow
def test_a_job_is_matched_by_what_its_traces_say(torch: str, tmp_path: Path) -> None:
    run = simulate(Job(ranks=4, ranks_per_host=2, steps=3, torch=torch))
    with database_of(run, tmp_path) as database:
        rows = database.rows(
            "select operation, group_name, member_cnt, bytes, matched_by, reason, count(*) from collective_match "
            "group by all order by 1 desc, 2"
        )
    if torch == "names":  # that the gathers are of pairs nobody knows; nothing contradicts that they are of all
        assert {(row[2], row[4]) for row in rows} == {(4, "place")}
        return
    by = {"2.13": "comms_id", "2.4": "place"}[torch]
    assert rows == [
        ("all_reduce", "0", 4, 1 << 24, by, None, 3),
        ("all_gather", "1", 2, 1 << 21, by, None, 3),
        ("all_gather", "2", 2, 1 << 21, by, None, 3),
    ]


@pytest.mark.parametrize("hosts_named", [True, False])
@pytest.mark.slow
def test_of_unknown_groups_ranks_that_cannot_have_met_are_not_matched(
    hosts_named: bool, said: Any, tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    """Pairs gather without a rank that sleeps: its clock would be wrong by as much as it slept, in one step of six."""
    run = simulate(Job(torch="names", idle={(5, 2): 9_000_000}, hosts_named=hosts_named))
    ask = "select step, rank, cause, cause_place from straggler where is_straggler"
    with database_of(run, tmp_path) as database:
        matched = database.rows(
            "select operation, member_cnt, count(*) from collective_match where member_cnt > 1 group by all"
        )
        reasons, rules = said(database)
        late = database.rows(ask)
    assert matched == [("all_reduce", 8, 6)]
    assert reasons == {"groups are not recorded, and not all ranks met in these": 6 * 8}
    assert set(rules) <= {"nccl_metadata"}
    assert late == [(2, 5, "idle: late_input", "step/load batch")]
    if not hosts_named:
        return
    run_command(
        "analyze", *sorted((tmp_path / "traces").iterdir()), "-o", f"{tmp_path / 'job'}/", "--workers", 1, "--quiet"
    )
    assert run_command("query", tmp_path / "job", ask, "--csv").out.splitlines()[1:] == [
        "2,5,idle: late_input,step/load batch"
    ]


@pytest.mark.parametrize("ranks_per_host", quick(1, [8, 4]))
@pytest.mark.slow
def test_of_unknown_groups_ranks_of_one_machine_have_no_offset_that_would_let_them_have_met(
    ranks_per_host: int, said: Any, tmp_path: Path
) -> None:
    """Pairs gather at times so little apart that clocks might be: but clocks of one machine are one clock."""
    run = simulate(Job(torch="names", ranks_per_host=ranks_per_host))
    with database_of(run, tmp_path) as database:
        matched = database.rows(
            "select operation, member_cnt, count(*) from collective_match where member_cnt > 1 group by all"
        )
        clocks = database.rows("select count(distinct clock_id) from clock_offset")
        reasons, rules = said(database)
    assert matched == [("all_reduce", 8, 6)]
    assert clocks == [(8 // ranks_per_host,)]
    assert reasons == {"groups are not recorded, and not all ranks met in these": 6 * 8}
    assert set(rules) <= {"nccl_metadata"}


@pytest.mark.slow
def test_machines_of_one_name_are_not_taken_for_one_clock(tmp_path: Path) -> None:
    """Where the clocks of a machine's ranks differ in all that they do, its name is that of several machines."""
    run = simulate(Job(torch="names", ranks=4, ranks_per_host=2, offsets=(0, 70_000_000)))
    traces = [run.trace(rank) | {"host_name": "node"} for rank in range(4)]
    for rank, trace in enumerate(traces):
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(trace), "utf-8")
    with analyze([tmp_path / f"rank{rank}.json" for rank in range(4)], tmp_path / "x.duckdb") as database:
        matched = database.rows("select distinct operation from collective_match where member_cnt = 4 order by 1")
    assert ("all_reduce",) in matched


@pytest.mark.slow
def test_a_second_pass_for_memory_is_no_second_rank(tmp_path: Path, run_command: Callable[..., Any]) -> None:
    """`collect --profiler torch,memory` leaves two traces of a rank, of the same steps."""
    run = simulate(Job(ranks=4, ranks_per_host=2, steps=3, idle={(1, 1): 9_000_000}))
    paths = run.write(tmp_path / "traces")
    held = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 100, "tid": 1, "s": "t"}
    held["args"] = {"Total Allocated": 512, "Bytes": 512, "Addr": 1, "Device Id": -1, "Device Type": 0}
    for path in paths:
        trace = json.loads(path.read_text("utf-8"))
        trace["traceEvents"] = [event | {"ts": event["ts"] + 60_000_000} for event in trace["traceEvents"]]
        trace["traceEvents"].append(held | {"ts": trace["traceEvents"][0]["ts"]})
        path.with_name(f"memory-{path.name}").write_text(json.dumps(trace), "utf-8")
    alone, both = tmp_path / "alone.duckdb", tmp_path / "both.duckdb"
    views = ("collective_summary", "collective_skew", "straggler", "rank_summary", "kernel_over_ranks", "clock_offset")
    with analyze(paths, alone) as one, analyze([*paths, *paths[0].parent.glob("memory-*")], both) as two:
        for view in views:
            rows, again = (
                database.rows(f"select * exclude (source_id) from (select *, 0 as source_id from {view}) order by all")
                for database in (one, two)
            )
            assert rows and rows == again
        assert not two.rows("select rule from validation where rule in ('rank_twice', 'rank_missing', 'steps_differ')")


@pytest.mark.slow
def test_bandwidth_is_that_of_nccl_tests(tmp_path: Path) -> None:
    """Links carry 50 GB/s; busbw is 2(n-1)/n of that for an all-reduce, (n-1)/n for an all-gather of its output."""
    run = simulate(Job(ranks=4, ranks_per_host=4, steps=8))
    with database_of(run, tmp_path) as database:
        rows = database.rows("select operation, least_bytes, algbw_bytes_s, busbw_bytes_s from collective_summary")
    for operation, least, algorithm, bus in rows:
        assert least == {"all_reduce": 1 << 24, "all_gather": 1 << 21}[operation]
        transfer = 2 if operation == "all_gather" else 1  # it is simulated for its input
        assert algorithm == pytest.approx(50e9 * transfer, rel=0.06)
        assert bus == pytest.approx(algorithm * {"all_reduce": 1.5, "all_gather": 0.5}[operation])


@pytest.mark.parametrize("ranks", [12, pytest.param(64, marks=pytest.mark.long)])
@pytest.mark.slow
def test_a_slow_machine_is_named(ranks: int, tmp_path: Path) -> None:
    """It is always late, so its clock could be wrong by as much: its own time says it."""
    run = simulate(Job(ranks=ranks, ranks_per_host=4, steps=4, slow_host=1, offsets=(0, 70_000_000, -5_000_000)))
    with database_of(run, tmp_path) as database:
        rows = database.rows(
            "select rank, cause, cause_ns, host_lag_ns, found_by from straggler "
            "where is_straggler and step > 0 order by step"
        )
        hosts = database.rows(
            "select distinct rank // 4, host_lag_ns > 3000000 from straggler where step = 2 order by 1"
        )
    assert len(rows) == 3 * 4  # all of its ranks, in each step
    for rank, cause, cause_ns, host_lag, found_by in rows:
        assert (rank // 4, cause, found_by) == (1, "compute", "arrival")
        assert cause_ns == pytest.approx(2 * 2_000_000, rel=0.1) and host_lag > 3_000_000
    assert hosts == [(host, host == 1) for host in range(ranks // 4)]


@pytest.mark.slow
def test_a_rank_that_sleeps_is_named_with_what_its_cpu_was_in(tmp_path: Path) -> None:
    run = simulate(
        Job(steps=6, idle={(5, 2): 9_000_000, (5, 4): 9_000_000}, offsets=(0, 123_456_789), hosts_named=False)
    )
    with database_of(run, tmp_path) as database:
        rows = database.rows(
            "select step, rank, found_by, cause, cause_ns, cause_place, kept_waiting_ns from straggler "
            "where is_straggler"
        )
        finding = database.rows("select place, evidence from finding where rule = 'straggler_rank'")
    assert [row[:4] + row[5:6] for row in rows] == [
        (step, 5, "arrival", "idle: late_input", "step/load batch") for step in (2, 4)
    ]
    assert all(8_900_000 < row[4] < 9_100_000 and row[6] > 6 * 8_900_000 for row in rows)
    ((place, evidence),) = finding
    assert place == "rank 5" and "load batch" in evidence


@pytest.mark.slow
def test_in_the_first_step_a_straggler_has_its_cause_and_place(tmp_path: Path) -> None:
    """Before its first work a device is idle, too, and nothing has met yet."""
    sleeps = simulate(Job(steps=3, idle={(6, 0): 7_000_000}))
    slow = simulate(Job(steps=3, ranks_per_host=1, slow_host=5, hosts_named=False))
    ask = "select step, rank, cause, cause_ns, cause_place from straggler where is_straggler order by step"
    with database_of(sleeps, tmp_path / "sleeps") as database:
        ((step, rank, cause, cause_ns, place),) = database.rows(ask)
    assert (step, rank, cause, place) == (0, 6, "idle", "step/load batch")
    assert cause_ns == pytest.approx(7_000_000, rel=0.01)
    with database_of(slow, tmp_path / "slow") as database:
        rows = database.rows(ask)
        ((least,),) = database.rows("select min(part_ns) from _rank_loss where part = 'exposed communication'")
    assert [row[:3] for row in rows] == [(step, 5, "compute") for step in range(3)]
    assert least >= 0


def test_clocks_that_run_apart_are_aligned_in_pieces(tmp_path: Path) -> None:
    """One part in 500 of steps of 2 ms is 4 us a step, and collectives of 20 us hide no more than a few of them."""
    drift = 2e-3
    run = simulate(Job(ranks=2, ranks_per_host=1, steps=60, compute=1_000_000, drifts=(0.0, drift)))
    with database_of(run, tmp_path) as database:
        rows = database.rows("select rank, piece_id, from_ns, offset_ns, error_ns, drift_frac from clock_offset")
        known = database.rows("select count(*), count(arrival_ns) from collective_skew")
        problems = database.rows("select severity, problem_cnt from validation where rule = 'clock_drift'")
        waits = database.rows(
            "select collective.group_name, collective.seq, skew.rank, skew.wait_ns, skew.skew_ns, skew.error_ns "
            "from collective_skew as skew join collective using (collective_id)"
        )
    for group, seq, rank, wait, skew, error in waits:
        true = {member.rank: member.arrival for member in by_collective(run)[group, seq]}
        assert wait is None or abs(max(true.values()) - true[rank] - wait) <= error + 1_000
        assert abs(_spread(true) - (skew or 0)) <= error + 1_000
    assert known[0][0] == known[0][1] == 2 * 2 * 60
    away = [row for row in rows if row[3]]
    assert len(away) > 2
    sign = 1 if away[0][0] == 1 else -1
    for _, _, begin, offset, error, _ in away:
        piece = offset * sign
        assert piece + error >= begin * drift / (1 + drift) - 1_000
    assert all(abs(row[5] * sign - drift) < drift / 2 for row in away if row[5] is not None)
    assert problems == [("warning", len(away) - 1)]


@pytest.fixture
def said() -> Any:
    """What the views say about problems: reasons of unmatched rows with their numbers, broken rules with an example."""

    def get(database: Database) -> tuple[dict[str, int], dict[str, str]]:
        reasons = database.rows("select reason, count(*) from collective_match where reason is not null group by 1")
        rules = database.rows(
            "select rule, string_agg(example, '; ' order by source_id) from validation "
            "where rule not in ('lost', 'missing', 'launch_missing') group by 1"
        )
        return dict(reasons), dict(rules)

    return get


@pytest.mark.slow
def test_a_missing_rank_is_reported_and_the_rest_answered(said: Any, tmp_path: Path) -> None:
    run = simulate(Job(ranks=8, steps=2))
    with database_of(run, tmp_path, [0, 1, 2, 3, 4, 5, 7]) as database:
        reasons, rules = said(database)
        assert reasons == {"missing: rank 6": 7 * 2 + 2}
        assert rules == {"rank_missing": "rank 6 of 8"}
        assert database.rows("select count(*) from collective_match where match_id is not null") == [(3 * 2,)]
        assert database.rows("select count(*), count(own_ns) from straggler") == [(14, 14)]


@pytest.mark.slow
def test_what_waits_for_a_missing_rank_is_said_to_count_as_communication(
    tmp_path: Path, run_here: Callable[..., Any]
) -> None:
    said = "rank missing: rank 2 of 4"
    for place, idle, expected in (("late", 9_000_000, True), ("even", 0, False)):
        run = simulate(Job(ranks=4, steps=3, compute=6_000_000, idle={(2, step): idle for step in (1, 2, 3) if idle}))
        run.write(tmp_path / place, [0, 1, 3])
        lines = run_here("summary", tmp_path / place).out.splitlines()
        (line,) = [line.strip() for line in lines if said in line]
        assert line == said + ("; what waits for it counts as communication" if expected else "")


@pytest.mark.slow
def test_a_rank_that_was_cut_off_lacks_its_last_collectives(said: Any, tmp_path: Path) -> None:
    run = simulate(Job(ranks=4, steps=4))
    paths = run.write(tmp_path / "traces")
    text = paths[2].read_text("utf-8")
    paths[2].write_text(text[: len(text) * 6 // 10], "utf-8")
    with analyze(paths, tmp_path / "x.duckdb") as database:
        reasons, _ = said(database)
        assert set(reasons) == {"missing: rank 2"}
        matched = database.rows(
            "select max(step) from collective_match where match_id is not null and group_name = '0'"
        )
        assert matched[0][0] in (1, 2)
        assert database.rows("select rank from trace_info where item = 'end of the file'") == [(2,)]


@pytest.mark.slow
def test_a_copy_of_a_rank_is_left_out(said: Any, tmp_path: Path) -> None:
    run = simulate(Job(ranks=4, steps=2))
    paths = run.write(tmp_path / "traces")
    copy = tmp_path / "traces" / "rank3-again.json"
    copy.write_bytes(paths[3].read_bytes())
    with analyze([*paths, copy], tmp_path / "x.duckdb") as database:
        reasons, rules = said(database)
        assert reasons == {"its input is left out: rank 3 again: rank3-again.json is the same as rank3.json": 4}
        assert rules == {"rank_twice": "rank 3 again: rank3-again.json is the same as rank3.json"}
        assert database.rows("select count(*) from collective_match where match_id is not null") == [(6,)]
        assert database.rows("select distinct rank_cnt from straggler") == [(4,)]
        slower = database.rows("select rank, slower_frac from rank_summary where source_id < 5 order by rank")
        assert database.rows("select slower_frac, compute_frac is null from rank_summary where source_id = 5") == [
            (None, True)
        ]
        kernels = database.rows("select * from kernel_over_ranks")
    with analyze(paths, tmp_path / "alone.duckdb") as database:
        assert database.rows("select rank, slower_frac from rank_summary order by rank") == slower
        assert database.rows("select * from kernel_over_ranks") == kernels, "nobody ran it twice"


@pytest.mark.slow
def test_another_recording_of_the_same_length_is_no_copy(said: Any, tmp_path: Path) -> None:
    """As many events between the same moments, of which one is shorter."""
    run = simulate(Job(ranks=4, steps=2))
    paths = run.write(tmp_path / "traces")
    other = json.loads(paths[3].read_text("utf-8"))
    events = [event for event in other["traceEvents"] if event.get("cat") == "kernel"]
    events[len(events) // 2]["dur"] = 1
    path = tmp_path / "traces" / "rank3-again.json"
    path.write_text(json.dumps(other), "utf-8")
    with analyze([*paths, path], tmp_path / "x.duckdb") as database:
        _, rules = said(database)
    assert rules == {"rank_twice": "rank 3 is in rank3.json and in rank3-again.json, which is left out"}


@pytest.mark.parametrize("apart_us", [3, 100_000])  # beside each other, and one behind the other beside all others
@pytest.mark.first(1)
def test_a_rank_in_two_inputs_is_said_where_the_others_are_in_one(apart_us: int, said: Any, tmp_path: Path) -> None:
    run = simulate(Job(ranks=3, steps=2))
    paths = run.write(tmp_path / "traces", [0, 1])
    begin, end = min(e["ts"] for e in run.events[2]), max(e["ts"] + e.get("dur", 0) for e in run.events[2])
    middle = begin + (end - begin) / 2 if apart_us > end - begin else end
    for name, shift in (("first", 0), ("second", apart_us)):
        paths.append(tmp_path / "traces" / f"{name}.json")
        first = name == "first"
        events = [
            event if first else event | {"ts": event["ts"] + shift}
            for event in run.events[2]
            if middle == end or (event["ts"] < middle) is first
        ]
        paths[-1].write_text(json.dumps(run.trace(2, traceEvents=events)), "utf-8")
    with analyze(paths, tmp_path / "x.duckdb") as database:
        _, rules = said(database)
        is_beside = apart_us == 3
        left_out = ", which is left out" if is_beside else ""
        assert rules["rank_twice"] == f"rank 2 is in first.json and in second.json{left_out}"


@pytest.mark.slow
def test_of_two_traces_that_both_say_they_are_one_rank_the_first_counts(said: Any, tmp_path: Path) -> None:
    run = simulate(Job(ranks=4, steps=2))
    paths = run.write(tmp_path / "traces")
    other = tmp_path / "traces" / "other.json"
    events = [event | {"ts": event["ts"] + 3} for event in run.events[3]]
    other.write_text(json.dumps(run.trace(3, traceEvents=events)), "utf-8")
    with analyze([*paths, other], tmp_path / "x.duckdb") as database:
        reasons, rules = said(database)
        assert set(reasons) == {"its input is left out: rank 3 is in rank3.json and in other.json, which is left out"}
        assert rules == {"rank_twice": "rank 3 is in rank3.json and in other.json, which is left out"}
        assert not database.rows("from straggler where rank_cnt <> 4")


@pytest.mark.parametrize("what", quick(1, ["another size", "another day", "other collectives"]))
@pytest.mark.slow
def test_a_trace_of_another_job_is_left_out(what: str, said: Any, tmp_path: Path) -> None:
    run = simulate(Job(ranks=4, steps=2))
    paths = run.write(tmp_path / "traces", [0, 1, 2])
    if what == "another size":
        foreign = run.trace(3, distributedInfo={"rank": 3, "world_size": 16})
    elif what == "another day":
        foreign = run.trace(3, baseTimeNanoseconds=simulated_ranks.ORIGIN_NS - 86_400 * 10**9)
    else:  # all else is the same
        foreign = run.trace(3, traceEvents=_of_another_job(run.events[3]))
    paths.append(tmp_path / "traces" / "rank3.json")
    paths[-1].write_text(json.dumps(foreign), "utf-8")
    with analyze(paths, tmp_path / "x.duckdb") as database:
        reasons, rules = said(database)
        detail = {
            "another size": "world size 16, most others 4",
            "another day": "recorded while none of the others was",
            "other collectives": "other Comms Ids than the ranks with the same groups",
        }
        assert rules == {"other_job": detail[what], "rank_missing": "rank 3 of 4"}
        assert reasons == {f"its input is left out: {detail[what]}": 4, "missing: rank 3": 3 * 2 + 2}
        assert database.rows(
            "select count(*) from collective_match where group_name = '1' and match_id is not null"
        ) == [(2,)]


def _of_another_job(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    def other(args: dict[str, Any]) -> dict[str, Any]:
        return args | {"Comms Id": args["Comms Id"][::-1]} if "Comms Id" in args else args

    return [event | {"args": other(event["args"])} for event in events]


@pytest.mark.slow
def test_a_clock_that_runs_as_none_does_is_an_error(tmp_path: Path) -> None:
    """As that of a rank of another run of the same program, of a few seconds later."""
    ours, others = (
        simulate(Job(ranks=4, steps=4, ranks_per_host=2, torch="2.4", seed=seed, idle={(1, 2): seed * 9_000_000}))
        for seed in (1, 0)
    )
    paths = ours.write(tmp_path / "traces")
    events = [event | {"ts": event["ts"] + 5e6} for event in others.events[2]]
    paths[2].write_text(json.dumps(others.trace(2, traceEvents=events)), "utf-8")
    with analyze(paths, tmp_path / "x.duckdb") as database:
        found = database.rows("select severity, example from validation where rule = 'clock_drift'")
    assert found and all(severity == "error" and "is it a rank of this run" in said for severity, said in found)


def test_of_two_jobs_of_equally_many_ranks_neither_is_chosen(said: Any, tmp_path: Path) -> None:
    run = simulate(Job(ranks=2, steps=2))
    paths = run.write(tmp_path / "traces")
    paths[1].write_text(json.dumps(run.trace(1, traceEvents=_of_another_job(run.events[1]))), "utf-8")
    with analyze(paths, tmp_path / "x.duckdb") as database:
        detail = "other Comms Ids than the ranks with the same groups"
        assert said(database)[1]["other_job"] == f"{detail}; {detail}"
        assert database.rows("from straggler") == []


@pytest.mark.slow
def test_ranks_that_were_recorded_in_other_steps_are_of_one_job(said: Any, tmp_path: Path) -> None:
    """Rank 1 has the first two steps, the others the last two: they share no number."""
    run = simulate(Job(ranks=4, steps=4))
    half = {
        rank: [e for e in events if (e["ts"] < statistics.median(x["ts"] for x in events)) == (rank == 1)]
        for rank, events in enumerate(run.events)
    }
    paths = run.write(tmp_path / "traces")
    for rank, path in enumerate(paths):
        path.write_text(json.dumps(run.trace(rank, traceEvents=half[rank])), "utf-8")
    with analyze(paths, tmp_path / "x.duckdb") as database:
        assert "other_job" not in said(database)[1]


@pytest.mark.parametrize("torch", quick(1, ["2.13", "2.4"]))
@pytest.mark.slow
def test_ranks_with_other_numbers_of_steps_are_compared_in_those_that_they_share(
    torch: str, said: Any, tmp_path: Path
) -> None:
    run = simulate(Job(ranks=4, steps=3, torch=torch))
    for event in list(run.events[1]):  # recorded two of the three
        last = max(e["ts"] for e in run.events[1] if e["name"] == "step 1")
        ends = last + next(e["dur"] for e in run.events[1] if e["name"] == "step 1")
        if event["ts"] > ends:
            run.events[1].remove(event)
    with database_of(run, tmp_path) as database:
        reasons, rules = said(database)
        assert reasons == {"missing: rank 1": 3 + 1}
        assert rules == {"steps_differ": "rank 1 has 2 steps, most others 3"}
        assert database.rows("select step, count(*) from straggler group by 1 order by 1") == [(0, 4), (1, 4), (2, 3)]


@pytest.mark.slow
def test_members_that_disagree_on_bytes_are_not_matched(said: Any, tmp_path: Path) -> None:
    run = simulate(Job(ranks=4, steps=3, uneven=(2, 1)))
    with database_of(run, tmp_path) as database:
        ((reason, count),) = said(database)[0].items()
        assert count == 4
        assert reason.startswith("bytes differ: ") and "rank 2 8388608, most others 16777216" in reason
        assert said(database)[1] == {"collective_disagrees": reason}


@pytest.mark.slow
def test_machines_of_one_name_with_clocks_of_their_own_are_told_apart(said: Any, tmp_path: Path) -> None:
    run = simulate(Job(ranks=4, ranks_per_host=2, steps=4, offsets=(0, 50_000_000)))
    paths = run.write(tmp_path / "traces")
    for rank, path in enumerate(paths):
        path.write_text(json.dumps(run.trace(rank, host_name="localhost")), "utf-8")
    with analyze(paths, tmp_path / "x.duckdb") as database:
        offsets = dict(database.rows("select rank, offset_ns from clock_offset"))
        _, rules = said(database)
    assert offsets[2] - offsets[0] == pytest.approx(50_000_000, abs=400_000)
    assert rules == {"host_twice": "localhost: its 4 ranks have 4 clocks"}


@pytest.mark.slow
def test_ranks_are_compared_with_ranks_of_their_kind(tmp_path: Path) -> None:
    """Beside them are a report of all processes, which has no rank, and a rank that nsys recorded."""
    paths = simulate(Job(ranks=3, steps=3, ranks_per_host=1, slow_host=1)).write(tmp_path / "traces")
    for name in ("run.sqlite", "rank0.sqlite"):
        paths.append(tmp_path / "traces" / name)
        shutil.copy(FIXTURES / "lora-run.sqlite", paths[-1])
    ask = "select rank, slower_frac, compute_frac from rank_summary where name like '%.json' order by rank"
    with analyze(paths[:3], tmp_path / "alone.duckdb") as database:
        alone = database.rows(ask)
    with analyze(paths, tmp_path / "x.duckdb") as database:
        assert database.rows(ask) == alone
        others = database.rows("select name, rank, slower_frac from rank_summary where name like '%.sqlite'")
    assert sorted(others) == [("rank0.sqlite", 0, 0.0), ("run.sqlite", None, None)]


@pytest.mark.slow
def test_exposed_communication_is_shared_by_the_groups_and_adds_up(tmp_path: Path) -> None:
    run = simulate(Job(ranks=4, steps=2))
    with database_of(run, tmp_path) as database:
        shares = database.rows(
            "select source_id, count(*), sum(exposed_communication_ns) from exposed_communication group by 1 order by 1"
        )
        whole = database.rows("select source_id, exposed_communication_ns from gpu_timeline_summary order by 1")
    assert [(source, total) for source, _, total in shares] == [(s, pytest.approx(t, abs=1e-3)) for s, t in whole]
    assert all(count == 2 for _, count, _ in shares)


def test_one_rank_alone_says_that_the_others_are_not_here(tmp_path: Path) -> None:
    run = simulate(Job(ranks=4, steps=2))
    with database_of(run, tmp_path, [1]) as database:
        assert database.rows("select distinct reason from collective_match") == [("no other rank is here",)]
        assert database.rows("select * from collective_skew") == database.rows("select * from clock_offset") == []


@pytest.mark.skipif(
    "torch" not in sys.modules and not __import__("importlib.util").util.find_spec("torch"), reason="no torch"
)
@pytest.mark.slow
def test_gloo_ranks_that_really_ran_name_the_one_that_slept(tmp_path: Path) -> None:
    import capture_ranks

    # It naps in more steps than it sleeps in: naps must not give the place its name. A second of sleep, because a
    # busy machine holds a process up by tenths of one; where it holds another rank as long, the step has no straggler.
    paths = capture_ranks.capture(tmp_path / "traces", "--sleep", "1", "--nap", "0.1", ranks=3)
    with analyze(paths, tmp_path / "x.duckdb") as database:
        rows = database.rows(
            "select step, cause, cause_ns, cause_place from straggler where is_straggler and rank = 2 and late_ns > 5e8"
        )
        matched = database.rows("select count(*), count(match_id), count(bytes) from collective_match")
        finding = database.rows("select evidence from finding where rule = 'straggler_rank' and place = 'rank 2'")
    assert {(step, cause, place) for step, cause, _, place in rows} <= {
        (s, "idle", "step/load batch") for s in (2, 4, 6)
    }
    assert len(rows) >= 2
    assert all(500_000_000 < excess < 2_000_000_000 for _, _, excess, _ in rows)
    assert matched == [(8, 8, 8)]
    assert finding[0][0].endswith(" in step/load batch")


@pytest.mark.slow
def test_the_recipe_packs(tmp_path: Path) -> None:
    """A trace may be packed as torch does it."""
    run = simulate(Job(ranks=2, steps=1))
    for path in run.write(tmp_path / "traces"):
        path.with_suffix(".json.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    with analyze([tmp_path / "traces"], tmp_path / "x.duckdb") as database:
        assert database.rows("select count(*) from collective_match where match_id is not null") == [(2,)]


@pytest.mark.parametrize(
    ("job", "says"),
    [
        (Job(ranks=4, ranks_per_host=2, steps=4, slow_host=1), "all ranks of node1 are late, by 4.0 ms in a step"),
        (Job(ranks=4, ranks_per_host=2, steps=4, idle={(3, 2): 9_000_000}), "cause: idle: late input, 9.0 ms"),
    ],
    ids=["a slow machine", "a slow rank"],
)
@pytest.mark.slow
def test_the_answer_says_whether_it_is_the_rank_or_its_machine(
    job: Job, says: str, tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    simulate(job).write(tmp_path / "job")
    said = run_command("summary", tmp_path / "job").out
    assert says in said
    assert ("all ranks of" in said) == (job.slow_host is not None)


OPERATORS = ("aten::mm", "_c10d_functional::wait_tensor", "c10d::allreduce_")
# thread, begin, length, name: threads 1 and 2 compute, 3 communicates
ON_CPU = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([1, 2]), st.integers(0, 40), st.integers(1, 12), st.sampled_from(
            [*OPERATORS, "FSDP::post_backward_reduce"])),
        st.tuples(st.just(3), st.integers(0, 40), st.integers(1, 12), st.just("gloo:all_reduce")),
    ),
    min_size=1, max_size=8,
)  # fmt: skip


@dear(4, long=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=ON_CPU)
@example(events=[(1, 0, 12, "_c10d_functional::wait_tensor"), (1, 2, 3, "aten::mm"), (3, 1, 9, "gloo:all_reduce")])
@example(events=[(1, 0, 5, "aten::mm"), (2, 3, 9, "c10d::allreduce_"), (3, 0, 12, "gloo:all_reduce")])
@example(events=[(1, 0, 12, "FSDP::post_backward_reduce"), (2, 4, 3, "aten::mm"), (3, 2, 8, "gloo:all_reduce")])
@pytest.mark.slow
def test_on_cpus_communication_is_exposed_while_no_operator_computes(events: list[Any], tmp_path: Path) -> None:
    starts = {(thread, begin): (thread, begin, length, name) for thread, begin, length, name in events}
    nested = [
        event for event in starts.values() if not any(
            other[0] == event[0] and other[1] < event[1] < other[1] + other[2] < event[1] + event[2]
            for other in starts.values()
        )
    ]  # fmt: skip
    whole = [
        {"ph": "X", "cat": "cpu_op" if name in OPERATORS else "user_annotation", "name": name, "pid": 1, "tid": thread,
         "ts": begin, "dur": length}
        for thread, begin, length, name in nested
    ]  # fmt: skip
    (tmp_path / "run.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": whole}))

    def is_exposed(at: float) -> bool:
        open_now = sorted(event for event in nested if event[1] < at < event[1] + event[2])
        waits = {thread for thread, *_, name in open_now if "c10d" in name}
        innermost = {thread: name for thread, *_, name in open_now}
        computes = any(name == "aten::mm" and thread not in waits for thread, name in innermost.items())
        return not computes and 3 in innermost

    exposed = sum(is_exposed(at + 0.5) for at in range(60))
    with analyze([tmp_path / "run.json"], force=True) as database:
        rows = database.rows("select limit_ns from _predicted_finding where rule = 'exposed_communication'")
    assert sum(ns for (ns,) in rows) == exposed * 1_000
