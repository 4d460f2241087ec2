"""What real traces seldom have: work that touches, launches when a gap begins, steps within steps, own rules."""

from pathlib import Path
from typing import Any

import pytest
from lorabench.analyze import fillers
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.shortcuts import views as shortcuts
from lorabench.analyze.store import settings
from lorabench.analyze.store.building import building
from lorabench.analyze.store.database import Database
from lorabench.analyze.store.opening import open_database
from lorabench.errors import UsageError
from views.test_rows import fill

SOURCE = {
    "source": [{"source_id": 1, "kind": "nsys", "name": "a.sqlite"}],
    "thread": [{"source_id": 1, "thread_id": 11, "process_id": 1, "pid": 1, "tid": 11}],
}


def op(number: int, start: int, end: int, launch: int | None, **more: Any) -> dict[str, Any]:
    return {
        "gpu_op_id": number, "source_id": 1, "kind": "kernel", "name_id": 0, "device_id": 0, "stream_id": 7,
        "start_ns": start, "end_ns": end, "launch_start_ns": launch,
        "launch_end_ns": None if launch is None else launch + 1, **more,
    }  # fmt: skip


def filled(folder: Path, model: dict[str, list[dict[str, Any]]], chosen: settings.Settings | None = None) -> Database:
    with building(folder / "x.duckdb", chosen) as made:
        fill(made, SOURCE | model)
    opened = open_database(folder / "x.duckdb")
    return fillers.fill(opened, without=shortcuts.tables(opened))  # its statements, what they share computed once


def test_gaps_begin_and_end_where_they_should(tmp_path: Path) -> None:
    ops = [
        op(0, 0, 10, None),
        op(1, 10, 20, 5),  # touches: no gap
        op(2, 25, 30, 20),  # launched in the very moment in which the gap begins: the host was late
        op(3, 40, 50, 29),  # launched before: 10 ns are the device's own
        op(4, 6000, 6010, 45),  # launched before: much more are not
        op(5, 7000, 7001, None),  # launched before the recording
    ]
    names = {"name": [{"name_id": 0, "text": "k"}]}
    with filled(tmp_path, {"gpu_op": ops, **names}) as database:
        found = database.rows("select start_ns, idle_ns, cause from idle_gap order by start_ns")
    assert found == [(20, 5, "host"), (30, 10, "kernel_wait"), (50, 5950, "dependency"), (6010, 990, "kernel_wait")]


def test_a_threshold_moves_the_border(tmp_path: Path) -> None:
    ops = [op(0, 0, 10, None), op(1, 40, 50, 5)]
    names = {"name": [{"name_id": 0, "text": "k"}]}
    for text, cause in (("kernel_wait_ns=29", "dependency"), ("kernel_wait_ns=30", "kernel_wait")):
        folder = tmp_path / cause
        with filled(folder, {"gpu_op": ops, **names}, settings.parse([text], None)) as database:
            assert database.rows("select cause from idle_gap") == [(cause,)]


@pytest.mark.parametrize(("gap_cnt", "cause"), [(20, "dependency"), (19, "kernel_wait")])
@pytest.mark.first(1)
def test_the_distance_between_kernels_is_the_devices_own(gap_cnt: int, cause: str, tmp_path: Path) -> None:
    """Twenty gaps say what is usual: twice the median, here 200 ns, and no more than the threshold. Nineteen do not."""
    ops, end = [op(0, 0, 10, None)], 10
    for n, gap in enumerate([*[100] * (gap_cnt - 2), 200, 201], start=1):
        ops.append(op(n, end + gap, end + gap + 10, 5))
        end += gap + 10
    with filled(tmp_path, {"gpu_op": ops, "name": [{"name_id": 0, "text": "k"}]}) as database:
        found = dict(database.rows("select idle_ns, cause from idle_gap"))
    assert found == {100: "kernel_wait", 200: "kernel_wait", 201: cause}


def test_of_steps_within_steps_the_outer_counts(tmp_path: Path) -> None:
    texts = ["ProfilerStep", "ProfilerStep#4", "step", "step 9"]
    model = {
        "name": [{"name_id": n, "text": t} for n, t in enumerate(texts)],
        "range_path": [
            {"path_id": 0, "source_id": 1, "depth": 0, "kind": "annotation", "name_id": 0, "path": "ProfilerStep"},
            {"path_id": 1, "source_id": 1, "depth": 1, "kind": "annotation", "name_id": 2, "path": "ProfilerStep/step"},
        ],
        "range": [
            {"range_id": n, "source_id": 1, "kind": "annotation", "thread_id": 11, "name_id": 2 * n, "depth": n,
             "text_id": 2 * n + 1, "start_ns": n, "end_ns": 10 - n, "path_id": n, "is_unfinished": False}
            for n in (0, 1)
        ],
    }  # fmt: skip
    with filled(tmp_path, model) as database:
        assert database.rows("select step, wall_ns from step_summary") == [(4, 10)]


def ranges_at(paths: list[str]) -> dict[str, list[dict[str, Any]]]:
    """A range at each path, each twice as long as the one before."""
    return {
        "name": [{"name_id": 0, "text": "x"}],
        "range_path": [
            {"path_id": n, "source_id": 1, "depth": 1, "kind": "annotation", "name_id": 0, "path": p}
            for n, p in enumerate(paths)
        ],
        "range": [
            {"range_id": n, "source_id": 1, "kind": "annotation", "thread_id": 11, "name_id": 0, "text_id": 0,
             "depth": 1, "start_ns": 0, "end_ns": 1 << n, "path_id": n, "is_unfinished": False}
            for n in range(len(paths))
        ],
    }  # fmt: skip


def test_adapters_are_found_on_either_side_of_the_part(tmp_path: Path) -> None:
    paths = [
        "step/forward/q_proj/lora_A/one", "step/backward/q_proj/lora_A/one", "step/forward/v_proj/adapter two/lora_B",
        "step/forward/q_proj/lora_A", "step/backward/recompute/q_proj/base", "lora_A", "step/forward/q_proj/base/deep",
    ]  # fmt: skip
    with filled(tmp_path, ranges_at(paths)) as database:
        adapters = database.rows("select adapter, direction, wall_ns from adapter_summary order by wall_ns")
        parts = database.rows("select module, part, direction, wall_ns from lora_summary order by wall_ns")
    assert adapters == [("one", "forward", 1), ("one", "backward", 2), ("adapter two", "forward", 4)]
    assert parts == [
        ("v_proj", "lora_B", "forward", 4), ("q_proj", "lora_A", "forward", 8), ("q_proj", "base", "recompute", 16)
    ]  # fmt: skip


def test_parts_of_every_kind_of_adapter_are_found(tmp_path: Path) -> None:
    paths = [
        "step/forward/q_proj/lora_magnitude_vector/one", "step/forward/q_proj/vera_lambda_b", "f/o_proj/oft_R/one",
        "f/up/hada_w1/one", "f/up/hada/one", "f/up/lora_forward", "f/up/hadamard/one", "f/up/my_ia3_l",
    ]  # fmt: skip
    with filled(tmp_path, ranges_at(paths)) as database:
        found = database.rows("select module, part, adapter, is_part from _lora_path order by path_id")
    assert found == [
        ("q_proj", "lora_magnitude_vector", "one", False), ("q_proj", "vera_lambda_b", None, True),
        ("o_proj", "oft_R", "one", False), ("up", "hada_w1", "one", False), ("up", "hada", "one", False),
    ]  # fmt: skip


def test_rules_of_the_user_come_first(tmp_path: Path, synthetic_trace: Any) -> None:
    rules = tmp_path / "rules.csv"
    rules.write_text("subject,pattern,class\nkernel,^ampere_sgemm_128,my base\npath,optimizer$,my optimizer\n", "utf-8")
    trace = synthetic_trace("nsys")
    with analyze([trace], tmp_path / "x.duckdb", settings=settings.parse([], rules)) as database:
        classes = dict(database.rows("select kernel_name, class from kernel_class"))
    assert classes["ampere_sgemm_128x64_tn"] == "my base"
    assert classes["graph_kernel_a"] == "my optimizer"
    with pytest.raises(UsageError, match="keeps the settings"):
        analyze([tmp_path / "x.duckdb"], tmp_path / "y.duckdb", settings=settings.parse([], rules))
    with analyze([trace], tmp_path / "x.duckdb") as database:  # other settings: not the same database
        assert dict(database.rows("select kernel_name, class from kernel_class"))["ampere_sgemm_128x64_tn"] == "matmul"


@pytest.mark.parametrize(
    ("thresholds", "rules", "says"),
    [
        (["long_gap_ns"], None, "write NAME=VALUE"),
        (["long_gap_ns=nan"], None, "write NAME=VALUE"),
        (["long_gap_ns=-1"], None, "no time, count or share can be below 0"),
        (["nope=1"], None, "no such threshold: 'nope'"),
        ([], "a,b\n", "the first line must be subject,pattern,class"),
        ([], "subject,pattern,class\nkernels,a,b\n", "line 2: subject is kernel or path"),
        ([], "subject,pattern,class\nkernel,(,b\n", "not a regular expression"),
        ([], None, "cannot read"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    tmp_path: Path, thresholds: list[str], rules: str | None, says: str
) -> None:
    path = tmp_path / "rules.csv"
    if rules is not None:
        path.write_text(rules, "utf-8")
    wants_file = rules is not None or not thresholds
    with (
        pytest.raises(UsageError, match=says),
        building(tmp_path / "x.duckdb", settings.parse(thresholds, path if wants_file else None)),
    ):
        pass
