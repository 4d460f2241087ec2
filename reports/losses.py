"""What must be said of inputs that are not whole: what was lost while reading, what they lack, which cannot be read."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

from ..console import tell, tell_sentence
from ..errors import InputError
from ..vocabulary import WHOLE_FILE

_MOST_LINES, _MOST_NAMES = 20, 3  # of what was lost, and of inputs in a line


def tell_notes(database: Any) -> None:
    """Say on stderr what a person should know of a database before its rows, as that it is not up to date."""
    for note in database.notes:
        tell(note)


def tell_losses(database: Any) -> None:
    """Say on stderr what was lost while reading, and what the inputs lack: what is true of many in one line."""
    tell_notes(database)
    facts = database.rows(
        """select list(source.name order by source_id) as names, section, item, value, coalesce(note, '')
        from _loss join source using (source_id)
        group by section, item, value, note order by min(source_id), section, item"""
    )
    lines: dict[tuple[Any, ...], tuple[list[str], list[str]]] = {}
    for names, section, item, value, note in facts:
        is_alone = section == "lost"  # a number of one thing
        items, notes = lines.setdefault((tuple(names), section, value, is_alone and item), ([], []))
        items.append(item)
        notes += [note] if note else []
    for (names, section, value, _), (items, notes) in islice(lines.items(), _MOST_LINES):
        tell_sentence(
            f"{_some(names)}: {section}: {', '.join(items)}: {value}" + (f" ({'; '.join(notes)})" if notes else "")
        )
    if len(lines) > _MOST_LINES:
        tell(f"and {len(lines) - _MOST_LINES} lines more; all: --report trace_info")


def _some(names: Sequence[str]) -> str:
    """The names of sources; of many the first ones."""
    if len(names) == 1:
        return names[0]
    return f"{len(names)} inputs ({_listed(names)})"


def _listed(names: Sequence[str]) -> str:
    return ", ".join([*names[:_MOST_NAMES], *(["…"] if len(names) > _MOST_NAMES else [])])


def require_all(database: Any) -> None:
    """Raise InputError when an input could not be read: what was written holds the others alone."""
    if said := lost(database):
        raise InputError(f"{said}; the reports hold the rest")


def lost(database: Any) -> str:
    """Which inputs could not be read; "" where all could."""
    names = [str(n) for (n,) in database.rows(
        "select name from source join source_fact using (source_id) where section = 'lost' and item = ?", WHOLE_FILE
    )]  # fmt: skip
    if not names:
        return ""
    ((count,),) = database.rows("select count(*) from source")
    return f"{len(names)} of {count} inputs cannot be read ({_listed(names)})"
