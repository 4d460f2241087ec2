"""Texts that are cut to the places of a terminal."""

from hypothesis import example, given
from hypothesis import strategies as st
from lorabench.reports.tables.units import keep_begin, keep_end
from rich.cells import cell_len

_TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "M")), max_size=60)


@given(_TEXTS, st.integers(-5, 70))
@example(" 0⺀", 3)  # blank at its begin, which is kept
def test_a_text_is_cut_to_its_places_whatever_they_are(text: str, places: int) -> None:
    begin, end = keep_begin(text, places), keep_end(text, places)
    assert max(cell_len(begin), cell_len(end)) <= max(places, 0)
    if cell_len(text) <= places:
        assert begin == end == text
    else:
        assert text.startswith(begin.removesuffix("…")) and text.endswith(end.removeprefix("…"))
