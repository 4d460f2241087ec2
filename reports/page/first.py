"""What to do first: of each rule all its places, as the answer in the terminal has it, and every place below."""

from dataclasses import dataclass, field

from ..answer import answer
from ..tables.units import said_ns
from .section import Section, Source, section

_FIRST_CNT = 3
_OF_MEMORY = "memory: "


@dataclass(frozen=True)
class First:
    """The changes worth most, and a table of all that rules found."""

    changes: list[dict[str, str]] = field(default_factory=list)
    every: Section | None = None

    @property
    def memory_cnt(self) -> int:
        """How many of the changes are about memory."""
        return sum(change["rule"].startswith(_OF_MEMORY) for change in self.changes)


def first(source: Source) -> First:
    """Of an input what saves most, and all that its rules found, where that is more."""
    changes = _changes(source)
    rows = source.rows(
        "select severity, replace(rule, '_', ' ') as rule, place, saving_ns, saving_frac, evidence, advice "
        "from finding where source_id = {id}"
    )
    every = None
    if len(rows) > len(changes):
        every = section("findings", "Everything that rules found", "", "finding", rows, keys={"place": "range"})
    return First(changes, every)


def _changes(source: Source) -> list[dict[str, str]]:
    windows = source.rows(answer.MEAN_WINDOW)
    window_ns = windows[0]["window_ns"] if windows else None
    rows = source.rows(answer.FINDINGS)
    rows = (answer.worth(rows, window_ns) if window_ns else rows)[:_FIRST_CNT]
    memory = source.rows(f"from memory_finding where source_id in {source.of_rank}")
    memory = answer.memory_worth(memory, is_asked=True, is_alone=not rows)[:_FIRST_CNT]
    found = [
        {"rule": row["rule"].replace("_", " "), "severity": row["severity"],
         "cost": _saving(row, window_ns), "place": "".join(answer.where(row)),
         "evidence": answer.part(row, window_ns) + row["evidence"], "advice": row["advice"].rstrip(".") + "."}
        for row in rows
    ]  # fmt: skip
    return found + [
        {"rule": f"{_OF_MEMORY}{row['rule'].replace('_', ' ')}", "severity": row["severity"],
         "cost": f"{row['cost_bytes'] / 2**20:,.1f} MiB", "place": row["device"], "evidence": row["evidence"],
         "advice": row["advice"].rstrip(".") + "."}
        for row in memory
    ]  # fmt: skip


def _saving(row: answer.Row, window_ns: int | None) -> str:
    if row["saving_ns"] is None:
        return "what it would save is not known"
    share = f" of {said_ns(window_ns)}, {row['saving_ns'] / window_ns:.1%}" if window_ns else ""
    return " ".join(["saves", *filter(None, [answer.bound(row)]), f"{said_ns(row['saving_ns'])}{share}"])
