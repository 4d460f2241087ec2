"""What is left of a timing pass whose process was killed."""

from pathlib import Path

from lorabench.collect.run import kept_steps, summary

ROW = {"step": 3, "adapters": ["a"], "start_ns": 5, "wall_ns": 7, "losses": {"a": 0.5}, "tokens": {"a": [1, 2, 3]}}


def test_steps_are_rows_of_steps_csv_although_the_last_line_is_cut_off(tmp_path: Path) -> None:
    keep = kept_steps.writer(tmp_path, "timing", "")
    keep([ROW])
    keep([ROW | {"step": 4, "start_ns": 12}])
    path = tmp_path / ".steps-timing.jsonl"
    path.write_text(path.read_text() + '{"step": 5, "ad')
    left = kept_steps.take(tmp_path, "timing", None)
    assert left is not None
    lines = summary.steps_csv({"timing": left}).splitlines()
    assert lines[1:] == ["timing,3,a,5,7,0.5,1,2,3,", "timing,4,a,12,7,0.5,1,2,3,"]
    assert not list(tmp_path.iterdir())


def test_ranks_have_rows_of_their_own_also_where_one_left_none(tmp_path: Path) -> None:
    kept_steps.writer(tmp_path, "timing", "-rank1")([ROW])
    left = kept_steps.take(tmp_path, "timing", 2)
    assert left == {"steps": [], "ranks": [{"steps": []}, {"steps": [ROW]}]}
    assert summary.steps_csv({"timing": left}).splitlines()[1:] == ["timing,3,a,5,7,0.5,,,,1"]


def test_a_pass_that_left_no_step_leaves_none(tmp_path: Path) -> None:
    kept_steps.writer(tmp_path, "timing", "-rank0")([])
    assert kept_steps.take(tmp_path, "timing", 2) is None
    assert not list(tmp_path.iterdir())
