"""An improvement as tables, text and a page."""
