"""Sentences as a page shows them: with the units of its pictures, arrows whole, and names as they are."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import markupsafe

# What the terminal writes as 'us' and '97.1%'; not within a word, a path or an escape such as %20.
_UNITS = r"(?<![\w.,/%])(?P<number>[+-]?\d[\d,.]*)(?P<unit>%| us)(?![\w/%])"
_MADE = {"%": " %", " us": " µs"}
HAS_UNIT = r"\d(%| us)"  # of names: those in which something would be changed
SENTENCES = ("evidence", "advice", "reason")  # columns of tables that have sentences
_ARROW = markupsafe.Markup('<span class="arrow">-&gt;</span>')  # a line may end before or behind it


def plain(text: str, names: Sequence[str] = ()) -> str:
    """A sentence with the page's units; these names in it stay as they are."""
    kept = "|".join(re.escape(name) for name in sorted(filter(None, names), key=len, reverse=True))
    return re.sub(f"(?P<kept>{kept})|{_UNITS}" if kept else _UNITS, _changed, text)


def _changed(found: re.Match[str]) -> str:
    if found["unit"] is None:
        return found[0]
    return f"{found['number']}{_MADE[found['unit']]}"


def filters(names: Sequence[str]) -> dict[str, Callable[[Any], Any]]:
    """What a template makes of texts: `plain`, `said` with markup, and `sentence` with a capital, but of a name."""

    def said(text: str) -> markupsafe.Markup:
        return markupsafe.Markup(str(markupsafe.escape(plain(text, names))).replace("-&gt;", str(_ARROW)))

    def sentence(line: str) -> markupsafe.Markup:
        is_name = any(line.startswith(f"{name}:") for name in names)
        return said(line if is_name else line[:1].upper() + line[1:])

    return {"plain": lambda text: plain(text, names), "said": said, "sentence": sentence}
