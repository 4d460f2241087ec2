"""Texts that are cut to the places of a terminal."""

from hypothesis import given
from hypothesis import strategies as st
from lorabench.reports.tables.units import keep_begin, keep_end
from rich.cells import cell_len

_TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "M")), max_size=60)


@given(_TEXTS, st.integers(-5, 70))
def test_a_text_is_cut_to_its_places_whatever_they_are(text: str, places: int) -> None:
    for cut, is_part in ((keep_begin, str.startswith), (keep_end, str.endswith)):
        kept = cut(text, places)
        assert cell_len(kept) <= max(places, 0)
        assert kept == text if cell_len(text) <= places else is_part(text, kept.strip("…").strip())
