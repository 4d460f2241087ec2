"""Staged rows of one source in, the tables of sql/0_tables out."""
