"""What was computed of a database of the cache is said again, and is made anew when it must be."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lorabench.analyze.store import database, remembered

pytestmark = pytest.mark.own_cache


@pytest.fixture(scope="module")
def copied(synthetic_trace: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copy(synthetic_trace("nsys"), tmp_path_factory.mktemp("copied") / "run.sqlite"))


@pytest.fixture
def trace(copied: Path) -> Iterator[Path]:
    """Where it lies for all tests, so that what one has computed of it is a cache to begin with for others."""
    before = copied.stat()
    yield copied
    os.utime(copied, ns=(before.st_atime_ns, before.st_mtime_ns))


ASKED = (("summary",), ("query", "finding", "--csv"), ("what-if",))


@pytest.fixture
def ask(trace: Path, run_command: Callable[..., Any]) -> Callable[[], list[str]]:
    """What the answer and two views that take long to compute say."""
    return lambda: [run_command(command, trace, *more).out for command, *more in ASKED]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("filled") / "lorabench"


@pytest.fixture
def asked(ask: Callable[[], list[str]], filled: Path, tmp_path: Path) -> list[str]:
    """What is said, of a cache in which it is: computed for the first test, and a copy of that for others."""
    cache = tmp_path / "cache" / "lorabench"
    if filled.exists():
        shutil.copytree(filled, cache, dirs_exist_ok=True)
        return ask()
    first = ask()
    shutil.copytree(cache, filled)
    return first


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables that are computed, by name, from now on."""
    found: list[str] = []

    def noted(whole: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, view: (found.append(view), whole(self, view))[1]

    for name in ("rows_of", "rows_of_rules"):
        monkeypatch.setattr(database.Database, name, noted(getattr(database.Database, name)))
    return found


def results(tmp_path: Path) -> list[Path]:
    return sorted(tmp_path.glob("cache/lorabench/*.results/*"))


@pytest.mark.slow
def test_what_was_computed_is_said_again(ask: Callable[[], list[str]], computed: list[str], tmp_path: Path) -> None:
    first = ask()
    assert "_finding" in computed and "GPU" in first[0] and "replayed within" in first[2]
    computed.clear()
    assert ask() == first and not computed
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.glob("cache/lorabench/*.results"))


@pytest.mark.slow
def test_what_is_damaged_is_computed_again(
    ask: Callable[[], list[str]], asked: list[str], computed: list[str], tmp_path: Path
) -> None:
    for number, path in enumerate(results(tmp_path)):
        content = path.read_bytes()
        path.write_bytes((content[: len(content) // 2], b"", b"\xff" * 100)[number % 3])
    computed.clear()
    assert ask() == asked and "_finding" in computed


@pytest.mark.parametrize("change", ["input", "settings", "code", "force", "cleared"])
@pytest.mark.slow
def test_what_may_be_another_is_computed_again(
    change: str, trace: Path, ask: Callable[[], list[str]], asked: list[str], computed: list[str],
    run_command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    computed.clear()
    if change == "input":
        os.utime(trace, ns=(1, 1))
    elif change == "settings":
        run_command("summary", trace, "--threshold", "severe_frac=0.9")
    elif change == "code":
        monkeypatch.setattr(remembered, "_code", lambda: "another")
    elif change == "force":
        run_command("analyze", trace, "--force")
    else:
        run_command("cache", "clear")
    assert ask() == asked and "_finding" in computed


@pytest.mark.slow
def test_nothing_is_kept_or_removed_beside_a_database_of_the_users(
    trace: Path, tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    beside = tmp_path / "mine.duckdb.results"
    beside.mkdir()
    (beside / "notes.txt").write_text("of somebody else")
    for more in ((), ("--force",)):
        run_command("analyze", trace, "-o", tmp_path / "r.csv", "--db", tmp_path / "mine.duckdb", *more)
    assert [path.name for path in beside.iterdir()] == ["notes.txt"]


@pytest.mark.slow
def test_clearing_the_cache_leaves_nothing_of_what_was_computed(
    asked: list[str], run_command: Callable[..., Any], tmp_path: Path
) -> None:
    for kept in tmp_path.glob("cache/lorabench/[0-9a-f]*.duckdb"):
        kept.unlink()
    assert results(tmp_path)
    run_command("cache", "clear")
    assert not list(tmp_path.glob("cache/lorabench/*"))


def test_changes_that_somebody_names_are_not_the_standard_ones(trace: Path, run_command: Callable[..., Any]) -> None:
    named = run_command("what-if", trace, "--change", "batch=4").out
    standard = run_command("what-if", trace).out
    assert named != standard
    assert run_command("what-if", trace, "--change", "batch=4").out == named
    assert run_command("what-if", trace).out == standard


@pytest.mark.slow
def test_a_cache_that_takes_no_results_is_done_without(
    trace: Path, ask: Callable[[], list[str]], asked: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for path in tmp_path.glob("cache/lorabench/*.results"):
        shutil.rmtree(path)
        path.write_text("a file is in the way")
    assert ask() == asked
    monkeypatch.setattr(remembered, "_LARGEST_BYTES", 0)
    assert ask() == asked


@pytest.mark.slow
def test_what_another_process_removes_while_it_is_counted_is_no_error(
    trace: Path, ask: Callable[[], list[str]], asked: list[str], run_command: Callable[..., Any], tmp_path: Path
) -> None:
    (folder,) = tmp_path.glob("cache/lorabench/*.results")
    (folder / ".finding-0.arrow.partial").symlink_to(tmp_path / "gone")  # listed, and not there when it is looked at
    run_command("analyze", trace, "--force", "--quiet", "-o", tmp_path / "r.csv")
    (folder.with_name("0123.duckdb")).write_bytes(b"")
    (folder.with_name("0123.duckdb.results")).write_text("no folder")
    assert "run.sqlite" in run_command("cache").out
    assert ask() == asked
