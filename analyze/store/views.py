"""All views, those of rules included, and which of them needs which."""

import re
from collections import Counter
from collections.abc import Collection, Iterable
from functools import cache
from graphlib import TopologicalSorter

from ... import sql
from ...sql import literal

_OWN_ADVICE = " as advice"
_ELSEWHERE = "\n\nWithout torch: "
# They join a few columns to each operation, which takes less than to write and read them.
READ_THROUGH = frozenset({"_classed_op"})
_OF_A_RULE = "-- A row is what one rule found.\n"
_FINDING = f"""{_OF_A_RULE}--
-- columns:
--   rule             varchar   the rule, a file of 3_findings
--   source_id        integer   the input
--   place            varchar   where, NULL outside all ranges
--   saving_ns        double    the most that a change can save; NULL where nobody knows
--   occurrence_cnt   bigint    how often
--   evidence         varchar   what shows it
--   advice           varchar   what to do
"""
# The views of all rows of the rules of a folder, and their headers.
RULES = {
    "_finding": (sql.FINDINGS, _FINDING),
    "_memory_finding": (sql.MEMORY_FINDINGS, _OF_A_RULE),
    "_validation": (sql.VALIDATIONS, _OF_A_RULE),
}


def in_order(names: Collection[str]) -> list[sql.SqlFile]:
    """These views and functions, each after those that it needs; of the same names always in the same order.

    What one needs through another that is not among the names does not count.
    """
    graph = {name: sorted(_needs(name).intersection(names)) for name in sorted(known().keys() & names)}
    return [known()[name] for name in TopologicalSorter(graph).static_order()]


def reached(asked: Collection[str], given: Collection[str] = ()) -> set[str]:
    """The views asked for and all that they need; what is `given`, as rows, needs nothing."""
    found, left = set(asked), list(asked)
    while left:
        name = left.pop()
        new = _needs(name) - found if name not in given else set()
        found |= new
        left += new
    return found


def readings(readers: Collection[str]) -> Counter[str]:
    """How often each view is read by some of them, each of which is computed once, but for READ_THROUGH and functions,
    which read again for each that reads or calls them.
    """
    found = sum((readings_of(known()[reader].statement, reader) for reader in readers), Counter[str]())
    for name in READ_THROUGH.intersection(readers) | set(filter(_is_function, readers)):
        for read, times in readings_of(known()[name].statement, name).items():
            found[read] += times * (found[name] - 1)
    return found


def readings_of(statement: str, name: str = "") -> Counter[str]:
    """How often a statement reads or calls each view and function, but for the one that has this name itself."""
    read = re.findall(r"\b(?:from|join)\s+(\w+)", statement)
    called = [word for word in re.findall(r"\b(\w+)\(", statement) if word != name and _is_function(word)]
    return Counter(called) + Counter(word for word in read if word in known())


def _is_function(name: str) -> bool:
    return name in known() and known()[name].folder == sql.MACROS


def read_by(statement: str, given: Collection[str]) -> set[str]:
    """The words of a statement and of the views that it reads, directly or through others: tables and views are among
    them. What is `given`, as rows, reads nothing.
    """
    words = set(_words_of(statement))
    for view in reached(words & known().keys(), given) - set(given):
        words |= _words_of(known()[view].statement)
    return words


@cache
def known() -> dict[str, sql.SqlFile]:
    """All views and the functions that they share by name."""
    folders = (sql.DEFINITIONS, sql.MODEL, sql.REPORTS, sql.SHOWN, sql.COMPARED, sql.CHECKS, sql.LAWS)
    found = {view.name: view for folder in folders for view in sql.in_folder(folder)}
    found |= {
        view: sql.SqlFile(sql.MODEL, view, header + _of_rules(rules_of(view))) for view, (_, header) in RULES.items()
    }
    return found | {macro.name: macro for macro in sql.in_folder(sql.MACROS)}


def read_while_filled() -> set[str]:
    """Of all these the ones that fill tables, or that statements of readers read."""
    words = frozenset[str]().union(*(_words_of(file.statement) for file in sql.in_folder(sql.STAGING)))
    definitions = {file.name for file in sql.in_folder(sql.DEFINITIONS)}
    macros = {file.name for file in sql.in_folder(sql.MACROS)}
    return reached((words & known().keys()) | definitions | macros)


@cache
def _needs(name: str) -> frozenset[str]:
    """Which of these a view or function needs."""
    return _words_of(known()[name].statement) & known().keys() - {name}


@cache
def _words_of(statement: str) -> frozenset[str]:
    """The words of a statement outside of texts and comments, and the names that a table function is given as texts."""
    given = re.findall(r"(?<=\w)\('(\w+)'\)", statement)
    return frozenset((*re.findall(r"\w+", re.sub(r"'(?:[^']|'')*'|--[^\n]*", "''", statement)), *given))


def of_rule(rule: sql.SqlFile) -> str:
    """A statement of the rows of a rule, each with the rule's name and advice, unless a row has its own."""
    advice, _, elsewhere = (literal(text) for text in rule.method.partition(_ELSEWHERE))
    if elsewhere != literal(""):
        advice = f"if(has_torch(source_id), {advice}, {elsewhere})"
    own = f"* replace (coalesce(advice, {advice}) as advice)"
    columns = own if _OWN_ADVICE in rule.statement else f"{advice} as advice, *"
    return f"select {literal(rule.name)} as rule, {columns} from ({rule.statement})"


def rules_of(view: str) -> tuple[sql.SqlFile, ...]:
    """The rules whose rows are those of one of RULES."""
    return sql.in_folder(RULES[view][0])


def of_chosen_rules(view: str, chosen: Collection[str]) -> str:
    """A statement of the rows of the rules of these names, in the types that the view's columns have."""
    columns = ", ".join(f"{c.name}::{c.sql_type} as {c.name}" for c in known()[view].columns)
    return f"select {columns} from ({_of_rules(rule for rule in rules_of(view) if rule.name in chosen)})"


def _of_rules(rules: Iterable[sql.SqlFile]) -> str:
    return " union all by name ".join(map(of_rule, rules))
