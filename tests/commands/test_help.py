"""Every command's help: it fits into a terminal, and what it shows is what to type, not how it is made."""

import os
import re
import subprocess
import sys

import pytest
from lorabench import cli

WIDTH = 80


def _commands() -> list[tuple[str, ...]]:
    app = cli.whole()
    found: list[tuple[str, ...]] = [()]
    found += [(one.name or one.callback.__name__.rstrip("_").replace("_", "-"),) for one in app.registered_commands]
    for group in app.registered_groups:
        name = group.typer_instance.info.name
        found += [(name,), *((name, one.name) for one in group.typer_instance.registered_commands)]
    return found


@pytest.fixture(scope="module")
def helps() -> dict[str, str]:
    def said(words: tuple[str, ...]) -> str:
        command = [sys.executable, "-m", "lorabench", *words, "--help"]
        environment = {**os.environ, "COLUMNS": str(WIDTH)}
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout

    return {" ".join(words): said(words) for words in _commands()}


def test_every_line_fits_into_a_terminal(helps: dict[str, str]) -> None:
    assert {"", "collect", "compare", "what-if", "baseline save"} <= helps.keys()
    wide = [(name, line) for name, text in helps.items() for line in text.splitlines() if len(line) > WIDTH]
    assert not wide


def test_no_help_names_a_python_type(helps: dict[str, str]) -> None:
    kinds = re.compile(r"<|\b(?:list|dict|tuple)\[|\bNone\b|\b(?:Path|str|int|float|bool)\b")
    leaks = [(name, line) for name, text in helps.items() for line in text.splitlines() if kinds.search(line)]
    assert not leaks


def test_defaults_are_shown_in_one_way(helps: dict[str, str]) -> None:
    """In brackets stands what an option is when it is not given, that it is required, or the least it may be."""
    for name, text in helps.items():
        flat = " ".join(text.partition("Examples:")[0].split())
        for inside in re.findall(r"(?<=[.,;)\w] )\[([^]]*)\]", flat.partition("Options:")[2]):
            assert re.match(r"default: |required|at least \d", inside), f"{name}: [{inside}]"


def test_every_setting_says_its_default(helps: dict[str, str]) -> None:
    """But for a saved batch: without it batches are made of the data."""
    options = re.split(r"\n(?=  -)", helps["collect"].partition("Adapters:\n")[2].partition("  Examples:")[0])
    assert len(options) > 50
    assert [text.split()[0] for text in options if "[default: " not in " ".join(text.split())] == ["--batch"]
