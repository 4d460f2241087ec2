"""README.md and the pages under docs/: each command is run and says what the page shows, each name in them exists.

A fenced block that begins with `$ ` is run command by command: lorabench, `python FILE` and `echo $?`. So is one of
Python. `…` stands for anything, alone on a line for any lines. A comment before a block says what differs:

<!-- output varies -->     it must succeed and print the same lines but for numbers and spaces
<!-- slow: reason -->      the same, with --slow only
<!-- not run: reason -->   commands, options and views must exist
<!-- file: NAME -->        the block is a file that later blocks use
"""

import contextlib
import doctest
import gzip
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import simulated_node
import simulated_ranks
import synthetic
import typer.main
import writers
from caches import cache_in
from conftest import ROOT
from lorabench import errors, sql
from lorabench.__main__ import main
from lorabench.cli import whole

FIXTURES = ROOT / "fixtures"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS: dict[str, Any] = getattr(typer.main.get_command(whole()), "commands")  # noqa: B009 - typer hides the type
TABLES = {f.name for f in sql.load() if f.folder == "0_tables"} | {view.name for view in sql.public()}
TRAINS = re.compile(r"^(lorabench (collect|sweep)|python) ")


@dataclass(frozen=True)
class Block:
    """A fenced block, and what the comment before it says."""

    page: Path
    line: int
    language: str
    text: str
    mark: str
    detail: str

    @property
    def place(self) -> str:
        return f"{self.page.name}:{self.line}"


@dataclass(frozen=True)
class Command:
    """What is typed after `$ `, and the lines that the page shows below it."""

    text: str
    shown: tuple[str, ...]


def blocks_of(page: Path) -> Iterator[Block]:
    lines = page.read_text("utf-8").split("\n")
    begin, comment = 0, ""
    for number, line in enumerate(lines, start=1):
        if not begin and (found := re.fullmatch(r"<!-- (.+) -->", line)):
            comment = found[1]
        elif line.startswith("```") and not begin:
            begin = number
        elif line == "```":
            mark, _, detail = comment.partition(": ")
            text = "\n".join(lines[begin : number - 1]) + "\n"
            yield Block(page, begin, lines[begin - 1].removeprefix("```"), text, mark, detail)
            begin, comment = 0, ""
        elif not begin and line.strip():
            comment = ""


def commands_in(text: str) -> list[Command]:
    """The commands of a console block; one goes on over the lines that a backslash or an open quote joins."""
    found: list[Command] = []
    typed, shown = "", list[str]()
    for line in text.removesuffix("\n").split("\n"):
        if typed and is_open(typed):
            typed = f"{typed.removesuffix(chr(92))}\n{line}" if typed.endswith("\\") else f"{typed}\n{line}"
        elif line.startswith("$ "):
            if typed:
                found.append(Command(typed, tuple(shown)))
            typed, shown = line.removeprefix("$ "), []
        else:
            shown.append(line.rstrip())
    return [*found, Command(typed, tuple(shown))]


def is_open(typed: str) -> bool:
    try:
        shlex.split(typed, comments=True)
    except ValueError:
        return True
    return typed.endswith("\\")


BLOCKS = [block for page in PAGES for block in blocks_of(page)]
CONSOLE = [block for block in BLOCKS if block.language == "console"]
RUN = [block for block in CONSOLE if block.mark in ("", "output varies", "slow")]
PYTHON = [block for block in BLOCKS if block.language in ("python", "pycon") and block.mark == ""]
PROSE = {page: re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S) for page in PAGES}
SPANS = [(page, " ".join(found[1].split())) for page in PAGES for found in re.finditer(r"`([^`]+)`", PROSE[page])]


def params(blocks: list[Block]) -> list[Any]:
    return [
        pytest.param(block, id=block.place, marks=[pytest.mark.slow] if block.mark == "slow" else [])
        for block in blocks
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the pages' commands run: the files that the pages name, and a cache."""
    folder = tmp_path_factory.mktemp("docs")
    shutil.copy(FIXTURES / "lora-run.sqlite", folder / "run.sqlite")
    shutil.copy(FIXTURES / "lora-run.json.gz", folder / "run.json.gz")
    simulated_node.write(folder / "run.sqlite", folder / "node.sqlite")
    (folder / "cut.json.gz").write_bytes((FIXTURES / "lora-run.json.gz").read_bytes()[:4500])
    (folder / "notes.txt").write_text("no trace\n", "utf-8")
    capture = FIXTURES / "h200-batch"
    (folder / "h200").mkdir()
    shutil.copy(capture / "trace.json.gz", folder / "h200")
    unpack(capture / "run.sqlite.gz", folder / "h200" / "run.sqlite")
    unpack(capture / "snapshot.pickle.gz", folder / "memory.pickle")
    for name, adapters in (("before", 2), ("after", 4)):
        write(folder / f"{name}.json", adapters=adapters)
    (folder / "ranks").mkdir()
    for rank in range(4):  # the third has a layer more
        write(folder / "ranks" / f"rank{rank}.json", seed=rank, layers=3 if rank == 2 else 2, steps=3)
    sleep = {(5, 2): 9_000_000, (5, 4): 9_000_000}  # rank 5 in steps 2 and 4, the second machine's clock is ahead
    simulated_ranks.simulate(simulated_ranks.Job(idle=sleep, offsets=(0, 25_000_000))).write(folder / "job")
    for block in BLOCKS:
        if block.mark == "file":
            (folder / block.detail).write_text(block.text, "utf-8")
    return folder


def unpack(packed: Path, unpacked: Path) -> None:
    with gzip.open(packed) as source, unpacked.open("wb") as target:
        shutil.copyfileobj(source, target)


def write(path: Path, **arguments: Any) -> None:
    writers.write_kineto(path, [synthetic.simulate(**arguments)])


@pytest.fixture
def type_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], tuple[int, list[str]]]:
    """Runs a command line in this process; gives its exit code and what a terminal would show."""
    at_home(folder, monkeypatch)

    def call(typed: str) -> tuple[int, list[str]]:
        words = [found for word in shlex.split(typed, comments=True) for found in matching(word)]
        if words[0] == "python":
            ended = subprocess.run([sys.executable, *words[1:]], capture_output=True, text=True, check=False)
            return ended.returncode, lines_of(ended.stdout)
        assert words[0] == "lorabench", f"say <!-- not run: why -->: {typed}"
        monkeypatch.setattr("sys.argv", words)
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), pytest.raises(SystemExit) as exit:
            main()
        return int(exit.value.code or 0), lines_of(said.getvalue())

    return call


def matching(word: str) -> list[str]:
    """The files that a shell would put in the place of a word."""
    found = sorted(map(str, Path().glob(word))) if "*" in word and " " not in word else []
    return found or [word]


def lines_of(said: str) -> list[str]:
    return [line.rstrip() for line in said.removesuffix("\n").split("\n")]


def at_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", cache_in(folder))
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)  # `collect -- python train.py`


@pytest.mark.parametrize("block", params(RUN))
def test_a_command_prints_what_the_page_shows(block: Block, type_in: Callable[[str], tuple[int, list[str]]]) -> None:
    commands = commands_in(block.text)
    if any(TRAINS.search(command.text) for command in commands):
        skip_without_torch()
    code = 0
    for command in commands:
        if command.text == "echo $?":
            assert command.shown == (str(code),), block.place
            code = 0
            continue
        assert code == 0, f"{block.place}: {command.text}"
        code, said = type_in(command.text)
        if not command.shown and code == 0:
            continue
        said = [line for line in said if not re.fullmatch(r"[^ ].*: \d+%", line)]  # of work that takes long
        if block.mark:
            shown, said = masked(command.shown), masked(tuple(line for line in said if not BUSY.fullmatch(line)))
        else:
            shown = list(command.shown)
        if not re.fullmatch(pattern(shown), "\n".join([*said, ""])):
            assert said == shown, f"{block.place}: {command.text}"
    assert code == 0, block.place


def skip_without_torch() -> None:
    for package in ("torch", "transformers", "peft"):  # importing them takes seconds, and children do it anyway
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")


def pattern(shown: list[str]) -> str:
    """A regular expression of lines in which `…` stands for anything, and for any lines when it is one."""
    return "".join(
        r"(?:[^\n]*\n)*?" if line == "…" else re.escape(line).replace("…", r"[^\n]*") + "\n" for line in shown
    )


# a pass that takes longer than ten seconds, and what is said where steps differ much
BUSY = re.compile(
    r"pass \w+|the middle half of the steps spans .*|times of ranges under .* are mostly the profiler's: .*"
)


def masked(lines: tuple[str, ...]) -> list[str]:
    spread = " (within the spread of steps)"  # how busy the machine is
    return [" ".join(re.sub(r"[-+]?\d[\d,.]*", "#", line.removesuffix(spread)).split()) for line in lines]


@pytest.mark.parametrize("block", params(PYTHON))
@pytest.mark.first(4)
def test_python_runs_as_it_stands_on_the_page(block: Block, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if re.search(r"import torch|annotate|lorabench\.span", block.text):
        skip_without_torch()
    at_home(folder, monkeypatch)
    names: dict[str, Any] = {"__name__": "page"}
    if block.language == "python":
        exec(compile(block.text, block.place, "exec"), names)
        return
    test = doctest.DocTestParser().get_doctest(block.text, names, block.place, str(block.page), block.line)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert test.examples and runner.run(test, out=said.append).failed == 0, "".join(said)


def test_every_block_is_of_a_kind_that_is_checked() -> None:
    for block in BLOCKS:
        assert block.mark in ("", "output varies", "slow", "not run", "file"), f"{block.place}: {block.mark}"
        assert bool(block.detail) == (block.mark in ("slow", "not run", "file")), f"{block.place}: why?"
        assert block.mark == "file" or block.language in ("console", "python", "pycon"), block.place
        assert (block.language == "console") == block.text.startswith("$ "), block.place
        if block.language == "python":
            compile(block.text, block.place, "exec")


def test_every_command_and_option_exists() -> None:
    typed = [(block.place, command.text) for block in CONSOLE for command in commands_in(block.text)]
    typed += [(page.name, span) for page, span in SPANS]
    for place, text in typed:
        if text.startswith("lorabench "):
            check_words(place, text)
    options = {option for command in COMMANDS.values() for option in options_of(command)}
    for page, span in SPANS:
        if span.startswith("--"):
            assert set(re.findall(r"--[a-z][\w-]*", span)) <= options, f"{page.name}: {span}"


def check_words(place: str, typed: str) -> None:
    words = shlex.split(typed.replace("\\\n", " "), comments=True)[1:]
    words = words[: words.index("--")] if "--" in words else words
    if words[0].startswith("-"):
        assert words in (["--help"], ["--version"]), f"{place}: {typed}"
        return
    assert words[0] in COMMANDS, f"{place}: {typed}"
    options = options_of(COMMANDS[words[0]])
    for word in words[1:]:
        assert not re.match(r"--?[a-z]", word) or word.partition("=")[0] in options, f"{place}: {word} in {typed}"


def options_of(command: Any) -> set[str]:
    return {"--help"} | {name for option in command.params for name in (*option.opts, *option.secondary_opts)}


def test_every_view_that_is_named_exists() -> None:
    typed = [(block.place, command.text) for block in CONSOLE for command in commands_in(block.text)]
    typed += [(page.name, span) for page, span in SPANS if span.startswith(("lorabench ", "from ", "--report "))]
    for place, text in typed:
        for name in re.findall(r"\b(?:from|join|--report) ([a-z]\w*)", text):
            assert name in TABLES, f"{place}: {text}"


def test_every_public_view_is_named_on_a_page() -> None:
    named = {name for _, span in SPANS for name in re.findall(r"\w+", span)}
    assert {view.name for view in sql.public()} <= named


def test_links_lead_to_files_and_headings_that_exist() -> None:
    for page, prose in PROSE.items():
        for target in re.findall(r"\]\(([^)\s]+)\)", prose):
            path, _, heading = target.partition("#")
            there = page.parent / path if path else page
            assert there.exists(), f"{page.name}: {target}"
            assert not heading or heading in headings(there), f"{page.name}: {target}"


def headings(page: Path) -> set[str]:
    """The headings as GitHub spells them in links."""
    texts = re.findall(r"^#+ (.+)$", PROSE.get(page) or page.read_text("utf-8"), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in texts}


def test_the_readme_links_to_every_page_and_every_page_back() -> None:
    for page in PAGES[1:]:
        assert f"](docs/{page.name})" in PROSE[PAGES[0]], page.name
        assert "](../README.md)" in PROSE[page], page.name


def test_every_exit_code_is_explained() -> None:
    codes = [kind.exit_code for kind in vars(errors).values() if hasattr(kind, "exit_code")]
    rows = re.findall(r"^\| (\d+) \| [^|]+ \|$", PROSE[ROOT / "docs" / "robustness.md"], flags=re.M)
    assert {int(row) for row in rows} == {0} | set(codes)
