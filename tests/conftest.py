import hashlib
import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import capture
import pytest
import synthetic
import writers
from _pytest.mark.structures import ParameterSet
from caches import cache_in
from hypothesis import settings
from lorabench.__main__ import main
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.store.database import Database
from lorabench.analyze.store.limits import SETTINGS

# read when torch is imported: two threads on a busy machine with two cores are ten times slower than one
os.environ.setdefault("OMP_NUM_THREADS", "1")
# As many tests run at once as there are cores: what this process starts, and itself.
os.environ.setdefault("LORABENCH_THREADS", "1")
SETTINGS["threads"] = int(os.environ["LORABENCH_THREADS"])

# how long an example takes says how busy the machine is
_QUICK = 30
settings.register_profile("quick", deadline=None, max_examples=_QUICK)
settings.register_profile("long", deadline=None)

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT.parent / "shared" / "corpus"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked slow, too: an hour on two cores")
    parser.addoption("--long", action="store_true", help="run all tests, those marked long, too: hours")


def pytest_configure(config: pytest.Config) -> None:
    """The tests of collect are skipped without torch, but not where CI says that it is there."""
    settings.load_profile("long" if config.getoption("--long") else "quick")
    if "torch" in os.environ.get("LORABENCH_REQUIRE", "").split():
        for package in ("torch", "transformers", "peft", "bitsandbytes"):
            if find_spec(package) is None:
                raise pytest.UsageError(f"{package} is required here (LORABENCH_REQUIRE)")


# Files go to the workers as a whole, in the order of the tests: those that take longest first, so that none is left to
# one worker at the end.
BEGUN_FIRST = (
    "test_scripts.py", "test_compare.py", "test_kernel_findings.py", "test_loops.py", "test_docs.py",
    "test_findings.py", "test_answer.py", "test_page_pictures.py", "test_overlap.py", "test_collectives.py",
    "test_jobs.py", "test_parallel.py", "test_kept.py", "test_said.py", "test_validate.py", "test_alike.py",
    "test_snapshot.py", "test_page_blocks.py", "test_page_choice.py", "test_cli.py", "test_nodes.py",
    "test_scripts_told.py",
)  # fmt: skip


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(
        key=lambda item: BEGUN_FIRST.index(item.path.name) if item.path.name in BEGUN_FIRST else len(BEGUN_FIRST)
    )
    kept, left_out = list[pytest.Item](), list[pytest.Item]()
    before = Counter[tuple[Path, str]]()
    for item in items:
        function = item.path, getattr(item, "originalname", item.name)
        (kept if _is_wanted(item, before[function]) else left_out).append(item)
        before[function] += 1
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def _is_wanted(item: pytest.Item, cases_before: int) -> bool:
    """Whether what its marks say of how long it takes is asked for."""
    if item.config.getoption("--long"):
        return True
    if item.get_closest_marker("long"):
        return False
    first = item.get_closest_marker("first")
    is_slow = item.get_closest_marker("slow") or (first and cases_before >= first.args[0])
    return not is_slow or bool(item.config.getoption("--slow"))


def pytest_report_header(config: pytest.Config) -> str:
    if config.getoption("--long"):
        return "all tests"
    if config.getoption("--slow"):
        return "tests marked long are left out (--long runs them)"
    return "tests marked slow or long are left out (--slow, --long run them)"


def quick(count: int, cases: Iterable[Any]) -> list[Any]:
    """Cases of a parametrized test: the first few always run, the others with --long."""
    params = [
        case
        if isinstance(case, ParameterSet)
        else pytest.param(*case)
        if isinstance(case, tuple)
        else pytest.param(case)
        for case in cases
    ]
    others = [pytest.param(*case.values, id=case.id, marks=[*case.marks, pytest.mark.long]) for case in params[count:]]
    return params[:count] + others


def dear(count: int, long: int, **more: Any) -> settings:
    """Of a property whose examples take long: how many are always drawn, and how many with --long."""
    return settings(max_examples=count if settings.default.max_examples == _QUICK else long, **more)


def corpus_files(pattern: str) -> list[Path]:
    """Real profiles beside the repository; a test parametrized with none of them is skipped with a reason."""
    return sorted(CORPUS.glob(pattern))


def absent(what: str, reason: str) -> None:
    """Skip a test for want of something, or fail it where CI says that it is there (LORABENCH_REQUIRE)."""
    if what in os.environ.get("LORABENCH_REQUIRE", "").split():
        pytest.fail(f"{what} is required here: {reason}")
    pytest.skip(reason)


def corpus_params(pattern: str) -> list[Any]:
    found = corpus_files(pattern)
    skipped = pytest.param(None, id="absent", marks=pytest.mark.skip(reason=f"no corpus of real profiles at {CORPUS}"))
    if not found and "corpus" in os.environ.get("LORABENCH_REQUIRE", "").split():
        raise pytest.UsageError(f"the corpus is required here, and {CORPUS} holds no {pattern}")
    return [pytest.param(path, id=path.name.split(".")[0]) for path in found] or [skipped]


def opened(*inputs: Path, db: Path | None = None, force: bool = False) -> Database:
    """The database of inputs, with what only lorabench itself may do with it."""
    return analyze(list(inputs), db, force=force)


@pytest.fixture(scope="session")
def database_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], Database]]:
    """Analyzes each trace once: what one worker has read the others open."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    shared = cache_in(folder / "shared")
    made: dict[Path, Database] = {}

    def get(path: Path) -> Database:
        if path not in made:
            with pytest.MonkeyPatch.context() as environment:
                environment.setenv("XDG_CACHE_HOME", shared)
                environment.setenv("LORABENCH_CACHE_GB", "1000")
                made[path] = analyze([path])
        return made[path]

    yield get
    for database in made.values():
        database.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], tuple[Database, Path]]]:
    """The database of a trace and its page, made once of the same content for each limit on what a timeline draws."""
    from lorabench.reports.page import page, timeline

    made: dict[tuple[str, bytes, int], tuple[Database, Path]] = {}

    def go(trace: Path) -> tuple[Database, Path]:
        key = trace.name, hashlib.sha256(trace.read_bytes()).digest(), timeline.OP_CNT
        if key not in made:
            folder = tmp_path_factory.mktemp("page")
            made[key] = analyze([trace], folder / "x.duckdb"), folder / "page.html"
            page.write(*made[key])
        return made[key]

    yield go
    for database, _ in made.values():
        database.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A Chromium, as playwright drives it."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        absent("chromium", "no Chromium is installed")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="session")
def nsys() -> str:
    found = shutil.which("nsys")
    if found is None:
        absent("nsys", "nsys is not installed (see .ci/run for how to get it)")
    return str(found)


@pytest.fixture(scope="session")
def synthetic_trace(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A trace of a run that never ran, see fixtures/synthetic.py; the same arguments give the same file."""
    folder = tmp_path_factory.mktemp("synthetic")

    def get(format: str, **arguments: Any) -> Path:
        suffix = {"nsys": "sqlite", "kineto": "json"}[format]
        path = folder / f"{'-'.join(f'{k}{v}' for k, v in arguments.items()) or 'default'}.{suffix}"
        if not path.exists():
            write = {"nsys": writers.write_nsys, "kineto": writers.write_kineto}[format]
            write(path, [synthetic.simulate(**arguments)])
        return path

    return get


@pytest.fixture(scope="session")
def captured_trace(nsys: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """NVTX ranges of a real process, captured and exported by the nsys that is installed."""
    folder = tmp_path_factory.mktemp("captured")
    return capture.capture(folder / "run.sqlite")


@dataclass(frozen=True)
class Ended:
    """How a command ended, named as subprocess names it."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def out(self) -> str:
        """What it printed."""
        return self.stdout

    @property
    def err(self) -> str:
        """What it said on stderr."""
        return self.stderr


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    return cache_in(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def run_here(
    request: pytest.FixtureRequest, tmp_path: Path, shared_cache: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., Ended]:  # fmt: skip
    """Runs the command line in this process, which takes half of what a process of its own does.

    An error that nobody expected fails the test; a command that hangs is ended after two minutes. What a test has read
    others find read, as a user does; those marked own_cache start with an empty cache.
    """
    wants_own = request.node.get_closest_marker("own_cache") is not None
    monkeypatch.setenv("XDG_CACHE_HOME", cache_in(tmp_path) if wants_own else shared_cache)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(
        "lorabench.cli_progress.PAUSE_S", float("inf")
    )  # how long it takes says how busy the machine is

    def hangs(*_: object) -> None:
        raise TimeoutError("the command hangs")

    def call(*words: object) -> Ended:
        monkeypatch.setattr("sys.argv", ["lorabench", *map(str, words)])
        before = signal.signal(signal.SIGALRM, hangs)
        signal.alarm(120)
        try:
            with pytest.raises(SystemExit) as ended:
                main()
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)
        said = capsys.readouterr()
        return Ended(int(ended.value.code or 0), said.out, said.err)

    return call


@pytest.fixture
def run_command(run_here: Callable[..., Ended]) -> Callable[..., Ended]:
    """The same with the exit code that is expected."""

    def call(*words: object, code: int = 0) -> Ended:
        done = run_here(*words)
        assert done.returncode == code, done.stderr
        return done

    return call


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    """Write somebody's script, and return where it is."""

    def write(text: str) -> Path:
        path = tmp_path / "train.py"
        path.write_text(text, "utf-8")
        return path

    return write
