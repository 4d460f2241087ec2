"""The recipes of ARCHITECTURE.md name every file that quotes a word of theirs."""

import re
from pathlib import Path

import pytest
from conftest import ROOT
from lorabench.collect.settings import methods, parallelism

ROOMS = ("analyze", "collect", "reports", "sql")
# Words that mean other things as well are looked for beside the name of the setting.
RECIPES = {
    "a reader": r"""['"](?:nsys|kineto|snapshot)['"]|\bSOURCE_(?:NSYS|KINETO|SNAPSHOT)\b""",
    "a method of training": r"""['"]qlora['"]|\bmethod(?:['"]\]?)?\)? *(?:==|!=|=|<>|:) *['"](?:lora|qlora|full)['"]""",
    "a kind of parallelism": r"""['"](?:ddp|fsdp|tp|pp|lorapp)['"]""",
}
# Of a reader: a program, a pass and a section are called so as well; readers and macros are what the recipe makes.
OTHER = {
    "a reader": re.compile(
        r"nsys.py|collect/|reports/page/work_sections.py|reports/(run|sweeps|answer)/|analyze/read/|sql/(1_staging|2_macros)/"
    )
}


def recipe(name: str) -> str:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    how = text.partition("## How to add")[2].partition("\n## ")[0]
    (found,) = (bullet for bullet in how.split("\n- ") if bullet.startswith(f"**{name}**"))
    return found


def files_with(pattern: str) -> set[str]:
    inside = [path for room in ROOMS for path in (ROOT / room).rglob("*") if path.suffix in (".py", ".sql", ".csv")]
    word = re.compile(pattern)
    return {
        str(path.relative_to(ROOT))
        for path in [*inside, *ROOT.glob("*.py")]
        if word.search(path.read_text("utf-8"))
    }  # fmt: skip


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_names_every_file_that_quotes_the_word(name: str) -> None:
    other = OTHER.get(name)
    found = {path for path in files_with(RECIPES[name]) if other is None or not other.match(path)}
    named = set(re.findall(r"`([\w/]+\.(?:py|sql))`", recipe(name)))
    assert found - named == set(), "the recipe lacks them"
    assert {path for path in named if "/" in path and not (ROOT / path).is_file()} == set(), "the recipe invents them"


def test_the_patterns_know_every_word() -> None:
    assert set(parallelism.KINDS) == set(re.findall(r"\w+", RECIPES["a kind of parallelism"].partition("(?:")[2]))
    assert set(methods.METHODS) == {"lora", "qlora", "full"}
    named = re.findall(r"SOURCE_\w+", Path(ROOT / "vocabulary.py").read_text("utf-8"))
    assert set(named) == {"SOURCE_NSYS", "SOURCE_KINETO", "SOURCE_SNAPSHOT"}


@pytest.mark.parametrize("name", ["a method of training", "a kind of parallelism"])
def test_what_a_recipe_names_knows_such_words(name: str) -> None:
    """A file that is named and has none of them is a leftover."""
    words = {
        "a method of training": r"(?i)\bmethod|\bqlora\b|has_adapters|full fine",
        "a kind of parallelism": r"\b(?:ddp|fsdp|pp|parallel)\b",
    }[name]
    for path in re.findall(r"`([\w/-]+/[\w-]+\.(?:py|sql|md))`", recipe(name)):
        assert re.search(words, (ROOT / path).read_text("utf-8")), path
